"""Free memory goes back to the system."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.nets import memory

# Blocks below the threshold of mapped ones stay with the process while a later block is in use.
HOLDS_FREE_MEMORY = """
import ctypes
from pathlib import Path
from pipeline.nets import memory

def held():
    return int(next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS")).split()[1])

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
blocks = [ctypes.c_void_p(libc.malloc(100_000)) for _ in range(2000)]
for block in blocks:
    ctypes.memset(block, 1, 100_000)
for block in blocks[:-1]:
    libc.free(block)
before = held()
memory.release_free_memory()
print(before - held())
"""


@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="needs Linux's /proc")
def test_free_memory_is_given_back() -> None:
    done = subprocess.run([sys.executable, "-c", HOLDS_FREE_MEMORY], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 150_000


def test_other_c_libraries_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory.platform, "libc_ver", lambda: ("", ""))
    memory._glibc.cache_clear()
    try:
        assert memory._glibc() is None
        memory.release_free_memory()
    finally:
        memory._glibc.cache_clear()
