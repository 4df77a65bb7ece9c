"""The card itself: the printed cells of a recipe, one line each."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pipeline.errors import ConfigError, DataError, Fault
from pipeline.report import glossary
from pipeline.report.scorecard import follows, verdicts
from pipeline.report.scorecard.match import Row, Rows, of_metric
from pipeline.report.scorecard.settings import Scorecard, Table
from pipeline.tables import published
from pipeline.tables.published import COLUMNS, Printed


@dataclass(frozen=True)
class Line:
    """One printed cell and what is to be said of it; ``value``, ``low`` and ``high`` are ours, in the printed unit."""

    cell: Printed
    verdict: str
    note: str = ""
    row: Row | None = None
    value: float | None = None
    label: str = ""
    low: float | None = None
    high: float | None = None
    tolerance: float = 0.0

    @property
    def difference(self) -> float | None:
        """Ours minus the printed number."""
        if self.value is None or self.cell.ends is None:
            return None
        found = self.value - float(self.cell.value.removeprefix("~").replace("\N{MINUS SIGN}", "-"))
        return None if math.isnan(found) else found


@dataclass(frozen=True)
class Card:
    """All lines, and the rows of the run; without a run these are none, and ``checks`` alone says something."""

    settings: Scorecard
    lines: tuple[Line, ...]
    checks: tuple[follows.Check, ...]
    rows: tuple[Row, ...] = ()
    faults: tuple[Fault, ...] = field(default=())

    def counts(self) -> dict[str, int]:
        """Lines by verdict, in the order of verdicts."""
        found = Counter(line.verdict for line in self.lines)
        return {name: found[name] for name in (*verdicts.VERDICTS, *verdicts.RECOMPUTED) if found[name]}


def cells(tables: Iterable[Table]) -> list[Printed]:
    """The cells of published tables.

    Raises:
        DataError: a file is no published table, or none of its cells is meant.
        ConfigError: there is no such file.
    """
    found: list[Printed] = []
    for table in tables:
        read = published.read(published.find(table.file))
        kept = [cell for cell in read if all(getattr(cell, name) in words for name, words in table.where.items())]
        if not kept:
            raise DataError("no cell of the published table is meant", where=table.file, remedy="correct `where` of it")
        found += [_varied(cell, table.variants) for cell in kept]
    return found


def _varied(cell: Printed, variants: Mapping[str, str]) -> Printed:
    """A cell that names no variant with that of its table, if any."""
    given = variants.get(cell.metric, "")
    return replace(cell, variant=given) if given and not cell.variant else cell


def of(settings: Scorecard, rows: Iterable[Row] | None) -> Card:
    """The card of a recipe, with the rows of a run or without.

    Args:
        settings: the recipe's.
        rows: results rows; None without a run.
    """
    asked = {name for name in settings.variants if "variant" in of_metric(settings.ours, name)}
    variants = {name: one for name, one in settings.variants.items() if name not in asked}
    own = [_varied(cell, variants) for cell in cells(settings.tables)]
    checks = follows.checked(own, [*own, *cells(settings.witnesses)], settings.names)
    if rows is None:
        return Card(settings, tuple(Line(one.cell, one.verdict, one.said) for one in checks), checks)
    kept = Rows(rows, settings)
    lines, faults = [], []
    for check in checks:
        found = kept.of(check.cell)
        if len(found) > 1:
            faults.append(_several(check.cell, found, settings))
        lines.append(_line(check, found, _why_not(check.cell, kept), settings))
    return Card(settings, tuple(lines), checks, tuple(kept.rows), tuple(dict.fromkeys(faults)))


def _why_not(cell: Printed, rows: Rows) -> str:
    """Why no row of the run stands for a cell."""
    if cell.metric not in glossary.metrics():
        return "not measured here"
    others = rows.others(cell)
    if others:
        taken = f"'scorecard.ours.{cell.metric}.variant=\"{others[0]}\"' takes it"
        return f"the print names no definition, and the run has {', '.join(map(repr, others))}: {taken}"
    return "no such row" if rows.has(cell) else "no such system"


def _line(check: follows.Check, found: list[Row], why_not: str, settings: Scorecard) -> Line:
    cell = check.cell
    doubt = check.said if check.verdict in (verdicts.CANNOT, verdicts.DISAGREE) else ""
    if len(found) > 1:
        return Line(cell, verdicts.SEVERAL, f"{len(found)} rows of the run match")
    row = found[0] if found else None
    line = Line(cell, verdicts.NOT_RUN, why_not) if row is None else _compared(cell, row, settings)
    verdict = line.verdict
    if doubt and verdict in (verdicts.NOT_RUN, verdicts.DIFFERS):
        doubt, verdict = f"{verdict}; {doubt}", check.verdict
    elif doubt:
        doubt = f"{check.verdict}: {doubt}"
    note = "; ".join(filter(None, [doubt, line.note]))
    return Line(cell, verdict, note, line.row, line.value, line.label, line.low, line.high, line.tolerance)


def _compared(cell: Printed, row: Row, settings: Scorecard) -> Line:
    """A cell beside the one row that stands for it."""
    said = "; ".join(filter(None, [_incomplete(row), _levels(row, settings)]))
    ends, text = cell.ends, str(row["label"])
    if ends is None:
        if cell.value in published.UNPRINTED:
            return Line(cell, verdicts.NOT_RUN, "nothing is printed here", row)
        if not text:
            return Line(cell, verdicts.NOT_RUN, said or "the row has no label", row)
        same = verdicts.REPRODUCED if text == cell.value else verdicts.DIFFERS
        return Line(cell, _of_whole(same, row), said, row, label=text)
    scale = verdicts.factor(str(row["unit"]), cell.unit)
    if scale is None:
        return Line(cell, verdicts.NOT_RUN, f"ours is in {row['unit'] or 'no unit'}, the print in {cell.unit}", row)
    value = _number(row["value"])
    if value is None:
        return Line(cell, verdicts.NOT_RUN, said or str(row["reason"]) or "the row has no value", row)
    low, high = _number(row["low"]), _number(row["high"])
    interval = None if low is None or high is None else (scale * low, scale * high)
    tolerance = _tolerance(cell, settings)
    verdict = _of_whole(verdicts.judge(ends, scale * value, interval, tolerance), row)
    shown = interval or (None, None)
    return Line(cell, verdict, said, row, scale * value, "", shown[0], shown[1], tolerance)


def _tolerance(cell: Printed, settings: Scorecard) -> float:
    given = settings.tolerances.get(cell.metric)
    if given is None or not all(getattr(cell, name) in words for name, words in given.where.items()):
        return 0.0
    scale = verdicts.factor(given.unit, cell.unit) if given.unit else 1.0
    return 0.0 if scale is None else scale * given.value


def _of_whole(verdict: str, row: Row) -> str:
    """No verdict but that it is partial, where a row does not stand on everything."""
    return verdict if row["status"] in ("ok", "undefined") else verdicts.PARTIAL


def _levels(row: Row, settings: Scorecard) -> str:
    """Where a run gives pseudo-voices otherwise than the published systems."""
    protected = str(row["system_level"]).partition(",")[0]
    learnt = re.search(r"^anonymised \((\w+)", str(row["trained_on"]))
    pairs = (
        ("pseudo-voices", "" if protected in ("none", "not stated") else protected, settings.levels.system),
        ("pseudo-voices of the training speech", learnt[1] if learnt else "", settings.levels.training),
    )
    return "; ".join(
        f"{what}: {ours}, published: {' or '.join(theirs)}"
        for what, ours, theirs in pairs
        if ours and theirs and ours not in theirs
    )


def _incomplete(row: Row) -> str:
    """What a reader must know of a row that does not stand on everything."""
    if row["status"] in ("ok", "undefined"):
        return ""
    used, expected = _number(row["n_used"]), _number(row["n_expected"])
    counted = f", {used:.0f} of {expected:.0f} used" if used is not None and expected is not None else ""
    return f"{row['status']}{counted}" + (f": {row['reason']}" if row["reason"] else "")


def _number(value: Any) -> float | None:
    """A number of a row; None where it has none (NaN, or pandas' NA)."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        return None
    return None if math.isnan(found) else found


MAPPED = {"system": "systems", "extractor": "extractors", "backend": "backends"}


def _several(cell: Printed, found: list[Row], settings: Scorecard) -> Fault:
    """What tells rows apart that all stand for one cell."""
    names = (
        "system",
        "system_level",
        "attacker",
        "extractor",
        "trained_on",
        "backend",
        "variant",
        "estimator",
        "input_unit",
    )
    apart = {name: sorted({str(row[name]) for row in found}) for name in names}
    told = {name: values for name, values in apart.items() if len(values) > 1} or {
        "dataset": [str(found[0]["dataset"])]
    }
    name, values = next(iter(told.items()))
    asked = getattr(cell, name) if name in MAPPED else ""
    asked = settings.names.get(asked, asked) if name == "system" else asked
    given = f"scorecard.{MAPPED[name]}.{asked}" if asked else f"scorecard.ours.{cell.metric}.{name}"
    word = f'"{values[0]}"' if not re.fullmatch(r"[\w.-]+", values[0]) else values[0]
    listed = "; ".join(f"{key}: {', '.join(map(repr, one))}" for key, one in told.items())
    return Fault(
        f"{listed}; say which: '{given}={word}'",
        f"{cell.file}, {cell.metric} of {settings.names.get(cell.system, cell.system)}",
    )


def refuse(card: Card, where: Path) -> None:
    """Refuse a card on which several rows of the run stand for one cell.

    Raises:
        ConfigError: with all such cells.
    """
    if not card.faults:
        return
    raise ConfigError(
        f"several rows of the run stand for one published cell, {len(card.faults)} kinds of them",
        where=str(where),
        cause="two labels of the run are the same published system, extractor or back end",
        remedy="add the override that is named with each: " + _remedy(card.faults),
        faults=card.faults,
    )


def _remedy(faults: Iterable[Fault]) -> str:
    return " ".join(dict.fromkeys(fault.what.partition("say which: ")[2] for fault in faults))


def plain(line: Line) -> Mapping[str, Any]:
    """A line as the columns of ``scorecard.csv``."""
    cell, row = line.cell, line.row or {}
    ends = cell.ends or (None, None)
    return {
        **{name: getattr(cell, name) for name in COLUMNS if name not in ("value", "unit", "rounding")},
        "published": cell.value, "unit": cell.unit, "rounding": cell.rounding, "published_low": ends[0], "published_high": ends[1],
        "ours": line.value if line.value is not None else line.label or None, "difference": line.difference, "low": line.low,
        "high": line.high, "tolerance": line.tolerance if line.row is not None else None, "verdict": line.verdict,
        "our_system": str(row.get("system", "")), "our_extractor": str(row.get("extractor", "")),
        "our_trained_on": str(row.get("trained_on", "")), "our_backend": str(row.get("backend", "")),
        "status": str(row.get("status", "")), "note": line.note,
    }  # fmt: skip
