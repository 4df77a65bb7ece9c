"""Packed training speech: what comes out is what went in, whatever the file, rate, level and number of threads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pipeline import audio
from pipeline.errors import DataError
from pipeline.files import file_digest
from pipeline.nets import waveforms as packed


def rows(folder: Path, waves: dict[str, tuple[np.ndarray, int]]) -> pd.DataFrame:
    made = []
    for name, (wave, rate) in waves.items():
        path = folder / f"{name}.wav"
        subtype = "PCM_16" if np.abs(wave).max() < 1 else "FLOAT"
        audio.write(path, wave.astype(np.float32), rate, subtype)
        made.append((name, f"speaker {name[0]}", str(path), rate, len(wave), file_digest(path)))
    return pd.DataFrame(made, columns=["utterance", "speaker", "path", "sample_rate", "samples", "sha256"])


def test_sixteen_bit_speech_comes_back_exactly_and_in_pieces(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    whole = random.integers(-32767, 32768, 5000).astype(np.int16)
    made = rows(tmp_path, {"a1": (whole / np.float32(32768), 16_000), "b1": (whole[:700] / np.float32(40000), 16_000)})
    (tmp_path / "packed").mkdir()
    heard: list[float] = []
    packed.write(tmp_path / "packed", made, 2, heard.append)
    read = packed.read(tmp_path / "packed")
    assert read.ids == ("a1", "b1")
    assert read.speakers == ("speaker a", "speaker b")
    assert read.lengths.tolist() == [5000, 700]
    assert np.array_equal(read.piece(0) * 32768, whole)
    assert np.array_equal(read.piece(0, 100, 104) * 32768, whole[100:104])
    assert read.piece(1, 650).dtype == np.float32
    assert len(read.piece(1, 650)) == 50
    assert sum(heard) == pytest.approx(5700 / 16_000)


def test_speech_beyond_full_scale_and_at_other_rates_is_kept_to_a_step_of_its_peak(tmp_path: Path) -> None:
    time = np.arange(22_050) / 22_050
    loud = (2.9 * np.sin(2 * np.pi * 300 * time)).astype(np.float32)
    made = rows(tmp_path, {"a1": (loud, 22_050)})
    (tmp_path / "packed").mkdir()
    packed.write(tmp_path / "packed", made, 1, lambda seconds: None)
    piece = packed.read(tmp_path / "packed").piece(0)
    expected = audio.resample(loud, 22_050, 16_000)
    assert np.abs(expected).max() > 2.8
    assert np.abs(piece - expected).max() <= 0.51 * np.abs(expected).max() / 32767


def test_bytes_do_not_depend_on_threads_and_the_digest_follows_the_content(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    made = rows(tmp_path, {f"{s}{n}": (0.1 * random.standard_normal(900 + n), 16_000) for s in "cab" for n in range(4)})
    for threads in (1, 3):
        (tmp_path / str(threads)).mkdir()
        packed.write(tmp_path / str(threads), made.sample(frac=1, random_state=threads), threads, lambda seconds: None)
    for name in (packed.SAMPLES, packed.ROWS):
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "3" / name).read_bytes()
    one = packed.pack_waveforms([np.ones(4), np.zeros(3)], ["x", "y"])
    assert one.digest != packed.pack_waveforms([np.ones(4), np.zeros(4)], ["x", "y"]).digest
    assert one.digest != packed.pack_waveforms([np.ones(4), np.zeros(3)], ["x", "z"]).digest
    assert np.allclose(one.piece(0), 1, atol=2e-5)


@pytest.mark.parametrize("wave", [np.zeros(0), np.array([0.1, np.nan]), np.array([np.inf, 0.0])])
def test_what_cannot_be_trained_on_is_refused_by_name(wave: np.ndarray) -> None:
    with pytest.raises(DataError, match="no samples, or some that are not finite") as error:
        packed.pack_waveforms([np.ones(3), wave], ["x", "y"], ["good", "bad"])
    assert error.value.where == "bad"


def test_a_file_that_is_not_what_its_row_says_is_not_packed(tmp_path: Path) -> None:
    listed = rows(tmp_path, {"a1": (np.full(100, 0.5), 16_000), "b1": (np.full(100, 0.25), 16_000)})
    (tmp_path / "b1.wav").write_bytes((tmp_path / "a1.wav").read_bytes())
    with pytest.raises(audio.Changed, match="not what it was") as caught:
        packed.write(tmp_path, listed, 2, lambda seconds: None)
    assert caught.value.where == str(tmp_path / "b1.wav")
