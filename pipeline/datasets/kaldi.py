"""Kaldi sets: folders with the tables ``wav.scp utt2spk spk2gender trials enrolls utt2dur spk2utt``.

What a root may hold, in this order of preference:

1. ``X_enrolls`` and its ``X_trials`` or ``X_trials_*``, as the VoicePrivacy recipes make them. Anonymised copies beside
   them (``X_trials_f_mcadams`` where ``X_enrolls_mcadams`` exists) and sets of other names are passed over, and said so.
2. Sets with lists inside, as the challenge hands them out: ``NAME`` with ``enrolls`` and ``trials_f``, ``trials_m`` or
   ``trials``. They are cut into ``NAME_enrolls``, ``NAME_trials_f``, ... Without ``enrolls`` a list compares utterances
   (:mod:`pipeline.datasets.trial_lists`).
3. Sets without lists: each speaker's utterances are halved (:func:`pipeline.datasets.corpus.halved`).

A root that is itself a set is treated like one of 2 or 3. Lines may stand in any order, with blanks at their ends. Absent
tables: ``utt2spk`` follows from ``spk2utt``; without ``spk2gender`` the sex is 'u'; without ``enrolls`` a model is made of all
utterances of its speaker; without ``trials`` all same-sex pairs are tried, or all pairs where no sex is known; labels may be
left out of ``trials``. Sets of 3 whose names are those of enrolment and trials are refused (:mod:`pipeline.datasets.names`).
``utt2dur`` serves to notice files of another length. ``text`` is read where somebody asks what is said
(:mod:`pipeline.datasets.texts`).

An entry of ``wav.scp`` is a file, a command that only decodes one (:mod:`pipeline.datasets.pipes`), or a place in an archive. Where
there is a table ``segments``, the utterances are cut out of them (:mod:`pipeline.datasets.cutting`).
"""

from __future__ import annotations

import logging
import os
import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pipeline.datasets import corpus, names, pipes, relocated, segments, trial_lists
from pipeline.datasets.corpus import Enrolled, Listed, Listing, TrialList
from pipeline.datasets.pipes import Entry
from pipeline.datasets.records import Record, records
from pipeline.datasets.segments import Segment
from pipeline.datasets.settings import DatasetSettings
from pipeline.datasets.sexes import SEXES
from pipeline.faults import Faults
from pipeline.names import find_existing, join_few, normalise_name

log = logging.getLogger(__name__)

_OF_A_PAIR = re.compile(r"_(enrolls|trials(_.*)?)$")


@dataclass
class _Set:
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


@dataclass(frozen=True)
class Cut:
    """How a set with its lists inside is cut: the table of enrolment and those of trials, each with the set that is made of it."""

    folder: Path
    enrolment: tuple[str, str]
    trials: Mapping[str, str]


def add(settings: DatasetSettings, root: Path, listing: Listing) -> None:
    """List the Kaldi sets of ``root`` for evaluation, but for the training set, if that lies among them.

    Raises:
        DataError: it holds no sets; with the faults so far.
    """
    pairs, singles = _discover(root, settings, listing)
    add_sets(settings, root, listing, pairs, singles, starts=[root, root.parent, Path.cwd()])
    if singles:
        corpus.select(listing, wanted_sets(settings), "dataset.sets")


