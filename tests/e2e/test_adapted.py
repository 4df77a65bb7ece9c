"""Attackers that adapt, through the command line: back end, network, both, and their scores joined; and what is said where
none does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import toy
from tests.running import Command

FEW = ("metric=[asv]", "metric.asv.replicates=0", "runtime.device=cpu", "runtime.threads=1")


def training_set(folder: Path, speakers: int) -> Path:
    """A Kaldi set with one recording of six seconds of each of some speakers who are not evaluated."""
    rows = []
    for index in range(20, 20 + speakers):
        name, speaker, path = toy.wav(folder, index, 0, 6.0)
        rows.append((name, speaker, toy.synthetic.make_speaker(toy.SEED, index).sex, path))
    return toy.write_set(folder, rows)


@pytest.fixture
def root(tmp_path: Path, models: Path) -> Path:
    if not (models / "campplus" / "campplus_cn_en_common.pt").is_file():
        pytest.skip("the offline weights are not here: make install")
    return toy.corpus(tmp_path / "data", speakers=4, utterances=4)


@pytest.mark.slow
def test_a_system_is_attacked_in_each_way_and_held_out_speakers_choose(
    root: Path, tmp_path: Path, command: Command
) -> None:
    train = training_set(tmp_path / "train", 20)
    adapted = (
        "recipe=kaldi", f"dataset.root={root}", f"dataset.train={train}", "system=[original,b2r]", "extractor=[campplus]",
        "attacker=[lazy_informed,semi_informed]", "backend=[cosine,wccn]", "backend.wccn.as_norm.top=16", "fusion=[equal]",
        "train.steps=2", "train.layers=last", "attacker.semi_informed.training_draws=2", *FEW,
    )  # fmt: skip
    ended = command(*adapted, status=0)
    semi = ended.rows[ended.rows["attacker"] == "semi_informed"]
    on = "anonymised (utterance pieces, 2 draws)"
    both = f"original; back end {on}"
    ways = {(on, "cosine")}
    for centre in ("wccn", "wccn, enrolment centre"):
        ways |= {(on, centre), (both, centre), (f"{both} + {on}", f"{centre}, fused (equal)")}
    assert set(zip(semi["trained_on"], semi["backend"])) == ways
    assert set(ended.rows["status"]) == {"ok"}
    held = ended.run.attacks.query("system == 'b2r'").dropna(subset="held_out")
    assert set(zip(held["trained_on"], held["backend"])) == {way for way in ways if "fused" not in way[1]}
    assert set(held["attacker"]) == {"semi_informed"} and held["held_out"].between(0, 0.5).all()
    verdict = r"b2r (protects|is not shown to protect|does not protect)[^:]*: EER .*[;(] ?lowest of \d+ attacks, "
    assert re.search(verdict, ended.screen)
    checks = set(ended.run.diagnostics["check"])
    assert {"fine_tuning", "held_out"} <= checks and not {"weak_extractor", "not_adapted"} & checks
    assert command(*adapted, status=0).tasks[1] == 0


@pytest.mark.slow
def test_weaker_attacks_than_those_at_hand_are_said_to_be_and_too_few_training_speakers_are_refused(
    root: Path, tmp_path: Path, command: Command
) -> None:
    bare = ("recipe=kaldi", f"dataset.root={root}", "system=b2", *FEW)
    screen = command(*bare, "extractor=[ge2e]", "attacker=[lazy_informed]", status=0).screen
    for words in (
        "! The attacks use ge2e. Stronger extractors are at hand (campplus, ", "No attack was adapted to a system.",
        "the only attack, lazy_informed: ", "Unprotected speech: EER ",
    ):  # fmt: skip
        assert words in screen
    few = (
        f"dataset.train={training_set(tmp_path / 'train', 8)}",
        "attacker=[semi_informed]",
        "backend=[wccn]",
        "train=none",
    )
    err = command(*bare, "extractor=[campplus]", *few, status=3).err
    assert "it takes 10 or more" in err and "dataset.train=DIR" in err
