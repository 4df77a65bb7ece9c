"""Attacks: enrolment against trial for each attacker, on one run or two of a system, and what to judge them by."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pipeline.engine.task import Given, Input, Ref, Task
from pipeline.planning import features
from pipeline.planning.features import View
from pipeline.planning.grid import Cell, Plan, Scorer, measured
from pipeline.planning.settings import AttackerSettings, Diagnosis
from pipeline.planning.speech import Speech
from pipeline.protocol.trials import TrialSet
from pipeline.stages import check, measure, score


@dataclass(frozen=True)
class Attack:
    """Who attacks which system, with what enrolled against what."""

    system: Speech
    attacker: str
    settings: AttackerSettings | None
    condition: str
    enrolled: Speech
    tried: Speech


def _attacks(plan: Plan, copies: Mapping[str, Speech]) -> Iterator[Attack]:
    """All attacks on the anonymised systems that are among these copies."""
    for label, anonymised in copies.items():
        if label == plan.evaluation.original:
            continue
        for name, attacker in plan.evaluation.attackers.items():
            enrolled = plan.original if attacker.enrolment == "original" else anonymised
            tried = plan.original if attacker.trial == "original" else anonymised
            yield Attack(anonymised, name, attacker, attacker.condition, enrolled, tried)


def scored(plan: Plan, enrolled: Speech, tried: Speech, view: View, scorer: Scorer, trial_set: TrialSet) -> Task:
    """The scores of a trial set, once however often they are asked for."""
    key = (enrolled.key, tried.key, view.key, scorer.label, trial_set.name)
    if key not in plan.scored:
        plan.scored[key] = Task(
            name="score",
            label=f"score {trial_set.name} {enrolled.key} against {tried.key} {view.key} {scorer.label}",
            version=score.VERSION,
            settings={**scorer.settings.numeric(), "component_version": scorer.cls.version},
            inputs={
                "enrolment": plan.vectors(enrolled, view, trial_set, "enrolment"),
                "trial": plan.vectors(tried, view, trial_set, "trials"),
                "trials": Given(trial_set.digest, trial_set),
                **scorer.inputs(),
            },
            function=functools.partial(score.run, scorer.settings),
            libraries=("numpy",),
        )
        plan.graph.tasks.append(plan.scored[key])
    return plan.scored[key]


def trials(plan: Plan) -> None:
    """Enrolment against trial, for each attacker: scores, then EER, Cllr, ZEBRA."""
    chosen = plan.measures("trials")
    if not chosen:
        return
    unprotected = Attack(plan.original, "unprotected", None, "OO", plan.original, plan.original)
    for attack in (unprotected, *_attacks(plan, plan.evaluated)):
        for trial_set in plan.data.trials.values():
            given = Given(trial_set.digest, trial_set)
            for view in plan.seeing("trials", attack.settings, attack.system.system):
                for backend in plan.evaluation.backends:
                    scorer = plan.scorers[backend, view.key]
                    cell = _cell(plan, attack, view, scorer, trial_set)
                    made = scored(plan, attack.enrolled, attack.tried, view, scorer, trial_set)
                    context = measure.Context(are_llrs=scorer.cls.are_llrs)
                    for name, metric in chosen:
                        inputs: dict[str, Input] = {"scores": made.ref(), "trials": given}
                        measured(plan, cell, name, metric, context, inputs, trial_set.expected)
                    if plan.evaluation.diagnostics and attack.settings is not None:
                        _diagnose(plan, attack, cell, view, scorer, trial_set)


def _cell(plan: Plan, attack: Attack, view: View, scorer: Scorer, trial_set: TrialSet) -> Cell:
    calibration = plan.evaluation.calibration.method
    return Cell(
        trial_set.name, attack.condition, attack.system, attack.attacker, view, scorer, calibration, trial_set.digest
    )  # fmt: skip


def trial_runs(plan: Plan) -> None:
    """The same attack on two runs of a random system: calibration learnt on one, used on the other."""
    chosen = plan.measures("trial_runs")
    if not chosen:
        return
    firsts = _attacks(plan, {label: plan.evaluated[label] for label in plan.second})
    for first, second in zip(firsts, _attacks(plan, plan.second), strict=True):
        if "anonymised" not in (first.settings.enrolment, first.settings.trial):  # type: ignore[union-attr]
            continue
        for trial_set in plan.data.trials.values():
            given = Given(trial_set.digest, trial_set)
            for view in plan.seeing("trials", first.settings, first.system.system):
                if not features.reads(view, second.system):
                    continue
                for backend in plan.evaluation.backends:
                    scorer = plan.scorers[backend, view.key]
                    inputs: dict[str, Input] = {
                        "scores": scored(plan, first.enrolled, first.tried, view, scorer, trial_set).ref(),
                        "scores_again": scored(plan, second.enrolled, second.tried, view, scorer, trial_set).ref(),
                        "trials": given,
                    }
                    context = measure.Context(are_llrs=scorer.cls.are_llrs)
                    for name, metric in chosen:
                        cell = _cell(plan, first, view, scorer, trial_set)
                        measured(plan, cell, name, metric, context, inputs, trial_set.expected)


def _diagnose(plan: Plan, attack: Attack, cell: Cell, view: View, scorer: Scorer, trial_set: TrialSet) -> None:
    """What there is to judge this attack by, and the scores that it takes."""
    assert attack.settings is not None
    treated = on_original = None
    other: tuple[str, Ref] | None = None
    system = attack.system
    if attack.settings.enrolment == attack.settings.trial == "anonymised":
        treated = _treatment(plan, system, view, trial_set)
        if system.system in plan.other and view.tables is None:
            enrolled = plan.other[system.system]
            made = scored(plan, enrolled, attack.tried, view, scorer, trial_set)
            other = (enrolled.level, _checked(plan, made))
    if view.training and view.system:
        on_original = _checked(plan, scored(plan, plan.original, plan.original, view, scorer, trial_set))
    levels = (level(plan, system.system), view.learnt.level) if view.system and view.learnt else None
    plan.graph.diagnoses.append(
        Diagnosis(
            cell.identity(plan.data.name),
            view.training.ref() if view.training else None,
            treated,
            on_original,
            other,
            levels,
            scorer.note,
        )
    )


def _checked(plan: Plan, scored: Task) -> Ref:
    """The EER of some scores, for diagnostics."""
    key = ("check", scored.label)
    if key not in plan.scored:
        plan.scored[key] = Task(
            name="check",
            label=f"check {scored.label.removeprefix('score ')}",
            version=check.VERSION,
            settings={"what": "verification"},
            inputs={"scores": scored.ref()},
            function=check.verification,
            libraries=("numpy", "scipy"),
        )
        plan.graph.tasks.append(plan.scored[key])
    return plan.scored[key].ref()


def _treatment(plan: Plan, system: Speech, view: View, trial_set: TrialSet) -> Ref:
    """How enrolment and trials were changed, seen by a view."""
    seen = next((one for one in plan.seeing("trials") if one.label == view.label), view)
    key = ("treatment", system.key, seen.key, trial_set.name)
    if key not in plan.scored:
        plan.scored[key] = Task(
            name="check",
            label=f"check treatment of {trial_set.name} by {system.key} {seen.key}",
            version=check.VERSION,
            settings={"what": "treatment"},
            inputs={
                "enrolment_original": plan.vectors(plan.original, seen, trial_set, "enrolment"),
                "enrolment_protected": plan.vectors(system, seen, trial_set, "enrolment"),
                "trial_original": plan.vectors(plan.original, seen, trial_set, "trials"),
                "trial_protected": plan.vectors(system, seen, trial_set, "trials"),
            },
            function=check.treated,
            libraries=("numpy", "scipy"),
        )
        plan.graph.tasks.append(plan.scored[key])
    return plan.scored[key].ref()


def level(plan: Plan, system: str) -> str:
    """At which level a system gives pseudo-voices, as its settings say it."""
    return str(getattr(plan.evaluation.systems[system], "level", ""))
