"""An anonymised copy: where it lies, which of its files belongs to which utterance, by tables and names, and what it lacks."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline import audio, names
from pipeline.contracts import Copies
from pipeline.datasets import cutting, kaldi_set, listings
from pipeline.datasets.audio_cache import NO_CACHE, AudioCache
from pipeline.datasets.corpus import Dropped
from pipeline.datasets.listings import Listing
from pipeline.datasets.trees import find_audio_files
from pipeline.errors import DataError, Fault
from pipeline.faults import AGAIN, KINDS, Faults
from pipeline.names import Pattern, make_id

PARTIAL = "allow_partial=true leaves the utterances out of every system and marks the results"

Row = dict[str, Any]
"""A row of a manifest."""


@dataclass(frozen=True)
class Copy:
    """Where an anonymised copy lies, and what its settings are called.

    Attributes:
        root: its folder.
        suffix: of the sets' folders; by default the only one that there is.
        training: whether it is of the training set.
        label: of the system.
        setting: that names the folder: ``root``, ``second_root`` or ``train_root``.
        pattern: how the files are called.
        follow_links: whether links may lead out of the folder.
        folders: of the sets by name, where the names of folders do not tell them.
        is_named: whether the setting names the folder; else it is looked for beside the evaluation sets, and need not be there.
    """

    root: str
    suffix: str | None = None
    training: bool = False
    label: str = "<label>"
    setting: str = "root"
    pattern: Pattern = field(default_factory=Pattern)
    follow_links: bool = False
    folders: Mapping[str, str] = field(default_factory=dict)
    is_named: bool = True

    @classmethod
    def of(cls, copies: Copies, label: str) -> Copy:
        """The first run of a system that was run elsewhere."""
        pattern = Pattern(copies.pattern, copies.ignore_case)
        links, folders = copies.follow_links, copies.folders
        return cls(copies.root, copies.suffix, label=label, pattern=pattern, follow_links=links, folders=folders)

    def at(self, root: str, setting: str, training: bool = False) -> Copy:
        """Another copy by the same system; folders that are named are of the first run."""
        return replace(self, root=root, setting=setting, training=training, folders={})

    def key(self, setting: str = "") -> str:
        """A setting of the system as overrides name it, by default that of the folder."""
        return f"system.{self.label}.{setting or self.setting}"

    def kinds(self) -> dict[str, tuple[str, str]]:
        """Likely cause and remedy of each kind of fault, with this system's settings."""
        looked = " ".join(audio.EXTENSIONS)
        place = f"set {self.key()}=DIR to the folder of the anonymised audio"
        return {
            **KINDS,
            "root": ("a misspelt or unmounted folder", place),
            "missing-audio": (
                f"an incomplete copy, another folder, or files of another name than UTTERANCE.ext (looked for: {looked})",
                f"restore the files, or {place}, or leave the system out of system=[…]; {PARTIAL}",
            ),
            "bad-audio": (KINDS["bad-audio"][0], f"{AGAIN}, or make them again; {PARTIAL}"),
            "cancelling": (KINDS["cancelling"][0], f"keep one channel, or make the files again; {PARTIAL}"),
            "no-speech": (
                "a failed recording, or an anonymiser that gave nothing back",
                f"make the files again; {PARTIAL}",
            ),
            "original": (
                "a system that passed its input through, or a folder that holds the originals",
                f"{place}, or leave the system out: unprotected speech is always evaluated beside the systems",
            ),
            "header": (
                "a sampling rate that a program writes into every header, such as that of its vocoder",
                "write the files again, each with the rate that it was made at, or resample them to the rate that the header says",
            ),
            "leaves-root": (
                "links to where the audio lies",
                f"set {self.key('follow_links')}=true if the links are yours: regular files alone are read",
            ),
            "own-table": (
                "a wav.scp that was copied with its set, of a copy whose audio is not there yet; or one from another machine",
                f"correct wav.scp, put the files into SET/wav, {place}, or leave the system out",
            ),
            "ambiguous": (
                "results of several systems or formats in one folder",
                f"keep one of the files, {place} of one system, or choose by {self.key('suffix')}=SUFFIX",
            ),
        }


