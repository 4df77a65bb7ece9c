"""Pack a training set: every file decoded once into one file that trainers read from."""

from __future__ import annotations

import pandas as pd

from pipeline.engine.task import Work
from pipeline.nets import waveforms as packed
from pipeline.stages.audio_rows import manifest

VERSION = 1


def run(threads: int, work: Work) -> None:
    """Write the samples and the table of utterances (:mod:`pipeline.nets.waveforms`)."""
    source = work.input("audio")
    rows = source if isinstance(source, pd.DataFrame) else manifest(source, None)
    packed.write(work.folder(), rows, threads, work.advance)
