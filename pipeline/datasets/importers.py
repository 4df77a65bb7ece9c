"""A data set by the name of its kind, and the training set beside it, read and checked together."""

from __future__ import annotations

from pathlib import Path

from pipeline.datasets import attributes, corpus, cutting, folders, kaldi, librispeech, pipes, rendered
from pipeline.datasets.corpus import Corpus, Listing
from pipeline.datasets.known import NOTHING_KNOWN, KnownFiles
from pipeline.datasets.settings import DatasetSettings
from pipeline.datasets.vpc import importer as vpc


def read(
    settings: DatasetSettings,
    folder: Path | None = None,
    allow_partial: bool = False,
    threads: int = 1,
    training_alone: bool = False,
    known: KnownFiles = NOTHING_KNOWN,
    recordings: Path | None = None,
) -> Corpus:
    """Read and check a data set and its training set.

    Args:
        settings: which one.
        folder: where a synthetic data set has been rendered (:func:`pipeline.datasets.rendered.write`); the others do not
            use it.
        allow_partial: leave out utterances whose own file has a fault.
        threads: files that are read at a time.
        training_alone: read the training set ``settings.train`` alone; what is evaluated need not be there.
        known: what earlier looks at the files found.
        recordings: where segments and what lies in archives are written as files (:mod:`pipeline.datasets.cutting`); data sets
            without such do not use it.

    Raises:
        DataError: with all faults.
    """
    listing = Listing()
    root = add(settings, listing, folder, training_alone)
    _say_commands(listing)
    listing.attributes = attributes.read(listing, settings.attributes)
    cutting.write(listing, recordings, threads, known)
    return corpus.assemble(listing, root, allow_partial, threads, known)


def add(
    settings: DatasetSettings, listing: Listing, folder: Path | None = None, training_alone: bool = False
) -> str | Path:
    """List a data set and its training set by their tables and names alone; where it lies. Arguments as of :func:`read`.

    Raises:
        DataError: it holds nothing that could be listed; the listing has the faults.
    """
    if settings.train:
        _add_training(settings, listing)
    if training_alone:
        return settings.train
    if settings.is_rendered:
        if folder is None:
            raise ValueError("a synthetic data set needs the folder in which it was rendered")
        rendered.add(settings, folder, listing)
        return folder
    root = Path(settings.root).expanduser().absolute()
    if not settings.root or not root.is_dir():
        listing.faults.add("root", f"there is no folder '{settings.root}'", "dataset.root")
        listing.faults.stop(settings.root or "dataset.root")
    {"kaldi": kaldi.add, "librispeech": librispeech.add, "folders": folders.add, "vpc": vpc.add}[settings.name](
        settings, root, listing
    )
    return root


def _say_commands(listing: Listing) -> None:
    """Say how many files are read although a ``wav.scp`` has commands for them, and whether these would give less."""
    read = {
        row.path: row.entry for row in listing.utterances if row.path is not None and row.entry and row.entry.is_command
    }
    if not read:
        return
    listing.notes.append(
        f"{len(read)} entries of wav.scp are commands that only decode a file; the files are read, no command is run"
    )
    rounded = [path for path, entry in read.items() if pipes.rounds(entry, path)]
    if rounded:
        listing.notes.append(
            f"{len(rounded)} of these commands would round samples to fewer bits than the file has, e.g. of {rounded[0]}; the files "
            f"are read as they are"
        )


def _add_training(settings: DatasetSettings, listing: Listing) -> None:
    """List the training set ``settings.train``: a Kaldi set, a folder that holds one, or a tree with a folder a speaker."""
    folder = Path(vpc.training(settings)).expanduser().absolute()
    if not folder.is_dir():
        listing.faults.add("train", f"there is no folder '{settings.train}'", "dataset.train")
    elif kaldi.holds_sets(folder):
        kaldi.add_training(settings, folder, listing)
    else:
        files = librispeech.audio_files(folder)
        tree = folders if settings.name == "folders" or folders.fits(folder, files) else librispeech
        tree.add_training(settings, folder, files, listing)
