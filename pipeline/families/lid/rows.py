"""Rows of one attack, and the tables of its figures: disclosures, attributes, ranks, and rates of few alarms."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pipeline.contracts import Attribute, Row, Trials
from pipeline.families._common import bands, code_speakers, count_trials, intervals, row
from pipeline.families.lid.search import Block, LidSettings, Search, Slope, Slopes
from pipeline.metrics._base import MetricError, Undefined
from pipeline.metrics.attribute import attribute_part, bits_of_parts, stranger, stranger_slopes
from pipeline.metrics.conversation import Lengths
from pipeline.metrics.evidence import llr_of_share, rank_llr, tpr_by_speaker, tpr_evidence
from pipeline.metrics.linkability import pi_link_by_speaker, pi_link_curve
from pipeline.metrics.local_disclosure import Lid, exceedance, lid, posterior_bits, row_z, spread_slopes
from pipeline.metrics.local_disclosure_uncertainty import (
    bits_by_speaker,
    blocks_by_identity,
    blocks_by_speaker,
    exceedance_at_chance,
    lid_by_identity,
    lid_of_blocks,
)
from pipeline.metrics.rank_disclosure import srd_by_speaker
from pipeline.metrics.uncertainty import ByIdentity, BySpeaker
from pipeline.seeds import generator


@dataclass(frozen=True)
class RowTemplate:
    """What all rows of an attack say.

    Attributes:
        note: what the reader has to know.
        counts: of the trials.
    """

    note: str
    counts: Mapping[str, int]

    def row(self, metric: str, value: float | None = None, *, note: str = "", **more: Any) -> Row:
        """A row of a metric, as of :func:`pipeline.families._common.row`; ``note`` is said beside what all say."""
        full_note = note if not self.note else f"{note}; {self.note}" if note else self.note
        return row(metric, value, note=full_note, counts=self.counts, **more)


def join_names(*parts: str) -> str:
    """A variant of some parts, of which some may be ''."""
    return ", ".join(filter(None, parts))


POINTS = 400
"""Of a distribution, at most: a figure shows no more."""


def disclosure_rows(
    settings: LidSettings, matrices: Search, slopes: Slopes, template: RowTemplate
) -> tuple[list[Row], dict[str, pd.DataFrame]]:
    """ALID, PDR and their kin over all blocks; where there is no slope, the reason."""
    try:
        learnt = [slopes.learn(block) for block in matrices.blocks]
    except Undefined as undefined:
        return [template.row("alid", variant=slopes.name, reason=str(undefined))], {}
    parts = [lid(block.scores, block.truth, slope) for block, slope in zip(matrices.blocks, learnt)]
    truths = [block.truth for block in matrices.blocks]
    total = lid_of_blocks(parts, truths)
    ends = intervals(settings, lambda: blocks_by_speaker(parts, truths))
    null = bands(settings, lambda: _lid_by_identity(matrices, learnt, parts, slopes.fixed), "null band over candidates")

    def disclosure_row(name: str, value: float | None) -> Row:
        reason = total.reason if value is None else ""
        return template.row(
            name, value, variant=slopes.name, interval=ends.get(name), band=null.get(name), reason=reason
        )

    ceiling = total.lid_max_ceiling
    lines = [
        disclosure_row("alid", total.alid),
        disclosure_row("alid_chance", total.chance.alid),
        disclosure_row("alid_speaker", total.alid_speaker),
        disclosure_row("pdr", total.pdr),
        disclosure_row("pdr_chance", total.chance.pdr),
        disclosure_row("lid_plus", total.lid_plus),
        disclosure_row("lid_minus", total.lid_minus),
        template.row("lid_max", total.lid_max, variant=slopes.name, band=null.get("lid_max"), ceiling=ceiling),
        template.row("lid_max_ceiling", ceiling, variant=slopes.name),
    ]
    # ALID of each candidate's own trial utterances; candidates without any have no row.
    candidates = np.concatenate([block.candidates for block in matrices.blocks])
    speakers = pd.DataFrame({"speaker": candidates, "alid": np.concatenate([part.speaker_alid for part in parts])})
    speakers = speakers[np.isfinite(speakers["alid"])].reset_index(drop=True)
    return lines, {"lid_ccdf": _ccdf_table(matrices, learnt, total), "lid_speakers": speakers}


def _lid_by_identity(matrices: Search, slopes: list[Slope], parts: list[Lid], fixed: bool) -> ByIdentity:
    parts_by_identity = [
        lid_by_identity(block.scores, block.truth, slope if fixed else None)
        for block, slope in zip(matrices.blocks, slopes)
    ]
    if len(parts_by_identity) == 1:
        return parts_by_identity[0]
    sizes = [block.candidates.size for block in matrices.blocks]
    n_trials, n_speakers = [part.n_trials for part in parts], [part.n_speakers for part in parts]
    return blocks_by_identity(parts_by_identity, sizes, n_trials, n_speakers)


def _ccdf_table(matrices: Search, slopes: list[Slope], total: Lid) -> pd.DataFrame:
    # At all disclosures, or at some of many, with both ends and both sides of 0.
    at = np.unique(np.append(total.lid, 0.0))
    if at.size > POINTS:
        zero = int(np.searchsorted(at, 0.0))
        chosen = np.linspace(0, at.size - 1, POINTS).round().astype(np.int64)
        at = at[np.unique(np.append(chosen, [zero, min(zero + 1, at.size - 1)]))]
    cells = [
        posterior_bits(spread_slopes(slope, block.truth, block.candidates.size)[:, None] * row_z(block.scores)).ravel()
        for block, slope in zip(matrices.blocks, slopes)
    ]
    return pd.DataFrame(
        {
            "bit": at,
            "share": exceedance(total.lid, at),
            "chance": exceedance_at_chance(cells, at, [block.truth.size for block in matrices.blocks]),
            "ceiling": total.lid_max_ceiling,
        }
    )


def attribute_rows(
    settings: LidSettings, block: Block, attributes: Mapping[str, Attribute], slopes: Slopes, template: RowTemplate
) -> Iterator[Row]:
    """Of each attribute that tells the candidates of a block apart: the part of ALID that it is, the rest, and that of a stranger."""
    for name, attribute in attributes.items():
        yield from _split_attribute(settings, block, name, attribute, slopes, template)


def _split_attribute(
    settings: LidSettings, block: Block, name: str, attribute: Attribute, slopes: Slopes, template: RowTemplate
) -> Iterator[Row]:
    variant = join_names(slopes.name, name, block.name)
    if attribute.reason:
        yield template.row("alid_attribute", variant=variant, reason=attribute.reason)
        return
    values = [attribute.speakers[speaker] for speaker in block.candidates.tolist()]
    spoken = [attribute.utterances[utterance] for utterance in block.utterances.tolist()]
    names = sorted({*values, *spoken})
    if len(set(values)) < 2:
        if not block.name:
            reason = f"all candidates are {values[0]}, and nothing can be said of {name}"
            yield template.row("alid_attribute", variant=variant, reason=reason)
        return
    classes, of_trial = (np.array([names.index(value) for value in group]) for group in (values, spoken))
    sizes = ", ".join(f"{values.count(value)} {value}" for value in sorted(set(values)))
    note = f"{name} of the candidates: {sizes}"
    if (classes[block.truth] == of_trial).all():
        yield from _part_rows(settings, block, classes, slopes, variant, note, template)
    else:
        note += "; it is of the utterance, which may differ from its speaker's enrolment"
    variant = join_names("loso", name, block.name)
    yield from _stranger_rows(settings, block, classes, of_trial, variant, note, template)


def _part_rows(
    settings: LidSettings,
    block: Block,
    classes: np.ndarray,
    slopes: Slopes,
    variant: str,
    note: str,
    template: RowTemplate,
) -> Iterator[Row]:
    scores, truth = block.scores, block.truth
    try:
        slope = slopes.learn(block)
    except Undefined as undefined:
        yield template.row("alid_attribute", variant=variant, reason=str(undefined))
        return
    split = attribute_part(scores, truth, classes, slope)
    parts = {
        "alid_attribute": (split.attribute, split.mean_attribute, split.chance_attribute),
        "alid_within": (split.within, split.mean_within, split.chance_within),
    }
    null = bands(settings, lambda: _parts_by_identity(block, classes, slope), "null band over candidates, attribute")
    for metric, (bits, mean, chance) in parts.items():
        ends = intervals(settings, lambda bits=bits: _mean_by_speaker(bits, truth))  # type: ignore[misc]
        more = {"ceiling": split.prior_entropy} if metric == "alid_attribute" else {}
        yield template.row(
            metric, mean, variant=variant, interval=ends.get("alid"), band=null.get(metric), note=note, **more
        )
        yield template.row(f"{metric}_chance", chance, variant=variant)


def _mean_by_speaker(bits: np.ndarray, truth: np.ndarray) -> BySpeaker:
    return bits_by_speaker(bits, truth, math.inf)


def _parts_by_identity(block: Block, classes: np.ndarray, slope: float | np.ndarray) -> ByIdentity:
    """Both parts where candidates change places, at the slopes as they are."""
    attribute, within = bits_of_parts(block.scores, block.truth, classes, slope)
    row = np.arange(block.truth.size)

    def evaluate(identity: np.ndarray) -> dict[str, float]:
        own = identity[block.truth]
        return {"alid_attribute": float(attribute[row, own].mean()), "alid_within": float(within[row, own].mean())}

    return ByIdentity(evaluate, [np.arange(classes.size)], "candidates", ("alid_attribute", "alid_within"))


def _stranger_rows(
    settings: LidSettings,
    block: Block,
    classes: np.ndarray,
    spoken: np.ndarray,
    variant: str,
    sizes: str,
    template: RowTemplate,
) -> Iterator[Row]:
    try:
        # Always from the other speakers.
        slope = stranger_slopes(block.scores, block.truth, classes, spoken)
        told = ~np.isnan(slope[block.truth])
        disclosed = stranger(block.scores[told], block.truth[told], classes, slope, spoken[told])
    except (Undefined, MetricError) as undefined:
        yield template.row("alid_stranger", variant=variant, reason=str(undefined))
        return
    kept = ~np.isnan(disclosed.bits)
    ends = intervals(settings, lambda: _mean_by_speaker(disclosed.bits[kept], block.truth[told][kept]))
    left_out = int(disclosed.n_undefined + (~told).sum())
    note = (
        f"{sizes}; {left_out} utterances of speakers who are alone in their class are left out" if left_out else sizes
    )
    yield template.row(
        "alid_stranger", disclosed.mean, variant=variant, interval=ends.get("alid"), reason=disclosed.reason, note=note
    )
    if disclosed.chance is not None:
        yield template.row("alid_stranger_chance", disclosed.chance, variant=variant)


FEWEST_SPEAKERS = 3
"""Speakers on whom a curve of lengths stands."""
MOST, FEWEST_DRAWN = 300_000, 10
"""Scores of pooled utterances at one length, from which on fewer choices are drawn, and so many still."""


def rank_rows(
    settings: LidSettings, block: Block, slopes: Slopes, template: RowTemplate
) -> tuple[list[Row], dict[str, pd.DataFrame]]:
    """Rows of a block, and its curves."""
    links, population = _pi_link_rows(settings, block, template)
    return [_rank_one_row(settings, block, template), *links], {
        "population": population,
        **_length_table(settings, block, slopes),
    }


def _rank_one_row(settings: LidSettings, block: Block, template: RowTemplate) -> Row:
    scores, truth = block.scores, block.truth
    evidence = rank_llr(scores, truth, ties=settings.ties)
    share = intervals(settings, lambda: srd_by_speaker(scores, truth, settings.ties)).get("idr")
    ends = None
    if share is not None:
        low, high = llr_of_share(share, evidence.n_candidates)
        ends = (max(float(low), evidence.floor), min(float(high), evidence.ceiling))
    note = f"its ceiling is {evidence.ceiling:.2f} nat and its floor {evidence.floor:.2f} nat"
    return template.row(
        "rank_llr", evidence.first.rank_one, variant=block.name, ceiling=evidence.ceiling, interval=ends, note=note
    )


def _pi_link_rows(settings: LidSettings, block: Block, template: RowTemplate) -> tuple[list[Row], pd.DataFrame]:
    """Rows at two, at half and at all of the candidates, and the whole curve."""
    scores, truth = block.scores, block.truth
    curve = pi_link_curve(scores, truth, ties=settings.ties)
    ends = intervals(settings, lambda: pi_link_by_speaker(scores, truth, ties=settings.ties))
    largest = int(curve.population[-1])
    limits = [ends.get(f"pi_link.{n}", (math.nan, math.nan)) for n in curve.population]
    table = pd.DataFrame(
        {
            "population": curve.population,
            "value": curve.value,
            "low": [low for low, _ in limits],
            "high": [high for _, high in limits],
            "chance": curve.chance,
        }
    )
    lines = []
    for n in sorted({2, max(largest // 2, 2), largest}):
        variant, value = join_names(f"among {n}", block.name), float(curve.value[n - 1])
        lines.append(template.row("pi_link", value, variant=variant, interval=ends.get(f"pi_link.{n}")))
    return lines, table


def _length_table(settings: LidSettings, block: Block, slopes: Slopes) -> dict[str, pd.DataFrame]:
    """ALID, IdR and EER by number of pooled utterances, on one panel of speakers; nothing where speech is too little."""
    spoken = np.bincount(block.truth)
    n_speakers = np.count_nonzero(spoken)
    others = slopes.count_utterances(block)
    lengths = [
        length
        for length in settings.lengths
        if np.count_nonzero(spoken >= length) >= max(FEWEST_SPEAKERS, n_speakers / 2)
        and (others is None or np.count_nonzero(others >= length) >= FEWEST_SPEAKERS)
    ]
    if len(lengths) < 2:
        return {}
    draws = generator(settings.seed, "choices of utterances that are pooled")
    slope = slopes.learn_for_lengths(block, lengths)
    # A choice of many speakers among many candidates takes much, and says what few of each say.
    few = MOST // (int(n_speakers) * block.candidates.size)
    subsets = min(settings.pooled, max(few, FEWEST_DRAWN))
    items = Lengths(block.scores, block.truth, lengths, slope=slope, subsets=subsets, generator=draws)
    curve, ends = items.curve(), intervals(settings, items.by_speaker)
    chance = {"alid": 0.0, "idr": 1 / block.candidates.size, "eer": 0.5}
    lines = []
    for measure, at_chance in chance.items():
        for length, value in zip(lengths, getattr(curve, measure).tolist()):
            low, high = ends.get(f"{measure}.{length}", (math.nan, math.nan))
            lines.append((length, measure, value, low, high, at_chance, curve.panel.size))
    columns = ["length", "measure", "value", "low", "high", "chance", "speakers"]
    return {"lengths": pd.DataFrame(lines, columns=columns)}


FPRS = {0.01: "1 %", 0.001: "0.1 %"}


def alarm_rows(settings: LidSettings, data: Trials) -> list[Row]:
    """A row a rate; where the counts do not allow it, the reason."""
    number = count_trials(data)
    try:
        trials = code_speakers(data)
    except MetricError as error:  # a class is empty
        return [row("tpr_at_fpr", variant=f"FPR {name}", reason=str(error), counts=number) for name in FPRS.values()]
    evidence = {fpr: tpr_evidence(trials, fpr) for fpr in FPRS}
    rated = [fpr for fpr in FPRS if evidence[fpr].tpr is not None]
    # The jackknife covers rates of few alarms badly; drawing speakers does not (pipeline/metrics/README.md, section 15).
    drawn = "none" if settings.interval == "none" or not settings.replicates or not rated else "percentile"
    ends = intervals(settings.model_copy(update={"interval": drawn}), lambda: tpr_by_speaker(trials, rated))
    lines = []
    for fpr, rate in evidence.items():
        if rate.tpr is None:
            lines.append(row("tpr_at_fpr", variant=f"FPR {FPRS[fpr]}", reason=rate.reason, counts=number))
            continue
        notes = [f"coarse: {rate.counts.allowed} false alarms are allowed"] if rate.few else []
        if rate.few_pairs:
            notes.append(f"the alarms come from {rate.counts.alarm_pairs} pairs of speakers")
        about: dict[str, Any] = {"variant": f"FPR {FPRS[fpr]}", "note": "; ".join(notes), "counts": number}
        lines.append(row("tpr_at_fpr", rate.tpr, interval=ends.get(f"tpr_at_fpr.{fpr:g}"), **about))
    return lines
