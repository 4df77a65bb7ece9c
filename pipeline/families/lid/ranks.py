"""Ranks of the true candidate: the evidence of the first, linkability by population, and longer conversations."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from pipeline.contracts import Row
from pipeline.families._uncertainty import intervals
from pipeline.families.lid.matrix import Block
from pipeline.families.lid.rows import About, named
from pipeline.families.lid.settings import LidSettings
from pipeline.families.lid.slopes import Slopes
from pipeline.metrics import (
    Lengths,
    llr_of_share,
    pi_link_by_speaker,
    pi_link_curve,
    rank_llr,
    srd_by_speaker,
)
from pipeline.seeds import generator

FEWEST = 3
"""Speakers on whom a curve of lengths stands."""
MOST, FEWEST_DRAWN = 300_000, 10
"""Scores of pooled utterances at one length, from which on fewer choices are drawn, and so many still."""


def rows(
    settings: LidSettings, block: Block, slopes: Slopes, about: About
) -> tuple[list[Row], dict[str, pd.DataFrame]]:
    """Rows of a block, and its curves."""
    links, population = _links(settings, block, about)
    return [_first(settings, block, about), *links], {"population": population, **_lengths(settings, block, slopes)}


def _first(settings: LidSettings, block: Block, about: About) -> Row:
    scores, truth = block.scores, block.truth
    found = rank_llr(scores, truth, ties=settings.ties)
    share = intervals(settings, lambda: srd_by_speaker(scores, truth, settings.ties)).get("idr")
    ends = None
    if share is not None:
        low, high = llr_of_share(share, found.n_candidates)
        ends = (max(float(low), found.floor), min(float(high), found.ceiling))
    note = f"its ceiling is {found.ceiling:.2f} nat and its floor {found.floor:.2f} nat"
    return about.row("rank_llr", found.rank_one, variant=block.name, ceiling=found.ceiling, interval=ends, note=note)


def _links(settings: LidSettings, block: Block, about: About) -> tuple[list[Row], pd.DataFrame]:
    """Rows at two, at half and at all of the candidates, and the whole curve."""
    scores, truth = block.scores, block.truth
    curve = pi_link_curve(scores, truth, ties=settings.ties)
    ends = intervals(settings, lambda: pi_link_by_speaker(scores, truth, ties=settings.ties))
    largest = int(curve.population[-1])
    each = [ends.get(f"pi_link.{n}", (math.nan, math.nan)) for n in curve.population]
    table = pd.DataFrame(
        {
            "population": curve.population,
            "value": curve.value,
            "low": [low for low, _ in each],
            "high": [high for _, high in each],
            "chance": curve.chance,
        }
    )
    made = [
        about.row(
            "pi_link",
            float(curve.value[n - 1]),
            variant=named(f"among {n}", block.name),
            interval=ends.get(f"pi_link.{n}"),
        )
        for n in sorted({2, max(largest // 2, 2), largest})
    ]
    return made, table


def _lengths(settings: LidSettings, block: Block, slopes: Slopes) -> dict[str, pd.DataFrame]:
    """ALID, IdR and EER by number of pooled utterances, on one panel of speakers; nothing where speech is too little."""
    held = np.bincount(block.truth)
    n_speakers = np.count_nonzero(held)
    others = slopes.held(block)
    lengths = [
        length
        for length in settings.lengths
        if np.count_nonzero(held >= length) >= max(FEWEST, n_speakers / 2)
        and (others is None or np.count_nonzero(others >= length) >= FEWEST)
    ]
    if len(lengths) < 2:
        return {}
    draws = generator(settings.seed, "choices of utterances that are pooled")
    slope = slopes.of_lengths(block, lengths)
    # A choice of many speakers among many candidates takes much, and says what few of each say.
    few = MOST // (int(n_speakers) * block.candidates.size)
    subsets = min(settings.pooled, max(few, FEWEST_DRAWN))
    items = Lengths(block.scores, block.truth, lengths, slope=slope, subsets=subsets, generator=draws)
    found, ends = items.curve(), intervals(settings, items.by_speaker)
    chance = {"alid": 0.0, "idr": 1 / block.candidates.size, "eer": 0.5}
    lines = []
    for measure, at_chance in chance.items():
        for length, value in zip(lengths, getattr(found, measure).tolist()):
            low, high = ends.get(f"{measure}.{length}", (math.nan, math.nan))
            lines.append((length, measure, value, low, high, at_chance, found.panel.size))
    columns = ["length", "measure", "value", "low", "high", "chance", "speakers"]
    return {"lengths": pd.DataFrame(lines, columns=columns)}
