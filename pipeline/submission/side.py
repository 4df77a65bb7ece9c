"""A submission beside the originals: which file stands for which utterance, and what was heard in both."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.datasets.external_copy import Copy, Row
from pipeline.datasets.external_files import CopyFiles as Files
from pipeline.datasets.listings import Utterance
from pipeline.datasets.resemblance import Resemblance
from pipeline.submission.findings import Named
from pipeline.submission.hearing import Heard


@dataclass(frozen=True)
class Pair:
    """An utterance whose original and anonymised file are both sound."""

    row: Row
    path: Path
    original: Heard
    mine: Heard

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
        heard: of every file, originals too.
        compare: rows with their originals, as :func:`pipeline.datasets.resemblance.compare_with_originals`.
    """

    label: str
    copy: Copy
    wanted: Sequence[Row]
    everyone: Sequence[Row]
    files: Files
    heard: Mapping[Path, Heard]
    compare: Callable[..., Resemblance]

    @functools.cached_property
    def pairs(self) -> list[Pair]:
        found = []
        for row, path in self.files.chosen:
            original = self.heard.get(row["path"]) if row["path"] is not None else None
            mine = self.heard[path]
            if original is not None and not original.probe.kind and not mine.probe.kind:
                found.append(Pair(row, path, original, mine))
        return found

    @functools.cached_property
    def compared(self) -> tuple[list[Row], list[Row], dict[str, str], dict[str, str]]:
        """The pairs as :mod:`pipeline.datasets.resemblance` takes them: rows of originals and of anonymised files, and what is heard in
        each by their digests."""
        originals = [_as_row(pair.row, pair.row["path"], pair.original) for pair in self.pairs]
        rows = [_as_row(pair.row, pair.path, pair.mine) for pair in self.pairs]
        sounds = {pair.original.probe.sha256: pair.original.probe.sound for pair in self.pairs}
        return originals, rows, sounds, {one.mine.probe.sha256: one.mine.probe.sound for one in self.pairs}

    @functools.cached_property
    def owners(self) -> tuple[list[Row], dict[str, str]]:
        """The sound originals of all utterances as rows, and what is heard in them by their digests."""
        probes = [(row, self.heard[row["path"]].probe) for row in self.everyone if row["path"] is not None]
        sound = [(row, probe) for row, probe in probes if not probe.kind]
        return [{**row, "sha256": probe.sha256} for row, probe in sound], {one.sha256: one.sound for _, one in sound}

    @functools.cached_property
    def resemblance(self) -> Resemblance:
        """The anonymised files of the pairs beside their originals."""
        return self.compare(*self.compared)


def _as_row(row: Row, path: Path, heard: Heard) -> Row:
    """A row of a manifest with what was heard in its file."""
    probe = heard.probe
    return {**row, "path": path, "sha256": probe.sha256, "samples": probe.samples, "sample_rate": probe.sample_rate}


def row(listed: Utterance) -> Row:
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
