"""The strongest attack on each system, and systems compared in pairs, from the scores of all attacks."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pipeline.engine.task import Input, Ref, Task, Work
from pipeline.errors import ConfigError
from pipeline.products import ProductKind
from pipeline.products.strongest import compute
from pipeline.products.strongest.collect import Candidate, SystemPair, collect_strongest
from pipeline.products.strongest.compute import Listed, Sets, Two
from pipeline.stages.graph import StrongestAttack
from pipeline.stages.plan import Attempt, Plan
from pipeline.stages.settings import list_averages
from pipeline.tables.answers import ATTACK


@dataclass(frozen=True)
class _Attacked:
    """A system with what is planned of the attacks on it, and what each speaker contributes to each subset."""

    product: StrongestAttack
    sets: Sets
    contributions: Mapping[str, Ref]


def plan_strongest(plan: Plan) -> None:
    """The strongest of all attacks that are tried, and what held-out training speakers choose between.

    Raises:
        ConfigError: there is no system that others are to be compared with.
    """
    by_system: dict[str, list[Attempt]] = {}
    for attempt in plan.attempts:
        trial = attempt.trial
        if trial is not None and trial.is_candidate and trial.scorer.check is not None:
            plan.graph.products.append(Candidate(attempt.cell.identity(plan.data.name), trial.scorer.check))
        by_system.setdefault(attempt.cell.system.system, []).append(attempt)
    attacked = {system: _plan_system(plan, system, attempts) for system, attempts in by_system.items()}
    if attacked:
        _plan_comparisons(plan, attacked)


def _plan_system(plan: Plan, system: str, attempts: Sequence[Attempt]) -> _Attacked:
    identities = [attempt.cell.identity(plan.data.name) for attempt in attempts]
    keys = [tuple(identity[name] for name in ATTACK) for identity in identities]
    by_key = dict(zip(keys, identities))
    number = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    by_subset: dict[str, list[tuple[int, Attempt]]] = {}
    for key, attempt in zip(keys, attempts):
        by_subset.setdefault(attempt.cell.subset, []).append((number[key], attempt))
    ids = {subset: tuple(place for place, _ in numbered) for subset, numbered in by_subset.items()}
    contributions = {
        subset: _contributions(plan, system, subset, [attempt for _, attempt in numbered]).ref()
        for subset, numbered in by_subset.items()
    }
    means = {mean.subset: dict(mean.weights) for mean in list_averages(plan.evaluation, plan.data.trials).values()}
    sets = Sets(
        ids,
        {name: weights for name, weights in means.items() if set(weights) <= set(ids)},
        tuple(place for key, place in number.items() if by_key[key]["condition"].endswith("PP")),
    )
    inputs: dict[str, Input] = {f"attacks.{place}": ref for place, ref in enumerate(contributions.values())}
    function = functools.partial(compute.choose_strongest, sets)
    task = _add(plan, f"measure the strongest attack on {system}", _as_settings(sets), inputs, function)
    protects = any(identity["condition"] != "OO" for identity in identities)
    product = StrongestAttack(
        {name: identities[0][name] for name in ("dataset", "system", "system_level")},
        task.ref(),
        tuple(by_key[key] for key in number),
        ids,
        tuple(_untried(plan, identities)) if protects else (),
        protects,
    )
    plan.graph.products.append(product)
    return _Attacked(product, sets, contributions)


def _contributions(plan: Plan, system: str, subset: str, attempts: Sequence[Attempt]) -> Task:
    report = plan.evaluation.products.report
    expected, has_speakers = plan.data.trials[subset].expected, all(attempt.has_speakers for attempt in attempts)
    listed = Listed(subset, len(attempts), expected, has_speakers, report.replicates, report.seed)
    settings = {name: value for name, value in asdict(listed).items() if name != "n_attacks"}
    inputs: dict[str, Input] = {f"scores.{place}": attempt.scores.ref() for place, attempt in enumerate(attempts)}
    function = functools.partial(compute.measure_contributions, listed)
    return _add(plan, f"measure attacks on {system} {subset}", settings, inputs, function)


def _untried(plan: Plan, identities: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """Attackers that have no attack with an extractor that was chosen."""
    tried = {
        (identity["attacker"], name)
        for identity in identities
        for name in identity["extractor"].partition(", fused (")[0].split("+")
    }
    able = [extractor for extractor in plan.extractors if "trials" in extractor.component.compared_as]
    for attacker in plan.evaluation.attackers:
        for label in dict.fromkeys(extractor.name for extractor in able):
            if (attacker, label) not in tried:
                yield f"{attacker} with {label}"


def _plan_comparisons(plan: Plan, attacked: Mapping[str, _Attacked]) -> None:
    """Each system that protects with each other, first with the baseline, and each with unprotected speech."""
    protecting = [system for system, attacks in attacked.items() if attacks.product.protects]
    chosen = plan.evaluation.products.report.baseline
    if chosen and chosen not in attacked:
        raise ConfigError(
            f"no attack is on the system {chosen}, with which the others are to be compared",
            where="report.baseline",
            remedy=f"name one of {', '.join(attacked)}: report.baseline={next(iter(attacked), '')}",
        )
    if not protecting:
        return
    baseline = chosen or protecting[0]
    order = [baseline, *(system for system in protecting if system != baseline)]
    pairs = [(a, b) for place, a in enumerate(order) for b in order[place + 1 :]]
    unprotected = [system for system in attacked if system not in order and system not in protecting]
    pairs += [(a, b) for a in unprotected for b in protecting]
    for a, b in pairs:
        _plan_pair(plan, attacked[a], attacked[b], a == baseline)


def _plan_pair(plan: Plan, a: _Attacked, b: _Attacked, to_baseline: bool) -> None:
    names = a.product.system, b.product.system
    same = tuple(_same_attacks(a.product, b.product)) if to_baseline else ()
    two = Two(a.sets, b.sets, same, plan.evaluation.products.report.seed)
    inputs: dict[str, Input] = {f"a.{place}": ref for place, ref in enumerate(a.contributions.values())}
    inputs |= {f"b.{place}": ref for place, ref in enumerate(b.contributions.values())}
    settings = {
        "a": _as_settings(a.sets),
        "b": _as_settings(b.sets),
        "same": [list(pair) for pair in same],
        "seed": two.seed,
    }
    function = functools.partial(compute.compare_systems, two)
    task = _add(plan, f"measure differences between {names[0]} and {names[1]}", settings, inputs, function)
    plan.graph.products.append(SystemPair({"system": names[1]}, task.ref(), names[0], to_baseline))


def _same_attacks(a: StrongestAttack, b: StrongestAttack) -> Iterator[tuple[int, int]]:
    """The attacks that are on both: with the same attacker, extractor and back end, whatever the levels of the systems."""
    numbers: list[dict[tuple[str, ...], list[int]]] = [{}, {}]
    for listed, product in zip(numbers, (a, b)):
        for number, attack in enumerate(product.attacks):
            trained = re.sub(r"\s*\([^()]*\)", "", attack["trained_on"])
            key = (attack["condition"], attack["attacker"], attack["extractor"], attack["backend"], trained)
            listed.setdefault(key, []).append(number)
    for same, of_a in numbers[0].items():
        of_b = numbers[1].get(same, [])
        if len(of_a) == len(of_b) == 1:
            yield of_a[0], of_b[0]


def _add(
    plan: Plan, label: str, settings: Mapping[str, Any], inputs: Mapping[str, Input], function: Callable[[Work], None]
) -> Task:
    task = Task(
        name="measure",
        label=label,
        settings=settings,
        inputs=inputs,
        function=function,
        libraries=("numpy", "scipy"),
    )
    return plan.graph.add(task)


def _as_settings(sets: Sets) -> dict[str, Any]:
    return {
        "attacks": {name: list(ids) for name, ids in sets.attacks.items()},
        "means": {name: dict(weights) for name, weights in sets.means.items()},
        "protected": list(sets.protected),
    }


KIND = ProductKind(order=30, plan=plan_strongest, collect=collect_strongest, needs_speech=False)
