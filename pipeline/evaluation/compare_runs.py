"""Two runs, system by system: differences from the trial scores that both keep, tested by swapping the runs speaker by speaker.

As :mod:`pipeline.products.strongest.compute` compares two systems of one run: each under its strongest attack, and under the same attack.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from pipeline import metrics
from pipeline.errors import PipelineError
from pipeline.evaluation.result import Result
from pipeline.metrics import Attacks, LeaveOneOut, MetricError
from pipeline.metrics.maximum import attack_choices, negate
from pipeline.metrics.trial_uncertainty import metric_bounds
from pipeline.products.strongest.compute import METRICS, MOST_COMPARED, SAME, STRONGEST
from pipeline.report import verdict as words
from pipeline.report.comparison import SAME_SCORES, Difference, RunDifferences, SystemDifference
from pipeline.seeds import digest, generator
from pipeline.stages.settings import means_of_sexes
from pipeline.tables import results, run_files
from pipeline.tables.answers import ATTACK

IDS = ["model", "utterance"]
SEED = 0
NO_SPEAKERS = "no interval: "
"""Begins the note of rows where it is not known who the speakers are."""
MEASURED = ("eer", "d_ece", "cllr_min")

Attack = Mapping[str, Any]
Choice = tuple[tuple[str, ...], ...]
"""What tells the attack on each set of a mean from the others there."""
Measure = Callable[[str, pd.DataFrame], LeaveOneOut]


@dataclass(frozen=True)
class _Side:
    """One of the two runs.

    Attributes:
        attacks: by system and subset.
        statements: status, reason and note of rows by system, subset and attack.
        means: the sets of each mean over subsets, with their weights.
    """

    letter: str
    run: Result
    attacks: Mapping[tuple[str, str], list[Attack]]
    statements: Mapping[tuple[str, ...], list[tuple[str, str, str]]]
    means: Mapping[str, Mapping[str, float]]

    @property
    def systems(self) -> list[str]:
        attacked = dict.fromkeys(system for system, _ in self.attacks)
        return [
            *(name for name in self.run.systems if name in attacked),
            *(name for name in attacked if name not in self.run.systems),
        ]

    @property
    def subsets(self) -> list[str]:
        return list(dict.fromkeys(subset for _, subset in self.attacks))

    def paths(self, system: str, subset: str) -> set[str]:
        """Where the scores of all attacks lie, in any store that holds them."""
        return {str(attack["path"]) for attack in self.attacks[system, subset]}


@dataclass(frozen=True, eq=False)
class _Attacked:
    """All attacks on a system and subset in one run, on the trials that all have.

    Attributes:
        trials: model, utterance, target, model_speaker, speaker of each trial.
        contributions: each attack on everybody and without each speaker.
        speakers: their names, ascending.
        reason: why there are no values; '' if there are.
        gone: the letter of the run, where its scores cannot be read any more.
        partial: whether they stand on less than was expected.
    """

    attacks: tuple[Attack, ...] = ()
    trials: pd.DataFrame = field(default_factory=pd.DataFrame)
    contributions: tuple[LeaveOneOut, ...] = ()
    speakers: tuple[str, ...] = ()
    reason: str = ""
    gone: str = ""
    partial: bool = False


def compared(first: Result, second: Result) -> RunDifferences:
    """All systems that both runs attack on the same trial sets, B minus A; what cannot be compared, with its reason.

    Where each run has one system that the other has not, these two are compared.
    """
    sides: list[_Side] = []
    for letter, run in zip("AB", (first, second)):
        try:
            sides.append(_side(letter, run))
        except PipelineError as error:
            return RunDifferences(unread=f"{letter}: {error.what}", gone=(letter,))
    a, b = sides
    rows: list[SystemDifference] = []
    gone: list[str] = []
    equal: list[tuple[str, str]] = []
    measure = _measuring()
    subsets = [name for name in a.subsets if name in b.subsets]
    means = {name: of for name, of in a.means.items() if b.means.get(name) == of and set(of) <= set(subsets)}
    pairs = [(name, name) for name in a.systems if name in b.systems]
    unpaired = [_not_in(a.systems, b.systems), _not_in(b.systems, a.systems)]
    if len(unpaired[0]) == len(unpaired[1]) == 1:  # one system each: what a sweep over systems makes
        pairs.append((unpaired[0][0], unpaired[1][0]))
        unpaired = [(), ()]
    for pair in pairs:
        system = " / ".join(dict.fromkeys(pair))
        shared = [name for name in subsets if (pair[0], name) in a.attacks and (pair[1], name) in b.attacks]
        same = {name for name in shared if a.paths(pair[0], name) == b.paths(pair[1], name)}
        equal += [(system, name) for name in shared if name in same]
        sets = {name: of for name, of in means.items() if set(of) <= set(shared)}
        sets |= {name: {name: 1.0} for name in shared}
        sets = {name: of for name, of in sets.items() if not set(of) <= same}
        attacked = {
            name: (_read_attacks(a, pair[0], name, measure), _read_attacks(b, pair[1], name, measure))
            for of in sets.values()
            for name in of
        }
        gone += [side.gone for two_sides in attacked.values() for side in two_sides]
        for name, weights in sets.items():
            rows += _rows(system, name, weights, attacked)
    rows.sort(key=lambda row: [*means, *subsets].index(row.subset))
    return RunDifferences(
        rows=tuple(_corrected(rows)),
        equal=tuple(equal),
        gone=tuple(sorted(set(gone) - {""})),
        systems=(unpaired[0], unpaired[1]),
        subsets=(_not_in(a.subsets, b.subsets), _not_in(b.subsets, a.subsets)),
    )


def _not_in(own: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in own if name not in others)


# ------------------------------------------------------------------------------------------------------------ of one run


def _side(letter: str, run: Result) -> _Side:
    attacks: dict[tuple[str, str], list[Attack]] = {}
    for row in results.records(run_files.read_artefacts(run.folder)):
        if (row["reads"], row["input"]) == ("trials", "scores"):
            attacks_here = attacks.setdefault((row["system"], row["subset"]), [])
            if all(_attack_key(attack) != _attack_key(row) for attack in attacks_here):
                attacks_here.append(row)
    statements: dict[tuple[str, ...], list[tuple[str, str, str]]] = {}
    for row in results.records(run.rows[run.rows["metric"].isin(MEASURED)]):
        statements.setdefault((row["system"], row["subset"], *_attack_key(row)), []).append(
            (row["status"], row["reason"], row["note"])
        )
    path = run.folder / "config.yaml"
    config = run_files.read_yaml(path) if path.is_file() else {}
    config = config if isinstance(config, dict) else {}
    means = {
        str(mean.get("subset") or label): {str(name): float(weight) for name, weight in mean.get("weights", {}).items()}
        for label, mean in (config.get("averages") or {}).items()
    }
    if (config.get("report") or {}).get("mean_of_sexes", True):
        subsets = list(dict.fromkeys(subset for _, subset in attacks))
        means |= means_of_sexes(subsets, [of for of in means.values() if set(of) <= set(subsets)])
    return _Side(letter, run, attacks, statements, means)


def _attack_key(row: Attack) -> tuple[str, ...]:
    return tuple(str(row[name]) for name in ATTACK)


def _measuring() -> Measure:
    """Measures an attack on everybody and without each speaker; of the same scores once, whichever run they are of."""
    measured: dict[tuple[str, str], LeaveOneOut] = {}

    def measure(path: str, table: pd.DataFrame) -> LeaveOneOut:
        key = path, digest([len(table), *table[IDS].to_numpy().tolist()])
        if key not in measured:
            _, codes = np.unique(table[["model_speaker", "speaker"]].to_numpy(str), return_inverse=True)
            sides = codes.reshape(-1, 2).astype(np.int64)
            trials = metrics.Trials(table["score"].to_numpy(np.float64), sides[:, 0], sides[:, 1])
            measured[key] = metrics.leave_each_out(trials, tuple(METRICS.values()))
        return measured[key]

    return measure


def _read_attacks(side: _Side, system: str, subset: str, measure: Measure) -> _Attacked:
    attacks = side.attacks[system, subset]
    statements = [
        statement for attack in attacks for statement in side.statements.get((system, subset, *_attack_key(attack)), [])
    ]
    short = dict.fromkeys(reason for status, reason, _ in statements if status == "incomplete")
    unknown = [note.partition(NO_SPEAKERS)[2] for _, _, note in statements if NO_SPEAKERS in note]
    if short:
        return _Attacked(reason=f"{side.letter} has no whole number: {'; '.join(filter(None, short)) or 'incomplete'}")
    if unknown:
        return _Attacked(reason=f"the speakers are not known: {unknown[0]}")
    try:
        labels = [{name: str(attack[name]) for name in ATTACK} for attack in attacks]
        scores = [side.run.scores(system=system, subset=subset, **label).set_index(IDS) for label in labels]
        kept = functools.reduce(lambda index, other: index[index.isin(other)], (table.index for table in scores))
        tables = [table.loc[kept].reset_index() for table in scores]  # the trials that all have, in one order
        measured = tuple(measure(str(attack["path"]), table) for attack, table in zip(attacks, tables))
    except PipelineError as error:
        return _Attacked(reason=f"{side.letter}: {error.what}", gone=side.letter)
    except MetricError as error:
        return _Attacked(reason=f"{side.letter}: {error}")
    names = np.unique(tables[0][["model_speaker", "speaker"]].to_numpy(str))
    return _Attacked(
        tuple(attacks),
        tables[0].drop(columns="score"),
        measured,
        tuple(str(names[code]) for code in measured[0].speakers),
        partial=any(status == "partial" for status, _, _ in statements),
    )


# ----------------------------------------------------------------------------------------------------------- of two runs


def _rows(
    system: str, subset: str, weights: Mapping[str, float], attacked: Mapping[str, tuple[_Attacked, _Attacked]]
) -> Iterator[SystemDifference]:
    """The differences of a system on a subset or a mean: under each run's strongest attack, then under the same one."""
    pairs_of_sets = [(name, attacked[name]) for name in weights]
    sides = [[pair[place] for _, pair in pairs_of_sets] for place in (0, 1)]
    row = SystemDifference(
        subset, system, STRONGEST, partial=any(attacks.partial for side in sides for attacks in side)
    )
    reason = "; ".join(dict.fromkeys(attacks.reason for side in sides for attacks in side if attacks.reason))
    reason = reason or "; ".join(
        filter(None, (_other_trials(*pair, name if len(weights) > 1 else "") for name, pair in pairs_of_sets))
    )
    if reason:
        yield replace(row, reason=reason)
        return
    shares = list(weights.values())
    chosen = {metric: [_chosen(side, metric) for side in sides] for metric in METRICS}
    of = {
        metric: [_attacks(side, shares, choice, metric) for side, choice in zip(sides, choices)]
        for metric, choices in chosen.items()
    }
    eers = [_attacks(side, shares, choice, "eer") for side, choice in zip(sides, chosen["d_ece"])]
    # Of equal D_ECE the lower EER decides, then the order of the attacks: as in each run.
    best = [
        int(np.lexsort((np.arange(d_ece.values.size), eer.values, -d_ece.values))[0])
        for d_ece, eer in zip(of["d_ece"], eers)
    ]
    named = [
        _describe_choice(list(weights), side, choices[k]) for side, choices, k in zip(sides, chosen["d_ece"], best)
    ]
    tried = [len({_attack_key(attack) for attacks in side for attack in attacks.attacks}) for side in sides]
    tested = _tested(row, *of["d_ece"])
    yield replace(tested, attacks=(named[0], named[1]), tried=(tried[0], tried[1]), eer=_eer(*of["eer"]))
    if tried == [1, 1]:
        return  # the strongest is the same, or there is no same one
    common = [_in_all(side) for side in sides]
    for k, m in _same(*common):
        keys = [(set_keys[number],) * len(shares) for set_keys, number in zip(common, (k, m))]
        pair = {
            metric: [_attacks(side, shares, [choice], metric) for side, choice in zip(sides, keys)]
            for metric in METRICS
        }
        both = [_attack(side[0], choice[0]) for side, choice in zip(sides, keys)]
        row = replace(
            row, under=SAME, attacks=(words.describe_attack(both[0]), words.describe_attack(both[1])), tried=(1, 1)
        )
        paths = [[_attack(each, choice[0])["path"] for each in side] for side, choice in zip(sides, keys)]
        if paths[0] == paths[1]:
            yield replace(row, reason=SAME_SCORES)
        else:
            yield replace(_tested(row, *pair["d_ece"]), eer=_eer(*pair["eer"]))


