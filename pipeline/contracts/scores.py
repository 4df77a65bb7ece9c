"""What a metric family reads: scores of trials, of all pairs of utterances, or of inputs with references."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

Reads = Literal["trials", "trial_runs", "pairs", "pair_runs", "ranks"]


@dataclass(frozen=True)
class Attribute:
    """A property of speakers or utterances, such as sex or accent.

    Attributes:
        speakers: its value for each enrolled speaker, of the enrolment utterances.
        utterances: its value for each trial utterance.
        reason: why it cannot be used, or ''.
    """

    speakers: Mapping[str, str]
    utterances: Mapping[str, str]
    reason: str = ""


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
        utterances: str [n], the id of each trial utterance; None where ids are not known.
        candidates: the same attack with the trials that the list lacks, for a family with ``MetricFamily.searches``: every
            enrolled speaker against every utterance of theirs; None where the list has them all, or they cannot be had.
        development: the same attack on the trial set that ``MetricFamily.development`` names, of other speakers.
        attributes: what is known of speakers and utterances, by name (``sex``, ...), for a family with ``MetricFamily.searches``.
    """

    scores: np.ndarray
    target: np.ndarray
    models: np.ndarray
    speakers: np.ndarray
    are_llrs: bool
    n_expected: int
    utterances: np.ndarray | None = None
    candidates: Trials | None = None
    development: Trials | None = None
    attributes: Mapping[str, Attribute] = field(default_factory=dict)


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
class ProtectedPairs:
    """Scores of all utterances of a set against all, protected speech alone: as an attacker sees it who has adapted to the system.

    Attributes:
        pp: float64 [n, n].
        speakers: str [n].
        n_expected: utterances in the set.
    """

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
