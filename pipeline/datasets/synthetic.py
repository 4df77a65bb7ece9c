"""Synthetic speakers: a seeded source-filter synthesiser, for demonstrations and tests that need no recordings.

Source: glottal pulses at the integer phases of an intonation contour, with jitter and shimmer, and noise (aspiration,
frication, bursts). Filter: a cascade of five formant resonators (Klatt 1980) over a random sequence of syllables, whose
formants are those of American English men (Peterson and Barney 1952, Table II) scaled by vocal-tract length and
by habits of the speaker. Every pulse is made in the frequency domain at its exact time, so F0 is not
rounded to samples, nothing aliases, and the true contour is known.

The signal is made at 16 kHz; other rates are resampled from it and hold nothing above 8 kHz.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipeline import audio
from pipeline.datasets.listings import Utterance
from pipeline.datasets.settings import DatasetSettings
from pipeline.seeds import generator

RATE = 16000
STEP = 40  # samples between control points, 2.5 ms
FFT = 512  # 32 ms: the slowest resonance (70 Hz wide) has decayed by 61 dB
FRAME = 320  # noise is shaped in Hann frames of 20 ms
F0_FLOOR, F0_CEILING = 68.0, 440.0

VOWELS = {
    "iy": (270, 2290, 3010),
    "ih": (390, 1990, 2550),
    "eh": (530, 1840, 2480),
    "ae": (660, 1720, 2410),
    "aa": (730, 1090, 2440),
    "ao": (570, 840, 2410),
    "uh": (440, 1020, 2240),
    "uw": (300, 870, 2240),
    "ah": (640, 1190, 2390),
    "er": (490, 1350, 1690),
}

HIGHER = (3500.0, 4500.0)
BANDWIDTHS = np.array([90.0, 110.0, 170.0, 260.0, 360.0])  # of an open glottis half of the time


@dataclass(frozen=True)
class _Consonant:
    """formants: F1 to F3 in Hz; voice, noise: source amplitudes; peak, width: of the frication in Hz (0: aspiration
    through the formants); seconds; burst: a closure of two thirds of the time, then noise."""

    formants: tuple[float, float, float]
    voice: float
    noise: float
    peak: float
    width: float
    seconds: float
    burst: bool = False


CONSONANTS = {
    "m": _Consonant((280, 1000, 2200), 0.45, 0.0, 0, 0, 0.070),
    "n": _Consonant((280, 1500, 2500), 0.45, 0.0, 0, 0, 0.065),
    "l": _Consonant((360, 1050, 2800), 0.60, 0.0, 0, 0, 0.060),
    "r": _Consonant((350, 1150, 1600), 0.60, 0.0, 0, 0, 0.065),
    "w": _Consonant((300, 700, 2200), 0.60, 0.0, 0, 0, 0.065),
    "y": _Consonant((280, 2200, 2950), 0.60, 0.0, 0, 0, 0.060),
    "b": _Consonant((220, 900, 2200), 0.30, 0.0, 0, 0, 0.070),
    "d": _Consonant((220, 1700, 2600), 0.30, 0.0, 0, 0, 0.065),
    "v": _Consonant((260, 1100, 2200), 0.40, 0.03, 4500, 3500, 0.060),
    "z": _Consonant((260, 1650, 2600), 0.40, 0.06, 5600, 1200, 0.075),
    "s": _Consonant((320, 1650, 2600), 0.0, 0.30, 5600, 1200, 0.110),
    "sh": _Consonant((320, 1800, 2500), 0.0, 0.30, 3300, 900, 0.110),
    "f": _Consonant((320, 1100, 2200), 0.0, 0.08, 4500, 3500, 0.100),
    "h": _Consonant((500, 1500, 2500), 0.0, 0.25, 0, 0, 0.060),
    "p": _Consonant((320, 900, 2200), 0.0, 0.25, 1200, 1500, 0.100, burst=True),
    "t": _Consonant((320, 1700, 2600), 0.0, 0.40, 4500, 1500, 0.095, burst=True),
    "k": _Consonant((320, 1900, 2400), 0.0, 0.40, 2200, 900, 0.100, burst=True),
}

# Roughly as often as in running English; three quarters are voiced.
_OFTEN = {"n": 10, "r": 8, "l": 7, "d": 7, "m": 5, "w": 4, "b": 4, "v": 3, "z": 4, "y": 2,
          "s": 6, "t": 8, "k": 4, "h": 3, "p": 3, "f": 3, "sh": 2}  # fmt: skip


@dataclass(frozen=True)
class Speaker:
    """What stays with a speaker from utterance to utterance.

    Attributes:
        id: 'syn' and the index.
        sex: 'f' (even index) or 'm'.
        rate: syllables a second.
    """

    id: str
    sex: str
    rate: float
    glottis: Glottis
    tract: Tract


@dataclass(frozen=True)
class Glottis:
    """The source of a voice.

    Attributes:
        f0: pitch base in Hz, 90 to 160 (m) or 165 to 320 (f).
        range: standard height of a pitch accent, in octaves.
        tilt: spectral tilt of the voice in dB an octave above 500 Hz, on top of the glottal pulse's own.
        breath: aspiration beside the voice, relative amplitude.
        jitter: standard deviation of a pulse's place, in periods (0.005: a local jitter of 1 %, as in healthy voices).
        shimmer: standard deviation of a pulse's amplitude, relative.
    """

    f0: float
    range: float
    tilt: float
    breath: float
    jitter: float
    shimmer: float


@dataclass(frozen=True)
class Tract:
    """The filter of a voice.

    Attributes:
        length: relative to 17.5 cm.
        damping: bandwidths relative to the usual ones.
        sibilance: place of frication peaks relative to the usual ones.
        formants: habitual shift of F1 to F5, as factors.
        vowels: habitual place of F1 to F3 of each vowel of VOWELS, as factors.
    """

    length: float
    damping: float
    sibilance: float
    formants: tuple[float, ...]
    vowels: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Synthetic:
    """A synthetic utterance.

    Attributes:
        wave: float32 [n], full scale 1.
        rate: Hz.
        f0: float64 [1 + n // (rate / 100)], Hz before jitter at times of 0, 10, 20 ms, ...; 0 where unvoiced.
        phones: what is said, 'sil' for pauses.
    """

    wave: np.ndarray
    rate: int
    f0: np.ndarray
    phones: tuple[str, ...]


def make_speaker(seed: int, index: int) -> Speaker:
    """The speaker of this seed and index (from 0); even indices are female."""
    random = generator(seed, "synthetic speaker", index)
    female = index % 2 == 0
    low, high = (165.0, 320.0) if female else (90.0, 160.0)
    # The order of the draws is a part of the data.
    f0 = float(np.exp(random.uniform(np.log(low), np.log(high))))
    accents = float(random.uniform(0.12, 0.35))
    length = float(random.uniform(0.80, 0.92) if female else random.uniform(0.92, 1.06))
    tilt = float(random.uniform(-5.0, 1.0))
    rate = float(random.uniform(3.3, 5.0))
    breath = float(np.exp(random.uniform(np.log(0.02), np.log(0.12))))
    jitter, shimmer = float(random.uniform(0.0015, 0.0050)), float(random.uniform(0.02, 0.08))
    damping, sibilance = float(random.uniform(0.8, 1.6)), float(random.uniform(0.88, 1.15))
    formants = tuple(np.exp(random.normal(0.0, 0.06, 5)).tolist())
    vowels = tuple(tuple(row) for row in np.exp(random.normal(0.0, 0.05, (len(VOWELS), 3))).tolist())
    glottis = Glottis(f0, accents, tilt, breath, jitter, shimmer)
    tract = Tract(length, damping, sibilance, formants, vowels)
    return Speaker(f"syn{index:02d}", "f" if female else "m", rate, glottis, tract)


def make_utterance(speaker: Speaker, seed: int, index: int, seconds: float, rate: int = RATE) -> Synthetic:
    """An utterance of a speaker: the same bytes for the same arguments.

    Pitch base, tilt, rate, channel slope, noise floor and level vary between the utterances of a speaker.

    Args:
        speaker: who speaks.
        seed: of the utterance, independent of the speaker's.
        index: of the utterance, from 0.
        seconds: length; the number of samples is round(seconds * rate).
        rate: sampling rate in Hz.
    """
    random = generator(seed, "synthetic utterance", speaker.id, index)
    samples = max(1, round(seconds * RATE))
    script = _write_script(speaker, random, seconds)
    grid = np.arange(samples // STEP + 2) * (STEP / RATE)
    tracks = _make_tracks(speaker, random, script, grid)
    pitch = _make_intonation(speaker, random, script, grid, seconds)

    frequencies = np.fft.rfftfreq(FFT, 1 / RATE)
    octaves = np.log2(np.maximum(frequencies, 500.0) / 500.0)
    slope = speaker.glottis.tilt + random.normal(0.0, 0.7)
    channel = random.normal(0.0, 0.4)
    colour = 10 ** (channel * octaves / 20)
    voice = _glottal_spectrum(frequencies) * 10 ** (slope * octaves / 20) * colour

    wave = _render_voice(speaker, random, tracks, pitch, grid, samples, voice)
    wave += _render_noise(tracks, random, grid, samples, frequencies, colour)

    level = 10 ** (random.normal(-26.0, 2.0) / 20)
    floor = 10 ** (random.uniform(-58.0, -48.0) / 20)
    wave *= level / max(float(np.sqrt(np.mean(wave**2))), 1e-9)
    wave += level * floor * random.standard_normal(samples)
    wave *= min(1.0, 0.95 / max(float(np.abs(wave).max()), 1e-9))

    length = max(1, round(seconds * rate))
    if rate != RATE:
        wave = _resample_wave(wave, length)
    times = np.arange(1 + length * 100 // rate) / 100
    f0 = np.where(np.interp(times, grid, tracks.voice) >= tracks.onset(times, grid), np.interp(times, grid, pitch), 0.0)
    return Synthetic(wave.astype(np.float32), rate, f0, tuple(name for name, _, _ in script))


@dataclass(frozen=True)
class _Tracks:
    """Controls on the grid [g]: formants Hz [g, 5], bandwidths Hz [g, 5], voice amplitude and what it aims at before
    smoothing, noise amplitude, frication peak and width in Hz (0: noise goes through the formants)."""

    formants: np.ndarray
    bandwidths: np.ndarray
    voice: np.ndarray
    target: np.ndarray
    noise: np.ndarray
    peak: np.ndarray
    width: np.ndarray

    def onset(self, times: np.ndarray, grid: np.ndarray) -> np.ndarray:
        """The amplitude from which a time counts as voiced: half of what its phone aims at, and above nothing."""
        nearest = np.minimum(np.rint(times / (grid[1] - grid[0])).astype(int), len(grid) - 1)
        return np.asarray(np.maximum(0.5 * self.target[nearest], 0.05))


def _write_script(speaker: Speaker, random: np.random.Generator, seconds: float) -> list[tuple[str, float, float]]:
    """(phone, start, end) in seconds, from 0 to the end: silence, phrases of syllables CV or CVC, silence."""
    margin = min(float(random.uniform(0.08, 0.25)), seconds / 4)
    syllable = 1.0 / (speaker.rate * float(np.exp(random.normal(0.0, 0.06))))
    consonants = list(_OFTEN)
    odds = np.array([_OFTEN[name] for name in consonants], float)
    odds /= odds.sum()
    script = [("sil", 0.0, margin)]
    now, syllables_left = margin, int(random.integers(5, 11))
    while now < seconds - margin:
        if syllables_left == 0:
            pause = float(random.uniform(0.12, 0.35))
            script.append(("sil", now, now + pause))
            now, syllables_left = now + pause, int(random.integers(5, 11))
            continue
        syllables_left -= 1
        length = syllable * float(np.exp(random.normal(0.0, 0.18)))
        names = [str(random.choice(consonants, p=odds)), str(random.choice(list(VOWELS)))]
        if random.random() < 0.3:
            names.append(str(random.choice(consonants, p=odds)))
        usual = [CONSONANTS[name].seconds * syllable * 4 if name in CONSONANTS else 0.0 for name in names]
        usual[1] = max(length - sum(usual), 0.06)
        for name, duration in zip(names, usual, strict=True):
            script.append((name, now, now + duration))
            now += duration
    end = max(seconds - margin, margin)
    script = [(name, start, min(stop, end)) for name, start, stop in script if start < end]
    return [*script, ("sil", end, seconds + 1.0)]


def _make_tracks(
    speaker: Speaker, random: np.random.Generator, script: list[tuple[str, float, float]], grid: np.ndarray
) -> _Tracks:
    vowels = list(VOWELS)
    rows: list[tuple[float, ...]] = []
    starts: list[float] = []
    own = np.array(speaker.tract.formants)
    for name, start, stop in script:
        loud = float(np.exp(random.normal(0.0, 0.15)))
        drift = np.exp(random.normal(0.0, 0.02, 3))
        base, voice, noise, peak, width = np.array([500.0, 1500.0, 2500.0]), 0.0, 0.0, 0.0, 0.0
        if name in VOWELS:
            base = np.array(VOWELS[name]) * np.array(speaker.tract.vowels[vowels.index(name)]) * drift
            voice, noise = loud, speaker.glottis.breath * loud
        elif name in CONSONANTS:
            phone = CONSONANTS[name]
            base = np.array(phone.formants) * drift
            voice, noise, width = phone.voice * loud, phone.noise * loud, phone.width
            peak = phone.peak * speaker.tract.sibilance
            if phone.burst:
                formants = np.concatenate([base, HIGHER]) * own / speaker.tract.length
                rows.append((*formants, 0.0, 0.0, peak, width))
                starts.append(start)
                start += (stop - start) * 2 / 3
        formants = np.concatenate([base, HIGHER]) * own / speaker.tract.length
        rows.append((*formants, voice, noise, peak, width))
        starts.append(start)
    table = np.array(rows)[np.searchsorted(np.array(starts), grid, side="right") - 1]
    places = np.clip(_smooth_tracks(table[:, :5], 53), 150.0, 7600.0)
    bandwidths = BANDWIDTHS * speaker.tract.damping * (1 + np.maximum(places - 500.0, 0.0) / 12000.0)
    # losses in the walls of the tract double the bandwidth from 400 to 200 Hz (Fujimura and Lindqvist 1971)
    bandwidths *= 1 + np.maximum(400.0 - places, 0.0) / 200.0
    sources = _smooth_tracks(table[:, 5:7], 5)
    return _Tracks(places, bandwidths, sources[:, 0], table[:, 5], sources[:, 1], table[:, 7], table[:, 8])


def _smooth_tracks(values: np.ndarray, taps: int) -> np.ndarray:
    """Moving Hann average over the control grid [g, c], edges held."""
    kernel = np.hanning(taps + 2)[1:-1]
    kernel /= kernel.sum()
    padded = np.pad(values, ((taps // 2, taps // 2), (0, 0)), mode="edge")
    return np.asarray(np.lib.stride_tricks.sliding_window_view(padded, taps, axis=0) @ kernel)


def _make_intonation(
    speaker: Speaker,
    random: np.random.Generator,
    script: list[tuple[str, float, float]],
    grid: np.ndarray,
    seconds: float,
) -> np.ndarray:
    """F0 in Hz on the grid: the base of this utterance, declination, slow wander, and accents on some vowels."""
    octaves = np.full(len(grid), float(random.normal(0.0, 0.06)))
    octaves -= 0.12 * (grid / seconds - 0.5)
    octaves += 0.03 * np.sin(2 * np.pi * (grid * random.uniform(0.5, 1.2) + random.random()))
    middles = np.array([(start + stop) / 2 for name, start, stop in script if name in VOWELS])
    accented = middles[random.random(len(middles)) < 0.45]
    heights = speaker.glottis.range * random.normal(1.0, 0.35, len(accented))
    widths = random.uniform(0.08, 0.15, len(accented))
    for middle, height, width in zip(accented, heights, widths, strict=True):
        octaves += height * np.exp(-0.5 * ((grid - middle) / width) ** 2)
    return np.asarray(np.clip(speaker.glottis.f0 * 2.0**octaves, F0_FLOOR, F0_CEILING))


def _glottal_spectrum(frequencies: np.ndarray) -> np.ndarray:
    """Spectrum of the glottal flow's derivative: two poles at 180 Hz (-12 dB an octave) and radiation (+6).

    The gain brings vowels 10 dB above [s], 15 dB above [f] and 20 to 30 dB above their own aspiration.
    """
    s = 1j * frequencies / 180.0
    return np.asarray(10.0 * s / (1 + s) ** 2)


def _tract_response(formants: np.ndarray, bandwidths: np.ndarray) -> np.ndarray:
    """Response of the formant cascade, unit gain at 0 Hz: complex [k, FFT / 2 + 1] for formants [k, 5]."""
    radius = np.exp(-np.pi * bandwidths / RATE)
    first = -2 * radius * np.cos(2 * np.pi * formants / RATE)
    second = radius**2
    polynomial = np.zeros((len(formants), 11))
    polynomial[:, 0] = 1.0
    for k in range(5):
        polynomial[:, 2:] += first[:, k : k + 1] * polynomial[:, 1:-1] + second[:, k : k + 1] * polynomial[:, :-2]
        polynomial[:, 1] += first[:, k] * polynomial[:, 0]
    return np.asarray(polynomial.sum(axis=1, keepdims=True) / np.fft.rfft(polynomial, FFT))


def _render_voice(
    speaker: Speaker,
    random: np.random.Generator,
    tracks: _Tracks,
    pitch: np.ndarray,
    grid: np.ndarray,
    samples: int,
    voice: np.ndarray,
) -> np.ndarray:
    """Glottal pulses through the formants, [samples]."""
    phase = np.concatenate([[0.0], np.cumsum((pitch[1:] + pitch[:-1]) / 2 * np.diff(grid))]) + random.random()
    times = np.interp(np.arange(np.ceil(phase[0]), np.floor(phase[-1]) + 1), phase, grid)
    count = len(times)
    times = times + speaker.glottis.jitter * random.standard_normal(count) / np.interp(times, grid, pitch)
    amplitude = np.interp(times, grid, tracks.voice) * (1 + speaker.glottis.shimmer * random.standard_normal(count))
    kept = (amplitude > 1e-3) & (times >= 0) & (times < samples / RATE)
    times, amplitude = times[kept], amplitude[kept]
    if not len(times):
        return np.zeros(samples)
    nearest = np.minimum(np.rint(times * RATE / STEP).astype(int), len(grid) - 1)
    start = np.floor(times * RATE).astype(int)
    delay = np.exp(-2j * np.pi / FFT * (times * RATE - start)[:, None] * np.arange(FFT // 2 + 1))
    response = _tract_response(tracks.formants[nearest], tracks.bandwidths[nearest])
    pulses = np.fft.irfft(amplitude[:, None] * voice * delay * response, FFT)
    return _add_pieces(pulses, start, samples)


def _render_noise(
    tracks: _Tracks,
    random: np.random.Generator,
    grid: np.ndarray,
    samples: int,
    frequencies: np.ndarray,
    colour: np.ndarray,
) -> np.ndarray:
    """Aspiration through the formants, frication and bursts through a band around their peak, [samples]."""
    hop = FRAME // 2
    frames = samples // hop + 2
    padded = np.zeros(hop * (frames + 1))
    envelope = np.interp(np.arange(samples) / RATE, grid, tracks.noise)
    padded[hop : hop + samples] = envelope * random.standard_normal(samples)
    window = np.sin(np.pi * (np.arange(FRAME) + 0.5) / FRAME) ** 2
    cut = np.lib.stride_tricks.sliding_window_view(padded, FRAME)[::hop] * window
    starts = np.arange(len(cut)) * hop
    centre = np.minimum(starts // STEP, len(grid) - 1)
    busy = np.abs(cut).max(axis=1) > 0
    if not busy.any():
        return np.zeros(samples)
    cut, starts, centre = cut[busy], starts[busy], centre[busy]
    peak, width = tracks.peak[centre], np.maximum(tracks.width[centre], 1.0)
    band = np.exp(-0.5 * ((frequencies - peak[:, None]) / width[:, None]) ** 2) + 0.03
    response = np.abs(_tract_response(tracks.formants[centre], tracks.bandwidths[centre]))
    shape = np.where((peak > 0)[:, None], band, 0.3 * response * np.minimum(frequencies / 1000.0, 1.0))
    shaped = np.fft.irfft(np.fft.rfft(cut, FFT) * shape * colour, FFT)
    return _add_pieces(shaped, starts, samples + hop)[hop:]


def _add_pieces(pieces: np.ndarray, starts: np.ndarray, samples: int) -> np.ndarray:
    """Sum of pieces [k, FFT] laid at their starts, cut to [samples]."""
    places = starts[:, None] + np.arange(FFT)
    return np.bincount(places.ravel(), weights=pieces.ravel(), minlength=samples)[:samples]


def _resample_wave(wave: np.ndarray, length: int) -> np.ndarray:
    """Fourier resampling of a whole utterance to another number of samples.

    The upper eighth of the common band fades out: a sharp edge would ring through the pauses.
    """
    spectrum = np.fft.rfft(wave)
    bins = length // 2 + 1
    kept = np.zeros(bins, complex)
    common = min(bins, len(spectrum))
    fade = np.cos(np.pi / 2 * np.clip((np.arange(common) / common - 0.875) / 0.125, 0, 1)) ** 2
    kept[:common] = spectrum[:common] * fade
    return np.fft.irfft(kept, length) * (length / len(wave))


RENDERED_RATE = 16000

# Far beyond any number of evaluated speakers, so that the two groups stay disjoint whatever their sizes.
FIRST_TRAIN = 100_000


def render_speech(settings: DatasetSettings, folder: Path) -> None:
    """Render all utterances to ``folder/SPEAKER/UTTERANCE.wav`` (16 kHz, 16 bit): the same bytes for the same settings."""
    for _, speaker, number, row in list_rendered(settings, folder):
        assert row.path is not None
        row.path.parent.mkdir(parents=True, exist_ok=True)
        rendered = make_utterance(speaker, settings.seed, number, settings.seconds, RENDERED_RATE)
        audio.write(row.path, rendered.wave, RENDERED_RATE, "PCM_16")


def list_rendered(settings: DatasetSettings, folder: Path) -> Iterator[tuple[int, Speaker, int, Utterance]]:
    """(speaker index, speaker, utterance index, row) of all utterances, those to evaluate on first."""
    folder = folder.absolute()
    position = 0
    for index in [*range(settings.speakers), *range(FIRST_TRAIN, FIRST_TRAIN + settings.train_speakers)]:
        speaker = make_speaker(settings.seed, index)
        for number in range(settings.utterances):
            name = f"{speaker.id}-{number:04d}"
            path = folder / speaker.id / f"{name}.wav"
            yield (
                index,
                speaker,
                number,
                Utterance("synthetic_train", "train", name, speaker.id, speaker.sex, path, str(path), position),
            )
            position += index >= FIRST_TRAIN
