"""Somebody else's speech through the command line: external systems, links, trees with a folder a speaker, training sets."""

from __future__ import annotations

import re
import shlex
import shutil
import unicodedata
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

from pipeline.datasets import importers
from pipeline.datasets.settings import DatasetSettings
from pipeline.errors import DataError
from pipeline.tables import checks, results
from tests import toy
from tests.datasets.conftest import RATE, Tiny, noise, refused
from tests.datasets.test_training_sets import kaldi_set, tree
from tests.running import Command

__all__ = ["refused"]

SETS = {"t_enrolls": ["a-e0", "a-e1", "b-e0", "b-e1"], "t_trials_f": [f"{s}-t{n}" for s in "abc" for n in (0, 1)]}


def theirs(root: Path, name: str = "{set}_x/wav/{utterance}.wav", of: str = "{set} {utterance}") -> Path:
    """Anonymised audio of the tiny set; what a file holds follows from ``of``."""
    for one, utterances in SETS.items():
        for utterance in utterances:
            fields = {"set": one, "utterance": utterance, "speaker": utterance[0]}
            path = root / name.format(**fields, upper=utterance.upper())
            path.parent.mkdir(parents=True, exist_ok=True)
            soundfile.write(path, noise(f"anon {of.format(**fields)}"), RATE)
    return root


def system(root: Path, more: str = "", label: str = "t8") -> str:
    return f"+system.{label}={{name: external, root: {root}{more}}}"


def prepared(command: Command, small: Tiny, *arguments: str) -> tuple[int, str, str]:
    return command("prepare", "system=original", f"dataset.root={small.root}", *arguments)


def remedy(err: str, key: str) -> list[str]:
    """The override of a key that a message names, as the shell hands it on."""
    found = re.search(rf"(?:\"|')?{re.escape(key)}=(?:'[^']*'\"|[^\s;,]+)", err)
    assert found, err
    return shlex.split(found[0].rstrip(".;"))


def test_the_level_of_an_external_system_is_one_of_a_closed_list(command: Command, tmp_path: Path) -> None:
    status, _, err = command("validate", system(tmp_path, ", level: foo"))
    assert status == 2 and "system.t8.level" in err and "given: 'foo'" in err
    assert all(level in err for level in ("unknown", "fixed", "speaker", "utterance"))
    assert command("validate", system(tmp_path, ", level: speaker"))[0] == 0


@pytest.mark.parametrize(("of", "across"), [("one", 10), ("{speaker}", 0)])
def test_one_recording_for_several_is_counted(
    command: Command, small: Tiny, tmp_path: Path, of: str, across: int
) -> None:
    status, _, err = prepared(command, small, system(theirs(tmp_path / "anon", of=of)))
    assert status == 0 and "system t8: 10 of 10 files hold the same audio as the file of another utterance" in err
    assert f"; {across} of them that of another speaker; all files of 3 of 3 speakers hold one recording" in err


def test_recordings_shared_by_two_speakers_are_counted_whatever_their_format(
    command: Command, small: Tiny, tmp_path: Path
) -> None:
    root = theirs(tmp_path / "anon")
    wave, rate = soundfile.read(root / "t_trials_f_x/wav/a-t0.wav", dtype="int16")
    padded = np.concatenate([np.zeros(100, "int16"), wave, np.zeros(7, "int16")])
    (root / "t_trials_f_x/wav/b-t0.wav").unlink()
    soundfile.write(root / "t_trials_f_x/wav/b-t0.flac", padded, rate)
    status, _, err = prepared(command, small, system(root))
    assert status == 0
    assert (
        "system t8: 2 of 10 files hold the same audio as the file of another utterance, e.g. a-t0 and b-t0; 2 of" in err
    )
    assert "1 of 10 files begin or end with exact zeros (0.5 ms or more), e.g. " in err and "b-t0.flac (6.69 ms)" in err


@pytest.mark.parametrize("name", ["{set}_x/{utterance}_anon.wav", "wavs/gen_{utterance}.wav"])
def test_files_of_another_name_are_said_with_the_option_that_takes_them(
    command: Command, small: Tiny, tmp_path: Path, name: str
) -> None:
    chosen = system(theirs(tmp_path / "anon", name))
    status, _, err = prepared(command, small, chosen)
    assert status == 3
    assert "10 files match no utterance, e.g. " in err and "10 utterances have no file" in err
    assert "no file a-t0.ext" not in err
    assert prepared(command, small, chosen, *remedy(err, "system.t8.pattern"))[0] == 0


