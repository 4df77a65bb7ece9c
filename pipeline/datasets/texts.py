"""The transcripts of a data set: tables ``text`` of Kaldi sets, ``SPEAKER-CHAPTER.trans.txt`` of LibriSpeech trees.

Lines are ``UTTERANCE WORD WORD ...``. Nothing is read before somebody asks.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from pipeline import contracts
from pipeline.datasets.records import records
from pipeline.faults import TABLES, Faults
from pipeline.names import join_few

WHERE = "extractor text"
_REMEDY = (
    "give a table text (UTTERANCE WORD WORD ...) in each Kaldi set, or SPEAKER-CHAPTER.trans.txt beside the audio of a "
    "LibriSpeech tree; or leave text out of extractor=[…]"
)
KINDS = {
    "no-text": ("a data set that comes without transcripts, or tables that were not copied", _REMEDY),
    "missing-text": (
        "tables cut down to different utterances",
        "add the utterances to the table, or leave text out of extractor=[…]; allow_partial=true goes on without them and "
        "marks the results",
    ),
    "missing-table": ("an incomplete copy of the set", _REMEDY),
    **TABLES,
    "malformed": ("a damaged or hand-edited table", "correct the line"),
    "duplicate-id": ("tables joined twice", "keep one of the lines"),
    "disagrees": ("sets from different sources put together", "make the sets agree"),
}

Key = tuple[str, str]
"""(set, utterance)"""


class Tables(contracts.Transcripts):
    """Transcripts in the tables of a data set.

    Attributes:
        files: the table in which each evaluated utterance should stand, by (set, utterance).
        root: the data set, for messages.
    """

    def __init__(self, files: Mapping[Key, Path | None], root: str = "") -> None:
        self.files, self.root = dict(files), root

    def evaluated(self, *, allow_partial: bool) -> Mapping[Key, str]:
        found, faults = self._read
        faults = [fault for fault in faults if not (allow_partial and fault[0] in ("missing-text", "missing-table"))]
        raised = Faults(KINDS, "the transcripts have")
        for fault in faults:
            raised.add(*fault)
        raised.stop(self.root or WHERE)
        return found

    @functools.cached_property
    def _read(self) -> tuple[dict[Key, str], list[tuple[str, str, str]]]:
        """What the tables hold, and what is wrong with them: kind, what, where."""
        faults = Faults(KINDS)
        asked: dict[Path, list[Key]] = defaultdict(list)
        for key, file in self.files.items():
            if file is not None:
                asked[file].append(key)
        there = [file for file in asked if file.is_file()]
        if not there:
            return {}, [("no-text", "the data set has no transcripts", self.root)]
        found: dict[Key, str] = {}
        for file, keys in asked.items():
            if file not in there:
                named = join_few([name for _, name in keys], 3)
                faults.add(
                    "missing-table", f"there is no such table; it is to hold {len(keys)} utterances: {named}", file
                )
                continue
            said = read(file, faults)
            for key in keys:
                if key[1] in said:
                    found[key] = said[key[1]]
                else:
                    faults.add("missing-text", f"utterance '{key[1]}' of {key[0]} has no transcript", file)
        if not found:
            faults.add("no-text", "no utterance of the data set has a transcript", self.root)
        _agree(found, self.files, faults)
        return found, [(fault.kind, fault.what, fault.where) for fault in faults.found]


def read(file: Path, faults: Faults) -> dict[str, str]:
    """The transcripts in a table by utterance; a second line of one is a fault."""
    found: dict[str, str] = {}
    for record in records(file, faults, range(1, 3), split=2):
        utterance, said = record.fields[0], "".join(record.fields[1:])
        if utterance in found:
            faults.add("duplicate-id", f"utterance '{utterance}' has a second line", record.where)
        found.setdefault(utterance, said)
    return found


def _agree(found: Mapping[Key, str], files: Mapping[Key, Path | None], faults: Faults) -> None:
    """An utterance may stand in several sets if it says the same in all."""
    first: dict[str, Key] = {}
    for key, said in found.items():
        before = first.setdefault(key[1], key)
        if found[before].upper().split() != said.upper().split():
            faults.add("disagrees", f"utterance '{key[1]}' says other words than in {before[0]}", str(files[key]))
