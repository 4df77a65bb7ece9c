"""Hydra's submitit launchers, which here wait for all jobs and tell of each as it ends.

The plugin's own raise at the first job that is lost, and know nothing of the exit statuses of the others. This module is
imported only where the plugin is installed.
"""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import signal
import sys
import time
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import submitit
from hydra.core.plugins import Plugins
from hydra.core.singleton import Singleton
from hydra.core.utils import JobReturn
from hydra_plugins.hydra_submitit_launcher import submitit_launcher
from hydra_plugins.hydra_submitit_launcher.config import BaseQueueConf

from pipeline import processes
from pipeline.cli import queue
from pipeline.cli.sweeps import Ended, Jobs
from pipeline.contracts import Sender
from pipeline.engine.stop import Stopped
from pipeline.errors import ConfigError
from pipeline.registry import component, names

log = logging.getLogger(__name__)

POLL_SECONDS = 0.5
LATE_SECONDS = 15.0
"""A network file system may show the result of a job so long after its end."""
COMMANDS = ("sbatch", "srun", "squeue")
COMMON = frozenset(BaseQueueConf.__dataclass_fields__)


def install() -> None:
    """Have Hydra use these launchers in place of the plugin's."""
    known = Plugins.instance().class_name_to_class
    for plugin, ours in ((submitit_launcher.LocalLauncher, Local), (submitit_launcher.SlurmLauncher, Slurm)):
        known[f"{plugin.__module__}.{plugin.__name__}"] = ours


