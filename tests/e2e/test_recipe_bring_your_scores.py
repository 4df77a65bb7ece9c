"""recipe=bring_your_scores on the score files of a generated checkout: the printed cells stand beside the run's rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pipeline import cli
from pipeline.tables import results
from tests import challenge


@pytest.mark.slow
def test_printed_cells_stand_beside_pooled_scores_and_means(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    challenge.write("2024", tmp_path / "checkout", None, 0.08, ["B3"], 0.0, models=False)
    bare = [f"metric.{name}.{field}" for name in ("asv", "zebra") for field in ("interval=none", "replicates=0")]
    status = cli.run(
        ["recipe=bring_your_scores", f"dataset.root={tmp_path / 'checkout'}", f"paths.root={tmp_path / 'exp'}", *bare]
    )
    out, err = capfd.readouterr()
    assert status == 0, err
    assert "several rows stand" not in out + err
    folder = Path(out.splitlines()[-1]).parent
    card = pd.read_csv(folder / "scorecard.csv", dtype=str, keep_default_na=False)
    assert len(card) == 63 and (card["verdict"] != "").all()
    stands = card[card["ours"] != ""].set_index(["source", "subset", "system"])
    assert set(stands.index.get_level_values("system")) == {"B3"} and set(stands["metric"]) == {"eer"}
    rows = results.read(folder)
    rows = rows[(rows["attacker"] == "semi_informed") & (rows["variant"] == "speechbrain")].set_index("subset")["value"]
    halves = [rows[f"libri_{part}_trials_{sex}"] for part in ("dev", "test") for sex in "fm"]
    expected = {
        "libri_test (pooled)": rows["libri_test (pooled)"],
        "libri_dev (mean of f and m)": np.mean(halves[:2]),
        "libri_test (mean of f and m)": np.mean(halves[2:]),
        "libri (mean of dev and test)": np.mean(halves),
    }
    assert set(stands.index.get_level_values("subset")) == set(expected)
    for (_, subset, _), ours in stands["ours"].items():
        assert float(ours) == pytest.approx(100 * expected[subset]), subset