def add_sets(
    settings: DatasetSettings,
    root: Path,
    listing: Listing,
    pairs: Sequence[tuple[Path, Sequence[Path]]],
    singles: Sequence[Path] = (),
    cuts: Sequence[Cut] = (),
    *,
    starts: Sequence[Path],
) -> None:
    """List enrolment sets with their trial sets, sets that stand alone, and sets that are cut by the lists within them.

    Args:
        settings: of the data set.
        root: the data set, for messages.
        listing: gets the sets and their faults.
        pairs: the folder of an enrolment set, and those of its trial sets.
        singles: the folders of sets that are cut by their lists, or halved.
        cuts: how other sets are cut.
        starts: where relative paths of ``wav.scp`` may start.
    """
    links = settings.follow_links
    enrolments = [_tables(folder, listing.faults) for folder, _ in pairs]
    groups = [[_tables(folder, listing.faults) for folder in folders] for _, folders in pairs]
    alone = [_tables(folder, listing.faults) for folder in singles]
    whole = [_tables(cut.folder, listing.faults) for cut in cuts]

    sets = [*enrolments, *(one for group in groups for one in group), *alone, *whole]
    listing.notes += [note for one in sets for note in one.notes]
    start = _audio_root(settings, sets, [*starts], root, listing)
    for enrolment, group in zip(enrolments, groups):
        listing.utterances += _utterances(enrolment, "enrolment", start, listing.faults, links)
        for one in group:
            listing.utterances += _utterances(one, "trial", start, listing.faults, links)
    _fill_sexes(listing)
    for enrolment, group in zip(enrolments, groups):
        enrolled = _enrolled(enrolment, listing.faults)
        for one in group:
            _add_list(listing, one.name, enrolment.name, enrolled, *_list_of(one, listing.faults))
    for one in alone:
        _add_single(listing, one, _utterances(one, "trial", start, listing.faults, links), settings.seed)
    halved = [one.name for one in alone if not one.trials and one.enrolls is None]
    if halved:
        corpus.halves_made(listing, halved, settings.seed)
    for one, cut in zip(whole, cuts):
        table = cut.folder / cut.enrolment[0]
        if table.exists():
            one.enrolls = list(records(table, listing.faults, range(1, 2)))
            _add_cut(
                listing, one, _utterances(one, "trial", start, listing.faults, links), cut.enrolment[1], cut.trials
            )
        else:
            listing.faults.add("missing-table", f"the set {one.name} has lists of trials and no {table.name}", table)


def wanted_sets(settings: DatasetSettings) -> list[str] | None:
    """``dataset.sets`` as names are kept here."""
    return None if settings.sets is None else [normalise_name(name) for name in settings.sets]


def holds_sets(folder: Path) -> bool:
    """Whether a folder is a Kaldi set or holds some."""
    return bool(_sets(folder))


def add_training(settings: DatasetSettings, folder: Path, listing: Listing) -> None:
    """List the one Kaldi set that a folder is or holds as training set; its lists of trials do not matter."""
    found = _sets(folder)
    if len(found) > 1:
        names = ", ".join(one.name for one in found)
        listing.faults.add("train", f"the folder holds {len(found)} sets ({names}), and one is trained on", folder)
        return
    corpus.check_name(found[0], normalise_name(found[0].name), listing.faults)
    one = _tables(found[0], listing.faults)
    candidates = [one.folder, one.folder.parent, one.folder.parent.parent, Path.cwd()]
    if settings.audio_root is not None:
        candidates.insert(0, Path(settings.audio_root).expanduser().absolute())
    start = _start([one], candidates, one.folder, listing)
    listing.utterances += _utterances(one, "train", start, listing.faults, settings.follow_links)


def _sets(folder: Path) -> list[Path]:
    return [one for one in (folder, *sorted(folder.iterdir())) if (one / "wav.scp").exists()]


# Which folders -------------------------------------------------------------------------------------------------------


def _discover(
    root: Path, settings: DatasetSettings, listing: Listing
) -> tuple[list[tuple[Path, list[Path]]], list[Path]]:
    """The enrolment folders with their trial folders, or else the folders of sets that stand alone."""
    faults = listing.faults
    if (root / "wav.scp").exists():
        has_lists = (root / "enrolls").exists() and _trial_files(root)
        if _OF_A_PAIR.search(root.name) and not has_lists:
            faults.add(
                "no-sets",
                f"'{root.name}' is one set of several; give the folder that holds them: "
                f"dataset.root={shlex.quote(str(root.parent))}",
                root,
            )
            faults.stop(root)
        corpus.check_name(root, normalise_name(root.name), faults)
        return [], [root]
    training = os.path.realpath(Path(settings.train).expanduser()) if settings.train else ""
    # A training set called like one of a pair is evaluated as well, and its speakers are named as such.
    folders = {
        normalise_name(folder.name): folder
        for folder in sorted(root.iterdir())
        if folder.is_dir() and (os.path.realpath(folder) != training or _OF_A_PAIR.search(folder.name))
    }
    for name, folder in folders.items():
        if (folder / "wav.scp").exists():
            corpus.check_name(folder, name, faults)
    if faults.has("bad-id"):
        # Which sets belong together follows from their names.
        faults.stop(root)
    pairs = _pairs(folders, wanted_sets(settings), listing)
    if pairs is not None:
        return pairs, []
    singles = [folder for folder in folders.values() if (folder / "wav.scp").exists()]
    if not singles and training:
        # The only set there is: it is evaluated as well, and its speakers are named as such.
        singles = [one for one in sorted(root.iterdir()) if os.path.realpath(one) == training and holds_sets(one)]
    if not singles:
        empty = not any(root.iterdir())
        faults.add("no-sets", "the folder is empty" if empty else "the folder holds no Kaldi set (no */wav.scp)", root)
        faults.stop(root)
    if not any((folder / "enrolls").exists() and _trial_files(folder) for folder in singles):
        names.look_like_pairs(root, [folder.name for folder in singles], faults)
    listed = [folder for folder in singles if (folder / "enrolls").exists() or _trial_files(folder)]
    _pass_over([folder.name for folder in singles if listed and folder not in listed], listing)
    return [], listed or singles


