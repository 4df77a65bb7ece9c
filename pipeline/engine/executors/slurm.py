"""Jobs of a Slurm cluster: each performs a part of the graph, a last one gathers and reports.

The login node composes, validates, surveys, plans and sends. A job reads the run's configuration from its folder, plans again from
disk and performs its part (pipeline/evaluation/job.py). All that jobs know of each other lies in the store and in the run folder.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator

from pipeline import slurm
from pipeline.contracts import ComponentSettings, runtime
from pipeline.engine import contracts, failures, perform
from pipeline.engine.outcome import Outcome
from pipeline.engine.progress import Progress
from pipeline.engine.stop import Stop
from pipeline.engine.task import Task
from pipeline.engine.waves import Request, Wave, plan_waves
from pipeline.errors import ConfigError

EXTRA = frozenset(
    ("begin", "comment", "constraint", "cores-per-socket", "cpu-freq", "deadline", "exclude", "exclusive", "gpu-freq", "gres",
     "gres-flags", "hint", "licenses", "mail-type", "mail-user", "mem-per-cpu", "mem-per-gpu", "nice", "nodelist", "no-requeue",
     "prefer", "priority", "qos", "reservation", "switches", "threads-per-core", "time-min", "tmp", "wckey")
)  # fmt: skip
"""Options of sbatch that a configuration may give. The rest names files or shell lines, or is set by other fields; whoever needs it
gives it in the environment (``SBATCH_…``, see man sbatch)."""
SIGNAL_SECONDS = 60
"""So long before its time limit a job is told to end; the shard in flight has 20 seconds (pipeline/engine/stop.py)."""
LAST_MINUTES = 60
REPORT = "report"
"""The name of the last job where ``executor.stages`` speaks of it."""

Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.,:/@%+=*()\[\]|&!-]*$")]
"""A text that stands in a line of a job's script: no blanks, quotes or line ends."""
Value = bool | int | float | Word


class Amounts(ComponentSettings):
    """What the jobs of some tasks ask for, where it is another thing than other jobs do: null is as for those.

    Attributes:
        partition: of the cluster.
        account: that pays.
        time: minutes after which a job is ended.
        cpus: cores of a job.
        mem_gb: memory of a job.
        gpus: of a job.
        extra: further options of sbatch, beside those of all jobs.
    """

    partition: Word | None = runtime(None)
    account: Word | None = runtime(None)
    time: int | None = runtime(None, ge=1)
    cpus: int | None = runtime(None, ge=1)
    mem_gb: float | None = runtime(None, gt=0)
    gpus: int | None = runtime(None, ge=0)
    extra: dict[str, Value] = runtime({})

    _known = field_validator("extra")(classmethod(lambda cls, value: check_options(value)))


class Settings(ComponentSettings):
    """What jobs ask for.

    Attributes:
        partition: of the cluster; '' is its default.
        account: that pays; '' is the user's default.
        time: minutes after which a job is ended; what is lost by that is sent once more.
        cpus: cores of a job.
        mem_gb: memory of a job.
        gpus: of a job whose tasks use one: those of extract and train, and of systems that run on a GPU. 0: the cluster has none.
            No job asks for one with runtime.device=cpu.
        gpu: what else jobs with a GPU ask for instead, as in {partition: gpu}.
        stages: what the jobs of a stage ask for instead, as in {train: {time: 600}}; report is the job that gathers.
        extra: further options of sbatch, as in {qos: long, constraint: a100}.
        max_jobs: of one array that go on at once.
        chunk_minutes: work of a job, as far as it can be told: less waits in the queue too often, more loses time at a limit.
        retries: how often what was lost (scancel, a time limit, a node) is sent again although nothing of it was finished.
    """

    name: Literal["slurm"] = runtime("slurm")
    partition: Word = runtime("")
    account: Word = runtime("")
    time: int = runtime(240, ge=1)
    cpus: int = runtime(4, ge=1)
    mem_gb: float = runtime(16, gt=0)
    gpus: int = runtime(1, ge=0)
    gpu: Amounts = runtime(Amounts())
    stages: dict[str, Amounts] = runtime({})
    extra: dict[str, Value] = runtime({})
    max_jobs: int = runtime(100, ge=1)
    chunk_minutes: float = runtime(20, gt=0)
    retries: int = runtime(2, ge=0)

    _known = field_validator("extra")(classmethod(lambda cls, value: check_options(value)))


def check_options(extra: Mapping[str, Value]) -> Mapping[str, Value]:
    """Options of sbatch that may be given, with dashes."""
    plain = {name.lstrip("-").replace("_", "-"): value for name, value in extra.items()}
    wrong = sorted(plain.keys() - EXTRA)
    if wrong:
        raise ValueError(
            f"{', '.join(wrong)} may not stand here: of sbatch's options these may: {', '.join(sorted(EXTRA))}; "
            "others are given in the environment, as SBATCH_… (man sbatch)"
        )
    return plain


