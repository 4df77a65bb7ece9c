"""SRD rank histograms: where the true speaker stands among all references, on an axis that also reads in bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from pipeline.figures import (
    GREY,
    INK,
    WIDTH,
    Plot,
    Styles,
    assign_colours,
    describe,
    draw_svg,
    format_number,
    make_grid,
    shorten_label,
)

PERCENT = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)


def plots(table: pd.DataFrame, series: list[str]) -> list[Plot]:
    """One figure for each subset and unit of input; one panel a system and condition, features overlaid."""
    return [
        _plot(*map(str, key), table=part, series=series) for key, part in table.groupby(["subset", "unit"], sort=True)
    ]


def _plot(subset: str, unit: str, *, table: pd.DataFrame, series: list[str]) -> Plot:
    place = {name: index for index, name in enumerate(series)}
    pairs = sorted({*zip(table["series"], table["condition"])}, key=lambda pair: (pair[1], place[pair[0]]))
    extractors = sorted(set(map(str, table["extractor"])))
    styles = assign_colours(extractors)
    shares = table["share"].to_numpy(dtype=float)
    low = min(shares[shares > 0].min() if (shares > 0).any() else 0.01, 1 / table["n_references"].max()) / 1.6
    columns = min(len(pairs), 3)
    rows = -(-len(pairs) // columns)

    def paint(figure: Figure) -> None:
        axes = make_grid(figure, len(pairs), columns, sharey=True)
        for index, (axis, (name, condition)) in enumerate(zip(axes, pairs)):
            part = table[(table["series"] == name) & (table["condition"] == condition)]
            _panel(axis, part, extractors, styles, low, str(index))
            axis.set_title(shorten_label(f"{name} ({condition})", 40))
            if index % columns == 0:
                axis.set_ylabel("share of inputs (%)")
            _bits(axis, int(part["n_references"].iloc[0]), index % columns == columns - 1 or index == len(pairs) - 1)
        handles = {name: handle for axis in axes for handle, name in zip(*axis.get_legend_handles_labels())}
        # In two rows a fit stands below its histogram.
        columns_of_names = len(handles) if len(handles) <= 6 else -(-len(handles) // 2)
        figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=columns_of_names)

    svg = draw_svg(min(WIDTH, 1.4 + 4.0 * columns), 0.6 + 2.6 * rows, paint)
    texts = [
        f"{name} ({condition}): " + ", ".join(_first(table, name, condition, extractors)) for name, condition in pairs
    ]
    counts = sorted({int(table["n_references"].min()), int(table["n_references"].max())})
    alt = (
        f"Rank histograms of the true speaker among {' to '.join(map(str, counts))} references, "
        f"{describe(subset=subset, input_unit=unit)}. Share at rank 1 and the rank with the largest share: {'; '.join(texts)}."
    )
    caption = (
        "How often the true speaker is found at each similarity rank (1 = most similar), per feature; outline: histogram, "
        "dashed: beta-binomial fit, dotted: chance, 1/N. The vertical axis is logarithmic, so that the right-hand scale reads "
        "the same heights as bits disclosed, log2(N·share): above chance a rank tells something about the speaker. Ranks that "
        "never occur fall to the floor of the panel."
    )
    return Plot(
        "ranks",
        f"Similarity ranks: {subset}" + (f", one {unit} an input" if unit else ""),
        caption,
        alt,
        svg,
        table.drop(columns="series").reset_index(drop=True),
    )


def _panel(axis: Axes, table: pd.DataFrame, extractors: list[str], styles: Styles, low: float, key: str) -> None:
    references = int(table["n_references"].max())
    axis.set_yscale("log")
    for extractor in extractors:
        part = table[table["extractor"] == extractor].sort_values("rank")
        if not len(part):
            continue
        colour = styles[extractor][0]
        edges = np.append(part["rank"].to_numpy(dtype=float) - 0.5, float(part["rank"].max()) + 0.5)
        heights = np.maximum(part["share"].to_numpy(dtype=float), low)
        axis.stairs(heights, edges, baseline=low, fill=True, color=colour, alpha=0.16, linewidth=0)
        name = shorten_label(extractor)
        axis.stairs(
            heights, edges, baseline=low, color=colour, linewidth=1.2, label=name, gid=f"ranks-{key}-{extractor}"
        )
        fit = part[np.isfinite(part["fit"].to_numpy(dtype=float))]
        if len(fit):
            look: dict[str, Any] = {"color": colour, "linestyle": (0, (4, 1.5)), "linewidth": 1.4}
            name = shorten_label(f"{extractor}, fit")
            axis.plot(fit["rank"], np.maximum(fit["fit"], low), label=name, gid=f"fit-{key}-{extractor}", **look)
    dots: dict[str, Any] = {"color": INK, "linestyle": (0, (1, 1.6)), "linewidth": 1.1}
    axis.axhline(1 / references, label="chance, 1/N", gid=f"chance-{key}", **dots)
    axis.set_xlim(0.4, references + 0.6)
    step = max(1, int(np.ceil(references / 8 / 5) * 5)) if references > 10 else 1
    axis.xaxis.set_major_locator(FixedLocator([1, *range(step if step > 1 else 2, references + 1, step)]))
    axis.set_ylim(low, 1)
    axis.yaxis.set_major_locator(FixedLocator([p / 100 for p in PERCENT if low <= p / 100]))
    axis.yaxis.set_minor_locator(NullLocator())
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g}"))
    axis.grid(True, axis="y")
    axis.set_xlabel(f"rank of the true speaker among {references}")


def _bits(axis: Axes, references: int, labelled: bool) -> None:
    functions = (lambda share: share * references, lambda ratio: ratio / references)
    right = axis.secondary_yaxis("right", functions=functions)
    low, high = axis.get_ylim()
    bits = range(int(np.ceil(np.log2(low * references))), int(np.floor(np.log2(high * references))) + 1)
    right.yaxis.set_major_locator(FixedLocator([2.0**bit for bit in bits]))
    right.yaxis.set_minor_locator(NullLocator())
    right.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{round(np.log2(value)):d}".replace("-", "−")))
    right.tick_params(length=2, color=GREY, labelcolor=GREY, labelsize=6.5)
    right.spines["right"].set_visible(False)
    if labelled:
        right.set_ylabel("bits disclosed", color=GREY)


def _first(table: pd.DataFrame, name: str, condition: str, extractors: list[str]) -> list[str]:
    texts = []
    for extractor in extractors:
        part = table[(table["series"] == name) & (table["condition"] == condition) & (table["extractor"] == extractor)]
        if len(part):
            top = part.iloc[int(part["share"].to_numpy(dtype=float).argmax())]
            first = float(part["share"][part["rank"] == 1].sum())
            texts.append(
                f"{extractor} {format_number(100 * first, 1)} % at rank 1, most ({100 * top['share']:.1f} %) "
                f"at rank {int(top['rank'])}"
            )
    return texts
