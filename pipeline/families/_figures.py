"""What figures of families share: similarity matrices as blocks of one colour scale, the curve of perfect privacy, legends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipeline.figures import FAINT, INK, WIDTH, draw_svg, format_number, make_grid, shorten_label

MOST_LABELS = 48


@dataclass(frozen=True)
class Panel:
    """What stands along the axes of a panel of blocks, and the name of the block at (column, row)."""

    speakers: list[str]
    across: tuple[str, ...]
    down: tuple[str, ...]
    names: dict[tuple[int, int], str]


def find_speakers(table: pd.DataFrame) -> list[str]:
    """The speakers of a table of matrices, in order."""
    return sorted({*map(str, table["row_speaker"]), *map(str, table["column_speaker"])})


def draw_blocks(
    panel: Panel, blocks: list[tuple[str, np.ndarray]], most: int, size: tuple[float, float], prefix: str
) -> str:
    """One panel a system, ``most`` in a row, with one colour scale."""
    columns = min(len(blocks), most)

    def paint(figure: Figure) -> None:
        axes = make_grid(figure, len(blocks), columns, sharex=True, sharey=True)
        image = None
        for index, (axis, (name, matrix)) in enumerate(zip(axes, blocks)):
            height, width = matrix.shape
            look: dict[str, Any] = {"cmap": "cividis", "vmin": 0, "vmax": 1, "interpolation": "none"}
            image = axis.imshow(np.ma.masked_invalid(matrix), extent=(0, width, height, 0), **look)
            image.set_gid(f"{prefix}-{index}")
            _frame(axis, name, panel, index % columns == 0)
        assert image is not None
        bar = figure.colorbar(image, ax=axes, shrink=0.8, aspect=32, pad=0.01)
        bar.set_label("similarity")
        bar.outline.set_visible(False)

    height = 0.7 + size[1] * -(-len(blocks) // columns)
    return draw_svg(min(WIDTH, 1.4 + size[0] * columns), height, paint, "compressed")


def matrix_of(part: pd.DataFrame, speakers: list[str]) -> np.ndarray:
    place = {speaker: index for index, speaker in enumerate(speakers)}
    matrix = np.full((len(speakers), len(speakers)), np.nan)
    rows = [place[str(speaker)] for speaker in part["row_speaker"]]
    matrix[rows, [place[str(speaker)] for speaker in part["column_speaker"]]] = part["similarity"].to_numpy(dtype=float)
    return matrix


def means(matrix: np.ndarray) -> str:
    """Mean on and off the diagonal."""
    parts = [values[np.isfinite(values)] for values in (np.diagonal(matrix), matrix[~np.eye(len(matrix), dtype=bool)])]
    return " / ".join(format_number(float(finite.mean())) if len(finite) else "no value" for finite in parts)


def _frame(axis: Axes, name: str, panel: Panel, leftmost: bool) -> None:
    n = len(panel.speakers)
    axis.set_title(shorten_label(name, 40))
    for border in range(1, len(panel.across)):
        axis.axvline(border * n, color="white", linewidth=2)
    for border in range(1, len(panel.down)):
        axis.axhline(border * n, color="white", linewidth=2)
    for spine in axis.spines.values():
        spine.set_visible(False)
    names = [shorten_label(speaker, 10) for speaker in panel.speakers]
    most = n * max(len(panel.across), len(panel.down))
    axis.set_xticks([])
    axis.set_yticks([])
    if most <= MOST_LABELS:
        size = 6.5 if most <= 24 else 5
        axis.set_xticks(np.arange(n * len(panel.across)) + 0.5, names * len(panel.across), rotation=90, fontsize=size)
        axis.set_yticks(np.arange(n * len(panel.down)) + 0.5, names * len(panel.down), fontsize=size)
        axis.tick_params(length=0, pad=2)
    for (column, row), text in panel.names.items():
        # In a corner away from the diagonal, on its own ground, so that it can be read on any colour.
        box = {"facecolor": "white", "edgecolor": FAINT, "linewidth": 0.4, "pad": 1.2, "alpha": 0.85}
        place = n * (column + 0.97), n * (row + 0.04)
        axis.text(*place, text, ha="right", va="top", fontsize=7, color=INK, bbox=box)
    axis.set_xlabel("  |  ".join(panel.across), labelpad=3)
    if leftmost:
        axis.set_ylabel("  |  ".join(reversed(panel.down)), labelpad=3)


def perfect_privacy(axis: Axes, prior: pd.DataFrame, kind: str, leftmost: bool) -> None:
    """The dotted curve of perfect privacy on an ECE plot, and its axes: ``prior`` has columns log_odds and prior, in order."""
    look: dict[str, Any] = {"color": INK, "linestyle": (0, (1, 1.6)), "linewidth": 1.3, "zorder": 5}
    axis.plot(prior["log_odds"], prior["prior"], label="perfect privacy", gid=f"{kind}-prior", **look)
    axis.set_xlabel("natural log-odds of the target prior")
    if leftmost:
        axis.set_ylabel("empirical cross-entropy (bit)")
    axis.set_xlim(prior["log_odds"].min(), prior["log_odds"].max())


def draw_legend(figure: Figure, axes: Iterable[Axes], most: int) -> None:
    """One legend below all panels: each name once, ``most`` in a row."""
    handles = {name: handle for axis in axes for handle, name in zip(*axis.get_legend_handles_labels())}
    columns = min(len(handles), most) or 1
    figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=columns)
