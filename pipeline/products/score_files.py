"""Scores that came instead of audio: they are put into the store as scores that are made here are, and measured."""

from __future__ import annotations

from dataclasses import replace

from pipeline.contracts import MetricFamily
from pipeline.datasets.scores.score_files import ScoreSet
from pipeline.engine.task import Input, Task, Value
from pipeline.errors import ConfigError, Fault
from pipeline.products import ProductKind
from pipeline.stages.graph import SpeechKey
from pipeline.stages.plan import Attempt, Plan
from pipeline.stages.scores import score_files
from pipeline.stages.scores.measure import Context
from pipeline.stages.scores.plan import Cell, Comparer, measure, name_columns, require_development
from pipeline.stages.settings import Chosen
from pipeline.stages.speech.plan import SpeechSet

TRIALS = "trials"
LEVEL = "not stated"
"""At which level a system gives pseudo-voices, where only its scores are here."""


def plan_score_files(plan: Plan) -> None:
    """The attacks of score files; nothing where there are none.

    Raises:
        ConfigError: none of the chosen metrics can be had from scores of trials.
    """
    if not plan.data.score_sets:
        return
    others = [label for label, family in plan.evaluation.metrics.items() if family.component.reads != TRIALS]
    if not plan.families(TRIALS):
        raise ConfigError(
            "none of the chosen metrics can be had from scores of trials",
            where="metric",
            remedy="leave metric=… out, or choose metrics of enrolment against trial",
            faults=[Fault("it compares all pairs of recordings, or vectors", f"metric.{label}") for label in others],
        )
    if others:
        note = f"metrics left out, for scores of trials do not hold what they compare: {', '.join(others)}"
        plan.graph.notes.append(note)
        plan.graph.limits.append(note)
    for score_set in plan.data.score_sets:
        scores = plan.graph.add(_store_task(score_set))
        cell = _cell(plan, score_set)
        context = Context(plan.data.trials[score_set.of.subset].expected, score_set.of.gives_llrs)
        for name, family in plan.families(TRIALS):
            chosen = family if not score_set.no_speakers else _without_speakers(family)
            inputs, about = _with_development(plan, name, chosen, score_set, {"scores": scores.ref()}, context)
            measure(plan, cell, name, chosen, about, inputs)
        plan.attempts.append(Attempt(cell, scores, has_speakers=not score_set.no_speakers))


def _store_task(score_set: ScoreSet) -> Task:
    names = score_set.of
    return Task(
        name="score",
        label=f"score {names.subset} {names.system} {names.attacker} {names.extractor} {names.backend} (given)",
        inputs={"given": Value(score_set.digest, score_set.table)},
        function=score_files.store_scores,
    )


def _with_development(
    plan: Plan,
    name: str,
    family: Chosen[MetricFamily],
    score_set: ScoreSet,
    inputs: dict[str, Input],
    context: Context,
) -> tuple[dict[str, Input], Context]:
    """What a family reads, with the scores of the same attack on the trial set that it learns from.

    Raises:
        ConfigError: there is no such trial set, or it has the same speakers.
    """
    subset = score_set.of.subset
    other = family.component.development(family.settings).get(subset)
    if other is None:
        return inputs, context
    same_attack = [each for each in plan.data.score_sets if each.of.attack[1:] == score_set.of.attack[1:]]
    development = next((each for each in same_attack if each.of.subset == other), None)
    speakers = [{*each.table["model_speaker"], *each.table["speaker"]} for each in (score_set, development) if each]
    shared = set.intersection(*speakers) if development is not None else set()
    require_development(plan, name, subset, other, sorted(shared))
    if development is None:
        return inputs, context
    scores = plan.graph.add(_store_task(development))
    return {**inputs, "development": scores.ref()}, replace(context, n_development=plan.data.trials[other].expected)


def _cell(plan: Plan, score_set: ScoreSet) -> Cell:
    names, reason = score_set.of, score_set.no_speakers
    level = "none" if names.condition == "OO" else LEVEL
    speech = SpeechSet(SpeechKey(names.system), level, (), (), plan.data.manifest, None)
    # What made the scores is not known: their digest stands for it.
    described = {"scores": score_set.digest[:16], "extractor": names.extractor, "backend": names.backend}
    comparer = Comparer(
        name_columns(names.extractor, names.trained_on, names.backend),
        described,
        modules=frozenset({score_files.__name__}),
        note="; ".join(filter(None, [score_set.note, f"no interval: {reason}" if reason else ""])),
    )
    return Cell(names.subset, names.condition, speech, names.attacker, comparer, plan.data.trials[names.subset].digest)


def _without_speakers(family: Chosen[MetricFamily]) -> Chosen[MetricFamily]:
    """A family without what is over speakers, of whom nobody says who they are."""
    fields = type(family.settings).model_fields
    changes = {name: value for name, value in (("interval", "none"), ("replicates", 0)) if name in fields}
    return Chosen(family.name, family.component, family.settings.model_copy(update=changes))


KIND = ProductKind(order=15, plan=plan_score_files, needs_speech=False)