class Executor(contracts.Sender):
    """Sends the work to a cluster."""

    Settings: ClassVar[type[ComponentSettings]] = Settings

    def __init__(self, settings: Any, device: str = "cpu") -> None:
        super().__init__(settings, device)
        self.retries = settings.retries

    def require(self) -> None:
        """See :meth:`pipeline.engine.contracts.Sender.require`."""
        require_slurm()

    def shared_out(
        self, tasks: Sequence[Task], device: str, seconds: Callable[[Task], float], alone: bool = False
    ) -> list[Wave]:
        """See :meth:`pipeline.engine.contracts.Sender.shared_out`.

        Raises:
            ConfigError: a GPU is asked for, and no job may have one.
        """
        chunk = 0.0 if alone else 60.0 * self.settings.chunk_minutes
        shared = plan_waves(
            tasks, lambda task: self._ask(task.name, device != "cpu" and task.resources.device), seconds, chunk
        )
        using = any(task.resources.device for task in tasks)
        if device.startswith("cuda") and using and not any(wave.ask.device for wave in shared):
            raise ConfigError(
                f"runtime.device={device} has tasks use a GPU, and executor.gpus=0 gives no job one",
                where="executor.gpus, runtime.device",
                remedy="executor.gpus=1, or runtime.device=cpu",
            )
        return shared

    def send(
        self,
        name: str,
        shared: Sequence[Wave],
        calls: Sequence[Sequence[Callable[[], Any]]],
        others: Sequence[Sequence[str]],
        last: Callable[[], Any],
        folder: Path,
    ) -> list[list[str]]:
        """See :meth:`pipeline.engine.contracts.Sender.send`."""
        sent: list[list[str]] = []
        try:
            for wave, work, elsewhere in zip(shared, calls, others[:-1], strict=True):
                after = [job for place in wave.after for job in sent[place]]
                sent.append(submit(name, work, self._options(wave.ask), [*after, *elsewhere], folder))
            ask = self._ask(REPORT, False, time=min(LAST_MINUTES, self.settings.time))
            every = [job for wave_jobs in [*sent, *others] for job in wave_jobs]
            sent.append(submit(f"{name}-report", [last], self._options(ask), every, folder))
        except BaseException:
            cancel_jobs([job for wave_jobs in sent for job in wave_jobs])
            raise
        return sent

    def cancelling(self, sent: Sequence[str]) -> str:
        """See :meth:`pipeline.engine.contracts.Sender.cancelling`."""
        return f"scancel {' '.join(slurm.list_main_ids(sent))}"

    def states(self, sent: Sequence[str]) -> dict[str, tuple[bool, str]]:
        """See :meth:`pipeline.engine.contracts.Sender.states`."""
        answer = slurm.query_jobs(sent) if sent else slurm.Answer()
        return {job: (state not in slurm.ENDED, state) for job, (state, _) in answer.states.items()}

    def execute(
        self, tasks: Sequence[Task], stop: Stop, outcome: Outcome, progress: Progress, fail_fast: bool = False
    ) -> None:
        """Run tasks here and now, in turn; see :meth:`pipeline.engine.contracts.Executor.execute`."""
        failures.raise_failures(perform.perform_tasks(tasks, stop, outcome, progress, fail_fast))

    def _ask(self, stage: str, device: bool, **fields: Any) -> Request:
        own = self.settings.stages.get(stage, Amounts())
        gpus = self.settings.gpus if self.settings.gpu.gpus is None else self.settings.gpu.gpus
        gpus = own.gpus if own.gpus is not None else gpus * device
        amounts_asked = {
            name: getattr(self.settings, name) for name in ("partition", "account", "time", "cpus", "mem_gb")
        } | fields
        extra = dict(self.settings.extra)
        for amounts in [*([self.settings.gpu] if gpus else []), own]:
            fields_set = amounts.model_dump(exclude_none=True)
            extra |= fields_set.pop("extra")
            amounts_asked |= fields_set
        options = {**amounts_asked, "gpus": gpus, **{f"--{name}": value for name, value in extra.items()}}
        return Request(gpus > 0, tuple(sorted(options.items())))

    def _options(self, ask: Request) -> dict[str, Any]:
        amounts = dict(ask.options)
        extra = {name.removeprefix("--"): value for name, value in amounts.items() if name.startswith("--")}
        seconds = 60 * int(amounts["time"])
        options = {
            "timeout_min": amounts["time"],
            "cpus_per_task": amounts["cpus"],
            "mem_gb": amounts["mem_gb"],
            "slurm_array_parallelism": self.settings.max_jobs,
            # The scheduler looks twice a minute; a signal at the very start would find nobody who listens.
            "slurm_signal_delay_s": min(SIGNAL_SECONDS, seconds // 4),
            "slurm_additional_parameters": {"requeue": True, **{n: v for n, v in extra.items() if v is not False}},
        }
        if "no-requeue" in extra:
            del options["slurm_additional_parameters"]["requeue"]
        if amounts["gpus"] and "gres" not in extra:
            options["gpus_per_node"] = amounts["gpus"]
        for name in ("partition", "account"):
            if amounts[name]:
                options[f"slurm_{name}"] = amounts[name]
        return options


# Jobs are handed to Slurm by submitit -------------------------------------------------------------------------------

COMMANDS = ("sbatch", "srun", "squeue", "scancel")
MOST = 1000
"""Jobs of one array; Slurm's own limit (MaxArraySize) is 1001 unless a cluster says otherwise."""
KEPT = ("SLURM_CONF", "SLURM_CLUSTERS", "SLURM_TIME_FORMAT")
"""What of Slurm's variables is of the cluster; all else is of the job in which this process runs, if any."""


def require_slurm() -> None:
    """That jobs can be sent from here.

    Raises:
        ConfigError: they cannot.
    """
    try:
        import submitit  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            "executor=slurm needs submitit, which is not installed with this Python",
            where="executor",
            cause=str(error),
            remedy=f"{shlex.quote(sys.executable)} -m pip install 'voice-privacy-pipeline[slurm]'",
        ) from error
    absent = [command for command in COMMANDS if shutil.which(command) is None]
    if absent:
        raise ConfigError(
            f"there is no Slurm here: {', '.join(absent)} not found on the PATH",
            where="executor=slurm",
            cause="this machine is no node of a cluster, or the module that holds its commands is not loaded",
            remedy="run the same command on a login node, or with executor=local: all is then computed here",
        )


