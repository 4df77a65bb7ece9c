"""What fine-tuning hears: pieces of one length, who of the speakers is trained on, and the pairs that are verified."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pipeline.contracts import Waveforms
from pipeline.errors import DataError
from pipeline.nets.embedding import find_fault
from pipeline.nets.training import take_rounds
from pipeline.nets.waveforms import RATE, cut_middle, play_at_speed
from pipeline.protocol.held_out import FEWEST, hold_out_speakers, pair_vectors
from pipeline.seeds import generator

VERSION = "finetune pieces 1"

_SPEAKERS, _EACH = 100, 12  # speakers that are verified, and pieces of each, at most


@dataclass(frozen=True, eq=False)
class Pieces:
    """Utterances cut into uniform parts; a piece is the middle of its part, and what is shorter is repeated.

    Attributes:
        length: samples of a piece.
        items: the utterance of each, int64 [n].
        starts, stops: samples between which each part lies, int64 [n].
        n_unusable: parts left out because they are silent.
    """

    audio: Waveforms
    length: int
    items: np.ndarray
    starts: np.ndarray
    stops: np.ndarray
    n_unusable: int

    def __len__(self) -> int:
        return len(self.items)

    def wave(self, piece: int, speed: float = 1.0) -> np.ndarray:
        """A piece at a speed, float32 [length]."""
        item, start, stop = (int(values[piece]) for values in (self.items, self.starts, self.stops))
        return play_at_speed(cut_middle(self.audio, item, start, stop, round(self.length * speed)), speed, self.length)

    def speaker(self, piece: int) -> str:
        """Whose a piece is."""
        return self.audio.speakers[int(self.items[piece])]

    def recording(self, piece: int) -> str:
        """Of which recording a piece is."""
        return self.audio.recordings[int(self.items[piece])]


def cut_pieces(audio: Waveforms, items: Sequence[int], seconds: float) -> Pieces:
    """Each of some utterances in as many parts of equal length as come closest to ``seconds``, one at least."""
    length = round(seconds * RATE)
    rows: list[tuple[int, int, int]] = []
    silent = 0
    for item in items:
        n = int(audio.lengths[item])
        borders = np.linspace(0, n, 1 + max(1, round(n / length))).astype(int).tolist()
        for start, stop in pairwise(borders):
            if find_fault(cut_middle(audio, item, start, stop, length)):
                silent += 1
            else:
                rows.append((item, start, stop))
    parts = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return Pieces(audio, length, parts[:, 0], parts[:, 1], parts[:, 2], silent)


def list_sexes(audio: Waveforms) -> dict[str, str]:
    """``f`` or ``m`` of the speakers of whom it is known."""
    return {name: sex for name, sex in zip(audio.speakers, audio.sexes, strict=True) if sex in ("f", "m")}


def split_utterances(audio: Waveforms) -> tuple[list[int], list[int]]:
    """The utterances to train on, and those of held-out speakers under the first draw of the system that is attacked.

    Raises:
        DataError: there are too few speakers to hold any out.
    """
    own = [speaker for speaker, is_own in zip(audio.speakers, audio.own.tolist(), strict=True) if is_own]
    if len(set(own)) < FEWEST:
        raise DataError(
            f"fine-tuning takes {FEWEST} training speakers at least, and there are {len(set(own))}",
            cause="one in five is held out, to choose by",
            remedy="take a larger training set, or attackers that are not trained on the system's speech",
        )
    out = hold_out_speakers(own, list_sexes(audio))
    trained = [item for item, speaker in enumerate(audio.speakers) if speaker not in out]
    verified = [
        item
        for item, speaker in enumerate(audio.speakers)
        if speaker in out and audio.own[item] and audio.draws[item] == 0
    ]
    return trained, verified


@dataclass(frozen=True, eq=False)
class Trials:
    """Pairs of pieces.

    Attributes:
        pieces: those that take part, int64 [n].
        first, second: places among ``pieces``, int64 [pairs].
        target: whether a pair is of one speaker, bool [pairs].
        speakers: how many there are.
        same_session: targets are pieces of one recording, because most speakers have no second one.
        same_sex: whether pairs of a woman and a man are left out.
    """

    pieces: np.ndarray
    first: np.ndarray
    second: np.ndarray
    target: np.ndarray
    speakers: int
    same_session: bool
    same_sex: bool


def draw_trials(pieces: Pieces, among: Sequence[int], seed: int, most: int = _SPEAKERS) -> Trials | None:
    """All pairs of up to 12 pieces each of up to ``most`` speakers, drawn at random, as evaluations compare them.

    Pairs are of one sex, where that is known; targets are of two recordings where at least half of the speakers have several.

    Args:
        pieces: all there are.
        among: those that may take part.
        most: speakers.

    Returns:
        None where there is no pair of one speaker, or none of two.
    """
    of_speaker: dict[str, list[int]] = {}
    for piece in among:
        of_speaker.setdefault(pieces.speaker(piece), []).append(piece)
    random = generator(seed, "speakers to verify")
    names = sorted(of_speaker)
    names = sorted(names[number] for number in random.permutation(len(names))[:most])
    chosen = np.array([piece for name in names for piece in _spread(pieces, of_speaker[name], random)], dtype=np.int64)
    speakers = np.array([pieces.speaker(piece) for piece in chosen.tolist()])
    recordings = [(pieces.speaker(piece), pieces.recording(piece)) for piece in chosen.tolist()]
    numbers = {recording: number for number, recording in enumerate(sorted(set(recordings)))}
    sex_of = list_sexes(pieces.audio)
    pairs = pair_vectors(
        np.searchsorted(names, speakers),
        np.array([numbers[recording] for recording in recordings], dtype=np.int64),
        np.array([sex_of.get(speaker, "u") for speaker in speakers.tolist()]),
    )
    same_sex = bool((pairs.alike & ~pairs.target).any())
    kept = (pairs.alike | (not same_sex)) & pairs.apart
    first, second, target = pairs.first[kept], pairs.second[kept], pairs.target[kept]
    if not target.any() or target.all():
        return None
    return Trials(chosen, first, second, target, len(names), pairs.same_session, same_sex)


def _spread(pieces: Pieces, of_speaker: Sequence[int], random: np.random.Generator) -> list[int]:
    """Up to 12 pieces of a speaker, from as many recordings as there are."""
    by_recording: dict[str, list[int]] = {}
    for piece in of_speaker:
        by_recording.setdefault(pieces.recording(piece), []).append(piece)
    names = sorted(by_recording)
    shuffled = [by_recording[names[number]] for number in random.permutation(len(names))]
    ranked = [(rank, place, piece) for place, parts in enumerate(shuffled) for rank, piece in enumerate(parts)]
    return sorted(piece for _, _, piece in sorted(ranked)[:_EACH])


@dataclass(frozen=True)
class View:
    """A piece at a speed, as it is or with masks."""

    piece: int
    speed: float = 1.0
    masked: bool = False


class Views:
    """What is trained on: each speaker at each speed is a class, and each of its pieces at that speed a view.

    Classes come in an endless row of shuffled rounds, and so do the views of each: all speakers are heard equally often, and
    all pieces of one.

    Args:
        pieces: all there are.
        among: those of the speakers who are trained on.
        speeds: relative ones.
        masked: whether views have masks.
        seed: of the rounds.

    Attributes:
        speakers: names, sorted.
    """

    def __init__(self, pieces: Pieces, among: Sequence[int], speeds: Sequence[float], masked: bool, seed: int) -> None:
        self.speeds, self.masked, self.seed = tuple(speeds), masked, seed
        self.of_speaker: dict[str, list[int]] = {}
        for piece in among:
            self.of_speaker.setdefault(pieces.speaker(piece), []).append(piece)
        self.speakers = sorted(self.of_speaker)

    @property
    def n_classes(self) -> int:
        """Speakers times speeds."""
        return len(self.speakers) * len(self.speeds)

    def __len__(self) -> int:
        return len(self.speeds) * sum(map(len, self.of_speaker.values()))

    def batch(self, step: int, size: int) -> tuple[list[View], np.ndarray]:
        """The views of a step and their classes, int64 [size]."""
        classes = take_rounds(self.n_classes, step, size, self.seed, "round of classes")
        turns = np.arange(step * size, (step + 1) * size) // self.n_classes
        return [self._view(label, turn) for label, turn in zip(classes.tolist(), turns.tolist(), strict=True)], classes

    def first(self, label: int, most: int) -> list[View]:
        """The views of a class that come first, up to so many."""
        n = len(self.of_speaker[self.speakers[label // len(self.speeds)]])
        return [self._view(label, turn) for turn in range(min(n, most))]

    def _view(self, label: int, turn: int) -> View:
        who, speed = divmod(label, len(self.speeds))
        own = self.of_speaker[self.speakers[who]]
        place = int(take_rounds(len(own), turn, 1, self.seed, f"round of pieces, {label}")[0])
        return View(own[place], self.speeds[speed], self.masked)
