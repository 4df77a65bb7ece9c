"""Trees of audio with a folder a speaker: LibriSpeech's, ``SPEAKER/CHAPTER/UTTERANCE.ext``, and any other, ``SPEAKER/**/FILE.ext``."""

from __future__ import annotations

import fnmatch
import os
import re
import shlex
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pipeline import audio
from pipeline.datasets import listings, trial_lists
from pipeline.datasets.listings import MOST_NAMED, Listing, Utterance
from pipeline.datasets.settings import DatasetSettings
from pipeline.names import join_few, make_id, normalise_name, quote_override
from pipeline.tables import text


def find_audio_files(root: Path) -> list[Path]:
    """All audio files under a folder, by extension in either case, in the order of their relative paths.

    Links are followed, each folder once; names that begin with '.' are no data (macOS leaves ``._X.flac`` beside X.flac).
    """
    paths, seen = [], set()
    for folder, below, names in os.walk(root, followlinks=True):
        real = os.path.realpath(folder)
        if real in seen:
            below.clear()
            continue
        seen.add(real)
        below[:] = sorted(name for name in below if not name.startswith("."))
        paths += [
            Path(folder, name) for name in names if not name.startswith(".") and name.lower().endswith(audio.EXTENSIONS)
        ]
    return sorted(paths)


def add_librispeech(settings: DatasetSettings, root: Path, listing: Listing) -> None:
    """List the tree ``root`` for evaluation; the data set's name is the folder's (test-other).

    Raises:
        DataError: it is no such tree; with the faults so far.
    """
    rows = _read_librispeech(settings, root, find_audio_files(root), "dataset.root", settings.sexes, listing)
    if not rows:
        listing.faults.stop(root)
    _cut_or_halve(settings, root, rows, listing)


def add_training(settings: DatasetSettings, folder: Path, listing: Listing) -> None:
    """List a tree of either layout as training set of the folder's name. ``dataset.sexes`` is of the speakers who are evaluated."""
    files = find_audio_files(folder)
    depths = {len(path.relative_to(folder).parts) for path in files}
    unique = len({make_id(path.stem) for path in files}) == len(files)
    # It is none of LibriSpeech's layout if it is no deeper, and its files lie otherwise or share names.
    is_plain = bool(depths) and depths <= {2, 3} and not (depths == {3} and unique)
    if settings.name == "folders" or is_plain:
        rows = _read_folders(settings, folder, files, "dataset.train", listing, None, "*")
    else:
        rows = _read_librispeech(settings, folder, files, "dataset.train", None, listing)
    name = make_id(folder.name)
    listing.called.append((name, folder))
    if rows:
        listing.notes.append(listings.describe_folder_speakers(f"the training set {name}", rows))
    for place, row in enumerate(sorted(rows, key=lambda row: row.utterance)):
        listing.utterances.append(replace(row, set=name, role="train", position=place))


def _cut_or_halve(settings: DatasetSettings, root: Path, rows: Sequence[Utterance], listing: Listing) -> None:
    """Cut the utterances of a tree by the lists that come with it, or halve them."""
    name = make_id(root.name)
    listing.called.append((name, root))
    if not trial_lists.cut_tree_by_lists(listing, name, rows, root):
        listings.add_halves(listing, name, rows, settings.seed, str(root))
        listings.note_halves(listing, [name], settings.seed)
    listings.select_sets(listing, settings.sets, "dataset.sets")
    listing.limits.append(listings.describe_folder_speakers(name, rows))


def _read_librispeech(
    settings: DatasetSettings, root: Path, files: Sequence[Path], key: str, table: str | None, listing: Listing
) -> list[Utterance]:
    """The utterances of a tree, their set and role still open; none if it is no such tree, which is a fault.

    ``key`` is the setting that named the root, for messages; ``table`` says the sex of speakers in place of SPEAKERS.TXT.
    """
    faults = listing.faults
    parts = [path.relative_to(root).parts for path in files]
    good = [path for path, place in zip(files, parts) if len(place) == 3]
    _check_layout(root, key, dict(zip(files, parts)), listing)
    if not good:
        return []
    problem, below = find_roots_below(parts, alone=False)
    if problem:
        kind = " (with dataset=folders)" if below and key == "dataset.root" else ""
        faults.add("level", f"{problem}{advise_roots(root, key, below)}{kind}", root)
        return []
    rows = _make_rows(settings, root, [(path, make_id(path.stem)) for path in good], table, listing)
    return [
        replace(row, transcripts=row.path.parent / f"{'-'.join(row.path.parts[-3:-1])}.trans.txt") if row.path else row
        for row in rows
    ]


