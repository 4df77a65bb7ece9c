"""A run whose scores order the classes the wrong way round says so beside its results, where no EER does."""

from __future__ import annotations

import html
from pathlib import Path

import kaldiio
import numpy as np
import pandas as pd
import pytest

from pipeline import cli
from pipeline.metrics import eer
from tests import toy


def vectors(root: Path, place: Path, sign: int, seed: int) -> Path:
    """A direction a speaker; those of trials are turned round where ``sign`` is -1, as a push away from oneself."""
    random = np.random.default_rng(seed)
    voices: dict[str, np.ndarray] = {}
    place.mkdir()
    with kaldiio.WriteHelper(f"ark,scp:{place / 'xvector.ark'},{place / 'xvector.scp'}") as writer:
        for table in sorted(root.glob("*/utt2spk")):
            for line in table.read_text().splitlines():
                name, speaker = line.split()
                voices.setdefault(speaker, 5 * np.eye(32)[len(voices)])
                turned = sign if "trials" in table.parent.name else 1
                writer(name, (turned * voices[speaker] + random.standard_normal(32)).astype(np.float32))
    return place


def test_an_attack_whose_classes_are_the_wrong_way_round_is_flagged(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    root = toy.corpus(tmp_path / "data", utterances=4)
    pushed, sound = vectors(root, tmp_path / "xo", -1, 1), vectors(root, tmp_path / "xp", 1, 2)
    command = [
        "recipe=kaldi", f"dataset.root={root}", "system=[original,b2]", "extractor=[precomputed]", "attacker=[lazy_informed]",
        f"+extractor.precomputed.vectors={{original: {pushed}, b2: {sound}}}", "backend=[cosine]", "metric=[asv]",
        "metric.asv.interval=none", f"paths.root={tmp_path / 'exp'}",
    ]  # fmt: skip
    assert cli.run(command) == 0
    out, _ = capfd.readouterr()
    page = Path(out.splitlines()[-1])
    found = pd.read_parquet(page.parent / "diagnostics.parquet")
    found = found[found["check"] == "class_order"]
    assert set(found["attacker"]) == {"unprotected"} and set(found["subset"]) == {"toy_trials_f", "toy_trials_m"}
    assert found["flagged"].all()
    rows = pd.read_parquet(page.parent / "results.parquet")
    rows = rows[(rows["metric"] == "eer") & (rows["attacker"] == "unprotected")]
    assert (rows["value"] == 0.5).all(), "what the finding is for"
    for sentence, auc in zip(found["sentence"], found["value"]):
        assert auc < 0.2 and "the wrong way round, beyond chance" in sentence
        assert html.escape(sentence) in page.read_text(encoding="utf-8")
    assert out.count("! The scores order the classes the wrong way round") >= 1

    tables = [pd.read_parquet(path) for path in (tmp_path / "exp" / "store").glob("**/scores.parquet")]
    turned = [eer(-t["score"][t["target"]], -t["score"][~t["target"]]) for t in tables]
    for sentence in found["sentence"]:
        assert any(sentence.endswith(f"has an EER of {100 * one:.1f} %.") for one in turned)
