"""Who wrote this, and is it alive."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

from pipeline.processes import Owner, from_plain, from_token, is_dead, mine


def _ended() -> Owner:
    """A process that has ended."""
    code = "from pipeline.processes import mine; print(mine().token())"
    made = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    found = from_token(made.stdout.strip())
    assert found is not None
    return found


def test_this_process_is_alive_and_one_that_ended_is_dead() -> None:
    assert not is_dead(mine())
    assert mine().pid == os.getpid()
    gone = _ended()
    assert is_dead(gone)
    assert is_dead(replace(mine(), started=gone.started)), "another process with the same number"


def test_a_killed_child_that_nobody_has_waited_for_is_dead() -> None:
    code = "from pipeline.processes import mine; print(mine().token(), flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        owner = from_token(child.stdout.readline().strip())
        assert owner is not None
        assert owner.pid == child.pid
        assert not is_dead(owner)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert is_dead(owner)


def test_what_runs_elsewhere_is_never_called_dead() -> None:
    gone = _ended()
    assert not is_dead(replace(gone, host="another"))
    assert not is_dead(replace(gone, started="1@00000000-0000-0000-0000-000000000000.1")), (
        "the machine before it was started anew"
    )


def test_owners_are_written_and_read() -> None:
    for owner in (mine(), Owner("a b/ü", 7)):
        assert from_plain(owner.plain()) == owner
        read = from_token(owner.token())
        assert read is not None
        assert (read.pid, read.started, read.here) == (owner.pid, owner.started, owner.here)
        assert len(owner.token()) < 150
        assert "/" not in owner.token()
    for odd in (None, [], {}, {"host": "a", "pid": True, "started": ""}, {"host": "a", "pid": -1, "started": ""}):
        assert from_plain(odd) is None
    for odd in ("", "x", "0~~a", "12", "~~", "1~x~a"):
        assert from_token(odd) is None
