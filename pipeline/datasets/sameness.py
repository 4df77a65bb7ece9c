"""Which recordings of a system hold one sound where the originals are several: an anonymiser that gave the same back again.

Such a system is perfectly private on paper, and a broken vocoder or a loader that mixes up names is no system.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


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
    """

    files: int = 0
    shared: int = 0
    sounds: int = 0
    across: int = 0
    speakers: int = 0
    of: int = 0
    example: tuple[str, str] = ("", "")

    def sentences(self) -> Iterator[str]:
        """The same in words; nothing if each recording holds a sound of its own."""
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
        yield f"{said}. No number on such speech tells how private a system is"


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
    alike: dict[str, dict[str, tuple[str, str]]] = defaultdict(dict)
    of_speaker: dict[str, dict[str, str]] = defaultdict(dict)
    for original, row in zip(originals, rows, strict=True):
        was = sounds.get(original["sha256"], original["sha256"])
        now = mine.get(row["sha256"], row["sha256"])
        # An utterance that stands in several sets, or under two ids, is one original.
        alike[now].setdefault(was, (str(row["utterance"]), str(row["speaker"])))
        of_speaker[str(row["speaker"])][was] = now
    groups = [members for members in alike.values() if len(members) > 1]
    several = [made for made in of_speaker.values() if len(made) > 1]
    mixed = [members for members in groups if len({speaker for _, speaker in members.values()}) > 1]
    first = min((sorted(name for name, _ in members.values()) for members in groups), default=["", ""])
    return Sameness(
        files=sum(map(len, alike.values())),
        shared=sum(map(len, groups)),
        sounds=len(groups),
        across=sum(map(len, mixed)),
        speakers=sum(len(set(made.values())) == 1 for made in several),
        of=len(several),
        example=(first[0], first[1]),
    )
