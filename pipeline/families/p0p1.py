"""M_P0P1: the similarity matrix between two runs of a random system, and how well it links a speaker's sessions."""

from __future__ import annotations

from typing import Literal

import numpy as np

from pipeline.contracts import Measured, PairRuns
from pipeline.families._rows import matrix_table, row
from pipeline.families._trials import UncertaintySettings, intervals
from pipeline.metrics import Linkage, SimilarityMatrix, linkage, linkage_by_speaker, similarity_matrix
from pipeline.registry import numeric

VERSION = 1
MEASURES = "pair_runs"


class Settings(UncertaintySettings):
    """Settings of the similarity matrix between two runs; all ordered pairs of utterances are compared.

    Attributes:
        similarity: ``geometric_mean`` of posteriors (Noe 2022, Eq. 6) or ``sigmoid_mean`` of LLRs (Noe 2020, Eq. 2).
        self_pairs: whether the matrix keeps the pair of an utterance's two versions, which say the same words.
        replicates: of bootstraps; there is no null band.
    """

    name: Literal["p0p1"] = numeric("p0p1")
    similarity: Literal["geometric_mean", "sigmoid_mean"] = numeric("geometric_mean")
    self_pairs: Literal["drop", "keep"] = numeric("drop")


def measure(settings: Settings, data: PairRuns) -> Measured:
    """D_diag of P0P1 and its ratio to that of PP, each matrix under its own oracle calibration (Laplace rule).

    Raises:
        MetricError: a speaker without a pair of their own, by name.
    """
    names, codes = np.unique(data.speakers, return_inverse=True)
    parts: dict[str, SimilarityMatrix] = {}
    # Within a run an utterance is never compared with itself; across runs self_pairs says so.
    for block, scores, kept in (("PP", data.pp, "drop"), ("P0P1", data.p0p1, settings.self_pairs)):
        parts[block] = similarity_matrix(
            scores, codes, names=list(names), similarity=settings.similarity, pairing="all", self_pairs=kept
        )
    found = linkage(parts["PP"], parts["P0P1"])
    counts = {
        "n_expected": data.n_expected,
        "n_used": len(codes),
        "n_speakers": len(names),
        "n_target": parts["P0P1"].n_target,
        "n_nontarget": parts["P0P1"].n_nontarget,
    }
    options = {"similarity": settings.similarity, "self_pairs": settings.self_pairs}
    interval = intervals(settings, lambda: linkage_by_speaker(data.pp, data.p0p1, codes, **options))
    rows = [
        row(Linkage, field, getattr(found, field), interval=interval.get(field), reason=found.reasons.get(field, ""),
            condition="PP", counts=counts)
        for field in ("d_diag_p0p1", "d_diag_p0p1_signed", "p0p1_ratio")
    ]  # fmt: skip
    return Measured(rows, {"similarity_runs": matrix_table(parts, names)})