def _make_rows(
    settings: DatasetSettings, root: Path, named: Sequence[tuple[Path, str]], table: str | None, listing: Listing
) -> list[Utterance]:
    """The utterances of some files with their ids; one that shares its id, or lies elsewhere, is a fault."""
    speakers = {path: make_id(path.relative_to(root).parts[0]) for path, _ in named}
    sex_of = read_sexes(table, root, set(speakers.values()), listing) if named else {}
    rows, first = [], dict[str, Path]()
    fence = listings.Fence(root, settings.follow_links)
    for path, name in named:
        if first.setdefault(name, path) is not path:
            listing.faults.add("duplicate-id", f"the id '{name}' is taken by {first[name]}", path)
            continue
        is_inside = fence.holds(path)
        if not is_inside:
            listing.faults.add("link", f"a link leads out of the tree, to '{os.path.realpath(path)}'", path)
        speaker = speakers[path]
        sex = sex_of.get(speaker, "u")
        rows.append(Utterance("", "", name, speaker, sex, path if is_inside else None, str(path), 0))
    return rows


def _check_layout(root: Path, key: str, files: Mapping[Path, tuple[str, ...]], listing: Listing) -> None:
    """Faults of a tree, given the parts of each file's path below the root."""
    faults = listing.faults
    elsewhere = [path for path, parts in files.items() if len(parts) != 3]
    if not files:
        tables = sorted(root.glob("*/wav.scp"))
        hint = "; it holds Kaldi sets (dataset=kaldi)" if tables else ""
        faults.add("empty", f"the folder holds no audio ({' '.join(audio.EXTENSIONS)}){hint}", root)
    elif len(elsewhere) == len(files):
        deeper = sorted({parts[:1] for parts in files.values() if len(parts) == 4})
        hint = advise_roots(root, key, deeper)
        faults.add(
            "layout",
            f"no audio lies at SPEAKER/CHAPTER/UTTERANCE.ext, {len(files)} files lie elsewhere, "
            f"e.g. {elsewhere[0].relative_to(root)}{hint}",
            root,
        )
    else:
        for path in elsewhere:
            faults.add("layout", "audio that does not lie at SPEAKER/CHAPTER/UTTERANCE.ext", path)


_MICROPHONE = re.compile(r"_mic\d+$")


def add_folders(settings: DatasetSettings, root: Path, listing: Listing) -> None:
    """List the tree ``root`` for evaluation; the data set's name is the folder's.

    Raises:
        DataError: it is no such tree; with the faults so far.
    """
    files = find_audio_files(root)
    rows = _read_folders(settings, root, files, "dataset.root", listing, settings.sexes, settings.files)
    speakers = {row.speaker for row in rows}
    if len(speakers) == 1:
        what = f"all audio lies below one folder, '{rows[0].speaker}', which makes one speaker, and trials need several"
        listing.faults.add("no-speaker-folder", what, root)
    if len(speakers) < 2:
        listing.faults.stop(root)
    _note_microphones(rows, listing)
    _cut_or_halve(settings, root, rows, listing)


def _read_folders(
    settings: DatasetSettings,
    root: Path,
    every: Sequence[Path],
    key: str,
    listing: Listing,
    table: str | None,
    chosen: str,
) -> list[Utterance]:
    """The utterances of a tree, their set and role still open; none if it is no such tree, which is a fault.

    ``key`` is the setting that named the root, for messages.
    """
    faults = listing.faults
    files = [path for path in every if fnmatch.fnmatchcase(normalise_name(path.name), normalise_name(chosen))]
    if len(files) < len(every):
        listing.notes.append(f"{len(every) - len(files)} of {len(every)} files are left out by dataset.files={chosen}")
    parts = {path: path.relative_to(root).parts for path in files}
    loose = [path for path in files if len(parts[path]) < 2]
    if not files:
        what = f"none of {len(every)} files is called {chosen}" if every else "the folder holds no audio"
        faults.add("empty", f"{what} ({' '.join(audio.EXTENSIONS)})", root)
        return []
    problem, below = find_roots_below(list(parts.values()))
    if problem:
        faults.add("level", f"{problem}{advise_roots(root, key, below)}", root)
        return []
    if loose:
        what = "all audio lies" if len(loose) == len(files) else f"{len(loose)} audio files lie"
        faults.add(
            "no-speaker-folder", f"{what} in the root itself, in no speaker's folder, e.g. {loose[0].name}", root
        )
    kept = [path for path in files if len(parts[path]) > 1]
    ids = make_ids([parts[path] for path in kept])
    return _make_rows(settings, root, list(zip(kept, ids)), table, listing)


