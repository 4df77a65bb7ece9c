"""Similarity rank disclosure: where the true speaker ranks among N references."""

from __future__ import annotations

from functools import partial
from typing import Literal

import numpy as np
import pandas as pd
from pydantic import model_validator

from pipeline import contracts
from pipeline.contracts import FigureTable, Measured, RankInputs, Ranks, numeric
from pipeline.families._common import UncertaintySettings, bands, field_of, intervals, row
from pipeline.metrics._base import MetricError
from pipeline.metrics.rank_disclosure import (
    Disclosure,
    equal_speaker_weights,
    srd,
    srd_by_identity,
    srd_by_speaker,
    true_ranks,
)

VERSION = "srd 1"

SOURCE = "Bäckström et al. 2025; Chandra et al. 2026"


class SrdSettings(UncertaintySettings):
    """Settings of similarity rank disclosure.

    Attributes:
        unit: what an input is: one of 20 uniform ``segment``s of a speaker's joined input half, or an ``utterance``
            (at most 20 a speaker, speakers weighed equally). The paper does not say which; rows name it.
        segment_seconds: length of a segment, about; there are then as many as a speaker's input half has (speakers weighed
            equally). The paper's F0 histograms are over 30 s.
        halves_seed: of the halving of each speaker's utterances into reference and input.
        ties: ``spread`` a tie's mass over the tied ranks, or take its ``best`` or ``worst`` rank.
        apart: what reference and input half have not in common. The paper's have no ``utterance`` in common; utterances of one
            ``chapter`` share microphone and day, so with chapters apart what is found of a speaker is the voice. Chapters are read
            from ids as LibriSpeech writes them; speakers with a single one are left out.
        within: an input is ranked among ``all`` speakers of the pool, as in the paper, or among those of its ``sex``: a rank
            among both sexes is better than chance for whoever tells men from women.
        pools: trial sets that are pooled with their enrolment sets, by name: ``{"libri_test (pooled)": [libri_test_trials_f,
            libri_test_trials_m]}``; by default all that are evaluated, as ``pooled``.
    """

    name: Literal["srd"] = numeric("srd")
    unit: Literal["segment", "utterance"] = numeric("segment")
    segment_seconds: float | None = numeric(None, gt=0)
    halves_seed: int = numeric(0, ge=0)
    ties: Literal["spread", "best", "worst"] = numeric("spread")
    apart: Literal["utterance", "chapter"] = numeric("utterance")
    within: Literal["all", "sex"] = numeric("all")
    pools: dict[str, list[str]] | None = numeric(None)

    @model_validator(mode="after")
    def _consistent(self) -> SrdSettings:
        if self.segment_seconds is not None and self.unit != "segment":
            raise ValueError("segment_seconds needs unit 'segment'")
        if self.pools is not None and not (self.pools and all(self.pools.values())):
            raise ValueError("pools without a set leave nothing to rank: leave them out to pool all sets")
        return self

    @property
    def input(self) -> str:
        """What an input is, as rows name it."""
        return self.unit if self.segment_seconds is None else f"{self.unit} of {self.segment_seconds:g} s"

    @property
    def variant(self) -> str:
        """How the halves differ from the paper's, as rows name it."""
        return "chapters apart" if self.apart == "chapter" else ""


METRICS = {
    "max_d": field_of(
        Disclosure, "max_d", "MaxD", "maximum disclosure (SRD)",
        "The largest information about identity that any one similarity rank discloses: 0 bit at chance, log2 N at most "
        "for N speakers; for few inputs its value at chance is well above 0.", SOURCE,
    ),
    "mean_d": field_of(
        Disclosure, "mean_d", "MeanD", "mean disclosure (SRD)",
        "The information about identity that the similarity rank of the true speaker discloses on average: 0 bit at "
        "chance, log2 N at most.", SOURCE,
    ),
    "idr": field_of(
        Disclosure, "idr", "IdR", "identification rate (SRD)",
        "How often the true speaker is the most similar of all N reference speakers; chance is 1/N.",
        "Chandra et al. 2026",
    ),
    "rank_spread": field_of(
        Disclosure, "rank_spread", "RS", "rank spread (SRD)",
        "The share of ranks at which the true speaker is found more often than by chance; erratic for histograms that are "
        "almost flat.", "Chandra et al. 2026",
    ),
}  # fmt: skip


