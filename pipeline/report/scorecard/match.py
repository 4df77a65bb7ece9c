"""Which row of a run stands for a printed cell: the one whose columns say the same, with the words of the run for those of the source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pipeline.report.scorecard.follows import NORMALISED
from pipeline.report.scorecard.settings import EXACTLY, Ours, Scorecard
from pipeline.tables.published import Printed

Row = Mapping[str, Any]
NAMED = ("eer", "d_sys", "c_ece", "cllr_l_phi", *NORMALISED)
"""Metrics of which each row names its definition: of the others a row without a variant is the one that a print means by the name."""


class Rows:
    """The rows of a run that may stand for printed cells."""

    def __init__(self, rows: Iterable[Row], card: Scorecard) -> None:
        self.card = card
        self.rows = [row for row in rows if _counts(row, card.ours)]
        self._index: dict[tuple[str, str, str], list[Row]] = {}
        self._systems = {str(row["system"]) for row in self.rows}
        for row in self.rows:
            self._index.setdefault(_key(row["subset"], row["condition"], row["metric"]), []).append(row)

    def has(self, cell: Printed) -> bool:
        """Whether any row is of the system of a cell."""
        names = (cell.system, self.card.names.get(cell.system, cell.system))
        return any(stands_for(label, names, self.card.systems) for label in self._systems)

    def of(self, cell: Printed) -> list[Row]:
        """The rows that say the same as a cell. More than one is a fault of the mapping.

        A print that names no variant is the plain one: another is another definition, unless the scorecard takes it.
        """
        found = self._alike(cell)
        plain = [row for row in found if not str(row["variant"])]
        named = cell.metric in NAMED or "variant" in of_metric(self.card.ours, cell.metric)
        return found if cell.variant or (named and not plain) else plain

    def others(self, cell: Printed) -> list[str]:
        """The variants of rows that would stand for a cell if it named one of them."""
        return [] if cell.variant else sorted({str(row["variant"]) for row in self._alike(cell)} - {""})

    def _alike(self, cell: Printed) -> list[Row]:
        among = self._index.get(_key(cell.subset, cell.condition, cell.metric), [])
        return [row for row in among if self._same(cell, row)]

    def _same(self, cell: Printed, row: Row) -> bool:
        card = self.card
        return (
            stands_for(str(row["system"]), (cell.system, card.names.get(cell.system, cell.system)), card.systems)
            and _fits(cell.extractor, str(row["extractor"]), card.extractors)
            and _fits(cell.backend, str(row["backend"]), card.backends)
            and _fits(cell.attacker, str(row["attacker"]), {})
            # A run says at which level the training speech was anonymised, a print does not.
            and _fits(cell.trained_on, str(row["trained_on"]).partition(" (")[0], {})
            and cell.variant in ("", str(row["variant"]))
            and _fits(cell.estimator, str(row["estimator"]), {})
            and _fits(cell.input_unit, str(row["input_unit"]), {})
        )


def of_metric(ours: Ours, metric: str) -> Mapping[str, list[str]]:
    """What is asked of the rows of one metric alone."""
    found = ours.get(metric, {})
    return found if isinstance(found, Mapping) else {}


def _counts(row: Row, ours: Ours) -> bool:
    """Whether a row has the words that are asked for. A column that a metric leaves empty keeps no row out, unless it is asked for
    of that very metric."""
    own = of_metric(ours, str(row["metric"]))
    of_all = ((name, given) for name, given in ours.items() if not isinstance(given, Mapping) and name not in own)
    return all(str(row[name]) in ("", *given) for name, given in of_all) and all(
        str(row[name]) in given for name, given in own.items()
    )


def _key(subset: Any, condition: Any, metric: Any) -> tuple[str, str, str]:
    return str(subset), str(condition), str(metric)


def stands_for(label: str, published: Sequence[str], known: Mapping[str, Sequence[str]]) -> bool:
    """Whether a label of a run stands for a published name (in any of its spellings): it is among those listed, or is the name."""
    listed = [one for name in dict.fromkeys(published) for one in known.get(name, ())]
    if EXACTLY in listed:
        listed = [one for name in published if known.get(name, [""])[0] == EXACTLY for one in known[name][1:]]
        return label in listed
    return label in listed or label.casefold() in {name.casefold() for name in published}


def _fits(published: str, label: str, known: Mapping[str, Sequence[str]]) -> bool:
    """What a source does not say, or a metric does not depend on, keeps nothing apart."""
    return not published or not label or stands_for(label, (published,), known)
