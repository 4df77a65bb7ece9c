"""Answers: the leaderboard, all attacks behind it, and the differences between systems, from what the tasks of a run found."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pipeline.engine.outcome import Outcome
from pipeline.engine.task import Artefact
from pipeline.metrics import holm, shared_ranks
from pipeline.products.strongest.compute import ATTACKS, ROWS, STRONGEST
from pipeline.report import verdict as words
from pipeline.stages.graph import Answered, Compared, Graph
from pipeline.tables import answers, records, results
from pipeline.tables.answers import ATTACK, TAKEN

Row = dict[str, Any]
ALPHA = 0.05
"""p-values up to it tell systems apart."""
LEAST_PRIVATE = {"alid": max, "mean_d": max, "idr": max, "deid": min, "g_vd": max}
STATUSES = ("ok", "partial", "incomplete")
OF_MEANS = (*TAKEN, "alid_chance")
"""Metrics of which the leaderboard has means over sets, whether the results have them or not."""


def formed(
    graph: Graph,
    measured: pd.DataFrame,
    rows: pd.DataFrame,
    outcome: Outcome,
    allow_partial: bool,
    means: Sequence[Row] = (),
    unchecked: str = "",
) -> dict[str, pd.DataFrame]:
    """The tables of :mod:`pipeline.tables.answers`.

    Numbers are there only where the attacks stand on everything that was expected, or with ``allow_partial``, marked.

    Args:
        measured: rows of results that are no averages.
        rows: all rows of results.
        means: further rows: means of the metrics in :data:`OF_MEANS` over sets.
        unchecked: why it was not checked whether the attacks were strong enough; '' if it was.
    """
    found = _Results(measured, rows, graph.means, means)
    known_of = _held_out(graph, outcome)
    boards: list[Row] = []
    behind: list[Row] = []
    spared = _spared(graph.answered)
    for one in graph.answered:
        made = outcome.artefact(one.ref)
        here = [found.completed(one, row) for row in _read(made, ROWS)]
        status = {row["subset"]: _status(found, one, row, allow_partial) for row in here}
        boards += [_board(found, one, row, *status[row["subset"]]) for row in here]
        behind += [_behind(one, row, known_of, *status[row["subset"]]) for row in _read(made, ATTACKS)]
    if unchecked:
        boards = [{**row, "unchecked": unchecked} for row in boards]
    boards += list(_absent(found, graph.answered, boards))
    known = {one.identity["system"]: one for one in graph.answered}
    held = {(row["subset"], row["system"]): (row["status"], row["reason"]) for row in boards}
    differences = [
        _difference(found, known[one.b], known[one.a], one, row, held)
        for one in graph.compared
        for row in _read(outcome.artefact(one.ref), ROWS)
        if one.a in known and one.b in known
    ]
    _correct(differences)
    for row in boards:
        names = [name for name in spared.get(row["system"], []) if f"{name} with " not in row.get("untried", "")]
        row["untried"] = ", ".join(filter(None, [row.get("untried", ""), *names]))
    _rank(boards, differences, spared)
    for row in differences:
        row["sentence"] = words.describe_difference(row)
    return {
        "leaderboard": answers.frame("leaderboard", boards),
        "attacks": answers.frame("attacks", behind),
        "differences": answers.frame("differences", differences),
    }


def _spared(answered: Sequence[Answered]) -> dict[str, list[str]]:
    """The attackers that were tried on other systems and not on this one, by system: such a system has no rank beside the others."""
    tried = {one.identity["system"]: {attack["attacker"] for attack in one.attacks} for one in answered if one.protects}
    everyone = set[str]().union(*tried.values())
    return {system: sorted(everyone - attackers) for system, attackers in tried.items() if everyone - attackers}


def _absent(found: _Results, answered: Sequence[Answered], boards: Sequence[Row]) -> Iterator[Row]:
    """Rows without numbers of systems that protect, of subsets on which others were attacked and they were not."""
    there = {(row["subset"], row["system"]): row["n_sets"] for row in boards}
    known = {subset: n_sets for (subset, _), n_sets in there.items()}
    sets_of: dict[str, set[str]] = {}
    for subset, system in there:
        sets_of.setdefault(system, set()).add(subset)
    for one in answered:
        system = one.identity["system"]
        for subset, n_sets in known.items():
            if one.protects and (subset, system) not in there:
                lacking = [name for name in found.parts(subset) if name not in sets_of.get(system, set())]
                reason = f"no attack was tried on {', '.join(lacking)}"
                about = {**one.identity, "subset": subset, "n_sets": n_sets, "anonymised": True}
                yield {**about, "status": "incomplete", "reason": reason}


def _read(made: Artefact, name: str) -> list[Row]:
    return results.records(pd.read_parquet(made.path(name)))


class _Results:
    """Rows of results, by what they are about."""

    def __init__(
        self,
        measured: pd.DataFrame,
        rows: pd.DataFrame,
        means: Mapping[str, Mapping[str, float]],
        further: Sequence[Row] = (),
    ) -> None:
        self.rows, self.means = [*results.records(rows), *further], means
        self.measured = results.records(measured)

    def parts(self, subset: str) -> list[str]:
        """The sets of a mean, or the subset itself."""
        return list(self.means.get(subset, {subset: 1.0}))

    def completed(self, one: Answered, row: Row) -> Row:
        """A row of the artefact with the columns of its attack; where a mean has another one on each set, of all of them."""
        attacks = list(self.chosen(one, row["subset"], row["attack"]).values())
        joined = {name: " / ".join(dict.fromkeys(attack[name] for attack in attacks)) for name in ATTACK}
        return {**row, **joined, "by_set": self.by_set(one, row["subset"], row["attack"])}

    def chosen(self, one: Answered, subset: str, numbers: str) -> dict[str, Mapping[str, str]]:
        """By set, the attack that counts there."""
        return {name: one.attacks[int(number)] for name, number in zip(self.parts(subset), numbers.split())}

    def by_set(self, one: Answered, subset: str, numbers: str) -> str:
        """The attacks of a mean in words, by what tells its sets apart; '' where one attack counts on all."""
        attacks = self.chosen(one, subset, numbers)
        return words.describe_attack_by_set(attacks) if len(set(numbers.split())) > 1 else ""

    def named(self, one: Answered, subset: str, numbers: str) -> str:
        """The attack on a subset or a mean in words; '' where there is none."""
        attacks = self.chosen(one, subset, numbers)
        return self.by_set(one, subset, numbers) or next(map(words.describe_attack, attacks.values()), "")

    def of_attack(self, one: Answered, subset: str, metric: str, numbers: str) -> list[Row]:
        """The rows of a metric of the attack on a subset, or on each set of a mean."""
        about = {"system": one.identity["system"], "metric": metric}
        wanted = [
            {**about, "subset": name, **{column: attack[column] for column in ATTACK}}
            for name, attack in self.chosen(one, subset, numbers).items()
        ]
        return [row for each in wanted for row in self.measured if _has(row, each)]

    def short(self, one: Answered, subset: str) -> list[Row]:
        """Rows of the error rates of all attacks that do not stand on everything."""
        subsets = self.parts(subset)
        return [
            row
            for row in self.measured
            if row["metric"] in ("eer", "d_ece", "cllr_min")
            and row["subset"] in subsets
            and row["system"] == one.identity["system"]
            and row["attacker"]
            and row["status"] != "ok"
        ]

    def taken(self, one: Answered, subset: str, metric: str, numbers: str) -> Row:
        """A metric about no attack: of the extractor of the attack where it has it, else what discloses most; of a mean whose sets have
        other attacks the mean of theirs, without an interval."""
        attacks = self.chosen(one, subset, numbers)
        if not self.by_set(one, subset, numbers):
            return self._taken(one, subset, metric, next(iter(attacks.values())))
        each = [self._taken(one, name, metric, attack) for name, attack in attacks.items()]
        if not all(each):
            return {}
        weights = self.means[subset].values()
        by = " / ".join(dict.fromkeys(found[f"{metric}_by"] for found in each))
        names = [metric, "alid_chance"] if metric == "alid" else [metric]
        return {name: math.fsum(w * found[name] for w, found in zip(weights, each)) for name in names} | {
            f"{metric}_by": by
        }

    def _taken(self, one: Answered, subset: str, metric: str, attack: Mapping[str, Any]) -> Row:
        """Of one attack."""
        rows = [
            row
            for row in self.rows
            if _has(row, {"system": one.identity["system"], "metric": metric})
            and not math.isnan(row["value"])
            and row["estimator"] in ("", "empirical")
        ]
        here = [row for row in rows if row["subset"] == subset]
        pools = {row["subset"] for row in rows} - set(one.subsets) - set(self.means)
        rows = here or [row for row in rows if row["subset"] in pools and len(pools) == 1]
        if not rows:
            return {}
        own = [row for row in rows if all(row[name] == attack[name] for name in ATTACK)] or [
            row for row in rows if (row["extractor"], row["trained_on"]) == (attack["extractor"], attack["trained_on"])
        ]
        best = LEAST_PRIVATE[metric](own or rows, key=lambda row: (row["value"], row["extractor"], row["trained_on"]))
        by = ", ".join(
            filter(None, [best["extractor"], best["backend"] if best["condition"] != "PP" or best["attacker"] else ""])
        )
        found = {
            metric: best["value"],
            f"{metric}_low": best["low"],
            f"{metric}_high": best["high"],
            f"{metric}_by": by,
        }
        if metric == "alid":
            wanted = {name: best[name] for name in results.IDENTITY if name != "metric"} | {"metric": "alid_chance"}
            found |= {"alid_chance": next((row["value"] for row in self.rows if _has(row, wanted)), math.nan)}
        return found


def _has(row: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(row[name] == value for name, value in wanted.items())


def _status(found: _Results, one: Answered, row: Row, allow_partial: bool) -> tuple[str, str]:
    """Whether the attacks on a subset stand on everything, and if not why."""
    short = found.short(one, row["subset"])
    lacking = row["n_used"] < row["n_expected"]
    if not short and not lacking:
        return ("incomplete", row["reason"]) if row["reason"] else ("ok", "")
    if allow_partial and not row["reason"]:
        return "partial", ""
    said = [row["reason"], *(one["reason"] for one in short)]
    if lacking:
        said.append(
            f"stands on {row['n_used']:.0f} of {row['n_expected']:.0f}; allow_partial=true would write it, marked"
        )
    return "incomplete", "; ".join(dict.fromkeys(filter(None, said[:3]))) or "not all attacks stand on everything"


def _board(found: _Results, one: Answered, row: Row, status: str, reason: str) -> Row:
    about = {**one.identity, "subset": row["subset"], "anonymised": one.protects, "status": status, "reason": reason}
    about |= {name: _whole(row[name]) for name in ("n_attacks", "n_expected", "n_used", "n_target", "n_nontarget")}
    about["n_sets"] = len(found.parts(row["subset"]))
    about["untried"] = ", ".join([*one.untried, *_elsewhere(one, found.parts(row["subset"]))])
    if status == "incomplete":
        return about
    kept = ("d_ece", "d_ece_low", "d_ece_high", "d_ece_corrected", "null_low", "null_high", "p_chance", "eer", "eer_low", "eer_high",
            "lowest_eer", "lowest_eer_low", "lowest_eer_high", "pp_d_ece", "pp_eer", "pp_p_chance", "alid_ceiling", "by_set",
            "interval_reason", "null_reason", *ATTACK)  # fmt: skip
    about |= {name: row[name] for name in kept}
    about |= {name: found.named(one, row["subset"], row[name]) for name in ("lowest_eer_attack", "pp_attack")}
    about |= {"contenders": len(row["contenders"].split()), "n_speakers": _whole(row["n_speakers"])}
    if not math.isnan(row["null_high"]):
        about["chance"] = "above" if row["d_ece"] > row["null_high"] else "within"
    attack = row["attack"]
    worst = [one for one in found.of_attack(one, row["subset"], "l_w", attack) if not math.isnan(one["value"])]
    if worst and len(worst) == len(found.parts(row["subset"])):
        most = max(worst, key=lambda one: one["value"])
        tags = [tag for tag in found.of_attack(one, row["subset"], "tag", attack) if tag["subset"] == most["subset"]]
        about |= {"l_w": most["value"], "l_w_ceiling": most["ceiling"], "tag": tags[0]["label"] if tags else ""}
    for metric in TAKEN:
        about |= found.taken(one, row["subset"], metric, attack)
    return about


def _elsewhere(one: Answered, parts: Sequence[str]) -> Iterator[str]:
    """Attacks that are on other sets, or on some of these alone."""
    for number, attack in enumerate(one.attacks):
        lacking = [name for name in parts if number not in one.subsets[name]]
        if lacking:
            yield f"{words.describe_attack(attack)} on {', '.join(lacking)}"


def _whole(number: float) -> int | None:
    return None if number is None or math.isnan(number) else int(number)


def _held_out(graph: Graph, outcome: Outcome) -> dict[tuple[str, ...], float | None]:
    """The EER of attacks that were adapted to a system on held-out speakers of their training set."""
    return {
        tuple(one.identity[name] for name in ("system", *ATTACK)): records.read(outcome.artefact(one.check).folder)[
            "eer"
        ]
        for one in graph.candidates
    }


def _behind(one: Answered, row: Row, known_of: Mapping[tuple[str, ...], float | None], status: str, reason: str) -> Row:
    attack = one.attacks[int(row["attack"])]
    about = {**{name: attack[name] for name in ATTACK}, "subset": row["subset"], "status": status}
    about |= {name: one.identity[name] for name in ("dataset", "system")}
    about["held_out"] = known_of.get((one.identity["system"], *(attack[name] for name in ATTACK)))
    if status == "incomplete":
        return about
    kept = ("d_ece", "d_ece_low", "d_ece_high", "eer", "eer_low", "eer_high")
    return {**about, **{name: row[name] for name in kept}, "contends": bool(row["contends"])}


# ------------------------------------------------------------------------------------------------------------- differences


UNITS = {"d_ece": "bit", "eer": "fraction"}


def _difference(
    found: _Results,
    system: Answered,
    reference: Answered,
    one: Compared,
    row: Row,
    held: Mapping[tuple[str, str], tuple[str, str]],
) -> Row:
    """A row of the differences: b is the system, a its reference."""
    about = {
        "dataset": system.identity["dataset"],
        "subset": row["subset"],
        "under": row["under"],
        "system": one.b,
        "reference": one.a,
        "baseline": one.to_baseline,
        "unprotected": not reference.protects,
        "attack": _named(found, system, row, "attack_b"),
        "reference_attack": _named(found, reference, row, "attack_a"),
        "metric": row["metric"],
        "unit": UNITS[row["metric"]],
        "status": "ok",
        "reason": row["reason"],
    }
    short = {name: held.get((row["subset"], name), ("ok", "")) for name in (one.a, one.b)}
    about["status"] = max((status for status, _ in short.values()), key=STATUSES.index)
    if about["status"] == "incomplete":
        said = [f"{name}: {reason}" for name, (status, reason) in short.items() if status == "incomplete"]
        return {**about, "reason": "; ".join(said)}
    kept = {"value": "b", "reference_value": "a", "exact": "exact"}
    about |= {name: row[other] for name, other in kept.items()}
    about |= {name: row[name] for name in ("difference", "low", "high", "p_value")}
    return {**about, "exact": row["exact"] == 1, "n_speakers": _whole(row["n_speakers"]), "swaps": _whole(row["swaps"])}


def _named(found: _Results, one: Answered, row: Row, side: str) -> str:
    if row["under"] == STRONGEST:
        return found.named(one, row["subset"], row[side])
    return words.describe_attack(one.attacks[int(row[side])]) if row[side] else ""


def _correct(rows: Sequence[Row]) -> None:
    """Correct p-values over all rows with the same subset, kind of attack and metric: those against unprotected speech, which say
    whether systems protect, are a family of their own."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        if not math.isnan(row.get("p_value", math.nan)):
            groups.setdefault(tuple(row[name] for name in ("subset", "under", "metric", "unprotected")), []).append(row)
    for several in groups.values():
        for row, p in zip(several, holm([row["p_value"] for row in several])):
            row |= {"p_holm": float(p), "n_compared": len(several)}


