"""SSL-ECAPA, the attacker of the VoicePrivacy Challenge 2026: ECAPA on fbank times ECAPA on WavLM.

One stack of ECAPA's layers hears 80 log-mels, less their mean; a second stack of SE-Res2Net blocks hears the sum of all layers
of a frozen WavLM, weighted by a softmax. The blocks' outputs behind the first of each stack are joined, those of WavLM are
brought to as many frames, and both are multiplied element by element; then ECAPA's aggregation, attentive statistics and last layer
follow. Written anew from the description and the names of the tensors; the challenge's own code is GPL.

Differences from the challenge: it drops zeros at the ends of the audio before the fbank alone, and gives WavLM the whole file.
Here both branches hear the same samples.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import torch
from speechbrain.lobes.models.ECAPA_TDNN import (
    AttentiveStatisticsPooling,
    BatchNorm1d,
    Conv1d,
    SERes2NetBlock,
    TDNNBlock,
)
from transformers import WavLMModel

from pipeline.errors import DataError
from pipeline.extractors.wavlm import backbone
from pipeline.extractors.wavlm.layouts import Recognised
from pipeline.nets.speechbrain_networks import HOP, FrontEnd, reach
from pipeline.nets.states import State, check_tensors, fill_model, get_shape, read_checkpoint, write_tensors

VERSION = "wavlm ssl-ecapa 1"
ARCHITECTURE = "SSL-ECAPA of the VoicePrivacy Challenge 2026"


class WeightedSum(torch.nn.Module):
    """The sum of layers by the softmax of learnt weights."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layer_weights = torch.nn.Parameter(torch.ones(layers))

    def forward(self, layers: list[torch.Tensor]) -> torch.Tensor:
        """Layers [b, t, d] to their sum [b, t, d], one at a time: all of them beside each other would fill memory."""
        weights = self.layer_weights.softmax(0)
        total = layers[0] * weights[0]
        for layer, weight in zip(layers[1:], weights[1:], strict=True):
            total = total + layer * weight
        return total


class Branches(torch.nn.Module):
    """All that is not WavLM. Names are those of the checkpoints' tensors; sizes are read from them.

    Raises:
        DataError: a tensor that tells a size is missing.
    """

    def __init__(self, state: State) -> None:
        super().__init__()

        def conv(prefix: str) -> tuple[int, int, int]:
            out_channels, in_channels, kernel = get_shape(state, f"{prefix}.weight", ARCHITECTURE, 3)
            return out_channels, in_channels, kernel

        channels, self.n_mels, kernel = conv("blocks.0.conv.conv")
        self.reaches, self.own_reaches = [reach(kernel, 1)], list[int]()
        self.blocks = torch.nn.ModuleList([TDNNBlock(self.n_mels, channels, kernel, 1)])
        self.blocks_features = torch.nn.ModuleList()

        def block(stack: str, number: int, reaches: list[int]) -> SERes2NetBlock:
            prefix, dilation = f"{stack}.{number}", number + 1
            out_channels, in_channels, _ = conv(f"{prefix}.tdnn1.conv.conv")
            kernel = conv(f"{prefix}.res2net_block.blocks.0.conv.conv")[2]
            reaches.append(reach(kernel, dilation))
            scale = 1 + _count(state, f"{prefix}.res2net_block.blocks")
            squeezed = conv(f"{prefix}.se_block.conv1.conv")[0]
            return SERes2NetBlock(in_channels, out_channels, scale, squeezed, kernel, dilation)

        for number in range(1, _count(state, "blocks")):
            self.blocks.append(block("blocks", number, self.reaches))
        for number in range(_count(state, "blocks_features")):
            self.blocks_features.append(block("blocks_features", number, self.own_reaches))
        self.width = conv("blocks_features.0.tdnn1.conv.conv")[1]
        self.weighted_sum = WeightedSum(get_shape(state, "weighted_sum.layer_weights", ARCHITECTURE, 1)[0])
        aggregated, joined, kernel = conv("mfa.conv.conv")
        self.mfa = TDNNBlock(joined, aggregated, kernel, 1)
        attention, attended, _ = conv("asp.tdnn.conv.conv")
        self.asp = AttentiveStatisticsPooling(aggregated, attention, global_context=attended == 3 * aggregated)
        self.asp_bn = BatchNorm1d(input_size=2 * aggregated)
        self.dimension = conv("fc.conv")[0]
        self.fc = Conv1d(in_channels=2 * aggregated, out_channels=self.dimension, kernel_size=1)

    def statistics(self, frames: torch.Tensor, layers: list[torch.Tensor]) -> torch.Tensor:
        """Log-mels [b, t, n_mels] and layers of WavLM [b, u, d] each to attentive statistics [b, s, 1]."""
        heard = _joined(self.blocks, frames.transpose(1, 2))
        own = _joined(self.blocks_features, self.weighted_sum(layers).transpose(1, 2))
        pooled: torch.Tensor = self.asp(self.mfa(as_long(own, heard.shape[2]) * heard))
        return pooled


