"""Training sets that are named beside the data set (``dataset.train``)."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile

from pipeline.datasets import external_copy, importers, prepare
from pipeline.datasets.audio_cache import NO_CACHE
from pipeline.datasets.settings import DatasetSettings
from pipeline.tables import manifest as manifests

from .conftest import RATE, Tiny, noise

NAMES = ["d-0", "d-1", "e-0", "e-1"]


def kaldi_set(root: Path, name: str = "train", names: list[str] = NAMES) -> Path:
    """A Kaldi set of training speakers, without lists and sexes; its paths start from the folder that holds it."""
    tiny = Tiny(root)
    tiny.tables = {
        name: {table: lines for table, lines in tiny.basic(names).items() if table in ("wav.scp", "utt2spk")}
    }
    return tiny.save().root / name


def tree(root: Path, names: list[str] = NAMES) -> Path:
    for name in names:
        path = root / name[0] / "0" / f"{name}.flac"
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, noise(name), RATE)
    return root


def training(settings: DatasetSettings, **named: object) -> list[tuple[str, str, str]]:
    """Set, speaker and utterance of the rows to train on."""
    rows = importers.read_data_set(settings, **named).manifest
    return [tuple(row) for row in rows.loc[rows["role"] == "train", ["set", "speaker", "utterance"]].to_numpy()]


ROWS = [("train", name[0], name) for name in NAMES]


def test_a_kaldi_set_a_folder_that_holds_one_and_a_tree(tiny, tmp_path: Path) -> None:
    tiny.save()
    plain = importers.read_data_set(tiny.settings())
    one = kaldi_set(tmp_path / "other")
    for folder in (one, one.parent, tree(tmp_path / "corpus" / "train")):
        corpus = importers.read_data_set(tiny.settings(train=str(folder)))
        assert training(tiny.settings(train=str(folder))) == ROWS
        evaluated = corpus.manifest[corpus.manifest["role"] != "train"].reset_index(drop=True)
        assert evaluated.equals(plain.manifest)
        assert {name: made.digest for name, made in corpus.trials.items()} == {
            name: made.digest for name, made in plain.trials.items()
        }


def test_a_tree_is_evaluated_beside_either_kind(tmp_path: Path) -> None:
    root = tree(tmp_path / "test", [f"{speaker}-{number}" for speaker in "ab" for number in range(4)])
    for folder in (kaldi_set(tmp_path / "other"), tree(tmp_path / "corpus" / "train")):
        settings = DatasetSettings(name="librispeech", root=str(root), train=str(folder))
        assert training(settings) == ROWS
        # Choosing sets to evaluate leaves the training set alone.
        assert training(settings.model_copy(update={"sets": ["test_trials"]})) == ROWS


def test_synthetic_speakers_are_evaluated_beside_it_and_train_none_of_their_own(tmp_path: Path) -> None:
    from pipeline.datasets import synthetic

    settings = DatasetSettings(name="synthetic", speakers=4, train_speakers=2, utterances=2, seconds=0.3)
    synthetic.render_speech(settings, tmp_path / "made")
    folder = tree(tmp_path / "corpus" / "train")
    assert training(settings.model_copy(update={"train": str(folder)}), folder=tmp_path / "made") == ROWS
    assert {name for name, _, _ in training(settings, folder=tmp_path / "made")} == {"synthetic_train"}


def test_the_training_set_alone_needs_no_data_to_evaluate(tmp_path: Path) -> None:
    folder = tree(tmp_path / "train")
    for name in ("kaldi", "librispeech", "synthetic"):
        settings = DatasetSettings(name=name, root=str(tmp_path / "nowhere"), train=str(folder))
        corpus = importers.read_data_set(settings, training_alone=True)
        assert len(corpus.manifest) == 4 and corpus.trials == {}
    beside = importers.read_data_set(Tiny(tmp_path / "data").save().settings(train=str(folder)))
    rows = beside.manifest[beside.manifest["role"] == "train"].reset_index(drop=True)
    # The same rows with and without: a set that has been trained on once is found again by a run.
    assert manifests.digest(rows) == manifests.digest(corpus.manifest)


def test_a_training_set_among_the_sets_is_not_evaluated(tmp_path: Path) -> None:
    tiny = Tiny(tmp_path / "data")
    tiny.tables = {"dev": tiny.basic([f"{speaker}-{number}" for speaker in "abc" for number in range(4)]),
                   "train": tiny.basic(NAMES)}  # fmt: skip
    tiny.save()
    corpus = importers.read_data_set(tiny.settings(train=str(tiny.root / "train")))
    assert set(corpus.manifest["set"]) == {"dev_enrolls", "dev_trials_f", "train"}
    assert set(corpus.trials) == {"dev_trials_f"}
    assert set(importers.read_data_set(tiny.settings()).trials) == {"dev_trials_f", "train_trials_f"}


def test_speakers_who_are_evaluated_may_not_be_trained_on(tiny, tmp_path: Path, refused) -> None:
    folder = tree(tmp_path / "train", ["a-9", "c-9", "c-8", "d-0"])
    error = refused(importers.read_data_set, tiny.save().settings(train=str(folder)))
    (fault,) = error.faults
    assert fault.kind == "train-speaker"
    assert fault.what.startswith(
        "2 of the 3 speakers of the training set train are evaluated: a, c ('a' in t_enrolls, "
    )
    assert fault.where == str(folder / "a" / "0" / "a-9.flac")


def test_faults_of_both_sets_come_at_once(tiny, tmp_path: Path, refused) -> None:
    folder = tree(tmp_path / "train")
    (folder / "d" / "0" / "d-1.flac").write_bytes(b"")
    soundfile.write(tmp_path / "away.flac", noise("away"), RATE)
    (folder / "e" / "0" / "e-9.flac").symlink_to(tmp_path / "away.flac")
    tiny.save().wav("b-t1").unlink()
    error = refused(importers.read_data_set, tiny.settings(train=str(folder)))
    assert sorted(fault.kind for fault in error.faults) == ["bad-audio", "link", "missing-audio"]
    (folder / "e" / "0" / "e-9.flac").unlink()
    partial = importers.read_data_set(tiny.settings(train=str(folder)), allow_partial=True)
    assert [(line.set, line.utterance) for line in partial.dropped] == [("t_trials_f", "b-t1"), ("train", "d-1")]


def test_paths_of_a_kaldi_set_may_not_leave_its_root(tiny, tmp_path: Path, refused) -> None:
    one = kaldi_set(tmp_path / "other")
    soundfile.write(tmp_path / "outside.wav", noise("outside"), RATE)
    lines = (one / "wav.scp").read_text().splitlines()
    (one / "wav.scp").write_text("\n".join(["d-0 ../outside.wav", *lines[1:]]))
    (fault,) = refused(importers.read_data_set, tiny.save().settings(train=str(one))).faults
    assert fault.kind == "leaves-root" and fault.where == f"{one}/wav.scp:1"


@pytest.mark.parametrize("place", ["itself", "parent", "its parent", "audio_root"])
def test_where_its_relative_paths_start(tiny, tmp_path: Path, place: str) -> None:
    """For the audio root of the evaluated sets, see test_kaldi."""
    one = kaldi_set(tmp_path / "corpus" / "kaldi")
    audio = one.parent / "wav"
    away = tmp_path / "away"
    tiny.save()
    start = {"itself": one, "parent": one.parent, "its parent": one.parent.parent, "audio_root": away}[place]
    changed: dict[str, object] = {}
    if place == "audio_root":
        away.mkdir()
        changed["audio_root"] = str(away)
        (tiny.root / "wav").rename(away / "wav")
        for path in audio.iterdir():
            path.rename(away / "wav" / path.name)
    elif place != "parent":
        audio.rename(start / "wav")
    assert training(tiny.settings(train=str(one), **changed)) == ROWS


def test_folders_that_are_no_training_set(tiny, tmp_path: Path, refused) -> None:
    tiny.save()

    def faults(folder: Path) -> list[tuple[str, str]]:
        error = refused(importers.read_data_set, tiny.settings(train=str(folder)))
        return [(fault.kind, fault.what) for fault in error.faults]

    assert faults(tmp_path / "nowhere") == [("train", f"there is no folder '{tmp_path / 'nowhere'}'")]
    (tmp_path / "empty").mkdir()
    assert faults(tmp_path / "empty")[0][0] == "empty"
    kaldi_set(tmp_path / "two", "x")
    kaldi_set(tmp_path / "two", "y")
    assert faults(tmp_path / "two") == [("train", "the folder holds 2 sets (x, y), and one is trained on")]
    tree(tmp_path / "corpus" / "train")
    ((kind, what),) = faults(tmp_path / "corpus")
    assert kind == "layout" and f"dataset.train={tmp_path / 'corpus' / 'train'} would be one" in what
    same = tree(tmp_path / "t_enrolls")
    assert faults(same) == [("train", "the training set and a set that is evaluated are both called 't_enrolls'")]
    # The data set is not there either: both are said.
    error = refused(importers.read_data_set, tiny.settings(root=str(tmp_path / "no"), train=str(tmp_path / "nowhere")))
    assert [fault.kind for fault in error.faults] == ["root", "train"]


def test_what_is_said_of_other_peoples_audio_is_a_limit_with_their_label(tiny, tmp_path: Path) -> None:
    """What is not anonymised comes first, and how the audio differs last."""
    manifest = importers.read_data_set(tiny.save().settings()).manifest
    for row in manifest.itertuples():
        path = tmp_path / "theirs" / f"{row.set}_x" / f"{row.utterance}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, noise(f"anon {row.set} {row.utterance}", 0.125), 8000)
    shutil.copy(tiny.wav("a-t0"), tmp_path / "theirs" / "t_trials_f_x" / "a-t0.wav")
    stereo = np.stack([noise("left"), noise("right")], axis=1)
    soundfile.write(tmp_path / "theirs" / "t_trials_f_x" / "b-t0.wav", stereo, 16000)
    soundfile.write(tiny.wav("b-t1"), np.stack([noise("left")[::2], noise("other")[::2]], axis=1), 8000)
    made = prepare.prepare_data(
        tiny.settings(), None, {"t8": external_copy.Copy(str(tmp_path / "theirs"))}, False, 1, NO_CACHE
    )
    assert made.notes == ()
    said = [
        "system t8: 1 of 10 files are the original speech, not anonymised: 1 of 6 of t_trials_f (e.g. a-t0)",
        "1 of 10 files are sampled below 16 kHz (8000 Hz: 1)",
        "1 of 10 files have several channels (2 channels: 1)",
        "system t8: 8 of 10 files are sampled below 16 kHz (8000 Hz: 8)",
        "system t8: 1 of 10 files have several channels (2 channels: 1)",
    ]
    assert [limit[: len(one)] for limit, one in zip(made.limits, said, strict=True)] == said


@pytest.mark.slow
def test_the_real_training_set(speech: Path) -> None:
    """Its README: 168 speakers with one utterance each, 35 minutes."""
    settings = DatasetSettings(
        name="kaldi",
        root=str(speech / "librispeech-dev-clean-mp3" / "kaldi"),
        train=str(speech / "librispeech" / "train-clean-100"),
    )
    corpus = importers.read_data_set(settings, threads=2)
    rows = corpus.manifest[corpus.manifest["role"] == "train"]
    assert set(rows["set"]) == {"train-clean-100"} and len(rows) == rows["speaker"].nunique() == 168
    assert set(rows["sex"]) == {"f", "m"} and 35 < manifests.seconds(rows).sum() / 60 < 37
    folders, zeros = corpus.notes
    assert "168 speakers of the training set train-clean-100, by the names of the folders" in folders
    assert len(corpus.trials) == 2 and "49 of 1294 files begin or end with exact zeros" in zeros
