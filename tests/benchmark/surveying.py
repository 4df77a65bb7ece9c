"""The survey of the audio files of a corpus on two cores against one."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable

from tests.benchmark.audio import paths
from tests.benchmark.harness import Row, Skipped, interleaved, row

FILES, TIMES = 200, 10
"""So many files, and how often each is looked at: a small corpus that is kept in memory stands for a large one."""


def survey(runs: int = 3) -> list[Row]:
    """Files a second on two cores, and how many times that is what one core does; processes are started within the time."""
    from pipeline.datasets import parallel

    if len(os.sched_getaffinity(0)) < 2:
        raise Skipped("there is one core")
    asked = paths(FILES) * TIMES

    def once(workers: int) -> Callable[[], object]:
        return lambda: list(parallel.run_parallel(asked, workers, functools.partial(parallel.look_at_files, 1e9)))

    one, two = interleaved([once(1), once(2)], runs, time.perf_counter)
    note = f"{len(asked)} looks at FLAC and MP3 files on two cores, the start of the processes included; to one core"
    return [row("survey", len(asked) / two, "files/s", note, ratio=one / two, at_least=1.7)]
