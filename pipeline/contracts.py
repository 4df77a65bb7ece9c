"""What a measure reads and what it gives: scores by kind, and rows with figure tables.

A measure is a module ``pipeline.families.NAME`` with ``Settings``, ``VERSION``, ``MEASURES`` (``trials``, ``pairs``,
``ranks``, ``trial_runs`` or ``pair_runs``) and ``measure(settings, data) -> Measured``; extractors say with the same words
what they are for, where trials and pairs include two runs of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd


@dataclass(frozen=True, eq=False)
class Trials:
    """Scores of enrolment models against trial utterances.

    Attributes:
        scores: float64 [n]; higher means more similar.
        target: bool [n].
        models: str [n], the speaker that each trial claims (the speaker of the enrolment model).
        speakers: str [n], the speaker of each trial utterance.
        are_llrs: whether the scores are natural-log likelihood ratios.
        n_expected: trials in the list.
    """

    scores: np.ndarray
    target: np.ndarray
    models: np.ndarray
    speakers: np.ndarray
    are_llrs: bool
    n_expected: int


@dataclass(frozen=True, eq=False)
class Pairs:
    """Scores of all utterances of a set against all, original (O) and protected (P).

    Attributes:
        oo, op, pp: float64 [n, n]; in ``op`` rows are original and columns protected; the same utterance has the same place.
        speakers: str [n].
        n_expected: utterances in the set.
    """

    oo: np.ndarray
    op: np.ndarray
    pp: np.ndarray
    speakers: np.ndarray
    n_expected: int


@dataclass(frozen=True, eq=False)
class TrialRuns:
    """The same trials under two runs of a random system, which differ in its seed alone.

    Attributes:
        first: scores of run f0, on which the attacker calibrates.
        second: scores of run f1, under attack; trials, models and speakers are those of ``first``, in the same order.
    """

    first: Trials
    second: Trials


@dataclass(frozen=True, eq=False)
class PairRuns:
    """Scores of all utterances of a set against all, under two runs of a random system.

    Attributes:
        pp: float64 [n, n], the first run.
        p0p1: float64 [n, n], rows the first run and columns the second; the same utterance has the same place.
        speakers: str [n].
        n_expected: utterances in the set.
    """

    pp: np.ndarray
    p0p1: np.ndarray
    speakers: np.ndarray
    n_expected: int


@dataclass(frozen=True, eq=False)
class Ranks:
    """Similarity of inputs to one reference a speaker.

    Attributes:
        similarity: float64 [inputs, N]; higher means more similar.
        true: int [inputs], column of the input's own speaker.
        speakers: [N] speakers of the references.
        n_expected: inputs that there should be.
        without_evidence: inputs that hold nothing to compare (no voiced frame): all references are equally similar to them.
    """

    similarity: np.ndarray
    true: np.ndarray
    speakers: tuple[str, ...]
    n_expected: int
    without_evidence: int = 0


@dataclass(frozen=True)
class Row:
    """One number or label of a measure; what it is about is added where results are gathered.

    Attributes:
        value: NaN where undefined, with the reason.
        n_used: units (trials, utterances, inputs) that the value stands on, of ``n_expected``.
        condition: OO, OP or PP where the measure knows better than its place in the plan.
    """

    metric: str
    value: float
    unit: str
    direction: str = ""
    variant: str = ""
    label: str = ""
    low: float = float("nan")
    high: float = float("nan")
    reason: str = ""
    n_expected: int | None = None
    n_used: int | None = None
    n_speakers: int | None = None
    n_target: int | None = None
    n_nontarget: int | None = None
    condition: str = ""


@dataclass(frozen=True)
class Measured:
    """Rows for the results, and tables for the figures by name (``ece_profile``, ``similarity``, ``zoo``, ``ranks``, ...)."""

    rows: list[Row]
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)
