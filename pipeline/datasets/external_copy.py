"""An anonymised copy: where it lies, and what is said of what it lacks."""

from __future__ import annotations

import os
import shlex
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pipeline import audio, names
from pipeline.contracts import Copies
from pipeline.datasets.corpus import Dropped
from pipeline.datasets.trees import find_audio_files
from pipeline.errors import Fault
from pipeline.faults import AGAIN, KINDS, Faults
from pipeline.files import write_exchange_command
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
        return cls(
            copies.root,
            copies.suffix,
            label=label,
            pattern=pattern,
            follow_links=copies.follow_links,
            folders=copies.folders,
        )

    def at(self, root: str, setting: str, training: bool = False) -> Copy:
        """Another copy by the same system; folders that are named are of the first run."""
        return replace(self, root=root, setting=setting, training=training, folders={})

    def key(self, setting: str = "") -> str:
        """A setting of the system as overrides name it, by default that of the folder."""
        return f"system.{self.label}.{setting or self.setting}"

    def kinds(self) -> dict[str, tuple[str, str]]:
        """Likely cause and remedy of each kind of fault, with this system's settings."""
        looked = " ".join(audio.EXTENSIONS)
        return {
            **KINDS,
            "root": ("a misspelt or unmounted folder", f"set {self.key()}=DIR to the folder of the anonymised audio"),
            "missing-audio": (
                f"an incomplete copy, another folder, or files of another name than UTTERANCE.ext (looked for: {looked})",
                f"restore the files, or set {self.key()}=DIR to the folder that holds them, or leave the system out of system=[…]; {PARTIAL}",
            ),
            "bad-audio": (KINDS["bad-audio"][0], f"{AGAIN}, or make them again; {PARTIAL}"),
            "cancelling": (
                KINDS["cancelling"][0],
                f"keep one channel with the command given with each file, or make them again; {PARTIAL}",
            ),
            "no-speech": (
                "a failed recording, or an anonymiser that gave nothing back",
                f"make the files again; {PARTIAL}",
            ),
            "original": (
                "a system that passed its input through, or a folder that holds the originals",
                f"set {self.key()}=DIR to the folder of the anonymised audio, or leave the system out: unprotected speech is always "
                "evaluated beside the systems",
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
                f"correct wav.scp (with the command given with it, if any), put the files into SET/wav, set {self.key()}=DIR to the "
                "folder that holds them, or leave the system out",
            ),
            "ambiguous": (
                "results of several systems or formats in one folder",
                f"keep one of the files, set {self.key()}=DIR to a folder that holds one system, or choose by "
                f"{self.key('suffix')}=SUFFIX",
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


def report_missing(
    gaps: Gaps,
    unused: Sequence[Path],
    chosen: Sequence[tuple[Row, Path]],
    copy: Copy,
    places: Mapping[str, Path],
    files: Mapping[Path, AudioNames],
) -> None:
    """Say of the utterances without a file what there is instead: folders in each other's place and files of another name first, as
    the root of it.

    The kinds of faults get the remedy for names. Under ``allow_partial``, names are a fault only where there is nothing else.
    """
    if not gaps.missing:
        return
    kinds, nothing = gaps.faults.kinds, not chosen
    elsewhere = find_elsewhere(gaps.missing, unused, copy.pattern)
    settled = _report_exchanged(gaps, elsewhere, {row["set"] for row, _ in chosen}, places)
    missing = [gap for gap in gaps.missing if gap[0]["set"] not in settled]
    unused = [path for path in unused if not any(places[name] in path.parents for name in settled)]
    if not missing:
        return
    guess = names.guess_pattern([row for row, _ in missing], [path.stem for path in unused])
    if guess is not None and guess.pattern in (Pattern(), copy.pattern):
        explanation = "; ".join(describe_elsewhere(missing, elsewhere))
        kinds["missing-audio"] = (
            f"{explanation}: files that were copied into the folder of another set, or an incomplete copy",
            f"move each file into the folder of its set, or restore it; {PARTIAL}",
        )
    elif unused and (nothing or not gaps.allow_partial) and (guess is not None or nothing):
        few = ", ".join(path.name for path in unused[:3])
        explanation = guess.text if guess is not None else "they hold no id of an utterance"
        kinds["names"] = ("files that were named by a tool", _describe_renaming(copy, guess))
        gaps.faults.add(
            "names",
            f"{len(unused)} files match no utterance, e.g. {few}; {explanation}; {len(missing)} utterances have no file, "
            f"e.g. {missing[0][0]['utterance']}",
            os.path.commonpath(list(places.values())),
        )
        if guess is not None and guess.files == len(missing):
            return
    elif unused and not gaps.allow_partial:
        cause, remedy = kinds["missing-audio"]
        few = ", ".join(path.name for path in unused[:3])
        kinds["missing-audio"] = (f"{cause}; {len(unused)} files there match no utterance, e.g. {few}", remedy)
    for place in sorted({place for _, place in missing if not files[place].all}):
        others = Counter(Path(name).suffix.lower() for _, _, filenames in os.walk(place) for name in filenames)
        rows = [row for row, where in missing if where == place and (row["set"], row["utterance"]) not in elsewhere]
        ids, sets = [str(row["utterance"]) for row in rows], sorted({str(row["set"]) for row in rows})
        instead = "".join(f", but {count} files '*{ending}'" for ending, count in sorted(others.items()))
        what = (
            f"no audio file{instead}; {len(rows)} utterances of {names.join_few(sets)} have none: {names.join_few(ids)}"
        )
        gaps.settle(rows, Fault(what, str(place), "missing-audio"))
    for row, place in [gap for gap in gaps.missing if gap[0]["set"] not in settled]:
        instead = "".join(
            f"; one lies in {folder}" for folder in elsewhere.get((str(row["set"]), str(row["utterance"])), [])[:1]
        )
        gaps.add(row, f"no file {copy.pattern.wanted(row)}.ext under {place}{instead}", "missing-audio", place)


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


def _report_exchanged(
    gaps: Gaps,
    elsewhere: Mapping[tuple[str, str], Sequence[Path]],
    having: Collection[str],
    places: Mapping[str, Path],
) -> set[str]:
    """Report pairs of sets whose folders stand in each other's place, with the commands that put them back; their sets."""
    lies: dict[str, Counter[str]] = defaultdict(Counter)
    lacking = Counter(str(row["set"]) for row, _ in gaps.missing)
    owners = {place: name for name, place in places.items()}
    for (name, _), folders in elsewhere.items():
        lies[name].update({owners[up] for folder in folders for up in (folder, *folder.parents) if up in owners})
    wholly = {
        name: second
        for name, count in lacking.items()
        for second, count_there in lies[name].most_common(1)
        if name not in having and 2 * count_there > count
    }
    commands = []
    for first, second in sorted(wholly.items()):
        if wholly.get(second) != first or first > second:
            continue
        commands.append(write_exchange_command(places[first], places[second]))
        what = (
            f"the folders of two sets are exchanged: {lies[first][second]} files that {first} lacks lie in {places[second].name}, and "
            f"{lies[second][first]} that {second} lacks in {places[first].name}"
        )
        gaps.faults.add("swapped", what, places[first])
    if commands:
        cause = gaps.faults.kinds["swapped"][0]
        gaps.faults.kinds["swapped"] = (cause, f"put each in its own place: {' && '.join(commands)}")
    return {name for name, second in wholly.items() if wholly.get(second) == name}


def _describe_renaming(copy: Copy, guess: names.Guess | None) -> str:
    """What takes files as they are called."""
    if guess is None:
        return (
            "name each file after its utterance (UTTERANCE.ext); what is the same in all names may stay: "
            f"{names.quote_override(copy.key('pattern'), '{utterance}_anon')}"
        )
    overrides = (
        [names.quote_override(copy.key("pattern"), guess.pattern.text)] if guess.pattern.text != names.PLAIN else []
    )
    overrides += [shlex.quote(f"{copy.key('ignore_case')}=true")] if guess.pattern.ignore_case else []
    return f"say how they are called: {' '.join(overrides)}"
