"""M_P0P1: the similarity matrix between two runs of a random system, and how well it links a speaker's sessions."""

from __future__ import annotations

from typing import Literal

import numpy as np

from pipeline import contracts
from pipeline.contracts import FigureTable, Measured, PairRuns, numeric
from pipeline.families._common import NOE_2020, PAIRS, UncertaintySettings, field_of, intervals, matrix_table, row
from pipeline.metrics.vsm import SimilarityMatrix, similarity_matrix
from pipeline.metrics.vsm_measures import Linkage, linkage
from pipeline.metrics.vsm_uncertainty import linkage_by_speaker

VERSION = "p0p1 1"


class P0p1Settings(UncertaintySettings):
    """Settings of the similarity matrix between two runs; all ordered pairs of utterances are compared.

    Attributes:
        similarity: ``geometric_mean`` of posteriors (Noe 2022, Eq. 6) or ``sigmoid_mean`` of LLRs (Noe 2020, Eq. 2).
        self_pairs: whether the matrix keeps the pair of an utterance's two versions, which say the same words.
        replicates: of bootstraps; there is no null band.
    """

    name: Literal["p0p1"] = numeric("p0p1")
    similarity: Literal["geometric_mean", "sigmoid_mean"] = numeric("geometric_mean")
    self_pairs: Literal["drop", "keep"] = numeric("drop")


METRICS = {
    "d_diag_p0p1": field_of(
        Linkage, "d_diag_p0p1", "D_diag P0P1", "diagonal dominance between two runs",
        "How much more similar a speaker's pseudo-voices of two runs of a random system are to each other than to other "
        "speakers' pseudo-voices: near 0, what one run makes of a voice does not point to what another makes of it.",
        "Noé et al. 2020, Eq. 3, on speech of two runs",
    ),
    "d_diag_p0p1_signed": field_of(
        Linkage, "d_diag_p0p1_signed", "D_diag P0P1 signed", "diagonal dominance between two runs with its sign",
        "Mean similarity of a speaker's pseudo-voices of two runs minus that to other speakers' pseudo-voices: below 0, "
        "they are less similar than those of different speakers, which links them as well.",
        "Noé et al. 2020, Eq. 3, on speech of two runs", summary=False,
    ),
    "p0p1_ratio": field_of(
        Linkage, "p0p1_ratio", "P0P1/PP", "linkability across sessions",
        "The diagonal dominance between two runs as a share of that within one run: at 0 % two sessions of a speaker "
        "cannot be linked by the protected voice, at 100 % they are linked as well as two utterances of the same session.",
        "D_diag(P0P1) / D_diag(PP)",
    ),
}  # fmt: skip


class MetricFamily(contracts.MetricFamily):
    """Whether a speaker's pseudo-voices of two runs can be linked."""

    Settings = P0p1Settings
    reads = "pair_runs"
    title = "Two runs of a random system: linkability across sessions"
    metrics = METRICS
    figures = (
        FigureTable(
            "similarity_runs",
            ("block", "row_speaker", "column_speaker", "similarity"),
            "Voice similarity matrices",
            "pipeline.families.vsm.figures:plot_runs",
            PAIRS,
        ),
    )
    references = (NOE_2020,)

    @classmethod
    def measure(cls, settings: P0p1Settings, data: PairRuns) -> Measured:
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
        linked = linkage(parts["PP"], parts["P0P1"])
        counts = {"n_expected": data.n_expected, "n_used": len(codes), "n_speakers": len(names)}
        counts |= {"n_target": parts["P0P1"].n_target, "n_nontarget": parts["P0P1"].n_nontarget}
        options = {"similarity": settings.similarity, "self_pairs": settings.self_pairs}
        interval = intervals(settings, lambda: linkage_by_speaker(data.pp, data.p0p1, codes, **options))
        rows = []
        for name in cls.metrics:
            value, reason = getattr(linked, name), linked.reasons.get(name, "")
            rows.append(row(name, value, interval=interval.get(name), reason=reason, condition="PP", counts=counts))
        return Measured(rows, {"similarity_runs": matrix_table(parts, names)})
