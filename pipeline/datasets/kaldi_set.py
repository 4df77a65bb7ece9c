"""One Kaldi set: what its tables say, and where its audio lies."""

from __future__ import annotations

import logging
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.datasets import kaldi_tables, listings, pipes, trial_lists
from pipeline.datasets.kaldi_tables import Record, read_records
from pipeline.datasets.listings import Listing, Segment, Utterance
from pipeline.datasets.pipes import Entry
from pipeline.datasets.settings import DatasetSettings
from pipeline.datasets.trees import SEXES
from pipeline.faults import Faults
from pipeline.names import find_existing, join_few, normalise_name

log = logging.getLogger(__name__)


@dataclass
class KaldiSet:
    """The tables of one set: ``audio`` are the lines of its utterances in wav.scp, or in segments where there is one; ``entries``
    what wav.scp says, with its line, by utterance or recording."""

    name: str
    folder: Path
    audio: list[Record] = field(default_factory=list)
    entries: dict[str, tuple[Record, Entry]] = field(default_factory=dict)
    segments: dict[str, Segment] | None = None
    speakers: dict[str, str] = field(default_factory=dict)
    sexes: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    enrolls: list[Record] | None = None
    trials: dict[str, list[Record]] = field(default_factory=dict)  # by name: that of the file, if it begins with trials
    notes: list[str] = field(default_factory=list)
    moved: bool = False  # no file is where its absolute paths say, which has been reported

    def where(self, table: str) -> str:
        return str(self.folder / table)


def find_trial_files(folder: Path) -> list[Path]:
    """The lists of a set: those that are called as the recipes call them, else what else is one by its name."""
    called = sorted(
        path for path in folder.iterdir() if re.fullmatch(r"trials(_\w+)?", path.name) and not path.is_dir()
    )
    return called or trial_lists.find_lists(folder, trial_lists.TRIALS_FILE)


# Tables --------------------------------------------------------------------------------------------------------------


def _read_mapping(path: Path, faults: Faults) -> dict[str, Record]:
    """A table of two columns by its first; a second line for a key is a fault."""
    mapping: dict[str, Record] = {}
    for record in read_records(path, faults, range(2, 3)):
        before = mapping.setdefault(record.fields[0], record)
        if before is not record:
            faults.add("duplicate-id", f"'{record.fields[0]}' has a second line, first {before.where}", record.where)
    return mapping


def read_set(folder: Path, faults: Faults) -> KaldiSet:
    kaldi_set = _read_audio_tables(folder, faults)
    n_faults = len(faults.found)
    if (folder / "utt2spk").exists():
        owners = _read_mapping(folder / "utt2spk", faults)
    elif (folder / "spk2utt").exists():
        owners = {}
        for record in read_records(folder / "spk2utt", faults, range(2, 1 << 30)):
            for utterance in record.fields[1:]:
                before = owners.setdefault(utterance, Record([utterance, record.fields[0]], record.where))
                if before.where != record.where:
                    faults.add(
                        "duplicate-id",
                        f"utterance '{utterance}' has a second speaker, first {before.where}",
                        record.where,
                    )
    else:
        owners = {}
        faults.add("missing-table", "neither utt2spk nor spk2utt says who speaks", folder)
    if not owners and len(faults.found) == n_faults:
        table = "utt2spk" if (folder / "utt2spk").exists() else "spk2utt"
        faults.add("empty", f"{table} names no speaker", folder / table)
    kaldi_set.speakers = {utterance: record.fields[1] for utterance, record in owners.items()}
    listed = {record.fields[0] for record in kaldi_set.audio}
    for utterance, record in owners.items() if listed else ():
        if utterance not in listed:
            table = "wav.scp" if kaldi_set.segments is None else "segments"
            faults.add("no-audio-line", f"utterance '{utterance}' has a speaker but no line in {table}", record.where)
    _read_sexes(kaldi_set, faults)
    if (folder / "utt2dur").exists():
        for utterance, record in _read_mapping(folder / "utt2dur", faults).items():
            try:
                kaldi_set.seconds[utterance] = float(record.fields[1])
            except ValueError:
                faults.add("malformed", f"'{record.fields[1]}' is no duration in seconds", record.where)
    if (folder / "enrolls").exists():
        kaldi_set.enrolls = list(read_records(folder / "enrolls", faults, range(1, 2)))
    paths = find_trial_files(folder)
    for name, path in zip(trial_lists.name_sets(paths), paths):
        kaldi_set.trials[name] = trial_lists.read_trials(path, faults, kaldi_set.notes)
    return kaldi_set


