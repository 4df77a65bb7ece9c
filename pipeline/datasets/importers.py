"""A data set by the name of its kind, and the training set beside it, read and checked together."""

from __future__ import annotations

from pathlib import Path

from pipeline.datasets import corpus, cutting, kaldi, kaldi_tables, listings, trees
from pipeline.datasets.audio_cache import NO_CACHE, AudioCache
from pipeline.datasets.corpus import Corpus
from pipeline.datasets.listings import Listing
from pipeline.datasets.settings import DatasetSettings
from pipeline.datasets.synthetic import FIRST_TRAIN, list_rendered
from pipeline.datasets.vpc import importer as vpc


def read_data_set(
    settings: DatasetSettings,
    folder: Path | None = None,
    allow_partial: bool = False,
    threads: int = 1,
    training_alone: bool = False,
    cache: AudioCache = NO_CACHE,
    recordings: Path | None = None,
) -> Corpus:
    """Read and check a data set and its training set.

    Args:
        settings: which one.
        folder: where a synthetic data set has been rendered (:func:`pipeline.datasets.synthetic.render_speech`); the others do not
            use it.
        allow_partial: leave out utterances whose own file has a fault.
        threads: files that are read at a time.
        training_alone: read the training set ``settings.train`` alone; what is evaluated need not be there.
        cache: what earlier looks at the files found.
        recordings: where segments and what lies in archives are written as files (:mod:`pipeline.datasets.cutting`); data sets
            without such do not use it.

    Raises:
        DataError: with all faults.
    """
    listing = Listing()
    root = list_data_set(settings, listing, folder, training_alone)
    commands = {row.path for row in listing.utterances if row.path and row.entry and row.entry.is_command}
    if commands:
        listing.notes.append(
            f"{len(commands)} entries of wav.scp are commands that only decode a file; the files are read, no command is run"
        )
    listing.attributes = kaldi_tables.read_attributes(listing, settings.attributes)
    cutting.write_parts(listing, recordings, threads, cache)
    return corpus.assemble_corpus(listing, root, allow_partial, threads, cache)


def list_data_set(
    settings: DatasetSettings, listing: Listing, folder: Path | None = None, training_alone: bool = False
) -> str | Path:
    """List a data set and its training set by their tables and names alone; where it lies. Arguments as of :func:`read_data_set`.

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
        add_synthetic(settings, folder, listing)
        return folder
    root = Path(settings.root).expanduser().absolute()
    if not settings.root or not root.is_dir():
        listing.faults.add("root", f"there is no folder '{settings.root}'", "dataset.root")
        listing.faults.stop(settings.root or "dataset.root")
    {
        "kaldi": kaldi.add_data_set,
        "librispeech": trees.add_librispeech,
        "folders": trees.add_folders,
        "vpc": vpc.add_data_set,
    }[settings.name](settings, root, listing)
    return root


def _add_training(settings: DatasetSettings, listing: Listing) -> None:
    """List the training set ``settings.train``: a Kaldi set, a folder that holds one, or a tree with a folder a speaker."""
    folder = Path(vpc.find_training_folder(settings)).expanduser().absolute()
    if not folder.is_dir():
        listing.faults.add("train", f"there is no folder '{settings.train}'", "dataset.train")
    elif kaldi.find_sets(folder):
        kaldi.add_training(settings, folder, listing)
    else:
        trees.add_training(settings, folder, listing)


def add_synthetic(settings: DatasetSettings, folder: Path, listing: Listing) -> None:
    """List the rendered data set: ``synthetic_enrolls``, ``synthetic_trials_f``, ``synthetic_trials_m`` and, with the role
    train, ``synthetic_train``, whose speakers are others, unless ``settings.train`` names another training set.
    """
    rows = list(list_rendered(settings, folder))
    listings.add_halves(
        listing, "synthetic", [row for index, _, _, row in rows if index < FIRST_TRAIN], settings.seed, str(folder)
    )
    if not settings.train:
        listing.utterances += [row for index, _, _, row in rows if index >= FIRST_TRAIN]
    listings.select_sets(listing, settings.sets, "dataset.sets")
