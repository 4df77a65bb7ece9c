"""The quick ways of replicates: without one speaker, and under permuted identities, against the metrics of such a list itself."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.metrics import MetricError, Trials, area, trial_metrics, trials_by_identity, trials_by_speaker
from pipeline.metrics.linkability import d_sys

NAMES = (
    "eer.rocch", "eer.kaldi", "eer.speechbrain", "cllr", "cllr_min", "cllr_cal", "d_ece", "d_sys.exact", "tpr_at_fpr.0.1",
)  # fmt: skip


def lists() -> list[Trials]:
    found = []
    for seed in range(12):
        random = np.random.default_rng(seed)
        speakers, each = int(random.integers(3, 9)), int(random.integers(1, 5))
        enrolled, spoken = (
            np.repeat(np.arange(speakers), speakers * each),
            np.tile(np.repeat(np.arange(speakers), each), speakers),
        )
        kept = (enrolled == spoken) | (random.random(enrolled.size) < (1.0, 0.6, 0.15)[seed % 3])
        scores = random.normal(size=enrolled.size) + (enrolled == spoken)
        if seed % 2:
            scores = np.round(scores)  # ties
        if seed % 5 == 4:
            scores[random.random(scores.size) < 0.1] = np.inf
        found.append(Trials(scores[kept], enrolled[kept], spoken[kept]))
    return found


def measured(target: np.ndarray, nontarget: np.ndarray) -> dict[str, float]:
    found = trial_metrics(target, nontarget, fprs=(0.1,))
    tpr = found.tpr_at_fpr[0].tpr
    return {
        **{f"eer.{name}": value for name, value in found.eer.items()},
        **{name: getattr(found, name) for name in ("cllr", "cllr_min", "cllr_cal", "d_ece", "l_w")},
        "d_sys.exact": d_sys(target, nontarget),
        "tpr_at_fpr.0.1": np.nan if tpr is None else tpr,
    }


@pytest.mark.parametrize("trials", lists())
def test_without_a_speaker_is_the_list_without_his_trials(trials: Trials) -> None:
    metric = trials_by_speaker(trials, NAMES)
    for speaker in (None, *metric.speakers):
        weights = metric.everybody
        kept = np.ones(trials.scores.size, dtype=bool)
        if speaker is not None:
            weights[speaker] = 0
            kept = (trials.enrolled != speaker) & (trials.spoken != speaker)
        target, nontarget = trials.scores[kept & trials.is_target], trials.scores[kept & ~trials.is_target]
        if not (target.size and nontarget.size):
            with pytest.raises(MetricError):
                metric.evaluate(weights)
            continue
        want = measured(target, nontarget)
        got = metric.evaluate(weights)
        for name in NAMES:
            np.testing.assert_allclose(got[name], want[name], rtol=1e-12, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("trials", lists())
def test_permuted_identities_are_the_list_with_other_labels(trials: Trials) -> None:
    names = ("d_ece", "l_w", "cllr_min", "eer.rocch", "d_sys.exact")
    metric = trials_by_identity(trials, names)
    random = np.random.default_rng(1)
    for _ in range(5):
        identity = random.permutation(trials.n_codes)
        is_target = identity[trials.enrolled] == trials.spoken
        if is_target.all() or not is_target.any():
            with pytest.raises(MetricError):
                metric.evaluate(identity)
            continue
        want = measured(trials.scores[is_target], trials.scores[~is_target])
        got = metric.evaluate(identity)
        for name in names:
            assert got[name] == pytest.approx(want[name], abs=1e-12), name


def test_raw_costs_of_any_size_have_means() -> None:
    """The mean of costs that leave the range of numbers when summed: of n equal ones it is one of them."""
    enrolled, spoken = np.repeat(np.arange(4), 8), np.tile(np.repeat(np.arange(4), 2), 4)
    scores = np.where(enrolled == spoken, -1e308, 1e308)
    for name, value in trials_by_speaker(Trials(scores, enrolled, spoken), ("cllr",)).evaluate(np.ones(4)).items():
        assert value == pytest.approx(1e308 / np.log(2), rel=1e-12), name
    target, nontarget = scores[enrolled == spoken], scores[enrolled != spoken]
    assert trial_metrics(target, nontarget).cllr == pytest.approx(1e308 / np.log(2), rel=1e-12)
    assert area(target, nontarget) == 0