def submit(
    name: str, calls: Sequence[Callable[[], Any]], options: Mapping[str, Any], after: Sequence[str], folder: Path
) -> list[str]:
    """Hand calls to Slurm, a job each.

    Args:
        name: of the jobs.
        calls: small things that pickle.
        options: of submitit's.
        after: ids of jobs that have to end before, however they end.
        folder: where submitit keeps what it needs, and what the jobs print.

    Returns:
        The ids of the jobs, parts of an array as ARRAY_PART.

    Raises:
        ConfigError: Slurm does not take them; what it took of these is cancelled.
    """
    import submitit

    sent: list[str] = []
    python = f"{shlex.quote(sys.executable)} -P"  # a job imports nothing from the folder that it starts in
    executor = submitit.AutoExecutor(folder / "%j", cluster="slurm", slurm_python=python)
    more = {"slurm_dependency": f"afterany:{':'.join(slurm.list_main_ids(after))}"} if after else {}
    executor.update_parameters(name=name, **options, **more)
    try:
        with _leave_job():
            for start in range(0, len(calls), MOST):
                some = calls[start : start + MOST]
                sent += [str(job.job_id) for job in executor.map_array(_call, some)]
    except (submitit.core.utils.FailedJobError, submitit.core.utils.FailedSubmissionError) as error:
        cancel_jobs(sent)
        raise ConfigError(
            f"Slurm did not take the jobs: {_last_line(error)}",
            where="executor",
            cause="a partition, an account or an amount that this cluster does not have, more jobs than you may send at once, "
            "or no controller that answers",
            remedy="give what sinfo and sacctmgr show by executor.partition=…, .account=…, .time=MINUTES, .mem_gb=…, .cpus=… and .gpus=… "
            "(0: no job asks for a GPU), executor.stages={train: {partition: …}} for one stage; fewer, longer jobs by executor.chunk_minutes=…",
        ) from error
    except BaseException:
        cancel_jobs(sent)
        raise
    return sent


def cancel_jobs(jobs: Sequence[str]) -> None:
    """End jobs, as far as Slurm can be reached."""
    if jobs:
        with suppress(OSError, subprocess.SubprocessError):
            subprocess.run(["scancel", *slurm.list_main_ids(jobs)], capture_output=True, timeout=60, check=False)


def _call(call: Callable[[], Any]) -> Any:
    return call()


@contextmanager
def _leave_job() -> Iterator[None]:
    """Without what Slurm says to the job in which this process runs: jobs that are sent must not take it for their own."""
    variables = {name: value for name, value in os.environ.items() if name.startswith("SLURM_") and name not in KEPT}
    for name in variables:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(variables)


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip(" -")]
    return lines[-1] if lines else type(error).__name__
