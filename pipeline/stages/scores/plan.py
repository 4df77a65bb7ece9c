"""Which scores are made and what is measured of them, with what identifies the rows: a cell of the evaluation's grid."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from pipeline.contracts import Attribute, MetricFamily
from pipeline.engine import code
from pipeline.engine.task import Input, Ref, Task, Value
from pipeline.errors import ConfigError
from pipeline.names import join_few
from pipeline.protocol.trials import TrialSet
from pipeline.seeds import digest
from pipeline.stages.backends.plan import Scorer
from pipeline.stages.graph import Measurement
from pipeline.stages.scores import compute
from pipeline.stages.scores import measure as measures
from pipeline.stages.scores.measure import Context
from pipeline.stages.settings import ORACLE, Chosen
from pipeline.stages.speech.plan import SpeechSet
from pipeline.stages.training.plan import LoadedExtractor
from pipeline.tables import run_files

if TYPE_CHECKING:
    from pipeline.stages.plan import Plan

LIBRARIES = ("numpy", "scipy")
MAKERS = ("pipeline.stages.features.compute", compute.__name__, measures.__name__)
"""Modules behind every number."""


@dataclass(frozen=True)
class Comparer:
    """What compares recordings, as tables and signatures say it.

    Attributes:
        columns: extractor, trained_on, backend and calibration, as results have them.
        described: what the numbers depend on, by name, for signatures.
        modules: whose code makes them.
        weights: for the digest in the results.
        judged: the speech of its check on held-out speakers, for the signatures of what stands on it.
        lacks: utterances that were left out of what the run trains it on.
        judged_lacks: those that were left out of the speech of its check.
        fits: the back ends that the run trains.
    """

    columns: Mapping[str, str]
    described: Mapping[str, Any]
    modules: frozenset[str] = frozenset()
    weights: Input | None = None
    note: str = ""
    judged: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    judged_lacks: tuple[str, ...] = ()
    fits: tuple[Ref, ...] = ()


def name_columns(extractor: str, trained_on: str, backend: str, calibration: str = ORACLE) -> dict[str, str]:
    """The columns of results that say what compares recordings."""
    return {"extractor": extractor, "trained_on": trained_on, "backend": backend, "calibration": calibration}


def describe_comparer(extractor: LoadedExtractor, scorer: Scorer | None) -> Comparer:
    """An extractor with a back end; without one, inputs are compared with references by the extractor's similarity."""
    data = extractor.component.training_data(extractor.chosen.settings)
    described: dict[str, Any] = {"extractor": extractor.described, "backend": {}}
    described |= {"training data": data} if data else {}
    if scorer is None:
        columns = name_columns(extractor.name, extractor.trained_on, extractor.component.similarity, "none")
        return Comparer(columns, described, weights=extractor.model(), lacks=extractor.lacks)
    learnt = scorer.learnt
    trained_on = extractor.trained_on
    if not extractor.is_adapted and scorer.is_trained and learnt is not None and learnt.anonymised:
        trained_on = f"{trained_on}; back end anonymised ({learnt.description})"
    return Comparer(
        name_columns(extractor.name, trained_on, scorer.shown),
        {**described, "backend": scorer.described},
        modules=frozenset({scorer.chosen.module}),
        weights=extractor.model(),
        note=scorer.note,
        judged=(learnt.content, learnt.request) if learnt is not None else (),
        lacks=tuple(dict.fromkeys((*extractor.lacks, *scorer.lacks))),
        judged_lacks=learnt.left_out if learnt is not None else (),
        fits=(scorer.model,) if isinstance(scorer.model, Ref) else (),
    )


