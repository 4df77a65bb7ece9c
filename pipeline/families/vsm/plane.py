"""The plane of de-identification and gain of voice distinctiveness: privacy to the right, distinct voices upwards."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipeline.figures import (
    GREY,
    MARKERS,
    WIDTH,
    Plot,
    assign_colours,
    draw_svg,
    format_number,
    make_grid,
    shorten_label,
)

TITLE = "De-identification (for an attacker who knows original speech only) and voice distinctiveness"
JOIN = ["run_id", "series", "dataset", "subset", "system", "extractor", "trained_on", "backend", "variant"]


def plots(rows: pd.DataFrame, series: list[str]) -> list[Plot]:
    """One figure, a panel a subset, from the result rows ``deid`` and ``g_vd``; none where either is missing."""
    points = _points(rows)
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
                _mark(axis, point, styles[point["series"]][0], marker, floor)
            _frame(axis, str(subset), floor, ceiling, index % columns == 0)
            axis.set_xlim(min(0.0, 100 * float(points["deid"].min())) - 3, 103)
        if len(extractors) > 1:
            for index, extractor in enumerate(extractors):
                axes[0].plot(
                    [],
                    [],
                    marker=MARKERS[index % len(MARKERS)],
                    color=GREY,
                    linestyle="none",
                    label=shorten_label(extractor),
                )
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
    return [Plot("plane", TITLE, caption, alt, svg, points.drop(columns="series"))]


def _points(rows: pd.DataFrame) -> pd.DataFrame:
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


def _mark(axis: Axes, point: dict[Any, Any], colour: str, marker: str, floor: float) -> None:
    x, y = 100 * float(point["deid"]), float(point["g_vd"])
    name = shorten_label(point["series"])
    if math.isinf(y):
        y = floor + 0.06 * abs(floor)
        axis.annotate("", (x, floor), (x, y), arrowprops={"arrowstyle": "->", "color": colour})
        name += " (−∞)"
    axis.plot([x], [y], marker=marker, color=colour, markersize=7, linestyle="none", gid="plane-point")
    right = x < 70
    axis.annotate(
        name,
        (x, y),
        xytext=(7 if right else -7, -3),
        ha="left" if right else "right",
        textcoords="offset points",
        fontsize=7.5,
    )


def _frame(axis: Axes, title: str, floor: float, ceiling: float, leftmost: bool) -> None:
    axis.set_title(shorten_label(title, 40))
    axis.grid(True)
    axis.axhline(0, color=GREY, linewidth=0.7)
    axis.plot(
        [100], [0], marker="o", markersize=11, markerfacecolor="none", color=GREY, markeredgewidth=0.8, clip_on=False
    )
    axis.set_ylim(floor, ceiling)
    axis.set_xlabel("de-identification for an attacker who\nknows original speech only, DeID (%)")
    if leftmost:
        axis.set_ylabel("gain of voice distinctiveness, G_VD (dB)")
