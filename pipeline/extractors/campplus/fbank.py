"""Kaldi's log-mel frames as CAM++ takes them: 25 ms every 10 ms, less their mean over the utterance.

Kaldi's ``compute-fbank-feats`` with its defaults and no dither: each frame less its mean, pre-emphasis 0.97, Povey's window, power
spectrum of 512 points, triangular filters from 20 Hz to 8 kHz on the scale 1127 ln(1 + f / 700), natural logarithm. Frames
that the audio does not fill are left out (``snip_edges``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

from pipeline.nets.packed import Layout, on_device

VERSION = "campplus fbank 1"
RATE = 16_000
WINDOW, HOP, N_FFT = 400, 160, 512
LOWEST_HZ = 20.0
PRE_EMPHASIS = 0.97
FLOOR = float(np.finfo(np.float32).eps)
"""Below this a filter's energy counts as this (Kaldi's floor), at a waveform of full scale 1."""


def frames_of(samples: int) -> int:
    """Frames of so many samples, none of fewer than :data:`WINDOW`."""
    return max(0, 1 + (samples - WINDOW) // HOP)


def mel(hertz: np.ndarray) -> np.ndarray:
    """Kaldi's mel scale."""
    return np.asarray(1127.0 * np.log1p(np.asarray(hertz) / 700.0))


def filters(n_mels: int) -> np.ndarray:
    """Triangles that are straight on the mel scale, float32 [N_FFT // 2 + 1, n_mels]; the Nyquist frequency is in none."""
    edges = np.linspace(mel(np.array(LOWEST_HZ)), mel(np.array(RATE / 2)), n_mels + 2)
    bins = mel(np.arange(N_FFT // 2 + 1) * RATE / N_FFT)[:, None]
    low, centre, high = edges[:-2], edges[1:-1], edges[2:]
    weights = np.clip(np.minimum((bins - low) / (centre - low), (high - bins) / (high - centre)), 0, None)
    weights[-1] = 0
    return np.asarray(weights, dtype=np.float32)


def povey_window() -> np.ndarray:
    """Povey's window, a Hann window to the power 0.85, float32 [WINDOW]."""
    turned = 2 * math.pi * np.arange(WINDOW) / (WINDOW - 1)
    return np.asarray((0.5 - 0.5 * np.cos(turned)) ** 0.85, dtype=np.float32)


class FrontEnd(torch.nn.Module):
    """Waveforms to log-mel frames. It has no weights, and adds nothing to a state dict."""

    filters: torch.Tensor
    window: torch.Tensor

    def __init__(self, n_mels: int) -> None:
        super().__init__()
        self.register_buffer("filters", torch.from_numpy(filters(n_mels)), persistent=False)
        self.register_buffer("window", torch.from_numpy(povey_window()), persistent=False)

    def log_mels(self, pieces: torch.Tensor) -> torch.Tensor:
        """Frames of audio [..., WINDOW] to logarithms of mel energies [..., n_mels]."""
        pieces = pieces - pieces.mean(-1, keepdim=True)
        before = torch.cat([pieces[..., :1], pieces[..., :-1]], -1)
        pieces = torch.sub(pieces, before, alpha=PRE_EMPHASIS).mul_(self.window)
        spectra = torch.view_as_real(torch.fft.rfft(pieces, n=N_FFT)).square_().sum(-1)
        return (spectra @ self.filters).clamp_(min=FLOOR).log_()

    def forward(self, waves: torch.Tensor) -> torch.Tensor:
        """Waveforms of equal length [b, n] to frames [b, t, n_mels] less their mean."""
        frames = self.log_mels(waves.unfold(-1, WINDOW, HOP))
        return frames - frames.mean(1, keepdim=True)

    def pack_frames(self, waves: Sequence[np.ndarray]) -> tuple[torch.Tensor, list[int]]:
        """Waveforms float32 [n] of any lengths to their frames less the mean of each file, [t, n_mels], file by file, and
        how many each has."""
        device = self.window.device
        # A file begins at a multiple of the hop, so that its frames are among those of all files joined.
        slots = [-(-len(wave) // HOP) for wave in waves]
        first = np.cumsum([0, *slots])
        joined = np.zeros(first[-1] * HOP + WINDOW, dtype=np.float32)
        for wave, slot in zip(waves, first):
            joined[slot * HOP :][: len(wave)] = wave
        layout = Layout([frames_of(len(wave)) for wave in waves], device)
        shift = on_device(torch.from_numpy(first[:-1]), device) - layout.first
        pieces = on_device(torch.from_numpy(joined), device).unfold(0, WINDOW, HOP)
        frames = self.log_mels(pieces.index_select(0, layout.rows + layout.spread(shift)))
        return frames.sub_(layout.spread(layout.means(frames))), layout.frames
