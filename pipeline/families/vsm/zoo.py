"""Zoo plots: each speaker's mean evidence from its target and from its impostor comparisons."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pipeline.figures import GREY, INK, PALETTE, WIDTH, Plot, describe, draw_svg, format_number, shorten_label

BLOCKS = ("OO", "OP original side", "OP protected side", "PP")
BLOCK_TITLES = {"OO": "OO", "OP original side": "OP, as original", "OP protected side": "OP, as protected", "PP": "PP"}
SHAPES = {"sheep": "o", "goat": "^", "wolf/lamb": "s", "wolf": "s", "lamb": "s"}
TINTS = {"worm": PALETTE[1], "dove": PALETTE[2], "phantom": PALETTE[3], "chameleon": PALETTE[0]}
BARE = "#56b4e9"
PLAIN = {"", "none", "nan", "None", "-", "<NA>"}
NAMED = {"goat", "wolf/lamb", "wolf", "lamb"}
PANEL = (165.0, 140.0)
"""Width and height of a panel, in points."""

Box = tuple[float, float, float, float]


def plots(table: pd.DataFrame, series: list[str]) -> list[Plot]:
    """One figure for each subset, extractor and back end; a row a system, a column a block of the similarity matrix."""
    return [
        _plot(*map(str, key), table=part, series=series)
        for key, part in table.groupby(["subset", "extractor", "backend"], sort=True)
    ]


def _plot(subset: str, extractor: str, backend: str, *, table: pd.DataFrame, series: list[str]) -> Plot:
    protected = table[table["block"] != "OO"]
    present = set(protected["series"]) or set(table["series"])
    rows = [name for name in series if name in present]
    columns = [block for block in BLOCKS if block in set(table["block"])]
    columns += sorted(set(table["block"]) - set(columns))
    finite = table[np.isfinite(table["x"]) & np.isfinite(table["y"])]
    labels = [*finite["doddington"].map(_plain), *finite["dunstone_yager"].map(_plain)]
    seen = [animal for animal in dict.fromkeys([*SHAPES, *TINTS, *sorted(set(labels))]) if animal and animal in labels]

    x_limits, y_limits = _limits(finite["x"]), _limits(finite["y"])

    def paint(figure: Figure) -> None:
        axes = figure.subplots(len(rows), len(columns), squeeze=False, sharex=True, sharey=True)
        for i, name in enumerate(rows):
            for j, block in enumerate(columns):
                axes[i, j].set(xlim=x_limits, ylim=y_limits)
                _panel(axes[i, j], _points(finite, name, block), f"{i}-{j}")
                axes[i, j].set_title(f"{shorten_label(name, 18)} · {shorten_label(BLOCK_TITLES.get(block, block), 20)}")
                if j == 0:
                    axes[i, j].set_ylabel("mean impostor LLR (nat)")
                if i == len(rows) - 1:
                    axes[i, j].set_xlabel("mean target LLR (nat)")
        if seen:
            figure.legend(
                [_key(animal) for animal in seen],
                [shorten_label(animal) for animal in seen],
                loc="outside lower center",
                ncols=len(seen),
                handletextpad=0.3,
            )

    width = min(WIDTH, 1.0 + 2.75 * len(columns))
    svg = draw_svg(width, 0.5 + 2.6 * len(rows), paint)
    alt = (
        f"Zoo plot, {describe(subset=subset, extractor=extractor, back_end=backend)}: mean target against mean impostor "
        f"log-likelihood ratio of each speaker. {_numbers(finite, rows, columns)}"
    )
    caption = (
        "One mark a speaker: mean log-likelihood ratio (natural, oracle-calibrated) of its own comparisons to the right, of "
        "its comparisons with others upwards. Far right and far down is easy to recognise; at (0, 0) there is no evidence. "
        "Shape: Doddington's animals (goat: hard to recognise as itself; wolf or lamb: close to others). Colour: Dunstone and "
        "Yager's (worm: low target, high impostor; dove: high, low; phantom: both low; chameleon: both high). The animals are "
        "quartiles of this set, so they name somebody in every set of 8 speakers or more, and nobody in smaller ones; the "
        "coordinates are what counts."
    )
    return Plot(
        "zoo", f"Zoo: {subset}, {extractor}", caption, alt, svg, table.drop(columns="series").reset_index(drop=True)
    )


def _points(table: pd.DataFrame, name: str, block: str) -> pd.DataFrame:
    part = table[(table["series"] == name) & (table["block"] == block)]
    if len(part) or block != "OO":
        return part
    runs = table["run_id"][table["series"] == name]
    same = table[(table["block"] == block) & (table["run_id"].isin(set(runs)))]
    return same[same["series"] == same["series"].iloc[0]] if len(same) else same


def _plain(animal: object) -> str:
    text = "" if animal is None else str(animal)
    return "" if text in PLAIN else text


def _limits(values: pd.Series) -> tuple[float, float]:
    """Limits that hold all values and zero, with a margin."""
    low, high = min(0.0, *values), max(0.0, *values)
    margin = 0.08 * (high - low) or 1.0
    return low - margin, high + margin


def _panel(axis: Axes, points: pd.DataFrame, key: str) -> None:
    axis.axhline(0, color=GREY, linewidth=0.6)
    axis.axvline(0, color=GREY, linewidth=0.6)
    axis.grid(True)
    taken: list[Box] = [_around(axis, x, y, 6, 6) for x, y in zip(points["x"], points["y"])]
    for row in points.sort_values("speaker").to_dict("records"):
        first, second = _plain(row["doddington"]), _plain(row["dunstone_yager"])
        # A set too small for quartiles has no animals: its coordinates are all there is, so they are drawn and named plainly.
        bare = not first and not second
        tint = BARE if bare else TINTS.get(second, GREY)
        axis.plot(
            [row["x"]],
            [row["y"]],
            marker=SHAPES.get(first, "o"),
            color=tint,
            markersize=5,
            markerfacecolor=tint if second in TINTS or bare else "white",
            markeredgewidth=0.9,
            linestyle="none",
            gid=f"zoo-{key}",
        )
        if second in TINTS or first in NAMED or bare:
            _name(axis, shorten_label(row["speaker"], 12), row["x"], row["y"], taken)


def _around(axis: Axes, x: float, y: float, width: float, height: float) -> Box:
    """A box around a point, in points of about this panel (its size is settled only when the figure is drawn)."""
    (left, right), (bottom, top) = axis.get_xlim(), axis.get_ylim()
    centre = (x - left) / (right - left) * PANEL[0], (y - bottom) / (top - bottom) * PANEL[1]
    return centre[0] - width / 2, centre[1] - height / 2, centre[0] + width / 2, centre[1] + height / 2


def _name(axis: Axes, text: str, x: float, y: float, taken: list[Box]) -> None:
    """Write a name beside its mark where there is room; a name without room is left to the CSV."""
    width, height = 3.6 * len(text) + 2, 7.0
    left, bottom = _around(axis, x, y, 0, 0)[:2]
    for dx, dy, ha, va in (
        (4, 0, "left", "center"),
        (-4, 0, "right", "center"),
        (0, 4, "center", "bottom"),
        (0, -4, "center", "top"),
    ):
        start = left + dx - (width if ha == "right" else width / 2 if ha == "center" else 0)
        foot = bottom + dy - (height if va == "top" else height / 2 if va == "center" else 0)
        box = (start, foot, start + width, foot + height)
        inside = box[0] >= 0 and box[2] <= PANEL[0] + 6
        if inside and not any(box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for b in taken):
            axis.annotate(
                text, (x, y), xytext=(dx, dy), textcoords="offset points", ha=ha, va=va, fontsize=6, color=INK
            )
            taken.append(box)
            return


def _key(animal: str) -> Line2D:
    tint = TINTS.get(animal)
    return Line2D(
        [],
        [],
        linestyle="none",
        marker=SHAPES.get(animal, "o"),
        color=tint or GREY,
        markerfacecolor=tint or "white",
        markersize=5,
    )


def _numbers(table: pd.DataFrame, rows: list[str], columns: list[str]) -> str:
    texts = []
    for name in rows:
        parts = [(block, _points(table, name, block)) for block in columns]
        means = [
            f"{block} ({format_number(p['x'].mean())}, {format_number(p['y'].mean())})" for block, p in parts if len(p)
        ]
        texts.append(f"{name}: {', '.join(means)}")
    return "Mean over speakers (target, impostor) in nat: " + "; ".join(texts) + "."
