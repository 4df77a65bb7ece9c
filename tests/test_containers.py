"""What is decoded is the whole sound of a file, or the file is refused by name; FFmpeg's decoders are the reference."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pipeline import audio, containers
from pipeline.datasets.probe import Probe, limit_length, probe_file
from pipeline.errors import DataError
from tests import sounds
from tests.sounds import KINDS, RATE, noise

# The predictor of the first is rounded in two ways; most others agree to the last bits of a float.
TOLERANCE = {"WAV MS_ADPCM": 0.02, "RIFX": 1e-4, "OGG OPUS": math.inf}


def looked_at(tmp_path: Path, content: bytes) -> tuple[Probe, Path]:
    path = tmp_path / "a.audio"
    path.write_bytes(content)
    return probe_file(path), path


def read(tmp_path: Path, content: bytes) -> np.ndarray:
    """The waveform of a file that is not refused."""
    found, path = looked_at(tmp_path, content)
    assert found.kind == "", found.problem
    wave, rate = audio.load(path)
    assert (len(wave), rate) == (found.samples, found.sample_rate)
    return wave


def test_the_kinds_that_are_tested_are_those_that_are_accepted() -> None:
    assert {kind.split()[0] for kind in KINDS} - {"RIFX"} == containers.FORMATS
    assert {kind.split()[1] for kind in KINDS if " " in kind} <= containers.SUBTYPES


@pytest.mark.parametrize("kind", KINDS)
def test_a_whole_file_is_read_whole(tmp_path: Path, kind: str) -> None:
    file = KINDS[kind](noise())
    wave = read(tmp_path, file)
    reference, rate = sounds.decoded(file)
    if kind == "RIFX":  # FFmpeg takes its samples for little-endian
        reference = noise()
    # FFmpeg gives Opus at 48 kHz, and keeps what Vorbis has beyond its end.
    assert len(wave) * rate == len(reference) * RATE or kind == "OGG VORBIS"
    # Codings by blocks fill their last one.
    assert 8001 <= len(wave) < 8001 + 1100
    if rate == RATE:
        shared = min(len(wave), len(reference))
        assert shared >= 8001 - 600
        assert np.abs(wave[:shared] - reference[:shared]).max() <= TOLERANCE.get(kind, 1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_cut_file_is_refused(tmp_path: Path, kind: str) -> None:
    file = KINDS[kind](noise())
    for length in (len(file) // 2, len(file) * 9 // 10, len(file) - 40, len(file) - 2):
        found, _ = looked_at(tmp_path, file[:length])
        assert found.kind == "bad-audio", length


@pytest.mark.parametrize("kind", KINDS)
def test_files_one_behind_another_are_refused(tmp_path: Path, kind: str) -> None:
    long, short = KINDS[kind](noise()), KINDS[kind](noise(5000, 1))
    for file in (long + short, short + long, long + long):
        assert looked_at(tmp_path, file)[0].kind == "bad-audio"


@pytest.mark.parametrize("kind", sounds.COUNTED)
def test_a_header_that_counts_less_than_follows_is_refused(tmp_path: Path, kind: str) -> None:
    found, _ = looked_at(tmp_path, sounds.counts_less(kind, noise()))
    assert found.kind == "bad-audio" and "header counts" in found.problem


@pytest.mark.parametrize("kind", ["WAV PCM_16", "WAV PCM_24", "RIFX", "OGG VORBIS", "MP3 MPEG_LAYER_III"])
def test_padding_and_the_tag_of_a_player_are_no_sound(tmp_path: Path, kind: str) -> None:
    file = KINDS[kind](noise())
    plain = read(tmp_path, file)
    for more in (bytes(3000), b"TAG" + bytes(125), b"\n"):
        assert np.array_equal(read(tmp_path, file + more), plain)


def test_chunks_behind_the_sound_are_no_sound(tmp_path: Path) -> None:
    file = sounds.encoded("WAV", "PCM_16")
    for more in (b"LIST\x04\x00\x00\x00INFO", b"id3 \x03\x00\x00\x00abc\x00" + b"LIST\x04\x00\x00\x00INFO"):
        assert len(read(tmp_path, file + more)) == 8001
    odd = sounds.encoded("WAV", "PCM_U8")
    assert (
        odd[-1] == 0 and len(read(tmp_path, odd[:-1] + b"LIST\x04\x00\x00\x00INFO")) == 8001
    )  # a writer that does not pad


@pytest.mark.parametrize(
    ("container", "codec"),
    [
        ("wav", "pcm_s16le"),
        ("wav", "pcm_f32le"),
        ("flac", "flac"),
        ("opus", "libopus"),
        ("mp3", "libmp3lame"),
        ("mp2", "mp2"),
    ],
)
def test_what_an_encoder_wrote_into_a_pipe_is_read_to_the_end(tmp_path: Path, container: str, codec: str) -> None:
    for pipe in (False, True):
        file = sounds.by_ffmpeg(container, codec, noise(), pipe=pipe)
        reference, rate = sounds.decoded(file)
        wave = read(tmp_path, file)
        assert len(wave) * rate == len(reference) * RATE and len(wave) >= 8001
        if codec != "libopus":
            assert np.abs(wave - reference).max() < 1e-4


@pytest.mark.parametrize("rate", [8000, 11_025, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000])
def test_mp3_without_a_count_is_read_at_every_rate(tmp_path: Path, rate: int) -> None:
    file = sounds.by_ffmpeg("mp3", "libmp3lame", noise(), rate, write_xing="0")
    reference, _ = sounds.decoded(file)
    wave = read(tmp_path, file)
    assert len(wave) == len(reference) and np.abs(wave - reference).max() < 1e-5


@pytest.mark.parametrize("loud_first", [True, False])
def test_mp3_of_variable_rate_without_a_count_is_read_to_its_end(tmp_path: Path, loud_first: bool) -> None:
    """A decoder guesses from the first frames: too few of them, or too many."""
    loud, quiet = noise(4 * RATE), np.zeros(8 * RATE)
    counted = sounds.mp3(np.concatenate([loud, quiet] if loud_first else [quiet, loud]))
    file = sounds.uncounted(counted)
    reference, _ = sounds.decoded(file)
    wave = read(tmp_path, file)
    assert len(wave) == len(reference) >= 12 * RATE and np.abs(wave - reference).max() < 1e-5
    assert looked_at(tmp_path, file[:-10])[0].kind == "bad-audio"
    assert np.array_equal(read(tmp_path, file + b"TAG" + bytes(125)), wave)
    assert len(read(tmp_path, file + file)) == 2 * len(wave)  # one stream: nothing tells the files apart
    assert looked_at(tmp_path, file + b"TAG" + bytes(125) + file)[0].kind == "bad-audio"
    assert looked_at(tmp_path, file + counted[:-1])[0].kind == "bad-audio"


def test_mp3_that_changes_its_rate_or_channels_is_refused(tmp_path: Path) -> None:
    first = sounds.uncounted(sounds.mp3(noise()))
    for other in (
        sounds.encoded("MP3", "MPEG_LAYER_III", rate=24_000),
        sounds.encoded("MP3", "MPEG_LAYER_III", np.stack([noise(), noise(seed=1)], axis=1)),
    ):
        assert looked_at(tmp_path, first + other)[0].kind == "bad-audio"


def test_flac_of_unknown_length(tmp_path: Path) -> None:
    whole = sounds.encoded("FLAC", "PCM_16", noise(20_000))
    file = sounds.open_flac(whole)
    assert np.array_equal(read(tmp_path, file), read(tmp_path, whole))
    for length in (len(file) // 3, len(file) - 100, len(file) - 1):
        assert looked_at(tmp_path, file[:length])[0].kind == "bad-audio"
    assert looked_at(tmp_path, file + file)[0].kind == "bad-audio"


def test_flac_files_joined_where_a_block_of_reading_ends(tmp_path: Path) -> None:
    """The decoder does not see the second of them."""
    one = sounds.encoded("FLAC", "PCM_16", noise(audio.BLOCK))
    assert looked_at(tmp_path, one)[0].samples == audio.BLOCK
    assert "one behind another" in looked_at(tmp_path, one + one)[0].problem


@pytest.mark.parametrize("block", [0, 1])
def test_flac_of_both_blocking_strategies(tmp_path: Path, block: int) -> None:
    """FFmpeg's encoder and libFLAC number their frames; the last frame is found either way, and a lower count told."""
    file = sounds.by_ffmpeg("flac", "flac", noise(30_000)) if block else sounds.encoded("FLAC", "PCM_16", noise(30_000))
    assert len(read(tmp_path, file)) == 30_000
    less = sounds.patched(file, 22, (20_000).to_bytes(4, "big"))
    assert "holds 30000 samples, of which its header counts 20000" in looked_at(tmp_path, less)[0].problem
    more = sounds.patched(file, 22, (40_000).to_bytes(4, "big"))
    assert "ends early" in looked_at(tmp_path, more)[0].problem


