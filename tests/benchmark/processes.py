"""Worker processes: two of one thread each against one, on extraction, and what it costs to hand out tasks."""

from __future__ import annotations

import functools
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tests.benchmark.harness import Row, Skipped, interleaved, row, speech

if TYPE_CHECKING:
    from pipeline.engine.task import Task

FILES, PARTS = 480, 24
"""So many files are extracted, in so many tasks."""
RESTS, SECONDS = 120, 1.0
"""So many tasks, of so many seconds each."""


def two_processes(runs: int = 3) -> list[Row]:
    """F0 and ECAPA-512 by two worker processes of one thread each, against one: whole runs of an empty store, the start of the
    processes and the loading of the network included."""
    if len(os.sched_getaffinity(0)) < 2:
        raise Skipped("there is one core")
    with tempfile.TemporaryDirectory() as folder:
        tasks = _extraction(Path(folder))
        once = [_run(tasks, Path(folder), workers) for workers in (1, 2)]
        one, two = interleaved(once, runs, time.perf_counter)
    note = f"{FILES} MP3 files in {PARTS} tasks by ecapa (512) and f0, two worker processes of one thread each; to one such"
    return [row("two_processes", two, "s", note, ratio=one / two, at_least=1.8)]


def scheduling() -> list[Row]:
    """What tasks of a second take in two worker processes beyond that second: from the moment when the first is given away to the
    last that ends, so that the start of the processes is in it."""
    from tests.engine import labour
    from tests.engine.labour import leaf

    tasks = [leaf(str(number), labour.rests, SECONDS) for number in range(RESTS)]
    spans: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        _run(tasks, Path(folder), 2, spans)()
    (span,), ideal = spans, RESTS * SECONDS / 2
    note = (
        f"{RESTS} tasks that rest for {SECONDS:g} s each in two worker processes, {ideal:g} s without any cost; to that"
    )
    return [row("scheduling", span, "s", note, ratio=span / ideal, at_most=1.02)]


def _extraction(folder: Path) -> list[Task]:
    """Tasks as a run has them, over parts of the files of equal size."""
    from pipeline.engine.task import Output, Resources, Task, Value
    from pipeline.protocol.cuts import Whole
    from pipeline.seeds import digest
    from pipeline.stages.features import compute
    from pipeline.stages.features.compute import ExtractorSpec
    from tests.benchmark.extraction import _extractors, _rows

    chosen = {name: one for name, one in _extractors(folder).items() if name != "phones"}
    specs = {
        name: ExtractorSpec(type(one), one.settings, folder / name if name == "ecapa" else None, False)
        for name, one in chosen.items()
    }
    found = sorted((speech() / "librispeech-dev-clean-mp3").rglob("*.mp3"))
    if len(found) < FILES:
        raise Skipped(f"librispeech-dev-clean-mp3 holds {len(found)} files, {FILES} are needed")
    rows = _rows(found[:: len(found) // FILES][:FILES])
    parts = [rows.iloc[number::PARTS] for number in range(PARTS)]
    return [
        Task(
            "extract",
            f"extract {number + 1}/{PARTS}",
            functools.partial(compute.extract_features, specs, Whole(), "cpu", 1),
            inputs={"audio": Value(digest(list(part["sha256"])), part)},
            outputs={name: Output({"name": name}) for name in specs},
            resources=Resources(float((part["samples"] / part["sample_rate"]).sum())),
        )
        for number, part in enumerate(parts)
    ]


def _run(tasks: Sequence[Task], folder: Path, workers: int, spans: list[float] | None = None) -> Callable[[], object]:
    """A run of tasks over an empty store; ``spans`` gets the seconds from the first task that begins to the last that ends."""
    from pipeline.engine.executors import processes
    from pipeline.engine.outcome import Outcome
    from pipeline.engine.progress import Progress
    from pipeline.engine.stop import Stop
    from pipeline.engine.store import Store

    class Watch(Progress):
        begun, ended = float("inf"), 0.0

        def begin(self, task: Task, where: str = "") -> None:
            self.begun = min(self.begun, time.perf_counter())

        def end(self, task: Task, computed: bool) -> None:
            assert computed
            self.ended = time.perf_counter()

    def once() -> None:
        watch = Watch()
        with tempfile.TemporaryDirectory(dir=folder) as root:
            executor = processes.Executor(processes.Settings(workers=workers), "cpu")
            executor.execute(tasks, Stop(), Outcome(Store(Path(root))), watch)
        if spans is not None:
            spans.append(watch.ended - watch.begun)

    return once
