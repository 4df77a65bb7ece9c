"""The check of a submission as the configuration asks for it: which folders are looked at, or why none is."""

from __future__ import annotations

from pathlib import Path

from pipeline.datasets import importers
from pipeline.datasets.external_copy import Copy
from pipeline.datasets.listings import Listing
from pipeline.evaluation.machine import threads
from pipeline.stages.backends.plan import refuse_too_few
from pipeline.stages.settings import Evaluation
from pipeline.stages.training.plan import is_fitted
from pipeline.submission import Folder, Report, check_submission


def submission(asked: Evaluation, training: bool = False) -> Report | str:
    """Check the audio of all external systems, where the data set is there too.

    Args:
        asked: checked settings.
        training: look at the anonymised training sets as well.

    Returns:
        What was found; or why no audio was looked at.
    """
    systems = given(asked, training)
    if not systems:
        return "no system names a folder of anonymised audio"
    if asked.dataset.is_rendered:
        return f"dataset={asked.dataset.name} is rendered by a run, so there is nothing yet to hold the audio against"
    if not asked.dataset.root or not Path(asked.dataset.root).expanduser().is_dir():
        return f"there is no folder '{asked.dataset.root}' of the data set: set dataset.root=DIR"
    store = asked.paths.store
    return check_submission(asked.dataset, systems, threads(asked.runtime), store / "recordings", store / "files")


def check_training(asked: Evaluation) -> None:
    """Whether the training set, by its lists alone, has speakers enough for the back ends that a run would train.

    Raises:
        DataError: it has too few.
    """
    compared = any(one.component.reads != "ranks" for one in asked.metrics.values())
    if not asked.dataset.train or not compared or not any(one.component.hears for one in asked.extractors.values()):
        return
    listing = Listing()
    importers.list_data_set(asked.dataset, listing, training_alone=True)
    count = len({one.speaker for one in listing.utterances if one.speaker})
    fitted = [label for label, one in asked.backends.items() if is_fitted(asked, one)]
    if count:
        refuse_too_few(asked.backends, {label: {"the training set": count} for label in fitted})


def given(asked: Evaluation, training: bool) -> list[Folder]:
    """The folders of anonymised audio that the configuration names."""
    found = []
    for label, system in asked.systems.items():
        copies = system.component.copies(system.settings)
        if copies is None:
            continue
        copy = Copy.of(copies, label)
        found.append(Folder(label, copy))
        if copies.second_root:
            found.append(Folder(f"{label} (second run)", copy.at(copies.second_root, "second_root")))
        if training and asked.dataset.train:
            there = copy.at(copies.train_root or copies.root, "train_root", training=True)
            found.append(Folder(f"{label} (training)", there))
    return found
