"""Comparisons without an enrolment: all pairs of the trial side, and inputs against one reference a speaker."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from pipeline.contracts import MetricFamily, RankInputs
from pipeline.engine.task import Input
from pipeline.errors import ConfigError
from pipeline.names import join_few
from pipeline.protocol import halves as srd
from pipeline.protocol.trials import TrialSet
from pipeline.seeds import digest
from pipeline.stages.features.plan import Spoken, spoken
from pipeline.stages.keys import ExtractorKey
from pipeline.stages.measures import compute
from pipeline.stages.plan import Cell, Comparer, Pair, Plan
from pipeline.stages.settings import Chosen
from pipeline.stages.speech.plan import SpeechSet
from pipeline.stages.training.plan import LoadedExtractor
from pipeline.tables.manifest import Wanted


def pairs(plan: Plan) -> None:
    """All pairs of the trial side, OO, OP and PP: voice similarity matrices."""
    for name, family in plan.families("pairs"):
        for label in plan.evaluation.anonymised:
            system, original = plan.evaluated[label], plan.original
            blocks = {"oo": (original, original), "op": (original, system), "pp": (system, system)}
            for extractor in plan.plain("pairs"):
                _compare(plan, name, family, system, "", extractor, blocks)


def adapted_pairs(plan: Plan) -> None:
    """All pairs of the trial side of protected speech, by what attackers have adapted to it: of the matrices the part that such an
    attacker sees.

    Attackers who adapt in the same way see the same. Vectors from files may be of less than a whole set: then there is no matrix.
    """
    for name, family in plan.families("pairs"):
        if not family.component.of_protected:
            continue
        for label in plan.evaluation.anonymised:
            seen: set[tuple[str, str, str]] = set()
            for attacker_name, attacker in plan.evaluation.adapting.items():
                for extractor, scorer in plan.pairs_of(attacker, label, attacker_name, "pairs"):
                    by = Comparer.of(extractor, scorer)
                    how = (by.extractor, by.trained_on, by.backend)
                    if how not in seen and extractor.tables is None:
                        _protected(plan, name, family, plan.evaluated[label], attacker_name, (extractor, scorer))
                    seen.add(how)


def _protected(plan: Plan, name: str, family: Chosen[MetricFamily], system: SpeechSet, attacker: str, by: Pair) -> None:
    """A family on the pairs of protected utterances of each trial set."""
    extractor, scorer = by
    for subset in plan.data.trials:
        compared = plan.paired(subset)
        scores = plan.pair_scores(system, system, extractor, scorer, subset)
        cell = Cell(subset, "PP", system, attacker, Comparer.of(extractor, scorer), compared.protocol)
        context = compute.Context(compared.expected, scorer.gives_llrs, protected=True)
        plan.measure(cell, name, family, context, {"pp": scores.ref()})


def pair_runs(plan: Plan) -> None:
    """All pairs of the trial side between two runs of a random system."""
    for name, family in plan.families("pair_runs"):
        for label, again in plan.second.items():
            system = plan.evaluated[label]
            blocks = {"pp": (system, system), "p0p1": (system, again)}
            for extractor in plan.plain("pairs"):
                if extractor.reads(again):
                    _compare(plan, name, family, system, "PP", extractor, blocks)


def _compare(
    plan: Plan,
    name: str,
    family: Chosen[MetricFamily],
    system: SpeechSet,
    condition: str,
    extractor: LoadedExtractor,
    blocks: dict[str, tuple[SpeechSet, SpeechSet]],
) -> None:
    """A family on the pairs of each trial set, by each back end."""
    for trial_set in plan.data.trials.values():
        subset = trial_set.name
        compared = plan.paired(subset)
        for _, scorer in plan.with_back_ends(extractor):
            inputs: dict[str, Input] = {
                block: plan.pair_scores(first, second, extractor, scorer, subset).ref()
                for block, (first, second) in blocks.items()
            }
            cell = Cell(subset, condition, system, "", Comparer.of(extractor, scorer), compared.protocol)
            plan.measure(cell, name, family, compute.Context(compared.expected, scorer.gives_llrs), inputs)


@dataclass(frozen=True)
class Pool:
    """The sets that are ranked as one, and the speakers that are ranked among each other.

    Attributes:
        name: of the pool.
        rows: of the manifest.
        groups: speakers by the name that the results have of them; no speakers are all of the pool.
    """

    name: str
    rows: pd.DataFrame
    groups: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Ranked:
    """The halves of the speakers of a pool, as every system is asked for them."""

    halves: srd.Halves
    references: Wanted
    inputs: Wanted
    spoken: Sequence[Spoken]

    @classmethod
    def of(cls, halves: srd.Halves, manifest: pd.DataFrame) -> Ranked:
        """Halves of some rows of a manifest."""
        return cls(halves, Wanted.of(halves.references), Wanted.of(halves.pieces), spoken(halves, manifest))


def ranks(plan: Plan) -> None:
    """Inputs against one reference a speaker, sets pooled: similarity rank disclosure.

    An extractor that is trained gives two features: trained on original speech, and on the system's anonymised speech.
    """
    for name, family in plan.families("ranks"):
        inputs = family.component.inputs(family.settings)
        for pool in _pools(plan, name, inputs):
            halves = srd.make_halves(pool.rows, inputs.seed, inputs.unit, inputs.seconds, inputs.apart)
            if halves.left_out:
                plan.graph.limits.append(
                    f"{name} of {pool.name} stands on {halves.references['speaker'].nunique()} speakers: "
                    f"{len(halves.left_out)} have a single chapter and are left out: {join_few(halves.left_out)}"
                )
            pieces = halves.pieces[["set", "utterance"]].to_numpy().tolist()
            protocol = digest(halves.references.to_numpy().tolist(), pieces)
            speech = Ranked.of(halves, plan.data.manifest)
            for label, system in plan.evaluated.items():
                adapted = plan.adapted(label) if label != plan.evaluation.original else []
                ranked = [*plan.plain("ranks"), *(one for one in adapted if "ranks" in one.component.compared_as)]
                if halves.unit == "segment":
                    ranked = [one for one in ranked if one.tables is None]
                _rank(plan, name, family, pool, speech, protocol, system, ranked)


def _pools(plan: Plan, name: str, inputs: RankInputs) -> Iterator[Pool]:
    """What a family ranks; each sex by itself where references are of the input's sex.

    Raises:
        ConfigError: a pool holds a set that is not evaluated; references within a sex where a sex is not known.
    """
    evaluated, manifest = plan.data.trials, plan.data.manifest
    for pool, wanted in (inputs.pools or {"pooled": sorted(evaluated)}).items():
        unknown = sorted(set(wanted) - set(evaluated))
        if unknown:
            raise ConfigError(
                f"the pool '{pool}' of the metric {name} names {join_few(unknown)}, which is not evaluated",
                cause=f"a misspelt set, or one that dataset.sets leaves out; there are {join_few(sorted(evaluated))}",
                remedy=f"metric.{name}.pools=null pools all sets that are evaluated",
            )
        rows = manifest[manifest["role"] != "train"]
        if inputs.pools:
            rows = rows[functools.reduce(operator.or_, (_of_trials(rows, evaluated[one]) for one in wanted))]
        groups: dict[str, tuple[str, ...]] = {pool: ()}
        if inputs.within == "sex":
            sexes = rows.drop_duplicates("speaker").set_index("speaker")["sex"]
            if (sexes == "u").any():
                raise ConfigError(
                    f"the metric {name} ranks within a sex, and the sex of {join_few(sorted(sexes.index[sexes == 'u']))} is not known",
                    cause="a data set without spk2gender",
                    remedy=f"add spk2gender to the sets, or set metric.{name}.within=all",
                )
            groups = {f"{pool}, {sex}": tuple(sorted(sexes.index[sexes == sex])) for sex in sorted(sexes.unique())}
        yield Pool(pool, rows, groups)


def _of_trials(rows: pd.DataFrame, trial_set: TrialSet) -> pd.Series:
    """Whether each row is of a trial set, or is enrolled for it: an enrolment set may serve trial sets of both sexes."""
    tried = trial_set.enrolment["model"].isin(trial_set.trials["model"])
    enrolled = rows["utterance"].isin(trial_set.enrolment.loc[tried, "utterance"])
    return (rows["set"] == trial_set.name) | ((rows["set"] == trial_set.enrolment_set) & enrolled)


def _rank(
    plan: Plan,
    name: str,
    family: Chosen[MetricFamily],
    pool: Pool,
    speech: Ranked,
    protocol: str,
    system: SpeechSet,
    ranked: Sequence[LoadedExtractor],
) -> None:
    """One family on one pool of one system, by each extractor."""
    inputs: dict[ExtractorKey, Input] = {}
    if speech.halves.unit == "segment":
        inputs = plan.features.segments(system, ranked, speech.spoken)
    # Any utterance that is left out changes the halves of its speaker, so the inputs do not stand on all speech.
    gone = len({entry.utterance for entry in plan.data.dropped if entry.set in set(pool.rows["set"])})
    for extractor in ranked:
        if speech.halves.unit == "utterance":
            inputs[extractor.key] = plan.features.vectors(system, extractor, speech.inputs)
        reference = plan.features.vectors(system, extractor, speech.references)
        scores = plan.rank_scores(system, extractor, reference, inputs[extractor.key])
        condition = "OO" if system.level == "none" else "PP"
        for subset, speakers in pool.groups.items():
            cell = Cell(subset, condition, system, "", Comparer.of(extractor, None), protocol)
            mine = speech.halves.inputs
            mine = mine[mine["speaker"].isin(speakers)] if speakers else mine
            context = compute.Context(len(mine) + gone, speakers=speakers)
            plan.measure(cell, name, family, context, {"scores": scores.ref()})
