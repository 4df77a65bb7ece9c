"""A VQ-VAE whose codes are phone-like units: log-mels in, 50 codes a second, mels out again (van den Oord et al. 2017).

Built as in van Niekerk, Nortje and Kamper 2020 (arXiv 2005.09409), from the description: five convolutions and a projection, a
codebook that follows the encoder by exponential moving averages, and a decoder that is told the speaker, so that the codes
need not say who speaks. Smaller than theirs, and the decoder gives mels, not samples.

Code c of a file stands for samples [320 c, 320 c + 320), 20 ms; a remainder has none. Mel frame t is centred on samples
[160 t, 160 t + 160); beyond a file's ends there is silence for the frames, and zeros for every convolution. A code depends on the
16 frames around it (:data:`CONTEXT`), so a file may be encoded in blocks, exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from pipeline.errors import DataError
from pipeline.nets.activity import FRAME

SAMPLE_RATE = 16_000
HOP, WINDOW, FFT = 160, 400, 400
CODE = FRAME
"""Samples a code stands for: two hops, and a frame of the voice activity."""

FLOOR = 1e-7
"""Added to mel power, where active speech has power 1: noise 70 dB below the speech. 16-bit rounding lies at -75 dB beside speech
of -26 dBFS, and digital silence, rounding noise and the gaps that lossy codecs leave shall look alike."""

KERNELS, STRIDES = (3, 3, 4, 3, 3), (1, 1, 2, 1, 1)
CONTEXT = 4
"""Codes on either side that suffice to know a code: the convolutions reach 8 frames at most."""

BLOCK = 500
"""Codes encoded at a time: 10 s keep the layers of one file within the cache of a core."""


def filters(n_mels: int) -> np.ndarray:
    """Mel filters float32 [FFT // 2 + 1, n_mels]: triangles on Slaney's scale from 0 to 8 kHz, each of sum 1.

    Slaney's scale is linear up to 1 kHz (a mel is 66.7 Hz) and logarithmic above (27 mels are a factor of 6.4), so that
    the lowest of 80 filters are still wider than a bin.
    """
    break_mel, step = 15.0, np.log(6.4) / 27.0
    highest = break_mel + np.log(SAMPLE_RATE / 2 / 1000.0) / step
    mels = np.linspace(0.0, highest, n_mels + 2)
    corners = np.where(mels < break_mel, mels * 200.0 / 3.0, 1000.0 * np.exp(step * (mels - break_mel)))
    bins = np.linspace(0.0, SAMPLE_RATE / 2, FFT // 2 + 1)[:, None]
    rise = (bins - corners[:-2]) / (corners[1:-1] - corners[:-2])
    fall = (corners[2:] - bins) / (corners[2:] - corners[1:-1])
    triangles = np.maximum(0.0, np.minimum(rise, fall))
    return np.asarray(triangles / triangles.sum(axis=0), dtype=np.float32)


class Mels(nn.Module):
    """Log-mels of waveforms whose active speech has mean power 1; white noise of that power is at 0."""

    window: torch.Tensor
    filters: torch.Tensor

    def __init__(self, n_mels: int) -> None:
        super().__init__()
        window = torch.hann_window(WINDOW, periodic=True)
        self.register_buffer("window", window / window.square().sum().sqrt(), persistent=False)
        self.register_buffer("filters", torch.from_numpy(filters(n_mels)), persistent=False)

    def forward(self, waves: torch.Tensor) -> torch.Tensor:
        """Waveforms [b, 320 m + 240], with 120 samples around the codes meant, to [b, n_mels, 2 m]."""
        spectrum = torch.fft.rfft(waves.unfold(-1, WINDOW, HOP) * self.window, n=FFT)
        power = spectrum.real.square().addcmul_(spectrum.imag, spectrum.imag)
        mels: torch.Tensor = (power @ self.filters).add_(FLOOR).log_()
        return mels.transpose(1, 2)


def surroundings(wave: np.ndarray, low: int, high: int) -> np.ndarray:
    """The samples float32 [320 (high - low) + 240] of which the mels of codes [low, high) are made; beyond the ends, zeros."""
    margin = (WINDOW - HOP) // 2
    start, stop = low * CODE - margin, high * CODE + margin
    inside = wave[max(start, 0) : stop]
    return np.pad(inside, (max(-start, 0), max(stop - len(wave), 0)))


class Quantiser(nn.Module):
    """The codebook: each code is the exponential moving average of the vectors that chose it.

    The averages start at nothing, so that a code is at once where its vectors are. A code that nobody chose for ``restart`` steps
    becomes one of the vectors of the batch; that is also how all of them begin.

    Attributes:
        codes: [k, d].
        counts, sums: moving averages of how many vectors chose a code [k], and of their sum [k, d].
        idle: steps since a code was chosen, int64 [k].
    """

    codes: torch.Tensor
    counts: torch.Tensor
    sums: torch.Tensor
    idle: torch.Tensor

    def __init__(self, n_codes: int, dimension: int, decay: float, restart: int) -> None:
        super().__init__()
        self.decay, self.restart = decay, restart
        self.register_buffer("codes", torch.zeros(n_codes, dimension))
        self.register_buffer("counts", torch.zeros(n_codes), persistent=False)
        self.register_buffer("sums", torch.zeros(n_codes, dimension), persistent=False)
        self.register_buffer("idle", torch.full((n_codes,), restart), persistent=False)

    def forward(self, vectors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Vectors [n, d] to the codes nearest to them [n], these quantised [n, d], and their mean squared distance.

        The gradient passes the quantised vectors straight through to ``vectors``; the distance pulls these to their codes.
        """
        chosen = nearest(vectors.detach(), self.codes)
        quantised = self.codes[chosen]
        distance = functional.mse_loss(vectors, quantised)
        return chosen, vectors + (quantised - vectors).detach(), distance

    @torch.no_grad()
    def update(self, vectors: torch.Tensor, chosen: torch.Tensor) -> None:
        """Move the codes to the vectors [n, d] that chose them [n]."""
        chose = functional.one_hot(chosen, len(self.codes)).to(vectors.dtype)
        n = chose.sum(0)
        self.counts.mul_(self.decay).add_(n, alpha=1 - self.decay)
        self.sums.mul_(self.decay).add_(chose.T @ vectors, alpha=1 - self.decay)
        self.idle.add_(1).masked_fill_(n > 0, 0)
        used = self.counts > 1e-6
        self.codes[used] = self.sums[used] / self.counts[used, None]

    @torch.no_grad()
    def revive(self, vectors: torch.Tensor, random: np.random.Generator) -> int:
        """Give each code that is idle one of the vectors [n, d], drawn at random; how many there were."""
        dead = torch.nonzero(self.idle >= self.restart)[:, 0]
        if len(dead):
            drawn = random.choice(len(vectors), len(dead), replace=len(dead) > len(vectors))
            self.codes[dead] = vectors[torch.from_numpy(drawn).to(vectors.device)]
            self.counts[dead], self.sums[dead], self.idle[dead] = 0.0, 0.0, 0
        return len(dead)


def nearest(vectors: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
    """The code [k, d] nearest to each vector [n, d] by Euclidean distance, int64 [n]; the first of equals."""
    return torch.addmm(codes.square().sum(1) / -2, vectors, codes.T).argmax(1)


class Network(nn.Module):
    """The whole for training.

    Args:
        channels: of the encoder and the decoder.
        dimension: of a code.
        speakers, speaker_dimension: how many the decoder knows, and the size of what it is told of one.
        decay, restart: of the codebook, see :class:`Quantiser`.
    """

    mean: torch.Tensor
    scale: torch.Tensor

    def __init__(
        self,
        n_mels: int,
        channels: int,
        n_codes: int,
        dimension: int,
        speakers: int,
        speaker_dimension: int,
        decay: float = 0.999,
        restart: int = 20,
    ) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(n_mels))
        self.register_buffer("scale", torch.ones(n_mels))
        widths = [n_mels, *[channels] * len(KERNELS)]
        layers: list[nn.Module] = []
        for before, after, kernel, stride in zip(widths, widths[1:], KERNELS, STRIDES):
            layers += [
                nn.Conv1d(before, after, kernel, stride, padding=1, bias=False),
                nn.BatchNorm1d(after),
                nn.ReLU(),
            ]
        self.encoder = nn.Sequential(*layers, nn.Conv1d(channels, dimension, 1))
        self.quantiser = Quantiser(n_codes, dimension, decay, restart)
        self.speakers = nn.Embedding(speakers, speaker_dimension)
        self.decoder = nn.Sequential(
            nn.Conv1d(dimension + speaker_dimension, channels, 3, padding=1, bias=False),
            nn.BatchNorm1d(channels),
            nn.ReLU(),
            nn.ConvTranspose1d(channels, channels, 4, stride=2, padding=1, bias=False),
            nn.BatchNorm1d(channels),
            nn.ReLU(),
            nn.Conv1d(channels, n_mels, 3, padding=1),
        )

    def normalised(self, mels: torch.Tensor) -> torch.Tensor:
        """Log-mels [b, n_mels, t] with mean 0 and standard deviation 1 a band over the training data."""
        return (mels - self.mean[:, None]) * self.scale[:, None]

    def encoded(self, mels: torch.Tensor) -> torch.Tensor:
        """Normalised log-mels [b, n_mels, 2 m] to the vectors before the codebook, [b m, d]."""
        vectors: torch.Tensor = self.encoder(mels)
        return vectors.transpose(1, 2).flatten(0, 1)

    def decoded(self, quantised: torch.Tensor, speakers: torch.Tensor) -> torch.Tensor:
        """Quantised vectors [b m, d] of speakers int64 [b] to normalised log-mels [b, n_mels, 2 m]."""
        codes = quantised.view(len(speakers), -1, quantised.shape[1]).transpose(1, 2)
        told = self.speakers(speakers)[:, :, None].expand(-1, -1, codes.shape[2])
        mels: torch.Tensor = self.decoder(torch.cat([codes, told], dim=1))
        return mels


@dataclass(frozen=True)
class Block:
    """Codes [first, last) of a file, encoded from the mels of codes [low, high)."""

    file: int
    first: int
    last: int
    low: int
    high: int


def blocks(file: int, n_codes: int, size: int) -> Iterator[Block]:
    """The blocks of a file, each with its context on either side."""
    for first in range(0, n_codes, size):
        last = min(first + size, n_codes)
        yield Block(file, first, last, max(first - CONTEXT, 0), min(last + CONTEXT, n_codes))


class Encoder:
    """Waveforms to codes: the encoder of a trained network, each batch norm folded into the convolution before it.

    Raises:
        DataError: tensors that are missing or whose shapes do not fit.
    """

    def __init__(self, state: Mapping[str, torch.Tensor], device: str) -> None:
        model = _network(state)
        self.device = device
        self.layers: list[tuple[torch.Tensor, torch.Tensor, int]] = []
        for place, stride in enumerate(STRIDES):
            weight, bias = folded(model.encoder[3 * place], model.encoder[3 * place + 1])
            self.layers.append((weight.to(device), bias.to(device), stride))
        last = model.encoder[-1]
        assert isinstance(last, nn.Conv1d)
        assert last.bias is not None
        self.projection, self.offset = last.weight[:, :, 0].detach().to(device), last.bias.detach().to(device)
        self.codebook = model.quantiser.codes.to(device)
        self.mels = Mels(len(model.mean)).to(device)
        self.mean, self.scale = model.mean[:, None].to(device), model.scale[:, None].to(device)
        self.n_codes = len(self.codebook)

    def codes(
        self, waves: Sequence[np.ndarray], gains: Sequence[float], batch_seconds: float = 0.0, size: int = BLOCK
    ) -> list[np.ndarray]:
        """The codes of files, int64 [n // 320] each.

        Args:
            waves: float32 [n] at 16 kHz.
            gains: what each is multiplied by, so that its active speech has mean power 1.
            batch_seconds: how much audio, with its padding, goes through the network at a time; one block at least.
            size: codes in a block.
        """
        codes_of_files = [np.zeros(len(wave) // CODE, dtype=np.int64) for wave in waves]
        waiting = [block for file, codes in enumerate(codes_of_files) for block in blocks(file, len(codes), size)]
        waiting.sort(key=lambda block: block.low - block.high)
        start = 0
        while start < len(waiting):
            longest = waiting[start].high - waiting[start].low
            stop = start + max(1, int(batch_seconds * SAMPLE_RATE / CODE / longest))
            batch = waiting[start:stop]
            for block, codes in zip(batch, self._batch(batch, longest, waves, gains)):
                codes_of_files[block.file][block.first : block.last] = codes[
                    block.first - block.low : block.last - block.low
                ]
            start = stop
        return codes_of_files

    def _batch(
        self, batch: Sequence[Block], longest: int, waves: Sequence[np.ndarray], gains: Sequence[float]
    ) -> np.ndarray:
        """Codes int64 [b, longest] of blocks; those beyond a block's own are of no meaning."""
        rows = np.zeros((len(batch), longest * CODE + WINDOW - HOP), dtype=np.float32)
        for row, block in zip(rows, batch):
            samples = surroundings(waves[block.file], block.low, block.high)
            np.multiply(samples, np.float32(gains[block.file]), out=row[: len(samples)])
        frames = None
        if any(block.high - block.low < longest for block in batch):
            frames = torch.tensor([2 * (block.high - block.low) for block in batch], device=self.device)
        with torch.inference_mode():
            hidden = (self.mels(torch.from_numpy(rows).to(self.device)) - self.mean) * self.scale
            hidden = _ended(hidden, frames)
            for weight, bias, stride in self.layers:
                frames = frames if frames is None else frames // stride
                hidden = functional.conv1d(hidden, weight, bias, stride, padding=1).relu_()
                hidden = _ended(hidden, frames)
            vectors = torch.addmm(self.offset, hidden.transpose(1, 2).flatten(0, 1), self.projection.T)
            codes: np.ndarray = nearest(vectors, self.codebook).cpu().numpy()
        return codes.reshape(len(batch), longest)


def _ended(hidden: torch.Tensor, lengths: torch.Tensor | None) -> torch.Tensor:
    """[b, c, t] with zeros behind the length of each row [b], as a convolution sees them behind the end of a file."""
    if lengths is None:
        return hidden
    return hidden * (torch.arange(hidden.shape[2], device=hidden.device) < lengths[:, None])[:, None]


def folded(layer: nn.Module, norm: nn.Module) -> tuple[torch.Tensor, torch.Tensor]:
    """Weight and bias of the convolution that does what a convolution without bias and a batch norm behind it do."""
    assert isinstance(layer, nn.Conv1d)
    assert isinstance(norm, nn.BatchNorm1d)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    factor = norm.weight / torch.sqrt(norm.running_var + norm.eps)
    weight = layer.weight * factor[:, None, None]
    return weight.detach(), (norm.bias - norm.running_mean * factor).detach()


def _network(state: Mapping[str, torch.Tensor]) -> Network:
    """The network of a state dict, in evaluation mode; its sizes are those of the tensors."""
    try:
        channels, n_mels, _ = state["encoder.0.weight"].shape
        n_codes, dimension = state["quantiser.codes"].shape
        speakers, speaker_dimension = state["speakers.weight"].shape
        # Made without numbers: an extractor draws none from the random state of its caller.
        with torch.device("meta"):
            model = Network(n_mels, channels, n_codes, dimension, speakers, speaker_dimension)
        model.load_state_dict(state, assign=True)
    except (KeyError, ValueError, RuntimeError) as error:
        raise DataError(
            "these weights are not those of a phone VQ-VAE", cause=" ".join(str(error).split())[:300]
        ) from error
    return model.eval()
