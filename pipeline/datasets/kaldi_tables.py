"""Tables of Kaldi sets, line by line: records, ``segments``, attributes of speakers and utterances, and transcripts."""

from __future__ import annotations

import functools
import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline import contracts
from pipeline.datasets.listings import MOST_NAMED, Listing, Segment, Utterance
from pipeline.faults import TABLES, Faults
from pipeline.names import join_few, normalise_name
from pipeline.tables import text

_BLANK = re.compile(r"[ \t]+")


@dataclass(frozen=True)
class Record:
    """A line of a table: the fields and ``file:line``."""

    fields: list[str]
    where: str


def read_records(path: Path, faults: Faults, fields: range, split: int = 0) -> Iterator[Record]:
    """The lines of a table that have a number of fields in the range; others are faults.

    ``split`` limits the fields, the last of which then keeps its blanks (file names in wav.scp).
    """
    for line, where in text.lines(path, faults):
        cells = _BLANK.split(line, maxsplit=split - 1 if split else 0)
        if len(cells) in fields:
            # The last field of a line that is split once is the path of a file, which has to stay as it is, or what is said.
            ids = len(cells) - (split == len(cells))
            yield Record(cells if line.isascii() else [*map(normalise_name, cells[:ids]), *cells[ids:]], where)
        else:
            least, most = fields[0], fields[-1]
            wanted = f"{least}" if least == most else f"{least} or {most}" if most == least + 1 else f"{least} or more"
            odd = "" if line.replace("\t", " ").isprintable() else "; some of its blanks are none that part fields"
            faults.add("malformed", f"{len(cells)} fields instead of {wanted}: '{line[:80]}'{odd}", where)


def read_segments(lines: Iterable[Record], recordings: Collection[str], faults: Faults) -> dict[str, Segment]:
    """The sound lines of the table by utterance; what is wrong with the others is added to the faults.

    Args:
        lines: of the table, four or five fields each.
        recordings: the ids in ``wav.scp``.
        faults: of the data set.
    """
    segments: dict[str, Segment] = {}
    for line in lines:
        utterance, recording, *numbers = line.fields
        try:
            segment = _parse_segment(recording, numbers)
            if recording not in recordings:
                raise ValueError(f"the recording '{recording}' has no line in wav.scp")
        except ValueError as error:
            faults.add("segments", f"segment '{utterance}': {error}", line.where)
            continue
        segments.setdefault(utterance, segment)
    return segments


def _parse_segment(recording: str, numbers: list[str]) -> Segment:
    try:
        start, end = float(numbers[0]), float(numbers[1])
    except ValueError:
        raise ValueError(f"'{numbers[0]}' and '{numbers[1]}' are no times in seconds") from None
    if not (math.isfinite(start) and math.isfinite(end)) or start < 0:
        raise ValueError(f"'{numbers[0]}' to '{numbers[1]}' is no part of a recording")
    if end != -1 and end <= start:
        raise ValueError(f"it ends at {end:g} s, and begins at {start:g} s")
    if len(numbers) > 2 and not numbers[2].isdecimal():
        raise ValueError(f"'{numbers[2]}' is no channel; they are counted from 0")
    channel = int(numbers[2]) if len(numbers) > 2 else None
    return Segment(recording, start, None if end == -1 else end, channel)


AttributeValues = Mapping[tuple[str, str], str]
"""Of evaluated utterances, by (set, utterance)."""


def read_attributes(listing: Listing, names: Sequence[str]) -> dict[str, AttributeValues]:
    """The values of each attribute; what lacks one is a fault of the listing."""
    by_folder: dict[Path, list[Utterance]] = defaultdict(list)
    for row in listing.utterances:
        if row.role != "train" and row.transcripts is not None:
            by_folder[row.transcripts.parent].append(row)
    return {name: _read_attribute(name, by_folder, listing.faults) for name in names}


def _read_attribute(name: str, by_folder: Mapping[Path, Sequence[Utterance]], faults: Faults) -> AttributeValues:
    tables = (f"spk2{name}", f"utt2{name}")
    if by_folder and not any((folder / table).exists() for folder in by_folder for table in tables):
        faults.add("no-attribute", f"no set has a table {' or '.join(tables)}", "dataset.attributes")
        return {}
    of_speakers = {folder: _read_values(folder / f"spk2{name}", faults) for folder in by_folder}
    by_speaker = {speaker: value for table in of_speakers.values() for speaker, value in table.items()}
    values: dict[tuple[str, str], str] = {}
    for folder, rows in by_folder.items():
        of_utterances = _read_values(folder / f"utt2{name}", faults)
        here = by_speaker if not (folder / f"spk2{name}").exists() and not of_utterances else of_speakers[folder]
        lacking = set()
        for row in rows:
            value = of_utterances.get(row.utterance, here.get(row.speaker, ""))
            if value:
                values[row.set, row.utterance] = value
            else:
                lacking.add(row.utterance if of_utterances else row.speaker)
        kind, table = ("utterance", f"utt2{name}") if of_utterances else ("speaker", f"spk2{name}")
        for name_lacking in sorted(lacking)[:MOST_NAMED]:
            faults.add("no-attribute", f"{kind} '{name_lacking}' has no line in {table}", folder / table)
        if len(lacking) > MOST_NAMED:
            faults.add("no-attribute", f"and so have {len(lacking) - MOST_NAMED} more", folder / table)
    return values


