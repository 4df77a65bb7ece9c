"""SpeechBrain's ECAPA-TDNN (Desplanques et al. 2020, arXiv 2005.07143) and x-vectors (Snyder et al. 2018), and the same for many files.

The sizes of SpeechBrain's classes are read from the weights. ``PackedEcapa`` and ``PackedXvector`` are the same networks for many
files at once, made of the weights of SpeechBrain's modules.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from speechbrain.lobes.features import Fbank
from speechbrain.lobes.models.ECAPA_TDNN import (
    ECAPA_TDNN,
    AttentiveStatisticsPooling,
    SEBlock,
    SERes2NetBlock,
    TDNNBlock,
)
from speechbrain.lobes.models.Xvector import Xvector
from speechbrain.processing.features import InputNormalization

from pipeline.nets.packed import Convolution, Layout, affine, on_device
from pipeline.nets.states import State, fill_model, get_shape

HOP = 160
ECAPA_ARCHITECTURE = "an ECAPA-TDNN of SpeechBrain"
RES2NET_SCALE = 8

# Channels that the pooling weights at a time: of 10 s they fill 2 MB, about the second cache of a core.
_WIDTH = 512


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


def list_ecapa_dilations(layers: int) -> list[int]:
    """1, 2, 3, ... and 1 for the last layer: no tensor tells them, and SpeechBrain's recipes use no others."""
    return [*range(1, layers), 1]


def read_ecapa_sizes(state: State) -> dict[str, Any]:
    """The arguments of ``ECAPA_TDNN`` with which a state dict was made.

    Raises:
        DataError: it was made by another architecture.
    """

    def conv(prefix: str) -> tuple[int, int, int]:
        out_channels, in_channels, kernel = get_shape(state, f"{prefix}.weight", ECAPA_ARCHITECTURE, 3)
        return out_channels, in_channels, kernel

    first, n_mels, kernel = conv("blocks.0.conv.conv")
    channels, kernels = [first], [kernel]
    blocks = 1 + max(int(match[1]) for key in state if (match := re.match(r"blocks\.(\d+)\.", key)))
    for block in range(1, blocks):
        channels.append(conv(f"blocks.{block}.tdnn1.conv.conv")[0])
        kernels.append(conv(f"blocks.{block}.res2net_block.blocks.0.conv.conv")[2])
    se_channels = conv("blocks.1.se_block.conv1.conv")[0]
    scales = {key.split(".")[4] for key in state if key.startswith("blocks.1.res2net_block.blocks.")}
    aggregated, _, kernel = conv("mfa.conv.conv")
    attention, attended, _ = conv("asp.tdnn.conv.conv")
    embedding, _, _ = conv("fc.conv")
    return {
        "input_size": n_mels,
        "lin_neurons": embedding,
        "channels": [*channels, aggregated],
        "kernel_sizes": [*kernels, kernel],
        "dilations": list_ecapa_dilations(blocks + 1),
        "attention_channels": attention,
        "res2net_scale": 1 + len(scales),
        "se_channels": se_channels,
        "global_context": attended == 3 * aggregated,
        "groups": [1] * (blocks + 1),
    }


def build_ecapa(state: State) -> tuple[torch.nn.Module, dict[str, Any]]:
    """The model that a state dict belongs to, in evaluation mode, and the arguments it was made with.

    Raises:
        DataError: the state dict is of another architecture; the message names the tensor.
    """
    arguments = read_ecapa_sizes(state)
    return fill_model(ECAPA_TDNN(**arguments), state, ECAPA_ARCHITECTURE), arguments


def make_ecapa(n_mels: int, channels: list[int], embedding: int, attention: int) -> torch.nn.Module:
    """An untrained model with SpeechBrain's kernels (5, 3, 3, ..., 1), its weights drawn from torch's global generator.

    Args:
        n_mels: log-mel bands.
        channels: of the first convolution, of each block, and of the layer that joins the blocks.
        embedding: dimensions.
        attention: channels of the attention, and of squeeze and excitation.
    """
    blocks = len(channels) - 2
    model: torch.nn.Module = ECAPA_TDNN(
        n_mels,
        lin_neurons=embedding,
        channels=channels,
        kernel_sizes=[5, *[3] * blocks, 1],
        dilations=list_ecapa_dilations(len(channels)),
        attention_channels=attention,
        res2net_scale=RES2NET_SCALE,
        se_channels=attention,
        groups=[1] * len(channels),
    )
    return model


