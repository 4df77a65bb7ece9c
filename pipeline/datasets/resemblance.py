"""Anonymised files beside their originals: which of them are the original still, and which were written under a wrong sampling rate.

A file is its original where their waveforms correlate by more than 0.99, whatever the level, polarity, offset, rate, format and coding
(:mod:`pipeline.audio.correlation`). What is not seen: an original that was cut into pieces, that plays faster or slower, or whose
level, spectrum or noise was changed by so much that it correlates less. Correlations are kept by the digests of the two files, so that
a second start compares none.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline import audio
from pipeline.audio.correlation import peak_correlation
from pipeline.datasets import parallel
from pipeline.names import join_few
from pipeline.tables.shared import SharedTable

ORIGINAL, NEARLY = 0.99, 0.95
"""Two recordings whose waveforms correlate by more than the first are one: far above what anonymisers leave, mild ones too. Where more
than half of the files are originals and all others exceed the second, a coding took the rest, and no system."""

RATES = (8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)

PADDING, FRAME = 2_400, 512
"""Samples that a coding or the frames of a vocoder may add, and take away."""

FEWEST_OF_SET = 4
"""A set of fewer files may hold its originals by chance, such as words of a moment."""

FEWEST = 5
"""In fewer files a factor between lengths may be chance, unless it is one."""

LONGEST_ENDS = 0.3
"""Seconds that a program may cut off, or add to, every file."""

SAME_SECONDS = 0.010
"""By so much files may differ in length: a frame."""

PAIRS_KEPT_TOGETHER = 8192
"""Pairs that are compared between two times that correlations are kept: a minute and a half on one core."""

_VERSION = 1  # of the correlation: raised when it gives other numbers
_SCHEMA = pa.schema({"identity": pa.binary(16), "correlation": pa.float64(), "compared_ns": pa.int64()})
_Pair = tuple[bytes, Path, Path]  # a digest of both digests, the original, the anonymised file
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Resemblance:
    """The files of a system beside their originals.

    Attributes:
        originals: rows of a manifest: set, utterance, samples, sample_rate.
        rows: the same rows as the system has them.
        correlations: of the waveforms, row by row.
    """

    originals: Rows
    rows: Rows
    correlations: Sequence[float]

    @property
    def unprotected(self) -> list[int]:
        """The places of the rows that hold their original."""
        return [place for place, value in enumerate(self.correlations) if value > ORIGINAL]

    def faults(self) -> Iterator[tuple[str, str]]:
        """What no number can be measured on, by kind: a system that changed nothing, and samples under a wrong rate."""
        everything = list(range(len(self.rows)))
        # Set by set: an attack on protected trials with original enrolment, or the other way round, is weak for that reason alone.
        sets: dict[str, list[int]] = defaultdict(list)
        for place, row in enumerate(self.rows):
            sets[str(row["set"])].append(place)
        large = [places for places in sets.values() if len(places) >= FEWEST_OF_SET]
        groups = [everything] if self._is_original(everything) else [*filter(self._is_original, large)]
        bare = [place for group in groups for place in group if self.correlations[place] > ORIGINAL]
        if bare:
            names = ", ".join(dict.fromkeys(str(self.rows[place]["set"]) for place in bare))
            nearly = sum(map(len, groups)) - len(bare)
            others = f", and the other {nearly} nearly so" if nearly else ""
            text = "are the original speech, not anonymised, but for level, offset, noise or coding"
            yield "original", self._said(bare, text, f": all of {names}{others}")
        for rate, places in self.made_at().items():
            if same := [place for place in places if self.originals[place]["sample_rate"] == rate]:
                header = self.rows[same[0]]["sample_rate"]
                text = f"have as many samples as their original at {rate} Hz, but for their ends at most, and {header} Hz in their header"
                means = ": one of the two headers is wrong, and the voice plays too high or too low"
                yield "header", self._said(same, text, means)

    def _is_original(self, places: Sequence[int]) -> bool:
        """Whether the files at these places are all original speech, of which a coding may have taken a few below :data:`ORIGINAL`."""
        values = [self.correlations[place] for place in places]
        return 2 * sum(value > ORIGINAL for value in values) > len(values) and min(values) > NEARLY

    def doubts(self, training: bool = False) -> Iterator[Doubt]:
        """What a reader of numbers on these files must know first."""
        if places := self.unprotected:
            total = Counter(row["set"] for row in self.rows)
            counts = sorted(Counter(self.rows[place]["set"] for place in places).items())
            by_set = ", ".join(f"{count} of {total[name]} of {name}" for name, count in counts)
            weaker = "who trains on them is a weaker attacker than the tables name, and privacy is overestimated"
            means = weaker if training else "they are as private as unprotected speech"
            sentence = self._said(places, f"are the original speech, not anonymised: {by_set}", f": {means}")
            share = len(places) / len(self.rows)
            yield Doubt("unprotected_training" if training else "not_anonymised", share, sentence)
        for rate, places in self.made_at().items():
            if odd := [place for place in places if self.originals[place]["sample_rate"] != rate]:
                header = self.rows[odd[0]]["sample_rate"]
                text = f"last as much longer or shorter than their original as speech of {rate} Hz does under a header of {header} Hz"
                means = ": if the header is wrong, the voice plays too high or too low, and privacy is overestimated"
                yield Doubt("length", len(odd) / len(self.rows), self._said(odd, text, means))

    def lengths(self) -> Iterator[str]:
        """How many files are longer or shorter than their original."""
        lasting = [[row["samples"] / row["sample_rate"] for row in rows] for rows in (self.originals, self.rows)]
        changed = [after - before for before, after in zip(*lasting) if abs(after - before) > SAME_SECONDS]
        if changed:
            yield (
                f"{len(changed)} of {len(self.rows)} anonymised files differ in length by more than {1000 * SAME_SECONDS:g} ms, "
                f"from {min(changed):+.2f} s to {max(changed):+.2f} s"
            )

    def made_at(self) -> dict[int, list[int]]:
        """The places of files that seem to have been made at another rate than their header says, by that rate.

        A system that changes lengths changes each by another factor. A wrong header gives all files of the two rates the factor between
        the rates, and as many samples as their original where nothing but the header changed.
        """
        groups: dict[tuple[int, int], list[int]] = defaultdict(list)
        for place, (original, row) in enumerate(zip(self.originals, self.rows, strict=True)):
            groups[original["sample_rate"], row["sample_rate"]].append(place)
        by_rate: dict[int, list[int]] = defaultdict(list)
        for (was, header), places in groups.items():
            before = np.array([self.originals[place]["samples"] for place in places])
            after = np.array([self.rows[place]["samples"] for place in places])
            for rate in (was, *(candidate for candidate in RATES if candidate != was)):
                # What a right header would be off by. A factor that is not one is met by chance more easily.
                apart = before * abs(header - rate) / was / (3 if rate == was else 12)
                off = after - before * rate / was
                # What was cut off or added at the ends of every file.
                ends = float(np.median(off))
                if abs(ends) <= min(LONGEST_ENDS * was, float(np.median(apart))):
                    off = off - ends
                near = (off <= np.minimum(PADDING, apart)) & (-off <= np.minimum(FRAME, apart))
                exact = rate == was and np.mean(near & (off == 0)) >= 0.5
                if rate != header and (exact or (near.mean() >= 0.9 and (rate == was or len(places) >= FEWEST))):
                    by_rate[rate] += np.array(places)[near].tolist()
                    break
        return dict(by_rate)

    def _said(self, places: Sequence[int], text: str, means: str) -> str:
        names = join_few([str(self.rows[place]["utterance"]) for place in places])
        return f"{len(places)} of {len(self.rows)} files {text} (e.g. {names}){means}"


def compare_with_originals(
    originals: Rows, rows: Rows, sounds: Mapping[str, str], mine: Mapping[str, str], threads: int, folder: Path | None
) -> Resemblance:
    """Compare sound files with their originals, on so many cores.

    Args:
        originals: rows of a manifest: set, utterance, path, sha256, samples, sample_rate.
        rows: the same rows as the system has them.
        sounds: what is heard in an original, by the digest of its file: where it is the same, nothing is compared.
        mine: the same of the system's files.
        folder: where correlations are kept; None keeps nothing.
    """
    kept = SharedTable(folder / "correlations", _SCHEMA, "identity", "compared_ns") if folder is not None else None
    correlation_of: dict[bytes, float] = {}
    with contextlib.suppress(OSError):  # what cannot be kept is said of what is known of files, which lies beside it
        table = kept.read(["identity", "correlation"]) if kept is not None else _SCHEMA.empty_table()
        correlation_of = dict(zip(table["identity"].to_pylist(), table["correlation"].to_pylist()))
    pairs: list[_Pair] = []
    for original, row in zip(originals, rows, strict=True):
        text = f"{_VERSION} {original['sha256']} {row['sha256']}"
        identity = hashlib.blake2b(text.encode(), digest_size=16).digest()
        pairs.append((identity, Path(original["path"]), Path(row["path"])))
    for (identity, *_), original, row in zip(pairs, originals, rows):
        if original["sha256"] == row["sha256"] or sounds.get(original["sha256"]) == mine[row["sha256"]]:
            correlation_of[identity] = 1.0
    todo = list(dict.fromkeys(pair for pair in pairs if pair[0] not in correlation_of))
    for start in range(0, len(todo), PAIRS_KEPT_TOGETHER):
        some = todo[start : start + PAIRS_KEPT_TOGETHER]
        new: dict[bytes, float] = {}
        for correlations in parallel.run_parallel(some, threads, correlate_pairs):
            new |= correlations
        correlation_of |= new
        if len(todo) > parallel.MANY_FILES:
            log.info("compared %d of %d anonymised files with their originals", start + len(some), len(todo))
        with contextlib.suppress(OSError):
            if kept is not None:
                columns = [list(new), list(new.values()), [time.time_ns()] * len(new)]
                kept.add(
                    pa.Table.from_arrays(
                        [pa.array(values, kind) for values, kind in zip(columns, _SCHEMA.types)], schema=_SCHEMA
                    )
                )
    return Resemblance(originals, rows, [correlation_of[identity] for identity, *_ in pairs])


def correlate_pairs(pairs: Sequence[_Pair]) -> dict[bytes, float]:
    """The correlation of each pair of files."""
    return {
        identity: peak_correlation(*audio.load(original), *audio.load(anonymised))
        for identity, original, anonymised in pairs
    }


Rows = Sequence[Mapping[Any, Any]]
"""Rows of a manifest."""

_NO_NUMBER = "No number on such speech tells how private a system is"


@dataclass(frozen=True)
class Doubt:
    """Recordings that are not what they are given for.

    Attributes:
        check: a name for it, as diagnostics have it.
        share: of the files.
        sentence: the same in words.
    """

    check: str
    share: float
    sentence: str


@dataclass(frozen=True)
class IdenticalAudio:
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
    def of_record(cls, record: Mapping[str, Any]) -> IdenticalAudio:
        """What a stored record holds, as ``dataclasses.asdict`` made it."""
        doubts = tuple(Doubt(**doubt) for doubt in record["doubts"])
        return cls(**{**record, "example": tuple(record["example"]), "doubts": doubts})

    @property
    def is_doubtful(self) -> bool:
        """Whether there is anything to say."""
        return bool(self.shared or self.doubts)

    @property
    def limits(self) -> Iterator[str]:
        """What a reader of any numbers on these recordings must know first."""
        yield from (doubt.sentence for doubt in self.doubts)
        yield from self.sentences()

    def sentences(self) -> Iterator[str]:
        """The shared sounds in words; nothing if each recording holds a sound of its own."""
        if self.shared:
            yield (
                f"{self.shared} of {self.files} files hold the same audio as the file of another utterance, e.g. {self.example[0]} and "
                f"{self.example[1]}; {self.across} of them that of another speaker; all files of {self.speakers} of {self.of} speakers hold "
                f"one recording. {_NO_NUMBER}"
            )


def group_by_sound(originals: Rows, rows: Rows, sounds: Mapping[str, str], mine: Mapping[str, str]) -> list[Rows]:
    """The recordings of a system by the sound that they hold; of one original there is one. Arguments as of :func:`find_identical`."""
    alike: dict[str, dict[str, Mapping[Any, Any]]] = defaultdict(dict)
    for original, row in zip(originals, rows, strict=True):
        was = sounds.get(original["sha256"], original["sha256"])
        # An utterance that stands in several sets, or under two ids, is one original.
        alike[mine.get(row["sha256"], row["sha256"])].setdefault(was, row)
    return [[*members.values()] for members in alike.values()]


def find_identical(
    originals: Sequence[Mapping[Any, Any]],
    rows: Sequence[Mapping[Any, Any]],
    sounds: Mapping[str, str] = {},
    mine: Mapping[str, str] = {},
) -> IdenticalAudio:
    """Compare the recordings of a system with each other.

    Args:
        originals: rows of a manifest.
        rows: the same rows as the system has them.
        sounds: what is heard in an original, by the digest of its file; by default the file is told by its bytes.
        mine: the same of the system's files.
    """
    alike = group_by_sound(originals, rows, sounds, mine)
    of_speaker: dict[str, dict[str, str]] = defaultdict(dict)
    for original, row in zip(originals, rows, strict=True):
        was = sounds.get(original["sha256"], original["sha256"])
        of_speaker[str(row["speaker"])][was] = mine.get(row["sha256"], row["sha256"])
    groups = [members for members in alike if len(members) > 1]
    repeated = [sounds_of for sounds_of in of_speaker.values() if len(sounds_of) > 1]
    mixed = [members for members in groups if len({str(row["speaker"]) for row in members}) > 1]
    first = min((sorted(str(row["utterance"]) for row in members) for members in groups), default=["", ""])
    return IdenticalAudio(
        files=sum(map(len, alike)),
        shared=sum(map(len, groups)),
        sounds=len(groups),
        across=sum(map(len, mixed)),
        speakers=sum(len(set(sounds_of.values())) == 1 for sounds_of in repeated),
        of=len(repeated),
        example=(first[0], first[1]),
    )


def find_taken(
    everyone: Rows, originals: Rows, rows: Rows, sounds: Mapping[str, str], mine: Mapping[str, str]
) -> list[tuple[Mapping[Any, Any], Rows]]:
    """The recordings that hold the original of another utterance, each with whose it is. Arguments as of :func:`doubt_taken`."""
    owners: dict[str, list[Mapping[Any, Any]]] = defaultdict(list)
    for row in everyone:
        owners[sounds.get(row["sha256"], row["sha256"])].append(row)
    return [
        (row, owners[mine[row["sha256"]]])
        for original, row in zip(originals, rows, strict=True)
        if mine[row["sha256"]] in owners and mine[row["sha256"]] != sounds.get(original["sha256"], original["sha256"])
    ]


def doubt_taken(
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
    taken = find_taken(everyone, originals, rows, sounds, mine)
    if not taken:
        return
    strangers = [pair for pair in taken if all(owner["speaker"] != pair[0]["speaker"] for owner in pair[1])]
    row, (owner, *_) = (strangers or taken)[0]
    whose = f", {len(strangers)} of them of another speaker" if strangers else ""
    yield Doubt(
        "others_original",
        len(taken) / len(rows),
        f"{len(taken)} of {len(rows)} files hold the original of another utterance{whose}, e.g. {row['utterance']} "
        f"({row['speaker']}) holds that of {owner['utterance']} ({owner['speaker']}): names and recordings do not belong together, "
        f"and these files were not anonymised. {_NO_NUMBER}",
    )


def doubt_second_run(first: Rows, second: Rows, sounds: Mapping[str, str], again: Mapping[str, str]) -> Iterator[Doubt]:
    """Recordings of a system's second run that are those of its first.

    Args:
        first: rows of the first run.
        second: rows of the second.
        sounds: what is heard in a file of the first, by its digest.
        again: the same of the second.
    """
    before = {(row["set"], row["utterance"]): sounds[row["sha256"]] for row in first}
    shared = [row for row in second if (row["set"], row["utterance"]) in before]
    same = [row for row in shared if again[row["sha256"]] == before[row["set"], row["utterance"]]]
    if same:
        yield Doubt(
            "second_run",
            len(same) / len(shared),
            f"the second run holds the very files of the first ({len(same)} of {len(shared)} utterances, e.g. "
            f"{same[0]['utterance']}): what compares two runs compares recordings with themselves, unless the system draws nothing",
        )
