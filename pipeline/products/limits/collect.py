"""The limits of detection as tables, and beside each system in the leaderboard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from pipeline.engine.task import Ref
from pipeline.products import FIGURES, Collection
from pipeline.products.limits.compute import CURVES, LIMITS
from pipeline.stages.graph import Product
from pipeline.tables import answers, results


@dataclass(frozen=True)
class Limits(Product):
    """The limits of detection of a system (:func:`pipeline.products.limits.compute.find_limits`)."""

    ref: Ref

    needs_rank = True


def collect_limits(collected: Collection) -> None:
    """Add the table ``limits``, its curves as a table for a figure, and the limit over utterances to the rows of the leaderboard that have
    a number."""
    limits: list[dict[str, Any]] = []
    curves: list[pd.DataFrame] = []
    for product in collected.graph.select(Limits):
        artefact = collected.outcome.artefact(product.ref)
        about = {name: product.identity[name] for name in ("dataset", "system")}
        limits += [about | row for row in results.records(pd.read_parquet(artefact.path(LIMITS)))]
        curves.append(pd.read_parquet(artefact.path(CURVES)).assign(system=product.system))
    board = collected.tables["leaderboard"].copy()
    numbered = {
        (str(row["subset"]), str(row["system"])): place
        for place, row in board.iterrows()
        if row["status"] != "incomplete"
    }
    kept = [row for row in limits if (row["subset"], row["system"]) in numbered]
    for row in kept:
        if row["unit"] == "utterance":
            columns = ["limit", "limit_rise", "limit_reason"]
            board.loc[numbered[row["subset"], row["system"]], columns] = [row["share"], row["rise"], row["reason"]]
    collected.tables["leaderboard"] = board
    collected.tables["limits"] = answers.frame("limits", kept)
    shown = [
        part[[(subset, system) in numbered for subset, system in zip(part["subset"], part["system"])]]
        for part in curves
    ]
    if sum(map(len, shown)):
        pd.concat(shown).to_parquet(collected.folder / FIGURES / CURVES, index=False)
