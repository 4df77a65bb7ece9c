"""CAM++ (Wang et al. 2023, arXiv 2303.00332): a small residual network over time and frequency, then densely connected
time-delay layers, each gated by the mean of its input over the file and over its segment of 100 frames.

Tensors have the names that 3D-Speaker gives them, so that its checkpoints load as they are. What they say of sizes is read
from their shapes; what they cannot say (dilations, strides, the length of a segment) is the same in all of its recipes.

What it hears are Kaldi's log-mel frames: 25 ms every 10 ms, less their mean over the utterance, as ``compute-fbank-feats``
makes them with its defaults and no dither: each frame less its mean, pre-emphasis 0.97, Povey's window, power spectrum of 512
points, triangular filters from 20 Hz to 8 kHz on the scale 1127 ln(1 + f / 700), natural logarithm. Frames that the audio does
not fill are left out (``snip_edges``).
"""

from __future__ import annotations

import math
import re
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from pipeline.nets.packed import Layout, on_device
from pipeline.nets.states import State, fill_model, get_shape, make_mismatch

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


VERSION = "campplus network 1"
ARCHITECTURE = "a CAM++ of 3D-Speaker"
SEGMENT = 100
"""Frames of the second half of the network (20 ms each) that share a gate."""
DILATIONS = (1, 2, 2)
"""Of the convolutions in the three blocks."""
LEAST_SAMPLES = WINDOW + 2 * HOP
"""Three frames, of which the network makes two: the standard deviation of one is no number."""


@dataclass(frozen=True)
class Sizes:
    """What the shapes of a checkpoint's tensors say.

    Attributes:
        n_mels: log-mel bands, a multiple of 8.
        maps: channels of the residual network.
        first: channels of the first time-delay layer.
        growth: channels that a dense layer adds.
        inner: channels inside a dense layer.
        gate: channels inside a gate.
        layers: of each of the three blocks.
        embedding: dimensions of the embedding.
    """

    n_mels: int = 80
    maps: int = 32
    first: int = 128
    growth: int = 32
    inner: int = 128
    gate: int = 64
    layers: tuple[int, int, int] = (12, 24, 16)
    embedding: int = 192


def sizes_of(state: State) -> Sizes:
    """The sizes of a checkpoint.

    Raises:
        DataError: it is of another architecture, with the name of the tensor that shows it.
    """

    def size(key: str, dimensions: int, axis: int = 0) -> int:
        return get_shape(state, key, ARCHITECTURE, dimensions)[axis]

    maps, first = size("head.conv1.weight", 4), size("xvector.tdnn.linear.weight", 3)
    bands = size("xvector.tdnn.linear.weight", 3, 1) // maps
    layer = "xvector.block1.tdnnd1"
    counts = [
        len({match[1] for key in state if (match := re.match(rf"xvector\.block{block}\.tdnnd(\d+)\.", key))})
        for block in (1, 2, 3)
    ]
    for block, count in enumerate(counts, start=1):
        if count == 0:
            raise make_mismatch(ARCHITECTURE, f"it has no tensor 'xvector.block{block}.tdnnd1.linear1.weight'")
    return Sizes(
        n_mels=8 * bands,
        maps=maps,
        first=first,
        growth=size(f"{layer}.cam_layer.linear_local.weight", 3),
        inner=size(f"{layer}.linear1.weight", 3),
        gate=size(f"{layer}.cam_layer.linear1.weight", 3),
        layers=(counts[0], counts[1], counts[2]),
        embedding=size("xvector.dense.linear.weight", 3),
    )


def build(state: State) -> CAMPPlus:
    """The network of a checkpoint, in evaluation mode.

    Raises:
        DataError: the tensors are those of another architecture, with the first that shows it.
    """
    model = CAMPPlus(sizes_of(state))
    fill_model(model, state, ARCHITECTURE)
    return model


class BasicResBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut; a stride is one of frequency alone."""

    def __init__(self, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, stride=(stride, 1), padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.shortcut = nn.Sequential()
        if stride != 1:
            narrowed = nn.Conv2d(channels, channels, 1, stride=(stride, 1), bias=False)
            self.shortcut = nn.Sequential(narrowed, nn.BatchNorm2d(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Maps [b, channels, bands, t] to [b, channels, bands / stride, t]."""
        hidden = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)))))
        return functional.relu(hidden + self.shortcut(x))