def _note_microphones(rows: Sequence[Utterance], listing: Listing) -> None:
    """Say that several files are of one utterance, where their names tell (VCTK: ``…_mic1``, ``…_mic2``)."""
    alike: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        match = _MICROPHONE.search(row.utterance)
        if match:
            alike[row.utterance[: match.start()]].append(row.utterance)
    recorded_together = [names for names in alike.values() if len(names) > 1]
    if recorded_together:
        last = recorded_together[0][-1]
        ending = last[last.rindex("_mic") :]
        listing.notes.append(
            f"{len(recorded_together)} utterances were recorded by several microphones, e.g. {' and '.join(recorded_together[0][:2])}: one recording may "
            f"be enrolled and the other tried, which no attacker can hope for. "
            f"{quote_override('dataset.files', f'*{ending}.*')} keeps one of them"
        )


def make_ids(places: Sequence[tuple[str, ...]]) -> list[str]:
    """Ids of files, given the parts of their paths below the root: their stems, or all parts where two stems are one."""
    stems = [make_id(Path(parts[-1]).stem) for parts in places]
    if len(set(stems)) == len(stems):
        return stems
    return ["-".join([*map(make_id, parts[:-1]), stem]) for parts, stem in zip(places, stems)]


_COLLECTION_WORDS = (
    "train|training|dev|devel|development|test|testing|valid|validation|val|eval|evaluation|held[_-]?out|enrol|enroll|enrolls|"
    "enrolment|enrollment|trial|trials|clean|other|noisy|raw|wav|wave|wavs|waves|flac|mp3|ogg|opus|m4a|sph|audio|audios|data|"
    "dataset|speech|corpus|corpora|recordings|segments|utterances|original|originals|anonymised|anonymized|speakers|spk|"
    "part|split|subset|fold|disc|cd|dr|male|female|males|females|men|women|unlabeled|unlabelled|labelled|labeled"
)

_COLLECTION = re.compile(rf"(?:.*[_.\- ])?(?:{_COLLECTION_WORDS})(?:[_.\- ].*|\d+k?(?:[_.\- ].*)?|k?)", re.IGNORECASE)
_NUMBERED = re.compile(r"(\D+?)[_.\- ]?\d+")

_GROUPS = {"part", "split", "subset", "fold", "disc", "cd", "dr"}
"""Words that number collections; a row of other names with numbers (test01, test02, …) are speakers."""

_SEX_WORDS = {"male", "female", "males", "females", "men", "women"}
_FEWEST_NUMBERED, _MOST_ADVISED = 3, 3

PathParts = tuple[str, ...]
"""The parts of a file's path below the root."""


def find_roots_below(places: Collection[PathParts], alone: bool = True) -> tuple[str, list[PathParts]]:
    """What shows that the folders of a tree are no speakers, and the folders below that hold folders a speaker.

    Args:
        places: of all audio files.
        alone: whether a single folder with folders in it shows it too, whatever its name.

    Returns:
        '' and no folders if they may be speakers.
    """
    tops = _group_by_top(places)
    nested = [name for name, below in tops.items() if 2 * sum(len(parts) > 1 for parts in below) > len(below)]
    like = sorted(name for name in nested if _COLLECTION.fullmatch(normalise_name(name)))
    # A speaker among others may be called Dev.
    if like and 2 * len(like) >= len(tops) and not _is_numbered(list(tops)):
        called = "are called like parts" if len(like) > 1 else "is called like a part"
        s = "s" if len(like) > 1 else ""
        problem = f"the folder{s} {join_few(like)} {called} of a corpus, not like {'speakers' if s else 'a speaker'}"
        return problem, [root for name in like for root in _list_lower(name, tops[name])]
    if alone and len(tops) == 1 and nested:
        ((name, below),) = tops.items()
        if len(_group_by_top(below)) > 1:
            return f"all audio lies below one folder, {name}, which would be the only speaker", _list_lower(name, below)
    return "", []


def advise_roots(root: Path, key: str, below: Sequence[PathParts]) -> str:
    """``; key=FOLDER would be one`` for each of the folders that may be given as root."""
    overrides = [shlex.quote(f"{key}={root.joinpath(*parts)}") for parts in below]
    more = f", {len(overrides) - _MOST_ADVISED} more" if len(overrides) > _MOST_ADVISED else ""
    return f"; {' or '.join(overrides[:_MOST_ADVISED])}{more} would be one" if overrides else ""


def _group_by_top(places: Collection[PathParts]) -> dict[str, list[PathParts]]:
    """What lies below each folder of a root; files in the root itself are left out."""
    tops: dict[str, list[PathParts]] = defaultdict(list)
    for parts in sorted(places):
        if len(parts) > 1:
            tops[parts[0]].append(parts[1:])
    return tops


