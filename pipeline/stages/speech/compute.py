"""Anonymise one shard: a wav file an utterance, and the manifest of the system for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from pipeline import audio
from pipeline.contracts import Anonymised, Anonymiser, ComponentSettings, Utterance
from pipeline.engine.task import Work
from pipeline.files import file_digest, make_file_name
from pipeline.protocol.shards import group_runs
from pipeline.stages.component_cache import loaded
from pipeline.tables import manifest

VERSION = "anonymisation 2"
TOGETHER = 1800 * 16_000
"""Samples that a GPU is given at once; one longer file comes alone."""
ALONE = 7200 * 16_000
"""Samples that are at work at once on a CPU, in however many threads: 2.6 GB."""


class Line(NamedTuple):
    """What is needed of a row of the manifest."""

    path: str
    utterance: str
    speaker: str
    set: str
    position: int
    samples: int
    sha256: str


def anonymise(
    anonymiser: type[Anonymiser],
    settings: ComponentSettings,
    weights: Path | None,
    device: str,
    threads: int,
    work: Work,
) -> None:
    """Anonymise the rows of the shard; parameters and counts of each utterance stand in the manifest and the record."""
    on_device = device != "cpu" and anonymiser.on_device
    system = loaded(anonymiser, settings, weights, device if on_device else "cpu")
    folder = work.folder()
    columns = manifest.rows_of(work.input("audio"))[list(Line._fields)]
    lines = [Line(*row) for row in columns.itertuples(index=False, name=None)]
    # Threads change the speed alone: each file is a function of its own row, and results keep the order of the rows.
    with ThreadPoolExecutor(threads) as pool:
        if on_device or anonymiser.batches_on_cpu(settings):
            rows = list(_together(system, lines, folder, pool, work))
        else:

            def anonymise_line(line: Line) -> dict[str, Any]:
                wave, rate = audio.load(Path(line.path), line.sha256)
                return _write(folder, work, line, system.anonymise(wave, rate, _utterance(line)))

            rows = [row for chunk in _chunks(lines, ALONE) for row in pool.map(anonymise_line, chunk)]
    passed: Counter[str] = Counter()
    for row in rows:
        passed.update({name: int(value) for name, value in row.items() if name.startswith("passed_")})
    pd.DataFrame(rows).to_parquet(folder / manifest.FILE, index=False)
    work.note("", **dict(passed))


def _together(
    system: Anonymiser, lines: Sequence[Line], folder: Path, pool: Executor, work: Work
) -> Iterator[dict[str, Any]]:
    """A chunk of files on the device, while threads decode the next one and write the last one."""

    def loading(chunk: Sequence[Line]) -> list[Future[tuple[np.ndarray, int]]]:
        return [pool.submit(audio.load, Path(line.path), line.sha256) for line in chunk]

    chunks = _chunks(lines, TOGETHER)
    ahead = loading(chunks[0]) if chunks else []
    writing: list[Future[dict[str, Any]]] = []
    for number, chunk in enumerate(chunks):
        loaded = [future.result() for future in ahead]
        ahead = loading(chunks[number + 1]) if number + 1 < len(chunks) else []
        outputs = system.anonymise_many([(wave, rate, _utterance(line)) for (wave, rate), line in zip(loaded, chunk)])
        del loaded
        yield from [future.result() for future in writing]
        writing = [pool.submit(_write, folder, work, line, each) for line, each in zip(chunk, outputs)]
        del outputs
    yield from [future.result() for future in writing]


def _chunks(lines: Sequence[Line], samples: int) -> list[Sequence[Line]]:
    """Lines in order, in chunks of at most so many samples, or of one line."""
    return [lines[run] for run in group_runs((line.samples for line in lines), samples)]


def _utterance(line: Line) -> Utterance:
    return Utterance(line.utterance, line.speaker, line.set, int(line.position))


def _write(folder: Path, work: Work, line: Line, anonymised: Anonymised) -> dict[str, Any]:
    path = Path("wav") / make_file_name(line.set) / f"{make_file_name(line.utterance)}.wav"
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    audio.write(folder / path, anonymised.wave, anonymised.rate, anonymised.subtype)
    work.advance(len(anonymised.wave) / anonymised.rate)
    return {
        "set": line.set,
        "utterance": line.utterance,
        "speaker": line.speaker,
        "path": path.as_posix(),
        "sample_rate": anonymised.rate,
        "samples": len(anonymised.wave),
        "sha256": file_digest(folder / path),
        **{f"parameter_{name}": value for name, value in anonymised.parameters.items()},
        **{f"passed_{name}": value for name, value in anonymised.passed.items()},
    }
