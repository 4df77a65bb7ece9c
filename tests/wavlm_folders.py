"""Folders of tiny WavLM weights in every layout, for tests: hidden size 32, two layers, kilobytes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from transformers import WavLMConfig, WavLMModel

STABLE: dict[str, Any] = {"do_stable_layer_norm": True, "feat_extract_norm": "layer"}
BASE: dict[str, Any] = {"do_stable_layer_norm": False, "feat_extract_norm": "group"}
EMBEDDING, INNER, WIDTH, LAYERS = 12, 20, 32, 2


def drawn(module: torch.nn.Module, seed: int) -> torch.nn.Module:
    """A module in evaluation mode with every tensor drawn anew, statistics of normalisations among them."""
    random = torch.Generator().manual_seed(seed)
    for name, tensor in module.state_dict().items():
        if not tensor.is_floating_point():
            continue
        values = torch.randn(tensor.shape, generator=random)
        scale = 0.3 if tensor.dim() < 2 else 1.5 / max(tensor[0].numel(), 1) ** 0.5
        positive = name.endswith(("running_var", "norm.weight", "layer_norm.weight", "original0"))
        tensor.copy_(1 + 0.2 * values.abs() if positive else scale * values)
    return module.eval()


def wavlm(seed: int = 1, **more: Any) -> WavLMModel:
    """A tiny WavLM, like Large in kind unless ``more`` says otherwise."""
    config = WavLMConfig(
        hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=4, intermediate_size=48, conv_dim=[16] * 7,
        num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4, num_buckets=32, max_bucket_distance=80, **(STABLE | more),
    )  # fmt: skip
    model = WavLMModel(config)
    assert isinstance(drawn(model, seed), WavLMModel)
    return model


def w_nt(folder: Path, model: WavLMModel, seed: int = 2) -> dict[str, torch.Tensor]:
    """A folder as that of Orange/Speaker-wavLM-pro; returns the tensors of the head by name."""
    model.save_pretrained(folder)
    random = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=random) / shape[-2] ** 0.5

    head: dict[str, torch.Tensor] = {}
    for number, (into, out) in enumerate(((2 * WIDTH, INNER), (INNER, EMBEDDING)), start=1):
        head[f"top_layers.affine{number}.weight"] = normal(out, into, 1)
        head[f"top_layers.affine{number}.bias"] = 0.1 * torch.randn(out, generator=random)
        head[f"top_layers.batchnorm{number}.running_mean"] = torch.rand(out, generator=random)
        head[f"top_layers.batchnorm{number}.running_var"] = 0.5 + torch.rand(out, generator=random)
        head[f"top_layers.batchnorm{number}.num_batches_tracked"] = torch.tensor(7)
    own = {f"wavlm.{name}": one for name, one in load_file(folder / "model.safetensors").items()}
    save_file(own | head, folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    config |= {"architectures": ["EmbeddingsModel"], "embd_size": EMBEDDING, "top_interm_size": INNER}
    (folder / "config.json").write_text(json.dumps(config))
    return head


def microsoft(model: WavLMModel) -> dict[str, Any]:
    """``{cfg, model}`` of a WavLM, written out module by module under Microsoft's names."""
    config, state = model.config, {"mask_emb": torch.ones(model.config.hidden_size)}

    def put(name: str, module: torch.nn.Module) -> None:
        state.update({f"{name}.{key}": value.detach().clone() for key, value in module.named_parameters()})

    for number, layer in enumerate(model.feature_extractor.conv_layers):
        put(f"feature_extractor.conv_layers.{number}.0", layer.conv)
        if config.feat_extract_norm == "layer":
            put(f"feature_extractor.conv_layers.{number}.2.1", layer.layer_norm)
        elif number == 0:
            put(f"feature_extractor.conv_layers.{number}.2", layer.layer_norm)
    put("layer_norm", model.feature_projection.layer_norm)
    put("post_extract_proj", model.feature_projection.projection)
    position = model.encoder.pos_conv_embed.conv
    state["encoder.pos_conv.0.weight_g"] = position.parametrizations.weight.original0.detach()
    state["encoder.pos_conv.0.weight_v"] = position.parametrizations.weight.original1.detach()
    state["encoder.pos_conv.0.bias"] = position.bias.detach()
    put("encoder.layer_norm", model.encoder.layer_norm)
    for number, layer in enumerate(model.encoder.layers):
        at, attention = f"encoder.layers.{number}", layer.attention
        for which in ("k_proj", "v_proj", "q_proj", "out_proj"):
            put(f"{at}.self_attn.{which}", getattr(attention, which))
        put(f"{at}.self_attn.grep_linear", attention.gru_rel_pos_linear)
        state[f"{at}.self_attn.grep_a"] = attention.gru_rel_pos_const.detach()
        if number == 0:
            put(f"{at}.self_attn.relative_attention_bias", attention.rel_attn_embed)
        put(f"{at}.self_attn_layer_norm", layer.layer_norm)
        put(f"{at}.fc1", layer.feed_forward.intermediate_dense)
        put(f"{at}.fc2", layer.feed_forward.output_dense)
        put(f"{at}.final_layer_norm", layer.final_layer_norm)
    large = config.feat_extract_norm == "layer"
    cfg = {
        "extractor_mode": "layer_norm" if large else "default", "encoder_layers": LAYERS, "encoder_embed_dim": WIDTH,
        "encoder_ffn_embed_dim": 48, "encoder_attention_heads": 4, "activation_fn": "gelu",
        "layer_norm_first": config.do_stable_layer_norm, "normalize": large, "conv_bias": False, "conv_pos": 16,
        "conv_feature_layers": "[(16,10,5)] + [(16,3,2)] * 4 + [(16,2,2)] * 2", "conv_pos_groups": 4,
        "relative_position_embedding": True, "num_buckets": 32, "max_distance": 80, "gru_rel_pos": True, "dropout": 0.1,
    }  # fmt: skip
    return {"cfg": cfg, "model": state}


def stepped(parameters: Iterable[torch.nn.Parameter], loss: torch.Tensor) -> None:
    """A step of 0.01 in each value against the sign of its gradient, as AdamW begins; all of them must have one.

    By hand, because importing torch's optimisers for the first time takes longer than all that is tested.
    """
    learnt = list(parameters)
    with torch.no_grad():
        for parameter, gradient in zip(learnt, torch.autograd.grad(loss, learnt), strict=True):
            parameter -= 0.01 * gradient.sign()
