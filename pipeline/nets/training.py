"""What the trainers share: rounds over the data, the learning rate, batches made ahead, and runs that can be repeated."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from pipeline.errors import StageFailed
from pipeline.seeds import digest, generator

LOG = logging.getLogger(__name__)

Batch = TypeVar("Batch")


def rounds(n: int, step: int, batch: int, seed: int, purpose: str) -> np.ndarray:
    """The numbers below n that step's batch takes from an endless row of shuffled rounds over all of them, int64 [batch]."""
    places = np.arange(step * batch, (step + 1) * batch)
    orders = {turn: generator(seed, purpose, int(turn)).permutation(n) for turn in np.unique(places // n)}
    return np.array([orders[place // n][place % n] for place in places], dtype=np.int64)


def ahead(make: Callable[[int], Batch], first: int, last: int) -> Iterator[tuple[int, Batch]]:
    """The batches of steps ``first`` to ``last`` (exclusive), the next one made in a thread while one is worked on."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(make, first) if first < last else None
        for step in range(first, last):
            assert coming is not None
            batch = coming.result()
            coming = pool.submit(make, step + 1) if step + 1 < last else None
            yield step, batch


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


def out_of_memory(error: Exception) -> bool:
    """Whether an error says that memory has run out."""
    import torch

    # On a CPU torch raises a plain RuntimeError.
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or "can't allocate memory" in str(error)


def halved(at_once: int, n: int, least: int, device: str, what: str, cause: str, remedy: str) -> int:
    """How many of a step's n items go through the network at once after ``at_once`` did not fit into memory: half as many.

    Args:
        least: fewer than this are not tried.
        what: names the items.
        cause: what torch said.
        remedy: what may help.

    Raises:
        StageFailed: that would be less than ``least``.
    """
    before = min(at_once, n)
    after = before // 2
    if after < least:
        raise StageFailed(
            f"{before} {what} do not fit into the memory of {device}",
            cause=(cause.splitlines() or ["out of memory"])[0],
            remedy=f"{remedy}, or use another device",
        )
    kind = what.split()[0]
    LOG.warning(
        "out of memory on %s with %d %s at once: %d at once from here on, still %d a step",
        device,
        before,
        kind,
        after,
        n,
    )
    return after


def cosine(step: int, steps: int, warm_up: float) -> float:
    """Learning rate of a step (from 0) relative to the highest: linear rise over the warm-up, then a half cosine to zero."""
    rising = warm_up * steps
    if step < rising:
        return (step + 1) / (rising + 1)
    return 0.5 * (1 + math.cos(math.pi * (step - rising) / max(1.0, steps - rising)))


def triangular(step: int, half_cycle: int) -> float:
    """Where a step (from 0) is between the lowest (0) and the highest (1) learning rate of a cycle (Smith 2017, arXiv
    1506.01186): up over ``half_cycle`` steps, down over as many, and again."""
    return 1 - abs(step / half_cycle % 2 - 1)


def seeded(seed: int, purpose: str, *ids: int) -> None:
    """Seed torch on all devices from (seed, purpose, ids) alone, so that nobody has to keep the state of its generators."""
    import torch

    torch.manual_seed(int(digest(seed, purpose, *ids)[:15], 16))


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
