"""A Slurm of one node on this machine, all of it in one folder: munged, slurmctld and slurmd, on ports of their own.

    python -m tests.cluster.slurm start [FOLDER]     prints the line that has a shell use it
    python -m tests.cluster.slurm stop [FOLDER]

Debian and Ubuntu have the programs in the packages slurm-wlm and munge. Nothing is written outside the folder, and whoever starts it owns
it; there is no accounting database.
"""

from __future__ import annotations

import getpass
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel", "scontrol", "sinfo")
SBIN = ("/usr/sbin", "/sbin", "/usr/local/sbin")
DAEMONS = ("slurmd", "slurmctld", "munged")
SECONDS = 60
ANSWER_SECONDS = 15


def missing() -> list[str]:
    """Programs that are not installed."""
    return [name for name in PROGRAMS if _which(name) is None]


def answers() -> bool:
    """Whether a controller answers, as the commands of this process find it."""
    try:
        asked = subprocess.run(
            ["sinfo", "--noheader"], capture_output=True, text=True, timeout=ANSWER_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:  # without a configuration it looks for a controller for a minute
        return False
    return asked.returncode == 0 and bool(asked.stdout.strip())


def start(folder: Path) -> Path:
    """Start the daemons in a folder; the configuration, for ``SLURM_CONF``.

    Args:
        folder: below folders that everybody may enter: munged wants its socket to be reached by all.

    Raises:
        RuntimeError: the node does not become ready.
    """
    folder = folder.resolve()
    for name in ("state", "spool"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    key = folder / "munge.key"
    if not key.exists():
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o400)
    conf = folder / "slurm.conf"
    conf.write_text(_configuration(folder))
    environment = {**os.environ, "SLURM_CONF": str(conf)}
    _run(
        ["munged", f"--socket={folder}/munge.socket", f"--key-file={key}", f"--pid-file={folder}/munged.pid",
         f"--log-file={folder}/munged.log", f"--seed-file={folder}/munged.seed"], environment,
    )  # fmt: skip
    _run(["slurmctld", "-f", str(conf)], environment)
    _run(["slurmd", "-f", str(conf)], environment)
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        asked = subprocess.run(
            ["sinfo", "--noheader", "--format=%T"], capture_output=True, text=True, env=environment, check=False
        )
        if asked.stdout.strip() == "idle":
            return conf
        time.sleep(0.5)
    stop(folder)
    raise RuntimeError(f"the node did not become idle: see {folder}/*.log")


def stop(folder: Path) -> None:
    """End the daemons that :func:`start` started there, and wait for that."""
    ended = []
    for name in DAEMONS:
        with suppress(OSError, ValueError):
            pid = int((folder / f"{name}.pid").read_text())
            os.kill(pid, signal.SIGTERM)
            ended.append(pid)
    until = time.monotonic() + SECONDS
    while any(Path(f"/proc/{pid}").exists() for pid in ended) and time.monotonic() < until:
        time.sleep(0.1)


def _configuration(folder: Path) -> str:
    host, user = socket.gethostname().partition(".")[0], getpass.getuser()
    megabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20 * 9 // 10
    controller, node = _free_ports(2)
    return "\n".join(
        [
            "ClusterName=tests",
            f"SlurmctldHost={host}(127.0.0.1)",
            f"SlurmctldPort={controller}",
            f"SlurmdPort={node}",
            f"SlurmUser={user}",
            f"SlurmdUser={user}",
            f"AuthInfo=socket={folder}/munge.socket",
            "CredType=cred/munge",
            f"StateSaveLocation={folder}/state",
            f"SlurmdSpoolDir={folder}/spool",
            *(f"{name.capitalize()}PidFile={folder}/{name}.pid" for name in ("slurmctld", "slurmd")),
            *(f"{name.capitalize()}LogFile={folder}/{name}.log" for name in ("slurmctld", "slurmd")),
            "ProctrackType=proctrack/linuxproc",
            "TaskPlugin=task/none",
            "JobAcctGatherType=jobacct_gather/none",
            "SelectType=select/cons_tres",
            "SelectTypeParameters=CR_Core",
            "ReturnToService=2",
            "MpiDefault=none",
            # Jobs begin as soon as they may, and are known for some minutes after their end.
            "SchedulerParameters=batch_sched_delay=0,sched_interval=2",
            "KillWait=30",
            f"NodeName={host} NodeAddr=127.0.0.1 CPUs={os.cpu_count()} RealMemory={megabytes}",
            "PartitionName=tests Nodes=ALL Default=YES MaxTime=INFINITE State=UP",
            "",
        ]
    )


def _free_ports(count: int) -> list[int]:
    held = [socket.socket() for _ in range(count)]
    try:
        for one in held:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in held]
    finally:
        for one in held:
            one.close()


def _which(name: str) -> str | None:
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), *SBIN]))


def _run(command: list[str], environment: dict[str, str]) -> None:
    program = _which(command[0])
    assert program is not None, f"{command[0]} is not installed"
    done = subprocess.run([program, *command[1:]], capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}: {done.stderr.strip()}")


def main(arguments: list[str]) -> int:
    folder = Path(arguments[1]) if len(arguments) > 1 else Path(tempfile.gettempdir()) / f"slurm-{getpass.getuser()}"
    if arguments[:1] == ["start"]:
        if missing():
            print(f"not installed: {', '.join(missing())} (Debian: apt-get install slurm-wlm munge)", file=sys.stderr)
            return 1
        print(f"export SLURM_CONF={start(folder)}")
        return 0
    if arguments[:1] == ["stop"]:
        stop(folder)
        return 0
    print("usage: python -m tests.cluster.slurm start|stop [FOLDER]", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
