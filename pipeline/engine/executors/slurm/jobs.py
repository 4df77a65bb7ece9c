"""Jobs are handed to Slurm by submitit. This module is imported only where something is sent."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pipeline import slurm
from pipeline.errors import ConfigError

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
    held = {name: value for name, value in os.environ.items() if name.startswith("SLURM_") and name not in KEPT}
    for name in held:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(held)


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip(" -")]
    return lines[-1] if lines else type(error).__name__
