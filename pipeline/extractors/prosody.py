"""Prosody as a speaker feature: what pitch, pauses and rate alone give away, whatever a system does to the timbre.

A conversion that keeps F0 contours and timing keeps them of the speaker. Twelve numbers of a recording, none of which depends on its
level (:data:`NAMES`): of log F0 of voiced frames (pYIN, every 10 ms), of voiced and silent runs, and of how the level varies within
active speech. Each is centred and scaled by what read English has (:data:`TYPICAL`), so that cosines compare speakers from the start; a
back end that is trained learns the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from pipeline import contracts
from pipeline.contracts import ComponentSettings, Feature, numeric
from pipeline.nets import activity
from pipeline.nets.embedding import find_fault

if TYPE_CHECKING:
    from pipeline.nets.pyin import Pitch

VERSION = "prosody 1"

RATE, HOP, FRAME = 8000, 80, 160
"""Hz; samples between frames of F0; samples in a frame of activity (20 ms)."""

NAMES = (
    "mean log F0", "spread of log F0", "range of log F0", "slope of log F0", "voiced share of active speech",
    "log length of voiced runs", "spread of log length of voiced runs", "voiced runs a second of active speech",
    "log length of pauses", "spread of log length of pauses", "pauses a second of active speech", "spread of the level in dB",
)  # fmt: skip
"""What the entries of a vector are. Lengths are in seconds, logarithms are natural, the range is from the 5th to the 95th percentile, the
slope is that of a straight line in a voiced run, a second, on average over frames."""

TYPICAL = np.array(
    [
        [5.008, 0.294], [0.205, 0.076], [0.651, 0.24], [-0.374, 0.254], [0.57, 0.137], [-1.765, 0.219], [0.666, 0.12], [2.636, 0.576],
        [-1.115, 0.583], [0.59, 0.259], [0.208, 0.227], [11.194, 2.404],
    ]
)  # fmt: skip
"""[12, 2] mean and standard deviation over one recording, of 12 s, of each of 168 speakers of LibriSpeech train-clean-100."""


class ProsodySettings(ComponentSettings):
    """Settings of the prosody extractor.

    Attributes:
        shortest_pause: silent runs below this many seconds are closures of stops, not pauses.
    """

    name: Literal["prosody"] = numeric("prosody")
    shortest_pause: float = numeric(0.1, ge=0.02, le=2)


class Extractor(contracts.Extractor):
    """Waveforms at 8 kHz to twelve numbers, float32.

    Audio without active speech has no vector. Where nothing is voiced, as in whispers and in what some systems make of speech, the
    entries of F0 and voicing are 0, that is typical: they say nothing.
    """

    Settings = ProsodySettings
    settings: ProsodySettings
    libraries = ("numpy", "numba")
    compared_as = frozenset({"trials"})
    sample_rate = RATE

    def __init__(self, settings: ProsodySettings, weights: Path | None, device: str, threads: int) -> None:
        from pipeline.nets import pyin

        super().__init__(settings, weights, device, threads)
        self.tracker = pyin.Tracker(
            RATE, frame=pyin.FRAME, hop=HOP, mode="srd",
            beta_parameters=pyin.BETA, boltzmann_parameter=pyin.BOLTZMANN, no_trough_prob=pyin.NO_TROUGH,
        )  # fmt: skip
        self.dimension = len(NAMES)

    def extract(self, waveforms: Sequence[np.ndarray]) -> list[Feature]:
        """The features of waveforms, each float32 [n] at 8 kHz."""
        with ThreadPoolExecutor(max(1, self.threads)) as pool:
            return list(pool.map(self._describe, waveforms))

    def _describe(self, wave: np.ndarray) -> Feature:
        reason = find_fault(wave)
        power = activity.powers(wave, FRAME)
        active = activity.detect(power).active
        if not reason and not active.any():
            reason = "no active speech"
        if reason:
            return Feature(np.zeros(self.dimension, np.float32), 0.0, reason)
        numbers = np.concatenate(
            (
                describe_voicing(self.tracker.track(wave), active),
                describe_timing(power, active, self.settings.shortest_pause),
            )
        )
        scaled = (numbers - TYPICAL[:, 0]) / TYPICAL[:, 1]
        return Feature(np.nan_to_num(scaled, nan=0.0).clip(-5, 5).astype(np.float32))


def describe_voicing(pitch: Pitch, active: np.ndarray) -> np.ndarray:
    """The first eight numbers, float64; NaN where they are not defined.

    Args:
        pitch: every 10 ms.
        active: bool, for each 20 ms.
    """
    seconds = active.sum() * FRAME / RATE
    voiced = pitch.voiced
    runs = find_runs(voiced)
    log_f0 = np.log(pitch.f0)
    spoken = log_f0[voiced]
    if len(spoken) < 10 or not len(runs):
        return np.full(8, np.nan)
    slopes, weights = [], []
    for start, stop in runs:
        if stop - start >= 5:
            time = (np.arange(start, stop) - (start + stop - 1) / 2) * HOP / RATE
            slopes.append(float(time @ log_f0[start:stop] / (time @ time)))
            weights.append(stop - start)
    lengths = np.log((runs[:, 1] - runs[:, 0]) * HOP / RATE)
    low, high = np.percentile(spoken, [5, 95])
    return np.array(
        [
            spoken.mean(),
            spoken.std(),
            high - low,
            np.average(slopes, weights=weights) if slopes else np.nan,
            min(1.0, len(spoken) * HOP / RATE / seconds),
            lengths.mean(),
            lengths.std(),
            len(runs) / seconds,
        ]
    )


def describe_timing(power: np.ndarray, active: np.ndarray, shortest_pause: float) -> np.ndarray:
    """The last four numbers, float64; NaN where they are not defined.

    Args:
        power: mean square of each 20 ms.
        active: bool, of the same.
        shortest_pause: in seconds.
    """
    seconds = active.sum() * FRAME / RATE
    # Whatever lies 50 dB below the mean is as silent as digital silence.
    level = 10 * np.log10(np.maximum(power[active] / power[active].mean(), 1e-5))
    first, last = np.flatnonzero(active)[[0, -1]]
    runs = find_runs(~active[first : last + 1])
    lengths = (runs[:, 1] - runs[:, 0]) * FRAME / RATE
    pauses = np.log(lengths[lengths >= shortest_pause])
    return np.array(
        [
            pauses.mean() if len(pauses) else np.nan,
            pauses.std() if len(pauses) > 1 else np.nan,
            len(pauses) / seconds,
            level.std(),
        ]
    )


def find_runs(mask: np.ndarray) -> np.ndarray:
    """[k, 2] start and stop of each run of True in a mask [n]."""
    edges = np.diff(np.concatenate(([False], mask, [False])).astype(np.int8))
    return np.stack((np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)), axis=1)
