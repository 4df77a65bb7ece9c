"""The verb ``doctor``: whether this machine will do, a finding a line, with what mends it. Nothing is computed, fetched or changed.

Looked at is what ``plan`` and ``validate`` do not look at: versions, devices, cores, memory, disks, weights, Slurm.
"""

from __future__ import annotations

import functools
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from pipeline import host
from pipeline.cli.command_line import CommandLine, read_command_line
from pipeline.cli.compose import evaluate_each
from pipeline.errors import ConfigError, ModelMissing, PipelineError, StageFailed, explain_errno
from pipeline.evaluation import machine, run, submit
from pipeline.stages.settings import Evaluation
from pipeline.version import __version__

NAME = "voice-privacy-pipeline"
PIP = f"{shlex.quote(sys.executable)} -m pip"
GB = 1e9
LEAST_MEMORY, LEAST_STORE, LEAST_MODELS = 4 * GB, 5 * GB, 1 * GB
DRIVERS = (Path("/dev/nvidiactl"), Path("/dev/dxg"), Path("/dev/kfd"))
"""What drivers of NVIDIA, of NVIDIA below Windows, and of AMD make."""
OF_A_MACHINE = ("paths", "runtime", "executor", "store")
"""What may be set without saying what is to be evaluated."""


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
    return evaluate_each(line, functools.partial(doctor, line), without_models=True)


def doctor(line: CommandLine, settings: Evaluation, values: dict[str, Any]) -> int:
    """Look at everything and print what was found, as it is found; the exit status: that with which a run would end first."""
    asks_for_weights = any(override.name.partition(".")[0] not in OF_A_MACHINE for override in line.overrides)
    findings = []
    for subject, check in CHECKS.items():
        for finding in _examine(check, settings):
            if subject == "weights" and finding.state == "fault" and not asks_for_weights:
                finding = Finding("warning", f"{finding.what}; the demo needs none", finding.remedy)
            findings.append(finding)
            print(f"{finding.state:7} {subject:10} {finding.what}", flush=True)
            if finding.remedy:
                print(f"{'':19}to mend it: {finding.remedy}", flush=True)
    counts = Counter(finding.state for finding in findings)
    print(f"{counts['ok']} ok, warnings: {counts['warning']}, faults: {counts['fault']}", flush=True)
    return min((finding.status for finding in findings if finding.state == "fault"), default=0)


def _examine(check: Check, settings: Evaluation) -> Iterator[Finding]:
    """A look that fails is a finding too, and the next one goes on."""
    try:
        yield from check(settings)
    except PipelineError as error:
        yield Finding("fault", f"{error.what} ({error.where})", error.remedy, error.status)
    except Exception as error:  # whatever a machine may be like
        yield Finding("warning", f"could not be looked at: {type(error).__name__}: {error}")


def check_versions(settings: Evaluation) -> Iterator[Finding]:
    """The packages against the ranges that the installed project declares."""
    from packaging.requirements import Requirement

    yield Finding("ok", f"{NAME} {__version__} in {Path(__file__).resolve().parents[1]}, {sys.executable}")
    fitting = []
    for requirement in map(Requirement, metadata.requires(NAME) or []):
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            installed = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            installed = "none"
        if installed != "none" and requirement.specifier.contains(installed, prereleases=True):
            fitting.append(f"{requirement.name} {installed}")
        else:
            needed = f"{requirement.name}{requirement.specifier}"
            yield Finding(
                "fault", f"{needed} is needed, installed is {installed}", f"{PIP} install {shlex.quote(needed)}"
            )
    yield Finding("ok", ", ".join(fitting))


