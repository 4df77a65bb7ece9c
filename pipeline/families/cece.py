"""C_ECE: what an attacker reaches who calibrates on one run of a random system and attacks another (Noe 2022, section 5.3)."""

from __future__ import annotations

from functools import partial
from typing import Literal

import numpy as np
import pandas as pd

from pipeline.contracts import Measured, Row, TrialRuns, Trials
from pipeline.families._rows import row
from pipeline.families._trials import UncertaintySettings, coded, counts, intervals
from pipeline.metrics import (
    BySpeaker,
    CEce,
    EceProfile,
    Isotonic,
    Linear,
    MetricError,
    Undefined,
    c_ece,
    c_ece_by_speaker,
    ece_profile,
    isotonic_calibration,
    linear_calibration,
    trial_metrics,
    trials_by_speaker,
)
from pipeline.registry import numeric

VERSION = 1
MEASURES = "trial_runs"
METHODS = ("linear", "isotonic")
FIELDS = ("c_ece", "cllr_l_phi")


class Settings(UncertaintySettings):
    """Settings of C_ECE.

    Attributes:
        between: of the isotonic map, ``step`` (the lower block's value between two blocks) or ``linear`` interpolation.
        replicates: of bootstraps; there is no null band.
    """

    name: Literal["cece"] = numeric("cece")
    between: Literal["step", "linear"] = numeric("step")


def measure(settings: Settings, data: TrialRuns) -> Measured:
    """C_ECE and the Cllr that goes with it under the linear and the isotonic map, D_ECE of f1, and the profiles.

    The profiles of f0 and f1 are those of their own oracle calibration: raw scores of most back ends are no LLRs.

    Raises:
        MetricError: NaN scores, an empty class, runs with different trials.
    """
    _matched(data)
    train, test = _classes(data.first), _classes(data.second)
    number = counts(data.second)
    oracle = {name: trial_metrics(*scores) for name, scores in (("f0", train), ("f1", test))}
    profiles = [_table(name, found.ece_profile, found.d_ece, found.cllr_min) for name, found in oracle.items()]
    rows: list[Row] = []
    for method in METHODS:
        try:
            reached = c_ece(*train, *test, method=method, between=settings.between)
        except Undefined as undefined:
            rows += [row(CEce, field, None, variant=method, reason=str(undefined), counts=number) for field in FIELDS]
            continue
        interval = intervals(settings, partial(_by_speaker, settings, data, method))
        rows += [
            row(CEce, field, getattr(reached, field), variant=method, interval=interval.get(field), counts=number)
            for field in FIELDS
        ]
        mapping: Linear | Isotonic
        if method == "linear":
            mapping = linear_calibration(*train)
        else:
            mapping = isotonic_calibration(*train, between=settings.between)
        curve = ece_profile(mapping.apply(test[0]), mapping.apply(test[1]), oracle=False)
        profiles.append(_table(method, curve, reached.c_ece, reached.cllr_l_phi))
    interval = intervals(settings, lambda: trials_by_speaker(coded(data.second), ["d_ece"]))
    rows.append(row(CEce, "d_ece_f1", oracle["f1"].d_ece, interval=interval.get("d_ece"), counts=number))
    return Measured(rows, {"cece_profile": pd.concat(profiles, ignore_index=True)})


def _matched(data: TrialRuns) -> None:
    first, second = data.first, data.second
    same = len(first.scores) == len(second.scores) and all(
        np.array_equal(getattr(first, part), getattr(second, part)) for part in ("target", "models", "speakers")
    )
    if not same:
        raise MetricError("the two runs do not have the same trials")


def _classes(data: Trials) -> tuple[np.ndarray, np.ndarray]:
    return data.scores[data.target], data.scores[~data.target]


def _by_speaker(settings: Settings, data: TrialRuns, method: str) -> BySpeaker:
    return c_ece_by_speaker(coded(data.first), coded(data.second), calibration=method, between=settings.between)


def _table(name: str, curve: EceProfile, disclosed: float, cost: float) -> pd.DataFrame:
    """One curve: for f0 and f1 ``d_ece`` and ``cllr`` are D_ECE and Cllr_min, under a map C_ECE and Cllr."""
    return pd.DataFrame(
        {
            "profile": name,
            "log_odds": curve.log_odds,
            "ece": curve.ece,
            "prior": curve.prior_entropy,
            "d_ece": disclosed,
            "cllr": cost,
        }
    )
