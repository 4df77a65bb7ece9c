"""Extract: features of one shard, or of the recordings of one speaker. A file is decoded once for all extractors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from pipeline import audio
from pipeline.contracts import ComponentSettings, Extractor, Feature
from pipeline.engine.task import Artefact, Name, Work
from pipeline.nets import memory
from pipeline.protocol.cuts import Cut, Recording, Want, Whole, describe_want
from pipeline.protocol.shards import group_runs
from pipeline.stages.component_cache import loaded
from pipeline.tables import manifest, records, vectors

VERSION = "extraction 2"
FEATURES = "features.parquet"

# Seconds of audio that are decoded and handed to the extractors at once. Much on a GPU, where the steps of pYIN's path are
# shared by all files of a chunk; 1,800 s at 16 kHz are 115 MB, and the next chunk is held beside it.
CHUNK_SECONDS = {"cpu": 300.0, "cuda": 1800.0}
# Beside a longer file nothing is decoded ahead, so that several files of hours need no more memory than one.
AHEAD_SECONDS = 1800.0


class File(NamedTuple):
    """An audio file, and the sha256 of the bytes that it is to hold."""

    path: Path
    sha256: str


@dataclass(frozen=True)
class ExtractorSpec:
    """How to build an extractor: its class, its settings, and the folder of its weights unless a train task makes them."""

    extractor: type[Extractor]
    settings: ComponentSettings
    weights: Path | None
    trained: bool


def extract_features(specs: Mapping[Name, ExtractorSpec], cut: Cut, device: str, threads: int, work: Work) -> None:
    """Write ``features.parquet`` for each missing extractor.

    Where recordings stand for themselves, rows are keyed by the digest of the audio, in order, so the same file in two sets is
    extracted once.

    The record says how many files begin or end with digital silence, where they are taken whole.

    Raises:
        Changed: a file is not what its row says.
        FloatingPointError: an extractor gave a vector that is not finite.
    """
    rows = manifest.rows_of(work.input("audio"))
    if not cut.joins:
        rows = rows.drop_duplicates("sha256").sort_values("sha256", kind="stable")
    extractors = {name: load(specs[name], work, name, device, threads) for name in work.missing}
    wants = [describe_want(extractor) for extractor in extractors.values()]
    features: dict[Name, list[Feature]] = {name: [] for name in extractors}
    silence: list[float] = []
    for chunk in decoded(chunks(rows, cut, device), cut, wants, threads):
        silence += [padded for padded in map(digital_silence, chunk) if padded]
        for name, extractor in extractors.items():
            values = cut.features(extractor, chunk)
            if not all(np.isfinite(feature.vector).all() for feature in values):
                raise FloatingPointError(f"the extractor {name} returned a vector that is not finite")
            features[name] += values
            # What one extractor needed for a long file is not held while the next one works.
            memory.release_free_memory()
        work.advance(sum(len(recording.wave) / recording.rate for recording in chunk))
    for name, values in features.items():
        vectors.write(work.folder(name) / FEATURES, cut.names(rows), values)
        if isinstance(cut, Whole):
            work.note(name, **{records.SILENCE: {"files": len(rows), "milliseconds": sorted(silence)}})


def digital_silence(recording: Recording) -> float:
    """Milliseconds of exact zeros at both ends of a recording together; 0 where neither end has enough of them to count."""
    ends = audio.count_zeros_at_ends(recording.wave)
    padded = [1000 * samples / recording.rate for samples in ends]
    return round(sum(padded), 3) if max(padded) >= audio.DIGITAL_SILENCE_MS else 0.0


def load(spec: ExtractorSpec, work: Work, name: Name, device: str, threads: int) -> Extractor:
    """The extractor of an output."""
    trained: Artefact | None = work.input("weights", name) if spec.trained else None
    folder = trained.folder if trained is not None else spec.weights
    content = trained.digest if trained is not None else ""
    return loaded(spec.extractor, spec.settings, folder, device, threads, content=content)


def chunks(rows: pd.DataFrame, cut: Cut, device: str) -> list[list[File]]:
    """Files of the rows in order: all together where they are joined, else at most :data:`CHUNK_SECONDS` of audio, or one
    longer file."""
    files = [File(Path(path), str(sha)) for path, sha in zip(rows["path"], rows["sha256"])]
    if cut.joins:
        return [files]
    return [
        files[run] for run in group_runs(rows["samples"] / rows["sample_rate"], CHUNK_SECONDS[device.split(":")[0]])
    ]


def decoded(files: Sequence[list[File]], cut: Cut, wants: Iterable[Want], threads: int) -> Iterator[list[Recording]]:
    """Chunks of files, each file decoded once, cut, and prepared once for each way that is wanted; the next chunk is made ready
    while the models work on this one, unless this one is long."""
    ways = list(wants)

    def one(file: File) -> Recording:
        return Recording.of(*audio.load(file.path, file.sha256), cut, ways)

    with ThreadPoolExecutor(threads) as pool:

        def begun(number: int) -> list[Future[Recording]]:
            return [pool.submit(one, file) for file in files[number]]

        ahead = None
        for number in range(len(files)):
            ready = [future.result() for future in ahead or begun(number)]
            seconds = sum(len(recording.wave) / recording.rate for recording in ready)
            more = number + 1 < len(files) and seconds <= AHEAD_SECONDS
            ahead = begun(number + 1) if more else None
            yield ready
