"""The importer of a data set by its name."""

from __future__ import annotations

from pathlib import Path

from pipeline.data import kaldi, librispeech, rendered
from pipeline.data.corpus import Corpus
from pipeline.data.settings import DatasetSettings


def read(
    settings: DatasetSettings, folder: Path | None = None, allow_partial: bool = False, threads: int = 1
) -> Corpus:
    """Read and check a data set.

    Args:
        settings: which one.
        folder: where a synthetic data set has been rendered (:func:`pipeline.data.rendered.write`); the others do not
            use it.
        allow_partial: leave out utterances whose own file has a fault.
        threads: files that are read at a time.

    Raises:
        DataError: with all faults of the data set.
    """
    if settings.name == "kaldi":
        return kaldi.read(settings, allow_partial, threads)
    if settings.name == "librispeech":
        return librispeech.read(settings, allow_partial, threads)
    if folder is None:
        raise ValueError("a synthetic data set needs the folder in which it was rendered")
    return rendered.read(settings, folder, allow_partial, threads)
