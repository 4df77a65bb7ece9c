"""Voice similarity matrices, all on one scale: one block OO | OP over PO | PP a system (Noé 2020, Fig. 1), and PP | P0P1 for
the two runs of a random system."""

from __future__ import annotations

from dataclasses import dataclass

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


def runs(table: pd.DataFrame, series: list[str]) -> list[Plot]:
    """The same for two runs of random systems: the first run with itself beside the first with the second."""
    return [
        _runs(*map(str, key), table=part, series=series)
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
            + ", ".join(f"{block} {_means(matrix)}" for block, matrix in parts.items() if np.isfinite(matrix).any())
        )
    n = len(speakers)
    panel = _Panel(
        speakers,
        ("original", "protected") if protected else ("original",),
        ("original", "protected") if protected else ("original",),
        {(0, 0): "OO", (1, 0): "OP", (0, 1): "PO", (1, 1): "PP"} if protected else {(0, 0): "OO"},
    )
    svg = _draw(panel, blocks, 3, (3.5, 3.7), "vsm")
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


def _runs(subset: str, extractor: str, backend: str, *, table: pd.DataFrame, series: list[str]) -> Plot:
    speakers = sorted({*map(str, table["row_speaker"]), *map(str, table["column_speaker"])})
    blocks: list[tuple[str, np.ndarray]] = []
    texts: list[str] = []
    for name in (name for name in series if name in set(table["series"])):
        parts = {block: _matrix(_block(table, name, block), speakers) for block in ("PP", "P0P1")}
        blocks.append((name, np.block([[parts["PP"], parts["P0P1"]]])))
        texts.append(f"{name}: " + ", ".join(f"{block} {_means(matrix)}" for block, matrix in parts.items()))
    panel = _Panel(speakers, ("first run", "second run"), ("first run",), {(0, 0): "PP", (1, 0): "P0P1"})
    svg = _draw(panel, blocks, 2, (5.2, 3.1), "runs")
    n = len(speakers)
    alt = (
        f"Voice similarity matrices of {n} speakers within and between two runs of a random system, "
        f"{about(subset=subset, extractor=extractor, back_end=backend)}. Mean similarity on / off the diagonal: "
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


@dataclass(frozen=True)
class _Panel:
    """What stands along the axes of a panel of blocks, and the name of the block at (column, row)."""

    speakers: list[str]
    across: tuple[str, ...]
    down: tuple[str, ...]
    names: dict[tuple[int, int], str]


def _draw(
    panel: _Panel, blocks: list[tuple[str, np.ndarray]], most: int, size: tuple[float, float], prefix: str
) -> str:
    """One panel a system, ``most`` in a row, with one colour scale."""
    columns = min(len(blocks), most)

    def paint(figure: Figure) -> None:
        axes = grid(figure, len(blocks), columns, sharex=True, sharey=True)
        image = None
        for index, (axis, (name, matrix)) in enumerate(zip(axes, blocks)):
            height, width = matrix.shape
            image = axis.imshow(
                np.ma.masked_invalid(matrix),
                cmap="cividis",
                vmin=0,
                vmax=1,
                interpolation="none",
                extent=(0, width, height, 0),
            )
            image.set_gid(f"{prefix}-{index}")
            _frame(axis, name, panel, index % columns == 0)
        assert image is not None
        bar = figure.colorbar(image, ax=axes, shrink=0.8, aspect=32, pad=0.01)
        bar.set_label("similarity")
        bar.outline.set_visible(False)

    height = 0.7 + size[1] * -(-len(blocks) // columns)
    return draw(min(WIDTH, 1.4 + size[0] * columns), height, paint, "compressed")


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


def _means(matrix: np.ndarray) -> str:
    """Mean on and off the diagonal."""
    return " / ".join(_mean(values) for values in (np.diagonal(matrix), matrix[~np.eye(len(matrix), dtype=bool)]))


def _mean(values: np.ndarray) -> str:
    finite = values[np.isfinite(values)]
    return figure_number(float(finite.mean())) if len(finite) else "no value"


def _frame(axis: Axes, name: str, panel: _Panel, leftmost: bool) -> None:
    n = len(panel.speakers)
    axis.set_title(label(name, 40))
    for border in range(1, len(panel.across)):
        axis.axvline(border * n, color="white", linewidth=2)
    for border in range(1, len(panel.down)):
        axis.axhline(border * n, color="white", linewidth=2)
    for spine in axis.spines.values():
        spine.set_visible(False)
    names = [label(speaker, 10) for speaker in panel.speakers]
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
        axis.text(
            n * (column + 0.97),
            n * (row + 0.04),
            text,
            ha="right",
            va="top",
            fontsize=7,
            color=INK,
            bbox={"facecolor": "white", "edgecolor": FAINT, "linewidth": 0.4, "pad": 1.2, "alpha": 0.85},
        )
    axis.set_xlabel("  |  ".join(panel.across), labelpad=3)
    if leftmost:
        axis.set_ylabel("  |  ".join(reversed(panel.down)), labelpad=3)
