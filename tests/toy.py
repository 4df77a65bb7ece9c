"""A small Kaldi data set of synthetic speakers, for tests through the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pipeline import audio
from pipeline.datasets import synthetic

SEED = 7


HANGS = 1800
"""Seconds after which a run is taken to hang, and is ended. No test asks how long one takes: `make benchmark` does."""

SECONDS = (0.9, 1.6, 3.2)  # one duration band each, so that a corpus has several shards


def wav(folder: Path, speaker: int, number: int, seconds: float) -> tuple[str, str, Path]:
    """Write one utterance; its id, speaker and path."""
    who = synthetic.make_speaker(SEED, speaker)
    made = synthetic.make_utterance(who, SEED, number, seconds)
    name = f"{who.id}-{number:02d}"
    path = folder / "wav" / f"{name}.wav"
    path.parent.mkdir(parents=True, exist_ok=True)
    audio.write(path, made.wave.astype(np.float32), made.rate, "PCM_16")
    return name, who.id, path


Row = tuple[str, str, str, object]
"""Utterance, speaker, sex, and what wav.scp says."""


def write_set(folder: Path, rows: Sequence[Row], models: Sequence[str] | None = None, enrols: bool = False) -> Path:
    """A Kaldi set; with ``models`` all trials of these, with ``enrols`` all utterances in ``enrolls``."""
    tables = {
        "wav.scp": [f"{utterance} {path}" for utterance, _, _, path in rows],
        "utt2spk": [f"{utterance} {speaker}" for utterance, speaker, _, _ in rows],
        "spk2gender": [*dict.fromkeys(f"{speaker} {sex}" for _, speaker, sex, _ in rows)],
    }
    if enrols:
        tables["enrolls"] = [utterance for utterance, _, _, _ in rows]
    if models is not None:
        tables["trials"] = [
            f"{model} {utterance} {'target' if speaker == model else 'nontarget'}"
            for model in models
            for utterance, speaker, _, _ in rows
        ]
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in tables.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder


def corpus(root: Path, speakers: int = 8, utterances: int = 6) -> Path:
    """``toy_enrolls``, ``toy_trials_f`` and ``toy_trials_m`` with 16-bit wav files below ``root``; half of each enrolled."""
    rows: dict[str, list[Row]] = {}
    models: dict[str, list[str]] = {"f": [], "m": []}
    for index in range(speakers):
        who = synthetic.make_speaker(SEED, index)
        models[who.sex].append(who.id)
        for number in range(utterances):
            name, speaker, path = wav(root, index, number, SECONDS[number % 3])
            part = "toy_enrolls" if number < utterances // 2 else f"toy_trials_{who.sex}"
            rows.setdefault(part, []).append((name, speaker, who.sex, path.relative_to(root)))
    for part, members in rows.items():
        is_enrolment = part == "toy_enrolls"
        write_set(root / part, members, None if is_enrolment else models[part[-1]], is_enrolment)
    return root


def run(*arguments: str, cwd: Path, check: bool = False, **environment: str) -> subprocess.CompletedProcess[str]:
    """``python -m pipeline`` with these arguments, as a user starts it."""
    done = subprocess.run(
        [sys.executable, "-m", "pipeline", *arguments],
        cwd=cwd, capture_output=True, text=True, timeout=HANGS, env={**os.environ, **environment},
    )  # fmt: skip
    if check and done.returncode:
        raise AssertionError(f"exit {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return done


def summary(out: str) -> str:
    """All tables of a run, by what it printed."""
    page = next(line for line in out.splitlines() if line.endswith("report.html"))
    return (Path(page).parent / "summary.txt").read_text(encoding="utf-8")


def counts(done: subprocess.CompletedProcess[str]) -> tuple[int, int]:
    """Reused and computed tasks, as the last but one line says."""
    words = done.stdout.splitlines()[-2].split()
    assert words[0] == "tasks:", done.stdout
    return int(words[1]), int(words[3])