def _pairs(
    folders: dict[str, Path], wanted: list[str] | None, listing: Listing
) -> list[tuple[Path, list[Path]]] | None:
    """Every X_enrolls with its X_trials_*; None if there is neither."""
    enrolments = [name for name in folders if name.endswith("_enrolls")]
    tried = {name: found[1] for name in folders if (found := re.fullmatch(r"(.+?)_trials(_.*)?", name))}
    if not enrolments and not tried:
        return None
    copies, pairs, taken = [], [], set()
    for enrolment in enrolments:
        base = enrolment.removesuffix("_enrolls")
        suffixes = tuple(name.removeprefix(enrolment) for name in folders if name.startswith(f"{enrolment}_"))
        copies += [f"{enrolment}{suffix}" for suffix in suffixes]
        mine = [name for name, owner in tried.items() if owner == base]
        copies += [name for name in mine if suffixes and name.endswith(suffixes)]
        taken |= {enrolment, *mine}
        pairs.append((enrolment, [name for name in mine if name not in copies]))
    lonely = [name for name in tried if name not in taken]
    if wanted is not None:
        known = [name for _, mine in pairs for name in mine]
        corpus.unknown_sets(listing.faults, wanted, [*known, *lonely], "dataset.sets")
        corpus.chosen_sets(listing, wanted, [*known, *lonely])
        lonely = [name for name in lonely if name in wanted]
        pairs = [(enrolment, kept) for enrolment, mine in pairs if (kept := [name for name in mine if name in wanted])]
    spare = [name for name in folders if name not in {*taken, *tried} and (folders[name] / "wav.scp").exists()]
    for name in lonely:
        wanted_name = f"{tried[name]}_enrolls"
        hint = names.perhaps(folders[name].parent, wanted_name, spare, names.ENROLMENT)
        listing.faults.add(
            "missing-table", f"the trial set {name} has no enrolment set {wanted_name} beside it{hint}", folders[name]
        )
    for enrolment, mine in pairs:
        if not mine:
            base = enrolment.removesuffix("_enrolls")
            hint = names.perhaps(folders[enrolment].parent, f"{base}_trials", spare, names.TRIALS)
            listing.faults.add(
                "missing-table",
                f"the enrolment set {enrolment} has no trial set {base}_trials_* beside it{hint}",
                folders[enrolment],
            )
    if copies:
        listing.notes.append(f"passed over as anonymised copies, to be given as systems: {', '.join(sorted(copies))}")
    others = [
        name for name in folders if name not in {*taken, *copies, *tried} and (folders[name] / "wav.scp").exists()
    ]
    _pass_over(others, listing)
    return [(folders[enrolment], [folders[name] for name in mine]) for enrolment, mine in pairs]


def _pass_over(others: Sequence[str], listing: Listing) -> None:
    if others:
        listing.limits.append(
            f"{len(others)} sets without lists of trials beside those are not evaluated: {join_few(others)}"
        )


def _trial_files(folder: Path) -> list[Path]:
    """The lists of a set: those that are called as the recipes call them, else what else is one by its name."""
    called = sorted(
        path for path in folder.iterdir() if re.fullmatch(r"trials(_\w+)?", path.name) and not path.is_dir()
    )
    return called or trial_lists.beside(folder, trial_lists.TRIALS)


# Tables --------------------------------------------------------------------------------------------------------------


