"""The folders of each edition, and the one function that writes any of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tests.challenge import sets, traces, voices
from tests.challenge.sets import Set, Utterance, write_lines, write_tables

SUBSETS = {"libri": ("libri_dev", "libri_test"), "vctk": ("vctk_dev", "vctk_test")}
ATTACKED = ("B3", "B4", "B5", "T8-5", "T10-2", "T12-5", "T25-1")
MISSPELT = {("T25-1", "libri_dev_trials_f"): "libri_dev_trails_f"}
MODEL = "exp/models/asv_eval/xvect_01709_1"
RETRAINED = "exp/models/user_asv_eval_anon"


@dataclass(frozen=True)
class Order:
    """What is to be written; see :func:`write`."""

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

    def paths_with(self, suffix: str) -> dict[str, str]:
        """The paths with a suffix, by id."""
        return {id_: path for (end, id_), path in self.paths.items() if end == suffix}

    def copies(self, parts: Sequence[Set], system: str) -> None:
        """Anonymised by utterance: folders of their own with the audio inside, completed by the original's tables."""
        for part in parts:
            folder = f"data/{part.name}_{system}"
            self.copy_into(folder, part, f"_{system}")

    def copy_into(self, folder: str, part: Set, suffix: str, has_tables: bool = True) -> None:
        """A set anonymised by utterance, in a folder."""
        wavs = {row.id: self.copy(row, suffix, f"{folder}/wav/{row.id}.wav", row.id) for row in part.utterances}
        if has_tables:
            write_tables(self.checkout / folder, part, wavs, self.seconds)


def make_originals(order: Order, corpora: Sequence[str]) -> list[Set]:
    """The sets of LibriSpeech and, if asked for, VCTK."""
    parts: list[Set] = []
    for corpus in corpora:
        for name in SUBSETS[corpus]:
            if corpus == "vctk":
                parts += sets.vctk(name, order.scale)
            elif order.lists is not None:
                parts += sets.read_libri(order.lists, name, order.scale)
            else:
                parts += sets.libri(name, order.scale)
    return parts


def locate_raw(part: Set, row: Utterance) -> str:
    """Where a download keeps a recording."""
    return f"data/{part.raw}/wav/{row.id}/{row.id}.wav"


def write_originals(data: Path, parts: Sequence[Set], recordings: Recordings) -> None:
    """The sets that the recipes cut out of the downloads: tables alone."""
    for part in parts:
        wavs = {row.id: recordings.original(row, locate_raw(part, row)) for row in part.utterances}
        write_tables(data / part.name, part, wavs, recordings.seconds)


def write_raw(data: Path, parts: Sequence[Set], recordings: Recordings) -> None:
    """The downloads: all recordings of a subset, and its lists inside, those of VCTK for microphone 2."""
    for raw in dict.fromkeys(part.raw for part in parts):
        own = [part for part in parts if part.raw == raw and not part.name.endswith("_all")]
        write_originals(data, [sets.join(raw, own, has_trials=False)], recordings)
        ending = "_mic2" if raw.startswith("vctk") else ""
        for part in own:
            content = part.trials if part.trials is not None else [(row.id,) for row in part.utterances]
            write_lines(data / raw / (part.name.removeprefix(f"{raw}_") + ending), (" ".join(row) for row in content))


def write_training(data: Path, training: Set, recordings: Recordings) -> None:
    """FLAC files in the corpus, read through a pipe, as Kaldi's LibriSpeech recipe writes it."""
    pipes = {}
    for row in training.utterances:
        speaker, chapter, _ = row.id.split("-")
        path = recordings.original(row, f"corpora/LibriSpeech/train-clean-360/{speaker}/{chapter}/{row.id}.flac")
        pipes[row.id] = f"flac -c -d -s {path} |"
    write_tables(data / training.name, training, pipes, recordings.seconds)


def write_joined(
    data: Path, parts: Sequence[Set], ending: str, suffix: str, wavs: Mapping[str, str], seconds: Mapping[str, float]
) -> None:
    """The trial sets of both sexes in one: ``asr`` (for recognition) without a list of trials, ``trials_all`` with one."""
    for raw in dict.fromkeys(part.raw for part in parts):
        own = [part for part in parts if part.raw == raw]
        chosen = [part for part in own if part.name.endswith("_all")] or [
            part for part in own if part.trials is not None
        ]
        both = sets.join(f"{raw}_{ending}", chosen, has_trials=ending != "asr")
        write_tables(data / f"{both.name}{suffix}", both, wavs, seconds)


def write_asr(data: Path, parts: Sequence[Set], systems: Sequence[str], recordings: Recordings) -> None:
    for suffix in ("", *(f"_{system}" for system in systems)):
        write_joined(data, parts, "asr", suffix, recordings.paths_with(suffix), recordings.seconds)