def _in_all(side: Sequence[_Attacked]) -> list[tuple[str, ...]]:
    return [
        _attack_key(attack)
        for attack in side[0].attacks
        if all(_attack_key(attack) in map(_attack_key, other.attacks) for other in side[1:])
    ]


def _attack(attacked: _Attacked, key: tuple[str, ...]) -> Attack:
    return next(attack for attack in attacked.attacks if _attack_key(attack) == key)


def _describe_choice(subsets: Sequence[str], side: Sequence[_Attacked], choice: Choice) -> str:
    attacks = {name: _attack(attacked, key) for name, attacked, key in zip(subsets, side, choice)}
    return words.describe_attack_by_set(attacks) if len(set(choice)) > 1 else words.describe_attack(attacks[subsets[0]])


def _chosen(side: Sequence[_Attacked], metric: str) -> list[Choice]:
    """The attacks that may disclose most by a metric on each set of a mean, as in each run."""
    keys = [[_attack_key(attack) for attack in attacked.attacks] for attacked in side]
    parts = [_part(attacked, set_keys, metric) for attacked, set_keys in zip(side, keys)]
    places = attack_choices([negate(part) for part in parts] if metric == "eer" else parts, MOST_COMPARED)
    return [tuple(set_keys[place] for set_keys, place in zip(keys, row)) for row in places.tolist()]


