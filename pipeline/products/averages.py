"""Rows that follow from measured rows: weighted means over trial sets with an interval, and protected speech relative to original speech
(Noe 2022, Eq. 17-20) on trial lists."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from pipeline.datasets.prepare import Prepared
from pipeline.metrics import Undefined, mover
from pipeline.metrics.gains import cllr_min_op_oo, d_ece_op_oo, g_cllr_min, g_d_ece
from pipeline.names import join_few
from pipeline.products import Collection as Collected
from pipeline.products import ProductKind
from pipeline.report import glossary
from pipeline.seeds import digest
from pipeline.stages.settings import Average, Evaluation, has_sets, list_averages
from pipeline.stages.suggestions import families_with
from pipeline.tables import results
from pipeline.tables.answers import TAKEN
from pipeline.tables.results import make_signature

VERSION = "relative measures 1"

Row = dict[str, Any]
COLUMNS = [name for name in results.IDENTITY if name != "subset"]
VARIANT = ("variant", "estimator", "input_unit")
STATUSES = ("ok", "partial", "incomplete")
"""From the best to the worst: a mean is as good as its worst part."""
SUMMED = tuple(name for name in results.COUNTS if name != "n_speakers")
OF_MEANS = (*TAKEN, "alid_chance")
"""Metrics of which the leaderboard has means over sets, whether the results have them or not."""
NORMALISED = {"d_ece_op_oo": "d_ece", "cllr_min_op_oo": "cllr_min", "g_d_ece": "d_ece", "g_cllr_min": "cllr_min"}
"""What ``derived=[normalised]`` forms, and of which metric."""
MEASURED_ON_SETS = ("trials", "pairs", "trial_runs", "pair_runs")
TRIAL_LISTS = "trial_lists"
"""The variant of measures on enrolment and trial lists; those of all pairs of a set have another."""
CONDITIONS = {"d_ece_op_oo": "OP", "cllr_min_op_oo": "OP", "g_d_ece": "PP", "g_cllr_min": "PP"}
EQUATIONS: dict[str, Callable[[float, float], float]] = {
    "d_ece_op_oo": d_ece_op_oo,
    "cllr_min_op_oo": cllr_min_op_oo,
    "g_d_ece": g_d_ece,
    "g_cllr_min": g_cllr_min,
}
SAME = ("dataset", "subset", "extractor", "trained_on", "backend", "calibration", "metric", "variant")
"""What an attack and the unprotected speech that it is held against have in common."""


def list_unformed(evaluation: Evaluation, sets: Collection[str]) -> Iterator[str]:
    """What is asked for beyond measured rows and cannot be formed of this data or these metrics, a sentence each.

    Args:
        sets: names of the trial sets.
    """
    families = [family.component for family in evaluation.metrics.values()]
    measured = {name for family in families if family.reads in MEASURED_ON_SETS for name in family.metrics}
    for name, metric in NORMALISED.items():
        if evaluation.products.derived and metric not in measured:
            yield f"{name} from trial lists is not formed: it needs {metric}, which {families_with(metric)} gives"
        elif evaluation.products.derived:
            measured.add(name)
    for average in evaluation.products.averages.values():
        lacking = [name for name in average.weights if name not in sets]
        without = [name for name in average.metrics if name not in measured]
        if lacking:
            yield f"'{average.subset}' is not formed: there is no trial set {join_few(lacking)} (there is: {join_few(sorted(sets), 8)})"
        elif without:
            yield f"'{average.subset}' is not formed of {', '.join(without)}: no chosen metric measures that on trial sets"


def collect_averages(collected: Collected) -> None:
    """Add the rows that follow from those that were measured, and the means that the leaderboard has beside."""
    # An absent number is None.
    measured = [
        {name: None if pd.isna(value) else value for name, value in row.items()}
        for row in results.records(collected.measured)
    ]
    relative = list(normalise(measured)) if collected.evaluation.products.derived else []
    averages = list_averages(collected.evaluation, collected.data.trials)
    rows = [*relative, *form_averages([*measured, *relative], averages, collected.data)]
    collected.rows = results.frame([*measured, *rows])
    further = {
        label: average.model_copy(update={"metrics": [name for name in OF_MEANS if name not in average.metrics]})
        for label, average in averages.items()
    }
    taken = [row for row in measured if row["metric"] in OF_MEANS]
    collected.means = form_averages(taken, further, collected.data)


def normalise(measured: Sequence[Row]) -> Iterator[Row]:
    """Eq. 17-20 of each attack on protected speech, wherever unprotected speech was tried with the same extractor, as it was
    trained, and the same back end. There is no interval: the rows do not tell how far the two numbers move together."""
    unprotected = {tuple(row[name] for name in SAME): row for row in measured if row["attacker"] == "unprotected"}
    for row in measured:
        original = unprotected.get(tuple(row[name] for name in SAME))
        if original is None or original is row or row["attacker"] in ("", "unprotected"):
            continue
        for name, metric in NORMALISED.items():
            if (row["metric"], row["condition"]) == (metric, CONDITIONS[name]):
                yield _relative(name, original, row)


def _relative(name: str, original: Row, attacked: Row) -> Row:
    metric = glossary.metric(name)
    values = [_number(row, "value") for row in (original, attacked)]
    value, reason = math.nan, ""
    if any(map(math.isnan, values)):
        reason = "; ".join(dict.fromkeys(row["reason"] for row in (original, attacked) if row["reason"])) or "no value"
    else:
        try:
            value = EQUATIONS[name](*values)
        except Undefined as undefined:
            reason = str(undefined)
    about = {**attacked, "metric": name, "variant": ", ".join(filter(None, [TRIAL_LISTS, attacked["variant"]]))}
    return {
        **about,
        **dict.fromkeys(results.NUMBERS, math.nan),
        "value": value,
        "label": "",
        "unit": metric.unit,
        "direction": metric.private,
        "status": max((row["status"] for row in (original, attacked)), key=STATUSES.index),
        "reason": reason,
        "note": "; ".join(dict.fromkeys(filter(None, (original["note"], attacked["note"])))),
        "signature": make_signature(
            about, {"of": f"({original['signature']}) and ({attacked['signature']})", "code": VERSION}
        ),
        "input_digest": digest([original["input_digest"], attacked["input_digest"]]),
    }


def form_averages(rows: Iterable[Row], averages: Mapping[str, Average], data: Prepared) -> list[Row]:
    """The rows of all averages whose sets the data have, one wherever a part has a row.

    Args:
        rows: the rows of the parts, as the results have them.
        averages: what is asked for.
        data: whose trial sets they are; it tells which have speakers in common.
    """
    rows = list(rows)
    averaged = []
    for average in averages.values():
        if not has_sets(average, data.trials):
            continue
        groups = mover.group_by_speakers([list_speakers(data, name) for name in average.weights])
        parts: dict[tuple[str, ...], dict[str, Row]] = {}
        for row in rows:
            if row["metric"] in average.metrics and row["subset"] in average.weights:
                parts.setdefault(tuple(str(row[name]) for name in COLUMNS), {})[row["subset"]] = row
        averaged += [_mean(average, by_subset, groups) for by_subset in _with_undefined(parts)]
    return averaged


def _with_undefined(parts: Mapping[tuple[str, ...], dict[str, Row]]) -> list[dict[str, Row]]:
    """The parts of each mean. Where a family cannot be computed on a set, its rows there have no variant: they stand for each."""
    undefined = {
        key: by_subset
        for key, by_subset in parts.items()
        if all(row["status"] == "incomplete" and not any(row[name] for name in VARIANT) for row in by_subset.values())
    }
    complete, used = [], set()
    for key, by_subset in parts.items():
        plain = tuple("" if name in VARIANT else value for name, value in zip(COLUMNS, key))
        other = undefined.get(plain, {})
        if key in undefined:
            continue
        if not other.keys() & by_subset.keys():
            used.add(plain)
            by_subset = {**by_subset, **other}
        complete.append(by_subset)
    return complete + [by_subset for key, by_subset in undefined.items() if key not in used]


def list_speakers(data: Prepared, name: str) -> frozenset[str]:
    """The speakers of a trial set, on both sides."""
    if data.score_sets:
        table = next(score_set.table for score_set in data.score_sets if score_set.of.subset == name)
        return frozenset(map(str, (*table["model_speaker"].unique(), *table["speaker"].unique())))
    tried = data.trials[name]
    listed = data.manifest
    spoken = listed[(listed["set"] == name) & listed["utterance"].isin(tried.trials["utterance"])]
    models = tried.enrolment[tried.enrolment["model"].isin(tried.trials["model"])]
    enrolled = listed[(listed["set"] == tried.enrolment_set) & listed["utterance"].isin(models["utterance"])]
    return frozenset(map(str, (*spoken["speaker"], *enrolled["speaker"])))


def _mean(average: Average, parts: Mapping[str, Row], groups: Sequence[Sequence[int]]) -> Row:
    names, weights = list(average.weights), list(average.weights.values())
    rows = [parts.get(name) for name in names]
    present = [row for row in rows if row is not None]
    values = [math.nan if row is None else _number(row, "value") for row in rows]
    value = mover.weighted_mean(values, weights)
    lacking = [
        f"{name}: {'no row' if row is None else row['reason'] or 'no value'}"
        for name, row, part in zip(names, rows, values)
        if math.isnan(part)
    ]
    if not lacking and math.isnan(value):
        lacking = ["infinities of both signs have no mean"]
    ends, null = None, None
    if not lacking:
        ends = mover.interval(values, [(_number(row, "low"), _number(row, "high")) for row in present], weights, groups)
        null = mover.band([(_number(row, "null_low"), _number(row, "null_high")) for row in present], weights, groups)
    first = present[0]
    numbers = (value, *(ends or (math.nan, math.nan)), *(null or (math.nan, math.nan)))
    counts = {name: [row[name] for row in present] for name in SUMMED}
    # The signature is that of the metric, and those of the parts with their weights.
    signatures = " + ".join(
        f"{weight:.9g} × ({parts[name]['signature']})" for name, weight in average.weights.items() if name in parts
    )
    mean = {
        "mean": signatures if len(present) == len(names) else f"of some: {signatures}",
        "interval": {"groups": [list(group) for group in groups], "code": mover.VERSION},
    }
    models = [row["model_digest"] for row in present]
    status = "incomplete" if len(present) < len(rows) else max((row["status"] for row in present), key=STATUSES.index)
    return {
        **first,
        "subset": average.subset,
        **dict(zip(("value", "low", "high", "null_low", "null_high"), numbers)),
        "ceiling": math.nan,
        "label": "",
        **{name: None if None in each else sum(map(int, each)) for name, each in counts.items()},
        "n_speakers": _n_speakers(rows, groups),
        "status": status,
        "reason": "; ".join(lacking),
        "note": "; ".join([_describe_mean(average, groups), *_notes(names, rows)]),
        "signature": make_signature(first, mean),
        "input_digest": digest([row["input_digest"] for row in present]),
        "model_digest": models[0] if len(set(models)) == 1 else digest(models),
    }


def _number(row: Row, name: str) -> float:
    """A number of a row; NaN where there is none."""
    return math.nan if row[name] is None else float(row[name])


def _describe_mean(average: Average, groups: Sequence[Sequence[int]]) -> str:
    names, weights = list(average.weights), list(average.weights.values())
    if max(weights) - min(weights) < 1e-9:
        description = f"plain mean of {', '.join(names)}"
    else:
        weighted = (f"{name} ({weight:g})" for name, weight in average.weights.items())
        description = f"weighted mean of {', '.join(weighted)}"
    shared = [" and ".join(names[place] for place in group) for group in groups if len(group) > 1]
    return description + (f", of which {'; '.join(shared)} have speakers in common" if shared else "")


def _notes(names: Sequence[str], rows: Sequence[Row | None]) -> list[str]:
    """What is to be known of the parts; of some of them, by name."""
    whose: dict[str, list[str]] = {}
    for name, row in zip(names, rows):
        if row is not None and row["note"]:
            whose.setdefault(str(row["note"]), []).append(name)
    return [note if len(sets) == len(names) else f"{', '.join(sets)}: {note}" for note, sets in whose.items()]


def _n_speakers(rows: Sequence[Row | None], groups: Sequence[Sequence[int]]) -> int | None:
    """Speakers that stand in several sets count once: of such sets the largest counts."""
    total = 0
    for group in groups:
        counts = [None if row is None else row["n_speakers"] for row in (rows[place] for place in group)]
        numbers = [int(count) for count in counts if count is not None]
        if not numbers:
            return None
        total += max(numbers)
    return total


KIND = ProductKind(order=5, collect=collect_averages, needs_speech=False)
