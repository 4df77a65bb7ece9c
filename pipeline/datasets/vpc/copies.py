"""Anonymised copies beside the sets of a challenge, each as a system. Folders are listed; no audio is read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pipeline import audio
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
        sets: the folder of each set that it holds but for the training set.
        called: what the copy is asked for by, where folders of several systems have its suffix; a model that is called after the
            suffix alone is then nobody's.
    """

    label: str
    suffix: str
    level: str
    root: Path
    folders: Mapping[str, Path] = field(default_factory=dict)
    train_root: Path | None = None
    called: str = ""
    sets: Mapping[str, Path] = field(default_factory=dict, compare=False)

    def lacks(self, needed: Iterable[str]) -> list[str]:
        """Those of some sets that it does not hold: there is no folder, or neither audio nor a ``wav.scp`` in it."""
        return [name for name in needed if name not in self.sets or _is_empty(self.sets[name])]


def _is_empty(folder: Path) -> bool:
    files = (Path(name) for _, _, names in os.walk(folder) for name in names)
    return not any(file.name == "wav.scp" or file.suffix.lower() in audio.EXTENSIONS for file in files)


def offered(layout: Layout) -> dict[str, Offered]:
    """The copies of a layout by their labels, in the order of their suffixes."""
    found: dict[str, Offered] = {}
    for name, places in sorted(layout.copies.items()):
        suffix, called = layout.shared.get(name, name), name if name in layout.shared else ""
        evaluated = {of: place for of, place in places.items() if not is_training(of)}
        training = [place for of, place in sorted(places.items()) if is_training(of)]
        if not evaluated:
            continue
        bare = name.lstrip("_")
        label = bare if bare not in ("", "original", *found) else name
        level = LEVELS.get(layout.edition, "utterance")
        root = Path(os.path.commonpath([place.parent for place in evaluated.values()]))
        plain = all(place == root / f"{of}{suffix}" for of, place in evaluated.items())
        folders = {} if plain else evaluated
        found[label] = Offered(
            label, suffix, level, root, folders, training[0] if training else None, called, evaluated
        )
    return found


def is_training(name: str) -> bool:
    """Whether a set of this name is one to train on."""
    return name.startswith(TRAINING)