def _attacks(side: Sequence[_Attacked], weights: Sequence[float], chosen: Sequence[Choice], metric: str) -> Attacks:
    """What each speaker contributes to a metric of some attacks, on a set or on a mean of sets."""
    parts = [_part(attacked, [choice[k] for choice in chosen], metric) for k, attacked in enumerate(side)]
    return parts[0] if len(parts) == 1 else metrics.average_attacks(parts, weights)


def _part(attacked: _Attacked, keys: Sequence[tuple[str, ...]], metric: str) -> Attacks:
    core, all_keys = METRICS[metric], [_attack_key(attack) for attack in attacked.attacks]
    selected = [attacked.contributions[all_keys.index(key)] for key in keys]
    return metrics.collect_attacks(
        [attack.value[core] for attack in selected],
        np.array([attack.without[core] for attack in selected]),
        attacked.speakers,
        degrees=selected[0].degrees,
        bounds=metric_bounds(core),
        weights=selected[0].weights,
    )


def _same(first: Sequence[tuple[str, ...]], second: Sequence[tuple[str, ...]]) -> Iterator[tuple[int, int]]:
    """The attacks that both runs have by their labels."""
    numbers_by_label: list[dict[tuple[str, ...], list[int]]] = [{}, {}]
    for named, keys in zip(numbers_by_label, (first, second)):
        for number, key in enumerate(keys):
            named.setdefault(tuple(re.sub(r"\s*\([^()]*\)", "", part) for part in key), []).append(number)
    for key, numbers in numbers_by_label[0].items():
        others = numbers_by_label[1].get(key, [])
        if len(numbers) == len(others) == 1:
            yield numbers[0], others[0]


