"""Disclosure of one among N as a family: rows against plain counting, what has no value, what is left out, and its figures."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest

from pipeline.contracts import Measured, Row, Trials
from pipeline.families.lid import MetricFamily, curves
from pipeline.metrics import MetricError, eer
from tests.families.runs import trial_runs

DATA = trial_runs(2, utterances=9).first


def measured(data: Trials, **settings: object) -> tuple[dict[tuple[str, str], Row], Measured]:
    made = MetricFamily.measure(MetricFamily.Settings(**{"replicates": 40, **settings}), data)
    assert {row.metric for row in made.rows} == set(MetricFamily.metrics)
    return {(row.metric, row.variant): row for row in made.rows}, made


def some(data: Trials, kept: np.ndarray) -> Trials:
    assert data.utterances is not None
    return dataclasses.replace(
        data,
        scores=data.scores[kept], target=data.target[kept], models=data.models[kept], speakers=data.speakers[kept],
        utterances=data.utterances[kept],
    )  # fmt: skip


def test_values_are_those_of_plain_counting() -> None:
    rows, _ = measured(DATA, slope=1.5)
    bits, cells, first = [], [], []
    for utterance in dict.fromkeys(DATA.utterances.tolist()):
        tried = DATA.utterances == utterance
        scores, target = DATA.scores[tried], DATA.target[tried]
        p = np.exp(1.5 * (scores - scores.mean()) / scores.std(ddof=1))
        p /= p.sum()
        bits.append(math.log2(8 * p[target][0]))
        cells += np.log2(8 * p).tolist()
        first.append(scores[target][0] == scores.max())
    alid = rows["alid", "slope 1.5"]
    assert alid.value == pytest.approx(np.mean(bits), abs=1e-12)
    assert rows["alid_chance", "slope 1.5"].value == pytest.approx(np.mean(cells), abs=1e-12)
    assert rows["pdr", "slope 1.5"].value == pytest.approx(np.mean(np.array(bits) > 0), abs=1e-12)
    assert rows["pdr_chance", "slope 1.5"].value == pytest.approx(np.mean(np.array(cells) > 0), abs=1e-12)
    largest = rows["lid_max", "slope 1.5"]
    assert largest.value == pytest.approx(max(bits), abs=1e-12) and largest.value <= largest.ceiling
    assert rows["pi_link", "among 8"].value == pytest.approx(np.mean(first), abs=1e-12)
    assert alid.low < alid.value < alid.high and alid.null_low <= alid.null_high < alid.value
    assert (alid.n_expected, alid.n_used, alid.n_speakers, alid.n_target, alid.n_nontarget) == (512, 512, 8, 64, 448)


def test_slopes_come_from_the_other_speakers_unless_one_is_given() -> None:
    rows, made = measured(DATA)
    assert ("alid", "loso") in rows and rows["alid", "loso"].value > rows["alid", "loso"].null_high
    assert set(made.tables) == {"lid_ccdf", "lid_speakers", "population", "lengths"}
    ccdf = made.tables["lid_ccdf"]
    assert ccdf["share"].is_monotonic_decreasing and ccdf["chance"].is_monotonic_decreasing
    assert ccdf["share"][ccdf["bit"] > 0].max() == pytest.approx(rows["pdr", "loso"].value, abs=1e-12)
    with pytest.raises(ValueError, match="greater than or equal to 0"):
        MetricFamily.Settings(slope=-1)


def test_lengths_are_those_that_most_speakers_have() -> None:
    rows, made = measured(DATA, pooled=60)
    table = made.tables["lengths"]
    assert sorted(set(table["length"])) == [1, 2, 3, 5] and set(table["speakers"]) == {8}  # eight utterances each
    value = table.set_index(["measure", "length"])["value"]
    assert value["alid", 1] == pytest.approx(rows["alid", "loso"].value, abs=1e-12)
    assert value["idr", 1] == pytest.approx(rows["pi_link", "among 8"].value, abs=1e-12)
    assert value["eer", 1] == pytest.approx(eer(DATA.scores[DATA.target], DATA.scores[~DATA.target]), abs=1e-12)
    assert not {"lengths"} & set(measured(DATA, lengths=(1, 10))[1].tables)
    for wrong in ((0, 1), (2, 2)):
        with pytest.raises(ValueError, match="1 or more, each once"):
            MetricFamily.Settings(lengths=wrong)


def test_scores_that_say_nothing_lie_within_their_bands() -> None:
    said = np.random.default_rng(5).normal(size=len(DATA.scores))
    rows, _ = measured(dataclasses.replace(DATA, scores=said), replicates=200)
    for name in ("alid", "pdr", "lid_max"):
        row = rows[name, "loso"]
        assert row.null_low - 1e-12 <= row.value <= row.null_high + 1e-12, name


def test_too_few_speakers_for_a_slope_leave_the_rest() -> None:
    names = np.unique(DATA.models)[:2]
    rows, made = measured(some(DATA, np.isin(DATA.models, names) & np.isin(DATA.speakers, names)))
    assert math.isnan(rows["alid", "loso"].value) and "3 speakers" in rows["alid", "loso"].reason
    assert rows["pi_link", "among 2"].value > 0.5 and set(made.tables) == {"population"}


def test_speakers_who_are_not_enrolled_are_left_out_and_said_to_be() -> None:
    absent = np.unique(DATA.models)[0]
    rows, _ = measured(some(DATA, DATA.models != absent))
    without, _ = measured(some(DATA, (DATA.models != absent) & (DATA.speakers != absent)))
    assert rows["alid", "loso"].value == without["alid", "loso"].value
    assert rows["alid", "loso"].note.startswith("8 trial utterances of speakers who are not enrolled")


def test_a_rate_that_few_trials_cannot_show_has_a_reason() -> None:
    rows, _ = measured(DATA)
    assert "cannot show" in rows["tpr_at_fpr", "FPR 0.1 %"].reason
    row = rows["tpr_at_fpr", "FPR 1 %"]
    assert row.low <= row.value <= row.high and "4 false alarms are allowed" in row.note


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda data: some(data, np.arange(data.scores.size) != 3), "1 of 512 pairs"),
        (lambda data: some(data, np.append(np.arange(data.scores.size), 3)), "several enrolment models"),
        (lambda data: dataclasses.replace(data, utterances=None), "do not say which utterance"),
        (
            lambda data: some(data, ~np.isin(data.speakers, data.models[:1]) & (data.models == data.models[0])),
            "no trial",
        ),
        (lambda data: dataclasses.replace(data, scores=np.full(512, np.inf)), "512 of 512 scores are NaN or infinite"),
    ],
)
def test_what_is_no_matrix_is_refused(change, said: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(MetricError, match=said):
        measured(change(DATA))


def test_figures_show_the_tables() -> None:
    _, made = measured(DATA)
    about = {
        "subset": "s", "system": "b2", "condition": "PP", "attacker": "ignorant", "extractor": "e", "backend": "b",
        "series": "b2",
    }  # fmt: skip
    drawn = {"lid_ccdf": curves.disclosures, "population": curves.populations, "lengths": curves.lengths}
    for name, plots in drawn.items():
        table: pd.DataFrame = made.tables[name].assign(**about)
        (plot,) = plots(table, ["b2"])
        assert "<svg" in plot.svg and len(plot.data) == len(table) and "b2 (PP)" in plot.alt
