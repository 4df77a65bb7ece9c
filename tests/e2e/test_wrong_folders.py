"""Copies of the wrong speech, through the command line."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile

from pipeline.tables import checks
from tests import toy
from tests.datasets.conftest import RATE, Tiny, noise, refused
from tests.e2e.test_external import SETS, system, theirs
from tests.running import Command

__all__ = ["refused"]


# Copies of the wrong speech ------------------------------------------------------------------------------------------

ALL = [(one, utterance) for one, utterances in SETS.items() for utterance in utterances]


def shifted(small: Tiny, root: Path, by: int, ending: str = "wav", padding: int = 0) -> Path:
    """A copy of the tiny set in which each utterance has the original that stands so many lines further down."""
    for place, (one, utterance) in enumerate(ALL):
        path = root / f"{one}_x" / "wav" / f"{utterance}.{ending}"
        path.parent.mkdir(parents=True, exist_ok=True)
        wave, _ = soundfile.read(small.wav(ALL[(place + by) % len(ALL)][1]), dtype="int16")
        soundfile.write(path, np.concatenate([np.zeros(padding, np.int16), wave]), RATE)
    return root


def test_originals_of_other_utterances_are_said(command: Command, small: Tiny, tmp_path: Path) -> None:
    by, ending = 2, "flac"
    root = shifted(small, tmp_path / "theirs", by, ending, padding=700)
    other = sum(ALL[place][1][0] != ALL[(place + by) % len(ALL)][1][0] for place in range(len(ALL)))
    status, _, err = command("prepare", "system=original", f"dataset.root={small.root}", system(root))
    said = f"{len(ALL)} of {len(ALL)} files hold the original of another utterance, {other} of them of another speaker, e.g. "
    assert status == 0 and err.count(said) == 1
    # One file that holds its own is told from the others.
    soundfile.write(root / f"t_trials_f_x/wav/c-t1.{ending}", noise("another"), RATE)
    _, _, err = command("prepare", "system=original", f"dataset.root={small.root}", system(root))
    assert f"{len(ALL) - 1} of {len(ALL)} files hold the original of another utterance" in err


def test_a_sound_copy_and_an_unprotected_one_hold_nobody_elses(command: Command, small: Tiny, tmp_path: Path) -> None:
    shifted(small, tmp_path / "plain", 0)
    roots = system(theirs(tmp_path / "one"), "", "one"), system(tmp_path / "plain", "", "plain")
    status, _, err = command("prepare", "system=original", f"dataset.root={small.root}", *roots)
    assert status == 3 and "of another utterance" not in err and "system one" not in err
    assert "system plain: " in err and "10 of 10 files are the original speech, not anonymised" in err


@pytest.mark.slow
def test_a_second_run_that_is_the_first(command: Command, small: Tiny, tmp_path: Path) -> None:
    first, again = theirs(tmp_path / "one"), tmp_path / "again"
    shutil.copytree(first, again)

    def said(second: Path) -> str:
        arguments = "system=original", f"dataset.root={small.root}", system(first, f", second_root: {second}")
        status, _, err = command("prepare", *arguments)
        assert status == 0
        return err

    assert "the second run holds the very files of the first (10 of 10 utterances" in said(first)
    assert "the second run holds the very files of the first (10 of 10 utterances" in said(again)
    soundfile.write(again / "t_trials_f_x/wav/a-t0.wav", noise("other draw"), RATE)
    assert "the second run holds the very files of the first (9 of 10 utterances, e.g. a-e0)" in said(again)
    assert "the second run holds" not in said(theirs(tmp_path / "two", of="again {utterance}"))


@pytest.mark.slow
def test_unprotected_speech_of_others_twice_and_to_train_on_is_flagged(
    command: Command, tmp_path: Path, models: Path
) -> None:
    data, train = toy.corpus(tmp_path / "data", speakers=4, utterances=2), tmp_path / "train"
    for speaker in range(20, 32):
        for number in range(2):
            name, who, path = toy.wav(tmp_path / "made", speaker, number, 1.0)
            (train / who).mkdir(parents=True, exist_ok=True)
            shutil.copy(path, train / who / f"{name}.wav")
            wave = soundfile.read(path)[0]
            there = tmp_path / "learnt" / f"{name}.wav"
            there.parent.mkdir(exist_ok=True)
            soundfile.write(there, wave[::-1] if number else 0.5 * wave, RATE)
    root, files = tmp_path / "theirs", sorted((data / "wav").glob("*.wav"))
    root.mkdir()
    for path, other in zip(files, [*files[2:], *files[:2]], strict=True):
        shutil.copy(other, root / path.name)
    status, out, err = command(
        f"dataset.root={data}", f"dataset.train={train}", "system=original",
        system(root, f", second_root: {root}, train_root: {tmp_path / 'learnt'}"),
        "extractor=[ge2e]", f"paths.models={models}", "attacker=[semi_informed]", "backend=[wccn]", "backend.wccn.as_norm=null",
        "metric=[asv]", "diagnostics=false",
    )  # fmt: skip
    assert status == 0, err
    page = Path(out.splitlines()[-1])
    html, found = page.read_text(), checks.read(page.parent)
    for check, said in {
        "others_original": "8 of 8 files hold the original of another utterance, 8 of them of another speaker",
        "second_run": "the second run holds the very files of the first (8 of 8 utterances",
        "unprotected_training": "12 of 24 files are the original speech, not anonymised: ",
    }.items():
        rows = found[found["check"] == check]
        assert rows["flagged"].all() and set(rows["value"]) == {0.5 if check == "unprotected_training" else 1.0}, check
        assert said in html and html.index(said) < html.index("<nav") and said in " ".join(out.split())


def test_no_trial_sets_at_all_is_a_fault_of_that_setting(command: Command, small: Tiny) -> None:
    status, out, err = command("prepare", f"dataset.root={small.root}", "dataset.sets=[]")
    assert (status, out) == (2, "") and "- dataset.sets: " in err and "an empty list leaves nothing" in err
    assert "metric" not in err and "t_trials_f" not in err
