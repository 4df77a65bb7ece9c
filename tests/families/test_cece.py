"""C_ECE of two runs: values of the metric core, curves for the figure, and what has no value."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from pipeline import metrics
from pipeline.contracts import TrialRuns
from pipeline.families.cece import METHODS, MetricFamily
from tests.families.runs import trial_runs

DATA = trial_runs(1, leak=0.5)


def classes(trials):
    return trials.scores[trials.target], trials.scores[~trials.target]


def test_rows_are_the_metrics_of_the_two_runs():
    rows = {(row.metric, row.variant): row for row in MetricFamily.measure(MetricFamily.Settings(), DATA).rows}
    assert set(rows) == {*((m, v) for m in ("c_ece", "cllr_l_phi") for v in METHODS), ("d_ece_f1", "")}
    for method in METHODS:
        want = metrics.c_ece(*classes(DATA.first), *classes(DATA.second), method=method)
        row, cost = rows["c_ece", method], rows["cllr_l_phi", method]
        assert (row.value, cost.value) == (want.c_ece, want.cllr_l_phi)
        said, dear = MetricFamily.record(row), MetricFamily.record(cost)
        assert (said["unit"], said["direction"]) == ("bit", "lower is more private")
        assert (dear["unit"], dear["direction"]) == ("bit", "higher is more private")
        assert row.low < row.value < row.high and row.low < metrics.D_ECE_MAX and not row.reason
        assert (row.n_expected, row.n_used, row.n_speakers, row.n_target, row.n_nontarget) == (256, 256, 8, 32, 224)
    assert rows["d_ece_f1", ""].value == metrics.d_ece_oracle(*classes(DATA.second))
    # A map learnt on another run of much randomness reaches less than the best map of the run itself.
    assert rows["c_ece", "linear"].value < rows["d_ece_f1", ""].value


def test_curves_are_what_their_numbers_say():
    made = MetricFamily.measure(MetricFamily.Settings(interval="none"), DATA)
    table, rows = made.tables["cece_profile"], {(row.metric, row.variant): row.value for row in made.rows}
    assert list(table["profile"].unique()) == ["f0", "f1", "linear", "isotonic"]
    for name, curve in table.groupby("profile"):
        at_even = curve[np.abs(curve["log_odds"]) < 1e-9].iloc[0]
        # ECE at even odds is Cllr, and the area between the curves over the prior is D_ECE.
        assert at_even["ece"] == pytest.approx(at_even["cllr"], abs=1e-12) and at_even["prior"] == 1
        prior = 1 / (1 + np.exp(-curve["log_odds"]))
        area = np.trapezoid(curve["prior"] - curve["ece"], prior)
        assert area == pytest.approx(at_even["d_ece"], abs=2e-3)
        if name in METHODS:
            assert (at_even["d_ece"], at_even["cllr"]) == (rows["c_ece", name], rows["cllr_l_phi", name])
    scores = classes(DATA.first)
    oracle = table[table["profile"] == "f0"].iloc[0]
    assert (oracle["d_ece"], oracle["cllr"]) == (metrics.d_ece_oracle(*scores), metrics.cllr_min(*scores))
    assert all(math.isnan(row.low) for row in made.rows)


def test_a_separated_first_run_has_no_linear_value_and_no_curve():
    first = dataclasses.replace(DATA.first, scores=np.where(DATA.first.target, 1.0, 0.0))
    made = MetricFamily.measure(MetricFamily.Settings(), TrialRuns(first, DATA.second))
    rows = {(row.metric, row.variant): row for row in made.rows}
    for metric in ("c_ece", "cllr_l_phi"):
        assert math.isnan(rows[metric, "linear"].value) and "do not overlap" in rows[metric, "linear"].reason
        assert math.isfinite(rows[metric, "isotonic"].value) and not rows[metric, "isotonic"].reason
    assert set(made.tables["cece_profile"]["profile"]) == {"f0", "f1", "isotonic"}


def test_a_target_at_minus_infinity_is_minus_infinity_bit():
    scores = DATA.second.scores.copy()
    scores[np.flatnonzero(DATA.second.target)[0]] = -np.inf
    made = MetricFamily.measure(
        MetricFamily.Settings(), TrialRuns(DATA.first, dataclasses.replace(DATA.second, scores=scores))
    )
    rows = {(row.metric, row.variant): row for row in made.rows}
    assert rows["c_ece", "linear"].value == -math.inf and math.isnan(rows["c_ece", "linear"].low)
    assert rows["cllr_l_phi", "linear"].value == math.inf
    assert math.isfinite(rows["c_ece", "isotonic"].value)


def test_runs_with_different_trials_are_refused():
    order = np.arange(256)[::-1]
    turned = dataclasses.replace(
        DATA.second,
        **{name: getattr(DATA.second, name)[order] for name in ("scores", "target", "models", "speakers")},
    )
    with pytest.raises(metrics.MetricError, match="same trials"):
        MetricFamily.measure(MetricFamily.Settings(), TrialRuns(DATA.first, turned))


def test_between_reaches_the_isotonic_map_alone():
    step, line = (
        {
            (r.metric, r.variant): r.value
            for r in MetricFamily.measure(MetricFamily.Settings(between=b, interval="none"), DATA).rows
        }
        for b in ("step", "linear")
    )
    assert step["c_ece", "linear"] == line["c_ece", "linear"] and step["c_ece", "isotonic"] != line["c_ece", "isotonic"]
