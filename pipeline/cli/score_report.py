"""The JSON that ``from-scores`` writes: values by path, and reasons, intervals and flags under the same paths."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from pipeline.errors import ConfigError
from pipeline.files import write_atomically
from pipeline.metrics import Interval, NullBand

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

    def interval(self, place: Place, found: Interval) -> None:
        """Set the interval of a value."""
        whole = found.low is not None and found.high is not None
        _set(self.intervals, place, [found.low, found.high] if whole else None)
        if not whole:
            _set(self.reasons, ("interval", *place), found.reason)

    def bands(self, found: Mapping[str, NullBand]) -> None:
        """Set the null bands."""
        for name, band in found.items():
            if band.low is None:
                self.put(("null_band", name), None, band.reason)
                continue
            for part in ("low", "median", "high", "p_value", "replicates"):
                self.put(("null_band", name, part), getattr(band, part))

    def text(self) -> str:
        """The report as JSON; infinities are the strings ``inf`` and ``-inf``."""
        whole = {**self.values, "interval": self.intervals, "reason": self.reasons, "notes": self.notes}
        return json.dumps(_plain(whole), indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def _set(tree: dict[str, Any], place: Place, value: Any) -> None:
    for name in place[:-1]:
        tree = tree.setdefault(name, {})
    tree[place[-1]] = value


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_plain(part) for part in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
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
