"""What the system lets this process have: cores, memory, file systems. Linux says it in files; elsewhere less is known."""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


def count_allowed_cores() -> int:
    """The cores that this process may use at once: those that it may run on, and no more than the quota of its control groups
    (containers, schedulers) has time for."""
    try:
        allowed = len(os.sched_getaffinity(0))
    except AttributeError:  # no Linux
        allowed = os.cpu_count() or 1
    return max(1, math.ceil(min(allowed, read_quota())))


def read_quota() -> float:
    """The cores for which the control groups of this process have time; infinite where nothing limits them."""
    found = [math.inf]
    for folder in _list_groups("cpu"):
        try:
            whole = _read_text(folder / "cpu.max").split()
            limit, period = whole if len(whole) == 2 else (_read_text(folder / _QUOTA), _read_text(folder / _PERIOD))
            if limit != "max" and int(limit) > 0 and int(period) > 0:
                found.append(int(limit) / int(period))
        except ValueError:
            continue
    return min(found)


def read_memory() -> int:
    """Bytes of memory that this process may use: the machine's, or less if its control groups have a limit."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for folder in _list_groups("memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            text = _read_text(folder / name)
            if text.isdecimal():
                found.append(int(text))
    return min(found)


@dataclass(frozen=True)
class Mount:
    """A file system as it is mounted.

    Attributes:
        point: the folder where it begins.
        kind: ``ext4``, ``nfs4``, …; '' where the system does not say.
        options: with which it is mounted, ``ro`` among them.
    """

    point: Path
    kind: str = ""
    options: tuple[str, ...] = ()


def find_mount(path: Path) -> Mount:
    """The file system that a path lies on, which need not exist yet."""
    found = Mount(Path("/"))
    for line in _read_text(PROC / "mounts").splitlines():
        fields = [re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), field) for field in line.split(" ")]
        if len(fields) < 4:
            continue
        point = Path(fields[1])
        # Of several that begin at one folder the last lies on top.
        if path.resolve().is_relative_to(point) and len(point.parts) >= len(found.point.parts):
            found = Mount(point, fields[2], tuple(fields[3].split(",")))
    return found


_QUOTA, _PERIOD = "cpu.cfs_quota_us", "cpu.cfs_period_us"


def _list_groups(controller: str) -> list[Path]:
    """The folders of the control groups that this process is in, with all that they lie in, for a controller; those of version 2
    (``0::PATH``) hold every controller."""
    found = []
    roots = _find_group_roots()
    for line in _read_text(PROC / "self" / "cgroup").splitlines():
        _, _, rest = line.partition(":")
        names, _, place = rest.partition(":")
        root = roots.get("" if not names else controller) if not names or controller in names.split(",") else None
        if root is not None:
            inner = Path(place.lstrip("/"))
            # A container may see its own group as the root, and none of what its path names.
            found += [root / one for one in (inner, *inner.parents)]
    return list(dict.fromkeys(found))


def _find_group_roots() -> dict[str, Path]:
    """Where the control groups are mounted: of version 1 by controller, of version 2 under ''."""
    roots = {}
    for line in _read_text(PROC / "mounts").splitlines():
        fields = line.split(" ")
        if len(fields) >= 4 and fields[2] == "cgroup2":
            roots[""] = Path(fields[1])
        elif len(fields) >= 4 and fields[2] == "cgroup":
            roots |= {name: Path(fields[1]) for name in fields[3].split(",") if name in ("cpu", "memory")}
    return roots


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape").strip()
    except OSError:
        return ""
