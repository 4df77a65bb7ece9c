"""What an executor is: it runs tasks, in its own process or by those that it sends jobs to."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.contracts import Component

if TYPE_CHECKING:
    from pipeline.engine.outcome import Outcome
    from pipeline.engine.progress import Progress
    from pipeline.engine.stop import Stop
    from pipeline.engine.task import Task
    from pipeline.engine.waves import Wave


class Executor(Component):
    """Runs tasks: each is found in the store or computed, and committed before anything that stands on it begins.

    Args:
        settings: of this executor.
        device: that the tasks were planned for: ``cpu``, ``cuda`` or ``cuda:N``.
    """

    def __init__(self, settings: Any, device: str = "cpu") -> None:
        self.settings, self.device = settings, device

    def threads(self, cores: int) -> int:
        """How many threads each process that performs tasks has, where all of them together may use so many cores, and the user
        asked for no number."""
        return cores

    def at_once(self) -> int:
        """How many tasks are performed at once on this machine, for estimates."""
        return 1

    @abstractmethod
    def execute(
        self, tasks: Sequence[Task], stop: Stop, outcome: Outcome, progress: Progress, fail_fast: bool = False
    ) -> None:
        """Run tasks, given sources first, and add what they made to the outcome.

        A failed task does not end the run: what does not stand on it is still computed, then all failures are reported.

        Args:
            tasks: the graph.
            stop: looked at between tasks.
            outcome: what is made already, and the store where artefacts are found and put; it is added to.
            progress: told of tasks that begin, end and fail.
            fail_fast: after the first failure nothing more is begun.

        Raises:
            Stopped: a signal arrived; what is finished stays.
            PipelineError: one or more tasks failed; the status is that of all of them, or 5 where they have several.
        """


class Sender(Executor):
    """Has others do the work, later and on other machines, and does not wait for them. What is missing of an evaluation is shared out
    and sent; what has to be there before anything can be planned, it executes in its own process.

    Attributes:
        retries: how often what was lost is sent again although nothing was finished in the round before.
    """

    retries: int = 0

    @abstractmethod
    def require(self) -> None:
        """That it can send from here; asked before anything is computed.

        Raises:
            ConfigError: it cannot.
        """

    @abstractmethod
    def shared_out(
        self, tasks: Sequence[Task], device: str, seconds: Callable[[Task], float], alone: bool = False
    ) -> list[Wave]:
        """What its jobs are.

        Args:
            tasks: those that are missing, sources first.
            device: ``cpu``, or anything else where tasks that can use an accelerator are to have one.
            seconds: how long a task will take, as far as it can be told.
            alone: each task is to have a job of its own.

        Raises:
            ConfigError: no job may have what a task needs.
        """

    @abstractmethod
    def send(
        self,
        name: str,
        shared: Sequence[Wave],
        calls: Sequence[Sequence[Callable[[], Any]]],
        others: Sequence[Sequence[str]],
        last: Callable[[], Any],
        folder: Path,
    ) -> list[list[str]]:
        """Send it all, or nothing.

        Args:
            name: of the jobs, for those who look at the queue.
            shared: what :meth:`shared_out` gave.
            calls: by wave, what each job does: small things that pickle and hold no work.
            others: by wave, jobs of other runs that have to end before; then those that have to end before the last one.
            last: what is done when all jobs have ended, however they did.
            folder: for what it writes, and what jobs print.

        Returns:
            The ids of the jobs of each wave, then that of the last one.

        Raises:
            ConfigError: they are not taken.
        """

    @abstractmethod
    def cancelling(self, sent: Sequence[str]) -> str:
        """The command that ends these jobs."""

    @abstractmethod
    def states(self, sent: Sequence[str]) -> dict[str, tuple[bool, str]]:
        """Whether each of these jobs goes on, and its state in words; without those of which nothing is known."""
