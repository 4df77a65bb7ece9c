"""The strongest attack on a system, and differences between two systems: from scores to what each speaker contributes, and from
that to intervals, null bands and p-values."""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pipeline import metrics
from pipeline.engine.task import Artefact, Work
from pipeline.metrics import Attacks, MetricError, NullBand
from pipeline.metrics.maximum import (
    MOST_CHOICES,
    attack_choices,
    corrected_maximum,
    maximum_interval,
    negate,
    permuted_groups,
)
from pipeline.metrics.trial_uncertainty import metric_bounds
from pipeline.metrics.uncertainty import no_band, zero_error_limit
from pipeline.seeds import digest, generator
from pipeline.tables import records, scores

VERSION = "strongest attack 4"

ATTACKS, SPEAKERS, NULL, ROWS = "attacks.parquet", "speakers.parquet", "null.parquet", "rows.parquet"
METRICS = {"d_ece": "d_ece", "eer": "eer.rocch"}
"""What is held of each attack, with its name in the metric core."""
LEVEL = 0.95
"""Nominal coverage of intervals."""
STRONGEST, SAME = "strongest", "same"
"""Under which attacks two systems are compared: each one's strongest, or one and the same on both."""
UNTESTED = "the test is that of D_ECE"
"""Why there is no p-value of a difference of EERs under each system's strongest attack."""
MOST_COMPARED = 36
"""Combinations of attacks on the sets of a mean that are looked at of either of two systems: the test takes each with each."""
Choice = tuple[int, ...]
"""The number of an attack on each set of a mean; of a subset, the one number."""


@dataclass(frozen=True)
class Listed:
    """How the scores of a subset are taken.

    Attributes:
        subset: its name.
        n_attacks: so many inputs ``scores.0``, ``scores.1``, ... there are.
        n_expected: trials that there should be.
        has_speakers: whether it is known who the speakers are.
        replicates: permutations of the null band; 0 leaves it out.
        seed: of the draws.
    """

    subset: str
    n_attacks: int
    n_expected: int
    has_speakers: bool
    replicates: int
    seed: int


@dataclass(frozen=True)
class Sets:
    """The subsets and means over subsets of a system.

    Attributes:
        attacks: by subset, the numbers that the system's attacks have there.
        means: by name, the weights of subsets.
        protected: the numbers of the attacks that enrol protected speech (PP, OPP).
    """

    attacks: Mapping[str, tuple[int, ...]]
    means: Mapping[str, Mapping[str, float]]
    protected: tuple[int, ...] = ()

    def names(self) -> Iterator[tuple[str, Mapping[str, float]]]:
        """All that there are rows of, with the weights of subsets."""
        for name in self.attacks:
            yield name, {name: 1.0}
        yield from self.means.items()

    def common(self, weights: Mapping[str, float]) -> list[int]:
        """The attacks that all of some subsets have."""
        first, *others = (self.attacks[name] for name in weights)
        return [attack for attack in first if all(attack in other for other in others)]


# ---------------------------------------------------------------------------------------------------- attacks on a subset


def measure_contributions(listed: Listed, work: Work) -> None:
    """Write each attack's D_ECE and EER on everybody and without each speaker, on the trials that all attacks have, and D_ECE
    under permuted identities.

    Where they cannot be measured there is no number, and ``numbers.json`` has the reason.
    """
    artefacts = [work.input(f"scores.{k}") for k in range(listed.n_attacks)]
    tables = scores.common([pd.read_parquet(artefact.path(scores.TRIALS)) for artefact in artefacts])
    target = tables[0]["target"].to_numpy(bool)
    numbers: dict[str, Any] = {
        "n_expected": listed.n_expected,
        "n_used": len(target),
        "n_target": int(target.sum()),
        "n_nontarget": int((~target).sum()),
        "n_models": int(tables[0]["model_speaker"].nunique()),
        "has_speakers": listed.has_speakers,
        "replicates": listed.replicates,
        "permuted": [],
        "n_rated": int(tables[0]["model_speaker"][target].nunique()),
        "thinned": any(scores.thinned(artefact.folder) for artefact in artefacts),
        "trials": digest(tables[0][["model", "utterance", "target"]].to_numpy().tolist()),
        "reason": "",
    }
    try:
        measured, numbers["permuted"] = _measure(listed, tables)
    except MetricError as error:
        numbers["reason"] = str(error)
        measured = _list_nothing(listed.n_attacks)
    folder = work.folder()
    for name, table in zip((ATTACKS, SPEAKERS, NULL), measured, strict=True):
        table.to_parquet(folder / name, index=False)
    records.write(folder, numbers)


