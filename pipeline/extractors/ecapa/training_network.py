"""ECAPA-TDNN of SpeechBrain in training, for crops of one length: the same sums in an order that a processor likes better.

Frames lie as rows [b * t, channels], all of a file's together, where SpeechBrain has [b, channels, t]. So every
convolution and its two gradients are matrix products of tall matrices, batch normalisation walks along memory, and no
operation transposes. SpeechBrain's module keeps the parameters and the running statistics; this one only reads and updates
them. In bfloat16 the matrix products and what lies between them have 16 bits; sums over frames, batch statistics, gates,
the softmax over time, the pooled statistics, all after them, and the parameters have 32.
"""

from __future__ import annotations

from typing import Any

import torch
from speechbrain.lobes.models.ECAPA_TDNN import (
    ECAPA_TDNN,
    AttentiveStatisticsPooling,
    SEBlock,
    SERes2NetBlock,
    TDNNBlock,
)
from torch.nn import functional

# Channels of the widest layers that a processor works on at a time: of 32 crops of 2 s they fill 13 MB. Buffers above 32 MB
# glibc takes from the system each time anew, whose page faults cost ten times the arithmetic on them.
_WIDTH = 512


class Network(torch.nn.Module):
    """A forward pass through SpeechBrain's module, equal to ``model(features)[:, 0]`` up to rounding, and its gradients too.

    Args:
        model: its parameters and running statistics are used in place; whether it trains is what ``model.training`` says.
        dtype: of the matrix products, float32 or bfloat16.

    Raises:
        ValueError: the model has dropout, groups, or another activation than ReLU.
    """

    def __init__(self, model: ECAPA_TDNN, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        for layer in model.modules():
            if isinstance(layer, TDNNBlock) and (
                layer.dropout.p or layer.conv.conv.groups != 1 or not isinstance(layer.activation, torch.nn.ReLU)
            ):
                raise ValueError("dropout, groups and activations other than ReLU are not implemented")
        self.model, self.dtype = model, dtype

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Frames [b, t, n_mels] to embeddings float32 [b, d].

        Raises:
            ValueError: a convolution reaches beyond all of a file's frames.
        """
        files, model = len(features), self.model
        # What has which type is settled here, and autocast would settle it otherwise.
        with torch.autocast(features.device.type, enabled=False):
            x = _layer(model.blocks[0], features.to(self.dtype).flatten(0, 1), files)
            outputs = []
            for block in model.blocks[1:]:
                x = _block(block, x, files)
                outputs.append(x)
            width = model.mfa.conv.conv.out_channels if features.is_cuda else _WIDTH
            parts = _aggregated(model.mfa, outputs, files, width)
            pooled = _normalised(model.asp_bn.norm, _pool(model.asp, parts, files))
            last = model.fc.conv
            return functional.linear(pooled, last.weight[:, :, 0], last.bias)


def _layer(layer: TDNNBlock, x: torch.Tensor, files: int) -> torch.Tensor:
    """Convolution, ReLU and batch normalisation, [T, in] to [T, out]."""
    return _normalised(layer.norm.norm, _convolve(layer.conv.conv, x, files).relu_())


def _convolve(conv: torch.nn.Conv1d, x: torch.Tensor, files: int) -> torch.Tensor:
    """SpeechBrain's convolution, reflected at the ends of each file, [T, in] to [T, out]."""
    assert conv.bias is not None
    weight, bias = conv.weight.permute(0, 2, 1).flatten(1).to(x.dtype), conv.bias.to(x.dtype)
    if conv.kernel_size == (1,):
        return functional.linear(x, weight, bias)
    reach = (conv.kernel_size[0] - 1) // 2 * conv.dilation[0]
    if len(x) // files <= reach:
        raise ValueError(f"{len(x) // files} frames are too few for a convolution that reaches {reach} beyond them")
    hidden: torch.Tensor = _Convolution.apply(x, weight, bias, files, conv.dilation[0])
    return hidden


def _normalised(norm: torch.nn.BatchNorm1d, x: torch.Tensor, channels: slice = slice(None)) -> torch.Tensor:
    """Batch normalisation of rows [T, c], by which the running statistics of these channels move along."""
    assert norm.running_mean is not None and norm.running_var is not None and norm.num_batches_tracked is not None
    assert norm.momentum is not None
    running = norm.running_mean[channels], norm.running_var[channels]
    weight, bias = norm.weight[channels], norm.bias[channels]
    if not norm.training:
        return functional.batch_norm(x, *running, weight, bias, eps=norm.eps)
    if not channels.start:
        norm.num_batches_tracked.add_(1)
    y, mean, variance = _Normalisation.apply(x, weight, bias, norm.eps)
    running[0].lerp_(mean, norm.momentum)
    running[1].lerp_(variance * (len(x) / (len(x) - 1)), norm.momentum)
    normalised: torch.Tensor = y
    return normalised


def _block(block: SERes2NetBlock, x: torch.Tensor, files: int) -> torch.Tensor:
    """A layer, Res2Net's chain of convolutions over groups of channels, a layer, squeeze and excitation, [T, in] to [T, out]."""
    kept, *groups = _layer(block.tdnn1, x, files).chunk(block.res2net_block.scale, dim=1)
    outputs = [kept]
    for number, (group, layer) in enumerate(zip(groups, block.res2net_block.blocks, strict=True)):
        outputs.append(_layer(layer, group + outputs[-1] if number else group, files))
    inner = _layer(block.tdnn2, torch.cat(outputs, dim=1), files)
    shortcut = x if block.shortcut is None else _convolve(block.shortcut.conv, x, files)
    gates = _gates(block.se_block, _of_files(inner, files).mean(1, dtype=_wide(inner))).to(x.dtype)
    out = torch.addcmul(_of_files(shortcut, files), _of_files(inner, files), gates[:, None])
    return out.flatten(0, 1)


def _gates(block: SEBlock, means: torch.Tensor) -> torch.Tensor:
    """Means of channels over files to gates, float32 [files, c]."""
    inner, outer = block.conv1.conv, block.conv2.conv
    hidden = functional.linear(means, inner.weight[:, :, 0], inner.bias).relu_()
    return functional.linear(hidden, outer.weight[:, :, 0], outer.bias).sigmoid()


def _aggregated(layer: TDNNBlock, outputs: list[torch.Tensor], files: int, width: int) -> list[torch.Tensor]:
    """The layer over the outputs [T, c] of all blocks, as parts [T, width] of its channels."""
    conv = layer.conv.conv
    if conv.kernel_size != (1,):
        z = _convolve(conv, torch.cat(outputs, dim=1), files).relu_()
        return [_normalised(layer.norm.norm, z)]
    weights, dtype = conv.weight[:, :, 0], outputs[0].dtype
    parts = []
    for first in range(0, len(weights), width):
        channels = slice(first, min(first + width, len(weights)))
        by_block = weights[channels].to(dtype).split([x.shape[1] for x in outputs], dim=1)
        z = functional.linear(outputs[0], by_block[0], conv.bias[channels].to(dtype))
        for x, weight in zip(outputs[1:], by_block[1:], strict=True):
            z = torch.addmm(z, x, weight.t())
        parts.append(_normalised(layer.norm.norm, z.relu_(), channels))
    return parts


def _pool(pooling: AttentiveStatisticsPooling, parts: list[torch.Tensor], files: int) -> torch.Tensor:
    """Mean and deviation of each channel over a file, weighted by attention: parts [T, width] to float32 [files, 2 c].

    The attention sees each frame beside the plain mean and deviation of its file; what its first layer makes of those two is
    the same at all frames, and is computed once a file.
    """
    widths = [part.shape[1] for part in parts]
    layer, conv, dtype = pooling.tdnn, pooling.conv.conv, parts[0].dtype
    weight, hidden = layer.conv.conv.weight[:, :, 0], None
    for part, own in zip(parts, weight[:, : sum(widths)].to(dtype).split(widths, dim=1), strict=True):
        hidden = part @ own.t() if hidden is None else torch.addmm(hidden, part, own.t())
    assert hidden is not None
    context = layer.conv.conv.bias[None]
    if pooling.global_context:
        plain = [_Statistics.apply(part, None, None, files, pooling.eps) for part in parts]
        statistics = torch.cat([mean for mean, _ in plain] + [deviation for _, deviation in plain], dim=1)
        context = functional.linear(statistics, weight[:, sum(widths) :], context[0])
    hidden = _of_files(hidden, files) + context[:, None].to(dtype)
    hidden = _normalised(layer.norm.norm, hidden.flatten(0, 1).relu_()).tanh()
    pairs = []
    by_part = zip(parts, conv.weight[:, :, 0].to(dtype).split(widths), conv.bias.split(widths), strict=True)
    for part, own, bias in by_part:
        pairs.append(_Statistics.apply(part, hidden @ own.t(), bias, files, pooling.eps))
    return torch.cat([mean for mean, _ in pairs] + [deviation for _, deviation in pairs], dim=1)


def _of_files(x: torch.Tensor, files: int) -> torch.Tensor:
    """Rows [T, c] as [files, t, c]."""
    return x.view(files, -1, x.shape[1])


class _Convolution(torch.autograd.Function):
    """A convolution reflected at the ends of each file: [T, in] to [T, out], each gradient one matrix product."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, files: int, dilation: int
    ) -> torch.Tensor:
        """Frames [T, in] with weights [out, kernel * in]."""
        reach = dilation * (weight.shape[1] // x.shape[1] - 1) // 2
        frames = _of_files(x, files)
        ends = frames[:, 1 : reach + 1].flip(1), frames[:, -reach - 1 : -1].flip(1)
        taps = _taps(torch.cat([ends[0], frames, ends[1]], dim=1), 2 * reach, dilation)
        ctx.save_for_backward(taps, weight)
        ctx.files, ctx.reach, ctx.dilation = files, reach, dilation
        return functional.linear(taps, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor, torch.Tensor, None, None]:
        """The gradient of the frames is a convolution too, with the taps in reverse and zeros beyond the ends."""
        taps, weight = ctx.saved_tensors
        by_weight, by_bias = grad.t() @ taps, grad.sum(0)
        if not ctx.needs_input_grad[0]:
            return None, by_weight, by_bias, None, None
        reach, channels = ctx.reach, len(weight)
        kernel = 1 + 2 * reach // ctx.dilation
        padded = functional.pad(_of_files(grad, ctx.files), (0, 0, 2 * reach, 2 * reach))
        reverse = weight.view(channels, kernel, -1).flip(1).transpose(0, 1).reshape(kernel * channels, -1)
        by_padded = _of_files(_taps(padded, 2 * reach, ctx.dilation) @ reverse, ctx.files)
        by_x = by_padded[:, reach:-reach]
        by_x[:, 1 : reach + 1] += by_padded[:, :reach].flip(1)
        by_x[:, -reach - 1 : -1] += by_padded[:, -reach:].flip(1)
        return by_x.reshape(-1, by_x.shape[2]), by_weight, by_bias, None, None


def _taps(padded: torch.Tensor, span: int, dilation: int) -> torch.Tensor:
    """What a convolution sees at each frame: frames [files, t + span, c] to rows [files * t, kernel * c]."""
    frames = padded.shape[1] - span
    taps = [padded[:, first : first + frames] for first in range(0, span + 1, dilation)]
    return torch.cat(taps, dim=2).flatten(0, 1)


class _Normalisation(torch.autograd.Function):
    """Batch normalisation of rows [T, c]; gives the statistics of the batch as well.

    torch's own adds up in float32 one row after the other, and is ten times as far from the truth as SpeechBrain's.
    """

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Normalised rows, mean [c] and variance [c] (divided by T)."""
        if x.dtype == torch.bfloat16:
            # Sums are in float32 here too, and their rounding is nothing beside that of the rows.
            y, mean, inverse = torch.native_batch_norm(x, weight, bias, None, None, True, 0.0, eps)
            variance = inverse.pow(-2).sub_(eps)
        else:
            wide = x.to(weight.dtype)
            mean = wide.mean(0)
            variance = (wide - mean).square_().mean(0)
            inverse = (variance + eps).rsqrt_()
            scale = weight * inverse
            y = torch.addcmul(bias - mean * scale, wide, scale).to(x.dtype)
        ctx.save_for_backward(x, weight, mean, inverse)
        ctx.eps = eps
        ctx.mark_non_differentiable(mean, variance)
        return y, mean, variance

    @staticmethod
    def backward(
        ctx: Any, grad: torch.Tensor, _mean: torch.Tensor, _variance: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, None]:
        """torch's own."""
        x, weight, mean, inverse = ctx.saved_tensors
        by_x, by_weight, by_bias = torch.ops.aten.native_batch_norm_backward(
            grad.contiguous(), x, weight, None, None, mean, inverse, True, ctx.eps, [True, True, True]
        )
        return by_x, by_weight, by_bias, None


class _Statistics(torch.autograd.Function):
    """Mean and deviation of each channel over a file, plain or weighted by the softmax of logits over time."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, logits: torch.Tensor | None, bias: torch.Tensor | None, files: int, least: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Frames and logits [T, c] to float32 [files, c] each.

        Args:
            ctx: of autograd.
            x: frames.
            logits: None for equal weights.
            bias: added to the logits of all frames of a channel, which changes nothing; it is here to get a gradient, 0.
            files: how many.
            least: the variance is at least this.
        """
        x = _of_files(x, files)
        if logits is None:
            weights = None
            mean = x.mean(1, dtype=_wide(x))
            variance = (x - mean[:, None]).square_().mean(1)
        else:
            weights = _of_files(logits, files).softmax(1, dtype=_wide(x))
            mean = (x * weights).sum(1)
            variance = (x - mean[:, None]).square_().mul_(weights).sum(1)
            weights = weights.to(x.dtype)
        deviation = variance.clamp(min=least).sqrt()
        ctx.save_for_backward(x, weights, bias, mean, variance, deviation)
        ctx.least = least
        return mean, deviation

    @staticmethod
    def backward(
        ctx: Any, by_mean: torch.Tensor, by_deviation: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None, None, None]:
        """With u = x - mean: w (dm + 2 dv u) for the frames, and w (dm u + dv (u^2 - v)) for the logits."""
        x, weights, bias, mean, variance, deviation = ctx.saved_tensors
        by_variance = torch.where(variance > ctx.least, by_deviation / (2 * deviation), 0)
        by_mean, twice = by_mean[:, None], 2 * by_variance[:, None]
        apart = x - mean[:, None]
        if weights is None:
            frames = x.shape[1]
            by_x = torch.addcmul(by_mean / frames, apart, twice / frames)
            return by_x.to(x.dtype).flatten(0, 1), None, None, None, None
        by_x = torch.addcmul(by_mean, apart, twice)
        # dm u + dv u^2 is the mean of dm and dm + 2 dv u, times u.
        by_logits = apart.mul_((by_x + by_mean).mul_(0.5)).sub_((by_variance * variance)[:, None]).mul_(weights)
        by_x = by_x.mul_(weights)
        return (by_x.to(x.dtype).flatten(0, 1), by_logits.to(x.dtype).flatten(0, 1), torch.zeros_like(bias), None, None)


def _wide(x: torch.Tensor) -> torch.dtype:
    """float32 for what has 16 bits, else its own type."""
    return torch.promote_types(x.dtype, torch.float32)
