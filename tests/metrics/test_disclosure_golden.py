"""Measures of disclosure against values that were computed independently, with 40 digits and exact fractions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pipeline import metrics as m

from .conftest import golden

GOLDEN = golden("disclosure")
SETS = GOLDEN["sets"]
NAMES = sorted(SETS)
EXACT = 1e-12
BAND = ("alid", "alid_speaker", "pdr", "pdr_speaker", "lid_plus", "lid_minus", "lid_max")


def matrix_of(name):
    """Scores [n, N] and true candidates [n] of a golden set, from its values or its recipe."""
    entry = SETS[name]
    if "recipe" not in entry:
        return np.array(entry["scores"]), np.array(entry["truth"])
    space = {"np": np}
    exec(entry["recipe"], space)
    return space["scores"], space["t"]


def trials_of(name):
    """The same scores as a list of trials, every candidate claimed by every utterance."""
    scores, truth = matrix_of(name)
    n, n_candidates = scores.shape
    return m.Trials(scores.ravel(), np.tile(np.arange(n_candidates), n), np.repeat(truth, n_candidates))


def expected(name, part):
    return SETS[name]["expected"][part]


def having(part, key=None):
    return [name for name in NAMES if part in SETS[name]["expected"] and (key is None or expected(name, part).get(key))]


def same(got, want, tolerance=EXACT):
    """Equal, None where None is wanted."""
    if want is None or got is None:
        assert got is want
        return
    np.testing.assert_allclose(got, np.array(want, dtype=np.float64), rtol=tolerance, atol=tolerance)


def same_lid(found, want):
    for key in BAND:
        if key in want:
            same(getattr(found, key), want[key])
    if "lid" in want:
        same(found.lid, want["lid"])
    if "ceiling" in want:
        same(found.lid_max_ceiling, want["ceiling"])
    for key, value in want.get("chance", {}).items():
        same(getattr(found.chance, key), value)
    points = [float(x) for x in want["ccdf"]]
    same(m.exceedance(found.lid, points), list(want["ccdf"].values()))


@pytest.mark.parametrize("name", NAMES)
def test_lid_at_given_slopes(name):
    scores, truth = matrix_of(name)
    compared = [part for part in ("w0.5", "w1", "w2.5") if part in expected(name, "lid")]
    assert len(compared) == 3
    for part in compared:
        same_lid(m.lid(scores, truth, float(part[1:])), expected(name, "lid")[part])


@pytest.mark.parametrize("name", having("lid", "loso"))
def test_lid_with_slopes_from_the_other_speakers(name):
    scores, truth = matrix_of(name)
    want = expected(name, "lid")["loso"]
    slopes = m.loso_slopes(scores, truth)
    for speaker, value in want["w_unconstrained"].items():
        same(slopes.unconstrained[int(speaker)], value)
        same(slopes.value[int(speaker)], want["w"][speaker])
    same_lid(m.lid(scores, truth, slopes.value), want)


@pytest.mark.parametrize("name", having("lid", "fits_on_these_trials"))
def test_slopes(name):
    scores, truth = matrix_of(name)
    want = expected(name, "lid")["fits_on_these_trials"]
    same(m.softmax_slope(scores, truth).unconstrained, want["softmax_pseudo_w"])
    same(m.published_slope(scores, truth), [want["published_w"], want["published_b"]])


@pytest.mark.parametrize("name", having("lid", "from_dev"))
def test_lid_with_a_slope_from_other_speakers(name):
    dev = matrix_of(SETS[name]["dev"])
    want = expected(name, "lid")["from_dev"]
    same(m.softmax_slope(*dev).unconstrained, want["softmax_pseudo_w_unconstrained"])
    same_lid(m.lid(*matrix_of(name), m.softmax_slope(*dev).value), want["softmax_pseudo"])
    same_lid(m.lid(*matrix_of(name), m.published_slope(*dev)[0]), want["published"])


@pytest.mark.parametrize("name", [n for n in NAMES if expected(n, "lid")["w1"].get("alid_speaker_jackknife95")])
def test_jackknife_of_alid(name):
    scores, truth = matrix_of(name)
    found = m.intervals(m.lid_by_speaker(scores, truth, 1.0))["alid_speaker"]
    same((found.low, found.high), expected(name, "lid")["w1"]["alid_speaker_jackknife95"])


@pytest.mark.parametrize("name", NAMES)
def test_attribute_and_stranger(name):
    scores, truth = matrix_of(name)
    want, classes = expected(name, "attribute_w1"), SETS[name]["classes"]
    found, other = m.attribute_part(scores, truth, classes, 1.0), m.stranger(scores, truth, classes, 1.0)
    same(found.prior_entropy, want["prior_entropy"])
    same((found.mean_attribute, found.mean_within), [want["mean_attribute"], want["mean_within"]])
    same(other.mean, want["mean_stranger"])
    if "attribute" in want:
        same(found.attribute, want["attribute"])
        same(found.within, want["within"])
        same(other.bits, [math.nan if value is None else value for value in want["stranger"]])


@pytest.mark.parametrize("name", NAMES)
def test_rank_llr(name):
    want, found = expected(name, "rank"), m.rank_llr(*matrix_of(name))
    same(found.gamma, want["gamma"])
    same(found.llr, [float(x) for x in want["llr_nat"]])
    same(found.llr_laplace, want["llr_laplace_nat"])
    same((found.eps_plus, found.eps_minus), [want["eps_plus_laplace_nat"], want["eps_minus_laplace_nat"]])
    same((found.ceiling, -found.floor), [want["ceiling_plus_nat"], want["ceiling_minus_nat"]])
    assert found.top.top_rank == want["top_rank"]
    first = found.first
    shares = None if first.rank_one_share_low is None else (first.rank_one_share_low, first.rank_one_share_high)
    same(shares, want.get("rank1_cp95"))
    same(found.top.top_low, want.get("top_llr_lower_bonferroni_nat"))
    assert bool(found.reason) == ("rank1_cp95" not in want or "top_llr_lower_bonferroni_nat" not in want)


@pytest.mark.parametrize("name", NAMES)
def test_pi_link_curves(name):
    scores, truth = matrix_of(name)
    compared = 0
    for ties, by_weights in expected(name, "pi_link")["curve"].items():
        for weights, want in by_weights.items():
            found = m.pi_link_curve(scores, truth, [int(n) for n in want], ties=ties, weights=weights)
            same(found.value, list(want.values()))
            compared += 1
    assert compared == 6


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("both_roles", [False, True])
def test_jackknife_of_pi_link(name, both_roles):
    scores, truth = matrix_of(name)
    want = expected(name, "pi_link").get(f"jackknife95_spread_speaker{'_both_roles' if both_roles else ''}") or {}
    wanted = {int(n): ends for n, ends in want.items()}
    if not wanted:
        assert len(np.unique(truth)) < 3
        return
    found = m.intervals(m.pi_link_by_speaker(scores, truth, list(wanted), both_roles=both_roles))
    for n, ends in wanted.items():
        one = found[f"pi_link.{n}"]
        if ends is None:  # no error was seen: an exact limit stands in place of a jackknife without spread
            assert (one.method, one.high) == ("zero_errors", 1.0)
        else:
            assert one.method == "jackknife"
            same((one.low, one.high), ends)


@pytest.mark.parametrize("name", NAMES)
def test_tpr_at_low_fpr(name):
    trials = trials_of(name)
    for fpr, want in expected(name, "tpr_at_fpr").items():
        found = m.tpr_evidence(trials, float(fpr))
        assert found.counts.allowed == want["allowed"]
        same(found.tpr, want["tpr"])
        if found.tpr is None:
            assert found.reason
            continue
        assert (found.counts.alarms, found.counts.accepted, found.few) == (
            want["alarms"],
            want["accepted"],
            want["few"],
        )
        same(found.achieved_fpr, want["achieved_fpr"])
        same((found.tpr_low, found.tpr_high), want["tpr_cp95"])


PAV = {
    "eps_plus": "eps_plus_nat",
    "eps_minus": "eps_minus_nat",
    "eps": "eps_all_nat",
    "eps_targets": "eps_targets_nat",
    "ceiling_plus": "ceiling_plus_nat",
    "ceiling_minus": "ceiling_minus_nat",
    "top_targets": "top_targets",
    "top_target_speakers": "top_target_speakers",
    "bottom_nontargets": "bottom_nontargets",
    "top_low": "top_llr_lower_nat",
    "eps_reversed": "eps_swapped_nat",
}


@pytest.mark.parametrize("name", NAMES)
def test_worst_evidence(name):
    found, want = m.worst_evidence(trials_of(name)), expected(name, "pav")
    for ours, theirs in PAV.items():
        same(m.flatten(found)[ours], want[theirs])
    assert bool(found.reason) == (found.extremes.top_low is None)


@pytest.mark.parametrize("name", having("length_w1"))
def test_length_curves(name):
    scores, truth = matrix_of(name)
    want = expected(name, "length_w1")
    lengths = [int(length) for length in want["L"]]
    rules = {"mean_row": "alid_mean_embedding", "llr_sum": "alid_sum", "llr_mean": "alid_average"}
    for rule, key in rules.items():
        found = m.length_curve(scores, truth, lengths, rule=rule, slope=1.0)
        assert found.panel.tolist() == want["panel"]
        same(found.alid, [each[key] for each in want["L"].values()])
    same(found.idr, [each["idr"] for each in want["L"].values()])
    same(found.pi_link_half, [each["pi_link_half"] for each in want["L"].values()])


def test_chance_of_pi_sing():
    for key, want in GOLDEN["pi_sing_chance"].items():
        n, per_speaker = (int(part.split("=")[1]) for part in key.split(","))
        same(m.pi_sing_chance(n, per_speaker), want)
