"""Roots of trees a level too high, by the names of folders alone."""

from __future__ import annotations

import pytest

from pipeline.datasets import trees
from tests.e2e.test_wrong_folders import SPEAKERS, TOO_HIGH


@pytest.mark.parametrize("kind", TOO_HIGH)
def test_each_kind_of_folder_above_the_speakers(kind: str) -> None:
    folders, said, below = TOO_HIGH[kind]
    found, roots = trees.find_roots_below([(*one.split("/"), "u.wav") for one in folders.split()])
    assert said in found and ["/".join(parts) for parts in roots] == below


@pytest.mark.parametrize("folders", SPEAKERS)
def test_folders_of_speakers(folders: str) -> None:
    assert trees.find_roots_below([(*one.split("/"), "u.wav") for one in folders.split()]) == ("", [])
