"""Whether there is enough to train attackers on: a system without anonymised training speech, and training sets of few speakers."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
import soundfile

from tests.datasets.conftest import RATE, Tiny, noise
from tests.datasets.test_training_sets import kaldi_set
from tests.e2e.test_external import system, theirs
from tests.running import Command

QUICK = (
    "recipe=kaldi", "system=[original]", "extractor=[ge2e]", "backend=[cosine,wccn]", "train=none", "metric=[asv]", "diagnostics=false",
)  # fmt: skip
BOTH, ALONE = "attacker=[ignorant,semi_informed]", "attacker=[semi_informed]"


@pytest.fixture
def given(tmp_path: Path) -> list[str]:
    """The tiny set with a training set of ten speakers, and two copies, of which up has anonymised training speech beside it."""
    small = Tiny(tmp_path / "data").save()
    ids = [f"{speaker}-{number}" for speaker in "defghijklm" for number in (0, 1)]
    train = kaldi_set(tmp_path / "other", names=ids)
    up = theirs(tmp_path / "up", of="up {set} {utterance}")
    for name in ids:
        path = up / "train_x" / "wav" / f"{name}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, noise(f"up {name}"), RATE)
    tts = theirs(tmp_path / "tts", of="tts {set} {utterance}")
    systems = [system(up, label="up"), system(tts, label="tts")]
    return [f"dataset.root={small.root}", f"dataset.train={train}", *systems]


def test_a_system_without_training_copies_is_untried_under_that_attacker_alone(
    given: list[str], command: Command
) -> None:
    ended = command("plan", "--tasks", *QUICK, *given, BOTH, "backend.wccn.as_norm=null", status=0)
    (note,) = [line for line in ended.err.splitlines() if line.startswith("not tried on tts: semi_informed")]
    assert "no anonymised copy of the training set (train)" in note and "system.tts.train_root=DIR names one" in note
    lines = ended.out.splitlines()
    fits = {line.partition(" on ")[2].partition(":")[0] for line in lines if "fit wccn" in line}
    assert any("up" in fit for fit in fits) and not any("tts" in fit for fit in fits)
    scored = [line for line in lines if line.startswith("  score t_trials_f")]
    by_ignorant = sum("against tts" in line for line in scored)
    assert by_ignorant == 3, "by cosine and by wccn on either centre"
    adapted = [line for line in scored if "up against up" in line]
    assert adapted and not any("tts" in line for line in adapted), "who has learnt from up's speech, there alone"


@pytest.mark.slow
def test_a_system_that_fewer_attackers_tried_has_no_rank(given: list[str], command: Command) -> None:
    """Under the weaker attackers alone it looks more private than the others."""
    quick = ("backend.wccn.as_norm=null", "report.replicates=5", "metric.asv.replicates=0")
    run = command(*QUICK, *given, BOTH, *quick, status=0).run
    board = run.leaderboard.set_index("system")
    assert board.loc["up", "rank"] == 1 and pd.isna(board.loc["tts", "rank"])
    assert board.loc["tts", "d_ece"] >= 0 and "semi_informed" in board.loc["tts", "untried"]
    assert any(line.startswith("not tried on tts: semi_informed") for line in run.limits)


def test_where_no_attacker_is_left_and_where_named_speech_is_absent_it_is_said(
    given: list[str], command: Command, tmp_path: Path
) -> None:
    err = command("plan", *QUICK, *given, ALONE, "backend.wccn.as_norm=null", status=3).err
    assert "system tts has no anonymised copy of the training set" in err and "no file" not in err
    assert "nothing is left to attack a system by: system tts " in err
    (tmp_path / "none").mkdir()
    absent = given[3].replace("tts}", f"tts, train_root: {tmp_path / 'none'}}}")
    err = command("plan", *QUICK, *given[:3], absent, BOTH, "backend.wccn.as_norm=null", status=3).err
    assert "20 utterances of train have none" in err and "system.tts.train_root=DIR" in err


def test_too_few_speakers_for_as_norm_are_refused_before_anything_is_extracted(
    given: list[str], command: Command, tmp_path: Path
) -> None:
    for verb in (("plan",), ("validate",), ()):
        err = command(*verb, *QUICK, *given, BOTH, status=3).err
        assert "a cohort of 10 training speakers is smaller than the 50 that AS-norm takes" in err
        assert "set backend.wccn.as_norm.top=10, or backend.wccn.as_norm=null" in err
    assert not (tmp_path / "exp" / "store" / "extract").exists()
    command("plan", *QUICK, *given, BOTH, "backend.wccn.as_norm.top=10", status=0)
