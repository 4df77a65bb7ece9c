"""Somebody's anonymised audio against the manifest of the original."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import soundfile

from pipeline.datasets import external_copy, importers, prepare

from .conftest import RATE, noise


@pytest.fixture
def original(tiny) -> pd.DataFrame:
    return importers.read_data_set(tiny.save().settings()).manifest


def copy(root: Path, **settings: object) -> external_copy.Copy:
    return external_copy.Copy(str(root), **settings)


def _anonymise(root: Path, manifest: pd.DataFrame, pattern: str, rate: int = RATE) -> Path:
    for row in manifest.itertuples():
        path = root / pattern.format(set=row.set, utterance=row.utterance)
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, noise(f"anon {row.set} {row.utterance}"), rate)
    return root


@pytest.mark.parametrize(
    "pattern",
    [
        "{set}_mcadams/wav/{utterance}.wav",
        "{set}/{utterance}.flac",
        "{set}_a_b/x/y/{utterance}.ogg",
        "any/where/{utterance}.wav",
    ],
)
def test_layouts(tmp_path: Path, original: pd.DataFrame, pattern: str) -> None:
    root = _anonymise(tmp_path / "anon", original, pattern)
    found = prepare.read_copy(copy(root), original)
    kept = ["set", "utterance", "speaker", "sex", "role", "position"]
    assert found.manifest[kept].equals(original[kept])
    assert not set(found.manifest["sha256"]) & set(original["sha256"])
    expected = [str(root / pattern.format(set=row.set, utterance=row.utterance)) for row in original.itertuples()]
    assert found.manifest["path"].tolist() == expected
    assert found.notes == found.limits == found.dropped == ()


def test_another_rate_and_length_are_taken_and_reported(tmp_path: Path, original: pd.DataFrame) -> None:
    root = tmp_path / "anon"
    for number, row in enumerate(original.itertuples()):
        (root / f"{row.set}_x").mkdir(parents=True, exist_ok=True)
        wave = noise(f"anon {row.set} {row.utterance}")[: 2100 + 25 * number]
        soundfile.write(root / f"{row.set}_x" / f"{row.utterance}.wav", wave, 8000)
    found = prepare.read_copy(copy(root), original)
    assert set(found.manifest["sample_rate"]) == {8000} and found.notes == ()
    length, rate = found.limits
    assert length == "10 of 10 anonymised files differ in length by more than 10 ms, from +0.01 s to +0.04 s"
    assert rate.startswith("10 of 10 files are sampled below 16 kHz (8000 Hz: 10)")


def test_silent_and_short_output_is_named_or_left_out(tmp_path: Path, original: pd.DataFrame, refused) -> None:
    """A system that gave nothing back is no private system."""
    root = _anonymise(tmp_path / "anon", original, "{set}_x/wav/{utterance}.wav")
    soundfile.write(root / "t_enrolls_x/wav/a-e0.wav", np.zeros(RATE), RATE)
    soundfile.write(root / "t_trials_f_x/wav/b-t0.wav", noise("short", 0.05), RATE)
    error = refused(prepare.read_copy, copy(root), original)
    assert [fault.kind for fault in error.faults] == ["no-speech", "no-speech"]
    partial = prepare.read_copy(copy(root), original, allow_partial=True)
    assert [line.utterance for line in partial.dropped] == ["a-e0", "b-t0"] and len(partial.manifest) == 8


def test_all_missing_files_are_named_at_once_or_left_out(tmp_path: Path, original: pd.DataFrame, refused) -> None:
    root = _anonymise(tmp_path / "anon", original, "{set}_x/wav/{utterance}.wav")
    for name in ("t_enrolls_x/wav/a-e0.wav", "t_trials_f_x/wav/b-t0.wav", "t_trials_f_x/wav/c-t1.wav"):
        (root / name).unlink()
    (root / "t_trials_f_x/wav/c-t0.wav").write_bytes(b"RIFF")
    error = refused(prepare.read_copy, copy(root), original)
    assert sorted(fault.kind for fault in error.faults) == [
        "bad-audio",
        "missing-audio",
        "missing-audio",
        "missing-audio",
    ]
    for name in ("a-e0", "b-t0", "c-t1", "c-t0"):
        assert f"'{name}'" in str(error)
    partial = prepare.read_copy(copy(root), original, allow_partial=True)
    assert [line[:2] for line in partial.dropped] == [
        ("a-e0", "t_enrolls"), ("b-t0", "t_trials_f"), ("c-t0", "t_trials_f"), ("c-t1", "t_trials_f"),
    ]  # fmt: skip
    assert len(partial.manifest) == 6


def test_two_files_for_one_utterance(tmp_path: Path, original: pd.DataFrame, refused) -> None:
    root = _anonymise(tmp_path / "anon", original, "{set}_x/wav/{utterance}.wav")
    soundfile.write(root / "t_trials_f_x" / "a-t0.flac", noise("again"), RATE)
    (fault,) = refused(prepare.read_copy, copy(root), original).faults
    assert fault.kind == "ambiguous" and "wav/a-t0.wav" in fault.what and "a-t0.flac" in fault.what


def test_several_systems_in_one_folder_need_a_suffix(tmp_path: Path, original: pd.DataFrame, refused) -> None:
    root = tmp_path / "anon"
    for suffix in ("_x", "_y"):
        _anonymise(root, original, "{set}" + suffix + "/{utterance}.wav")
    error = refused(prepare.read_copy, copy(root), original)
    assert error.faults[0].kind == "ambiguous" and "'_x', '_y'" in str(error)
    assert all("_y/" in path for path in prepare.read_copy(copy(root, suffix="_y"), original).manifest["path"])


def test_a_subset_is_no_copy_of_the_set_whose_name_it_begins_with(tmp_path: Path, original: pd.DataFrame) -> None:
    common = original[original["set"] == "t_trials_f"].assign(set="t_trials_f_common")
    both = pd.concat([original, common], ignore_index=True)
    root = _anonymise(tmp_path / "anon", both, "{set}_x/{utterance}.wav")
    found = prepare.read_copy(copy(root), both)
    assert all(f"/{row.set}_x/" in row.path for row in found.manifest.itertuples())
    # Without the subset's rows its folder is of no concern.
    assert len(prepare.read_copy(copy(root), original).manifest) == 10


def test_a_set_without_a_folder(tmp_path: Path, original: pd.DataFrame, refused) -> None:
    root = _anonymise(tmp_path / "anon", original[original["set"] == "t_enrolls"], "{set}_x/{utterance}.wav")
    (fault,) = refused(prepare.read_copy, copy(root), original).faults
    assert "no folder t_trials_f_x for the set t_trials_f" in fault.what


def test_originals_and_unused_files_are_noted(tmp_path: Path, original: pd.DataFrame) -> None:
    root = _anonymise(tmp_path / "anon", original, "{set}_x/{utterance}.wav")
    source = original[original["utterance"] == "a-t0"]["path"].iloc[0]
    (root / "t_trials_f_x" / "a-t0.wav").write_bytes(Path(source).read_bytes())
    soundfile.write(root / "t_trials_f_x" / "z.wav", np.zeros(10), RATE)
    found = prepare.read_copy(copy(root), original)
    (doubt,) = found.same.doubts
    assert (doubt.check, doubt.share) == ("not_anonymised", 0.1) and "1 audio files" in found.notes[0]
    assert "1 of 10 files are the original speech, not anonymised: 1 of 6 of t_trials_f (e.g. a-t0)" in doubt.sentence


def test_links_that_leave_and_no_folder(tmp_path: Path, original: pd.DataFrame, refused) -> None:
    root = _anonymise(tmp_path / "anon", original, "{set}_x/{utterance}.wav")
    path = root / "t_trials_f_x" / "a-t0.wav"
    path.rename(tmp_path / "away.wav")
    path.symlink_to(tmp_path / "away.wav")
    (fault,) = refused(prepare.read_copy, copy(root), original).faults
    assert fault.kind == "leaves-root"
    assert refused(prepare.read_copy, copy(tmp_path / "no"), original).faults[0].kind == "root"


def test_blanks_are_mapped_as_in_the_original(tmp_path: Path, original: pd.DataFrame) -> None:
    renamed = original.assign(utterance=original["utterance"] + "_in")
    root = tmp_path / "anon"
    for row in original.itertuples():
        (root / row.set).mkdir(parents=True, exist_ok=True)
        soundfile.write(root / row.set / f"{row.utterance} in.wav", noise(row.utterance + "x"), RATE)
    assert prepare.read_copy(copy(root), renamed).manifest["utterance"].tolist() == renamed["utterance"].tolist()
