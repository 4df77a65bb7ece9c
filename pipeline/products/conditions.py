"""Which minimum-EER conditions of a challenge each system meets, by the challenge's rule and by the leaderboard's attack."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
import pandas as pd

from pipeline.products import Collection as Collected
from pipeline.products import ProductKind, find_eer_definition, name_attack
from pipeline.stages.settings import Evaluation, list_averages
from pipeline.tables import answers
from pipeline.tables.answers import ATTACK, BANDS, STRONGEST


def list_unranked(evaluation: Evaluation, sets: Collection[str]) -> Iterator[str]:
    """Why systems are not put into the conditions of a challenge, or not as it puts them; ``sets`` are the trial sets."""
    ranking = evaluation.products.bands
    if ranking is None:
        return
    means = {average.subset for average in list_averages(evaluation, sets).values() if "eer" in average.metrics}
    if ranking.subset not in means | set(sets):
        yield f"no minimum-EER conditions: there is no '{ranking.subset}' (bands.subset), a trial set or an average of the EER"
    elif ranking.attacker and ranking.attacker not in evaluation.attackers:
        yield f"minimum-EER conditions by the strongest attack alone: no attacker {ranking.attacker} is chosen (bands.attacker)"
    elif not _rankers(evaluation):
        yield (
            "minimum-EER conditions by the strongest attack alone: no chosen attacker adapts to the systems, as those do by whom "
            "the challenges rank (training=anonymised)"
        )


def _rankers(evaluation: Evaluation) -> list[str]:
    """The attackers by whose lowest EER systems are ranked: the one that is named, else those that adapt to a system."""
    ranking = evaluation.products.bands
    return [ranking.attacker] if ranking is not None and ranking.attacker else list(evaluation.adapting)


def collect_bands(collected: Collected) -> None:
    """Write the conditions of the systems that the leaderboard has, where they are asked for."""
    ranking, board, rows = collected.evaluation.products.bands, collected.tables["leaderboard"], collected.rows
    if ranking is None:
        return
    if collected.graph.left_out:
        rows = rows[rows["system"].isin(board["system"])]
    rule = ranking.model_dump(exclude={"attacker"})
    answers.write_bands(rank(rows, board, attackers=_rankers(collected.evaluation), **rule), collected.folder)


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
        Columns :data:`BANDS`. ``met`` is the highest condition whose limit the EER reaches, 0 for none; ``least`` and ``most``
        are those of the ends of its interval (those of the value where it has none). ``status`` is that of the EER.
    """
    variant = variant or find_eer_definition(rows)
    wanted = (rows["metric"] == "eer") & (rows["variant"] == variant) & (rows["subset"] == subset)
    attacks = rows[wanted & rows["value"].notna() & (rows["attacker"] != "unprotected")]
    ranked = []
    for (dataset, system), part in attacks.groupby(["dataset", "system"], sort=False):
        own = board[(board["dataset"] == dataset) & (board["system"] == system) & (board["subset"] == subset)]
        # On a mean another attack may count on each set: the lowest of them stands for all.
        shown = [own[name].astype(str).str.split(" / ").explode() for name in ATTACK]
        strongest = part[np.all([part[name].isin(list(values)) for name, values in zip(ATTACK, shown)], axis=0)]
        by_rule = part[part["attacker"].isin(list(attackers))]
        for name, candidates in ((", ".join(attackers), by_rule), (STRONGEST, strongest)):
            for row in candidates.nsmallest(1, "value").to_dict("records"):
                value, low, high = (float(row[end]) for end in ("value", "low", "high"))
                ends = (value, value if np.isnan(low) else low, value if np.isnan(high) else high)
                met = [sum(end >= edge for edge in edges) for end in ends]
                about = (dataset, subset, system, name, name_attack(row), variant, value, low, high)
                ranked.append((*about, *met, ",".join(f"{edge:.9g}" for edge in edges), row["status"]))
    return pd.DataFrame(ranked, columns=list(BANDS))


KIND = ProductKind(order=80, collect=collect_bands, needs_speech=False)