def _read_audio_tables(folder: Path, faults: Faults) -> KaldiSet:
    """A set with what ``wav.scp`` and ``segments`` say of it, and nothing else."""
    kaldi_set = KaldiSet(normalise_name(folder.name), folder)
    if not (folder / "wav.scp").exists():
        faults.add("missing-table", "the set has no wav.scp", folder)
        return kaldi_set
    n_faults = len(faults.found)
    kaldi_set.audio = list(read_records(folder / "wav.scp", faults, range(2, 3), split=2))
    if not kaldi_set.audio and len(faults.found) == n_faults:
        faults.add("empty", "wav.scp lists no utterance", folder / "wav.scp")
    for record in kaldi_set.audio:
        kaldi_set.entries.setdefault(record.fields[0], (record, pipes.parse_entry(record.fields[1])))
    if (folder / "segments").exists():
        _read_segments(kaldi_set, faults)
    return kaldi_set


def list_audio(folders: Sequence[Path], follow_links: bool, listing: Listing) -> dict[Path, list[Utterance]]:
    """The utterances of sets by ``wav.scp`` and ``segments`` alone, by folder: of copies, who speaks is said by the original.

    Args:
        folders: of the sets. Relative paths start in one of them, up to two folders above, or in the current one.
        follow_links: whether links may lead out of there.
        listing: gets the faults. An utterance whose file may not or cannot be read has no path.
    """
    sets = [_read_audio_tables(folder, listing.faults) for folder in folders]
    starts = [place for up in (1, 0) for folder in folders for place in folder.parents[up : up + 1]]
    start = find_start(sets, [*starts, *folders, Path.cwd()], folders[0].parent, listing) if sets else None
    return {
        kaldi_set.folder: list_utterances(kaldi_set, "copy", start, listing.faults, follow_links) for kaldi_set in sets
    }


def _read_segments(kaldi_set: KaldiSet, faults: Faults) -> None:
    """Have the utterances of a set be those of its table ``segments``; a recording that stands twice is a fault."""
    first: dict[str, Record] = {}
    for record in kaldi_set.audio:
        before = first.setdefault(record.fields[0], record)
        if before is not record:
            what = f"recording '{record.fields[0]}' stands twice, first in {before.where}"
            faults.add("duplicate-id", what, record.where)
    table, n_faults = kaldi_set.folder / "segments", len(faults.found)
    lines = list(read_records(table, faults, range(4, 6)))
    if not lines and len(faults.found) == n_faults:
        faults.add("empty", "the table segments has no line", table)
    kaldi_set.audio, kaldi_set.segments = lines, kaldi_tables.read_segments(lines, kaldi_set.entries, faults)


def _read_sexes(kaldi_set: KaldiSet, faults: Faults) -> None:
    """The sex of each speaker from ``spk2gender``, if the set has it; a speaker without a line is a fault."""
    table = kaldi_set.folder / "spk2gender"
    if not table.exists():
        return
    n_faults = len(faults.found)
    for speaker, record in _read_mapping(table, faults).items():
        sex = SEXES.get(record.fields[1].lower())
        if sex is None:
            faults.add("malformed", f"'{record.fields[1]}' is no sex; f, m or u is", record.where)
        kaldi_set.sexes[speaker] = sex or "u"
    if not kaldi_set.sexes and len(faults.found) > n_faults:
        return
    for speaker in sorted(set(kaldi_set.speakers.values()) - set(kaldi_set.sexes)):
        faults.add("no-sex", f"speaker '{speaker}' has no line in spk2gender", table)


# Audio ---------------------------------------------------------------------------------------------------------------


def find_audio_root(
    settings: DatasetSettings, sets: list[KaldiSet], candidates: list[Path], where: Path, listing: Listing
) -> Path | None:
    """Where relative paths of the evaluated sets start: ``dataset.audio_root`` alone, if given, else one of the candidates."""
    if settings.audio_root is not None:
        candidates = [Path(settings.audio_root).expanduser().absolute()]
        if not candidates[0].is_dir():
            listing.faults.add("root", f"there is no folder '{settings.audio_root}'", "dataset.audio_root")
            return None
    return find_start(sets, candidates, where, listing)


def find_start(sets: list[KaldiSet], candidates: list[Path], where: Path, listing: Listing) -> Path | None:
    """The first candidate under which most relative paths exist; None if none does, which is a fault."""
    candidates = list(dict.fromkeys(candidates))
    _report_moved(sets, where, listing.faults)
    read = [entry.file for kaldi_set in sets for _, entry in kaldi_set.entries.values() if not entry.why]
    relative = [path for path in read if not _is_absolute(path)]
    if not relative:
        return candidates[0]
    counts = []
    for candidate in candidates:
        counts.append(sum(map(os.path.exists, _join_paths(candidate, relative))))
        if counts[-1] == len(relative):
            break
    best = max(range(len(counts)), key=counts.__getitem__)
    if not counts[best] and len(relative) > 1:
        tried = join_few([str(candidate) for candidate in candidates], 6)
        listing.faults.add(
            "missing-audio",
            f"none of the {len(relative)} relative paths of wav.scp exists under {tried}; the first is '{relative[0]}'",
            where,
        )
        return None
    log.info("relative paths of wav.scp start from %s (%d of %d exist)", candidates[best], counts[best], len(relative))
    return candidates[best]