class Gaps:
    """Utterances without a sound file: faults, or left out under ``allow_partial``."""

    def __init__(self, allow_partial: bool, faults: Faults) -> None:
        self.allow_partial, self.faults = allow_partial, faults
        self.dropped: list[Dropped] = []
        self.missing: list[tuple[Row, Path]] = []
        self.explained: list[tuple[Row, Path]] = []
        self.refused: list[tuple[Row, str]] = []

    def settle(self, rows: Sequence[Row], *faults: Fault) -> None:
        """Rows without a file for a reason that is said once: faults, or each left out."""
        if self.allow_partial:
            self.dropped += [Dropped(str(row["utterance"]), str(row["set"]), faults[0].what) for row in rows]
        else:
            self.faults.found.extend(faults)
        settled = {(row["set"], row["utterance"]) for row in rows}
        self.explained += [gap for gap in self.missing if (gap[0]["set"], gap[0]["utterance"]) in settled]
        self.missing = [gap for gap in self.missing if (gap[0]["set"], gap[0]["utterance"]) not in settled]

    def refuse(self, row: Row, kind: str, what: str, where: Path) -> None:
        """One whose file cannot be told, or may not be read: a fault under any setting."""
        self.refused.append((row, what))
        self.faults.add(kind, what, where)

    def add(self, row: Row, problem: str, kind: str, where: Path) -> None:
        """One more."""
        if self.allow_partial:
            self.dropped.append(Dropped(str(row["utterance"]), str(row["set"]), problem))
        else:
            self.faults.add(kind, f"utterance '{row['utterance']}' of {row['set']}: {problem}", where)


class AudioNames:
    """The audio files under a folder by what they are called."""

    def __init__(self, place: Path, pattern: Pattern) -> None:
        self.all = find_audio_files(place)
        self._by_stem: dict[str, list[Path]] = defaultdict(list)
        self._by_path: dict[str, list[Path]] = defaultdict(list)
        for path in self.all:
            parts = [*path.relative_to(place).parts[:-1], path.stem]
            for depth in range(1, len(parts) + 1):
                name = pattern.found("-".join(map(make_id, parts[-depth:])))
                if name is not None:
                    (self._by_stem if depth == 1 else self._by_path)[name].append(path)

    def of(self, name: str) -> list[Path]:
        """The files of that name."""
        return self._by_stem.get(name) or self._by_path.get(name) or []


def has_any_file(copy: Copy, manifest: pd.DataFrame) -> bool:
    """Whether a copy holds a file, or a folder with a ``wav.scp``, for any row of a manifest."""
    files = list_copy(copy, manifest)
    return bool(files.chosen or files.refused) or any((place / "wav.scp").is_file() for place in files.places.values())


@dataclass(frozen=True)
class Cutting:
    """How segments and what lies in archives become files (:func:`pipeline.datasets.cutting.write_parts`)."""

    folder: Path | None = None
    threads: int = 1
    cache: AudioCache = NO_CACHE


@dataclass(frozen=True)
class CopyFiles:
    """The files of a copy by tables and names alone; nothing is decoded but what is cut into segments.

    Attributes:
        folder: where they lie.
        places: the folder that is searched for each set; a set without one is not among them.
        chosen: the file of each row of a manifest that has one.
        missing: the rows without a file, with the folder that was searched.
        refused: rows that have several files, or one that may not be read, and why.
        unused: files that belong to no row.
        faults: all that would keep a run from using them.
        limits: what a reader of the numbers must know of them.
    """

    folder: Path
    places: Mapping[str, Path]
    chosen: tuple[tuple[Row, Path], ...]
    missing: tuple[tuple[Row, Path], ...]
    refused: tuple[tuple[Row, str], ...]
    unused: tuple[Path, ...]
    faults: Faults
    limits: tuple[str, ...] = ()


