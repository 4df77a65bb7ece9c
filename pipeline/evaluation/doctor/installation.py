"""The project, Python and the packages that it stands on."""

from __future__ import annotations

import platform
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from pipeline.evaluation.doctor.finding import CONFIG, Finding, fault, ok, warning
from pipeline.stages.settings import Evaluation
from pipeline.version import __version__

NAME = "voice-privacy-pipeline"
OF_DEVELOPERS = ("test",)
"""Extras that no run needs."""
PIP = f"{shlex.quote(sys.executable)} -m pip"


def project(asked: Evaluation) -> Iterator[Finding]:
    """Its version, and whether there is only one of it."""
    place = _place()
    yield ok("pipeline", f"{__version__} in {place}")
    elsewhere = [one for one in _places() if one != place]
    if elsewhere:
        yield warning(
            "pipeline",
            f"there is another installation, which is not used: {', '.join(map(str, elsewhere))}",
            f"{PIP} uninstall {NAME}, or start from another folder and unset PYTHONPATH: the first on Python's path is used",
        )
    found = _installed()
    if len(found) > 1:
        where = ", ".join(f"{one.version} in {one.locate_file('')}" for one in found)
        yield warning(
            "pipeline", f"it is installed {len(found)} times: {where}", f"{PIP} uninstall {NAME}, once for each"
        )
    elif found and found[0].version != __version__:
        yield warning(
            "pipeline",
            f"{found[0].version} is installed, and the code that runs is {__version__}: plug-ins and packages are those of the "
            "installed one",
            _install(),
        )


def python(asked: Evaluation) -> Iterator[Finding]:
    """Its version against the range that the project is for."""
    from packaging.specifiers import SpecifierSet

    wanted, version = _declared()[1], platform.python_version()
    told = f"{version} ({wanted}), {sys.executable}"
    if SpecifierSet(wanted).contains(version, prereleases=True):
        yield ok("python", told)
    else:
        yield fault(
            "python", f"{told}: it is outside the range", "install the project with a Python of this range", CONFIG
        )


def packages(asked: Evaluation) -> Iterator[Finding]:
    """The packages that the project needs against the ranges that it is for."""
    found, wrong = _held_against("")
    if found:
        yield ok("packages", ", ".join(found))
    for requirement, said in wrong:
        yield fault(
            "packages", f"{requirement} is needed, and {said}", f"{PIP} install {shlex.quote(requirement)}", CONFIG
        )


def extras(asked: Evaluation) -> Iterator[Finding]:
    """What is needed only for what each extra is called after."""
    for extra in _extras():
        found, wrong = _held_against(extra)
        install = install_of(extra)
        if not wrong:
            yield ok("extras", f"{extra}: {', '.join(found) or 'needs nothing more'}")
        elif all(said == _MISSING for _, said in wrong):
            yield ok("extras", f"{extra}: not installed; where it is needed: {install}")
        else:
            said = "; ".join(f"{requirement} is needed, and {said}" for requirement, said in wrong)
            yield warning("extras", f"{extra}: {said}", install)


def _extras() -> list[str]:
    from packaging.requirements import Requirement

    markers = (str(Requirement(text).marker or "") for text in _declared()[0])
    found = {name for marker in markers for name in re.findall(r"extra == ['\"]([^'\"]+)['\"]", marker)}
    return sorted(found - {*OF_DEVELOPERS})


def install_of(extra: str) -> str:
    """The command that brings what an extra lacks."""
    return f"{PIP} install {shlex.join(requirement for requirement, _ in _held_against(extra)[1])}"


_MISSING = "it is not installed"


def _held_against(extra: str) -> tuple[list[str], list[tuple[str, str]]]:
    """The packages of an extra ('' for what is always needed) that are as they should be, and (requirement, what is wrong) of the
    others."""
    from packaging.requirements import Requirement

    found, wrong = [], []
    for text in _declared()[0]:
        one = Requirement(text)
        of_extra = one.marker is not None and "extra" in str(one.marker)
        if of_extra != bool(extra) or (one.marker is not None and not one.marker.evaluate({"extra": extra})):
            continue
        plain = f"{one.name}{one.specifier}"
        try:
            version = metadata.version(one.name)
        except metadata.PackageNotFoundError:
            wrong.append((plain, _MISSING))
            continue
        if one.specifier.contains(version, prereleases=True):
            found.append(f"{one.name} {version}")
        else:
            wrong.append((plain, f"{version} is installed"))
    return found, wrong


def _declared() -> tuple[list[str], str]:
    """What the code that runs requires, and the range of Python: of a clone by its own file, else as it was installed."""
    file = _place().parent / "pyproject.toml"
    if file.is_file():
        said = tomllib.loads(file.read_text(encoding="utf-8")).get("project", {})
        if said.get("name") == NAME:
            optional = [
                f"{requirement}; extra == '{extra}'"
                for extra, requirements in said.get("optional-dependencies", {}).items()
                for requirement in requirements
            ]
            return [*said.get("dependencies", []), *optional], str(said.get("requires-python", ""))
    held = metadata.distribution(NAME)
    return list(held.requires or []), str(held.metadata["Requires-Python"] or "")


def _place() -> Path:
    """The folder of the package that runs."""
    return Path(__file__).resolve().parents[2]


def _places() -> list[Path]:
    """The folders on Python's path that hold the project."""
    found = [Path(entry or ".") / "pipeline" for entry in sys.path]
    return list(dict.fromkeys(one.resolve() for one in found if (one / "cli" / "verbs.py").is_file()))


def _installed() -> list[metadata.Distribution]:
    """The installations that Python knows, each once."""
    by_place = {}
    for one in metadata.distributions(name=NAME):
        if re.sub(r"[-_.]+", "-", one.metadata["Name"] or "").lower() == NAME:
            by_place[str(Path(str(one.locate_file(""))).resolve())] = one
    return list(by_place.values())


def _install() -> str:
    clone = _place().parent
    return (
        f"make -C {shlex.quote(str(clone))} install" if (clone / "Makefile").is_file() else f"{PIP} install -U {NAME}"
    )
