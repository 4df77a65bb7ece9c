"""What the system is said to give, from what its files say; where libraries keep what they compile; the collector of garbage."""

from __future__ import annotations

import gc
import math
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline import host
from pipeline.nets import compiled


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A system that says what a test writes."""
    monkeypatch.setattr(host, "PROC", tmp_path / "proc")
    monkeypatch.setattr(host, "GROUPS", tmp_path / "groups")
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
    write(groups / "job/step/cpu.max", "max 100000\n")
    write(groups / "job/cpu.max", "250000 100000\n")
    write(groups / "job/memory.max", "1000000\n")
    write(groups / "job/step/memory.max", "max\n")
    assert (host.read_quota(), host.count_allowed_cores(), host.read_memory()) == (2.5, 3, 1_000_000)


@pytest.fixture
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in host.FOLDERS:
        monkeypatch.setenv(name, "")


@pytest.mark.usefixtures("unset")
def test_a_named_folder_is_used_and_what_the_user_said_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLCONFIGDIR", "/their/own")
    host.use_cache_folder(tmp_path / "cache")
    assert os.environ["MPLCONFIGDIR"] == "/their/own"
    assert os.environ["NUMBA_CACHE_DIR"] == str(tmp_path / "cache" / "numba")
    host.use_cache_folder(tmp_path / "later")
    assert os.environ["NUMBA_CACHE_DIR"] == str(tmp_path / "cache" / "numba") and not (tmp_path / "later").exists()


@pytest.mark.usefixtures("unset")
def test_where_nothing_can_be_kept_it_goes_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[tuple[object, ...]] = []
    monkeypatch.setattr(host.atexit, "register", lambda *called: ends.append(called))
    monkeypatch.setattr(host.tempfile, "mkdtemp", _only_in(tmp_path / "root"))
    (tmp_path / "file").write_text("no folder")
    host.use_cache_folder(tmp_path / "file" / "cache", tmp_path / "root")
    (made,) = (tmp_path / "root").iterdir()
    assert os.environ["NUMBA_CACHE_DIR"] == str(made / "numba")
    ((remove, *given),) = ends
    remove(*given)  # type: ignore[operator]
    assert not made.exists()


@pytest.mark.usefixtures("unset")
def test_without_any_place_kernels_are_compiled_and_none_is_kept_beside_the_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host.tempfile, "mkdtemp", _only_in(tmp_path / "nowhere"))
    (tmp_path / "file").write_text("no folder")
    host.use_cache_folder(tmp_path / "file" / "cache")
    assert not any(os.environ[name] for name in host.FOLDERS)
    assert not compiled._is_kept("") and not compiled._is_kept(str(tmp_path / "file" / "numba"))

    def double(x: int) -> int:
        return 2 * x

    assert compiled.compiled(double)(21) == 42
    assert not list(Path(__file__).parent.glob("__pycache__/test_host.*nbi"))


def _only_in(root: Path):  # type: ignore[no-untyped-def]
    real = host.tempfile.mkdtemp

    def made(*given: object, dir: Path | None = None, **named: object) -> str:
        if dir != root:
            raise OSError(28, "No space left on device")
        return real(*given, dir=dir, **named)  # type: ignore[call-overload,no-any-return]

    return made


@pytest.fixture
def threshold() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@pytest.mark.usefixtures("threshold")
@pytest.mark.parametrize("before", [(700, 10, 10), (0, 10, 10), (host.OBJECTS + 1, 5, 5)])
def test_the_collector_of_garbage_is_put_back(before: tuple[int, int, int]) -> None:
    gc.set_threshold(*before)
    with pytest.raises(ValueError, match="odd"), host.collect_seldom():
        # Who has switched it off, or has it look more seldom still, keeps that.
        assert gc.get_threshold() == (0 if before[0] == 0 else max(before[0], host.OBJECTS), *before[1:])
        raise ValueError("odd")
    assert gc.get_threshold() == before
