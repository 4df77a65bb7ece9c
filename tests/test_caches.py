"""What libraries keep lies in one named folder, and a folder that takes nothing is done without."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pipeline import host
from pipeline.nets import compiled


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
    assert not list(Path(__file__).parent.glob("__pycache__/test_caches.*nbi"))


def _only_in(root: Path):  # type: ignore[no-untyped-def]
    real = host.tempfile.mkdtemp

    def made(*given: object, dir: Path | None = None, **named: object) -> str:
        if dir != root:
            raise OSError(28, "No space left on device")
        return real(*given, dir=dir, **named)  # type: ignore[call-overload,no-any-return]

    return made
