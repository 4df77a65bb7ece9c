"""The graph over scores that came instead of audio: what is measured of them, and whether they order the classes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pipeline.contracts import MetricFamily
from pipeline.datasets.prepare import Prepared
from pipeline.datasets.scores.score_files import ScoreSet
from pipeline.engine.task import Input, Task, Value
from pipeline.errors import ConfigError, Fault
from pipeline.products.averages import plan as averages
from pipeline.products.speakers import plan as speakers
from pipeline.products.strongest import plan as strongest
from pipeline.products.trials.plan import ordered
from pipeline.stages.features.plan import Features
from pipeline.stages.graph import Graph
from pipeline.stages.keys import SpeechKey
from pipeline.stages.measures import compute as measure
from pipeline.stages.measures import searches
from pipeline.stages.plan import Cell, Comparer, Plan
from pipeline.stages.scores import score_files as given
from pipeline.stages.settings import ORACLE, Chosen, Evaluation, Machine
from pipeline.stages.speech.plan import SpeechSet
from pipeline.stages.training.plan import Trainings

TRIALS = "trials"
LEVEL = "not stated"
"""At which level a system gives pseudo-voices, where only its scores are here."""


def graph(evaluation: Evaluation, data: Prepared, machine: Machine) -> Graph:
    """All tasks of an evaluation of score files: they are put into the store as scores that are made here are, and measured.

    Raises:
        ConfigError: none of the chosen metrics can be had from scores of trials.
    """
    made = Graph()
    plan = Plan(evaluation, data, made, Trainings(None, {}, (), {}), [], Features(machine, made))
    _left_out(plan)
    for one in data.score_sets:
        scores = made.add(_scores(one))
        cell = _cell(plan, one)
        context = measure.Context(data.trials[one.of.subset].expected, one.of.gives_llrs)
        for name, family in plan.families(TRIALS):
            chosen = family if not one.no_speakers else _without_speakers(family)
            read, known = _with_development(plan, name, chosen, one, {"scores": scores.ref()}, context)
            plan.measure(cell, name, chosen, known, read)
        plan.tried.append((cell, scores, not one.no_speakers))
        ordered(plan, cell, scores)
    strongest.strongest(plan)
    speakers.speakers(plan)
    made.notes += averages.unformed(evaluation, data.trials)
    return made


def _left_out(plan: Plan) -> None:
    """Say which metrics need more than scores of trials.

    Raises:
        ConfigError: all of them do.
    """
    others = [label for label, one in plan.evaluation.metrics.items() if one.component.reads != TRIALS]
    if not plan.families(TRIALS):
        raise ConfigError(
            "none of the chosen metrics can be had from scores of trials",
            where="metric",
            remedy="leave metric=… out, or choose metrics of enrolment against trial",
            faults=[Fault("it compares all pairs of recordings, or vectors", f"metric.{label}") for label in others],
        )
    if others:
        said = f"metrics left out, for scores of trials do not hold what they compare: {', '.join(others)}"
        plan.graph.notes.append(said)
        plan.graph.limits.append(said)


def _scores(one: ScoreSet) -> Task:
    of = one.of
    return Task(
        name="score",
        label=f"score {of.subset} {of.system} {of.attacker} {of.extractor} {of.backend} (given)",
        inputs={"given": Value(one.digest, one.table)},
        function=given.run,
    )


def _with_development(
    plan: Plan,
    name: str,
    family: Chosen[MetricFamily],
    one: ScoreSet,
    read: dict[str, Input],
    context: measure.Context,
) -> tuple[dict[str, Input], measure.Context]:
    """What a family reads, with the scores of the same attack on the trial set that it learns from.

    Raises:
        ConfigError: there is no such trial set, or it has the same speakers.
    """
    other = family.component.development(family.settings).get(one.of.subset)
    if other is None:
        return read, context
    found = [
        each for each in plan.data.score_sets if each.of.subset == other and each.of.attack[1:] == one.of.attack[1:]
    ]
    shared = set(_speakers(one)) & set(_speakers(found[0])) if found else set()
    searches.require(plan, name, one.of.subset, other, sorted(shared))
    if not found:
        return read, context
    n = plan.data.trials[other].expected
    scores = plan.graph.add(_scores(found[0]))
    return {**read, "development": scores.ref()}, replace(context, n_development=n)


def _speakers(one: ScoreSet) -> list[str]:
    return sorted({*one.table["model_speaker"], *one.table["speaker"]})


def _cell(plan: Plan, one: ScoreSet) -> Cell:
    of = one.of
    level = "none" if of.condition == "OO" else LEVEL
    speech = SpeechSet(SpeechKey(of.system), level, (), (), plan.data.manifest, None)
    # What made the scores is not known: their digest stands for it.
    described: dict[str, Any] = {"scores": one.digest[:16], "extractor": of.extractor, "backend": of.backend}
    note = "; ".join(filter(None, [one.note, f"no interval: {one.no_speakers}" if one.no_speakers else ""]))
    comparer = Comparer(
        of.extractor,
        of.trained_on,
        of.backend,
        ORACLE,
        described,
        frozenset({given.__name__}),
        gives_llrs=of.gives_llrs,
        note=note,
    )
    return Cell(of.subset, of.condition, speech, of.attacker, comparer, plan.data.trials[of.subset].digest)


def _without_speakers(family: Chosen[MetricFamily]) -> Chosen[MetricFamily]:
    """A family without what is over speakers, of whom nobody says who they are."""
    off = {
        name: value
        for name, value in (("interval", "none"), ("replicates", 0))
        if name in type(family.settings).model_fields
    }
    return Chosen(family.name, family.component, family.settings.model_copy(update=off))