def _report_moved(sets: Sequence[KaldiSet], where: Path, faults: Faults) -> None:
    """Report the sets of which no absolute path exists as one fault, and not one a file."""
    paths: list[str] = []
    for kaldi_set in sets:
        absolute = [entry.file for _, entry in kaldi_set.entries.values() if not entry.why and _is_absolute(entry.file)]
        kaldi_set.moved = bool(absolute) and not any(find_existing(Path(path)).exists() for path in absolute)
        paths += absolute if kaldi_set.moved else []
    if paths:
        what = f"none of the {len(paths)} absolute paths of wav.scp exists, the first is '{paths[0]}': they are of another machine or folder"
        faults.add("missing-audio", what, where)


def _is_absolute(path: str) -> bool:
    return path.startswith("/")


def _join_paths(folder: Path, paths: Iterable[str]) -> Iterator[str]:
    """Relative paths below a folder, as they are there; a corpus has many, and joining paths takes its time."""
    for path in paths:
        joined = f"{folder}/{path}"
        yield joined if joined.isascii() else str(find_existing(folder / path))


def list_utterances(
    kaldi_set: KaldiSet, role: str, start: Path | None, faults: Faults, follow_links: bool
) -> list[Utterance]:
    """The utterances of a set; a file that may not or cannot be read has no path."""
    rows = []
    paths = _find_paths(kaldi_set, start, faults, follow_links)
    for position, record in enumerate(kaldi_set.audio):
        utterance = record.fields[0]
        speaker = kaldi_set.speakers.get(utterance, "")
        if not speaker and kaldi_set.speakers:
            faults.add("no-speaker", f"utterance '{utterance}' has no speaker in utt2spk", record.where)
        if "/" in utterance:
            faults.add("malformed", f"an utterance id may not hold '/': '{utterance}'", record.where)
        segment = kaldi_set.segments.get(utterance) if kaldi_set.segments is not None else None
        path, entry = None, None
        if kaldi_set.segments is None or segment is not None:
            recording = segment.recording if segment else utterance
            path, entry = paths[recording], kaldi_set.entries[recording][1]
        rows.append(
            Utterance(
                kaldi_set.name,
                role,
                utterance,
                speaker,
                kaldi_set.sexes.get(speaker, "u"),
                path,
                record.where,
                position,
                kaldi_set.seconds.get(utterance),
                kaldi_set.folder / "text",
                entry,
                segment,
            )
        )
    return rows


def _find_paths(kaldi_set: KaldiSet, start: Path | None, faults: Faults, follow_links: bool) -> dict[str, Path | None]:
    """The file of each entry of wav.scp, by utterance or recording; None for one that may not or cannot be read."""
    path_of: dict[str, Path | None] = {}
    fence = listings.Fence(start or kaldi_set.folder, follow_links)
    strange: dict[str, list[tuple[Record, str]]] = {"pipe": [], "archive": []}
    outside: list[tuple[Record, Path]] = []
    for name, (record, entry) in kaldi_set.entries.items():
        path: Path | None = None
        why = entry.why
        if why:
            pass
        elif _is_absolute(entry.file):
            path = find_existing(Path(entry.file)) if not kaldi_set.moved else None
        elif start is not None:
            path = find_existing(start / entry.file)
            if not fence.holds(path):
                outside.append((record, path))
                path = None
        if path is not None and not why:
            why = pipes.describe_change(entry, path)
        if why:
            strange["archive" if entry.is_archive else "pipe"].append((record, why))
        path_of[name] = None if why else path
    if outside:
        record, path = outside[0]
        also = f", and so do {len(outside) - 1} more paths" if len(outside) > 1 else ""
        what = f"'{record.fields[1]}' leads out of {start}, to {os.path.realpath(path)}{also}"
        faults.add("leaves-root", what, record.where)
    for kind, entries in strange.items():
        if entries:
            _refuse_entries(kaldi_set, kind, entries, faults)
    return path_of


def _refuse_entries(kaldi_set: KaldiSet, kind: str, refused: list[tuple[Record, str]], faults: Faults) -> None:
    """Report entries that are not read: how many, and why each is not."""
    first = refused[0][0]
    counted = Counter(why for _, why in refused).most_common()
    reasons = join_few([f"{why}: {count}" if len(counted) > 1 else why for why, count in counted])
    faults.add(
        "pipe",
        f"{len(refused)} entries are {'shell pipes' if kind == 'pipe' else 'places in archives'}, not files, the first is "
        f"'{first.fields[1][:80]}' ({reasons})",
        first.where,
    )
