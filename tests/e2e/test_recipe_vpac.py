"""``recipe=vpac`` on the Attacker Challenge's tree: the systems with its traps, and ours as one more line of the tables."""

from __future__ import annotations

import csv
import re
import shlex
from pathlib import Path

import pandas as pd
import pytest
import torch

from pipeline import cli
from pipeline.evaluation.result import Result, read
from tests.challenge import write

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "recipes" / "vpac" / "README.md").read_text(encoding="utf-8")
SYSTEMS = ("B4", "T8-5", "T25-1")
SETS = ("libri_dev_trials_f", "libri_dev_trials_m", "libri_test_trials_f", "libri_test_trials_m")
BOTH = "libri (mean of dev and test)"


def of_readme(tree: Path, *more: str) -> list[str]:
    """The arguments of the first command of the README, for a tree with the originals in it."""
    found = re.search(r"^ {4}voice-privacy (recipe=vpac .*)$", README, re.MULTILINE)
    assert found is not None
    words = shlex.split(found[1].replace("VPC2024", str(tree / "original")).replace("=DIR", f"={tree}"))
    return [*words, "runtime.threads=1", f"paths.root={tree.parent / 'exp'}", *more]


def run(tree: Path, *more: str) -> Result:
    threads = torch.get_num_threads()
    try:
        assert cli.run(of_readme(tree, "dataset.protocol=reported", "diagnostics=false", *more)) == 0
    finally:
        torch.set_num_threads(threads)
    return read(max((tree.parent / "exp" / "runs").iterdir(), key=lambda one: one.stat().st_mtime_ns))


def card_of(made: Result) -> pd.DataFrame:
    with (made.folder / "scorecard.csv").open(newline="", encoding="utf-8") as file:
        return pd.DataFrame(list(csv.DictReader(file)))


def ours_in(made: Result) -> list[list[str]]:
    """The cells of our lines in the scorecard's tables, of each table in turn."""
    lines = (made.folder / "scorecard.md").read_text(encoding="utf-8").splitlines()
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if line.startswith("| ours: ")]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree with some of its systems, a fraction of its speakers, and utterances of half a second."""
    root = tmp_path_factory.mktemp("vpac") / "attackers"
    write("attacker", root, scale=0.03, seconds=0.5, systems=SYSTEMS)
    return root


@pytest.mark.slow
def test_the_systems_stand_in_the_table_under_an_attacker_trained_in_the_run(tree: Path) -> None:
    """A tiny ECAPA of two steps in place of the recipe's attacker; its line is that of the challenge's own."""
    tiny = ("train=small", "train.steps=2", "train.batch=4", "metric.asv.interval=none")
    made = run(tree, "extractor=[ecapa]", "backend=[cosine]", *tiny)
    rows = made.rows[(made.rows["metric"] == "eer") & (made.rows["variant"] == "speechbrain")]
    attacked = rows[rows["attacker"] == "semi_informed"].set_index(["system", "subset"])["value"]
    assert set(attacked.index.get_level_values("system")) == set(SYSTEMS)
    for system in SYSTEMS:
        parts = [attacked[system, name] for name in SETS]
        assert attacked[system, BOTH] == pytest.approx(sum(parts) / 4)
    log = (made.folder / "run.log").read_text()
    assert "libri360_anon_B4 is taken for train-clean-360_B4" in log
    assert "libri_dev_trails_f_T25-1 is taken for libri_dev_trials_f_T25-1" in log
    card = card_of(made)
    assert len(card) == 133 and (card["verdict"] != "").all()
    ours = card[card["our_system"] != ""]
    assert set(ours["extractor"]) == {"ecapa"} and set(ours["our_system"]) == set(SYSTEMS)
    assert set(card[card["extractor"] == "A.20"]["ours"]) == {""}
    assert set(card[(card["extractor"] == "ecapa") & (card["system"] == "B3")]["our_system"]) == {""}, "it is not there"
    tables = ours_in(made)
    assert [line[0].removesuffix(" (utterance)), cosine") for line in tables] == ["ours: ecapa (anonymised"] * 3, (
        "test, dev, and the mean of both"
    )
    heads = ("B3", "B4", "B5", "T8-5", "T10-2", "T12-5", "T25-1", "mean")
    shown = {head: cell for head, cell in zip(heads, tables[2][1:]) if cell.strip(" |") != "–"}
    wanted = {system: f"{100 * attacked[system, BOTH]:.1f}" for system in SYSTEMS}
    assert shown == wanted


@pytest.mark.slow
def test_the_recipes_own_attack(tree: Path, models: Path) -> None:
    """CAM++ as it comes and fine-tuned, with each back end; the cohort is what twelve training speakers give."""
    if not list(models.glob("*campplus*")):
        pytest.skip("the weights of CAM++ are not here: make install")
    made = run(tree, "system=[original,found:T8-5]", "train.steps=2", "backend.wccn.as_norm.top=10")
    lines = {line[0] for line in ours_in(made)}
    assert lines == {
        f"ours: campplus ({trained}), {backend}"
        for trained, backend in (
            ("anonymised (utterance)", "cosine"),
            ("anonymised (utterance)", "wccn"),
            ("original; back end anonymised (utterance)", "wccn"),
        )
    }
    assert set(card_of(made)["our_system"]) == {""}, "no published attacker is this one"
