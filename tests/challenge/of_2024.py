"""The folders of VPC 2024, and of track 1 of VPC 2026, which grew out of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tests.challenge import models, scores, sets, tables
from tests.challenge.common import (
    Recordings,
    Wanted,
    Written,
    named,
    notes,
    originals,
    write_joined,
    write_originals,
    write_raw,
    write_training,
)
from tests.challenge.sets import Set


def write(wanted: Wanted) -> Written:
    """A checkout of VPC 2024 after its evaluation: everything is anonymised by utterance."""
    root, data = wanted.folder, wanted.folder / "data"
    recordings = Recordings(root, wanted.seconds)
    evaluated, training, emotions = originals(wanted, ["libri"]), sets.training(*wanted.training), sets.iemocap(2)
    write_raw(data, evaluated, recordings)
    write_originals(data, [*evaluated, *emotions], recordings)
    write_training(data, training, recordings)
    _copies(wanted, [*evaluated, *emotions, training], recordings)
    _for_recognition(data, evaluated, wanted.systems, recordings)
    if wanted.models:
        models.ecapa(root / "exp" / "asv_orig", "original", training, (8, 10))
        models.speaker_vectors(root / "exp" / "asv_orig", evaluated, "")
        for system in wanted.systems:
            suffix = f"_{system}"
            models.ecapa(root / "exp" / f"asv_anon{suffix}", suffix, training, (8, 10))
            for asv in ("asv_orig", f"asv_anon{suffix}"):
                models.speaker_vectors(root / "exp" / asv, evaluated, suffix)
    if wanted.scores:
        for system in wanted.systems:
            scores.write_2024(root / "exp", evaluated, f"_{system}")
    said = [*notes(wanted), "IEMOCAP_dev and IEMOCAP_test have 20 utterances each, and no emotion can be heard"]
    return Written(root, data, named([*evaluated, *emotions, training]), tuple(said))


def write_2026(wanted: Wanted) -> Written:
    """A checkout of VPC 2026, track 1: one trial set of both sexes, with trials across them."""
    root, data = wanted.folder, wanted.folder / "data"
    recordings = Recordings(root, wanted.seconds)
    parts, training = originals(wanted, ["libri"]), sets.training(*wanted.training)
    evaluated = [held for held in parts if held.enrols] + [_mixed(parts, raw) for raw in ("libri_dev", "libri_test")]
    write_originals(data, evaluated, recordings)
    write_training(data, training, recordings)
    _copies(wanted, [*evaluated, training], recordings)
    _for_recognition(data, evaluated, wanted.systems, recordings)
    if wanted.models:
        models.ssl_ecapa(root / "exp" / "asv_ssl", "original", training)
        for system in wanted.systems:
            models.ecapa(root / "exp" / f"asv_anon_{system}", f"_{system}", training, (4, 9), ssl=True)
    if wanted.scores:
        for system in wanted.systems:
            scores.write_2026(root / "exp", evaluated, f"_{system}")
    return Written(root, data, named([*evaluated, training]), tuple(notes(wanted)))


def _mixed(parts: Sequence[Set], raw: str) -> Set:
    """The f and m sets in one, every enrolled speaker tried with every utterance."""
    own = {held.name: held for held in parts if held.raw == raw}
    tried = [own[f"{raw}_trials_f"], own[f"{raw}_trials_m"]]
    both = sets.joined(f"{raw}_trials_mixed", tried)
    enrolled = sorted({row.speaker for row in own[f"{raw}_enrolls"].utterances})
    return replace(both, trials=sets.product(enrolled, both.utterances))


def _copies(wanted: Wanted, held: Sequence[Set], recordings: Recordings) -> None:
    """Folders of their own with the audio inside, completed by the original's tables."""
    for system in wanted.systems:
        for one in held:
            folder = f"data/{one.name}_{system}"
            wavs = {
                row.id: recordings.copy(row, f"_{system}", f"{folder}/wav/{row.id}.wav", row.id)
                for row in one.utterances
            }
            tables.write(wanted.folder / folder, one, wavs, recordings.seconds)


def _for_recognition(data: Path, evaluated: Sequence[Set], systems: Sequence[str], recordings: Recordings) -> None:
    for suffix in ("", *(f"_{system}" for system in systems)):
        wavs = {id_: path for (end, id_), path in recordings.paths.items() if end == suffix}
        write_joined(data, evaluated, "asr", suffix, wavs, recordings.seconds)
