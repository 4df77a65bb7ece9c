"""What all families share: metrics that are fields of result types, rows, and matrices as tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from pipeline.contracts import Metric, Row
from pipeline.metrics import SimilarityMatrix, describe

NONE = (float("nan"), float("nan"))
PAIRS = ("subset", "system", "extractor", "backend")
"""The identity of a figure table of all pairs of utterances: nobody enrols, so there is no attacker; an extractor that was adapted to a
system is another one by its name."""


def field_of(
    kind: type,
    field: str,
    symbol: str,
    title: str,
    sentence: str,
    source: str = "",
    *,
    summary: bool = True,
    caution: str = "",
) -> Metric:
    """A metric that is a field of a result type of the core: its unit, direction and bounds stand there, and there alone.

    Args:
        kind: the result type.
        field: of it.
        symbol, title, sentence, source, summary, caution: as of :class:`Metric`.
    """
    said = describe(kind)[field]
    unit = "tag" if said["unit"] == "label" else said["unit"]
    return Metric(symbol, title, sentence, unit, said["private"], said["bounds"], source, summary, caution)


def row(
    metric: str,
    value: float | None = None,
    *,
    interval: tuple[float, float] | None = None,
    band: tuple[float, float] | None = None,
    counts: Mapping[str, int] | None = None,
    **more: Any,
) -> Row:
    """A row of a metric.

    Args:
        metric: its name.
        value: None is none, and needs a reason or a label.
        interval, band: [low, high] of the interval and of the null band, where there are any.
        counts: ``n_expected``, ``n_used``, ``n_speakers``, ``n_target``, ``n_nontarget``.
        more: other fields of :class:`Row`.
    """
    (low, high), (null_low, null_high) = interval or NONE, band or NONE
    number = float("nan") if value is None else float(value)
    said: dict[str, Any] = {**(counts or {}), **more}
    return Row(metric, number, low=low, high=high, null_low=null_low, null_high=null_high, **said)


def matrix_table(parts: Mapping[str, SimilarityMatrix], names: np.ndarray) -> pd.DataFrame:
    """Similarity matrices by block (OO, PP, P0P1, ...) as a table for figures; ``names`` are the speakers [n]."""
    n = len(names)
    return pd.concat(
        [
            pd.DataFrame(
                {
                    "block": block,
                    "row_speaker": np.repeat(names, n),
                    "column_speaker": np.tile(names, n),
                    "similarity": part.matrix.ravel(),
                }
            )
            for block, part in parts.items()
        ],
        ignore_index=True,
    )