@dataclass(frozen=True)
class Cell:
    """One cell of the evaluation's grid: what is measured, on which speech, by which attacker.

    Attributes:
        protocol: digest of what is compared.
        across_sexes: whether it is trials that were made here without the sex of any speaker.
        enrolment: how the attacker asked for the enrolment, for signatures; what it became follows from the system.
    """

    subset: str
    condition: str
    system: SpeechSet
    attacker: str
    comparer: Comparer
    protocol: str
    across_sexes: bool = False
    enrolment: str = ""

    @property
    def label(self) -> str:
        """What messages call it."""
        columns = self.comparer.columns
        both = self.condition if len(self.condition) > 2 else ""
        names = (self.subset, self.system.system, self.attacker, both)
        return " ".join(filter(None, (*names, columns["extractor"], columns["trained_on"], columns["backend"])))

    def identity(self, dataset: str) -> dict[str, str]:
        """Columns of the results schema."""
        return {
            "dataset": dataset,
            "subset": self.subset,
            "condition": self.condition,
            "system": self.system.system,
            "system_level": self.system.level,
            "attacker": self.attacker,
            **self.comparer.columns,
        }


# ------------------------------------------------------------------------------------------------------------- scores


def score_trials(
    plan: Plan,
    enrolled: Sequence[SpeechSet],
    tried: SpeechSet,
    extractor: LoadedExtractor,
    scorer: Scorer,
    trial_set: TrialSet,
) -> Task:
    """The scores of a trial set, once however often they are asked for; ``enrolled`` are the draws that make a model."""
    all_candidates = trial_set is not plan.data.trials.get(trial_set.name)
    name = f"{trial_set.name} (all candidates)" if all_candidates else trial_set.name
    sides = {
        f"enrolment.{draw}" if draw else "enrolment": plan.side(speech, extractor, trial_set, "enrolment")
        for draw, speech in enumerate(enrolled)
    }
    drawn = " and ".join(speech.label for speech in enrolled)
    return plan.graph.add(
        Task(
            name="score",
            label=f"score {name} {drawn} against {tried.label} {extractor.label} {scorer.shown}",
            settings=scorer.chosen.numeric(),
            inputs={
                **sides,
                "trial": plan.side(tried, extractor, trial_set, "trials"),
                "trials": Value(trial_set.digest, trial_set),
                **scorer.inputs(),
            },
            function=functools.partial(compute.score_trials, scorer.component, scorer.chosen.settings),
            code=(scorer.chosen.module,),
            libraries=("numpy",),
        )
    )


def score_pairs(
    plan: Plan, rows: SpeechSet, columns: SpeechSet, extractor: LoadedExtractor, scorer: Scorer, subset: str
) -> Task:
    """The scores of all utterances of a set in one speech against all in another, once for all that ask."""
    wanted = plan.paired(subset).wanted
    sides = {"rows": rows, "columns": columns}
    vectors = {name: plan.features.vectors(speech, extractor, wanted) for name, speech in sides.items()}
    return plan.graph.add(
        Task(
            name="score",
            label=f"score all pairs of {subset} {rows.label} against {columns.label} {extractor.label} {scorer.label}",
            settings=scorer.chosen.numeric(),
            inputs={**vectors, **scorer.inputs()},
            function=functools.partial(compute.score_pairs, scorer.component, scorer.chosen.settings),
            code=(scorer.chosen.module,),
            libraries=("numpy",),
        )
    )


def score_ranks(plan: Plan, speech: SpeechSet, extractor: LoadedExtractor, reference: Input, inputs: Input) -> Task:
    """The similarity of inputs to one reference a speaker."""
    component = extractor.component
    return plan.graph.add(
        Task(
            name="score",
            label=f"score ranks of {speech.label} {extractor.label}",
            settings={"similarity": component.similarity, "evidence_optional": component.evidence_optional},
            inputs={"reference": reference, "input": inputs},
            function=functools.partial(compute.score_ranks, component),
            code=(extractor.chosen.module,),
            libraries=("numpy",),
        )
    )


# ------------------------------------------------------------------------------------------------------------- measures


