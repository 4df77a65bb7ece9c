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
from pipeline.datasets import looking
from pipeline.datasets.sameness import Doubt, Rows
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
TOGETHER = 8192
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
        groups = [everything] if self._is_original(everything) else [*filter(self._is_original, self._large_sets())]
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

    def _large_sets(self) -> list[list[int]]:
        """The places of the rows of each set that is large enough to be judged by itself."""
        sets: dict[str, list[int]] = defaultdict(list)
        for place, row in enumerate(self.rows):
            sets[str(row["set"])].append(place)
        return [places for places in sets.values() if len(places) >= FEWEST_OF_SET]

    def doubts(self, training: bool = False) -> Iterator[Doubt]:
        """What a reader of numbers on these files must know first."""
        if places := self.unprotected:
            total = Counter(row["set"] for row in self.rows)
            counts = sorted(Counter(self.rows[place]["set"] for place in places).items())
            by_set = ", ".join(f"{count} of {total[name]} of {name}" for name, count in counts)
            weaker = "who trains on them is a weaker attacker than the tables name, and privacy is overestimated"
            means = weaker if training else "they are as private as unprotected speech"
            said = self._said(places, f"are the original speech, not anonymised: {by_set}", f": {means}")
            share = len(places) / len(self.rows)
            yield Doubt("unprotected_training" if training else "not_anonymised", share, said)
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
        found: dict[int, list[int]] = defaultdict(list)
        for (was, header), places in groups.items():
            before = np.array([self.originals[place]["samples"] for place in places])
            after = np.array([self.rows[place]["samples"] for place in places])
            for rate in (was, *(one for one in RATES if one != was)):
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
                    found[rate] += np.array(places)[near].tolist()
                    break
        return dict(found)

    def _said(self, places: Sequence[int], text: str, means: str) -> str:
        names = join_few([str(self.rows[place]["utterance"]) for place in places])
        return f"{len(places)} of {len(self.rows)} files {text} (e.g. {names}){means}"


def compare(
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
    found: dict[bytes, float] = {}
    with contextlib.suppress(OSError):  # what cannot be kept is said of what is known of files, which lies beside it
        table = kept.read(["identity", "correlation"]) if kept is not None else _SCHEMA.empty_table()
        found = dict(zip(table["identity"].to_pylist(), table["correlation"].to_pylist()))
    pairs = [_pair(original, row) for original, row in zip(originals, rows, strict=True)]
    for (identity, *_), original, row in zip(pairs, originals, rows):
        if original["sha256"] == row["sha256"] or sounds.get(original["sha256"]) == mine[row["sha256"]]:
            found[identity] = 1.0
    todo = list(dict.fromkeys(pair for pair in pairs if pair[0] not in found))
    for start in range(0, len(todo), TOGETHER):
        some = todo[start : start + TOGETHER]
        new: dict[bytes, float] = {}
        chunk = looking.TOGETHER if looking.is_many(len(some), threads) else 1
        for correlations in looking.looked(looking.Left(some, chunk), len(some), threads, correlate):
            new |= correlations
        found |= new
        if len(todo) > looking.MANY:
            log.info("compared %d of %d anonymised files with their originals", start + len(some), len(todo))
        with contextlib.suppress(OSError):
            if kept is not None:
                columns = [list(new), list(new.values()), [time.time_ns()] * len(new)]
                kept.add(
                    pa.Table.from_arrays(
                        [pa.array(one, kind) for one, kind in zip(columns, _SCHEMA.types)], schema=_SCHEMA
                    )
                )
    return Resemblance(originals, rows, [found[identity] for identity, *_ in pairs])


def _pair(original: Mapping[Any, Any], row: Mapping[Any, Any]) -> _Pair:
    text = f"{_VERSION} {original['sha256']} {row['sha256']}"
    return hashlib.blake2b(text.encode(), digest_size=16).digest(), Path(original["path"]), Path(row["path"])


def correlate(pairs: Sequence[_Pair]) -> dict[bytes, float]:
    """The correlation of each pair of files."""
    return {identity: peak_correlation(*audio.load(one), *audio.load(other)) for identity, one, other in pairs}
