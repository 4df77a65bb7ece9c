"""pYIN (Mauch and Dixon 2014, "pYIN: a fundamental frequency estimator using probabilistic threshold distributions").

Three steps: the cumulative mean normalised difference of each frame (de Cheveigné and Kawahara 2002, eq. 8), its
troughs with the probability that a threshold drawn from a beta distribution picks them, and the best path through
voiced and unvoiced states (Viterbi). States are bins of 10 cents from ``fmin`` up. Two readings of the path:

``librosa``
    the frequencies of the bins; voicing and bins equal those of ``librosa.pyin`` in float64.
``srd``
    integer lags floor(rate / fmax) .. floor(rate / fmin), 17 .. 123 at 8 kHz and 65 to 450 Hz: the refined period of
    the candidate on the path, rounded. (Bins turned into lags would hit long lags unevenly, once or twice a lag.)

All in compiled kernels that release the interpreter's lock; time is linear and memory stays small for hours of audio.
Transitions reach a few states only, which makes the Viterbi banded; jumps out of the band keep the probability that
librosa gives them (the smallest positive float), so the path is that of the dense trellis.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np
from scipy.stats import beta

from pipeline.nets.compiled import compiled

VERSION = "pyin 1"

TINY = float(np.finfo(np.float64).tiny)
LOG_TINY = float(np.log(TINY))
THRESHOLDS = 100
BLOCK = 4096  # frames between the checkpoints of the path

FRAME, BETA, BOLTZMANN, NO_TROUGH = 248, (2.0, 10.0), 8.0, 0.0
"""Settings for speech at 8 kHz and 65 to 450 Hz, chosen on evidence: the defaults of the F0 extractor, which says which."""


@dataclass(frozen=True)
class Pitch:
    """A pitch track of T frames; frame t is centred on sample t * hop.

    Attributes:
        f0: Hz, float64 [T]; also where unvoiced, where it means little.
        voiced: bool [T].
        probability: that the frame is voiced, float64 [T].
        state: int64 [T], bin (``librosa``), or lag minus the shortest lag (``srd``).
    """

    f0: np.ndarray
    voiced: np.ndarray
    probability: np.ndarray
    state: np.ndarray


@dataclass(frozen=True)
class Tracker:
    """pYIN with its settings.

    Attributes:
        rate: Hz.
        fmin, fmax: range of F0 in Hz; two periods of fmin should fit into a frame.
        frame: samples in a frame, even.
        hop: samples between frames.
        mode: how the path is read, see the module.
        beta_parameters: shape of the beta distribution of the thresholds; its mean is a / (a + b).
        boltzmann_parameter: how much likelier the first of several troughs below a threshold is.
        no_trough_prob: share of the probability that the lowest trough keeps for thresholds above which it lies.
        switch_prob: probability of a change between voiced and unvoiced from a frame to the next.
        resolution: width of a bin in semitones, 1 / resolution being rounded up.
        max_transition_rate: octaves a second.

    The last six are librosa's, with its names and its defaults.
    """

    rate: int
    fmin: float = 65.0
    fmax: float = 450.0
    frame: int = 512
    hop: int = 80
    mode: Literal["librosa", "srd"] = "librosa"
    beta_parameters: tuple[float, float] = (2.0, 18.0)
    boltzmann_parameter: float = 2.0
    no_trough_prob: float = 0.01
    switch_prob: float = 0.01
    resolution: float = 0.1
    max_transition_rate: float = 35.92

    def __post_init__(self) -> None:
        if not 0 < self.fmin < self.fmax <= self.rate / 2:
            raise ValueError(f"0 < fmin < fmax <= rate / 2 does not hold for {self.fmin}, {self.fmax}, {self.rate}")
        if self.frame % 2 or self.rate / self.fmin >= self.frame - 8:
            raise ValueError(f"a frame is even and longer than a period of fmin ({self.rate / self.fmin:.1f} samples)")

    @cached_property
    def frequencies(self) -> np.ndarray:
        """F0 of each bin in Hz, [n]."""
        count = int(np.floor(self.bins_per_octave * np.log2(self.fmax / self.fmin))) + 1
        return np.asarray(self.fmin * 2 ** (np.arange(count) / self.bins_per_octave))

    @property
    def bins_per_octave(self) -> int:
        """How many bins an octave has."""
        return 12 * int(np.ceil(1 / self.resolution))

    @property
    def shortest(self) -> int:
        """The shortest lag in samples."""
        return int(np.floor(self.rate / self.fmax))

    @property
    def lags(self) -> int:
        """How many integer lags there are in mode ``srd``."""
        return int(np.floor(self.rate / self.fmin)) - self.shortest + 1

    @property
    def longest(self) -> int:
        """The longest lag that is searched."""
        return min(int(np.ceil(self.rate / self.fmin)), self.frame - 1)

    def track(self, wave: np.ndarray) -> Pitch:
        """Pitch of a waveform [n] at ``rate``: 1 + n // hop frames, the first centred on sample 0, zeros outside."""
        count = len(self.frequencies)
        frames = 1 + len(wave) // self.hop
        transition, band = transitions(count, self.reach)
        probability = np.empty(frames)
        blocks = []
        for start in range(0, frames, BLOCK):
            stop = min(start + BLOCK, frames)
            states, weights, periods = self._candidates(wave, start, stop)
            probability[start:stop] = _observe(states, weights)
            used = max(1, int(np.isfinite(periods).sum(axis=1).max()))
            blocks.append((states[:, :used].copy(), weights[:, :used].copy(), periods[:, :used].copy()))
        stay, switch = np.log(1 - self.switch_prob), np.log(self.switch_prob)
        begin = [np.full(2 * count, np.nan)]
        for number, (states, weights, _) in enumerate(blocks[:-1]):
            first = number * BLOCK
            voicing = probability[first : first + BLOCK]
            values = _forward(begin[-1], states, weights, voicing, band, stay, switch)
            begin.append(values[-1].copy())
        path = np.empty(frames, np.int64)
        lag = np.empty(frames)
        last = -1
        for number in range(len(blocks) - 1, -1, -1):
            states, weights, periods = blocks[number]
            part = slice(number * BLOCK, number * BLOCK + len(states))
            values = _forward(begin[number], states, weights, probability[part], band, stay, switch)
            last = _backward(values, begin[number], last, path[part], transition, stay, switch)
            lag[part] = _periods(path[part], states, periods)
        return self.read(path, lag, probability)

    def read(self, path: np.ndarray, lag: np.ndarray, probability: np.ndarray) -> Pitch:
        """The track of a path.

        Args:
            path: [T], a bin, or a bin plus the number of bins where unvoiced.
            lag: [T], period in samples of the candidate on the path, 0 where there is none.
            probability: [T], of being voiced.
        """
        count = len(self.frequencies)
        state, voiced = path % count, path < count
        if self.mode == "librosa":
            return Pitch(self.frequencies[state], voiced, probability, state)
        usual = self.rate / self.frequencies[state]
        state = np.rint(np.where(lag > 0, lag, usual)).astype(np.int64) - self.shortest
        state = np.clip(state, 0, self.lags - 1)
        return Pitch(self.rate / (state + self.shortest), voiced, probability, state)

    @property
    def reach(self) -> int:
        """How many bins F0 moves in a hop at most."""
        return round(self.max_transition_rate * 12 * self.hop / self.rate) * (self.bins_per_octave // 12) // 2

    def _candidates(self, wave: np.ndarray, start: int, stop: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Candidates of frames start to stop: bins int32 [k, c], -1 where none; probabilities, periods float64 [k, c]."""
        half = self.frame // 2
        begin, end = start * self.hop - half, (stop - 1) * self.hop - half + self.frame
        signal = np.zeros(end - begin)
        inside = slice(max(begin, 0), min(end, len(wave)))
        signal[inside.start - begin : inside.stop - begin] = wave[inside]
        difference = _difference(signal, stop - start, self.hop, self.frame, self.shortest, self.longest)
        prior = threshold_prior(self.beta_parameters)
        periods, weights = _troughs(difference, *prior, self.boltzmann_parameter, self.no_trough_prob)
        periods += self.shortest
        bins = np.rint(self.bins_per_octave * np.log2(self.rate / periods / self.fmin))
        # A bin above the last one is dropped, as librosa does; clamping it changes the voicing.
        states = np.where(bins < len(self.frequencies), np.maximum(bins, 0), -1).astype(np.int32)
        return states, weights, periods


@lru_cache(maxsize=8)
def threshold_prior(shape: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    """Thresholds and their probabilities, [100] each."""
    edges = np.linspace(0, 1, THRESHOLDS + 1)
    return edges[1:], np.diff(beta.cdf(edges, *shape))


@lru_cache(maxsize=8)
def transitions(count: int, reach: int) -> tuple[np.ndarray, np.ndarray]:
    """Moves between bins: a triangle, ``reach`` to each side.

    Returns:
        log probabilities [from, to], and their band [2 reach + 1, to], whose row d is the move from bin to + d - reach,
        0 where there is no such bin.
    """
    distance = np.abs(np.subtract.outer(np.arange(count), np.arange(count)))
    weights = np.maximum(1 - distance / (reach + 1), 0)
    weights /= weights.sum(axis=1, keepdims=True)
    local = np.log(weights + TINY)
    source = np.arange(count) + np.arange(2 * reach + 1)[:, None] - reach
    inside = (source >= 0) & (source < count)
    return local, np.where(inside, local[np.clip(source, 0, count - 1), np.arange(count)], 0.0)


@compiled
def _difference(signal: np.ndarray, count: int, hop: int, length: int, shortest: int, longest: int) -> np.ndarray:
    """Cumulative mean normalised difference [count, longest - shortest + 1] of frames that start every hop."""
    differences = np.empty((count, longest - shortest + 1))
    products = np.empty(longest + 4)
    for k in range(count):
        frame = signal[k * hop : k * hop + length]
        energy = 0.0
        for t in range(length):
            energy += frame[t] * frame[t]
        # four lags share each loaded sample
        for lag in range(1, longest + 1, 4):
            a, b = frame[: length - lag - 3], frame[lag:]
            p0, p1, p2, p3 = 0.0, 0.0, 0.0, 0.0
            for t in range(len(a)):
                p0 += a[t] * b[t]
                p1 += a[t] * b[t + 1]
                p2 += a[t] * b[t + 2]
                p3 += a[t] * b[t + 3]
            last = length - lag - 3
            p0 += frame[last] * frame[last + lag] + frame[last + 1] * frame[last + 1 + lag]
            p0 += frame[last + 2] * frame[last + 2 + lag]
            p1 += frame[last] * frame[last + lag + 1] + frame[last + 1] * frame[last + 2 + lag]
            p2 += frame[last] * frame[last + lag + 2]
            products[lag], products[lag + 1], products[lag + 2], products[lag + 3] = p0, p1, p2, p3
        head, total = 0.0, 0.0
        for lag in range(1, longest + 1):
            head += frame[lag - 1] * frame[lag - 1]
            # librosa 0.11 leaves the energy of the first sample out at lag 1; it moves d' by 1e-4
            value = 2.0 * (energy - products[lag]) - (head if lag > 1 else 0.0)
            total += value
            if lag >= shortest:
                differences[k, lag - shortest] = value / (total / lag + TINY)
    return differences


@compiled
def _troughs(
    difference: np.ndarray, thresholds: np.ndarray, prior: np.ndarray, boltzmann: float, no_trough: float
) -> tuple[np.ndarray, np.ndarray]:
    """Troughs of each row: refined places float64 [k, c] (NaN where there are no more) and probabilities [k, c]."""
    count, size = difference.shape
    most = size // 2 + 1
    places = np.full((count, most), np.nan)
    weights = np.zeros((count, most))
    heights = np.empty(most)
    where = np.empty(most, np.int64)
    chance = np.empty(most)
    decay = np.exp(-boltzmann * np.arange(most))
    norm = (1.0 - np.exp(-boltzmann)) / (1.0 - np.exp(-boltzmann * np.maximum(np.arange(most + 1), 1)))
    for k in range(count):
        row = difference[k]
        troughs = 0
        for i in range(size):
            if i == 0:
                trough = row[0] < row[1]
            elif i == size - 1:
                trough = row[i] < row[i - 1]
            else:
                trough = row[i] < row[i - 1] and row[i] <= row[i + 1]
            if trough:
                where[troughs], heights[troughs], chance[troughs] = i, row[i], 0.0
                troughs += 1
        if troughs == 0:
            continue
        lowest = 0
        for i in range(troughs):
            if heights[i] < heights[lowest]:
                lowest = i
        for j in range(len(thresholds)):
            below = 0
            for i in range(troughs):
                if heights[i] < thresholds[j]:
                    below += 1
            if below == 0:
                chance[lowest] += no_trough * prior[j]
                continue
            rank = 0
            share = prior[j] * norm[below]
            for i in range(troughs):
                if heights[i] < thresholds[j]:
                    chance[i] += share * decay[rank]
                    rank += 1
        kept = 0
        for i in range(troughs):
            if chance[i] <= 0.0:
                continue
            place = where[i]
            shift = 0.0
            if 0 < place < size - 1:
                curve = row[place + 1] + row[place - 1] - 2.0 * row[place]
                slope = (row[place + 1] - row[place - 1]) / 2.0
                if abs(slope) < abs(curve):
                    shift = -slope / curve
            places[k, kept], weights[k, kept] = place + shift, chance[i]
            kept += 1
    return places, weights


@compiled
def _observe(states: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Probability of being voiced [k]; of the candidates in one bin the longest stays, the others' bins become -1."""
    probability = np.zeros(len(states))
    for k in range(len(states)):
        for i in range(states.shape[1]):
            if states[k, i] < 0:
                continue
            for j in range(i):
                if states[k, j] == states[k, i]:
                    states[k, j] = -1
        total = 0.0
        for i in range(states.shape[1]):
            if states[k, i] >= 0:
                total += weights[k, i]
        probability[k] = min(max(total, 0.0), 1.0)
    return probability


@compiled
def _spread(reached: np.ndarray, source: np.ndarray, band: np.ndarray) -> None:
    """Raises [n] to the best of source [n + width - 1] plus band [width, n] over the width."""
    width, count = band.shape
    # groups of four rows share each store
    first = width % 4
    for d in range(first):
        for j in range(count):
            a = source[d + j] + band[d, j]
            reached[j] = a if a > reached[j] else reached[j]
    for d in range(first, width, 4):
        for j in range(count):
            best = reached[j]
            for k in range(4):
                a = source[d + k + j] + band[d + k, j]
                best = a if a > best else best
            reached[j] = best


@compiled
def _forward(
    begin: np.ndarray,
    states: np.ndarray,
    weights: np.ndarray,
    voicing: np.ndarray,
    band: np.ndarray,
    stay: float,
    switch: float,
) -> np.ndarray:
    """Best log probability of ending in each state, [k, 2 n]: n voiced, n unvoiced. ``begin`` [2 n] is the frame before
    the block, NaN if there is none."""
    frames, (width, count) = len(states), band.shape
    reach = width // 2
    values = np.empty((frames, 2 * count))
    voiced, unvoiced = np.full(count + 2 * reach, -np.inf), np.full(count + 2 * reach, -np.inf)
    seen = np.empty(states.shape[1])
    for t in range(frames):
        new = values[t]
        old = begin if t == 0 else values[t - 1]
        if np.isnan(old[0]):
            new[:] = -np.log(2.0 * count)
        else:
            best = -np.inf
            for k in range(count):
                a, b = old[k], old[count + k]
                voiced[reach + k] = max(a + stay, b + switch)
                unvoiced[reach + k] = max(a + switch, b + stay)
                best = max(best, max(a, b))
            new[:] = best + LOG_TINY
            _spread(new[:count], voiced, band)
            _spread(new[count:], unvoiced, band)
        silence = np.log((1.0 - voicing[t]) / count + TINY)
        for j in range(count):
            new[count + j] += silence
        for i in range(states.shape[1]):
            if states[t, i] >= 0:
                seen[i] = new[states[t, i]] + np.log(weights[t, i] + TINY)
        for j in range(count):
            new[j] += LOG_TINY
        for i in range(states.shape[1]):
            if states[t, i] >= 0:
                new[states[t, i]] = seen[i]
    return values


@compiled
def _backward(
    values: np.ndarray,
    begin: np.ndarray,
    last: int,
    path: np.ndarray,
    transition: np.ndarray,
    stay: float,
    switch: float,
) -> int:
    """Fills in the path of a block, whose last state is ``last`` (-1: the best), and gives the one before the block."""
    frames, double = values.shape
    count = double // 2
    state = last
    if state < 0:
        state = int(np.argmax(values[frames - 1]))
    path[frames - 1] = state
    for t in range(frames - 1, -1, -1):
        old = begin if t == 0 else values[t - 1]
        if np.isnan(old[0]):
            return -1
        place, spoken = state % count, state < count
        best, state = -np.inf, 0
        for source in range(double):
            step = transition[source % count, place]
            if step > LOG_TINY:
                step += stay if (source < count) == spoken else switch
            if old[source] + step > best:
                best, state = old[source] + step, source
        if t > 0:
            path[t - 1] = state
    return state


@compiled
def _periods(path: np.ndarray, states: np.ndarray, periods: np.ndarray) -> np.ndarray:
    """Period of the candidate on the path [k], 0 where the path is unvoiced or goes where there is none."""
    chosen = np.zeros(len(path))
    for t in range(len(path)):
        for i in range(states.shape[1]):
            if states[t, i] >= 0 and states[t, i] == path[t]:
                chosen[t] = periods[t, i]
    return chosen
