"""What held-out training speakers say of the attacks on a system, beside the strongest one, which D_ECE chooses."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from pipeline.tables import results
from pipeline.tables.checks import Finding

ATTACK = ("condition", "attacker", "extractor", "trained_on", "backend")
DEFINITIONS = ("rocch", "kaldi", "speechbrain")


def choices(attacks: pd.DataFrame) -> Iterator[tuple[Mapping[str, str], Finding]]:
    """Where held-out training speakers would choose another attack than the strongest, and of which results that is said.

    Attackers who train on other copies of the training set (another level, other draws) have numbers that cannot be compared
    there: only the attacks of the strongest one's attacker are.

    Args:
        attacks: of a run (:mod:`pipeline.tables.answers`), the strongest of each subset and system first.
    """
    for (dataset, subset, system), part in attacks.groupby(["dataset", "subset", "system"], sort=False):
        strongest, *others = results.records(part)
        held = [one for one in others if one["attacker"] == strongest["attacker"] and not math.isnan(one["held_out"])]
        chosen = min(held, key=lambda one: one["held_out"], default=None)
        if chosen is None or not chosen["held_out"] < strongest["held_out"]:
            continue
        there, own = (f"{100 * one['held_out']:.1f} %" for one in (chosen, strongest))
        also = "cannot be told from the strongest" if chosen["contends"] else "discloses less"
        sentence = (
            f"Held-out training speakers would choose another attack than the strongest: {named(chosen)} has an EER of "
            f"{there} there, and the strongest {own}; on the evaluated speakers it {also}."
        )
        about = {"dataset": str(dataset), "subset": str(subset), "system": str(system)}
        yield (
            about | {name: str(strongest[name]) for name in ATTACK},
            Finding("held_out_choice", float(chosen["held_out"]), "fraction", sentence, False),
        )


def named(row: Mapping[Any, Any]) -> str:
    """An attack in words."""
    both = ", original enrolled too" if row["condition"] == "OPP" else ""
    return f"{row['attacker']}: {row['extractor']} ({row['trained_on']}), {row['backend']}{both}"


def definition(rows: pd.DataFrame) -> str:
    """The definition of the EER by which attacks are compared: that on the convex hull, or the first that there is."""
    present = set(rows.loc[rows["metric"] == "eer", "variant"]) if len(rows) else set()
    known = [name for name in DEFINITIONS if name in present]
    return str((known or sorted(present) or DEFINITIONS)[0])
