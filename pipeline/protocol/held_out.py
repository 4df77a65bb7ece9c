"""Which training speakers are held out, and which of their vectors are compared, to choose by: one rule for all of a run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pipeline.contracts import Choice
from pipeline.seeds import digest

VERSION = "held-out speakers 1"

EVERY = 5
"""One speaker of so many is held out."""

FEWEST = 10
"""Training speakers below which nothing can be chosen."""


def hold_out_speakers(speakers: Iterable[str], sexes: Mapping[str, str] | None = None) -> frozenset[str]:
    """Every fifth of the speakers of each sex, in an order that depends on their names alone.

    Args:
        speakers: names, each as often as it comes.
        sexes: ``f`` or ``m`` by name; who is not there, is of a third group.
    """
    groups: dict[str, list[str]] = {}
    for name in set(speakers):
        groups.setdefault((sexes or {}).get(name, "u"), []).append(name)
    return frozenset(
        name
        for names in groups.values()
        for name in sorted(names, key=lambda name: (digest("held out", name), name))[::EVERY]
    )


MOST_SPEAKERS, MOST_VECTORS = 100, 12
"""More held-out speakers, and more vectors of one, say little more and cost with their square."""


@dataclass(frozen=True, eq=False)
class HeldOutPairs:
    """Pairs of vectors.

    Attributes:
        rows: int [k], rows of the vectors that are compared, among those given.
        first, second: int [p], the two sides of each pair, as places in ``rows``; each pair comes once.
        target: bool [p], whether both are of one speaker.
        speakers: speakers that are compared.
        same_session: whether targets may be two pieces of one recording, because speakers have no second one.
    """

    rows: np.ndarray
    first: np.ndarray
    second: np.ndarray
    target: np.ndarray
    speakers: int
    same_session: bool

    @property
    def n_target(self) -> int:
        return int(self.target.sum())

    @property
    def n_nontarget(self) -> int:
        return len(self.target) - self.n_target

    def choice(self, speakers: Sequence[str], held_speakers: Collection[str], *, alone: bool = False) -> Choice:
        """What a back end is told that is fitted to vectors of ``speakers`` [n], of which those compared come first."""
        aside = np.array([name in held_speakers for name in speakers], dtype=bool)
        return Choice(aside, self.rows, self.first, self.second, self.target, self.speakers, alone)


def pair_held_out(
    ids: Sequence[str], speakers: Sequence[str], held_speakers: Collection[str], sexes: Mapping[str, str] | None = None
) -> HeldOutPairs:
    """All pairs of some vectors of held-out speakers, same sex only.

    Where at least half of the speakers have several recordings, targets are of different recordings; else of different pieces.

    Args:
        ids: [n] ids of vectors; the part before ``#`` is the recording.
        speakers: [n].
        held: the speakers that are held out.
        sexes: ``f`` or ``m`` by speaker; somebody of unknown sex is compared with all.
    """
    rows = sample_vectors(ids, speakers, held_speakers)
    names, speaker = np.unique(np.array([speakers[row] for row in rows], dtype=str), return_inverse=True)
    recording = np.unique(np.array([ids[row].partition("#")[0] for row in rows], dtype=str), return_inverse=True)[1]
    sex = np.array([(sexes or {}).get(str(name), "u") for name in names], dtype=str)[speaker]
    pairs = pair_vectors(speaker, recording, sex)
    kept = pairs.alike & pairs.apart
    return HeldOutPairs(
        np.array(rows, dtype=int),
        pairs.first[kept],
        pairs.second[kept],
        pairs.target[kept],
        len(names),
        pairs.same_session,
    )


class VectorPairs(NamedTuple):
    """All pairs of some vectors, with what decides which of them count.

    Attributes:
        first, second: int [p], the two sides of each pair.
        target: bool [p], whether both are of one speaker.
        alike: bool [p], whether both are of one sex, as far as that is known.
        apart: bool [p], whether it is no target within one recording; all are where speakers have no second recording.
        same_session: whether they have none.
    """

    first: np.ndarray
    second: np.ndarray
    target: np.ndarray
    alike: np.ndarray
    apart: np.ndarray
    same_session: bool


def pair_vectors(speaker: np.ndarray, recording: np.ndarray, sex: np.ndarray) -> VectorPairs:
    """The one rule of which vectors are compared: of one sex, and a speaker's own across recordings, where most speakers have several.

    Args:
        speaker, recording: int [n], numbers of the speaker and of the recording of each vector.
        sex: str [n], ``f`` or ``m``; whoever is of another or unknown one is compared with all.
    """
    n_recordings = [np.unique(recording[speaker == number]).size for number in np.unique(speaker)]
    same_session = 2 * sum(count > 1 for count in n_recordings) < len(n_recordings)
    known = np.isin(sex, ("f", "m"))
    first, second = np.triu_indices(len(speaker), 1)
    target = speaker[first] == speaker[second]
    alike = (sex[first] == sex[second]) | ~known[first] | ~known[second]
    apart = ~target | same_session | (recording[first] != recording[second])
    return VectorPairs(first, second, target, alike, apart, same_session)


def sample_vectors(ids: Sequence[str], speakers: Sequence[str], held_speakers: Collection[str]) -> list[int]:
    """Rows of at most :data:`MOST_VECTORS` vectors of each of at most :data:`MOST_SPEAKERS` held-out speakers.

    Vectors are evenly spaced over the sorted ids of a speaker; speakers come in an order that depends on their names alone.
    """
    own: dict[str, list[int]] = {}
    for row, name in enumerate(speakers):
        if name in held_speakers:
            own.setdefault(name, []).append(row)
    chosen = sorted(own, key=lambda name: (digest("held out", name), name))[:MOST_SPEAKERS]
    rows: list[int] = []
    for name in sorted(chosen):
        ordered = sorted(own[name], key=lambda row: ids[row])
        rows += [ordered[place] for place in space_evenly(len(ordered), MOST_VECTORS)]
    return rows


def space_evenly(count: int, most: int) -> list[int]:
    """At most ``most`` of the places 0 .. count - 1, evenly spaced, the first and the last among them."""
    if count <= most:
        return list(range(count))
    return [place * (count - 1) // (most - 1) for place in range(most)]
