"""The verb ``doctor``: whether this machine will do, a finding a line, with what mends it. Nothing is computed, fetched or changed.

Looked at is what ``plan`` and ``validate`` do not look at: versions, devices, what processes need, disks, weights, Slurm.
"""

from __future__ import annotations

import functools
import os
import platform
import re
import resource
import shlex
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.text import Text

from pipeline import host
from pipeline.cli.command_line import CommandLine, read_command_line
from pipeline.cli.compose import evaluate_each
from pipeline.cli.output import escaped, for_rich
from pipeline.errors import ConfigError, ModelMissing, PipelineError, StageFailed, explain_errno
from pipeline.evaluation import machine
from pipeline.stages.settings import Evaluation
from pipeline.version import __version__

NAME = "voice-privacy-pipeline"
PIP = f"{shlex.quote(sys.executable)} -m pip"
GB = 1e9
LEAST_MEMORY, LEAST_STORE, LEAST_MODELS = 4 * GB, 5 * GB, 1 * GB
LEAST_OPEN_FILES = 1024
SHARED = Path("/dev/shm")
DRIVERS = (Path("/dev/nvidiactl"), Path("/dev/dxg"), Path("/dev/kfd"))
"""What drivers of NVIDIA, of NVIDIA below Windows, and of AMD make."""
PASSING = {
    **dict.fromkeys(("tmpfs", "ramfs"), "it lies in memory and is lost when the machine is started anew"),
    **dict.fromkeys(("overlay", "aufs"), "a container's own layer: it is lost when the container goes"),
    **dict.fromkeys(
        ("vfat", "msdos", "exfat", "ntfs", "fuseblk", "hfsplus"), "it may not keep all that a store asks of it"
    ),
}
"""File systems that a store had better not lie on."""
SLURM_COMMANDS = ("sbatch", "squeue", "scancel")
SLURM_SECONDS = 20.0
OF_A_MACHINE = ("paths", "runtime", "executor", "store")
"""What may be set without saying what is to be evaluated."""
COLOURS = {"ok": "green", "warning": "yellow", "fault": "red"}
STATE, SUBJECT = 8, 11
"""Columns of a line."""


@dataclass(frozen=True)
class Finding:
    """What was found of one thing.

    Attributes:
        state: ``ok``; ``warning``: a run may go well; ``fault``: a run of this configuration would not end well.
        what: in a line.
        remedy: what mends it: a command, an override or an edit.
        status: the exit status with which a run would end, of a fault.
    """

    state: Literal["ok", "warning", "fault"]
    what: str
    remedy: str = ""
    status: int = ConfigError.status


Check = Callable[[Evaluation], Iterator[Finding]]


def main(verb: str, arguments: list[str]) -> int:
    """Carry out ``doctor``; the exit status."""
    line = read_command_line(arguments, verb)
    return evaluate_each(line, functools.partial(doctor, line), without_models=True, without_data=True)


def doctor(line: CommandLine, settings: Evaluation, values: dict[str, Any]) -> int:
    """Look at everything and print what was found, as it is found; the exit status: that with which a run would end first."""
    # A line is never broken, so that a remedy can be copied.
    console = Console(file=for_rich(sys.stdout), soft_wrap=True, highlight=False, markup=False, emoji=False)
    named = any(override.name.partition(".")[0] not in OF_A_MACHINE for override in line.overrides)
    findings = []
    for subject, check in CHECKS.items():
        for finding in _examine(check, settings):
            if subject == "weights" and finding.state == "fault" and not named:
                finding = Finding("warning", f"{finding.what}; the demo needs none", finding.remedy)
            findings.append(finding)
            state = Text(f"{finding.state:{STATE}}", COLOURS[finding.state])
            console.print(Text.assemble(state, f"{subject:{SUBJECT - 1}} ", escaped(finding.what)))
            if finding.remedy:
                console.print(Text(f"{'':{STATE + SUBJECT}}to mend it: {escaped(finding.remedy)}"))
    count = {state: sum(finding.state == state for finding in findings) for state in COLOURS}
    words = [f"{count[state]} {state}{'' if count[state] == 1 or state == 'ok' else 's'}" for state in COLOURS]
    console.print(Text(", ".join(words)))
    sys.stdout.flush()
    return min((finding.status for finding in findings if finding.state == "fault"), default=0)


def _examine(check: Check, settings: Evaluation) -> Iterator[Finding]:
    """A look that fails is a finding too, and the next one goes on."""
    try:
        yield from check(settings)
    except PipelineError as error:
        yield Finding("fault", f"{error.what} ({error.where})", error.remedy, error.status)
    except Exception as error:  # whatever a machine may be like
        remedy = "see whether what it names is well; else it is a fault of doctor, and worth a report with this line"
        yield Finding("warning", f"could not be looked at: {type(error).__name__}: {error}", remedy)


# Versions --------------------------------------------------------------------------------------------------------------