def list_copy(copy: Copy, manifest: pd.DataFrame, cut: Cutting = Cutting()) -> CopyFiles:
    """Find the anonymised file of each row of a manifest, as :func:`pipeline.datasets.prepare.read_copy` does, and gather what is wrong instead of raising it.

    Args:
        copy: where it lies.
        manifest: what has to be there: columns set, utterance, speaker and path.
        cut: how segments become files.
    """
    gaps = Gaps(False, Faults(copy.kinds(), "the anonymised audio has"))
    try:
        return list_files(copy, manifest, gaps, cut)
    except DataError:  # there is no such folder, as the faults say
        return CopyFiles(Path(copy.root).expanduser().absolute(), {}, (), (), (), (), gaps.faults)


def list_files(copy: Copy, manifest: pd.DataFrame, gaps: Gaps, cut: Cutting) -> CopyFiles:
    """The folder of each set, the file of each row that has one, and the files of none; all else becomes faults, or is left out.

    Raises:
        DataError: there is no such folder.
    """
    folder, faults = Path(copy.root).expanduser().absolute(), gaps.faults
    rows: list[Row] = [{str(key): value for key, value in row.items()} for row in manifest.to_dict("records")]
    if not copy.root or not folder.is_dir():
        faults.add("root", f"there is no folder '{copy.root}' of anonymised audio", copy.key())
        faults.stop(copy.root or copy.key())
    places = _find_set_folders(folder, sorted(manifest["set"].unique()), copy, faults)
    files = {place: AudioNames(place, copy.pattern) for place in set(places.values())}
    tables = _Table.read(places, rows, copy, cut)
    chosen = list(_choose_files(rows, folder, places, files, tables, copy, gaps))
    used = {path for _, path in chosen}.union(*(table.others for table in tables.values()))
    unused = sorted(path for audio_names in files.values() for path in audio_names.all if path not in used)
    limits = _describe_tables(tables, gaps)
    _report_missing(gaps, unused, copy, places, files, nothing=not chosen)
    rowless = ((*gaps.missing, *gaps.explained), tuple(gaps.refused), tuple(unused))
    return CopyFiles(folder, places, tuple(chosen), *rowless, faults, tuple(limits))


