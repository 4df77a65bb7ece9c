"""Tables that say the sex of speakers: ``spk2gender``, CSV, and those that corpora bring (LibriSpeech, VCTK, VoxCeleb).

Cells are parted by '|', tabs, commas or blanks, the first of these that the table's first line has. A first line with a cell called sex
or gender is a header and says which columns count; without one they are the first and the second. Lines that begin with ';' or '#'
are comments.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection
from pathlib import Path

from pipeline.datasets.corpus import MOST_NAMED, Listing
from pipeline.names import join_few, make_id
from pipeline.tables import text

SEXES = {"f": "f", "female": "f", "m": "m", "male": "m", "u": "u", "unknown": "u"}
FILES = ("spk2gender", "SPEAKERS.TXT", "speakers.tsv", "speakers.csv", "speaker-info.txt", "spk-info.txt", "metainfo.txt",
         "vox1_meta.csv", "vox2_meta.csv")  # fmt: skip
"""Names of tables that are looked for in the root of a data set and in its parent, in capitals or not."""
_LIKE = re.compile(r"speaker|spk|gender|sex|meta", re.IGNORECASE)
"""What else may be such a table by its name."""


def read(given: str | None, root: Path, speakers: Collection[str], listing: Listing) -> dict[str, str]:
    """The sex of speakers, by id: from the table that is given, else from one that is called as corpora call it.

    A given table has to say something of each speaker. One that was found and names none of the speakers is another corpus's.

    Args:
        given: the table, by ``dataset.sexes``.
        root: the data set.
        speakers: those of the data set.
        listing: gets faults and notes.
    """
    faults = listing.faults
    table, others = (Path(given).expanduser().absolute(), []) if given is not None else _beside(root)
    if table is None:
        looked = f"no {', '.join(FILES)} in the root or its parent"
        hint = (
            f"; dataset.sexes={shlex.quote(str(others[0]))} reads {others[0].name}, which may be one" if others else ""
        )
        listing.notes.append(f"{looked}: the sex of speakers is unknown{hint}")
        return {}
    if not table.is_file():
        faults.add("root", f"there is no table '{given}'", "dataset.sexes")
        return {}
    found = _cells(table, listing)
    known = speakers & found.keys()
    if not known and given is None:
        listing.notes.append(f"{table} names none of the speakers: their sex is unknown")
        return {}
    lacking = sorted(set(speakers) - found.keys())
    if not known and found:
        who = f"it names {join_few([*found], 3)}; the speakers are {join_few(lacking, 3)}"
        faults.add("no-sex", f"the table names none of the {len(lacking)} speakers: {who}", table)
        return {}
    for speaker in lacking[:MOST_NAMED]:
        faults.add("no-sex", f"speaker '{speaker}' has no line in {table.name}", table)
    if len(lacking) > MOST_NAMED:
        faults.add("no-sex", f"and so have {len(lacking) - MOST_NAMED} more", table)
    return found


def _beside(root: Path) -> tuple[Path | None, list[Path]]:
    """The table in a root or its parent, the first by :data:`FILES`, and what else may be one by its name."""
    there = [path for folder in (root, root.parent) for path in sorted(folder.iterdir()) if path.is_file()]
    called = [path for name in FILES for path in there if path.name.casefold() == name.casefold()]
    others = [path for path in there if _LIKE.search(path.name) and path.suffix.lower() in ("", ".txt", ".csv", ".tsv")]
    return next(iter(called), None), others


def _cells(table: Path, listing: Listing) -> dict[str, str]:
    """Sex by speaker; lines that say none are faults."""
    before = len(listing.faults.found)
    # The names of readers may come in any encoding: only ids and sexes are read.
    lines = [
        line
        for line in text.lines(table, listing.faults, undecodable="replace")
        if not line.text.startswith((";", "#"))
    ]
    if not lines:
        if len(listing.faults.found) == before:
            listing.faults.add("empty", "the table of speakers has no line", table)
        return {}
    parted = next((sign for sign in ("|", "\t", ",") if sign in lines[0].text), None)
    header = [cell.lower() for cell in _split(lines[0].text, parted)]
    named = next((place for place, cell in enumerate(header) if re.search(r"\b(sex|gender)\b", cell)), None)
    who, what = 0, 1
    if named is not None:
        what = named
        who = next((place for place, cell in enumerate(header) if re.search(r"\bid\b|speaker|spk", cell)), 0)
        lines = lines[1:]
    found: dict[str, str] = {}
    for line in lines:
        cells = _split(line.text, parted)
        sex = SEXES.get(cells[what].lower()) if len(cells) > max(who, what) and cells[who] else None
        if sex is None or "\ufffd" in cells[who]:
            listing.faults.add("malformed", f"no speaker with sex f or m: '{line.text[:80]}'", line.where)
        elif found.setdefault(make_id(cells[who]), sex) != sex:
            listing.faults.add("disagrees", f"speaker '{cells[who]}' is listed with both sexes", line.where)
    return found


def _split(line: str, parted: str | None) -> list[str]:
    return [cell.strip().strip('"') for cell in line.strip().split(parted)]