class _Waiting(submitit_launcher.BaseSubmititLauncher):  # type: ignore[misc]
    """Sends jobs, waits for all, and tells of each when it has ended."""

    task_function: Jobs

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Run a job for each list of overrides.

        Raises:
            ConfigError: the jobs cannot be sent.
            Stopped: a signal arrived.
        """
        jobs = self.task_function
        jobs.collected = True
        self.require()
        _refuse_senders(job_overrides)
        numbers = [initial_job_idx + place for place in range(len(job_overrides))]
        sent = self._send(job_overrides, numbers)
        waiting = {
            number: (job, jobs.varied(overrides)) for number, job, overrides in zip(numbers, sent, job_overrides)
        }
        with self.listening(sent):
            while waiting:
                for number, (job, what) in list(waiting.items()):
                    ended = self._look(job, number, what)
                    if ended is not None:
                        del waiting[number]
                        jobs.tell(ended)
                if waiting:
                    time.sleep(POLL_SECONDS)
        return []

    def _send(self, job_overrides: Sequence[Sequence[str]], numbers: Sequence[int]) -> list[submitit.Job[JobReturn]]:
        own = {"submitit_folder", "max_num_timeout"}
        prefix = f"{self._EXECUTOR}_"
        Path(str(self.config.hydra.sweep.dir)).mkdir(parents=True, exist_ok=True)
        more = {f"{prefix}max_num_timeout": self.params["max_num_timeout"]} if "max_num_timeout" in self.params else {}
        more[f"{prefix}python"] = (
            f"{shlex.quote(sys.executable)} -P"  # a job imports nothing from the folder that it starts in
        )
        executor = submitit.AutoExecutor(self.params["submitit_folder"], cluster=self._EXECUTOR, **more)
        settings = {name: value for name, value in self.params.items() if name not in own}
        executor.update_parameters(
            **{name if name in COMMON else f"{prefix}{name}": value for name, value in settings.items()}
        )
        count, state = len(numbers), Singleton.get_state()
        with processes.isolate_python():  # submitit starts its local controller without flags
            sent: list[submitit.Job[JobReturn]] = executor.map_array(
                self, [list(one) for one in job_overrides], ["hydra.sweep.dir"] * count, numbers,
                [f"job_id_for_{number}" for number in numbers], [state] * count,
            )  # fmt: skip
        return sent

    def _look(self, job: submitit.Job[JobReturn], number: int, what: str) -> Ended | None:
        """How a job ended; None while it goes on."""
        if not _has_result(job):
            lost = self.lost(job)
            if lost is None:
                return None
            late = time.monotonic() + LATE_SECONDS
            while not _has_result(job) and time.monotonic() < late and lost[0] not in (137, 143):
                time.sleep(POLL_SECONDS)
            if not _has_result(job):
                return Ended(number, what, lost[0], _with_log(lost[1], job))
        try:
            (returned,) = job.results()
            ended = returned.return_value
        except Exception as error:
            return Ended(number, what, 5, _with_log(f"error: it ended without a result ({_last_line(error)})", job))
        assert isinstance(ended, Ended)
        return ended

    def require(self) -> None:
        """That jobs can be sent.

        Raises:
            ConfigError: they cannot.
        """
        if int(self.params.get("nodes") or 1) * int(self.params.get("tasks_per_node") or 1) != 1:
            raise ConfigError(
                "a job of a sweep is one process; several would each evaluate the same",
                where="hydra.launcher.nodes, hydra.launcher.tasks_per_node",
                remedy="leave both at 1; hydra.launcher.cpus_per_task=N gives a job more cores",
            )

    @abstractmethod
    def lost(self, job: submitit.Job[JobReturn]) -> tuple[int, str] | None:
        """Exit status and reason of a job that has ended without a result; None if it goes on."""

    @abstractmethod
    def listening(self, sent: Sequence[submitit.Job[JobReturn]]) -> Any:
        """What a signal to this process does to the jobs, while the body runs."""


def _refuse_senders(job_overrides: Sequence[Sequence[str]]) -> None:
    """That no job would do nothing but send jobs.

    Raises:
        ConfigError: one would.
    """
    chosen = {one.partition("=")[2] for overrides in job_overrides for one in overrides if one.startswith("executor=")}
    for name in sorted(chosen & set(names("executors"))):
        if issubclass(component("executors", name), Sender):
            raise ConfigError(
                f"executor={name} sends the work of each run to the cluster itself, and a job that only sends jobs is one too many",
                where="hydra/launcher",
                remedy=f"leave out hydra/launcher=…: `-m executor={name}` sends all combinations from here; or leave out executor={name}",
            )


class Local(_Waiting, submitit_launcher.LocalLauncher):  # type: ignore[misc]
    """Processes on this machine."""

    def lost(self, job: submitit.Job[JobReturn]) -> tuple[int, str] | None:
        """See :class:`_Waiting`."""
        if not job.done():
            return None
        return 137, "error: it ended without a result: killed, perhaps because memory ran out"

    @contextmanager
    def listening(self, sent: Sequence[submitit.Job[JobReturn]]) -> Iterator[None]:
        """SIGTERM and SIGHUP go on to the jobs, which end as they would alone; Ctrl-C reaches them by itself."""

        def handle(number: int, _: FrameType | None) -> None:
            for job in sent:
                if not job.done():
                    os.kill(int(job.job_id), signal.SIGTERM)

        with _handling(handle, (signal.SIGTERM, signal.SIGHUP)):
            yield


class Slurm(_Waiting, submitit_launcher.SlurmLauncher):  # type: ignore[misc]
    """Jobs of a cluster."""

    def require(self) -> None:
        """See :class:`_Waiting`."""
        absent = [command for command in COMMANDS if shutil.which(command) is None]
        if absent:
            raise ConfigError(
                f"there is no Slurm here: {', '.join(absent)} not found on the PATH",
                where="hydra/launcher=submitit_slurm",
                cause="this machine is no node of a cluster, or the module that holds its commands is not loaded",
                remedy="run the same command on a login node, or leave out hydra/launcher=submitit_slurm: the jobs then run "
                "here, one after the other",
            )
        super().require()

    def _send(self, job_overrides: Sequence[Sequence[str]], numbers: Sequence[int]) -> list[submitit.Job[JobReturn]]:
        try:
            sent = super()._send(job_overrides, numbers)
        except (submitit.core.utils.FailedJobError, submitit.core.utils.FailedSubmissionError) as error:
            raise ConfigError(
                f"Slurm did not take the jobs: {_last_line(error)}",
                where="hydra.launcher",
                cause="a partition, an account or an amount that this cluster does not have, or no controller that answers",
                remedy="give what sinfo and sacctmgr show by hydra.launcher.partition=…, .account=…, .timeout_min=…, .mem_gb=… "
                "and .cpus_per_task=…",
            ) from error
        self._queue = queue.Queue([job.job_id for job in sent])
        log.info("Slurm has the jobs %s", ", ".join(job.job_id for job in sent))
        return sent

    def lost(self, job: submitit.Job[JobReturn]) -> tuple[int, str] | None:
        """See :class:`_Waiting`."""
        return self._queue.ended(job.job_id, began=job.paths.stderr.exists())

    @contextmanager
    def listening(self, sent: Sequence[submitit.Job[JobReturn]]) -> Iterator[None]:
        """The jobs of a cluster go on without this process, which says how to end them."""

        def handle(number: int, _: FrameType | None) -> None:
            raise Stopped(number)

        try:
            with _handling(handle, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)):
                yield
        except Stopped as error:
            ids = sorted({job.job_id.partition("_")[0] for job in sent})
            log.warning("%s; the jobs go on. This ends them: scancel %s", error, " ".join(ids))
            raise


@contextmanager
def _handling(handle: Any, numbers: Sequence[int]) -> Iterator[None]:
    heard = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handle) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _has_result(job: submitit.Job[JobReturn]) -> bool:
    folder = job.paths.folder
    with suppress(OSError):
        os.utime(folder)  # a network file system then looks anew
    return bool(job.paths.result_pickle.exists())


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip(" -")]
    return lines[-1] if lines else type(error).__name__


def _with_log(said: str, job: submitit.Job[JobReturn]) -> str:
    return f"{said}. What it printed: {job.paths.stderr}" if job.paths.stderr.exists() else f"{said}. It had not begun"
