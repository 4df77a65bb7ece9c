"""The strongest attack on a system, and differences between two systems: from scores to what each speaker contributes, and from
that to intervals, null bands and p-values."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from pipeline import metrics
from pipeline.engine.task import Artefact, Work
from pipeline.metrics import Attacks, MetricError, NullBand
from pipeline.metrics.strongest import bounds_of, corrected_maximum, maximum, permuted
from pipeline.metrics.uncertainty import no_band, zero_error_limit
from pipeline.seeds import digest, generator
from pipeline.tables import records, scores

VERSION = 3

ATTACKS, SPEAKERS, NULL, ROWS = "attacks.parquet", "speakers.parquet", "null.parquet", "rows.parquet"
METRICS = {"d_ece": "d_ece", "eer": "eer.rocch"}
"""What is held of each attack, with its name in the metric core."""
LEVEL = 0.95
"""Nominal coverage of intervals."""
STRONGEST, SAME = "strongest", "same"
"""Under which attacks two systems are compared: each one's strongest, or one and the same on both."""


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
    """

    attacks: Mapping[str, tuple[int, ...]]
    means: Mapping[str, Mapping[str, float]]

    def names(self) -> Iterator[tuple[str, Mapping[str, float]]]:
        """All that there are rows of, with the weights of subsets."""
        for name in self.attacks:
            yield name, {name: 1.0}
        yield from self.means.items()

    def common(self, weights: Mapping[str, float]) -> list[int]:
        """The attacks that all of some subsets have."""
        first, *others = (self.attacks[name] for name in weights)
        return [one for one in first if all(one in other for other in others)]


# ---------------------------------------------------------------------------------------------------- attacks on a subset


def attacks(listed: Listed, work: Work) -> None:
    """Write each attack's D_ECE and EER on everybody and without each speaker, on the trials that all attacks have, and D_ECE
    under permuted identities.

    Where they cannot be measured there is no number, and ``numbers.json`` has the reason.
    """
    tables = [pd.read_parquet(work.input(f"scores.{k}").path(scores.TRIALS)) for k in range(listed.n_attacks)]
    thinned = any(scores.thinned(work.input(f"scores.{k}").folder) for k in range(listed.n_attacks))
    tables = scores.common(tables)
    target = tables[0]["target"].to_numpy(bool)
    ids = tables[0][["model", "utterance", "target"]]
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
        "thinned": thinned,
        "trials": digest(ids.to_numpy().tolist()),
        "reason": "",
    }
    try:
        found, numbers["permuted"] = _measured(listed, tables)
    except MetricError as error:
        numbers["reason"] = str(error)
        found = _nothing(listed.n_attacks)
    folder = work.folder()
    for name, table in zip((ATTACKS, SPEAKERS, NULL), found, strict=True):
        table.to_parquet(folder / name, index=False)
    records.write(folder, numbers)


Tables = tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]


def _nothing(n: int) -> Tables:
    values = pd.DataFrame({"attack": range(n), **dict.fromkeys(METRICS, np.nan)})
    nobody = pd.DataFrame({"attack": np.array([], np.int64), "speaker": np.array([], str)})
    return values, nobody.assign(**{name: np.array([], np.float64) for name in ("weight", *METRICS)}), pd.DataFrame()


def _measured(listed: Listed, tables: Sequence[pd.DataFrame]) -> tuple[Tables, list[list[str]]]:
    """The tables, and the groups of enrolled speakers who change places under the null hypothesis."""
    each = [table["score"].to_numpy(np.float64) for table in tables]
    values: list[dict[str, float]] = []
    if not listed.has_speakers:
        held = tables[0]["target"].to_numpy(bool)
        for one in each:
            found = metrics.trial_metrics(one[held], one[~held])
            values.append({"d_ece": found.d_ece, "eer": found.eer["rocch"]})
        _, nobody, nothing = _nothing(0)
        return (pd.DataFrame(values).assign(attack=range(len(each))), nobody, nothing), []
    sides = [tables[0][name].to_numpy(str) for name in ("model_speaker", "speaker")]
    names, codes = np.unique(np.concatenate(sides), return_inverse=True)
    enrolled, spoken = codes[: len(sides[0])].astype(np.int64), codes[len(sides[0]) :].astype(np.int64)
    trials = [metrics.Trials(one, enrolled, spoken) for one in each]
    rows = []
    for number, each_one in enumerate(trials):
        left = metrics.left_out(each_one, tuple(METRICS.values()))
        values.append({name: left.value[core] for name, core in METRICS.items()})
        without = {name: left.without[core] for name, core in METRICS.items()}
        rows.append(
            pd.DataFrame({"attack": number, "speaker": names[left.speakers], "weight": left.weights, **without})
        )
    null = np.empty((0, len(trials)))
    if listed.replicates:
        null = metrics.null_draws(
            trials, generator=lambda group: _permutes(listed.seed, names[group]), replicates=listed.replicates
        )
    made = (
        pd.DataFrame(values).assign(attack=range(len(trials))),
        pd.concat(rows, ignore_index=True),
        pd.DataFrame(null, columns=[str(number) for number in range(len(trials))]),
    )
    return made, [names[group].tolist() for group in permuted(trials[0])]


def _permutes(seed: int, speakers: np.ndarray) -> np.random.Generator:
    """What permutes these speakers: the same in every set in which they are enrolled."""
    return generator(seed, "null band of the strongest attack", *map(str, speakers))


# ------------------------------------------------------------------------------------------------------- what was written


@dataclass(frozen=True, eq=False)
class Held:
    """The attacks of one system on one subset, as :func:`attacks` wrote them.

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
    def read(cls, made: Artefact, ids: tuple[int, ...]) -> Held:
        tables = [pd.read_parquet(made.path(name)) for name in (ATTACKS, SPEAKERS, NULL)]
        values = tables[0].set_index("attack").sort_index()
        return cls(ids, values, tables[1], tables[2].to_numpy(np.float64), records.read(made.folder))

    def of(self, metric: str, wanted: Sequence[int]) -> Attacks:
        """Some of the attacks."""
        weights = self.speakers.groupby("speaker")["weight"].first()
        names = [str(name) for name in weights.index]
        without = np.full((len(self.ids), len(names)), np.nan)
        for number, part in self.speakers.groupby("attack"):
            without[int(str(number))] = part.set_index("speaker").loc[names, metric].to_numpy(np.float64)
        found = metrics.attacks_of(
            self.values[metric].to_numpy(np.float64),
            without,
            names,
            degrees=self.numbers["n_models"] - 1,
            bounds=bounds_of(METRICS[metric]),
            weights=weights.to_numpy(np.float64),
        )
        return found.only([self.ids.index(one) for one in wanted])

    def draws(self, wanted: Sequence[int]) -> np.ndarray:
        """D_ECE of some of the attacks under permuted identities [permutations, attacks]."""
        if not self.null.size:
            return np.empty((0, len(wanted)))
        found: np.ndarray = self.null[:, [self.ids.index(one) for one in wanted]]
        return found


