"""A metric family with its words and its figure: how far the mean target score lies above the mean non-target score."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import pandas as pd

from pipeline.contracts import (
    ComponentSettings,
    FigureTable,
    Measured,
    Metric,
    MetricFamily,
    Plot,
    Row,
    Trials,
    numeric,
)


class Settings(ComponentSettings):
    """There is nothing to set."""

    name: Literal["gap"] = numeric("gap")


class Gap(MetricFamily):
    """The mean gap."""

    Settings = Settings
    reads = "trials"
    title = "Gap of means"
    metrics: ClassVar = {
        "mean_gap": Metric(
            symbol="G_mean",
            title="gap of means",
            sentence="How far the mean target score lies above the mean non-target score, in units of the score.",
            direction="lower",
            source="made up for a test",
        )
    }
    figures = (FigureTable("gap_means", ("kind", "mean"), "Gap of means", "voice_privacy_toys.gap:plots"),)

    @classmethod
    def measure(cls, settings: Any, data: Trials) -> Measured:
        target, other = data.scores[data.target].mean(), data.scores[~data.target].mean()
        row = Row("mean_gap", float(target - other), n_expected=data.n_expected, n_used=len(data.scores))
        return Measured([row], {"gap_means": pd.DataFrame({"kind": ["target", "non-target"], "mean": [target, other]})})


def plots(table: pd.DataFrame, series: list[str]) -> list[Plot]:
    """One bar a system and kind."""
    from pipeline.figures import draw_svg

    def paint(figure: Any) -> None:
        axis = figure.subplots()
        axis.bar([f"{name} {kind}" for name, kind in zip(table["series"], table["kind"])], table["mean"])

    return [Plot("gap", "Gap: means", "Means of the scores.", "Means of the scores.", draw_svg(6, 3, paint), table)]