def _rank(boards: list[Row], differences: Sequence[Row], without_rank: Collection[str]) -> None:
    """Ranks of the systems that protect, shared where nothing separates them, and the order of the rows: best first."""
    better = list(_better(differences))
    subsets = list(dict.fromkeys(row["subset"] for row in boards))
    for subset in subsets:
        ranked = [row for row in boards if row["subset"] == subset and row["anonymised"] and "d_ece" in row]
        ranked = [row for row in ranked if row["system"] not in without_rank]
        place = {row["system"]: number for number, row in enumerate(ranked)}
        pairs = [
            (place[one], place[other]) for of, one, other in better if of == subset and one in place and other in place
        ]
        for row, rank in zip(ranked, shared_ranks(len(ranked), pairs)):
            row["rank"] = rank
    last = np.inf
    boards.sort(
        key=lambda row: (
            subsets.index(row["subset"]),
            not row["anonymised"],
            row.get("rank", last),
            _corrected(row),
        )
    )


def _corrected(row: Row) -> float:
    """D_ECE of the strongest attack for the order: corrected for optimism, where that can be done."""
    value = row.get("d_ece_corrected", math.nan)
    return float(row.get("d_ece", math.inf) if value is None or math.isnan(value) else value)


def _better(rows: Sequence[Row]) -> Iterator[tuple[str, str, str]]:
    """(Subset, system, system that it is shown to be better than)."""
    for row in rows:
        if (row["under"], row["metric"]) == (STRONGEST, "d_ece") and row.get("p_holm", 1.0) <= ALPHA:
            names = (row["system"], row["reference"])
            yield (row["subset"], *(names if row["difference"] < 0 else names[::-1]))