def count_least_ecapa_frames(arguments: dict[str, Any]) -> int:
    """The fewest frames that the model takes: one more than the widest reflection (5 with SpeechBrain's kernels)."""
    pairs = zip(arguments["kernel_sizes"], arguments["dilations"], strict=True)
    return 1 + max(reach(kernel, dilation) for kernel, dilation in pairs)


class PackedEcapa(torch.nn.Module):
    """ECAPA-TDNN on packed frames: equal to SpeechBrain's module on each file alone, up to rounding."""

    weight: torch.Tensor
    bias: torch.Tensor

    def __init__(self, model: ECAPA_TDNN, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype
        first, *blocks = model.blocks
        self.first = _tdnn(first, dtype)
        self.blocks: Any = torch.nn.ModuleList(EcapaBlock(block, dtype) for block in blocks)
        self.widths = [block.tdnn2.conv.conv.out_channels for block in blocks]
        self.aggregation = _tdnn(model.mfa, dtype)
        self.pooling = Pooling(model.asp, dtype)
        # The normalisation of the pooled statistics goes into the layer that takes them.
        scale, shift = affine(model.asp_bn.norm)
        last = model.fc.conv.weight[:, :, 0].double()
        self.register_buffer("weight", (last * scale).float(), persistent=False)
        self.register_buffer("bias", (model.fc.conv.bias + last @ shift).float(), persistent=False)

    def forward(self, frames: torch.Tensor, layout: Layout) -> torch.Tensor:
        """Frames float32 [T, n_mels] to embeddings float32 [files, d]."""
        pooled = self.pooling(self._aggregated(frames, layout), layout)
        return torch.nn.functional.linear(pooled, self.weight, self.bias)

    def _aggregated(self, frames: torch.Tensor, layout: Layout) -> torch.Tensor:
        """Frames [T, n_mels] to what the pooling takes, [T, c]."""
        x = self.first(frames.to(self.dtype), self.first.taps(layout))
        joined = x.new_empty(len(x), sum(self.widths))
        for block, part in zip(self.blocks, torch.split(joined, self.widths, dim=1), strict=True):
            x = part.copy_(block(x, layout))
        aggregated: torch.Tensor = self.aggregation(joined, self.aggregation.taps(layout))
        return aggregated


class EcapaBlock(torch.nn.Module):
    """A layer, Res2Net's chain of convolutions over groups of channels, a layer, then squeeze and excitation."""

    def __init__(self, block: SERes2NetBlock, dtype: torch.dtype) -> None:
        super().__init__()
        self.before = _tdnn(block.tdnn1, dtype)
        self.inner: Any = torch.nn.ModuleList(_tdnn(layer, dtype) for layer in block.res2net_block.blocks)
        self.after = _tdnn(block.tdnn2, dtype)
        self.excitation = Excitation(block.se_block)
        self.shortcut = None if block.shortcut is None else Convolution(block.shortcut.conv, dtype=dtype)

    def forward(self, x: torch.Tensor, layout: Layout) -> torch.Tensor:
        """Frames [T, in] to [T, out]."""
        hidden = self.before(x)
        _, *groups = hidden.chunk(len(self.inner) + 1, dim=1)
        before = None
        for group, layer in zip(groups, self.inner, strict=True):
            before = layer(group if before is None else group + before, layer.taps(layout))
            group.copy_(before)
        inner: torch.Tensor = self.after(hidden)
        gates = self.excitation(layout.means(inner)).to(inner.dtype)
        inner *= layout.spread(gates)
        inner += x if self.shortcut is None else self.shortcut(x)
        return inner


class Excitation(torch.nn.Module):
    """The gates of channels, from their means over a file."""

    def __init__(self, block: SEBlock) -> None:
        super().__init__()
        self.inner, self.outer = Convolution(block.conv1.conv), Convolution(block.conv2.conv)

    def forward(self, means: torch.Tensor) -> torch.Tensor:
        """Means [files, c] to gates [files, c]."""
        gates: torch.Tensor = self.outer(self.inner(means).relu_())
        return gates.sigmoid_()


class Pooling(torch.nn.Module):
    """Attentive statistics: weighted mean and deviation of each channel over a file.

    The attention sees each frame beside the plain mean and deviation of the file. Its first layer is linear, and what it
    makes of those two is the same at all frames: it is computed once a file.
    """

    frames: torch.Tensor
    context: torch.Tensor
    bias: torch.Tensor
    low: torch.Tensor
    high: torch.Tensor
    logits: torch.Tensor

    def __init__(self, pooling: AttentiveStatisticsPooling, dtype: torch.dtype) -> None:
        super().__init__()
        channels = pooling.conv.conv.out_channels
        attention = _tdnn(pooling.tdnn, torch.float32)
        assert attention.low is not None and attention.high is not None
        self.register_buffer("frames", attention.weight[:channels].to(dtype).contiguous(), persistent=False)
        self.register_buffer("context", attention.weight[channels:].contiguous(), persistent=False)
        self.register_buffer("bias", attention.bias, persistent=False)
        self.register_buffer("low", attention.low.to(dtype), persistent=False)
        self.register_buffer("high", attention.high.to(dtype), persistent=False)
        # A bias is the same at all frames of a channel, and drops out of the softmax over them.
        logits = pooling.conv.conv.weight[:, :, 0].detach().t()
        self.register_buffer("logits", logits.to(dtype).contiguous(), persistent=False)
        self.least = float(pooling.eps)

    def forward(self, x: torch.Tensor, layout: Layout) -> torch.Tensor:
        """Frames [T, c] to statistics float32 [files, 2 c]."""
        hidden = x @ self.frames
        context = self.bias[None].expand(len(layout.frames), -1)
        if len(self.context):
            parts = [self._statistics(part.float(), layout) for part in torch.split(x, _WIDTH, dim=1)]
            plain = torch.cat([mean for mean, _ in parts] + [deviation for _, deviation in parts], dim=1)
            context = context + plain @ self.context
        hidden += layout.spread(context.to(x.dtype))
        hidden = hidden.clamp_(self.low, self.high).tanh_()
        means, deviations = [], []
        # Channels are weighted apart from each other: a few at a time keep memory small and stay in a processor's cache.
        for part, to_logits in zip(torch.split(x, _WIDTH, dim=1), torch.split(self.logits, _WIDTH, dim=1), strict=True):
            weights = (hidden @ to_logits).float()
            weights = weights.sub_(layout.spread(layout.largest(weights))).exp_()
            mean, deviation = self._statistics(part.float(), layout, weights)
            means.append(mean)
            deviations.append(deviation)
        return torch.cat(means + deviations, dim=1)

    def _statistics(
        self, x: torch.Tensor, layout: Layout, weights: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Mean and deviation float32 [files, c] each of frames [T, c], by weights [T, c] that need not sum to 1."""
        total = layout.lengths[:, None] if weights is None else layout.sums(weights)
        mean = layout.sums(x if weights is None else x * weights) / total
        square = (x - layout.spread(mean)).square_()
        variance = layout.sums(square if weights is None else square.mul_(weights)) / total
        return mean, variance.clamp(min=self.least).sqrt()


def _tdnn(block: TDNNBlock, dtype: torch.dtype) -> Convolution:
    return Convolution(block.conv.conv, block.norm.norm, dtype)


XVECTOR_ARCHITECTURE = "an x-vector network of SpeechBrain"
_XVECTOR_KERNELS, _XVECTOR_DILATIONS = (5, 3, 3, 1, 1), (1, 2, 3, 1, 1)

# SpeechBrain adds noise between 1e-5 and 9e-5 to every pooled mean, drawn from torch's global generator at each call; the
# middle of that range takes its place here, so that a file has one vector. To deviations it adds 1e-5.
_MEAN_OFFSET, _DEVIATION_OFFSET = 5e-5, 1e-5


def read_xvector_sizes(state: State) -> dict[str, Any]:
    """The arguments of ``Xvector`` with which a state dict was made.

    Raises:
        DataError: it was made by another architecture.
    """
    layers = sorted(int(match[1]) for key in state if (match := re.fullmatch(r"blocks\.(\d+)\.conv\.weight", key)))
    channels, kernels, n_mels = [], [], 0
    # A layer is a convolution, an activation and a batch normalisation.
    for layer in layers or [0]:
        out_channels, in_channels, kernel = get_shape(state, f"blocks.{layer}.conv.weight", XVECTOR_ARCHITECTURE, 3)
        n_mels = n_mels or in_channels
        channels.append(out_channels)
        kernels.append(kernel)
    embedding, _ = get_shape(state, f"blocks.{3 * len(channels) + 1}.w.weight", XVECTOR_ARCHITECTURE, 2)
    return {
        "tdnn_blocks": len(channels),
        "tdnn_channels": channels,
        "tdnn_kernel_sizes": kernels,
        "tdnn_dilations": _take_first(_XVECTOR_DILATIONS, len(channels)),
        "lin_neurons": embedding,
        "in_channels": n_mels,
    }


def build_xvector(state: State) -> tuple[torch.nn.Module, dict[str, Any]]:
    """The model that a state dict belongs to, in evaluation mode, and the arguments it was made with.

    Raises:
        DataError: the state dict is of another architecture; the message names the tensor.
    """
    arguments = read_xvector_sizes(state)
    return fill_model(Xvector(**arguments), state, XVECTOR_ARCHITECTURE), arguments


def make_xvector(n_mels: int, channels: list[int], embedding: int) -> torch.nn.Module:
    """An untrained model with SpeechBrain's kernels (5, 3, 3, 1, 1), its weights drawn from torch's global generator.

    Args:
        n_mels: log-mel bands.
        channels: of each layer.
        embedding: dimensions.
    """
    model: torch.nn.Module = Xvector(
        tdnn_blocks=len(channels),
        tdnn_channels=channels,
        tdnn_kernel_sizes=_take_first(_XVECTOR_KERNELS, len(channels)),
        tdnn_dilations=_take_first(_XVECTOR_DILATIONS, len(channels)),
        lin_neurons=embedding,
        in_channels=n_mels,
    )
    return model


def _take_first(values: tuple[int, ...], n: int) -> list[int]:
    """SpeechBrain's values for the first layers, and 1 for those beyond."""
    return [*values, *[1] * n][:n]


def count_least_xvector_frames(arguments: dict[str, Any]) -> int:
    """The fewest frames that the model takes: one more than the widest reflection, and two for a deviation."""
    pairs = zip(arguments["tdnn_kernel_sizes"], arguments["tdnn_dilations"], strict=True)
    return max(2, 1 + max(reach(kernel, dilation) for kernel, dilation in pairs))


class PackedXvector(torch.nn.Module):
    """The x-vector network on packed frames: equal to SpeechBrain's module on each file alone, up to rounding."""

    weight: torch.Tensor
    bias: torch.Tensor

    def __init__(self, model: Xvector, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype
        *layers, _, last = model.blocks
        triples = zip(layers[0::3], layers[1::3], layers[2::3], strict=True)
        self.layers: Any = torch.nn.ModuleList(XvectorLayer(*triple, dtype) for triple in triples)
        self.register_buffer("weight", last.w.weight.detach().float(), persistent=False)
        self.register_buffer("bias", last.w.bias.detach().float(), persistent=False)

    def forward(self, frames: torch.Tensor, layout: Layout) -> torch.Tensor:
        """Frames float32 [T, n_mels] to x-vectors float32 [files, d]."""
        x = frames.to(self.dtype)
        for layer in self.layers:
            x = layer(x, layer.convolution.taps(layout))
        x = x.float()
        mean = layout.means(x)
        variance = layout.sums((x - layout.spread(mean)).square_()) / (layout.lengths[:, None] - 1)
        pooled = torch.cat([mean + _MEAN_OFFSET, variance.sqrt() + _DEVIATION_OFFSET], dim=1)
        return torch.nn.functional.linear(pooled, self.weight, self.bias)


class XvectorLayer(torch.nn.Module):
    """A convolution, a leaky ReLU and a batch normalisation."""

    scale: torch.Tensor
    shift: torch.Tensor

    def __init__(self, conv: Any, activation: torch.nn.LeakyReLU, norm: Any, dtype: torch.dtype) -> None:
        super().__init__()
        self.convolution = Convolution(conv.conv, dtype=dtype)
        self.slope = activation.negative_slope
        scale, shift = affine(norm.norm)
        self.register_buffer("scale", scale.detach().to(dtype), persistent=False)
        self.register_buffer("shift", shift.detach().to(dtype), persistent=False)

    def forward(self, x: torch.Tensor, taps: torch.Tensor | None) -> torch.Tensor:
        """Frames [T, in] to [T, out], with the rows that the convolution gathers."""
        x = torch.nn.functional.leaky_relu_(self.convolution(x, taps), self.slope)
        return x.mul_(self.scale).add_(self.shift)
