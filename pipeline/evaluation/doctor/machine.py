"""What this machine gives: devices, cores, memory, and what of it processes need beside."""

from __future__ import annotations

import os
import re
import resource
import shlex
import sys
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from pipeline import host
from pipeline.errors import why
from pipeline.evaluation import machine as chosen
from pipeline.evaluation.doctor.finding import CONFIG, Finding, fault, ok, warning
from pipeline.stages.settings import Evaluation

GB, MB = 1e9, 1e6
LEAST_MEMORY = 4 * GB
"""Training ECAPA and reading large matrices of scores take about so much."""
LEAST_FILES = 1024
LEAST_TEMPORARY = 100 * MB
LEAST_SHARED = 1 * MB
SHARED = Path("/dev/shm")
DRIVER = (Path("/dev/nvidiactl"), Path("/dev/dxg"), Path("/dev/kfd"))
"""What drivers of NVIDIA, of NVIDIA below Windows, and of AMD make."""


def devices(asked: Evaluation) -> Iterator[Finding]:
    """GPUs with their memory, and whether torch can use what is there."""
    wanted = asked.runtime.device
    driver = next((str(one) for one in DRIVER if one.exists()), "")
    if not driver and not wanted.startswith("cuda") and sys.platform == "linux":
        # It takes torch longer to load than all else takes.
        yield ok("device", f"cpu (torch {metadata.version('torch')}; no GPU driver is here)")
        return
    try:
        import torch
    except (ImportError, OSError) as error:
        remedy = f"{shlex.quote(sys.executable)} -m pip install --force-reinstall torch torchaudio"
        yield fault("device", f"torch cannot be loaded: {' '.join(str(error).split())}", remedy, CONFIG)
        return
    if not torch.cuda.is_available():
        if wanted.startswith("cuda"):
            remedy = "runtime.device=auto, or ask for a node with a GPU"
            yield fault("device", f"runtime.device={wanted}, and torch {torch.__version__} sees no GPU", remedy, CONFIG)
        if driver and torch.version.cuda is None:
            yield warning(
                "device",
                f"there is a GPU driver ({driver}), but torch {torch.__version__} is a build for CPUs",
                "install the build for your driver: https://pytorch.org/get-started/locally names the command",
            )
        elif driver:
            hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
            said = f"CUDA_VISIBLE_DEVICES='{hidden}'" if hidden is not None else "its driver may be older than that"
            yield warning(
                "device",
                f"there is a GPU driver ({driver}), but torch {torch.__version__} sees no GPU ({said})",
                "unset CUDA_VISIBLE_DEVICES"
                if hidden is not None
                else "`nvidia-smi` says the driver's version; renew it",
            )
        elif not wanted.startswith("cuda"):
            yield ok("device", f"cpu (torch {torch.__version__}; no GPU driver is here)")
        return
    count = torch.cuda.device_count()
    if wanted.startswith("cuda:") and int(wanted.partition(":")[2]) >= count:
        yield fault(
            "device",
            f"runtime.device={wanted}, and there are {count} GPUs from cuda:0 on",
            "runtime.device=auto",
            CONFIG,
        )
    for number in range(count):
        free, total = torch.cuda.mem_get_info(number)
        name = f"cuda:{number} {torch.cuda.get_device_name(number)}, {free / GB:.1f} of {total / GB:.1f} GB free"
        if free < total / 2:
            yield warning(
                "device", f"{name}: others use it", "see `nvidia-smi`, or choose another by runtime.device=cuda:N"
            )
        else:
            yield ok("device", name)


def cores(asked: Evaluation) -> Iterator[Finding]:
    """Cores that may be used, against the threads that would be."""
    usable, there, threads = host.cores(), os.cpu_count() or 1, chosen.threads(asked.runtime)
    said = f"{usable} of {there} cores may be used" if usable < there else f"{usable} cores"
    if threads > usable:
        yield warning("cores", f"{said}, and {threads} threads would share them", f"runtime.threads={usable}")
    else:
        yield ok("cores", f"{said}, {threads} threads")


def memory(asked: Evaluation) -> Iterator[Finding]:
    """Memory that may be used, and what of it others have left."""
    usable = host.memory()
    found = re.search(r"^MemAvailable:\s+(\d+) kB", _text(host.PROC / "meminfo"), re.MULTILINE)
    free = min(int(found[1]) * 1024, usable) if found else usable
    said = f"{free / GB:.1f} of {usable / GB:.1f} GB free"
    if free < LEAST_MEMORY:
        yield warning(
            "memory", said, f"have {LEAST_MEMORY / GB:.0f} GB free: end other programs, or ask for more (sbatch --mem)"
        )
    else:
        yield ok("memory", said)


def descriptors(asked: Evaluation) -> Iterator[Finding]:
    """How many files a process may have open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = "unlimited" if hard == resource.RLIM_INFINITY else str(hard)
    if soft != resource.RLIM_INFINITY and soft < LEAST_FILES:
        remedy = f"ulimit -n {most}, in the shell that starts a run"
        yield warning("open files", f"a process may have {soft} files open at once, and {LEAST_FILES} are safe", remedy)
    else:
        yield ok(
            "open files", f"a process may have {'any number' if soft == resource.RLIM_INFINITY else soft} open at once"
        )


def temporary(asked: Evaluation) -> Iterator[Finding]:
    """The folder of temporary files."""
    subject, remedy = "/tmp", "free space on it, or set TMPDIR to a folder on another disk"
    try:
        folder = Path(tempfile.gettempdir())
        with tempfile.NamedTemporaryFile(dir=folder) as stream:
            stream.write(b"doctor")
            stream.flush()
    except OSError as error:
        yield warning(subject, f"no temporary file can be written: {error.strerror or error}", remedy)
        return
    free = _free(folder)
    said = f"{folder}, {free / GB:.1f} GB free"
    yield warning(subject, said, remedy) if free < LEAST_TEMPORARY else ok(subject, said)


def shared_memory(asked: Evaluation) -> Iterator[Finding]:
    """What processes share, which containers often have little of."""
    subject = str(SHARED)
    remedy = (
        "start the container with --shm-size=1g, or ask the administrator; until then threads do what processes would"
    )
    if not SHARED.is_dir():
        yield warning(subject, "is not there", remedy)
        return
    try:
        with tempfile.NamedTemporaryFile(dir=SHARED) as stream:
            stream.write(b"doctor")
    except OSError as error:
        cause = why(error.errno, subject)[0] or error.strerror
        yield warning(subject, f"cannot be written: {cause}", remedy)
        return
    found = os.statvfs(SHARED)
    free, size = found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize
    said = f"{free / MB:.0f} of {size / MB:.0f} MB free"
    yield warning(subject, said, remedy) if free < LEAST_SHARED else ok(subject, said)


def _free(folder: Path) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
