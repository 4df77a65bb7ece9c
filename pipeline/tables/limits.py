"""What a reader of a run's numbers must know first: ``limits.json`` of a run folder, a list of sentences.

A limit is something that the numbers do not show: a protocol that was made here because no lists came with the data, sexes that
nobody knows, sets, utterances and trials that were left out, and what was asked for and gives no row. It stands above all tables of
the report, of what is printed, and of Markdown and LaTeX.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from pipeline.files import write_atomically
from pipeline.tables import status, written

FILE = "limits.json"
TITLE = "Know before you read the numbers"
SEXES = "sexes unknown: pairs across sexes are tried, which is easier to resist"

FAILED = f"tasks of this run failed, and which systems have no row for it cannot be told: its {FILE} is gone"


def write(folder: Path, limits: Sequence[str]) -> None:
    """Write the limits, each once, in their order."""
    write_atomically(folder / FILE, json.dumps(list(dict.fromkeys(limits)), indent=1) + "\n")


def read(folder: Path) -> list[str]:
    """The limits of a run; none of one that earlier versions made, but that it failed where it did.

    Raises:
        DataError: there is such a file, and it is no list.
    """
    if not (folder / FILE).exists():
        return [FAILED] if status.read(folder).get("state") == "failed" else []
    found = written.json_of(folder / FILE)
    if not isinstance(found, list):
        raise written.changed(folder, [FILE])
    return [str(one) for one in found]
