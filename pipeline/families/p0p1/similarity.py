"""Voice similarity matrices of two runs of a random system: the first run with itself beside the first with the second."""

from __future__ import annotations

import numpy as np
import pandas as pd

from pipeline.families._figures import Panel, draw_blocks, matrix_of, means
from pipeline.figures import Plot, describe


def plots(table: pd.DataFrame, series: list[str]) -> list[Plot]:
    """One figure for each subset, extractor and back end; one panel a system, speakers in the same order in all."""
    return [
        _plot(*map(str, key), table=part, series=series)
        for key, part in table.groupby(["subset", "extractor", "backend"], sort=True)
    ]


def _plot(subset: str, extractor: str, backend: str, *, table: pd.DataFrame, series: list[str]) -> Plot:
    speakers = sorted({*map(str, table["row_speaker"]), *map(str, table["column_speaker"])})
    blocks: list[tuple[str, np.ndarray]] = []
    texts: list[str] = []
    for name in (name for name in series if name in set(table["series"])):
        parts = {
            block: matrix_of(table[(table["series"] == name) & (table["block"] == block)], speakers)
            for block in ("PP", "P0P1")
        }
        blocks.append((name, np.block([[parts["PP"], parts["P0P1"]]])))
        texts.append(f"{name}: " + ", ".join(f"{block} {means(matrix)}" for block, matrix in parts.items()))
    panel = Panel(speakers, ("first run", "second run"), ("first run",), {(0, 0): "PP", (1, 0): "P0P1"})
    svg = draw_blocks(panel, blocks, 2, (5.2, 3.1), "runs")
    n = len(speakers)
    alt = (
        f"Voice similarity matrices of {n} speakers within and between two runs of a random system, "
        f"{describe(subset=subset, extractor=extractor, back_end=backend)}. Mean similarity on / off the diagonal: "
        f"{'; '.join(texts)}."
    )
    caption = (
        f"Similarity of each pair of {n} speakers' protected voices, within one run of a random system (PP) and between that run "
        "and another with a different seed (P0P1). A diagonal in P0P1 that is as bright as that in PP means that a speaker's "
        "sessions can be linked although each has another pseudo-voice."
    )
    return Plot(
        "similarity",
        f"Similarity between two runs: {subset}, {extractor}",
        caption,
        alt,
        svg,
        table.drop(columns="series").reset_index(drop=True),
    )
