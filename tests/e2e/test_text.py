"""The words-only baseline through the command line: its EER by another way, beside what hears voices, and its bad input."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from pipeline import cli
from pipeline.metrics import trial_metrics
from pipeline.tables import results
from tests import toy

WORDS = {"a": "SHIP SEA SAIL WIND", "b": "TREE WOOD LEAF AXE", "c": "KING CROWN THRONE SWORD"}


def written(root: Path) -> dict[str, str]:
    """Tables ``text`` for a corpus: some words of a speaker's book, and some that all use."""
    random, said = np.random.default_rng(3), {}
    for table in sorted(root.glob("*/utt2spk")):
        lines = []
        for line in table.read_text().splitlines():
            name, speaker = line.split()
            book = WORDS["abc"[sum(speaker.encode()) % 3]].split()
            said[name] = " ".join(
                [*random.choice(book, 2), *random.choice(["THE", "A", "OF", "AND", "TO", "IN", "IT"], 6)]
            )
            lines.append(f"{name} {said[name]}\n")
        (table.parent / "text").write_text("".join(lines))
    return said


def eer(root: Path, subset: str, said: dict[str, str]) -> float:
    """The EER of the trials by scikit-learn's vectors and a loop."""
    model = TfidfVectorizer(tokenizer=str.split, token_pattern=None, lowercase=False, sublinear_tf=True)
    vectors = dict(zip(said, model.fit_transform(said.values()).toarray(), strict=True))
    owners = [line.split() for line in (root / "toy_enrolls" / "utt2spk").read_text().splitlines()]
    scores: dict[str, list[float]] = {"target": [], "nontarget": []}
    for line in (root / subset / "trials").read_text().splitlines():
        speaker, name, label = line.split()
        enrolled = np.mean([vectors[one] for one, owner in owners if owner == speaker], axis=0)
        scores[label].append(float(enrolled @ vectors[name] / np.linalg.norm(enrolled)))
    return trial_metrics(np.array(scores["target"]), np.array(scores["nontarget"])).eer["rocch"]


@pytest.mark.slow
def test_words_alone_stand_beside_voices(tmp_path: Path) -> None:
    root = toy.corpus(tmp_path / "data", speakers=6, utterances=4)
    said = written(root)
    done = toy.run(
        "recipe=kaldi", f"dataset.root={root}", "system=[original,b2r]", "extractor=[ge2e,text,f0]", "backend=[cosine]",
        "attacker=[ignorant,lazy_informed]", "metric=[asv,srd,zebra]", "metric.asv.interval=none", "metric.srd.replicates=0",
        "runtime.device=cpu", f"paths.root={tmp_path / 'exp'}", cwd=tmp_path, check=True,
    )  # fmt: skip
    folder = Path(done.stdout.splitlines()[-1]).parent
    rows = results.read(folder)
    words = rows[rows["extractor"] == "text"]
    assert set(words["trained_on"]) == {"original"} and set(words["backend"]) == {"cosine"}
    eers = words[words["metric"] == "eer"].set_index(["subset", "system", "attacker"])["value"].groupby("subset")
    for subset, values in eers:
        assert len(values) == 3 and values.tolist() == pytest.approx([eer(root, str(subset), said)] * 3, abs=1e-9)
    assert set(rows.loc[rows["metric"] == "mean_d", "extractor"]) == {"f0", "ge2e"}
    found = pd.read_parquet(folder / "diagnostics.parquet")
    assert set(found["extractor"]) - {""} == {"ge2e"}, "nothing is said of how strong an attack is that hears nothing"


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return toy.corpus(tmp_path / "data", speakers=4, utterances=4)


def command(root: Path, *more: str) -> int:
    return cli.run(["recipe=kaldi", f"dataset.root={root}", "system=[original]", "extractor=[text]", "attacker=[ignorant]",
                    "metric=[asv]", "metric.asv.interval=none", f"paths.root={root.parent / 'exp'}", *more])  # fmt: skip


def test_a_data_set_without_text_is_refused(corpus: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert command(corpus) == 3
    said = capfd.readouterr().err
    assert "no transcripts" in said and str(corpus) in said and "leave text out of extractor=[…]" in said


@pytest.mark.slow
def test_utterances_without_text_are_named_or_left_out(corpus: Path, capfd: pytest.CaptureFixture[str]) -> None:
    written(corpus)
    lost = []
    for table in (corpus / "toy_enrolls" / "text", corpus / "toy_trials_m" / "text"):
        first, *rest = table.read_text().splitlines(keepends=True)
        lost.append((first.split()[0], table))
        table.write_text("".join(rest))
    assert command(corpus) == 3
    said = capfd.readouterr().err
    assert all(f"{table}: utterance '{name}' of" in said for name, table in lost)
    assert command(corpus, "allow_partial=true") == 6
    assert lost[1][0] in capfd.readouterr().err
