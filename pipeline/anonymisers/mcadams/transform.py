"""The McAdams transform of a waveform (Patino et al. 2021, "Speaker anonymisation using the McAdams coefficient").

Each frame is split into an all-pole filter (Burg) and its residual; the angle phi (radians) of each complex pole becomes
phi ** alpha, and the residual goes through the new filter. All frames of a block are treated at once by compiled kernels
that release the interpreter's lock, so files can be processed in threads. :mod:`pipeline.anonymisers.mcadams.on_device` is the same
for a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeline.nets.compiled import compiled

EPS = float(np.finfo(np.float32).eps)
SILENCE = 1e-5  # RMS of a frame, -100 dBFS
# Below this an imaginary part is rounding: 1e-12 on simple real poles, up to 1e-7 on double ones (square root of the
# machine's precision). In 322,241 frames of LibriSpeech the smallest imaginary part of a complex pole is 9e-5.
SNAP = 1e-6
BLOCK = 2048  # frames treated at once: 5 MB of a 16 kHz file
PASSED = {1: "near_silent", 2: "unstable"}


@dataclass(frozen=True)
class Framing:
    """How a signal is cut and what is done at its edges.

    Attributes:
        window: samples in a frame.
        hop: samples between frames.
        order: of the all-pole filter.
        eps: added to every sample, and once more to the windowed frame before the filter is estimated.
        edges: True covers every sample and divides by the windows' overlap; False takes whole frames
            only, leaves the rest zero, and trusts that the windows add to one.
        first: index of the first frame (with ``edges=False``).
        clip: new angles are clipped to [0, pi].
    """

    window: int
    hop: int
    order: int = 20
    eps: float = 0.0
    edges: bool = True
    first: int = 0
    clip: bool = True

    @property
    def lead(self) -> int:
        """Zeros before the signal, so that its first sample lies under as many windows as any other."""
        return self.window - self.hop if self.edges else 0

    def frames(self, length: int) -> range:
        """Indices of the frames of ``length`` samples; frame m begins at sample ``m * hop - lead``."""
        if self.edges:
            return range(-(-(length + self.lead) // self.hop))
        return range(self.first, 1 + (length - self.window) // self.hop)

    def taper(self) -> np.ndarray:
        """Square root of a Hann window [window], applied before and after; the squares of all windows add to about 1."""
        hann = np.hanning(self.window)
        taper: np.ndarray = np.sqrt(hann / (hann.sum() / self.hop))
        return taper

    def weight(self) -> np.ndarray:
        """What the squared windows add to [hop]: with ``edges`` every sample lies under all the windows that can reach it."""
        taper = self.taper()
        return np.array([np.sum(taper[place :: self.hop] ** 2) for place in range(self.hop)])


def transform(wave: np.ndarray, alpha: float, framing: Framing) -> tuple[np.ndarray, dict[str, int]]:
    """McAdams' transform by overlap-add, without any change of scale.

    Args:
        wave: [n], full scale 1; at least one window long.
        alpha: McAdams' coefficient.
        framing: how it is cut.

    Returns:
        float64 [n] and the counts ``frames`` (treated in all), ``near_silent`` and ``unstable`` (passed through).
    """
    window, hop, lead = framing.window, framing.hop, framing.lead
    taper = framing.taper()
    length = len(wave)
    frames = framing.frames(length)
    summed = np.zeros(length)
    counts = {"frames": len(frames), "near_silent": 0, "unstable": 0}
    for start in frames[::BLOCK]:
        stop = min(start + BLOCK, frames.stop)
        begin, end = start * hop - lead, (stop - 1) * hop + window - lead
        inside = slice(max(begin, 0), min(end, length))
        signal = np.zeros(end - begin)
        signal[inside.start - begin : inside.stop - begin] = wave[inside]
        signal[inside.start - begin : inside.stop - begin] += framing.eps
        cut = np.lib.stride_tricks.sliding_window_view(signal, window)[::hop] * taper
        new, status = frames_through(cut, alpha, framing)
        for code, name in PASSED.items():
            counts[name] += int(np.count_nonzero(status == code))
        _overlap_add(new, taper, summed, begin, hop)
    if framing.edges:
        _divide(summed, framing.weight(), lead)
    return summed, counts


def frames_through(cut: np.ndarray, alpha: float, framing: Framing) -> tuple[np.ndarray, np.ndarray]:
    """Windowed frames [k, window] through the transform, each alone from a zero state.

    Returns:
        The new frames [k, window] and a status [k] (0, or a key of PASSED): where it is not 0 the frame is as it was.
    """
    # the squared windows sum to one hop
    floor = SILENCE**2 * framing.hop
    power = np.einsum("kn,kn->k", cut, cut)
    status = np.where(np.isfinite(power), np.where(power < floor, 1, 0), 2)
    new = cut.copy()
    live = np.flatnonzero(status == 0)
    if not len(live):
        return new, status
    frames = cut[live]
    old = burg(frames + framing.eps, framing.order)
    moved, stable = move(poles(old), alpha, framing.clip)
    stable &= np.isfinite(old).all(axis=1)
    status[live[~stable]] = 2
    new[live[stable]] = refilter(frames[stable], old[stable], moved[stable])
    return new, status


@compiled
def burg(frames: np.ndarray, order: int) -> np.ndarray:
    """Prediction error filters [k, order + 1] of frames [k, n] by Burg's method (Marple 1980, section III).

    The denominator is summed anew at each order, which keeps every reflection coefficient within [-1, 1].
    """
    count, length = frames.shape
    filters = np.zeros((count, order + 1))
    forward = np.empty(length - 1)
    backward = np.empty(length - 1)
    previous = np.empty(order + 1)
    for k in range(count):
        forward[:] = frames[k, 1:]
        backward[:] = frames[k, :-1]
        a = filters[k]
        a[0] = 1.0
        for i in range(order):
            ahead, behind = forward[i:], backward[: length - 1 - i]
            cross, energy = 0.0, 0.0
            for t in range(len(ahead)):
                cross += ahead[t] * behind[t]
                energy += ahead[t] * ahead[t] + behind[t] * behind[t]
            if energy <= 0.0:
                break
            reflection = -2.0 * cross / energy
            previous[: i + 2] = a[: i + 2]
            for j in range(1, i + 2):
                a[j] = previous[j] + reflection * previous[i + 1 - j]
            for t in range(len(ahead)):
                was = ahead[t]
                ahead[t] = was + reflection * behind[t]
                behind[t] += reflection * was
    return filters


def poles(filters: np.ndarray) -> np.ndarray:
    """Roots complex128 [k, p] of monic polynomials [k, p + 1]: real ones have no imaginary part, others come in pairs.

    Simultaneous iteration (Ehrlich 1967, Aberth 1973); where it does not end in conjugate pairs (multiple real
    roots), the eigenvalues of the companion matrix. Imaginary parts below SNAP are rounding and are dropped.
    """
    roots, good = _aberth(filters)
    for k in np.flatnonzero(~good):
        if np.isfinite(filters[k]).all():
            companion = np.eye(filters.shape[1] - 1, k=-1)
            companion[0] = -filters[k][1:]
            exact = np.linalg.eigvals(companion).astype(complex)
            roots[k] = np.where(np.abs(exact.imag) < SNAP, exact.real, exact)
        else:
            roots[k] = np.nan
    return roots


@compiled
def _aberth(filters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Roots [k, p] in conjugate pairs, and whether they could be had [k]."""
    count, size = filters.shape[0], filters.shape[1] - 1
    roots = np.zeros((count, size), np.complex128)
    good = np.zeros(count, np.bool_)
    x, y = np.empty(size), np.empty(size)
    px, py, dx, dy, bound = np.empty(size), np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    modulus = np.empty(size)
    for k in range(count):
        a = filters[k]
        degree = size
        while degree > 0 and a[degree] == 0.0:
            degree -= 1
        if degree == 0:
            good[k] = True
            continue
        radius = abs(a[degree]) ** (1.0 / degree)
        for i in range(degree):
            angle = 2.0 * np.pi * i / degree + 0.4
            x[i], y[i] = radius * np.cos(angle), radius * np.sin(angle)
        ended = False
        for _ in range(60):
            for i in range(degree):
                px[i], py[i], dx[i], dy[i], bound[i] = 1.0, 0.0, 0.0, 0.0, 1.0
                modulus[i] = np.sqrt(x[i] * x[i] + y[i] * y[i])
            for j in range(1, degree + 1):
                coefficient = a[j]
                size_of = abs(coefficient)
                for i in range(degree):
                    new = dx[i] * x[i] - dy[i] * y[i] + px[i]
                    dy[i] = dx[i] * y[i] + dy[i] * x[i] + py[i]
                    dx[i] = new
                    new = px[i] * x[i] - py[i] * y[i] + coefficient
                    py[i] = px[i] * y[i] + py[i] * x[i]
                    px[i] = new
                    bound[i] = bound[i] * modulus[i] + size_of
            ended = True
            for i in range(degree):
                # 1 / step = p'/p - sum of 1 / (z_i - z_j); all roots move together
                size_p = px[i] * px[i] + py[i] * py[i]
                if size_p <= (4e-16 * bound[i]) ** 2:
                    px[i], py[i] = 0.0, 0.0
                    continue
                ux, uy = (dx[i] * px[i] + dy[i] * py[i]) / size_p, (dy[i] * px[i] - dx[i] * py[i]) / size_p
                sx, sy = 0.0, 0.0
                xi, yi = x[i], y[i]
                for j in range(degree):
                    rx, ry = xi - x[j], yi - y[j]
                    square = rx * rx + ry * ry
                    inverse = 1.0 / (square + 1e-300)
                    sx += rx * inverse
                    sy -= ry * inverse
                ux, uy = ux - sx, uy - sy
                square = ux * ux + uy * uy
                px[i], py[i] = ux / square, -uy / square
                # The iteration is cubic: after a step of 1e-7 the error is far below rounding.
                if not square > 1e14:
                    ended = False
            for i in range(degree):
                x[i] -= px[i]
                y[i] -= py[i]
            if ended:
                break
        if not ended:
            continue
        # Keep the upper half plane, and see that the lower one mirrors it.
        above, below = 0, 0
        balance = 0.0
        for i in range(degree):
            if abs(y[i]) < SNAP:
                roots[k, size - 1 - (i - above - below)] = x[i]
            elif y[i] > 0:
                roots[k, 2 * above] = complex(x[i], y[i])
                roots[k, 2 * above + 1] = complex(x[i], -y[i])
                above += 1
                balance += x[i] * y[i] + y[i]
            else:
                below += 1
                balance += x[i] * y[i] + y[i]
            if 2 * above > degree:
                break
        good[k] = above == below and abs(balance) < 1e-7
    return roots, good


