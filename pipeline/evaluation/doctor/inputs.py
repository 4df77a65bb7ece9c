"""What a run reads: weights by their checksums, and the folders of data. No audio is read."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipeline.datasets import kaldi_folders
from pipeline.datasets.settings import DatasetSettings
from pipeline.errors import ModelMissing, PipelineError
from pipeline.evaluation import discovery
from pipeline.evaluation.doctor.finding import CONFIG, DATA, Finding, fault, ok, warning
from pipeline.files import NotRegular, open_regular
from pipeline.stages.settings import Chosen, Evaluation

PROGRAMS = ("ffmpeg", "sox", "flac")
MOST = 100_000
"""Entries of a folder that are counted."""


def weights(asked: Evaluation) -> Iterator[Finding]:
    """The weights of each chosen component by their digests; of what is missing, what would be fetched, with size and licence."""
    for lacking in asked.models.lacking:
        what, _, remedy = str(lacking).partition("; ")
        yield fault("weights", what, remedy or "one of what the line names", CONFIG)
    known, unknown = _components(asked)
    for what, chosen in known.items():
        try:
            there = chosen.weights(asked.paths.weights)
            trained = asked.extractors.get(what.removeprefix("extractor ")) is chosen and (
                chosen.component.training(chosen.settings, asked.train) is not None
            )
        except PipelineError as error:
            yield _lacking(what, chosen, error)
            continue
        if there is not None:
            yield ok("weights", f"{what}: {there.folder}, sha256 {there.digest[:12]}")
        elif trained:
            yield ok("weights", f"{what}: trained in the run")
        elif what.startswith("extractor "):
            yield ok("weights", f"{what}: needs no weights")
    # What else lacks of a folder that is there has been named above.
    if unknown and not asked.models.lacking:
        said = "may lie in the folder of the data set, which could not be looked into"
        yield warning("weights", f"{', '.join(unknown)}: {said}", "mend what is said of data, then the same again")


def _components(asked: Evaluation) -> tuple[dict[str, Chosen[Any]], list[str]]:
    """All components with weights, those of attackers who know a system among them; what cannot be told without the data set."""
    adapted = {f"extractor {label} on {system}": one for (label, system), one in asked.models.adapted.items()}
    fitted = {f"backend {label} on {system}": one for (label, system), one in asked.models.backends.items()}
    known: dict[str, Chosen[Any]] = {**asked.components(), **adapted, **fitted}
    trainer = asked.train if asked.dataset.has_training_speech else None
    unknown = [
        *(
            f"extractor {label}"
            for label, one in asked.extractors.items()
            if one.component.asks_for_found(one.settings)
            or one.component.resolved(one.settings, trainer) != one.settings
        ),
        *(f"backend {label}" for label, one in asked.backends.items() if one.component.asks_for_found(one.settings)),
    ]
    return {what: one for what, one in known.items() if what not in unknown}, unknown


def _lacking(what: str, chosen: Chosen[Any], error: PipelineError) -> Finding:
    cause = f"; {error.cause}" if error.cause else ""
    where = f" ({error.where})" if error.where else ""
    said = f"{what}: {error.what}{where}{cause}"
    download = chosen.component.download(chosen.settings)
    if download is not None and isinstance(error, ModelMissing) and "fetch-models" in error.remedy:
        said = f"{said}; to be downloaded: {download}"
    return fault("weights", said, error.remedy.removeprefix("run "), error.status)


def data(asked: Evaluation) -> Iterator[Finding]:
    """The folder of the data set, and all that lies beside it."""
    dataset = asked.dataset
    if dataset.is_rendered:
        yield ok("data", f"{dataset.name}: it is made here")
    elif not dataset.root:
        yield fault("data", f"dataset={dataset.name} has no folder", "dataset.root=DIR", DATA)
    else:
        yield from _root(dataset)
    for setting, place in _beside(asked):
        lacking = _unreadable(Path(place).expanduser())
        if lacking:
            yield fault("data", f"{setting}: {place} {lacking}", f"{setting}=PATH, or mount it here", DATA)
        else:
            yield ok("data", f"{setting}: {place}")


def _root(dataset: DatasetSettings) -> Iterator[Finding]:
    folder = Path(dataset.root).expanduser()
    lacking = _unreadable(folder) or ("" if folder.is_dir() else "is no folder")
    if lacking:
        yield fault("data", f"dataset.root: {folder} {lacking}", "dataset.root=DIR, or mount it here", DATA)
    elif dataset.name == "vpc":
        layout = discovery.layout_of(dataset)
        recognised = layout.recognised or layout.edition
        yield ok("data", f"dataset.root: {folder}, a challenge's folder ({recognised}) with {len(layout.sets)} sets")
    elif dataset.name == "kaldi" and not kaldi_folders.holds_sets(folder):
        remedy = (
            "dataset.root=DIR, the folder of the sets; or say what it is: dataset=folders, librispeech, vpc or scores"
        )
        yield fault("data", f"dataset.root: {folder} holds no Kaldi set (no */wav.scp)", remedy, DATA)
    else:
        yield ok("data", f"dataset.root: {folder} ({dataset.name}), {_held(folder)}")


def _held(folder: Path) -> str:
    """What the top of a folder holds."""
    files = folders = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            folders, files = (folders + 1, files) if entry.is_dir() else (folders, files + 1)
            if folders + files == MOST:
                break
    return f"{folders} folders and {files} files in it"


def _beside(asked: Evaluation) -> Iterator[tuple[str, str]]:
    """Further files and folders that the configuration names, by setting."""
    dataset = asked.dataset
    named = {
        "dataset.audio_root": dataset.audio_root,
        "dataset.originals": dataset.originals,
        "dataset.sexes": dataset.sexes,
        "dataset.trials": dataset.trials,
        "dataset.utt2spk": dataset.utt2spk,
        # Of a challenge's folder it may be the name of a set.
        "dataset.train": dataset.train if dataset.name != "vpc" or "/" in dataset.train else "",
    }
    yield from ((setting, place) for setting, place in named.items() if place)
    for label, system in asked.systems.items():
        copies = system.component.copies(system.settings)
        if copies is not None:
            places = {"root": copies.root, "second_root": copies.second_root, "train_root": copies.train_root}
            yield from ((f"system.{label}.{name}", place) for name, place in places.items() if place)


def _unreadable(path: Path) -> str:
    """Why a file or folder cannot be read; '' if it can."""
    try:
        if path.is_dir():
            with os.scandir(path) as entries:
                next(entries, None)
        else:
            open_regular(path).close()
    except NotRegular as error:
        return str(error.strerror)
    except FileNotFoundError:
        return "is not there"
    except OSError as error:
        return f"cannot be read ({error.strerror or error})"
    return ""


def programs(asked: Evaluation) -> Iterator[Finding]:
    """Programs that messages name where audio has to be converted; a run starts none of them."""
    there = [name for name in PROGRAMS if shutil.which(name)]
    lacking = [name for name in PROGRAMS if name not in there]
    said = f"here: {', '.join(there) or 'none'}" + (f"; not here: {', '.join(lacking)}" if lacking else "")
    yield ok("programs", f"to convert audio by hand (a run and wav.scp need none): {said}")
