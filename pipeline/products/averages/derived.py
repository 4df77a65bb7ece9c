"""Rows that follow from other rows: protected speech relative to original speech (Noe 2022, Eq. 17-20) on trial lists."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pipeline.datasets.prepare import Prepared
from pipeline.metrics import Undefined
from pipeline.metrics.gains import cllr_min_op_oo, d_ece_op_oo, g_cllr_min, g_d_ece
from pipeline.products.averages import collect
from pipeline.products.averages.plan import NORMALISED, formed
from pipeline.report import glossary
from pipeline.seeds import digest
from pipeline.stages.settings import Evaluation
from pipeline.tables import results
from pipeline.tables.results import make_signature

VERSION = "relative measures 1"
TRIAL_LISTS = "trial_lists"
"""The variant of measures on enrolment and trial lists; those of all pairs of a set have another."""
CONDITIONS = {"d_ece_op_oo": "OP", "cllr_min_op_oo": "OP", "g_d_ece": "PP", "g_cllr_min": "PP"}
EQUATIONS: dict[str, Callable[[float, float], float]] = {
    "d_ece_op_oo": d_ece_op_oo,
    "cllr_min_op_oo": cllr_min_op_oo,
    "g_d_ece": g_d_ece,
    "g_cllr_min": g_cllr_min,
}
SAME = ("dataset", "subset", "extractor", "trained_on", "backend", "calibration", "metric", "variant")
"""What an attack and the unprotected speech that it is held against have in common."""

Row = dict[str, Any]


def rows(measured: Sequence[Row], data: Prepared, asked: Evaluation) -> list[Row]:
    """All rows that follow from those that were measured, as the results have them."""
    relative = list(normalised(measured)) if asked.derived else []
    return relative + collect.formed([*measured, *relative], formed(asked, data.trials), data)


def normalised(measured: Sequence[Row]) -> Iterator[Row]:
    """Eq. 17-20 of each attack on protected speech, wherever unprotected speech was tried with the same extractor, as it was
    trained, and the same back end. There is no interval: the rows do not tell how far the two numbers move together."""
    unprotected = {tuple(row[name] for name in SAME): row for row in measured if row["attacker"] == "unprotected"}
    for row in measured:
        original = unprotected.get(tuple(row[name] for name in SAME))
        if original is None or original is row or row["attacker"] in ("", "unprotected"):
            continue
        for name, of in NORMALISED.items():
            if (row["metric"], row["condition"]) == (of, CONDITIONS[name]):
                yield _relative(name, original, row)


def _relative(name: str, original: Row, attacked: Row) -> Row:
    said = glossary.metric(name)
    values = [collect.number(row, "value") for row in (original, attacked)]
    value, reason = math.nan, ""
    if any(map(math.isnan, values)):
        reason = "; ".join(dict.fromkeys(row["reason"] for row in (original, attacked) if row["reason"])) or "no value"
    else:
        try:
            value = EQUATIONS[name](*values)
        except Undefined as undefined:
            reason = str(undefined)
    about = {**attacked, "metric": name, "variant": ", ".join(filter(None, [TRIAL_LISTS, attacked["variant"]]))}
    return {
        **about,
        **dict.fromkeys(results.NUMBERS, math.nan),
        "value": value,
        "label": "",
        "unit": said.unit,
        "direction": said.private,
        "status": max((row["status"] for row in (original, attacked)), key=collect.STATUSES.index),
        "reason": reason,
        "note": "; ".join(dict.fromkeys(filter(None, (original["note"], attacked["note"])))),
        "signature": make_signature(
            about, {"of": f"({original['signature']}) and ({attacked['signature']})", "code": VERSION}
        ),
        "input_digest": digest([original["input_digest"], attacked["input_digest"]]),
    }
