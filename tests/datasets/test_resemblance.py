"""Anonymised files beside their originals: what is a copy, what is not, and which headers are wrong."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from pipeline import audio
from pipeline.anonymisers.mcadams import Anonymiser, McAdamsSettings
from pipeline.audio.correlation import peak_correlation
from pipeline.contracts import Utterance
from pipeline.datasets import parallel, resemblance, synthetic
from pipeline.datasets.resemblance import NEARLY, ORIGINAL, Resemblance

RATE = 16_000
Sound = tuple[np.ndarray, int]


def coded(wave: np.ndarray, form: str, subtype: str, rate: int = RATE, **how: Any) -> Sound:
    file = io.BytesIO()
    soundfile.write(file, audio.resample(wave, RATE, rate), rate, format=form, subtype=subtype, **how)
    return soundfile.read(io.BytesIO(file.getvalue()), dtype="float32")


def resampled(wave: np.ndarray, by: int) -> Sound:
    return audio.resample(audio.resample(wave, RATE, by), by, RATE), RATE


def dithered(wave: np.ndarray) -> Sound:
    noise = np.random.default_rng(0).triangular(-1, 0, 1, len(wave)) * 2.0**-15
    return np.rint((wave + noise) * 2**15).astype(np.float32) / 2**15, RATE


def delayed(wave: np.ndarray, samples: int) -> Sound:
    return np.concatenate([np.zeros(samples, np.float32), wave]), RATE


COPIES: dict[str, Callable[[np.ndarray], Sound]] = {
    "quieter": lambda wave: (0.7 * wave, RATE),
    "quieter and 37 samples later": lambda wave: delayed(0.7 * wave, 37),
    "a second later": lambda wave: delayed(wave, RATE),
    "trimmed": lambda wave: (wave[800:-300], RATE),
    "upside down": lambda wave: (-wave, RATE),
    "dithered": dithered,
    "with an offset and hum": lambda wave: (wave + 0.05 + 0.1 * np.sin(np.arange(len(wave)) / 50).astype(np.float32), RATE),
    "clipped a little": lambda wave: (np.clip(wave, *np.quantile(wave, [0.001, 0.999])), RATE),
    "by 22,050 Hz and back": lambda wave: resampled(wave, 22_050),
    "by 8 kHz and back": lambda wave: resampled(wave, 8_000),
    "at 44.1 kHz": lambda wave: (audio.resample(wave, RATE, 44_100), 44_100),
    "at 8 kHz in A-law": lambda wave: coded(wave, "WAV", "ALAW", 8_000),
    "in FLAC of 24 bits": lambda wave: coded(wave, "FLAC", "PCM_24", 48_000),
    "in MP3": lambda wave: coded(wave, "MP3", "MPEG_LAYER_III", compression_level=0.3),
    "in Vorbis": lambda wave: coded(wave, "OGG", "VORBIS", compression_level=0.1),
    "in Opus": lambda wave: coded(wave, "OGG", "OPUS"),
}  # fmt: skip
"""What an original goes through and stays an original."""


def mcadams(wave: np.ndarray, alpha: float = 0.95) -> Sound:
    system = Anonymiser(McAdamsSettings.model_validate({"level": "fixed", "alpha": alpha}))
    return system.anonymise(wave, RATE, Utterance("u", "s", "x")).wave, RATE


MILD: dict[str, Callable[[np.ndarray], Sound]] = {
    "McAdams, alpha 0.95": mcadams,
    "McAdams, alpha 0.95, in Opus": lambda wave: coded(mcadams(wave)[0], "OGG", "OPUS"),
    "spectrum inverted": lambda wave: (wave * np.resize([1, -1], len(wave)).astype(np.float32), RATE),
}
"""Mild systems, which change a voice a little."""


def with_librosa() -> dict[str, Callable[[np.ndarray], Sound]]:
    """Systems of another library; a vocoder gets the spectrogram alone."""
    import librosa

    def revoiced(wave: np.ndarray) -> Sound:
        spectra = np.abs(librosa.stft(wave, n_fft=1024, hop_length=256))
        return librosa.griffinlim(spectra, n_iter=16, n_fft=1024, hop_length=256, random_state=0), RATE

    return {
        "a vocoder": revoiced,
        "0.3 semitones": lambda wave: (librosa.effects.pitch_shift(wave, sr=RATE, n_steps=0.3), RATE),
        "5 % slower": lambda wave: (librosa.effects.time_stretch(wave, rate=0.95), RATE),
    }


def made_up(number: int, semitones: float = 0.0) -> np.ndarray:
    speaker = synthetic.make_speaker(0, number)
    glottis = dataclasses.replace(speaker.glottis, f0=speaker.glottis.f0 * 2 ** (semitones / 12))
    speaker = dataclasses.replace(speaker, glottis=glottis)
    return synthetic.make_utterance(speaker, 0, number, 1.2, RATE).wave


@pytest.mark.parametrize("name", COPIES)
def test_an_original_stays_one_whatever_its_level_offset_rate_and_coding(name: str) -> None:
    wave = made_up(1)
    assert peak_correlation(wave, RATE, *COPIES[name](wave)) > ORIGINAL
    assert peak_correlation(*COPIES[name](wave), wave, RATE) > ORIGINAL


@pytest.mark.parametrize("name", MILD)
def test_a_mild_system_is_none(name: str) -> None:
    wave = made_up(2)
    assert peak_correlation(wave, RATE, *MILD[name](wave)) < 0.98


@pytest.mark.parametrize("semitones", [0.3, -0.3])
def test_a_voice_that_says_the_same_a_little_higher_or_lower_is_no_copy(semitones: float) -> None:
    for number in range(3):
        assert peak_correlation(made_up(number), RATE, made_up(number, semitones), RATE) < 0.9
        assert peak_correlation(made_up(number), RATE, made_up(number + 3), RATE) < 0.6


@pytest.mark.slow
def test_real_speech(speech: Path) -> None:
    """Thirty-four recordings of ten speakers. Copies: all above 0.99, but for codings at 0.98 and more; mild systems: 0.97 at most."""
    files = sorted((speech / "librispeech" / "test-other").rglob("*.flac"))[::3]
    waves = [audio.load(path)[0] for path in files]
    for name, change in COPIES.items():
        found = [peak_correlation(wave, RATE, *change(wave)) for wave in waves]
        assert min(found) > (0.98 if " in " in f" {name}" else ORIGINAL), name
        assert np.mean(np.array(found) > ORIGINAL) >= 0.9, name
    for name, change in {**MILD, **with_librosa()}.items():
        assert max(peak_correlation(wave, RATE, *change(wave)) for wave in waves) < 0.975, name


@pytest.mark.parametrize("lag", [-3, 0, 10, 37])
def test_the_correlation_is_that_of_a_plain_sum(lag: int) -> None:
    """Noise of the band at 8 kHz, which nothing is filtered out of, beside itself with other noise: by numpy, at every lag."""
    random = np.random.default_rng(lag + 5)

    def noise() -> np.ndarray:
        spectrum = np.fft.rfft(random.standard_normal(4096))
        hertz = np.fft.rfftfreq(4096, 1 / 8000)
        return np.fft.irfft(np.where((hertz > 400) & (hertz < 3300), spectrum, 0)) * np.hanning(4096)

    first, other = noise(), noise()
    second = np.roll(first, lag) + 0.3 * other
    plain = np.abs(np.correlate(first, second, "full")).max() / np.sqrt(np.sum(first**2) * np.sum(second**2))
    found = peak_correlation(first.astype(np.float32), 8000, -2 * second.astype(np.float32), 8000)
    assert found == pytest.approx(plain, abs=2e-3) and 0.9 < found < 0.98


def test_what_has_nothing_in_the_band_resembles_nothing() -> None:
    wave = made_up(1)
    hum = np.sin(2 * np.pi * 50 * np.arange(len(wave)) / RATE).astype(np.float32)
    assert peak_correlation(wave, RATE, np.zeros_like(wave), RATE) == 0
    assert peak_correlation(wave, RATE, hum, RATE) < 0.2
    # Two recordings that share one of two seconds correlate by their share.
    half = np.concatenate([wave, made_up(5)]), np.concatenate([wave, made_up(6)])
    assert 0.2 < peak_correlation(half[0], RATE, half[1], RATE) < 0.9


# Headers and lengths -------------------------------------------------------------------------------------------------


def row(name: int, samples: float, rate: int) -> dict[str, Any]:
    return {"set": "t", "utterance": f"u{name}", "samples": round(samples), "sample_rate": rate}


def beside(originals: list[tuple[float, int]], rows: list[tuple[float, int]]) -> Resemblance:
    first, second = ([row(n, *one) for n, one in enumerate(some)] for some in (originals, rows))
    return Resemblance(first, second, [0.1] * len(rows))


def lengths(count: int = 40, rate: int = RATE, seed: int = 0) -> list[tuple[float, int]]:
    seconds = np.random.default_rng(seed).uniform(2.0, 20.0, count)
    return [(round(rate * one), rate) for one in seconds]


@pytest.mark.parametrize(
    ("was", "header"), [(16_000, 22_050), (16_000, 24_000), (8_000, 16_000), (48_000, 44_100), (24_000, 22_050), (22_050, 16_000)]
)  # fmt: skip
@pytest.mark.parametrize("padding", [0, 1, 1105, -200])
def test_as_many_samples_under_another_rate_are_a_wrong_header(was: int, header: int, padding: int) -> None:
    originals = lengths(rate=was)
    for wrong in (range(40), range(3)):
        rows = [
            (samples + padding, header) if n in wrong else (samples, was) for n, (samples, _) in enumerate(originals)
        ]
        found = beside(originals, rows)
        assert found.made_at() == {was: [*wrong]}
        (fault,) = found.faults()
        assert (
            fault[0] == "header"
            and f"{len(wrong)} of 40 files have as many samples as their original at {was} Hz" in fault[1]
        )
        assert fault[1].count("u") > 0 and ("and 35 more" in fault[1]) == (len(wrong) == 40)


@pytest.mark.parametrize("header", [8_000, 16_000, 22_050, 24_000, 44_100, 48_000])
@pytest.mark.parametrize("spread", [0.0, 0.002, 0.05, 0.25])
def test_systems_that_change_rates_and_lengths_have_right_headers(header: int, spread: float) -> None:
    """Synthesis: each utterance by its own factor; codings and frames of a vocoder; short commands too."""
    random = np.random.default_rng(header)
    for seed in range(30):
        for originals in (lengths(seed=seed), [(round(RATE * one), RATE) for one in random.uniform(0.4, 1.2, 40)]):
            factor = np.exp(spread * random.standard_normal(40) + (random.uniform(-0.3, 0.3) if spread > 0.01 else 0))
            rows = [
                (256 * np.ceil(samples * factor[n] * header / RATE / 256), header)
                for n, (samples, _) in enumerate(originals)
            ]
            found = beside(originals, rows)
            assert not [*found.faults()] and not [*found.doubts()], (seed, found.made_at())


def test_speech_of_24_khz_under_a_header_of_16_is_a_doubt_and_another_tempo_is_none() -> None:
    originals = lengths()
    found = beside(originals, [(1.5 * samples + 100, RATE) for samples, _ in originals])
    assert not [*found.faults()]
    (doubt,) = found.doubts()
    assert doubt.check == "length" and "longer or shorter than their original as speech of 24000 Hz does under a header of 16000 Hz" in doubt.sentence  # fmt: skip
    assert next(iter(found.lengths())).startswith(
        "40 of 40 anonymised files differ in length by more than 10 ms, from +1."
    )
    for tempo in (0.8, 0.9, 1.1, 1.25):
        assert not [*beside(originals, [(tempo * samples, RATE) for samples, _ in originals]).doubts()]


@pytest.mark.parametrize("cut", [1600, 3200, -2400])
def test_a_wrong_header_is_seen_where_every_file_lost_or_got_the_same_at_its_ends(cut: int) -> None:
    originals = lengths()
    (fault,) = beside(originals, [(samples - cut, 22_050) for samples, _ in originals]).faults()
    assert fault[0] == "header" and "40 of 40 files" in fault[1]
    right = [((samples - cut) * 22_050 / RATE, 22_050) for samples, _ in originals]
    assert not [*beside(originals, right).faults()] and not [*beside(originals, right).doubts()]


# All, some and none --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("correlations", "refused", "named"),
    [
        ([1.0] * 9, True, 9),
        ([0.999] * 6 + [0.96] * 3, True, 6),  # a coding took the others
        ([1.0] * 8 + [0.5], False, 8),
        ([1.0] * 4 + [0.97] * 5, False, 4),
        ([0.97] * 9, False, 0),
    ],
)
def test_a_system_is_refused_where_all_of_it_is_original(correlations: list[float], refused: bool, named: int) -> None:
    rows = [row(n, 16_000, RATE) for n in range(9)]
    found = Resemblance(rows, rows, correlations)
    assert [kind for kind, _ in found.faults()] == (["original"] if refused else [])
    said = [one.sentence for one in found.doubts()]
    assert [one.startswith(f"{named} of 9 files are the original speech, not anonymised: ") for one in said] == [True] * bool(named)  # fmt: skip
    assert all(doubt.check == "unprotected_training" for doubt in found.doubts(training=True))
    assert NEARLY < ORIGINAL


@pytest.mark.parametrize("bare", ["trials", "enrolls"])
def test_a_set_of_originals_beside_protected_ones_is_refused(bare: str) -> None:
    """Protected trials against original enrolment, or the other way round, are a weak attack and no privacy."""
    rows = [{**row(n, 16_000, RATE), "set": name} for name in ("enrolls", "trials") for n in range(5)]
    found = Resemblance(rows, rows, [1.0 if each["set"] == bare else 0.3 for each in rows])
    (fault,) = found.faults()
    assert fault[0] == "original" and fault[1].startswith("5 of 10 files are the original speech")
    assert fault[1].endswith(f"all of {bare}")


@pytest.fixture
def pairs(tmp_path: Path) -> Iterator[tuple[Any, ...]]:
    """Four utterances: unchanged in another format, quieter, and two that are others."""
    originals, rows, sounds, mine = [], [], {}, {}
    for n in range(4):
        wave = made_up(n)
        made = (wave, 0.7 * wave, made_up(n + 10), made_up(n + 20))[n]
        for kind, sound, many, heard in (("o", wave, originals, sounds), ("m", made, rows, mine)):
            path = tmp_path / f"{kind}{n}.wav"
            audio.write(path, sound, RATE)
            many.append({**row(n, len(sound), RATE), "path": str(path), "sha256": f"{kind}{n}"})
            heard[f"{kind}{n}"] = f"{kind}{n}" if n else "one"
    yield originals, rows, sounds, mine


def test_what_was_compared_is_kept_and_is_not_compared_again(
    pairs: tuple[Any, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = resemblance.compare_with_originals(*pairs, 1, tmp_path / "kept")
    assert first.unprotected == [0, 1] and first.correlations[0] == 1.0
    monkeypatch.setattr(parallel, "MANY_FILES", 1)
    monkeypatch.setattr(parallel, "CHUNK_FILES", 2)
    by_processes = resemblance.compare_with_originals(*pairs, 2, None)
    assert by_processes.correlations == first.correlations
    for path in tmp_path.glob("*.wav"):
        path.unlink()
    assert resemblance.compare_with_originals(*pairs, 1, tmp_path / "kept").correlations == first.correlations
