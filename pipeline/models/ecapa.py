"""ECAPA-TDNN (Desplanques et al. 2020, arXiv 2005.07143): SpeechBrain's class, its sizes read from the weights."""

from __future__ import annotations

import re
from typing import Any

import torch
from speechbrain.lobes.models.ECAPA_TDNN import ECAPA_TDNN

from pipeline.models.speechbrain_layout import State, filled, reach, shape

ARCHITECTURE = "ECAPA-TDNN of SpeechBrain"
RES2NET_SCALE = 8


def dilations(layers: int) -> list[int]:
    """1, 2, 3, ... and 1 for the last layer: no tensor tells them, and SpeechBrain's recipes use no others."""
    return [*range(1, layers), 1]


def sizes(state: State) -> dict[str, Any]:
    """The arguments of ``ECAPA_TDNN`` with which a state dict was made.

    Raises:
        DataError: it was made by another architecture.
    """

    def conv(prefix: str) -> tuple[int, int, int]:
        out_channels, in_channels, kernel = shape(state, f"{prefix}.weight", ARCHITECTURE, 3)
        return out_channels, in_channels, kernel

    first, n_mels, kernel = conv("blocks.0.conv.conv")
    channels, kernels = [first], [kernel]
    blocks = 1 + max(int(found[1]) for key in state if (found := re.match(r"blocks\.(\d+)\.", key)))
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
        "dilations": dilations(blocks + 1),
        "attention_channels": attention,
        "res2net_scale": 1 + len(scales),
        "se_channels": se_channels,
        "global_context": attended == 3 * aggregated,
        "groups": [1] * (blocks + 1),
    }


def build(state: State) -> tuple[torch.nn.Module, dict[str, Any]]:
    """The model that a state dict belongs to, in evaluation mode, and the arguments it was made with.

    Raises:
        DataError: the state dict is of another architecture; the message names the tensor.
    """
    arguments = sizes(state)
    return filled(ECAPA_TDNN(**arguments), state, ARCHITECTURE), arguments


def fresh(n_mels: int, channels: list[int], embedding: int, attention: int) -> torch.nn.Module:
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
        dilations=dilations(len(channels)),
        attention_channels=attention,
        res2net_scale=RES2NET_SCALE,
        se_channels=attention,
        groups=[1] * len(channels),
    )
    return model


def least_frames(arguments: dict[str, Any]) -> int:
    """The fewest frames that the model takes: one more than the widest reflection (5 with SpeechBrain's kernels)."""
    pairs = zip(arguments["kernel_sizes"], arguments["dilations"], strict=True)
    return 1 + max(reach(kernel, dilation) for kernel, dilation in pairs)
