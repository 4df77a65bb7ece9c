"""Which training speakers are held out, and which of their vectors are compared, to choose by: one rule for all of a run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

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

    def choice(self, speakers: Sequence[str], held: Collection[str], *, alone: bool = False) -> Choice:
        """What a back end is told that is fitted to vectors of ``speakers`` [n], of which those compared come first."""
        aside = np.array([name in held for name in speakers], dtype=bool)
        return Choice(aside, self.rows, self.first, self.second, self.target, self.speakers, alone)


def pair_held_out(
    ids: Sequence[str], speakers: Sequence[str], held: Collection[str], sexes: Mapping[str, str] | None = None
) -> HeldOutPairs:
    """All pairs of some vectors of held-out speakers, same sex only.

    Where at least half of the speakers have several recordings, targets are of different recordings; else they are of
    different pieces.

    Args:
        ids: [n] ids of vectors; the part before ``#`` is the recording.
        speakers: [n].
        held: the speakers that are held out.
        sexes: ``f`` or ``m`` by speaker; somebody of unknown sex is compared with all.
    """
    rows = sample_vectors(ids, speakers, held)
    names, speaker = np.unique(np.array([speakers[row] for row in rows], dtype=str), return_inverse=True)
    recording = np.unique(np.array([ids[row].partition("#")[0] for row in rows], dtype=str), return_inverse=True)[1]
    sex = np.array([_SEX.get((sexes or {}).get(str(name), "u"), 0) for name in names], dtype=int)[speaker]
    several = [len(set(recording[speaker == one])) > 1 for one in range(len(names))]
    same_session = 2 * sum(several) < len(names)

    first, second = np.triu_indices(len(rows), 1)
    target = speaker[first] == speaker[second]
    comparable = (sex[first] == sex[second]) | (sex[first] == 0) | (sex[second] == 0)
    if not same_session:
        comparable &= ~target | (recording[first] != recording[second])
    return HeldOutPairs(
        np.array(rows, dtype=int), first[comparable], second[comparable], target[comparable], len(names), same_session
    )


_SEX = {"f": 1, "m": 2}


def sample_vectors(ids: Sequence[str], speakers: Sequence[str], held: Collection[str]) -> list[int]:
    """Rows of at most :data:`MOST_VECTORS` vectors of each of at most :data:`MOST_SPEAKERS` held-out speakers.

    Vectors are evenly spaced over the sorted ids of a speaker; speakers come in an order that depends on their names alone.
    """
    own: dict[str, list[int]] = {}
    for row, name in enumerate(speakers):
        if name in held:
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
