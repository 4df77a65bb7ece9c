"""What there is to judge each attack by, and what can be said before anything is computed: what was available and is not used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipeline.engine.task import Ref, Task
from pipeline.products import ProductKind
from pipeline.products.checks import check_recordings, compute, words
from pipeline.products.checks.collect import (
    AttackCheck,
    ClassOrder,
    EarlyFinding,
    Recordings,
    Silence,
    collect_checks,
)
from pipeline.protocol.trials import TrialSet
from pipeline.stages import selections
from pipeline.stages.plan import Attempt, Plan, Trial
from pipeline.stages.scores.plan import score_trials
from pipeline.stages.speech.plan import NAMED, SpeechSet
from pipeline.stages.suggestions import centring_back_ends, strong_extractors, trained_back_ends
from pipeline.stages.training.plan import LoadedExtractor
from pipeline.tables.checks import Finding

LIBRARIES = ("numpy", "scipy")


def plan_checks(plan: Plan) -> None:
    """The checks of all attacks, and of the speech that no attack says anything of."""
    for attempt in plan.attempts if plan.evaluation.products.diagnostics else ():
        _plan_order(plan, attempt)
        if attempt.trial is not None:
            _plan_attack(plan, attempt.trial)
    for system, refs in plan.features.complete.items():
        identity = {"dataset": plan.data.name, "system": system}
        plan.graph.products.append(Silence(identity, refs, plan.features.trims))
    for label, same in plan.data.same.items():
        for finding in words.same_audio(label, same):
            plan.graph.products.append(EarlyFinding({"dataset": plan.data.name, "system": label}, finding))
    if plan.evaluation.products.diagnostics and plan.evaluation.anonymised and plan.families("trials"):
        for identity, finding in _doubts(plan):
            plan.graph.products.append(EarlyFinding({"dataset": plan.data.name, **identity}, finding))


def plan_recordings(plan: Plan) -> None:
    """Whether recordings of each system that is run here hold one sound. It comes before what is computed of them."""
    for label, speech in plan.copies.evaluated.items():
        if speech.manifests:
            task = Task(
                name="check",
                label=f"check recordings of {speech.label}",
                inputs={"audio": speech.manifests, "listed": selections.rows(speech.listed, NAMED)},
                function=check_recordings.check_recordings,
            )
            identity = {"dataset": plan.data.name, "system": label}
            plan.graph.products.append(Recordings(identity, plan.graph.add(task).ref()))


def _plan_order(plan: Plan, attempt: Attempt) -> None:
    """Whether scores order the classes the right way round: no EER shows it."""
    task = Task(
        name="check",
        label=f"check order of {attempt.scores.label.removeprefix('score ')}",
        inputs={"scores": attempt.scores.ref()},
        settings={"check": "order"},
        function=compute.check_order,
        libraries=LIBRARIES,
    )
    plan.graph.products.append(ClassOrder(attempt.cell.identity(plan.data.name), plan.graph.add(task).ref()))


def _plan_attack(plan: Plan, trial: Trial) -> None:
    """What there is to judge an attack on protected speech by, and the scores that it takes."""
    attack, extractor, scorer, trial_set = trial.attack, trial.extractor, trial.scorer, trial.trial_set
    if attack.attacker is None or not extractor.component.hears:
        return
    treatment = on_original = original_enrolment = None
    system, learnt = attack.system, trial.adapted_to
    if attack.enrolled == (attack.tried,) == (system,):
        treatment = _check_treatment(plan, system, extractor, trial_set)
    if attack.condition == "PP" and not scorer.centred:
        scores = score_trials(plan, (plan.original,), attack.tried, extractor, scorer, trial_set)
        original_enrolment = _check_scores(plan, scores)
    if extractor.system or learnt is not None:
        unprotected = score_trials(plan, (plan.original,), plan.original, extractor, scorer, trial_set)
        on_original = _check_scores(plan, unprotected)
    plan.graph.products.append(
        AttackCheck(
            trial.cell.identity(plan.data.name),
            training=extractor.training.ref() if extractor.training else None,
            check=scorer.check,
            check_on_original=_check_on_original(plan, trial),
            treatment=treatment,
            on_original=on_original,
            original_enrolment=original_enrolment,
            levels=(plan.level(system.system), learnt.level) if learnt is not None else None,
            note=scorer.note,
        )
    )


def _check_on_original(plan: Plan, trial: Trial) -> Ref | None:
    """How well the extractor, as it knows original speech, and the back end tell held-out training speakers apart there."""
    original = plan.trainings.original
    plain = next((each for each in plan.plain("trials") if each.name == trial.extractor.name), None)
    if original is None or plain is None or plain.tables is not None:
        return None
    return plan.scorers[trial.scorer.label, plain.key, original.key].check


def _check_scores(plan: Plan, scores: Task) -> Ref:
    task = Task(
        name="check",
        label=f"check {scores.label.removeprefix('score ')}",
        inputs={"scores": scores.ref()},
        settings={"check": "scores"},
        function=compute.check_scores,
        libraries=LIBRARIES,
    )
    return plan.graph.add(task).ref()


def _check_treatment(plan: Plan, system: SpeechSet, extractor: LoadedExtractor, trial_set: TrialSet) -> Ref:
    """How enrolment and trials were changed, seen by an extractor, by preference as it knows original speech."""
    plain = next((each for each in plan.plain("trials") if each.name == extractor.name), extractor)
    task = Task(
        name="check",
        label=f"check treatment of {trial_set.name} by {system.label} {plain.label}",
        inputs={
            "enrolment_original": plan.side(plan.original, plain, trial_set, "enrolment"),
            "enrolment_protected": plan.side(system, plain, trial_set, "enrolment"),
            "trial_original": plan.side(plan.original, plain, trial_set, "trials"),
            "trial_protected": plan.side(system, plain, trial_set, "trials"),
        },
        settings={"check": "treatment"},
        function=compute.check_treatment,
        libraries=LIBRARIES,
    )
    return plan.graph.add(task).ref()


# --------------------------------------------------------------------------------------- before anything is computed


def _doubts(plan: Plan) -> Iterator[tuple[dict[str, str], Finding]]:
    """Attacks that would be stronger, each with what it is about beside the data set."""
    able = [each for each in plan.extractors if "trials" in each.component.compared_as and each.tables is None]
    strong = any(each.component.is_strong(each.chosen.settings) for each in able)
    if able and not strong and not plan.evaluation.dataset.is_rendered:
        names = ", ".join(dict.fromkeys(each.name for each in able))
        yield {}, words.weak_extractor(names, len(able), strong_extractors())
    trials = [attempt.trial for attempt in plan.attempts if attempt.trial is not None]
    if not any(trial.is_candidate for trial in trials) and not any(each.is_adapted for each in plan.extractors):
        yield {}, words.not_adapted(trained_back_ends())
    trials = [
        trial
        for trial in trials
        if trial.attack.condition == "PP" and trial.extractor in able and trial.extractor.component.hears
    ]
    yield from _enrolled_once(plan, trials)
    if trials and plan.trainings.original is not None and not any(trial.scorer.centred for trial in trials):
        yield {}, words.other_centre(centring_back_ends())


def _enrolled_once(plan: Plan, trials: Sequence[Trial]) -> Iterator[tuple[dict[str, str], Finding]]:
    for label in dict.fromkeys(trial.attack.system.system for trial in trials):
        drawn = any(trial.attack.drawn for trial in trials if trial.attack.system.system == label)
        if plan.level(label) == "speaker" and not drawn:
            system = plan.evaluation.systems[label]
            can_run = system.component.rerun(system.settings, 1) is not None
            yield {"system": label}, words.enrolled_once(label, can_run)


KIND = ProductKind(order=70, plan=plan_checks, collect=collect_checks, needs_speech=False)