def list_shortfalls(order: Order) -> list[str]:
    """What is smaller than in the challenge."""
    speakers, each = order.training
    notes = [
        f"train-clean-360 has {speakers} speakers and {speakers * each} utterances (the challenge: 921 and 104,014)"
    ]
    if not order.seconds:
        notes.append("there is no audio, and utt2dur is invented")
    if order.scale != 1:
        notes.append("the counts are not the protocol's: evaluate with dataset.protocol=reported")
    return notes


def finish(order: Order, data: Path, parts: Sequence[Set], *more: str) -> Written:
    return Written(order.folder, data, {part.name: part for part in parts}, (*list_shortfalls(order), *more))


def tried(parts: Sequence[Set]) -> list[Set]:
    return [part for part in parts if part.trials is not None]


# 2020 and 2022, which lie below ``baseline/`` and differ little ------------------------------------------------------


def write_2020(order: Order, edition: str = "2020") -> Written:
    """A checkout after the primary baseline's script: ``_anon`` is B2, whose wavs lie one level deeper and are float32."""
    root = order.folder / "baseline"
    data = root / "data"
    recordings = Recordings(root, order.seconds)
    parts, training = make_originals(order, ["libri", "vctk"]), sets.training(*order.training)
    write_raw(data, parts, recordings)
    write_originals(data, parts, recordings)
    write_training(data, training, recordings)
    originals = recordings.paths_with("")
    for ending in ("trials_all", "asr"):
        write_joined(data, parts, ending, "", originals, recordings.seconds)
    suffixes = [f"_{system}" for system in order.systems]
    for suffix in suffixes:
        _copy_by_speaker(data, parts, suffix, edition, recordings)
        if edition == "2022":  # the training set of the semi-informed attacker, by utterance
            recordings.copy_into(f"data/{training.name}{suffix}", training, suffix)
    plain = [part for part in parts if not part.name.endswith("_all")]
    if order.models:
        back_end = "xvect_train_clean_360" if edition == "2020" else ""
        traces.write_kaldi_model(root / MODEL, root, plain, ["", *suffixes], back_end)
        if edition == "2022" and "_anon" in suffixes:
            traces.write_kaldi_model(root / RETRAINED, root, plain, ["", "_anon"], "", "_anon")
    if order.scores:
        for suffix in suffixes:
            traces.write_scores_kaldi(root / "exp", tried(plain), suffix, edition)
    return finish(order, data, [*parts, training])


def write_2022(order: Order) -> Written:
    """A checkout after the evaluation with models that were retrained on anonymised speech."""
    return write_2020(order, "2022")


def _copy_by_speaker(data: Path, parts: Sequence[Set], suffix: str, edition: str, recordings: Recordings) -> None:
    """What is anonymised, by speaker: enrolment, trials of LibriSpeech, ``_all`` trials of VCTK; the rest is cut out of those."""
    lines: dict[str, str] = {}
    for part in parts:
        if part.raw.startswith("libri") or part.name.endswith(("enrolls", "_all")):
            lines |= {row.id: _copy_line(part, row, suffix, edition, recordings) for row in part.utterances}
    for part in parts:
        write_tables(data / f"{part.name}{suffix}", part, lines, recordings.seconds)
    write_joined(data, parts, "asr", suffix, lines, recordings.seconds)


def _copy_line(part: Set, row: Utterance, suffix: str, edition: str, recordings: Recordings) -> str:
    """What wav.scp says of an anonymised recording: B1 leaves it in ``exp`` and reads it through sox, B2 of 2020 one level deeper."""
    folder = f"data/{part.name}{suffix}/wav"
    if suffix.startswith("_B1"):
        # The script calls the folder after the set alone; a second B1 would write over the first.
        folder = f"exp/am_nsf_data/{part.name}{suffix.removeprefix('_B1')}/nsf_output_wav"
    is_deeper = edition == "2020" and suffix == "_anon"
    path = f"{folder}/{row.id}/{row.id}.wav" if is_deeper else f"{folder}/{row.id}.wav"
    # B2 of 2020 treats everybody alike; otherwise a speaker has another pseudo-speaker in every set
    pseudonym = "everybody" if is_deeper else f"{part.name} {row.speaker}"
    recordings.copy(row, suffix, path, pseudonym, "FLOAT" if is_deeper else "PCM_16")
    return f"sox {path} -t wav -R -b 16 - |" if is_deeper or suffix.startswith("_B1") else path


# 2024, and track 1 of 2026, which grew out of it ---------------------------------------------------------------------


def write_2024(order: Order) -> Written:
    """A checkout of VPC 2024 after its evaluation: everything is anonymised by utterance."""
    root, data = order.folder, order.folder / "data"
    recordings = Recordings(root, order.seconds)
    parts, training, emotions = make_originals(order, ["libri"]), sets.training(*order.training), sets.iemocap(2)
    write_raw(data, parts, recordings)
    write_originals(data, [*parts, *emotions], recordings)
    write_training(data, training, recordings)
    for system in order.systems:
        recordings.copies([*parts, *emotions, training], system)
    write_asr(data, parts, order.systems, recordings)
    if order.models:
        traces.write_training(root / "exp" / "asv_orig", "original", training, (8, 10))
        traces.write_speaker_vectors(root / "exp" / "asv_orig", parts, "")
        for system in order.systems:
            traces.write_training(root / "exp" / f"asv_anon_{system}", f"_{system}", training, (8, 10))
            for asv in ("asv_orig", f"asv_anon_{system}"):
                traces.write_speaker_vectors(root / "exp" / asv, parts, f"_{system}")
    if order.scores:
        for system in order.systems:
            traces.write_scores_2024(root / "exp", tried(parts), f"_{system}")
    note = "IEMOCAP_dev and IEMOCAP_test have 20 utterances each, and no emotion can be heard"
    return finish(order, data, [*parts, *emotions, training], note)


