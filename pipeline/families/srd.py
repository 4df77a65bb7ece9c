"""Similarity rank disclosure: where the true speaker ranks among N references."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pandas as pd
from pydantic import model_validator

from pipeline.contracts import Measured, Ranks
from pipeline.families._rows import row
from pipeline.families._trials import UncertaintySettings, bands, intervals
from pipeline.metrics import Disclosure, equal_speaker_weights, srd, srd_by_identity, srd_by_speaker, true_ranks
from pipeline.registry import numeric

VERSION = 1
MEASURES = "ranks"
FIELDS = ("max_d", "mean_d", "idr", "rank_spread")


class Settings(UncertaintySettings):
    """Settings of similarity rank disclosure.

    Attributes:
        unit: what an input is: one of 20 uniform ``segment``s of a speaker's joined input half, or an ``utterance``
            (at most 20 a speaker, speakers weighed equally). The paper does not say which; rows name it.
        segment_seconds: length of a segment, about; there are then as many as a speaker's input half has (speakers weighed
            equally). The paper's F0 histograms are over 30 s.
        halves_seed: of the halving of each speaker's utterances into reference and input.
        ties: ``spread`` a tie's mass over the tied ranks, or take its ``best`` or ``worst`` rank.
    """

    name: Literal["srd"] = numeric("srd")
    unit: Literal["segment", "utterance"] = numeric("segment")
    segment_seconds: float | None = numeric(None, gt=0)
    halves_seed: int = numeric(0, ge=0)
    ties: Literal["spread", "best", "worst"] = numeric("spread")

    @model_validator(mode="after")
    def _consistent(self) -> Settings:
        if self.segment_seconds is not None and self.unit != "segment":
            raise ValueError("segment_seconds needs unit 'segment'")
        return self

    @property
    def input(self) -> str:
        """What an input is, as rows name it."""
        return self.unit if self.segment_seconds is None else f"{self.unit} of {self.segment_seconds:g} s"


def measure(settings: Settings, data: Ranks) -> Measured:
    """MaxD, MeanD, IdR and RS of the histogram of ranks and of its constrained beta-binomial fit.

    Raises:
        MetricError: NaN similarities, no input, fewer than two references.
    """
    weights = equal_speaker_weights(data.true)
    found = srd(data.similarity, data.true, ties=settings.ties, weights=weights)
    number = {"n_expected": data.n_expected, "n_used": found.n_inputs, "n_speakers": found.n_references}
    given = (data.similarity, data.true, settings.ties, weights)
    ends = intervals(settings, lambda: srd_by_speaker(*given))
    null = bands(settings, lambda: srd_by_identity(*given), "null band over references")
    variant = f"empirical, {settings.input}"
    said = (
        f"{data.without_evidence} of {found.n_inputs} inputs hold no evidence: all references tie"
        if data.without_evidence
        else ""
    )
    rows = []
    for field in FIELDS:
        value, interval = getattr(found.empirical, field), ends.get(field)
        rows.append(row(Disclosure, field, value, variant=variant, interval=interval, reason=said, counts=number))
    for field, band in null.items():
        rows.append(row(Disclosure, field, None, variant=f"{variant}:null_band", interval=band, counts=number))
    fit = found.beta_binomial
    for field in FIELDS:
        value = None if fit.disclosure is None else getattr(fit.disclosure, field)
        rows.append(
            row(Disclosure, field, value, variant=f"beta_binomial, {settings.input}", label=fit.flag,
                reason=fit.reason if value is None else said, counts=number)
        )  # fmt: skip
    n = found.n_references
    ranks = pd.DataFrame(
        {
            "unit": settings.input,
            "rank": np.arange(1, n + 1),
            "share": found.histogram,
            "fit": np.full(n, np.nan) if fit.gamma is None else fit.gamma,
            "n_references": n,
        }
    )
    return Measured(rows, {"ranks": ranks, "speaker_ranks": _medians(data)})


def _medians(data: Ranks) -> pd.DataFrame:
    ranks = true_ranks(data.similarity, data.true)
    middle = (ranks.best + ranks.worst) / 2
    medians = [
        float(np.median(middle[data.true == k])) if (data.true == k).any() else np.nan
        for k in range(len(data.speakers))
    ]
    return pd.DataFrame({"speaker": list(data.speakers), "srd_rank_median": medians})
