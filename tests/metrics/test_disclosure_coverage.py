"""How often intervals of disclosure hold the value of the population that speakers are drawn from.

A speaker has a voice, and each utterance a pseudo-voice that keeps some of it; the candidates stay as they are. The value of the
population is the mean over many draws of other utterances and other noise of speakers like these.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from pipeline import metrics as m

LENGTHS = (1, 3, 6)


@dataclass(frozen=True)
class Design:
    """Speakers who are enrolled and tried; how far the true score stands out, by speaker; what a speaker's rows share."""

    speakers: int
    trials: int
    shift: float
    uneven: float
    shared: float


DESIGNS = {
    "16 speakers": Design(16, 12, 1.0, 0.4, 0.0),
    "16 speakers, pseudo-voices shared": Design(16, 12, 0.8, 0.4, 0.3),
    "29 speakers, weak": Design(29, 12, 0.4, 0.2, 0.1),
}


def drawn(design: Design, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Scores [n, N] and true candidates [n]."""
    n = design.speakers
    truth = np.repeat(np.arange(n), design.trials)
    scores = np.sqrt(1 - design.shared) * random.normal(size=(truth.size, n))
    scores += np.sqrt(design.shared) * random.normal(size=(n, n))[truth]
    scores[np.arange(truth.size), truth] += (design.shift + design.uneven * random.normal(size=n))[truth]
    return scores, truth


def lengths_covered(design: Design, runs: int, seed: int = 0) -> dict[str, float]:
    """Share of the intervals of each point of the curves that hold the mean over all runs."""
    random = np.random.default_rng(seed)
    values, ends = [], []
    for _ in range(runs):
        items = m.Lengths(*drawn(design, random), LENGTHS, subsets=12, generator=random)
        curve = items.curve()
        values.append({f"{k}.{n}": v for k in ("alid", "idr", "eer") for n, v in zip(LENGTHS, getattr(curve, k))})
        ends.append({name: (one.low, one.high) for name, one in m.intervals(items.by_speaker()).items()})
    found = {}
    for name in values[0]:
        centre = float(np.mean([one[name] for one in values]))
        held = [one[name] for one in ends if one[name][0] is not None]
        found[name] = float(np.mean([low <= centre <= high for low, high in held]))
        assert len(held) > 0.9 * runs
    return found


def rates_covered(fpr: float, runs: int, seed: int = 0) -> tuple[float, float, float]:
    """How often the percentile bootstrap over speakers and the jackknife hold the mean TPR; and that."""
    random = np.random.default_rng(seed)
    values, by_method = [], {"percentile": [], "jackknife": []}
    for _ in range(runs):
        # 16 models, 20 speakers, of whom four are not enrolled; speakers are alike to some models more than to others.
        spoken = np.repeat(np.arange(20), 30)
        alike = 0.7 * random.normal(size=(20, 16))
        alike[np.arange(16), np.arange(16)] += 2.0
        scores = alike[spoken] + random.normal(size=(spoken.size, 16))
        trials = m.Trials(scores.ravel(), np.tile(np.arange(16), spoken.size), np.repeat(spoken, 16))
        metric = m.tpr_by_speaker(trials, [fpr])
        values.append(metric.evaluate(metric.everybody)[f"tpr_at_fpr.{fpr:g}"])
        for method, found in by_method.items():
            one = m.intervals(metric, method=method, replicates=200, generator=random)[f"tpr_at_fpr.{fpr:g}"]
            found.append((one.low, one.high))
    centre = float(np.mean(values))
    shares = [np.mean([low <= centre <= high for low, high in found]) for found in by_method.values()]
    return float(shares[0]), float(shares[1]), centre


def test_few_runs_of_either_kind_cover_most_of_the_time() -> None:
    found = lengths_covered(DESIGNS["16 speakers"], 10)
    assert len(found) == 9 and np.mean(list(found.values())) > 0.7
    share, _, centre = rates_covered(0.01, 10)
    assert share >= 0.7 and 0.2 < centre < 0.8


@pytest.mark.slow
@pytest.mark.parametrize("name", DESIGNS)
def test_intervals_of_longer_conversations_cover(name: str) -> None:
    for point, share in lengths_covered(DESIGNS[name], 250).items():
        assert 0.82 <= share <= 0.99, (point, share)


@pytest.mark.slow
@pytest.mark.parametrize("fpr", [0.01, 0.001])
def test_drawing_speakers_covers_rates_at_few_alarms_where_the_jackknife_does_not(fpr: float) -> None:
    drawn_speakers, jackknife, _ = rates_covered(fpr, 250)
    assert 0.9 <= drawn_speakers <= 1.0 and jackknife < drawn_speakers
