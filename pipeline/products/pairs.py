"""All pairs of the trial side, OO, OP and PP: voice similarity matrices, and pairs between two runs of a random system."""

from __future__ import annotations

from pipeline.contracts import MetricFamily
from pipeline.engine.task import Input
from pipeline.products import ProductKind
from pipeline.stages.plan import Pair, Plan
from pipeline.stages.scores.measure import Context
from pipeline.stages.scores.plan import Cell, describe_comparer, measure, score_pairs
from pipeline.stages.settings import Chosen
from pipeline.stages.speech.plan import SpeechSet
from pipeline.stages.training.plan import LoadedExtractor


def plan_pairs(plan: Plan) -> None:
    """The pairs of each system, by those who know original speech, by those who have adapted to it, and of its two runs."""
    for name, family in plan.families("pairs"):
        for label in plan.evaluation.anonymised:
            system, original = plan.copies.evaluated[label], plan.original
            blocks = {"oo": (original, original), "op": (original, system), "pp": (system, system)}
            for extractor in plan.plain("pairs"):
                _compare(plan, name, family, system, "", extractor, blocks)
    for name, family in plan.families("pairs"):
        if family.component.protected_metrics:
            _plan_adapted(plan, name, family)
    for name, family in plan.families("pair_runs"):
        for label, again in plan.copies.second.items():
            system = plan.copies.evaluated[label]
            blocks = {"pp": (system, system), "p0p1": (system, again)}
            for extractor in plan.plain("pairs"):
                if extractor.reads(again):
                    _compare(plan, name, family, system, "PP", extractor, blocks)


def _plan_adapted(plan: Plan, name: str, family: Chosen[MetricFamily]) -> None:
    """All pairs of the trial side of protected speech, by what attackers have adapted to it: of the matrices the part that such an
    attacker sees.

    Attackers who adapt in the same way see the same. Vectors from files may be of less than a whole set: then there is no matrix.
    """
    for label in plan.evaluation.anonymised:
        seen: set[tuple[str, ...]] = set()
        for attacker_name, attacker in plan.evaluation.adapting.items():
            for extractor, scorer in plan.pairs(attacker, label, attacker_name, "pairs"):
                columns = tuple(describe_comparer(extractor, scorer).columns.values())
                if columns not in seen and extractor.tables is None:
                    _measure_protected(
                        plan, name, family, plan.copies.evaluated[label], attacker_name, (extractor, scorer)
                    )
                seen.add(columns)


def _measure_protected(
    plan: Plan, name: str, family: Chosen[MetricFamily], system: SpeechSet, attacker: str, pair: Pair
) -> None:
    extractor, scorer = pair
    for subset in plan.data.trials:
        paired = plan.paired(subset)
        scores = score_pairs(plan, system, system, extractor, scorer, subset)
        cell = Cell(subset, "PP", system, attacker, describe_comparer(extractor, scorer), paired.protocol)
        context = Context(paired.expected, scorer.gives_llrs, protected=True)
        measure(plan, cell, name, family, context, {"pp": scores.ref()})


def _compare(
    plan: Plan,
    name: str,
    family: Chosen[MetricFamily],
    system: SpeechSet,
    condition: str,
    extractor: LoadedExtractor,
    blocks: dict[str, tuple[SpeechSet, SpeechSet]],
) -> None:
    for subset in plan.data.trials:
        paired = plan.paired(subset)
        for _, scorer in plan.with_back_ends(extractor):
            inputs: dict[str, Input] = {
                block: score_pairs(plan, rows, columns, extractor, scorer, subset).ref()
                for block, (rows, columns) in blocks.items()
            }
            cell = Cell(subset, condition, system, "", describe_comparer(extractor, scorer), paired.protocol)
            measure(plan, cell, name, family, Context(paired.expected, scorer.gives_llrs), inputs)


KIND = ProductKind(order=50, plan=plan_pairs)