def test_a_pattern_that_names_no_file(command: Command, tmp_path: Path) -> None:
    status, _, err = command("validate", system(tmp_path), "system.t8.pattern=anon")
    assert status == 2 and "system.t8.pattern: " in err and "holds {utterance} once" in err


def test_both_unicode_forms_are_one_name(command: Command, small: Tiny, tmp_path: Path) -> None:
    """As a Mac writes names: in wav.scp and on disk, in utt2spk and trials, in the names of anonymised files."""
    root = theirs(tmp_path / "anon")
    composed, apart = (unicodedata.normalize(form, "ü-t0") for form in ("NFC", "NFD"))
    assert composed != apart
    for path in (small.wav("a-t0"), root / "t_trials_f_x/wav/a-t0.wav"):
        path.rename(path.with_name(f"{apart}.wav"))
    for name, form in (("wav.scp", composed), ("utt2spk", apart), ("trials", composed), ("utt2dur", apart)):
        table = small.root / "t_trials_f" / name
        table.write_text(table.read_text().replace("a-t0", form))
    status, out, err = prepared(command, small, system(root))
    assert status == 0, err
    assert "t_trials_f  trial  3 speakers  6 utterances" in out


def test_a_missing_file_names_the_settings_of_its_system(command: Command, small: Tiny, tmp_path: Path) -> None:
    """Of the evaluated sets, the second run and the training set alike."""
    root, again = theirs(tmp_path / "anon"), theirs(tmp_path / "again", of="again {set} {utterance}")
    train = kaldi_set(tmp_path / "other")
    (tmp_path / "learnt").mkdir()
    (again / "t_trials_f_x/wav/a-t0.wav").unlink()
    chosen = system(root, f", second_root: {again}, train_root: {tmp_path / 'learnt'}")
    adapting = ("attacker=[semi_informed]", "backend=[cosine,wccn]", f"dataset.train={train}")
    status, _, err = prepared(command, small, chosen, *adapting)
    assert status == 3
    assert "system t8, second run" in err and "'a-t0' of t_trials_f" in err
    assert "system t8, training set" in err and "utterances of train have none: d-0" in err
    assert "system.t8.second_root=DIR" in err and "system.t8.train_root=DIR" in err
    assert "audio_root" not in err and "looked for: " in err and ".flac" in err


def test_a_file_that_is_not_read_is_said_with_the_command_that_converts_it(
    command: Command, small: Tiny, tmp_path: Path
) -> None:
    root = theirs(tmp_path / "theirs")
    odd = root / "t_enrolls_x" / "wav" / "a-e0.wav"
    soundfile.write(odd, noise("odd"), RATE, format="IRCAM", subtype="PCM_16")
    status, _, err = prepared(command, small, system(root))
    assert status == 3 and f"ffmpeg -i {odd}" in err.replace("'", "")
    assert (
        "convert them with the command given with each file (it keeps the old one as FILE.bak), or make them again"
        in err
    )
    assert "out of the tables" not in err


def test_the_same_checks_for_second_runs_and_training_sets(command: Command, small: Tiny, tmp_path: Path) -> None:
    root, again = theirs(tmp_path / "anon"), theirs(tmp_path / "again", "{utterance}_2.wav", of="one")
    train = kaldi_set(tmp_path / "other")
    for name in ("d-0", "d-1", "e-0", "e-1"):
        (tmp_path / "learnt").mkdir(exist_ok=True)
        soundfile.write(tmp_path / "learnt" / f"{name}_2.wav", noise("one"), RATE)
    chosen = system(root, f", second_root: {again}, train_root: {tmp_path / 'learnt'}")
    adapting = ("attacker=[semi_informed]", "backend=[cosine,wccn]", f"dataset.train={train}")
    status, _, err = prepared(command, small, chosen, *adapting)
    assert status == 3 and "4 files match no utterance, e.g. d-0_2.wav" in err and "e.g. a-e0_2.wav" in err
    for path in (root / "t_enrolls_x/wav", root / "t_trials_f_x/wav"):
        for file in path.iterdir():
            file.rename(file.with_name(f"{file.stem}_2.wav"))
    status, _, err = prepared(command, small, chosen, *adapting, *remedy(err, "system.t8.pattern"))
    assert status == 0
    assert "system t8, second run: 10 of 10 files hold the same audio" in err
    assert "system t8, training set: 4 of 4 files hold the same audio" in err


