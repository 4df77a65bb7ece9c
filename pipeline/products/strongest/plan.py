"""The strongest attack on each system, and systems compared in pairs, from the scores of all attacks."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipeline.engine.task import Input, Ref, Task
from pipeline.errors import ConfigError
from pipeline.products.averages.plan import formed
from pipeline.products.strongest import compute as stage
from pipeline.products.strongest.compute import Listed, Sets, Two
from pipeline.stages.graph import Answered, Compared
from pipeline.stages.plan import Cell, Plan
from pipeline.stages.settings import ReportSettings

LIBRARIES = ("numpy", "scipy")
ATTACK = ("condition", "attacker", "extractor", "trained_on", "backend")
"""What tells the attacks on a system apart."""

Tried = tuple[Cell, Task, bool]


def strongest(plan: Plan) -> None:
    """Plan them, of all attacks that are tried.

    Raises:
        ConfigError: there is no system that others are to be compared with.
    """
    if not plan.families("trials"):
        return
    plan.graph.means = {one.subset: dict(one.weights) for one in formed(plan.evaluation, plan.data.trials).values()}
    by_system: dict[str, list[Tried]] = {}
    for one in plan.tried:
        by_system.setdefault(one[0].system.system, []).append(one)
    held: dict[str, tuple[Sets, Mapping[str, Ref]]] = {}
    for system, tried in by_system.items():
        held[system] = _answered(plan, system, tried)
    _compared(plan, held)


def _answered(plan: Plan, system: str, tried: Sequence[Tried]) -> tuple[Sets, Mapping[str, Ref]]:
    """The strongest attack on one system; what it is made of."""
    identities = [cell.identity(plan.data.name) for cell, _, _ in tried]
    keys = [tuple(identity[name] for name in ATTACK) for identity in identities]
    number = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    there: dict[str, list[tuple[int, Tried]]] = {}
    for key, one in zip(keys, tried):
        there.setdefault(one[0].subset, []).append((number[key], one))
    ids = {subset: tuple(place for place, _ in several) for subset, several in there.items()}
    made = {subset: _attacks(plan, system, subset, [one for _, one in there[subset]]).ref() for subset in there}
    first = dict(zip(keys, identities))
    sets = Sets(
        ids,
        {name: of for name, of in plan.graph.means.items() if set(of) <= set(ids)},
        tuple(place for key, place in number.items() if first[key]["condition"].endswith("PP")),
    )
    inputs: dict[str, Input] = {f"attacks.{place}": ref for place, ref in enumerate(made.values())}
    task = plan.graph.add(
        Task(
            name="measure",
            label=f"measure the strongest attack on {system}",
            settings=_plain(sets),
            inputs=inputs,
            function=functools.partial(stage.strongest, sets),
            libraries=LIBRARIES,
        )
    )
    protects = any(identity["condition"] != "OO" for identity in identities)
    plan.graph.answered.append(
        Answered(
            {name: identities[0][name] for name in ("dataset", "system", "system_level")},
            tuple(first[key] for key in number),
            ids,
            tuple(_untried(plan, system, identities)) if protects else (),
            protects,
            task.ref(),
        )
    )
    return sets, made


def _attacks(plan: Plan, system: str, subset: str, tried: Sequence[Tried]) -> Task:
    """What each speaker contributes to the numbers of all attacks on one subset."""
    asked: ReportSettings = plan.evaluation.report
    listed = Listed(
        subset,
        len(tried),
        plan.data.trials[subset].expected,
        all(known for _, _, known in tried),
        asked.replicates,
        asked.seed,
    )
    inputs: dict[str, Input] = {f"scores.{place}": task.ref() for place, (_, task, _) in enumerate(tried)}
    return plan.graph.add(
        Task(
            name="measure",
            label=f"measure attacks on {system} {subset}",
            settings={
                "subset": subset,
                "n_expected": listed.n_expected,
                "has_speakers": listed.has_speakers,
                "replicates": listed.replicates,
                "seed": listed.seed,
            },
            inputs=inputs,
            function=functools.partial(stage.attacks, listed),
            libraries=LIBRARIES,
        )
    )


def _untried(plan: Plan, system: str, identities: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """Attackers that have no attack with an extractor that was chosen."""
    there = {
        (one["attacker"], name) for one in identities for name in one["extractor"].partition(", fused (")[0].split("+")
    }
    labels = dict.fromkeys(one.name for one in plan.extractors if "trials" in one.component.compared_as)
    for attacker in plan.evaluation.attackers:
        for label in labels:
            if (attacker, label) not in there:
                yield f"{attacker} with {label}"


def _compared(plan: Plan, held: Mapping[str, tuple[Sets, Mapping[str, Ref]]]) -> None:
    """Each system that protects with each other, first with the baseline, and each with unprotected speech."""
    known = {one.identity["system"]: one for one in plan.graph.answered}
    protecting = [system for system, one in known.items() if one.protects]
    asked = plan.evaluation.report
    if asked.baseline and asked.baseline not in known:
        raise ConfigError(
            f"no attack is on the system {asked.baseline}, with which the others are to be compared",
            where="report.baseline",
            remedy=f"name one of {', '.join(known)}: report.baseline={next(iter(known), '')}",
        )
    if not protecting:
        return
    baseline = asked.baseline or protecting[0]
    order = [baseline, *(system for system in protecting if system != baseline)]
    pairs = [(a, b) for place, a in enumerate(order) for b in order[place + 1 :]]
    pairs += [(one, b) for one in known if one not in order and not known[one].protects for b in protecting]
    for a, b in pairs:
        _pair(plan, known[a], known[b], held, a == baseline)


def _pair(
    plan: Plan, a: Answered, b: Answered, held: Mapping[str, tuple[Sets, Mapping[str, Ref]]], to_baseline: bool
) -> None:
    names = a.identity["system"], b.identity["system"]
    (of_a, refs_a), (of_b, refs_b) = (held[name] for name in names)
    two = Two(of_a, of_b, tuple(_same(a, b)) if to_baseline else (), plan.evaluation.report.seed)
    inputs: dict[str, Input] = {f"a.{place}": ref for place, ref in enumerate(refs_a.values())}
    inputs |= {f"b.{place}": ref for place, ref in enumerate(refs_b.values())}
    task = plan.graph.add(
        Task(
            name="measure",
            label=f"measure differences between {names[0]} and {names[1]}",
            settings={
                "a": _plain(of_a),
                "b": _plain(of_b),
                "same": [list(pair) for pair in two.same],
                "seed": two.seed,
            },
            inputs=inputs,
            function=functools.partial(stage.differences, two),
            libraries=LIBRARIES,
        )
    )
    plan.graph.compared.append(Compared(*names, to_baseline, task.ref()))


def _same(a: Answered, b: Answered) -> Iterator[tuple[int, int]]:
    """The attacks that are on both: with the same attacker, extractor and back end, whatever the levels of the systems."""
    named: list[dict[tuple[str, str, str, str, str], list[int]]] = [{}, {}]
    for found, one in zip(named, (a, b)):
        for number, attack in enumerate(one.attacks):
            trained = re.sub(r"\s*\([^()]*\)", "", attack["trained_on"])
            key = (attack["condition"], attack["attacker"], attack["extractor"], attack["backend"], trained)
            found.setdefault(key, []).append(number)
    for key, numbers in named[0].items():
        others = named[1].get(key, [])
        if len(numbers) == len(others) == 1:
            yield numbers[0], others[0]


def _plain(sets: Sets) -> dict[str, Any]:
    return {
        "attacks": {name: list(ids) for name, ids in sets.attacks.items()},
        "means": {name: dict(weights) for name, weights in sets.means.items()},
        "protected": list(sets.protected),
    }