def _attacks(held: Mapping[str, Held], weights: Mapping[str, float], wanted: Sequence[int], metric: str) -> Attacks:
    parts = [held[name].of(metric, wanted) for name in weights]
    return parts[0] if len(parts) == 1 else metrics.mean_of(parts, list(weights.values()))


def _reason(held: Mapping[str, Held], weights: Mapping[str, float]) -> str:
    """Why there is no value; '' if there is one."""
    several = {name: str(held[name].numbers["reason"]) for name in weights if held[name].numbers["reason"]}
    return "; ".join(f"{name}: {reason}" if len(weights) > 1 else reason for name, reason in several.items())


# ---------------------------------------------------------------------------------------------------------- the strongest


def strongest(sets: Sets, work: Work) -> None:
    """Write the strongest attack on a system, a row a subset, and all attacks behind it.

    ``rows.parquet``: subset, attack, n_attacks, contenders, d_ece with the interval and the null band of the maximum, d_ece_corrected
    (the maximum corrected for optimism), eer of this attack with an interval that holds for all attacks together, lowest_eer of all
    attacks with the interval of that minimum and the number of its attack, counts, reason. ``attacks.parquet``: subset, attack, d_ece and eer with the
    interval of this attack alone, and whether it contends.
    """
    held = {name: Held.read(work.input(f"attacks.{k}"), ids) for k, (name, ids) in enumerate(sets.attacks.items())}
    rows, others = [], []
    for name, weights in sets.names():
        wanted = sets.common(weights)
        row = {"subset": name, "n_attacks": len(wanted), **_counts(held, weights)}
        row["reason"] = _reason(held, weights) or ("" if wanted else "no attack is on all of its sets")
        if not row["reason"]:
            found, behind = _strongest(held, weights, wanted)
            row |= found
            others += [{"subset": name, **one} for one in behind]
        rows.append(row)
    columns = ["subset", "attack", "n_attacks", "contenders", *_columns("d_ece"), "d_ece_corrected", "null_low", "null_high",
               "p_chance", *_columns("eer"), *_columns("lowest_eer"), "lowest_eer_attack", *COUNTS, "n_speakers", "interval_reason", "null_reason", "reason"]  # fmt: skip
    folder = work.folder()
    _frame(rows, columns).to_parquet(folder / ROWS, index=False)
    _frame(others, ["subset", "attack", *_columns("d_ece"), *_columns("eer"), "contends"]).to_parquet(
        folder / ATTACKS, index=False
    )