def _read_values(path: Path, faults: Faults) -> dict[str, str]:
    """A table of two columns by its first; nothing where there is none."""
    values: dict[str, str] = {}
    if not path.exists():
        return values
    for record in read_records(path, faults, range(2, 3)):
        name, value = record.fields
        if values.setdefault(name, value) != value:
            faults.add("duplicate-id", f"'{name}' has a second line with another value", record.where)
    return values


TRANSCRIPTS_PLACE = "extractor text"

_TRANSCRIPTS_REMEDY = (
    "give a table text (UTTERANCE WORD WORD ...) in each Kaldi set, or SPEAKER-CHAPTER.trans.txt beside the audio of a "
    "LibriSpeech tree; or leave text out of extractor=[…]"
)

TRANSCRIPT_FAULTS = {
    "no-text": ("a data set that comes without transcripts, or tables that were not copied", _TRANSCRIPTS_REMEDY),
    "missing-text": (
        "tables cut down to different utterances",
        "add the utterances to the table, or leave text out of extractor=[…]; allow_partial=true goes on without them and "
        "marks the results",
    ),
    "missing-table": ("an incomplete copy of the set", _TRANSCRIPTS_REMEDY),
    **TABLES,
    "malformed": ("a damaged or hand-edited table", "correct the line"),
    "duplicate-id": ("tables joined twice", "keep one of the lines"),
    "disagrees": ("sets from different sources put together", "make the sets agree"),
}

Key = tuple[str, str]
"""(set, utterance)"""


class TranscriptTables(contracts.Transcripts):
    """Transcripts in the tables of a data set.

    Attributes:
        files: the table in which each evaluated utterance should stand, by (set, utterance).
        root: the data set, for messages.
    """

    def __init__(self, files: Mapping[Key, Path | None], root: str = "") -> None:
        self.files, self.root = dict(files), root

    def read_evaluated(self, *, allow_partial: bool) -> Mapping[Key, str]:
        transcripts, faults = self._read
        faults = [fault for fault in faults if not (allow_partial and fault[0] in ("missing-text", "missing-table"))]
        raised = Faults(TRANSCRIPT_FAULTS, "the transcripts have")
        for fault in faults:
            raised.add(*fault)
        raised.stop(self.root or TRANSCRIPTS_PLACE)
        return transcripts

    @functools.cached_property
    def _read(self) -> tuple[dict[Key, str], list[tuple[str, str, str]]]:
        """What the tables hold, and what is wrong with them: kind, what, where."""
        faults = Faults(TRANSCRIPT_FAULTS)
        wanted: dict[Path, list[Key]] = defaultdict(list)
        for key, file in self.files.items():
            if file is not None:
                wanted[file].append(key)
        present = [file for file in wanted if file.is_file()]
        if not present:
            return {}, [("no-text", "the data set has no transcripts", self.root)]
        transcripts: dict[Key, str] = {}
        for file, keys in wanted.items():
            if file not in present:
                named = join_few([name for _, name in keys], 3)
                faults.add(
                    "missing-table", f"there is no such table; it is to hold {len(keys)} utterances: {named}", file
                )
                continue
            table = read_transcripts(file, faults)
            for key in keys:
                if key[1] in table:
                    transcripts[key] = table[key[1]]
                else:
                    faults.add("missing-text", f"utterance '{key[1]}' of {key[0]} has no transcript", file)
        if not transcripts:
            faults.add("no-text", "no utterance of the data set has a transcript", self.root)
        # An utterance may stand in several sets if it says the same in all.
        first: dict[str, Key] = {}
        for key, words in transcripts.items():
            before = first.setdefault(key[1], key)
            if transcripts[before].upper().split() != words.upper().split():
                what = f"utterance '{key[1]}' says other words than in {before[0]}"
                faults.add("disagrees", what, str(self.files[key]))
        return transcripts, [(fault.kind, fault.what, fault.where) for fault in faults.found]


def read_transcripts(file: Path, faults: Faults) -> dict[str, str]:
    """The transcripts in a table by utterance; a second line of one is a fault."""
    transcripts: dict[str, str] = {}
    for record in read_records(file, faults, range(1, 3), split=2):
        utterance, words = record.fields[0], "".join(record.fields[1:])
        if utterance in transcripts:
            faults.add("duplicate-id", f"utterance '{utterance}' has a second line", record.where)
        transcripts.setdefault(utterance, words)
    return transcripts
