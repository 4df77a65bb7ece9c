"""The folders of VPC 2020 and 2022, which lie below ``baseline/`` and differ little."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.challenge import kaldi_models, scores, sets, tables
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
from tests.challenge.sets import Set, Utterance

MODEL = "exp/models/asv_eval/xvect_01709_1"
RETRAINED = "exp/models/user_asv_eval_anon"


def write_2020(wanted: Wanted) -> Written:
    """A checkout after the primary baseline's script: ``_anon`` is B2, whose wavs lie one level deeper and are float32."""
    return _write(wanted, "2020")


def write_2022(wanted: Wanted) -> Written:
    """A checkout after the evaluation with models that were retrained on anonymised speech."""
    return _write(wanted, "2022")


def _write(wanted: Wanted, edition: str) -> Written:
    root = wanted.folder / "baseline"
    data = root / "data"
    recordings = Recordings(root, wanted.seconds)
    evaluated, training = originals(wanted, ["libri", "vctk"]), sets.training(*wanted.training)
    write_raw(data, evaluated, recordings)
    write_originals(data, evaluated, recordings)
    write_training(data, training, recordings)
    originals_of = {id_: path for (end, id_), path in recordings.paths.items() if not end}
    for ending in ("trials_all", "asr"):
        write_joined(data, evaluated, ending, "", originals_of, recordings.seconds)
    for system in wanted.systems:
        _copies(data, evaluated, f"_{system}", edition, recordings)
        if edition == "2022":
            _anonymised_training(data, training, f"_{system}", recordings)
    tried = [held for held in evaluated if not held.name.endswith("_all")]
    suffixes = [f"_{system}" for system in wanted.systems]
    if wanted.models:
        kaldi_models.write(
            root / MODEL, root, tried, ["", *suffixes], "xvect_train_clean_360" if edition == "2020" else ""
        )
        if edition == "2022" and "_anon" in suffixes:
            kaldi_models.write(root / RETRAINED, root, tried, ["", "_anon"], "", "_anon")
    if wanted.scores:
        for suffix in suffixes:
            scores.write_kaldi(root / "exp", tried, suffix, edition)
    return Written(wanted.folder, data, named([*evaluated, training]), tuple(notes(wanted)))


def _copies(data: Path, evaluated: Sequence[Set], suffix: str, edition: str, recordings: Recordings) -> None:
    """What is anonymised, by speaker: enrolment, trials of LibriSpeech, ``_all`` trials of VCTK; the rest is cut out of those."""
    lines: dict[str, str] = {}
    of_all = ("enrolls", "_all")
    made = [held for held in evaluated if held.raw.startswith("libri") or held.name.endswith(of_all)]
    for held in made:
        lines |= {row.id: _line(held, row, suffix, edition, recordings) for row in held.utterances}
    for held in evaluated:
        tables.write(data / f"{held.name}{suffix}", held, lines, recordings.seconds)
    write_joined(data, evaluated, "asr", suffix, lines, recordings.seconds)


def _line(held: Set, row: Utterance, suffix: str, edition: str, recordings: Recordings) -> str:
    """What wav.scp says of an anonymised recording: B1 leaves it in ``exp`` and reads it through sox, B2 of 2020 one level deeper."""
    folder = f"data/{held.name}{suffix}/wav"
    if suffix.startswith("_B1"):
        # The script calls the folder after the set alone; a second B1 would write over the first.
        folder = f"exp/am_nsf_data/{held.name}{suffix.removeprefix('_B1')}/nsf_output_wav"
    deeper = edition == "2020" and suffix == "_anon"
    path = f"{folder}/{row.id}/{row.id}.wav" if deeper else f"{folder}/{row.id}.wav"
    # B2 of 2020 treats everybody alike; otherwise a speaker has another pseudo-speaker in every set
    pseudonym = "everybody" if deeper else f"{held.name} {row.speaker}"
    recordings.copy(row, suffix, path, pseudonym, "FLOAT" if deeper else "PCM_16")
    return f"sox {path} -t wav -R -b 16 - |" if deeper or suffix.startswith("_B1") else path


def _anonymised_training(data: Path, training: Set, suffix: str, recordings: Recordings) -> None:
    """The training set of the semi-informed attacker, anonymised by utterance."""
    folder = f"data/{training.name}{suffix}"
    wavs = {row.id: recordings.copy(row, suffix, f"{folder}/wav/{row.id}.wav", row.id) for row in training.utterances}
    tables.write(data.parent / folder, training, wavs, recordings.seconds)
