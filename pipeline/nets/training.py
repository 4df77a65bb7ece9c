"""What the trainers share: the loop over the steps, rounds over the data, the learning rate, and runs that can be repeated.

A trainer gives its network (a :class:`Learner`), batches, and what it is verified by (together a :class:`Course`);
:func:`follow_course` steps, verifies, saves, stops, and goes on where a training was stopped or killed.
"""

from __future__ import annotations

import json
import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from pipeline.errors import StageFailed
from pipeline.nets.checkpoints import Checkpoints, add_prefix, get_optimiser_tensors, restore_optimiser, take_prefix
from pipeline.seeds import digest, generator

if TYPE_CHECKING:
    import torch

    from pipeline.nets.verification import Verified

LOG = logging.getLogger(__name__)

RECORD = "training.json"

Batch = TypeVar("Batch")


@dataclass
class Standing:
    """How far a training is; plain values that go through JSON unchanged.

    Attributes:
        step: steps done.
        loss: of each step.
        verified: the step and the numbers of each verification.
        best: place of the best one, -1 before the first.
        micro_batch: items that go through the network at once.
    """

    step: int = 0
    loss: list[float] = field(default_factory=list)
    verified: list[dict[str, Any]] = field(default_factory=list)
    best: int = -1
    micro_batch: int = 0


class Learner(ABC, Generic[Batch]):
    """A network that learns, with its optimiser.

    Attributes:
        model: the network.
        optimiser: of its weights.
        micro_batch: items that go through the network at once.
    """

    model: Any
    optimiser: torch.optim.Optimizer
    micro_batch: int = 0

    @abstractmethod
    def gradients(self, step: int, batch: Batch) -> float:
        """Compute the mean gradient over a batch, and its mean loss."""

    @abstractmethod
    def update(self, step: int, steps: int) -> None:
        """Move the weights along the gradient."""

    def begin(self, stopping: Callable[[], bool]) -> bool:
        """What is done once before the first step; False if ``stopping`` said to end."""
        return True

    def weights(self) -> dict[str, torch.Tensor]:
        """A copy of what learns, on the CPU."""
        return {name: tensor.detach().cpu().clone() for name, tensor in self.model.state_dict().items()}

    def take(self, weights: dict[str, torch.Tensor]) -> None:
        """Go to what :meth:`weights` gave."""
        self.model.load_state_dict(weights)

    def tensors(self) -> dict[str, torch.Tensor]:
        """All that a checkpoint holds of the learner."""
        return {
            **add_prefix("model", self.model.state_dict()),
            **add_prefix("optimiser", get_optimiser_tensors(self.optimiser)),
        }

    def restore(self, tensors: dict[str, torch.Tensor]) -> None:
        """Go back to what :meth:`tensors` gave."""
        self.model.load_state_dict(take_prefix("model", tensors))
        restore_optimiser(self.optimiser, take_prefix("optimiser", tensors))

    def within_memory(
        self, accumulate: Callable[[], float], n: int, least: int, device: str, items: str, remedy: str
    ) -> float:
        """The loss of a step; where memory runs out, ``micro_batch`` is halved for good and the step begins again.

        Args:
            accumulate: computes gradients in parts of ``micro_batch``, and gives the loss.
            n: items of the step.
            least, device, items, remedy: as of :func:`halve`.

        Raises:
            StageFailed: parts of ``least`` items do not fit either.
        """
        import torch

        statistics = [buffer.clone() for buffer in self.model.buffers()]
        while True:
            try:
                return accumulate()
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                self.micro_batch = halve(self.micro_batch, n, least, device, items, str(error), remedy)
            # What the parts that did fit have moved goes back, or they would count twice.
            for buffer, value in zip(self.model.buffers(), statistics, strict=True):
                buffer.copy_(value)
            if torch.cuda.is_available():
                torch.cuda.empty_cache()


