"""The leaderboard, all attacks behind it, and the differences between systems, from what the tasks of a run left."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pipeline.engine.task import Artefact, Ref
from pipeline.metrics import holm, shared_ranks
from pipeline.products import Collection as Collected
from pipeline.products.strongest.compute import ATTACKS, ROWS, STRONGEST
from pipeline.report import verdict as words
from pipeline.stages.graph import Product, StrongestAttack
from pipeline.stages.settings import list_averages
from pipeline.tables import answers, records, results
from pipeline.tables.answers import ATTACK, TAKEN

Row = dict[str, Any]
ALPHA = 0.05
"""p-values up to it tell systems apart."""
LEAST_PRIVATE = {"alid": max, "mean_d": max, "idr": max, "deid": min, "g_vd": max}
STATUSES = ("ok", "partial", "incomplete")
UNITS = {"d_ece": "bit", "eer": "fraction"}


@dataclass(frozen=True)
class SystemPair(Product):
    """Two systems that are compared: that of its identity minus the reference.

    Attributes:
        ref: the artefact (:func:`pipeline.products.strongest.compute.compare_systems`).
        reference: the label of the other one.
        to_baseline: whether that is the baseline.
    """

    ref: Ref
    reference: str
    to_baseline: bool

    needs_rank = True

    @property
    def compared_with(self) -> tuple[str, ...]:
        return (self.reference,)


@dataclass(frozen=True)
class Candidate(Product):
    """An attack whose strength is known from held-out training speakers.

    Attributes:
        check: the artefact that says how strong it is there.
    """

    check: Ref

    is_essential = True
    needs_rank = True


def collect_strongest(collected: Collected) -> None:
    """Add the tables of :mod:`pipeline.tables.answers`.

    Numbers are there only where the attacks stand on everything that was expected, or with ``allow_partial``, marked.
    """
    graph, outcome = collected.graph, collected.outcome
    means = {mean.subset: mean.weights for mean in list_averages(collected.evaluation, collected.data.trials).values()}
    numbers = _Results(collected.measured, collected.rows, means, collected.means)
    systems = {product.system: product for product in graph.select(StrongestAttack)}
    held_out = {
        _attack_key(candidate.identity): records.read(outcome.artefact(candidate.check).folder)["eer"]
        for candidate in graph.select(Candidate)
    }
    boards: list[Row] = []
    attacks: list[Row] = []
    allow_partial = collected.evaluation.execution.allow_partial
    for product in systems.values():
        artefact = outcome.artefact(product.ref)
        rows = [numbers.complete(product, row) for row in _read(artefact, ROWS)]
        status = {row["subset"]: numbers.status(product, row, allow_partial) for row in rows}
        boards += [_board_row(numbers, product, row, *status[row["subset"]]) for row in rows]
        attacks += [_attack_row(product, row, held_out, *status[row["subset"]]) for row in _read(artefact, ATTACKS)]
    # Whether the attacks were strong enough is checked by the diagnostics.
    if not collected.evaluation.products.diagnostics and not collected.data.score_sets:
        boards = [{**row, "unchecked": "diagnostics=false"} for row in boards]
    boards += list(_absent(numbers, list(systems.values()), boards))
    standing = {(row["subset"], row["system"]): (row["status"], row["reason"]) for row in boards}
    differences = [
        _difference_row(numbers, systems[pair.system], systems[pair.reference], pair, row, standing)
        for pair in graph.select(SystemPair)
        if {pair.system, pair.reference} <= systems.keys()
        for row in _read(outcome.artefact(pair.ref), ROWS)
    ]
    _correct(differences)
    # Attackers that were tried on other systems and not on this one: such a system has no rank beside the others.
    tried = {
        system: {attack["attacker"] for attack in each.attacks} for system, each in systems.items() if each.protects
    }
    everyone = set[str]().union(*tried.values())
    spared = {system: sorted(everyone - attackers) for system, attackers in tried.items() if everyone - attackers}
    for row in boards:
        names = [name for name in spared.get(row["system"], []) if f"{name} with " not in row.get("untried", "")]
        row["untried"] = ", ".join(filter(None, [row.get("untried", ""), *names]))
    _rank(boards, differences, spared)
    for row in differences:
        row["sentence"] = words.describe_difference(row)
    tables = {"leaderboard": boards, "attacks": attacks, "differences": differences}
    collected.tables |= {name: answers.frame(name, rows) for name, rows in tables.items()}


def _read(artefact: Artefact, name: str) -> list[Row]:
    return results.records(pd.read_parquet(artefact.path(name)))


def _attack_key(identity: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(identity[name] for name in ("system", *ATTACK))


def _absent(numbers: _Results, products: Sequence[StrongestAttack], boards: Sequence[Row]) -> Iterator[Row]:
    """Rows without numbers of systems that protect, of subsets on which others were attacked and they were not."""
    present = {(row["subset"], row["system"]) for row in boards}
    n_sets = {row["subset"]: row["n_sets"] for row in boards}
    for product in products:
        attacked = {subset for subset, system in present if system == product.system}
        for subset, count in n_sets.items():
            if product.protects and subset not in attacked:
                lacking = ", ".join(name for name in numbers.parts(subset) if name not in attacked)
                columns = {"subset": subset, "n_sets": count, "anonymised": True, "status": "incomplete"}
                yield {**product.identity, **columns, "reason": f"no attack was tried on {lacking}"}


class _Results:
    """Rows of results, by what they are about."""

    def __init__(
        self,
        measured: pd.DataFrame,
        rows: pd.DataFrame,
        means: Mapping[str, Mapping[str, float]],
        further: Sequence[Row],
    ) -> None:
        self.rows, self.means = [*results.records(rows), *further], means
        self.measured = results.records(measured)

    def parts(self, subset: str) -> list[str]:
        """The sets of a mean, or the subset itself."""
        return list(self.means.get(subset, {subset: 1.0}))

    def complete(self, product: StrongestAttack, row: Row) -> Row:
        """A row of the artefact with the columns of its attack; where a mean has another one on each set, of all of them."""
        attacks = list(self.chosen(product, row["subset"], row["attack"]).values())
        columns = {name: " / ".join(dict.fromkeys(attack[name] for attack in attacks)) for name in ATTACK}
        return {**row, **columns, "by_set": self.by_set(product, row["subset"], row["attack"])}

    def chosen(self, product: StrongestAttack, subset: str, numbers: str) -> dict[str, Mapping[str, str]]:
        """By set, the attack that counts there."""
        return {name: product.attacks[int(number)] for name, number in zip(self.parts(subset), numbers.split())}

    def by_set(self, product: StrongestAttack, subset: str, numbers: str) -> str:
        """The attacks of a mean in words, by what tells its sets apart; '' where one attack counts on all."""
        attacks = self.chosen(product, subset, numbers)
        return words.describe_attack_by_set(attacks) if len(set(numbers.split())) > 1 else ""

    def describe(self, product: StrongestAttack, subset: str, numbers: str) -> str:
        """The attack on a subset or a mean in words; '' where there is none."""
        attacks = self.chosen(product, subset, numbers)
        return self.by_set(product, subset, numbers) or next(map(words.describe_attack, attacks.values()), "")

    def of_attack(self, product: StrongestAttack, subset: str, metric: str, numbers: str) -> list[Row]:
        """The rows of a metric of the attack on a subset, or on each set of a mean."""
        about = {"system": product.system, "metric": metric}
        wanted = [
            {**about, "subset": name, **{column: attack[column] for column in ATTACK}}
            for name, attack in self.chosen(product, subset, numbers).items()
        ]
        return [row for columns in wanted for row in self.measured if _has(row, columns)]

    def status(self, product: StrongestAttack, row: Row, allow_partial: bool) -> tuple[str, str]:
        """Whether the attacks on a subset stand on everything, and if not why."""
        subsets = self.parts(row["subset"])
        short = [
            measured
            for measured in self.measured
            if measured["metric"] in ("eer", "d_ece", "cllr_min")
            and measured["subset"] in subsets
            and measured["system"] == product.system
            and measured["attacker"]
            and measured["status"] != "ok"
        ]
        lacking = row["n_used"] < row["n_expected"]
        if not short and not lacking:
            return ("incomplete", row["reason"]) if row["reason"] else ("ok", "")
        if allow_partial and not row["reason"]:
            return "partial", ""
        reasons = [row["reason"], *(measured["reason"] for measured in short)]
        if lacking:
            reasons.append(
                f"stands on {row['n_used']:.0f} of {row['n_expected']:.0f}; allow_partial=true would write it, marked"
            )
        text = "; ".join(dict.fromkeys(filter(None, reasons[:3])))
        return "incomplete", text or "not all attacks stand on everything"

    def taken(self, product: StrongestAttack, subset: str, metric: str, numbers: str) -> Row:
        """A metric about no attack: of the extractor of the attack where it has it, else what discloses most; of a mean whose sets have
        other attacks the mean of theirs, without an interval."""
        attacks = self.chosen(product, subset, numbers)
        if not self.by_set(product, subset, numbers):
            return self._taken_of(product, subset, metric, next(iter(attacks.values())))
        parts = [self._taken_of(product, name, metric, attack) for name, attack in attacks.items()]
        if not all(parts):
            return {}
        weights = self.means[subset].values()
        names = [metric, "alid_chance"] if metric == "alid" else [metric]
        values = {name: math.fsum(w * part[name] for w, part in zip(weights, parts)) for name in names}
        return values | {f"{metric}_by": " / ".join(dict.fromkeys(part[f"{metric}_by"] for part in parts))}

    def _taken_of(self, product: StrongestAttack, subset: str, metric: str, attack: Mapping[str, Any]) -> Row:
        rows = [
            row
            for row in self.rows
            if _has(row, {"system": product.system, "metric": metric})
            and not math.isnan(row["value"])
            and row["estimator"] in ("", "empirical")
        ]
        of_subset = [row for row in rows if row["subset"] == subset]
        pools = {row["subset"] for row in rows} - set(product.subsets) - set(self.means)
        rows = of_subset or [row for row in rows if row["subset"] in pools and len(pools) == 1]
        if not rows:
            return {}
        of_attack = [row for row in rows if all(row[name] == attack[name] for name in ATTACK)] or [
            row for row in rows if (row["extractor"], row["trained_on"]) == (attack["extractor"], attack["trained_on"])
        ]
        least = LEAST_PRIVATE[metric]
        best = least(of_attack or rows, key=lambda row: (row["value"], row["extractor"], row["trained_on"]))
        backend = best["backend"] if best["condition"] != "PP" or best["attacker"] else ""
        by = ", ".join(filter(None, [best["extractor"], backend]))
        columns = {
            metric: best["value"],
            f"{metric}_low": best["low"],
            f"{metric}_high": best["high"],
            f"{metric}_by": by,
        }
        if metric == "alid":
            wanted = {name: best[name] for name in results.IDENTITY if name != "metric"} | {"metric": "alid_chance"}
            columns["alid_chance"] = next((row["value"] for row in self.rows if _has(row, wanted)), math.nan)
        return columns


def _has(row: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(row[name] == value for name, value in wanted.items())


def _count(number: float | None) -> int | None:
    return None if number is None or math.isnan(number) else int(number)


def _board_row(numbers: _Results, product: StrongestAttack, row: Row, status: str, reason: str) -> Row:
    subset, attack = row["subset"], row["attack"]
    parts = numbers.parts(subset)
    board = {**product.identity, "subset": subset, "anonymised": product.protects, "status": status, "reason": reason}
    board |= {name: _count(row[name]) for name in ("n_attacks", "n_expected", "n_used", "n_target", "n_nontarget")}
    board["n_sets"] = len(parts)
    lacking = [
        [name for name in parts if number not in product.subsets[name]] for number in range(len(product.attacks))
    ]
    elsewhere = [
        f"{words.describe_attack(each)} on {', '.join(names)}" for each, names in zip(product.attacks, lacking) if names
    ]
    board["untried"] = ", ".join([*product.untried, *elsewhere])
    if status == "incomplete":
        return board
    kept = ("d_ece", "d_ece_low", "d_ece_high", "d_ece_corrected", "null_low", "null_high", "p_chance", "eer", "eer_low", "eer_high",
            "lowest_eer", "lowest_eer_low", "lowest_eer_high", "pp_d_ece", "pp_eer", "pp_p_chance", "alid_ceiling", "by_set",
            "interval_reason", "null_reason", *ATTACK)  # fmt: skip
    board |= {name: row[name] for name in kept}
    board |= {name: numbers.describe(product, subset, row[name]) for name in ("lowest_eer_attack", "pp_attack")}
    board |= {"contenders": len(row["contenders"].split()), "n_speakers": _count(row["n_speakers"])}
    if not math.isnan(row["null_high"]):
        board["chance"] = "above" if row["d_ece"] > row["null_high"] else "within"
    worst = [each for each in numbers.of_attack(product, subset, "l_w", attack) if not math.isnan(each["value"])]
    if worst and len(worst) == len(parts):
        most = max(worst, key=lambda each: each["value"])
        tags = [tag for tag in numbers.of_attack(product, subset, "tag", attack) if tag["subset"] == most["subset"]]
        board |= {"l_w": most["value"], "l_w_ceiling": most["ceiling"], "tag": tags[0]["label"] if tags else ""}
    for metric in TAKEN:
        board |= numbers.taken(product, subset, metric, attack)
    return board


def _attack_row(
    product: StrongestAttack, row: Row, held_out: Mapping[tuple[str, ...], float | None], status: str, reason: str
) -> Row:
    attack = product.attacks[int(row["attack"])]
    columns = {**{name: attack[name] for name in ATTACK}, "subset": row["subset"], "status": status}
    columns |= {name: product.identity[name] for name in ("dataset", "system")}
    columns["held_out"] = held_out.get(_attack_key({**attack, "system": product.system}))
    if status == "incomplete":
        return columns
    kept = ("d_ece", "d_ece_low", "d_ece_high", "eer", "eer_low", "eer_high")
    return {**columns, **{name: row[name] for name in kept}, "contends": bool(row["contends"])}


# ------------------------------------------------------------------------------------------------------------- differences


def _difference_row(
    numbers: _Results,
    system: StrongestAttack,
    reference: StrongestAttack,
    pair: SystemPair,
    row: Row,
    standing: Mapping[tuple[str, str], tuple[str, str]],
) -> Row:
    """A row of the differences: b is the system, a its reference."""
    columns = {
        "dataset": system.identity["dataset"],
        "subset": row["subset"],
        "under": row["under"],
        "system": pair.system,
        "reference": pair.reference,
        "baseline": pair.to_baseline,
        "unprotected": not reference.protects,
        "attack": _describe_side(numbers, system, row, "attack_b"),
        "reference_attack": _describe_side(numbers, reference, row, "attack_a"),
        "metric": row["metric"],
        "unit": UNITS[row["metric"]],
        "reason": row["reason"],
    }
    sides = {name: standing.get((row["subset"], name), ("ok", "")) for name in (pair.reference, pair.system)}
    columns["status"] = max((status for status, _ in sides.values()), key=STATUSES.index)
    if columns["status"] == "incomplete":
        reasons = [f"{name}: {reason}" for name, (status, reason) in sides.items() if status == "incomplete"]
        return {**columns, "reason": "; ".join(reasons)}
    columns |= {"value": row["b"], "reference_value": row["a"], "exact": row["exact"] == 1}
    columns |= {name: row[name] for name in ("difference", "low", "high", "p_value")}
    return {**columns, "n_speakers": _count(row["n_speakers"]), "swaps": _count(row["swaps"])}


def _describe_side(numbers: _Results, product: StrongestAttack, row: Row, side: str) -> str:
    if row["under"] == STRONGEST:
        return numbers.describe(product, row["subset"], row[side])
    return words.describe_attack(product.attacks[int(row[side])]) if row[side] else ""


def _correct(rows: Sequence[Row]) -> None:
    """Correct p-values over all rows with the same subset, kind of attack and metric: those against unprotected speech, which say
    whether systems protect, are a family of their own."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        if not math.isnan(row.get("p_value", math.nan)):
            groups.setdefault(tuple(row[name] for name in ("subset", "under", "metric", "unprotected")), []).append(row)
    for group in groups.values():
        for row, p in zip(group, holm([row["p_value"] for row in group])):
            row |= {"p_holm": float(p), "n_compared": len(group)}


