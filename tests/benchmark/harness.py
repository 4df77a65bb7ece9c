"""How benchmarks are timed, compared and recorded."""

from __future__ import annotations

import importlib
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
RESULTS = Path(__file__).with_name("results.json")
TABLE = Path(__file__).with_name("RESULTS.md")
BUSY = 1.5


class Skipped(Exception):
    """A benchmark that cannot run here; the message says why."""


@dataclass(frozen=True)
class Row:
    """One measured number.

    Attributes:
        value: in ``unit``.
        ratio: to the reference that was timed in the same run, if there is one.
        limit: what is asked, such as ``ratio <= 3``; empty if nothing is.
        met: whether it holds; None without a limit.
        note: what was measured, against what.
    """

    name: str
    value: float
    unit: str
    ratio: float | None
    limit: str
    met: bool | None
    note: str


def row(
    name: str,
    value: float,
    unit: str,
    note: str,
    *,
    ratio: float | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
) -> Row:
    """A row whose limits concern the ratio if there is one, else the value."""
    judged = value if ratio is None else ratio
    subject = "value" if ratio is None else "ratio"
    parts = [f"{subject} >= {at_least:g}"] if at_least is not None else []
    parts += [f"{subject} <= {at_most:g}"] if at_most is not None else []
    low = -float("inf") if at_least is None else at_least
    high = float("inf") if at_most is None else at_most
    return Row(name, value, unit, ratio, " and ".join(parts), low <= judged <= high if parts else None, note)


def interleaved(
    calls: Sequence[Callable[[], object]], runs: int, clock: Callable[[], float] = time.process_time
) -> list[float]:
    """Median seconds of each call over ``runs`` rounds; in a round each is called once, so that all meet the same load.

    The default clock counts processor time, which other people's processes disturb least.
    """
    taken: list[list[float]] = [[] for _ in calls]
    for _ in range(runs):
        for call, seconds in zip(calls, taken):
            begin = clock()
            call()
            seconds.append(clock() - begin)
    return [statistics.median(seconds) for seconds in taken]


def apart(function: str) -> tuple[Any, float]:
    """What ``module:function`` gives in a process of its own, and the peak memory of that process in GB."""
    command = [sys.executable, "-m", "tests.benchmark.harness", function]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    answer = json.loads(done.stdout)
    return answer["result"], answer["peak_gb"]


def _peak_gb() -> float:
    # ru_maxrss of a child begins at its parent's size on Linux; VmHWM is of this program alone.
    status = Path("/proc/self/status")
    if status.is_file():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024 / 1e9
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1024) / 1e9


def speech() -> Path:
    """The folder of real speech, found as the tests find it.

    Raises:
        Skipped: there is none.
    """
    folder = Path(os.environ.get("VOICE_PRIVACY_TEST_DATA", ROOT.parent / "shared" / "speech"))
    if not (folder / "librispeech").is_dir():
        raise Skipped(f"no real speech in {folder}: set VOICE_PRIVACY_TEST_DATA to a folder that holds librispeech/")
    return folder


def machine() -> str:
    """Processor, cores, versions, and whether others were at work."""
    info = Path("/proc/cpuinfo")
    names = [line.split(":")[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")] if (
        info.is_file()
    ) else []  # fmt: skip
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    parts = [names[0] if names else platform.processor() or platform.machine(), f"{cores} cores"]
    parts.append(f"Python {platform.python_version()}")
    parts += [f"{name} {version(name)}" for name in ("numpy", "torch")]
    if os.getloadavg()[0] > BUSY:
        parts.append("shared machine")
    return ", ".join(parts)


def commit() -> str:
    """Short commit, with ``+`` if the pipeline has changes that are not in it."""
    try:
        head = _git("rev-parse", "--short", "HEAD")
        return head + ("+" if _git("status", "--porcelain", "--", "pipeline") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def record(rows: Sequence[Row], where: str) -> None:
    """Puts the rows into ``results.json``, in the place of those of the same name, and writes the table anew."""
    held = {entry["name"]: entry for entry in json.loads(RESULTS.read_text())} if RESULTS.is_file() else {}
    for measured in rows:
        entry = asdict(measured)
        entry["value"] = _short(measured.value)
        entry["ratio"] = None if measured.ratio is None else _short(measured.ratio)
        held[measured.name] = {**entry, "machine": where, "commit": commit()}
    entries = [held[name] for name in sorted(held)]
    _replace(RESULTS, json.dumps(entries, indent=1, ensure_ascii=False) + "\n")
    _replace(TABLE, table(entries))


def table(entries: Sequence[dict[str, Any]]) -> str:
    """The results as Markdown."""
    lines = [
        "# Benchmark results",
        "",
        "Written by `make benchmark` from `results.json`. A ratio is to the reference timed in the same run, interleaved.",
        "Those that take longer are named: `python -m tests.benchmark coverage null_band`.",
        "",
        "| benchmark | value | ratio | limit | met | what | commit |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for entry in entries:
        ratio = "" if entry["ratio"] is None else f"{entry['ratio']:g}"
        met = {True: "yes", False: "**no**", None: ""}[entry["met"]]
        cells = [entry["name"], f"{entry['value']:g} {entry['unit']}", ratio, entry["limit"], met, entry["note"]]
        lines.append("| " + " | ".join([*cells, entry["commit"]]) + " |")
    lines += ["", "Machines:", ""]
    for where in sorted({entry["machine"] for entry in entries}):
        names = [entry["name"] for entry in entries if entry["machine"] == where]
        lines.append(f"- {where}: {', '.join(names)}")
    return "\n".join(lines) + "\n"


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def _replace(path: Path, text: str) -> None:
    fresh = path.with_suffix(f".{os.getpid()}.tmp")
    fresh.write_text(text)
    fresh.replace(path)


if __name__ == "__main__":
    where, _, what = sys.argv[1].partition(":")
    result = getattr(importlib.import_module(where), what)()
    print(json.dumps({"result": result, "peak_gb": _peak_gb()}))
