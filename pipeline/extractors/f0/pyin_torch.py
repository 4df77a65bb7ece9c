"""pYIN in torch, many files beside each other: the form of :mod:`pipeline.nets.pyin` for a GPU, in float64.

The files lie behind each other on one grid of hops, so that the frames of all of them are one view of one signal.
Troughs and candidates are flat lists, without a fixed number a frame. The trellis goes through time once for all files:
longest file first, those that have ended leave. The path back reads the stored values, as the numba form does, so that
ties fall alike. Voicing and voiced states equal those of the numba form. A step forward is seven kernels, a step back
three.

``torbi`` (MIT, 1.4.1) decodes on a GPU too, but in float32, over dense transitions (670 x 670 where the band holds
41), and only with the torch releases that its binaries were built for.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
import torch

from pipeline.nets.pyin import LOG_TINY, TINY, Pitch, Tracker, threshold_prior, transitions

FRAMES = 400_000
"""Frames in a batch: the trellis of 335 bins takes 5.4 kB a frame, so 2.2 GB, and the rest 1 GB at most."""
FEW = 8
"""A batch of fewer files goes through the numba form: the loop over time costs the same for one file as for 50."""
CHUNK = 8192
"""Frames whose candidates are made at once."""
STEPS = 32
"""Steps in time that share a layout."""
BLOCK = 16
"""Samples that the products of a frame with itself are taken in."""

logger = logging.getLogger(__name__)


def track_many(
    tracker: Tracker, waves: Sequence[np.ndarray], device: str, frames: int = FRAMES, graphs: bool = False
) -> list[Pitch]:
    """Pitch of waveforms, each [n], as ``tracker.track`` finds it; see :class:`Batched`."""
    return Batched(tracker, device, frames, graphs).track(waves)


class Batched:
    """A tracker on a device.

    Memory is bounded by the frames in a batch. A batch of fewer than ``few`` files, a file of hours among them, goes
    through the numba form, which is then faster and takes any length.

    Attributes:
        frames: how many frames a batch has at most; halved, with a line in the log, when the device runs out of memory.
    """

    def __init__(
        self, tracker: Tracker, device: str, frames: int = FRAMES, graphs: bool = False, few: int = FEW
    ) -> None:
        """
        Args:
            tracker: pYIN and its settings.
            device: of torch.
            frames: see the class.
            graphs: record the steps forward as CUDA graphs, for batches so small that launches cost more than the work.
            few: see the class.
        """
        self.tracker, self.device, self.frames, self.few = tracker, torch.device(device), frames, few
        self.graphs = graphs and self.device.type == "cuda"
        self._recorded: dict[int, tuple[torch.cuda.CUDAGraph, torch.Tensor, torch.Tensor]] = {}
        thresholds, prior = threshold_prior(tracker.beta_parameters)
        self.thresholds, self.prior = self._tensor(thresholds), self._tensor(prior)
        most = (tracker.longest - tracker.shortest + 1) // 2 + 2
        # entry k: of the k-th trough below a threshold, and of k troughs below it; nothing for none
        decay = np.exp(-tracker.boltzmann_parameter * np.arange(-1.0, most))
        norm = np.expm1(-tracker.boltzmann_parameter) / np.expm1(
            -tracker.boltzmann_parameter * np.maximum(np.arange(most + 1), 1)
        )
        decay[0] = norm[0] = 0.0
        self.decay, self.norm = self._tensor(decay), self._tensor(norm)

        count, reach = len(tracker.frequencies), tracker.reach
        local, band = transitions(count, reach)
        self.count, self.width, self.band = count, 2 * reach + 1, self._tensor(band)
        stay, switch = np.log(1 - tracker.switch_prob), np.log(tracker.switch_prob)
        self.moves = self._tensor(np.array([[stay, switch], [switch, stay], [LOG_TINY, LOG_TINY]])[:, :, None])
        same = np.kron(np.array([[stay, switch], [switch, stay]]), np.ones((count, count)))
        local = np.tile(local.T, (2, 2))
        self.back = self._tensor(np.where(local > LOG_TINY, local + same, LOG_TINY))

    def _tensor(self, values: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(self.device)

    def track(self, waves: Sequence[np.ndarray]) -> list[Pitch]:
        """Pitch of waveforms, each [n], in their order."""
        pitches: dict[int, Pitch] = {}
        waiting = sorted(range(len(waves)), key=lambda index: len(waves[index]), reverse=True)
        while waiting:
            batch = waiting[: self._fit([waves[index] for index in waiting])]
            chosen = [waves[index] for index in batch]
            if len(batch) < self.few:
                batch_pitches = [self.tracker.track(wave) for wave in chosen]
            else:
                try:
                    with torch.inference_mode():
                        batch_pitches = self._track(chosen)
                except torch.OutOfMemoryError:
                    self.frames = sum(self._cost(wave) for wave in chosen) // 2
                    self._recorded.clear()
                    logger.warning(
                        "pYIN: out of memory on %s; batches of %d frames from here", self.device, self.frames
                    )
                    continue
            pitches.update(zip(batch, batch_pitches, strict=True))
            waiting = waiting[len(batch) :]
        return [pitches[index] for index in range(len(waves))]

    def _cost(self, wave: np.ndarray) -> int:
        """Memory of a file in the trellis, in frames: its own, and those that a step works on."""
        return 1 + len(wave) // self.tracker.hop + self.width + STEPS

    def _fit(self, waves: list[np.ndarray]) -> int:
        """How many of these files make a batch, at least one."""
        total = np.cumsum([self._cost(wave) for wave in waves])
        return max(1, int(np.searchsorted(total, self.frames, side="right")))

    def _track(self, waves: list[np.ndarray]) -> list[Pitch]:
        """Pitch of a batch, longest file first."""
        tracker, device = self.tracker, self.device
        half = tracker.frame // 2
        counts = np.array([1 + len(wave) // tracker.hop for wave in waves])
        spans = np.array([-(-(half + len(wave)) // tracker.hop) for wave in waves])
        starts = np.cumsum(spans) - spans
        signal = np.zeros(int(spans.sum()) * tracker.hop + tracker.frame, np.result_type(np.float32, *waves))
        for start, wave in zip(starts * tracker.hop + half, waves, strict=True):
            signal[start : start + len(wave)] = wave

        # row of the trellis for each frame on the grid; between two files there are frames that have none
        heads = np.arange(0, counts[0], STEPS)
        widths = (counts > heads[:, None]).sum(axis=1)
        sizes = np.minimum(STEPS, counts[0] - heads) * widths
        bases = np.cumsum(sizes) - sizes
        file = np.repeat(np.arange(len(waves)), spans)
        time = np.arange(len(file)) - starts[file]
        real = time < counts[file]
        file, time = file[real], time[real]
        rows = np.full(len(real), -1)
        rows[real] = bases[time // STEPS] + time % STEPS * widths[time // STEPS] + file
        grid, frames = self._tensor(rows), self._tensor(rows[real])

        probability, where, bins, weights, periods = self._candidates(self._tensor(signal).double(), len(real))
        where = grid[where]
        inside = where >= 0
        where, bins, weights, periods = where[inside], bins[inside], weights[inside], periods[inside]
        probability = probability[self._tensor(real)]

        trellis = torch.zeros(int(sizes.sum()), 2, self.count, dtype=torch.float64, device=device)
        trellis[:, 0] = LOG_TINY
        trellis[frames, 1] = ((1 - probability) / self.count + TINY).log_()[:, None]
        trellis.view(-1)[where * (2 * self.count) + bins] = (weights + TINY).log_()
        self._forward(trellis, heads, bases, widths)
        path = self._backward(trellis, counts, bases, widths)
        lag = torch.zeros(len(trellis), dtype=torch.float64, device=device)
        taken = path[where] == bins
        lag[where[taken]] = periods[taken]

        cuts = np.cumsum(counts)[:-1]
        parts = (np.split(part.cpu().numpy(), cuts) for part in (path[frames], lag[frames], probability))
        return [tracker.read(*part) for part in zip(*parts, strict=True)]

    def _candidates(self, signal: torch.Tensor, count: int) -> tuple[torch.Tensor, ...]:
        """Probability of being voiced of the frames of the grid [count]; and of all their candidates [m], by frame and
        lag: frame, bin, probability, period."""
        cut = signal.unfold(0, self.tracker.frame, self.tracker.hop)[:count]
        voiced, lists = [], []
        for start in range(0, count, CHUNK):
            probability, frame, *columns = self._troughs(self._difference(cut[start : start + CHUNK]))
            voiced.append(probability)
            lists.append((frame + start, *columns))
        return torch.cat(voiced), *(torch.cat(column) for column in zip(*lists, strict=True))

    def _difference(self, frames: torch.Tensor) -> torch.Tensor:
        """Cumulative mean normalised difference [k, longest - shortest + 1] of frames [k, length].

        The products of a frame with itself are taken directly, not by FFT, whose noise makes troughs in frames that end
        in digital silence. Cut into blocks u of 16 samples: the entry (s, c) of the sum over blocks of
        u' v, where v is what starts at the block, belongs to lag c - s.
        """
        count, length = frames.shape
        longest = self.tracker.longest
        blocks, reach = -(-length // BLOCK), -(-longest // BLOCK)
        padded = frames.new_zeros(count, (blocks + reach) * BLOCK)
        padded[:, :length] = frames
        columns = (reach + 1) * BLOCK
        blocked = padded[:, : blocks * BLOCK].view(count, blocks, BLOCK).transpose(1, 2)
        right = padded.as_strided((count, blocks, columns), (padded.stride(0), BLOCK, 1)).contiguous()
        products = torch.bmm(blocked, right).contiguous()
        products = products.as_strided((count, BLOCK, longest), (BLOCK * columns, columns + 1, 1), 1).sum(1)
        head = frames.square().cumsum(1)
        value = 2 * (head[:, -1:] - products)
        # librosa 0.11 leaves the energy of the first sample out at lag 1
        value[:, 1:] -= head[:, 1:longest]
        lags = torch.arange(1, longest + 1, dtype=torch.float64, device=self.device)
        mean = (value.cumsum(1) / lags).add_(TINY)
        return (value / mean)[:, self.tracker.shortest - 1 :]

    def _troughs(self, difference: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Probability of being voiced [k], and frame, bin, probability and period of the candidates [m]."""
        tracker = self.tracker
        size = difference.shape[1]
        trough = torch.zeros_like(difference, dtype=torch.bool)
        trough[:, :-1] = difference[:, :-1] <= difference[:, 1:]
        trough[:, 0] = difference[:, 0] < difference[:, 1]
        trough[:, -1] = True
        trough[:, 1:] &= difference[:, 1:] < difference[:, :-1]
        frame, place = trough.nonzero(as_tuple=True)
        if not len(frame):
            none = frame.double()
            return difference.new_zeros(len(difference)), frame, place, none, none
        number = trough.sum(1)
        end = number.cumsum(0)
        start = end - number
        slot = torch.arange(len(frame), device=self.device) - start[frame]
        middle = difference[frame, place]
        heights = difference.new_full((len(difference), int(number.max())), torch.inf)
        heights[frame, slot] = middle

        # over thresholds and the troughs of all frames, [100, m]; what was counted before a frame is taken off
        below = middle < self.thresholds[:, None]
        rank = below.cumsum(1, dtype=torch.int32)
        ahead = torch.where(start > 0, rank[:, (start - 1).clamp_(min=0)], 0)
        troughs = torch.where(end > 0, rank[:, (end - 1).clamp_(min=0)], 0) - ahead
        rank.sub_(ahead[:, frame]).mul_(below)
        prior = self.prior[:, None]
        share = self.decay.index_select(0, rank.view(-1)).view(rank.shape)
        weight = share.mul_((prior * self.norm[troughs])[:, frame]).sum(0)
        remainder = tracker.no_trough_prob * torch.where(troughs == 0, prior, 0.0).sum(0)
        lowest = (start + heights.argmin(1))[number > 0]
        weight[lowest] += remainder[number > 0]

        after, before = (
            difference[frame, (place + 1).clamp_(max=size - 1)],
            difference[frame, (place - 1).clamp_(min=0)],
        )
        curve, slope = after + before - 2 * middle, (after - before) / 2
        refined = (slope.abs() < curve.abs()) & (place > 0) & (place < size - 1)
        period = tracker.shortest + place + torch.where(refined, -slope / curve, 0.0)
        bins = (tracker.bins_per_octave * torch.log2(tracker.rate / period / tracker.fmin)).round_().long()
        kept = (weight > 0) & (bins < self.count)
        frame, slot, bins = frame[kept], slot[kept], bins[kept].clamp_(min=0)
        weight, period = weight[kept], period[kept]
        # of the candidates in one bin, neighbours in the list, the longest stays
        last = torch.ones_like(bins, dtype=torch.bool)
        last[:-1] = (frame[1:] != frame[:-1]) | (bins[1:] != bins[:-1])
        frame, slot, bins, weight, period = frame[last], slot[last], bins[last], weight[last], period[last]
        # summed in a fixed order, which index_add_ does not promise
        spread = torch.zeros_like(heights)
        spread[frame, slot] = weight
        return spread.sum(1).clamp_(0, 1), frame, bins, weight, period

    def _forward(self, trellis: torch.Tensor, heads: np.ndarray, bases: np.ndarray, widths: np.ndarray) -> None:
        """Turns log probabilities of the observations into those of the best path that ends there, in place."""
        before = trellis[: widths[0]]
        before -= float(np.log(2 * self.count))
        bounds = [*bases.tolist(), len(trellis)]
        for number, width in enumerate(widths.tolist()):
            block = trellis[bounds[number] : bounds[number + 1]].view(-1, width, 2, self.count)
            if self.graphs and number and len(block) == STEPS:
                self._replay(block, before[:width])
            else:
                self._steps(block if number else block[1:], before[:width])
            before = block[-1]

    def _steps(self, block: torch.Tensor, before: torch.Tensor) -> None:
        """Steps in time over files, block [s, f, 2, n]; ``before`` [f, 2, n] is the time before it."""
        reach = self.width // 2
        padded = block.new_full((block.shape[1], 2, self.count + 2 * reach), -torch.inf)
        mixed, windows = padded[:, :, reach : reach + self.count], padded.unfold(2, self.count, 1)
        for now in block.unbind():
            moved = before[:, None] + self.moves
            torch.amax(moved[:, :2], 2, out=mixed)
            reached = torch.amax(windows + self.band, 2)
            now += torch.maximum(reached, moved[:, 2].amax((1, 2), keepdim=True))
            before = now

    def _replay(self, block: torch.Tensor, before: torch.Tensor) -> None:
        """:meth:`_steps` as a recorded graph, of as many files as this and up to 31 idle ones."""
        files = -(-block.shape[1] // 32) * 32
        if files not in self._recorded:
            values = block.new_zeros(STEPS, files, 2, self.count)
            first = values.new_zeros(values.shape[1:])
            self._steps(values[:1], first)
            torch.cuda.synchronize(self.device)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.device(self.device), torch.cuda.graph(graph):
                self._steps(values, first)
            self._recorded[files] = graph, values, first
        graph, values, first = self._recorded[files]
        values[:, : block.shape[1]] = block
        first[: block.shape[1]] = before
        graph.replay()
        block.copy_(values[:, : block.shape[1]])

    def _backward(
        self, trellis: torch.Tensor, counts: np.ndarray, bases: np.ndarray, widths: np.ndarray
    ) -> torch.Tensor:
        """State of each row of the trellis on its file's best path; rows after the end of a file hold nothing."""
        flat = trellis.view(len(trellis), -1)
        path = torch.zeros(len(flat), dtype=torch.int64, device=self.device)
        times = np.arange(counts[0])
        begins = (bases[times // STEPS] + times % STEPS * widths[times // STEPS]).tolist()
        last = self._tensor(np.array(begins)[counts - 1] + np.arange(len(counts)))
        path[last] = flat[last].argmax(1)
        alive = (counts > times[:, None]).sum(axis=1).tolist()
        for time in range(len(times) - 1, 0, -1):
            files, now, then = alive[time], begins[time], begins[time - 1]
            reached = self.back.index_select(0, path[now : now + files])
            reached += flat[then : then + files]
            torch.argmax(reached, 1, out=path[then : then + files])
        return path
