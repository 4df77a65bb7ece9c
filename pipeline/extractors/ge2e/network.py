"""GE2E d-vectors: the LSTM speaker encoder of Wan et al. 2018 (arXiv 1710.10467), with the weights of Resemblyzer 0.1.4.

Power mel frames (no logarithm) of 25 ms every 10 ms; windows of 1.6 s, 1.3 a second, go through three LSTM layers, a
linear layer, ReLU and length normalisation; the mean over the windows, length-normalised, is the embedding.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from pipeline.errors import DataError
from pipeline.weights.find import check_readable

SAMPLE_RATE = 16_000
N_FFT, HOP, N_MELS = 400, 160, 40
WINDOW = 160
"""Frames of a window: 1.6 s."""
STEP = 77
"""Frames between the starts of windows: 1.3 windows a second, rounded to frames."""
COVERAGE = 0.75
"""The last window counts if at least this part of it lies within the audio (the rest is zeros)."""
DIMENSION = 256

# Windows that go through the model together: bounds the memory of a long file, and is a constant so that it moves no number.
_TOGETHER = 128


def mel_filters(rate: int = SAMPLE_RATE, n_fft: int = N_FFT, n_mels: int = N_MELS) -> np.ndarray:
    """Triangular filters on Slaney's mel scale, each of unit area (Auditory Toolbox, Slaney 1998).

    The scale is linear below 1 kHz (3 mel per 200 Hz) and logarithmic above (27 mel per factor 6.4).

    Returns:
        float32 [n_mels, 1 + n_fft // 2], from 0 Hz to the Nyquist frequency.
    """
    per_hertz, corner, per_log = 3 / 200, 1000.0, 27 / np.log(6.4)
    top = rate / 2
    highest = per_hertz * top if top < corner else per_hertz * corner + per_log * np.log(top / corner)
    mels = np.linspace(0, highest, n_mels + 2)
    above = corner * np.exp((mels - per_hertz * corner) / per_log)
    edges = np.where(mels < per_hertz * corner, mels / per_hertz, above)
    bins = np.linspace(0, top, 1 + n_fft // 2)
    low, centre, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    rising, falling = (bins - low) / (centre - low), (high - bins) / (high - centre)
    return np.asarray(2 / (high - low) * np.clip(np.minimum(rising, falling), 0, None), dtype=np.float32)


def window_starts(n_samples: int) -> list[int]:
    """First frames of the windows of a waveform: every :data:`STEP` frames, the last as :data:`COVERAGE` says, at least one."""
    starts = [0]
    while n_samples - (starts[-1] + STEP) * HOP >= COVERAGE * WINDOW * HOP:
        starts.append(starts[-1] + STEP)
    return starts


class Encoder(torch.nn.Module):
    """Mel windows [w, 160, 40] to unit vectors [w, 256]."""

    window: torch.Tensor
    filters: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.lstm = torch.nn.LSTM(N_MELS, DIMENSION, num_layers=3, batch_first=True)
        self.linear = torch.nn.Linear(DIMENSION, DIMENSION)
        self.register_buffer("window", torch.hann_window(N_FFT), persistent=False)
        self.register_buffer("filters", torch.from_numpy(mel_filters()), persistent=False)

    def forward(self, mels: torch.Tensor) -> torch.Tensor:
        _, (hidden, _) = self.lstm(mels)
        return torch.nn.functional.normalize(torch.relu(self.linear(hidden[-1])), dim=1)

    def mel(self, wave: torch.Tensor) -> torch.Tensor:
        """Power mel frames of a waveform [n] that brings its own margins of half a frame: [1 + (n - 400) // 160, 40]."""
        spectrum = torch.stft(wave, N_FFT, HOP, window=self.window, center=False, return_complex=True)
        return (self.filters @ (spectrum.real.square() + spectrum.imag.square())).T

    def embed(self, wave: torch.Tensor) -> torch.Tensor:
        """The embedding [256] of a waveform [n] at 16 kHz, n >= 1, whose level has been set; zeros if all windows give zeros.

        Audio shorter than a window is followed by zeros up to its end.
        """
        starts = window_starts(len(wave))
        # Frame k is centred on sample 160 k, as in librosa; the waveform is zero beyond its ends.
        end = (starts[-1] + WINDOW) * HOP + N_FFT
        padded = torch.nn.functional.pad(wave[:end], (N_FFT // 2, max(0, end - len(wave))))
        total = torch.zeros(DIMENSION, dtype=torch.float64, device=wave.device)
        for first in range(0, len(starts), _TOGETHER):
            some = starts[first : first + _TOGETHER]
            mels = self.mel(padded[some[0] * HOP : (some[-1] + WINDOW - 1) * HOP + N_FFT])
            total += self(mels.unfold(0, WINDOW, STEP).transpose(1, 2)).double().sum(0)
        return torch.nn.functional.normalize(total, dim=0).float()


def load(path: Path) -> Encoder:
    """The encoder with the weights of a Resemblyzer checkpoint (``torch.load`` of plain tensors only).

    Raises:
        ModelMissing: the file cannot be opened.
        DataError: it is no such checkpoint.
    """
    check_readable(path)
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)["model_state"]
        encoder = Encoder()
        # The checkpoint also holds the scale and offset of the training loss.
        encoder.load_state_dict({key: value for key, value in state.items() if not key.startswith("similarity_")})
    except Exception as error:
        raise DataError("a file holds no GE2E weights", where=str(path), cause=str(error).splitlines()[0]) from error
    return encoder.eval()
