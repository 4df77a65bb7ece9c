"""The McAdams transform of many waveforms at once, for a GPU: the algorithm of :mod:`pipeline.anonymisers.mcadams.transform` in torch.

All in float64, frames last: [window, k] frames, [order + 1, k] filters, [order, k] roots. Neighbouring threads of a GPU then
touch neighbouring numbers in every step of every recursion, and the time steps of a filter are rows. Results differ from
the compiled form by the order of sums alone.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
import torch

from pipeline.anonymisers.mcadams import transform as mcadams
from pipeline.anonymisers.mcadams.transform import PASSED, SILENCE, SNAP, Framing

FRAMES = 65536  # at once: 11 minutes of speech, about 2 GB at 16 kHz
FEWEST = 256
REST = 256  # once one frame in so many is left, its roots are found faster by the compiled form than by more rounds

log = logging.getLogger(__name__)


class Transform:
    """McAdams' transform on a device, a block of frames after the other.

    Attributes:
        frames: of a block; halved for good when the device runs out of memory.
    """

    def __init__(self, frames: int = FRAMES) -> None:
        self.frames = frames

    def __call__(
        self, waves: Sequence[torch.Tensor], alphas: Sequence[float], framing: Framing
    ) -> list[tuple[torch.Tensor, dict[str, int]]]:
        """Each waveform with its own alpha, without any change of scale.

        Args:
            waves: float [n] each, full scale 1, at least one window long; all on one device.
            alphas: McAdams' coefficient of each.
            framing: see there; one for all.

        Returns:
            For each waveform float64 [n] on its device, and the counts ``frames`` (treated in all), ``near_silent`` and
            ``unstable`` (passed through).

        Raises:
            torch.OutOfMemoryError: the waveforms themselves (some 24 bytes a sample), or FEWEST frames, do not fit.
        """
        device, hop, lead = waves[0].device, framing.hop, framing.lead
        # The waveforms lie on one grid of hops, far enough from each other for no frame in use to reach its neighbour: row
        # r of it begins at sample r * hop.
        depth = -(-framing.window // hop)
        frames = [framing.frames(len(wave)) for wave in waves]
        starts = np.cumsum([0, *(max(each.stop, 0) + depth for each in frames)]).tolist()
        rows = starts.pop()
        places = [slice(at * hop + lead, at * hop + lead + len(wave)) for at, wave in zip(starts, waves)]
        signal = torch.zeros((rows + depth) * hop, dtype=torch.float64, device=device)
        used, alpha = np.zeros(rows, bool), np.ones(rows)
        for wave, place, at, own, its in zip(waves, places, starts, frames, alphas):
            signal[place] = wave
            signal[place] += framing.eps
            used[at + own.start : at + own.stop] = True
            alpha[at : at + own.stop] = its
        summed, status = self._through(
            signal.view(-1, hop).T.contiguous(),
            torch.from_numpy(used).to(device),
            torch.from_numpy(alpha).to(device),
            framing,
        )
        del signal
        if framing.edges:
            summed /= torch.from_numpy(framing.weight()).to(device)[:, None]
        flat, codes = summed.T.flatten(), status.cpu().numpy()
        results = []
        for place, at, own in zip(places, starts, frames):
            mine = codes[at + own.start : at + own.stop]
            counts = {name: int(np.count_nonzero(mine == code)) for code, name in PASSED.items()}
            results.append((flat[place], {"frames": len(own), **counts}))
        return results

    def _through(
        self, grid: torch.Tensor, used: torch.Tensor, alpha: torch.Tensor, framing: Framing
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The signal [hop, rows + depth] cut into a frame a row, treated, and added up again; status [rows]."""
        hop, rows = framing.hop, len(used)
        depth = grid.shape[1] - rows
        taper = torch.from_numpy(framing.taper()).to(grid.device)[:, None]
        summed, status = torch.zeros_like(grid), torch.zeros_like(used, dtype=torch.int64)
        start = 0
        while start < rows:
            stop = min(start + self.frames, rows)
            try:
                cut = torch.cat([grid[:, start + step : stop + step] for step in range(depth)])[: framing.window]
                cut = torch.where(used[start:stop], cut * taper, 0.0)
                new, status[start:stop] = frames_through(cut, alpha[start:stop], framing)
            except torch.OutOfMemoryError:
                if self.frames <= FEWEST:
                    raise
                self.frames //= 2
                log.warning("McAdams: the device is out of memory; going on with %d frames at once", self.frames)
                continue
            new *= taper
            # Row by row of the grid, never by atomic additions, whose order would vary.
            for step in range(depth):
                part = new[step * hop : (step + 1) * hop]
                summed[: len(part), start + step : stop + step] += part
            start = stop
        return summed, status


def frames_through(cut: torch.Tensor, alpha: torch.Tensor, framing: Framing) -> tuple[torch.Tensor, torch.Tensor]:
    """Windowed frames [window, k] with their alphas [k] through the transform, each alone from a zero state.

    Returns:
        The new frames [window, k] and a status [k] (0, or a key of PASSED): where it is not 0 the frame is as it was.
    """
    power = cut.square().sum(0)
    status = torch.where(power.isfinite(), (power < SILENCE**2 * framing.hop).long(), 2)
    live = (status == 0).nonzero().squeeze(1)
    if not len(live):
        return cut, status
    frames = cut[:, live]
    old = burg(frames + framing.eps, framing.order)
    moved, stable = move(poles(old), alpha[live], framing.clip)
    status[live] = torch.where(stable, 0, 2)
    cut[:, live] = torch.where(stable, refilter(frames, old, moved), frames)
    return cut, status