@dataclass(frozen=True, eq=False)
class Course(Generic[Batch]):
    """A training as the loop sees it.

    Attributes:
        learner: the network that learns.
        make_batch: the batch of a step (from 0).
        name_utterances: ids of the utterances of a batch.
        steps: in all.
        verify: the verification after so many steps; None where nothing is held out.
        verify_every: steps between verifications; None verifies after the last step alone.
        verify_first: whether it is verified before the first step too.
        patience: verifications without a better one after which training ends; None never ends it.
        keep_best: whether the weights with the best verification are taken in the end, and not the last.
    """

    learner: Learner[Batch]
    make_batch: Callable[[int], Batch]
    name_utterances: Callable[[Batch], list[str]]
    steps: int
    verify: Callable[[int], Verified] | None = None
    verify_every: int | None = None
    verify_first: bool = False
    patience: int | None = None
    keep_best: bool = True

    def is_settled(self, standing: Standing) -> bool:
        """Whether patience has run out."""
        waited = len(standing.verified) - 1 - standing.best
        return self.keep_best and self.patience is not None and waited >= self.patience


def follow_course(
    course: Course[Batch],
    checkpoints: Checkpoints,
    stopping: Callable[[], bool],
    progress: Callable[[int, int, float], None] | None,
) -> Standing | None:
    """Train until the last step or until patience runs out, from the checkpoint if there is one.

    Args:
        checkpoints: of this very training.
        stopping, progress: as of :meth:`pipeline.contracts.Trainer.train`.

    Returns:
        How it went; None if ``stopping`` said to end.

    Raises:
        StageFailed: the loss is not finite, with the ids of the batch.
    """
    learner, steps = course.learner, course.steps
    resumed = _resume(learner, checkpoints) or _begin(course, checkpoints, stopping)
    if resumed is None:
        return None
    standing, best = resumed
    last = standing.step if course.is_settled(standing) else steps
    for step, batch in make_ahead(course.make_batch, standing.step, last):
        loss = check_finite(learner.gradients(step, batch), step, course.name_utterances(batch))
        learner.update(step, steps)
        standing.step, standing.micro_batch = step + 1, learner.micro_batch
        standing.loss.append(loss)
        if progress is not None:
            progress(step + 1, steps, loss)
        due = step + 1 == steps or (step + 1) % (course.verify_every or steps) == 0
        if due and _verify(course, standing):
            best = learner.weights()
        stop = stopping()
        if due or stop or checkpoints.are_old():
            _save(learner, checkpoints, best, standing)
        if stop:
            return None
        if course.is_settled(standing):
            break
    if course.keep_best and best:
        learner.take(best)
    return standing


def _resume(learner: Learner[Any], checkpoints: Checkpoints) -> tuple[Standing, dict[str, torch.Tensor]] | None:
    """Put a learner where the checkpoint was: how far that is, and the best weights so far; None if there is none."""
    checkpoint = checkpoints.load()
    if checkpoint is None:
        return None
    tensors, progress = checkpoint
    standing = Standing(**progress)
    learner.restore(tensors)
    learner.micro_batch = standing.micro_batch
    LOG.info("going on from the checkpoint at step %d", standing.step)
    return standing, take_prefix("best", tensors)


def _begin(
    course: Course[Any], checkpoints: Checkpoints, stopping: Callable[[], bool]
) -> tuple[Standing, dict[str, torch.Tensor]] | None:
    standing, best = Standing(micro_batch=course.learner.micro_batch), {}
    if course.verify_first and _verify(course, standing):
        best = course.learner.weights()
    if not course.learner.begin(stopping):
        return None
    if course.verify_first:
        _save(course.learner, checkpoints, best, standing)
    return standing, best


def _save(learner: Learner[Any], checkpoints: Checkpoints, best: dict[str, torch.Tensor], standing: Standing) -> None:
    if checkpoints.scratch is not None:
        checkpoints.save({**learner.tensors(), **add_prefix("best", best)}, asdict(standing))


