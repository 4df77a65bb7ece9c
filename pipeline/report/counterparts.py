"""Rows of two runs, each beside its counterpart: the row with the same identity and the same signature, which alone is comparable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pipeline.report import summaries
from pipeline.tables import results

KEY = [*results.IDENTITY, "signature"]
TOLD_BY = ("dataset", "subset", "system", "attacker", "extractor", "trained_on", "backend", "metric")
"""What a row is likely to be about that the other run has none of; of several, the first is said."""
ANOTHER = "what it is about is in the other run, in another combination"


@dataclass(frozen=True)
class Rows:
    """Rows of two runs.

    Attributes:
        both: rows with a counterpart: the columns of :data:`KEY`, unit, value_first, value_second, label_first, label_second.
        changed: those of them that differ in value or label.
        left: for either run, how many rows have no counterpart, by why.
    """

    both: pd.DataFrame
    changed: pd.DataFrame
    left: tuple[dict[str, int], dict[str, int]]


def of(first: pd.DataFrame, second: pd.DataFrame) -> Rows:
    """Rows of results of two runs beside one another."""
    values = ["value", "label"]
    both = first[[*KEY, "unit", *values]].merge(second[[*KEY, *values]], on=KEY, suffixes=("_first", "_second"))
    one, other = (both[f"value_{end}"].to_numpy(np.float64) for end in ("first", "second"))
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    changed = both[~same | (both["label_first"] != both["label_second"]).to_numpy(bool)]
    left = _counted(_why(first, second, both)), _counted(_why(second, first, both))
    return Rows(both, changed, left)


def _counted(several: Iterable[tuple[str, str]]) -> dict[str, int]:
    """How many there are, by what they have in common; the most first."""
    named: dict[str, Counter[str]] = {}
    for what, name in several:
        named.setdefault(what, Counter())[name] += 1
    order = sorted(named, key=lambda what: -named[what].total())
    return {f"{what} {', '.join(named[what])}".strip(): named[what].total() for what in order}


def _why(own: pd.DataFrame, others: pd.DataFrame, both: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """Why each row of a run that has no counterpart has none: what it is, and its name."""
    paired = set(zip(*(both[name] for name in KEY)))
    known = {name: set(others[name]) for name in TOLD_BY}
    signatures = {tuple(row[name] for name in results.IDENTITY): row["signature"] for row in results.records(others)}
    for row in results.records(own):
        if tuple(row[name] for name in KEY) in paired:
            continue
        signature = signatures.get(tuple(row[name] for name in results.IDENTITY))
        if signature is not None:
            yield f"the signature differs in {_parts_that_differ(row['signature'], signature)}", ""
            continue
        alone = [name for name in TOLD_BY if row[name] not in known[name]]
        yield (summaries.LABELS.get(alone[0], alone[0]), row[alone[0]] or "none") if alone else (ANOTHER, "")


def _parts_that_differ(one: str, other: str) -> str:
    parts = [_parts(one), _parts(other)]
    names = [name for name in dict.fromkeys([*parts[0], *parts[1]]) if parts[0].get(name) != parts[1].get(name)]
    return ", ".join(names) or "the order of its parts"


def _parts(signature: str) -> dict[str, str]:
    """What a signature says, by name; what has no name stands under itself."""
    found = [part.partition(":") for part in signature.split("|")[1:]]
    return {name: said for name, _, said in found}


def line(row: Mapping[str, Any]) -> str:
    """A changed row: its metric, what it is about, both values and the difference where there is one."""
    unit = row["unit"]
    about = ("subset", "system", "condition", "attacker", "extractor", "variant", "estimator")
    place = " ".join(str(row[name]) for name in about if row[name])
    values = [_value(row, end, unit) for end in ("first", "second")]
    step = row["value_second"] - row["value_first"]
    change = "" if np.isnan(step) or step == 0 else f" ({'+' if step > 0 else ''}{summaries.number(step, unit)})"
    return f"{row['metric']} {place}: {values[0]} / {values[1]}{change}"


def _value(row: Mapping[str, Any], end: str, unit: str) -> str:
    return str(row[f"label_{end}"]) or summaries.number(row[f"value_{end}"], unit, with_unit=True)
