"""Folders that are not what they are taken for, through the command line: roots a level too high, copies of the wrong speech,
names of models that are not those of the speakers."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterable
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


# Trees ---------------------------------------------------------------------------------------------------------------


def tree(root: Path, folders: Iterable[str], each: int = 3) -> Path:
    """A tree with some files in each folder, called after all of it."""
    for folder in folders:
        for number in range(each):
            name = f"{folder.replace('/', '-')}-{number}"
            path = root / folder / f"{name}.wav"
            path.parent.mkdir(parents=True, exist_ok=True)
            soundfile.write(path, noise(name), RATE)
    return root


TOO_HIGH = {
    "splits": ("dev/a dev/b test/c test/d", "dev, test", ["dev", "test"]),
    "parts of a name": ("vox1_dev_wav/a vox1_dev_wav/b vox1_test_wav/c", "vox1_dev_wav, vox1_test_wav", ["vox1_dev_wav", "vox1_test_wav"]),
    "a collection": ("wav48/p1 wav48/p2", "wav48", ["wav48"]),
    "any single folder": ("mine/a mine/b", "mine", ["mine"]),
    "two levels": ("data/train/a data/train/b", "data", ["data/train"]),
    "TIMIT": ("DR1/a DR1/b DR2/c DR3/d", "DR1, DR2, DR3", ["DR1", "DR2", "DR3"]),
    "VoxCeleb": ("wav/id1/v1 wav/id1/v2 wav/id2/v3", "wav", ["wav"]),
    "sexes": ("female/a female/b male/c male/d", "female, male", ["female", "male"]),
}  # fmt: skip


@pytest.mark.parametrize(
    "kind", [one if one == "splits" else pytest.param(one, marks=pytest.mark.slow) for one in TOO_HIGH]
)
def test_a_root_one_level_too_high_names_the_one_to_give(command: Command, tmp_path: Path, kind: str) -> None:
    folders, said, below = TOO_HIGH[kind]
    root = tree(tmp_path / "my corpus", folders.split())
    status, out, err = command("prepare", "dataset=folders", f"dataset.root={root}")
    assert (status, out) == (3, "") and said in err and err.count("nontarget") == 0
    given = [one for one in shlex.split(err.split("; ")[-1]) if one.startswith("dataset.root=")]
    assert given == [f"dataset.root={root / name}" for name in below]
    # The speakers of the first of them.
    status, _, err = command("prepare", "dataset=folders", given[0])
    speakers = sorted({one.removeprefix(f"{below[0]}/").split("/")[0] for one in folders.split() if one.startswith(f"{below[0]}/")})  # fmt: skip
    assert status == 0
    s = f"{len(speakers)} speakers of {Path(below[0]).name}, by the names of the folders: {', '.join(speakers)}\n"
    assert s in err


SPEAKERS = (
    "id10001/v1 id10001/v2 id10002/v1 id10003/v1",
    "test01/s1 test02/s1 test03/s1",
    "Dev/s1 Amit/s1 Ravi/s1",
    "test dev clean",
    "female_01/s1 female_02/s1 male_01/s1",
    "train_a/wav bdl/wav clb/wav slt/wav",
    "a/wav b/wav c/wav",
)


@pytest.mark.parametrize("folders", [SPEAKERS[0], *(pytest.param(one, marks=pytest.mark.slow) for one in SPEAKERS[1:])])
def test_folders_of_speakers_are_read_as_ever(command: Command, tmp_path: Path, folders: str) -> None:
    root = tree(tmp_path / "own", folders.split())
    status, _, err = command("prepare", "dataset=folders", f"dataset.root={root}")
    speakers = {one.split("/")[0] for one in folders.split()}
    assert status == 0 and f"{len(speakers)} speakers of own, by the names of the folders: {min(speakers)}, " in err


@pytest.mark.slow
def test_one_folder_is_one_speaker(command: Command, tmp_path: Path) -> None:
    for folders in (["only"], ["only/session"]):
        root = tree(tmp_path / folders[0].replace("/", "_"), folders)
        status, _, err = command("prepare", "dataset=folders", f"dataset.root={root}")
        assert status == 3 and "all audio lies below one folder, 'only', which makes one speaker" in err
        assert "nontarget" not in err and "unknown" not in err


@pytest.mark.slow
@pytest.mark.parametrize("folders", ["clean/t1 clean/t2 other/t3", "clean/t1/c clean/t2/c other/t3/c"])
def test_a_training_root_one_level_too_high(command: Command, small: Tiny, tmp_path: Path, folders: str) -> None:
    root = tree(tmp_path / "own", folders.split())
    status, _, err = command("prepare", f"dataset.root={small.root}", f"dataset.train={root}")
    assert status == 3 and f"dataset.train={root}/clean or dataset.train={root}/other would be one" in err
    status, _, err = command("prepare", f"dataset.root={small.root}", f"dataset.train={root}/clean")
    assert status == 0 and "2 speakers of the training set clean, by the names of the folders: t1, t2" in err


@pytest.mark.slow
def test_a_librispeech_root_whose_speakers_would_be_splits(command: Command, tmp_path: Path) -> None:
    root = tree(tmp_path / "own", ["dev/a", "dev/b", "test/c"])
    status, _, err = command("prepare", "dataset=librispeech", f"dataset.root={root}")
    assert status == 3 and "dev, test" in err and f"dataset.root={root}/dev or " in err
    assert "would be one (with dataset=folders)" in err
    deep = tree(tmp_path / "deep", ["dev/1/2", "dev/2/3", "test/3/4"])
    status, _, err = command("prepare", "dataset=librispeech", f"dataset.root={deep}")
    assert status == 3 and f"dataset.root={deep}/dev or dataset.root={deep}/test would be one" in err
    status, _, err = command("prepare", "dataset=librispeech", f"dataset.root={deep}/dev")
    assert status == 0 and "2 speakers of dev, by the names of the folders: 1, 2" in err


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


@pytest.mark.parametrize(
    ("by", "ending", "padding"), [pytest.param(1, "wav", 0, marks=pytest.mark.slow), (2, "flac", 700)]
)
def test_originals_of_other_utterances_are_said(
    command: Command, small: Tiny, tmp_path: Path, by: int, ending: str, padding: int
) -> None:
    root = shifted(small, tmp_path / "theirs", by, ending, padding)
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


# Ids -----------------------------------------------------------------------------------------------------------------


# Sets ----------------------------------------------------------------------------------------------------------------


def test_no_trial_sets_at_all_is_a_fault_of_that_setting(command: Command, small: Tiny) -> None:
    status, out, err = command("prepare", f"dataset.root={small.root}", "dataset.sets=[]")
    assert (status, out) == (2, "") and "- dataset.sets: " in err and "an empty list leaves nothing" in err
    assert "metric" not in err and "t_trials_f" not in err


def test_training_on_an_evaluated_trial_set_is_one_fault(command: Command, small: Tiny) -> None:
    status, out, err = command("prepare", f"dataset.root={small.root}", f"dataset.train={small.root / 't_trials_f'}")
    assert (status, out) == (3, "") and "the data set has 1 fault." in err and "twice" not in err
    assert "3 of the 3 speakers of the training set t_trials_f are evaluated: a, b, c" in err
