"""What families share: metrics that are fields of result types, rows, counts, intervals and null bands, words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
import pandas as pd

from pipeline.contracts import ComponentSettings, Metric, Row, Trials, numeric
from pipeline.metrics import uncertainty
from pipeline.metrics._base import describe
from pipeline.metrics.trials import Trials as CodedTrials
from pipeline.metrics.vsm import SimilarityMatrix
from pipeline.seeds import generator

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
    """A metric that is a field of a result type of the core: its unit, direction and bounds stand there, and there alone."""
    core = describe(kind)[field]
    unit = "tag" if core["unit"] == "label" else core["unit"]
    return Metric(symbol, title, sentence, unit, core["private"], core["bounds"], source, summary, caution)


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
    fields: dict[str, Any] = {**(counts or {}), **more}
    return Row(metric, number, low=low, high=high, null_low=null_low, null_high=null_high, **fields)


def matrix_table(parts: Mapping[str, SimilarityMatrix], names: np.ndarray) -> pd.DataFrame:
    """Similarity matrices by block (OO, PP, P0P1, ...) as a table for figures; ``names`` are the speakers [n]."""
    sides = {"row_speaker": np.repeat(names, len(names)), "column_speaker": np.tile(names, len(names))}
    tables = [
        pd.DataFrame({"block": block, **sides, "similarity": part.matrix.ravel()}) for block, part in parts.items()
    ]
    return pd.concat(tables, ignore_index=True)


def count_trials(data: Trials) -> dict[str, int]:
    """Counts for the rows."""
    return {
        "n_expected": data.n_expected,
        "n_used": len(data.scores),
        "n_speakers": len(np.unique(data.models)),
        "n_target": int(data.target.sum()),
        "n_nontarget": int((~data.target).sum()),
    }


def code_speakers(data: Trials) -> CodedTrials:
    """The trials with speakers as numbers, as the metric core takes them."""
    _, codes = np.unique(np.concatenate([data.models, data.speakers]), return_inverse=True)
    return CodedTrials(data.scores, codes[: len(data.scores)], codes[len(data.scores) :])


Bounds = dict[str, tuple[float, float]]


class UncertaintySettings(ComponentSettings):
    """Settings of intervals and null bands, over speakers (pipeline/metrics/README.md, section 3).

    Attributes:
        interval: ``jackknife`` (delete one speaker, bias-corrected, t quantiles), ``percentile`` or ``bca`` (bootstraps
            over speakers, which cover too little with few speakers), or ``none``.
        replicates: of bootstraps, and of null bands where there are any (enrolment models or references permuted
            whole); 0 leaves the bands out.
        seed: of the draws.
    """

    interval: Literal["jackknife", "percentile", "bca", "none"] = numeric("jackknife")
    replicates: int = numeric(1000, ge=0)
    seed: int = numeric(0, ge=0)


def intervals(settings: UncertaintySettings, metric: Callable[[], uncertainty.BySpeaker]) -> Bounds:
    """The intervals that exist, by the name of the value; ``metric`` is called where intervals are wanted."""
    if settings.interval == "none":
        return {}
    random = generator(settings.seed, "bootstrap over speakers")
    return _bounds(
        uncertainty.intervals(metric(), method=settings.interval, replicates=settings.replicates, generator=random)
    )


def bands(settings: UncertaintySettings, metric: Callable[[], uncertainty.ByIdentity], purpose: str) -> Bounds:
    """The null bands that exist, by name: what systems that protect everybody show, with as much data.

    Args:
        metric: called where bands are wanted.
        purpose: of the draws, which it seeds.
    """
    if not settings.replicates:
        return {}
    random = generator(settings.seed, purpose)
    return _bounds(uncertainty.null_bands(metric(), generator=random, replicates=settings.replicates))


def _bounds(results: Mapping[str, uncertainty.Interval] | Mapping[str, uncertainty.NullBand]) -> Bounds:
    return {
        name: (result.low, result.high)
        for name, result in results.items()
        if result.low is not None and result.high is not None
    }


TRIALS = "Speaker verification and ZEBRA"
"""Title of the table of what one list of trials gives."""

NOE_2020 = (
    "P.-G. Noé et al., “Speech Pseudonymisation Assessment Using Voice Similarity Matrices”, Interspeech 2020 "
    "(DeID, G_VD)."
)
NOE_2022 = (
    "P.-G. Noé et al., “Towards a unified assessment framework of speech pseudonymisation”, Computer Speech & Language 72, "
    "2022 (all of the above in one framework)."
)
