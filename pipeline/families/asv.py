"""Speaker verification: EER and Cllr of enrolment against trial."""

from __future__ import annotations

from typing import Literal

from pydantic import field_validator

from pipeline.contracts import Measured, Trials
from pipeline.families._rows import row
from pipeline.families._trials import UncertaintySettings, coded, counts, intervals
from pipeline.metrics import TrialMetrics, trial_metrics, trials_by_speaker
from pipeline.registry import numeric

VERSION = 1
MEASURES = "trials"


class Settings(UncertaintySettings):
    """Settings of the speaker-verification metrics.

    Attributes:
        eer: definitions of the EER; they do not agree with each other, so rows name them.
    """

    name: Literal["asv"] = numeric("asv")
    eer: tuple[Literal["rocch", "kaldi", "speechbrain"], ...] = numeric(("rocch",), min_length=1)

    @field_validator("eer")
    @classmethod
    def _distinct(cls, chosen: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(chosen)) != len(chosen):
            raise ValueError("an EER definition is named twice")
        return chosen


def measure(settings: Settings, data: Trials) -> Measured:
    """EER by definition, Cllr (of LLRs alone) and Cllr_min.

    Raises:
        MetricError: NaN scores or an empty class.
    """
    found = trial_metrics(data.scores[data.target], data.scores[~data.target])
    names = [*(f"eer.{variant}" for variant in settings.eer), "cllr_min", *(["cllr"] if data.are_llrs else [])]
    bounds = intervals(settings, lambda: trials_by_speaker(coded(data), names))
    number = counts(data)
    rows = [
        row(TrialMetrics, "eer", found.eer[v], variant=v, interval=bounds.get(f"eer.{v}"), counts=number)
        for v in settings.eer
    ]
    if data.are_llrs:
        rows.append(row(TrialMetrics, "cllr", found.cllr, interval=bounds.get("cllr"), counts=number))
        rows.append(row(TrialMetrics, "cllr_cal", found.cllr_cal, counts=number))
    else:
        reason = "the scores are not log-likelihood ratios"
        rows.append(row(TrialMetrics, "cllr", None, reason=reason, counts=number))
    rows.append(row(TrialMetrics, "cllr_min", found.cllr_min, interval=bounds.get("cllr_min"), counts=number))
    return Measured(rows)
