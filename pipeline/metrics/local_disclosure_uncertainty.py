"""Local information disclosure by speaker and by identity, for intervals and null bands; groups of speakers as one.

See pipeline/metrics/README.md, sections 3 and 14a.

Speakers are weighted as those who speak; the N candidates stay. Under the null hypothesis the identities of the
candidates are permuted as wholes, and where slopes come from the other speakers ALID finds them anew each time.
Where trials stay within groups, such as the sexes, each speaker is one of the candidates of the same group, and means
are over the trials, or the speakers, of all groups; candidates are numbered through the groups.

Conventions: as of :mod:`pipeline.metrics.local_disclosure`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from pipeline.metrics._base import Array, Indices, MetricError, Undefined
from pipeline.metrics.local_disclosure import (
    FEWEST_FOR_LOSO,
    LN2,
    Lid,
    LidChance,
    SoftmaxLoss,
    check_candidates,
    exact_mean,
    exceedance,
    lid,
    loso_of_loss,
    posterior_bits,
    row_z,
    split_by_sign,
    spread_slopes,
)
from pipeline.metrics.uncertainty import ByIdentity, BySpeaker

NULL_METRICS = ("alid", "alid_speaker", "pdr", "pdr_speaker", "lid_max")


def lid_by_speaker(scores: npt.ArrayLike, truth: npt.ArrayLike, slope: float | npt.ArrayLike) -> BySpeaker:
    """``alid``, ``alid_speaker``, ``pdr`` and ``pdr_speaker`` as a function of speaker weights, for intervals.

    The slopes stay as they are. LID_max is an extreme, and has a ceiling and a null band instead.

    Args:
        scores, truth, slope: as of :func:`pipeline.metrics.lid`.

    Raises:
        MetricError: as of ``lid``.
    """
    disclosed = lid(scores, truth, slope)
    return bits_by_speaker(disclosed.lid, np.asarray(truth, dtype=np.int64), math.log2(disclosed.n_candidates))


def bits_by_speaker(bits: Array, truth: Indices, top: float) -> BySpeaker:
    """:func:`lid_by_speaker` of disclosures [n], the true candidates [n] and the largest disclosure that there can be."""

    def evaluate(weights: Array) -> dict[str, float]:
        return weighted_shares(bits, truth, weights)

    disclosures = dict.fromkeys(("alid", "alid_speaker"), (-math.inf, top))
    shares = dict.fromkeys(("pdr", "pdr_speaker"), (0.0, 1.0))
    return BySpeaker.of_panel(evaluate, np.unique(truth), disclosures | shares, list(shares))


def weighted_shares(bits: Array, truth: Indices, weights: Array) -> dict[str, float]:
    """ALID and PDR, by trial and by speaker, of disclosures [n] under weights [codes] of the speakers."""
    w = weights[truth]
    total = math.fsum(w)
    if not total > 0:
        raise MetricError("no trial is left")
    counts = np.bincount(truth, minlength=weights.size)
    w_speaker = w / counts[truth]
    n_speakers = math.fsum(w_speaker)
    positive = (bits > 0).astype(np.float64)
    return {
        "alid": math.fsum(w * bits) / total,
        "alid_speaker": math.fsum(w_speaker * bits) / n_speakers,
        "pdr": math.fsum(w * positive) / total,
        "pdr_speaker": math.fsum(w_speaker * positive) / n_speakers,
    }


def lid_by_identity(
    scores: npt.ArrayLike, truth: npt.ArrayLike, slope: float | npt.ArrayLike | None = None
) -> ByIdentity:
    """:data:`NULL_METRICS` as a function of the candidates' identities, for null bands.

    PDR and LID_max are functions of the slope, and are permuted at the slopes of the true identities: theirs is the band
    at this slope. Equal ones are told apart by the mean disclosure at these slopes.

    Args:
        scores, truth: as of :func:`pipeline.metrics.lid`.
        slope: one that was learnt from other speakers; None learns the slope of each speaker from the others, for ALID anew
            under each permutation.

    Raises:
        MetricError: as of ``lid``.
        Undefined: no slope, and fewer than three speakers to learn it from.
    """
    s, t = check_candidates(scores, truth)
    z = row_z(s)
    fixed = loso_of_loss(SoftmaxLoss(z, t), s.shape[1]).value if slope is None else slope
    bits = posterior_bits(spread_slopes(fixed, t, s.shape[1])[:, None] * z)
    tables = _Tables(bits, t)
    relearnt = _with_own_slopes(z, t) if slope is None else None

    def evaluate(identity: Indices) -> dict[str, float]:
        column = identity[tables.speakers]
        values = tables.evaluate(column)
        if relearnt is not None:
            values |= dict(zip(("alid", "alid_speaker"), relearnt(column)))
        return values

    return ByIdentity(
        evaluate,
        [np.arange(s.shape[1])],
        "candidates",
        NULL_METRICS,
        ties={"pdr": "mean", "pdr_speaker": "mean_speaker", "lid_max": "mean_speaker"},
    )


class _Tables:
    """What the trials of each speaker [S] disclose where any candidate [N] is in the place of the true one."""

    def __init__(self, bits: Array, truth: Indices) -> None:
        order = np.argsort(truth, kind="stable")
        self.speakers, begins, self.n_trials = np.unique(truth[order], return_index=True, return_counts=True)
        ranked = bits[order]
        self.sums = np.add.reduceat(ranked, begins, axis=0)
        self.positive = np.add.reduceat((ranked > 0).astype(np.int64), begins, axis=0)
        self.largest = np.maximum.reduceat(ranked, begins, axis=0)

    def evaluate(self, column: Indices) -> dict[str, float]:
        """Values with the candidates [S] in the place of the speakers."""
        row = np.arange(column.size)
        sums, positive = self.sums[row, column], self.positive[row, column]
        n = int(self.n_trials.sum())
        mean, mean_speaker = math.fsum(sums) / n, math.fsum(sums / self.n_trials) / column.size
        return {
            "alid": mean,
            "alid_speaker": mean_speaker,
            "pdr": int(positive.sum()) / n,
            "pdr_speaker": math.fsum(positive / self.n_trials) / column.size,
            "lid_max": float(self.largest[row, column].max()),
            "mean": mean,
            "mean_speaker": mean_speaker,
        }


def _with_own_slopes(z: Array, truth: Indices) -> Callable[[Indices], tuple[float, float]]:
    """ALID by trials and by speakers as a function of the candidates [S] in the place of the true ones, slopes learnt from the
    others."""
    table = SlopeTable(z, truth)
    speakers = table.loss.speakers
    counts = table.loss.n_trials
    order = np.argsort(truth, kind="stable")
    begins = np.concatenate(([0], np.cumsum(counts)[:-1]))
    aims = np.add.reduceat(z[order], begins, axis=0) / counts[:, None]
    row = np.arange(speakers.size)

    def alid(column: Indices) -> tuple[float, float]:
        aim = aims[row, column]
        w = table.loso(aim)
        bits = (w * aim - table.log_sum(w) + math.log(z.shape[1])) / LN2
        return math.fsum(bits * counts) / int(counts.sum()), math.fsum(bits) / speakers.size

    return alid


class SlopeTable:
    """Slopes from the other speakers for many choices of who is who, by interpolation.

    Who is who moves the mean z-score of the true candidates alone; the mean under the posterior is tabulated once.
    """

    def __init__(self, z: Array, truth: Indices, steps: int = 160) -> None:
        self.loss = SoftmaxLoss(z, truth)
        n_speakers = self.loss.speakers.size
        if n_speakers < FEWEST_FOR_LOSO:
            raise Undefined(f"a slope from the other speakers needs {FEWEST_FOR_LOSO} speakers, not {n_speakers}")
        everybody = np.ones(n_speakers)
        end = max(10.0, 3.0 * self.loss.best(everybody))
        self.w = end * (np.arange(steps + 1) / steps) ** 2
        moments = [self._at(float(w)) for w in self.w]
        mean, rise, self.sums = (np.array([moment[k] for moment in moments]).T for k in range(3))
        """[S, K] mean logarithm of the sum of the trials of each speaker."""
        self.own = mean
        """[S, K] its derivative, the mean z-score under the posterior."""
        others = self.loss.n_trials.sum() - self.loss.n_trials
        pseudo = ((1 + 1 / others) / (n_speakers - 1))[:, None]
        self.mean = pseudo * (mean.sum(axis=0) - mean)
        """[S, K] mean z-score under the posterior at each slope, over the others of each speaker."""
        self.rise = pseudo * (rise.sum(axis=0) - rise)

    def _at(self, w: float) -> tuple[Array, Array, Array]:
        """Mean z-score under the posterior, its derivative, and the logarithm of the sum: by speaker [S] at a slope."""
        z = self.loss.z  # ascending in each row
        top = z[:, -1:]
        p = np.exp(w * (z - top))
        total = p.sum(axis=1)
        mean = (p * z).sum(axis=1) / total
        variance = np.maximum((p * z * z).sum(axis=1) / total - mean**2, 0.0)
        logs = w * top[:, 0] + np.log(total)
        begins = self.loss.begins[:-1]
        means = (np.add.reduceat(values, begins) / self.loss.n_trials for values in (mean, variance, logs))
        return tuple(means)  # type: ignore[return-value]

    def loso(self, aim: Array) -> Array:
        """Slope [S] of each speaker from the others, 0 or more, for the mean z-scores [S] of the true candidates."""
        others_aim = (aim.sum() - aim) / (aim.size - 1)
        below = np.clip((self.mean <= others_aim[:, None]).sum(axis=1) - 1, 0, self.w.size - 2)
        row = np.arange(aim.size)
        g0, g1 = self.mean[row, below], self.mean[row, below + 1]
        w0, w1 = self.w[below], self.w[below + 1]
        width = g1 - g0
        x = np.divide(others_aim - g0, width, out=np.zeros_like(width), where=width > 0).clip(0.0, 1.0)
        # Cubic Hermite interpolation of the slope as a function of the mean.
        tangents = [
            np.divide(width, rise, out=w1 - w0, where=rise > 0)
            for rise in (self.rise[row, below], self.rise[row, below + 1])
        ]
        cubic = (
            (1 + 2 * x) * (1 - x) ** 2 * w0
            + x * (1 - x) ** 2 * tangents[0]
            + x * x * (3 - 2 * x) * w1
            + x * x * (x - 1) * tangents[1]
        )
        slopes: Array = np.clip(cubic, w0, w1)
        return slopes

    def log_sum(self, w: Array) -> Array:
        """Mean logarithm of the sum [S] of the trials of each speaker at the slope [S] of each."""
        below = np.clip(np.searchsorted(self.w, w, side="right") - 1, 0, self.w.size - 2)
        row = np.arange(w.size)
        width = self.w[below + 1] - self.w[below]
        x = (w - self.w[below]) / width
        sums: Array = (
            (1 + 2 * x) * (1 - x) ** 2 * self.sums[row, below]
            + x * (1 - x) ** 2 * width * self.own[row, below]
            + x * x * (3 - 2 * x) * self.sums[row, below + 1]
            + x * x * (x - 1) * width * self.own[row, below + 1]
        )
        return sums


def lid_of_blocks(parts: Sequence[Lid], truths: Sequence[Indices]) -> Lid:
    """All groups as one.

    Args:
        parts: of :func:`pipeline.metrics.lid` on each group.
        truths: [n] the true candidate of each trial of each group.

    Raises:
        MetricError: no group.

    Example:
        >>> from pipeline.metrics import lid
        >>> from pipeline.metrics.local_disclosure_uncertainty import lid_of_blocks
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
    plus, minus, reason = split_by_sign(bits)
    return Lid(
        n_candidates=sum(part.n_candidates for part in parts),
        n_trials=sum(n_trials),
        n_speakers=sum(n_speakers),
        lid=bits,
        alid=exact_mean(bits),
        alid_speaker=exact_mean(means[~np.isnan(means)]),
        speaker_alid=means,
        pdr=float((bits > 0).mean()),
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


def blocks_by_speaker(parts: Sequence[Lid], truths: Sequence[Indices]) -> BySpeaker:
    """The values of :func:`pipeline.metrics.lid_by_speaker` on all groups, for intervals; arguments as of
    :func:`lid_of_blocks`."""
    begins = np.cumsum([0, *(part.n_candidates for part in parts)])
    truth = np.concatenate([np.asarray(truth) + begin for truth, begin in zip(truths, begins)])
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
    ranges = list(itertools.pairwise(np.cumsum([0, *sizes]).tolist()))

    def evaluate(identity: Indices) -> dict[str, float]:
        part_values = [part.evaluate(identity[a:b] - a) for part, (a, b) in zip(parts, ranges)]
        joined = {}
        for name in part_values[0]:
            values = [values_of_part[name] for values_of_part in part_values]
            by_speaker = name.endswith("_speaker")
            joined[name] = max(values) if name == "lid_max" else _mean(values, n_speakers if by_speaker else n_trials)
        return joined

    groups = [np.arange(a, b) for a, b in ranges]
    return ByIdentity(evaluate, groups, "candidates", NULL_METRICS, ties=parts[0].ties)


def exceedance_at_chance(parts: Sequence[Array], at: Array, n_trials: Sequence[int]) -> Array:
    """The CCDF [k] at chance of all groups, of log2(N p) [cells] of each: trials weigh alike."""
    total: Array = np.sum([exceedance(cells, at) * n for cells, n in zip(parts, n_trials)], axis=0) / sum(n_trials)
    return total