def check_devices(settings: Evaluation) -> Iterator[Finding]:
    """GPUs with their memory, and whether torch can use what is there."""
    driver = next((str(path) for path in DRIVERS if path.exists()), "")
    if not driver and sys.platform == "linux" and not settings.execution.runtime.device.startswith("cuda"):
        # It takes torch longer to load than all else takes.
        yield Finding("ok", f"cpu (torch {metadata.version('torch')}; no GPU driver is here)")
        return
    import torch

    machine.find_machine(settings.execution.runtime)  # it refuses a device that is not there
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if driver and not count:
        remedy = (
            "unset CUDA_VISIBLE_DEVICES, or install the build for your driver: https://pytorch.org/get-started/locally"
        )
        yield Finding("warning", f"there is a GPU driver ({driver}), but torch {torch.__version__} sees no GPU", remedy)
    for number in range(count):
        free, total = torch.cuda.mem_get_info(number)
        what = f"cuda:{number} {torch.cuda.get_device_name(number)}, {free / GB:.1f} of {total / GB:.1f} GB free"
        yield Finding("ok", what)


def check_machine(settings: Evaluation) -> Iterator[Finding]:
    """Cores and memory."""
    usable, threads = host.count_allowed_cores(), machine.threads(settings.execution.runtime)
    more = threads > usable
    what = f"{usable} cores for {threads} threads"
    yield Finding("warning" if more else "ok", what, f"runtime.threads={usable}" if more else "")
    available = re.search(r"^MemAvailable:\s+(\d+) kB", (host.PROC / "meminfo").read_text(), re.MULTILINE)
    free = min(int(available[1]) * 1024, host.read_memory()) if available else host.read_memory()
    what = f"{free / GB:.1f} of {host.read_memory() / GB:.1f} GB of memory free"
    if free < LEAST_MEMORY:
        remedy = f"have {LEAST_MEMORY / GB:.0f} GB free: end other programs, or ask for more (sbatch --mem)"
        yield Finding("warning", what, remedy)
    else:
        yield Finding("ok", what)


def check_store(settings: Evaluation) -> Iterator[Finding]:
    """Where runs and results are kept."""
    yield _check_folder(settings.paths.store, "paths.root", LEAST_STORE)


def check_models(settings: Evaluation) -> Iterator[Finding]:
    """Where weights are; a run only reads there."""
    finding = _check_folder(settings.paths.weights, "paths.models", LEAST_MODELS)
    if finding.state == "fault":
        finding = Finding("warning", f"{finding.what}; fetch-models cannot put anything there", finding.remedy)
    yield finding


def _check_folder(folder: Path, setting: str, least: float) -> Finding:
    nearest = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    try:
        tempfile.TemporaryDirectory(prefix=".doctor-", dir=nearest).cleanup()
    except OSError as error:
        cause, remedy = explain_errno(error.errno, str(nearest), setting)
        what = f"{folder} cannot be written: {error.strerror or error}{f' ({cause})' if cause else ''}"
        return Finding("fault", what, remedy, StageFailed.status)
    free = shutil.disk_usage(nearest).free
    where = f"{folder}, {free / GB:.1f} GB free"
    if free < least:
        return Finding("warning", f"{where}; {least / GB:.0f} GB are safe", f"free space, or {setting}=DIR elsewhere")
    return Finding("ok", where)


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
            what = f"{label}: {error.what}{f' ({error.where})' if error.where else ''}{size}"
            yield Finding("fault", what, error.remedy.removeprefix("run "), error.status)
            continue
        if weights is not None:
            yield Finding("ok", f"{label}: {weights.folder}, sha256 {weights.digest[:12]}")


def check_slurm(settings: Evaluation) -> Iterator[Finding]:
    """Whether jobs can be sent from here, where ``executor=slurm`` is asked for."""
    if run.sends(settings):
        submit.require(settings)
        yield Finding("ok", "jobs can be sent from this machine")


CHECKS: dict[str, Check] = {
    "versions": check_versions, "device": check_devices, "machine": check_machine, "store": check_store,
    "models": check_models, "weights": check_weights, "slurm": check_slurm,
}  # fmt: skip
"""What is looked at, in turn, by the word that begins its lines."""
