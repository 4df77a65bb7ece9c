"""Who has a pseudo-voice: variances of known size, the project's anonymisers, and voices replaced by others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from pipeline import audio
from pipeline.anonymisers.mcadams import Anonymiser, McAdamsSettings
from pipeline.contracts import Utterance
from pipeline.datasets import synthetic
from pipeline.submission import hearing, levels

Spoken = list[tuple[np.ndarray, int, Utterance]]


def test_components_are_those_of_the_textbook() -> None:
    """Balanced groups: mean square within, and (mean square between - within) / size, written out."""
    values = np.array([[1.0], [3.0], [5.0], [9.0], [2.0], [2.0]])
    groups = np.array(["a", "a", "b", "b", "c", "c"])
    # Means 2, 7, 2; grand mean 11/3. Within: (2 + 8 + 0) / 3. Between: 2 ((5/3)^2 + (10/3)^2 + (5/3)^2) / 2.
    within, between = 10 / 3, (2 * (25 + 100 + 25) / 9) / 2
    assert levels._components(values, groups) == pytest.approx((within, (between - within) / 2))


def planted(level: str, seed: int) -> levels.Estimate:
    """Spectra of 12 speakers whose voices are shifted by pseudo-voices of as much variance as their own."""
    random = np.random.default_rng(seed)
    speakers = np.repeat(np.arange(12), 10)
    original = random.standard_normal((12, 8))[speakers] + 0.6 * random.standard_normal((120, 8))
    voices = {
        "fixed": np.tile(random.standard_normal(8), (120, 1)),
        "speaker": random.standard_normal((12, 8))[speakers],
        "utterance": random.standard_normal((120, 8)),
    }
    protected = original + voices[level] + 0.1 * random.standard_normal((120, 8))
    names = [f"s{one}" for one in speakers]
    return levels.estimate(original, protected, names, ["set"] * 120, ["trial"] * 120)[""]


@pytest.mark.parametrize("level", ["fixed", "speaker", "utterance"])
@pytest.mark.parametrize("seed", range(5))
def test_planted_variances_are_told(level: str, seed: int) -> None:
    assert planted(level, seed).level == level


def test_few_speakers_or_nothing_finite_tell_nothing() -> None:
    spectra = np.random.default_rng(0).standard_normal((40, 8))
    few = levels.estimate(spectra, spectra + 1, ["a", "b"] * 20, ["set"] * 40, ["trial"] * 40)
    assert {one.level for one in few.values()} == {""} and "2 speakers" in few[""].why
    nothing = np.full((40, 8), np.nan)
    empty = levels.estimate(spectra, nothing, [f"s{k % 8}" for k in range(40)], ["set"] * 40, ["trial"] * 40)
    assert {one.level for one in empty.values()} == {""}


def test_bands_above_half_the_rate_are_left_out() -> None:
    """White noise at 8 kHz: what the spectrum says below 3.5 kHz does not depend on the rate."""
    wave = np.random.default_rng(0).standard_normal(32_000).astype(np.float32) * 0.1
    listeners = {}
    for rate in (16_000, 8_000):
        listeners[rate] = hearing._Listener()
        listeners[rate].add(wave, rate)
    low, full = listeners[8_000].spectrum(), listeners[16_000].spectrum()
    assert np.isfinite(full).all()
    assert np.isnan(low).any() and np.isfinite(low[:20]).all()


def test_flat_tops_are_counted_and_peaks_are_not() -> None:
    wave = (0.5 * np.sin(np.arange(16_000) * 2 * np.pi * 201.3 / 16_000)).astype(np.float32)
    listener = hearing._Listener()
    listener.add(wave, 16_000)
    assert listener.flat_tops == 0 and listener.peak == pytest.approx(0.5, abs=1e-3)
    listener = hearing._Listener()
    listener.add(np.clip(wave, -0.4, 0.4), 16_000)
    # 201 periods, each with one top and one bottom that last longer than three samples.
    assert listener.flat_tops == pytest.approx(402, abs=1)


# The anonymisers ------------------------------------------------------------------------------------------------------

SYSTEMS: dict[str, dict[str, object]] = {
    "fixed 0.8": {"alpha": 0.8},
    "fixed 0.5": {"alpha": 0.5},
    "speaker 0.7 to 0.9": {"level": "speaker", "alpha_range": [0.7, 0.9]},
    "speaker 0.5 to 0.9": {"level": "speaker", "alpha_range": [0.5, 0.9], "mode": "vpc2022"},
    "utterance 0.7 to 0.9": {"level": "utterance", "alpha_range": [0.7, 0.9]},
    "utterance 0.5 to 0.9": {"level": "utterance", "alpha_range": [0.5, 0.9], "mode": "vpc2024", "alpha_seeding": "vpc2024"},
}  # fmt: skip


def spectra(waves: Iterator[tuple[np.ndarray, int]], folder: Path) -> np.ndarray:
    """As ``validate`` takes them, of 16-bit files."""
    folder.mkdir()
    paths = []
    for number, (wave, rate) in enumerate(waves):
        paths.append(folder / f"{number}.wav")
        soundfile.write(paths[-1], wave * min(1, 0.95 / np.abs(wave).max()), rate, subtype="PCM_16")
    heard = hearing.hear(paths, 2)
    return np.stack([heard[path].spectrum for path in paths])


def told(spoken: Spoken, made: Callable[[int], np.ndarray], folder: Path) -> str:
    original = spectra(((wave, rate) for wave, rate, _ in spoken), folder / "original")
    protected = spectra(((made(number), rate) for number, (_, rate, _) in enumerate(spoken)), folder / "protected")
    who = [one for _, _, one in spoken]
    found = levels.estimate(
        original, protected, [one.speaker for one in who], [one.set for one in who], ["all"] * len(who)
    )
    return found[""].level or str(found[""])


def mcadams(spoken: Spoken, settings: dict[str, object], folder: Path) -> str:
    system = Anonymiser(McAdamsSettings.model_validate(settings))
    return told(spoken, lambda number: system.anonymise(*spoken[number]).wave, folder)


@pytest.fixture(scope="module")
def synthetic_speech() -> Spoken:
    spoken = []
    for index in range(10):
        who = synthetic.speaker(0, index)
        for number in range(8):
            made = synthetic.utterance(who, 0, number, 3.0)
            of = "enrolls" if number < 4 else "trials"
            spoken.append((made.wave, made.rate, Utterance(f"{who.id}-{number}", who.id, of, number)))
    return spoken


@pytest.mark.slow
@pytest.mark.parametrize("name", SYSTEMS)
def test_our_anonymisers_on_synthetic_speakers(name: str, synthetic_speech: Spoken, tmp_path: Path) -> None:
    assert mcadams(synthetic_speech, SYSTEMS[name], tmp_path) == name.split()[0]


@pytest.fixture(scope="module")
def real_speech(speech: Path) -> Spoken:
    """Four utterances of each of the 20 speakers of the real libri_dev lists that are here, in each set; 5 s of each."""
    root = speech / "librispeech-dev-clean-mp3"
    if not (root / "kaldi").is_dir():
        pytest.skip(f"no {root}")
    spoken: Spoken = []
    for name in ("libri_dev_enrolls", "libri_dev_trials_f", "libri_dev_trials_m"):
        owners = dict(line.split() for line in (root / "kaldi" / name / "utt2spk").read_text().splitlines())
        taken: dict[str, int] = {}
        for place, line in enumerate((root / "kaldi" / name / "wav.scp").read_text().splitlines()):
            utterance, path = line.split()
            taken[owners[utterance]] = taken.get(owners[utterance], 0) + 1
            if taken[owners[utterance]] <= 4:
                wave, rate = audio.load(root / path)
                spoken.append((wave[: 5 * rate], rate, Utterance(utterance, owners[utterance], name, place)))
    return spoken


@pytest.mark.slow
@pytest.mark.parametrize("name", SYSTEMS)
def test_our_anonymisers_on_real_speech(name: str, real_speech: Spoken, tmp_path: Path) -> None:
    assert mcadams(real_speech, SYSTEMS[name], tmp_path) == name.split()[0]


@pytest.mark.slow
@pytest.mark.parametrize("level", ["fixed", "speaker", "utterance"])
def test_voices_that_are_replaced(level: str, tmp_path: Path) -> None:
    """The same words by another speaker: one for all, one a speaker, or one an utterance."""
    spoken: Spoken = []
    others = []
    for index in range(12):
        who = synthetic.speaker(3, index)
        for number in range(10):
            made = synthetic.utterance(who, 3, number, 2.0)
            spoken.append((made.wave, made.rate, Utterance(f"{who.id}-{number}", who.id, "all", number)))
            other = {"fixed": 1, "speaker": index, "utterance": 100 + 10 * index + number}[level]
            # The id chooses the words.
            others.append(synthetic.utterance(replace(synthetic.speaker(99, other), id=who.id), 3, number, 2.0).wave)
    assert told(spoken, lambda number: others[number], tmp_path) == level
