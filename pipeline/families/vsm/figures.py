"""Figures of voice similarity: matrices (one block OO | OP over PO | PP a system; Noé 2020, Fig. 1) and those of two runs of a random
system, zoo, and the plane of de-identification and gain of voice distinctiveness (privacy to the right, distinct voices upwards).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pipeline.families._figures import Panel, draw_blocks, find_speakers, matrix_of, means
from pipeline.figures import (
    GREY,
    INK,
    MARKERS,
    PALETTE,
    WIDTH,
    Plot,
    assign_colours,
    describe,
    draw_svg,
    format_number,
    make_grid,
    shorten_label,
)

FIGURE = ["subset", "extractor", "backend"]
"""There is a figure for each of them."""


def plot_matrices(table: pd.DataFrame, series: list[str]) -> list[Plot]:
    """One figure for each subset, extractor and back end; one panel a system, speakers in the same order in all."""
    return [_plot_matrices(*map(str, key), table=part, series=series) for key, part in table.groupby(FIGURE, sort=True)]


def draw_matrices(table: pd.DataFrame) -> Figure:
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


def _plot_matrices(subset: str, extractor: str, backend: str, *, table: pd.DataFrame, series: list[str]) -> Plot:
    speakers = find_speakers(table)
    # Who has adapted to a system is shown what such an attacker sees: protected speech alone.
    alone = {"PP": "protected", "OO": "original"}.get("".join(set(table["block"])), "")
    blocks: list[tuple[str, np.ndarray]] = []
    texts: list[str] = []
    for name in _list_systems(table, series):
        parts = {block: matrix_of(_block(table, name, block), speakers) for block in ("OO", "OP", "PP")}
        joined = np.block([[parts["OO"], parts["OP"]], [parts["OP"].T, parts["PP"]]])
        blocks.append((name, parts["PP" if alone == "protected" else "OO"] if alone else joined))
        filled = (f"{block} {means(matrix)}" for block, matrix in parts.items() if np.isfinite(matrix).any())
        texts.append(f"{name}: {', '.join(filled)}")
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
    data = table.drop(columns="series").reset_index(drop=True)
    return Plot("similarity", f"Voice similarity matrices: {subset}, {extractor}", caption, alt, svg, data)


def plot_runs(table: pd.DataFrame, series: list[str]) -> list[Plot]:
    """The first run of a random system with itself beside the first with the second, as :func:`plot_matrices`."""
    return [_plot_runs(*map(str, key), table=part, series=series) for key, part in table.groupby(FIGURE, sort=True)]


def _plot_runs(subset: str, extractor: str, backend: str, *, table: pd.DataFrame, series: list[str]) -> Plot:
    speakers = find_speakers(table)
    blocks: list[tuple[str, np.ndarray]] = []
    texts: list[str] = []
    for name in _list_systems(table, series):
        parts = {block: matrix_of(_block(table, name, block), speakers) for block in ("PP", "P0P1")}
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
    data = table.drop(columns="series").reset_index(drop=True)
    return Plot("similarity", f"Similarity between two runs: {subset}, {extractor}", caption, alt, svg, data)


def _list_systems(table: pd.DataFrame, series: list[str]) -> list[str]:
    """Systems with a protected block; if there is none, all."""
    present = set(table["series"][table["block"] != "OO"]) or set(table["series"])
    return [name for name in series if name in present]


def _block(table: pd.DataFrame, name: str, block: str) -> pd.DataFrame:
    """Rows of one block; OO may be stored once, with the unprotected system of the same run."""
    part: pd.DataFrame = table[table["block"] == block]
    own: pd.DataFrame = part[part["series"] == name]
    if len(own) or block != "OO":
        return own
    same_run: pd.DataFrame = part[part["run_id"].isin(set(table["run_id"][table["series"] == name]))]
    return same_run[same_run["series"] == same_run["series"].iloc[0]] if len(same_run) else same_run


BLOCK_TITLES = {"OO": "OO", "OP original side": "OP, as original", "OP protected side": "OP, as protected", "PP": "PP"}
SHAPES = {"sheep": "o", "goat": "^", "wolf/lamb": "s", "wolf": "s", "lamb": "s"}
TINTS = {"worm": PALETTE[1], "dove": PALETTE[2], "phantom": PALETTE[3], "chameleon": PALETTE[0]}
BARE = "#56b4e9"
MARK: dict[str, Any] = {"linestyle": "none", "markersize": 5}
NAMED = {"goat", "wolf/lamb", "wolf", "lamb"}
PANEL = (165.0, 140.0)
"""Width and height of a panel, in points."""

Box = tuple[float, float, float, float]


def plot_zoo(table: pd.DataFrame, series: list[str]) -> list[Plot]:
    """One figure for each subset, extractor and back end; a row a system, a column a block of the similarity matrix."""
    return [_plot_zoo(*map(str, key), table=part, series=series) for key, part in table.groupby(FIGURE, sort=True)]


def _plot_zoo(subset: str, extractor: str, backend: str, *, table: pd.DataFrame, series: list[str]) -> Plot:
    rows = _list_systems(table, series)
    columns = [block for block in BLOCK_TITLES if block in set(table["block"])]
    finite = table[np.isfinite(table["x"]) & np.isfinite(table["y"])].replace({"dunstone_yager": {"none": ""}})
    labels = {*finite["doddington"], *finite["dunstone_yager"]}
    seen = [animal for animal in dict.fromkeys([*SHAPES, *TINTS, *sorted(labels)]) if animal and animal in labels]
    x_limits, y_limits = _zoo_limits(finite["x"]), _zoo_limits(finite["y"])

    def paint(figure: Figure) -> None:
        axes = figure.subplots(len(rows), len(columns), squeeze=False, sharex=True, sharey=True)
        for i, name in enumerate(rows):
            for j, block in enumerate(columns):
                axes[i, j].set(xlim=x_limits, ylim=y_limits)
                _zoo_panel(axes[i, j], _block(finite, name, block), f"{i}-{j}")
                axes[i, j].set_title(f"{shorten_label(name, 18)} · {BLOCK_TITLES[block]}")
                if j == 0:
                    axes[i, j].set_ylabel("mean impostor LLR (nat)")
                if i == len(rows) - 1:
                    axes[i, j].set_xlabel("mean target LLR (nat)")
        if seen:
            marks, names = [_legend_mark(animal) for animal in seen], list(map(shorten_label, seen))
            figure.legend(marks, names, loc="outside lower center", ncols=len(seen), handletextpad=0.3)

    svg = draw_svg(min(WIDTH, 1.0 + 2.75 * len(columns)), 0.5 + 2.6 * len(rows), paint)
    texts = []
    for name in rows:
        parts = [(block, _block(finite, name, block)) for block in columns]
        shown = (
            f"{block} ({format_number(p['x'].mean())}, {format_number(p['y'].mean())})" for block, p in parts if len(p)
        )
        texts.append(f"{name}: {', '.join(shown)}")
    alt = (
        f"Zoo plot, {describe(subset=subset, extractor=extractor, back_end=backend)}: mean target against mean impostor "
        f"log-likelihood ratio of each speaker. Mean over speakers (target, impostor) in nat: {'; '.join(texts)}."
    )
    caption = (
        "One mark a speaker: mean log-likelihood ratio (natural, oracle-calibrated) of its own comparisons to the right, of "
        "its comparisons with others upwards. Far right and far down is easy to recognise; at (0, 0) there is no evidence. "
        "Shape: Doddington's animals (goat: hard to recognise as itself; wolf or lamb: close to others). Colour: Dunstone and "
        "Yager's (worm: low target, high impostor; dove: high, low; phantom: both low; chameleon: both high). The animals are "
        "quartiles of this set, so they name somebody in every set of 8 speakers or more, and nobody in smaller ones; the "
        "coordinates are what counts."
    )
    data = table.drop(columns="series").reset_index(drop=True)
    return Plot("zoo", f"Zoo: {subset}, {extractor}", caption, alt, svg, data)


def _zoo_limits(values: pd.Series) -> tuple[float, float]:
    """Limits that hold all values and zero, with a margin."""
    low, high = min(0.0, *values), max(0.0, *values)
    margin = 0.08 * (high - low) or 1.0
    return low - margin, high + margin


def _zoo_panel(axis: Axes, points: pd.DataFrame, key: str) -> None:
    axis.axhline(0, color=GREY, linewidth=0.6)
    axis.axvline(0, color=GREY, linewidth=0.6)
    axis.grid(True)
    taken: list[Box] = [_around(axis, x, y, 6, 6) for x, y in zip(points["x"], points["y"])]
    for row in points.sort_values("speaker").to_dict("records"):
        first, second = row["doddington"], row["dunstone_yager"]
        # A set too small for quartiles has no animals: its coordinates are all there is, so they are drawn and named plainly.
        bare = not first and not second
        tint = BARE if bare else TINTS.get(second, GREY)
        face = tint if second in TINTS or bare else "white"
        look = {**MARK, "marker": SHAPES.get(first, "o"), "color": tint, "markerfacecolor": face}
        axis.plot([row["x"]], [row["y"]], markeredgewidth=0.9, gid=f"zoo-{key}", **look)
        if second in TINTS or first in NAMED or bare:
            _write_name(axis, shorten_label(row["speaker"], 12), row["x"], row["y"], taken)


def _around(axis: Axes, x: float, y: float, width: float, height: float) -> Box:
    """A box around a point, in points of about this panel (its size is settled only when the figure is drawn)."""
    (left, right), (bottom, top) = axis.get_xlim(), axis.get_ylim()
    centre = (x - left) / (right - left) * PANEL[0], (y - bottom) / (top - bottom) * PANEL[1]
    return centre[0] - width / 2, centre[1] - height / 2, centre[0] + width / 2, centre[1] + height / 2


def _write_name(axis: Axes, text: str, x: float, y: float, taken: list[Box]) -> None:
    """Write a name beside its mark where there is room; a name without room is left to the CSV."""
    width, height = 3.6 * len(text) + 2, 7.0
    left, bottom = _around(axis, x, y, 0, 0)[:2]
    sides = ((4, 0, "left", "center"), (-4, 0, "right", "center"), (0, 4, "center", "bottom"), (0, -4, "center", "top"))
    for dx, dy, ha, va in sides:
        start = left + dx - (width if ha == "right" else width / 2 if ha == "center" else 0)
        foot = bottom + dy - (height if va == "top" else height / 2 if va == "center" else 0)
        box = (start, foot, start + width, foot + height)
        inside = box[0] >= 0 and box[2] <= PANEL[0] + 6
        if inside and not any(box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for b in taken):
            look: dict[str, Any] = {"textcoords": "offset points", "ha": ha, "va": va, "fontsize": 6, "color": INK}
            axis.annotate(text, (x, y), xytext=(dx, dy), **look)
            taken.append(box)
            return


def _legend_mark(animal: str) -> Line2D:
    face = TINTS.get(animal, "white")
    return Line2D([], [], marker=SHAPES.get(animal, "o"), color=TINTS.get(animal, GREY), markerfacecolor=face, **MARK)


PLANE_TITLE = "De-identification (for an attacker who knows original speech only) and voice distinctiveness"
JOIN = ["run_id", "series", "dataset", "subset", "system", "extractor", "trained_on", "backend", "variant"]


def plot_plane(rows: pd.DataFrame, series: list[str]) -> list[Plot]:
    """One figure, a panel a subset, from the result rows ``deid`` and ``g_vd``; none where either is missing."""
    points = _plane_points(rows)
    if not len(points):
        return []
    subsets = list(dict.fromkeys(sorted(points["subset"])))
    extractors = sorted(set(points["extractor"]))
    styles = assign_colours(series)
    finite = points["g_vd"][np.isfinite(points["g_vd"])]
    floor = min(-1.0, float(finite.min()) if len(finite) else -1.0) * 1.15 - 0.3
    ceiling = max(0.6, float(finite.max()) * 1.15 if len(finite) else 0.6)
    columns = min(len(subsets), 3)

    def paint(figure: Figure) -> None:
        axes = make_grid(figure, len(subsets), columns, sharex=True, sharey=True)
        for index, (axis, subset) in enumerate(zip(axes, subsets)):
            for point in points[points["subset"] == subset].to_dict("records"):
                marker = MARKERS[extractors.index(point["extractor"]) % len(MARKERS)]
                _plane_mark(axis, point, styles[point["series"]][0], marker, floor)
            _plane_frame(axis, str(subset), floor, ceiling, index % columns == 0)
            axis.set_xlim(min(0.0, 100 * float(points["deid"].min())) - 3, 103)
        if len(extractors) > 1:
            for index, extractor in enumerate(extractors):
                marker, label = MARKERS[index % len(MARKERS)], shorten_label(extractor)
                axes[0].plot([], [], marker=marker, color=GREY, linestyle="none", label=label)
            figure.legend(loc="outside lower center", ncols=len(extractors))

    svg = draw_svg(min(WIDTH, 1.0 + 4.0 * columns), 0.4 + 3.3 * -(-len(subsets) // columns), paint)
    texts = [
        f"{p['subset']}, {p['extractor']}, {p['series']}: {format_number(100 * p['deid'], 1)} %, "
        f"{'−∞' if math.isinf(p['g_vd']) else format_number(p['g_vd'])} dB"
        for p in points.to_dict("records")
    ]
    alt = f"De-identification for an attacker who knows original speech only, and gain of voice distinctiveness. {'; '.join(texts)}."
    caption = (
        "De-identification (100 %: to an attacker who knows original speech only, protected voices point to no original speaker; one "
        "who has protected speech to compare with may still find everybody) against the gain of voice distinctiveness (0 dB: "
        "protected voices can be told apart as well as the originals). The ring at 100 % and 0 dB is where a system "
        "would hide everybody and keep voices distinct. An arrow marks −∞ dB."
    )
    return [Plot("plane", PLANE_TITLE, caption, alt, svg, points.drop(columns="series"))]


def _plane_points(rows: pd.DataFrame) -> pd.DataFrame:
    values = {
        metric: rows[rows["metric"] == metric][[*JOIN, "value"]].rename(columns={"value": metric})
        for metric in ("deid", "g_vd")
    }
    points: pd.DataFrame = values["deid"].merge(values["g_vd"], on=JOIN, how="inner")
    # Matrices that were made in two ways are two marks.
    told = points["variant"] != ""
    points.loc[told, "extractor"] = points["extractor"] + ", " + points["variant"]
    # −∞ dB is drawn, +∞ cannot occur; a value without a number has its reason in the tables.
    points = points[np.isfinite(points["deid"]) & points["g_vd"].notna() & (points["g_vd"] != math.inf)]
    return points.sort_values(JOIN, kind="stable").reset_index(drop=True)


def _plane_mark(axis: Axes, point: dict[Any, Any], colour: str, marker: str, floor: float) -> None:
    x, y = 100 * float(point["deid"]), float(point["g_vd"])
    name = shorten_label(point["series"])
    if math.isinf(y):
        y = floor + 0.06 * abs(floor)
        axis.annotate("", (x, floor), (x, y), arrowprops={"arrowstyle": "->", "color": colour})
        name += " (−∞)"
    axis.plot([x], [y], marker=marker, color=colour, markersize=7, linestyle="none", gid="plane-point")
    offset, side = (7, "left") if x < 70 else (-7, "right")
    axis.annotate(name, (x, y), xytext=(offset, -3), ha=side, textcoords="offset points", fontsize=7.5)


def _plane_frame(axis: Axes, title: str, floor: float, ceiling: float, leftmost: bool) -> None:
    axis.set_title(shorten_label(title, 40))
    axis.grid(True)
    axis.axhline(0, color=GREY, linewidth=0.7)
    ring: dict[str, Any] = {"marker": "o", "markersize": 11, "markerfacecolor": "none", "markeredgewidth": 0.8}
    axis.plot([100], [0], color=GREY, clip_on=False, **ring)
    axis.set_ylim(floor, ceiling)
    axis.set_xlabel("de-identification for an attacker who\nknows original speech only, DeID (%)")
    if leftmost:
        axis.set_ylabel("gain of voice distinctiveness, G_VD (dB)")
