"""The device and the threads of this process."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

from pipeline import host
from pipeline.errors import ConfigError
from pipeline.stages.settings import Machine, Runtime

log = logging.getLogger(__name__)


def threads(runtime: Runtime) -> int:
    """``runtime.threads``, else what Slurm gave, else the cores that this process may use."""
    value = os.environ.get(host.CPUS, "").strip()
    if value and not runtime.threads and not host.count_slurm_cores():
        log.warning(
            "%s='%s' is no number of cores, and is ignored: runtime.threads=N says how many to use", host.CPUS, value
        )
    return runtime.threads or host.count_cores()


def cores() -> int:
    """All cores that this process may use, whatever ``runtime.threads`` says of the processes that perform tasks: those that it may
    run on and has time for, and no more than Slurm gave."""
    return min(host.count_allowed_cores(), host.count_cores())


def find_machine(runtime: Runtime) -> Machine:
    """The device and the number of threads, all for one process.

    Raises:
        ConfigError: a device is asked for that is not there.
    """
    device = runtime.device
    # Without a driver's device file there is no CUDA on Linux, and no second is spent on loading torch to ask.
    may_have_cuda = sys.platform != "linux" or any(Path(place).exists() for place in ("/dev/nvidiactl", "/dev/dxg"))
    if device == "cpu" or (device == "auto" and not may_have_cuda):
        return Machine("cpu", threads(runtime))
    import torch

    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise ConfigError(
            f"runtime.device={device}, but torch sees no CUDA device",
            remedy="set runtime.device=cpu or auto, or ask for a GPU node",
        )
    return Machine(device, threads(runtime))
