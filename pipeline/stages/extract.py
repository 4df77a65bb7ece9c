"""Extract one shard: each file is decoded once and feeds all extractors that miss it."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipeline import audio
from pipeline.engine.task import Artefact, Work
from pipeline.nets import memory
from pipeline.nets.feature import Feature
from pipeline.registry import component
from pipeline.stages.audio_rows import FEATURES, manifest, runs
from pipeline.tables import vectors

VERSION = 1

# Seconds of audio that are decoded and handed to the extractors at once. Much on a GPU, where the steps of pYIN's path are
# shared by all files of a chunk; 1,800 s at 16 kHz are 115 MB, and the next chunk is held beside it.
CHUNK_SECONDS = {"cpu": 300.0, "cuda": 1800.0}
# Beside a longer file nothing is decoded ahead, so that several files of hours need no more memory than one.
AHEAD_SECONDS = 1800.0


@dataclass(frozen=True)
class Recipe:
    """How to build an extractor: settings, and the folder of its weights unless a train task makes them."""

    settings: Any
    weights: Path | None
    trained: bool


@functools.lru_cache(maxsize=8)
def build(settings: Any, weights: Path | None, device: str, threads: int) -> Any:
    """The extractor; kept between shards, because loading a model costs more than a short file."""
    return component("extractors", settings.name).Extractor(settings, weights, device, threads)


def extractors(recipes: Mapping[str, Recipe], work: Work, device: str, threads: int) -> dict[str, Any]:
    """The extractors of the missing outputs."""
    made = {}
    for label in work.missing:
        recipe = recipes[label]
        folder = work.input("weights", label).folder if recipe.trained else recipe.weights
        made[label] = build(recipe.settings, folder, device, threads)
    return made


def run(recipes: Mapping[str, Recipe], device: str, threads: int, work: Work) -> None:
    """Write ``features.parquet`` for each missing extractor; rows are the distinct audio digests of the shard, in order.

    Rows are keyed by the digest of the audio, so the same file in two sets is extracted once.
    """
    source = work.input("audio")
    rows = manifest([source], None) if isinstance(source, Artefact) else source
    rows = rows.drop_duplicates("sha256").sort_values("sha256", kind="stable")
    chosen = extractors(recipes, work, device, threads)
    features: dict[str, list[Feature]] = {label: [] for label in chosen}
    rates = {extractor.sample_rate for extractor in chosen.values()}
    for chunk in heard(chunks(rows, device), rates, threads):
        for label, several in through(chosen, chunk.at_rate).items():
            features[label].extend(several)
        work.advance(chunk.seconds)
    for label, several in features.items():
        vectors.write(work.folder(label) / FEATURES, list(rows["sha256"]), several)


def through(chosen: Mapping[str, Any], at_rate: Mapping[int, Sequence[np.ndarray]]) -> dict[str, list[Feature]]:
    """The features of a chunk of waveforms by each extractor.

    Raises:
        FloatingPointError: an extractor gave a vector that is not finite.
    """
    made = {}
    for label, extractor in chosen.items():
        made[label] = extractor.extract(at_rate[extractor.sample_rate])
        # What one extractor needed for a long file is not held while the next one works.
        memory.give_back()
    check(made)
    return made


def check(made: Mapping[str, Sequence[Feature]]) -> None:
    """Refuse vectors that are not finite: no number may stand on them."""
    for label, several in made.items():
        if not all(np.isfinite(feature.vector).all() for feature in several):
            raise FloatingPointError(f"the extractor {label} returned a vector that is not finite")


def chunks(rows: pd.DataFrame, device: str) -> list[list[Path]]:
    """Paths of the rows in order, cut so that a chunk holds :data:`CHUNK_SECONDS` of audio at most, or one longer file."""
    paths = [Path(path) for path in rows["path"]]
    return [paths[run] for run in runs(rows["samples"] / rows["sample_rate"], CHUNK_SECONDS[device.split(":")[0]])]


@dataclass(frozen=True)
class Heard:
    """A chunk of files, each decoded once: waveforms by sampling rate in Hz, and their length in seconds together."""

    at_rate: dict[int, list[np.ndarray]]
    seconds: float


def heard(paths: Sequence[list[Path]], rates: Collection[int], threads: int) -> Iterator[Heard]:
    """Decoded chunks; the next one is decoded and resampled while the models work on this one, unless this one is long."""

    def one(path: Path) -> tuple[dict[int, np.ndarray], float]:
        wave, own = audio.load(path)
        return {rate: audio.resample(wave, own, rate) for rate in rates}, len(wave) / own

    with ThreadPoolExecutor(threads) as pool:

        def begun(number: int) -> list[Future[tuple[dict[int, np.ndarray], float]]]:
            return [pool.submit(one, path) for path in paths[number]]

        ahead = None
        for number in range(len(paths)):
            ready = [future.result() for future in ahead or begun(number)]
            seconds = sum(length for _, length in ready)
            more = number + 1 < len(paths) and seconds <= AHEAD_SECONDS
            ahead = begun(number + 1) if more else None
            yield Heard({rate: [waves[rate] for waves, _ in ready] for rate in rates}, seconds)
