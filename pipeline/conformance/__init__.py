"""Whether a component keeps its contract: checks for each kind, which the tests of plug-ins import.

A check is a function that reads :mod:`pipeline.contracts` and says in a sentence what it does not find; the first line of its
docstring says what holds where there is nothing to say. A plug-in's test runs all of its kind, one test a check::

    @conformance.parametrize_with_checks("extractors", "mine")
    def test_contract(check):
        check()

``voice-privacy check-plugin mine`` runs the same without pytest (:func:`examine`), and names what cannot be asked here. Nothing
in this module knows a component.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pipeline import contracts
from pipeline.conformance import work as work  # its checks are on the lists when it is imported
from pipeline.conformance.checks import CHECKS, PARTS, Candidate, Check, Part, get_title
from pipeline.contracts import ComponentSettings, Training
from pipeline.errors import Fault, ModelMissing
from pipeline.registry import Kind, component


@dataclass
class Examination:
    """What came of it.

    Attributes:
        checked: what was asked, in words.
        faults: what is not as the contract says.
        skipped: what could not be asked, and why.
    """

    checked: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)


def examine(
    kind: Kind,
    name: str,
    cls: Any,
    models: Path,
    values: Mapping[str, Any] | None = None,
    folder: Path | None = None,
    imports: bool = True,
) -> Examination:
    """Ask everything of a component that can be asked here.

    Args:
        kind: of component.
        name: under which it is registered.
        cls: what is registered.
        models: the folder of weights, ``paths.models``.
        values: settings beside the name, for fields that have no default.
        folder: weights that a training made; else those that the component finds.
        imports: whether a process of its own sees what importing its module loads.
    """
    examination, candidate = Examination(), Candidate(kind, name, cls)
    if not _ask("base", candidate, examination):
        return examination
    for part in ("class", *(["imports"] if imports else []), "settings"):
        _ask(part, candidate, examination)  # type: ignore[arg-type]
    settings = _make_settings(candidate, values or {}, examination)
    if settings is None:
        return examination
    candidate = replace(candidate, settings=settings)
    _ask("values", candidate, examination)
    if examination.faults:
        examination.skipped.append("what it does: there are faults in what it is")
        return examination
    try:
        weights = cls.weights(settings, models) if folder is None else None
    except ModelMissing as error:
        examination.skipped.append(f"what it does with its weights: {error}")
        return examination
    candidate = replace(candidate, folder=folder if weights is None else weights.folder)
    if reason := _find_reason_to_skip(candidate):
        examination.skipped.append(reason)
    else:
        _ask("work", candidate, examination)
    return examination


def parametrize_with_checks(kind: Kind, name: str, **options: Any) -> Any:
    """Mark a test that takes ``check``, so that pytest runs it once for each check of a registered component.

    Args:
        kind, name, options: as of :func:`examine`; the folder of weights is none by default.
    """
    import pytest

    def run(check: Check) -> None:
        candidate = _make_candidate(kind, name, **{"models": Path("/none"), **options})
        assert not (faults := list(check(candidate))), "; ".join(faults)

    checks = [check for part in PARTS for check in CHECKS[part, kind]]
    return pytest.mark.parametrize(
        "check", [pytest.param(functools.partial(run, check), id=check.__name__) for check in checks]
    )


def _make_candidate(
    kind: Kind, name: str, models: Path, values: Mapping[str, Any] | None = None, folder: Path | None = None
) -> Candidate:
    cls = component(kind, name)
    settings = cls.Settings.model_validate({"name": name, **(values or {})})
    weights = cls.weights(settings, models) if folder is None else None
    return Candidate(kind, name, cls, settings, folder if weights is None else weights.folder)


def _make_settings(candidate: Candidate, values: Mapping[str, Any], examination: Examination) -> Any:
    """Settings with these values; None where there are none."""
    try:
        return candidate.cls.Settings.model_validate({"name": candidate.name, **values})
    except ValidationError as error:
        for entry in error.errors():
            place = ".".join(map(str, entry["loc"]))
            if entry["type"] == "missing":
                examination.skipped.append(f"what takes settings: give {place}")
            else:
                examination.faults.append(Fault(f"settings by default are refused: {entry['msg']}", place))
    return None


def _ask(part: Part, candidate: Candidate, examination: Examination) -> bool:
    """Whether a component passes the checks of a part."""
    before = len(examination.faults)
    for check in CHECKS[part, candidate.kind]:
        examination.checked.append(get_title(check))
        try:
            examination.faults += [Fault(sentence) for sentence in check(candidate)]
        except Exception as error:  # a component under examination may raise anything
            examination.faults.append(
                Fault(f"{type(error).__name__}: {error}", f"when asked whether {get_title(check)}")
            )
    return len(examination.faults) == before


def _find_reason_to_skip(candidate: Candidate) -> str:
    """Why a component does no work of its own that could be looked at; '' if it does."""
    cls, settings = candidate.cls, candidate.settings
    if candidate.kind == "extractors":
        if cls.tables(settings, []) is not None:
            return "extraction: its vectors are read from files"
        if candidate.folder is None and cls.training(settings, Training(_AnyTrainer, None)) is not None:
            return "extraction: its weights are trained in the run; name a folder of them"
    if candidate.kind == "anonymisers" and cls.copies(settings) is not None:
        return "anonymisation: its speech was anonymised elsewhere"
    return ""


class _AnyTrainer(contracts.Trainer):
    """A trainer that says it can train everything; it is only asked for."""

    Settings = ComponentSettings

    @classmethod
    def trains(cls, extractor: type[contracts.Extractor]) -> bool:
        return True

    @classmethod
    def cost(cls, settings: Any) -> float:
        return 0.0

    @classmethod
    def train(cls, *arguments: Any, **options: Any) -> bool:
        return False
