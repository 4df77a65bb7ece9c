"""WavLM (Chen et al. 2022, arXiv 2110.13900) as transformers has it, from its own layout or from Microsoft's checkpoint.

Nothing here asks the hub: a model is made of a configuration, and tensors are put into it by name.

W-NT (``Orange/Speaker-wavLM-pro``): waveform less its mean, by its deviation; mean and deviation over time of the last hidden
state; two convolutions of width 1, each followed by ReLU and a batch normalisation without scale; unit length.
"""

from __future__ import annotations

import ast
import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import WavLMConfig, WavLMModel

from pipeline.errors import DataError
from pipeline.extractors.wavlm.layouts import CONFIG, Recognised, read_configuration
from pipeline.nets.states import State, check_tensors, fill_model, read_checkpoint, read_tensors, write_tensors

VERSION = "wavlm backbone 1"
ARCHITECTURE = "WavLM"

_RELEASE = "take WavLM-Large.pt from https://github.com/microsoft/unilm/tree/master/wavlm"

# No dropout, masking or dropped layers: neither in use nor in fine-tuning does a network see anything but its input.
_QUIET = {
    "activation_dropout": 0.0, "attention_dropout": 0.0, "feat_proj_dropout": 0.0, "hidden_dropout": 0.0, "layerdrop": 0.0,
    "mask_time_prob": 0.0, "mask_feature_prob": 0.0, "apply_spec_augment": False,
}  # fmt: skip

# Names of Microsoft's (fairseq's) tensors and those of transformers, in the order in which they are tried.
_NAMES = [
    (r"feature_extractor\.conv_layers\.(\d+)\.0\.(weight|bias)", r"feature_extractor.conv_layers.\1.conv.\2"),
    (r"feature_extractor\.conv_layers\.(\d+)\.2\.(?:1\.)?(weight|bias)", r"feature_extractor.conv_layers.\1.layer_norm.\2"),
    (r"layer_norm\.(weight|bias)", r"feature_projection.layer_norm.\1"),
    (r"post_extract_proj\.(weight|bias)", r"feature_projection.projection.\1"),
    (r"encoder\.pos_conv\.0\.(weight_g|weight_v|bias)", r"encoder.pos_conv_embed.conv.\1"),
    (r"encoder\.layer_norm\.(weight|bias)", r"encoder.layer_norm.\1"),
    (r"(encoder\.layers\.\d+)\.self_attn\.([qkv]|out)_proj\.(weight|bias)", r"\1.attention.\2_proj.\3"),
    (r"(encoder\.layers\.\d+)\.self_attn\.grep_linear\.(weight|bias)", r"\1.attention.gru_rel_pos_linear.\2"),
    (r"(encoder\.layers\.\d+)\.self_attn\.grep_a", r"\1.attention.gru_rel_pos_const"),
    (r"(encoder\.layers\.0)\.self_attn\.relative_attention_bias\.weight", r"\1.attention.rel_attn_embed.weight"),
    (r"(encoder\.layers\.\d+)\.self_attn_layer_norm\.(weight|bias)", r"\1.layer_norm.\2"),
    (r"(encoder\.layers\.\d+)\.fc1\.(weight|bias)", r"\1.feed_forward.intermediate_dense.\2"),
    (r"(encoder\.layers\.\d+)\.fc2\.(weight|bias)", r"\1.feed_forward.output_dense.\2"),
    (r"(encoder\.layers\.\d+)\.final_layer_norm\.(weight|bias)", r"\1.final_layer_norm.\2"),
]  # fmt: skip

_WEIGHT_NORM = {"weight_g": "parametrizations.weight.original0", "weight_v": "parametrizations.weight.original1"}