def _verify(course: Course[Any], standing: Standing) -> bool:
    """Verify on what is held out; whether that is the best so far."""
    if course.verify is None:
        return False
    verified = course.verify(standing.step)
    standing.verified.append({"step": standing.step, **asdict(verified)})
    if standing.best >= 0 and not verified.is_better_than(standing.verified[standing.best]):
        return False
    standing.best = len(standing.verified) - 1
    return True


def write_record(folder: Path, record: dict[str, Any]) -> None:
    """How weights came, beside them."""
    (folder / RECORD).write_text(json.dumps(record, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def list_libraries(*names: str) -> dict[str, str]:
    """The versions of distributions."""
    return {name: version(name) for name in names}


def take_rounds(n: int, step: int, batch: int, seed: int, purpose: str) -> np.ndarray:
    """The numbers below n that step's batch takes from an endless row of shuffled rounds over all of them, int64 [batch]."""
    places = np.arange(step * batch, (step + 1) * batch)
    orders = {turn: generator(seed, purpose, int(turn)).permutation(n) for turn in np.unique(places // n)}
    return np.array([orders[place // n][place % n] for place in places], dtype=np.int64)


def make_ahead(make: Callable[[int], Batch], first: int, last: int) -> Iterator[tuple[int, Batch]]:
    """The batches of steps ``first`` to ``last`` (exclusive), the next one made in a thread while one is worked on."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(make, first) if first < last else None
        for step in range(first, last):
            assert coming is not None
            batch = coming.result()
            coming = pool.submit(make, step + 1) if step + 1 < last else None
            yield step, batch


def check_finite(loss: float, step: int, utterances: Sequence[str]) -> float:
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


def is_out_of_memory(error: Exception) -> bool:
    """Whether an error says that memory has run out."""
    import torch

    # On a CPU torch raises a plain RuntimeError.
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or "can't allocate memory" in str(error)


def halve(at_once: int, n: int, least: int, device: str, items: str, cause: str, remedy: str) -> int:
    """How many of a step's n items go through the network at once after ``at_once`` did not fit into memory: half as many.

    Args:
        least: fewer than this are not tried.
        items: names them.
        cause: what torch said.
        remedy: what may help.

    Raises:
        StageFailed: that would be less than ``least``.
    """
    before = min(at_once, n)
    after = before // 2
    if after < least:
        raise StageFailed(
            f"{before} {items} do not fit into the memory of {device}",
            cause=(cause.splitlines() or ["out of memory"])[0],
            remedy=f"{remedy}, or use another device",
        )
    LOG.warning(
        "out of memory on %s with %d %s at once: %d at once from here on, still %d a step",
        device,
        before,
        items.split()[0],
        after,
        n,
    )
    return after


def rate_of_cosine(step: int, steps: int, warm_up: float) -> float:
    """Learning rate of a step (from 0) relative to the highest: linear rise over the warm-up, then a half cosine to zero."""
    rising = warm_up * steps
    if step < rising:
        return (step + 1) / (rising + 1)
    return 0.5 * (1 + math.cos(math.pi * (step - rising) / max(1.0, steps - rising)))


def rate_of_triangle(step: int, half_cycle: int) -> float:
    """Where a step (from 0) is between the lowest (0) and the highest (1) learning rate of a cycle (Smith 2017, arXiv
    1506.01186): up over ``half_cycle`` steps, down over as many, and again."""
    return 1 - abs(step / half_cycle % 2 - 1)


def seed_torch(seed: int, purpose: str, *ids: int) -> None:
    """Seed torch on all devices from (seed, purpose, ids) alone, so that nobody has to keep the state of its generators."""
    import torch

    torch.manual_seed(int(digest(seed, purpose, *ids)[:15], 16))


@contextmanager
def repeatable(threads: int) -> Iterator[None]:
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
