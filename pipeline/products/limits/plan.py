"""The limit of detection of each system: how small a leak its strongest attack would have shown."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from pipeline.datasets.prepare import Prepared
from pipeline.engine.task import Input, Task
from pipeline.metrics import MetricError
from pipeline.metrics.phantoms import DetectionLimit, best_limit
from pipeline.products import ProductKind
from pipeline.products.limits import compute
from pipeline.products.limits.collect import Limits, collect_limits
from pipeline.report import verdict
from pipeline.seeds import generator
from pipeline.stages.graph import StrongestAttack
from pipeline.stages.plan import Attempt, Plan
from pipeline.stages.settings import Evaluation, list_averages
from pipeline.tables.answers import ATTACK

MOST_FORESEEN = 200_000
"""Trials of a list that a plan still looks at: it takes about 20 s of a core."""


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
                alike = find_counterpart(product.attacks[number], unprotected.attacks, among)
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


def foresee_limits(data: Prepared, evaluation: Evaluation) -> Iterator[str]:
    """What limit of detection each list of trials can reach at best, in words, so that nobody spends a night on a list that can show
    nothing. Lists of unknown speakers are left out."""
    speakers = {
        (row["set"], row["utterance"]): str(row["speaker"])
        for row in data.manifest[["set", "utterance", "speaker"]].to_dict("records")
    }
    for name, trial_set in data.trials.items():
        owners = {model: speakers.get((trial_set.enrolment_set, utterance), "") for model, utterance in
                  trial_set.enrolment[["model", "utterance"]].itertuples(index=False)}  # fmt: skip
        enrolled = [owners.get(model, "") for model in trial_set.trials["model"]]
        spoken = [speakers.get((name, utterance), "") for utterance in trial_set.trials["utterance"]]
        if not enrolled or "" in enrolled or "" in spoken:
            continue
        codes, _ = pd.factorize(np.array([*enrolled, *spoken]))
        units, utterances = pd.factorize(trial_set.trials["utterance"])
        counts = f"{name}: {len(set(enrolled))} speakers enrolled, {len(utterances)} utterances, {len(enrolled)} trials"
        if len(enrolled) > MOST_FORESEEN:
            yield f"{counts}; what leak it can show at best is not worked out for so many trials"
            continue
        random = generator(evaluation.products.report.seed, "best limit of detection", name, trial_set.digest)
        try:
            limit = best_limit(
                codes[: len(enrolled)],
                codes[len(enrolled) :],
                units,
                generator=random,
                repeats=1,
                replicates=100,
                draws=100,
            )
        except MetricError as error:
            limit = DetectionLimit(None, None, None, len(utterances), 0, str(error))
        if limit.share is None:
            yield f"{counts}; no leak can be told from chance ({limit.reason})"
        else:
            yield f"{counts}; at best, a leak of {verdict.describe_share(limit.share)} is seen"


def find_counterpart(attack: Mapping[str, str], others: Sequence[Mapping[str, str]], among: Sequence[int]) -> int:
    """The attack on unprotected speech that is the most like one on a system: of its extractor and back end, or of its extractor, or the
    first."""
    for columns in (("extractor", "backend"), ("extractor",), ()):
        alike = [number for number in among if all(others[number][name] == attack[name] for name in columns)]
        if alike:
            return alike[0]
    raise AssertionError("no attack on unprotected speech")


KIND = ProductKind(order=35, plan=plan_limits, collect=collect_limits, needs_speech=False, foresee=foresee_limits)
