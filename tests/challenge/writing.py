"""Which sets, copies, models and scores each edition's folder has, and where."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.challenge import lists, sets, tables, voices
from tests.challenge.sets import Set, Utterance

EDITIONS = ("2020", "2022", "2024", "2026", "attacker", "raw2020", "raw2024")
SUBSETS = {"libri": ("libri_dev", "libri_test"), "vctk": ("vctk_dev", "vctk_test")}


@dataclass(frozen=True)
class Wanted:
    """What is to be written; see :func:`write`."""

    folder: Path
    lists: Path | None
    scale: float
    systems: tuple[str, ...]
    seconds: float
    training: tuple[int, int]


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


def write(
    edition: str,
    folder: Path,
    lists: Path | None = None,
    scale: float = 1.0,
    systems: Sequence[str] | None = None,
    seconds: float = 1.0,
    training: tuple[int, int] = (12, 4),
) -> Written:
    """A complete folder of an edition.

    Args:
        edition: one of EDITIONS. ``raw2020`` and ``raw2024`` are the downloads before the recipes cut sets out of them.
        folder: the checkout; made if it is absent.
        lists: a folder of the real LibriSpeech lists (``libri_dev_enrolls`` ...); ids are invented without it.
        scale: below 1, fewer speakers and fewer utterances of each, and the counts are no longer the protocol's.
        systems: anonymised copies, by suffix without its underscore; None for what the edition usually has.
        seconds: of an utterance, give or take 30 %.
        training: speakers of train-clean-360 and utterances of each; the challenge has 921 and 104,014 in all.
    """
    usual = USUAL[edition]
    wanted = Wanted(folder, lists, scale, tuple(usual if systems is None else systems), seconds, training)
    return WRITERS[edition](wanted)


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


class Audio:
    """Writes each recording once and tells where it is and how long."""

    def __init__(self, checkout: Path, seconds: float) -> None:
        self.checkout, self.each = checkout, seconds
        self.paths: dict[tuple[str, str], str] = {}
        self.seconds: dict[str, float] = {}

    def original(self, row: Utterance, path: str) -> str:
        """The path of a recording, which is written if it is the first time."""
        return self._once(("", row.id), row, path, lambda: voices.original(row, self.each))

    def copy(self, row: Utterance, suffix: str, path: str, pseudonym: str) -> str:
        """The path of an anonymised recording."""
        return self._once((suffix, row.id), row, path, lambda: voices.anonymised(row, self.each, suffix, pseudonym))

    def _once(self, key: tuple[str, str], row: Utterance, path: str, make: Callable[[], object]) -> str:
        if key not in self.paths:
            voices.write(self.checkout / path, make())  # type: ignore[arg-type]
            self.paths[key] = path
            self.seconds[row.id] = voices.samples(row, self.each) / voices.RATE
        return self.paths[key]


def _raw_wav(held: Set, row: Utterance) -> str:
    return f"data/{held.raw}/wav/{row.id}/{row.id}.wav"


def _train_clean(training: Set, audio: Audio) -> dict[str, str]:
    """FLAC files in the corpus, read through a pipe, as Kaldi's LibriSpeech recipe writes it."""
    pipes = {}
    for row in training.utterances:
        speaker, chapter, _ = row.id.split("-")
        path = audio.original(row, f"corpora/LibriSpeech/train-clean-360/{speaker}/{chapter}/{row.id}.flac")
        pipes[row.id] = f"flac -c -d -s {path} |"
    return pipes


def edition_2024(wanted: Wanted) -> Written:
    root = wanted.folder
    audio = Audio(root, wanted.seconds)
    evaluated = originals(wanted, ["libri"])
    training = sets.training(*wanted.training)
    emotions = sets.iemocap(2)
    for held in [*evaluated, *emotions]:
        wavs = {row.id: audio.original(row, _raw_wav(held, row)) for row in held.utterances}
        tables.write(root / "data" / held.name, held, wavs, audio.seconds)
    tables.write(root / "data" / training.name, training, _train_clean(training, audio), audio.seconds)
    _raw(root / "data", evaluated, audio, mic2=False)
    for system in wanted.systems:
        suffix = f"_{system}"
        for held in [*evaluated, *emotions, training]:
            _copy_2024(root, held, suffix, audio)
    for suffix in ("", *(f"_{system}" for system in wanted.systems)):
        _joined(root / "data", evaluated, "asr", suffix, audio)
    return Written(root, root / "data", _named([*evaluated, *emotions, training]), _notes(wanted))


def _copy_2024(root: Path, held: Set, suffix: str, audio: Audio) -> None:
    """All tables of a set, with the wavs of a system inside; everything is anonymised by utterance."""
    folder = f"data/{held.name}{suffix}"
    wavs = {row.id: audio.copy(row, suffix, f"{folder}/wav/{row.id}.wav", row.id) for row in held.utterances}
    tables.write(root / folder, held, wavs, audio.seconds)


def _joined(data: Path, evaluated: list[Set], ending: str, suffix: str, audio: Audio) -> None:
    """``libri_dev_asr`` and the like: the trials of both sexes, without a list of them, for recognition alone."""
    for raw in dict.fromkeys(held.raw for held in evaluated):
        parts = [held for held in evaluated if held.raw == raw and held.name.endswith(("_trials_f", "_trials_m"))]
        both = replace(sets.joined(f"{raw}_{ending}", parts), trials=None)
        wavs = {row.id: audio.paths[suffix, row.id] for row in both.utterances}
        tables.write(data / f"{both.name}{suffix}", both, wavs, audio.seconds)


def _raw(data: Path, evaluated: list[Set], audio: Audio, mic2: bool) -> None:
    """The downloads: a set with all recordings of a subset, and its lists inside."""
    for raw in dict.fromkeys(held.raw for held in evaluated):
        parts = [held for held in evaluated if held.raw == raw and not held.name.endswith("_all")]
        whole = replace(sets.joined(raw, parts), trials=None)
        wavs = {row.id: audio.original(row, _raw_wav(whole, row)) for row in whole.utterances}
        tables.write(data / raw, whole, wavs, audio.seconds)
        ending = "_mic2" if mic2 and raw.startswith("vctk") else ""
        for held in parts:
            name = held.name.removeprefix(f"{raw}_") + ending
            content = held.trials if held.trials is not None else [(row.id,) for row in held.utterances]
            tables.lines(data / raw / name, (" ".join(fields) for fields in content))


def _named(held: Sequence[Set]) -> dict[str, Set]:
    return {one.name: one for one in held}


def _notes(wanted: Wanted) -> tuple[str, ...]:
    speakers, each = wanted.training
    notes = [
        f"train-clean-360 has {speakers} speakers and {speakers * each} utterances (the challenge: 921 and 104,014)",
        "IEMOCAP_dev and IEMOCAP_test have 20 utterances each, and no emotion can be heard",
    ]
    if wanted.scale != 1:
        notes.append("the counts are not the protocol's: evaluate with dataset.protocol=reported")
    return tuple(notes)


USUAL = {"2024": ("mcadams",)}
WRITERS: dict[str, Callable[[Wanted], Written]] = {"2024": edition_2024}
