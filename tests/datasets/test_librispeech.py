"""LibriSpeech trees: real ones, and each fault by itself."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
import soundfile

from pipeline.datasets import importers
from pipeline.datasets.settings import DatasetSettings

from .conftest import RATE, noise


def _tree(root: Path, speakers: str = "ab", chapters: int = 2, files: int = 2, extension: str = "flac") -> Path:
    for speaker in speakers:
        for chapter in range(chapters):
            folder = root / speaker / str(chapter)
            folder.mkdir(parents=True)
            for number in range(files):
                name = f"{speaker}-{chapter}-{number}"
                soundfile.write(folder / f"{name}.{extension}", noise(name), RATE)
    return root


def _settings(root: Path, **changed: object) -> DatasetSettings:
    return DatasetSettings(**{"name": "librispeech", "root": str(root), **changed})


def test_the_real_flac_tree(speech: Path) -> None:
    root = speech / "librispeech" / "test-other"
    corpus = importers.read_data_set(_settings(root), threads=2)
    rows = corpus.manifest
    assert rows.groupby("set").size().to_dict() == {
        "test-other_enrolls": 50, "test-other_trials_f": 25, "test-other_trials_m": 25,
    }  # fmt: skip
    # Five speakers a sex, of whom five of ten utterances each are tried against all five models.
    assert {name: (one.n_target, one.n_nontarget) for name, one in corpus.trials.items()} == {
        "test-other_trials_f": (25, 100), "test-other_trials_m": (25, 100),
    }  # fmt: skip
    assert corpus.notes == () and corpus.dropped == ()
    table = (root.parent / "SPEAKERS.TXT").read_text()
    for speaker, sex in rows.drop_duplicates("speaker")[["speaker", "sex"]].values:
        line = next(line for line in table.splitlines() if line.split("|")[0].strip() == speaker)
        assert line.split("|")[1].strip().lower() == sex
    for sex in "fm":
        one = corpus.trials[f"test-other_trials_{sex}"]
        sexes = dict(rows[["speaker", "sex"]].values)
        assert {sexes[model] for model in one.enrolment["model"]} == {sex}
    assert rows["samples"].sum() / 16000 / 60 == pytest.approx(12.8, abs=0.05)


def test_the_halves_follow_the_digest_of_seed_and_id(speech: Path) -> None:
    """Against the rule written out with hashlib and json."""
    rows = importers.read_data_set(_settings(speech / "librispeech" / "test-other", seed=7), threads=2).manifest
    for _, mine in rows.groupby("speaker"):
        ordered = sorted(
            mine["utterance"],
            key=lambda name: hashlib.sha256(json.dumps([7, name], separators=(",", ":")).encode()).hexdigest(),
        )
        assert set(mine[mine["role"] == "enrolment"]["utterance"]) == set(ordered[:5])


def test_blanks_in_real_ids_become_underscores_and_sexes_may_be_unknown(speech: Path) -> None:
    corpus = importers.read_data_set(_settings(speech / "arabic-speech-commands"), threads=2)
    rows = corpus.manifest
    assert len(rows) == 1000 and rows["speaker"].nunique() == 25 and set(rows["sex"]) == {"u"}
    renamed = rows[rows["path"].str.contains(" ")]
    assert len(renamed) == 50
    assert {name.split("-")[2] for name in renamed["utterance"]} == {"zoom_in", "zoom_out"}
    (one,) = corpus.trials.values()
    assert (one.name, one.n_target, one.n_nontarget) == ("arabic-speech-commands_trials", 500, 24 * 500)


@pytest.mark.parametrize("extension", ["flac", "wav", "mp3", "ogg"])
def test_formats(tmp_path: Path, extension: str) -> None:
    corpus = importers.read_data_set(_settings(_tree(tmp_path / "x", extension=extension)))
    assert len(corpus.manifest) == 8 and set(corpus.manifest["sample_rate"]) == {RATE}


@pytest.mark.parametrize("extension", ["flac", "wav", "mp3", "ogg"])
def test_files_cut_off_at_any_tenth_are_named(tmp_path: Path, extension: str, refused) -> None:
    root = _tree(tmp_path / "x", extension=extension)
    path = root / "a" / "0" / f"a-0-1.{extension}"
    # Long enough that a tenth is more than a frame.
    soundfile.write(path, noise("long", 4.0), RATE)
    whole = path.read_bytes()
    for tenth in range(1, 10):
        path.write_bytes(whole[: len(whole) * tenth // 10])
        (fault,) = refused(importers.read_data_set, _settings(root)).faults
        assert fault.kind == "bad-audio" and "a-0-1" in fault.what


def test_capital_extensions_and_hidden_files(tmp_path: Path) -> None:
    root = _tree(tmp_path / "x")
    path = root / "a" / "0" / "a-0-0.flac"
    path.rename(path.with_suffix(".FLAC"))
    (root / "a" / "0" / "._a-0-0.flac").write_bytes(b"finder")
    assert len(importers.read_data_set(_settings(root)).manifest) == 8


def test_speakers_txt_in_the_root_or_its_parent(tmp_path: Path, refused) -> None:
    root = _tree(tmp_path / "x", "abcd")
    (tmp_path / "SPEAKERS.TXT").write_text(
        "; comment\na | F | x | 1.0 | A | B\nb|M|x|1|\nc | f | x | 1 | C\nd | M | x | 1 | D\n"
    )
    assert list(importers.read_data_set(_settings(root)).trials) == ["x_trials_f", "x_trials_m"]
    (root / "SPEAKERS.TXT").write_text("a | F |\nb | F |\nc | F |\nd | F |\n")
    assert list(importers.read_data_set(_settings(root)).trials) == ["x_trials_f"]
    (root / "SPEAKERS.TXT").write_text("a | F |\nb | F |\nc | F |\n")
    (fault,) = refused(importers.read_data_set, _settings(root)).faults
    assert fault.kind == "no-sex" and "'d'" in fault.what
    (root / "SPEAKERS.TXT").write_text("a | F |\nb ; F |\nc | F |\nd | F |\n")
    error = refused(importers.read_data_set, _settings(root))
    assert error.faults[0].kind == "malformed" and error.faults[0].where == f"{root}/SPEAKERS.TXT:2"


def test_ids_that_collide(tmp_path: Path, refused) -> None:
    root = _tree(tmp_path / "x")
    for name in ("a zoom in", "a zoom_in", "b-0-0"):
        soundfile.write(root / "a" / "1" / f"{name}.flac", noise(name), RATE)
    error = refused(importers.read_data_set, _settings(root))
    assert [fault.kind for fault in error.faults] == ["duplicate-id", "duplicate-id"]
    assert "'a_zoom_in' is taken by" in str(error) and "'b-0-0' is taken by" in str(error)


def test_a_class_that_is_lacking_and_the_way_around_it(tmp_path: Path, refused) -> None:
    root = _tree(tmp_path / "x", "abc")
    (root / "SPEAKERS.TXT").write_text("a | F |\nb | F |\nc | M |\n")
    error = refused(importers.read_data_set, _settings(root))
    assert [fault.kind for fault in error.faults] == ["no-class"] and "x_trials_m has no nontarget trials" in str(error)
    assert list(importers.read_data_set(_settings(root, sets=["x_trials_f"])).trials) == ["x_trials_f"]


def test_speakers_with_one_utterance_are_tried_but_not_enrolled(tmp_path: Path) -> None:
    root = _tree(tmp_path / "x")
    (root / "c" / "0").mkdir(parents=True)
    soundfile.write(root / "c" / "0" / "c-0-0.flac", noise("c"), RATE)
    corpus = importers.read_data_set(_settings(root))
    one = corpus.trials["x_trials"]
    assert set(one.enrolment["model"]) == {"a", "b"} and (one.n_target, one.n_nontarget) == (4, 4 + 2)
    assert any("not enrolled: c" in limit for limit in corpus.limits) and not any(
        "enrolled" in one for one in corpus.notes
    )


def test_roots_without_a_tree(tmp_path: Path, refused) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "holds no audio" in str(refused(importers.read_data_set, _settings(empty)))
    assert "there is no folder" in str(refused(importers.read_data_set, _settings(tmp_path / "no")))
    _tree(tmp_path / "corpus" / "dev-clean")
    assert f"dataset.root={tmp_path}/corpus/dev-clean" in str(
        refused(importers.read_data_set, _settings(tmp_path / "corpus"))
    )


def test_files_at_another_depth_and_links_that_leave_are_named(tmp_path: Path, refused) -> None:
    root = _tree(tmp_path / "x")
    stray = root / "a" / "stray.flac"
    soundfile.write(stray, noise("stray"), RATE)
    soundfile.write(tmp_path / "away.flac", noise("away"), RATE)
    (root / "a" / "0" / "a-0-9.flac").symlink_to(tmp_path / "away.flac")
    error = refused(importers.read_data_set, _settings(root))
    assert {(fault.kind, fault.where) for fault in error.faults} == {
        ("layout", str(stray)), ("link", str(root / "a" / "0" / "a-0-9.flac")),
    }  # fmt: skip


def test_broken_and_doubled_audio(tmp_path: Path, refused) -> None:
    root = _tree(tmp_path / "x")
    (root / "a" / "0" / "a-0-0.flac").write_bytes(b"")
    both = importers.read_data_set(_settings(root), allow_partial=True)
    assert [line.utterance for line in both.dropped] == ["a-0-0"] and len(both.manifest) == 7
    in_one_set = [name for name in both.manifest[both.manifest["set"] == "x_trials"]["utterance"] if name[0] == "b"]
    source, copy = (root / "b" / name.split("-")[1] / f"{name}.flac" for name in in_one_set)
    copy.write_bytes(source.read_bytes())
    error = refused(importers.read_data_set, _settings(root))
    assert sorted(fault.kind for fault in error.faults) == ["bad-audio", "duplicate-audio"]
