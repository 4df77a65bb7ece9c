"""Attributes of speakers and utterances: tables ``spk2NAME`` or ``utt2NAME`` of Kaldi sets, such as ``spk2accent`` and ``utt2emo``.

A set may have either. One that has neither takes the values of its speakers from the tables ``spk2NAME`` of the other sets.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from pipeline.datasets.corpus import MOST_NAMED, Listed, Listing
from pipeline.datasets.records import records
from pipeline.faults import Faults

Values = Mapping[tuple[str, str], str]
"""Of evaluated utterances, by (set, utterance)."""


def read(listing: Listing, names: Sequence[str]) -> dict[str, Values]:
    """The values of each attribute; what lacks one is a fault of the listing."""
    by_folder: dict[Path, list[Listed]] = defaultdict(list)
    for row in listing.utterances:
        if row.role != "train" and row.transcripts is not None:
            by_folder[row.transcripts.parent].append(row)
    return {name: _of(name, by_folder, listing.faults) for name in names}


def _of(name: str, by_folder: Mapping[Path, Sequence[Listed]], faults: Faults) -> Values:
    tables = (f"spk2{name}", f"utt2{name}")
    if by_folder and not any((folder / table).exists() for folder in by_folder for table in tables):
        faults.add("no-attribute", f"no set has a table {' or '.join(tables)}", "dataset.attributes")
        return {}
    of_speakers = {folder: _table(folder / f"spk2{name}", faults) for folder in by_folder}
    known = {speaker: value for table in of_speakers.values() for speaker, value in table.items()}
    found: dict[tuple[str, str], str] = {}
    for folder, rows in by_folder.items():
        of_utterances = _table(folder / f"utt2{name}", faults)
        here = known if not (folder / f"spk2{name}").exists() and not of_utterances else of_speakers[folder]
        lacking = set()
        for row in rows:
            value = of_utterances.get(row.utterance, here.get(row.speaker, ""))
            if value:
                found[row.set, row.utterance] = value
            else:
                lacking.add(row.utterance if of_utterances else row.speaker)
        kind, table = ("utterance", f"utt2{name}") if of_utterances else ("speaker", f"spk2{name}")
        for one in sorted(lacking)[:MOST_NAMED]:
            faults.add("no-attribute", f"{kind} '{one}' has no line in {table}", folder / table)
        if len(lacking) > MOST_NAMED:
            faults.add("no-attribute", f"and so have {len(lacking) - MOST_NAMED} more", folder / table)
    return found


def _table(path: Path, faults: Faults) -> dict[str, str]:
    """A table of two columns by its first; nothing where there is none."""
    found: dict[str, str] = {}
    if not path.exists():
        return found
    for record in records(path, faults, range(2, 3)):
        name, value = record.fields
        if found.setdefault(name, value) != value:
            faults.add("duplicate-id", f"'{name}' has a second line with another value", record.where)
    return found