@dataclass
class _Table:
    """What the ``wav.scp`` of a copy's folder says, and what became of it.

    Attributes:
        paths: the file of each utterance, where it is there and is no original recording; a segment has a file of its own.
        originals: utterances of which it names the original recording.
        faults: what else is wrong with it.
        differ: rows of which another file lies in the folder.
        others: those files.
        is_alone: whether no row of the folder has a file.
    """

    paths: dict[str, Path] = field(default_factory=dict)
    originals: set[str] = field(default_factory=set)
    faults: list[Fault] = field(default_factory=list)
    differ: list[tuple[Row, Path]] = field(default_factory=list)
    others: set[Path] = field(default_factory=set)
    is_alone: bool = True

    @classmethod
    def read(cls, places: Mapping[str, Path], rows: Sequence[Row], copy: Copy, cut: Cutting) -> dict[Path, _Table]:
        """The tables of the folders of some sets, for the rows of these; an empty one where there is none."""
        wanted: dict[Path, dict[str, Any]] = {place: {} for place in sorted(set(places.values()))}
        for row in rows:
            if row["set"] in places:
                wanted[places[row["set"]]][str(row["utterance"])] = row["path"]
        faults = Faults(copy.kinds())
        having = [place for place in wanted if (place / "wav.scp").is_file()]
        rows_by_place = kaldi_set.list_audio(having, copy.follow_links, Listing(faults=faults))
        tables = {place: cls() for place in wanted}
        for place, listed in rows_by_place.items():
            mine = [
                listed_row
                for listed_row in listed
                if listed_row.utterance in wanted[place] and listed_row.path is not None and listed_row.path.is_file()
            ]
            originals = {
                listed_row.utterance
                for listed_row in mine
                if _is_same_file(listed_row.path, wanted[place][listed_row.utterance])
            }
            listing = Listing(
                [listed_row for listed_row in mine if listed_row.utterance not in originals],
                faults=Faults(copy.kinds()),
            )
            cutting.write_parts(listing, cut.folder, cut.threads, cut.cache)
            # Where a segment is at fault none is cut, and a row is left with the whole recording.
            refused = bool(listing.faults.found)
            cuts = [
                listed_row
                for listed_row in listing.utterances
                if listed_row.path is not None and not (refused and listed_row.segment)
            ]
            table_faults = [
                listed_row
                for listed_row in faults.found
                if not any(f"{other}/" in f"{listed_row.where}/" for other in having if other != place)
            ]
            tables[place] = cls(
                {listed_row.utterance: listed_row.path for listed_row in cuts if listed_row.path},
                originals,
                [*table_faults, *listing.faults.found],
            )
        return tables

    def choose(self, row: Row, paths: Sequence[Path]) -> Path | None:
        """The file of a row that the table names, beside those that lie in the folder; None if it names none."""
        path = self.paths.get(str(row["utterance"]))
        self.is_alone = self.is_alone and not paths and path is None
        if path is None:
            return None
        self.others.update(paths)
        self.differ += [(row, other) for other in paths if not _is_same_file(other, path)][:1]
        return path


def _describe_tables(tables: Mapping[Path, _Table], gaps: Gaps) -> list[str]:
    """Have rows without a file be faults of the tables, where nothing else of their folders is there. What a reader of the numbers must
    know of tables beside the files that lie in the folders."""
    alone = [place for place, table in tables.items() if table.is_alone and (table.originals or table.faults)]
    missing = [row for row, place in gaps.missing if place in alone]
    originals = {name for place in alone for name in tables[place].originals}
    of_original = [row for row in missing if row["utterance"] in originals]
    if of_original:
        where = names.join_few([f"{place.name}/wav.scp" for place in alone if tables[place].originals])
        ids = [str(row["utterance"]) for row in of_original]
        what = f"wav.scp names the original recordings of {len(ids)} utterances, and no other file of them is there: {names.join_few(ids)}"
        gaps.settle(of_original, Fault(what, where, "own-table"))
    elif missing:
        faults = list(dict.fromkeys(fault for place in alone for fault in tables[place].faults))
        opening = f"no file of {len(missing)} utterances is in {names.join_few([place.name for place in alone])}, and wav.scp leads to none: "
        kinds = ["leaves-root" if fault.kind == "leaves-root" else "own-table" for fault in faults]
        gaps.settle(
            missing, *(Fault(f"{opening}{fault.what}", fault.where, kind) for fault, kind in zip(faults, kinds))
        )
    differ = [(table.paths[str(row["utterance"])], other) for table in tables.values() for row, other in table.differ]
    limits = []
    if differ:
        limits.append(
            f"wav.scp names other files than those in the folder for {len(differ)} utterances, e.g. {differ[0][0]} and not {differ[0][1]}: "
            "those that wav.scp names are evaluated (without a wav.scp in the folder, the others are)"
        )
    return limits


def _is_same_file(path: Path | None, other: Path | str | None) -> bool:
    """Whether two paths are of one file that is there."""
    with suppress(OSError):
        return path is not None and other is not None and path.samefile(other)
    return False