def _list_lower(name: str, below: Collection[PathParts]) -> list[PathParts]:
    """The folders at or below a folder whose own folders may be speakers."""
    _, lower = find_roots_below(below, alone=False)
    return [(name, *parts) for parts in lower] or [(name,)]


def _is_numbered(names: Sequence[str]) -> bool:
    """Whether names are one word with numbers, as speakers are called."""
    matches = [_NUMBERED.fullmatch(name) for name in names]
    words = {match[1].casefold() for match in matches if match}
    one_kind = words <= _SEX_WORDS or (len(words) == 1 and not words & _GROUPS)
    return len(names) >= _FEWEST_NUMBERED and all(matches) and one_kind


SEXES = {"f": "f", "female": "f", "m": "m", "male": "m", "u": "u", "unknown": "u"}

SEX_TABLES = ("spk2gender", "SPEAKERS.TXT", "speakers.tsv", "speakers.csv", "speaker-info.txt", "spk-info.txt", "metainfo.txt",
         "vox1_meta.csv", "vox2_meta.csv")  # fmt: skip
"""Names of tables that are looked for in the root of a data set and in its parent, in capitals or not."""


def read_sexes(table_path: str | None, root: Path, speakers: Collection[str], listing: Listing) -> dict[str, str]:
    """The sex of speakers, by id: from the table that is given, else from one that is called as corpora call it.

    A given table has to say something of each speaker. One that was found and names none of the speakers is another corpus's.

    Args:
        given: the table, by ``dataset.sexes``.
        root: the data set.
        speakers: those of the data set.
        listing: gets faults and notes.
    """
    faults = listing.faults
    table = Path(table_path).expanduser().absolute() if table_path is not None else _find_sex_table(root)
    if table is None:
        looked = f"no {', '.join(SEX_TABLES)} in the root or its parent"
        listing.notes.append(f"{looked}: the sex of speakers is unknown (dataset.sexes=FILE names another table)")
        return {}
    if not table.is_file():
        faults.add("root", f"there is no table '{table_path}'", "dataset.sexes")
        return {}
    sex_of = _parse_sex_table(table, listing)
    named_speakers = speakers & sex_of.keys()
    if not named_speakers and table_path is None:
        listing.notes.append(f"{table} names none of the speakers: their sex is unknown")
        return {}
    lacking = sorted(set(speakers) - sex_of.keys())
    if not named_speakers and sex_of:
        who = f"it names {join_few([*sex_of], 3)}; the speakers are {join_few(lacking, 3)}"
        faults.add("no-sex", f"the table names none of the {len(lacking)} speakers: {who}", table)
        return {}
    for speaker in lacking[:MOST_NAMED]:
        faults.add("no-sex", f"speaker '{speaker}' has no line in {table.name}", table)
    if len(lacking) > MOST_NAMED:
        faults.add("no-sex", f"and so have {len(lacking) - MOST_NAMED} more", table)
    return sex_of


def _find_sex_table(root: Path) -> Path | None:
    """The table in a root or its parent, the first by :data:`SEX_TABLES`."""
    paths = [path for folder in (root, root.parent) for path in sorted(folder.iterdir()) if path.is_file()]
    called = [path for name in SEX_TABLES for path in paths if path.name.casefold() == name.casefold()]
    return next(iter(called), None)


def _parse_sex_table(table: Path, listing: Listing) -> dict[str, str]:
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
    header = [cell.lower() for cell in _split_cells(lines[0].text, parted)]
    named = next((place for place, cell in enumerate(header) if re.search(r"\b(sex|gender)\b", cell)), None)
    who, what = 0, 1
    if named is not None:
        what = named
        who = next((place for place, cell in enumerate(header) if re.search(r"\bid\b|speaker|spk", cell)), 0)
        lines = lines[1:]
    sex_of: dict[str, str] = {}
    for line in lines:
        cells = _split_cells(line.text, parted)
        sex = SEXES.get(cells[what].lower()) if len(cells) > max(who, what) and cells[who] else None
        if sex is None or "\ufffd" in cells[who]:
            listing.faults.add("malformed", f"no speaker with sex f or m: '{line.text[:80]}'", line.where)
        elif sex_of.setdefault(make_id(cells[who]), sex) != sex:
            listing.faults.add("disagrees", f"speaker '{cells[who]}' is listed with both sexes", line.where)
    return sex_of


def _split_cells(line: str, parted: str | None) -> list[str]:
    return [cell.strip().strip('"') for cell in line.strip().split(parted)]