class Network(torch.nn.Module, ABC):
    """A network on a WavLM, in the parts that fine-tuning asks for.

    Attributes:
        dimension: of an embedding.
        least: samples of the shortest audio that it takes.
    """

    dimension: int
    least: int

    def frames(self, waves: torch.Tensor) -> torch.Tensor:
        """Waveforms [b, n] to what the trunk takes, [b, max(n, least), 1]; shorter ones are repeated up to the least."""
        if waves.shape[1] < self.least:
            waves = waves.repeat(1, -(-self.least // waves.shape[1]))[:, : self.least]
        return self.normalised(waves)[:, :, None]

    def normalised(self, waves: torch.Tensor) -> torch.Tensor:
        """Waveforms [b, n] with the mean and the level that the network was trained on."""
        return waves

    @abstractmethod
    def trunk(self, frames: torch.Tensor) -> torch.Tensor:
        """What :meth:`frames` gives to statistics over time, [b, s]."""

    @abstractmethod
    def last(self, hidden: torch.Tensor) -> torch.Tensor:
        """Statistics over time to embeddings [b, d]."""

    def begin(self) -> None:
        """Make it ready to be fine-tuned, which changes no direction of an embedding."""
        return

    @abstractmethod
    def learnt(self, layers: str) -> Iterable[torch.nn.Parameter]:
        """The parameters that learn: of the ``last`` block, or ``all``."""

    @abstractmethod
    def write(self, folder: Path) -> None:
        """Write its tensors into a folder, from which they are loaded again."""

    def forward(self, waves: torch.Tensor) -> torch.Tensor:
        """Waveforms [b, n] to embeddings float32 [b, d]."""
        return self.last(self.trunk(self.frames(waves)))


def convert_to_float(state: State) -> State:
    """Tensors with real numbers in float32."""
    return {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in state.items()}


def load(folder: Path, recognised: Recognised) -> tuple[WavLMModel, dict[str, Any], State]:
    """The WavLM of a folder, in evaluation mode.

    Returns:
        The model, its configuration with all that stands beside WavLM's own values, and the tensors that are not WavLM's.

    Raises:
        DataError: the files are of another architecture or no plain tensors; the message names the first tensor that is wrong.
    """
    if len(recognised.backbone) == 1:
        config, state = _microsoft(folder / recognised.backbone[0])
        return make_model(config, state), config, {}
    config, state = read_configuration(folder), convert_to_float(read_tensors(folder / recognised.backbone[1]))
    if any(name.startswith("wavlm.") for name in state):
        own = {name[6:]: tensor for name, tensor in state.items() if name.startswith("wavlm.")}
        return make_model(config, own), config, {name: tensor for name, tensor in state.items() if name[:6] != "wavlm."}
    return make_model(config, state), config, {}


def make_model(config: Mapping[str, Any], state: State) -> WavLMModel:
    """A WavLM of a configuration with tensors under transformers' names.

    Raises:
        DataError: they do not fit, with the first tensor that does not; or there is no model of this configuration.
    """
    try:
        model = WavLMModel(WavLMConfig.from_dict({**config, **_QUIET}))
    except (TypeError, ValueError, KeyError, RuntimeError, ZeroDivisionError) as error:
        raise DataError(
            "there is no WavLM of this configuration",
            where=CONFIG,
            cause=(str(error).splitlines() or [type(error).__name__])[0],
            remedy="take the configuration from the same release as the tensors",
        ) from error
    conv = "encoder.pos_conv_embed.conv."
    named = {
        conv + _WEIGHT_NORM[name.removeprefix(conv)] if name.removeprefix(conv) in _WEIGHT_NORM else name: tensor
        for name, tensor in state.items()
        # The vector that stands for masked frames in pretraining: no embedding depends on it.
        if name != "masked_spec_embed"
    }
    return fill_model(model, named, ARCHITECTURE)  # type: ignore[return-value]


def _microsoft(path: Path) -> tuple[dict[str, Any], State]:
    """Configuration and tensors of ``{cfg, model}`` under transformers' names."""
    checkpoint = read_checkpoint(path)
    if not isinstance(checkpoint, Mapping) or not {"cfg", "model"} <= checkpoint.keys():
        raise DataError(
            "a checkpoint is not one of Microsoft's WavLM",
            where=str(path),
            cause="it is no {cfg, model}",
            remedy=_RELEASE,
        )
    state = convert_to_float(check_tensors(checkpoint["model"], path))
    return translate_configuration(checkpoint["cfg"], path), rename_tensors(state)


def rename_tensors(state: State) -> State:
    """Tensors under Microsoft's names under those of transformers; a name that Microsoft's WavLM does not have stays."""
    tensors_by_name = {}
    for name, tensor in state.items():
        if name == "mask_emb":
            continue
        new = name
        for pattern, replacement in _NAMES:
            if match := re.fullmatch(pattern, name):
                new = match.expand(replacement)
                break
        tensors_by_name[new] = tensor
    return tensors_by_name


def translate_configuration(cfg: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Microsoft's ``cfg`` as values of transformers' configuration, and ``normalize``.

    Raises:
        DataError: a value is missing, or is of a model that transformers does not have.
    """
    try:
        if not (cfg["relative_position_embedding"] and cfg["gru_rel_pos"]):
            raise ValueError("it has no gated relative positions")
        dims, kernels, strides = zip(*_convolutions(cfg["conv_feature_layers"]), strict=True)
        return {
            "hidden_size": int(cfg["encoder_embed_dim"]),
            "num_hidden_layers": int(cfg["encoder_layers"]),
            "num_attention_heads": int(cfg["encoder_attention_heads"]),
            "intermediate_size": int(cfg["encoder_ffn_embed_dim"]),
            "hidden_act": str(cfg["activation_fn"]),
            "feat_extract_norm": {"layer_norm": "layer", "default": "group"}[cfg["extractor_mode"]],
            "do_stable_layer_norm": bool(cfg["layer_norm_first"]),
            "conv_dim": list(dims),
            "conv_kernel": list(kernels),
            "conv_stride": list(strides),
            "conv_bias": bool(cfg["conv_bias"]),
            "num_conv_pos_embeddings": int(cfg["conv_pos"]),
            "num_conv_pos_embedding_groups": int(cfg["conv_pos_groups"]),
            "num_buckets": int(cfg["num_buckets"]),
            "max_bucket_distance": int(cfg["max_distance"]),
            "normalize": bool(cfg["normalize"]),
        }
    except (KeyError, TypeError, ValueError, SyntaxError) as error:
        raise DataError(
            "the configuration of a WavLM checkpoint cannot be used",
            where=f"{path}, cfg",
            cause=f"there is no {error}" if isinstance(error, KeyError) else str(error),
            remedy=_RELEASE,
        ) from error


def _convolutions(text: str) -> list[tuple[int, int, int]]:
    """(channels, kernel, stride) of each layer, from ``[(512,10,5)] + [(512,3,2)] * 4``, read and never run."""

    def value(node: ast.expr) -> Any:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return [*value(node.left), *value(node.right)]
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            return list(value(node.left)) * min(int(value(node.right)), 100)
        return ast.literal_eval(node)

    layers = value(ast.parse(text, mode="eval").body)
    return [(int(channels), int(kernel), int(stride)) for channels, kernel, stride in layers]


def count_samples(model: WavLMModel, frames: int) -> int:
    """The fewest samples of which the convolutions of a WavLM make so many frames."""
    needed = frames
    for kernel, stride in zip(reversed(model.config.conv_kernel), reversed(model.config.conv_stride), strict=True):
        needed = (needed - 1) * stride + kernel
    return needed


def list_layers(model: WavLMModel, waves: torch.Tensor) -> list[torch.Tensor]:
    """Waveforms [b, n] to what each layer of the encoder gives, [b, t, d] each, before any normalisation after the last.

    Not by ``output_hidden_states``: what its last one is differs between versions of transformers.
    """
    encoder = model.encoder
    hidden, _ = model.feature_projection(model.feature_extractor(waves).transpose(1, 2))
    hidden = hidden + encoder.pos_conv_embed(hidden)
    if not model.config.do_stable_layer_norm:
        hidden = encoder.layer_norm(hidden)
    outputs, bias = [], None
    for layer in encoder.layers:
        hidden, bias = layer(hidden, position_bias=bias)[:2]
        outputs.append(hidden)
    return outputs


def write(model: WavLMModel, folder: Path, more: Mapping[str, Any], beside: Mapping[str, torch.Tensor] | None) -> None:
    """Write a WavLM as ``config.json``, with some more values, and ``model.safetensors``; tensors ``beside`` it put ``wavlm.`` before
    the names of its own (None for a WavLM alone)."""
    config = json.loads(model.config.to_json_string(use_diff=False)) | dict(more)
    # The version that wrote a file is none of its content.
    config.pop("transformers_version", None)
    (folder / CONFIG).write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    prefix = "" if beside is None else "wavlm."
    state = {prefix + name: tensor for name, tensor in model.state_dict().items()} | dict(beside or {})
    write_tensors(folder / "model.safetensors", state)


# ------------------------------------------------------------ statistics over time, with and without a head


POOLED_ARCHITECTURE = "WavLM with W-NT's head"
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


def make_passing_head(wavlm: WavLMModel) -> Head:
    """A head that leaves the direction of a WavLM's statistics as it is, until it learns.

    Biases lift all values above the ReLUs, and the running means take them off again. The last hidden state, and so any mean or
    deviation of it over time, is bounded by a layer norm.
    """
    norm: Any = (
        wavlm.encoder.layer_norm if wavlm.config.do_stable_layer_norm else wavlm.encoder.layers[-1].final_layer_norm
    )
    largest, shift = float(norm.weight.detach().abs().max()), float(norm.bias.detach().abs().max())
    bound = 2 * (math.sqrt(wavlm.config.hidden_size) * largest + shift)
    statistics = 2 * wavlm.config.hidden_size
    head = Head(statistics, statistics, statistics).eval()
    with torch.no_grad():
        for affine, norm in ((head.affine1, head.batchnorm1), (head.affine2, head.batchnorm2)):
            assert affine.bias is not None and norm.running_mean is not None and norm.running_var is not None
            affine.weight.copy_(torch.eye(statistics)[:, :, None])
            affine.bias.fill_(bound)
            norm.running_mean.fill_(bound)
            norm.running_var.fill_(1 - _EPS)
    return head


class Pooled(Network):
    """WavLM, statistics over time, and a head where there is one.

    Args:
        wavlm: the trunk.
        head: None for a WavLM that was never trained on speakers: then the embedding is the statistics themselves.
        normalise: whether waveforms are brought to mean 0 and deviation 1.
    """

    def __init__(self, wavlm: WavLMModel, head: Head | None, normalise: bool) -> None:
        super().__init__()
        self.wavlm, self.top_layers, self.normalise = wavlm, head, normalise
        # The deviation of a single frame is not defined.
        self.least = count_samples(wavlm, 2)
        self.dimension = 2 * wavlm.config.hidden_size if head is None else head.affine2.out_channels
        self.lifted = False

    def normalised(self, waves: torch.Tensor) -> torch.Tensor:
        if not self.normalise:
            return waves
        return (waves - waves.mean(1, keepdim=True)) / waves.std(1, keepdim=True)

    def trunk(self, frames: torch.Tensor) -> torch.Tensor:
        hidden = self.wavlm(frames[:, :, 0]).last_hidden_state
        return torch.cat([hidden.mean(1), hidden.var(1).clamp(min=1e-10).sqrt()], dim=1)

    def last(self, hidden: torch.Tensor) -> torch.Tensor:
        if self.top_layers is None:
            return hidden
        embeddings: torch.Tensor = self.top_layers(hidden)
        return embeddings

    def begin(self) -> None:
        if self.top_layers is None:
            self.top_layers = make_passing_head(self.wavlm)
            self.lifted = True

    def learnt(self, layers: str) -> Iterable[torch.nn.Parameter]:
        """Biases that only lift values above the ReLUs do not learn: the decay of weights would pull at them."""
        head = [] if self.top_layers is None else list(self.top_layers.parameters())
        own = [parameter for parameter in head if parameter.dim() > 1] if self.lifted else head
        return [*self.wavlm.parameters(), *own] if layers == "all" else own

    def write(self, folder: Path) -> None:
        if self.top_layers is None:
            write(self.wavlm, folder, {"normalize": self.normalise}, None)
            return
        sizes = {"top_interm_size": self.top_layers.affine1.out_channels, "embd_size": self.dimension}
        head = {_PREFIX + name: tensor for name, tensor in self.top_layers.state_dict().items()}
        write(self.wavlm, folder, {"normalize": self.normalise, **sizes}, head)


def load_pooled(folder: Path, recognised: Recognised) -> Pooled:
    """The network of a folder in the layout ``w_nt`` or ``microsoft``, in evaluation mode.

    Raises:
        DataError: its files are of another architecture, with the first tensor that is wrong.
    """
    wavlm, config, others = load(folder, recognised)
    normalise = bool(config.get("normalize", True))
    if len(recognised.backbone) == 1 or (recognised.layout == "microsoft" and "embd_size" not in config):
        return Pooled(wavlm, None, normalise).eval()
    return Pooled(wavlm, _make_head(config, others, 2 * wavlm.config.hidden_size, folder / CONFIG), normalise).eval()


def _make_head(config: Mapping[str, Any], state: State, statistics: int, path: Path) -> Head:
    try:
        head = Head(statistics, int(config.get("top_interm_size", 512)), int(config["embd_size"]))
    except (ValueError, TypeError, RuntimeError) as error:
        raise DataError(
            "a configuration has no usable embd_size or top_interm_size",
            where=str(path),
            cause=str(error),
            remedy="take config.json from the same release as the tensors",
        ) from error
    names = torch.nn.Module()
    names.top_layers = head
    fill_model(names, state, POOLED_ARCHITECTURE)
    return head
