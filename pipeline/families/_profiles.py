"""What plots of ECE profiles share."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes

from pipeline.figures import INK


def perfect_privacy(axis: Axes, prior: pd.DataFrame, kind: str, leftmost: bool) -> None:
    """The dotted curve of perfect privacy on an ECE plot, and its axes: ``prior`` has columns log_odds and prior, in order."""
    axis.plot(
        prior["log_odds"],
        prior["prior"],
        color=INK,
        linestyle=(0, (1, 1.6)),
        linewidth=1.3,
        label="perfect privacy",
        gid=f"{kind}-prior",
        zorder=5,
    )
    axis.set_xlabel("natural log-odds of the target prior")
    if leftmost:
        axis.set_ylabel("empirical cross-entropy (bit)")
    axis.set_xlim(prior["log_odds"].min(), prior["log_odds"].max())
