"""Which minimum-EER conditions of a challenge each system meets, by the challenge's rule and by the leaderboard's attack."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pipeline.products.checks import choices
from pipeline.tables.bands import COLUMNS, STRONGEST


def rank(
    rows: pd.DataFrame,
    board: pd.DataFrame,
    *,
    subset: str,
    edges: Sequence[float],
    attackers: Sequence[str],
    variant: str = "",
) -> pd.DataFrame:
    """The conditions of each system, one row by the attacker as the challenge ranks and one by the leaderboard's.

    Args:
        rows: the results, averages among them.
        board: the leaderboard (:mod:`pipeline.tables.answers`), with the strongest attack on each system.
        subset: whose EER counts.
        edges: the least EER of condition 1, 2, ..., ascending fractions.
        attackers: by whose lowest EER the challenge ranks.
        variant: definition of the EER; '' is that by which attacks are compared.

    Returns:
        Columns :data:`COLUMNS`. ``met`` is the highest condition whose limit the EER reaches, 0 for none; ``least`` and ``most``
        are those of the ends of its interval (those of the value where it has none). ``status`` is that of the EER.
    """
    variant = variant or choices.definition(rows)
    wanted = (rows["metric"] == "eer") & (rows["variant"] == variant) & (rows["subset"] == subset)
    attacks = rows[wanted & rows["value"].notna() & (rows["attacker"] != "unprotected")]
    found = []
    for (dataset, system), part in attacks.groupby(["dataset", "system"], sort=False):
        own = board[(board["dataset"] == dataset) & (board["system"] == system) & (board["subset"] == subset)]
        # On a mean another attack may count on each set: the lowest of them stands for all.
        known = [own[name].astype(str).str.split(" / ").explode() for name in choices.ATTACK]
        ours = part[np.all([part[name].isin(list(one)) for name, one in zip(choices.ATTACK, known)], axis=0)]
        theirs = part[part["attacker"].isin(list(attackers))]
        for name, several in ((", ".join(attackers), theirs), (STRONGEST, ours)):
            for row in several.nsmallest(1, "value").to_dict("records"):
                found.append(dict(zip(COLUMNS, (dataset, subset, system, name, *_ranked(row, variant, edges)))))
    return pd.DataFrame(found, columns=list(COLUMNS))


def _ranked(row: dict[Any, Any], variant: str, edges: Sequence[float]) -> Iterator[Any]:
    value, low, high = (float(row[name]) for name in ("value", "low", "high"))
    yield from (choices.named(row), variant, value, low, high)
    for end in (value, value if np.isnan(low) else low, value if np.isnan(high) else high):
        yield sum(end >= edge for edge in edges)
    yield ",".join(f"{edge:.9g}" for edge in edges)
    yield row["status"]