def check_versions(settings: Evaluation) -> Iterator[Finding]:
    """Python and packages against the ranges that the installed project declares."""
    from packaging.requirements import Requirement
    from packaging.specifiers import SpecifierSet

    yield Finding("ok", f"{NAME} {__version__} in {Path(__file__).resolve().parents[1]}")
    distribution = metadata.distribution(NAME)
    wanted, version = str(distribution.metadata["Requires-Python"] or ""), platform.python_version()
    if SpecifierSet(wanted).contains(version, prereleases=True):
        yield Finding("ok", f"python {version} ({wanted}), {sys.executable}")
    else:
        yield Finding(
            "fault",
            f"python {version} is outside the range {wanted}",
            "install the project with a Python of this range",
        )
    right = []
    for requirement in map(Requirement, distribution.requires or []):
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        installed = _find_version(requirement.name)
        if installed and requirement.specifier.contains(installed, prereleases=True):
            right.append(f"{requirement.name} {installed}")
        else:
            needed = f"{requirement.name}{requirement.specifier}"
            state = f"{installed} is installed" if installed else "it is not installed"
            yield Finding("fault", f"{needed} is needed, and {state}", f"{PIP} install {shlex.quote(needed)}")
    yield Finding("ok", ", ".join(right))


def _find_version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


# The machine -----------------------------------------------------------------------------------------------------------


def check_devices(settings: Evaluation) -> Iterator[Finding]:
    """GPUs with their memory, and whether torch can use what is there."""
    wanted = settings.execution.runtime.device
    driver = next((str(path) for path in DRIVERS if path.exists()), "")
    if not driver and not wanted.startswith("cuda") and sys.platform == "linux":
        # It takes torch longer to load than all else takes.
        yield Finding("ok", f"cpu (torch {metadata.version('torch')}; no GPU driver is here)")
        return
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if wanted.startswith("cuda") and int(wanted.partition(":")[2] or 0) >= count:
        what = f"runtime.device={wanted}, and torch {torch.__version__} sees {count} GPUs"
        yield Finding("fault", what, "runtime.device=auto, or ask for a node with a GPU")
    if driver and not count:
        hidden = "CUDA_VISIBLE_DEVICES" in os.environ
        remedy = (
            "unset CUDA_VISIBLE_DEVICES"
            if hidden
            else "install the build for your driver: https://pytorch.org/get-started/locally"
        )
        yield Finding("warning", f"there is a GPU driver ({driver}), but torch {torch.__version__} sees no GPU", remedy)
    for number in range(count):
        free, total = torch.cuda.mem_get_info(number)
        what = f"cuda:{number} {torch.cuda.get_device_name(number)}, {free / GB:.1f} of {total / GB:.1f} GB free"
        busy = free < total / 2
        remedy = "see `nvidia-smi`, or choose another by runtime.device=cuda:N" if busy else ""
        yield Finding("warning" if busy else "ok", f"{what}{': others use it' if busy else ''}", remedy)


def check_machine(settings: Evaluation) -> Iterator[Finding]:
    """Cores, memory, open files, and what processes share."""
    usable, threads = host.count_allowed_cores(), machine.threads(settings.execution.runtime)
    more = threads > usable
    what = f"{usable} cores, {threads} threads{' would share them' if more else ''}"
    yield Finding("warning" if more else "ok", what, f"runtime.threads={usable}" if more else "")
    available = re.search(r"^MemAvailable:\s+(\d+) kB", (host.PROC / "meminfo").read_text(), re.MULTILINE)
    free = min(int(available[1]) * 1024, host.read_memory()) if available else host.read_memory()
    little = free < LEAST_MEMORY
    remedy = f"have {LEAST_MEMORY / GB:.0f} GB free: end other programs, or ask for more (sbatch --mem)"
    what = f"{free / GB:.1f} of {host.read_memory() / GB:.1f} GB of memory free"
    yield Finding("warning" if little else "ok", what, remedy if little else "")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < LEAST_OPEN_FILES:
        most = "unlimited" if hard == resource.RLIM_INFINITY else str(hard)
        what = f"a process may have {soft} files open at once, and {LEAST_OPEN_FILES} are safe"
        yield Finding("warning", what, f"ulimit -n {most}, in the shell that starts a run")
    if not os.access(SHARED, os.W_OK) or shutil.disk_usage(SHARED).free < 1e6:
        remedy = "start the container with --shm-size=1g; until then threads do what processes would"
        yield Finding("warning", f"{SHARED} is not there, full, or cannot be written", remedy)


# Disks -----------------------------------------------------------------------------------------------------------------


def check_store(settings: Evaluation) -> Iterator[Finding]:
    """Where runs and results are kept."""
    yield from _check_folder(settings.paths.store, "paths.root", LEAST_STORE)


