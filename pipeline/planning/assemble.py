"""The graph of an evaluation: which speech is made, what is extracted from it, who attacks what, and what is said of it."""

from __future__ import annotations

from typing import Any

from pipeline.datasets.prepare import Prepared
from pipeline.errors import ConfigError, Fault
from pipeline.planning import features, speech
from pipeline.planning.attacks import level, trial_runs, trials
from pipeline.planning.back_ends import back_ends, is_fitted, one_recording_each
from pipeline.planning.comparisons import pair_runs, pairs, ranks
from pipeline.planning.features import View
from pipeline.planning.grid import Plan
from pipeline.planning.settings import Evaluation, Graph, Machine
from pipeline.planning.speech import Speech
from pipeline.registry import component

NEEDED = {
    "trials": "vectors that can be enrolled and tried",
    "pairs": "vectors that can be compared in pairs",
    "ranks": "vectors that can be compared with a reference",
}
"""What a kind of measure asks of an extractor, in words."""


def graph(evaluation: Evaluation, data: Prepared, machine: Machine) -> Graph:
    """All tasks of an evaluation over a data set.

    Raises:
        ModelMissing: weights are not on this machine.
        DataError: nobody to train on, or files of vectors that cannot be used.
        ConfigError: attackers that no chosen extractor can be trained for, or nothing that can be measured.
    """
    trainings = features.trainings(evaluation, data, machine)
    plan = Plan(evaluation, data, machine, Graph(), trainings, features.views(evaluation, trainings))
    _speech(plan)
    plan.graph.tasks += trainings.tasks
    _features(plan)
    back_ends(plan)
    trials(plan)
    trial_runs(plan)
    pairs(plan)
    pair_runs(plan)
    ranks(plan)
    _notes(plan)
    _unanswered(plan)
    return plan.graph


def _speech(plan: Plan) -> None:
    """The anonymised evaluation sets: all systems, second runs, enrolment at other levels."""
    given = (plan.evaluation, plan.data, plan.machine)
    again = any(plan.measures(f"{kind[:-1]}_runs") and plan.seeing(kind) for kind in ("trials", "pairs"))
    attacked = any(one.enrolment == "anonymised" for one in plan.evaluation.attackers.values())
    attacked = attacked and bool(plan.measures("trials")) and bool(plan.seeing("trials"))
    for label in plan.evaluation.systems:
        plan.evaluated[label] = speech.evaluated(given[0], label, *given[1:])
        made = speech.second_run(given[0], label, *given[1:]) if again else None
        if made is not None:
            plan.second[label] = made
        made = (
            speech.enrolment_at_other_level(given[0], label, *given[1:])
            if attacked and plan.evaluation.diagnostics
            else None
        )
        if made is not None:
            plan.other[label] = made
    for several in (plan.evaluated, plan.second, plan.other):
        for each in several.values():
            plan.graph.tasks += each.tasks


def _features(plan: Plan) -> None:
    """What is extracted from which speech: everything that some measure, back end or diagnosis reads."""
    needs: list[tuple[Speech, View]] = []
    known = [view for view in plan.views if view.trained_on == "original"]
    for label, evaluated in plan.evaluated.items():
        adapted = [view for view in plan.adapted(label) if label != plan.evaluation.original]
        needs += [(evaluated, view) for view in [*known, *adapted]]
        compared = [view for view in [*known, *adapted] if view.cls.measures & {"trials", "pairs"}]
        if label in plan.second:
            needs += [(plan.second[label], view) for view in compared if features.reads(view, plan.second[label])]
        if label in plan.other:
            needs += [(plan.other[label], view) for view in compared if view.tables is None]
    if plan.evaluation.diagnostics:
        needs += [(plan.original, view) for view in plan.views if view.training and view.system]
    if any(is_fitted(one, plan) for one in plan.evaluation.backends.values()) and not one_recording_each(plan):
        several = [view for view in plan.views if view.cls.measures & {"trials", "pairs"}]
        needs += [(view.learnt, view) for view in several if view.learnt is not None]
    plan.refs = features.extracted(needs, plan.machine, plan.graph.tasks)


def _notes(plan: Plan) -> None:
    """What a reader should know of the attacks that were planned, and of those that were not.

    Raises:
        ConfigError: attackers whose models are trained on anonymised speech, and no extractor for them.
    """
    notes = plan.graph.notes
    semi = plan.evaluation.semi_informed
    if not semi or not plan.evaluation.anonymised:
        return
    able = {view.label for view in plan.views if view.trained_on != "original"}
    if not able:
        raise ConfigError(
            f"the attacker {', '.join(semi)} trains its extractor on anonymised speech, and no chosen extractor can be trained",
            where="attacker, extractor",
            remedy="add ecapa or xvector to extractor=[…] with train=default, or leave this attacker out",
        )
    unable = sorted({view.label for view in plan.views if "trials" in view.cls.measures} - able)
    if unable:
        notes.append(
            f"{', '.join(semi)}: left out for {', '.join(unable)}, which cannot be trained on anonymised speech"
        )
    for name, attacker in semi.items():
        for system in plan.evaluation.anonymised:
            fixed = attacker.training_level != "same" and not hasattr(plan.evaluation.systems[system], "at_level")
            if fixed:
                notes.append(
                    f"warning: {name} asks for {system}'s training set at {attacker.training_level} level; it is somebody "
                    "else's and is taken as it is: give that copy by train_root, or set training_level=same"
                )
            learnt, own = plan.trainings.anonymised.get((system, attacker.training_level)), level(plan, system)
            if learnt is not None and learnt.level != own:
                notes.append(
                    f"warning: {name} is trained on {system} at {learnt.level} level, and {system} is evaluated at "
                    f"{own} level: an attacker who is trained on other conditions may be too weak"
                )


def _unanswered(plan: Plan) -> None:
    """A note of each chosen metric that what is chosen beside it leaves nothing to measure.

    Raises:
        ConfigError: that is so of all chosen metrics.
    """
    left_out = {label: one for label, one in plan.evaluation.metrics.items() if label not in plan.answered}
    why = {label: _lacks(plan, label, one) for label, one in left_out.items()}
    if not plan.answered:
        raise ConfigError(
            "none of the chosen metrics can be measured on what is chosen",
            where="metric",
            remedy="choose other metrics, or what they need",
            faults=[Fault(reason, f"metric.{label}") for label, reason in why.items()],
        )
    plan.graph.notes.extend(f"metric {label} is left out: {reason}" for label, reason in why.items())


def _lacks(plan: Plan, name: str, metric: Any) -> str:
    """What a metric lacks that is measured nowhere."""
    chosen = plan.evaluation
    reads = component("families", metric.name).MEASURES
    kind = {"trial_runs": "trials", "pair_runs": "pairs"}.get(reads, reads)
    able = [
        label for label, one in chosen.extractors.items()
        if kind in component("extractors", one.name).Extractor.measures
    ]  # fmt: skip
    if not able:
        return f"it needs {NEEDED[kind]}, which no chosen extractor gives: {', '.join(chosen.extractors)}"
    if reads != kind and not plan.second:
        return "it compares two runs of a random system, and no chosen system has two"
    if reads == "pairs" and not chosen.anonymised:
        return "it compares protected speech with the original, and no chosen system protects"
    from_files = all(view.tables is not None for view in plan.views if kind in view.cls.measures)
    if kind == "ranks" and metric.unit == "segment" and from_files:
        return f"vectors from files ({', '.join(able)}) are of whole utterances: set metric.{name}.unit=utterance"
    return "the chosen systems, extractors and attackers leave it nothing to compare"