def _rank(boards: list[Row], differences: Sequence[Row], without_rank: Collection[str]) -> None:
    """Ranks of the systems that protect, shared where nothing separates them, and the order of the rows: best first."""
    better = []
    for row in differences:
        if (row["under"], row["metric"]) == (STRONGEST, "d_ece") and row.get("p_holm", 1.0) <= ALPHA:
            names = (row["system"], row["reference"])
            better.append((row["subset"], *(names if row["difference"] < 0 else names[::-1])))
    subsets = list(dict.fromkeys(row["subset"] for row in boards))
    for subset in subsets:
        ranked = [row for row in boards if row["subset"] == subset and row["anonymised"] and "d_ece" in row]
        ranked = [row for row in ranked if row["system"] not in without_rank]
        place = {row["system"]: number for number, row in enumerate(ranked)}
        pairs = [(place[a], place[b]) for where, a, b in better if where == subset and a in place and b in place]
        for row, rank in zip(ranked, shared_ranks(len(ranked), pairs)):
            row["rank"] = rank

    def order(row: Row) -> tuple[int, bool, float, float]:
        """By D_ECE of the strongest attack within a rank: corrected for optimism, where that can be done."""
        d_ece = row.get("d_ece_corrected", math.nan)
        d_ece = row.get("d_ece", math.inf) if d_ece is None or math.isnan(d_ece) else d_ece
        return subsets.index(row["subset"]), not row["anonymised"], row.get("rank", math.inf), float(d_ece)

    boards.sort(key=order)
