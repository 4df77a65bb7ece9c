"""How small a leak the strongest attack would have shown: some of the original scores are mixed among those of the protected speech."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pipeline.engine.task import Work
from pipeline.metrics import MetricError
from pipeline.metrics.phantoms import PhantomTrials, align_scores, detection_limit, leak_curve
from pipeline.seeds import generator
from pipeline.tables import scores

VERSION = "limits of detection 1"

STRONGEST, LIMITS, CURVES = "rows.parquet", "limits.parquet", "leak_curves.parquet"
"""What the strongest attack left, and what is written here."""
UNITS = ("utterance", "speaker")
"""What leaks as a whole: columns of the scores."""
DRAWS, FEWEST_DRAWS, TRIALS = 2000, 400, 20_000
"""Draws of a limit: fewer, in proportion, where there are more than so many trials."""


@dataclass(frozen=True)
class Attacked:
    """The attacks on a system, and where original speech was tried alike.

    Attributes:
        subsets: by set or mean, the weights of the sets.
        counterparts: by set and number of an attack on the system, that of the attack on original speech whose scores phantoms have.
        seed: of the draws.
    """

    subsets: Mapping[str, Mapping[str, float]]
    counterparts: Mapping[str, Mapping[int, int]]
    seed: int


def find_limits(attacked: Attacked, work: Work) -> None:
    """Write the limits of detection of a system, a row a subset and kind of unit, and the curves behind them.

    Inputs: ``strongest`` (its strongest attack on each subset, with the null band), ``scores.SET.NUMBER`` of its attacks and
    ``original.SET.NUMBER`` of those on original speech; sets are told by their place.

    ``limits.parquet``: subset, unit, threshold (upper end of the null band), share, d_ece and rise of the limit
    (:class:`pipeline.metrics.phantoms.DetectionLimit`), units, draws, reason. ``leak_curves.parquet``: subset, unit, share, d_ece, power, threshold.
    """
    strongest = pd.read_parquet(work.input("strongest").path(STRONGEST)).set_index("subset")
    limits: list[dict[str, Any]] = []
    curves: list[pd.DataFrame] = []
    for subset, weights in attacked.subsets.items():
        row = dict(strongest.loc[subset])
        for unit in UNITS:
            about = {"subset": subset, "unit": unit, "threshold": row["null_high"]}
            try:
                numbers, curve = _measure(attacked, work, row, weights, unit)
            except MetricError as error:
                limits.append({**about, "reason": str(error)})
                continue
            limits.append({**about, **numbers})
            curves.append(curve.assign(**about))
    columns = ["subset", "unit", "threshold", "share", "d_ece", "rise", "units", "draws", "reason"]
    table = pd.DataFrame(limits, columns=columns).astype(dict.fromkeys(columns[2:6], np.float64))
    table["reason"] = table["reason"].fillna("")
    table.to_parquet(work.folder() / LIMITS, index=False)
    shown = ["subset", "unit", "share", "d_ece", "power", "threshold"]
    curve = pd.concat(curves) if curves else pd.DataFrame(columns=shown)
    curve[shown].to_parquet(work.folder() / CURVES, index=False)


def _measure(
    attacked: Attacked, work: Work, row: Mapping[str, Any], weights: Mapping[str, float], unit: str
) -> tuple[dict[str, Any], pd.DataFrame]:
    """The limit and the curve of one subset.

    Raises:
        MetricError: there is no null band, or original speech was not tried on the same trials.
    """
    if row["reason"] or pd.isna(row["null_high"]):
        raise MetricError(row["reason"] or row["null_reason"] or "there is no null band")
    tables = list(_read_phantoms(attacked, work, row, weights))
    names = pd.Index(sorted(set().union(*(table[unit] for table in tables))))
    parts = [
        PhantomTrials(
            table["score"].to_numpy(np.float64),
            table["original"].to_numpy(np.float64),
            table["target"].to_numpy(bool),
            names.get_indexer(table[unit]),
        )
        for table in tables
    ]
    threshold, mean = float(row["null_high"]), list(weights.values())
    draws = int(np.clip(DRAWS * TRIALS / sum(map(len, tables)), FEWEST_DRAWS, DRAWS))
    random = generator(attacked.seed, "phantoms", unit, *names)
    limit = detection_limit(parts, threshold, generator=random, weights=mean, draws=draws)
    curve = leak_curve(parts, threshold, generator=random, weights=mean)
    numbers = {name: getattr(limit, name) for name in ("share", "d_ece", "rise", "units", "draws", "reason")}
    return numbers, pd.DataFrame({"share": curve.shares, "d_ece": curve.d_ece, "power": curve.power})


def _read_phantoms(
    attacked: Attacked, work: Work, row: Mapping[str, Any], weights: Mapping[str, float]
) -> Iterator[pd.DataFrame]:
    """The trials of the strongest attack on each set, each with its ``score`` and, on the same scale, its ``original`` score."""
    places = {name: place for place, name in enumerate(attacked.counterparts)}
    for name, number in zip(weights, map(int, str(row["attack"]).split()), strict=True):
        place, counterpart = places[name], attacked.counterparts[name].get(number)
        if counterpart is None:
            raise MetricError(f"original speech was not attacked on {name}")
        protected, original = (
            pd.read_parquet(work.input(f"{kind}.{place}.{attack}").path(scores.TRIALS))
            for kind, attack in (("scores", number), ("original", counterpart))
        )
        ids = ["model", "utterance"]
        both = protected.merge(original[[*ids, "score"]].rename(columns={"score": "original"}), on=ids, validate="1:1")
        if len(both) < len(protected):
            raise MetricError(f"original speech was tried on {len(both)} of {len(protected)} trials of {name}")
        both["original"] = align_scores(both["original"], both["target"], both["score"])
        yield both
