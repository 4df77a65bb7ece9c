"""Rows out of results: units, directions and meanings come from the result types of the metric core."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from pipeline.contracts import Row
from pipeline.metrics import SimilarityMatrix, describe

NONE = (float("nan"), float("nan"))


def row(
    kind: Any,
    field: str,
    value: float | None,
    *,
    metric: str = "",
    variant: str = "",
    interval: tuple[float, float] | None = None,
    reason: str = "",
    label: str = "",
    condition: str = "",
    counts: Mapping[str, int] | None = None,
) -> Row:
    """A row for one field of a result type.

    Args:
        kind: the result type; its field says unit and direction.
        field: name of the field.
        value: None is undefined and needs a reason.
        metric: name of the metric if it is not the field's.
        variant, label, condition: as in the results schema.
        interval: [low, high].
        reason: why there is no value.
        counts: ``n_expected``, ``n_used``, ``n_speakers``, ``n_target``, ``n_nontarget``.
    """
    described = describe(kind)[field]
    private = described["private"]
    low, high = interval or NONE
    return Row(
        metric=metric or field,
        value=float("nan") if value is None else float(value),
        unit="tag" if described["unit"] == "label" else described["unit"],
        direction=f"{private} is more private" if private else "",
        variant=variant,
        label=label,
        low=low,
        high=high,
        reason=reason,
        condition=condition,
        **(counts or {}),
    )


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
