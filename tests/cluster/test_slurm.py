"""The same configuration on Slurm, through Hydra's submitit launcher."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import sweeps, toy
from tests.cluster.common import until

pytestmark = pytest.mark.cluster
SETTINGS = (
    "hydra.launcher.timeout_min=10", "hydra.launcher.cpus_per_task=1", "hydra.launcher.mem_gb=3",
    "hydra.launcher.array_parallelism=2",
)  # fmt: skip


def test_a_sweep_runs_as_a_job_array_and_runs_are_named_after_the_job(cluster: None, tmp_path: Path) -> None:
    runs = sweeps.sweep("submitit_slurm", toy.corpus(tmp_path / "toy"), tmp_path, *SETTINGS)
    sweeps.check(runs)
    jobs = [run.name.rsplit("-", 1)[1] for run in runs]
    assert sorted(job.split("_")[1] for job in jobs) == ["0", "1"] and len({job.split("_")[0] for job in jobs}) == 1
    log = (runs[0] / "run.log").read_text()
    assert f" {jobs[0]} INFO " in log and "with 1 threads" in log


def test_the_status_of_a_sweep_is_the_highest_of_its_jobs(cluster: None, tmp_path: Path) -> None:
    sweeps.check_failures("submitit_slurm", toy.corpus(tmp_path / "toy"), tmp_path, *SETTINGS)


HELD = """
import os
if "SLURM_JOB_ID" in os.environ:
    import time
    from pathlib import Path
    from pipeline.engine.store import Store
    gate, commit = Path(os.environ["HELD_AT"]), Store.commit
    def held(self, *arguments):
        gate.with_name("held-" + os.environ["SLURM_ARRAY_TASK_ID"]).touch()
        while not gate.exists():
            time.sleep(0.1)
        return commit(self, *arguments)
    Store.commit = held
"""


def test_cancelled_and_killed_jobs_are_said_as_what_they_are_and_the_others_go_on(
    cluster: None, tmp_path: Path
) -> None:
    root, gate = toy.corpus(tmp_path / "toy"), tmp_path / "gate"
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(HELD)
    path = os.pathsep.join([str(tmp_path / "site"), *filter(None, [os.environ.get("PYTHONPATH")])])
    systems = "original,b2,b2r,b2_vpc2022"
    with subprocess.Popen(
        [sys.executable, "-m", "pipeline", "-m", "hydra/launcher=submitit_slurm", *SETTINGS, *sweeps.QUICK, f"dataset.root={root}",
         f"system={systems}"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": path, "HELD_AT": str(gate)}, text=True, stdout=subprocess.PIPE,
        stderr=(tmp_path / "err").open("w"),
    ) as sweep:  # fmt: skip
        until(lambda: len(list(tmp_path.glob("held-*"))) == 2 or sweep.poll() is not None)
        said = (tmp_path / "err").read_text()
        job = said.partition("Slurm has the jobs ")[2].split("_")[0]
        logs = list(tmp_path.glob(f"exp/sweeps/*/.submitit/{job}_*/*.err"))
        subprocess.run(["scancel", f"{job}_1", f"{job}_3"], check=True)  # one that runs, and one that waits
        until(lambda: any("SIGTERM" in log.read_text() for log in logs))
        gate.touch()
        sweep.wait(toy.HANGS)
    said = (tmp_path / "err").read_text()
    assert sweep.returncode == 143, said
    assert "Traceback" not in said and "bug" not in said
    assert "job 0 (system=original): done" in said and "job 2 (system=b2r): done" in said
    assert "job 1 (system=b2): stopped by SIGTERM" in said and "job 3 (system=b2_vpc2022): error: cancelled" in said
    states = {json.loads(path.read_text())["state"] for path in tmp_path.glob(f"exp/runs/*-{job}_1/status.json")}
    assert states == {"stopped"}
