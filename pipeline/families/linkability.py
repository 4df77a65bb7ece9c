"""Linkability D_sys: how often the scores of a speaker's own recordings could not be those of somebody else."""

from __future__ import annotations

from typing import Literal

from pydantic import field_validator

from pipeline import contracts
from pipeline.contracts import Measured, Metric, Row, Trials, numeric
from pipeline.families._common import TRIALS, UncertaintySettings, bands, code_speakers, count_trials, intervals, row
from pipeline.metrics._base import Undefined
from pipeline.metrics.linkability import d_sys
from pipeline.metrics.trial_uncertainty import trials_by_identity, trials_by_speaker

VERSION = "linkability 1"
EXACT = "d_sys.exact"
"""The definition that has an interval and a null band: bins of equal width have neither."""


class LinkabilitySettings(UncertaintySettings):
    """Settings of linkability. The prior odds of mated against non-mated are 1, as in the challenges.

    Attributes:
        variants: ``exact`` (likelihood ratios from PAV) and ``vpc`` (the bins of the VoicePrivacy Challenges 2020 and 2022, for
            comparison with their tables; pipeline/metrics/README.md, section 14, has its faults). Rows name them. ``vpc`` has
            no interval and no null band.
    """

    name: Literal["linkability"] = numeric("linkability")
    variants: tuple[Literal["exact", "vpc"], ...] = numeric(("exact", "vpc"), min_length=1)

    @field_validator("variants")
    @classmethod
    def _distinct(cls, chosen: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(chosen)) != len(chosen):
            raise ValueError("a variant is named twice")
        return chosen


METRICS = {
    "d_sys": Metric(
        "D_sys", "linkability",
        "How surely two recordings of one speaker can be told to be linked by their score, on average over such pairs: 0 % "
        "means that no pair can be linked, 100 % that every pair can. Variant exact: likelihood ratios by the best possible "
        "calibration; vpc: by bins of equal width, as the VoicePrivacy Challenges 2020 and 2022 computed it.",
        "fraction", "lower", (0.0, 1.0), "Gomez-Barrero et al. 2018; Maouche et al. 2020",
    ),
}  # fmt: skip


class MetricFamily(contracts.MetricFamily):
    """Linkability D_sys of enrolment against trial, prior odds 1."""

    Settings = LinkabilitySettings
    reads = "trials"
    title = TRIALS
    metrics = METRICS
    readings = ("exact", "vpc")
    references = (
        "M. Gomez-Barrero et al., “General framework to evaluate unlinkability in biometric template protection systems”, IEEE "
        "Transactions on Information Forensics and Security 13, 2018 (D_sys).",
    )

    @classmethod
    def measure(cls, settings: LinkabilitySettings, data: Trials) -> Measured:
        """D_sys by each of the chosen definitions.

        Raises:
            MetricError: NaN scores or an empty class.
        """
        return Measured([_row(settings, data, variant) for variant in settings.variants])


def _row(settings: LinkabilitySettings, data: Trials, variant: str) -> Row:
    number = count_trials(data)
    try:
        value = d_sys(data.scores[data.target], data.scores[~data.target], variant=variant)
    except Undefined as undefined:
        return row("d_sys", variant=variant, reason=str(undefined), counts=number)
    if variant != "exact":
        return row("d_sys", value, variant=variant, counts=number)
    interval = intervals(settings, lambda: trials_by_speaker(code_speakers(data), [EXACT]))
    null = bands(settings, lambda: trials_by_identity(code_speakers(data), [EXACT]), "null band over enrolment models")
    return row("d_sys", value, variant=variant, interval=interval.get(EXACT), band=null.get(EXACT), counts=number)