def burg(frames: torch.Tensor, order: int) -> torch.Tensor:
    """Prediction error filters [order + 1, k] of frames [n, k] by Burg's method (Marple 1980, section III)."""
    filters = frames.new_zeros(order + 1, frames.shape[1])
    filters[0] = 1.0
    forward, backward = frames[1:], frames[:-1]
    for i in range(order):
        cross = (forward * backward).sum(0)
        energy = torch.linalg.vector_norm(forward, dim=0).square() + torch.linalg.vector_norm(backward, dim=0).square()
        reflection = torch.where(energy > 0, -2.0 * cross / energy, 0.0)
        filters[1 : i + 2] += reflection * filters[: i + 1].flip(0)
        forward, backward = (
            torch.addcmul(forward[1:], reflection, backward[1:]),
            torch.addcmul(backward[:-1], reflection, forward[:-1]),
        )
    return filters


def poles(filters: torch.Tensor) -> torch.Tensor:
    """Roots complex128 [p, k] of monic polynomials [p + 1, k]: real ones have no imaginary part, others come in pairs.

    What does not end in conjugate pairs, and the last few frames whose roots take long, go to the compiled form.
    """
    roots, good = _aberth(filters)
    hard = (~good).nonzero().squeeze(1)
    if len(hard):
        exact = mcadams.poles(np.ascontiguousarray(filters[:, hard].T.cpu().numpy()))
        roots[:, hard] = torch.from_numpy(exact.T).to(roots.device)
    return roots


def _aberth(filters: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Roots [p, k], the lower one of a pair its mirror image but for rounding, and whether they could be had [k]."""
    size, count = filters.shape[0] - 1, filters.shape[1]
    angles = torch.arange(size, dtype=torch.float64, device=filters.device) * (2.0 * np.pi / size) + 0.4
    z = torch.exp(1j * angles)[:, None] * filters[size].abs() ** (1.0 / size)
    roots, ended = z.clone(), torch.zeros(count, dtype=torch.bool, device=filters.device)
    live = (filters.isfinite().all(0) & (filters[size] != 0)).nonzero().squeeze(1)
    z, a, size_of = z[:, live], filters[1:, live].to(z.dtype), filters[1:, live].abs()
    for _ in range(60):
        p, d = torch.ones_like(z), torch.zeros_like(z)
        modulus = z.abs()
        bound = torch.ones_like(modulus)
        for j in range(size):
            d = torch.addcmul(p, d, z)
            p = torch.addcmul(a[j], p, z)
            bound = torch.addcmul(size_of[j], bound, modulus)
        # 1 / step = p'/p - sum of 1 / (z_i - z_j); all roots move together
        apart = (z[:, None] - z).reciprocal_()
        apart.diagonal().zero_()
        inverse = d / p - apart.sum(1)
        converged = p.abs() <= 4e-16 * bound
        z = torch.where(converged, z, z - inverse.reciprocal())
        # The iteration is cubic: after a step of 1e-7 the error is far below rounding.
        done = (converged | (inverse.abs() > 1e7)).all(0)
        roots[:, live], ended[live] = z, done
        open = (~done).nonzero().squeeze(1)
        if len(open) <= count // REST:
            break
        live, z, a, size_of = live[open], z[:, open], a[:, open], size_of[:, open]
    # Keep the upper half plane, and see that the lower one mirrors it.
    x, y = roots.real, roots.imag
    y = torch.where(y.abs() < SNAP, 0.0, y)
    balance = torch.where(y == 0, 0.0, x * y + y).sum(0)
    good = ended & (y.sign().sum(0) == 0) & (balance.abs() < 1e-7)
    return torch.complex(x, y), good


def move(roots: torch.Tensor, alpha: torch.Tensor, clip: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Filters [p + 1, k] whose complex poles have the angles phi ** alpha, and whether they are stable [k].

    Args:
        roots: [p, k], in conjugate pairs, of which only the upper one is looked at; real ones stay.
        alpha: McAdams' coefficients [k].
        clip: new angles are clipped to [0, pi].
    """
    size, count = roots.shape
    radius = roots.abs()
    above, below = roots.imag > 0, roots.imag < 0
    stable = ((radius < 1.0) | below).all(0)
    angle = torch.where(above, roots.angle(), 1.0) ** alpha
    if clip:
        angle = angle.clamp(max=np.pi)
    # one factor 1 + first / z + second / z^2 a root, which is 1 for the lower one of a pair
    first = torch.where(above, -2.0 * radius * angle.cos(), torch.where(below, 0.0, -roots.real))
    second = torch.where(above, radius.square(), 0.0)
    filters = radius.new_zeros(size + 1, count)
    filters[0] = 1.0
    for i in range(size):
        times = filters.clone()
        times[1:].addcmul_(first[i], filters[:-1])
        times[2:].addcmul_(second[i], filters[:-2])
        filters = times
    return filters, stable


def refilter(frames: torch.Tensor, old: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    """Frames [n, k] through old(z) / new(z), filters [p + 1, k], from a zero state."""
    length, order = len(frames), len(old) - 1
    filtered = torch.cat([frames, frames.new_zeros(order, frames.shape[1])])
    for j in range(1, order + 1):
        filtered[j:length].addcmul_(old[j], frames[: length - j])
    # Each output, once known, is taken from the next p: the state is the signal ahead, and a step is one operation.
    for t in range(length - 1):
        filtered[t + 1 : t + 1 + order].addcmul_(new[1:], filtered[t], value=-1.0)
    return filtered[:length]