def linked(root: Path, to: Path) -> Path:
    """A tree of the same folders whose files are links."""
    for path in sorted(to.rglob("*.*")):
        link = root / path.relative_to(to)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(path)
    return root


def test_links_are_followed_where_somebody_vouches_for_them(command: Command, small: Tiny, tmp_path: Path) -> None:
    root = linked(tmp_path / "links", theirs(tmp_path / "disk"))
    status, _, err = prepared(command, small, system(root))
    assert status == 3 and "a link leads out of" in err and "audio_root" not in err
    mended = remedy(err, "system.t8.follow_links")
    assert prepared(command, small, system(root), *mended)[0] == 0
    # A folder or a pipe behind a link is no audio.
    link = root / "t_trials_f_x/wav/a-t0.wav"
    link.unlink()
    link.symlink_to("/dev/zero")
    status, _, err = prepared(command, small, system(root), *mended)
    assert status == 3 and "a-t0" in err


@pytest.mark.parametrize("kind", ["librispeech", "folders"])
def test_trees_of_links(command: Command, tmp_path: Path, kind: str) -> None:
    names = [f"{speaker}-{number}" for speaker in "ab" for number in range(4)]
    root, train = (linked(tmp_path / name, tree(tmp_path / "disk" / name, of)) for name, of in
                   (("test", names), ("train", ["d-0", "d-1"])))  # fmt: skip
    arguments = ["prepare", f"dataset={kind}", f"dataset.root={root}", f"dataset.train={train}"]
    status, _, err = command(*arguments)
    assert status == 3 and "has 10 faults" in err and err.count("a link leads out") == 1 and "audio_root" not in err
    status, out, _ = command(*arguments, *remedy(err, "dataset.follow_links"))
    assert status == 0 and "train  train  1 speakers  2 utterances" in out


def test_links_of_kaldi_sets(command: Command, small: Tiny, tmp_path: Path) -> None:
    (small.root / "wav").rename(tmp_path / "disk")
    linked(small.root / "wav", tmp_path / "disk")
    status, _, err = command("prepare", f"dataset.root={small.root}")
    assert status == 3 and "leads out of" in err
    mended = remedy(err, "dataset.follow_links")
    assert command("prepare", f"dataset.root={small.root}", *mended)[0] == 0
    table = small.root / "t_trials_f" / "wav.scp"
    table.write_text(table.read_text().replace("wav/a-t0.wav", "../disk/a-t0.wav"))
    status, _, err = command("prepare", f"dataset.root={small.root}", *mended)
    assert status == 3 and "'../disk/a-t0.wav' leads out of" in err


VIDEOS = [f"{speaker}/{video}/{number:05d}" for speaker in ("id1", "id2", "id3") for video in "xy" for number in (1, 2)]


def videos(root: Path, of: str = "") -> Path:
    """As VoxCeleb is laid out: names of files repeat."""
    for name in VIDEOS:
        path = root / f"{name}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, noise(of + name), RATE)
    return root


VOXCELEB = "VoxCeleb1 ID\tVGGFace1 ID\tGender\tNationality\tSet\n" + "".join(
    f"{one}\tSome_Body\t{sex}\tUK\tdev\n" for one, sex in (("id1", "m"), ("id2", "m"), ("id3", "m"), ("id4", "f"))
)
VCTK = "ID  AGE  GENDER  ACCENTS  REGION COMMENTS \nid1  23  M    English    Southern  England\nid2 22 M Scottish\nid3 21 M Irish (mic2 bad)\n"
TABLES = {
    "VoxCeleb1": VOXCELEB,
    "VCTK": VCTK,
    "VoxCeleb2": "VoxCeleb2 ID ,VGGFace2 ID ,Gender,Set\nid1 ,n01 ,m ,dev\nid2 ,n02 ,m ,dev\nid3 ,n03 ,m ,test\n",
    "LibriSpeech": ";ID  |SEX| SUBSET | MINUTES | NAME\nid1 | M | x | 1 | A\nid2 | M | x | 1 | B\nid3 | M | x | 1 | C\n",
    "spk2gender": "id1 m\r\nid2 m\r\nid3 male\r\n",
    "CSV": "\ufeffname,sex,speaker\nA,male,id1\nB,male,id2\nC,male,id3\n",
}