def _choose_files(
    rows: Sequence[Row],
    folder: Path,
    places: Mapping[str, Path],
    files: Mapping[Path, AudioNames],
    tables: Mapping[Path, _Table],
    copy: Copy,
    gaps: Gaps,
) -> Iterator[tuple[Row, Path]]:
    """The file of each row; rows that have several, or one that lies elsewhere, are faults; those that have none are kept."""
    fence = listings.Fence(folder, copy.follow_links)
    for row in rows:
        if row["set"] not in places:
            continue
        place = places[row["set"]]
        paths = files[place].of(copy.pattern.wanted(row))
        by_table = tables[place].choose(row, paths)
        if by_table is not None:
            yield row, by_table
        elif len(paths) > 1:
            choices = ", ".join(str(path.relative_to(folder)) for path in paths)
            text = f"utterance '{row['utterance']}' of {row['set']} has {len(paths)} files: {choices}"
            gaps.refuse(row, "ambiguous", text, place)
        elif not paths:
            gaps.missing.append((row, place))
        elif not fence.holds(paths[0]):
            outside = f"a link leads out of {folder}, to {os.path.realpath(paths[0])}"
            gaps.refuse(row, "leaves-root", outside, paths[0])
        else:
            yield row, paths[0]


def _find_set_folders(root: Path, sets: list[str], copy: Copy, faults: Faults) -> dict[str, Path]:
    """The folder to search for each set; sets without one are faults."""
    if copy.folders:
        for set_name in sets:
            if not Path(copy.folders.get(set_name, "")).is_dir() or set_name not in copy.folders:
                faults.add("missing-audio", f"there is no folder for the set {set_name}", root)
        return {set_name: Path(copy.folders[set_name]) for set_name in sets if set_name in copy.folders}
    if copy.training and copy.suffix and root.name.endswith(copy.suffix):
        return dict.fromkeys(sets, root)  # it is the copy itself
    folders = {names.normalise_name(folder.name): folder for folder in sorted(root.iterdir()) if folder.is_dir()}
    suffix = None if copy.suffix is None else names.normalise_name(copy.suffix)
    if suffix is None:
        having: dict[str, int] = defaultdict(int)
        for name in folders:
            for set_name in sets:
                # vctk_dev_trials_f_common is no copy of vctk_dev_trials_f.
                longer = any(name.startswith(other) and other.startswith(f"{set_name}_") for other in sets)
                if (name == set_name or name.startswith(f"{set_name}_")) and not longer:
                    having[name.removeprefix(set_name)] += 1
        if not having:
            return dict.fromkeys(sets, root)
        most = max(having.values())
        best = sorted(tail for tail, count in having.items() if count == most)
        if len(best) > 1:
            faults.add(
                "ambiguous",
                f"the folders have several suffixes ({', '.join(repr(tail) for tail in best)}); choose one "
                f"by {copy.key('suffix')}={best[-1]}",
                root,
            )
            return {}
        suffix = best[0]
    lacking = [set_name for set_name in sets if f"{set_name}{suffix}" not in folders]
    if len(lacking) == 1:
        faults.add("missing-audio", f"there is no folder {lacking[0]}{suffix} for the set {lacking[0]}", root)
    elif lacking:
        what = f"there is no folder SET{suffix} for {len(lacking)} of {len(sets)} sets: {names.join_few(lacking)}"
        faults.add("missing-audio", what, root)
    return {set_name: folders[f"{set_name}{suffix}"] for set_name in sets if f"{set_name}{suffix}" in folders}


# What lacks ----------------------------------------------------------------------------------------------------------


