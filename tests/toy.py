"""A small Kaldi data set of synthetic speakers, for tests through the command line."""

from __future__ import annotations

import os
import subprocess
import sys
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


def corpus(root: Path, speakers: int = 8, utterances: int = 6) -> Path:
    """``toy_enrolls``, ``toy_trials_f`` and ``toy_trials_m`` with 16-bit wav files below ``root``; half of each enrolled."""
    lines: dict[str, dict[str, list[str]]] = {}
    models: dict[str, list[str]] = {"f": [], "m": []}
    for index in range(speakers):
        sex = synthetic.make_speaker(SEED, index).sex
        for number in range(utterances):
            name, speaker, path = wav(root, index, number, SECONDS[number % 3])
            which = "toy_enrolls" if number < utterances // 2 else f"toy_trials_{sex}"
            tables = lines.setdefault(
                which, {"wav.scp": [], "utt2spk": [], "spk2gender": [], "enrolls": [], "trials": []}
            )
            tables["wav.scp"].append(f"{name} {path.relative_to(root)}")
            tables["utt2spk"].append(f"{name} {speaker}")
            if f"{speaker} {sex}" not in tables["spk2gender"]:
                tables["spk2gender"].append(f"{speaker} {sex}")
            if which == "toy_enrolls":
                tables["enrolls"].append(name)
        models[sex].append(synthetic.make_speaker(SEED, index).id)
    for sex, names in models.items():
        tables = lines[f"toy_trials_{sex}"]
        tables["trials"] = [
            f"{model} {entry.split()[0]} {'target' if entry.split()[1] == model else 'nontarget'}"
            for model in names
            for entry in tables["utt2spk"]
        ]
    for which, tables in lines.items():
        (root / which).mkdir()
        for name, content in tables.items():
            if content:
                (root / which / name).write_text("".join(f"{line}\n" for line in content))
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
