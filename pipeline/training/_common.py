"""What the trainers share: utterances kept once decoded, the learning rate, and runs that can be repeated."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from pipeline.errors import DataError, StageFailed
from pipeline.registry import generator

# Waveforms are kept once decoded, up to this many samples (2 GiB): a demonstration decodes each file once.
_KEPT_SAMPLES = 512 * 2**20


class Utterances:
    """Utterances to train on, decoded when they are asked for."""

    def __init__(self, load: Callable[[int], np.ndarray], names: Sequence[str]) -> None:
        self.load, self.names = load, names
        self.kept: dict[int, np.ndarray] = {}
        self.n_kept = 0

    def __getitem__(self, item: int) -> np.ndarray:
        """Utterance i, float32 [n], n >= 1.

        Raises:
            DataError: it has no samples or some that are not finite.
        """
        if item in self.kept:
            return self.kept[item]
        wave = np.asarray(self.load(item), dtype=np.float32)
        if len(wave) == 0 or not np.isfinite(wave).all():
            raise DataError(
                "an utterance to train on has no samples, or some that are not finite", where=self.names[item]
            )
        if self.n_kept + len(wave) <= _KEPT_SAMPLES:
            self.kept[item] = wave
            self.n_kept += len(wave)
        return wave


def rounds(n: int, step: int, batch: int, seed: int, purpose: str) -> np.ndarray:
    """The numbers below n that step's batch takes from an endless row of shuffled rounds over all of them, int64 [batch]."""
    places = np.arange(step * batch, (step + 1) * batch)
    orders = {turn: generator(seed, purpose, int(turn)).permutation(n) for turn in np.unique(places // n)}
    return np.array([orders[place // n][place % n] for place in places], dtype=np.int64)


def finite(loss: float, step: int, utterances: Sequence[str]) -> float:
    """The loss of a step, if it is a number.

    Raises:
        StageFailed: it is not, with the ids of the batch.
    """
    if not math.isfinite(loss):
        raise StageFailed(
            f"the training loss is {loss} at step {step}",
            where=f"utterances {', '.join(utterances)}",
            cause="a learning rate that is too high, or audio that is not speech",
            remedy="listen to these utterances, or lower learning_rate",
        )
    return loss


def schedule(step: int, steps: int, warm_up: float) -> float:
    """Learning rate of a step (from 0) relative to the highest: linear rise over the warm-up, then a half cosine to zero."""
    rising = warm_up * steps
    if step < rising:
        return (step + 1) / (rising + 1)
    return 0.5 * (1 + math.cos(math.pi * (step - rising) / max(1.0, steps - rising)))


@contextmanager
def determinism(threads: int) -> Iterator[None]:
    """Threads, deterministic algorithms and a random state of its own, all put back afterwards."""
    import torch

    before = torch.get_num_threads()
    strict, warn_only = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    memory: Any = torch.utils.deterministic
    filled = memory.fill_uninitialized_memory
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True, warn_only=True)
    # Nothing here reads what it has not written; filling all of it costs a tenth of the time.
    memory.fill_uninitialized_memory = False
    try:
        with torch.random.fork_rng(), torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True):
            yield
    finally:
        torch.use_deterministic_algorithms(strict, warn_only=warn_only)
        memory.fill_uninitialized_memory = filled
        torch.set_num_threads(before)