def _other_trials(first: _Attacked, second: _Attacked, name: str) -> str:
    trials = [attacked.trials.set_index(IDS) for attacked in (first, second)]
    both = trials[0].index.intersection(trials[1].index)
    text = ""
    if len(both) != len(trials[0]) or len(both) != len(trials[1]):
        speakers = [set(attacked.speakers) for attacked in (first, second)]
        text = f"other trials: {len(trials[0])} in A, {len(trials[1])} in B, {len(both)} in both"
        if speakers[0] != speakers[1]:
            common = len(speakers[0] & speakers[1])
            text += f"; other speakers: {len(speakers[0])} in A, {len(speakers[1])} in B, {common} in both"
    else:
        sides = [attacked.loc[both, ["target", "model_speaker", "speaker"]] for attacked in trials]
        unlike = int((sides[0] != sides[1]).any(axis=1).sum())
        text = f"{unlike} trials are of other speakers in A than in B" if unlike else ""
    return f"{name}: {text}" if text and name else text


def _tested(row: SystemDifference, a: Attacks, b: Attacks) -> SystemDifference:
    test = metrics.difference(a, b, generator=generator(SEED, "swaps of two runs"))
    return replace(
        row,
        d_ece=Difference(
            (float(a.values.max()), float(b.values.max())), test.difference, (test.interval.low, test.interval.high)
        ),
        p_value=test.p_value,
        reason=test.reason,
    )


def _eer(a: Attacks, b: Attacks) -> Difference:
    """The lowest EER of both runs, with the interval of the difference of these attacks; the test is that of D_ECE."""
    first, second = (of.only([int(np.argmin(of.values))]) for of in (a, b))
    test = metrics.difference(first, second, generator=generator(SEED, "swaps of two runs"))
    values = float(first.values[0]), float(second.values[0])
    return Difference(values, values[1] - values[0], (test.interval.low, test.interval.high))


def _corrected(rows: Sequence[SystemDifference]) -> list[SystemDifference]:
    """p-values corrected over all rows with the same subset and kind of attack."""
    groups: dict[tuple[str, str], list[int]] = {}
    for number, row in enumerate(rows):
        if row.p_value is not None:
            groups.setdefault((row.subset, row.under), []).append(number)
    corrected = list(rows)
    for numbers in groups.values():
        for number, p in zip(numbers, metrics.holm([rows[k].p_value or 0.0 for k in numbers])):
            corrected[number] = replace(rows[number], p_holm=float(p))
    return corrected
