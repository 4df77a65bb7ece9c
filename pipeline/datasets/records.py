"""Tables of Kaldi sets, line by line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pipeline.faults import Faults
from pipeline.names import normalise_name
from pipeline.tables import text

_BLANK = re.compile(r"[ \t]+")


@dataclass(frozen=True)
class Record:
    """A line of a table: the fields and ``file:line``."""

    fields: list[str]
    where: str


def records(path: Path, faults: Faults, fields: range, split: int = 0) -> Iterator[Record]:
    """The lines of a table that have a number of fields in the range; others are faults.

    ``split`` limits the fields, the last of which then keeps its blanks (file names in wav.scp).
    """
    for line, where in text.lines(path, faults):
        found = _BLANK.split(line, maxsplit=split - 1 if split else 0)
        if len(found) in fields:
            # The last field of a line that is split once is the path of a file, which has to stay as it is, or what is said.
            ids = len(found) - (split == len(found))
            yield Record(found if line.isascii() else [*map(normalise_name, found[:ids]), *found[ids:]], where)
        else:
            least, most = fields[0], fields[-1]
            wanted = f"{least}" if least == most else f"{least} or {most}" if most == least + 1 else f"{least} or more"
            odd = "" if line.replace("\t", " ").isprintable() else "; some of its blanks are none that part fields"
            faults.add("malformed", f"{len(found)} fields instead of {wanted}: '{line[:80]}'{odd}", where)
