"""Decoding, mixing, resampling and writing, against closed forms, scipy and libsndfile."""

from __future__ import annotations

import hashlib
import math
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.io.wavfile
import soundfile

from pipeline import audio
from pipeline.audio import decoding
from pipeline.datasets import probe as probing
from pipeline.datasets import synthetic
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


@pytest.mark.parametrize(("rate", "target"), [(44_100, 16_000), (16_000, 8_000), (8_000, 16_000)])
def test_the_challenges_resampler_is_a_windowed_sinc_to_the_bit(rate: int, target: int) -> None:
    """torchaudio's defaults, written out (Smith, Digital Audio Resampling): what stands in where another torchaudio resamples otherwise."""
    torch = pytest.importorskip("torch")
    wave = noise(4001)
    old, new = rate // math.gcd(rate, target), target // math.gcd(rate, target)
    zeros, cutoff = 6, 0.99 * min(old, new)
    width = math.ceil(zeros * old / cutoff)
    # All of it in the precision of the waveform, as torchaudio has it.
    places = torch.arange(-width, width + old, dtype=torch.float32)[None, None] / old
    times = (torch.arange(0, -new, -1, dtype=torch.float32)[:, None, None] / new + places) * cutoff
    times = times.clamp(-zeros, zeros)
    window = torch.cos(times * math.pi / zeros / 2) ** 2
    times = times * math.pi
    sinc = torch.where(times == 0, torch.tensor(1.0).to(times), times.sin() / times)
    kernel = sinc * (window * (cutoff / old))
    padded = torch.nn.functional.pad(torch.from_numpy(wave)[None], (width, width + old))
    found = torch.nn.functional.conv1d(padded[:, None], kernel, stride=old).transpose(1, 2).reshape(-1)
    expected = found[: math.ceil(new * len(wave) / old)].numpy()
    assert np.array_equal(audio.resample(wave, rate, target, "torchaudio_sinc"), expected)


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
    found = soundfile.info(tmp_path / "none.wav")
    assert (found.samplerate, found.frames, found.channels, found.subtype) == (16_000, 0, 1, "FLOAT")


@pytest.mark.parametrize(
    ("name", "subtype", "tolerance"),
    [("a.wav", "PCM_24", 1e-6), ("a.wav", "FLOAT", 0), ("a.flac", "PCM_16", 1e-4), ("a.ogg", "VORBIS", 0.05)],
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
    header = soundfile.info(path)
    assert (rate, len(wave)) == (header.samplerate, header.frames)
    assert 1e-3 < np.sqrt(np.mean(wave**2)) < 1


# Blocks --------------------------------------------------------------------------------------------------------------


def whole(path: Path) -> np.ndarray:
    """A file decoded at once by soundfile and mixed, the reference for reading in blocks."""
    with soundfile.SoundFile(path) as sound:
        channels = sound.read(dtype="float32", always_2d=True)
    return channels.mean(axis=1, dtype=np.float64).astype(np.float32)


@pytest.mark.parametrize("block", [999, 1 << 15])
@pytest.mark.parametrize("channels", [1, 2, 3])
@pytest.mark.parametrize("name", ["a.wav", "a.flac", "a.ogg", "a.mp3"])
def test_blocks_change_no_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, channels: int, block: int
) -> None:
    if name == "a.mp3" and channels > 2:
        pytest.skip("mp3 has at most two channels")
    soundfile.write(tmp_path / name, noise(channels * 100_001).reshape(-1, channels), 44_100)
    monkeypatch.setattr(audio, "BLOCK", block)
    assert np.array_equal(audio.load(tmp_path / name)[0], whole(tmp_path / name))


