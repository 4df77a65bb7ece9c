"""The scores of all extractors of an attacker with one back end and the same enrolment, joined: one more attack."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from pipeline.engine.task import Input, Task
from pipeline.products import ProductKind
from pipeline.products.fusion import compute
from pipeline.protocol.trials import TrialSet
from pipeline.stages.plan import Attempt, Plan, Trial
from pipeline.stages.scores.measure import Context
from pipeline.stages.scores.plan import Cell, Comparer, find_inputs, measure, name_columns
from pipeline.stages.settings import FusionKind


def plan_fusion(plan: Plan) -> None:
    """Join what can be joined, in each way that is asked for."""
    together: dict[tuple[str, ...], list[Trial]] = {}
    for attempt in plan.attempts:
        trial = attempt.trial
        if trial is not None and trial.scorer.check is not None:
            attack = trial.attack
            key = (attack.system.system, attack.name, trial.trial_set.name, trial.scorer.shown, attack.condition)
            together.setdefault(key, []).append(trial)
    for trials in together.values():
        for kind in plan.evaluation.products.fusion if len(trials) > 1 else ():
            _fuse(plan, kind, trials)
    # Joined scores stand beside those that they join.
    attackers = dict.fromkeys((attempt.cell.system.system, attempt.cell.attacker) for attempt in plan.attempts)
    order = {attacker: place for place, attacker in enumerate(attackers)}
    plan.attempts.sort(key=lambda attempt: order[attempt.cell.system.system, attempt.cell.attacker])
    if plan.evaluation.products.fusion and not any(task.name == "fuse" for task in plan.graph.tasks):
        plan.graph.limits.append("fusion is left out: no two extractors with one back end can be joined")
        plan.graph.notes.append(
            "warning: fusion is left out: it joins the scores of two extractors or more with one back end (or of one as it comes "
            "and adapted), by held-out speakers of a training set that none of them has learnt from: name one by dataset.train=DIR"
        )


def _fuse(plan: Plan, kind: FusionKind, trials: Sequence[Trial]) -> None:
    attack, trial_set = trials[0].attack, trials[0].trial_set
    cell = attack.cell(trial_set, _comparer(kind, [trial.cell.comparer for trial in trials]))

    def fused(of_set: TrialSet) -> Task:
        return _task(plan, kind, trials, of_set, cell)

    for name, family in plan.families("trials"):
        context = Context(trial_set.expected, False)
        inputs, context = find_inputs(plan, name, family, trial_set, context, fused)
        measure(plan, cell, name, family, context, inputs)
    plan.attempts.append(Attempt(cell, fused(trial_set)))


def _task(plan: Plan, kind: FusionKind, trials: Sequence[Trial], trial_set: TrialSet, cell: Cell) -> Task:
    scores = [trial.scores(plan, trial_set) for trial in trials]
    checks = [trial.scorer.check for trial in trials if trial.scorer.check is not None]
    inputs: dict[str, Input] = {f"scores.{number}": task.ref() for number, task in enumerate(scores)}
    inputs |= {f"held_out.{number}": check for number, check in enumerate(checks)}
    return plan.graph.add(
        Task(
            name="fuse",
            label=f"fuse {cell.label}",
            settings={"kind": kind},
            inputs=inputs,
            function=functools.partial(compute.fuse_scores, kind),
            libraries=("numpy", "scipy"),
        )
    )


def _comparer(kind: FusionKind, comparers: Sequence[Comparer]) -> Comparer:
    columns = [comparer.columns for comparer in comparers]
    return Comparer(
        name_columns(
            "+".join(dict.fromkeys(column["extractor"] for column in columns)),
            " + ".join(dict.fromkeys(column["trained_on"] for column in columns)),
            f"{columns[0]['backend']}, fused ({kind})",
        ),
        {
            "fusion": [kind, *(list(comparer.judged) for comparer in comparers)],
            "extractor": [comparer.described["extractor"] for comparer in comparers],
            "backend": [kind, *(comparer.described["backend"] for comparer in comparers)],
        },
        modules=frozenset({compute.__name__}).union(*(comparer.modules for comparer in comparers)),
        note="; ".join(dict.fromkeys(comparer.note for comparer in comparers if comparer.note)),
        # Scores are joined as held-out training speakers say.
        lacks=tuple(
            dict.fromkeys(name for comparer in comparers for name in (*comparer.lacks, *comparer.judged_lacks))
        ),
        fits=tuple(dict.fromkeys(ref for comparer in comparers for ref in comparer.fits)),
    )


KIND = ProductKind(order=20, plan=plan_fusion)