def _mapping(path: Path, faults: Faults) -> dict[str, Record]:
    """A table of two columns by its first; a second line for a key is a fault."""
    found: dict[str, Record] = {}
    for record in records(path, faults, range(2, 3)):
        before = found.setdefault(record.fields[0], record)
        if before is not record:
            faults.add("duplicate-id", f"'{record.fields[0]}' has a second line, first {before.where}", record.where)
    return found


def _tables(folder: Path, faults: Faults) -> _Set:
    made = _read_audio(folder, faults)
    known = len(faults.found)
    if (folder / "utt2spk").exists():
        owners = _mapping(folder / "utt2spk", faults)
    elif (folder / "spk2utt").exists():
        owners = {}
        for record in records(folder / "spk2utt", faults, range(2, 1 << 30)):
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
    if not owners and len(faults.found) == known:
        table = "utt2spk" if (folder / "utt2spk").exists() else "spk2utt"
        faults.add("empty", f"{table} names no speaker", folder / table)
    made.speakers = {utterance: record.fields[1] for utterance, record in owners.items()}
    listed = {record.fields[0] for record in made.audio}
    for utterance, record in owners.items() if listed else ():
        if utterance not in listed:
            table = "wav.scp" if made.segments is None else "segments"
            faults.add("no-audio-line", f"utterance '{utterance}' has a speaker but no line in {table}", record.where)
    _read_sexes(made, faults)
    if (folder / "utt2dur").exists():
        for utterance, record in _mapping(folder / "utt2dur", faults).items():
            try:
                made.seconds[utterance] = float(record.fields[1])
            except ValueError:
                faults.add("malformed", f"'{record.fields[1]}' is no duration in seconds", record.where)
    if (folder / "enrolls").exists():
        made.enrolls = list(records(folder / "enrolls", faults, range(1, 2)))
    paths = _trial_files(folder)
    for name, path in zip(trial_lists.set_names(paths), paths):
        made.trials[name] = trial_lists.read(path, faults, made.notes)
    return made


def _read_audio(folder: Path, faults: Faults) -> _Set:
    """A set with what ``wav.scp`` and ``segments`` say of it, and nothing else."""
    made = _Set(normalise_name(folder.name), folder)
    if not (folder / "wav.scp").exists():
        faults.add("missing-table", "the set has no wav.scp", folder)
        return made
    known = len(faults.found)
    made.audio = list(records(folder / "wav.scp", faults, range(2, 3), split=2))
    if not made.audio and len(faults.found) == known:
        faults.add("empty", "wav.scp lists no utterance", folder / "wav.scp")
    for record in made.audio:
        made.entries.setdefault(record.fields[0], (record, pipes.entry(record.fields[1])))
    if (folder / "segments").exists():
        _read_segments(made, faults)
    return made


def list_audio(folders: Sequence[Path], follow_links: bool, listing: Listing) -> dict[Path, list[Listed]]:
    """The utterances of sets by ``wav.scp`` and ``segments`` alone, by folder: of copies, who speaks is said by the original.

    Args:
        folders: of the sets. Relative paths start in one of them, up to two folders above, or in the current one.
        follow_links: whether links may lead out of there.
        listing: gets the faults. An utterance whose file may not or cannot be read has no path.
    """
    sets = [_read_audio(folder, listing.faults) for folder in folders]
    starts = [place for up in (1, 0) for folder in folders for place in folder.parents[up : up + 1]]
    start = _start(sets, [*starts, *folders, Path.cwd()], folders[0].parent, listing) if sets else None
    return {one.folder: _utterances(one, "copy", start, listing.faults, follow_links) for one in sets}


def _read_segments(made: _Set, faults: Faults) -> None:
    """Have the utterances of a set be those of its table ``segments``; a recording that stands twice is a fault."""
    first: dict[str, Record] = {}
    for record in made.audio:
        before = first.setdefault(record.fields[0], record)
        if before is not record:
            what = f"recording '{record.fields[0]}' stands twice, first in {before.where}"
            faults.add("duplicate-id", what, record.where)
    table, known = made.folder / "segments", len(faults.found)
    lines = list(records(table, faults, range(4, 6)))
    if not lines and len(faults.found) == known:
        faults.add("empty", "the table segments has no line", table)
    made.audio, made.segments = lines, segments.read(lines, made.entries, faults)


