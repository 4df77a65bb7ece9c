"""Kaldi sets: the real VoicePrivacy lists, the layouts, the rules for paths, and each fault by itself."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

from pipeline.datasets import importers

from .conftest import RATE, noise


def _swap(lines: list[str], old: str, new: str) -> None:
    place = lines.index(old)
    lines[place] = new


# The real lists ------------------------------------------------------------------------------------------------------


def test_real_voiceprivacy_lists_have_the_counts_of_their_readme(
    speech: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from pipeline.datasets.settings import DatasetSettings

    root = speech / "librispeech-dev-clean-mp3" / "kaldi"
    with caplog.at_level(logging.INFO):
        corpus = importers.read_data_set(DatasetSettings(name="kaldi", root=str(root)), threads=2)
    assert {name: (one.n_target, one.n_nontarget) for name, one in corpus.trials.items()} == {
        "libri_dev_trials_f": (369, 3095),
        "libri_dev_trials_m": (298, 3328),
    }
    rows = corpus.manifest
    assert rows.groupby("set").size().to_dict() == {
        "libri_dev_enrolls": 175, "libri_dev_trials_f": 433, "libri_dev_trials_m": 518,
    }  # fmt: skip
    assert rows.groupby("set")["speaker"].nunique().to_dict() == {
        "libri_dev_enrolls": 15, "libri_dev_trials_f": 9, "libri_dev_trials_m": 11,
    }  # fmt: skip
    sizes = rows.groupby("speaker").size()
    assert (len(sizes), sizes.min(), sizes.max()) == (20, 23, 87)
    assert corpus.trials["libri_dev_trials_f"].enrolment["model"].nunique() == 15
    assert set(rows["sample_rate"]) == {16000}
    (note,) = corpus.limits
    assert corpus.dropped == () and "45 of 1126 files begin or end with exact zeros" in note
    # The README says 0.15 s; utt2dur is VPC's own.
    for name in ("libri_dev_enrolls", "libri_dev_trials_f", "libri_dev_trials_m"):
        given = dict(line.split() for line in (root / name / "utt2dur").read_text().splitlines())
        mine = rows[rows["set"] == name].set_index("utterance")
        assert all(abs(mine["samples"][u] / 16000 - float(seconds)) < 0.15 for u, seconds in given.items())
        order = [line.split()[0] for line in (root / name / "wav.scp").read_text().splitlines()]
        assert mine.sort_values("position").index.tolist() == order
    assert f"start from {root.parent}" in caplog.text


# Layouts -------------------------------------------------------------------------------------------------------------


def test_a_valid_set_gives_what_its_tables_say(tiny) -> None:
    corpus = importers.read_data_set(tiny.save().settings())
    one = corpus.trials["t_trials_f"]
    assert (one.n_target, one.n_nontarget, one.expected, one.enrolment_set) == (4, 8, 12, "t_enrolls")
    assert one.enrolment.values.tolist() == [["a", "a-e0"], ["a", "a-e1"], ["b", "b-e0"], ["b", "b-e1"]]
    row = corpus.manifest.set_index("utterance").loc["c-t1"]
    assert (row["speaker"], row["sex"], row["set"], row["role"], row["position"]) == (
        "c",
        "f",
        "t_trials_f",
        "trial",
        5,
    )
    assert (row["sample_rate"], row["samples"], row["path"]) == (16000, 4000, str(tiny.wav("c-t1")))
    import hashlib

    assert row["sha256"] == hashlib.sha256(tiny.wav("c-t1").read_bytes()).hexdigest()
    assert corpus.notes == ()


def test_any_line_order_and_blanks_at_line_ends_change_only_positions(tiny) -> None:
    plain = importers.read_data_set(tiny.save().settings())
    for tables in tiny.tables.values():
        for lines in tables.values():
            random.Random(0).shuffle(lines)
            lines[:] = [f" {line.replace(' ', '  ')}\t \r" for line in lines] + ["", "  "]
    mixed = importers.read_data_set(tiny.save().settings())
    assert mixed.trials["t_trials_f"].digest == plain.trials["t_trials_f"].digest
    assert mixed.manifest.drop(columns="position").equals(plain.manifest.drop(columns="position"))
    assert not mixed.manifest["position"].equals(plain.manifest["position"])


def test_optional_tables_may_be_absent(tiny) -> None:
    full = importers.read_data_set(tiny.save().settings())
    for tables in tiny.tables.values():
        spk2utt: dict[str, list[str]] = {}
        for line in tables.pop("utt2spk"):
            utterance, speaker = line.split()
            spk2utt.setdefault(speaker, []).append(utterance)
        tables["spk2utt"] = [f"{speaker} {' '.join(names)}" for speaker, names in spk2utt.items()]
        for table in ("spk2gender", "utt2dur", "enrolls", "trials"):
            tables.pop(table, None)
    tiny.root = tiny.root.parent / "bare"
    bare = importers.read_data_set(tiny.save().settings())
    # The trials of Tiny are the full product, so what is made up for absent lists is the same.
    assert bare.trials["t_trials_f"].digest == full.trials["t_trials_f"].digest
    assert set(bare.manifest["sex"]) == {"u"}
    assert bare.manifest.drop(columns=["sex", "path"]).equals(full.manifest.drop(columns=["sex", "path"]))
    assert bare.notes == () and "all pairs where no sex is known, of an enrolled speaker" in bare.limits[0]


def test_enrolls_chooses_the_utterances_that_make_a_model(tiny) -> None:
    tiny.tables["t_enrolls"]["enrolls"] = ["a-e1", "b-e0"]
    enrolment = importers.read_data_set(tiny.save().settings()).trials["t_trials_f"].enrolment
    assert enrolment.values.tolist() == [["a", "a-e1"], ["b", "b-e0"]]


def test_two_columns_of_trials_take_their_labels_from_the_speakers(tiny) -> None:
    with_labels = importers.read_data_set(tiny.save().settings())
    trials = tiny.tables["t_trials_f"]["trials"]
    trials[:] = [line.rsplit(" ", 1)[0] for line in trials]
    without = importers.read_data_set(tiny.save().settings())
    assert without.trials["t_trials_f"].digest == with_labels.trials["t_trials_f"].digest


def test_lists_inside_a_set_are_cut_into_sets(tiny) -> None:
    enrolls, trials = tiny.tables["t_enrolls"], tiny.tables["t_trials_f"]
    raw = {
        table: sorted({*enrolls[table], *trials[table]}) for table in ("wav.scp", "utt2spk", "spk2gender", "utt2dur")
    }
    tiny.tables = {"t": raw | {"enrolls": enrolls["enrolls"], "trials_f": trials["trials"]}}
    parent = importers.read_data_set(tiny.save().settings())
    itself = importers.read_data_set(tiny.settings(root=str(tiny.root / "t")))
    assert list(parent.trials) == list(itself.trials) == ["t_trials_f"]
    assert parent.manifest.groupby("set").size().to_dict() == {"t_enrolls": 4, "t_trials_f": 6}
    assert parent.manifest.equals(itself.manifest)
    assert (parent.trials["t_trials_f"].n_target, parent.trials["t_trials_f"].n_nontarget) == (4, 8)


def test_sets_without_lists_are_halved(tiny) -> None:
    tiny.tables = {"plain": tiny.basic([f"{speaker}-{number}" for speaker in "abc" for number in range(4)])}
    corpus = importers.read_data_set(tiny.save().settings())
    one = corpus.trials["plain_trials_f"]
    assert (one.n_target, one.n_nontarget) == (3 * 2, 3 * 2 * 2)
    assert corpus.notes == () and "halved" in corpus.limits[0] and "all pairs of one sex" in corpus.limits[0]
    tried, enrolled = set(one.trials["utterance"]), set(one.enrolment["utterance"])
    assert not tried & enrolled and len(tried | enrolled) == 12
    other = importers.read_data_set(tiny.settings(seed=1))
    assert set(other.trials["plain_trials_f"].trials["utterance"]) != tried


def test_anonymised_copies_and_other_sets_are_passed_over_and_said_so(tiny) -> None:
    tiny.tables["t_enrolls_anon"] = tiny.tables["t_enrolls"]
    tiny.tables["t_trials_f_anon"] = tiny.tables["t_trials_f"]
    tiny.tables["train"] = tiny.basic(["d-0"])
    corpus = importers.read_data_set(tiny.save().settings())
    assert list(corpus.trials) == ["t_trials_f"]
    assert set(corpus.manifest["set"]) == {"t_enrolls", "t_trials_f"}
    notes = " ".join(corpus.notes)
    assert "t_enrolls_anon, t_trials_f_anon" in notes and "train" in " ".join(corpus.limits)


def test_sets_restricts_to_trial_sets_and_ignores_faults_of_the_others(tiny) -> None:
    tiny.tables["t_trials_x"] = {"wav.scp": ["x"]}
    tiny.save()
    assert list(importers.read_data_set(tiny.settings(sets=["t_trials_f"])).trials) == ["t_trials_f"]


def test_repeated_utterances_across_sets_are_sound_if_they_agree(tiny) -> None:
    tiny.tables["t_trials_f_all"] = {table: list(lines) for table, lines in tiny.tables["t_trials_f"].items()}
    corpus = importers.read_data_set(tiny.save().settings())
    assert len(corpus.manifest) == 4 + 6 + 6
    assert list(corpus.trials) == ["t_trials_f", "t_trials_f_all"]


def test_durations_off_by_more_than_half_a_second_are_noted(tiny) -> None:
    _swap(tiny.tables["t_trials_f"]["utt2dur"], "a-t0 0.25 ", "a-t0 0.80")
    (note,) = importers.read_data_set(tiny.save().settings()).limits
    assert "1 utterances differ from utt2dur" in note and "a-t0" in note and "0.25 s instead of 0.80 s" in note


# Where relative paths start --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["root", "parent", "current"])
def test_relative_paths_start_from_the_first_folder_that_has_them_all(
    tiny, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tiny.save()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    start = {"root": tiny.root, "parent": tiny.root.parent, "current": elsewhere}[place]
    if place != "root":
        (tiny.root / "wav").rename(start / "wav")
        # One file is not all of them.
        (tiny.root / "wav").mkdir()
        (tiny.root / "wav" / "a-e0.wav").write_bytes((start / "wav" / "a-e0.wav").read_bytes())
    monkeypatch.chdir(elsewhere)
    with caplog.at_level(logging.INFO):
        corpus = importers.read_data_set(tiny.settings())
    assert set(corpus.manifest["path"].map(lambda path: str(Path(path).parent))) == {str(start / "wav")}
    assert f"start from {start}" in caplog.text


def test_audio_root_is_obeyed_alone(tiny, refused, tmp_path: Path) -> None:
    tiny.save()
    away = tmp_path / "away"
    away.mkdir()
    error = refused(importers.read_data_set, tiny.settings(audio_root=str(away)))
    assert str(away) in str(error) and "none of the 10 relative paths" in str(error) and "audio_root" in error.remedy
    (tiny.root / "wav").rename(away / "wav")
    assert len(importers.read_data_set(tiny.settings(audio_root=str(away))).manifest) == 10
    error = refused(importers.read_data_set, tiny.settings(audio_root=str(tmp_path / "no")))
    assert "dataset.audio_root" in str(error)


def test_paths_may_not_leave_the_audio_root(tiny, refused, tmp_path: Path) -> None:
    tiny.save()
    outside = tmp_path / "outside.wav"
    soundfile.write(outside, np.full(800, 0.1), 8000)
    lines = tiny.tables["t_enrolls"]["wav.scp"]
    lines[0], lines[1] = "a-e0 ../outside.wav", "a-e1 link.wav"
    tiny.save()
    (tiny.root / "link.wav").symlink_to(outside)
    error = refused(importers.read_data_set, tiny.settings())
    (fault,) = error.faults
    assert fault.kind == "leaves-root" and fault.where.endswith("t_enrolls/wav.scp:1")
    assert str(outside) in fault.what and "and so do 1 more paths" in fault.what
    # The same file, written as an absolute path by the user, is taken; so is '..' that stays inside.
    lines[0], lines[1] = f"a-e0 {outside}", "a-e1 wav/../wav/a-e1.wav"
    tiny.save()
    assert str(outside) in set(importers.read_data_set(tiny.settings()).manifest["path"])


def test_a_root_behind_a_link_is_sound(tiny, tmp_path: Path) -> None:
    tiny.save()
    (tmp_path / "alias").symlink_to(tiny.root)
    assert len(importers.read_data_set(tiny.settings(root=str(tmp_path / "alias"))).manifest) == 10


# Faults ----------------------------------------------------------------------------------------------------------------


def _rows(tiny, table: str, folder: str = "t_trials_f") -> list[str]:
    return tiny.tables[folder][table]


def _raw_wave(path: Path, wave: np.ndarray, rate: int = 8000) -> None:
    soundfile.write(path, wave, rate, format="WAV", subtype="FLOAT")


def _cut(path: Path, form: str) -> None:
    soundfile.write(path, noise("cut", 4.0), RATE, format=form)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


BROKEN_FILES: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "missing": (lambda path: path.unlink(), "missing-audio", "is missing"),
    "a folder": (lambda path: (path.unlink(), path.mkdir()), "missing-audio", "is a folder"),
    "no bytes": (lambda path: path.write_bytes(b""), "bad-audio", "empty"),
    "no samples": (lambda path: _raw_wave(path, np.zeros(0, np.float32)), "bad-audio", "no samples"),
    "text": (lambda path: path.write_text("this is no sound"), "bad-audio", "cannot be read"),
    "LFS pointer": (
        lambda path: path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"),
        "bad-audio", "git lfs pull",
    ),
    "cut off": (lambda path: path.write_bytes(path.read_bytes()[:3000]), "bad-audio", "ends early"),
    "NaN": (lambda path: _raw_wave(path, np.array([0.1, np.nan], np.float32)), "bad-audio", "NaN"),
    "NaN in one channel": (
        lambda path: _raw_wave(path, np.array([[0.1, 0.1], [0.1, np.nan]], np.float32)), "bad-audio", "NaN",
    ),
    "mp3 by the name of wav, cut off": (lambda path: _cut(path, "MP3"), "bad-audio", "ends early"),
    "flac by the name of wav, cut off": (lambda path: _cut(path, "FLAC"), "bad-audio", "cannot be read"),
    "one sample": (lambda path: _raw_wave(path, np.array([0.1], np.float32)), "no-speech", "too short: 1 samples"),
    "0.05 s": (lambda path: _raw_wave(path, noise("short", 0.05), RATE), "no-speech", "less than 0.1 s"),
    "a sample short of 0.1 s": (
        lambda path: _raw_wave(path, np.ones(4409, np.float32), 44_100), "no-speech", "too short: 4409 samples at 44100 Hz",
    ),
    "silent": (lambda path: _raw_wave(path, np.zeros(8000, np.float32)), "no-speech", "silent"),
    "below -100 dBFS": (lambda path: _raw_wave(path, np.full(8000, 0.99e-5, np.float32)), "no-speech", "silent"),
    "silent once mixed": (
        lambda path: _raw_wave(path, np.stack([noise("x"), -noise("x")], axis=1), RATE), "cancelling", "cancel each other",
    ),
    "infinite": (lambda path: _raw_wave(path, np.array([0.1, np.inf], np.float32)), "bad-audio", "infinite"),
}  # fmt: skip


def _flip(line: str) -> str:
    model, utterance, label = line.split()
    return f"{model} {utterance} {'nontarget' if label == 'target' else 'target'}"


@pytest.mark.parametrize("name", BROKEN_FILES)
def test_broken_audio_is_named_or_left_out_on_request(tiny, refused, name: str) -> None:
    spoil, kind, said = BROKEN_FILES[name]
    spoil(tiny.save().wav("b-t1"))
    error = refused(importers.read_data_set, tiny.settings(), threads=2)
    (fault,) = error.faults
    assert fault.kind == kind and said in fault.what and "'b-t1'" in fault.what and str(tiny.wav("b-t1")) in fault.what
    assert fault.where == f"{tiny.root}/t_trials_f/wav.scp:4"
    assert "allow_partial=true" in error.remedy
    corpus = importers.read_data_set(tiny.settings(), allow_partial=True)
    ((utterance, in_set, reason),) = corpus.dropped
    assert (utterance, in_set) == ("b-t1", "t_trials_f") and said in reason
    trials = corpus.trials["t_trials_f"]
    assert (len(trials.trials), trials.expected) == (10, 12) and "b-t1" not in set(trials.trials["utterance"])
    assert "b-t1" not in set(corpus.manifest["utterance"])


def _written(wave: np.ndarray, rate: int, form: str = "WAV", subtype: str | None = None) -> Callable[[Path], object]:
    return lambda path: soundfile.write(path, wave, rate, format=form, subtype=subtype)


_LOUD = np.clip(40 * noise("loud", 0.5), -1, 1)
# name: (what replaces a file, its rate, what is noted)
USED_FILES: dict[str, tuple[Callable[[Path], object], int, str]] = {
    "24 bit": (_written(noise("x"), RATE, subtype="PCM_24"), 16_000, ""),
    "8 bit": (_written(noise("x"), RATE, subtype="PCM_U8"), 16_000, ""),
    "float": (_written(noise("x"), RATE, subtype="FLOAT"), 16_000, ""),
    "double": (_written(noise("x"), RATE, subtype="DOUBLE"), 16_000, ""),
    "float beyond full scale": (_written(5 * noise("x"), RATE, subtype="FLOAT"), 16_000, ""),
    "mp3 by the name of wav": (_written(noise("x"), RATE, "MP3"), 16_000, ""),
    "flac by the name of wav": (_written(noise("x"), RATE, "FLAC"), 16_000, ""),
    "ogg by the name of wav": (_written(noise("x"), RATE, "OGG"), 16_000, ""),
    "44.1 kHz stereo": (
        _written(np.stack([noise("x", 0.5), noise("y", 0.5)], axis=1), 44_100), 44_100, "1 of 10 files have several channels (2 channels: 1)"),
    "8 kHz": (_written(noise("x"), 8000), 8000, "1 of 10 files are sampled below 16 kHz (8000 Hz: 1)"),
    "96 kHz": (_written(noise("x", 0.75), 96_000), 96_000, ""),
    "clipped": (_written(_LOUD, RATE), 16_000, "1 of 10 files are clipped (3 or more consecutive samples at full scale)"),
    "0.1 s": (_written(noise("x")[:1600], RATE), 16_000, ""),
    "just above -100 dBFS": (_written(np.full(1600, 1.01e-5), RATE, subtype="FLOAT"), 16_000, ""),
}  # fmt: skip


@pytest.mark.parametrize("name", USED_FILES)
def test_other_kinds_of_audio_are_used_and_noted(tiny, name: str) -> None:
    replace, rate, note = USED_FILES[name]
    for tables in tiny.tables.values():
        del tables["utt2dur"]
    replace(tiny.save().wav("b-t1"))
    corpus = importers.read_data_set(tiny.settings())
    row = corpus.manifest.set_index("utterance").loc["b-t1"]
    assert row["sample_rate"] == rate and len(corpus.manifest) == 10 and corpus.dropped == ()
    assert [one.startswith(note) for one in corpus.limits] == [True] * bool(note)


def test_rates_channels_and_clipping_are_counted_once_for_all_files(tiny) -> None:
    for tables in tiny.tables.values():
        del tables["utt2dur"]
    tiny.save()
    for name, rate, channels in (("a-e0", 8000, 1), ("a-e1", 8000, 2), ("a-t0", 11_025, 6), ("a-t1", 48_000, 2)):
        wave = np.stack([noise(f"{name}{channel}", 1.0) for channel in range(channels)], axis=1)
        soundfile.write(tiny.wav(name), wave, rate)
    for name in ("b-e0", "c-t0"):
        soundfile.write(tiny.wav(name), np.clip(40 * noise(name), -1, 1), RATE)
    low, mixed, clipped = importers.read_data_set(tiny.settings()).limits
    assert low.startswith("3 of 10 files are sampled below 16 kHz (8000 Hz: 2, 11025 Hz: 1)")
    assert mixed.startswith("3 of 10 files have several channels (2 channels: 2, 6 channels: 1)")
    assert clipped.startswith("2 of 10 files are clipped") and clipped.endswith(f"e.g. {tiny.wav('b-e0')}")


def test_a_model_without_utterances_takes_its_trials_along(tiny) -> None:
    tiny.save()
    tiny.wav("a-e0").unlink()
    tiny.wav("a-e1").unlink()
    one = importers.read_data_set(tiny.settings(), allow_partial=True).trials["t_trials_f"]
    assert set(one.trials["model"]) == set(one.enrolment["model"]) == {"b"}
    assert (one.n_target, one.n_nontarget, one.expected) == (2, 4, 12)


def test_allow_partial_does_not_excuse_other_faults(tiny, refused) -> None:
    _swap(_rows(tiny, "trials"), "a a-t0 target", "a a-t0 nontarget")
    tiny.save().wav("b-t1").unlink()
    error = refused(importers.read_data_set, tiny.settings(), allow_partial=True)
    assert [fault.kind for fault in error.faults] == ["label"]


FAULTS: dict[str, tuple[Callable[..., object], str, str, str]] = {
    # name: (change of the tables, kind, part of the message, place)
    "unknown model": (
        lambda t: _swap(_rows(t, "trials"), "b c-t1 nontarget", "z c-t1 nontarget"),
        "unknown-model", "model 'z' is not enrolled in t_enrolls", "t_trials_f/trials:12"),
    "unknown trial utterance": (
        lambda t: _swap(_rows(t, "trials"), "b c-t1 nontarget", "b c-t9 nontarget"),
        "unknown-utterance", "'c-t9' is not in t_trials_f", "t_trials_f/trials:12"),
    "unknown enrolment utterance": (
        lambda t: _rows(t, "enrolls", "t_enrolls").append("a-e9"),
        "unknown-utterance", "'a-e9' is not in t_enrolls", "t_enrolls/enrolls:5"),
    "duplicate trial": (
        lambda t: _rows(t, "trials").append("a a-t0 target"),
        "duplicate-trial", "a a-t0 stands twice", "t_trials_f/trials:13"),
    "label target": (
        lambda t: _swap(_rows(t, "trials"), "b c-t1 nontarget", "b c-t1 target"),
        "label", "labelled target, but the speaker of the utterance is 'c'", "t_trials_f/trials:12"),
    "label nontarget": (
        lambda t: _swap(_rows(t, "trials"), "a a-t0 target", "a a-t0 nontarget"),
        "label", "labelled nontarget, but the speaker of the utterance is 'a'", "t_trials_f/trials:1"),
    "labels the other way round": (
        lambda t: _rows(t, "trials").__setitem__(slice(None), [_flip(line) for line in _rows(t, "trials")]),
        "labels", "12 of 12 labels are the other way round", "t_trials_f/trials:1"),
    "columns the other way round": (
        lambda t: _rows(t, "trials").__setitem__(slice(None), [f"{u} {m} {label}" for m, u, label in map(str.split, _rows(t, "trials"))]),
        "columns", "12 of 12 lines are UTTERANCE MODEL instead of MODEL UTTERANCE", "t_trials_f/trials:1"),
    "models that are all unknown": (
        lambda t: _rows(t, "trials").__setitem__(slice(None), [f"x{number} a-t0" for number in range(12)]),
        "unknown-model", "model 'x0' is not enrolled in t_enrolls, and so are 11 more", "t_trials_f/trials:1"),
    "an invisible character": (
        lambda t: _swap(_rows(t, "trials"), "b c-t1 nontarget", "b c-t1\u200b nontarget"),
        "bad-id", "holds an invisible character", "t_trials_f/trials:12"),
    "sex of some alone": (
        lambda t: [t.tables["t_trials_f"].pop(table) for table in ("trials", "spk2gender")],
        "unknown-sex", "need the sex of speakers c", "t_trials_f/trials"),
    "no target trials": (
        lambda t: _rows(t, "trials").__setitem__(slice(None), ["a b-t0 nontarget", "b c-t0 nontarget"]),
        "no-class", "t_trials_f has no target trials", "t_trials_f/trials"),
    "no nontarget trials": (
        lambda t: _rows(t, "trials").__setitem__(slice(None), ["a a-t0 target"]),
        "no-class", "no nontarget trials", "t_trials_f/trials"),
    "no trials": (
        lambda t: _rows(t, "trials").clear(), "no-class", "no target and no nontarget trials", "t_trials_f/trials"),
    "another label": (
        lambda t: _swap(_rows(t, "trials"), "b c-t1 nontarget", "b c-t1 imposter"),
        "malformed", "'imposter' is neither target nor nontarget", "t_trials_f/trials:12"),
    "label missing in one line": (
        lambda t: _swap(_rows(t, "trials"), "b c-t1 nontarget", "b c-t1"),
        "malformed", "2 fields, but the first line has 3", "t_trials_f/trials:12"),
    "too many fields": (
        lambda t: _swap(_rows(t, "utt2dur"), "c-t1 0.25 ", "c-t1 0.25 c"),
        "malformed", "3 fields instead of 2", "t_trials_f/utt2dur:6"),
    "nobody in utt2spk": (
        lambda t: _rows(t, "utt2spk").clear(), "empty", "utt2spk names no speaker", "t_trials_f/utt2spk"),
    "no path": (
        lambda t: _rows(t, "wav.scp").append("c-t2"), "malformed", "1 fields instead of 2", "t_trials_f/wav.scp:7"),
    "no such sex": (
        lambda t: _swap(_rows(t, "spk2gender"), "c f", "c x"), "malformed", "'x' is no sex", "t_trials_f/spk2gender:3"),
    "no duration": (
        lambda t: _swap(_rows(t, "utt2dur"), "a-t0 0.25 ", "a-t0 long"),
        "malformed", "'long' is no duration", "t_trials_f/utt2dur:1"),
    "utterance without speaker": (
        lambda t: _rows(t, "utt2spk").remove("c-t1 c"), "no-speaker", "'c-t1' has no speaker", "t_trials_f/wav.scp:6"),
    "utterance without audio": (
        lambda t: _rows(t, "utt2spk").append("c-t2 c"), "no-audio-line", "'c-t2'", "t_trials_f/utt2spk:7"),
    "speaker without sex": (
        lambda t: _rows(t, "spk2gender").remove("c f"), "no-sex", "'c' has no line", "t_trials_f/spk2gender"),
    "sex that disagrees": (
        lambda t: _swap(_rows(t, "spk2gender"), "a f", "a m"),
        "disagrees", "speaker 'a' is 'm' in t_trials_f and 'f' in t_enrolls", "t_trials_f/wav.scp:1"),
    "duplicate id": (
        lambda t: _rows(t, "wav.scp").append("a-t0 wav/c-t1.wav"),
        "duplicate-id", "'a-t0' stands twice in t_trials_f", "t_trials_f/wav.scp:7"),
    "second speaker": (
        lambda t: _rows(t, "utt2spk").append("a-t0 b"), "duplicate-id", "'a-t0' has a second line", "t_trials_f/utt2spk:7"),
    "enrolled twice": (
        lambda t: _rows(t, "enrolls", "t_enrolls").append("a-e0"),
        "duplicate-id", "'a-e0' is enrolled twice", "t_enrolls/enrolls:5"),
    "duplicate audio": (
        lambda t: _swap(_rows(t, "wav.scp"), "a-t0 wav/a-t0.wav", "a-t0 wav/a-t1.wav"),
        "duplicate-audio", "'a-t1' has the same audio as 'a-t0'", "t_trials_f/wav.scp:2"),
    "audio of another speaker elsewhere": (
        lambda t: _swap(_rows(t, "wav.scp"), "a-t0 wav/a-t0.wav", "a-t0 wav/b-e0.wav"),
        "disagrees", "the audio of 'a-t0' is 'a' in t_trials_f, but 'b' as 'b-e0' in t_enrolls", "t_trials_f/wav.scp:1"),
    "shell pipe": (
        lambda t: _swap(_rows(t, "wav.scp"), "a-t0 wav/a-t0.wav", "a-t0 flac -c -d -s wav/a-t0.flac | sox - -t wav - |"),
        "pipe", "1 entries are shell pipes, not files, the first is 'flac -c -d -s wav/a-t0.flac | sox - -t wav - |' (several "
        "commands, one behind another)", "t_trials_f/wav.scp:1"),
    "archive": (
        lambda t: _swap(_rows(t, "wav.scp"), "a-t0 wav/a-t0.wav", "a-t0 wav.ark:17[0:3]"),
        "pipe", "1 entries are places in archives", "t_trials_f/wav.scp:1"),
    "segments": (
        lambda t: t.tables["t_trials_f"].__setitem__("segments", [f"{u} {'rec' if u == 'a-t0' else u} 0 0.2" for u in
        ("a-t0", "a-t1", "b-t0", "b-t1", "c-t0", "c-t1")]),
        "segments", "segment 'a-t0': the recording 'rec' has no line in wav.scp", "t_trials_f/segments:1"),
    "no speakers at all": (
        lambda t: t.tables["t_trials_f"].pop("utt2spk"), "missing-table", "neither utt2spk nor spk2utt", "t_trials_f"),
    "no wav.scp": (
        lambda t: [t.tables["t_trials_f"].pop(table) for table in ("wav.scp", "utt2spk", "trials")] and
        t.tables["t_trials_f"].update({"utt2spk": [], "spk2gender": []}),
        "missing-table", "the set has no wav.scp", "t_trials_f"),
    "no enrolment set": (
        lambda t: t.tables.__setitem__("u_trials_f", t.tables["t_trials_f"]),
        "missing-table", "u_trials_f has no enrolment set u_enrolls", "u_trials_f"),
    "no trial set": (
        lambda t: t.tables.__setitem__("u_enrolls", t.tables["t_enrolls"]),
        "missing-table", "u_enrolls has no trial set u_trials_*", "u_enrolls"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_named_with_its_place(tiny, refused, name: str) -> None:
    change, kind, said, place = FAULTS[name]
    change(tiny)
    error = refused(importers.read_data_set, tiny.save().settings(), recordings=tiny.root.parent / "recordings")
    fault = next(fault for fault in error.faults if fault.kind == kind)
    assert said in fault.what and fault.where == f"{tiny.root}/{place}"
    if name != "no wav.scp":  # nothing of the set is left then, so it has no trials either
        assert {one.kind for one in error.faults} == {kind}


def test_ids_in_several_sets_must_have_one_speaker_and_one_audio(tiny, refused) -> None:
    copy = {table: list(lines) for table, lines in tiny.tables["t_trials_f"].items()}
    tiny.tables["t_trials_f_common"] = copy
    copy["wav.scp"][0] = "a-t0 wav/spare.wav"
    _swap(copy["utt2spk"], "b-t0 b", "b-t0 c")
    copy["trials"] = ["a a-t0", "b b-t1", "b c-t0"]
    tiny.save()
    soundfile.write(tiny.wav("spare"), np.full(800, 0.1), 8000)
    error = refused(importers.read_data_set, tiny.settings())
    said = [fault.what for fault in error.faults]
    assert {fault.kind for fault in error.faults} == {"disagrees"}
    assert any("'b-t0' has the speaker 'c' in t_trials_f_common and 'b' in t_trials_f" in what for what in said)
    assert any("'a-t0' has the audio" in what for what in said)


def test_all_faults_come_at_once(tiny, refused) -> None:
    for name in ("unknown model", "duplicate trial", "no path", "speaker without sex", "enrolled twice"):
        FAULTS[name][0](tiny)
    tiny.save()
    tiny.wav("a-t0").unlink()
    tiny.wav("b-t0").write_bytes(b"RIFF")
    tiny.wav("a-e0").unlink()
    error = refused(importers.read_data_set, tiny.settings())
    kinds = sorted(fault.kind for fault in error.faults)
    assert kinds == ["bad-audio", "duplicate-id", "duplicate-trial", "malformed", "missing-audio", "missing-audio", "no-sex",
                     "unknown-model"]  # fmt: skip
    assert "8 faults" in str(error)
    for kind in set(kinds):
        assert f"[{kind}]" in error.remedy


def test_bytes_that_are_no_text_are_refused(tiny, refused) -> None:
    tiny.save()
    (tiny.root / "t_trials_f" / "utt2dur").write_bytes(b"a-t0 \xff\n")
    (fault,) = refused(importers.read_data_set, tiny.settings()).faults
    assert fault.kind == "encoding" and "UTF-8" in fault.what and "iconv" in fault.what


@pytest.mark.parametrize(
    ("make", "kind", "said"),
    [
        (lambda root: None, "root", "there is no folder"),
        (lambda root: root.mkdir(), "no-sets", "the folder is empty"),
        (lambda root: (root / "x").mkdir(parents=True), "no-sets", "no Kaldi set"),
    ],
)
def test_a_root_without_sets(refused, tmp_path: Path, make, kind: str, said: str) -> None:
    from pipeline.datasets.settings import DatasetSettings

    make(tmp_path / "root")
    error = refused(importers.read_data_set, DatasetSettings(name="kaldi", root=str(tmp_path / "root")))
    assert [fault.kind for fault in error.faults] == [kind] and said in str(error) and "dataset.root" in error.remedy


def test_no_root_at_all(refused) -> None:
    from pipeline.datasets.settings import DatasetSettings

    assert "dataset.root" in refused(importers.read_data_set, DatasetSettings(name="kaldi")).remedy


def test_one_set_of_several_as_root_names_its_parent(tiny, refused) -> None:
    tiny.save()
    error = refused(importers.read_data_set, tiny.settings(root=str(tiny.root / "t_enrolls")))
    assert f"dataset.root={tiny.root}" in str(error)


def test_an_unknown_set_gets_the_nearest_name(tiny, refused) -> None:
    error = refused(importers.read_data_set, tiny.save().settings(sets=["t_trials_m"]))
    assert "there is no trial set 't_trials_m'; did you mean t_trials_f?" in str(error)


def test_streams_of_unknown_length_are_not_cut_off(tiny) -> None:
    """sox writes 0x7ffff000 as the length of a stream that it cannot seek back in."""
    path = tiny.save().wav("a-t0")
    content = bytearray(path.read_bytes())
    place = content.index(b"data")
    content[place + 4 : place + 8] = (0x7FFFF000).to_bytes(4, "little")
    path.write_bytes(bytes(content))
    row = importers.read_data_set(tiny.settings()).manifest.set_index("utterance").loc["a-t0"]
    assert row["samples"] == 4000


def test_an_utterance_tried_against_its_own_model_is_noted(tiny) -> None:
    for table in ("wav.scp", "utt2spk", "utt2dur"):
        _rows(tiny, table).append(tiny.tables["t_enrolls"][table][0])
    _rows(tiny, "trials").append("a a-e0 target")
    (note,) = importers.read_data_set(tiny.save().settings()).limits
    assert "1 trials compare a model with an utterance that it was enrolled with, e.g. a a-e0" in note


def test_an_empty_wav_scp(tiny, refused) -> None:
    for table in ("wav.scp", "utt2spk", "spk2gender", "utt2dur"):
        tiny.tables["t_trials_f"][table] = []
    error = refused(importers.read_data_set, tiny.save().settings())
    assert ("empty", f"{tiny.root}/t_trials_f/wav.scp") in {(fault.kind, fault.where) for fault in error.faults}


def test_nothing_left_is_refused_even_under_allow_partial(tiny, refused) -> None:
    tiny.save()
    for path in (tiny.root / "wav").iterdir():
        path.write_bytes(b"")
    error = refused(importers.read_data_set, tiny.settings(), allow_partial=True)
    assert {fault.kind for fault in error.faults} == {"no-class"}


def test_a_circle_of_links_and_a_name_too_long_are_missing(tiny, refused) -> None:
    lines = _rows(tiny, "wav.scp")
    lines[0], lines[1] = "a-t0 wav/circle.wav", f"a-t1 wav/{'x' * 300}.wav"
    tiny.save()
    (tiny.root / "wav" / "circle.wav").symlink_to("circle.wav")
    error = refused(importers.read_data_set, tiny.settings())
    assert sorted(fault.where[-1] for fault in error.faults) == ["1", "2"]
    assert {fault.kind for fault in error.faults} <= {"missing-audio", "bad-audio"}
