"""WavLM with statistics over time and W-NT's head, as in ``Orange/Speaker-wavLM-pro``; also WavLM with the statistics alone.

W-NT: waveform less its mean, by its deviation; mean and deviation over time of the last hidden state; two convolutions of width
1, each followed by ReLU and a batch normalisation without scale; unit length.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import WavLMModel

from pipeline.extractors.wavlm import backbone
from pipeline.extractors.wavlm.layouts import CONFIG, Recognised, read_count
from pipeline.nets.states import fill_model

VERSION = "wavlm w-nt 1"
ARCHITECTURE = "WavLM with W-NT's head"
_PREFIX, _EPS = "top_layers.", 1e-3


class Head(torch.nn.Module):
    """Statistics [b, s] to unit vectors [b, d]. Names are those of the checkpoints' tensors."""

    def __init__(self, statistics: int, inner: int, dimension: int) -> None:
        super().__init__()
        self.affine1 = torch.nn.Conv1d(statistics, inner, 1)
        self.batchnorm1 = torch.nn.BatchNorm1d(inner, affine=False, eps=_EPS)
        self.affine2 = torch.nn.Conv1d(inner, dimension, 1)
        self.batchnorm2 = torch.nn.BatchNorm1d(dimension, affine=False, eps=_EPS)

    def forward(self, statistics: torch.Tensor) -> torch.Tensor:
        """Statistics [b, s] to unit vectors [b, d]."""
        inner = self.batchnorm1(self.affine1(statistics[:, :, None]).relu())
        outer: torch.Tensor = self.batchnorm2(self.affine2(inner).relu())[:, :, 0]
        return torch.nn.functional.normalize(outer)


def passing(statistics: int, bound: float) -> Head:
    """A head that leaves the direction of statistics within a bound as it is, until it learns.

    Biases lift all values above the ReLUs, and the running means take them off again.
    """
    head = Head(statistics, statistics, statistics).eval()
    with torch.no_grad():
        for affine, norm in ((head.affine1, head.batchnorm1), (head.affine2, head.batchnorm2)):
            assert affine.bias is not None and norm.running_mean is not None and norm.running_var is not None
            affine.weight.copy_(torch.eye(statistics)[:, :, None])
            affine.bias.fill_(bound)
            norm.running_mean.fill_(bound)
            norm.running_var.fill_(1 - _EPS)
    return head


class Pooled(backbone.Network):
    """WavLM, statistics over time, and a head where there is one.

    Args:
        wavlm: the backbone.
        head: None for a WavLM that was never trained on speakers: then the embedding is the statistics themselves.
        normalise: whether waveforms are brought to mean 0 and deviation 1.
    """

    def __init__(self, wavlm: WavLMModel, head: Head | None, normalise: bool) -> None:
        super().__init__()
        self.wavlm, self.top_layers, self.normalise = wavlm, head, normalise
        # The deviation of a single frame is not defined.
        self.least = backbone.count_samples(wavlm, 2)
        self.dimension = 2 * wavlm.config.hidden_size if head is None else head.affine2.out_channels
        self.lifted = False

    def normalised(self, waves: torch.Tensor) -> torch.Tensor:
        if not self.normalise:
            return waves
        return (waves - waves.mean(1, keepdim=True)) / waves.std(1, keepdim=True)

    def trunk(self, frames: torch.Tensor) -> torch.Tensor:
        hidden = backbone.last_layer(self.wavlm, frames[:, :, 0])
        return torch.cat([hidden.mean(1), hidden.var(1).clamp(min=1e-10).sqrt()], dim=1)

    def last(self, hidden: torch.Tensor) -> torch.Tensor:
        if self.top_layers is None:
            return hidden
        embeddings: torch.Tensor = self.top_layers(hidden)
        return embeddings

    def begin(self) -> None:
        if self.top_layers is None:
            self.top_layers = passing(self.dimension, backbone.get_bound(self.wavlm))
            self.lifted = True

    def learnt(self, layers: str) -> Iterable[torch.nn.Parameter]:
        """Biases that only lift values above the ReLUs do not learn: the decay of weights would pull at them."""
        head = [] if self.top_layers is None else list(self.top_layers.parameters())
        own = [parameter for parameter in head if parameter.dim() > 1] if self.lifted else head
        return [*self.wavlm.parameters(), *own] if layers == "all" else own

    def write(self, folder: Path) -> None:
        if self.top_layers is None:
            backbone.write(self.wavlm, folder, {"normalize": self.normalise}, None)
            return
        sizes = {"top_interm_size": self.top_layers.affine1.out_channels, "embd_size": self.dimension}
        head = {_PREFIX + name: tensor for name, tensor in self.top_layers.state_dict().items()}
        backbone.write(self.wavlm, folder, {"normalize": self.normalise, **sizes}, head)


def load(folder: Path, recognised: Recognised) -> Pooled:
    """The network of a folder in the layout ``w_nt`` or ``microsoft``, in evaluation mode.

    Raises:
        DataError: its files are of another architecture, with the first tensor that is wrong.
    """
    wavlm, config, others = backbone.load(folder, recognised)
    normalise = bool(config.get("normalize", True))
    if len(recognised.backbone) == 1 or (recognised.layout == "microsoft" and "embd_size" not in config):
        return Pooled(wavlm, None, normalise).eval()
    return Pooled(wavlm, _head(config, others, 2 * wavlm.config.hidden_size, folder / CONFIG), normalise).eval()


def _head(config: Mapping[str, Any], state: Mapping[str, torch.Tensor], statistics: int, path: Path) -> Head:
    remedy = "take config.json from the same release as the tensors"
    inner = read_count({"top_interm_size": 512, **config}, "top_interm_size", path, remedy)
    head = Head(statistics, inner, read_count(dict(config), "embd_size", path, remedy))
    names = torch.nn.Module()
    names.top_layers = head
    fill_model(names, dict(state), ARCHITECTURE)
    return head
