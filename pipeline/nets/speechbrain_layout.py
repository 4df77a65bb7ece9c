"""SpeechBrain's front end, and how far its convolutions reach."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from speechbrain.lobes.features import Fbank
from speechbrain.processing.features import InputNormalization

from pipeline.nets.packed import Layout, on_device

SAMPLE_RATE = 16_000
HOP = 160


class FrontEnd(torch.nn.Module):
    """SpeechBrain's log-mel frames (25 ms every 10 ms, floor 80 dB below a file's maximum) less their mean over the file."""

    def __init__(self, n_mels: int) -> None:
        super().__init__()
        self.frames = Fbank(n_mels=n_mels)
        self.less_mean = InputNormalization(norm_type="sentence", std_norm=False)

    def forward(self, waves: torch.Tensor) -> torch.Tensor:
        """Waveforms of equal length [b, n] to frames [b, 1 + n // 160, n_mels]."""
        frames: torch.Tensor = self.less_mean(self.frames(waves), torch.ones(len(waves), device=waves.device))
        return frames


class PackedFrontEnd(torch.nn.Module):
    """The same front end for files of any lengths at once, each as if it were alone."""

    filters: torch.Tensor
    window: torch.Tensor

    def __init__(self, n_mels: int) -> None:
        super().__init__()
        fbank = Fbank(n_mels=n_mels)
        filterbank = fbank.compute_fbanks
        self.n_fft, self.floor, self.range_db = fbank.compute_STFT.n_fft, filterbank.amin, filterbank.top_db
        filterbank.log_mel = False
        # Without a logarithm, SpeechBrain's filters make their own matrix [n_fft // 2 + 1, n_mels] of the unit matrix.
        self.register_buffer("filters", filterbank(torch.eye(self.n_fft // 2 + 1)[None])[0], persistent=False)
        self.register_buffer("window", fbank.compute_STFT.window, persistent=False)

    def forward(self, waves: Sequence[np.ndarray]) -> tuple[torch.Tensor, Layout]:
        """Waveforms float32 [n] each to frames float32 [T, n_mels], 1 + n // 160 of each file, and where they lie."""
        device = self.window.device
        layout = Layout([1 + len(wave) // HOP for wave in waves], device)
        # A file begins at a multiple of the hop, with half a window of zeros before it and behind it.
        slots = [-(-(len(wave) + self.n_fft) // HOP) for wave in waves]
        first = np.cumsum([0, *slots])
        padded = np.zeros(first[-1] * HOP, dtype=np.float32)
        for wave, slot in zip(waves, first):
            padded[slot * HOP + self.n_fft // 2 :][: len(wave)] = wave
        shift = on_device(torch.from_numpy(first[:-1]), device) - layout.first
        frames = on_device(torch.from_numpy(padded), device).unfold(0, self.n_fft, HOP)
        frames = frames.index_select(0, layout.rows + layout.spread(shift)).mul_(self.window)
        spectra = torch.view_as_real(torch.fft.rfft(frames)).square_().sum(-1)
        decibels = (spectra @ self.filters).clamp_(min=self.floor).log10_().mul_(10)
        least = layout.largest(decibels).amax(1, keepdim=True) - self.range_db
        decibels = torch.maximum(decibels, layout.spread(least))
        return decibels.sub_(layout.spread(layout.means(decibels))), layout


def reach(kernel_size: int, dilation: int) -> int:
    """Frames that a convolution reflects at each end."""
    return dilation * (kernel_size - 1) // 2