COUNTS = ("n_expected", "n_used", "n_target", "n_nontarget")
TEXTS = (
    "subset",
    "under",
    "metric",
    "attack_a",
    "attack_b",
    "contenders",
    "interval_reason",
    "null_reason",
    "reason",
)


def _columns(metric: str) -> list[str]:
    return [metric, f"{metric}_low", f"{metric}_high"]


def _counts(held: Mapping[str, Held], weights: Mapping[str, float]) -> dict[str, int]:
    return {count: sum(int(held[name].numbers[count]) for name in weights) for count in COUNTS}


def _strongest(
    held: Mapping[str, Held], weights: Mapping[str, float], wanted: Sequence[int]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    of = {metric: _attacks(held, weights, wanted, metric) for metric in METRICS}
    # Of equal D_ECE the lower EER decides, then the order of the attacks.
    order = np.lexsort((np.arange(len(wanted)), of["eer"].values, -of["d_ece"].values))
    best = int(order[0])
    interval, contend = maximum(of["d_ece"])
    eer = metrics.simultaneous(of["eer"], best)
    ends = (eer.low, eer.high) if of["eer"].values[best] > 0 else _errorless(held, weights, len(wanted))
    value = float(of["d_ece"].values[best])
    null = _null(held, weights, wanted, value)
    row = {
        "attack": wanted[best],
        "contenders": " ".join(str(wanted[k]) for k in contend),
        **dict(zip(_columns("d_ece"), (value, interval.low, interval.high))),
        **dict(zip(_columns("eer"), (float(of["eer"].values[best]), *ends))),
        "d_ece_corrected": corrected_maximum(of["d_ece"]),
        **_lowest_eer(of["eer"], order, wanted, _errorless(held, weights, len(wanted))),
        "null_low": null.low,
        "null_high": null.high,
        "p_chance": null.p_value,
        "n_speakers": len(of["d_ece"].speakers),
        "interval_reason": interval.reason,
        "null_reason": null.reason,
    }
    behind = []
    for k in map(int, order):
        alone = {metric: (one.values[k], *_alone(one, k)) for metric, one in of.items()}
        if of["eer"].values[k] <= 0:
            alone["eer"] = (of["eer"].values[k], *_errorless(held, weights, 1))
        said = {name: value for metric in METRICS for name, value in zip(_columns(metric), alone[metric])}
        behind.append({"attack": wanted[k], **said, "contends": bool(k in contend)})
    return row, behind


def _lowest_eer(
    eer: Attacks, order: np.ndarray, wanted: Sequence[int], errorless: tuple[float | None, float | None]
) -> dict[str, Any]:
    """The lowest EER of all attacks with the interval of that minimum, and its attack: of equal ones the one with the higher D_ECE."""
    lowest = int(order[np.argmin(eer.values[order])])
    value = float(eer.values[lowest])
    negative = replace(
        eer, values=-eer.values, contributions=-eer.contributions, bounds=(-eer.bounds[1], -eer.bounds[0])
    )
    interval, _ = maximum(negative)
    mirrored = (None if end is None else -end for end in (interval.high, interval.low))
    low, high = mirrored if value > 0 else errorless
    return {**dict(zip(_columns("lowest_eer"), (value, low, high))), "lowest_eer_attack": wanted[lowest]}


def _alone(of: Attacks, attack: int) -> tuple[float | None, float | None]:
    """The interval of one attack, as if it were the only one."""
    interval, _ = maximum(of.only([attack]))
    return interval.low, interval.high


def _errorless(held: Mapping[str, Held], weights: Mapping[str, float], among: int) -> tuple[float | None, float | None]:
    """The interval of an EER of 0 that was chosen among so many attacks; of a mean the mean of those of its sets."""
    if not all(len(held[name].speakers) for name in weights):
        return None, None
    level, most = 1 - (1 - LEVEL) / among, bounds_of(METRICS["eer"])[1]
    limits = [min(zero_error_limit(held[name].numbers["n_rated"], level), most) for name in weights]
    return 0.0, float(np.dot(list(weights.values()), limits))


def _null(held: Mapping[str, Held], weights: Mapping[str, float], wanted: Sequence[int], value: float) -> NullBand:
    """The null band of the strongest attack: of sets, of the weighted mean in each draw, for which speakers who are enrolled in
    several have to change places alike."""
    parts = [held[name] for name in weights]
    reason = _no_null(parts)
    if reason:
        return no_band(reason)
    draws = np.sum([weight * one.draws(wanted) for weight, one in zip(weights.values(), parts)], axis=0)
    return metrics.null_of_maximum(value, draws)


def _no_null(parts: Sequence[Held]) -> str:
    """Why there is no null band; '' if there is one."""
    if not all(one.numbers["has_speakers"] for one in parts):
        return "the speakers are not known"
    if not all(one.numbers["replicates"] for one in parts):
        return "no permutations were asked for (report.replicates=0)"
    if not all(one.null.size for one in parts):
        return "too few enrolled speakers to permute"
    groups = {frozenset(group) for one in parts for group in one.numbers["permuted"]}
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


def differences(two: Two, work: Work) -> None:
    """Write the differences B - A, a row a subset, kind of attack and metric: D_ECE under each one's strongest attack with its p-value,
    the EER of these attacks, and both under each attack that is on both."""
    held = [
        {name: Held.read(work.input(f"{side}.{k}"), ids) for k, (name, ids) in enumerate(of.attacks.items())}
        for side, of in (("a", two.a), ("b", two.b))
    ]
    rows: list[dict[str, Any]] = []
    others = dict(two.b.names())
    for name, weights in two.a.names():
        if others.get(name) == weights:
            rows += _compared(two, held[0], held[1], name, weights)
    columns = ["subset", "under", "attack_a", "attack_b", "metric", "a", "b", "difference", "low", "high", "p_value",
               "n_speakers", "swaps", "exact", "reason"]  # fmt: skip
    _frame(rows, columns).to_parquet(work.folder() / ROWS, index=False)


def _compared(
    two: Two, a: Mapping[str, Held], b: Mapping[str, Held], name: str, weights: Mapping[str, float]
) -> Iterator[dict[str, Any]]:
    on_a, on_b = two.a.common(weights), two.b.common(weights)
    lacking = _reason(a, weights) or _reason(b, weights)
    if not lacking and any(a[one].numbers["trials"] != b[one].numbers["trials"] for one in weights):
        lacking = "the two systems were not tried on the same trials"
    if lacking or not (on_a and on_b):
        reason = lacking or "no attack is on all of its sets"
        yield from ({"subset": name, "under": STRONGEST, "metric": metric, "reason": reason} for metric in METRICS)
        return
    of_a = {metric: _attacks(a, weights, on_a, metric) for metric in METRICS}
    of_b = {metric: _attacks(b, weights, on_b, metric) for metric in METRICS}
    tested = functools.partial(_row, two.seed, name)
    best_a, best_b = (int(np.argmax(of["d_ece"].values)) for of in (of_a, of_b))
    ids = {"attack_a": str(on_a[best_a]), "attack_b": str(on_b[best_b])}
    yield {**tested(of_a["d_ece"], of_b["d_ece"]), "under": STRONGEST, "metric": "d_ece", **ids}
    eer = tested(of_a["eer"].only([best_a]), of_b["eer"].only([best_b]))
    untested = {
        "p_value": None,
        "swaps": None,
        "exact": None,
        "reason": "the test is that of D_ECE, which chose the attacks",
    }
    yield {**eer, **untested, "under": STRONGEST, "metric": "eer", **ids}
    for one, other in two.same:
        if one in on_a and other in on_b:
            here = on_a.index(one), on_b.index(other)
            for metric in METRICS:
                row = tested(of_a[metric].only([here[0]]), of_b[metric].only([here[1]]))
                yield {**row, "under": SAME, "metric": metric, "attack_a": str(one), "attack_b": str(other)}


def _row(seed: int, name: str, a: Attacks, b: Attacks) -> dict[str, Any]:
    of_a, of_b = float(a.values.max()), float(b.values.max())
    values = {"subset": name, "a": of_a, "b": of_b}
    if not a.speakers or a.speakers != b.speakers:
        reason = "the speakers are not known" if not a.speakers else "the two systems have other speakers"
        return {**values, "difference": of_b - of_a, "reason": reason}
    found = metrics.difference(a, b, generator=generator(seed, "swaps of two systems"))
    return {
        **values,
        "difference": found.difference,
        "low": found.interval.low,
        "high": found.interval.high,
        "p_value": found.p_value,
        "n_speakers": found.n_speakers,
        "swaps": found.swaps,
        "exact": float(found.exact),
        "reason": found.reason,
    }
