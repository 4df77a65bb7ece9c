"""Slurm: whether jobs could be sent from here."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from importlib import metadata

from pipeline.evaluation.doctor import installation
from pipeline.evaluation.doctor.finding import CONFIG, Finding, fault, ok, warning
from pipeline.stages.settings import Evaluation

COMMANDS = ("sbatch", "squeue", "scancel")
SECONDS = 20.0


def slurm(asked: Evaluation) -> Iterator[Finding]:
    """Its commands, its answer, its partitions and the library that sends jobs: faults where ``executor=slurm`` is asked for."""
    wanted = asked.executor.name == "slurm"

    def wrong(what: str, remedy: str) -> Finding:
        return fault("slurm", what, remedy, CONFIG) if wanted else warning("slurm", what, remedy)

    lacking = [name for name in COMMANDS if shutil.which(name) is None]
    if len(lacking) == len(COMMANDS) and not wanted:
        yield ok("slurm", "not here: executor=slurm has no use")
        return
    if lacking:
        what = f"{', '.join(lacking)} cannot be found: no job can be sent from this machine"
        yield wrong(
            what, "log in to a node of the cluster, load its Slurm (`module load slurm`), or set executor=local"
        )
        return
    yield from (wrong(*one) if isinstance(one, tuple) else one for one in _answers())
    try:
        yield ok("slurm", f"submitit {metadata.version('submitit')}")
    except metadata.PackageNotFoundError:
        yield wrong("submitit is not installed, which sends the jobs", installation.install_of("slurm"))


def _answers() -> Iterator[Finding | tuple[str, str]]:
    """What Slurm says, or (what is wrong, what mends it)."""
    for command, use in (
        (["squeue", "--noheader", "--states=RUNNING", "--format=%i"], "its queue"),
        (["sinfo", "--noheader", "--format=%P %a %D nodes, at most %l"], "partitions"),
    ):
        try:
            asked = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False
            )
        except (OSError, subprocess.SubprocessError) as error:
            yield f"{command[0]} gives no answer: {error}", "see whether the cluster is up (`scontrol ping`)"
            return
        if asked.returncode:
            said = " ".join(asked.stderr.split()) or f"exit status {asked.returncode}"
            yield f"{command[0]} gives no answer: {said}", "see whether the cluster is up (`scontrol ping`)"
            return
        lines = [" ".join(line.split()) for line in asked.stdout.splitlines() if line.strip()]
        if use == "partitions":
            yield (
                ok("slurm", f"partitions: {'; '.join(lines[:10])}")
                if lines
                else ("there is no partition", "ask the administrator")
            )
        else:
            yield ok("slurm", f"it answers; {len(lines)} jobs are running")
