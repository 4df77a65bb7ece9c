"""Who wrote a file and whether he is alive; what a run starts: no code of the current folder, and of the user's programs their own."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import pytest

from pipeline import processes
from pipeline.processes import Owner, is_dead, is_of_another_boot, parse_token, read_owner, this_process


def _ended() -> Owner:
    """A process that has ended."""
    code = "from pipeline.processes import this_process; print(this_process().token())"
    made = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    found = parse_token(made.stdout.strip())
    assert found is not None
    return found


def test_this_process_is_alive_and_one_that_ended_is_dead() -> None:
    assert not is_dead(this_process())
    assert this_process().pid == os.getpid()
    gone = _ended()
    assert is_dead(gone)
    assert is_dead(replace(this_process(), started=gone.started)), "another process with the same number"


def test_a_killed_child_that_nobody_has_waited_for_is_dead() -> None:
    code = "from pipeline.processes import this_process; print(this_process().token(), flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        owner = parse_token(child.stdout.readline().strip())
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


def test_this_machine_before_it_was_started_anew_is_told_from_another_one() -> None:
    ticks, _, place = this_process().started.partition("@")
    boot, _, namespace = place.partition(".")
    before = replace(this_process(), started=f"{ticks}@00000000-0000-0000-0000-000000000000.{namespace}")
    assert is_of_another_boot(before)
    for other in (
        this_process(),
        replace(before, host="another"),
        replace(before, started=""),
        replace(this_process(), started=f"{ticks}@{boot}.1"),
    ):
        assert not is_of_another_boot(other), other


def test_owners_are_written_and_read() -> None:
    for owner in (this_process(), Owner("a b/ü", 7)):
        assert read_owner(owner.plain()) == owner
        read = parse_token(owner.token())
        assert read is not None
        assert (read.pid, read.here) == (owner.pid, owner.here)
        assert read.started.partition("@")[0] == owner.started.partition("@")[0]
        assert read.token() == owner.token(), "a token of a token is the same"
        assert "/" not in owner.token()
    earlier = parse_token(f"{this_process().pid}~{this_process().started}~{this_process().host}")
    assert earlier is not None and earlier.here, "what an earlier version left is told as well"
    for odd in (None, [], {}, {"host": "a", "pid": True, "started": ""}, {"host": "a", "pid": -1, "started": ""}):
        assert read_owner(odd) is None
    for odd in ("", "x", "0~~a", "12", "~~", "1~x~a"):
        assert parse_token(odd) is None


def test_names_fit_any_file_system_whatever_the_machine_is_called() -> None:
    """eCryptfs takes 143 bytes; a key has 64, and what the store puts around a token 23 at most."""
    boot = "00000000-0000-0000-0000-000000000000"
    longest = Owner("a" * 64, 4_194_304, f"{10**12}@{boot}.4026531836")
    assert len(longest.token()) <= 143 - 64 - 23
    others = [
        replace(longest, host="b" * 64),
        replace(longest, started=longest.started.replace(boot, boot[:-1] + "1")),
        replace(longest, started=longest.started[:-1] + "7"),
        replace(longest, pid=7),
        replace(longest, started="1" + longest.started),
    ]
    assert len({one.token() for one in [longest, *others]}) == 1 + len(others)
    assert not any(is_dead(one) for one in map(parse_token, (one.token() for one in others)) if one is not None)


def test_a_process_that_proc_hides_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under ``hidepid=2`` the processes of other users have no folder in /proc."""
    me = this_process()

    def hidden(pid: int) -> tuple[str, str]:
        raise FileNotFoundError(2, "No such file or directory", f"/proc/{pid}/stat")

    monkeypatch.setattr(processes, "_read_stat", hidden)
    assert not is_dead(me)
    monkeypatch.setattr(processes.os, "kill", _refuses)
    assert not is_dead(me), "it is somebody else's"
    monkeypatch.undo()
    gone = _ended()
    monkeypatch.setattr(processes, "_read_stat", hidden)
    assert is_dead(gone)


def _refuses(pid: int, number: int) -> None:
    raise PermissionError(1, "Operation not permitted")


SHADOWED = ("typing", "__future__", "random", "socket", "pickle", "logging", "numpy", "hydra_plugins/evil/__init__")


@pytest.fixture
def strangers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder is a stranger's, whose modules have names that ours import; each writes ``RAN-…`` when it runs."""
    for name in SHADOWED:
        path = tmp_path / "here" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"open({str(tmp_path)!r} + '/RAN-' + __name__, 'w')\nraise SystemExit(9)\n")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def ran(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.parent.glob("RAN-*"))


def python(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, env={**os.environ, **environment})


def test_a_strangers_folder_is_one(strangers: Path) -> None:
    assert python("-c", "import random").returncode == 9 and ran(strangers) == ["RAN-random"]


def test_the_command_imports_nothing_from_the_current_folder(strangers: Path) -> None:
    done = python("-m", "pipeline", "--cfg", "job", "recipe=demo")
    assert (done.returncode, ran(strangers)) == (0, []), done.stderr


@pytest.mark.slow
def test_nor_where_pythonpath_has_an_empty_part(strangers: Path) -> None:
    """``export PYTHONPATH=$PYTHONPATH:DIR`` makes one, and it means the current folder. Python's own modules come before it."""
    script = "import sys; from pipeline.__main__ import main; sys.argv = ['voice-privacy', '--cfg', 'job', 'recipe=demo']; main()"
    for name in SHADOWED[:-1]:
        (strangers / f"{name}.py").unlink()
    done = python("-P", "-c", script, PYTHONPATH=f"{os.pathsep}/nowhere")
    assert (done.returncode, ran(strangers)) == (0, []), done.stderr


def test_a_process_of_a_library_does_not_and_a_program_of_the_users_does(strangers: Path) -> None:
    with processes.isolate_python():
        started = get_context("spawn").Process(target=os.getpid)
        started.start()
        code = "import random, sys; sys.path.count('') and sys.exit(1)"
        assert python("-c", code).returncode == 0
        started.join()
        assert (started.exitcode, ran(strangers)) == (0, [])
        assert processes.run_program([sys.executable, "-c", "import random"], 60)[0] == 9
    assert "PYTHONSAFEPATH" not in os.environ and ran(strangers) == ["RAN-random"]
