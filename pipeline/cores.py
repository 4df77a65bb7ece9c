"""How many cores this process and all that it starts may use."""

from __future__ import annotations

import os
import re

CPUS = "SLURM_CPUS_PER_TASK"


def count_cores() -> int:
    """What Slurm gave, else the cores that this process may run on."""
    return count_slurm_cores() or len(os.sched_getaffinity(0))


def count_slurm_cores() -> int:
    """What Slurm gave a task; 0 if it says nothing, or nothing that is a number of cores."""
    value = os.environ.get(CPUS, "").strip()
    number = re.fullmatch(r"([0-9]{1,6})(\(x[0-9]+\))?", value)  # 2(x3): two on each of three nodes
    return int(number[1]) if number else 0
