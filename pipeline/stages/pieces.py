"""Extract uniform pieces of the utterances of a training set, where it has one recording a speaker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from pipeline.engine.task import Artefact, Given, Work
from pipeline.nets.feature import Feature
from pipeline.stages.audio_rows import FEATURES, content, manifest, of
from pipeline.stages.extract import Recipe, chunks, extractors, heard, through
from pipeline.tables import vectors as tables
from pipeline.tables.vectors import Vectors

VERSION = 1


def run(recipes: Mapping[str, Recipe], device: str, threads: int, seconds: float, work: Work) -> None:
    """Write the features of the pieces, ids ``AUDIO_DIGEST#0, #1, ...``, for each missing extractor.

    A file is cut into as many equal pieces as give about ``seconds`` each, at least one.
    """
    source = work.input("audio")
    rows = manifest([source], None) if isinstance(source, Artefact) else source
    rows = rows.drop_duplicates("sha256").sort_values("sha256", kind="stable")
    chosen = extractors(recipes, work, device, threads)
    features: dict[str, list[Feature]] = {label: [] for label in chosen}
    rates = {extractor.sample_rate for extractor in chosen.values()}
    lengths = (rows["samples"] / rows["sample_rate"]).to_numpy()
    counts = np.maximum(1, np.rint(lengths / seconds)).astype(int)
    done = 0
    for chunk in heard(chunks(rows, device), rates, threads):
        first, done = done, done + len(next(iter(chunk.at_rate.values())))
        cut = {rate: [part for wave, count in zip(waves, counts[first:done]) for part in np.array_split(wave, count)]
               for rate, waves in chunk.at_rate.items()}  # fmt: skip
        for label, several in through(chosen, cut).items():
            features[label].extend(several)
        work.advance(chunk.seconds)
    names = [f"{sha}#{number}" for sha, count in zip(rows["sha256"], counts) for number in range(count)]
    for label, several in features.items():
        tables.write(work.folder(label) / FEATURES, names, several)


def vectors(rows: pd.DataFrame, features: Sequence[Artefact], wanted: pd.DataFrame) -> Given:
    """The vectors of all pieces of the wanted (set, utterance), in the wanted order; ids are ``UTTERANCE#0, #1, ...``."""
    found = of(rows, wanted)
    read = [tables.read(made.folder / FEATURES) for made in features]
    places: dict[str, list[tuple[int, int]]] = {}
    for number, table in enumerate(read):
        for name, row in zip(table.index, table["row"]):
            places.setdefault(str(name).partition("#")[0], []).append((number, row))
    held = [(utterance, speaker, order, place)
            for utterance, speaker, sha in zip(found["utterance"], found["speaker"], found["sha256"])
            for order, place in enumerate(places[sha])]  # fmt: skip
    value = Vectors(
        ids=tuple(f"{utterance}#{order}" for utterance, _, order, _ in held),
        speakers=tuple(speaker for _, speaker, _, _ in held),
        vectors=np.stack([read[number].attrs["vectors"][row] for *_, (number, row) in held]),
        weights=np.array([read[number]["weight"].iat[row] for *_, (number, row) in held]),
        reasons=tuple(str(read[number]["reason"].iat[row]) for *_, (number, row) in held),
    )
    return Given(content(value), value)
