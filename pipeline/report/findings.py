"""Checks of how strong the attack was: equal sentences said once, with the results that they apply to.

A check that is flagged casts doubt on its results: protection that is measured against a weak attack is overestimated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

PLACE = {
    "run": ("run", "runs"),
    "dataset": ("data set", "data sets"),
    "subset": ("subset", "subsets"),
    "system": ("system", "systems"),
    "condition": ("condition", "conditions"),
    "attacker": ("attacker", "attackers"),
    "extractor": ("extractor", "extractors"),
    "trained_on": ("trained on", "training sources"),
    "backend": ("back end", "back ends"),
}
"""The columns that say which results a check is about, with their names for one and for several values."""

TITLES = {
    "attackers": "Which attacker is the strongest",
    "class_order": "Scores that order the classes the wrong way round",
    "deid_against_eer": "DeID beside the EER of protected against protected speech",
    "digital_silence": "Digital silence at the ends of recordings",
    "eer_against_srd": "EER beside the ranks of the same vectors",
    "enrolled_once": "Enrolment that was anonymised once",
    "fine_tuning": "What fine-tuning brought",
    "held_out": "The attacker on held-out training speakers",
    "length": "Lengths that a wrong sampling rate would explain",
    "not_adapted": "Attackers that were not adapted",
    "not_anonymised": "Recordings that are the original",
    "on_original": "The attacker on original speech",
    "original_enrolment": "Protected enrolment against original enrolment",
    "original_gap": "Original speech of the test against held-out speakers",
    "other_centre": "Attacks on the speech at its own centre",
    "others_original": "Recordings that hold somebody else's original",
    "same_audio": "One recording for several",
    "second_run": "A second run that repeats the first",
    "suspected_same_speaker": "Training speakers who look like one person",
    "test_gap": "Held-out training speakers against the test",
    "training_gap": "Speakers trained on against held-out ones",
    "training_level": "Level of the training speech",
    "treated_differently": "Whether enrolment and trials were protected alike",
    "unprotected_training": "Training speech that was not protected",
    "weak_backend": "Back ends that were trained on too little",
    "weak_extractor": "Weak extractors while stronger ones are at hand",
}
"""What each check looks at, as a heading."""

# In this order values are gathered: subsets and back ends differ most often without a difference in what was found.
_GATHERED = ("subset", "backend", "run", "dataset", "attacker", "condition", "system", "extractor", "trained_on")
_MANY = 3

Box = tuple[tuple[str, ...], ...]
"""Values of each place column; all their combinations are meant."""


@dataclass(frozen=True)
class Finding:
    """A sentence, once, and the results that it applies to: all combinations of the values of each box."""

    check: str
    sentence: str
    flagged: bool
    boxes: tuple[Box, ...]
    applies: str


@dataclass(frozen=True)
class Findings:
    """All sentences, flagged ones first, and the place columns that tell results apart."""

    places: tuple[str, ...]
    each: tuple[Finding, ...]

    @property
    def flagged(self) -> list[Finding]:
        return [finding for finding in self.each if finding.flagged]

    def unflagged(self) -> dict[str, list[Finding]]:
        """By check, in the order in which checks first come."""
        by_check: dict[str, list[Finding]] = {}
        for finding in self.each:
            if not finding.flagged:
                by_check.setdefault(finding.check, []).append(finding)
        return by_check


def findings(frame: pd.DataFrame) -> Findings:
    """The checks of a run (or of several, with a column ``run``) with equal sentences joined.

    Args:
        frame: rows with the columns of ``diagnostics.parquet``.
    """
    if not len(frame):
        return Findings((), ())
    table = frame.assign(**{name: frame[name].fillna("").astype(str) for name in PLACE if name in frame.columns})
    places = _telling(table)
    everything = {name: sorted(set(table[name]) - {""}) for name in places}
    grouped = []
    for (sentence, flagged), part in table.groupby(
        [table["sentence"].astype(str), table["flagged"].astype(bool)], sort=False
    ):
        cells = list(dict.fromkeys(part[list(places)].itertuples(index=False, name=None)))
        boxes = _gathered(cells, places)
        applies = " / ".join(filter(None, (_words(box, places, everything) for box in boxes)))
        grouped.append(Finding(str(part["check"].iloc[0]), str(sentence), bool(flagged), tuple(boxes), applies))
    return Findings(places, tuple(sorted(grouped, key=lambda finding: not finding.flagged)))


def title(check: str) -> str:
    """What a check looks at, as a heading; of one that is not known here, its name."""
    return TITLES.get(check) or check.replace("_", " ").capitalize()


def text(frame: pd.DataFrame) -> str:
    """The flagged sentences, one a line with what it applies to; '' if there is none. For stdout and logs."""
    lines = [
        f"! {finding.sentence}" + (f" ({finding.applies})" if finding.applies else "")
        for finding in findings(frame).flagged
    ]
    return "".join("".join(c if c.isprintable() else " " for c in line) + "\n" for line in lines)


def _telling(table: pd.DataFrame) -> tuple[str, ...]:
    """Place columns that differ, without those that follow from the others (the condition from the attacker)."""
    places = [name for name in PLACE if name in table.columns and table[name].nunique() > 1]
    for name, source in (("condition", ["attacker"]), ("trained_on", ["attacker", "extractor"])):
        if name in places and (table.groupby(source)[name].nunique() == 1).all():
            places.remove(name)
    return tuple(places)


def _gathered(cells: Iterable[tuple[str, ...]], places: Sequence[str]) -> list[Box]:
    """Few boxes that hold exactly these cells: boxes that differ in one column alone are joined, column after column."""
    boxes: list[Box] = [tuple((value,) for value in cell) for cell in cells]
    for name in (name for name in _GATHERED if name in places):
        column = places.index(name)
        joined: dict[Box, list[str]] = {}
        for box in boxes:
            joined.setdefault((*box[:column], (), *box[column + 1 :]), []).extend(box[column])
        boxes = [(*key[:column], tuple(dict.fromkeys(values)), *key[column + 1 :]) for key, values in joined.items()]
    return boxes


def values(box: Box, column: int) -> str:
    """The values of one place column of a box, for a table."""
    return ", ".join(value for value in box[column] if value)


def _words(box: Box, places: Sequence[str], everything: dict[str, list[str]]) -> str:
    parts = []
    for column, name in enumerate(places):
        present = [value for value in box[column] if value]
        singular, plural = PLACE[name]
        if len(present) > _MANY and sorted(present) == everything[name]:
            parts.append(f"all {len(present)} {plural}")
        elif present:
            parts.append(f"{singular if len(present) == 1 else plural} {', '.join(present)}")
    return "; ".join(parts)