Tables = tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]


def _list_nothing(n: int) -> Tables:
    values = pd.DataFrame({"attack": range(n), **dict.fromkeys(METRICS, np.nan)})
    nobody = pd.DataFrame({"attack": np.array([], np.int64), "speaker": np.array([], str)})
    return values, nobody.assign(**{name: np.array([], np.float64) for name in ("weight", *METRICS)}), pd.DataFrame()


def _measure(listed: Listed, tables: Sequence[pd.DataFrame]) -> tuple[Tables, list[list[str]]]:
    """The tables, and the groups of enrolled speakers who change places under the null hypothesis."""
    each = [table["score"].to_numpy(np.float64) for table in tables]
    values: list[dict[str, float]] = []
    if not listed.has_speakers:
        target = tables[0]["target"].to_numpy(bool)
        for attack_scores in each:
            measured = metrics.trial_metrics(attack_scores[target], attack_scores[~target])
            values.append({"d_ece": measured.d_ece, "eer": measured.eer["rocch"]})
        _, nobody, nothing = _list_nothing(0)
        return (pd.DataFrame(values).assign(attack=range(len(each))), nobody, nothing), []
    sides = [tables[0][name].to_numpy(str) for name in ("model_speaker", "speaker")]
    names, codes = np.unique(np.concatenate(sides), return_inverse=True)
    enrolled, spoken = codes[: len(sides[0])].astype(np.int64), codes[len(sides[0]) :].astype(np.int64)
    trials = [metrics.Trials(attack_scores, enrolled, spoken) for attack_scores in each]
    rows = []
    for number, attack_trials in enumerate(trials):
        left = metrics.leave_each_out(attack_trials, tuple(METRICS.values()))
        values.append({name: left.value[core] for name, core in METRICS.items()})
        columns = {"attack": number, "speaker": names[left.speakers], "weight": left.weights}
        rows.append(pd.DataFrame({**columns, **{name: left.without[core] for name, core in METRICS.items()}}))

    def permutes(group: np.ndarray) -> np.random.Generator:
        """What permutes these speakers: the same in every set in which they are enrolled."""
        return generator(listed.seed, "null band of the strongest attack", *map(str, names[group]))

    null = np.empty((0, len(trials)))
    if listed.replicates:
        null = metrics.null_draws(trials, generator=permutes, replicates=listed.replicates)
    written = (
        pd.DataFrame(values).assign(attack=range(len(trials))),
        pd.concat(rows, ignore_index=True),
        pd.DataFrame(null, columns=[str(number) for number in range(len(trials))]),
    )
    return written, [names[group].tolist() for group in permuted_groups(trials[0])]


@dataclass(frozen=True, eq=False)
class Held:
    """The attacks of one system on one subset, as :func:`measure_contributions` wrote them.

    Attributes:
        ids: numbers of the system's attacks, in order.
        values: attack by metric.
        speakers: attack, speaker, how much of the trials he is (the same for all attacks), and values without him.
        null: D_ECE of each attack under permuted identities.
        numbers: counts, and why there is nothing.
    """

    ids: tuple[int, ...]
    values: pd.DataFrame
    speakers: pd.DataFrame
    null: np.ndarray
    numbers: Mapping[str, Any]

    @classmethod
    def read(cls, artefact: Artefact, ids: tuple[int, ...]) -> Held:
        tables = [pd.read_parquet(artefact.path(name)) for name in (ATTACKS, SPEAKERS, NULL)]
        values = tables[0].set_index("attack").sort_index()
        return cls(ids, values, tables[1], tables[2].to_numpy(np.float64), records.read(artefact.folder))

    def of(self, metric: str, wanted: Sequence[int]) -> Attacks:
        """Some of the attacks."""
        weights = self.speakers.groupby("speaker")["weight"].first()
        names = [str(name) for name in weights.index]
        without = np.full((len(self.ids), len(names)), np.nan)
        for number, part in self.speakers.groupby("attack"):
            without[int(str(number))] = part.set_index("speaker").loc[names, metric].to_numpy(np.float64)
        contributions = metrics.collect_attacks(
            self.values[metric].to_numpy(np.float64),
            without,
            names,
            degrees=self.numbers["n_models"] - 1,
            bounds=metric_bounds(METRICS[metric]),
            weights=weights.to_numpy(np.float64),
        )
        return contributions.only([self.ids.index(attack) for attack in wanted])