class MetricFamily(contracts.MetricFamily):
    """What the rank of the true speaker among all references discloses."""

    Settings = SrdSettings
    reads = "ranks"
    title = "Similarity rank disclosure"
    metrics = METRICS
    readings = ("empirical", "beta_binomial")
    figures = (
        FigureTable(
            "ranks",
            ("unit", "rank", "share", "fit", "n_references"),
            "Similarity rank histograms",
            "pipeline.families.srd.ranks:plots",
            ("subset", "system", "condition", "extractor"),
        ),
        FigureTable("speaker_ranks", ("speaker", "srd_rank_median"), identity=("system", "extractor")),
    )
    references = (
        "T. Bäckström et al., “Privacy Disclosure of Similarity Rank in Speech and Language Processing”, arXiv 2508.05250, "
        "2025; S. Chandra et al., “Evaluating voice anonymisation using similarity rank disclosure”, arXiv 2605.07291, 2026 "
        "(SRD).",
    )

    @classmethod
    def inputs(cls, settings: SrdSettings) -> RankInputs:
        names = ("halves_seed", "unit", "segment_seconds", "apart", "within", "pools")
        return RankInputs(*(getattr(settings, name) for name in names))

    @classmethod
    def measure(cls, settings: SrdSettings, data: Ranks) -> Measured:
        """MaxD, MeanD, IdR and RS of the histogram of ranks and of its constrained beta-binomial fit.

        Raises:
            MetricError: NaN similarities, no input, fewer than two references.
        """
        if len(data.speakers) < 2:
            raise MetricError(f"{len(data.speakers)} speakers have a reference that can be used, and two are needed")
        if not data.true.size:
            raise MetricError("no input of a speaker with a reference can be used")
        weights = equal_speaker_weights(data.true)
        disclosed = srd(data.similarity, data.true, ties=settings.ties, weights=weights)
        number = {"n_expected": data.n_expected, "n_used": disclosed.n_inputs, "n_speakers": disclosed.n_references}
        arguments = (data.similarity, data.true, settings.ties, weights)
        ends = intervals(settings, lambda: srd_by_speaker(*arguments))
        null = bands(settings, lambda: srd_by_identity(*arguments), "null band over references")
        tie_note = ""
        if data.without_evidence:
            tie_note = f"{data.without_evidence} of {disclosed.n_inputs} inputs hold no evidence: all references tie"
        make_row = partial(row, variant=settings.variant, input_unit=settings.input, counts=number)
        rows = []
        for name in cls.metrics:
            value, interval, band = getattr(disclosed.empirical, name), ends.get(name), null.get(name)
            rows.append(make_row(name, value, estimator="empirical", interval=interval, band=band, note=tie_note))
        fit = disclosed.beta_binomial
        for name in cls.metrics:
            value = None if fit.disclosure is None else getattr(fit.disclosure, name)
            why, note = (fit.reason, "") if value is None else ("", tie_note)
            rows.append(make_row(name, value, estimator="beta_binomial", label=fit.flag, reason=why, note=note))
        n = disclosed.n_references
        histogram = {
            "unit": ", ".join(filter(None, (settings.input, settings.variant))),
            "rank": np.arange(1, n + 1),
            "share": disclosed.histogram,
            "fit": np.full(n, np.nan) if fit.gamma is None else fit.gamma,
            "n_references": n,
        }
        tables = {"ranks": pd.DataFrame(histogram)}
        if settings.apart == "utterance" and settings.within == "all":
            # The table of speakers has one rank of each: the paper's.
            ranks = true_ranks(data.similarity, data.true)
            middle = pd.Series((ranks.best + ranks.worst) / 2).groupby(data.true).median()
            medians = middle.reindex(range(len(data.speakers))).to_numpy(np.float64)
            tables["speaker_ranks"] = pd.DataFrame({"speaker": list(data.speakers), "srd_rank_median": medians})
        return Measured(rows, tables)
