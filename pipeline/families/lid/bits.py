"""Local information disclosure: its rows and its distribution."""

from __future__ import annotations

import numpy as np
import pandas as pd

from pipeline.contracts import Row
from pipeline.families._uncertainty import bands, intervals
from pipeline.families.lid.matrix import Search
from pipeline.families.lid.rows import About
from pipeline.families.lid.settings import LidSettings
from pipeline.families.lid.slopes import Slope, Slopes
from pipeline.metrics import ByIdentity, Lid, Undefined, exceedance, lid, lid_by_identity
from pipeline.metrics.local_disclosure import posterior_bits, row_z, slope_of_each_trial
from pipeline.metrics.local_disclosure_uncertainty import (
    blocks_by_identity,
    blocks_by_speaker,
    exceedance_at_chance,
    lid_of_blocks,
)

POINTS = 400
"""Of a distribution, at most: a figure shows no more."""


def rows(
    settings: LidSettings, found: Search, slopes: Slopes, about: About
) -> tuple[list[Row], dict[str, pd.DataFrame]]:
    """ALID, PDR and their kin over all blocks; where there is no slope, the reason."""
    try:
        each = [slopes.of(block) for block in found.blocks]
    except Undefined as undefined:
        return [about.row("alid", variant=slopes.name, reason=str(undefined))], {}
    parts = [lid(block.scores, block.truth, slope) for block, slope in zip(found.blocks, each)]
    truths = [block.truth for block in found.blocks]
    whole = lid_of_blocks(parts, truths)
    ends = intervals(settings, lambda: blocks_by_speaker(parts, truths))
    null = bands(settings, lambda: _identities(found, each, parts, slopes.fixed), "null band over candidates")

    def said(name: str, value: float | None) -> Row:
        why = whole.reason if value is None else ""
        return about.row(name, value, variant=slopes.name, interval=ends.get(name), band=null.get(name), reason=why)

    ceiling = whole.lid_max_ceiling
    made = [
        said("alid", whole.alid),
        said("alid_chance", whole.chance.alid),
        said("alid_speaker", whole.alid_speaker),
        said("pdr", whole.pdr),
        said("pdr_chance", whole.chance.pdr),
        said("lid_plus", whole.lid_plus),
        said("lid_minus", whole.lid_minus),
        about.row("lid_max", whole.lid_max, variant=slopes.name, band=null.get("lid_max"), ceiling=ceiling),
        about.row("lid_max_ceiling", ceiling, variant=slopes.name),
    ]
    return made, {"lid_ccdf": _distribution(found, each, whole), "lid_speakers": _of_speakers(found, parts)}


def _of_speakers(found: Search, parts: list[Lid]) -> pd.DataFrame:
    """ALID of each candidate's own trial utterances; candidates without any have no row."""
    tables = []
    for block, part in zip(found.blocks, parts):
        told = np.isfinite(part.speaker_alid)
        tables.append(pd.DataFrame({"speaker": block.candidates[told], "alid": part.speaker_alid[told]}))
    return pd.concat(tables, ignore_index=True)


def _identities(found: Search, each: list[Slope], parts: list[Lid], fixed: bool) -> ByIdentity:
    made = [
        lid_by_identity(block.scores, block.truth, slope if fixed else None) for block, slope in zip(found.blocks, each)
    ]
    if len(made) == 1:
        return made[0]
    sizes = [block.candidates.size for block in found.blocks]
    return blocks_by_identity(made, sizes, [part.n_trials for part in parts], [part.n_speakers for part in parts])


def _distribution(found: Search, each: list[Slope], whole: Lid) -> pd.DataFrame:
    at = _points(whole.lid)
    cells = [
        posterior_bits(
            slope_of_each_trial(slope, block.truth, block.candidates.size)[:, None] * row_z(block.scores)
        ).ravel()
        for block, slope in zip(found.blocks, each)
    ]
    return pd.DataFrame(
        {
            "bit": at,
            "share": exceedance(whole.lid, at),
            "chance": exceedance_at_chance(cells, at, [block.truth.size for block in found.blocks]),
            "ceiling": whole.lid_max_ceiling,
        }
    )


def _points(bits: np.ndarray) -> np.ndarray:
    """Where the distribution is drawn: at all disclosures, or at some of many, with both ends and both sides of 0."""
    at = np.unique(np.append(bits, 0.0))
    if at.size > POINTS:
        zero = int(np.searchsorted(at, 0.0))
        chosen = np.linspace(0, at.size - 1, POINTS).round().astype(np.int64)
        at = at[np.unique(np.append(chosen, [zero, min(zero + 1, at.size - 1)]))]
    return at
