"""The attack that a system's numbers stand on: chosen on held-out training speakers, never on those who are evaluated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipeline.tables import written

TABLE = "strongest.parquet"
ATTACK = ("attacker", "extractor", "trained_on", "backend")
Attack = tuple[str, ...]
COLUMNS = ("dataset", "system", *ATTACK, "chosen", "held_out", "candidates")
HELD_OUT, MEASURED = "held-out training speakers", "lowest EER"
DEFINITIONS = ("rocch", "kaldi", "speechbrain")
BOTH = f"{HELD_OUT}, then {MEASURED}"
"""Held-out speakers chose for each of several attackers, the EER between these."""


def choose(candidates: Sequence[tuple[Mapping[str, str], Mapping[str, Any]]], rows: pd.DataFrame) -> pd.DataFrame:
    """One attack for each system.

    Where attacks were adapted to a system, it is the one with the lowest EER on held-out speakers of the system's anonymised
    training set (of equal ones the lower minimum Cllr). Attackers who train on other copies of that set (another level, other
    draws) have numbers that cannot be compared there: of the best of each, it is the one with the lowest mean EER over the
    subsets. So it is of all attacks where none was adapted, or none could be judged. That looks at the evaluated speakers, and
    errs on the side of the attacker.

    Args:
        candidates: identity of each adapted attack, and ``eer`` and ``cllr_min`` of held-out speakers.
        rows: the results.

    Returns:
        Columns :data:`COLUMNS`; ``chosen`` is :data:`HELD_OUT`, :data:`BOTH` or :data:`MEASURED`, ``held_out`` the EER there or NaN.
    """
    eers = _eers(rows)
    found = []
    for (dataset, system), measured in eers[eers["attacker"] != "unprotected"].groupby(
        ["dataset", "system"], sort=False
    ):
        held = {
            tuple(identity[name] for name in ATTACK): (float(record["eer"]), float(record["cllr_min"]))
            for identity, record in candidates
            if (identity["dataset"], identity["system"]) == (dataset, system) and record["eer"] is not None
        }
        means = measured.groupby(list(ATTACK), sort=False)["value"].mean()
        rates = {tuple(map(str, np.atleast_1d(np.array(key, dtype=object)))): float(eer) for key, eer in means.items()}
        best: dict[str, Attack] = {}
        for attack in sorted(held, key=lambda one: (*held[one], one)):
            best.setdefault(attack[0], attack)
        among = [attack for attack in best.values() if attack in rates]
        if among:
            attack = min(among, key=lambda one: (rates[one], one))
            said = (HELD_OUT if len(among) == 1 else BOTH, held[attack][0], len(held))
        else:
            attack = min(rates, key=lambda one: (rates[one], one))
            said = (MEASURED, np.nan, len(rates))
        found.append((dataset, system, *attack, *said))
    return pd.DataFrame(found, columns=list(COLUMNS)).astype({"held_out": "float64", "candidates": "int64"})


def write(table: pd.DataFrame, folder: Path) -> None:
    """Write the choice into a run folder."""
    table.to_parquet(folder / TABLE, index=False)


def read(folder: Path) -> pd.DataFrame:
    """The choice of a run folder; none where there is no such file."""
    path = folder / TABLE
    return written.parquet(path) if path.is_file() else choose([], pd.DataFrame())


def measured(choice: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """What the chosen attacks have on the evaluated speakers, one row a subset and system.

    Returns:
        Columns ``dataset subset system``, those of the attack, ``chosen held_out value low high``, and ``lowest``: the lowest
        EER of all attacks on the same trials, with ``lowest_by``, the attack that has it.
    """
    eers = _eers(rows)
    eers = eers[eers["attacker"] != "unprotected"]
    keys = ["dataset", "system", *ATTACK]
    found = choice.merge(eers[[*keys, "subset", "value", "low", "high"]], on=keys, how="inner")
    lowest = eers.loc[eers.groupby(["dataset", "system", "subset"], sort=False)["value"].idxmin()]
    lowest = lowest.assign(lowest=lowest["value"], lowest_by=[named(row) for row in lowest.to_dict("records")])
    return found.merge(
        lowest[["dataset", "system", "subset", "lowest", "lowest_by"]], on=["dataset", "system", "subset"]
    )


def named(row: Mapping[Any, Any]) -> str:
    """An attack in words."""
    return f"{row['attacker']}: {row['extractor']} ({row['trained_on']}), {row['backend']}"


def definition(rows: pd.DataFrame) -> str:
    """The definition of the EER by which attacks are compared: that on the convex hull, or the first that there is."""
    present = set(rows.loc[rows["metric"] == "eer", "variant"]) if len(rows) else set()
    known = [name for name in DEFINITIONS if name in present]
    return str((known or sorted(present) or DEFINITIONS)[0])


def _eers(rows: pd.DataFrame) -> pd.DataFrame:
    """The EERs of attacks, one of each."""
    if not len(rows):
        return pd.DataFrame(columns=["dataset", "system", "subset", *ATTACK, "value", "low", "high"])
    return rows[(rows["metric"] == "eer") & (rows["variant"] == definition(rows)) & rows["value"].notna()]
