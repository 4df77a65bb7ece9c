"""Batches of audio by a budget of seconds, run on threads of a CPU or on a GPU."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch

from pipeline.contracts import Feature
from pipeline.errors import StageFailed
from pipeline.nets import embedding, memory
from pipeline.nets.embedding import inference

LOG = logging.getLogger(__name__)

SECONDS = {"cpu": 10.0, "cuda": 600.0}
"""The budget of a batch unless a setting says otherwise.

On a CPU 5 s to 60 s are as fast (within 3 %); the buffers of 10 s stay small enough for glibc to keep them, so that no
allocator needs settings. A GPU takes what its launches do not dominate.
"""

LONG = 30 * 16_000
"""Samples of a batch whose buffers are given back to the system at once."""


def cut_evenly(wave: np.ndarray, longest: int) -> list[np.ndarray]:
    """The fewest uniform pieces of a waveform that have at most ``longest`` samples (two lengths, one apart, if need be)."""
    return np.array_split(wave, max(1, -(-len(wave) // longest)))


def form_batches(sizes: Sequence[int], budget: float) -> list[list[int]]:
    """Batches of items, the longest first: items in a batch have at most ``budget`` in all, or one item is alone in it.

    They depend on the sizes and on the budget, not on what runs them.
    """
    batches: list[list[int]] = []
    budget_left = 0.0
    for item in sorted(range(len(sizes)), key=lambda item: -sizes[item]):
        if not batches or sizes[item] > budget_left:
            batches.append([])
            budget_left = budget
        batches[-1].append(item)
        budget_left -= sizes[item]
    return batches


class Batches:
    """Runs a function on batches of waveforms; where memory runs out, the budget is halved for good.

    Args:
        compute: takes waveforms, gives their embeddings, a tensor float32 [files, d] on the device.
        budget: samples of a batch.
        device: ``cpu`` or ``cuda[:N]``.
        threads: on a CPU, batches at work at a time, each with one thread: threads that wait for each other inside every
            operation lose most of a core as soon as something else runs on the machine.
    """

    def __init__(
        self, compute: Callable[[Sequence[np.ndarray]], torch.Tensor], budget: float, device: str, threads: int
    ) -> None:
        self.compute, self.budget, self.device, self.threads = compute, budget, device, threads
        self._lock = threading.Lock()

    def run(self, waves: Sequence[np.ndarray]) -> np.ndarray:
        """The embeddings float32 [files, d] of waveforms, in order.

        Raises:
            StageFailed: a single waveform does not fit into the memory of the device.
        """
        batches = form_batches([len(wave) for wave in waves], self.budget)
        on_cpu = torch.device(self.device).type == "cpu"

        def compute(batch: Sequence[int]) -> torch.Tensor:
            with torch.inference_mode():
                vectors = self._within_memory([waves[item] for item in batch])
            if on_cpu and sum(len(waves[item]) for item in batch) > LONG:
                memory.release_free_memory()
            return vectors

        if on_cpu:
            with inference(1), ThreadPoolExecutor(self.threads) as pool:
                parts = list(pool.map(compute, batches))
        else:
            # Nothing is fetched before all is launched: the processor prepares a batch while the GPU is at the one before.
            with inference(self.threads):
                parts = [compute(batch) for batch in batches]
        if not parts:
            return np.empty((0, 0), dtype=np.float32)
        vectors: np.ndarray = torch.cat(parts).cpu().numpy()
        return vectors[np.argsort([item for batch in batches for item in batch])]

    def embed(
        self,
        waves: Sequence[np.ndarray],
        dimension: int,
        longest: int,
        least: int,
        level: Callable[[np.ndarray], np.ndarray] = lambda wave: wave,
    ) -> list[Feature]:
        """The embedding of each waveform, float32 [n]; of long ones the mean over uniform pieces.

        Args:
            dimension: of an embedding.
            longest: samples of a piece at most; silent pieces of long audio do not count.
            least: what is shorter is repeated up to so many samples.
            level: what is done to a waveform that is not silent before it is cut.
        """
        reasons = [embedding.find_fault(wave) for wave in waves]
        pieces: list[np.ndarray] = []
        owners: list[int] = []
        for number, (wave, reason) in enumerate(zip(waves, reasons, strict=True)):
            parts = [] if reason else cut_evenly(level(wave), longest)
            parts = [part for part in parts if len(parts) == 1 or not embedding.find_fault(part)]
            pieces += [np.resize(part, least) if len(part) < least else part for part in parts]
            owners += [number] * len(parts)
        vectors, owner = self.run(pieces), np.array(owners)
        return [
            embedding.make_unusable(dimension, reason)
            if reason
            else embedding.make_feature(vectors[owner == number].mean(0))
            for number, reason in enumerate(reasons)
        ]

    def _within_memory(self, waves: Sequence[np.ndarray]) -> torch.Tensor:
        sizes = [len(wave) for wave in waves]
        if len(waves) == 1 or sum(sizes) <= self.budget:
            try:
                return self.compute(waves)
            except torch.OutOfMemoryError as error:
                if len(waves) == 1:
                    raise StageFailed(
                        f"{sizes[0] / 16_000:.0f} s of audio do not fit into the memory of {self.device}",
                        cause=str(error).splitlines()[0],
                        remedy="set longest_seconds of the extractor lower, or use another device",
                    ) from error
            self._halve(sum(sizes))
        # ``form_batches`` puts the longest first, and so does the batch that is cut here: its order is kept.
        return torch.cat(
            [self._within_memory([waves[item] for item in part]) for part in form_batches(sizes, self.budget)]
        )

    def _halve(self, failed: int) -> None:
        with self._lock:
            if failed / 2 < self.budget:
                self.budget = failed / 2
                LOG.warning(
                    "out of memory on %s with a batch of %.0f s: batches of %.0f s from here on",
                    self.device,
                    failed / 16_000,
                    self.budget / 16_000,
                )
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
