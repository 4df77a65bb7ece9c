"""Voice similarity matrices: DeID, G_VD, the zoo and the speaker table."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd

from pipeline.contracts import Measured, Pairs, Row
from pipeline.families._rows import matrix_table, row
from pipeline.families._trials import UncertaintySettings, intervals
from pipeline.metrics import (
    Normalised,
    SimilarityMatrix,
    VsmMetrics,
    similarity_matrix,
    vsm_by_speaker,
    vsm_metrics,
)
from pipeline.registry import numeric

VERSION = 1
MEASURES = "pairs"
ZOO = {"oo": "OO", "op_original": "OP original side", "op_protected": "OP protected side", "pp": "PP"}


class Settings(UncertaintySettings):
    """Settings of the voice similarity matrices.

    Attributes:
        similarity: ``geometric_mean`` of posteriors (Noe 2022, Eq. 6) or ``sigmoid_mean`` of LLRs (Noe 2020, Eq. 2).
        pairing: ``all`` ordered pairs, or ``vpc2020`` (i < j only, also in OP).
        self_pairs: whether OP keeps the pair of an utterance with its own anonymised version.
        replicates: of bootstraps; there is no null band.
    """

    name: Literal["vsm"] = numeric("vsm")
    similarity: Literal["geometric_mean", "sigmoid_mean"] = numeric("geometric_mean")
    pairing: Literal["all", "vpc2020"] = numeric("all")
    self_pairs: Literal["drop", "keep"] = numeric("drop")


def measure(settings: Settings, data: Pairs) -> Measured:
    """D_diag of OO, OP and PP, DeID, G_VD and the normalised measures on all pairs, with tables for the figures.

    Raises:
        MetricError: a speaker without a pair of their own, by name.
    """
    names, codes = np.unique(data.speakers, return_inverse=True)
    blocks = {"oo": data.oo, "op": data.op, "pp": data.pp}
    options: dict[str, Any] = {
        "names": list(names),
        "similarity": settings.similarity,
        "pairing": settings.pairing,
        "self_pairs": settings.self_pairs,
    }
    parts: dict[str, SimilarityMatrix] = {
        block: similarity_matrix(scores, codes, **options) for block, scores in blocks.items()
    }
    found = vsm_metrics(parts["oo"], parts["op"], parts["pp"], list(names))
    counts = {"n_expected": data.n_expected, "n_used": len(codes), "n_speakers": len(names)}
    pairs = {
        block: {**counts, "n_target": part.n_target, "n_nontarget": part.n_nontarget} for block, part in parts.items()
    }
    ends = intervals(settings, lambda: vsm_by_speaker(blocks, codes, **options))

    def line(kind: Any, field: str, value: float | None, condition: str, interval: str = "", **more: str) -> Row:
        counted = pairs[condition.lower()]
        return row(kind, field, value, condition=condition, interval=ends.get(interval), counts=counted, **more)

    rows = []
    for block, part in parts.items():
        condition = block.upper()
        rows.append(line(VsmMetrics, "d_diag", part.d_diag, condition, f"d_diag.{block}"))
        rows.append(line(VsmMetrics, "signed", part.signed, condition, metric="d_diag_signed"))
    why = found.reasons
    rows.append(line(VsmMetrics, "deid", found.deid, "OP", "deid", reason=why.get("deid", "")))
    rows.append(line(VsmMetrics, "g_vd", found.g_vd, "PP", "g_vd", reason=why.get("g_vd", "")))
    others = found.normalised_all_pairs
    for field, condition in (("d_ece_op_oo", "OP"), ("cllr_min_op_oo", "OP"), ("g_d_ece", "PP"), ("g_cllr_min", "PP")):
        named = {"metric": f"{field}_all_pairs", "reason": others.reasons.get(field, "")}
        rows.append(
            line(Normalised, field, getattr(others, field), condition, f"normalised_all_pairs.{field}", **named)
        )
    matrices = matrix_table({block.upper(): part for block, part in parts.items()}, names)
    return Measured(rows, {"similarity": matrices, "zoo": _zoo(found), "speakers": _speakers(found)})


def _zoo(found: VsmMetrics) -> pd.DataFrame:
    return pd.concat(
        [
            pd.DataFrame(
                {
                    "block": block,
                    "speaker": found.speakers,
                    "x": found.zoo[key].x,
                    "y": found.zoo[key].y,
                    "doddington": found.zoo[key].doddington,
                    "dunstone_yager": found.zoo[key].dunstone_yager,
                    "note": found.zoo[key].note,
                }
            )
            for key, block in ZOO.items()
        ],
        ignore_index=True,
    )


def _speakers(found: VsmMetrics) -> pd.DataFrame:
    """D_ECE and max |LLR| are those of OP: what the attacker who enrols original speech learns of the speaker."""
    return pd.DataFrame(
        {
            "speaker": [line.speaker for line in found.speaker_table],
            "diagonal_oo": [line.diagonal["oo"] for line in found.speaker_table],
            "diagonal_op": [line.diagonal["op"] for line in found.speaker_table],
            "diagonal_pp": [line.diagonal["pp"] for line in found.speaker_table],
            "deid": [np.nan if line.deid is None else line.deid for line in found.speaker_table],
            "d_ece": [line.d_ece["op"] for line in found.speaker_table],
            "max_llr": [line.max_llr["op"] for line in found.speaker_table],
        }
    )
