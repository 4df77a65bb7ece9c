"""Anonymised files beside their originals: which of them are the original still, and which were written under a wrong sampling rate.

A file is its original where their waveforms correlate by more than 0.99, whatever the level, polarity, offset, rate, format and coding
(:mod:`pipeline.audio.correlation`). What is not seen: an original that was cut into pieces, that plays faster or slower, or whose
level, spectrum or noise was changed by so much that it correlates less.

Correlations are kept by the digests of the two files, so that a second start compares none.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from pipeline import audio
from pipeline.audio.correlation import peak_correlation
from pipeline.datasets import looking
from pipeline.datasets.looking import IDENTITY_BYTES, TOGETHER, Left
from pipeline.datasets.sameness import Doubt, Rows
from pipeline.names import few
from pipeline.tables.shared import SharedTable

ORIGINAL = 0.99
"""Two recordings whose waveforms correlate by more are one. It is far above what anonymisers leave, mild ones too."""
NEARLY = 0.95
"""Where more than half of the files are originals and all others correlate by more than this, a coding took the rest, and no system."""
RATES = (8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
PADDING, FRAME = 2_400, 512
"""Samples that a coding or the frames of a vocoder may add, and take away."""
FEWEST = 5
"""In fewer files a factor between lengths may be chance, unless it is one."""
SAME_SECONDS = 0.010
"""By so much files may differ in length: a frame."""
_KEPT_SECONDS, _SAID_SECONDS = 10.0, 20.0
_VERSION = 1  # of the correlation: raised when it gives other numbers
_SCHEMA = pa.schema({"identity": pa.binary(IDENTITY_BYTES), "correlation": pa.float64(), "compared_ns": pa.int64()})

log = logging.getLogger(__name__)


class _Pair(NamedTuple):
    """Two files that are to be compared, and the digest of both digests."""

    identity: bytes
    original: Path
    mine: Path


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
        unprotected = self.unprotected
        if 2 * len(unprotected) > len(self.rows) and min(self.correlations) > NEARLY:
            others = len(self.rows) - len(unprotected)
            nearly = f", and the other {others} nearly so" if others else ""
            yield (
                "original",
                (
                    f"{len(unprotected)} of {len(self.rows)} files are the original speech, not anonymised, at another level, offset or coding "
                    f"at most (e.g. {self._few(unprotected)}){nearly}"
                ),
            )
        for rate, places in self.made_at().items():
            same = [place for place in places if self.originals[place]["sample_rate"] == rate]
            if same:
                rates = ", ".join(sorted({f"{self.rows[place]['sample_rate']} Hz" for place in same}))
                yield (
                    "header",
                    (
                        f"{len(same)} of {len(self.rows)} files have as many samples as their original at {rate} Hz and {rates} in their "
                        f"header (e.g. {self._few(same)}): one of the two headers is wrong, and the voice plays too high or too low"
                    ),
                )

    def doubts(self, training: bool = False) -> Iterator[Doubt]:
        """What a reader of numbers on these files must know first."""
        unprotected = self.unprotected
        if unprotected:
            wanted = Counter(row["set"] for row in self.rows)
            counts = Counter(self.rows[place]["set"] for place in unprotected)
            by_set = ", ".join(f"{count} of {wanted[name]} of {name}" for name, count in sorted(counts.items()))
            means = (
                "who trains on them is a weaker attacker than the tables name, and privacy is overestimated"
                if training
                else "they are as private as unprotected speech"
            )
            yield Doubt(
                "unprotected_training" if training else "not_anonymised",
                len(unprotected) / len(self.rows),
                f"{len(unprotected)} of {len(self.rows)} files are the original speech, not anonymised ({by_set}; e.g. "
                f"{self._few(unprotected)}): {means}",
            )
        for rate, places in self.made_at().items():
            odd = [place for place in places if self.originals[place]["sample_rate"] != rate]
            if odd:
                row, original = self.rows[odd[0]], self.originals[odd[0]]
                yield Doubt(
                    "length",
                    len(odd) / len(self.rows),
                    f"{len(odd)} of {len(self.rows)} files last {_seconds(row) / _seconds(original):.4g} times as long as their original, "
                    f"as speech of {rate} Hz does under a header of {row['sample_rate']} Hz (e.g. {self._few(odd)}): if the header is "
                    "wrong, the voice plays too high or too low, and privacy is overestimated",
                )

    def lengths(self) -> Iterator[str]:
        """How many files are longer or shorter than their original."""
        longer = [_seconds(row) - _seconds(original) for original, row in zip(self.originals, self.rows)]
        changed = [off for off in longer if abs(off) > SAME_SECONDS]
        if changed:
            yield (
                f"{len(changed)} of {len(longer)} anonymised files differ in length by more than {1000 * SAME_SECONDS:g} ms, "
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
            before, after = (
                np.array([some[place]["samples"] for place in places]) for some in (self.originals, self.rows)
            )
            for rate in (was, *(one for one in RATES if one != was)):
                # What a right header would be off by. A factor that is not one is met by chance more easily.
                apart = before * abs(header - rate) / was / (3 if rate == was else 12)
                off = after - before * rate / was
                near = (off <= np.minimum(PADDING, apart)) & (-off <= np.minimum(FRAME, apart))
                exact = rate == was and np.mean(near & (off == 0)) >= 0.5
                if rate != header and (exact or (near.mean() >= 0.9 and (rate == was or len(places) >= FEWEST))):
                    found[rate] += np.array(places)[near].tolist()
                    break
        return dict(found)

    def _few(self, places: Sequence[int]) -> str:
        return few([str(self.rows[place]["utterance"]) for place in places])


def _seconds(row: Mapping[Any, Any]) -> float:
    return float(row["samples"] / row["sample_rate"])


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
    pairs = [
        _Pair(_identity(original, row), Path(original["path"]), Path(row["path"]))
        for original, row in zip(originals, rows, strict=True)
    ]
    found = {
        pair.identity: 1.0
        for pair, original, row in zip(pairs, originals, rows)
        if original["sha256"] == row["sha256"] or sounds.get(original["sha256"]) == mine[row["sha256"]]
    }
    kept = SharedTable(folder, _SCHEMA, "identity", "compared_ns") if folder is not None else None
    found = _recalled(kept) | found
    left = list({pair.identity: pair for pair in pairs if pair.identity not in found}.values())
    found |= _compared(left, threads, kept)
    return Resemblance(originals, rows, [found[pair.identity] for pair in pairs])


def _identity(original: Mapping[Any, Any], row: Mapping[Any, Any]) -> bytes:
    text = f"{_VERSION} {original['sha256']} {row['sha256']}"
    return hashlib.blake2b(text.encode(), digest_size=IDENTITY_BYTES).digest()


def _recalled(kept: SharedTable | None) -> dict[bytes, float]:
    if kept is None:
        return {}
    try:
        table = kept.read(["identity", "correlation"])
    except OSError as error:
        return _unkept(error)
    return dict(zip(*(table[name].to_pylist() for name in table.column_names)))


def _compared(pairs: Sequence[_Pair], threads: int, kept: SharedTable | None) -> dict[bytes, float]:
    found: dict[bytes, float] = {}
    new: dict[bytes, float] = {}
    written = said = time.monotonic()
    left = Left(pairs, TOGETHER if looking.is_many(len(pairs), threads) else 1)
    try:
        for correlations in looking.looked(left, len(pairs), threads, correlate):
            new |= correlations
            found |= correlations
            now = time.monotonic()
            if now - said > _SAID_SECONDS:
                said = now
                log.info("compared %d of %d anonymised files with their originals", len(found), len(pairs))
            if now - written > _KEPT_SECONDS:
                _keep(kept, new)
                new, written = {}, now
    finally:
        _keep(kept, new)
    return found


def correlate(pairs: Sequence[_Pair]) -> dict[bytes, float]:
    """The correlation of each pair of files."""
    return {pair.identity: peak_correlation(*audio.load(pair.original), *audio.load(pair.mine)) for pair in pairs}


def _keep(kept: SharedTable | None, new: Mapping[bytes, float]) -> None:
    if kept is None or not new:
        return
    now = time.time_ns()
    rows = [{"identity": one, "correlation": value, "compared_ns": now} for one, value in new.items()]
    try:
        kept.add(pa.Table.from_pylist(rows, _SCHEMA))
    except OSError as error:
        _unkept(error)


def _unkept(error: OSError) -> dict[bytes, float]:
    log.warning("comparisons of files cannot be kept (%s): every start compares them again", error.strerror or error)
    return {}