def test_ogg_without_a_page_or_with_a_damaged_one_is_refused(tmp_path: Path) -> None:
    file = sounds.encoded("OGG", "VORBIS", noise(6 * RATE))
    places = sounds.pages(file)
    assert len(places) > 5
    without = file[: places[3]] + file[places[4] :]
    assert "page 4 stands where page 3 should" in looked_at(tmp_path, without)[0].problem
    damaged = bytearray(file)
    damaged[places[3] + 300] ^= 1
    assert looked_at(tmp_path, bytes(damaged))[0].kind == "bad-audio"


@pytest.mark.parametrize(
    "file",
    [
        lambda: sounds.encoded("VOC", "PCM_16"),
        lambda: sounds.encoded("W64", "PCM_16"),
        lambda: sounds.encoded("AIFF", "PCM_16"),
        lambda: sounds.encoded("CAF", "ALAC_16"),
        lambda: sounds.encoded("AU", "PCM_16"),
        lambda: sounds.encoded("WAV", "G721_32"),
        lambda: sounds.by_ffmpeg("adts", "aac", noise()),
        lambda: sounds.by_ffmpeg("ogg", "flac", noise()),
        lambda: b"\xff" + sounds.mp3(noise()),
    ],
    ids=["VOC", "W64", "AIFF", "CAF", "AU", "G721", "AAC", "FLAC in Ogg", "MP3 that begins in a frame"],
)
def test_other_kinds_are_refused(tmp_path: Path, file) -> None:
    found, _ = looked_at(tmp_path, file())
    assert found.kind == "bad-audio" and ("ffmpeg -i" in found.problem or "cannot be read" in found.problem)


