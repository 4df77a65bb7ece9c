"""Comparisons without an enrolment: all pairs of the trial side, and inputs against one reference a speaker."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.contracts import MetricFamily
from pipeline.engine.task import Input
from pipeline.planning.extractors import LoadedExtractor
from pipeline.planning.keys import ExtractorKey
from pipeline.planning.plan import Cell, Comparer, Plan
from pipeline.planning.settings import Chosen
from pipeline.planning.speech import SpeechSet
from pipeline.protocol import halves as srd
from pipeline.seeds import digest
from pipeline.stages import measure


def pairs(plan: Plan) -> None:
    """All pairs of the trial side, OO, OP and PP: voice similarity matrices."""
    for name, family in plan.families("pairs"):
        for label in plan.evaluation.anonymised:
            system, original = plan.evaluated[label], plan.original
            blocks = {"oo": (original, original), "op": (original, system), "pp": (system, system)}
            for extractor in plan.plain("pairs"):
                _compare(plan, name, family, system, "", extractor, blocks)


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
        rows = plan.data.manifest[plan.data.manifest["set"] == subset]
        expected = len(rows) + sum(entry.set == subset for entry in plan.data.dropped)
        for _, scorer in plan.with_back_ends(extractor):
            inputs: dict[str, Input] = {
                block: plan.pair_scores(first, second, extractor, scorer, subset).ref()
                for block, (first, second) in blocks.items()
            }
            protocol = digest(sorted(rows["utterance"]))
            cell = Cell(subset, condition, system, "", Comparer.of(extractor, scorer), protocol)
            plan.measure(cell, name, family, measure.Context(expected, scorer.gives_llrs), inputs)


def ranks(plan: Plan) -> None:
    """Inputs against one reference a speaker, all sets pooled: similarity rank disclosure.

    An extractor that is trained gives two features: trained on original speech, and on the system's anonymised speech.
    """
    for name, family in plan.families("ranks"):
        inputs = family.component.inputs(family.settings)
        halves = srd.halves(plan.data.manifest, inputs.seed, inputs.unit, inputs.seconds)
        for label, system in plan.evaluated.items():
            adapted = plan.adapted(label) if label != plan.evaluation.original else []
            ranked = [*plan.plain("ranks"), *(one for one in adapted if "ranks" in one.component.compared_as)]
            if halves.unit == "segment":
                ranked = [one for one in ranked if one.tables is None]
            _rank(plan, name, family, halves, system, ranked)


def _rank(
    plan: Plan,
    name: str,
    family: Chosen[MetricFamily],
    halves: srd.Halves,
    system: SpeechSet,
    ranked: Sequence[LoadedExtractor],
) -> None:
    """One family on one system, by each extractor."""
    manifest = plan.data.manifest
    inputs: dict[ExtractorKey, Input] = {}
    if halves.unit == "segment":
        inputs = plan.features.segments(system, ranked, halves, manifest["sample_rate"])
    protocol = digest(halves.references.to_numpy().tolist(), halves.pieces[["set", "utterance"]].to_numpy().tolist())
    # Any utterance that is left out changes the halves of its speaker, so the inputs do not stand on all speech.
    evaluated = set(manifest.loc[manifest["role"] != "train", "set"])
    expected = len(halves.inputs) + len({entry.utterance for entry in plan.data.dropped if entry.set in evaluated})
    for extractor in ranked:
        if halves.unit == "utterance":
            inputs[extractor.key] = plan.features.vectors(system, extractor, lambda: halves.pieces, ("inputs", name))
        reference = plan.features.vectors(system, extractor, lambda: halves.references, ("references", name))
        scores = plan.rank_scores(system, extractor, reference, inputs[extractor.key])
        condition = "OO" if system.level == "none" else "PP"
        cell = Cell("pooled", condition, system, "", Comparer.of(extractor, None), protocol)
        plan.measure(cell, name, family, measure.Context(expected), {"scores": scores.ref()})
