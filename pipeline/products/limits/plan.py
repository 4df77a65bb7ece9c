"""The limit of detection of each system: how small a leak its strongest attack would have shown."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from pipeline.engine.task import Input, Task
from pipeline.products import ProductKind
from pipeline.products.limits import compute
from pipeline.products.limits.collect import Limits, collect_limits
from pipeline.products.strongest.collect import StrongestAttack
from pipeline.stages.plan import Attempt, Plan
from pipeline.stages.settings import list_averages
from pipeline.tables.answers import ATTACK


def plan_limits(plan: Plan) -> None:
    """Plan them, of all systems that protect, where unprotected speech is attacked too."""
    products = plan.graph.select(StrongestAttack)
    unprotected = next((product for product in products if not product.protects), None)
    attempts: dict[str, dict[tuple[str, ...], Attempt]] = {}
    for attempt in plan.attempts:
        identity = attempt.cell.identity(plan.data.name)
        key = (attempt.cell.subset, *(identity[name] for name in ATTACK))
        attempts.setdefault(attempt.cell.system.system, {})[key] = attempt
    for product in products:
        if product.protects and unprotected is not None:
            _plan_system(plan, product, unprotected, attempts)


def _plan_system(
    plan: Plan,
    product: StrongestAttack,
    unprotected: StrongestAttack,
    attempts: Mapping[str, Mapping[tuple[str, ...], Attempt]],
) -> None:
    inputs: dict[str, Input] = {"strongest": product.ref}
    counterparts: dict[str, dict[int, int]] = {}

    def add_scores(kind: str, place: int, attacked: StrongestAttack, subset: str, number: int) -> None:
        attack = attacked.attacks[number]
        attempt = attempts[attacked.system][subset, *(attack[name] for name in ATTACK)]
        inputs[f"{kind}.{place}.{number}"] = attempt.scores.ref()

    for place, (subset, numbers) in enumerate(product.subsets.items()):
        counterparts[subset] = {}
        for number in numbers:
            add_scores("scores", place, product, subset, number)
            among = unprotected.subsets.get(subset, ())
            if among:
                alike = _find_counterpart(product.attacks[number], unprotected.attacks, among)
                counterparts[subset][number] = alike
                add_scores("original", place, unprotected, subset, alike)
    means = {mean.subset: dict(mean.weights) for mean in list_averages(plan.evaluation, plan.data.trials).values()}
    subsets = {subset: {subset: 1.0} for subset in product.subsets}
    subsets |= {name: weights for name, weights in means.items() if set(weights) <= set(product.subsets)}
    attacked = compute.Attacked(subsets, counterparts, plan.evaluation.products.report.seed)
    task = plan.graph.add(
        Task(
            name="measure",
            label=f"measure the limit of detection of {product.system}",
            settings={
                "limits": {name: dict(weights) for name, weights in subsets.items()},
                "counterparts": {name: sorted(pairs.items()) for name, pairs in counterparts.items()},
                "seed": attacked.seed,
            },
            inputs=inputs,
            function=functools.partial(compute.find_limits, attacked),
            libraries=("numpy", "scipy"),
        )
    )
    plan.graph.products.append(Limits(product.identity, task.ref()))


def _find_counterpart(attack: Mapping[str, str], others: Sequence[Mapping[str, str]], among: Sequence[int]) -> int:
    """The attack on unprotected speech that is the most like one on a system: of its extractor and back end, or of its extractor, or the
    first."""
    for columns in (("extractor", "backend"), ("extractor",), ()):
        alike = [number for number in among if all(others[number][name] == attack[name] for name in columns)]
        if alike:
            return alike[0]
    raise AssertionError("no attack on unprotected speech")


KIND = ProductKind(order=35, plan=plan_limits, collect=collect_limits, needs_speech=False)
