"""Which anonymised copies and trained models of a challenge's folder are offered, by the names of folders alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.datasets.vpc import models
from pipeline.datasets.vpc.layout import FoundCopy, list_copies, read_layout
from pipeline.datasets.vpc.models import Checkpoint

SETS = ("libri_dev_enrolls", "libri_dev_trials_f", "libri_dev_trials_m")


def folders(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).mkdir(parents=True)
    return root


def offered(root: Path, edition: str = "auto") -> dict[str, FoundCopy]:
    layout = read_layout(root, edition)
    assert layout is not None
    return list_copies(layout)


@pytest.mark.parametrize(
    ("edition", "level"), [("2020", "speaker"), ("2022", "speaker"), ("2024", "utterance"), ("2026", "utterance")]
)
def test_each_suffix_is_a_system_at_the_level_of_the_edition(tmp_path: Path, edition: str, level: str) -> None:
    both = [f"data/{name}{suffix}" for name in SETS for suffix in ("", "_mcadams", "_b-1")]
    found = offered(folders(tmp_path, *both, "data/train-clean-360", "data/train-clean-360_mcadams"), edition)
    training = tmp_path / "data" / "train-clean-360_mcadams"
    assert found == {
        "b-1": FoundCopy("b-1", "_b-1", level, tmp_path / "data"),
        "mcadams": FoundCopy("mcadams", "_mcadams", level, tmp_path / "data", {}, training),
    }


def test_a_suffix_that_is_called_like_the_original_keeps_its_underscore(tmp_path: Path) -> None:
    found = offered(folders(tmp_path, *(f"data/{name}{suffix}" for name in SETS for suffix in ("", "_original"))))
    assert list(found) == ["_original"]


def test_the_trees_of_the_attacker_challenge(tmp_path: Path) -> None:
    """A hyphen in the suffix, a training set of another name, and a misspelt folder, which is found by name."""
    folders(
        tmp_path,
        *(f"T8-5/data/{name}_T8-5" for name in SETS),
        *(f"B4/data/{name}_B4" for name in SETS),
        "B4/data/libri360_anon_B4",
        *(f"T25-1/data/{name}_T25-1" for name in SETS[:1]),
        "T25-1/data/libri_dev_trails_f_T25-1",  # begins like a raw set, and is none
        "T25-1/data/libr_dev_trials_m_T25-1",
    )
    found = offered(tmp_path)
    assert list(found) == ["B4", "T25-1", "T8-5"]
    assert found["T8-5"] == FoundCopy("T8-5", "_T8-5", "utterance", tmp_path / "T8-5" / "data")
    assert found["B4"].train_root == tmp_path / "B4" / "data" / "libri360_anon_B4"
    assert {name: place.name for name, place in found["T25-1"].folders.items()} == {
        "libri_dev_enrolls": "libri_dev_enrolls_T25-1",
        "libri_dev_trials_f": "libri_dev_trails_f_T25-1",
        "libri_dev_trials_m": "libr_dev_trials_m_T25-1",
    }


def model(root: Path, *names: str) -> Path:
    """Folders with a file that is called like the weights of a speaker embedding."""
    for name in names:
        (root / name).mkdir(parents=True, exist_ok=True)
        (root / name / "embedding_model.ckpt").touch()
    return root


def checkpoint(root: Path, edition: str = "2024", suffix: str = "_x") -> Checkpoint | None:
    layout = read_layout(folders(root, *(f"data/{name}" for name in SETS)), edition)
    assert layout is not None
    return models.choose_copy_model(layout, suffix) if suffix else models.choose_original_model(layout)


def test_the_highest_number_is_taken_as_a_number(tmp_path: Path) -> None:
    model(tmp_path, *(f"exp/asv_anon_x/CKPT+{number}" for number in (2, 9, 10)))
    (tmp_path / "exp" / "asv_anon_x" / "CKPT+11").mkdir()
    found = checkpoint(tmp_path)
    assert found is not None and found.folder == tmp_path / "exp" / "asv_anon_x" / "CKPT+10"
    assert found.reason == (
        "exp/asv_anon_x/CKPT+10 (the last of 3 checkpoints; without weights and passed over: CKPT+11)"
    )


def test_weights_without_checkpoint_folders(tmp_path: Path) -> None:
    model(tmp_path, "exp/asv_orig")
    found = checkpoint(tmp_path, suffix="")
    assert found is not None and (found.folder, found.reason) == (tmp_path / "exp" / "asv_orig", "exp/asv_orig")


def test_nothing_is_made_up(tmp_path: Path) -> None:
    (tmp_path / "exp" / "asv_anon_x" / "CKPT+1").mkdir(parents=True)
    assert checkpoint(tmp_path) is None


LOG = """epoch: 1, lr: 1.00e-03 - train loss: 9.10 - valid loss: 7.25, valid ErrorRate: 5.0e-01
epoch: 2, lr: 1.00e-03 - train loss: 8.10 - valid loss: 3.25e+00, valid ErrorRate: 2.0e-01
epoch: 3, lr: 1.00e-03 - train loss: 7.10 - valid loss: nan, valid ErrorRate: 1.0e-01
epoch: 10, lr: 1.00e-03 - train loss: 6.10 - valid loss: 4.50, valid ErrorRate: 1.0e-01
"""


@pytest.mark.parametrize(
    ("there", "best", "why"),
    [
        ((1, 2, 10), 2, "the lowest valid loss, 3.25, in train_log.txt"),
        ((1, 10), 10, "the lowest valid loss, 4.5, in train_log.txt; epoch 2 was better and its checkpoint is gone"),
        ((3, 12), 12, "the last of 2: train_log.txt tells no valid loss of them"),
    ],
)
def test_2026_takes_the_lowest_valid_loss(tmp_path: Path, there: tuple[int, ...], best: int, why: str) -> None:
    model(tmp_path, *(f"exp/asv_anon_x/CKPT+{number}" for number in there))
    (tmp_path / "exp" / "asv_anon_x" / "train_log.txt").write_text(LOG)
    found = checkpoint(tmp_path, "2026")
    assert found is not None and found.folder.name == f"CKPT+{best}"
    assert found.reason == f"exp/asv_anon_x/CKPT+{best} ({why})"
