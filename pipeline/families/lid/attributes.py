"""How much of the disclosure is an attribute of the speaker, and what is disclosed of the attribute of a stranger."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from pipeline.contracts import Attribute, Row
from pipeline.families._uncertainty import bands, intervals
from pipeline.families.lid.matrix import Block
from pipeline.families.lid.rows import About, named
from pipeline.families.lid.settings import LidSettings
from pipeline.families.lid.slopes import Slopes
from pipeline.metrics import ByIdentity, BySpeaker, MetricError, Undefined, attribute_part, stranger
from pipeline.metrics.attribute import bits_of_parts
from pipeline.metrics.local_disclosure_uncertainty import bits_by_speaker


def rows(
    settings: LidSettings, block: Block, attributes: Mapping[str, Attribute], slopes: Slopes, about: About
) -> Iterator[Row]:
    """Of each attribute that tells the candidates of a block apart: the part of ALID that it is, the rest, and that of a stranger."""
    for name, attribute in attributes.items():
        yield from _of_one(settings, block, name, attribute, slopes, about)


def _of_one(
    settings: LidSettings, block: Block, name: str, attribute: Attribute, slopes: Slopes, about: About
) -> Iterator[Row]:
    variant = named(slopes.name, name, block.name)
    if attribute.why:
        yield about.row("alid_attribute", variant=variant, reason=attribute.why)
        return
    values = [attribute.speakers[one] for one in block.candidates.tolist()]
    spoken = [attribute.utterances[one] for one in block.utterances.tolist()]
    names = sorted({*values, *spoken})
    if len(set(values)) < 2:
        if not block.name:
            reason = f"all candidates are {values[0]}, and nothing can be said of {name}"
            yield about.row("alid_attribute", variant=variant, reason=reason)
        return
    classes, of_trial = (np.array([names.index(one) for one in each]) for each in (values, spoken))
    sizes = ", ".join(f"{values.count(one)} {one}" for one in sorted(set(values)))
    said = f"{name} of the candidates: {sizes}"
    if (classes[block.truth] == of_trial).all():
        yield from _parts(settings, block, classes, slopes, variant, said, about)
    else:
        said += "; it is of the utterance, which may differ from its speaker's enrolment"
    yield from _stranger(settings, block, classes, of_trial, slopes, named("loso", name, block.name), said, about)


def _parts(
    settings: LidSettings, block: Block, classes: np.ndarray, slopes: Slopes, variant: str, said: str, about: About
) -> Iterator[Row]:
    scores, truth = block.scores, block.truth
    try:
        slope = slopes.of(block)
    except Undefined as undefined:
        yield about.row("alid_attribute", variant=variant, reason=str(undefined))
        return
    found = attribute_part(scores, truth, classes, slope)
    parts = {
        "alid_attribute": (found.attribute, found.mean_attribute, found.chance_attribute),
        "alid_within": (found.within, found.mean_within, found.chance_within),
    }
    null = bands(settings, lambda: _by_identity(block, classes, slope), "null band over candidates, attribute")
    for metric, (each, mean, chance) in parts.items():
        ends = intervals(settings, lambda each=each: _means(each, truth))  # type: ignore[misc]
        more = {"ceiling": found.prior_entropy} if metric == "alid_attribute" else {}
        yield about.row(
            metric, mean, variant=variant, interval=ends.get("alid"), band=null.get(metric), note=said, **more
        )
        yield about.row(f"{metric}_chance", chance, variant=variant)


def _means(bits: np.ndarray, truth: np.ndarray) -> BySpeaker:
    return bits_by_speaker(bits, truth, math.inf)


def _by_identity(block: Block, classes: np.ndarray, slope: float | np.ndarray) -> ByIdentity:
    """Both parts where candidates change places, at the slopes as they are."""
    attribute, within = bits_of_parts(block.scores, block.truth, classes, slope)
    row = np.arange(block.truth.size)

    def evaluate(identity: np.ndarray) -> dict[str, float]:
        own = identity[block.truth]
        return {"alid_attribute": float(attribute[row, own].mean()), "alid_within": float(within[row, own].mean())}

    return ByIdentity(evaluate, [np.arange(classes.size)], "candidates", ("alid_attribute", "alid_within"))


def _stranger(
    settings: LidSettings, block: Block, classes: np.ndarray, spoken: np.ndarray, slopes: Slopes, variant: str, said: str,
    about: About,
) -> Iterator[Row]:  # fmt: skip
    try:
        slope = slopes.of_stranger(block, classes, spoken)
        told = ~np.isnan(slope[block.truth])
        found = stranger(block.scores[told], block.truth[told], classes, slope, spoken[told])
    except (Undefined, MetricError) as undefined:
        yield about.row("alid_stranger", variant=variant, reason=str(undefined))
        return
    kept = ~np.isnan(found.bits)
    ends = intervals(settings, lambda: _means(found.bits[kept], block.truth[told][kept]))
    left_out = int(found.n_undefined + (~told).sum())
    note = f"{said}; {left_out} utterances of speakers who are alone in their class are left out" if left_out else said
    yield about.row(
        "alid_stranger", found.mean, variant=variant, interval=ends.get("alid"), reason=found.reason, note=note
    )
    if found.chance is not None:
        yield about.row("alid_stranger_chance", found.chance, variant=variant)
