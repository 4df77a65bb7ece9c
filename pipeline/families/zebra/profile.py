"""ECE profiles: what remains of the uncertainty about identity after the attack, over the attacker's prior."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipeline.families._figures import draw_legend, perfect_privacy
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
    write_heading,
)

PRIORS = (0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999)


def plots(table: pd.DataFrame, series: list[str]) -> list[Plot]:
    """One figure a subset; panels for each attacker, extractor and back end, with the unprotected profile in each."""
    return [_plot(str(subset), part, series) for subset, part in table.groupby("subset", sort=True)]


def _plot(subset: str, table: pd.DataFrame, series: list[str]) -> Plot:
    protected = table[table["condition"] != "OO"]
    panels = (protected if len(protected) else table)[["extractor", "backend", "attacker"]].drop_duplicates()
    panels = panels.sort_values(["extractor", "backend", "attacker"])
    several_backends = panels["backend"].nunique() > 1
    styles = assign_colours(series)
    drawn: list[pd.DataFrame] = []
    texts: list[str] = []

    columns = min(len(panels), 3)

    def paint(figure: Figure) -> None:
        axes = make_grid(figure, len(panels), columns, sharex=True, sharey=True)
        for index, (axis, panel) in enumerate(zip(axes, panels.itertuples(index=False))):
            here = table[(table["extractor"] == panel.extractor) & (table["backend"] == panel.backend)]
            lines = _lines(here, str(panel.attacker), series)
            names = [str(panel.extractor), str(panel.backend) if several_backends else "", str(panel.attacker)]
            title = " · ".join(filter(None, names))
            _panel(axis, lines, styles, index % columns == 0)
            axis.set_title(write_heading(title.split(" · ")))
            drawn.append(pd.concat(part.assign(panel=title) for _, part in lines))
            at_even_odds = []
            for name, part in lines:
                even = int(np.argmin(np.abs(part["log_odds"].to_numpy())))
                at_even_odds.append(f"{name} {format_number(float(part.iloc[even]['ece']))} bit")
            texts.append(f"{title}: {', '.join(at_even_odds)}")
        draw_legend(figure, axes, 5)

    svg = draw_svg(min(WIDTH, 1.2 + 4.6 * columns), 0.6 + 3.3 * -(-len(panels) // columns), paint)
    alt = (
        f"Empirical cross-entropy over the log-odds of the target prior, {describe(subset=subset)}. Perfect privacy is the "
        f"entropy of the prior, 1 bit at log-odds 0. There the oracle-calibrated profiles read: {'; '.join(texts)}."
    )
    caption = (
        "Uncertainty about identity that remains after the attack (empirical cross-entropy, bits; oracle calibration) over "
        "the attacker's prior. Horizontal axis: natural log-odds of the target prior, ln(π/(1−π)), with π itself above. "
        "The dotted curve is perfect privacy: the closer a system's curve, the less the attack tells. D_ECE is the area "
        "between the two when drawn over π, not over the log-odds."
    )
    return Plot("ece", f"ECE profile: {subset}", caption, alt, svg, pd.concat(drawn, ignore_index=True))


def _lines(table: pd.DataFrame, attacker: str, series: list[str]) -> list[tuple[str, pd.DataFrame]]:
    """(Name, profile) of the curves of a panel: unprotected first (the attacker's own if there is one), then systems."""
    lines = []
    for _, part in table[table["condition"] == "OO"].groupby("run_id", sort=False):
        own = part[part["attacker"] == attacker]
        part = own if len(own) else part
        first = part.drop_duplicates(["system", "attacker"]).iloc[0]
        part = part[(part["system"] == first["system"]) & (part["attacker"] == first["attacker"])]
        run = str(first["series"]).partition(" · ")[2]
        lines.append((f"unprotected (OO){f' · {run}' if run else ''}", part.sort_values("log_odds")))
    others = table[(table["condition"] != "OO") & (table["attacker"] == attacker)]
    shared = others.drop_duplicates(["series", "condition"])["series"].duplicated().any()
    for name in series:
        for condition, part in others[others["series"] == name].groupby("condition", sort=True):
            lines.append((f"{name} ({condition})" if shared else name, part.sort_values("log_odds")))
    return lines


def _panel(axis: Axes, lines: list[tuple[str, pd.DataFrame]], styles: Styles, leftmost: bool) -> None:
    axis.grid(True)
    for name, part in lines:
        colour, dash, _ = styles.get(str(part["series"].iloc[0]), (GREY, "-", "o"))
        if name.startswith("unprotected"):
            colour, dash = INK, "-"
        look: dict[str, Any] = {"color": colour, "linestyle": dash, "linewidth": 1.6}
        axis.plot(part["log_odds"], part["ece"], label=shorten_label(name), gid=f"ece-{name}", **look)
    prior = lines[0][1]
    perfect_privacy(axis, prior, "ece", leftmost)
    low, high = prior["log_odds"].min(), prior["log_odds"].max()
    axis.set_ylim(0, None)
    top = axis.secondary_xaxis("top")
    ticks = [p for p in PRIORS if low <= np.log(p / (1 - p)) <= high]
    top.set_xticks([float(np.log(p / (1 - p))) for p in ticks], [f"{p:g}" for p in ticks])
    top.tick_params(labelsize=6.5, length=2, color=GREY, labelcolor=GREY, pad=1)
    top.spines["top"].set_visible(False)
