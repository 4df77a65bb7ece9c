"""Averages over sets: weighted means of measured rows, as rows of their own with an interval."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pipeline.datasets.prepare import Prepared
from pipeline.metrics import mover
from pipeline.products.averages.plan import has_sets
from pipeline.seeds import digest
from pipeline.stages.settings import Average
from pipeline.tables import results
from pipeline.tables.results import make_signature

Row = dict[str, Any]
OTHERS = [name for name in results.IDENTITY if name != "subset"]
VARIANT = ("variant", "estimator", "input_unit")
STATUSES = ("ok", "partial", "incomplete")
"""From the best to the worst: a mean is as good as its worst part."""
SUMMED = tuple(name for name in results.COUNTS if name != "n_speakers")


def formed(rows: Iterable[Row], averages: Mapping[str, Average], data: Prepared) -> list[Row]:
    """The rows of all averages whose sets the data have, one wherever a part has a row.

    Args:
        rows: the rows of the parts, as the results have them.
        averages: what is asked for.
        data: whose trial sets they are; it tells which have speakers in common.
    """
    rows = list(rows)
    found = []
    for average in averages.values():
        if not has_sets(average, data.trials):
            continue
        groups = mover.group_by_speakers([speakers(data, name) for name in average.weights])
        parts: dict[tuple[str, ...], dict[str, Row]] = {}
        for row in rows:
            if row["metric"] in average.metrics and row["subset"] in average.weights:
                parts.setdefault(tuple(str(row[name]) for name in OTHERS), {})[row["subset"]] = row
        found += [_mean(average, several, groups) for several in _with_undefined(parts)]
    return found


def _with_undefined(parts: Mapping[tuple[str, ...], dict[str, Row]]) -> list[dict[str, Row]]:
    """The parts of each mean. Where a family cannot be computed on a set, its rows there have no variant: they stand for each."""
    undefined = {
        key: several
        for key, several in parts.items()
        if all(row["status"] == "incomplete" and not _variant(row) for row in several.values())
    }
    found, used = [], set()
    for key, several in parts.items():
        plain = tuple("" if name in VARIANT else value for name, value in zip(OTHERS, key))
        other = undefined.get(plain, {})
        if key in undefined:
            continue
        if not other.keys() & several.keys():
            used.add(plain)
            several = {**several, **other}
        found.append(several)
    return found + [several for key, several in undefined.items() if key not in used]


def _variant(row: Row) -> str:
    return "".join(str(row[name]) for name in VARIANT)


def speakers(data: Prepared, name: str) -> frozenset[str]:
    """The speakers of a trial set, on both sides."""
    if data.score_sets:
        table = next(one.table for one in data.score_sets if one.of.subset == name)
        return frozenset(map(str, (*table["model_speaker"].unique(), *table["speaker"].unique())))
    tried = data.trials[name]
    listed = data.manifest
    spoken = listed[(listed["set"] == name) & listed["utterance"].isin(tried.trials["utterance"])]
    models = tried.enrolment[tried.enrolment["model"].isin(tried.trials["model"])]
    enrolled = listed[(listed["set"] == tried.enrolment_set) & listed["utterance"].isin(models["utterance"])]
    return frozenset(map(str, (*spoken["speaker"], *enrolled["speaker"])))


def _mean(average: Average, parts: Mapping[str, Row], groups: Sequence[Sequence[int]]) -> Row:
    """The row of one average; ``groups`` are the places of the sets with speakers in common."""
    names, weights = list(average.weights), list(average.weights.values())
    rows = [parts.get(name) for name in names]
    there = [row for row in rows if row is not None]
    values = [math.nan if row is None else number(row, "value") for row in rows]
    value = mover.weighted_mean(values, weights)
    lacking = [f"{name}: {_why(row)}" for name, row, one in zip(names, rows, values) if math.isnan(one)]
    if not lacking and math.isnan(value):
        lacking = ["infinities of both signs have no mean"]
    ends, null = None, None
    if not lacking:
        ends = mover.interval(values, [(number(row, "low"), number(row, "high")) for row in there], weights, groups)
        null = mover.band([(number(row, "null_low"), number(row, "null_high")) for row in there], weights, groups)
    first = there[0]
    low, high = ends or (math.nan, math.nan)
    null_low, null_high = null or (math.nan, math.nan)
    status = "incomplete" if len(there) < len(rows) else max((row["status"] for row in there), key=STATUSES.index)
    return {
        **first,
        "subset": average.subset,
        **dict(zip(("value", "low", "high", "null_low", "null_high"), (value, low, high, null_low, null_high))),
        "ceiling": math.nan,
        "label": "",
        **{name: _sum([row[name] for row in there]) for name in SUMMED},
        "n_speakers": _n_speakers(rows, groups),
        "status": status,
        "reason": "; ".join(lacking),
        "note": "; ".join([_said(average, groups), *_notes(names, rows)]),
        "signature": _signature(there, first, weights, names, parts, groups),
        "input_digest": digest([row["input_digest"] for row in there]),
        "model_digest": _common([row["model_digest"] for row in there]),
    }


def number(row: Row, name: str) -> float:
    """A number of a row; NaN where there is none."""
    return math.nan if row[name] is None else float(row[name])


def _why(row: Row | None) -> str:
    """Why a part has no value."""
    return "no row" if row is None else str(row["reason"]) or "no value"


def _said(average: Average, groups: Sequence[Sequence[int]]) -> str:
    """What the reader of an average must know: of what it is the mean, and how its interval was made."""
    names, weights = list(average.weights), list(average.weights.values())
    if max(weights) - min(weights) < 1e-9:
        said = f"plain mean of {', '.join(names)}"
    else:
        said = "weighted mean of " + ", ".join(f"{name} ({weight:g})" for name, weight in average.weights.items())
    shared = [" and ".join(names[place] for place in group) for group in groups if len(group) > 1]
    return said + (f", of which {'; '.join(shared)} have speakers in common" if shared else "")


def _notes(names: Sequence[str], rows: Sequence[Row | None]) -> list[str]:
    """What is to be known of the parts; of some of them, by name."""
    of: dict[str, list[str]] = {}
    for name, row in zip(names, rows):
        if row is not None and row["note"]:
            of.setdefault(str(row["note"]), []).append(name)
    return [note if len(whose) == len(names) else f"{', '.join(whose)}: {note}" for note, whose in of.items()]


def _signature(
    there: Sequence[Row],
    first: Row,
    weights: Sequence[float],
    names: Sequence[str],
    parts: Mapping[str, Row],
    groups: Sequence[Sequence[int]],
) -> str:
    """That of the metric, and those of the parts with their weights."""
    of = {name: weight for name, weight in zip(names, weights) if name in parts}
    said = " + ".join(f"{weight:.9g} × ({parts[name]['signature']})" for name, weight in of.items())
    how = {"groups": [list(group) for group in groups], "code": mover.VERSION}
    return make_signature(
        first, {"mean": f"{said}" if len(there) == len(names) else f"of some: {said}", "interval": how}
    )


def _sum(counts: Sequence[Any]) -> int | None:
    known = [int(one) for one in counts if one is not None]
    return sum(known) if len(known) == len(counts) else None


def _n_speakers(rows: Sequence[Row | None], groups: Sequence[Sequence[int]]) -> int | None:
    """Speakers that stand in several sets count once: of such sets the largest counts."""
    found = 0
    for group in groups:
        counts = [None if row is None else row["n_speakers"] for row in (rows[place] for place in group)]
        known = [int(one) for one in counts if one is not None]
        if not known:
            return None
        found += max(known)
    return found


def _common(digests: Sequence[str]) -> str:
    return digests[0] if len(set(digests)) == 1 else digest(list(digests))
