"""Anonymised copies beside the sets of a challenge, each as a system. Folders are listed; no audio is read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.datasets.vpc.layout import TRAINING, Layout

LEVELS = {"2020": "speaker", "2022": "speaker"}
"""Who has a pseudo-voice in the evaluation sets, by the edition's rules; in the others each utterance."""


@dataclass(frozen=True)
class Offered:
    """A copy of the sets as a system.

    Attributes:
        label: the suffix without its leading underscores, or the whole of it where that would be another's.
        suffix: of the folders' names.
        level: who has a pseudo-voice, by the edition's rule.
        root: the folder that holds those of the sets.
        folders: of the sets; empty where all are called after their sets and the suffix.
        train_root: the anonymised training set; None where there is none.
    """

    label: str
    suffix: str
    level: str
    root: Path
    folders: Mapping[str, Path] = field(default_factory=dict)
    train_root: Path | None = None


def offered(layout: Layout) -> dict[str, Offered]:
    """The copies of a layout by their labels, in the order of their suffixes."""
    found: dict[str, Offered] = {}
    for suffix, places in sorted(layout.copies.items()):
        evaluated = {name: _with_audio(name, place, places) for name, place in places.items() if not is_training(name)}
        training = [place for name, place in sorted(places.items()) if is_training(name)]
        if not evaluated:
            continue
        bare = suffix.lstrip("_")
        label = bare if bare not in ("", "original", *found) else suffix
        level = LEVELS.get(layout.edition, "utterance")
        root = Path(os.path.commonpath([place.parent for place in evaluated.values()]))
        plain = all(place == root / f"{name}{suffix}" for name, place in evaluated.items())
        folders = {} if plain else evaluated
        found[label] = Offered(label, suffix, level, root, folders, training[0] if training else None)
    return found


def _with_audio(name: str, place: Path, places: Mapping[str, Path]) -> Path:
    """The folder that holds the audio of a copy.

    2020 and 2022 anonymise VCTK as ``vctk_dev_trials_f_all`` and cut ``_f`` and ``_f_common`` out of it: tables alone, whose
    ``wav.scp`` leads to the union's audio.
    """
    union = places.get(f"{name.removesuffix('_common')}_all")
    return union if union is not None and not (place / "wav").is_dir() and (union / "wav").is_dir() else place


def is_training(name: str) -> bool:
    """Whether a set of this name is one to train on."""
    return name.startswith(TRAINING)
