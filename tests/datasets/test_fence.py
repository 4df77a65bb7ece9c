"""Paths that leave a root, told as by following each of them to its end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pipeline.datasets.listings import Fence


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A root beside a folder that is none of its business, with links in all directions."""
    root, other = tmp_path / "root", tmp_path / "root and more"
    for folder in (root / "a" / "b", other / "c"):
        folder.mkdir(parents=True)
        (folder / "x.wav").write_text("x")
    (root / "a" / "up").symlink_to("..")
    (root / "a" / "out").symlink_to(other)
    (root / "a" / "out.wav").symlink_to(other / "c" / "x.wav")
    (root / "a" / "in.wav").symlink_to("b/x.wav")
    (root / "a" / "lost.wav").symlink_to("nowhere.wav")
    (root / "a" / "round").symlink_to("round")
    (root / "a" / "one").symlink_to("two")
    (root / "a" / "two").symlink_to("one")
    (other / "back").symlink_to(root / "a")
    (tmp_path / "alias").symlink_to(root)
    return tmp_path


PATHS = [
    "root", "root/a/b/x.wav", "root/a/b/none.wav", "root/none/x.wav", "root/a/up/a/b/x.wav", "root/a/up/..", "root/a/up/../x",
    "root/a/out", "root/a/out/c/x.wav", "root/a/out/back/b/x.wav", "root/a/out/../x.wav", "root/a/out.wav", "root/a/in.wav",
    "root/a/lost.wav", "root/a/round", "root/a/round/x.wav", "root/a/one/two", "root and more/c/x.wav", "root and more/back/b/x.wav",
    "alias/a/b/x.wav", "alias/a/out.wav", "root/a/../../root/a/b/x.wav", "root/../root and more/c/x.wav", "root/.", "root/..",
]  # fmt: skip


@pytest.mark.parametrize("root", ["root", "alias", "root/a", "root/a/out", "root and more", "/", "none"])
def test_a_fence_tells_what_following_each_path_tells(tree: Path, root: str) -> None:
    fence = Fence(tree / root)
    for path in [*PATHS, *reversed(PATHS)]:
        real = Path(os.path.realpath(tree / path))
        assert fence.holds(tree / path) == real.is_relative_to(os.path.realpath(tree / root)), path
