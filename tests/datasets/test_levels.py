"""Roots of trees a level too high: split or collections in the place of speakers are refused, with the folders to give."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import soundfile

from pipeline.datasets import importers, trees
from pipeline.datasets.settings import DatasetSettings
from pipeline.errors import DataError

from .conftest import RATE, Tiny, noise

TOO_HIGH = {
    "splits": ("dev/a dev/b test/c test/d", "dev, test", ["dev", "test"]),
    "parts of a name": ("vox1_dev_wav/a vox1_dev_wav/b vox1_test_wav/c", "vox1_dev_wav, vox1_test_wav", ["vox1_dev_wav", "vox1_test_wav"]),
    "a collection": ("wav48/p1 wav48/p2", "wav48", ["wav48"]),
    "any single folder": ("mine/a mine/b", "mine", ["mine"]),
    "two levels": ("data/train/a data/train/b", "data", ["data/train"]),
    "TIMIT": ("DR1/a DR1/b DR2/c DR3/d", "DR1, DR2, DR3", ["DR1", "DR2", "DR3"]),
    "VoxCeleb": ("wav/id1/v1 wav/id1/v2 wav/id2/v3", "wav", ["wav"]),
    "sexes": ("female/a female/b male/c male/d", "female, male", ["female", "male"]),
}  # fmt: skip

SPEAKERS = (
    "id10001/v1 id10001/v2 id10002/v1 id10003/v1",
    "test01/s1 test02/s1 test03/s1",
    "Dev/s1 Amit/s1 Ravi/s1",
    "test dev clean",
    "female_01/s1 female_02/s1 male_01/s1",
    "train_a/wav bdl/wav clb/wav slt/wav",
    "a/wav b/wav c/wav",
)


@pytest.mark.parametrize("kind", TOO_HIGH)
def test_each_kind_of_folder_above_the_speakers(kind: str) -> None:
    folders, said, below = TOO_HIGH[kind]
    found, roots = trees.find_roots_below([(*one.split("/"), "u.wav") for one in folders.split()])
    assert said in found and ["/".join(parts) for parts in roots] == below


@pytest.mark.parametrize("folders", SPEAKERS)
def test_folders_of_speakers(folders: str) -> None:
    assert trees.find_roots_below([(*one.split("/"), "u.wav") for one in folders.split()]) == ("", [])


def tree(root: Path, *folders: str) -> Path:
    """A tree with three files in each folder, called after all of it."""
    for folder in folders:
        for number in range(3):
            name = f"{folder.replace('/', '-')}-{number}"
            path = root / folder / f"{name}.wav"
            path.parent.mkdir(parents=True, exist_ok=True)
            soundfile.write(path, noise(name), RATE)
    return root


@pytest.mark.parametrize(
    ("kind", "folders", "fault", "below"),
    [
        ("folders", ["dev/a", "dev/b", "test/c"], "level", ["dev", "test"]),
        ("folders", ["only"], "no-speaker-folder", []),
        ("folders", ["only/session"], "no-speaker-folder", []),
        ("librispeech", ["dev/a", "dev/b", "test/c"], "level", ["dev", "test"]),
        ("librispeech", ["dev/1/2", "dev/2/3", "test/3/4"], "layout", ["dev", "test"]),
    ],
)
def test_a_root_one_level_too_high_names_those_to_give(
    tmp_path: Path, refused: Callable[..., DataError], kind: str, folders: list[str], fault: str, below: list[str]
) -> None:
    root = tree(tmp_path / "own", *folders)
    (found,) = refused(importers.read_data_set, DatasetSettings(name=kind, root=str(root))).faults
    assert found.kind == fault and all(f"dataset.root={root / name}" in found.what for name in below)


def test_a_training_root_one_level_too_high(tiny: Tiny, tmp_path: Path, refused: Callable[..., DataError]) -> None:
    root = tree(tmp_path / "own", "clean/t1", "clean/t2", "other/t3")
    settings = tiny.save().settings(train=str(root))
    (found,) = refused(importers.read_data_set, settings).faults
    assert f"dataset.train={root}/clean or dataset.train={root}/other would be one" in found.what
    notes = importers.read_data_set(tiny.settings(train=str(root / "clean"))).notes
    assert "2 speakers of the training set clean, by the names of the folders: t1, t2" in notes
