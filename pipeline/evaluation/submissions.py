"""The check of a submission as the configuration asks for it: which folders are looked at, or why none is."""

from __future__ import annotations

from pathlib import Path

from pipeline.datasets.external import Copy
from pipeline.evaluation.machine import threads
from pipeline.planning import Evaluation
from pipeline.submission import Given, Report, check


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
    return check(asked.dataset, systems, threads(asked.runtime), store / "recordings", store / "files")


def given(asked: Evaluation, training: bool) -> list[Given]:
    """The folders of anonymised audio that the configuration names."""
    found = []
    for label, system in asked.systems.items():
        copies = system.component.copies(system.settings)
        if copies is None:
            continue
        level, copy = system.component.level(system.settings), Copy.of(copies, label)
        found.append(Given(label, level, copy))
        if copies.second_root:
            found.append(Given(f"{label} (second run)", level, copy.at(copies.second_root, "second_root")))
        if training and asked.dataset.train:
            there = copy.at(copies.train_root or copies.root, "train_root", training=True)
            found.append(Given(f"{label} (training)", level, there))
    return found
