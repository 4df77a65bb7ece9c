"""The limits of detection as tables, and beside each system in the leaderboard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from pipeline.engine.task import Ref
from pipeline.products import Collection
from pipeline.products.limits.compute import CURVES, LIMITS
from pipeline.stages.graph import Product
from pipeline.tables import answers, results


@dataclass(frozen=True)
class Limits(Product):
    """The limits of detection of a system (:func:`pipeline.products.limits.compute.find_limits`)."""

    ref: Ref

    needs_rank = True


def collect_limits(collected: Collection) -> None:
    """Add the tables ``limits`` and ``leak_curves``, and the limit over utterances to the rows of the leaderboard that have a number."""
    limits: list[dict[str, Any]] = []
    curves: list[dict[str, Any]] = []
    for product in collected.graph.select(Limits):
        artefact = collected.outcome.artefact(product.ref)
        about = {name: product.identity[name] for name in ("dataset", "system")}
        limits += [about | row for row in results.records(pd.read_parquet(artefact.path(LIMITS)))]
        curves += [about | row for row in results.records(pd.read_parquet(artefact.path(CURVES)))]
    board = collected.tables["leaderboard"].copy()
    numbered = {
        (str(row["subset"]), str(row["system"])): place
        for place, row in board.iterrows()
        if row["status"] != "incomplete"
    }
    kept = [row for row in limits if (row["subset"], row["system"]) in numbered]
    for row in kept:
        if row["unit"] == "utterance":
            board.loc[numbered[row["subset"], row["system"]], ["limit", "limit_rise"]] = [row["share"], row["rise"]]
    collected.tables["leaderboard"] = board
    collected.tables["limits"] = answers.frame("limits", kept)
    collected.tables["leak_curves"] = answers.frame(
        "leak_curves", [row for row in curves if (row["subset"], row["system"]) in numbered]
    )