def test_blocks_change_no_sample_of_real_mp3(speech: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bit reservoir of an mp3 reaches across blocks."""
    monkeypatch.setattr(audio, "BLOCK", 4096)
    for path in sorted((speech / "librispeech-dev-clean-mp3").rglob("*.mp3"))[:40]:
        assert np.array_equal(audio.load(path)[0], whole(path)), path.name


def long_file(path: Path, rate: int, channels: int, seconds: int) -> Path:
    """A 16-bit file that is one second of noise and then zeros; the zeros take no space on the disk."""
    soundfile.write(path, noise(channels * rate).reshape(-1, channels), rate, subtype="PCM_16")
    size = seconds * rate * channels * 2
    with path.open("r+b") as stream:
        assert stream.read(44)[36:40] == b"data"
        for place, length in ((4, size + 36), (40, size)):
            stream.seek(place)
            stream.write(length.to_bytes(4, "little"))
        stream.truncate(44 + size)
    return path


def peak_mb(code: str, *arguments: str) -> float:
    """The largest memory of a process of its own, above that which it has after importing, in MB."""
    measured = "[int(l.split()[1]) for l in open('/proc/self/status') if l.startswith('VmHWM')][0]"
    program = f"import sys; from pathlib import Path; from pipeline import audio; before = {measured}; {code}; print({measured} - before)"
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    return int(done.stdout) / 1024


LOAD = "import soxr; wave, rate = audio.load(Path(sys.argv[1])); made = audio.resample(wave, rate, 16000)"
SURVEY = "audio.survey(Path(sys.argv[1]))"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_of_ten_minutes(tmp_path: Path) -> None:
    """Ten minutes of 44.1 kHz stereo: as much as the waveform at both rates, and next to nothing where none is kept."""
    path = long_file(tmp_path / "a.wav", 44_100, 2, 600)
    kept = 600 * (44_100 + 16_000) * 4 / 2**20
    assert soundfile.info(path).frames == 600 * 44_100
    assert kept <= peak_mb(LOAD, str(path)) < kept + 40
    assert peak_mb(SURVEY, str(path)) < 40


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(("rate", "channels", "limit_mb"), [(44_100, 2, 2000), (16_000, 1, 1000)])
def test_memory_of_two_hours(tmp_path: Path, rate: int, channels: int, limit_mb: float) -> None:
    path = long_file(tmp_path / "a.wav", rate, channels, 7200)
    assert peak_mb(LOAD, str(path)) < limit_mb
    assert peak_mb(SURVEY, str(path)) < 40


@pytest.mark.parametrize("block", [10, 1 << 18])
@pytest.mark.parametrize(
    ("samples", "clipped"),
    [
        ([0.5, 1, 1, 0.5], False),
        ([0.5, 1, 1, 1, 0.5], True),
        ([-1, -1, -1], True),
        ([0.9] * 9, False),
        ([*[0.1] * 8, 1, 1, 1], True),  # across the border of a block of ten
        ([*[0.1] * 9, 1, 1, 1], True),
        ([*[0.1] * 18, 1, 0.1, 1, 1], False),
    ],
)
def test_clipping_is_three_samples_at_full_scale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, samples: list[float], clipped: bool, block: int
) -> None:
    monkeypatch.setattr(audio, "BLOCK", block)
    soundfile.write(tmp_path / "a.wav", np.array(samples, float), 16_000, subtype="PCM_16")
    assert audio.survey(tmp_path / "a.wav").clipped is clipped
    # One channel is enough, though the mix of the two is far from full scale.
    soundfile.write(tmp_path / "b.wav", np.stack([samples, np.zeros(len(samples))], axis=1), 16_000, subtype="PCM_16")
    assert audio.survey(tmp_path / "b.wav").clipped is clipped


@pytest.mark.parametrize("block", [1, 3, 7, 1 << 18])
def test_what_is_heard_is_told_whatever_the_format_and_the_zeros_at_the_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(audio, "BLOCK", block)
    random = np.random.default_rng(3)
    inside = np.concatenate([random.integers(1, 9, 5), np.zeros(11, int), random.integers(1, 9, 4)]).astype(np.int16)
    digest = hashlib.sha256((inside / 32768).astype("<f4").tobytes()).hexdigest()
    for before, behind, name in ((0, 0, "a.wav"), (4, 0, "b.flac"), (0, 9, "c.rf64"), (8, 23, "d.wav")):
        soundfile.write(
            tmp_path / name, np.concatenate([np.zeros(before, np.int16), inside, np.zeros(behind, np.int16)]), 8000
        )
        found = audio.survey(tmp_path / name)
        assert (found.zeros, found.sound) == ((before, behind), digest)
    inside[-1] += 1
    soundfile.write(tmp_path / "e.wav", inside, 8000)
    assert audio.survey(tmp_path / "e.wav").sound != digest
    soundfile.write(tmp_path / "f.wav", np.zeros(10, np.int16), 8000)
    assert audio.survey(tmp_path / "f.wav").zeros == (10, 10)


def voiced(rate: int, name: str = "f") -> np.ndarray:
    return synthetic.make_utterance(synthetic.make_speaker(1, 2 if name == "f" else 3), 1, 0, 1.5, rate).wave


@pytest.mark.parametrize("name", "fm")
@pytest.mark.parametrize("rate", [16_000, 22_050, 48_000])
@pytest.mark.parametrize("cut", [3_400, 4_000, 5_500])
def test_where_speech_is_cut_off_its_bandwidth_ends(tmp_path: Path, rate: int, cut: int, name: str) -> None:
    """By a Fourier transform of the whole; in 16 bits, so that rounding is what is left above."""
    wave = voiced(rate, name)
    spectrum = np.fft.rfft(wave)
    soundfile.write(tmp_path / "whole.wav", wave, rate, subtype="PCM_16")
    spectrum[round(cut * len(wave) / rate) :] = 0
    soundfile.write(tmp_path / "cut.wav", np.fft.irfft(spectrum, len(wave)), rate, subtype="PCM_16")
    assert audio.survey(tmp_path / "cut.wav").bandwidth == pytest.approx(cut, abs=400)
    assert audio.survey(tmp_path / "whole.wav").bandwidth > 6_000


def test_sound_that_is_silent_short_or_fades_out_is_not_cut_off(tmp_path: Path) -> None:
    fading = np.fft.rfft(np.random.default_rng(0).standard_normal(32_000))
    fading *= 10 ** (-80 * np.linspace(0, 1, len(fading)) / 20)
    for number, wave in enumerate((np.zeros(2000), voiced(16_000)[:400], 0.01 * np.fft.irfft(fading))):
        soundfile.write(tmp_path / f"{number}.wav", wave, 16_000, subtype="FLOAT")
        assert audio.survey(tmp_path / f"{number}.wav").bandwidth == 8_000


def test_speech_of_8_khz_that_was_written_at_16_is_said_with_its_bandwidth(tmp_path: Path) -> None:
    for number in range(4):
        wave = (
            audio.resample(audio.resample(voiced(16_000), 16_000, 8_000), 8_000, 16_000) if number else voiced(16_000)
        )
        soundfile.write(tmp_path / f"u{number}.wav", wave, 16_000, subtype="PCM_16")
    found = {path: probing.probe_file(path) for path in sorted(tmp_path.glob("*.wav"))}
    (note,) = probing.describe_probes(found)
    assert (
        note.startswith("3 of 4 files are written at 16 kHz or more and hold nothing above 4.0 kHz")
        and "u0" not in note
    )
    assert probing.describe_probes({path: one for path, one in found.items() if path.stem == "u0"}) == []


def test_a_survey_says_what_loading_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audio, "BLOCK", 1000)
    left, right = noise(12_345), noise(12_345, 1)
    soundfile.write(tmp_path / "a.wav", np.stack([left, right], axis=1), 22_050, subtype="FLOAT")
    wave, rate = audio.load(tmp_path / "a.wav")
    found = audio.survey(tmp_path / "a.wav")
    assert (found.rate, found.samples, found.channels, found.clipped) == (rate, len(wave), 2, False)
    assert found.level_dbfs == pytest.approx(20 * np.log10(np.sqrt(np.mean(wave.astype(np.float64) ** 2))), abs=1e-9)
    soundfile.write(tmp_path / "b.wav", np.stack([left, -left], axis=1), 22_050, subtype="FLOAT")
    assert audio.survey(tmp_path / "b.wav").level_dbfs == -np.inf


@pytest.mark.parametrize("name", ["a.wav", "a.mp3", "a.txt", "a"])
def test_the_content_decides_not_the_name(tmp_path: Path, name: str) -> None:
    for form in ("WAV", "FLAC", "OGG", "MP3"):
        soundfile.write(tmp_path / name, noise(20_000), 16_000, format=form)
        assert np.array_equal(audio.load(tmp_path / name)[0], whole(tmp_path / name))
        assert audio.survey(tmp_path / name).samples == len(whole(tmp_path / name))


def faulty(folder: Path, kind: str) -> Path:
    path = folder / f"{kind}.wav"
    if kind == "empty":
        path.touch()
    elif kind == "text":
        path.write_text("this is no sound\n" * 9)
    elif kind == "no samples":
        soundfile.write(path, np.zeros(0, np.float32), 16000)
    elif kind == "headerless":
        path = folder / "a.raw"
        path.write_bytes(bytes(1000))
    elif kind == "infinite both ways":
        soundfile.write(path, np.array([[0.0, 0.0], [np.inf, -np.inf]], np.float32), 16000, subtype="FLOAT")
    elif kind == "nan":
        soundfile.write(path, np.array([0.0, np.nan], np.float32), 16000, subtype="FLOAT")
    elif kind == "cut off":
        path = folder / "cut.flac"
        soundfile.write(path, noise(40_000), 16000)
        path.write_bytes(path.read_bytes()[:20_000])
    return path


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("missing", "missing"),
        ("empty", "is empty"),
        ("text", "cannot be read"),
        ("no samples", "no samples"),
        ("nan", "NaN"),
        ("infinite both ways", "infinite"),
        ("headerless", "cannot be read"),
        ("cut off", "cut|cannot be read"),
    ],
)
def test_faulty_files_are_named(tmp_path: Path, kind: str, message: str) -> None:
    path = faulty(tmp_path, kind)
    with pytest.raises(DataError, match=message) as caught:
        audio.load(path)
    assert str(path) in str(caught.value)
    with pytest.raises(DataError, match=message):
        audio.survey(path)


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


@pytest.mark.parametrize("old", [True, False])
def test_what_is_decoded_is_what_has_the_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: bool) -> None:
    """A file of long ago, and one of a moment ago, of which the clock may not tell whether it changed."""
    path, real, tries = tmp_path / "a.wav", decoding._decode_file, 0
    waves = [np.full(100, level, np.float32) for level in (0.25, 0.5)]

    def write(wave: np.ndarray) -> str:
        audio.write(path, wave, 16_000)
        if old:
            os.utime(path, (1e9, 1e9))
            monkeypatch.setattr(decoding.time, "time_ns", lambda: path.stat().st_ctime_ns + 10**10)
        return hashlib.sha256(path.read_bytes()).hexdigest()

    other, sound = write(waves[1]), write(waves[0])
    assert np.array_equal(audio.load(path, sound)[0], waves[0])
    with pytest.raises(audio.Changed, match="not what it was") as caught:
        audio.load(path, other)
    assert caught.value.where == str(path) and caught.value.status == 3

    def meanwhile(path: Path) -> tuple[np.ndarray, int]:
        nonlocal tries
        tries += 1
        if tries > 1:
            return real(path)
        time.sleep(0.05)  # several ticks of the clock of a file system
        write(waves[1])
        found = real(path)
        write(waves[0])
        return found

    # Overwritten while it is decoded, and restored at once: it is decoded again.
    monkeypatch.setattr(decoding, "_decode_file", meanwhile)
    assert np.array_equal(audio.load(path, sound)[0], waves[0]) and tries == 2