def measure(
    plan: Plan, cell: Cell, name: str, family: Chosen[MetricFamily], context: Context, inputs: Mapping[str, Input]
) -> None:
    """One metric family, under the label ``name``, of one cell."""
    task = plan.graph.add(
        Task(
            name="measure",
            label=f"measure {name} {cell.label}",
            settings={**family.numeric(), **context.plain},
            inputs=inputs,
            function=functools.partial(measures.measure, family.component, family.settings, context),
            code=(family.module,),
            libraries=(*LIBRARIES, *family.component.libraries),
        )
    )
    plan.measured.add(name)
    comparer, reads = cell.comparer, family.component.reads
    parameters = {
        **comparer.described,
        "calibration": comparer.columns["calibration"],
        "settings": family.numeric(),
        "protocol": cell.protocol,
        "code": code.collect_versions({*MAKERS, family.module, *comparer.modules}),
    }
    if cell.across_sexes:
        parameters["sexes"] = "unknown"
    if cell.enrolment:
        parameters["enrolment"] = cell.enrolment
    notes = [comparer.note, run_files.SEXES_UNKNOWN if cell.across_sexes else ""]
    trial_set = plan.data.trials.get(cell.subset) if reads.startswith("trial") else None
    thinned = trial_set.thinned if trial_set is not None else ()
    if thinned:
        notes.append(f"{len(thinned)} models lack enrolment utterances that were left out: {join_few(thinned)}")
    if comparer.lacks:
        count, names = len(comparer.lacks), join_few(comparer.lacks)
        notes.append(f"{count} training utterances were left out, so the attacker has learnt from less: {names}")
    plan.graph.products.append(
        Measurement(
            cell.identity(plan.data.name),
            task.ref(),
            parameters,
            reads,
            model=comparer.weights,
            note="; ".join(filter(None, notes)),
            partial=bool(thinned or comparer.lacks),
            fits=comparer.fits,
            apart=tell_apart(name, family, plan.evaluation.metrics),
        )
    )


def tell_apart(label: str, family: Chosen[MetricFamily], chosen: Mapping[str, Chosen[MetricFamily]]) -> str:
    """What rows of a family under a label add to their variant: by which definition they are, where it is not the usual one, and the
    label, unless it is the family's name or the definition says it already."""
    alike = [other for other in chosen.values() if other.name == family.name]
    words = family.component.definition(family.settings)
    same = [other for other in alike if other.component.definition(other.settings) == words]
    needless = len(alike) == 1 or label == family.name or (label in words and len(same) == 1)
    return ", ".join([*words, *([] if needless else [label])])


# ------------------------------------------------------------------------------- what is looked for among all candidates


def find_inputs(
    plan: Plan,
    name: str,
    family: Chosen[MetricFamily],
    trial_set: TrialSet,
    context: Context,
    scores: Callable[[TrialSet], Task],
) -> tuple[dict[str, Input], Context]:
    """What a family under a label reads of one attack on a trial set, and what it must know of it.

    A family that looks for a speaker among all candidates gets the trials that a list lacks, what is known of the speakers, and
    scores of other speakers to learn from.

    Args:
        context: of the scores of the list.
        scores: those of the attack on a trial set.

    Raises:
        ConfigError: it is to learn from a trial set that is not there, or that has the same speakers.
    """
    inputs: dict[str, Input] = {"scores": scores(trial_set).ref()}
    if not family.component.searches:
        return inputs, context
    complete = plan.searched(trial_set)
    if complete is not trial_set:
        inputs["candidates"] = scores(complete).ref()
        context = replace(context, n_searched=complete.expected)
    attributes = _list_attributes(plan, trial_set)
    if attributes:
        listed = {}
        for key, attribute in attributes.items():
            parts = sorted(attribute.speakers.items()), sorted(attribute.utterances.items())
            listed[key] = [*parts, attribute.reason]
        inputs["attributes"] = Value(digest("attributes", listed), attributes)
    other = family.component.development(family.settings).get(trial_set.name)
    if other is not None:
        sets = [listed_set for listed_set in (trial_set, plan.data.trials.get(other)) if listed_set is not None]
        speakers = [{speaker for rows in _sides(plan, each) for speaker in rows["speaker"]} for each in sets]
        shared = sorted(set.intersection(*speakers)) if len(sets) == 2 else []
        require_development(plan, name, trial_set.name, other, shared)
        development = plan.searched(plan.data.trials[other])
        inputs["development"] = scores(development).ref()
        context = replace(context, n_development=development.expected)
    return inputs, context


