"""What the editions' folders share: wanted and written, recordings, sets cut out of downloads and joined again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tests.challenge import lists, sets, tables, voices
from tests.challenge.sets import Set, Utterance

SUBSETS = {"libri": ("libri_dev", "libri_test"), "vctk": ("vctk_dev", "vctk_test")}


@dataclass(frozen=True)
class Wanted:
    """What is to be written; see :func:`tests.challenge.write`."""

    folder: Path
    lists: Path | None
    scale: float
    systems: tuple[str, ...]
    seconds: float
    training: tuple[int, int]
    models: bool
    scores: bool


@dataclass(frozen=True)
class Written:
    """What was written.

    Attributes:
        root: what ``dataset.root`` is given.
        data: the folder of the Kaldi sets.
        sets: the original sets by name.
        notes: what is smaller than in the challenge.
    """

    root: Path
    data: Path
    sets: dict[str, Set]
    notes: tuple[str, ...]


def originals(wanted: Wanted, corpora: Sequence[str]) -> list[Set]:
    """The sets of LibriSpeech and, if asked for, VCTK."""
    made: list[Set] = []
    for corpus in corpora:
        for name in SUBSETS[corpus]:
            if corpus == "vctk":
                made += sets.vctk(name, wanted.scale)
            elif wanted.lists is not None:
                made += lists.libri(wanted.lists, name, wanted.scale)
            else:
                made += sets.libri(name, wanted.scale)
    return made


class Recordings:
    """Writes each recording once, and remembers where it is and how long; without audio if ``seconds`` is 0.

    Attributes:
        checkout: the folder at which the paths of wav.scp start.
        paths: by suffix ('' for the original) and id.
        seconds: by id; a copy is as long as its original.
    """

    def __init__(self, checkout: Path, seconds: float) -> None:
        self.checkout, self.each = checkout, seconds
        self.paths: dict[tuple[str, str], str] = {}
        self.seconds: dict[str, float] = {}

    def original(self, row: Utterance, path: str) -> str:
        """The path of a recording, which is written if it is not there yet."""
        return self._once("", row, path, lambda: voices.original(row, self.each), "PCM_16")

    def copy(self, row: Utterance, suffix: str, path: str, pseudonym: str, subtype: voices.Subtype = "PCM_16") -> str:
        """The path of an anonymised recording; for the pseudonym see :func:`voices.anonymised`."""
        return self._once(suffix, row, path, lambda: voices.anonymised(row, self.each, suffix, pseudonym), subtype)

    def _once(
        self, suffix: str, row: Utterance, path: str, make: Callable[[], np.ndarray], subtype: voices.Subtype
    ) -> str:
        if (suffix, row.id) not in self.paths:
            if self.each:
                voices.write(self.checkout / path, make(), subtype)
            self.paths[suffix, row.id] = path
            self.seconds[row.id] = voices.samples(row, self.each or 5.0) / voices.RATE
        return self.paths[suffix, row.id]


def raw_wav(held: Set, row: Utterance) -> str:
    """Where a download keeps a recording."""
    return f"data/{held.raw}/wav/{row.id}/{row.id}.wav"


def write_originals(data: Path, evaluated: Sequence[Set], recordings: Recordings) -> None:
    """The sets that the recipes cut out of the downloads: tables alone."""
    for held in evaluated:
        wavs = {row.id: recordings.original(row, raw_wav(held, row)) for row in held.utterances}
        tables.write(data / held.name, held, wavs, recordings.seconds)


def write_raw(data: Path, evaluated: Sequence[Set], recordings: Recordings) -> None:
    """The downloads: all recordings of a subset, and its lists inside, those of VCTK for microphone 2."""
    for raw in dict.fromkeys(held.raw for held in evaluated):
        parts = [held for held in evaluated if held.raw == raw and not held.name.endswith("_all")]
        whole = replace(sets.joined(raw, parts), trials=None)
        wavs = {row.id: recordings.original(row, raw_wav(whole, row)) for row in whole.utterances}
        tables.write(data / raw, whole, wavs, recordings.seconds)
        ending = "_mic2" if raw.startswith("vctk") else ""
        for held in parts:
            name = held.name.removeprefix(f"{raw}_") + ending
            content = held.trials if held.trials is not None else [(row.id,) for row in held.utterances]
            tables.lines(data / raw / name, (" ".join(fields) for fields in content))


def write_training(data: Path, training: Set, recordings: Recordings) -> None:
    """FLAC files in the corpus, read through a pipe, as Kaldi's LibriSpeech recipe writes it."""
    pipes = {}
    for row in training.utterances:
        speaker, chapter, _ = row.id.split("-")
        path = recordings.original(row, f"corpora/LibriSpeech/train-clean-360/{speaker}/{chapter}/{row.id}.flac")
        pipes[row.id] = f"flac -c -d -s {path} |"
    tables.write(data / training.name, training, pipes, recordings.seconds)


def write_joined(
    data: Path,
    evaluated: Sequence[Set],
    ending: str,
    suffix: str,
    wavs: Mapping[str, str],
    seconds: Mapping[str, float],
) -> None:
    """The trial sets of both sexes in one: ``asr`` (for recognition) without a list of trials, ``trials_all`` with one."""
    for raw in dict.fromkeys(held.raw for held in evaluated):
        own = [held for held in evaluated if held.raw == raw]
        parts = [held for held in own if held.name.endswith("_all")]
        parts = parts or [held for held in own if held.trials is not None]
        both = sets.joined(f"{raw}_{ending}", parts)
        both = replace(both, trials=None) if ending == "asr" else both
        tables.write(data / f"{both.name}{suffix}", both, wavs, seconds)


def named(held: Sequence[Set]) -> dict[str, Set]:
    return {one.name: one for one in held}


def notes(wanted: Wanted) -> list[str]:
    """What is smaller than in the challenge."""
    speakers, each = wanted.training
    said = [
        f"train-clean-360 has {speakers} speakers and {speakers * each} utterances (the challenge: 921 and 104,014)"
    ]
    if not wanted.seconds:
        said.append("there is no audio, and utt2dur is invented")
    if wanted.scale != 1:
        said.append("the counts are not the protocol's: evaluate with dataset.protocol=reported")
    return said
