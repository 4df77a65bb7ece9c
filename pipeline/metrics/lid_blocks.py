"""Local information disclosure where trials stay within groups of speakers, such as the sexes: one matrix a group.

See pipeline/metrics/README.md, section 14a.

Each speaker is one of the candidates of the same group, and LID is what a trial says about who of them speaks. Means
are over the trials, or the speakers, of all groups. Candidates are numbered through the groups.

Conventions: as of :mod:`pipeline.metrics.lid`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from pipeline.metrics._checks import Array, Indices, MetricError
from pipeline.metrics.lid import Lid, LidChance, exceedance, mean_of
from pipeline.metrics.lid_uncertainty import NULL_METRICS, bits_by_speaker
from pipeline.metrics.uncertainty import ByIdentity, BySpeaker


def lid_of_blocks(parts: Sequence[Lid], truths: Sequence[Indices]) -> Lid:
    """All groups as one.

    Args:
        parts: of :func:`pipeline.metrics.lid` on each group.
        truths: [n] the true candidate of each trial of each group.

    Raises:
        MetricError: no group.

    Example:
        >>> from pipeline.metrics import lid
        >>> from pipeline.metrics.lid_blocks import lid_of_blocks
        >>> scores, truth = [[0.9, 0.1, 0.3], [0.2, 0.4, 0.5]], [0, 1]
        >>> other = [[0.2, 0.1]]
        >>> found = lid_of_blocks([lid(scores, truth, 1.0), lid(other, [0], 1.0)], [truth, [0]])
        >>> found.n_candidates, found.n_speakers, found.lid.round(3).tolist()
        (5, 3, [1.117, -0.091, 0.686])
    """
    if len(parts) < 2:
        if not parts:
            raise MetricError("there is no group of candidates")
        return parts[0]
    bits = np.concatenate([part.lid for part in parts])
    means = np.concatenate([part.speaker_alid for part in parts])
    n_trials, n_speakers = [part.n_trials for part in parts], [part.n_speakers for part in parts]
    positive = bits > 0
    plus = mean_of(bits[positive]) if positive.any() else None
    minus = mean_of(bits[~positive]) if not positive.all() else None
    reason = "no trial has a positive disclosure" if plus is None else ""
    if minus is None:
        reason = "all trials have a positive disclosure"
    return Lid(
        n_candidates=sum(part.n_candidates for part in parts),
        n_trials=sum(n_trials),
        n_speakers=sum(n_speakers),
        lid=bits,
        alid=mean_of(bits),
        alid_speaker=mean_of(means[~np.isnan(means)]),
        speaker_alid=means,
        pdr=float(positive.mean()),
        pdr_speaker=_mean([part.pdr_speaker for part in parts], n_speakers),
        lid_plus=plus,
        lid_minus=minus,
        lid_max=float(bits.max()),
        lid_max_ceiling=max(part.lid_max_ceiling for part in parts),
        chance=LidChance(
            alid=_mean([part.chance.alid for part in parts], n_trials),
            alid_speaker=_mean([part.chance.alid_speaker for part in parts], n_speakers),
            pdr=_mean([part.chance.pdr for part in parts], n_trials),
            pdr_speaker=_mean([part.chance.pdr_speaker for part in parts], n_speakers),
            lid_plus=None,
            lid_minus=None,
        ),
        reason=reason,
    )


def _mean(values: Sequence[float], weights: Sequence[int]) -> float:
    return math.fsum(value * weight for value, weight in zip(values, weights)) / sum(weights)


def numbered(truths: Sequence[Indices], sizes: Sequence[int]) -> Indices:
    """The true candidates [n] of all groups, numbered through; ``sizes`` are the candidates of each."""
    begins = np.cumsum([0, *sizes[:-1]])
    found: Indices = np.concatenate([np.asarray(truth) + begin for truth, begin in zip(truths, begins)])
    return found


def blocks_by_speaker(parts: Sequence[Lid], truths: Sequence[Indices]) -> BySpeaker:
    """The values of :func:`pipeline.metrics.lid_by_speaker` on all groups, for intervals; arguments as of
    :func:`lid_of_blocks`."""
    truth = numbered(truths, [part.n_candidates for part in parts])
    top = math.log2(max(part.n_candidates for part in parts))
    return bits_by_speaker(np.concatenate([part.lid for part in parts]), truth, top)


def blocks_by_identity(
    parts: Sequence[ByIdentity], sizes: Sequence[int], n_trials: Sequence[int], n_speakers: Sequence[int]
) -> ByIdentity:
    """Identities of candidates permuted within each group, for null bands of all groups.

    Args:
        parts: of :func:`pipeline.metrics.lid_by_identity` on each group.
        sizes, n_trials, n_speakers: candidates, trials and speakers of each group.
    """
    begins = np.cumsum([0, *sizes])

    def evaluate(identity: Indices) -> dict[str, float]:
        each = [part.evaluate(identity[a:b] - a) for part, (a, b) in zip(parts, itertools.pairwise(begins.tolist()))]
        found = {}
        for name in each[0]:
            values = [one[name] for one in each]
            by_speaker = name.endswith("_speaker")
            found[name] = max(values) if name == "lid_max" else _mean(values, n_speakers if by_speaker else n_trials)
        return found

    groups = [np.arange(a, b) for a, b in itertools.pairwise(begins.tolist())]
    return ByIdentity(evaluate, groups, "candidates", NULL_METRICS, ties=parts[0].ties)


def exceedance_at_chance(parts: Sequence[Array], at: Array, n_trials: Sequence[int]) -> Array:
    """The CCDF [k] at chance of all groups, of log2(N p) [cells] of each: trials weigh alike."""
    total: Array = np.sum([exceedance(cells, at) * n for cells, n in zip(parts, n_trials)], axis=0) / sum(n_trials)
    return total
