"""Voice similarity matrices: one block OO | OP over PO | PP a system (Noé 2020, Fig. 1), all on one scale."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipeline.report.plots.base import FAINT, INK, WIDTH, Plot, about, draw, figure_number, grid, label

MOST_LABELS = 48


def plots(table: pd.DataFrame, series: list[str]) -> list[Plot]:
    """One figure for each subset, extractor and back end; one panel a system, speakers in the same order in all."""
    return [
        _plot(*map(str, key), table=part, series=series)
        for key, part in table.groupby(["subset", "extractor", "backend"], sort=True)
    ]


def _plot(subset: str, extractor: str, backend: str, *, table: pd.DataFrame, series: list[str]) -> Plot:
    speakers = sorted({*map(str, table["row_speaker"]), *map(str, table["column_speaker"])})
    protected = bool((table["block"] != "OO").any())
    blocks: list[tuple[str, np.ndarray]] = []
    texts: list[str] = []
    for name in _systems(table, series):
        parts = {block: _matrix(_block(table, name, block), speakers) for block in ("OO", "OP", "PP")}
        whole = np.block([[parts["OO"], parts["OP"]], [parts["OP"].T, parts["PP"]]])
        blocks.append((name, whole if protected else parts["OO"]))
        texts.append(
            f"{name}: "
            + ", ".join(
                f"{block} {_mean(np.diagonal(matrix))} / {_mean(matrix[~np.eye(len(speakers), dtype=bool)])}"
                for block, matrix in parts.items()
                if np.isfinite(matrix).any()
            )
        )
    n = len(speakers)
    columns = min(len(blocks), 3)
    rows = -(-len(blocks) // columns)

    def paint(figure: Figure) -> None:
        axes = grid(figure, len(blocks), columns, sharex=True, sharey=True)
        image = None
        for index, (axis, (name, matrix)) in enumerate(zip(axes, blocks)):
            shown = np.ma.masked_invalid(matrix)
            image = axis.imshow(
                shown, cmap="cividis", vmin=0, vmax=1, interpolation="none", extent=(0, len(matrix), len(matrix), 0)
            )
            image.set_gid(f"vsm-{index}")
            _frame(axis, name, speakers, protected, index % columns == 0)
        assert image is not None
        bar = figure.colorbar(image, ax=axes, shrink=0.8, aspect=32, pad=0.01)
        bar.set_label("similarity")
        bar.outline.set_visible(False)

    panel = 3.5
    svg = draw(min(WIDTH, 1.4 + panel * columns), 0.7 + 3.7 * rows, paint, "compressed")
    alt = (
        f"Voice similarity matrices of {n} speakers, {about(subset=subset, extractor=extractor, back_end=backend)}. "
        f"Mean similarity on / off the diagonal: {'; '.join(texts)}."
    )
    caption = (
        f"Similarity of each pair of {n} speakers, between originals (OO), originals and protected speech (OP, and PO its "
        "transpose) and protected speech (PP); speakers stand in the same order in every block and system. 0 means surely different, 1 surely the same speaker. A bright diagonal "
        "in OP means that protected voices still point to their speakers; a bright diagonal in PP that they can be told apart."
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


def _matrix(part: pd.DataFrame, speakers: list[str]) -> np.ndarray:
    place = {speaker: index for index, speaker in enumerate(speakers)}
    matrix = np.full((len(speakers), len(speakers)), np.nan)
    rows = [place[str(speaker)] for speaker in part["row_speaker"]]
    matrix[rows, [place[str(speaker)] for speaker in part["column_speaker"]]] = part["similarity"].to_numpy(dtype=float)
    return matrix


def _mean(values: np.ndarray) -> str:
    finite = values[np.isfinite(values)]
    return figure_number(float(finite.mean())) if len(finite) else "no value"


def _frame(axis: Axes, name: str, speakers: list[str], protected: bool, leftmost: bool) -> None:
    n = len(speakers)
    axis.set_title(label(name, 40))
    if protected:
        axis.axhline(n, color="white", linewidth=2)
        axis.axvline(n, color="white", linewidth=2)
    for spine in axis.spines.values():
        spine.set_visible(False)
    names = [label(speaker, 10) for speaker in speakers] * (2 if protected else 1)
    if len(names) <= MOST_LABELS:
        size = 6.5 if len(names) <= 24 else 5
        axis.set_xticks(np.arange(len(names)) + 0.5, names, rotation=90, fontsize=size)
        axis.set_yticks(np.arange(len(names)) + 0.5, names, fontsize=size)
        axis.tick_params(length=0, pad=2)
    else:
        axis.set_xticks([])
        axis.set_yticks([])
    for x, y, text in ((0.5, 0.5, "OO"), (1.5, 0.5, "OP"), (0.5, 1.5, "PO"), (1.5, 1.5, "PP"))[: 4 if protected else 1]:
        # In a corner away from the diagonal, on its own ground, so that it can be read on any colour.
        axis.text(
            n * (x - 0.5) + 0.97 * n,
            n * (y - 0.5) + 0.04 * n,
            text,
            ha="right",
            va="top",
            fontsize=7,
            color=INK,
            bbox={"facecolor": "white", "edgecolor": FAINT, "linewidth": 0.4, "pad": 1.2, "alpha": 0.85},
        )
    axis.set_xlabel("original  |  protected" if protected else "original", labelpad=3)
    if leftmost:
        axis.set_ylabel("protected  |  original" if protected else "original", labelpad=3)
