"""SRD inputs: the joined input half of a speaker, cut into uniform segments and extracted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from pipeline import audio
from pipeline.engine.task import Artefact, Given, Work
from pipeline.protocol import halves
from pipeline.stages.audio_rows import FEATURES, content
from pipeline.stages.extract import Recipe, check, extractors, through
from pipeline.tables import vectors
from pipeline.tables.vectors import Vectors

VERSION = 1


def run(recipes: Mapping[str, Recipe], device: str, threads: int, count: int, work: Work) -> None:
    """Write the features of ``count`` segments, ids ``0, 1, ...``, for each missing extractor.

    The utterances are joined in the order of the rows and their audio is cut; files of another sampling rate are brought to
    that of the first. An extractor with a method ``segments`` is given the utterances whole and cuts what it makes of them.
    """
    rows: pd.DataFrame = work.input("audio")
    loaded = [audio.load(Path(path)) for path in rows["path"]]
    chosen = extractors(recipes, work, device, threads)
    cutting = {label: extractor for label, extractor in chosen.items() if hasattr(extractor, "segments")}
    others = {label: extractor for label, extractor in chosen.items() if label not in cutting}
    made = {
        label: extractor.segments([audio.resample(wave, own, extractor.sample_rate) for wave, own in loaded], count)
        for label, extractor in cutting.items()
    }
    check(made)
    if others:
        waves, rate = _cut(loaded, count)
        rates = {extractor.sample_rate for extractor in others.values()}
        made |= through(others, {new: [audio.resample(wave, rate, new) for wave in waves] for new in rates})
    for label, several in made.items():
        vectors.write(work.folder(label) / FEATURES, [str(number) for number in range(len(several))], several)
    seconds = sum(len(wave) / own for wave, own in loaded)
    work.advance(seconds)
    work.note(utterances=len(rows), seconds_joined=round(seconds, 2))


def _cut(loaded: Sequence[tuple[np.ndarray, int]], count: int) -> tuple[list[np.ndarray], int]:
    """Uniform segments of the joined files, and their sampling rate: that of the first file."""
    rate = loaded[0][1]
    waves = []
    for cut in halves.segments([(len(wave), own) for wave, own in loaded], count):
        pieces = [audio.resample(loaded[place][0][start:stop], loaded[place][1], rate) for place, start, stop in cut]
        waves.append(np.concatenate(pieces) if pieces else np.zeros(0, np.float32))
    return waves, rate


def gather(speakers: Sequence[str], artefacts: Sequence[Artefact]) -> Given:
    """The segments of all speakers as one table; the artefacts are in the order of the speakers."""
    ids: list[str] = []
    owners: list[str] = []
    parts: list[np.ndarray] = []
    weights: list[float] = []
    reasons: list[str] = []
    for speaker, made in zip(speakers, artefacts, strict=True):
        table = vectors.read(made.folder / FEATURES)
        ids.extend(f"{speaker}#{name}" for name in table.index)
        owners.extend([speaker] * len(table))
        parts.append(table.attrs["vectors"])
        weights.extend(table["weight"])
        reasons.extend(str(reason) for reason in table["reason"])
    value = Vectors(tuple(ids), tuple(owners), np.concatenate(parts), np.array(weights), tuple(reasons))
    return Given(content(value), value)
