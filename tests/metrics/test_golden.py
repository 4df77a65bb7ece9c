"""Golden values: the independent reference to 1e-12, peers within the tolerances that their own faults leave."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pipeline import metrics as m

from .conftest import golden

REFERENCE = {
    "EER_rocch": lambda t, n: m.eer(t, n),
    "Cllr_min": lambda t, n: m.cllr_min(t, n),
    "D_ECE_oracle [bit]": lambda t, n: m.d_ece_oracle(t, n),
    "l_w_laplace [log10]": lambda t, n: m.trial_metrics(t, n).l_w,
    "l_w_laplace [nat]": lambda t, n: max(np.abs(llr).max() for llr in m.oracle_llr(t, n, laplace=True)),
    "Cllr_actual (scores taken as natural-log LLR)": lambda t, n: m.cllr(t, n),
    "D_ECE_actual (scores taken as natural-log LLR) [bit]": lambda t, n: m.d_ece(t, n),
    "l_w_attainable_max [log10]": lambda t, n: m.l_w_ceiling(len(t), len(n)),
}


def close(got, want, tolerance):
    want = float(want)
    return got == want or math.isclose(got, want, rel_tol=tolerance, abs_tol=tolerance)


def test_independent_reference(score_set):
    _, target, nontarget, entry = score_set
    for name, want in entry["independent_reference"].items():
        got = REFERENCE[name](target, nontarget)
        assert close(got, want, 1e-12), (name, got, want)


def test_one_call_gives_what_the_single_functions_give(score_set):
    _, target, nontarget, _ = score_set
    found = m.trial_metrics(target, nontarget)
    zebra = m.trial_metrics(target, nontarget)
    assert (found.d_ece, found.l_w, found.tag, found.l_w_ceiling) == (
        zebra.d_ece, zebra.l_w, zebra.tag, zebra.l_w_ceiling
    )  # fmt: skip
    assert found.eer == {v: m.eer(target, nontarget, variant=v) for v in ("rocch", "kaldi", "speechbrain")}
    assert found.cllr_min == m.cllr_min(target, nontarget)
    assert close(found.cllr, m.cllr(target, nontarget), 1e-12)
    assert found.cllr_cal == found.cllr - found.cllr_min
    assert found.tpr_at_fpr == (m.tpr_at_fpr(target, nontarget, 0.01), m.tpr_at_fpr(target, nontarget, 0.001))


TIE_FREE = [
    "gauss_calibrated", "overlap", "reversed", "separated", "tiny_3x3", "one_target", "cosine_like", "near_zero_llr",
    "near_1e-5_llr", "imbalance_100_100000", "gauss_100k",
]  # fmt: skip


def test_peers_on_finite_sets_without_ties(score_set):
    name, target, nontarget, entry = score_set
    if name not in TIE_FREE:
        assert name in {"ties_discrete", "all_equal", "tiny_2x2_tie", "huge_llr", "with_inf", "with_wrong_inf"}
        return
    found, peers = m.trial_metrics(target, nontarget), entry["peers"]
    expected = [
        ("zebra", "rocch_eer (attribute)", found.eer["rocch"], 1e-6),
        ("zebra", "performance.min_cllr (non-first PAV)", found.cllr_min, 1e-6),
        ("zebra", "D_ECE (get_delta_ECE) [bit]", found.d_ece, 1e-6),
        ("zebra", "l_w = max|LLR_laplace|/ln10 [log10]", found.l_w, 1e-6),
        ("vpc2024", "min_cllr", found.cllr_min, 1e-6),
        ("vpc2024", "rocch_eer", found.eer["rocch"], 1e-6),
        ("vpc2024", "cllr", found.cllr, 1e-6),
        ("vpc2024", "l_w = max_abs_LLR(laplace) [log10]", found.l_w, 1e-6),
        ("pybosaris", "compute_eer", found.eer["rocch"], 1e-10),
        ("pybosaris", "compute_min_cllr", found.cllr_min, 1e-10),
        ("llreval", "EER", found.eer["rocch"], 1e-10),
        ("llreval", "minCllr", found.cllr_min, 1e-10),
        ("lir", "cllr_min", found.cllr_min, 1e-10),
    ]
    compared = 0
    for peer, key, got, tolerance in expected:
        if key in peers.get(peer, {}):
            compared += 1
            assert close(got, peers[peer][key], tolerance), (peer, key, got, peers[peer][key])
    assert compared >= 5
    if "tag" in peers.get("vpc2024", {}):
        assert found.tag == peers["vpc2024"]["tag"]


def test_tied_scores_do_not_count_as_separation():
    """zebra gives EER 0, Cllr_min 0 and tag B for a constant score; pooled ties give chance."""
    entry = golden("score_sets")["all_equal"]
    found = m.trial_metrics([0.0] * entry["n_tar"], [0.0] * entry["n_non"])
    assert (found.eer["rocch"], found.cllr_min, found.d_ece) == (0.5, 1.0, 0.0)
    assert found.tag == "A"
    assert found.l_w == pytest.approx(math.log10(21 * 80 / (81 * 20)), abs=1e-14)


def test_z_function():
    for row in golden("z_function"):
        l, want = float(row["l"]), float(row["Z"])  # noqa: E741
        got = float(m.z_function(l))
        assert got == want or abs(got - want) <= 1e-11 * abs(want), (l, got, want)


@pytest.mark.parametrize("omega", ["1", "0.1"])
def test_binned_d_sys_is_the_challenge_rule(score_set, omega):
    _, target, nontarget, entry = score_set
    want = float(entry["peers"]["vpc2024"][f"linkability D_sys omega={omega}"])
    if math.isnan(want):
        with pytest.raises(m.Undefined):
            m.d_sys(target, nontarget, omega=float(omega), variant="vpc")
    else:
        assert m.d_sys(target, nontarget, omega=float(omega), variant="vpc") == pytest.approx(want, abs=1e-12)


@pytest.mark.parametrize("name", sorted(golden("vsm")["sets"]))
@pytest.mark.parametrize("similarity", ["sigmoid_mean", "geometric_mean"])
def test_vsm_of_the_public_script_and_eq_6(name, similarity):
    entry = golden("vsm")["sets"][name]
    speakers = [entry["speakers"].index(u.split("-")[0]) for u in entry["utterances"]]
    parts = {
        key: m.similarity_matrix(np.array(entry["raw_scores"][key]), speakers, similarity=similarity, pairing="vpc2020")
        for key in ("oo", "op", "pp")
    }
    if similarity == "sigmoid_mean":
        want = entry["outputs"]
        matrices = {key: want[key]["similarity"] for key in parts}
    else:
        want = entry["independent_eq6_geometric_mean"]
        matrices = want["similarity"]
    for key, part in parts.items():
        assert part.n_target + part.n_nontarget == entry["outputs"][key]["n_trials"]
        # The script calibrates with zebra's tilt of up to 1e-6 nat.
        np.testing.assert_allclose(part.matrix, matrices[key], atol=1e-6, rtol=0)
    found = m.vsm_metrics(parts["oo"], parts["op"], parts["pp"], entry["speakers"])
    assert found.deid == pytest.approx(want["DeID"], abs=1e-6)
    assert found.g_vd == pytest.approx(want["G_VD"], abs=1e-5)


@pytest.mark.parametrize("name", sorted(golden("vsm")["matrices"]))
def test_deid_and_g_vd_of_given_matrices(name):
    entry = golden("vsm")["matrices"][name]
    oo, op, pp = (np.array(entry["matrices"][key]) for key in ("oo", "op", "pp"))
    assert m.deid(oo, op) == pytest.approx(entry["outputs"]["DeID"], abs=1e-12)
    assert m.g_vd(oo, pp) == pytest.approx(entry["outputs"]["G_VD"], abs=1e-12)
    if "negative" in name:
        assert m.signed_dominance(op) < 0 < m.d_diag(op)


@pytest.mark.parametrize("name", sorted(golden("srd")))
def test_srd(name):
    entry = golden("srd")[name]
    counts = np.array(entry["counts"])
    found = m.disclosure(counts / counts.sum())
    want = entry["empirical"]
    got = (found.max_d, found.mean_d, found.idr, found.rank_spread)
    assert got == pytest.approx((want["MaxD"], want["MeanD"], want["IdR"], want["RS_strict"]), abs=1e-12)

    fit, want = m.fit_beta_binomial(counts / counts.sum(), counts.sum()), entry["fits"]["ml_given_gamma1_equals_p1"]
    assert fit.flag == ""
    assert (fit.alpha, fit.beta) == pytest.approx((want["alpha"], want["beta"]), rel=1e-5)
    assert fit.log_likelihood == pytest.approx(want["loglik"], abs=1e-8)
    got = (fit.disclosure.max_d, fit.disclosure.mean_d, fit.disclosure.idr)
    assert got == pytest.approx((want["MaxD"], want["MeanD"], want["IdR"]), abs=1e-6)
    assert fit.disclosure.rank_spread == want["RS_strict"]


@pytest.mark.parametrize("name", [k for k in sorted(golden("linkability")) if k.startswith("link")])
def test_pi_link_in_closed_form(name):
    entry = golden("linkability")[name]
    truth = [entry["enroll_speakers"].index(s) for s in entry["test_speakers"]]
    scores = np.array(entry["scores"]).T
    exact = {int(k.split("=")[1]): v for k, v in entry["outputs"].items() if k.startswith("exact")}
    assert len(exact) == 4
    for population, want in exact.items():
        assert m.pi_link(scores, truth, population) == pytest.approx(want, abs=1e-12)
    idr = m.srd(scores, truth, ties="best").empirical.idr
    assert m.pi_link(scores, truth, scores.shape[1]) == pytest.approx(idr, abs=1e-12)


@pytest.mark.parametrize("name", [k for k in sorted(golden("linkability")) if k.startswith("sing")])
def test_pi_sing_on_the_full_set(name):
    entry = golden("linkability")[name]
    n = len(entry["speakers"])
    got = m.pi_sing(entry["test_scores"], entry["calibration_scores"], entry["n_calibration_per_speaker"])
    assert got == pytest.approx(entry["outputs"][f"rate N={n}"], abs=1e-12)
