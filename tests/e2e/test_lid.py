"""Disclosure of one among N through the command line: rows from the stored scores, and the figures in the report."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from pipeline import cli
from pipeline.evaluation.result import read
from pipeline.metrics import lid, loso_slopes, pi_link_curve
from tests import toy
from tests.e2e.test_precomputed import written


def test_a_run_has_the_disclosure_of_its_scores(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = toy.corpus(tmp_path / "data", speakers=8, utterances=4)
    for seed, label in enumerate(("original", "b2")):
        written(root, tmp_path / label, seed)
    monkeypatch.chdir(tmp_path)
    vectors = ", ".join(f"{label}: {tmp_path / label}" for label in ("original", "b2"))
    threads = torch.get_num_threads()
    status = cli.run([
        "recipe=kaldi", f"dataset.root={root}", "system=[b2]", "extractor=[precomputed]", "diagnostics=false",
        f"+extractor.precomputed.vectors={{{vectors}}}", "attacker=[ignorant]", "runtime.threads=1", "metric=[lid]",
        "metric.lid.replicates=20",
    ])  # fmt: skip
    torch.set_num_threads(threads)
    out, err = capfd.readouterr()
    assert status == 0, err
    made = read(Path(out.splitlines()[-1]).parent)
    compared = 0
    for row in made.rows[made.rows["metric"] == "alid"].itertuples():
        table = made.scores(subset=row.subset, system=row.system, attacker=row.attacker)
        wide = table.pivot(index="utterance", columns="model_speaker", values="score")
        names = list(wide.columns)
        speaker = dict(zip(table["utterance"], table["speaker"]))
        truth = np.array([names.index(speaker[utterance]) for utterance in wide.index])
        scores = wide.to_numpy()
        assert row.variant == "loso"
        assert row.value == pytest.approx(lid(scores, truth, loso_slopes(scores, truth).value).alid, abs=1e-12)
        links = made.rows[(made.rows["metric"] == "pi_link") & (made.rows["variant"] == f"among {len(names)}")]
        one = links[
            (links["subset"] == row.subset) & (links["system"] == row.system) & (links["attacker"] == row.attacker)
        ]
        assert one["value"].item() == pytest.approx(pi_link_curve(scores, truth).value[-1], abs=1e-12)
        compared += 1
    assert compared == 4  # two systems on either sex
    tried = made.rows[made.rows["metric"] == "tpr_at_fpr"]
    assert tried["value"].isna().all() and tried["reason"].str.contains("cannot show").all()
    report = (Path(out.splitlines()[-1]).parent / "report.html").read_text(encoding="utf-8")
    for text in (
        "Local information disclosure: toy_trials_f",
        "Linkability by population: toy_trials_m",
        "Longer conversations: toy",
        "PDR",
    ):
        assert text in report
