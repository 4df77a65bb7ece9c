"""A submission beside the originals: which file stands for which utterance, and what one pass over each file shows."""

from __future__ import annotations

import functools
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipeline import audio
from pipeline.datasets import probe as probing
from pipeline.datasets.external_copy import Copy, Row
from pipeline.datasets.external_files import CopyFiles
from pipeline.datasets.listings import Utterance
from pipeline.datasets.probe import Probe
from pipeline.datasets.resemblance import Resemblance
from pipeline.submission.findings import Named

LEAST_TOP = 0.05
"""Peaks below this part of full scale may be flat by chance: a low tone moves by less than a step of 16 bits there."""
PROGRESS_SECONDS = 20.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Decoded:
    """What one pass shows of a file.

    Attributes:
        probe: as a run would find it.
        peak: greatest absolute sample.
        flat_tops: how often the wave stays at its greatest absolute sample for :data:`audio.CLIPPED_RUN` samples or more.
    """

    probe: Probe
    peak: float
    flat_tops: int

    @property
    def seconds(self) -> float:
        return self.probe.samples / self.probe.sample_rate if self.probe.sample_rate else 0.0


def decode_files(paths: Iterable[Path], threads: int, longest_seconds: float = math.inf) -> dict[Path, Decoded]:
    """Each path once, decoded in so many threads."""
    unique = list(dict.fromkeys(paths))
    decoded: dict[Path, Decoded] = {}
    reported = time.monotonic()
    with ThreadPoolExecutor(max(1, threads)) as pool:
        try:
            decode = functools.partial(_decode_file, longest_seconds)
            for path, result in zip(unique, pool.map(decode, unique), strict=True):
                decoded[path] = result
                if time.monotonic() - reported > PROGRESS_SECONDS:
                    reported = time.monotonic()
                    log.info("decoded %d of %d audio files", len(decoded), len(unique))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return decoded


def _decode_file(longest_seconds: float, path: Path) -> Decoded:
    counter = TopCounter()
    probe = probing.probe_file(path, longest_seconds, counter.add)
    return Decoded(probe, counter.peak, counter.flat_tops)


class TopCounter:
    """Counts flat tops over the blocks of a file; one that lies across two blocks (16 s at 16 kHz) is not counted."""

    def __init__(self) -> None:
        self.peak, self.flat_tops = 0.0, 0

    def add(self, wave: np.ndarray, rate: int) -> None:
        """The next block, float32 [n]."""
        peak = float(np.abs(wave).max())
        if peak < self.peak or peak < LEAST_TOP:
            self.peak = max(peak, self.peak)
            return
        tops = 0
        for sign in (1, -1):
            at_top = np.concatenate([[False], wave == np.float32(sign * peak), [False]])
            edges = np.flatnonzero(at_top[1:] != at_top[:-1])
            tops += int((edges[1::2] - edges[::2] >= audio.CLIPPED_RUN).sum())
        self.flat_tops = tops + (self.flat_tops if peak == self.peak else 0)
        self.peak = peak


@dataclass(frozen=True)
class Pair:
    """An utterance whose original and anonymised file are both sound."""

    row: Row
    path: Path
    original: Decoded
    mine: Decoded

    @property
    def longer(self) -> float:
        """Seconds by which the anonymised file is longer."""
        return self.mine.seconds - self.original.seconds

    def named(self, what: str = "") -> Named:
        return Named(str(self.row["utterance"]), str(self.row["set"]), what)


@dataclass(frozen=True, eq=False)
class Side:
    """One folder of anonymised audio.

    Attributes:
        label: what the checks call it.
        copy: where it lies.
        wanted: rows of the utterances that it should hold.
        everyone: rows of all utterances, whose originals a file may hold by mistake.
        files: what was found by name.
        decoded: every file, originals too.
        compare: rows with their originals, as :func:`pipeline.datasets.resemblance.compare_with_originals`.
    """

    label: str
    copy: Copy
    wanted: Sequence[Row]
    everyone: Sequence[Row]
    files: CopyFiles
    decoded: Mapping[Path, Decoded]
    compare: Callable[..., Resemblance]

    @functools.cached_property
    def pairs(self) -> list[Pair]:
        pairs = []
        for row, path in self.files.chosen:
            original = self.decoded.get(row["path"]) if row["path"] is not None else None
            mine = self.decoded[path]
            if original is not None and not original.probe.kind and not mine.probe.kind:
                pairs.append(Pair(row, path, original, mine))
        return pairs

    @functools.cached_property
    def compared(self) -> tuple[list[Row], list[Row], dict[str, str], dict[str, str]]:
        """The pairs as :mod:`pipeline.datasets.resemblance` takes them: rows of originals and of anonymised files, and what is heard in
        each by their digests."""
        originals = [_as_row(pair.row, pair.row["path"], pair.original) for pair in self.pairs]
        rows = [_as_row(pair.row, pair.path, pair.mine) for pair in self.pairs]
        sounds = {pair.original.probe.sha256: pair.original.probe.sound for pair in self.pairs}
        return originals, rows, sounds, {pair.mine.probe.sha256: pair.mine.probe.sound for pair in self.pairs}

    @functools.cached_property
    def owners(self) -> tuple[list[Row], dict[str, str]]:
        """The sound originals of all utterances as rows, and what is heard in them by their digests."""
        probes = [(row, self.decoded[row["path"]].probe) for row in self.everyone if row["path"] is not None]
        sound = [(row, probe) for row, probe in probes if not probe.kind]
        return [{**row, "sha256": probe.sha256} for row, probe in sound], {
            probe.sha256: probe.sound for _, probe in sound
        }

    @functools.cached_property
    def resemblance(self) -> Resemblance:
        """The anonymised files of the pairs beside their originals."""
        return self.compare(*self.compared)


def _as_row(row: Row, path: Path, decoded: Decoded) -> Row:
    """A row of a manifest with what was heard in its file."""
    probe = decoded.probe
    return {**row, "path": path, "sha256": probe.sha256, "samples": probe.samples, "sample_rate": probe.sample_rate}


def make_row(listed: Utterance) -> Row:
    """An utterance of the data set as a row of a manifest without its audio; ``path`` is None where a fault was reported."""
    return {
        "utterance": listed.utterance,
        "speaker": listed.speaker,
        "sex": listed.sex,
        "set": listed.set,
        "role": listed.role,
        "position": listed.position,
        "path": listed.path,
    }
