"""Disclosure of one among N as a family: rows against plain counting, what has no value, what is left out, and its figures."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest

from pipeline.contracts import Attribute, Measured, Row, Trials
from pipeline.families.lid import MetricFamily, curves
from pipeline.metrics import MetricError, eer, published_slope, softmax_slope
from tests.families.runs import trial_runs

DATA = trial_runs(2, utterances=9).first


def measured(data: Trials, **settings: object) -> tuple[dict[tuple[str, str], Row], Measured]:
    made = MetricFamily.measure(MetricFamily.Settings(**{"replicates": 40, **settings}), data)
    assert {row.metric for row in made.rows} <= set(MetricFamily.metrics)
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
        (lambda data: some(data, (data.models == data.speakers) | (data.models == "s0")), "pairs of a candidate"),
    ],
)
def test_what_is_no_matrix_has_one_reason_and_the_rates_that_need_none(change, said: str) -> None:  # type: ignore[no-untyped-def]
    rows, made = measured(change(DATA))
    assert set(rows) == {("alid", ""), ("tpr_at_fpr", "FPR 1 %"), ("tpr_at_fpr", "FPR 0.1 %")}
    assert math.isnan(rows["alid", ""].value) and said in rows["alid", ""].reason and not made.tables


def test_scores_that_are_not_finite_are_refused() -> None:
    with pytest.raises(MetricError, match="512 of 512 scores are NaN or infinite"):
        measured(dataclasses.replace(DATA, scores=np.full(512, np.inf)))


def test_trials_that_the_list_lacks_are_taken_where_they_were_scored() -> None:
    listed = np.random.default_rng(0).random(DATA.scores.size) < 0.4
    rows, made = measured(dataclasses.replace(some(DATA, listed), n_expected=int(listed.sum()), candidates=DATA))
    whole, _ = measured(DATA)
    for key in (("alid", "loso"), ("pdr", "loso"), ("pi_link", "among 8"), ("rank_llr", "")):
        assert (rows[key].value, rows[key].low, rows[key].n_used) == (whole[key].value, whole[key].low, 512)
    assert set(made.tables) == {"lid_ccdf", "lid_speakers", "population", "lengths"}
    rate = rows["tpr_at_fpr", "FPR 1 %"]
    assert rate.n_used == rate.n_expected == listed.sum() != whole["tpr_at_fpr", "FPR 1 %"].n_used


SEXES = {f"s{k}": "f" if k < 5 else "m" for k in range(8)}


def attribute(values: dict[str, str] = SEXES, **more: str) -> Attribute:
    spoken = dict(zip(DATA.utterances.tolist(), (values[name] for name in DATA.speakers.tolist())))
    return Attribute(values, spoken | more)


def test_a_list_that_stays_within_the_sexes_is_a_matrix_each() -> None:
    sex = np.vectorize(SEXES.get)
    within = sex(DATA.models) == sex(DATA.speakers)
    both = dataclasses.replace(some(DATA, within), attributes={"sex": attribute()})
    rows, made = measured(both)
    parts = {one: measured(some(DATA, within & (sex(DATA.models) == one)))[0] for one in "fm"}
    n = {one: 8 * list(SEXES.values()).count(one) for one in "fm"}
    for name in ("alid", "alid_chance", "pdr", "pdr_chance"):
        mean = sum(n[one] * parts[one][name, "loso"].value for one in "fm") / 64
        assert rows[name, "loso"].value == pytest.approx(mean, abs=1e-12)
    assert rows["lid_max", "loso"].value == max(parts[one]["lid_max", "loso"].value for one in "fm")
    assert rows["pi_link", "among 5, f"].value == parts["f"]["pi_link", "among 5"].value
    assert rows["rank_llr", "m"].ceiling == parts["m"]["rank_llr", ""].ceiling
    alid = rows["alid", "loso"]
    assert alid.low < alid.value < alid.high and alid.null_low <= alid.null_high
    assert "5 (f) and 3 (m)" in alid.note
    assert set(made.tables) == {"lid_ccdf", "lid_speakers"} and not any(
        metric == "alid_attribute" for metric, _ in rows
    )


def test_where_candidates_of_both_sexes_stand_together_the_part_that_is_sex_is_said() -> None:
    rows, _ = measured(dataclasses.replace(DATA, attributes={"sex": attribute()}), slope=1.5)
    bits = []
    for utterance in dict.fromkeys(DATA.utterances.tolist()):
        tried = DATA.utterances == utterance
        scores, target = DATA.scores[tried], DATA.target[tried]
        p = np.exp(1.5 * (scores - scores.mean()) / scores.std(ddof=1))
        p /= p.sum()
        alike = [SEXES[name] == SEXES[DATA.models[tried][target][0]] for name in DATA.models[tried]]
        bits.append(math.log2(p[alike].sum() / np.mean(alike)))
    part, rest = rows["alid_attribute", "slope 1.5, sex"], rows["alid_within", "slope 1.5, sex"]
    assert part.value == pytest.approx(np.mean(bits), abs=1e-12)
    assert part.value + rest.value == pytest.approx(rows["alid", "slope 1.5"].value, abs=1e-12)
    chances = [rows[f"alid_{name}_chance", "slope 1.5, sex"].value for name in ("attribute", "within")]
    assert sum(chances) == pytest.approx(rows["alid_chance", "slope 1.5"].value, abs=1e-12)
    share = np.array([5, 3]) / 8
    assert part.ceiling == pytest.approx(-(share * np.log2(share)).sum(), abs=1e-12)
    assert "5 f, 3 m" in part.note and part.low < part.value < part.high and part.null_low < part.null_high
    # Whom the attacker has not enrolled: sex is invented here, and says nothing that is not in the person.
    assert abs(rows["alid_stranger", "loso, sex"].value) < 0.2


def test_an_attribute_of_utterances_is_a_question_of_its_own() -> None:
    mood = Attribute(SEXES, {name: "fm"[k % 2] for k, name in enumerate(sorted(set(DATA.utterances.tolist())))})
    rows, _ = measured(dataclasses.replace(DATA, attributes={"mood": mood}))
    assert not any(metric == "alid_attribute" for metric, _ in rows)
    assert "of the utterance" in rows["alid_stranger", "loso, mood"].note
    same, why = dict.fromkeys(SEXES, "x"), Attribute({}, {}, "no value of s3")
    rows, _ = measured(dataclasses.replace(DATA, attributes={"same": attribute(same), "lost": why}))
    assert "all candidates are x" in rows["alid_attribute", "loso, same"].reason
    assert rows["alid_attribute", "loso, lost"].reason == "no value of s3"


def test_a_slope_from_a_development_set() -> None:
    others = trial_runs(3, speakers=6, utterances=7).first
    rows, made = measured(dataclasses.replace(DATA, development=others), development={"test": "dev"})
    names = np.unique(others.models)
    utterances = np.unique(others.utterances)
    scores = pd.Series(others.scores, [others.utterances, others.models]).unstack().loc[utterances, names].to_numpy()
    truth = np.array([np.flatnonzero(names == others.speakers[others.utterances == one][0])[0] for one in utterances])
    for slope, variant in (
        (softmax_slope(scores, truth).value, "dev"),
        (published_slope(scores, truth)[0], "published"),
    ):
        settings = {"development": {"test": "dev"}, "slope": "softmax" if variant == "dev" else "published"}
        rows, made = measured(dataclasses.replace(DATA, development=others), **settings)
        given, _ = measured(DATA, slope=slope)
        row, same = rows["alid", variant], given["alid", f"slope {slope:g}"]
        assert (row.value, row.low, row.null_high) == pytest.approx((same.value, same.low, same.null_high), abs=1e-12)
    assert sorted(set(made.tables["lengths"]["length"])) == [1, 2, 3, 5]
    # Nobody is named for this set: it learns from the other speakers, or has no published slope.
    assert measured(DATA, development={"test": "dev"})[0]["alid", "loso"].value
    assert "no other trial set" in measured(DATA, **settings)[0]["alid", "published"].reason
    broken = dataclasses.replace(DATA, development=some(others, others.models != others.speakers))
    assert "of the speakers to learn from" in measured(broken, development={"test": "dev"})[0]["alid", "dev"].reason
    for wrong, said in (
        ({"slope": "published"}, "learnt from other speakers"),
        ({"slope": 1, "development": {"a": "b"}}, "nothing from"),
    ):
        with pytest.raises(ValueError, match=said):
            MetricFamily.Settings(**wrong)


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