def _read_sexes(made: _Set, faults: Faults) -> None:
    """The sex of each speaker from ``spk2gender``, if the set has it; a speaker without a line is a fault."""
    table = made.folder / "spk2gender"
    if not table.exists():
        return
    known = len(faults.found)
    for speaker, record in _mapping(table, faults).items():
        sex = SEXES.get(record.fields[1].lower())
        if sex is None:
            faults.add("malformed", f"'{record.fields[1]}' is no sex; f, m or u is", record.where)
        made.sexes[speaker] = sex or "u"
    if not made.sexes and len(faults.found) > known:
        return
    for speaker in sorted(set(made.speakers.values()) - set(made.sexes)):
        faults.add("no-sex", f"speaker '{speaker}' has no line in spk2gender", table)


# Audio ---------------------------------------------------------------------------------------------------------------


def _audio_root(
    settings: DatasetSettings, sets: list[_Set], candidates: list[Path], where: Path, listing: Listing
) -> Path | None:
    """Where relative paths of the evaluated sets start: ``dataset.audio_root`` alone, if given, else one of the candidates."""
    if settings.audio_root is not None:
        candidates = [Path(settings.audio_root).expanduser().absolute()]
        if not candidates[0].is_dir():
            listing.faults.add("root", f"there is no folder '{settings.audio_root}'", "dataset.audio_root")
            return None
    return _start(sets, candidates, where, listing)


def _start(sets: list[_Set], candidates: list[Path], where: Path, listing: Listing) -> Path | None:
    """The first candidate under which most relative paths exist; None if none does, which is a fault."""
    candidates = list(dict.fromkeys(candidates))
    _moved(sets, candidates, where, listing.faults)
    read = [entry.file for one in sets for _, entry in one.entries.values() if not entry.why]
    relative = [path for path in read if not _is_absolute(path)]
    if not relative:
        return candidates[0]
    counts = []
    for candidate in candidates:
        counts.append(sum(map(os.path.exists, _below(candidate, relative))))
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


def _moved(sets: Sequence[_Set], candidates: Sequence[Path], where: Path, faults: Faults) -> None:
    """Report the sets of which no absolute path exists as one fault, and not one a file."""
    paths: list[str] = []
    for one in sets:
        absolute = [entry.file for _, entry in one.entries.values() if not entry.why and _is_absolute(entry.file)]
        one.moved = bool(absolute) and not any(find_existing(Path(path)).exists() for path in absolute)
        paths += absolute if one.moved else []
    tables = [one.folder / "wav.scp" for one in sets if one.moved]
    if tables:
        roots = [*candidates, *(folder for table in tables for folder in (table.parent, *table.parents[1:4]))]
        said = (
            f"none of the {len(paths)} absolute paths of wav.scp exists, the first is '{paths[0]}': they are of another machine "
            f"or folder"
        )
        faults.add("missing-audio", f"{said}{relocated.command(paths, roots, tables)}", where)


def _is_absolute(path: str) -> bool:
    return path.startswith("/")


def _below(folder: Path, paths: Iterable[str]) -> Iterator[str]:
    """Relative paths below a folder, as they are there; a corpus has many, and joining paths takes its time."""
    for path in paths:
        joined = f"{folder}/{path}"
        yield joined if joined.isascii() else str(find_existing(folder / path))


def _utterances(one: _Set, role: str, start: Path | None, faults: Faults, follow_links: bool) -> list[Listed]:
    """The utterances of a set; a file that may not or cannot be read has no path."""
    rows = []
    paths = _paths(one, start, faults, follow_links)
    for position, record in enumerate(one.audio):
        utterance = record.fields[0]
        speaker = one.speakers.get(utterance, "")
        if not speaker and one.speakers:
            faults.add("no-speaker", f"utterance '{utterance}' has no speaker in utt2spk", record.where)
        if "/" in utterance:
            faults.add("malformed", f"an utterance id may not hold '/': '{utterance}'", record.where)
        segment = one.segments.get(utterance) if one.segments is not None else None
        path, entry = None, None
        if one.segments is None or segment is not None:
            recording = segment.recording if segment else utterance
            path, entry = paths[recording], one.entries[recording][1]
        rows.append(
            Listed(
                one.name,
                role,
                utterance,
                speaker,
                one.sexes.get(speaker, "u"),
                path,
                record.where,
                position,
                one.seconds.get(utterance),
                one.folder / "text",
                entry,
                segment,
            )
        )
    return rows


