"""Folders that are not what they are taken for, through the command line: roots a level too high, copies of the wrong speech,
names of models that are not those of the speakers."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
import soundfile

from pipeline.datasets import importers, trial_checks
from pipeline.errors import DataError
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


def replaced(small: Tiny, table: str, column: int, change: Callable[[str], str], lines: slice = slice(None)) -> None:
    """Write one column of a table anew, in some of its lines."""
    file = small.root / table
    rows = [line.split() for line in file.read_text().splitlines()]
    for row in rows[lines]:
        row[column] = change(row[column])
    file.write_text("".join(" ".join(row) + "\n" for row in rows))


RENAMED: dict[str, tuple[Callable[[str], str], str]] = {
    "prefix": (lambda one: f"spk_{one}", "have 'spk_' before them, e.g. spk_a"),
    "suffix": (lambda one: f"{one}.wav", "have '.wav' behind them"),
    "both, with what a shell reads": (lambda one: f"a'\"${one}@\\", " before and "),
    "capitals": (str.upper, "differ in upper and lower case, e.g. A"),
}


@pytest.mark.parametrize("how", RENAMED)
@pytest.mark.parametrize(
    ("table", "column", "what"),
    [
        ("t_trials_f/trials", 0, "all 2 models of the list of t_trials_f"),
        ("t_trials_f/trials", 1, "all 6 utterances of the list of t_trials_f"),
        ("t_enrolls/enrolls", 0, "all 4 enrolled utterances of t_enrolls"),
    ],
)
def test_ids_that_were_all_changed_alike_are_one_fault_with_the_command(
    small: Tiny, refused: Callable[..., DataError], table: str, column: int, what: str, how: str
) -> None:
    change, said = RENAMED[how]
    before = (small.root / table).read_text()
    replaced(small, table, column, change)
    error = refused(importers.read_data_set, small.settings())
    (fault,) = error.faults
    assert what in fault.what and said in fault.what and fault.where == f"{small.root / table}:1"
    command = fault.what[fault.what.index("awk ") :]
    subprocess.run(["sh", "-c", command], check=True)
    assert (small.root / table).read_text() == before
    importers.read_data_set(small.settings())


def test_ids_that_lack_what_the_sets_have(small: Tiny, refused: Callable[..., DataError]) -> None:
    for table, columns in {"t_trials_f/trials": [1], "t_trials_f/utt2spk": [0], "t_trials_f/wav.scp": [0], "t_trials_f/utt2dur": [0]}.items():  # fmt: skip
        for column in columns:
            replaced(small, table, column, lambda one: f"x_{one}-v1")
    before = (small.root / "t_trials_f/trials").read_text()
    replaced(small, "t_trials_f/trials", 1, lambda one: one.removeprefix("x_").removesuffix("-v1"))
    (fault,) = refused(importers.read_data_set, small.settings()).faults
    assert (
        "all 6 utterances of the list of t_trials_f lack 'x_' before and '-v1' behind them, e.g. a-t0 for x_a-t0-v1"
        in fault.what
    )
    subprocess.run(["sh", "-c", fault.what[fault.what.index("awk ") :]], check=True)
    assert (small.root / "t_trials_f/trials").read_text() == before


def test_the_command_is_printed_and_mends_the_list(command: Command, small: Tiny) -> None:
    replaced(small, "t_trials_f/trials", 0, lambda one: f"spk_{one}")
    status, out, err = command("prepare", f"dataset.root={small.root}")
    assert (status, out) == (3, "") and err.count("spk_a") == 1 and "is not enrolled" not in err
    subprocess.run(["sh", "-c", next(line for line in err.splitlines() if "awk " in line).partition(": awk ")[2].join(["awk ", ""])], check=True)  # fmt: skip
    assert command("prepare", f"dataset.root={small.root}")[0] == 0


@pytest.mark.parametrize("name", ["A", "spk_a", "a_x", "xA-y"])
def test_one_unknown_model_gets_the_id_that_it_is_made_of(
    small: Tiny, refused: Callable[..., DataError], name: str
) -> None:
    replaced(small, "t_trials_f/trials", 0, lambda _: name, slice(0, 6))
    (fault,) = refused(importers.read_data_set, small.settings()).faults
    hint = "" if name == "xA-y" else "; did you mean 'a'?"
    assert fault.what == f"model '{name}' is not enrolled in t_enrolls (6 trials, this is the first){hint}"


@pytest.mark.parametrize(
    ("name", "known", "near"),
    [
        ("F1", ["f1", "f2"], "f1"),
        ("spk_f1", ["f1", "f10", "f2"], "f1"),
        ("f1", ["spk_f1", "spk_f10"], "spk_f1"),
        ("1089", ["spk1089", "spk10890"], "spk1089"),
        ("f12", ["m7", "f1x2"], "f1x2"),
        ("q", ["f1", "m1"], ""),
        ("p225-001", ["p225-001_mic1", "p225-001_mic2"], None),
    ],
)
def test_the_nearest_id(name: str, known: list[str], near: str | None) -> None:
    found = trial_checks.hint_nearest(name, known)
    assert found == (f"; did you mean '{near}'?" if near else "") if near is not None else "p225-001_mic" in found


# Sets ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pair", ["reference probe", "gallery query", "Gallery queries", "ref probes"])
def test_other_words_for_enrolment_and_trials(
    small: Tiny, refused: Callable[..., DataError], tmp_path: Path, pair: str
) -> None:
    for table in ("t_enrolls/enrolls", "t_trials_f/trials"):
        (small.root / table).unlink()
    for old, new in zip(("t_enrolls", "t_trials_f"), pair.split(), strict=True):
        (small.root / old).rename(small.root / new)
    (fault,) = refused(importers.read_data_set, small.settings()).faults
    assert "look like enrolment and trials of one protocol" in fault.what
    subprocess.run(["sh", "-ec", fault.what[fault.what.index("mv ") :]], check=True)
    (made,) = importers.read_data_set(small.settings()).trials.values()
    assert (made.name, made.enrolment_set, made.n_target, made.n_nontarget) == ("data_trials", "data_enrolls", 4, 8)


def test_no_trial_sets_at_all_is_a_fault_of_that_setting(command: Command, small: Tiny) -> None:
    status, out, err = command("prepare", f"dataset.root={small.root}", "dataset.sets=[]")
    assert (status, out) == (2, "") and "- dataset.sets: " in err and "an empty list leaves nothing" in err
    assert "metric" not in err and "t_trials_f" not in err


def test_training_on_an_evaluated_trial_set_is_one_fault(command: Command, small: Tiny) -> None:
    status, out, err = command("prepare", f"dataset.root={small.root}", f"dataset.train={small.root / 't_trials_f'}")
    assert (status, out) == (3, "") and "the data set has 1 fault." in err and "twice" not in err
    assert "3 of the 3 speakers of the training set t_trials_f are evaluated: a, b, c" in err