# Bounds --------------------------------------------------------------------------------------------------------------


def header(rate: int = RATE, channels: int = 1, frames: int = 8000, claimed: int | None = None) -> bytes:
    file = sounds.encoded("WAV", "PCM_16", noise(frames * channels))
    file = sounds.patched(file, 22, channels.to_bytes(2, "little") + rate.to_bytes(4, "little"))
    file = sounds.patched(file, 32, (2 * channels).to_bytes(2, "little"))
    return file if claimed is None else sounds.patched(file, 40, claimed.to_bytes(4, "little"))


@pytest.mark.parametrize(
    ("rate", "sound"), [(1, False), (3999, False), (4000, True), (384_000, True), (384_001, False)]
)
def test_rates_that_no_recorder_has_are_refused(tmp_path: Path, rate: int, sound: bool) -> None:
    found, path = looked_at(tmp_path, header(rate, frames=40_000))
    assert (found.kind == "") is sound
    if not sound:
        assert f"sampled at {rate} Hz" in found.problem
        with pytest.raises(DataError, match="4000 to 384000 Hz"):
            audio.load(path)


@pytest.mark.parametrize(("channels", "sound"), [(32, True), (33, False), (1024, False)])
def test_more_channels_than_microphones_are_refused(tmp_path: Path, channels: int, sound: bool) -> None:
    found, _ = looked_at(tmp_path, header(channels=channels, frames=2000))
    assert (found.kind == "") is sound and (sound or f"{channels} channels" in found.problem)