@pytest.mark.parametrize("table", TABLES)
def test_a_tree_with_a_folder_a_speaker_and_a_table_of_sexes(tmp_path: Path, table: str) -> None:
    root = videos(tmp_path / "vox")
    (tmp_path / "who").write_text(TABLES[table])
    corpus = importers.read_data_set(DatasetSettings(name="folders", root=str(root), sexes=str(tmp_path / "who")))
    # 3 models and 6 utterances of one sex.
    (trials,) = corpus.trials.values()
    assert (trials.name, trials.n_target, trials.n_nontarget) == ("vox_trials_m", 6, 12)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("id1 f\nid2 x\n", ["no speaker with sex f or m: 'id2 x'", "speaker 'id3' has no line in who"]),
        ("p1 f\np2 f\n", ["names none of the 3 speakers: it names p1, p2"]),
        (None, ["there is no table"]),
    ],
)
def test_a_table_of_sexes_that_lacks_speakers(
    tmp_path: Path, refused: Callable[..., DataError], table: str | None, said: list[str]
) -> None:
    root, who = videos(tmp_path / "vox"), tmp_path / "who"
    if table is not None:
        who.write_text(table)
    error = refused(importers.read_data_set, DatasetSettings(name="folders", root=str(root), sexes=str(who)))
    assert all(words in str(error) for words in said)


@pytest.mark.slow
def test_copies_of_a_tree_whose_names_repeat_and_trees_to_train_on(command: Command, tmp_path: Path) -> None:
    root, anon = videos(tmp_path / "vox"), videos(tmp_path / "anon", "anon ")
    train = tmp_path / "train"
    for number in range(2):
        for speaker in ("d", "e"):
            (train / speaker).mkdir(parents=True, exist_ok=True)
            soundfile.write(train / speaker / f"{number}.wav", noise(f"{speaker} {number}"), RATE)
    arguments = ("prepare", "system=original", "dataset=folders", f"dataset.root={root}", f"dataset.train={train}")
    status, out, err = command(*arguments, system(anon))
    assert status == 0, err
    assert "train  train  2 speakers  4 utterances" in out and "belong to no utterance" not in err
    # Flat trees are trained on beside other kinds of data set too.
    small = Tiny(tmp_path / "data").save()
    status, out, err = command("prepare", f"dataset.root={small.root}", f"dataset.train={train}")
    assert status == 0 and "train  train  2 speakers  4 utterances" in out, err


def test_another_layout_names_the_reader_that_takes_it(command: Command, tmp_path: Path) -> None:
    root = tmp_path / "fsdd"
    for name in (f"{speaker}/{digit}_{speaker}_0" for speaker in ("george", "lucas") for digit in range(4)):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(root / f"{name}.wav", noise(name), RATE)
    for kind in ("kaldi", "librispeech"):
        status, _, err = command("prepare", f"dataset={kind}", f"dataset.root={root}")
        assert status == 3 and "dataset=folders" in err
    assert command("prepare", "dataset=folders", f"dataset.root={root}")[0] == 0
    soundfile.write(root / "loose.wav", noise("loose"), RATE)
    status, _, err = command("prepare", "dataset=folders", f"dataset.root={root}")
    assert status == 3 and "no speaker's folder, e.g. loose.wav" in err


