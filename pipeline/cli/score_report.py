"""The JSON that ``from-scores`` writes: values by path, and reasons, intervals and flags under the same paths."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from pipeline.errors import ConfigError, DataError, Fault
from pipeline.files import write_atomically
from pipeline.metrics import ClassOrder, Interval, NullBand

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

    def reason(self, place: Place, text: str) -> None:
        """Why what belongs to a place is left out."""
        _set(self.reasons, place, text)

    def interval(self, place: Place, interval: Interval) -> None:
        """Set the interval of a value."""
        is_defined = interval.low is not None and interval.high is not None
        _set(self.intervals, place, [interval.low, interval.high] if is_defined else None)
        if not is_defined:
            _set(self.reasons, ("interval", *place), interval.reason)

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
        return json.dumps(_to_plain(everything), indent=1, allow_nan=False, ensure_ascii=False) + "\n"


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


def check_output(out: str) -> None:
    """Refuse an output that cannot be written, before anything is computed.

    Raises:
        ConfigError: its folder does not exist, or it is a folder.
    """
    if out == "-":
        return
    if Path(out).is_dir():
        raise ConfigError(f"--json {out} is a folder", remedy="give the path of a file, or - for standard output")
    if not Path(out).absolute().parent.is_dir():
        raise ConfigError(f"the folder of --json {out} does not exist", remedy=f"mkdir -p {Path(out).parent}")


def write(text: str, out: str) -> None:
    """Write the report whole or not at all.

    Raises:
        ConfigError: the file cannot be written.
    """
    if out == "-":
        sys.stdout.write(text if _is_utf8(sys.stdout) else _ascii(text))
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
        raise ConfigError(f"cannot write --json {out}: {error.strerror}") from error


def _is_utf8(stream: TextIO) -> bool:
    return (stream.encoding or "utf-8").lower().replace("-", "") == "utf8"


def _ascii(text: str) -> str:
    """The same JSON without a character beyond ASCII; such characters stand in strings alone."""
    return "".join(each if each.isascii() else json.dumps(each)[1:-1] for each in text)


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
        raise _refusal(wrong, list(orders), negated, unit)


def _refusal(
    wrong: Mapping[str, tuple[str, ClassOrder]], names: Sequence[str], negated: Sequence[str], unit: str
) -> DataError:
    again = [name for name in wrong if name in negated]
    if again:
        cause = "similarities, which --distance negates, or target and non-target exchanged"
        rest = [name for name in negated if name not in again]
        mend = f"give `--distance {' '.join(rest)}`" if rest else "leave out --distance"
    else:
        cause = "distances, or target and non-target exchanged in labels or in scores"
        distances = sorted({*wrong, *negated}, key=list(names).index)
        which = "" if len(distances) == len(names) else f" {' '.join(distances)}"
        mend = f"if lower means more similar, add `--distance{which}`"
    return DataError(
        "the scores order the classes the wrong way round, beyond chance",
        where=", ".join(where for where, _ in wrong.values()),
        cause=cause,
        remedy=f"{mend}; if the attack is worse than chance indeed, add `{AS_IS}`: the result says so then",
        faults=[Fault(_describe_order(order, unit), where) for where, order in wrong.values()],
    )


def _describe_order(order: ClassOrder, unit: str) -> str:
    tested = "" if order.p_value is None else f" (p = {order.p_value:.1g} over {order.speakers} speakers)"
    return f"{unit} in {100 * order.auc:.1f} % of comparisons{tested}"
