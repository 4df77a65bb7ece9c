"""A run whose scores order the classes the wrong way round says so beside its results, where no EER does."""

from __future__ import annotations

import html
from pathlib import Path

import kaldiio
import numpy as np
import pandas as pd

from pipeline.metrics import eer
from tests import toy
from tests.running import Command


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


def test_an_attack_whose_classes_are_the_wrong_way_round_is_flagged(tmp_path: Path, command: Command) -> None:
    root = toy.corpus(tmp_path / "data", utterances=4)
    pushed, plain = vectors(root, tmp_path / "xo", -1, 1), vectors(root, tmp_path / "xp", 1, 2)
    ended = command(
        "recipe=kaldi", f"dataset.root={root}", "system=[original,b2]", "extractor=[precomputed]", "attacker=[lazy_informed]",
        f"+extractor.precomputed.vectors={{original: {pushed}, b2: {plain}}}", "backend=[cosine]", "metric=[asv]",
        "metric.asv.interval=none", status=0,
    )  # fmt: skip
    checks = ended.run.diagnostics.query("check == 'class_order'")
    assert set(checks["attacker"]) == {"unprotected"} and set(checks["subset"]) == {"toy_trials_f", "toy_trials_m"}
    assert checks["flagged"].all()
    rates = ended.rows.query("metric == 'eer' and attacker == 'unprotected'")["value"]
    assert (rates == 0.5).all(), "what the finding is for"
    page = (ended.folder / "report.html").read_text(encoding="utf-8")
    tables = [pd.read_parquet(path) for path in (tmp_path / "exp" / "store").glob("**/scores.parquet")]
    turned = [eer(-t["score"][t["target"]], -t["score"][~t["target"]]) for t in tables]
    for sentence, auc in zip(checks["sentence"], checks["value"]):
        assert auc < 0.2 and "the wrong way round, beyond chance" in sentence and html.escape(sentence) in page
        assert any(sentence.endswith(f"has an EER of {100 * rate:.1f} %.") for rate in turned)
    assert "! The scores order the classes the wrong way round" in ended.out