def require_development(plan: Plan, name: str, subset: str, other: str, shared: Sequence[str]) -> None:
    """That a metric can learn from another trial set what it needs for one.

    Args:
        name: of the metric.
        shared: speakers whom both have.

    Raises:
        ConfigError: there is no such set, or there are such speakers.
    """
    where, remedy = f"metric.{name}.development.{subset}", f"metric.{name}.development=null"
    others = sorted(set(plan.data.trials) - {subset})
    if other not in others:
        raise ConfigError(
            f"the metric {name} is to learn its slope for {subset} from {other}, which is no other trial set that is evaluated",
            where=where,
            cause=f"a misspelt set, or one that dataset.sets leaves out; there is {join_few(others) or 'no other'}",
            remedy=f"name one of these, or learn it from the other speakers of each set: {remedy}",
        )
    if shared:
        raise ConfigError(
            f"{len(shared)} speakers are in {subset} and in {other}, from which the metric {name} is to learn: {join_few(shared)}",
            where=where,
            cause="a slope that has seen the speakers finds bits that are not there",
            remedy=f"name a set of other speakers, or learn it from the other speakers of each set: {remedy}",
        )


def _sides(plan: Plan, trial_set: TrialSet) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows of what is enrolled, and of what is tried: an enrolment set may serve other trial sets too."""
    enrolled, tried = plan.rows(trial_set.enrolment_set), plan.rows(trial_set.name)
    models = trial_set.enrolment["model"].isin(trial_set.trials["model"])
    enrolled = enrolled[enrolled["utterance"].isin(trial_set.enrolment.loc[models, "utterance"])]
    return enrolled, tried[tried["utterance"].isin(trial_set.trials["utterance"])]


def _list_attributes(plan: Plan, trial_set: TrialSet) -> dict[str, Attribute]:
    """The sex, where speakers of both are enrolled, and what else the data set knows."""
    enrolled, tried = _sides(plan, trial_set)
    sexes: dict[tuple[str, str], str] = {}
    for rows in (enrolled, tried):
        sexes |= dict(zip(zip(rows["set"], rows["utterance"]), rows["sex"]))
    values: dict[str, Mapping[tuple[str, str], str]] = {}
    if {"f", "m"} <= set(enrolled["sex"]) and "u" not in {*enrolled["sex"], *tried["sex"]}:
        values["sex"] = sexes
    values |= plan.data.attributes
    return {name: _make_attribute(name, attribute, enrolled, tried) for name, attribute in values.items()}


def _make_attribute(
    name: str, values: Mapping[tuple[str, str], str], enrolled: pd.DataFrame, tried: pd.DataFrame
) -> Attribute:
    of_speakers: dict[str, set[str]] = {}
    for place, utterance, speaker in zip(enrolled["set"], enrolled["utterance"], enrolled["speaker"]):
        of_speakers.setdefault(speaker, set()).add(values[place, utterance])
    mixed = sorted(speaker for speaker, marks in of_speakers.items() if len(marks) > 1)
    if mixed:
        return Attribute({}, {}, f"{name} is not the same in all enrolment utterances of {join_few(mixed)}")
    spoken = {utterance: values[place, utterance] for place, utterance in zip(tried["set"], tried["utterance"])}
    return Attribute({speaker: min(marks) for speaker, marks in of_speakers.items()}, spoken)