def _attacks(
    attacked: Mapping[str, Held], weights: Mapping[str, float], chosen: Sequence[Choice], metric: str
) -> Attacks:
    parts = [attacked[name].of(metric, [choice[k] for choice in chosen]) for k, name in enumerate(weights)]
    return parts[0] if len(parts) == 1 else metrics.average_attacks(parts, list(weights.values()))


def _chosen(
    attacked: Mapping[str, Held],
    weights: Mapping[str, float],
    metric: str,
    among: Collection[int] | None = None,
    most: int = MOST_CHOICES,
) -> list[Choice]:
    """The attacks that may be chosen on each set: all combinations, or those of the attacks that disclose most by a metric.

    Args:
        among: the numbers of the attacks that count; None stands for all.
    """
    ids = [[number for number in attacked[name].ids if among is None or number in among] for name in weights]
    if not all(ids):
        return []
    parts = [attacked[name].of(metric, numbers) for name, numbers in zip(weights, ids)]
    places = attack_choices([negate(part) for part in parts] if metric == "eer" else parts, most)
    return [tuple(numbers[place] for numbers, place in zip(ids, row)) for row in places.tolist()]


def _text(choice: Choice) -> str:
    return " ".join(map(str, choice))


def _reason(attacked: Mapping[str, Held], weights: Mapping[str, float]) -> str:
    """Why there is no value; '' if there is one."""
    reasons = {name: str(attacked[name].numbers["reason"]) for name in weights if attacked[name].numbers["reason"]}
    return "; ".join(f"{name}: {reason}" if len(weights) > 1 else reason for name, reason in reasons.items())


# ---------------------------------------------------------------------------------------------------------- the strongest


def choose_strongest(sets: Sets, work: Work) -> None:
    """Write the strongest attack on a system, a row a subset, and all attacks behind it.

    On a mean the strongest attack of each set counts, which need not be the same one.

    ``rows.parquet``: subset, attack (its number; of a mean one a set), n_attacks, contenders, d_ece with the interval and the null band of
    the maximum, d_ece_corrected (the maximum corrected for optimism), eer of this attack with an interval that holds for all attacks
    together, lowest_eer of all attacks with the interval of that minimum and its attack, the strongest attack that enrols protected speech
    (pp_attack, pp_d_ece, pp_eer, pp_p_chance), alid_ceiling (log2 of the enrolled speakers), counts, reason. ``attacks.parquet``: subset,
    attack (of a mean those that are on all sets), d_ece and eer with the interval of this attack alone, and whether it contends.
    """
    attacked = {name: Held.read(work.input(f"attacks.{k}"), ids) for k, (name, ids) in enumerate(sets.attacks.items())}
    rows, others = [], []
    for name, weights in sets.names():
        tried = {attack for subset in weights for attack in sets.attacks[subset]}
        row = {"subset": name, "n_attacks": len(tried), "reason": _reason(attacked, weights)}
        row |= {count: sum(int(attacked[subset].numbers[count]) for subset in weights) for count in COUNTS}
        if not row["reason"]:
            best, contend = _strongest(attacked, weights)
            row |= best | _of_protected(attacked, weights, sets.protected)
            behind = [(attack,) * len(weights) for attack in sets.common(weights)]
            others += [{"subset": name, **attack} for attack in _behind(attacked, weights, behind, contend)]
        rows.append(row)
    columns = ["subset", "attack", "n_attacks", "contenders", *_columns("d_ece"), "d_ece_corrected", "null_low", "null_high",
               "p_chance", *_columns("eer"), *_columns("lowest_eer"), "lowest_eer_attack", "pp_attack", "pp_d_ece", "pp_eer",
               "pp_p_chance", "alid_ceiling", *COUNTS, "n_speakers", "interval_reason", "null_reason", "reason"]  # fmt: skip
    folder = work.folder()
    _frame(rows, columns).to_parquet(folder / ROWS, index=False)
    columns = ["subset", "attack", *_columns("d_ece"), *_columns("eer"), "contends"]
    _frame(others, columns).to_parquet(folder / ATTACKS, index=False)


