"""Which anonymised copies and trained models of a challenge's folder are offered, by the names of folders alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.datasets.vpc import copies
from pipeline.datasets.vpc.copies import Offered
from pipeline.datasets.vpc.layout import look

SETS = ("libri_dev_enrolls", "libri_dev_trials_f", "libri_dev_trials_m")


def folders(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).mkdir(parents=True)
    return root


def offered(root: Path, edition: str = "auto") -> dict[str, Offered]:
    layout = look(root, edition)
    assert layout is not None
    return copies.offered(layout)


@pytest.mark.parametrize(
    ("edition", "level"), [("2020", "speaker"), ("2022", "speaker"), ("2024", "utterance"), ("2026", "utterance")]
)
def test_each_suffix_is_a_system_at_the_level_of_the_edition(tmp_path: Path, edition: str, level: str) -> None:
    both = [f"data/{name}{suffix}" for name in SETS for suffix in ("", "_mcadams", "_b-1")]
    found = offered(folders(tmp_path, *both, "data/train-clean-360", "data/train-clean-360_mcadams"), edition)
    training = tmp_path / "data" / "train-clean-360_mcadams"
    assert found == {
        "b-1": Offered("b-1", "_b-1", level, tmp_path / "data"),
        "mcadams": Offered("mcadams", "_mcadams", level, tmp_path / "data", {}, training),
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
        *(f"T25-1/data/{name}_T25-1" for name in SETS[:2]),
        "T25-1/data/libr_dev_trials_m_T25-1",
    )
    found = offered(tmp_path)
    assert list(found) == ["B4", "T25-1", "T8-5"]
    assert found["T8-5"] == Offered("T8-5", "_T8-5", "utterance", tmp_path / "T8-5" / "data")
    assert found["B4"].train_root == tmp_path / "B4" / "data" / "libri360_anon_B4"
    assert found["T25-1"].folders["libri_dev_trials_m"].name == "libr_dev_trials_m_T25-1"