@compiled
def move(roots: np.ndarray, alpha: float, clip: bool) -> tuple[np.ndarray, np.ndarray]:
    """Filters [k, p + 1] whose complex poles have the angles phi ** alpha, and whether they are stable [k].

    Args:
        roots: [k, p], in conjugate pairs; real ones stay.
        alpha: McAdams' coefficient.
        clip: new angles are clipped to [0, pi].
    """
    count, size = roots.shape
    filters = np.zeros((count, size + 1))
    stable = np.ones(count, np.bool_)
    for k in range(count):
        a = filters[k]
        a[0] = 1.0
        degree = 0
        for i in range(size):
            root = roots[k, i]
            radius = np.sqrt(root.real * root.real + root.imag * root.imag)
            if not radius < 1.0:
                stable[k] = False
            if root.imag == 0.0:
                for j in range(degree + 1, 0, -1):
                    a[j] -= root.real * a[j - 1]
                degree += 1
            elif root.imag > 0.0:
                angle = np.arctan2(root.imag, root.real) ** alpha
                if clip and angle > np.pi:
                    angle = np.pi
                first, second = -2.0 * radius * np.cos(angle), radius * radius
                for j in range(degree + 2, 1, -1):
                    a[j] += first * a[j - 1] + second * a[j - 2]
                a[1] += first
                degree += 2
    return filters, stable


