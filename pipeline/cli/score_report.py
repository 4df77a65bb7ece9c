"""The JSON that ``from-scores`` writes: values by path, and reasons, intervals and flags under the same paths."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.errors import ConfigError, DataError, Fault
from pipeline.files import write_atomically
from pipeline.metrics import ClassOrder, Interval, NullBand, Undefined

Place = tuple[str, ...]


def warn(text: str) -> None:
    """Tell whoever sits at the terminal, and nobody else."""
    print(f"warning: {text}.", file=sys.stderr)


class Report:
    """Values by path. An undefined value is null, and ``reason`` says why under the same path."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.intervals: dict[str, Any] = {}
        self.reasons: dict[str, Any] = {}
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        """Say something that a reader of the numbers must know: on standard error, and beside them."""
        self.notes.append(text)
        print(f"note: {text}.", file=sys.stderr)

    def put(self, place: Place, value: Any, reason: str = "") -> None:
        """Set a value; None needs a reason."""
        if isinstance(value, float) and math.isnan(value):
            value, reason = None, reason or "the scores are of a size at which it cannot be computed"
        _set(self.values, place, value)
        if value is None:
            _set(self.reasons, place, reason or "undefined")

    def put_all(self, place: Place, record: object, names: Iterable[str], reason: str = "") -> None:
        """Set fields of a record, each under its name."""
        for name in names:
            self.put((*place, name), getattr(record, name, None), reason)

    def put_defined(self, place: Place, value: Callable[[], float]) -> None:
        """Set a value, or why it is not defined."""
        try:
            self.put(place, value())
        except Undefined as undefined:
            self.put(place, None, str(undefined))

    def reason(self, place: Place, text: str) -> None:
        """Why what belongs to a place is left out."""
        _set(self.reasons, place, text)

    def interval(self, place: Place, interval: Interval) -> None:
        """Set the interval of a value."""
        is_defined = interval.low is not None and interval.high is not None
        _set(self.intervals, place, [interval.low, interval.high] if is_defined else None)
        if not is_defined:
            _set(self.reasons, ("interval", *place), interval.reason)

    def intervals_of(self, intervals: Mapping[str, Interval], *under: str) -> None:
        """Set intervals by the dotted names of their values."""
        for name, interval in intervals.items():
            self.interval((*under, *name.split(".", 1)), interval)

    def bands(self, bands: Mapping[str, NullBand]) -> None:
        """Set the null bands."""
        for name, band in bands.items():
            if band.low is None:
                self.put(("null_band", name), None, band.reason)
                continue
            for part in ("low", "median", "high", "p_value", "replicates"):
                self.put(("null_band", name, part), getattr(band, part))

    def text(self) -> str:
        """The report as JSON; infinities are the strings ``inf`` and ``-inf``."""
        everything = {**self.values, "interval": self.intervals, "reason": self.reasons, "notes": self.notes}
        return json.dumps(_to_plain(everything), indent=1, allow_nan=False) + "\n"


def _set(tree: dict[str, Any], place: Place, value: Any) -> None:
    for name in place[:-1]:
        tree = tree.setdefault(name, {})
    tree[place[-1]] = value


def _to_plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _to_plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_to_plain(part) for part in value]
    if isinstance(value, np.generic):
        return _to_plain(value.item())
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value


def write(text: str, out: str) -> None:
    """Write the report whole or not at all.

    Raises:
        ConfigError: the file cannot be written.
    """
    if out == "-":
        sys.stdout.write(text)
        return
    path = Path(out)
    try:
        if path.exists() and not path.is_file():
            # A device or a pipe has no name beside it that could take its place.
            path.write_text(text, encoding="utf-8")
        else:
            write_atomically(path.resolve(), text)
    except BrokenPipeError:
        # Whoever read the pipe has seen enough.
        return
    except OSError as error:
        raise ConfigError(f"cannot write --json {out}: {error.strerror}", remedy="give another FILE, or -") from error


AS_IS = "--as-is"


def check_order(
    orders: Mapping[str, tuple[str, ClassOrder]], negated: Sequence[str], as_is: bool, report: Report, unit: str
) -> None:
    """Put the order of each file into the report, and refuse files whose order is the wrong way round beyond chance.

    Args:
        orders: by the name of an option that gave scores, the file and its order.
        negated: the options of which distances were made similarities.
        as_is: keep a wrong order, and say so.
        unit: what scores above what in the right order, as ``a target scores above a non-target``.

    Raises:
        DataError: an order is the wrong way round.
    """
    wrong = {name: entry for name, entry in orders.items() if entry[1].is_reversed}
    for name, (where, order) in orders.items():
        place = ("order", name) if len(orders) > 1 else ("order",)
        for part in ("auc", "p_value", "speakers"):
            report.put((*place, part), getattr(order, part), order.reason)
        text = _describe_order(order, unit)
        if name in wrong and as_is:
            report.note(f"{where}: the scores order the classes the wrong way round and are kept by {AS_IS}: {text}")
        elif order.is_doubtful and not as_is:
            report.note(
                f"{where}: the scores may order the classes the wrong way round: {text}, with too few speakers to tell that "
                "from chance. If lower means more similar, give --distance"
            )
    if wrong and not as_is:
        again = " ".join(name for name in wrong if name in negated)
        more = " ".join(name for name in orders if name in wrong or name in negated)
        mend = f"leave {again} out of --distance" if again else f"if lower means more similar, add `--distance {more}`"
        raise DataError(
            "the scores order the classes the wrong way round, beyond chance",
            where=", ".join(where for where, _ in wrong.values()),
            cause="similarities, which --distance negates"
            if again
            else "distances, or target and non-target exchanged",
            remedy=f"{mend}; if the attack is worse than chance indeed, add `{AS_IS}`: the result says so then",
            faults=[Fault(_describe_order(order, unit), where) for where, order in wrong.values()],
        )


def _describe_order(order: ClassOrder, unit: str) -> str:
    tested = "" if order.p_value is None else f" (p = {order.p_value:.1g} over {order.speakers} speakers)"
    return f"{unit} in {100 * order.auc:.1f} % of comparisons{tested}"
