"""Enrolment against trial for each attacker, on one run or two of a system: EER, Cllr, ZEBRA and what else reads scores of trials."""

from __future__ import annotations

from pipeline.engine.task import Input
from pipeline.products import ProductKind
from pipeline.stages.plan import Attack, Attempt, Plan, Trial, list_attacks, list_trials
from pipeline.stages.scores.plan import find_inputs, measure


def plan_trials(plan: Plan) -> None:
    """All attacks that are tried, with their scores and what is measured of them."""
    families = plan.families("trials")
    if families:
        unprotected = Attack(plan.original, "unprotected", None, (plan.original,), plan.original)
        for attack in (unprotected, *list_attacks(plan, list(plan.copies.evaluated))):
            for trial in list_trials(plan, attack):
                _try(plan, trial)
    _plan_second_runs(plan)


def _try(plan: Plan, trial: Trial) -> None:
    scores = trial.scores(plan)
    for name, family in plan.families("trials"):
        inputs, context = find_inputs(
            plan, name, family, trial.trial_set, trial.context(), lambda trial_set: trial.scores(plan, trial_set)
        )
        measure(plan, trial.cell, name, family, context, inputs)
    plan.attempts.append(Attempt(trial.cell, scores, trial=trial))


def _plan_second_runs(plan: Plan) -> None:
    """The same attack on two runs of a random system: calibration learnt on one, used on the other."""
    families = plan.families("trial_runs")
    if not families:
        return
    for attack in list_attacks(plan, list(plan.copies.second)):
        if attack.condition == "OO":
            continue
        again = plan.copies.second[attack.system.system]
        for trial in list_trials(plan, attack):
            if not trial.extractor.reads(again) or trial.attack.condition != attack.condition:
                continue
            inputs: dict[str, Input] = {
                "scores": trial.scores(plan).ref(),
                "scores_again": trial.scores(plan, run=again).ref(),
            }
            for name, family in families:
                measure(plan, trial.cell, name, family, trial.context(), inputs)


KIND = ProductKind(order=10, plan=plan_trials)
