"""The curve behind each limit of detection: D_ECE against the share of utterances, or of speakers, that passes unprotected."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipeline.figures import DASHES, GREY, PALETTE, WIDTH, Plot, draw_svg, format_number, make_grid

UNITS = {"utterance": "utterances", "speaker": "speakers"}
NOBODY = 2.0**-9
"""Where the logarithmic axis has a share of 0."""


def plots(table: pd.DataFrame, series: list[str]) -> list[Plot]:
    """One figure a subset; a panel where utterances leak, and one where speakers do."""
    return [_plot(str(subset), part, series) for subset, part in table.groupby("subset", sort=True)]


def _plot(subset: str, table: pd.DataFrame, series: list[str]) -> Plot:
    units = [unit for unit in UNITS if (table["unit"] == unit).any()]

    def paint(figure: Figure) -> None:
        for axis, unit in zip(make_grid(figure, len(units), len(units), sharey=True), units):
            _paint_curves(axis, table[table["unit"] == unit], series)
            axis.set_title(f"{UNITS[unit]} that pass unprotected")
        figure.axes[0].set_ylabel("D_ECE (bit), mean over draws")
        handles, names = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=4)

    seen = [
        f"{name}, {UNITS[str(unit)]}: {format_number(curve['d_ece'].iloc[0])} bit as it is, "
        f"{format_number(curve['d_ece'].iloc[-1])} bit without protection, seen above {format_number(curve['threshold'].iloc[0])} bit"
        for (name, unit), curve in table.sort_values("share").groupby(["series", "unit"], sort=False)
    ]
    return Plot(
        kind="leaks",
        title=f"Limit of detection: {subset}",
        svg=draw_svg(min(WIDTH, 5.8 * len(units)), 3.9, paint),
        alt=f"D_ECE against the share that passes unprotected, on {subset}. {'; '.join(seen)}.",
        caption=(
            "What the strongest attack would have disclosed if a share of the utterances, or of the speakers with all they say, had passed "
            "unprotected: their trials get the scores of the original speech. Dashed: the upper end of the null band, above which a leak is seen. "
            "Filled dots: seen in 95 % of draws or more."
        ),
        data=table,
    )


def _paint_curves(axis: Axes, table: pd.DataFrame, series: list[str]) -> None:
    for place, name in enumerate(name for name in series if (table["series"] == name).any()):
        curve = table[table["series"] == name].sort_values("share")
        share, seen = np.maximum(curve["share"], NOBODY), curve["power"] >= 0.95
        colour = PALETTE[place % len(PALETTE)]
        axis.plot(share, curve["d_ece"], color=colour, linestyle=DASHES[place % len(DASHES)], label=name)
        axis.scatter(share[seen], curve["d_ece"][seen], color=colour, s=14, zorder=3)
        axis.axhline(
            curve["threshold"].iloc[0],
            color=GREY if table["series"].nunique() == 1 else colour,
            linewidth=0.8,
            linestyle="--",
        )
    axis.set_xscale("log", base=2)
    ticks = [NOBODY, *(2.0**-k for k in range(8, -1, -2))]
    axis.set_xticks(ticks, ["0", *(f"1/{round(1 / tick)}" if tick < 1 else "all" for tick in ticks[1:])])
    axis.set_ylim(bottom=0)
