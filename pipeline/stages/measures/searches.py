"""What families get that look for a speaker among all candidates: the trials that a list lacks, what is known of the speakers, and
scores of other speakers to learn from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pandas as pd

from pipeline.contracts import Attribute, MetricFamily
from pipeline.engine.task import Input, Task, Value
from pipeline.errors import ConfigError
from pipeline.names import join_few
from pipeline.protocol.trials import TrialSet
from pipeline.seeds import digest
from pipeline.stages.measures.compute import Context
from pipeline.stages.plan import Plan
from pipeline.stages.settings import Chosen


def inputs(
    plan: Plan,
    name: str,
    family: Chosen[MetricFamily],
    trial_set: TrialSet,
    context: Context,
    scores: Callable[[TrialSet], Task],
) -> tuple[dict[str, Input], Context]:
    """What a family under a label reads of one attack on a trial set, and what it must know of it.

    Args:
        context: of the scores of the list.
        scores: those of the attack on a trial set.

    Raises:
        ConfigError: it is to learn from a trial set that is not there, or that has the same speakers.
    """
    found: dict[str, Input] = {"scores": scores(trial_set).ref()}
    if not family.component.searches:
        return found, context
    whole = plan.searched(trial_set)
    if whole is not trial_set:
        found["candidates"] = scores(whole).ref()
        context = replace(context, n_searched=whole.expected)
    known = _attributes(plan, trial_set)
    if known:
        listed = {
            key: [sorted(one.speakers.items()), sorted(one.utterances.items()), one.why] for key, one in known.items()
        }
        found["attributes"] = Value(digest("attributes", listed), known)
    other = family.component.development(family.settings).get(trial_set.name)
    if other is not None:
        dev = plan.searched(_other(plan, name, trial_set, other))
        found["development"] = scores(dev).ref()
        context = replace(context, n_development=dev.expected)
    return found, context


def require(plan: Plan, name: str, subset: str, other: str, shared: Sequence[str]) -> None:
    """That a metric can learn from another trial set what it needs for one.

    Args:
        name: of the metric.
        shared: speakers whom both have.

    Raises:
        ConfigError: there is no such set, or there are such speakers.
    """
    where, remedy = f"metric.{name}.development.{subset}", f"metric.{name}.development=null"
    there = sorted(set(plan.data.trials) - {subset})
    if other not in there:
        raise ConfigError(
            f"the metric {name} is to learn its slope for {subset} from {other}, which is no other trial set that is evaluated",
            where=where,
            cause=f"a misspelt set, or one that dataset.sets leaves out; there is {join_few(there) or 'no other'}",
            remedy=f"name one of these, or learn it from the other speakers of each set: {remedy}",
        )
    if shared:
        raise ConfigError(
            f"{len(shared)} speakers are in {subset} and in {other}, from which the metric {name} is to learn: {join_few(shared)}",
            where=where,
            cause="a slope that has seen the speakers finds bits that are not there",
            remedy=f"name a set of other speakers, or learn it from the other speakers of each set: {remedy}",
        )


def _other(plan: Plan, name: str, trial_set: TrialSet, other: str) -> TrialSet:
    """The trial set to learn from; raises as :func:`require` does."""
    found = plan.data.trials.get(other)
    shared = set(_speakers(plan, trial_set)) & set(_speakers(plan, found)) if found is not None else set()
    require(plan, name, trial_set.name, other, sorted(shared))
    return plan.data.trials[other]


def _rows(plan: Plan, name: str) -> pd.DataFrame:
    return plan.data.manifest[plan.data.manifest["set"] == name]


def _sides(plan: Plan, trial_set: TrialSet) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows of what is enrolled, and of what is tried: an enrolment set may serve other trial sets too."""
    enrolled, tried = _rows(plan, trial_set.enrolment_set), _rows(plan, trial_set.name)
    there = trial_set.enrolment.loc[trial_set.enrolment["model"].isin(trial_set.trials["model"]), "utterance"]
    return enrolled[enrolled["utterance"].isin(there)], tried[tried["utterance"].isin(trial_set.trials["utterance"])]


def _speakers(plan: Plan, trial_set: TrialSet) -> list[str]:
    return [speaker for rows in _sides(plan, trial_set) for speaker in rows["speaker"]]


def _attributes(plan: Plan, trial_set: TrialSet) -> Mapping[str, Attribute]:
    """The sex, where speakers of both are enrolled, and what else the data set knows."""
    enrolled, tried = _sides(plan, trial_set)
    sides = [list(zip(rows["set"], rows["utterance"], rows["speaker"])) for rows in (enrolled, tried)]
    sexes: dict[tuple[str, str], str] = {}
    for rows in (enrolled, tried):
        sexes |= dict(zip(zip(rows["set"], rows["utterance"]), rows["sex"]))
    found = {}
    if {"f", "m"} <= set(enrolled["sex"]) and "u" not in {*enrolled["sex"], *tried["sex"]}:
        found["sex"] = _attribute("sex", sexes, *sides)
    return found | {name: _attribute(name, values, *sides) for name, values in plan.data.attributes.items()}


Side = Sequence[tuple[str, str, str]]
"""Set, utterance and speaker."""


def _attribute(name: str, values: Mapping[tuple[str, str], str], enrolled: Side, tried: Side) -> Attribute:
    of_speakers: dict[str, set[str]] = {}
    for where, utterance, speaker in enrolled:
        of_speakers.setdefault(speaker, set()).add(values[where, utterance])
    several = sorted(speaker for speaker, held in of_speakers.items() if len(held) > 1)
    if several:
        return Attribute({}, {}, f"{name} is not the same in all enrolment utterances of {join_few(several)}")
    return Attribute(
        {speaker: min(held) for speaker, held in of_speakers.items()},
        {utterance: values[where, utterance] for where, utterance, _ in tried},
    )