def test_a_limit_of_length_is_no_part_of_what_is_kept(tmp_path: Path) -> None:
    found, path = looked_at(tmp_path, sounds.encoded("WAV", "PCM_16", noise(2 * RATE)))
    short = probe_file(path, 1.0)
    assert (found.kind, short.kind, short.lasting) == ("", "too-long", False)
    assert limit_length(found, path, 1.0) == short and limit_length(found, path, 2.0) == found
    for file in (
        sounds.open_flac(sounds.encoded("FLAC", "PCM_16", noise(2 * RATE))),
        sounds.uncounted(sounds.mp3(noise(2 * RATE))),
    ):
        path.write_bytes(file)
        assert probe_file(path, 1.0).kind == "too-long" and probe_file(path, 3.0).kind == ""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, makes a file with a hole")
def test_headers_that_promise_much_take_no_memory(tmp_path: Path) -> None:
    """A FLAC header of 2^35 samples, a WAV header of 4 GB, 1,024 channels, and files of 200 GB that are one hole."""
    flac = sounds.encoded("FLAC", "PCM_16")
    files = {
        "flac": sounds.patched(flac, 21, bytes([flac[21] & 0xF0 | 8])),
        "wav": header(claimed=0x7FFE0000),
        "channels": header(channels=1024, frames=100),
        **{f"hole {form}": sounds.encoded(form, "PCM_16") for form in ("WAV", "NIST", "FLAC")},
        "hole OGG": sounds.encoded("OGG", "VORBIS"),
        "hole MP3": sounds.uncounted(sounds.mp3(noise())),
        "hole": b"RIFF\0\0\0\0WAVE",
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        if name.startswith("hole"):
            os.truncate(tmp_path / name, 200 << 30)
    code = """
import contextlib, resource, sys
from pathlib import Path
from pipeline import audio, errors
from pipeline.datasets.probe import probe_file
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for path in sorted(Path(sys.argv[1]).iterdir()):
    assert probe_file(path, 4 * 3600).kind in ("bad-audio", "too-long"), path
    if not path.name.startswith("hole"):
        with contextlib.suppress(errors.DataError):
            audio.load(path)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-500:]
    assert float(done.stdout) < 60


# Channels ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("other", "cancels"),
    [
        (lambda wave: -wave, True),
        (lambda wave: -wave + 2.0**-15, True),
        (lambda wave: -wave + 0.3, True),
        (lambda wave: -0.9 * wave, True),
        (lambda wave: -wave + 0.1 * noise(len(wave), 1), True),
        (lambda wave: np.roll(wave, 3), False),
        (lambda wave: 0 * wave, False),
        (lambda wave: noise(len(wave), 1), False),
        (lambda wave: wave, False),
        (lambda wave: -0.5 * wave, False),
    ],
)
def test_channels_that_cancel_are_told_from_others(tmp_path: Path, monkeypatch, other, cancels: bool) -> None:
    monkeypatch.setattr(audio, "BLOCK", 1000)
    wave = noise()
    content = sounds.encoded("WAV", "FLOAT", np.stack([wave, other(wave)], axis=1))
    assert looked_at(tmp_path, content)[0].kind == ("cancelling" if cancels else "")


def test_many_channels_cancel_only_if_all_do(tmp_path: Path) -> None:
    waves = [noise(seed=seed) for seed in range(16)]
    four = np.stack([waves[0], -waves[0], waves[1], -waves[1]], axis=1)
    assert looked_at(tmp_path, sounds.encoded("WAV", "FLOAT", four))[0].kind == "cancelling"
    four[:, 3] = waves[2]
    assert looked_at(tmp_path, sounds.encoded("WAV", "FLOAT", four))[0].kind == ""
    assert looked_at(tmp_path, sounds.encoded("WAV", "FLOAT", np.stack(waves, axis=1)))[0].kind == ""


def test_silence_in_two_channels_is_silence(tmp_path: Path) -> None:
    assert looked_at(tmp_path, sounds.encoded("WAV", "FLOAT", np.zeros((8000, 2))))[0].kind == "no-speech"
    assert (
        looked_at(tmp_path, sounds.encoded("WAV", "FLOAT", 1e-6 * np.stack([noise(), -noise()], axis=1)))[0].kind
        == "no-speech"
    )
