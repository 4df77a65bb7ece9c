"""Vectors and PLDA that somebody else made: Kaldi's files in, the published attacker out, no extractor at work."""

from __future__ import annotations

from pathlib import Path

import kaldiio
import numpy as np
import pandas as pd
import pytest

from pipeline.metrics import trial_metrics
from tests import toy
from tests.running import Command

DIMENSION, WITHIN = 16, 0.6


def written(root: Path, place: Path, seed: int) -> dict[str, np.ndarray]:
    """Vectors of all utterances of a data set as ``xvector.scp`` and ``.ark``: a direction a speaker, and noise."""
    random = np.random.default_rng(seed)
    voices: dict[str, np.ndarray] = {}
    made: dict[str, np.ndarray] = {}
    for table in sorted(root.glob("*/utt2spk")):
        for line in table.read_text().splitlines():
            name, speaker = line.split()
            voices.setdefault(speaker, random.standard_normal(DIMENSION))
            made[name] = (voices[speaker] + WITHIN * random.standard_normal(DIMENSION)).astype(np.float32)
    place.mkdir()
    with kaldiio.WriteHelper(f"ark,scp:{place / 'xvector.ark'},{place / 'xvector.scp'}") as writer:
        for name, vector in made.items():
            writer(name, vector)
    return made


def kaldi_plda(place: Path) -> Path:
    """``mean.vec``, ``transform.mat`` and ``plda`` as text: the very model that the vectors were drawn from."""
    place.mkdir()
    eye = "\n".join(
        "  " + " ".join("1" if row == column else "0" for column in range(DIMENSION)) for row in range(DIMENSION)
    )
    zeros = " ".join(["0"] * DIMENSION)
    scaled = "\n".join(
        "  " + " ".join(repr(1 / WITHIN) if row == column else "0" for column in range(DIMENSION))
        for row in range(DIMENSION)
    )
    (place / "mean.vec").write_text(f" [ {zeros} ]\n")
    (place / "transform.mat").write_text(f" [\n{eye} ]\n")
    psi = " ".join([repr(1 / WITHIN**2)] * DIMENSION)
    (place / "plda").write_text(f"<Plda>  [ {zeros} ]\n [\n{scaled} ]\n [ {psi} ]\n</Plda> ")
    return place


@pytest.mark.slow
def test_kaldi_vectors_and_plda_give_rows_without_any_extraction(tmp_path: Path, command: Command) -> None:
    root = toy.corpus(tmp_path / "data")
    original, protected = written(root, tmp_path / "xo", 1), written(root, tmp_path / "xp", 2)
    words = (
        "recipe=kaldi", f"dataset.root={root}", "system=[original,b2]", "extractor=[precomputed]", "attacker=[ignorant,lazy_informed]",
        f"+extractor.precomputed.vectors={{original: {tmp_path / 'xo'}, b2: {tmp_path / 'xp'}}}", "backend=[cosine,plda]",
        f"backend.plda.source={kaldi_plda(tmp_path / 'plda')}", "backend.plda.length_normalise=false", "metric=[asv,srd]",
        "metric.srd.unit=utterance", "metric.srd.replicates=0", "metric.asv.interval=none", "diagnostics=false",
    )  # fmt: skip
    rows = command(*words, status=0).rows
    assert not list((tmp_path / "exp" / "store").glob("extract*"))
    eers = rows[(rows["metric"] == "eer")].set_index(["subset", "attacker", "backend"])["value"]
    expected = _cosine_eer(root / "toy_trials_f" / "trials", root / "toy_enrolls" / "utt2spk", original, protected)
    assert eers["toy_trials_f", "ignorant", "cosine"] == expected
    # Voices of the two systems are independent draws: between them speakers cannot be told apart, within one they can.
    assert eers["toy_trials_f", "ignorant", "plda"] > 0.2
    assert eers["toy_trials_f", "lazy_informed", "plda"] < 0.1
    cllr = rows[(rows["metric"] == "cllr") & (rows["backend"] == "plda")].set_index(["subset", "attacker"])["value"]
    assert cllr["toy_trials_f", "unprotected"] < 0.35, "scores of the true model are LLRs"
    assert set(rows.loc[rows["metric"] == "idr", "extractor"]) == {"precomputed"}
    assert command(*words, status=0).tasks[1] == 0


def _cosine_eer(trials: Path, utt2spk: Path, enrolled: dict[str, np.ndarray], tried: dict[str, np.ndarray]) -> float:
    table = pd.DataFrame([line.split() for line in utt2spk.read_text().splitlines()], columns=["utterance", "speaker"])
    units = {name: vector / np.linalg.norm(vector) for name, vector in {**enrolled}.items()}
    models = {
        who: np.mean([units[name] for name in part], axis=0) for who, part in table.groupby("speaker")["utterance"]
    }
    scores: dict[str, list[float]] = {"target": [], "nontarget": []}
    for line in trials.read_text().splitlines():
        model, name, label = line.split()
        a, b = models[model].astype(np.float64), tried[name].astype(np.float64)
        scores[label].append(float(a @ b / np.linalg.norm(a) / np.linalg.norm(b)))
    return trial_metrics(np.array(scores["target"]), np.array(scores["nontarget"])).eer["rocch"]
