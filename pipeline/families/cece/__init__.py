"""C_ECE: what an attacker reaches who calibrates on one run of a random system and attacks another (Noe 2022, section 5.3)."""

from __future__ import annotations

from functools import partial
from typing import Literal

import numpy as np
import pandas as pd

from pipeline import contracts
from pipeline.contracts import FigureTable, Measured, Row, TrialRuns, numeric
from pipeline.families._common import (
    NOE_2022,
    UncertaintySettings,
    code_speakers,
    count_trials,
    field_of,
    intervals,
    row,
)
from pipeline.metrics._base import MetricError, Undefined
from pipeline.metrics.calibration import (
    CEce,
    Isotonic,
    Linear,
    c_ece,
    c_ece_by_speaker,
    isotonic_calibration,
    linear_calibration,
)
from pipeline.metrics.information import EceProfile, ece_profile
from pipeline.metrics.trial_uncertainty import trials_by_speaker
from pipeline.metrics.trials import trial_metrics

VERSION = "cece 1"
METHODS = ("linear", "isotonic")
FIELDS = ("c_ece", "cllr_l_phi")


class CeceSettings(UncertaintySettings):
    """Settings of C_ECE.

    Attributes:
        between: of the isotonic map, ``step`` (the lower block's value between two blocks) or ``linear`` interpolation.
        replicates: of bootstraps; there is no null band.
    """

    name: Literal["cece"] = numeric("cece")
    between: Literal["step", "linear"] = numeric("step")


METRICS = {
    "c_ece": field_of(
        CEce, "c_ece", "C_ECE", "disclosure to an attacker who calibrates on another run",
        "The information about identity that an attacker gains on average who learns from one run of a random system (f0) "
        "how to turn scores into likelihood ratios, and attacks speech that another run (f1) protects: 0 bit means that "
        "the attack is worthless, below 0 that its likelihood ratios mislead, 0.721 bit is full disclosure. The map from "
        "scores to likelihood ratios is linear or isotonic.", "Noé et al. 2022, section 5.3 and Eq. 15-16",
    ),
    "cllr_l_phi": field_of(
        CEce, "cllr_l_phi", "Cllr f0→f1", "cost of run f1 under the calibration of run f0",
        "The cost of the log-likelihood ratios that the attacker makes of run f1 with the map learnt on run f0: 1 bit is "
        "that of knowing nothing, above 1 bit the likelihood ratios mislead.",
        "Noé et al. 2022, section 5.3", summary=False,
    ),
    "d_ece_f1": field_of(
        CEce, "d_ece_f1", "D_ECE f1", "expected disclosure of run f1",
        "The information about identity that perfectly calibrated scores of the second run give: what C_ECE could reach "
        "at most.", "Noé et al. 2022, Eq. 13", summary=False,
    ),
}  # fmt: skip


class MetricFamily(contracts.MetricFamily):
    """What an attacker gains who calibrates on another run of the system."""

    Settings = CeceSettings
    reads = "trial_runs"
    title = "Two runs of a random system: calibrated on one, attacking the other"
    metrics = METRICS
    readings = METHODS
    figures = (
        FigureTable(
            "cece_profile",
            ("profile", "log_odds", "ece", "prior", "d_ece", "cllr"),
            "Calibrated on another run of a random system",
            "pipeline.families.cece.profile:plots",
        ),
    )
    references = (NOE_2022,)

    @classmethod
    def measure(cls, settings: CeceSettings, data: TrialRuns) -> Measured:
        """C_ECE and the Cllr that goes with it under the linear and the isotonic map, D_ECE of f1, and the profiles.

        The profiles of f0 and f1 are those of their own oracle calibration: raw scores of most back ends are no LLRs.

        Raises:
            MetricError: NaN scores, an empty class, runs with different trials.
        """
        first, second = data.first, data.second
        parts = ("target", "models", "speakers")
        if not all(np.array_equal(getattr(first, part), getattr(second, part)) for part in parts):
            raise MetricError("the two runs do not have the same trials")
        train, test = ((run.scores[run.target], run.scores[~run.target]) for run in (first, second))
        number = count_trials(data.second)
        oracle = {name: trial_metrics(*scores) for name, scores in (("f0", train), ("f1", test))}
        profiles = [
            _table(name, measures.ece_profile, measures.d_ece, measures.cllr_min) for name, measures in oracle.items()
        ]
        rows: list[Row] = []
        for method in METHODS:
            try:
                reached = c_ece(*train, *test, method=method, between=settings.between)
            except Undefined as undefined:
                rows += [row(field, variant=method, reason=str(undefined), counts=number) for field in FIELDS]
                continue
            options = {"calibration": method, "between": settings.between}
            metric = partial(c_ece_by_speaker, code_speakers(first), code_speakers(second), **options)
            interval = intervals(settings, metric)
            rows += [
                row(field, getattr(reached, field), variant=method, interval=interval.get(field), counts=number)
                for field in FIELDS
            ]
            mapping: Linear | Isotonic
            if method == "linear":
                mapping = linear_calibration(*train)
            else:
                mapping = isotonic_calibration(*train, between=settings.between)
            curve = ece_profile(mapping.apply(test[0]), mapping.apply(test[1]), oracle=False)
            profiles.append(_table(method, curve, reached.c_ece, reached.cllr_l_phi))
        interval = intervals(settings, lambda: trials_by_speaker(code_speakers(data.second), ["d_ece"]))
        rows.append(row("d_ece_f1", oracle["f1"].d_ece, interval=interval.get("d_ece"), counts=number))
        return Measured(rows, {"cece_profile": pd.concat(profiles, ignore_index=True)})


def _table(name: str, curve: EceProfile, disclosed: float, cost: float) -> pd.DataFrame:
    """One curve: for f0 and f1 ``d_ece`` and ``cllr`` are D_ECE and Cllr_min, under a map C_ECE and Cllr."""
    columns = {"profile": name, "log_odds": curve.log_odds, "ece": curve.ece, "prior": curve.prior_entropy}
    return pd.DataFrame({**columns, "d_ece": disclosed, "cllr": cost})
