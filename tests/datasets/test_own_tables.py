"""The ``wav.scp`` of an anonymised copy, which comes before the files in its folder; paths of another machine; links out of a corpus."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import soundfile

from pipeline.datasets import external_copy, importers, prepare
from pipeline.errors import PipelineError

from .conftest import RATE, Tiny, noise


@pytest.fixture
def original(tiny: Tiny) -> pd.DataFrame:
    return importers.read_data_set(tiny.save().settings()).manifest


def tables(root: Path, original: pd.DataFrame, line: str) -> Path:
    """``root/data/SET_anon/wav.scp``, a line for each utterance, with its name and the set in it."""
    for name, rows in original.groupby("set"):
        (root / "data" / f"{name}_anon").mkdir(parents=True, exist_ok=True)
        lines = [f"{one} {line.format(set=name, utterance=one)}\n" for one in rows["utterance"]]
        (root / "data" / f"{name}_anon" / "wav.scp").write_text("".join(lines))
    return root / "data"


def audio(root: Path, original: pd.DataFrame, pattern: str, voice: str = "anon") -> None:
    for row in original.itertuples():
        path = root / pattern.format(set=row.set, utterance=row.utterance)
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, noise(f"{voice} {row.utterance}"), RATE, subtype="PCM_16")


def read(data: Path, original: pd.DataFrame) -> prepare.CheckedCopy:
    return prepare.read_copy(external_copy.Copy(str(data), "_anon"), original, recordings=data.parent / "recordings")


ELSEWHERE = "exp/am_nsf_data/{set}/nsf_output_wav/{utterance}.wav"


@pytest.mark.parametrize("line", [f"sox {ELSEWHERE} -t wav -R -b 16 - |", ELSEWHERE])
def test_a_copy_of_tables_alone_is_read_where_they_say(tmp_path: Path, original: pd.DataFrame, line: str) -> None:
    """B1 of VoicePrivacy 2020 and 2022."""
    audio(tmp_path, original, ELSEWHERE)
    found = read(tables(tmp_path, original, line), original)
    expected = [str(tmp_path / ELSEWHERE.format(set=row.set, utterance=row.utterance)) for row in original.itertuples()]
    assert found.manifest["path"].tolist() == expected
    assert found.limits == () and found.notes == ()


def test_no_command_of_a_copy_is_run(
    tmp_path: Path, original: pd.DataFrame, refused: Callable[..., PipelineError]
) -> None:
    audio(tmp_path, original, ELSEWHERE)
    data = tables(tmp_path, original, f"sox {ELSEWHERE} -t wav - speed 1.1 ; touch {tmp_path}/ran |")
    error = refused(read, data, original)
    assert len(error.faults) == 2 and all("shell pipes, not files" in fault.what for fault in error.faults)
    assert not (tmp_path / "ran").exists()


def test_segments_of_a_copy_are_cut_out(
    tmp_path: Path, original: pd.DataFrame, refused: Callable[..., PipelineError]
) -> None:
    waves = {one: np.round(noise(f"anon {one}") * 32767) / 32768 for one in original["utterance"]}
    data = tables(tmp_path, original, "unused")
    for name, rows in original.groupby("set"):
        soundfile.write(tmp_path / f"{name}.wav", np.concatenate([waves[one] for one in rows["utterance"]]), RATE)
        (data / f"{name}_anon" / "wav.scp").write_text(f"long {tmp_path / str(name)}.wav\n")
        lines = [f"{one} long {place / 4} {(place + 1) / 4}\n" for place, one in enumerate(rows["utterance"])]
        (data / f"{name}_anon" / "segments").write_text("".join(lines))
    for row in read(data, original).manifest.itertuples():
        np.testing.assert_allclose(soundfile.read(row.path)[0], waves[row.utterance], atol=1e-9)
    # A recording is never taken for one of its segments.
    (data / "t_enrolls_anon" / "segments").write_text(
        "a-e0 long 0 0.25\na-e1 long 99 100\nb-e0 long 0.5 0.75\nb-e1 long 0.75 1\n"
    )
    error = refused(read, data, original)
    assert any("segment 'a-e1': begins at 99 s" in fault.what for fault in error.faults)


def test_where_table_and_folder_disagree_the_table_counts_and_it_is_said(
    tmp_path: Path, original: pd.DataFrame
) -> None:
    audio(tmp_path, original, ELSEWHERE, "table")
    audio(tmp_path, original, "data/{set}_anon/wav/{utterance}.wav", "folder")
    data = tables(tmp_path, original, ELSEWHERE)
    found = read(data, original)
    assert all("am_nsf_data" in path for path in found.manifest["path"])
    (limit,) = found.limits
    assert limit.startswith("wav.scp names other files than those in the folder for 10 utterances, e.g. ")
    for table in data.glob("*/wav.scp"):
        table.unlink()
    assert all("_anon/wav/" in path for path in read(data, original).manifest["path"])
    # One and the same file by two names is no disagreement.
    tables(tmp_path, original, "data/{set}_anon/../{set}_anon/wav/{utterance}.wav")
    assert read(data, original).limits == ()


def test_the_table_of_the_originals_is_none_of_the_copys(
    tmp_path: Path, original: pd.DataFrame, tiny: Tiny, refused: Callable[..., PipelineError]
) -> None:
    """A set that was copied with its tables: its originals must not be taken for anonymised speech."""
    data = tables(tmp_path, original, f"{tiny.root}/wav/{{utterance}}.wav")
    error = refused(read, data, original)
    (fault,) = error.faults
    assert fault.kind == "own-table" and "t_enrolls_anon/wav.scp" in fault.where
    assert "wav.scp names the original recordings of 10 utterances, and no other file of them is there" in fault.what
    audio(tmp_path, original, "data/{set}_anon/wav/{utterance}.wav")
    found = read(data, original)
    assert all("_anon/wav/" in path for path in found.manifest["path"])
    assert found.limits == ()


def test_paths_of_another_machine_are_one_fault(
    tmp_path: Path, original: pd.DataFrame, refused: Callable[..., PipelineError]
) -> None:
    audio(tmp_path, original, ELSEWHERE)
    data = tables(tmp_path, original, f"/home/me/a.b[1]/{ELSEWHERE}")
    error = refused(read, data, original)
    (fault,) = error.faults
    assert (
        "no file of 10 utterances is in " in fault.what
        and "none of the 10 absolute paths of wav.scp exists" in fault.what
    )


def test_a_link_out_of_the_corpus_is_one_fault_with_its_option(
    tiny: Tiny, tmp_path: Path, refused: Callable[..., PipelineError]
) -> None:
    """As the challenge's own script makes ``corpora``: not one fault a file."""
    tiny.save()
    (tiny.root / "wav").rename(tmp_path / "disk")
    (tiny.root / "wav").symlink_to(tmp_path / "disk")
    error = refused(importers.read_data_set, tiny.settings())
    assert [fault.kind for fault in error.faults] == ["leaves-root"] * 2, "one a table"
    assert "and so do 3 more paths" in error.faults[0].what
    assert "dataset.follow_links=true" in error.remedy
    assert len(importers.read_data_set(tiny.settings(follow_links=True)).manifest) == 10
