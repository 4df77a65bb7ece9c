"""The trainer through the command line: kills and signals, bad training sets, and other people's anonymised training speech."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
import soundfile

from pipeline.datasets import synthetic
from pipeline.files import file_digest
from tests import toy
from tests.running import Command

TINY = (
    "train=small", "train.channels=[16,16,16]", "train.aggregation=24", "train.embedding=16", "train.attention=8",
    "train.batch=8", "train.crop_seconds=0.5", "train.speeds=[1.0]",
)  # fmt: skip


def speech(root: Path, speakers: int = 6, utterances: int = 2, seconds: float = 0.8, first: int = 50) -> Path:
    """A LibriSpeech tree of synthetic speakers whom no other test evaluates."""
    for index in range(first, first + speakers):
        who = synthetic.make_speaker(3, index)
        for number in range(utterances):
            path = root / who.id / "0" / f"{who.id}-0-{number:04d}.flac"
            path.parent.mkdir(parents=True, exist_ok=True)
            soundfile.write(path, synthetic.make_utterance(who, 3, number, seconds).wave, 16_000)
    return root


def training(root: Path, exp: Path, *more: str) -> list[str]:
    return ["train", "extractor=[ecapa]", "dataset=librispeech", f"dataset.train={root}", *TINY, f"paths.root={exp}",
            "runtime.device=cpu", *more]  # fmt: skip


def weights(exp: Path) -> Mapping[str, str]:
    """Digest of each file of the only training in a store."""
    (record,) = (exp / "store" / "train").glob("*/*/record.json")
    return {name: file_digest(record.with_name(name)) for name in json.loads(record.read_text())["files"]}


@pytest.mark.slow
def test_a_killed_and_a_stopped_training_end_with_the_same_bytes(tmp_path: Path, command: Command) -> None:  # fmt: skip
    root = speech(tmp_path / "corpus" / "train")
    steps = ("train.steps=120", "train.verify_every=4")
    command(*training(root, tmp_path / "whole", *steps), status=0)
    expected = weights(tmp_path / "whole")
    assert set(expected) == {"embedding_model.safetensors", "training.json"}
    for kind in (signal.SIGKILL, signal.SIGTERM):
        words = [sys.executable, "-m", "pipeline", *training(root, tmp_path / "cut", *steps)]
        with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            # As soon as there is a checkpoint (or a later one), the training is somewhere in its middle.
            before = _checkpoint(tmp_path / "cut")
            while _checkpoint(tmp_path / "cut") == before and process.poll() is None:
                time.sleep(0.01)
            os.kill(process.pid, kind)
        assert process.returncode == (-kind if kind == signal.SIGKILL else 128 + kind)
    assert not list((tmp_path / "cut" / "store" / "train").glob("*/*/record.json"))
    command(*training(root, tmp_path / "cut", *steps), status=0)
    assert weights(tmp_path / "cut") == expected
    assert not list(tmp_path.rglob("*.scratch"))


@pytest.mark.slow
def test_two_trainings_at_once_share_no_folder_and_both_end(tmp_path: Path) -> None:
    root, steps = speech(tmp_path / "corpus" / "train"), ("train.steps=120", "train.verify_every=4")
    words = [sys.executable, "-m", "pipeline", *training(root, tmp_path / "exp", *steps)]
    started = [subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    most = 0
    while any(process.poll() is None for process in started):
        most = max(most, len(list((tmp_path / "exp" / "store" / "train").glob("*/*.scratch"))))
        time.sleep(0.01)
    said = [process.communicate()[1] for process in started]
    assert [process.returncode for process in started] == [0, 0], said
    assert most == 2, "they trained at the same time"
    assert weights(tmp_path / "exp")
    assert not list(tmp_path.rglob("*.scratch")) and not list(tmp_path.rglob("*.tmp-*"))


def _checkpoint(exp: Path) -> float:
    times = [path.stat().st_mtime for path in (exp / "store" / "train").glob("*/*.scratch/*") if path.exists()]
    return max(times, default=0.0)


def test_too_few_speakers_and_a_loss_that_is_no_number_are_refused_with_what_mends_them(tmp_path: Path, command: Command) -> None:  # fmt: skip
    lonely = speech(tmp_path / "lonely" / "train", speakers=1)
    refused = command(*training(lonely, tmp_path / "exp"), status=3)
    assert refused.out == "" and "there are 1 training speakers" in refused.err and "dataset.train=DIR" in refused.err
    root = speech(tmp_path / "corpus" / "train")
    diverging = ("train.steps=6", "train.learning_rate=1e30", "train.warm_up=0")
    failed = command(*training(root, tmp_path / "exp", *diverging), status=5)
    for words in ("the training loss is", "utterances syn5", "lower learning_rate"):
        assert words in failed.err
    nothing = ("train", "extractor=[ge2e]", "dataset=librispeech", f"dataset.train={root}")
    assert "'extractor=[ecapa]'" in command(*nothing, status=2).err


@pytest.mark.slow
def test_somebody_elses_anonymised_training_set_makes_a_semi_informed_attacker(
    tmp_path: Path, command: Command
) -> None:
    """An external system with ``TRAINSET_suffix``; without it, the run is refused before any compute, by name."""
    root = toy.corpus(tmp_path / "data", speakers=8, utterances=4)
    learnt = speech(tmp_path / "corpus" / "learn")
    theirs = tmp_path / "theirs"
    for table in sorted(root.glob("*/wav.scp")):
        for line in table.read_text().splitlines():
            name, path = line.split()
            place = theirs / f"{table.parent.name}_t8" / "wav" / f"{name}.wav"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes((root / path).read_bytes())
    arguments = (
        "recipe=kaldi", f"dataset.root={root}", f"dataset.train={learnt}", *TINY, "train.steps=4", "system=[original]",
        f"+system.t8={{name: external, root: {theirs}, level: speaker}}", "extractor=[ecapa]", "backend=[cosine,plda]",
        "attacker=[semi_informed]", "metric=[asv]", "metric.asv.interval=none",
    )  # fmt: skip
    err = command(*arguments, status=3).err
    assert "system t8, training set" in err and "of learn: no file syn55-0-0001.ext" in err
    for path in sorted(learnt.rglob("*.flac")):
        place = theirs / "learn_t8" / "wav" / path.name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(path.read_bytes())
    ended = command(*arguments, status=0)
    rows = ended.rows
    semi = rows[(rows["attacker"] == "semi_informed") & (rows["metric"] == "eer")]
    ways = {("anonymised (speaker)", "cosine"), ("anonymised (speaker)", "plda"),
            ("original; back end anonymised (speaker)", "plda")}  # fmt: skip
    assert set(zip(semi["trained_on"], semi["backend"])) == ways and len(semi) == 12
    assert dict(semi["condition"].value_counts()) == {"PP": 6, "OPP": 6}
    # "Anonymised" by copying: what is trained on it is what is trained on the original speech.
    rows = rows[~rows["trained_on"].str.startswith("original;")]
    eers = rows[rows["metric"] == "eer"].set_index(["subset", "condition", "backend"])["value"]
    for subset in ("toy_trials_f", "toy_trials_m"):
        for backend in ("cosine", "plda"):
            assert eers[subset, "PP", backend] == eers[subset, "OO", backend]
        assert eers[subset, "OPP", "cosine"] == eers[subset, "OO", "cosine"], "the same enrolment twice"
    checks = set(ended.run.diagnostics["check"])
    assert {"held_out", "on_original", "training_level", "treated_differently"} <= checks
