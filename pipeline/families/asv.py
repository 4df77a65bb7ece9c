"""Speaker verification: EER and Cllr of enrolment against trial."""

from __future__ import annotations

from typing import Literal

from pydantic import field_validator

from pipeline import contracts
from pipeline.contracts import Measured, Trials, numeric
from pipeline.families._common import TRIALS, UncertaintySettings, code_speakers, count_trials, field_of, intervals, row
from pipeline.metrics.trial_uncertainty import trials_by_speaker
from pipeline.metrics.trials import TrialMetrics, trial_metrics

VERSION = "asv 1"

BRUMMER = "Brümmer and du Preez 2006"


class AsvSettings(UncertaintySettings):
    """Settings of the speaker-verification metrics.

    Attributes:
        eer: definitions of the EER; they do not agree with each other, so rows name them
            (pipeline/metrics/README.md, section 4).
    """

    name: Literal["asv"] = numeric("asv")
    eer: tuple[Literal["rocch", "kaldi", "speechbrain"], ...] = numeric(("rocch",), min_length=1)

    @field_validator("eer")
    @classmethod
    def _distinct(cls, chosen: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(chosen)) != len(chosen):
            raise ValueError("an EER definition is named twice")
        return chosen


METRICS = {
    "eer": field_of(
        TrialMetrics, "eer", "EER", "equal error rate",
        "The error rate of a speaker-verification attacker at the threshold where it misses targets as often as it "
        "accepts impostors: 0 % means that speakers are recognised without error, 50 % that the attacker guesses.",
        "variant rocch: on the convex hull of the ROC, where it cannot exceed 50 %",
    ),
    "cllr": field_of(
        TrialMetrics, "cllr", "Cllr", "cost of the log-likelihood ratio",
        "The cost, in bits, of using the attacker's scores as log-likelihood ratios as they are, so that calibration "
        "errors count as well as the lack of discrimination.", BRUMMER, summary=False,
    ),
    "cllr_min": field_of(
        TrialMetrics, "cllr_min", "Cllr_min", "discrimination cost",
        "What remains of the cost of the log-likelihood ratio after the best possible calibration: 0 bit means that the "
        "attacker separates all speakers, 1 bit that its scores say nothing.", BRUMMER,
    ),
    "cllr_cal": field_of(
        TrialMetrics, "cllr_cal", "Cllr_cal", "calibration cost",
        "The part of the cost of the log-likelihood ratio that better calibration would remove.",
        BRUMMER, summary=False,
    ),
}  # fmt: skip


class MetricFamily(contracts.MetricFamily):
    """EER by definition, and the cost of the scores as likelihood ratios."""

    Settings = AsvSettings
    reads = "trials"
    title = TRIALS
    metrics = METRICS
    readings = ("rocch", "kaldi", "speechbrain")
    references = (
        "N. Brümmer and J. du Preez, “Application-independent evaluation of speaker detection”, Computer Speech & Language "
        "20, 2006 (EER on the convex hull, Cllr, Cllr_min).",
    )

    @classmethod
    def measure(cls, settings: AsvSettings, data: Trials) -> Measured:
        """EER by definition, Cllr (of LLRs alone) and Cllr_min.

        Raises:
            MetricError: NaN scores or an empty class.
        """
        measures = trial_metrics(data.scores[data.target], data.scores[~data.target])
        names = [*(f"eer.{variant}" for variant in settings.eer), "cllr_min", *(["cllr"] if data.are_llrs else [])]
        bounds = intervals(settings, lambda: trials_by_speaker(code_speakers(data), names))
        number = count_trials(data)
        rows = [
            row("eer", measures.eer[v], variant=v, interval=bounds.get(f"eer.{v}"), counts=number) for v in settings.eer
        ]
        if data.are_llrs:
            rows.append(row("cllr", measures.cllr, interval=bounds.get("cllr"), counts=number))
            rows.append(row("cllr_cal", measures.cllr_cal, counts=number))
        else:
            rows.append(row("cllr", reason="the scores are not log-likelihood ratios", counts=number))
        rows.append(row("cllr_min", measures.cllr_min, interval=bounds.get("cllr_min"), counts=number))
        return Measured(rows)
