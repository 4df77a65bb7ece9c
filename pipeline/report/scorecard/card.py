"""The card itself: the printed cells of a recipe, one line each, and the row of a run that stands for each: the one whose columns say
the same, with the words of the run for those of the source."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pipeline.errors import ConfigError, DataError, Fault
from pipeline.report import glossary
from pipeline.report.scorecard import consistency
from pipeline.report.scorecard.consistency import NORMALISED
from pipeline.report.scorecard.settings import EXACTLY, Ours, Scorecard, Table
from pipeline.tables import published
from pipeline.tables.published import COLUMNS, Printed

Row = Mapping[str, Any]
NAMED = ("eer", "d_sys", "c_ece", "cllr_l_phi", *NORMALISED)
"""Metrics of which each row names its definition: of the others a row without a variant is the one that a print means by the name."""


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
        difference = self.value - float(self.cell.value.removeprefix("~").replace("\N{MINUS SIGN}", "-"))
        return None if math.isnan(difference) else difference


@dataclass(frozen=True)
class Card:
    """All lines, and the rows of the run; without a run these are none, and ``checks`` alone says something."""

    settings: Scorecard
    lines: tuple[Line, ...]
    checks: tuple[consistency.Check, ...]
    rows: tuple[Row, ...] = ()
    faults: tuple[Fault, ...] = field(default=())

    def counts(self) -> dict[str, int]:
        """Lines by verdict, in the order of consistency."""
        counts = Counter(line.verdict for line in self.lines)
        return {name: counts[name] for name in (*consistency.VERDICTS, *consistency.RECOMPUTED) if counts[name]}


def read_cells(tables: Iterable[Table]) -> list[Printed]:
    """The cells of published tables.

    Raises:
        DataError: a file is no published table, or none of its cells is meant.
        ConfigError: there is no such file.
    """
    printed: list[Printed] = []
    for table in tables:
        all_cells = published.read(published.find(table.file))
        meant = [
            cell for cell in all_cells if all(cell.get_column(name) in words for name, words in table.where.items())
        ]
        if not meant:
            raise DataError("no cell of the published table is meant", where=table.file, remedy="correct `where` of it")
        printed += [_with_variant(cell, table.variants) for cell in meant]
    return printed


def _with_variant(cell: Printed, variants: Mapping[str, str]) -> Printed:
    """A cell that names no variant with that of its table, if any."""
    variant = variants.get(cell.identity.metric, "")
    return cell.replace_columns(variant=variant) if variant and not cell.identity.variant else cell


def make_card(settings: Scorecard, rows: Iterable[Row] | None) -> Card:
    """The card of a recipe, with the rows of a run or without.

    Args:
        settings: the recipe's.
        rows: results rows; None without a run.
    """
    chosen = {name for name in settings.variants if "variant" in select_for_metric(settings.ours, name)}
    variants = {name: variant for name, variant in settings.variants.items() if name not in chosen}
    own = [_with_variant(cell, variants) for cell in read_cells(settings.tables)]
    checks = consistency.check_cells(own, [*own, *read_cells(settings.witnesses)], settings.names)
    if rows is None:
        return Card(settings, tuple(Line(variant.cell, variant.verdict, variant.reason) for variant in checks), checks)
    matching = Rows(rows, settings)
    lines, faults = [], []
    for check in checks:
        matches = matching.find(check.cell)
        if len(matches) > 1:
            faults.append(_make_ambiguity_fault(check.cell, matches, settings))
        lines.append(_make_line(check, matches, _explain_absence(check.cell, matching), settings))
    return Card(settings, tuple(lines), checks, tuple(matching.rows), tuple(dict.fromkeys(faults)))


def _explain_absence(cell: Printed, rows: Rows) -> str:
    """Why no row of the run stands for a cell."""
    if cell.identity.metric not in glossary.metrics():
        return "not measured here"
    variants = rows.others(cell)
    if variants:
        remedy = f"'scorecard.ours.{cell.identity.metric}.variant=\"{variants[0]}\"' takes it"
        return f"the print names no definition, and the run has {', '.join(map(repr, variants))}: {remedy}"
    return "no such row" if rows.has(cell) else "no such system"


def _make_line(check: consistency.Check, matches: list[Row], why_not: str, settings: Scorecard) -> Line:
    if len(matches) > 1:
        return Line(check.cell, consistency.SEVERAL, f"{len(matches)} rows of the run match")
    line = _compare(check.cell, matches[0], settings) if matches else Line(check.cell, consistency.NOT_RUN, why_not)
    if check.verdict not in (consistency.CANNOT, consistency.DISAGREE) or not check.reason:
        return line
    if line.verdict in (consistency.NOT_RUN, consistency.DIFFERS):
        texts = [line.verdict, check.reason, line.note]
        return replace(line, verdict=check.verdict, note="; ".join(filter(None, texts)))
    return replace(line, note="; ".join(filter(None, [f"{check.verdict}: {check.reason}", line.note])))


def _compare(cell: Printed, row: Row, settings: Scorecard) -> Line:
    """A cell beside the one row that stands for it."""
    remark = "; ".join(filter(None, [_describe_status(row), _describe_levels(row, settings)]))
    ends, text = cell.ends, str(row["label"])
    if ends is None:
        if cell.value in published.UNPRINTED:
            return Line(cell, consistency.NOT_RUN, "nothing is printed here", row)
        if not text:
            return Line(cell, consistency.NOT_RUN, remark or "the row has no label", row)
        same = consistency.REPRODUCED if text == cell.value else consistency.DIFFERS
        return Line(cell, _judge_complete(same, row), remark, row, label=text)
    scale = consistency.convert(str(row["unit"]), cell.unit)
    if scale is None:
        return Line(cell, consistency.NOT_RUN, f"ours is in {row['unit'] or 'no unit'}, the print in {cell.unit}", row)
    value = _read_number(row["value"])
    if value is None:
        return Line(cell, consistency.NOT_RUN, remark or str(row["reason"]) or "the row has no value", row)
    low, high = _read_number(row["low"]), _read_number(row["high"])
    interval = None if low is None or high is None else (scale * low, scale * high)
    tolerance = _tolerance(cell, settings)
    verdict = _judge_complete(consistency.judge(ends, scale * value, interval, tolerance), row)
    shown = interval or (None, None)
    return Line(cell, verdict, remark, row, scale * value, "", shown[0], shown[1], tolerance)


def _tolerance(cell: Printed, settings: Scorecard) -> float:
    tolerance = settings.tolerances.get(cell.identity.metric)
    if tolerance is None or not all(cell.get_column(name) in words for name, words in tolerance.where.items()):
        return 0.0
    scale = consistency.convert(tolerance.unit, cell.unit) if tolerance.unit else 1.0
    return 0.0 if scale is None else scale * tolerance.value


def _judge_complete(verdict: str, row: Row) -> str:
    """No verdict but that it is partial, where a row does not stand on everything."""
    return verdict if row["status"] in ("ok", "undefined") else consistency.PARTIAL


def _describe_levels(row: Row, settings: Scorecard) -> str:
    """Where a run gives pseudo-voices otherwise than the published systems."""
    protected = str(row["system_level"]).partition(",")[0]
    learnt = re.search(r"^anonymised \((\w+)", str(row["trained_on"]))
    pairs = (
        ("pseudo-voices", "" if protected in ("none", "not stated") else protected, settings.levels.system),
        ("pseudo-voices of the training speech", learnt[1] if learnt else "", settings.levels.training),
    )
    return "; ".join(
        f"{part}: {run_level}, published: {' or '.join(levels)}"
        for part, run_level, levels in pairs
        if run_level and levels and run_level not in levels
    )


def _describe_status(row: Row) -> str:
    """What a reader must know of a row that does not stand on everything."""
    if row["status"] in ("ok", "undefined"):
        return ""
    used, expected = _read_number(row["n_used"]), _read_number(row["n_expected"])
    counted = f", {used:.0f} of {expected:.0f} used" if used is not None and expected is not None else ""
    return f"{row['status']}{counted}" + (f": {row['reason']}" if row["reason"] else "")


def _read_number(value: Any) -> float | None:
    """A number of a row; None where it has none (NaN, or pandas' NA)."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return None if math.isnan(number) else number


MAPPED = {"system": "systems", "extractor": "extractors", "backend": "backends"}


def _make_ambiguity_fault(cell: Printed, rows: list[Row], settings: Scorecard) -> Fault:
    """What tells rows apart that all stand for one cell."""
    names = (
        "system", "system_level", "attacker", "extractor", "trained_on", "backend", "variant", "estimator", "input_unit",
    )  # fmt: skip
    apart = {name: sorted({str(row[name]) for row in rows}) for name in names}
    differing = {name: values for name, values in apart.items() if len(values) > 1}
    differing = differing or {"dataset": [str(rows[0]["dataset"])]}
    name, values = next(iter(differing.items()))
    label = cell.get_column(name) if name in MAPPED else ""
    label = settings.names.get(label, label) if name == "system" else label
    setting = f"scorecard.{MAPPED[name]}.{label}" if label else f"scorecard.ours.{cell.identity.metric}.{name}"
    word = f'"{values[0]}"' if not re.fullmatch(r"[\w.-]+", values[0]) else values[0]
    listed = "; ".join(f"{key}: {', '.join(map(repr, words))}" for key, words in differing.items())
    return Fault(
        f"{listed}; say which: '{setting}={word}'",
        f"{cell.file}, {cell.identity.metric} of {settings.names.get(cell.identity.system, cell.identity.system)}",
    )


def refuse_ambiguous(card: Card, where: Path) -> None:
    """Refuse a card on which several rows of the run stand for one cell.

    Raises:
        ConfigError: with all such cells.
    """
    if card.faults:
        overrides = dict.fromkeys(fault.what.partition("say which: ")[2] for fault in card.faults)
        raise ConfigError(
            f"several rows of the run stand for one published cell, {len(card.faults)} kinds of them",
            where=str(where),
            cause="two labels of the run are the same published system, extractor or back end",
            remedy=f"add the override that is named with each: {' '.join(overrides)}",
            faults=card.faults,
        )


def flatten_line(line: Line) -> Mapping[str, Any]:
    """A line as the columns of ``scorecard.csv``."""
    cell, row = line.cell, line.row or {}
    ends = cell.ends or (None, None)
    return {
        **{name: cell.get_column(name) for name in COLUMNS if name not in ("value", "unit", "rounding")},
        "published": cell.value, "unit": cell.unit, "rounding": cell.rounding, "published_low": ends[0], "published_high": ends[1],
        "ours": line.value if line.value is not None else line.label or None, "difference": line.difference, "low": line.low,
        "high": line.high, "tolerance": line.tolerance if line.row is not None else None, "verdict": line.verdict,
        "our_system": str(row.get("system", "")), "our_extractor": str(row.get("extractor", "")),
        "our_trained_on": str(row.get("trained_on", "")), "our_backend": str(row.get("backend", "")),
        "status": str(row.get("status", "")), "note": line.note,
    }  # fmt: skip


# -------------------------------------------------------------------------------- which row stands for which printed cell


class Rows:
    """The rows of a run that may stand for printed cells."""

    def __init__(self, rows: Iterable[Row], card: Scorecard) -> None:
        self.card = card
        self.rows = [row for row in rows if _has_words(row, card.ours)]
        self._index: dict[tuple[str, str, str], list[Row]] = {}
        self._systems = {str(row["system"]) for row in self.rows}
        for row in self.rows:
            self._index.setdefault((str(row["subset"]), str(row["condition"]), str(row["metric"])), []).append(row)

    def has(self, cell: Printed) -> bool:
        """Whether any row is of the system of a cell."""
        names = (cell.identity.system, self.card.names.get(cell.identity.system, cell.identity.system))
        return any(stands_for(label, names, self.card.systems) for label in self._systems)

    def find(self, cell: Printed) -> list[Row]:
        """The rows that say the same as a cell. More than one is a fault of the mapping.

        A print that names no variant is the plain one: another is another definition, unless the scorecard takes it.
        """
        alike = self._alike(cell)
        without_variant = [row for row in alike if not str(row["variant"])]
        names_definition = cell.identity.metric in NAMED or "variant" in select_for_metric(
            self.card.ours, cell.identity.metric
        )
        return alike if cell.identity.variant or (names_definition and not without_variant) else without_variant

    def others(self, cell: Printed) -> list[str]:
        """The variants of rows that would stand for a cell if it named one of them."""
        return [] if cell.identity.variant else sorted({str(row["variant"]) for row in self._alike(cell)} - {""})

    def _alike(self, cell: Printed) -> list[Row]:
        key = (cell.identity.subset, cell.identity.condition, cell.identity.metric)
        return [row for row in self._index.get(key, []) if self._same(cell, row)]

    def _same(self, cell: Printed, row: Row) -> bool:
        card, system = self.card, cell.identity.system
        return (
            stands_for(str(row["system"]), (system, card.names.get(system, system)), card.systems)
            and _fits(cell.identity.extractor, str(row["extractor"]), card.extractors)
            and _fits(cell.identity.backend, str(row["backend"]), card.backends)
            and _fits(cell.identity.attacker, str(row["attacker"]), {})
            # A run says at which level the training speech was anonymised, a print does not.
            and _fits(cell.identity.trained_on, str(row["trained_on"]).partition(" (")[0], {})
            and cell.identity.variant in ("", str(row["variant"]))
            and _fits(cell.identity.estimator, str(row["estimator"]), {})
            and _fits(cell.identity.input_unit, str(row["input_unit"]), {})
        )


def select_for_metric(words: Ours, metric: str) -> Mapping[str, list[str]]:
    """What is asked of the rows of one metric alone."""
    selected = words.get(metric, {})
    return selected if isinstance(selected, Mapping) else {}


def _has_words(row: Row, words: Ours) -> bool:
    """Whether a row has the words that are asked for. A column that a metric leaves empty keeps no row out, unless it is asked for
    of that very metric."""
    own = select_for_metric(words, str(row["metric"]))
    of_all = ((name, texts) for name, texts in words.items() if not isinstance(texts, Mapping) and name not in own)
    return all(str(row[name]) in ("", *texts) for name, texts in of_all) and all(
        str(row[name]) in texts for name, texts in own.items()
    )


def stands_for(label: str, published: Sequence[str], labels: Mapping[str, Sequence[str]]) -> bool:
    """Whether a label of a run stands for a published name (in any of its spellings): it is among those listed, or is the name."""
    listed = [entry for name in dict.fromkeys(published) for entry in labels.get(name, ())]
    if EXACTLY in listed:
        listed = [entry for name in published if labels.get(name, [""])[0] == EXACTLY for entry in labels[name][1:]]
        return label in listed
    return label in listed or label.casefold() in {name.casefold() for name in published}


def _fits(published: str, label: str, labels: Mapping[str, Sequence[str]]) -> bool:
    """What a source does not say, or a metric does not depend on, keeps nothing apart."""
    return not published or not label or stands_for(label, (published,), labels)
