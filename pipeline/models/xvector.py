"""x-vectors (Snyder et al. 2018): SpeechBrain's TDNN class, its sizes read from the weights."""

from __future__ import annotations

import re
from typing import Any

import torch
from speechbrain.lobes.models.Xvector import Xvector

from pipeline.models.speechbrain_layout import State, filled, reach, shape

ARCHITECTURE = "x-vector network of SpeechBrain"
_DILATIONS = (1, 2, 3, 1, 1)


class SteadyPooling(torch.nn.Module):
    """Mean and deviation over the frames of single files [1, t, c], as SpeechBrain's pooling has them, but without chance.

    SpeechBrain adds noise between 1e-5 and 9e-5 to every mean, drawn from torch's global generator at each call. Here
    the middle of that range takes its place, so that a file has one vector.
    """

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x.mean(dim=1) + 5e-5, x.std(dim=1) + 1e-5], dim=1).unsqueeze(1)


def sizes(state: State) -> dict[str, Any]:
    """The arguments of ``Xvector`` with which a state dict was made.

    Raises:
        DataError: it was made by another architecture.
    """
    layers = sorted(int(found[1]) for key in state if (found := re.fullmatch(r"blocks\.(\d+)\.conv\.weight", key)))
    channels, kernels, n_mels = [], [], 0
    # A layer is a convolution, an activation and a batch normalisation.
    for layer in layers or [0]:
        out_channels, in_channels, kernel = shape(state, f"blocks.{layer}.conv.weight", ARCHITECTURE, 3)
        n_mels = n_mels or in_channels
        channels.append(out_channels)
        kernels.append(kernel)
    embedding, _ = shape(state, f"blocks.{3 * len(channels) + 1}.w.weight", ARCHITECTURE, 2)
    return {
        "tdnn_blocks": len(channels),
        "tdnn_channels": channels,
        "tdnn_kernel_sizes": kernels,
        "tdnn_dilations": [*_DILATIONS, *[1] * len(channels)][: len(channels)],
        "lin_neurons": embedding,
        "in_channels": n_mels,
    }


def build(state: State) -> tuple[torch.nn.Module, dict[str, Any]]:
    """The model that a state dict belongs to, in evaluation mode, and the arguments it was made with.

    Raises:
        DataError: the state dict is of another architecture; the message names the tensor.
    """
    arguments = sizes(state)
    model = filled(Xvector(**arguments), state, ARCHITECTURE)
    blocks = model.blocks
    assert isinstance(blocks, torch.nn.ModuleList)
    blocks[3 * arguments["tdnn_blocks"]] = SteadyPooling()
    return model.eval(), arguments


def least_frames(arguments: dict[str, Any]) -> int:
    """The fewest frames that the model takes: one more than the widest reflection, and two for a deviation."""
    pairs = zip(arguments["tdnn_kernel_sizes"], arguments["tdnn_dilations"], strict=True)
    return max(2, 1 + max(reach(kernel, dilation) for kernel, dilation in pairs))
