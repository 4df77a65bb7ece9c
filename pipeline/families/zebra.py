"""ZEBRA: what the scores disclose on average (D_ECE) and at worst (l_w with its tag)."""

from __future__ import annotations

from typing import Literal

import pandas as pd

from pipeline.contracts import Measured, Trials
from pipeline.families._rows import row
from pipeline.families._trials import UncertaintySettings, bands, coded, counts, intervals
from pipeline.metrics import TrialMetrics, trial_metrics, trials_by_identity, trials_by_speaker
from pipeline.registry import numeric

VERSION = 1
MEASURES = "trials"


class Settings(UncertaintySettings):
    """Settings of ZEBRA."""

    name: Literal["zebra"] = numeric("zebra")


def measure(settings: Settings, data: Trials) -> Measured:
    """D_ECE, l_w with the ceiling that the number of trials sets, the tag, null bands and the ECE profile.

    Raises:
        MetricError: NaN scores or an empty class.
    """
    found = trial_metrics(data.scores[data.target], data.scores[~data.target])
    number = counts(data)
    interval = intervals(settings, lambda: trials_by_speaker(coded(data), ["d_ece"])).get("d_ece")
    null = bands(settings, lambda: trials_by_identity(coded(data)), "null band over enrolment models")
    rows = [
        row(TrialMetrics, "d_ece", found.d_ece, interval=interval, counts=number),
        row(TrialMetrics, "l_w", found.l_w, counts=number),
        row(TrialMetrics, "l_w_ceiling", found.l_w_ceiling, counts=number),
        row(TrialMetrics, "tag", None, label=found.tag, counts=number),
    ]
    for name, band in null.items():
        rows.append(row(TrialMetrics, name, None, variant="null_band", interval=band, counts=number))
    profile = pd.DataFrame(
        {
            "log_odds": found.ece_profile.log_odds,
            "ece": found.ece_profile.ece,
            "prior": found.ece_profile.prior_entropy,
        }
    )
    return Measured(rows, {"ece_profile": profile})
