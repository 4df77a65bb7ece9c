"""Inputs against one reference a speaker, sets pooled: similarity rank disclosure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from pipeline.contracts import MetricFamily, RankInputs
from pipeline.engine.task import Input
from pipeline.errors import ConfigError
from pipeline.names import join_few
from pipeline.products import ProductKind
from pipeline.protocol.halves import Halves, make_halves
from pipeline.protocol.trials import TrialSet
from pipeline.seeds import digest
from pipeline.stages.features.plan import Spoken, spoken
from pipeline.stages.graph import ExtractorKey
from pipeline.stages.plan import Plan
from pipeline.stages.scores.measure import Context
from pipeline.stages.scores.plan import Cell, describe_comparer, measure, score_ranks
from pipeline.stages.settings import Chosen
from pipeline.stages.speech.plan import SpeechSet
from pipeline.stages.training.plan import LoadedExtractor
from pipeline.tables.manifest import Wanted


@dataclass(frozen=True)
class Pool:
    """The rows of the manifest that are ranked as one, and the speakers that are ranked among each other.

    Attributes:
        groups: speakers by the name that the results have of them; no speakers are all of the pool.
        missing: utterances of these sets that were left out (``allow_partial``).
    """

    name: str
    rows: pd.DataFrame
    groups: Mapping[str, tuple[str, ...]]
    missing: int


@dataclass(frozen=True)
class Ranked:
    """The halves of the speakers of a pool, as every system is asked for them; ``protocol`` is the digest of what is compared."""

    halves: Halves
    references: Wanted
    inputs: Wanted
    spoken: Sequence[Spoken]
    protocol: str


def plan_ranks(plan: Plan) -> None:
    """The ranks of each system by each extractor.

    An extractor that is trained gives two features: trained on original speech, and on the system's anonymised speech.
    """
    for name, family in plan.families("ranks"):
        settings = family.component.inputs(family.settings)
        for pool in _pools(plan, name, settings):
            ranked = _halve(plan, name, pool, settings)
            for label, system in plan.copies.evaluated.items():
                adapted = [model for model in plan.adapted(label) if "ranks" in model.component.compared_as]
                extractors = [*plan.plain("ranks"), *adapted]
                if settings.unit == "segment":
                    extractors = [extractor for extractor in extractors if extractor.tables is None]
                _rank(plan, name, family, pool, ranked, system, extractors)


def _halve(plan: Plan, name: str, pool: Pool, settings: RankInputs) -> Ranked:
    """The halves of a pool; says which speakers have none."""
    halved = make_halves(pool.rows, settings.seed, settings.unit, settings.seconds, settings.apart)
    if halved.left_out:
        plan.graph.limits.append(
            f"{name} of {pool.name} stands on {halved.references['speaker'].nunique()} speakers: "
            f"{len(halved.left_out)} have a single chapter and are left out: {join_few(halved.left_out)}"
        )
    pieces = halved.pieces[["set", "utterance"]].to_numpy().tolist()
    protocol = digest(halved.references.to_numpy().tolist(), pieces)
    wanted = Wanted.of(halved.references), Wanted.of(halved.pieces)
    return Ranked(halved, *wanted, spoken(halved, plan.data.manifest), protocol)


def _pools(plan: Plan, name: str, settings: RankInputs) -> Iterator[Pool]:
    """What a family ranks; each sex by itself where references are of the input's sex.

    Raises:
        ConfigError: a pool holds a set that is not evaluated; references within a sex where a sex is not known.
    """
    evaluated, manifest = plan.data.trials, plan.data.manifest
    for pool, wanted in (settings.pools or {"pooled": sorted(evaluated)}).items():
        unknown = sorted(set(wanted) - set(evaluated))
        if unknown:
            raise ConfigError(
                f"the pool '{pool}' of the metric {name} names {join_few(unknown)}, which is not evaluated",
                cause=f"a misspelt set, or one that dataset.sets leaves out; there are {join_few(sorted(evaluated))}",
                remedy=f"metric.{name}.pools=null pools all sets that are evaluated",
            )
        rows = manifest[manifest["role"] != "train"]
        if settings.pools:
            rows = rows[np.any([_belong(rows, evaluated[subset]) for subset in wanted], axis=0)]
        groups: dict[str, tuple[str, ...]] = {pool: ()}
        if settings.within == "sex":
            sexes = rows.drop_duplicates("speaker").set_index("speaker")["sex"]
            if (sexes == "u").any():
                raise ConfigError(
                    f"the metric {name} ranks within a sex, and the sex of {join_few(sorted(sexes.index[sexes == 'u']))} is not known",
                    cause="a data set without spk2gender",
                    remedy=f"add spk2gender to the sets, or set metric.{name}.within=all",
                )
            groups = {f"{pool}, {sex}": tuple(sorted(sexes.index[sexes == sex])) for sex in sorted(sexes.unique())}
        # Any utterance that is left out changes the halves of its speaker, so the inputs do not stand on all speech.
        missing = {entry.utterance for entry in plan.data.dropped if entry.set in set(rows["set"])}
        yield Pool(pool, rows, groups, len(missing))


def _belong(rows: pd.DataFrame, trial_set: TrialSet) -> pd.Series:
    """Whether each row is of a trial set, or is enrolled for it: an enrolment set may serve trial sets of both sexes."""
    tried = trial_set.enrolment["model"].isin(trial_set.trials["model"])
    enrolled = rows["utterance"].isin(trial_set.enrolment.loc[tried, "utterance"])
    return (rows["set"] == trial_set.name) | ((rows["set"] == trial_set.enrolment_set) & enrolled)


def _rank(
    plan: Plan,
    name: str,
    family: Chosen[MetricFamily],
    pool: Pool,
    ranked: Ranked,
    system: SpeechSet,
    extractors: Sequence[LoadedExtractor],
) -> None:
    segments: dict[ExtractorKey, Input] = {}
    if ranked.halves.unit == "segment":
        segments = plan.features.segments(system, extractors, ranked.spoken)
    for extractor in extractors:
        inputs = segments.get(extractor.key) or plan.features.vectors(system, extractor, ranked.inputs)
        reference = plan.features.vectors(system, extractor, ranked.references)
        scores = score_ranks(plan, system, extractor, reference, inputs)
        condition = "OO" if system.level == "none" else "PP"
        for subset, speakers in pool.groups.items():
            cell = Cell(subset, condition, system, "", describe_comparer(extractor, None), ranked.protocol)
            rows = ranked.halves.inputs
            rows = rows[rows["speaker"].isin(speakers)] if speakers else rows
            context = Context(len(rows) + pool.missing, speakers=speakers)
            measure(plan, cell, name, family, context, {"scores": scores.ref()})


KIND = ProductKind(order=60, plan=plan_ranks)
