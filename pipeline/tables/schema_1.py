"""Results rows as they were written before schema 2.

There the variant of a row also held its estimator and its unit of input (``empirical, segment``), null bands were rows of their
own (variant ``null_band`` or ``<variant>:null_band``) and so were ceilings (metric ``<metric>_ceiling``), some metrics had names
of their own beside the JSON keys of ``from-scores``, and ``reason`` held notes on values as well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from pipeline.tables.signature import of_metric

PLACE = [
    "run_id", "dataset", "subset", "condition", "system", "system_level", "attacker", "extractor", "trained_on", "backend",
    "calibration",
]  # fmt: skip
"""What tells rows apart beside metric and variant."""

BAND = "null_band"
CEILING = "_ceiling"
ESTIMATORS = ("empirical", "beta_binomial")
RENAMED = {
    "d_diag_signed": ("signed", ""),
    "d_ece_op_oo_all_pairs": ("d_ece_op_oo", "all_pairs"),
    "cllr_min_op_oo_all_pairs": ("cllr_min_op_oo", "all_pairs"),
    "g_d_ece_all_pairs": ("g_d_ece", "all_pairs"),
    "g_cllr_min_all_pairs": ("g_cllr_min", "all_pairs"),
}
"""Metric and variant of schema 2."""

Key = tuple[str, ...]


def rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table of schema 1 in the columns of schema 2, a row a value with all that belongs to it."""
    found: dict[Key, dict[str, Any]] = {}
    beside: list[tuple[Key, Mapping[Any, Any], dict[str, Any]]] = []
    metrics = set(table["metric"])
    for old in table.to_dict("records"):
        place = tuple(str(old[name]) for name in PLACE)
        metric, variant = str(old["metric"]), str(old["variant"])
        bare = variant.removesuffix(BAND).removesuffix(":")
        of_ceiling = metric.removesuffix(CEILING)
        if variant in (BAND, f"{bare}:{BAND}"):
            beside.append(((*place, metric, bare), old, {"null_low": old["low"], "null_high": old["high"]}))
        elif metric != of_ceiling and of_ceiling in metrics:
            beside.append(((*place, of_ceiling, variant), old, {"ceiling": old["value"]}))
        else:
            found[(*place, metric, variant)] = _row(old, metric, variant)
    for key, its, more in beside:
        if key not in found:  # a band or a ceiling without its value is kept as it is
            found[key] = _row(its, *key[-2:]) | dict.fromkeys(("value", "low", "high"), math.nan)
        found[key] |= more
    return list(found.values())


def _row(old: Mapping[Any, Any], metric: str, variant: str) -> dict[str, Any]:
    """A row of its own; ``metric`` and ``variant`` without what says that it is a band or a ceiling."""
    new: dict[str, Any] = {str(name): value for name, value in old.items() if name != "schema_version"}
    estimator, _, unit = variant.partition(", ")
    if estimator in ESTIMATORS:
        new |= {"metric": metric, "variant": "", "estimator": estimator, "input_unit": unit}
    else:
        name, renamed = RENAMED.get(metric, (metric, variant))
        new |= {"metric": name, "variant": renamed, "estimator": "", "input_unit": ""}
    # A tag is a value in words. Other words beside no value (of a fit) do not stand for it.
    valued = not math.isnan(old["value"]) or (old["unit"] == "tag" and bool(old["label"]))
    new |= {"reason": "", "note": old["reason"]} if valued else {"reason": old["reason"], "note": ""}
    begins = ":".join(filter(None, [old["metric"], old["variant"]]))
    if str(old["signature"]).startswith(f"{begins}|"):
        new["signature"] = of_metric(new) + str(old["signature"]).removeprefix(begins)
    return new