def _paths(one: _Set, start: Path | None, faults: Faults, follow_links: bool) -> dict[str, Path | None]:
    """The file of each entry of wav.scp, by utterance or recording; None for one that may not or cannot be read."""
    found: dict[str, Path | None] = {}
    fence = corpus.Fence(start or one.folder, follow_links)
    strange: dict[str, list[tuple[Record, str]]] = {"pipe": [], "archive": []}
    outside: dict[str, list[tuple[Record, Entry]]] = {}
    for name, (record, entry) in one.entries.items():
        path: Path | None = None
        why = entry.why
        if why:
            pass
        elif _is_absolute(entry.file):
            path = find_existing(Path(entry.file)) if not one.moved else None
        elif start is not None:
            path = find_existing(start / entry.file)
            if not fence.holds(path):
                outside.setdefault(_way_out(start, path), []).append((record, entry))
                path = None
        if path is not None and not why:
            why = pipes.changed(entry, path)
        if why:
            strange["archive" if entry.is_archive else "pipe"].append((record, why))
        found[name] = None if why else path
    for way, paths in outside.items():
        (record, entry), more = paths[0], len(paths) - 1
        also = f", and so do {more} more paths" if more else ""
        faults.add("leaves-root", f"'{entry.file}' leads out of {start}{way}{also}", record.where)
    for kind, several in strange.items():
        if several:
            _refuse(one, kind, several, faults)
    return found


def _way_out(start: Path, path: Path) -> str:
    """By which link a path leaves a folder, in words."""
    below = path.relative_to(start).parents if path.is_relative_to(start) else ()
    links = [start / part for part in reversed(below) if (start / part).is_symlink()]
    links += [path] if path.is_symlink() else []
    link = next((one for one in links if not os.path.realpath(one).startswith(f"{os.path.realpath(start)}/")), None)
    return f", to {os.path.realpath(path)}" if link is None else f" by the link {link} -> {os.path.realpath(link)}"


def _refuse(one: _Set, kind: str, several: list[tuple[Record, str]], faults: Faults) -> None:
    """Report entries that are not read: how many, why each is not, and the command that makes plain files."""
    first = several[0][0]
    counted = Counter(why for _, why in several).most_common()
    reasons = join_few([f"{why}: {count}" if len(counted) > 1 else why for why, count in counted])
    faults.add(
        "pipe",
        f"{len(several)} entries are {'shell pipes' if kind == 'pipe' else 'places in archives'}, not files, the first is "
        f"'{first.fields[1][:80]}' ({reasons}); plain files: {plain_files(one.folder)}",
        first.where,
    )


def plain_files(folder: Path) -> str:
    """The shell command that runs the pipes of a set's wav.scp and makes a wav.scp of plain files; it keeps the old one, and writes into a
    folder of its own, for the pipes may read what lies in ``wav``."""
    return (
        f'd={shlex.quote(str(folder))}; mkdir -p "$d/wav_plain" && '
        '{ [ -e "$d/wav.scp.pipes" ] || cp "$d/wav.scp" "$d/wav.scp.pipes"; } && '
        'while read -r u c || [ -n "$u" ]; do case "$c" in '
        '*\'|\') sh -c "${c%|}" </dev/null >"$d/wav_plain/$u.wav" && echo "$u $d/wav_plain/$u.wav";; '
        '*.ark:*) wav-copy "$c" "$d/wav_plain/$u.wav" </dev/null && echo "$u $d/wav_plain/$u.wav";; '
        '*) echo "$u $c";; esac; done <"$d/wav.scp.pipes" >"$d/wav.scp"'
    )


def _fill_sexes(listing: Listing) -> None:
    """A set without spk2gender takes the sex of a speaker from the others."""
    known = {row.speaker: row.sex for row in listing.utterances if row.sex != "u"}
    listing.utterances = [
        replace(row, sex=known.get(row.speaker, "u")) if row.sex == "u" else row for row in listing.utterances
    ]


# Lists ---------------------------------------------------------------------------------------------------------------


def _enrolled(one: _Set, faults: Faults) -> list[Enrolled]:
    """The models of an enrolment set: its speakers, made of the utterances of ``enrolls`` or of all."""
    lines = []
    first: dict[str, Record] = {}
    if one.enrolls is None:
        _unread_enrolment(one, faults)
    for record in one.enrolls if one.enrolls is not None else one.audio:
        utterance = record.fields[0]
        before = first.setdefault(utterance, record)
        if before is record:
            lines.append(Enrolled(one.speakers.get(utterance, ""), utterance, record.where))
        elif one.enrolls is not None:
            faults.add("duplicate-id", f"'{utterance}' is enrolled twice, first {before.where}", record.where)
    return lines


