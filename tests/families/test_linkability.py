"""Linkability as a family: values of both definitions against plain counting, what has an interval and a band, what has no value."""

from __future__ import annotations

import dataclasses
import itertools
import math

import mpmath
import numpy as np
import pytest

from pipeline.contracts import Row, Trials
from pipeline.families.linkability import MetricFamily
from tests.families.runs import trial_runs
from tests.metrics import brute

DATA = trial_runs(2, utterances=9).first


def measured(data: Trials, **settings: object) -> dict[str, Row]:
    made = MetricFamily.measure(MetricFamily.Settings(**{"replicates": 40, **settings}), data)
    assert {row.metric for row in made.rows} == {"d_sys"} and not made.tables
    return {row.variant: row for row in made.rows}


def test_exact_is_the_mean_over_targets_of_what_the_best_calibration_links() -> None:
    row = measured(DATA)["exact"]
    target, nontarget = DATA.scores[DATA.target].tolist(), DATA.scores[~DATA.target].tolist()
    llr = brute.llr_by_score(target, nontarget)
    links = [max(mpmath.mpf(0), mpmath.tanh(llr[score] / 2)) for score in target]
    assert row.value == pytest.approx(float(mpmath.fsum(links) / len(links)), abs=1e-12)
    assert row.low < row.value < row.high and row.null_low <= row.null_high < row.value
    assert (row.n_expected, row.n_used, row.n_speakers, row.n_target, row.n_nontarget) == (512, 512, 8, 64, 448)
    said = MetricFamily.record(row)
    assert (said["unit"], said["direction"]) == ("fraction", "lower is more private")


def test_vpc_is_the_challenges_bins_and_has_neither_interval_nor_band() -> None:
    row = measured(DATA)["vpc"]
    target, nontarget = DATA.scores[DATA.target], DATA.scores[~DATA.target]
    bins = 6  # 64 targets, ten a bin
    edges = np.linspace(DATA.scores.min(), DATA.scores.max(), bins + 1)
    area, before = 0.0, None
    for low, high in itertools.pairwise(edges):
        last = high == edges[-1]
        own, other = (
            sum(low <= score < high or (last and score == high) for score in scores) / len(scores) / (high - low)
            for scores in (target, nontarget)
        )
        ratio = own / other if other else math.inf if own else 1.0
        link = own * (1.0 if ratio == math.inf else max(0.0, 2 * ratio / (1 + ratio) - 1))
        area += 0 if before is None else (link + before) / 2 * (high - low)
        before = link
    assert row.value == pytest.approx(area, abs=1e-12)
    assert all(math.isnan(end) for end in (row.low, row.high, row.null_low, row.null_high))


def test_scores_that_say_nothing_lie_within_the_band() -> None:
    said = np.random.default_rng(5).normal(size=len(DATA.scores))
    row = measured(dataclasses.replace(DATA, scores=said), replicates=200)["exact"]
    assert row.null_low <= row.value <= row.null_high and row.null_low > 0


def test_variants_are_chosen_and_what_has_no_bins_has_a_reason() -> None:
    assert list(measured(DATA, variants=("vpc",))) == ["vpc"]
    with pytest.raises(ValueError, match="named twice"):
        MetricFamily.Settings(variants=("vpc", "vpc"))
    rows = measured(dataclasses.replace(DATA, scores=np.ones(len(DATA.scores))))
    assert rows["exact"].value == 0
    assert math.isnan(rows["vpc"].value) and "not all equal" in rows["vpc"].reason
    assert all(math.isnan(row.low) for row in measured(DATA, interval="none").values())
    assert all(math.isnan(row.null_low) for row in measured(DATA, replicates=0).values())
