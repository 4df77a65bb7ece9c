"""M_P0P1: how well a speaker's pseudo-voices of two runs are linked."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from pipeline.families.p0p1 import MetricFamily
from tests.families.runs import pair_runs
from tests.metrics import brute

ROWS = ("d_diag_p0p1", "d_diag_p0p1_signed", "p0p1_ratio")


def values(data, **settings):
    return {row.metric: row for row in MetricFamily.measure(MetricFamily.Settings(**settings), data).rows}


@pytest.mark.parametrize("self_pairs", ["drop", "keep"])
def test_values_and_matrices_by_loops_over_pairs(self_pairs):
    data = pair_runs(3, speakers=4, utterances=3)
    names, codes = np.unique(data.speakers, return_inverse=True)
    made = MetricFamily.measure(MetricFamily.Settings(self_pairs=self_pairs, interval="none"), data)
    table = made.tables["similarity_runs"]
    dominance = {}
    for block, scores, kept in (("PP", data.pp, "drop"), ("P0P1", data.p0p1, self_pairs)):
        want = np.array(brute.similarity_matrix(scores, list(codes), 4, "geometric_mean", "all", kept))
        part = table[table["block"] == block].set_index(["row_speaker", "column_speaker"])["similarity"]
        got = part.unstack().loc[names, names].to_numpy()
        np.testing.assert_allclose(got, want, atol=1e-12)
        dominance[block] = np.diag(want).mean() - want[~np.eye(4, dtype=bool)].mean()
    rows = {row.metric: row for row in made.rows}
    assert tuple(rows) == ROWS
    assert rows["d_diag_p0p1_signed"].value == pytest.approx(dominance["P0P1"], abs=1e-12)
    assert rows["p0p1_ratio"].value == pytest.approx(abs(dominance["P0P1"] / dominance["PP"]), abs=1e-12)
    n_own = 4 * (9 if self_pairs == "keep" else 6)
    for row in made.rows:
        assert (row.condition, row.n_expected, row.n_used, row.n_speakers) == ("PP", 12, 12, 4)
        assert MetricFamily.record(row)["unit"] == "fraction"
        assert (row.n_target, row.n_nontarget) == (n_own, 4 * 3 * 9)
    assert MetricFamily.record(rows["p0p1_ratio"])["direction"] == "lower is more private"


def test_what_a_system_gives_anew_cannot_be_linked_and_what_it_keeps_can():
    fresh = values(pair_runs(4, speakers=20, leak=0.0))["p0p1_ratio"]
    kept = values(pair_runs(4, speakers=20, leak=1.0, random=0.0))["p0p1_ratio"]
    assert fresh.value < 0.1 and fresh.low < 0.05
    assert kept.value == pytest.approx(1, abs=0.05) and kept.low < kept.value < kept.high
    data = pair_runs(5)
    again = values(dataclasses.replace(data, p0p1=data.pp))
    assert again["p0p1_ratio"].value == 1


def test_a_run_of_one_voice_has_no_ratio():
    data = pair_runs(6)
    row = values(dataclasses.replace(data, pp=np.zeros_like(data.pp)))["p0p1_ratio"]
    assert math.isnan(row.value) and math.isnan(row.low) and "D_diag(PP) is 0" in row.reason


def test_intervals_can_be_left_out_or_drawn():
    data = pair_runs(7)
    assert all(math.isnan(row.low) for row in values(data, interval="none").values())
    drawn = values(data, interval="percentile", replicates=50)
    assert drawn["d_diag_p0p1"].low < drawn["d_diag_p0p1"].high
    assert (
        drawn
        == values(data, interval="percentile", replicates=50)
        != values(data, interval="percentile", replicates=50, seed=1)
    )
