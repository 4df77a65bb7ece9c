"""What the system is said to give, from what its files say."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from pipeline import host


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A system that says what a test writes."""
    monkeypatch.setattr(host, "PROC", tmp_path / "proc")
    (tmp_path / "proc" / "self").mkdir(parents=True)
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_the_quota_of_a_container_is_the_smallest_of_its_groups(told: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    assert (host.read_quota(), host.count_allowed_cores()) == (math.inf, 64)
    groups = told / "groups"
    write(told / "proc/self/cgroup", "0::/job/step\n")
    write(told / "proc/mounts", f"cgroup2 {groups} cgroup2 rw 0 0\n")
    write(groups / "job/step/cpu.max", "max 100000\n")
    write(groups / "job/cpu.max", "250000 100000\n")
    write(groups / "job/memory.max", "1000000\n")
    write(groups / "job/step/memory.max", "max\n")
    assert (host.read_quota(), host.count_allowed_cores(), host.read_memory()) == (2.5, 3, 1_000_000)


def test_groups_of_the_first_version_are_read_too(told: Path) -> None:
    groups = told / "groups"
    write(told / "proc/self/cgroup", "4:memory:/elsewhere\n1:cpu,cpuacct:/\n0::/\n")
    lines = [f"cgroup {groups}/{name} cgroup rw,{name} 0 0" for name in ("cpu,cpuacct", "memory")]
    write(told / "proc/mounts", "\n".join(lines))
    write(groups / "cpu,cpuacct/cpu.cfs_quota_us", "100000")
    write(groups / "cpu,cpuacct/cpu.cfs_period_us", "50000")
    write(groups / "memory/memory.limit_in_bytes", "12345")
    assert (host.read_quota(), host.read_memory()) == (2.0, 12345)


def test_the_file_system_of_a_path_is_the_nearest_and_the_last(told: Path) -> None:
    lines = [
        "/dev/a / ext4 rw 0 0",
        f"server:/x {told}/with\\040blank nfs4 ro,vers=4.2 0 0",
        f"none {told}/twice ext4 rw 0 0",
        f"none {told}/twice tmpfs rw 0 0",
    ]
    write(told / "proc/mounts", "\n".join(lines))
    assert host.find_mount(told / "other").kind == "ext4"
    found = host.find_mount(told / "with blank" / "not" / "there")
    assert (found.kind, found.options) == ("nfs4", ("ro", "vers=4.2"))
    assert host.find_mount(told / "twice").kind == "tmpfs" and host.find_mount(told / "twice2").kind == "ext4"
