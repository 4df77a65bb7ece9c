"""What takes root on Linux: file systems of one's own for one command, which are gone when it ends. Skipped where that is not to be had."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.toy import HANGS

READ_ONLY = """
while [ "$1" != -- ]; do
    allowed+=("$1"); mount --bind "$1" "$1" || exit 77; shift
done
shift
while read -r _ place _; do
    place=$(printf '%b' "$place")  # blanks are written as \\040
    for one in "${allowed[@]}"; do [ "$place" = "$one" ] && continue 2; done
    mount -o remount,bind,ro "$place" 2>/dev/null
done </proc/self/mounts
cd "${allowed[0]}" && exec "$@"
"""
"""Everything that is mounted becomes read-only, but for some folders."""

FULL = """
home=$1; shift 2
mount --bind "$home" /mnt || exit 77  # it may lie below /tmp
for place in /tmp /var/tmp; do
    mount -t tmpfs -o size=64k,mode=1777 tmpfs "$place" || exit 77
done
mkdir -p "$home" && mount --bind /mnt "$home" || exit 77
for place in /tmp /var/tmp; do dd if=/dev/zero of="$place/filled" bs=1k count=1000 2>/dev/null; done
[ -s /tmp/filled ] || exit 77
cd "$home" && exec "$@"
"""
"""The folders of temporary files are full."""

SMALL_MEMORY = """
home=$1; shift 2
mount -t tmpfs -o size=1m tmpfs /dev/shm || exit 77
cd "$home" && exec "$@"
"""
"""``/dev/shm`` takes 1 MB."""

REFUSED = 77


def within(
    script: str, writable: Sequence[Path], command: Sequence[object], **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command in a mount namespace of its own, in the first of the writable folders.

    Args:
        script: what is mounted there.
        writable: folders.
        command: words.
        environment: what is set; of an empty one the variable is unset.
    """
    if shutil.which("unshare") is None or os.geteuid() != 0:
        pytest.skip("only root may mount a file system, with unshare of util-linux")
    values = {name: value for name, value in {**os.environ, **environment}.items() if value}
    words = ["unshare", "--mount", "bash", "-c", script, "bash", *map(str, writable), "--", *map(str, command)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=HANGS, env=values)
    if done.returncode == REFUSED or done.stderr.startswith("unshare:"):
        pytest.skip(f"no file system may be mounted here: {done.stderr[-200:]}")
    return done
