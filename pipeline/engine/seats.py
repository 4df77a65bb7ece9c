"""Places for worker processes on this machine: how many, and which GPU each of them sees."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class Place:
    """A place for a worker.

    Attributes:
        number: from 1 on.
        device: whether it has an accelerator.
        where: what people call it.
        environment: variables that its process gets.
    """

    number: int
    device: bool
    where: str
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Gpu:
    """A GPU: what people call it, and what CUDA_VISIBLE_DEVICES is for a process that is to see no other; None leaves it as it is."""

    name: str
    visible: str | None


def list_gpus(device: str, environment: Mapping[str, str], count: Callable[[], int]) -> list[Gpu]:
    """The GPUs that a run may use.

    Args:
        device: that tasks were planned for. With a number, it is that GPU alone, and tasks name it so.
        environment: of this process; names of GPUs in CUDA_VISIBLE_DEVICES may be numbers or UUIDs.
        count: how many this process sees.
    """
    if not device.startswith("cuda"):
        return []
    if device != "cuda":
        return [Gpu(device, None)]
    seen = max(count(), 1)
    given = environment.get(VISIBLE, "").strip()
    names = [name.strip() for name in given.split(",")][:seen] if given else [str(n) for n in range(seen)]
    return [Gpu(f"cuda:{number}", name) for number, name in enumerate(names)]


def count_gpus() -> int:
    """How many GPUs torch sees."""
    import torch

    return torch.cuda.device_count()


def plan_places(workers: int | None, beside: int | None, found: Sequence[Gpu], cores: int) -> list[Place]:
    """The workers of a run.

    Args:
        workers: how many; None is one a GPU, or one for every two cores where there is none.
        beside: how many without a GPU stand beside those with one; None is one for every two cores that are left after two a GPU.
        found: the GPUs. Where more workers are asked for, they share them in turn.
        cores: for all workers together.
    """

    def of(number: int, device: bool) -> Place:
        gpu = found[(number - 1) % len(found)] if found else None
        # Those without a GPU of their own see one all the same: nothing is to fail because it asks.
        environment = {VISIBLE: gpu.visible} if gpu is not None and gpu.visible is not None else {}
        where = f"worker {number}, {gpu.name}" if gpu is not None and device else f"worker {number}"
        # Threads that wait for each other in a loop take the cores from other workers; no number depends on it.
        return Place(number, device, where, {"OMP_WAIT_POLICY": "PASSIVE", **environment})

    if not found:
        return [of(number, False) for number in range(1, (workers or max(1, cores // 2)) + 1)]
    working = workers or len(found)
    others = max(1, (cores - 2 * working) // 2) if beside is None else beside
    return [of(number, number <= working) for number in range(1, working + others + 1)]