COUNTS = ("n_expected", "n_used", "n_target", "n_nontarget")
TEXTS = ("subset", "attack", "under", "metric", "attack_a", "attack_b", "contenders", "lowest_eer_attack", "pp_attack",
         "interval_reason", "null_reason", "reason")  # fmt: skip


def _columns(metric: str) -> list[str]:
    return [metric, f"{metric}_low", f"{metric}_high"]


def _strongest(attacked: Mapping[str, Held], weights: Mapping[str, float]) -> tuple[dict[str, Any], set[Choice]]:
    """The row of a subset or a mean, and the choices that may be the strongest."""
    chosen = _chosen(attacked, weights, "d_ece")
    of = {metric: _attacks(attacked, weights, chosen, metric) for metric in METRICS}
    best = _order(of)[0]
    interval, places = maximum_interval(of["d_ece"])
    contend = {chosen[k] for k in places}
    eer = metrics.simultaneous_interval(of["eer"], best)
    ends = (eer.low, eer.high) if of["eer"].values[best] > 0 else _errorless(attacked, weights)
    value = float(of["d_ece"].values[best])
    null = _null(attacked, weights, value)
    row = {
        "attack": _text(chosen[best]),
        "contenders": " ".join(map(str, sorted({number for choice in contend for number in choice}))),
        **dict(zip(_columns("d_ece"), (value, interval.low, interval.high))),
        **dict(zip(_columns("eer"), (float(of["eer"].values[best]), *ends))),
        "d_ece_corrected": corrected_maximum(of["d_ece"]),
        **_lowest_eer(attacked, weights),
        "null_low": null.low,
        "null_high": null.high,
        "p_chance": null.p_value,
        "alid_ceiling": math.fsum(
            w * math.log2(attacked[name].numbers["n_models"] or 1) for name, w in weights.items()
        ),
        "n_speakers": len(of["d_ece"].speakers),
        "interval_reason": interval.reason,
        "null_reason": null.reason,
    }
    return row, contend


def _order(of: Mapping[str, Attacks]) -> list[int]:
    """The attacks, the strongest first: of equal D_ECE the lower EER decides, then their order."""
    places = np.arange(of["d_ece"].values.size)
    return [int(k) for k in np.lexsort((places, of["eer"].values, -of["d_ece"].values))]


def _behind(
    attacked: Mapping[str, Held], weights: Mapping[str, float], chosen: Sequence[Choice], contend: Collection[Choice]
) -> Iterator[dict[str, Any]]:
    if not chosen:
        return
    of = {metric: _attacks(attacked, weights, chosen, metric) for metric in METRICS}
    for k in _order(of):
        row: dict[str, Any] = {"attack": _text(chosen[k][:1]), "contends": chosen[k] in contend}
        for metric, contributions in of.items():
            value = contributions.values[k]
            interval, _ = maximum_interval(contributions.only([k]))
            is_errorless = metric == "eer" and value <= 0
            ends = _errorless(attacked, weights, alone=True) if is_errorless else (interval.low, interval.high)
            row |= dict(zip(_columns(metric), (value, *ends)))
        yield row


