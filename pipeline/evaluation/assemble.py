"""The graph of an evaluation: which speech is made, what is extracted from it, who attacks what, and what is said of it."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.contracts import MetricFamily
from pipeline.datasets.prepare import Prepared
from pipeline.engine.task import Task
from pipeline.errors import ConfigError, DataError, Fault
from pipeline.evaluation import score_files as given
from pipeline.names import join_few
from pipeline.products.averages import plan as averages
from pipeline.products.checks import check_same
from pipeline.products.checks.plan import doubts
from pipeline.products.pairs.plan import adapted_pairs, pair_runs, pairs, ranks
from pipeline.products.speakers import plan as speakers
from pipeline.products.strongest import plan as strongest
from pipeline.products.trials.plan import fused_nowhere, trial_runs, trials
from pipeline.stages import selections
from pipeline.stages.backends.plan import back_ends
from pipeline.stages.features.plan import Features, Need
from pipeline.stages.graph import Graph
from pipeline.stages.plan import Plan
from pipeline.stages.settings import Chosen, Evaluation, Machine
from pipeline.stages.speech.plan import NAMED, SpeechSet, SpeechSets
from pipeline.stages.suggestions import trained_back_ends
from pipeline.stages.training import plan as extractors

NEEDED = {
    "trials": "vectors that can be enrolled and tried",
    "pairs": "vectors that can be compared in pairs",
    "ranks": "vectors that can be compared with a reference",
}
"""What a kind of scores asks of an extractor, in words."""


def assemble_graph(evaluation: Evaluation, data: Prepared, machine: Machine) -> Graph:
    """All tasks of an evaluation over a data set.

    Raises:
        ModelMissing: weights are not on this machine.
        DataError: nobody to train on, or files of vectors that cannot be used.
        ConfigError: attackers that no chosen extractor can be trained for, or nothing that can be measured.
    """
    if data.score_sets:
        return given.graph(evaluation, data, machine)
    sets = SpeechSets(evaluation, data, machine)
    trainings = extractors.trainings(evaluation, sets)
    made = Graph()
    loaded = extractors.loaded(evaluation, trainings, data.transcripts)
    plan = Plan(evaluation, data, made, trainings, loaded, Features(machine, made))
    _speech(plan, sets)
    for task in trainings.tasks:
        made.add(task)
    plan.features.extract(_needs(plan))
    back_ends(plan)
    trials(plan)
    strongest.strongest(plan)
    speakers.speakers(plan)
    trial_runs(plan)
    pairs(plan)
    adapted_pairs(plan)
    pair_runs(plan)
    ranks(plan)
    doubts(plan)
    _notes(plan)
    _unanswered(plan)
    unformed = list(averages.unformed(evaluation, data.trials))
    made.notes += unformed
    made.limits += unformed
    return made


def _speech(plan: Plan, sets: SpeechSets) -> None:
    """The anonymised evaluation sets: all systems, second runs, and the enrolment as attackers anonymise it."""
    again = any(plan.families(f"{kind}_runs") and plan.plain(f"{kind}s") for kind in ("trial", "pair"))
    for label in plan.evaluation.systems:
        plan.evaluated[label] = sets.evaluated(label)
        second = sets.second_run(label) if again else None
        if second is not None:
            plan.second[label] = second
    for label in plan.evaluation.anonymised if plan.families("trials") or plan.families("trial_runs") else ():
        for name, attacker in plan.evaluation.attackers.items():
            if attacker.enrolment == "anonymised":
                plan.enrolled[label, name] = sets.enrolment_draws(plan.evaluated[label], attacker)
    drawn = [speech for several in plan.enrolled.values() for speech in several]
    for speech in (*plan.evaluated.values(), *plan.second.values(), *drawn):
        for task in speech.tasks:
            plan.graph.add(task)
    for label, speech in plan.evaluated.items():
        if speech.manifests:
            plan.graph.heard.same[label] = plan.graph.add(_same(speech)).ref()


def _same(speech: SpeechSet) -> Task:
    """Whether recordings of a system that is run here hold one sound."""
    return Task(
        name="check",
        label=f"check recordings of {speech.label}",
        inputs={"audio": speech.manifests, "listed": selections.rows(speech.listed, NAMED)},
        function=check_same.run,
    )


def _needs(plan: Plan) -> list[Need]:
    """What is extracted from which speech: everything that some measure, back end or diagnosis reads."""
    needs: list[Need] = []
    plain = [extractor for extractor in plan.extractors if not extractor.is_adapted]
    for label, evaluated in plan.evaluated.items():
        adapted = plan.adapted(label) if label != plan.evaluation.original else []
        needs += [(evaluated, extractor) for extractor in [*plain, *adapted]]
        scored = [extractor for extractor in [*plain, *adapted] if extractor.is_scored]
        if label in plan.second:
            again = plan.second[label]
            needs += [(again, extractor) for extractor in scored if extractor.reads(again)]
        drawn = [speech for (system, _), several in plan.enrolled.items() if system == label for speech in several]
        needs += [(speech, extractor) for speech in drawn for extractor in scored]
    if plan.evaluation.diagnostics or any(one.enrolment_draws > 1 for one in plan.evaluation.attackers.values()):
        needs += [(plan.original, one) for one in plan.extractors if one.system]
    return needs


def _notes(plan: Plan) -> None:
    """What a reader should know of the attacks that were planned, and of those that were not.

    Raises:
        DataError: nobody can attack a system, for its training set is not there.
        ConfigError: attackers whose models are trained on anonymised speech, and no extractor for them.
    """
    if fused_nowhere(plan):
        plan.graph.limits.append("fusion is left out: no two extractors with one back end can be joined")
        plan.graph.notes.append(
            "warning: fusion is left out: it joins the scores of two extractors or more with one back end (or of one as it comes "
            "and adapted), by held-out speakers of a training set that none of them has learnt from: name one by dataset.train=DIR"
        )
    _untrainable(plan)
    for name, attacker in plan.evaluation.adapting.items():
        for system in plan.evaluation.anonymised:
            able = {extractor.name for extractor, _ in plan.pairs_of(attacker, system, name, "trials")}
            if not able and system in plan.data.training_gaps.untrainable:
                continue
            if not able and plan.families("trials"):
                raise ConfigError(
                    f"the attacker {name} adapts to anonymised speech, and nothing that is chosen can be adapted",
                    where="attacker, extractor, backend",
                    remedy=f"add a back end that is trained to backend=[…] ({trained_back_ends()}), choose an extractor that train=… "
                    "can train, or leave this attacker out",
                )
            unable = [one.name for one in plan.plain("trials") if one.name not in able]
            if unable:
                plan.graph.limits.append(f"attacker {name} is left out on {system} for {', '.join(unable)}")
                plan.graph.notes.append(
                    f"{name}: left out on {system} for {', '.join(unable)}, which nothing adapts: a back end that is trained "
                    f"would ({trained_back_ends()})"
                )
            learnt = plan.trainings.anonymised.get((system, name))
            chosen, wanted = plan.evaluation.systems[system], attacker.training_level
            theirs = chosen.component.copies(chosen.settings) is not None
            if learnt is not None and theirs and wanted not in ("same", plan.level(system)):
                plan.graph.notes.append(
                    f"{name} asks for {system}'s training set at {wanted} level; it is somebody else's and is taken as it is: "
                    "give such a copy by train_root, or set training_level=same"
                )
            if learnt is not None and (learnt.level, plan.level(system)) == ("speaker", "utterance"):
                plan.graph.notes.append(
                    f"warning: {name} is trained on {system} at speaker level, and {system} is evaluated at utterance level: "
                    "it may be too weak"
                )


def _untrainable(plan: Plan) -> None:
    """Say which attackers were not tried on systems whose training set is not there.

    Raises:
        DataError: none of the chosen attackers was.
    """
    attacked = {cell.system.system for cell, _, _ in plan.tried}
    lonely = [
        why
        for system, why in plan.data.training_gaps.untrainable.items()
        if system not in attacked and plan.families("trials")
    ]
    if lonely:
        raise DataError(
            f"nothing is left to attack a system by: {'; '.join(lonely)}",
            where=f"attacker {', '.join(plan.evaluation.adapting)}",
            cause="these attackers train on a system's own anonymised speech",
            remedy="name the folder, or add an attacker with training=original to attacker=[…]",
        )
    anonymised = plan.evaluation.anonymised if plan.families("trials") else []
    untried = {
        system: [
            name for name, one in plan.evaluation.adapting.items() if not plan.pairs_of(one, system, name, "trials")
        ]
        for system in anonymised
    }
    for system, names in untried.items():
        if names and system in plan.data.training_gaps.untrainable:
            plan.graph.limits.append(
                f"not tried on {system}: {join_few(names)}, for {plan.data.training_gaps.untrainable[system]}; under the other attackers alone "
                f"{system} may look more private than it is"
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
    lines = [f"metric {label} is left out: {reason}" for label, reason in why.items()]
    plan.graph.notes += lines
    plan.graph.limits += [*lines, *_rowless(plan)]


def _rowless(plan: Plan) -> Iterator[str]:
    """Chosen extractors, and attackers and back ends where trials are measured, that no row will be about."""
    seen = {column: {name for source in plan.graph.sources for name in _names(source.identity[column])}
            for column in ("extractor", "attacker", "backend")}  # fmt: skip
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


def _names(column: str) -> list[str]:
    """The labels in a column of extractors or back ends, joined scores among them."""
    return column.partition(", fused (")[0].split("+")


def _lacks(plan: Plan, name: str, metric: Chosen[MetricFamily]) -> str:
    """What a metric lacks that is measured nowhere."""
    chosen, reads = plan.evaluation, metric.component.reads
    kind = extractors.compared_as(reads)
    able = [label for label, one in chosen.extractors.items() if kind in one.component.compared_as]
    if not able:
        return f"it needs {NEEDED[kind]}, which no chosen extractor gives: {', '.join(chosen.extractors)}"
    if reads != kind and not plan.second:
        return "it compares two runs of a random system, and no chosen system has two"
    if reads == "pairs" and not chosen.anonymised:
        return "it compares protected speech with the original, and no chosen system protects"
    from_files = all(one.tables is not None for one in plan.extractors if kind in one.component.compared_as)
    if kind == "ranks" and metric.component.inputs(metric.settings).unit == "segment" and from_files:
        return f"vectors from files ({', '.join(able)}) are of whole utterances: set metric.{name}.unit=utterance"
    return "the chosen systems, extractors and attackers leave it nothing to compare"
