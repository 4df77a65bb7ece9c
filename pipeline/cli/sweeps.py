"""The jobs of a command line: one, or under ``-m`` one for each combination; how each ended, and what all of them come to."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline import processes
from pipeline.cli.endings import ending
from pipeline.engine.stop import Stopped
from pipeline.errors import PipelineError

log = logging.getLogger(__name__)

WIDTH = 100
"""Letters of an error that stand in the table of jobs."""


@dataclass(frozen=True)
class Ended:
    """How a job of a sweep ended.

    Attributes:
        number: its place in the sweep.
        what: the overrides that tell it from the others.
        status: the exit status that it would have had alone.
        said: the error; '' if there was none.
    """

    number: int
    what: str
    status: int
    said: str = ""

    @property
    def name(self) -> str:
        return f"job {self.number}" + (f" ({self.what})" if self.what else "")


class JobFailed(PipelineError):
    """A job that ran under a launcher which gives its command nothing but an exception."""

    def __init__(self, what: str, *, status: int = 5, **more: Any) -> None:
        super().__init__(what, **more)
        self.status = status

    def __reduce__(self) -> tuple[object, ...]:
        return (_failed, (self.what, self.status))


def _failed(what: str, status: int) -> JobFailed:
    return JobFailed(what, status=status)


class Jobs:
    """What Hydra calls, once a job: here, or with another launcher in a process elsewhere, to which it is copied.

    Args:
        action: gets the composed configuration and the name of the recipe; gives the exit status.
        given: the command line, by which the overrides of a sweep are told from those that all its jobs share.
    """

    def __init__(self, action: Callable[[Any, str], int], given: Sequence[str]) -> None:
        self.action, self.given = action, tuple(given)
        self.process = processes.this_process()
        self.sweeps = self.collected = False
        self.error: Exception | None = None
        self.stopped = 0
        self._shared: set[str] | None = None
        self.ended: list[Ended] = []

    @property
    def status(self) -> int:
        """The highest exit status."""
        return max([self.stopped, *(one.status for one in self.ended)])

    @property
    def _here(self) -> bool:
        """Whether this is the process that was asked. On another machine, or in another container, one may have its number."""
        return processes.this_process() == self.process

    def __call__(self, composed: Any) -> Ended:
        from hydra.core.hydra_config import HydraConfig
        from hydra.types import RunMode

        config = HydraConfig.get()
        recipe = str(config.runtime.choices.get("recipe") or "custom")
        if config.mode != RunMode.MULTIRUN:
            launcher = str(config.runtime.choices.get("hydra/launcher") or "basic")
            if launcher != "basic":
                log.warning("hydra/launcher=%s is for sweeps (-m): this one runs here, in this process", launcher)
            return self._alone(composed, recipe)
        self.sweeps = True
        number, what = int(config.job.num), self.varied(config.overrides.task)
        ended = self._ended(number, what, composed, recipe)
        if self._here:
            self.tell(ended)
        elif ended.said:
            print(ended.said, file=sys.stderr)
            if not self.collected:
                raise JobFailed(f"{ended.name}: {ended.said}", status=ended.status)
        return ended

    def varied(self, overrides: Sequence[str]) -> str:
        """The overrides of one job that it does not share with all jobs of the sweep."""
        if self._shared is None:
            self._shared = set(filter(None, map(_shared, self.given)))
        return " ".join(one.removeprefix("++") for one in overrides if one.partition("=")[0] not in self._shared)

    def tell(self, ended: Ended) -> None:
        """Say at once how a job ended, and keep it."""
        self.sweeps = True
        self.ended.append(ended)
        if ended.said and (ended.status or not self.stopped):
            print(f"{ended.name}: {ended.said}", file=sys.stderr, flush=True)
        elif self.collected:
            log.info("%s: done", ended.name)

    def summarise(self) -> None:
        """Say what a sweep came to: a line a job, if any of several failed."""
        if self.collected and self.ended:
            log.info(
                "the jobs ran in processes of their own: run folders are in paths.root/runs, output in paths.root/sweeps"
            )
        bad = sum(bool(one.said) for one in self.ended)
        if not bad or len(self.ended) < 2:
            return
        log.info(
            "%d of %d jobs did not end well; the exit status is the highest, %d:", bad, len(self.ended), self.status
        )
        for one in sorted(self.ended, key=lambda one: one.number):
            first = one.said.strip().splitlines()[-1 if one.status == 1 else 0] if one.said else ""
            short = first if len(first) <= WIDTH else f"{first[: WIDTH - 1]}…"
            log.info("  %s: exit %d%s", one.name, one.status, f", {short}" if short else "")

    def _alone(self, composed: Any, recipe: str) -> Ended:
        # Hydra would add words of its own to an exception, so it is kept, and raised when Hydra has ended.
        status = 0
        try:
            status = self.action(composed, recipe)
        except Exception as error:
            self.error = error
        self.ended.append(Ended(0, "", status))
        return self.ended[-1]

    def _ended(self, number: int, what: str, composed: Any, recipe: str) -> Ended:
        if self.stopped:
            return Ended(number, what, 0, "not run, because the sweep was stopped before")
        try:
            return Ended(number, what, self.action(composed, recipe))
        except Stopped as error:
            self.stopped = error.status if self._here else 0
            return Ended(number, what, error.status, self._stopped(error))
        except Exception as error:
            return Ended(number, what, *ending(error))

    def _stopped(self, error: Stopped) -> str:
        told = f"{error}; run the same command again to go on"
        if self._here:
            return told
        if error.number == signal.SIGTERM:
            return f"{told} (cancelled, out of time or preempted; hydra.launcher.timeout_min=N gives more minutes)"
        handler = signal.getsignal(error.number)
        if callable(handler) and error.number in (signal.SIGUSR1, signal.SIGUSR2):
            # The launcher's own answer to the signal before a limit: it has the job started anew, or says why it does not.
            try:
                handler(error.number, None)
            except RuntimeError as refusal:
                told = f"{told} ({str(refusal).rstrip('.')}; hydra.launcher.timeout_min=N gives more minutes)"
        return told


def _shared(argument: str) -> str:
    """The key of an override that is the same for all jobs; '' for anything else."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        parsed = OverridesParser.create().parse_override(argument)
    except HydraException:  # a flag, or the folder that belongs to it
        return ""
    return "" if parsed.is_sweep_override() else str(parsed.get_key_element())
