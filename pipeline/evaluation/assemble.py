"""The graph of an evaluation: which speech is made, what is extracted from it, and what each product plans over that."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from pipeline.contracts import MetricFamily
from pipeline.datasets.prepare import Prepared
from pipeline.errors import ConfigError, DataError, Fault
from pipeline.names import join_few
from pipeline.products import find_kinds
from pipeline.products.averages import list_unformed
from pipeline.products.checks.plan import plan_recordings
from pipeline.products.conditions import list_unranked
from pipeline.stages.backends.plan import plan_back_ends
from pipeline.stages.features.plan import Features, Need
from pipeline.stages.graph import Graph, Measurement
from pipeline.stages.plan import Plan
from pipeline.stages.settings import Chosen, Evaluation, Machine
from pipeline.stages.speech.plan import SpeechSets
from pipeline.stages.suggestions import trained_back_ends
from pipeline.stages.training.plan import Trainings, compared_as, load_extractors, plan_trainings

NEEDED = {
    "trials": "vectors that can be enrolled and tried",
    "pairs": "vectors that can be compared in pairs",
    "ranks": "vectors that can be compared with a reference",
}
"""What a kind of scores asks of an extractor, in words."""


def assemble_graph(evaluation: Evaluation, data: Prepared, machine: Machine) -> Graph:
    """All tasks of an evaluation over a data set, and the products that are read from them.

    Raises:
        ModelMissing: weights are not on this machine.
        DataError: nobody to train on, or files of vectors that cannot be used.
        ConfigError: attackers that no chosen extractor can be trained for, or nothing that can be measured.
    """
    graph = Graph()
    features = Features(machine, graph)
    if data.score_sets:
        plan = Plan(evaluation, data, graph, Trainings(None, {}, (), {}), [], features)
    else:
        sets = SpeechSets(evaluation, data, machine)
        trainings = plan_trainings(evaluation, sets)
        extractors = load_extractors(evaluation, trainings, data.transcripts)
        plan = Plan(evaluation, data, graph, trainings, extractors, features)
        _plan_speech(plan, sets)
        plan_recordings(plan)
        for task in trainings.tasks:
            graph.add(task)
        features.extract(_needs(plan))
        plan_back_ends(plan)
    for kind in find_kinds():
        if not (kind.needs_speech and data.score_sets):
            kind.plan(plan)
    if not data.score_sets:
        _note_untrainable(plan)
        for name, system in itertools.product(evaluation.adapting, evaluation.anonymised):
            _note_attacker(plan, name, system)
        _note_unmeasured(plan)
    unformed = [*list_unformed(evaluation, data.trials), *list_unranked(evaluation, data.trials)]
    graph.notes += unformed
    graph.limits += [] if data.score_sets else unformed
    return graph


def _plan_speech(plan: Plan, sets: SpeechSets) -> None:
    copies, evaluation = plan.copies, plan.evaluation
    again = any(plan.families(f"{kind}_runs") and plan.plain(f"{kind}s") for kind in ("trial", "pair"))
    for label in evaluation.systems:
        copies.evaluated[label] = sets.evaluated(label)
        second = sets.second_run(label) if again else None
        if second is not None:
            copies.second[label] = second
    attacked = plan.families("trials") or plan.families("trial_runs")
    for label in evaluation.anonymised if attacked else ():
        for name, attacker in evaluation.attackers.items():
            if attacker.enrolment == "anonymised":
                copies.enrolled[label, name] = sets.enrolment_draws(copies.evaluated[label], attacker)
    drawn = [speech for draws in copies.enrolled.values() for speech in draws]
    for speech in (*copies.evaluated.values(), *copies.second.values(), *drawn):
        for task in speech.tasks:
            plan.graph.add(task)


def _needs(plan: Plan) -> list[Need]:
    """What is extracted from which speech: everything that some measure, back end or check reads."""
    needs: list[Need] = []
    plain = [extractor for extractor in plan.extractors if not extractor.is_adapted]
    for label, evaluated in plan.copies.evaluated.items():
        extractors = [*plain, *plan.adapted(label)]
        needs += [(evaluated, extractor) for extractor in extractors]
        scored = [extractor for extractor in extractors if extractor.is_scored]
        again = plan.copies.second.get(label)
        if again is not None:
            needs += [(again, extractor) for extractor in scored if extractor.reads(again)]
        drawn = [speech for (system, _), draws in plan.copies.enrolled.items() if system == label for speech in draws]
        needs += [(speech, extractor) for speech in drawn for extractor in scored]
    draws = any(attacker.enrolment_draws > 1 for attacker in plan.evaluation.attackers.values())
    if plan.evaluation.products.diagnostics or draws:
        needs += [(plan.original, extractor) for extractor in plan.extractors if extractor.system]
    return needs


def _note_attacker(plan: Plan, name: str, system: str) -> None:
    attacker = plan.evaluation.attackers[name]
    able = {extractor.name for extractor, _ in plan.pairs(attacker, system, name, "trials")}
    if not able and system in plan.data.training_gaps.untrainable:
        return
    if not able and plan.families("trials"):
        raise ConfigError(
            f"the attacker {name} adapts to anonymised speech, and nothing that is chosen can be adapted",
            where="attacker, extractor, backend",
            remedy=f"add a back end that is trained to backend=[…] ({trained_back_ends()}), choose an extractor that train=… "
            "can train, or leave this attacker out",
        )
    unable = ", ".join(extractor.name for extractor in plan.plain("trials") if extractor.name not in able)
    if unable:
        plan.graph.limits.append(f"attacker {name} is left out on {system} for {unable}")
        plan.graph.notes.append(
            f"{name}: left out on {system} for {unable}, which nothing adapts: a back end that is trained "
            f"would ({trained_back_ends()})"
        )
    learnt = plan.trainings.anonymised.get((system, name))
    if learnt is None:
        return
    chosen, wanted = plan.evaluation.systems[system], attacker.training_level
    is_copy = chosen.component.copies(chosen.settings) is not None
    if is_copy and wanted not in ("same", plan.level(system)):
        plan.graph.notes.append(
            f"{name} asks for {system}'s training set at {wanted} level; it is somebody else's and is taken as it is: "
            "give such a copy by train_root, or set training_level=same"
        )
    if (learnt.level, plan.level(system)) == ("speaker", "utterance"):
        plan.graph.notes.append(
            f"warning: {name} is trained on {system} at speaker level, and {system} is evaluated at utterance level: "
            "it may be too weak"
        )


def _note_untrainable(plan: Plan) -> None:
    """Say which attackers were not tried on systems whose training set is not there."""
    if not plan.families("trials"):
        return
    attacked = {attempt.cell.system.system for attempt in plan.attempts}
    unattacked = [reason for system, reason in plan.data.training_gaps.untrainable.items() if system not in attacked]
    if unattacked:
        raise DataError(
            f"nothing is left to attack a system by: {'; '.join(unattacked)}",
            where=f"attacker {', '.join(plan.evaluation.adapting)}",
            cause="these attackers train on a system's own anonymised speech",
            remedy="name the folder, or add an attacker with training=original to attacker=[…]",
        )
    for system in plan.evaluation.anonymised:
        untried = [
            name
            for name, attacker in plan.evaluation.adapting.items()
            if not plan.pairs(attacker, system, name, "trials")
        ]
        if untried and system in plan.data.training_gaps.untrainable:
            plan.graph.limits.append(
                f"not tried on {system}: {join_few(untried)}, for {plan.data.training_gaps.untrainable[system]}; under the other attackers alone "
                f"{system} may look more private than it is"
            )


def _note_unmeasured(plan: Plan) -> None:
    reasons = {
        label: _what_it_lacks(plan, label, metric)
        for label, metric in plan.evaluation.metrics.items()
        if label not in plan.measured
    }
    if not plan.measured:
        raise ConfigError(
            "none of the chosen metrics can be measured on what is chosen",
            where="metric",
            remedy="choose other metrics, or what they need",
            faults=[Fault(reason, f"metric.{label}") for label, reason in reasons.items()],
        )
    lines = [f"metric {label} is left out: {reason}" for label, reason in reasons.items()]
    plan.graph.notes += lines
    plan.graph.limits += [*lines, *_list_rowless(plan)]


def _list_rowless(plan: Plan) -> Iterator[str]:
    """Chosen extractors, and attackers and back ends where trials are measured, that no row will be about."""
    seen: dict[str, set[str]] = {"extractor": set(), "attacker": set(), "backend": set()}
    for row in plan.graph.select(Measurement):
        for column, names in seen.items():
            names.update(row.identity[column].partition(", fused (")[0].split("+"))
    chosen = plan.evaluation
    for label in chosen.extractors:
        if label not in seen["extractor"]:
            yield f"extractor {label} gives no row: no chosen metric measures what it gives"
    if not plan.families("trials"):
        return
    for label in chosen.attackers if chosen.anonymised else ():
        if label not in seen["attacker"]:
            yield f"attacker {label} gives no row: no chosen extractor with a chosen back end can do what it does"
    for label in chosen.backends:
        if label not in seen["backend"]:
            yield f"back end {label} gives no row: it compares nothing that a chosen extractor gives"


def _what_it_lacks(plan: Plan, name: str, metric: Chosen[MetricFamily]) -> str:
    chosen, reads = plan.evaluation, metric.component.reads
    kind = compared_as(reads)
    able = [label for label, extractor in chosen.extractors.items() if kind in extractor.component.compared_as]
    if not able:
        return f"it needs {NEEDED[kind]}, which no chosen extractor gives: {', '.join(chosen.extractors)}"
    if reads != kind and not plan.copies.second:
        return "it compares two runs of a random system, and no chosen system has two"
    if reads == "pairs" and not chosen.anonymised:
        return "it compares protected speech with the original, and no chosen system protects"
    extractors = [extractor for extractor in plan.extractors if kind in extractor.component.compared_as]
    from_files = all(extractor.tables is not None for extractor in extractors)
    if kind == "ranks" and metric.component.inputs(metric.settings).unit == "segment" and from_files:
        return f"vectors from files ({', '.join(able)}) are of whole utterances: set metric.{name}.unit=utterance"
    return "the chosen systems, extractors and attackers leave it nothing to compare"
