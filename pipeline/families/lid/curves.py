"""Figures of the disclosure of one among N: how much single trials disclose, and linkability by population."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipeline.families._figures import draw_legend
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

MEASURES = {
    "alid": ("ALID (bit)", "bit", 1.0),
    "idr": ("speaker stands first (%)", "%", 100.0),
    "eer": ("EER (%)", "%", 100.0),
}
"""Label of the axis, unit and factor of what stands against the number of pooled utterances."""
PANEL = ["extractor", "backend", "attacker"]
SHADE: dict[str, Any] = {"alpha": 0.15, "linewidth": 0}


def disclosures(table: pd.DataFrame, series: list[str]) -> list[Plot]:
    """One figure a subset; panels for each attacker, extractor and back end, a curve a system and condition."""
    return [_disclosures(str(subset), part, series) for subset, part in table.groupby("subset", sort=True)]


def populations(table: pd.DataFrame, series: list[str]) -> list[Plot]:
    """One figure a subset, as of :func:`disclosures`."""
    return [_populations(str(subset), part, series) for subset, part in table.groupby("subset", sort=True)]


def lengths(table: pd.DataFrame, series: list[str]) -> list[Plot]:
    """One figure a subset; a row of panels for each attacker, extractor and back end: ALID, IdR and EER."""
    return [_lengths(str(subset), part, series) for subset, part in table.groupby("subset", sort=True)]


def _disclosures(subset: str, table: pd.DataFrame, series: list[str]) -> Plot:
    styles = assign_colours(series)

    def curve(axis: Axes, name: str, part: pd.DataFrame) -> str:
        part = part.sort_values("bit")
        colour, dash, _ = styles.get(str(part["series"].iloc[0]), (GREY, "-", "o"))
        look: dict[str, Any] = {"color": colour, "linestyle": dash, "label": shorten_label(name), "gid": f"lid-{name}"}
        axis.step(part["bit"], part["share"], where="pre", **look)
        axis.plot(part["bit"], part["chance"], color=colour, linestyle=":", linewidth=1.0, gid=f"chance-{name}")
        axis.axvline(float(part["ceiling"].iloc[0]), color=colour, linewidth=0.6, alpha=0.6)
        positive = part["share"][part["bit"] > 0].max()
        return f"{name} {format_number(100 * (0.0 if np.isnan(positive) else positive), 1)} % above 0 bit"

    def frame(axis: Axes, leftmost: bool) -> None:
        axis.axvline(0, color=INK, linewidth=0.8)
        axis.set_xlabel("disclosure of a trial utterance (bit)")
        axis.set_ylim(0, 1)
        if leftmost:
            axis.set_ylabel("share of trials with at least so much")

    svg, texts, drawn = _panels(table, series, curve, frame)
    return Plot(
        "lid",
        f"Local information disclosure: {subset}",
        "The share of trial utterances that disclose at least so many bits about who of the N candidates speaks. Dotted: the "
        "same where any candidate may be the speaker (chance, at the same slope). Thin vertical lines: the ceiling that "
        "slope and number of candidates set.",
        f"Share of trial utterances by local information disclosure, {describe(subset=subset)}: {'; '.join(texts)}.",
        svg,
        drawn,
    )


def _populations(subset: str, table: pd.DataFrame, series: list[str]) -> Plot:
    styles = assign_colours(series)

    def curve(axis: Axes, name: str, part: pd.DataFrame) -> str:
        part = part.sort_values("population")
        colour, dash, _ = styles.get(str(part["series"].iloc[0]), (GREY, "-", "o"))
        look: dict[str, Any] = {"color": colour, "linestyle": dash, "label": shorten_label(name)}
        axis.plot(part["population"], part["value"], gid=f"population-{name}", **look)
        bounded = part[np.isfinite(part["low"].to_numpy(dtype=float))]
        axis.fill_between(bounded["population"], bounded["low"], bounded["high"], color=colour, **SHADE)
        last = part.iloc[-1]
        return f"{name} {format_number(100 * float(last['value']), 1)} % among {int(last['population'])}"

    def frame(axis: Axes, leftmost: bool) -> None:
        longest = int(table["population"].max())
        n = np.arange(1, longest + 1)
        axis.plot(n, 1 / n, color=INK, linestyle=(0, (1, 1.6)), linewidth=1.3, label="chance, 1/N'", gid="chance")
        axis.set_xlabel("candidates N'")
        axis.set_xlim(1, longest)
        axis.set_ylim(0, 1)
        if leftmost:
            axis.set_ylabel("speaker stands first")

    svg, texts, drawn = _panels(table, series, curve, frame)
    return Plot(
        "population",
        f"Linkability by population: {subset}",
        "How often the speaker of a trial utterance stands first among N' enrolled speakers, who are drawn at random from all: exact "
        "means over all draws, speakers weighing alike. Shaded: 95 % interval over speakers; dotted: chance, 1/N'.",
        f"Linkability by number of candidates, {describe(subset=subset)}: {'; '.join(texts)}.",
        svg,
        drawn,
    )


def _lengths(subset: str, table: pd.DataFrame, series: list[str]) -> Plot:
    styles = assign_colours(series)
    panels = table[PANEL].drop_duplicates().sort_values(PANEL)
    texts: list[str] = []

    def paint(figure: Figure) -> None:
        axes = iter(make_grid(figure, 3 * len(panels), 3, sharex=True))
        for panel in panels.itertuples(index=False):
            here = table[(table[PANEL] == list(panel)).all(axis=1)]
            title = [str(name) for name in panel if name]
            for measure, (name, unit, factor) in MEASURES.items():
                axis, part = next(axes), here[here["measure"] == measure]
                axis.grid(True)
                axis.set_title(write_heading(title))
                axis.set_ylabel(name)
                axis.set_xlabel("utterances that are pooled")
                axis.axhline(factor * float(part["chance"].iloc[0]), color=INK, linestyle=(0, (1, 1.6)), linewidth=1.1)
                changes = _by_length(axis, part, series, styles, factor, measure)
                texts.append(f"{' · '.join(title)}, {measure}: " + ", ".join(f"{change} {unit}" for change in changes))
        draw_legend(figure, figure.axes, 4)

    svg = draw_svg(WIDTH, 0.6 + 2.7 * len(panels), paint)
    panel = f"{table['speakers'].min()}" if table["speakers"].nunique() == 1 else "the same"
    return Plot(
        "lengths",
        f"Longer conversations: {subset}",
        "What an attacker gains from several trial utterances of one speaker, whose scores are added: mean over choices of "
        f"utterances, then over speakers; {panel} speakers stand at each number, those with enough utterances for the largest. "
        "Shaded: 95 % interval over speakers; dotted: chance (of ALID, 0: it may lie below).",
        f"ALID, identification rate and EER by number of pooled utterances, {describe(subset=subset)}. From one to most "
        f"utterances: {'; '.join(texts)}.",
        svg,
        table.drop(columns="series").reset_index(drop=True),
    )


def _by_length(
    axis: Axes, table: pd.DataFrame, series: list[str], styles: Styles, factor: float, measure: str
) -> list[str]:
    """Draw one measure of all systems; its first and last values as texts."""
    changes = []
    for name in series:
        for condition, part in table[table["series"] == name].groupby("condition", sort=True):
            part = part[np.isfinite(part["value"].to_numpy(dtype=float))].sort_values("length")
            if not len(part):
                continue
            colour, dash, _ = styles.get(name, (GREY, "-", "o"))
            title = f"{name} ({condition})"
            look: dict[str, Any] = {"color": colour, "linestyle": dash, "marker": "o", "markersize": 3}
            values, gid = factor * part["value"], f"{measure}-{title}"
            axis.plot(part["length"], values, label=shorten_label(title), gid=gid, **look)
            bounded = part[np.isfinite(part["low"].to_numpy(dtype=float))]
            low, high = factor * bounded["low"], factor * bounded["high"]
            axis.fill_between(bounded["length"], low, high, color=colour, **SHADE)
            first, last = (format_number(factor * float(part["value"].iloc[k])) for k in (0, -1))
            changes.append(f"{title} {first} to {last}")
    return changes


def _panels(
    table: pd.DataFrame,
    series: list[str],
    curve: Callable[[Axes, str, pd.DataFrame], str],
    frame: Callable[[Axes, bool], None],
) -> tuple[str, list[str], pd.DataFrame]:
    panels = table[PANEL].drop_duplicates().sort_values(PANEL)
    columns = min(len(panels), 3)
    texts: list[str] = []
    drawn: list[pd.DataFrame] = []

    def paint(figure: Figure) -> None:
        axes = make_grid(figure, len(panels), columns, sharex=True, sharey=True)
        for index, (axis, panel) in enumerate(zip(axes, panels.itertuples(index=False))):
            here = table[(table[PANEL] == list(panel)).all(axis=1)]
            axis.grid(True)
            notes = []
            for name in series:
                for condition, part in here[here["series"] == name].groupby("condition", sort=True):
                    notes.append(curve(axis, f"{name} ({condition})", part))
                    drawn.append(part)
            frame(axis, index % columns == 0)
            title = [str(name) for name in panel if name]
            axis.set_title(write_heading(title))
            texts.append(f"{' · '.join(title)}: {', '.join(notes)}")
        draw_legend(figure, axes, 4)

    svg = draw_svg(min(WIDTH, 1.2 + 4.6 * columns), 0.6 + 3.1 * -(-len(panels) // columns), paint)
    return svg, texts, pd.concat(drawn, ignore_index=True).drop(columns="series")
