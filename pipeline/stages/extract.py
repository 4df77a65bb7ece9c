"""Extract one shard: each file is decoded once and feeds all extractors that miss it."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipeline import audio
from pipeline.data import vectors
from pipeline.engine.task import Artefact, Work
from pipeline.models.feature import Feature
from pipeline.registry import component
from pipeline.stages.audio_rows import FEATURES, manifest

VERSION = 1
CHUNK = 16


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
    for waves in _decoded(rows, threads):
        for label, several in through(chosen, waves).items():
            features[label].extend(several)
        work.advance(sum(len(wave) / rate for wave, rate in waves))
    for label, several in features.items():
        vectors.write(work.folder(label) / FEATURES, list(rows["sha256"]), several)


def through(chosen: Mapping[str, Any], waves: Sequence[tuple[np.ndarray, int]]) -> dict[str, list[Feature]]:
    """The features of a chunk of waveforms by each extractor; each sampling rate is made once."""
    at_rate: dict[int, list[np.ndarray]] = {}
    made = {}
    for label, extractor in chosen.items():
        rate = extractor.sample_rate
        if rate not in at_rate:
            at_rate[rate] = [audio.resample(wave, own, rate) for wave, own in waves]
        made[label] = extractor.extract(at_rate[rate])
        for feature in made[label]:
            if not np.isfinite(feature.vector).all():
                raise FloatingPointError(f"the extractor {label} returned a vector that is not finite")
    return made


def _decoded(rows: pd.DataFrame, threads: int) -> Iterator[list[tuple[np.ndarray, int]]]:
    """Chunks of decoded files; the next chunk is decoded while the models work on this one."""
    paths = [Path(path) for path in rows["path"]]
    chunks = [paths[start : start + CHUNK] for start in range(0, len(paths), CHUNK)]
    with ThreadPoolExecutor(1) as pool:
        ahead: Future[list[tuple[np.ndarray, int]]] | None = None
        for number in range(len(chunks)):
            ready = (ahead or pool.submit(_load, chunks[number])).result()
            ahead = pool.submit(_load, chunks[number + 1]) if number + 1 < len(chunks) else None
            yield ready


def _load(paths: Sequence[Path]) -> list[tuple[np.ndarray, int]]:
    return [audio.load(path) for path in paths]