def write_2026(order: Order) -> Written:
    """A checkout of VPC 2026, track 1: one trial set of both sexes, with trials across them; its WavLM Large is not imitated."""
    root, data = order.folder, order.folder / "data"
    recordings = Recordings(root, order.seconds)
    plain, training = make_originals(order, ["libri"]), sets.training(*order.training)
    parts = [part for part in plain if part.enrols] + [sets.mix(plain, raw) for raw in SUBSETS["libri"]]
    write_originals(data, parts, recordings)
    write_training(data, training, recordings)
    for system in order.systems:
        recordings.copies([*parts, training], system)
    write_asr(data, parts, order.systems, recordings)
    if order.models:
        traces.write_training(root / "exp" / "asv_ssl", "original", training, (4, 9), ssl=True)
        for system in order.systems:
            traces.write_training(root / "exp" / f"asv_anon_{system}", f"_{system}", training, (4, 9), ssl=True)
    if order.scores:
        for system in order.systems:
            traces.write_scores_2026(root / "exp", tried(parts), f"_{system}")
    return finish(order, data, [*parts, training])


# The tree of the Attacker Challenge, and the downloads ---------------------------------------------------------------


def write_attackers(order: Order) -> Written:
    """``ROOT/SYSTEM/data/SET_SYSTEM/wav/UTT.wav``, with its traps; the originals lie in ``ROOT/original/data``.

    B4 comes without tables and calls its training set ``libri360_anon_B4``; T25-1 has a misspelt folder.
    """
    home = order.folder / "original"
    recordings = Recordings(home, order.seconds)
    parts, training = make_originals(order, ["libri"]), sets.training(*order.training)
    write_originals(home / "data", parts, recordings)
    write_training(home / "data", training, recordings)
    for system in order.systems:
        copies = Recordings(order.folder / system, order.seconds)
        for part in [*parts, training]:
            is_renamed = system == "B4" and part is training
            name = "libri360_anon" if is_renamed else MISSPELT.get((system, part.name), part.name)
            copies.copy_into(f"data/{name}_{system}", part, f"_{system}", has_tables=system != "B4")
    return finish(order, home / "data", [*parts, training])


def write_downloads(order: Order, *corpora: str) -> Written:
    """``data/libri_dev`` and others with their lists inside, before anything is cut out of them."""
    parts = make_originals(order, corpora or ("libri",))
    write_raw(order.folder / "data", parts, Recordings(order.folder, order.seconds))
    written = finish(order, order.folder / "data", parts)
    return replace(written, notes=written.notes[1:])


_WRITERS: dict[str, tuple[Callable[[Order], Written], tuple[str, ...]]] = {
    "2020": (write_2020, ("anon",)),
    "2022": (write_2022, ("anon",)),
    "2024": (write_2024, ("mcadams",)),
    "2026": (write_2026, ("mcadams",)),
    "attacker": (write_attackers, ATTACKED),
    "raw2020": (lambda order: write_downloads(order, "libri", "vctk"), ()),
    "raw2024": (write_downloads, ()),
}
EDITIONS = tuple(_WRITERS)


def write(
    edition: str,
    folder: Path,
    lists: Path | None = None,
    scale: float = 1.0,
    systems: Sequence[str] | None = None,
    seconds: float = 1.0,
    training: tuple[int, int] = (12, 4),
    models: bool = True,
    scores: bool = True,
) -> Written:
    """A complete folder of an edition.

    Args:
        edition: one of EDITIONS. ``raw2020`` and ``raw2024`` are the downloads before the recipes cut sets out of them.
        folder: the checkout; made if it is absent.
        lists: a folder of the real LibriSpeech lists (``libri_dev_enrolls`` ...); ids are invented without it.
        scale: below 1, fewer speakers and fewer utterances of each, and the counts are no longer the protocol's.
        systems: anonymised copies, by suffix without its underscore; None for what the edition usually has.
        seconds: of an utterance, give or take 30 %; 0 leaves the audio out.
        training: speakers of train-clean-360 and utterances of each; the challenge has 921 and 104,014 in all.
        models: whether trained models and vectors are written, where the edition leaves some.
        scores: whether score files are written, where the edition leaves some.
    """
    writer, usual = _WRITERS[edition]
    chosen = tuple(usual if systems is None else systems)
    return writer(Order(folder, lists, scale, chosen, seconds, training, models, scores))
