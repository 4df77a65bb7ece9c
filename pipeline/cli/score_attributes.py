"""Attributes in ``from-scores disclosure``: how much of the disclosure is a column of a table, and what is said of a stranger's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipeline import metrics
from pipeline.cli.score_report import Report
from pipeline.datasets.scores import joins
from pipeline.datasets.scores.score_table import Array
from pipeline.errors import DataError
from pipeline.metrics import MetricError, Undefined

PARTS = {
    "n_classes": "n_classes",
    "alid_attribute": "mean_attribute",
    "alid_attribute_speaker": "mean_attribute_speaker",
    "alid_attribute_chance": "chance_attribute",
    "alid_within": "mean_within",
    "alid_within_speaker": "mean_within_speaker",
    "alid_within_chance": "chance_within",
    "prior_entropy": "prior_entropy",
    "ceiling": "ceiling",
}
"""Fields of the metric core, by the names that a run's rows have too."""
OTHER_CLASS = (
    "trials are of another class than their speaker's enrolment, and the disclosure has no part that is theirs"
)


@dataclass(frozen=True)
class Attack:
    """Scores of trials against candidates, one a speaker."""

    scores: Array
    """[n, N]."""
    truth: np.ndarray
    """[n] index of the true candidate."""
    names: list[str]
    """[N] speakers of the candidates."""
    not_enrolled: int
    """Trials that are left out: nobody enrolled speaks."""
    trials: list[str]
    """[n] ids."""
    candidates: list[str]
    """[N] ids."""


def of_speakers(report: Report, attack: Attack, path: Path, slope: float | Array | None) -> None:
    """Of a table SPEAKER VALUE.

    Raises:
        DataError: a candidate has no value.
    """
    value = _table(report, path)
    _require(attack.names, value, path, "candidates", "give every speaker of --reference2spk a line SPEAKER VALUE")
    values = [value[name] for name in attack.names]
    _put(report, attack, path, values, [values[k] for k in attack.truth], slope)


def of_utterances(report: Report, attack: Attack, path: Path, slope: float | Array | None) -> None:
    """Of a table TRIAL VALUE. A candidate without a line has the value that all trials of its speaker have.

    Raises:
        DataError: a trial has no value, or a candidate that has no line has no such value.
    """
    value = _table(report, path)
    _require(attack.trials, value, path, "trials", "give every trial of --input2spk a line TRIAL VALUE")
    spoken = [value[name] for name in attack.trials]
    for k, candidate in enumerate(attack.candidates):
        own = {one for one, speaker in zip(spoken, attack.truth) if speaker == k}
        if candidate not in value and len(own) == 1:
            value[candidate] = own.pop()
    remedy = "give every candidate of --reference2spk a line too, with the value of its enrolment"
    _require(attack.candidates, value, path, "candidates", remedy)
    _put(report, attack, path, [value[name] for name in attack.candidates], spoken, slope)


def _table(report: Report, path: Path) -> dict[str, str]:
    found = joins.read_speakers(path, report.note)
    return dict(zip(found.ids, found.speakers))


def _require(ids: Sequence[str], values: Mapping[str, str], path: Path, who: str, remedy: str) -> None:
    missing = [name for name in ids if name not in values]
    if missing:
        raise DataError(
            f"{len(missing)} {who} have no value: {', '.join(missing[:10])}",
            where=str(path),
            cause="a table of others, or one that lacks lines",
            remedy=remedy,
        )


def _put(
    report: Report,
    attack: Attack,
    path: Path,
    of_candidates: Sequence[str],
    of_trials: Sequence[str],
    slope: float | Array | None,
) -> None:
    names = sorted({*of_candidates, *of_trials})
    classes, spoken = (np.array([names.index(one) for one in each]) for each in (of_candidates, of_trials))
    place = ("attribute", path.stem if path.name.count(".") < 2 else path.name)
    report.put((*place, "values"), {name: int((classes == k).sum()) for k, name in enumerate(names)})
    if slope is None:
        report.put((*place, "alid_attribute"), None, "there is no slope")
    elif (classes[attack.truth] != spoken).any():
        report.put((*place, "alid_attribute"), None, OTHER_CLASS)
    else:
        found = metrics.attribute_part(attack.scores, attack.truth, classes, slope)
        for name, part in PARTS.items():
            report.put((*place, name), getattr(found, part))
    _stranger(report, attack, place, classes, spoken)


def _stranger(report: Report, attack: Attack, place: tuple[str, ...], classes: np.ndarray, spoken: np.ndarray) -> None:
    """At a slope of its own: one for persons is too bold for this question."""
    s, t = attack.scores, attack.truth
    try:
        slopes = metrics.stranger_slopes(s, t, classes, spoken)
        told = ~np.isnan(slopes[t])
        found = metrics.stranger(s[told], t[told], classes, slopes, spoken[told])
    except (Undefined, MetricError) as undefined:
        report.put((*place, "alid_stranger"), None, str(undefined))
        return
    speaks = ~np.isnan(slopes)
    report.put(
        (*place, "stranger_slope"), {name: float(w) for name, w, one in zip(attack.names, slopes, speaks) if one}
    )
    for end, value in (("", found.mean), ("_speaker", found.mean_speaker), ("_chance", found.chance)):
        report.put((*place, f"alid_stranger{end}"), value, found.reason or "everybody is alone in the class")
    report.put((*place, "n_undefined"), int(found.n_undefined + (~told).sum()))