@pytest.mark.slow
def test_several_microphones_are_said_with_the_option_that_takes_one(command: Command, tmp_path: Path) -> None:
    root = tmp_path / "vctk"
    for name in (f"p{s}/p{s}_{n:03d}_mic{m}" for s in (225, 226) for n in range(4) for m in (1, 2)):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(root / f"{name}.flac", noise(name), RATE)
    arguments = ("prepare", "dataset=folders", f"dataset.root={root}")
    status, out, err = command(*arguments)
    assert status == 0 and "8 utterances were recorded by several microphones" in err and "8 utterances" in out
    status, out, err = command(*arguments, *remedy(err, "dataset.files"))
    assert status == 0 and "several microphones" not in err and "8 of 16 files are left out" in err
    assert "vctk_enrolls  enrolment  2 speakers  4 utterances" in out


@pytest.fixture
def ge2e(models: Path) -> str:
    if not (models / "ge2e" / "pretrained.pt").is_file():
        pytest.skip("the offline weights are not here: make install")
    return "extractor=[ge2e]"


def anonymised(data: Path, root: Path) -> Path:
    """The toy corpus played backwards."""
    for table in sorted(data.glob("*/wav.scp")):
        (root / table.parent.name).mkdir(parents=True)
        for line in table.read_text().splitlines():
            wave, rate = soundfile.read(data / line.split()[1], dtype="int16")
            soundfile.write(root / table.parent.name / f"{line.split()[0]}.wav", wave[::-1], rate)
    return root


@pytest.mark.slow
def test_what_one_system_lacks_is_left_out_of_all(command: Command, tmp_path: Path, ge2e: str) -> None:
    data = toy.corpus(tmp_path / "data", speakers=4, utterances=4)
    one, other = anonymised(data, tmp_path / "one"), anonymised(data, tmp_path / "other")
    gone = sorted((one / "toy_trials_f").iterdir())[0]
    gone.unlink()
    male = sorted((other / "toy_trials_m").iterdir())[0].stem.rsplit("-", 1)[0]
    enrolled = sorted((other / "toy_enrolls").glob(f"{male}-*"))[0]
    enrolled.unlink()
    arguments = (
        f"dataset.root={data}", "system=original", system(one, ", level: speaker", "one"), system(other, "", "other"), ge2e,
        "attacker=[ignorant,lazy_informed]", "metric=[asv,srd]", "diagnostics=false", "allow_partial=true",
    )  # fmt: skip
    status, out, err = command(*arguments)
    assert status == 6 and "Traceback" not in err
    assert f"system one: no file {gone.name.removesuffix('.wav')}.ext" in err and enrolled.stem in err
    rows = results.read(Path(out.splitlines()[-1]).parent)
    trials = rows[rows["metric"] == "eer"]
    # All systems stand on the same trials: two utterances a speaker, two models a set, without the one that is missing.
    female = trials[trials["subset"] == "toy_trials_f"]
    assert set(female["n_used"]) == {2 * 4 - 2} and set(female["n_expected"]) == {2 * 4}
    assert set(trials["system"]) == {"original", "one", "other"} and set(rows["status"]) == {"partial"}
    lacking = trials[trials["note"].str.contains("lack enrolment utterances")]
    assert len(lacking) == len(trials) // 2 and lacking["note"].str.contains(male).all()


def test_no_trial_sets_at_all_is_a_fault_of_that_setting(command: Command, small: Tiny) -> None:
    status, out, err = command("prepare", f"dataset.root={small.root}", "dataset.sets=[]")
    assert (status, out) == (2, "") and "- dataset.sets: " in err and "an empty list leaves nothing" in err
    assert "metric" not in err and "t_trials_f" not in err


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
    status, _, err = prepared(command, small, system(root))
    said = f"{len(ALL)} of {len(ALL)} files hold the original of another utterance, {other} of them of another speaker, e.g. "
    assert status == 0 and err.count(said) == 1
    # One file that holds its own is told from the others.
    soundfile.write(root / f"t_trials_f_x/wav/c-t1.{ending}", noise("another"), RATE)
    _, _, err = prepared(command, small, system(root))
    assert f"{len(ALL) - 1} of {len(ALL)} files hold the original of another utterance" in err


def test_a_sound_copy_and_an_unprotected_one_hold_nobody_elses(command: Command, small: Tiny, tmp_path: Path) -> None:
    shifted(small, tmp_path / "plain", 0)
    roots = system(theirs(tmp_path / "one"), "", "one"), system(tmp_path / "plain", "", "plain")
    status, _, err = prepared(command, small, *roots)
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