def _lowest_eer(attacked: Mapping[str, Held], weights: Mapping[str, float]) -> dict[str, Any]:
    """The lowest EER of all attacks with the interval of that minimum, and its attack: of equal ones the one with the higher D_ECE."""
    chosen = _chosen(attacked, weights, "eer")
    of = {metric: _attacks(attacked, weights, chosen, metric) for metric in METRICS}
    order = _order(of)
    lowest = order[int(np.argmin(of["eer"].values[order]))]
    value = float(of["eer"].values[lowest])
    interval, _ = maximum_interval(negate(of["eer"]))
    mirrored = (None if end is None else -end for end in (interval.high, interval.low))
    low, high = mirrored if value > 0 else _errorless(attacked, weights)
    return {**dict(zip(_columns("lowest_eer"), (value, low, high))), "lowest_eer_attack": _text(chosen[lowest])}


def _of_protected(
    attacked: Mapping[str, Held], weights: Mapping[str, float], protected: Collection[int]
) -> dict[str, Any]:
    """The strongest attack that enrols protected speech, and how often chance reaches its D_ECE; nothing where there is none."""
    chosen = _chosen(attacked, weights, "d_ece", protected)
    if not chosen:
        return {}
    of = {metric: _attacks(attacked, weights, chosen, metric) for metric in METRICS}
    best = _order(of)[0]
    value = float(of["d_ece"].values[best])
    columns = {"pp_attack": _text(chosen[best]), "pp_d_ece": value, "pp_eer": float(of["eer"].values[best])}
    return {**columns, "pp_p_chance": _null(attacked, weights, value, protected).p_value}


def _errorless(
    attacked: Mapping[str, Held], weights: Mapping[str, float], *, alone: bool = False
) -> tuple[float | None, float | None]:
    """The interval of an EER of 0 that was chosen among all attacks, or of one attack ``alone``; of a mean the mean of those of its sets."""
    if not all(len(attacked[name].speakers) for name in weights):
        return None, None
    most = metric_bounds(METRICS["eer"])[1]
    limits = []
    for name in weights:
        level = 1 - (1 - LEVEL) / (1 if alone else len(attacked[name].ids))
        limits.append(min(zero_error_limit(attacked[name].numbers["n_rated"], level), most))
    return 0.0, float(np.dot(list(weights.values()), limits))


def _null(
    attacked: Mapping[str, Held], weights: Mapping[str, float], value: float, among: Collection[int] | None = None
) -> NullBand:
    """The null band of the strongest attack: of sets, of the weighted mean in each draw, for which speakers who are enrolled in
    several have to change places alike. The strongest of all attacks counts on each set; ``among`` are those that may be it."""
    parts = [attacked[name] for name in weights]
    reason = _no_null(parts)
    if reason:
        return no_band(reason)
    places = [[k for k, attack in enumerate(subset.ids) if among is None or attack in among] for subset in parts]
    highest = [subset.null[:, wanted].max(axis=1, keepdims=True) for subset, wanted in zip(parts, places)]
    return metrics.null_of_maximum(value, np.sum([w * subset for w, subset in zip(weights.values(), highest)], axis=0))


def _no_null(parts: Sequence[Held]) -> str:
    """Why there is no null band; '' if there is one."""
    if not all(subset.numbers["has_speakers"] for subset in parts):
        return "the speakers are not known"
    if not all(subset.numbers["replicates"] for subset in parts):
        return "no permutations were asked for (report.replicates=0)"
    if not all(subset.null.size for subset in parts):
        return "too few enrolled speakers to permute"
    groups = {frozenset(group) for subset in parts for group in subset.numbers["permuted"]}
    if sum(map(len, groups)) > len(set().union(*groups)):
        return "some of the enrolled speakers of one set are enrolled in another, and not all: they cannot change places alike in both"
    return ""