@compiled
def refilter(frames: np.ndarray, old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Frames [k, n] through old(z) / new(z), filters [k, p + 1], from a zero state."""
    count, length = frames.shape
    order = old.shape[1] - 1
    filtered = np.empty((count, length))
    residual = np.empty(length)
    state = np.empty(order + 1)
    for k in range(count):
        frame, a, b = frames[k], old[k], new[k]
        residual[:] = frame
        for j in range(1, order + 1):
            weight = a[j]
            for t in range(length - j):
                residual[t + j] += weight * frame[t]
        state[:] = 0.0
        for t in range(length):
            out = residual[t] + state[0]
            for j in range(order):
                state[j] = state[j + 1] - b[j + 1] * out
            filtered[k, t] = out
    return filtered


@compiled
def _overlap_add(frames: np.ndarray, taper: np.ndarray, target: np.ndarray, start: int, hop: int) -> None:
    """Adds windowed frames to the target; what falls before or after it is dropped."""
    for k in range(frames.shape[0]):
        place = start + k * hop
        low, high = max(0, -place), min(frames.shape[1], len(target) - place)
        for t in range(low, high):
            target[place + t] += frames[k, t] * taper[t]


@compiled
def _divide(target: np.ndarray, weight: np.ndarray, phase: int) -> None:
    for t in range(len(target)):
        target[t] /= weight[(t + phase) % len(weight)]