def _report_missing(
    gaps: Gaps,
    unused: Sequence[Path],
    copy: Copy,
    places: Mapping[str, Path],
    files: Mapping[Path, AudioNames],
    *,
    nothing: bool,
) -> None:
    """Say of the utterances without a file what there is instead: files of other names are one fault, above all where there is
    nothing else."""
    if not gaps.missing:
        return
    elsewhere = find_elsewhere(gaps.missing, unused, copy.pattern)
    pattern = _guess_pattern([str(row["utterance"]) for row, _ in gaps.missing], [path.stem for path in unused])
    cause, remedy = gaps.faults.kinds["missing-audio"]
    few = f"{len(unused)} files match no utterance, e.g. {', '.join(path.name for path in unused[:3])}"
    if elsewhere:
        gaps.faults.kinds["missing-audio"] = (
            f"{'; '.join(describe_elsewhere(gaps.missing, elsewhere))}: files that were copied into the folder of another set",
            f"move each file into the folder of its set, or restore it; {PARTIAL}",
        )
    elif unused and (nothing or (pattern and not gaps.allow_partial)):
        how = names.quote_override(copy.key("pattern"), pattern or "{utterance}_anon")
        remedy = f"name each file after its utterance (UTTERANCE.ext), or say how they are called: {how}"
        gaps.faults.kinds["names"] = ("files that were named by a tool", remedy)
        what = f"{few}; {len(gaps.missing)} utterances have no file, e.g. {gaps.missing[0][0]['utterance']}"
        gaps.faults.add("names", what, os.path.commonpath(list(places.values())))
        return
    elif unused and not gaps.allow_partial:
        gaps.faults.kinds["missing-audio"] = (f"{cause}; {few}", remedy)
    for place in sorted({place for _, place in gaps.missing if not files[place].all}):
        others = Counter(Path(name).suffix.lower() for _, _, filenames in os.walk(place) for name in filenames)
        rows = [
            row for row, where in gaps.missing if where == place and (row["set"], row["utterance"]) not in elsewhere
        ]
        ids, sets = [str(row["utterance"]) for row in rows], sorted({str(row["set"]) for row in rows})
        instead = "".join(f", but {count} files '*{ending}'" for ending, count in sorted(others.items()))
        what = (
            f"no audio file{instead}; {len(rows)} utterances of {names.join_few(sets)} have none: {names.join_few(ids)}"
        )
        if rows:
            gaps.settle(rows, Fault(what, str(place), "missing-audio"))
    for row, place in gaps.missing:
        instead = "".join(
            f"; one lies in {folder}" for folder in elsewhere.get((str(row["set"]), str(row["utterance"])), [])[:1]
        )
        gaps.add(row, f"no file {copy.pattern.wanted(row)}.ext under {place}{instead}", "missing-audio", place)


def _guess_pattern(ids: Sequence[str], stems: Sequence[str]) -> str:
    """What most names of files have before and behind an id, as a pattern; '' if there is no such thing."""
    some, longest_first = stems[:200], sorted(ids, key=len, reverse=True)
    seen: Counter[str] = Counter()
    for stem in map(make_id, some):
        name = next((name for name in longest_first if name in stem), "")
        if name:
            seen["{utterance}".join(stem.split(name, 1))] += 1
    return next((pattern for pattern, count in seen.most_common(1) if 2 * count > len(some)), "")


def find_elsewhere(
    missing: Sequence[tuple[Row, Path]], unused: Sequence[Path], pattern: Pattern
) -> dict[tuple[str, str], list[Path]]:
    """The folders with a file, used by nobody, of the name that is looked for, by set and utterance of a row without one."""
    folders: dict[str, list[Path]] = defaultdict(list)
    for path in unused:
        folders[pattern.found(path.stem) or ""].append(path.parent)
    elsewhere = {(str(row["set"]), str(row["utterance"])): folders.get(pattern.wanted(row), []) for row, _ in missing}
    return {key: places for key, places in elsewhere.items() if places}


def describe_elsewhere(
    missing: Sequence[tuple[Row, Path]], elsewhere: Mapping[tuple[str, str], Sequence[Path]]
) -> Iterator[str]:
    """Where files lie that sets lack, a sentence for each set and folder."""
    moved = Counter(
        (str(row["set"]), str(folder))
        for row, _ in missing
        for folder in set(elsewhere.get((str(row["set"]), str(row["utterance"])), ()))
    )
    for (name, place), count in sorted(moved.items()):
        yield f"{count} files that {name} lacks lie in {place}"
