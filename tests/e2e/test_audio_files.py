"""Odd audio files through the command line: read whole, or refused by name with what mends it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests import sounds
from tests.datasets.conftest import Tiny
from tests.running import Command
from tests.sounds import RATE, noise

FFMPEG = Path(__file__).parents[1] / "ffmpeg.py"


def corpus(root: Path, files: dict[str, bytes]) -> Path:
    """A small Kaldi set that also holds these files, by name, as utterances of a speaker who is not enrolled."""
    tiny = Tiny(root)
    for tables in tiny.tables.values():
        del tables["utt2dur"]
    tables = tiny.tables["t_trials_f"]
    ids = {name: "c-" + re.sub(r"\W+", "-", name) for name in files}
    for name in ids.values():
        tables["wav.scp"].append(f"{name} wav/{name}.wav")
        tables["utt2spk"].append(f"{name} c")
        tables["trials"].append(f"a {name} nontarget")
    tiny.save()
    for name, content in files.items():
        tiny.wav(ids[name]).write_bytes(content)
    return root


def faults(err: str) -> dict[str, str]:
    """The faults of audio files in a message, by utterance."""
    return dict(re.findall(r"utterance '([^']+)': (.*)", err))


def minutes(out: str) -> float:
    found = re.search(r"^t_trials_f  .*?([0-9.]+) min$", out, re.MULTILINE)
    assert found, out
    return float(found[1])


def mended(said: str, tmp_path: Path) -> None:
    """Run the command that a fault names."""
    binaries = tmp_path / "bin"
    binaries.mkdir(exist_ok=True)
    (binaries / "ffmpeg").write_text(f'#!/bin/sh\nexec "{sys.executable}" "{FFMPEG}" "$@"\n')
    (binaries / "ffmpeg").chmod(0o755)
    asked = re.search(r"ffmpeg .*", said)
    assert asked, said
    environment = {**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}"}
    subprocess.run(["sh", "-ec", asked[0]], env=environment, check=True, cwd=tmp_path)


def test_the_command_of_a_refusal_makes_a_file_that_is_read_whole(tmp_path: Path, command: Command) -> None:
    wave, second = noise(2 * RATE), noise(RATE, 1)
    files = {
        "voc": sounds.encoded("VOC", "PCM_16", wave),
        "chained ogg": sounds.encoded("OGG", "VORBIS", wave) + sounds.encoded("OGG", "VORBIS", second),
        "joined mp3": sounds.mp3(wave) + sounds.mp3(second),
        "less wav": sounds.counts_less("WAV PCM_16", noise()),
    }
    root = corpus(tmp_path / "it's data", files)
    status, _, err = command("prepare", f"dataset.root='{str(root).replace(chr(39), chr(92) + chr(39))}'")
    assert status == 3
    found = faults(err)
    assert len(found) == len(files)
    for said in found.values():
        mended(said, tmp_path)
    root = root.rename(tmp_path / "data")
    status, out, err = command("prepare", f"dataset.root={root}")
    assert status == 0, err
    assert minutes(out) == pytest.approx((2 + 3 + 3 + 0.5 + 6 * 0.25) / 60, abs=0.06)


def test_channels_that_cancel_are_named_as_that_and_mended(tmp_path: Path, command: Command) -> None:
    files = {}
    for seed, (name, offset) in enumerate({"opposite": 0.0, "almost": 2.0**-15, "offset": 0.3}.items()):
        wave = noise(RATE, seed)
        files[name] = sounds.encoded("WAV", "PCM_16", np.stack([wave, offset - wave], axis=1))
    root = corpus(tmp_path / "data", files)
    status, _, err = command("prepare", f"dataset.root={root}")
    assert status == 3 and "one channel inverted" in err and "anonymiser that gave nothing back" not in err
    found = faults(err)
    assert found.keys() == {"c-opposite", "c-almost", "c-offset"}
    for said in found.values():
        assert "channels that cancel each other" in said
        mended(said, tmp_path)
    status, _, err = command("prepare", f"dataset.root={root}")
    assert status == 0 and "several channels" not in err


def test_the_limit_of_length_and_the_override_that_raises_it(tmp_path: Path, command: Command) -> None:
    files = {
        "long": sounds.encoded("FLAC", "PCM_16", noise(3 * RATE)),
        "open": sounds.open_flac(sounds.encoded("FLAC", "PCM_16", noise(3 * RATE))),
    }
    root = corpus(tmp_path / "data", files)
    status, _, err = command("prepare", f"dataset.root={root}", "dataset.longest_hours=0.0005")
    assert status == 3 and faults(err).keys() == {"c-long", "c-open"}
    asked = set(re.findall(r"; (dataset\.longest_hours=\S+) takes it", err))
    assert asked == {"dataset.longest_hours=1"}
    assert command("prepare", f"dataset.root={root}", *asked)[0] == 0
