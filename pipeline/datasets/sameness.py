"""Which recordings of a system hold one sound where the originals are several: an anonymiser that gave the same back again.

Such a system is perfectly private on paper, and a broken vocoder or a loader that mixes up names is no system. Nor is a list that is
shifted by a line, which gives each utterance the original of another.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Rows = Sequence[Mapping[Any, Any]]
"""Rows of a manifest."""


_NO_NUMBER = "No number on such speech tells how private a system is"


@dataclass(frozen=True)
class Doubt:
    """Recordings that are not what they are given for.

    Attributes:
        check: a name for it, as diagnostics have it.
        share: of the files.
        said: the same in words.
    """

    check: str
    share: float
    said: str


@dataclass(frozen=True)
class Sameness:
    """Recordings that hold one sound.

    Attributes:
        files: how many there are of the system.
        shared: how many of them hold the sound of the recording of another original.
        sounds: how many sounds these are.
        across: how many of them hold the sound of another speaker's recording.
        speakers: with several originals of which all recordings hold one sound.
        of: speakers with several originals.
        example: two utterances that hold one sound.
        doubts: what else was found.
    """

    files: int = 0
    shared: int = 0
    sounds: int = 0
    across: int = 0
    speakers: int = 0
    of: int = 0
    example: tuple[str, str] = ("", "")
    doubts: tuple[Doubt, ...] = ()

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Sameness:
        """What a stored record holds, as ``dataclasses.asdict`` made it."""
        doubts = tuple(Doubt(**one) for one in record["doubts"])
        return cls(**{**record, "example": tuple(record["example"]), "doubts": doubts})

    @property
    def found(self) -> bool:
        """Whether there is anything to say."""
        return bool(self.shared or self.doubts)

    @property
    def limits(self) -> Iterator[str]:
        """What a reader of any numbers on these recordings must know first."""
        yield from (doubt.said for doubt in self.doubts)
        yield from self.sentences()

    def sentences(self) -> Iterator[str]:
        """The shared sounds in words; nothing if each recording holds a sound of its own."""
        if not self.shared:
            return
        same = f"hold the same audio as the file of another utterance, e.g. {self.example[0]} and {self.example[1]}"
        if self.shared == self.files and self.sounds == 1:
            said = f"all {self.files} files hold one and the same recording"
        elif self.speakers == self.of and not self.across and self.of:
            said = f"the files of each of the {self.of} speakers hold one and the same recording: {self.shared} of {self.files} files {same}"
        else:
            said = f"{self.shared} of {self.files} files {same}"
            said += f"; {self.across} of them that of another speaker" if self.across else ""
            said += f"; all files of {self.speakers} of {self.of} speakers hold one recording" if self.speakers else ""
        yield f"{said}. {_NO_NUMBER}"


def by_sound(originals: Rows, rows: Rows, sounds: Mapping[str, str], mine: Mapping[str, str]) -> list[Rows]:
    """The recordings of a system by the sound that they hold; of one original there is one. Arguments as of :func:`find`."""
    alike: dict[str, dict[str, Mapping[Any, Any]]] = defaultdict(dict)
    for original, row in zip(originals, rows, strict=True):
        was = sounds.get(original["sha256"], original["sha256"])
        # An utterance that stands in several sets, or under two ids, is one original.
        alike[mine.get(row["sha256"], row["sha256"])].setdefault(was, row)
    return [[*members.values()] for members in alike.values()]


def find(
    originals: Sequence[Mapping[Any, Any]],
    rows: Sequence[Mapping[Any, Any]],
    sounds: Mapping[str, str] = {},
    mine: Mapping[str, str] = {},
) -> Sameness:
    """Compare the recordings of a system with each other.

    Args:
        originals: rows of a manifest.
        rows: the same rows as the system has them.
        sounds: what is heard in an original, by the digest of its file; by default the file is told by its bytes.
        mine: the same of the system's files.
    """
    alike = by_sound(originals, rows, sounds, mine)
    of_speaker: dict[str, dict[str, str]] = defaultdict(dict)
    for original, row in zip(originals, rows, strict=True):
        was = sounds.get(original["sha256"], original["sha256"])
        of_speaker[str(row["speaker"])][was] = mine.get(row["sha256"], row["sha256"])
    groups = [members for members in alike if len(members) > 1]
    several = [made for made in of_speaker.values() if len(made) > 1]
    mixed = [members for members in groups if len({str(row["speaker"]) for row in members}) > 1]
    first = min((sorted(str(row["utterance"]) for row in members) for members in groups), default=["", ""])
    return Sameness(
        files=sum(map(len, alike)),
        shared=sum(map(len, groups)),
        sounds=len(groups),
        across=sum(map(len, mixed)),
        speakers=sum(len(set(made.values())) == 1 for made in several),
        of=len(several),
        example=(first[0], first[1]),
    )


def taken_from(
    everyone: Rows, originals: Rows, rows: Rows, sounds: Mapping[str, str], mine: Mapping[str, str]
) -> list[tuple[Mapping[Any, Any], Rows]]:
    """The recordings that hold the original of another utterance, each with whose it is. Arguments as of :func:`of_others`."""
    owners: dict[str, list[Mapping[Any, Any]]] = defaultdict(list)
    for row in everyone:
        owners[sounds.get(row["sha256"], row["sha256"])].append(row)
    return [
        (row, owners[mine[row["sha256"]]])
        for original, row in zip(originals, rows, strict=True)
        if mine[row["sha256"]] in owners and mine[row["sha256"]] != sounds.get(original["sha256"], original["sha256"])
    ]


def of_others(
    everyone: Rows, originals: Rows, rows: Rows, sounds: Mapping[str, str], mine: Mapping[str, str]
) -> Iterator[Doubt]:
    """Recordings of a system that hold the original of another utterance than their own.

    Args:
        everyone: the originals of all utterances.
        originals: those of the system's recordings.
        rows: the same rows as the system has them.
        sounds: what is heard in an original, by the digest of its file.
        mine: the same of the system's files.
    """
    taken = taken_from(everyone, originals, rows, sounds, mine)
    if not taken:
        return
    strangers = [one for one in taken if all(owner["speaker"] != one[0]["speaker"] for owner in one[1])]
    row, (owner, *_) = (strangers or taken)[0]
    whose = f", {len(strangers)} of them of another speaker" if strangers else ""
    yield Doubt(
        "others_original",
        len(taken) / len(rows),
        f"{len(taken)} of {len(rows)} files hold the original of another utterance{whose}, e.g. {row['utterance']} "
        f"({row['speaker']}) holds that of {owner['utterance']} ({owner['speaker']}): names and recordings do not belong together, "
        f"and these files were not anonymised. {_NO_NUMBER}",
    )


def run_again(first: Rows, second: Rows, sounds: Mapping[str, str], again: Mapping[str, str]) -> Iterator[Doubt]:
    """Recordings of a system's second run that are those of its first.

    Args:
        first: rows of the first run.
        second: rows of the second.
        sounds: what is heard in a file of the first, by its digest.
        again: the same of the second.
    """
    before = {(row["set"], row["utterance"]): sounds[row["sha256"]] for row in first}
    known = [row for row in second if (row["set"], row["utterance"]) in before]
    same = [row for row in known if again[row["sha256"]] == before[row["set"], row["utterance"]]]
    if same:
        yield Doubt(
            "second_run",
            len(same) / len(known),
            f"the second run holds the very files of the first ({len(same)} of {len(known)} utterances, e.g. "
            f"{same[0]['utterance']}): what compares two runs compares recordings with themselves, unless the system draws nothing",
        )
