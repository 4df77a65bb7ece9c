"""The same configuration on Slurm, through Hydra's submitit launcher."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests import sweeps, toy

pytestmark = pytest.mark.cluster
SETTINGS = (
    "hydra.launcher.timeout_min=10", "hydra.launcher.cpus_per_task=1", "hydra.launcher.mem_gb=3",
    "hydra.launcher.array_parallelism=2",
)  # fmt: skip


@pytest.fixture(scope="module")
def cluster() -> None:
    if shutil.which("sbatch") is None:
        pytest.skip("no Slurm on this machine")
    if subprocess.run(["sinfo", "-h", "-o", "%T"], capture_output=True, check=False).returncode:
        pytest.skip("Slurm is installed, but no controller answers")


def test_a_sweep_runs_as_a_job_array_and_runs_are_named_after_the_job(cluster: None, tmp_path: Path) -> None:
    runs = sweeps.sweep("submitit_slurm", toy.corpus(tmp_path / "toy"), tmp_path, *SETTINGS)
    sweeps.check(runs)
    jobs = [run.name.rsplit("-", 1)[1] for run in runs]
    assert sorted(job.split("_")[1] for job in jobs) == ["0", "1"] and len({job.split("_")[0] for job in jobs}) == 1
    log = (runs[0] / "run.log").read_text()
    assert f" {jobs[0]} INFO " in log and "with 1 threads" in log


def test_the_status_of_a_sweep_is_the_highest_of_its_jobs(cluster: None, tmp_path: Path) -> None:
    sweeps.check_failures("submitit_slurm", toy.corpus(tmp_path / "toy"), tmp_path, *SETTINGS)