def _frame(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> pd.DataFrame:
    """Typed rows: texts '', numbers NaN where they are absent."""
    table = pd.DataFrame(list(rows), columns=list(columns))
    for column in columns:
        if column in TEXTS:
            table[column] = table[column].astype(object).fillna("").astype(str)
        else:
            table[column] = pd.to_numeric(table[column].astype(object)).astype(np.float64)
    return table


# -------------------------------------------------------------------------------------------------------- two systems


@dataclass(frozen=True)
class Two:
    """How two systems are compared.

    Attributes:
        a, b: their subsets; all that both have is compared.
        same: numbers of the attacks on A and on B that are one and the same.
        seed: of the swaps.
    """

    a: Sets
    b: Sets
    same: tuple[tuple[int, int], ...]
    seed: int


def compare_systems(two: Two, work: Work) -> None:
    """Write the differences B - A, a row a subset, kind of attack and metric: D_ECE under each one's strongest attack with its p-value,
    the lowest EER of each one's attacks, and both under each attack that is on both."""
    attacked = [
        {name: Held.read(work.input(f"{side}.{k}"), ids) for k, (name, ids) in enumerate(of.attacks.items())}
        for side, of in (("a", two.a), ("b", two.b))
    ]
    rows: list[dict[str, Any]] = []
    others = dict(two.b.names())
    for name, weights in two.a.names():
        if others.get(name) == weights:
            rows += _compared(two, attacked[0], attacked[1], name, weights)
    columns = ["subset", "under", "attack_a", "attack_b", "metric", "a", "b", "difference", "low", "high", "p_value",
               "n_speakers", "swaps", "exact", "reason"]  # fmt: skip
    _frame(rows, columns).to_parquet(work.folder() / ROWS, index=False)


def _compared(
    two: Two, a: Mapping[str, Held], b: Mapping[str, Held], name: str, weights: Mapping[str, float]
) -> Iterator[dict[str, Any]]:
    lacking = _reason(a, weights) or _reason(b, weights)
    if not lacking and any(a[subset].numbers["trials"] != b[subset].numbers["trials"] for subset in weights):
        lacking = "the two systems were not tried on the same trials"
    if lacking:
        yield from ({"subset": name, "under": STRONGEST, "metric": metric, "reason": lacking} for metric in METRICS)
        return
    tested = functools.partial(_row, two.seed, name)
    for metric in METRICS:
        chosen = [_chosen(attacked, weights, metric, most=MOST_COMPARED) for attacked in (a, b)]
        of = [_attacks(attacked, weights, choices_of, metric) for attacked, choices_of in zip((a, b), chosen)]
        best = [int(np.argmin(attacks.values) if metric == "eer" else np.argmax(attacks.values)) for attacks in of]
        ids = {f"attack_{side}": _text(choices_of[k]) for side, choices_of, k in zip("ab", chosen, best)}
        if metric == "eer":
            row = tested(*(attacks.only([k]) for attacks, k in zip(of, best)))
            row |= {"p_value": None, "swaps": None, "exact": None, "reason": UNTESTED}
        else:
            row = tested(*of)
        yield {**row, "under": STRONGEST, "metric": metric, **ids}
    both = two.a.common(weights), two.b.common(weights)
    for first, second in two.same:
        if first in both[0] and second in both[1]:
            ids = {"attack_a": str(first), "attack_b": str(second)}
            sides = ((a, [(first,) * len(weights)]), (b, [(second,) * len(weights)]))
            for metric in METRICS:
                alike = (_attacks(attacked, weights, choice, metric) for attacked, choice in sides)
                yield {**tested(*alike), "under": SAME, "metric": metric, **ids}


def _row(seed: int, name: str, a: Attacks, b: Attacks) -> dict[str, Any]:
    of_a, of_b = float(a.values.max()), float(b.values.max())
    values: dict[str, Any] = {"subset": name, "a": of_a, "b": of_b}
    if not a.speakers or a.speakers != b.speakers:
        reason = "the speakers are not known" if not a.speakers else "the two systems have other speakers"
        return {**values, "difference": of_b - of_a, "reason": reason}
    tested = metrics.difference(a, b, generator=generator(seed, "swaps of two systems"))
    values |= {"low": tested.interval.low, "high": tested.interval.high, "exact": float(tested.exact)}
    return values | {name: getattr(tested, name) for name in ("difference", "p_value", "n_speakers", "swaps", "reason")}
