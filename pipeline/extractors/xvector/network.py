"""x-vectors (Snyder et al. 2018): SpeechBrain's TDNN class, its sizes read from the weights.

``Packed`` is the same network for many files at once, made of the weights of SpeechBrain's module.
"""

from __future__ import annotations

import re
from typing import Any

import torch
from speechbrain.lobes.models.Xvector import Xvector

from pipeline.nets.packed import Convolution, Layout, affine
from pipeline.nets.speechbrain_layout import reach
from pipeline.nets.states import State, fill_model, get_shape

ARCHITECTURE = "an x-vector network of SpeechBrain"
_KERNELS, _DILATIONS = (5, 3, 3, 1, 1), (1, 2, 3, 1, 1)

# SpeechBrain adds noise between 1e-5 and 9e-5 to every pooled mean, drawn from torch's global generator at each call; the
# middle of that range takes its place here, so that a file has one vector. To deviations it adds 1e-5.
_MEAN_OFFSET, _DEVIATION_OFFSET = 5e-5, 1e-5


def sizes(state: State) -> dict[str, Any]:
    """The arguments of ``Xvector`` with which a state dict was made.

    Raises:
        DataError: it was made by another architecture.
    """
    layers = sorted(int(match[1]) for key in state if (match := re.fullmatch(r"blocks\.(\d+)\.conv\.weight", key)))
    channels, kernels, n_mels = [], [], 0
    # A layer is a convolution, an activation and a batch normalisation.
    for layer in layers or [0]:
        out_channels, in_channels, kernel = get_shape(state, f"blocks.{layer}.conv.weight", ARCHITECTURE, 3)
        n_mels = n_mels or in_channels
        channels.append(out_channels)
        kernels.append(kernel)
    embedding, _ = get_shape(state, f"blocks.{3 * len(channels) + 1}.w.weight", ARCHITECTURE, 2)
    return {
        "tdnn_blocks": len(channels),
        "tdnn_channels": channels,
        "tdnn_kernel_sizes": kernels,
        "tdnn_dilations": _first(_DILATIONS, len(channels)),
        "lin_neurons": embedding,
        "in_channels": n_mels,
    }


def build(state: State) -> tuple[torch.nn.Module, dict[str, Any]]:
    """The model that a state dict belongs to, in evaluation mode, and the arguments it was made with.

    Raises:
        DataError: the state dict is of another architecture; the message names the tensor.
    """
    arguments = sizes(state)
    return fill_model(Xvector(**arguments), state, ARCHITECTURE), arguments


def fresh(n_mels: int, channels: list[int], embedding: int) -> torch.nn.Module:
    """An untrained model with SpeechBrain's kernels (5, 3, 3, 1, 1), its weights drawn from torch's global generator.

    Args:
        n_mels: log-mel bands.
        channels: of each layer.
        embedding: dimensions.
    """
    model: torch.nn.Module = Xvector(
        tdnn_blocks=len(channels),
        tdnn_channels=channels,
        tdnn_kernel_sizes=_first(_KERNELS, len(channels)),
        tdnn_dilations=_first(_DILATIONS, len(channels)),
        lin_neurons=embedding,
        in_channels=n_mels,
    )
    return model


def _first(values: tuple[int, ...], n: int) -> list[int]:
    """SpeechBrain's values for the first layers, and 1 for those beyond."""
    return [*values, *[1] * n][:n]


def least_frames(arguments: dict[str, Any]) -> int:
    """The fewest frames that the model takes: one more than the widest reflection, and two for a deviation."""
    pairs = zip(arguments["tdnn_kernel_sizes"], arguments["tdnn_dilations"], strict=True)
    return max(2, 1 + max(reach(kernel, dilation) for kernel, dilation in pairs))


class Packed(torch.nn.Module):
    """The x-vector network on packed frames: equal to SpeechBrain's module on each file alone, up to rounding."""

    weight: torch.Tensor
    bias: torch.Tensor

    def __init__(self, model: Xvector, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype
        *layers, _, last = model.blocks
        triples = zip(layers[0::3], layers[1::3], layers[2::3], strict=True)
        self.layers: Any = torch.nn.ModuleList(Layer(*triple, dtype) for triple in triples)
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

    def parts(self) -> list[torch.nn.Module]:
        """What works frame by frame, for ``torch.compile``."""
        return list(self.layers)


class Layer(torch.nn.Module):
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
