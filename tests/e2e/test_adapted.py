"""Attackers that adapt, through the command line: back end, network, both, and their scores joined; and what is said where
none does."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

from pipeline.tables import results
from tests import toy

FEW = ("metric=[asv]", "metric.asv.replicates=0", "runtime.device=cpu", "runtime.threads=1")


def training_set(folder: Path, speakers: int) -> Path:
    """A Kaldi set with one recording of six seconds of each of some speakers who are not evaluated."""
    lines: dict[str, list[str]] = {"wav.scp": [], "utt2spk": [], "spk2gender": []}
    folder.mkdir(parents=True)
    for index in range(20, 20 + speakers):
        name, speaker, path = toy.wav(folder, index, 0, 6.0)
        sex = toy.synthetic.speaker(toy.SEED, index).sex
        for table, line in zip(lines, (f"{name} {path}", f"{name} {speaker}", f"{speaker} {sex}"), strict=True):
            lines[table].append(line)
    for table, content in lines.items():
        (folder / table).write_text("".join(f"{line}\n" for line in content))
    return folder


@pytest.fixture
def root(tmp_path: Path, models: Path) -> Path:
    if not (models / "campplus" / "campplus_cn_en_common.pt").is_file():
        pytest.skip("the offline weights are not here: make install")
    return toy.corpus(tmp_path / "data", speakers=4, utterances=4)


@pytest.mark.slow
def test_a_system_is_attacked_in_each_way_and_held_out_speakers_choose(root: Path, tmp_path: Path) -> None:
    train = training_set(tmp_path / "train", 20)
    command = [
        "recipe=kaldi", f"dataset.root={root}", f"dataset.train={train}", "system=[original,b2r]", "extractor=[campplus]",
        "attacker=[lazy_informed,semi_informed]", "backend=[cosine,wccn]", "backend.wccn.as_norm.top=16", "fusion=[equal]",
        "train.steps=2", "train.layers=last", "attacker.semi_informed.training_draws=2", *FEW,
    ]  # fmt: skip
    done = toy.run(*command, cwd=tmp_path, check=True)
    folder = Path(done.stdout.splitlines()[-1]).parent
    rows = results.read(folder)
    semi = rows[rows["attacker"] == "semi_informed"]
    on = "anonymised (utterance pieces, 2 draws)"
    both = f"original; back end {on}"
    ways = {(on, "cosine")}
    for centre in ("wccn", "wccn, enrolment centre"):
        ways |= {(on, centre), (both, centre), (f"{both} + {on}", f"{centre}, fused (equal)")}
    assert set(zip(semi["trained_on"], semi["backend"])) == ways
    assert set(rows["status"]) == {"ok"}
    attacks = pd.read_parquet(folder / "attacks.parquet").query("system == 'b2r'")
    held = attacks.dropna(subset="held_out")
    assert set(zip(held["trained_on"], held["backend"])) == {way for way in ways if "fused" not in way[1]}
    assert set(held["attacker"]) == {"semi_informed"} and held["held_out"].between(0, 0.5).all()
    said = " ".join(done.stdout.split())
    assert re.search(
        r"b2r (protects|is not shown to protect|does not protect)[^:]*: EER .*[;(] ?lowest of \d+ attacks, ", said
    ), said
    checks = pd.read_parquet(folder / "diagnostics.parquet")
    assert {"fine_tuning", "held_out"} <= set(checks["check"])
    assert not {"weak_extractor", "not_adapted"} & set(checks["check"])
    again = toy.run(*command, cwd=tmp_path, check=True)
    assert toy.counts(again)[1] == 0


@pytest.mark.slow
def test_weaker_attacks_than_those_at_hand_are_said_to_be(root: Path, tmp_path: Path) -> None:
    given = ("recipe=kaldi", f"dataset.root={root}", "system=b2", "extractor=[ge2e]", "attacker=[lazy_informed]", *FEW)
    done = toy.run(*given, cwd=tmp_path, check=True)
    said = " ".join(done.stdout.split())
    assert "! The attacks use ge2e. Stronger extractors are at hand (campplus, " in said
    assert "No attack was adapted to a system." in said
    assert "the only attack, lazy_informed: " in said and "Unprotected speech: EER " in said


@pytest.mark.slow
def test_too_few_training_speakers_are_refused_with_the_remedy(root: Path, tmp_path: Path) -> None:
    train = training_set(tmp_path / "train", 8)
    done = toy.run(
        "recipe=kaldi", f"dataset.root={root}", f"dataset.train={train}", "system=b2", "attacker=[semi_informed]",
        "extractor=[campplus]", "backend=[wccn]", "train=none", *FEW, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert "it takes 10 or more" in done.stderr and "dataset.train=DIR" in done.stderr
