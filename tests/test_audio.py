"""Decoding, mixing, resampling and writing, against closed forms, scipy and libsndfile."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.io.wavfile
import soundfile

from pipeline import audio
from pipeline.errors import DataError


def noise(n: int, seed: int = 0) -> np.ndarray:
    return (0.2 * np.random.default_rng(seed).standard_normal(n)).astype(np.float32)


@pytest.mark.parametrize(("rate", "target"), [(44100, 16000), (16000, 8000), (8000, 16000), (48000, 16000)])
@pytest.mark.parametrize("fraction", [0.02, 0.3, 0.8])
def test_resampled_sine_is_the_sine_at_the_new_rate(rate: int, target: int, fraction: float) -> None:
    frequency = fraction * min(rate, target) / 2
    wave = np.sin(2 * np.pi * frequency * np.arange(4 * rate) / rate).astype(np.float32)
    made = audio.resample(wave, rate, target)
    expected = np.sin(2 * np.pi * frequency * np.arange(4 * target) / target)
    assert made.dtype == np.float32
    assert len(made) == len(expected)
    # Away from the ends, where the filter sees silence that the sine does not have.
    inner = slice(target // 2, -target // 2)
    assert np.abs(made[inner] - expected[inner]).max() < 1e-3


def test_what_lies_above_the_new_nyquist_frequency_is_gone() -> None:
    wave = np.sin(2 * np.pi * 4400 * np.arange(4 * 16000) / 16000).astype(np.float32)
    assert np.abs(audio.resample(wave, 16000, 8000)[4000:-4000]).max() < 1e-6


@pytest.mark.parametrize("n", [1, 2, 3, 44, 441, 1000, 44101])
def test_length_after_resampling(n: int) -> None:
    made = audio.resample(noise(n), 44100, 16000)
    assert len(made) == max(1, round(n * 16000 / 44100))
    assert np.isfinite(made).all()


def test_the_same_rate_and_nothing_stay_as_they_are() -> None:
    wave = noise(100)
    assert np.array_equal(audio.resample(wave, 16000, 16000), wave)
    assert len(audio.resample(np.zeros(0, np.float32), 8000, 16000)) == 0


def test_resampling_is_the_same_each_time() -> None:
    wave = noise(50_001)
    first = audio.resample(wave, 44100, 16000)
    assert all(np.array_equal(audio.resample(wave.copy(), 44100, 16000), first) for _ in range(3))


@pytest.mark.parametrize("subtype", ["FLOAT", "PCM_16"])
def test_written_file_is_read_alike_by_libsndfile_and_scipy(tmp_path: Path, subtype: audio.Subtype) -> None:
    wave = noise(12_345)
    audio.write(tmp_path / "a.wav", wave, 16000, subtype)
    by_libsndfile, rate = soundfile.read(tmp_path / "a.wav", dtype="float32")
    rate_too, by_scipy = scipy.io.wavfile.read(tmp_path / "a.wav")
    assert (rate, rate_too) == (16000, 16000)
    assert soundfile.info(tmp_path / "a.wav").subtype == subtype
    if subtype == "FLOAT":
        assert np.array_equal(by_libsndfile, wave)
        assert np.array_equal(by_scipy, wave)
    else:
        assert np.abs(by_libsndfile - wave).max() <= 2.0**-16
        assert np.array_equal(by_scipy / 32768, by_libsndfile)


@pytest.mark.parametrize("subtype", ["FLOAT", "PCM_16"])
def test_bytes_do_not_depend_on_the_time_of_day(tmp_path: Path, subtype: audio.Subtype) -> None:
    wave = noise(1000)
    audio.write(tmp_path / "a.wav", wave, 8000, subtype)
    time.sleep(1.1)
    audio.write(tmp_path / "b.wav", wave, 8000, subtype)
    assert (tmp_path / "a.wav").read_bytes() == (tmp_path / "b.wav").read_bytes()


def test_sixteen_bits_pass_unchanged_and_overload_is_clipped(tmp_path: Path) -> None:
    steps = np.array([-32768, -1, 0, 1, 32767], dtype=np.int16)
    soundfile.write(tmp_path / "in.wav", steps, 16000, subtype="PCM_16")
    wave, rate = audio.load(tmp_path / "in.wav")
    audio.write(tmp_path / "out.wav", wave, rate, "PCM_16")
    assert np.array_equal(soundfile.read(tmp_path / "out.wav", dtype="int16")[0], steps)
    audio.write(tmp_path / "loud.wav", np.array([2.0, -2.0], np.float32), rate, "PCM_16")
    assert soundfile.read(tmp_path / "loud.wav", dtype="int16")[0].tolist() == [32767, -32768]


def test_an_empty_waveform_makes_a_sound_file(tmp_path: Path) -> None:
    audio.write(tmp_path / "none.wav", np.zeros(0, np.float32), 16000)
    assert audio.info(tmp_path / "none.wav") == audio.Info(16000, 0, 1, "FLOAT")


@pytest.mark.parametrize(
    ("name", "subtype", "tolerance"),
    [
        ("a.wav", "PCM_24", 1e-6),
        ("a.wav", "FLOAT", 0),
        ("a.flac", "PCM_16", 1e-4),
        ("a.ogg", "VORBIS", 0.05),
    ],
)
def test_channels_are_mixed_to_their_mean(tmp_path: Path, name: str, subtype: str, tolerance: float) -> None:
    turns = 2 * np.pi * np.arange(44_100) / 44_100
    left, right = (0.4 * np.sin(300 * turns)).astype(np.float32), (0.3 * np.sin(500 * turns)).astype(np.float32)
    soundfile.write(tmp_path / name, np.stack([left, right], axis=1), 44_100, subtype=subtype)
    wave, rate = audio.load(tmp_path / name)
    assert rate == 44_100
    assert wave.dtype == np.float32
    assert wave.shape == (44_100,)
    assert np.abs(wave - (left.astype(np.float64) + right) / 2).max() <= tolerance + 1e-7


def test_mp3_of_the_speech_pack(speech: Path) -> None:
    path = next(iter(sorted((speech / "librispeech-dev-clean-mp3").rglob("*.mp3"))))
    wave, rate = audio.load(path)
    header = audio.info(path)
    assert (rate, len(wave)) == (header.rate, header.samples)
    assert 1e-3 < np.sqrt(np.mean(wave**2)) < 1


def faulty(folder: Path, kind: str) -> Path:
    path = folder / f"{kind}.wav"
    if kind == "empty":
        path.touch()
    elif kind == "text":
        path.write_text("this is no sound\n" * 9)
    elif kind == "no samples":
        soundfile.write(path, np.zeros(0, np.float32), 16000)
    elif kind == "nan":
        soundfile.write(path, np.array([0.0, np.nan], np.float32), 16000, subtype="FLOAT")
    elif kind == "cut off":
        whole = folder / "whole.flac"
        soundfile.write(whole, noise(40_000), 16000)
        path = folder / "cut.flac"
        path.write_bytes(whole.read_bytes()[:20_000])
    return path


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("missing", "missing"),
        ("empty", "is empty"),
        ("text", "cannot be read"),
        ("no samples", "no samples"),
        ("nan", "NaN"),
        ("cut off", "cut|cannot be read"),
    ],
)
def test_faulty_files_are_named(tmp_path: Path, kind: str, message: str) -> None:
    path = faulty(tmp_path, kind)
    with pytest.raises(DataError, match=message) as caught:
        audio.load(path)
    assert str(path) in str(caught.value)


def test_what_is_not_finite_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="NaN"):
        audio.write(tmp_path / "a.wav", np.array([np.nan], np.float32), 16000)


def test_the_header_is_the_one_that_was_agreed_on(tmp_path: Path) -> None:
    audio.write(tmp_path / "a.wav", np.array([0.5, -0.25], np.float32), 16000)
    by_hand = (
        b"RIFF"
        + (58).to_bytes(4, "little")
        + b"WAVEfmt "
        + (18).to_bytes(4, "little")
        + bytes([3, 0, 1, 0])
        + (16000).to_bytes(4, "little")
        + (64000).to_bytes(4, "little")
        + bytes([4, 0, 32, 0, 0, 0])
        + b"fact"
        + (4).to_bytes(4, "little")
        + (2).to_bytes(4, "little")
        + b"data"
        + (8).to_bytes(4, "little")
        + bytes.fromhex("0000003f000080be")
    )
    assert hashlib.sha256((tmp_path / "a.wav").read_bytes()).digest() == hashlib.sha256(by_hand).digest()