class SslEcapa(backbone.Network):
    """WavLM and the branches on it.

    Args:
        wavlm: the backbone, which stays as it is.
        branches: the rest.
        normalise: whether WavLM hears waveforms of mean 0 and variance 1.
    """

    def __init__(self, wavlm: WavLMModel, branches: Branches, normalise: bool) -> None:
        super().__init__()
        self.wavlm, self.branches, self.normalise = wavlm, branches, normalise
        self.front_end = FrontEnd(branches.n_mels)
        # A convolution reflects fewer frames than there are.
        self.least = max(
            backbone.count_samples(wavlm, 1 + max(branches.own_reaches)),
            max(branches.reaches) * HOP,
            backbone.count_samples(wavlm, 2),
        )
        self.dimension = branches.dimension

    def trunk(self, frames: torch.Tensor) -> torch.Tensor:
        waves = frames[:, :, 0]
        # Their level is set as the challenge does, by torch's layer norm: the variance is biased, with 1e-5 added to it.
        heard = torch.nn.functional.layer_norm(waves, waves.shape[1:]) if self.normalise else waves
        with torch.no_grad():
            layers = backbone.list_layers(self.wavlm, heard)
        return self.branches.statistics(self.front_end(waves), layers)[:, :, 0]

    def last(self, hidden: torch.Tensor) -> torch.Tensor:
        vectors: torch.Tensor = self.branches.fc(self.branches.asp_bn(hidden[:, :, None]))[:, :, 0]
        return vectors

    def learnt(self, layers: str) -> Iterable[torch.nn.Parameter]:
        """The last layer with the normalisation before it, or all but WavLM, as the challenge trains it."""
        if layers == "all":
            return list(self.branches.parameters())
        return [*self.branches.asp_bn.parameters(), *self.branches.fc.parameters()]

    def write(self, folder: Path) -> None:
        backbone.write(self.wavlm, folder, {"normalize": self.normalise}, None)
        write_tensors(folder / "embedding_model.safetensors", self.branches.state_dict())


def load(folder: Path, recognised: Recognised) -> SslEcapa:
    """The network of a folder, in evaluation mode.

    Raises:
        DataError: its files are of another architecture, or do not belong together.
    """
    path = folder / recognised.branches
    read = read_checkpoint(path)
    if isinstance(read, dict) and isinstance(read.get("state_dict"), dict):
        read = read["state_dict"]
    tensors = backbone.convert_to_float(check_tensors(read, path))
    state = {name.removeprefix("module."): tensor for name, tensor in tensors.items()}
    branches = Branches(state)
    fill_model(branches, state, ARCHITECTURE)
    wavlm, config, _ = backbone.load(folder, recognised)
    for unit, here, wanted in (
        ("layers", wavlm.config.num_hidden_layers, len(branches.weighted_sum.layer_weights)),
        ("dimensions", wavlm.config.hidden_size, branches.width),
    ):
        if here != wanted:
            raise DataError(
                "a WavLM and the network on it do not belong together",
                where=f"{path} and {recognised.backbone[-1]}",
                cause=f"the WavLM has {here} {unit}, and the network was trained on one of {wanted}",
                remedy="put the WavLM that the network was trained on beside it (WavLM-Large.pt for the challenge's own)",
            )
    return SslEcapa(wavlm, branches, bool(config.get("normalize", True))).eval()


def as_long(x: torch.Tensor, frames: int) -> torch.Tensor:
    """Frames [b, c, t] to as many as are asked for: more by repetition from the start, fewer by means of neighbours.

    Where t is no multiple, the last means are of one frame more than the first.
    """
    have = x.shape[2]
    if frames >= have:
        return x[:, :, torch.arange(frames, device=x.device) % have]
    wide = have % frames
    sizes = [have // frames] * (frames - wide) + [have // frames + 1] * wide
    return torch.stack([part.mean(2) for part in torch.split(x, sizes, dim=2)], dim=2)


def _joined(stack: torch.nn.ModuleList, x: torch.Tensor) -> torch.Tensor:
    """What a stack of layers makes of x [b, c, t]: the outputs of all but the first, joined."""
    outputs = []
    for layer in stack:
        x = layer(x)
        outputs.append(x)
    return torch.cat(outputs[1:], dim=1)


def _count(state: State, prefix: str) -> int:
    """How many numbered parts stand under a prefix."""
    numbers = {int(match[1]) for name in state if (match := re.match(rf"{re.escape(prefix)}\.(\d+)\.", name))}
    return 1 + max(numbers, default=-1)