def check_models(settings: Evaluation) -> Iterator[Finding]:
    """Where weights are; a run only reads there."""
    for finding in _check_folder(settings.paths.weights, "paths.models", LEAST_MODELS):
        if finding.state == "fault":
            finding = Finding("warning", f"{finding.what}; fetch-models cannot put anything there", finding.remedy)
        yield finding


def _check_folder(folder: Path, setting: str, least: float) -> Iterator[Finding]:
    nearest = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    elsewhere = f"{setting}=DIR on another disk"
    try:
        missing = _try_folder(nearest)
    except OSError as error:
        cause, remedy = explain_errno(error.errno, str(nearest), setting)
        what = f"{folder} cannot be written: {error.strerror or error}{f' ({cause})' if cause else ''}"
        yield Finding("fault", what, remedy or elsewhere, StageFailed.status)
        return
    for what in missing:
        yield Finding("fault", f"{folder} lies on a file system that {what}", elsewhere, StageFailed.status)
    free, kind = shutil.disk_usage(nearest).free, host.find_mount(nearest).kind
    where = f"{folder}, {free / GB:.1f} GB free" + (f" on {kind}" if kind else "")
    if kind in PASSING:
        yield Finding("warning", f"{where}: {PASSING[kind]}", f"{setting}=DIR on a disk that stays")
    elif free < least:
        yield Finding("warning", f"{where}; {least / GB:.0f} GB are safe", f"free space, or {elsewhere}")
    else:
        yield Finding("ok", where)


def _try_folder(folder: Path) -> list[str]:
    """Do in a folder what the store does; what its file system does not keep of that. Nothing stays of it.

    Raises:
        OSError: it cannot be written at all.
    """
    place = folder / f".doctor-{uuid.uuid4().hex}"
    place.mkdir()
    try:
        missing = []
        (place / "alone").touch()
        try:
            os.close(os.open(place / "alone", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            missing.append("lets two processes make the same file")
        except FileExistsError:
            pass
        for name in ("new", "other"):
            (place / name).mkdir()
            (place / name / "file").touch()
        (place / "new").replace(place / "final")
        try:
            (place / "other").replace(place / "final")
            missing.append("puts a folder over another one that holds files")
        except OSError:
            pass
        return missing
    finally:
        shutil.rmtree(place, ignore_errors=True)


# Models and Slurm ------------------------------------------------------------------------------------------------------


def check_weights(settings: Evaluation) -> Iterator[Finding]:
    """The weights of each chosen component by their digests; of what is missing, what would be fetched, with size and licence."""
    for label, chosen in settings.components().items():
        if label.startswith("extractor ") and chosen.component.reads_challenge_folder(chosen.settings):
            continue  # it lies in the folder of the data set, which `validate` looks into
        try:
            weights = chosen.weights(settings.paths.weights)
        except PipelineError as error:
            download = chosen.component.download(chosen.settings) if isinstance(error, ModelMissing) else None
            size = f"; to be downloaded: {download}" if download is not None else ""
            where = f" ({error.where})" if error.where else ""
            yield Finding(
                "fault", f"{label}: {error.what}{where}{size}", error.remedy.removeprefix("run "), error.status
            )
            continue
        if weights is not None:
            yield Finding("ok", f"{label}: {weights.folder}, sha256 {weights.digest[:12]}")


def check_slurm(settings: Evaluation) -> Iterator[Finding]:
    """Its commands, its partitions and the library that sends jobs: faults where ``executor=slurm`` is asked for."""
    wanted = settings.execution.executor.name == "slurm"
    state: Literal["warning", "fault"] = "fault" if wanted else "warning"
    missing = [name for name in SLURM_COMMANDS if shutil.which(name) is None]
    if missing:
        if not wanted and len(missing) == len(SLURM_COMMANDS):
            yield Finding("ok", "not here: executor=slurm has no use")
        else:
            remedy = "log in to a node of the cluster, load its Slurm (`module load slurm`), or set executor=local"
            yield Finding(state, f"{', '.join(missing)} cannot be found: no job can be sent from this machine", remedy)
        return
    command = ["sinfo", "--noheader", "--format=%P %a %D nodes, at most %l"]
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=SLURM_SECONDS, check=True
        )
        lines = [" ".join(line.split()) for line in answer.stdout.splitlines() if line.strip()]
        yield Finding("ok", f"partitions: {'; '.join(lines[:10])}")
    except (OSError, subprocess.SubprocessError) as error:
        text = " ".join(str(getattr(error, "stderr", "") or error).split())
        yield Finding(state, f"sinfo gives no answer: {text}", "see whether the cluster is up (`scontrol ping`)")
    if not _find_version("submitit"):
        yield Finding(state, "submitit is not installed, which sends the jobs", f"{PIP} install '{NAME}[slurm]'")


CHECKS: dict[str, Check] = {
    "versions": check_versions, "device": check_devices, "machine": check_machine, "store": check_store,
    "models": check_models, "weights": check_weights, "slurm": check_slurm,
}  # fmt: skip
"""What is looked at, in turn, by the word that begins its lines."""
