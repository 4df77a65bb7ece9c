"""Whether intervals and null bands do what they promise, on simulated sets whose population values are known.

Score of model i against an utterance of speaker j: shift [i = j] + model effect + speaker effect + effect of the pair +
noise. Marginally targets and non-targets are two Gaussians d' apart, so EER = Phi(-d'/2), and D_ECE is an integral.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from numpy.polynomial.legendre import leggauss
from scipy.stats import norm

from pipeline import metrics
from tests.benchmark.harness import Row, row

SETS = 500
EFFECT = 0.4  # standard deviation of each of the three effects, that of the noise being 1
SPREAD = math.sqrt(1 + 3 * EFFECT**2)
UTTERANCES = 20


def simulated(random: np.random.Generator, n_enrolled: int, d_prime: float) -> metrics.Trials:
    """Every model against 20 utterances of each enrolled speaker and of a quarter as many others."""
    n = n_enrolled + n_enrolled // 4
    spoken = np.tile(np.repeat(np.arange(n), UTTERANCES), n_enrolled)
    enrolled = np.repeat(np.arange(n_enrolled), n * UTTERANCES)
    scores = random.normal(size=spoken.size) + d_prime * SPREAD * (enrolled == spoken)
    scores += EFFECT * random.normal(size=n_enrolled)[enrolled] + EFFECT * random.normal(size=n)[spoken]
    scores += EFFECT * random.normal(size=(n_enrolled, n))[enrolled, spoken]
    return metrics.Trials(scores, enrolled, spoken)


def population(d_prime: float) -> dict[str, float]:
    """EER and D_ECE (the mean over priors of what is disclosed, Eq. 13) of two unit Gaussians d' apart."""
    nodes, weight = hermegauss(120)
    weight = weight / weight.sum()
    target, nontarget = (d_prime * (nodes + sign * d_prime / 2) for sign in (1, -1))
    places, lengths = leggauss(400)
    disclosed = 0.0
    for prior, length in zip((places + 1) / 2, lengths / 2):
        odds = math.log(prior / (1 - prior))
        cost = prior * weight @ np.logaddexp(0, -target - odds) + (1 - prior) * weight @ np.logaddexp(
            0, nontarget + odds
        )
        entropy = -prior * math.log(prior) - (1 - prior) * math.log(1 - prior)
        disclosed += length * (entropy - cost) / math.log(2)
    return {"eer.rocch": float(norm.cdf(-d_prime / 2)), "d_ece": float(disclosed)}


def coverage() -> list[Row]:
    """Coverage of the default interval and, beside it, of the percentile bootstrap (200 replicates)."""
    rows = []
    for n_enrolled in (8, 16):
        for d_prime in (0.7, 1.5, 3.0):
            truth = population(d_prime)
            held = {(method, name): 0 for method in ("jackknife", "percentile") for name in truth}
            for number in range(SETS):
                random = np.random.default_rng([n_enrolled, int(10 * d_prime), number])
                given = simulated(random, n_enrolled, d_prime)
                for method in ("jackknife", "percentile"):
                    found = metrics.intervals(
                        metrics.trials_by_speaker(given, tuple(truth)), method=method, replicates=200, generator=random
                    )
                    for name, value in truth.items():
                        low, high = found[name].low, found[name].high
                        held[method, name] += low is not None and high is not None and low <= value <= high
            for name in truth:
                share, other = (100 * held[method, name] / SETS for method in ("jackknife", "percentile"))
                what = f"{SETS} sets, {n_enrolled} enrolled, d' {d_prime:g}; percentile covers {other:.1f} %"
                label = f"coverage_{name}_{n_enrolled}_{d_prime:g}"
                rows.append(row(label, share, "%", what, at_least=88, at_most=98.5))
    return rows


NULL_VALUES = ("d_ece", "l_w", "max_d", "mean_d", "rank_spread")


def null_band() -> list[Row]:
    """How often the null band's permutation test flags a harmless system, at p <= 2.5 %.

    Extremes and spreads take few values, so that the test decides among equal ones by a second statistic; beside its
    share stands that of values strictly beyond the band's printed point, which ties make smaller.
    """
    rows = []
    for n_enrolled in (8, 16):
        flagged, outside = dict.fromkeys(NULL_VALUES, 0), dict.fromkeys(NULL_VALUES, 0)
        for number in range(SETS):
            random = np.random.default_rng([n_enrolled, number])
            given = simulated(random, n_enrolled, 0.0)
            whole = metrics.trial_metrics(given.scores[given.is_target], given.scores[~given.is_target])
            bands = metrics.null_bands(metrics.trials_by_identity(given), generator=random, replicates=400)
            truth, similarity = harmless_ranks(random, n_enrolled)
            ranks = metrics.srd(similarity, truth).empirical
            bands |= metrics.null_bands(metrics.srd_by_identity(similarity, truth), generator=random, replicates=400)
            values = (whole.d_ece, whole.l_w, ranks.max_d, ranks.mean_d, ranks.rank_spread)
            for name, value in zip(NULL_VALUES, values):
                point = bands[name].low if name == "rank_spread" else bands[name].high
                assert point is not None, bands[name].reason
                beyond = point - value if name == "rank_spread" else value - point
                p_value = bands[name].p_value
                assert p_value is not None
                flagged[name] += p_value <= 0.025
                outside[name] += beyond > 1e-12
        for name in NULL_VALUES:
            share, more = (100 * count[name] / SETS for count in (flagged, outside))
            what = (
                f"{SETS} harmless systems, {n_enrolled} enrolled, flagged at a nominal 2.5 %; {more:.1f} % lie outside"
            )
            rows.append(row(f"null_band_{name}_{n_enrolled}", share, "%", f"{what} the band", at_least=1, at_most=6))
    return rows


def harmless_ranks(random: np.random.Generator, n_speakers: int) -> tuple[np.ndarray, np.ndarray]:
    """True speakers of 20 inputs each, and similarities [inputs, references] with effects of references and of pairs."""
    truth = np.repeat(np.arange(n_speakers), UTTERANCES)
    similarity = random.normal(size=(truth.size, n_speakers)) + EFFECT * random.normal(size=n_speakers)
    similarity += EFFECT * random.normal(size=(n_speakers, n_speakers))[truth]
    return truth, similarity
