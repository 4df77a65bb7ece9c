"""Anonymise one shard: a wav file an utterance, and the manifest of the system for it."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd

from pipeline import audio
from pipeline.anonymisers._types import Anonymised, Utterance
from pipeline.engine.task import Work
from pipeline.registry import component
from pipeline.stages.audio_rows import MANIFEST, runs
from pipeline.weights.find import file_digest

VERSION = 1
TOGETHER = 1800 * 16_000
"""Samples that a GPU is given at once; one longer file comes alone."""
ALONE = 7200 * 16_000
"""Samples that are at work at once on a CPU, in however many threads: 2.6 GB."""


def run(settings: Any, device: str, threads: int, work: Work) -> None:
    """Anonymise the rows of the shard; parameters and counts of each utterance stand in the manifest and the record."""
    made = component("anonymisers", settings.name).Anonymiser
    on_device = device != "cpu" and hasattr(made, "several")
    anonymiser = made(settings, device) if on_device else made(settings)
    rows: pd.DataFrame = work.input("audio")
    folder = work.folder()
    listed = list(rows.itertuples(index=False))
    # Threads change the speed alone: each file is a function of its own row, and results keep the order of the rows.
    with ThreadPoolExecutor(threads) as pool:
        if on_device:
            made_rows = list(_together(anonymiser, listed, folder, pool, work))
        else:
            one = functools.partial(_one, anonymiser, folder, work)
            made_rows = [row for chunk in _chunks(listed, ALONE) for row in pool.map(one, chunk)]
    passed: Counter[str] = Counter()
    for row in made_rows:
        passed.update({name: int(value) for name, value in row.items() if name.startswith("passed_")})
    pd.DataFrame(made_rows).to_parquet(folder / MANIFEST, index=False)
    work.note("", **dict(passed))


def _one(anonymiser: Any, folder: Path, work: Work, row: Any) -> dict[str, Any]:
    return _write(folder, work, row, anonymiser.anonymise(*_load(row), _utterance(row)))


def _together(
    anonymiser: Any, rows: Sequence[Any], folder: Path, pool: Executor, work: Work
) -> Iterator[dict[str, Any]]:
    """A chunk of files on the device, while threads decode the next one and write the last one."""
    chunks = _chunks(rows, TOGETHER)
    ahead = [pool.submit(_load, row) for row in chunks[0]] if chunks else []
    writing: list[Any] = []
    for number, chunk in enumerate(chunks):
        loaded = [future.result() for future in ahead]
        ahead = [pool.submit(_load, row) for row in chunks[number + 1]] if number + 1 < len(chunks) else []
        made = anonymiser.several([(wave, rate, _utterance(row)) for (wave, rate), row in zip(loaded, chunk)])
        del loaded
        yield from [future.result() for future in writing]
        writing = [pool.submit(_write, folder, work, row, each) for row, each in zip(chunk, made)]
        del made
    yield from [future.result() for future in writing]


def _chunks(rows: Sequence[Any], samples: int) -> list[Sequence[Any]]:
    """Rows in order, in chunks of at most so many samples, or of one row."""
    return [rows[run] for run in runs((row.samples for row in rows), samples)]


def _utterance(row: Any) -> Utterance:
    return Utterance(row.utterance, row.speaker, row.set, int(row.position))


def _load(row: Any) -> tuple[np.ndarray, int]:
    return audio.load(Path(row.path))


def _write(folder: Path, work: Work, row: Any, made: Anonymised) -> dict[str, Any]:
    path = Path("wav") / quote(row.set, safe="") / f"{quote(row.utterance, safe='')}.wav"
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    audio.write(folder / path, made.wave, made.rate, made.subtype)
    work.advance(len(made.wave) / made.rate)
    return {
        "set": row.set,
        "utterance": row.utterance,
        "speaker": row.speaker,
        "path": path.as_posix(),
        "sample_rate": made.rate,
        "samples": len(made.wave),
        "sha256": file_digest(folder / path),
        **{f"parameter_{name}": value for name, value in made.parameters.items()},
        **{f"passed_{name}": value for name, value in made.passed.items()},
    }
