"""One pass over an audio file: what a run would find of it, and beside that its long-term spectrum and its flat tops.

Every file is decoded once. The spectrum is a quick stand-in for a speaker embedding: it needs no weights, and what an anonymiser does
to a voice shows in it.
"""

from __future__ import annotations

import functools
import logging
import math
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import fft

from pipeline import audio
from pipeline.datasets import probe as probing
from pipeline.datasets.probe import Probe

BANDS = 32
"""Mel bands from 80 Hz to 7.6 kHz."""
FRAME_SECONDS = 0.032
"""Frames do not overlap: of a long-term spectrum they need not."""
QUIET = 1e-3
"""Frames 30 dB below the loud ones (the 95th percentile) are pauses, and left out."""
FLOOR = 1e-6
"""What lies 60 dB below the frame counts no further: there, formats and roundings differ, and no voices."""
FEWEST_FRAMES = 5
"""Below that a spectrum says nothing."""
LEAST_TOP = 0.05
"""Peaks below this part of full scale may be flat by chance: a low tone moves by less than a step of 16 bits there."""
SAID_SECONDS = 20.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Heard:
    """What one pass shows of a file.

    Attributes:
        probe: as a run would find it.
        spectrum: float64 [BANDS], mean over frames of the log mel spectrum without its level, in nepers of power; NaN in bands above
            half the rate, and everywhere in a file without sound.
        peak: greatest absolute sample.
        flat_tops: how often the wave stays at its greatest absolute sample for :data:`audio.CLIPPED_RUN` samples or more.
    """

    probe: Probe
    spectrum: np.ndarray
    peak: float
    flat_tops: int

    @property
    def seconds(self) -> float:
        return self.probe.samples / self.probe.sample_rate if self.probe.sample_rate else 0.0


def hear(paths: Iterable[Path], threads: int, longest_seconds: float = math.inf) -> dict[Path, Heard]:
    """Each path once, decoded in so many threads."""
    unique = list(dict.fromkeys(paths))
    found: dict[Path, Heard] = {}
    said = time.monotonic()
    with ThreadPoolExecutor(max(1, threads)) as pool:
        try:
            for path, heard in zip(unique, pool.map(functools.partial(_one, longest_seconds), unique), strict=True):
                found[path] = heard
                if time.monotonic() - said > SAID_SECONDS:
                    said = time.monotonic()
                    log.info("heard %d of %d audio files", len(found), len(unique))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return found


def _one(longest_seconds: float, path: Path) -> Heard:
    listener = _Listener()
    probe = probing.probe_file(path, longest_seconds, listener.add)
    return Heard(probe, listener.spectrum(), listener.peak, listener.flat_tops)


class _Listener:
    """Gathers over the blocks of a file; a frame or a flat top that lies across two blocks (16 s at 16 kHz) is not counted."""

    def __init__(self) -> None:
        self.peak, self.flat_tops = 0.0, 0
        self._sum, self._frames = np.zeros(BANDS), 0

    def add(self, wave: np.ndarray, rate: int) -> None:
        """The next block, float32 [n]."""
        self._add_tops(wave)
        length = 2 * round(FRAME_SECONDS * rate / 2)
        count = len(wave) // length
        if not count:
            return
        frames = wave[: count * length].reshape(count, length) * _window(length)
        power = np.abs(fft.rfft(frames, axis=1)) ** 2
        energy = power.sum(axis=1)
        loud = energy > QUIET * np.quantile(energy, 0.95)
        if not loud.any():
            return
        filters, held = _filters(length, rate)
        shape = np.log(power[loud] @ filters + FLOOR * energy[loud, None])
        shape -= shape[:, held].mean(axis=1, keepdims=True)
        self._sum += np.where(held, shape.sum(axis=0), np.nan)
        self._frames += len(shape)

    def _add_tops(self, wave: np.ndarray) -> None:
        peak = float(np.abs(wave).max())
        if peak < self.peak or peak < LEAST_TOP:
            self.peak = max(peak, self.peak)
            return
        tops = 0
        for sign in (1, -1):
            at_top = np.concatenate([[False], wave == np.float32(sign * peak), [False]])
            edges = np.flatnonzero(at_top[1:] != at_top[:-1])
            tops += int((edges[1::2] - edges[::2] >= audio.CLIPPED_RUN).sum())
        self.flat_tops = tops + (self.flat_tops if peak == self.peak else 0)
        self.peak = peak

    def spectrum(self) -> np.ndarray:
        if self._frames < FEWEST_FRAMES:
            return np.full(BANDS, np.nan)
        return self._sum / self._frames


@functools.lru_cache(8)
def _window(length: int) -> np.ndarray:
    return np.hanning(length).astype(np.float32)


@functools.lru_cache(8)
def _filters(length: int, rate: int) -> tuple[np.ndarray, np.ndarray]:
    """Triangles of one height [bins, BANDS] between 80 Hz and 7.6 kHz, equally far apart in mel, and which lie below half the rate."""
    low, high = 2595 * math.log10(1 + 80 / 700), 2595 * math.log10(1 + 7600 / 700)
    edges = 700 * (10 ** (np.linspace(low, high, BANDS + 2) / 2595) - 1)
    places = np.fft.rfftfreq(length, 1 / rate)[:, None]
    rising = (places - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - places) / (edges[2:] - edges[1:-1])
    return np.clip(np.minimum(rising, falling), 0, None).astype(np.float32), edges[2:] <= rate / 2
