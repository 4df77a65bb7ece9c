"""What the checks of a submission stand on (files beside their originals, one pass over each), and what they find, in which words."""

from __future__ import annotations

import functools
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
import yaml

from pipeline import audio
from pipeline.datasets import probe as probing
from pipeline.datasets.external_copy import Copy, CopyFiles, Row
from pipeline.datasets.listings import Utterance
from pipeline.datasets.probe import Probe
from pipeline.datasets.resemblance import Resemblance
from pipeline.faults import escape_unprintable

Verdict = Literal["ok", "warning", "wrong"]
COLUMNS = ("about", "check", "verdict", "set", "id", "what")


@dataclass(frozen=True)
class Words:
    """Title, meaning and remedy of a check."""

    title: str
    means: str
    mend: str


WORDS = {
    name: Words(**words)
    for name, words in yaml.safe_load(Path(__file__).with_name("words.yaml").read_text(encoding="utf-8")).items()
}


@dataclass(frozen=True)
class Named:
    """One thing that was found: an utterance, a trial, a file or a set."""

    id: str
    set: str = ""
    what: str = ""

    def __post_init__(self) -> None:
        # File names and ids may hold what a terminal would obey.
        for field in ("id", "set", "what"):
            object.__setattr__(self, field, escape_unprintable(getattr(self, field)))


@dataclass(frozen=True)
class Check:
    """What one check found.

    Attributes:
        name: key of :data:`WORDS`.
        about: the label of the submission; '' for the data set.
        findings: all that was found, in order, of so many as ``total``.
        summary: what is to be said of all of it together.
        mend: what to do, where that is not always the same.
    """

    name: str
    about: str
    verdict: Verdict
    findings: tuple[Named, ...] = ()
    total: int = 0
    summary: str = ""
    mend: str = ""

    @property
    def words(self) -> Words:
        return WORDS[self.name]

    @property
    def title(self) -> str:
        """What tables call it."""
        return f"{self.about}: {self.words.title}" if self.about else self.words.title

    @property
    def remedy(self) -> str:
        """What to do; '' where nothing was found."""
        return "" if self.verdict == "ok" else self.mend or self.words.mend

    @property
    def count(self) -> str:
        """How many of how many."""
        return f"{len(self.findings)} of {self.total}" if self.total else str(len(self.findings) or "")


def make_check(
    name: str,
    about: str,
    findings: Sequence[Named],
    total: int,
    verdict: Verdict = "wrong",
    summary: str = "",
    mend: str = "",
) -> Check:
    """A check that is ok where nothing was found."""
    return Check(name, about, verdict if findings else "ok", tuple(findings), total, summary if findings else "", mend)


@dataclass(frozen=True)
class Report:
    """All checks of some submissions, then those of their data set; ``measured`` is what was looked at, a sentence each."""

    checks: tuple[Check, ...]
    measured: tuple[str, ...]

    def select(self, verdict: Verdict) -> list[Check]:
        """The checks with this verdict."""
        return [check for check in self.checks if check.verdict == verdict]

    @property
    def is_wrong(self) -> bool:
        return bool(self.select("wrong"))

    @property
    def verdict(self) -> str:
        """The last line."""
        wrong, warnings = self.select("wrong"), self.select("warning")
        titles = ", ".join(check.title for check in wrong)
        first = f"wrong: {len(wrong)} of {len(self.checks)} checks ({titles})" if wrong else "nothing wrong"
        return f"verdict: {first}" + (
            f", {len(warnings)} warning{'s' if len(warnings) > 1 else ''}" if warnings else ""
        )

    def table(self) -> pd.DataFrame:
        """Everything that was found, a row each; columns :data:`COLUMNS`."""
        rows = [
            (check.about, check.words.title, check.verdict, finding.set, finding.id, finding.what)
            for check in self.checks
            for finding in check.findings
        ]
        return pd.DataFrame(rows, columns=list(COLUMNS), dtype=str)


LEAST_TOP = 0.05
"""Peaks below this part of full scale may be flat by chance: a low tone moves by less than a step of 16 bits there."""
PROGRESS_SECONDS = 20.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Decoded:
    """What one pass shows of a file: its probe as a run would find it, its greatest absolute sample, and how often the wave stays
    there for :data:`audio.CLIPPED_RUN` samples or more."""

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

    def decode(path: Path) -> Decoded:
        counter = TopCounter()
        probe = probing.probe_file(path, longest_seconds, counter.add)
        return Decoded(probe, counter.peak, counter.flat_tops)

    with ThreadPoolExecutor(max(1, threads)) as pool:
        try:
            for path, result in zip(unique, pool.map(decode, unique), strict=True):
                decoded[path] = result
                if time.monotonic() - reported > PROGRESS_SECONDS:
                    reported = time.monotonic()
                    log.info("decoded %d of %d audio files", len(decoded), len(unique))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return decoded


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
        wanted: rows of the utterances that it should hold.
        everyone: rows of all utterances, whose originals a file may hold by mistake.
        files: what was found by name.
        decoded: every file, originals too.
        compare: as :func:`pipeline.datasets.resemblance.compare_with_originals`.
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
        originals = [_as_row(pair.row, pair.row["path"], pair.original.probe) for pair in self.pairs]
        rows = [_as_row(pair.row, pair.path, pair.mine.probe) for pair in self.pairs]
        sounds = {pair.original.probe.sha256: pair.original.probe.sound for pair in self.pairs}
        return originals, rows, sounds, {pair.mine.probe.sha256: pair.mine.probe.sound for pair in self.pairs}

    @functools.cached_property
    def owners(self) -> tuple[list[Row], dict[str, str]]:
        """The sound originals of all utterances as rows, and what is heard in them by their digests."""
        probes = [(row, self.decoded[row["path"]].probe) for row in self.everyone if row["path"] is not None]
        rows = [{**row, "sha256": probe.sha256} for row, probe in probes if not probe.kind]
        return rows, {probe.sha256: probe.sound for _, probe in probes if not probe.kind}

    @functools.cached_property
    def resemblance(self) -> Resemblance:
        """The anonymised files of the pairs beside their originals."""
        return self.compare(*self.compared)


def _as_row(row: Row, path: Path, probe: Probe) -> Row:
    """A row of a manifest with what was heard in its file."""
    return {**row, "path": path, "sha256": probe.sha256, "samples": probe.samples, "sample_rate": probe.sample_rate}


def make_row(listed: Utterance) -> Row:
    """An utterance of the data set as a row of a manifest without its audio; ``path`` is None where a fault was reported."""
    names = ("utterance", "speaker", "sex", "set", "role", "position", "path")
    return {name: getattr(listed, name) for name in names}