class FCM(nn.Module):
    """The residual network: frames [b, n_mels, t] to [b, maps * n_mels / 8, t]."""

    def __init__(self, maps: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, maps, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(maps)
        self.layer1 = nn.Sequential(BasicResBlock(maps, 2), BasicResBlock(maps, 1))
        self.layer2 = nn.Sequential(BasicResBlock(maps, 2), BasicResBlock(maps, 1))
        self.conv2 = nn.Conv2d(maps, maps, 3, stride=(2, 1), padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(maps)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.bn1(self.conv1(x[:, None])))
        x = self.layer2(self.layer1(x))
        return functional.relu(self.bn2(self.conv2(x))).flatten(1, 2)


def norm_relu(channels: int) -> nn.Sequential:
    """Batch normalisation and ReLU."""
    return nn.Sequential(OrderedDict(batchnorm=nn.BatchNorm1d(channels), relu=nn.ReLU()))


class TDNNLayer(nn.Module):
    """The first time-delay layer: five frames, every other one; [b, c, t] to [b, d, (t + 1) // 2]."""

    def __init__(self, channels: int, out: int) -> None:
        super().__init__()
        self.linear = nn.Conv1d(channels, out, 5, stride=2, padding=2, bias=False)
        self.nonlinear = norm_relu(out)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.nonlinear(self.linear(x))
        return hidden


class CAMLayer(nn.Module):
    """A convolution whose channels are gated by what is heard in the file and in the segment."""

    def __init__(self, inner: int, out: int, gate: int, dilation: int) -> None:
        super().__init__()
        self.linear_local = nn.Conv1d(inner, out, 3, padding=dilation, dilation=dilation, bias=False)
        self.linear1 = nn.Conv1d(inner, gate, 1)
        self.linear2 = nn.Conv1d(gate, out, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # A gate is constant within a segment, and is worked out once there.
        context = functional.avg_pool1d(x, SEGMENT, SEGMENT, ceil_mode=True) + x.mean(-1, keepdim=True)
        gates = torch.sigmoid(self.linear2(functional.relu(self.linear1(context))))
        hidden: torch.Tensor = self.linear_local(x) * gates.repeat_interleave(SEGMENT, dim=-1)[..., : x.shape[-1]]
        return hidden


class CAMDenseTDNNLayer(nn.Module):
    """What a dense layer adds to its input."""

    def __init__(self, channels: int, sizes: Sizes, dilation: int) -> None:
        super().__init__()
        self.nonlinear1 = norm_relu(channels)
        self.linear1 = nn.Conv1d(channels, sizes.inner, 1, bias=False)
        self.nonlinear2 = norm_relu(sizes.inner)
        self.cam_layer = CAMLayer(sizes.inner, sizes.growth, sizes.gate, dilation)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.cam_layer(self.nonlinear2(self.linear1(self.nonlinear1(x))))
        return hidden


class CAMDenseTDNNBlock(nn.Module):
    """Layers ``tdnnd1``, ``tdnnd2``, ..., each of which hears the block's input and what all before it added."""

    def __init__(self, count: int, channels: int, sizes: Sizes, dilation: int) -> None:
        super().__init__()
        for number in range(count):
            layer = CAMDenseTDNNLayer(channels + number * sizes.growth, sizes, dilation)
            self.add_module(f"tdnnd{number + 1}", layer)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.children():
            x = torch.cat([x, layer(x)], dim=1)
        return x


class TransitLayer(nn.Module):
    """Half as many channels."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.nonlinear = norm_relu(channels)
        self.linear = nn.Conv1d(channels, channels // 2, 1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.linear(self.nonlinear(x))
        return hidden


class StatsPool(nn.Module):
    """Mean and unbiased standard deviation over time, [b, c, t] to float32 [b, 2 c]."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.float()
        return torch.cat([x.mean(-1), x.std(-1)], dim=-1)


class DenseLayer(nn.Module):
    """Statistics [b, c] to embeddings [b, d]; the normalisation has no weights."""

    def __init__(self, channels: int, embedding: int) -> None:
        super().__init__()
        self.linear = nn.Conv1d(channels, embedding, 1, bias=False)
        self.nonlinear = nn.Sequential(OrderedDict(batchnorm=nn.BatchNorm1d(embedding, affine=False)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        vectors: torch.Tensor = self.nonlinear(self.linear(x[..., None])[..., 0])
        return vectors


class CAMPPlus(nn.Module):
    """Log-mel frames [b, t, n_mels] less their mean to embeddings [b, d]."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.front_end = FrontEnd(sizes.n_mels)
        self.head = FCM(sizes.maps)
        parts: OrderedDict[str, nn.Module] = OrderedDict()
        parts["tdnn"] = TDNNLayer(sizes.maps * (sizes.n_mels // 8), sizes.first)
        channels = sizes.first
        for number, (count, dilation) in enumerate(zip(sizes.layers, DILATIONS, strict=True), start=1):
            parts[f"block{number}"] = CAMDenseTDNNBlock(count, channels, sizes, dilation)
            channels += count * sizes.growth
            parts[f"transit{number}"] = TransitLayer(channels)
            channels //= 2
        parts["out_nonlinear"] = norm_relu(channels)
        parts["stats"] = StatsPool()
        parts["dense"] = DenseLayer(2 * channels, sizes.embedding)
        self.xvector = nn.Sequential(parts)

    def trunk(self, frames: torch.Tensor) -> torch.Tensor:
        """Frames [b, t, n_mels] to what goes into the third block, [b, c, (t + 1) // 2]."""
        x: torch.Tensor = self.head(frames.transpose(1, 2))
        for part in self.xvector[: self._last]:
            x = part(x)
        return x

    def last(self, hidden: torch.Tensor) -> torch.Tensor:
        """What goes into the third block [b, c, t] to embeddings float32 [b, d]."""
        for part in self.xvector[self._last :]:
            hidden = part(hidden)
        return hidden.float()

    def learnt(self, layers: str) -> list[nn.Parameter]:
        """All parameters, or those behind the trunk."""
        return list((self if layers == "all" else self.xvector[self._last :]).parameters())

    @property
    def _last(self) -> int:
        return [name for name, _ in self.xvector.named_children()].index("block3")

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        return self.last(self.trunk(frames))
