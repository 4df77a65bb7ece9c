"""Pack a training set: every file decoded once into one file that trainers read from."""

from __future__ import annotations

from pipeline.engine.task import Work
from pipeline.nets import waveforms
from pipeline.tables import manifest

VERSION = 2


def run(threads: int, work: Work) -> None:
    """Write the samples and the table of utterances (:mod:`pipeline.nets.waveforms`)."""
    waveforms.write(work.folder(), manifest.rows_of(work.input("audio")), threads, work.advance)
