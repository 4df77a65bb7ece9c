"""ZEBRA: what the scores disclose on average (D_ECE) and at worst (l_w with its tag)."""

from __future__ import annotations

from typing import Literal

import pandas as pd

from pipeline import contracts
from pipeline.contracts import FigureTable, Measured, Trials, numeric
from pipeline.families._common import (
    TRIALS,
    UncertaintySettings,
    bands,
    code_speakers,
    count_trials,
    field_of,
    intervals,
    row,
)
from pipeline.metrics.trial_uncertainty import trials_by_identity, trials_by_speaker
from pipeline.metrics.trials import TrialMetrics, trial_metrics

VERSION = "zebra 1"


class ZebraSettings(UncertaintySettings):
    """Settings of ZEBRA."""

    name: Literal["zebra"] = numeric("zebra")


METRICS = {
    "d_ece": field_of(
        TrialMetrics, "d_ece", "D_ECE", "expected disclosure (ZEBRA, population)",
        "The information about identity that an attacker with perfectly calibrated scores gains on average over all "
        "priors: 0 bit is perfect privacy, 0.721 bit is full disclosure.",
        "Nautsch et al. 2020; Noé et al. 2022, Eq. 13",
    ),
    "l_w": field_of(
        TrialMetrics, "l_w", "l_w", "worst-case disclosure (ZEBRA, individual)",
        "The strongest evidence for or against an identity found in any single trial, as the base-10 logarithm of its "
        "likelihood ratio: 2 means odds of 100 to 1; the number of trials sets a ceiling, which is shown beside it.",
        "Nautsch et al. 2020; Noé et al. 2022, Table 1",
    ),
    "tag": field_of(
        TrialMetrics, "tag", "tag", "ZEBRA tag",
        "The worst-case disclosure in words: 0 no evidence; A below 10 to 1; B below 100 to 1; C below 10 000 to 1; "
        "D below 100 000 to 1; E below 1 000 000 to 1; F beyond. Tag 0 is out of reach on finite sets, and D to F are out "
        "of reach with few trials.", "Nautsch et al. 2020",
    ),
}  # fmt: skip


class MetricFamily(contracts.MetricFamily):
    """Zero-evidence biometric recognition assessment."""

    Settings = ZebraSettings
    reads = "trials"
    title = TRIALS
    metrics = METRICS
    figures = (
        FigureTable(
            "ece_profile", ("log_odds", "ece", "prior"), "ECE profiles", "pipeline.families.zebra.profile:plots"
        ),
    )
    references = (
        "A. Nautsch et al., “The Privacy ZEBRA: Zero Evidence Biometric Recognition Assessment”, Interspeech 2020 "
        "(D_ECE, l_w, tag).",
    )

    @classmethod
    def measure(cls, settings: ZebraSettings, data: Trials) -> Measured:
        """D_ECE, l_w with the ceiling that the number of trials sets, the tag, null bands and the ECE profile.

        Raises:
            MetricError: NaN scores or an empty class.
        """
        measures = trial_metrics(data.scores[data.target], data.scores[~data.target])
        number = count_trials(data)
        interval = intervals(settings, lambda: trials_by_speaker(code_speakers(data), ["d_ece"]))
        null = bands(settings, lambda: trials_by_identity(code_speakers(data)), "null band over enrolment models")
        rows = [
            row("d_ece", measures.d_ece, interval=interval.get("d_ece"), band=null.get("d_ece"), counts=number),
            row("l_w", measures.l_w, ceiling=measures.l_w_ceiling, band=null.get("l_w"), counts=number),
            row("tag", label=measures.tag, counts=number),
        ]
        curve = measures.ece_profile
        profile = pd.DataFrame({"log_odds": curve.log_odds, "ece": curve.ece, "prior": curve.prior_entropy})
        return Measured(rows, {"ece_profile": profile})
