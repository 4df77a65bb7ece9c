"""Voice similarity matrices, one block OO | OP over PO | PP a system (Noé 2020, Fig. 1)."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from pipeline.families._matrices import Panel, draw_blocks, matrix_of, means
from pipeline.figures import Plot, describe


def plots(table: pd.DataFrame, series: list[str]) -> list[Plot]:
    """One figure for each subset, extractor and back end; one panel a system, speakers in the same order in all."""
    return [
        _plot(*map(str, key), table=part, series=series)
        for key, part in table.groupby(["subset", "extractor", "backend"], sort=True)
    ]


def figure(table: pd.DataFrame) -> Figure:
    """Matrices as a figure of matplotlib, for notebooks: a row a subset, system, extractor and back end; a column a block.

    Args:
        table: columns subset, system, extractor, backend, block, row_speaker, column_speaker, similarity.
    """
    shown = [(key, part) for key, part in table.groupby(["subset", "system", "extractor", "backend"], sort=True)]
    blocks = [block for block in ("OO", "OP", "PP") if (table["block"] == block).any()]
    drawn = Figure(figsize=(0.9 + 3.1 * len(blocks), 3.0 * len(shown)), layout="constrained")
    axes = drawn.subplots(len(shown), len(blocks), squeeze=False)
    image = None
    for row, (key, part) in enumerate(shown):
        speakers = sorted({*map(str, part["row_speaker"])})
        for column, block in enumerate(blocks):
            matrix = matrix_of(part[part["block"] == block], speakers)
            axis = axes[row, column]
            image = axis.imshow(np.ma.masked_invalid(matrix), cmap="cividis", vmin=0, vmax=1)
            axis.set_title(f"{key[0]}, {key[1]}: {block}", fontsize=9)
            axis.set_xticks(range(len(speakers)), speakers, rotation=90, fontsize=6)
            axis.set_yticks(range(len(speakers)), speakers if column == 0 else [], fontsize=6)
    if image is not None:
        drawn.colorbar(image, ax=axes, shrink=0.8).set_label("similarity")
    return drawn


def _plot(subset: str, extractor: str, backend: str, *, table: pd.DataFrame, series: list[str]) -> Plot:
    speakers = sorted({*map(str, table["row_speaker"]), *map(str, table["column_speaker"])})
    # Who has adapted to a system is shown what such an attacker sees: protected speech alone.
    alone = {"PP": "protected", "OO": "original"}.get("".join(set(table["block"])), "")
    blocks: list[tuple[str, np.ndarray]] = []
    texts: list[str] = []
    for name in _systems(table, series):
        parts = {block: matrix_of(_block(table, name, block), speakers) for block in ("OO", "OP", "PP")}
        whole = np.block([[parts["OO"], parts["OP"]], [parts["OP"].T, parts["PP"]]])
        blocks.append((name, parts["PP" if alone == "protected" else "OO"] if alone else whole))
        texts.append(
            f"{name}: "
            + ", ".join(f"{block} {means(matrix)}" for block, matrix in parts.items() if np.isfinite(matrix).any())
        )
    n = len(speakers)
    sides = (alone,) if alone else ("original", "protected")
    corners = {(0, 0): alone[0].upper() * 2} if alone else {(0, 0): "OO", (1, 0): "OP", (0, 1): "PO", (1, 1): "PP"}
    panel = Panel(speakers, sides, sides, corners)
    svg = draw_blocks(panel, blocks, 3, (3.5, 3.7), "vsm")
    alt = (
        f"Voice similarity matrices of {n} speakers, {describe(subset=subset, extractor=extractor, back_end=backend)}. "
        f"Mean similarity on / off the diagonal: {'; '.join(texts)}."
    )
    caption = (
        f"Similarity of each pair of {n} speakers, between originals (OO), originals and protected speech (OP, and PO its "
        "transpose) and protected speech (PP); speakers stand in the same order in every block and system. 0 means surely "
        "different, 1 surely the same speaker. A bright diagonal in OP means that protected voices still point to their speakers; a bright diagonal in PP that they can be told apart."
    )
    return Plot(
        "similarity",
        f"Voice similarity matrices: {subset}, {extractor}",
        caption,
        alt,
        svg,
        table.drop(columns="series").reset_index(drop=True),
    )


def _systems(table: pd.DataFrame, series: list[str]) -> list[str]:
    """Systems with a protected block; if there is none, all."""
    present = set(table["series"][table["block"] != "OO"]) or set(table["series"])
    return [name for name in series if name in present]


def _block(table: pd.DataFrame, name: str, block: str) -> pd.DataFrame:
    """Rows of one block; OO may be stored once, with the unprotected system of the same run."""
    part: pd.DataFrame = table[table["block"] == block]
    own: pd.DataFrame = part[part["series"] == name]
    if len(own) or block != "OO" or not len(part):
        return own
    same_run: pd.DataFrame = part[part["run_id"] == table["run_id"][table["series"] == name].iloc[0]]
    return same_run[same_run["series"] == same_run["series"].iloc[0]] if len(same_run) else same_run