def _add_list(
    listing: Listing,
    name: str,
    enrolment_set: str,
    enrolled: list[Enrolled],
    records: list[Record] | None,
    where: str,
) -> None:
    if records is None:
        made = corpus.paired(listing, name, enrolment_set, enrolled, where)
        listing.protocol.append(
            f"the trials of {name} were made here: no list came with it, so {corpus.which_pairs(made.across_sexes)} of an enrolled "
            "speaker and an utterance are tried"
        )
        return
    lines = trial_lists.as_trials(records, listing.faults)
    listing.lists.append(TrialList(name, enrolment_set, enrolled, lines, where))


def _list_of(one: _Set, faults: Faults) -> tuple[list[Record] | None, str]:
    """The list of a trial set, and its place: ``trials``, or the only one that is there under another name."""
    if "trials" in one.trials or not one.trials:
        return one.trials.get("trials"), one.where("trials")
    if len(one.trials) > 1:
        what = f"{one.name} holds {join_few([*one.trials])} and no list called trials: which of them is meant cannot be told"
        faults.add("unread-list", what, one.folder)
    ((_, lines),) = [*one.trials.items()][:1]
    return lines, lines[0].where.rpartition(":")[0] if lines else one.where("trials")


def _add_single(listing: Listing, one: _Set, rows: list[Listed], seed: int) -> None:
    """A set with lists inside is cut into sets, one without is halved.

    Without ``enrolls`` a list compares utterances; without trials all utterances that are not enrolled are tried.
    """
    ids, speakers = {row.utterance for row in rows}, {row.speaker for row in rows}
    models = {line.fields[0] for lines in one.trials.values() for line in lines}
    if one.enrolls is not None:
        rest = ids - {record.fields[0] for record in one.enrolls}
        _add_cut(
            listing,
            one,
            rows,
            f"{one.name}_enrolls",
            {table: f"{one.name}_{table}" for table in one.trials or ["trials"]},
            rest,
        )
    elif models & ids:
        trial_lists.cut_by_utterance(
            listing, one.name, rows, {f"{one.name}_{table}": lines for table, lines in one.trials.items()}
        )
    elif one.trials:
        who = "speakers" if models <= speakers else "ids that it lacks"
        what = f"the set {one.name} has lists of trials ({join_few([*one.trials])}) of which the models are {who}, e.g. {min(models, default='none')}"
        listing.faults.add("unread-list", f"{what}, and no list enrolls that says what they are made of", one.folder)
    elif not _unread_enrolment(one, listing.faults):
        corpus.halved(listing, one.name, rows, seed, str(one.folder))


def _unread_enrolment(one: _Set, faults: Faults) -> bool:
    """Whether a set without ``enrolls`` has a list of enrolment under another name, which is then reported."""
    paths = trial_lists.beside(one.folder, trial_lists.ENROLMENT)
    if paths:
        what = (
            f"{one.name} has a list of enrolment that is called {join_few([path.name for path in paths])}, not enrolls"
        )
        faults.add("unread-list", what, one.folder)
    return bool(paths)


def _add_cut(
    listing: Listing,
    one: _Set,
    rows: list[Listed],
    enrolment_set: str,
    names: Mapping[str, str],
    tried: Collection[str] = (),
) -> None:
    """Cut a set with its lists inside; ``names`` are the sets that its tables of trials become, and ``tried`` the utterances of one
    that has none."""
    enrolled = _enrolled(one, listing.faults)
    parts = {enrolment_set: ("enrolment", {line.utterance for line in enrolled})}
    for table, name in names.items():
        lines = one.trials.get(table)
        parts[name] = ("trial", set(tried) if lines is None else {record.fields[1] for record in lines})
    for name, (role, ids) in parts.items():
        members = [row for row in rows if row.utterance in ids]
        listing.utterances += [replace(row, set=name, role=role, position=place) for place, row in enumerate(members)]
    for table, name in names.items():
        _add_list(listing, name, enrolment_set, enrolled, one.trials.get(table), one.where(table))
