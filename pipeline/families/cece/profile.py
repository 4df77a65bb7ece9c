"""ECE profiles of two runs of a random system, and of the second under maps trained on the first (Noé 2022, section 5.3)."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipeline.families._figures import perfect_privacy
from pipeline.figures import (
    GREY,
    PALETTE,
    WIDTH,
    Plot,
    describe,
    draw_svg,
    format_number,
    make_grid,
    write_heading,
)

PANEL = ["extractor", "backend", "attacker", "series"]
CURVES = {
    "f0": ("f0, oracle", GREY, (0, (5, 1.5))),
    "f1": ("f1, oracle", PALETTE[0], "-"),
    "linear": ("f1, linear from f0", PALETTE[1], (0, (7, 1.5, 1.5, 1.5))),
    "isotonic": ("f1, isotonic from f0", PALETTE[2], (0, (4, 1, 1, 1, 1, 1))),
}
TOP = 1.5
"""Bits at which the vertical axis ends at the latest: a map that misleads has no upper limit."""


def plots(table: pd.DataFrame, series: list[str]) -> list[Plot]:
    """One figure a subset; a panel for each extractor, back end, attacker and random system."""
    return [_plot(str(subset), part, series) for subset, part in table.groupby("subset", sort=True)]


def _plot(subset: str, table: pd.DataFrame, series: list[str]) -> Plot:
    place = {name: index for index, name in enumerate(series)}
    panels = table[PANEL].drop_duplicates().assign(place=lambda t: t["series"].map(place))
    panels = panels.sort_values(["extractor", "backend", "attacker", "place"])
    varying = {name for name in PANEL if table[name].nunique() > 1} | {"series", "attacker"}
    columns = min(len(panels), 3)
    parts: list[tuple[str, pd.DataFrame]] = []
    for panel in panels.to_dict("records"):
        here = table[(table[PANEL] == pd.Series({name: panel[name] for name in PANEL})).all(axis=1)]
        title = " · ".join(str(panel[name]) for name in PANEL if name in varying and panel[name])
        parts.append((title, here))
    finite = table["ece"][np.isfinite(table["ece"])]
    top = min(TOP, 1.05 * max(1.0, float(finite.max()) if len(finite) else 1.0))

    def paint(figure: Figure) -> None:
        axes = make_grid(figure, len(parts), columns, sharex=True, sharey=True)
        for index, (axis, (title, here)) in enumerate(zip(axes, parts)):
            _panel(axis, here, index % columns == 0, top)
            axis.set_title(write_heading(title.split(" · "), 46))

    svg = draw_svg(min(WIDTH, 1.2 + 4.6 * columns), 0.3 + 4.1 * -(-len(parts) // columns), paint)
    texts = [
        f"{title}: " + ", ".join(f"{CURVES[name][0]} {_numbers(curve)}" for name, curve in _curves(here) if len(curve))
        for title, here in parts
    ]
    alt = (
        f"Empirical cross-entropy over the log-odds of the target prior for two runs of a random system, {describe(subset=subset)}. "
        f"In brackets disclosure and cost in bits: {'; '.join(texts)}."
    )
    caption = (
        "Two runs f0 and f1 of a random system that differ in its seed alone. The attacker learns a linear or isotonic map from "
        "scores to likelihood ratios on f0 and uses it on f1; the closer its curve to the dotted one (perfect privacy), the "
        "less it gains, and above the dotted curve it misleads. In brackets [C_ECE; Cllr] in bits. For comparison f0 and f1 "
        "after their own oracle calibration (PAV), the best that any map could do, with [D_ECE; Cllr_min]: raw scores are no "
        "likelihood ratios, so their own profile would say nothing. Horizontal axis: natural log-odds of the target prior."
    )
    data = pd.concat([here.assign(panel=title) for title, here in parts], ignore_index=True)
    return Plot("cece", f"Calibrated on another run: {subset}", caption, alt, svg, data)


def _curves(here: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    return [(name, here[here["profile"] == name].sort_values("log_odds")) for name in CURVES]


def _numbers(curve: pd.DataFrame) -> str:
    values = [curve[name].iloc[0] for name in ("d_ece", "cllr")]
    texts = [("∞" if value > 0 else "−∞") if math.isinf(value) else format_number(value, 3) for value in values]
    return f"[{'; '.join(texts)}]"


def _panel(axis: Axes, here: pd.DataFrame, leftmost: bool, top: float) -> None:
    axis.grid(True)
    for name, curve in _curves(here):
        text, colour, dash = CURVES[name]
        shown = f"{text} {_numbers(curve)}" if len(curve) else f"{text}: no value"
        ece = curve["ece"].where(np.isfinite(curve["ece"].astype(float)))
        axis.plot(curve["log_odds"], ece, color=colour, linestyle=dash, label=shown, gid=f"cece-{name}")
    prior = here[here["profile"] == here["profile"].iloc[0]].sort_values("log_odds")
    perfect_privacy(axis, prior, "cece", leftmost)
    axis.tick_params(labelbottom=True)
    axis.set_ylim(0, top)
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=1, fontsize=7.5, handlelength=3.2)
