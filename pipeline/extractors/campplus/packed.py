"""CAM++ for files of any lengths at once, each as if it were alone.

The files of a batch lie one after the other on the time axis, with two rows of zeros (at the rate of the second half of the
network; four of the first half) between them and at both ends. No convolution reaches further, so that each file meets the
zeros that padding would give it, once the rows between are set back to zero behind every layer that a wider convolution reads.
Means over files and segments are matrix products. Nothing else looks at more than one row.

Batch normalisations are folded into their neighbours. Before a matrix product, relu(s x + b) is s max(x, -b / s) + b where s is
positive and s min(x, -b / s) + b where it is negative: scale and shift go into the product, and one clamp is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from pipeline.extractors.campplus.network import (
    SEGMENT,
    BasicResBlock,
    CAMDenseTDNNBlock,
    CAMDenseTDNNLayer,
    CAMPPlus,
    DenseLayer,
    TDNNLayer,
    TransitLayer,
)
from pipeline.nets.packed import affine, on_device

Part = TypeVar("Part", bound=nn.Module)

VERSION = "campplus packed 1"
GAP = 2
"""Rows of zeros between files, at 20 ms a row: what the dilated convolutions reach."""


class Timeline:
    """Where the files of a batch lie on the time axis; a row is 20 ms, and two frames.

    Attributes:
        rows: of each file, half its frames, rounded up; float32 [files, 1].
        total: rows in all.
        frames: the place of each frame, int64.
        between: rows that are of no file, int64.
        frames_between: the same in frames, with the half row behind a file of odd length.
        file: the file of each row (any where there is none), int64 [total].
        segment: the segment of each row (any where there is none), int64 [total].
        file_means: float32 [files, total], a matrix that takes the mean over the rows of each file.
        contexts: float32 [segments, total], the mean over the rows of each segment plus the mean over its file.
    """

    def __init__(self, frames: Sequence[int], device: torch.device) -> None:
        counts = np.array(frames)
        rows = (counts + 1) // 2
        starts = GAP + np.cumsum(rows + GAP) - (rows + GAP)
        self.total = int(rows.sum()) + GAP * (len(rows) + 1)
        owner, within = np.repeat(np.arange(len(rows)), rows), _within(rows)
        places = starts[owner] + within
        segments = -(-rows // SEGMENT)
        of_place = (np.cumsum(segments) - segments)[owner] + within // SEGMENT
        file, segment = np.zeros((2, self.total), np.int64)
        file[places], segment[places] = owner, of_place
        heard = np.repeat(2 * starts, counts) + _within(counts)

        def upload(values: np.ndarray) -> torch.Tensor:
            return on_device(torch.from_numpy(np.ascontiguousarray(values)), device)

        self.frames = upload(heard)
        self.frames_between = upload(np.setdiff1d(np.arange(2 * self.total), heard, assume_unique=True))
        self.between = upload(np.setdiff1d(np.arange(self.total), places, assume_unique=True))
        self.file, self.segment = upload(file), upload(segment)
        self.rows = upload(rows[:, None].astype(np.float32))
        columns, files, parts = upload(places), upload(owner), upload(of_place)
        self.file_means = torch.zeros(len(rows), self.total, device=device)
        self.file_means[files, columns] = upload((1 / rows[owner]).astype(np.float32))
        self.contexts = self.file_means.index_select(0, upload(np.repeat(np.arange(len(rows)), segments)))
        self.contexts[parts, columns] += upload((1 / np.bincount(of_place)[of_place]).astype(np.float32))


def _within(counts: np.ndarray) -> np.ndarray:
    """0, 1, ... for each of some counts, one after the other."""
    return np.asarray(np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts))


class Convolution(nn.Module):
    """A 3x3 or 1x1 convolution over time and bands with the batch normalisation behind it, time before bands."""

    weight: torch.Tensor
    bias: torch.Tensor

    def __init__(self, conv: nn.Conv2d, norm: nn.BatchNorm2d) -> None:
        super().__init__()
        scale, shift = affine(norm)
        weight = (conv.weight.double() * scale[:, None, None, None]).transpose(2, 3)
        self.stride, self.padding = (1, int(conv.stride[0])), (conv.kernel_size[0] - 1) // 2
        contiguous = weight.detach().float().contiguous(memory_format=torch.channels_last)
        self.register_buffer("weight", contiguous, persistent=False)
        self.register_buffer("bias", shift.detach().float(), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.conv2d(x, self.weight, self.bias, self.stride, self.padding)


class Residual(nn.Module):
    """A block of the residual network."""

    def __init__(self, block: BasicResBlock) -> None:
        super().__init__()
        self.first, self.second = Convolution(block.conv1, block.bn1), Convolution(block.conv2, block.bn2)
        self.shortcut: Convolution | None = None
        if len(block.shortcut):
            narrowed, norm = block.shortcut
            assert isinstance(narrowed, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d)
            self.shortcut = Convolution(narrowed, norm)

    def forward(self, x: torch.Tensor, between: torch.Tensor) -> torch.Tensor:
        hidden = self.second(_silent(self.first(x).relu_(), between))
        hidden += x if self.shortcut is None else self.shortcut(x)
        return _silent(hidden.relu_(), between)


def _silent(x: torch.Tensor, between: torch.Tensor) -> torch.Tensor:
    """Maps [1, c, t, bands] with zeros between the files."""
    return x.index_fill_(2, between, 0.0)


class Product(nn.Module):
    """A matrix product behind a batch normalisation with its ReLU, or before a normalisation, or both; rows [t, in] to [t, out]."""

    weight: torch.Tensor
    bias: torch.Tensor
    low: torch.Tensor | None
    high: torch.Tensor | None

    def __init__(
        self,
        weight: torch.Tensor,
        before: nn.BatchNorm1d | None = None,
        after: nn.BatchNorm1d | None = None,
        *,
        rectified: bool = False,
    ) -> None:
        """Fold.

        Args:
            weight: [out, in].
            before: the normalisation whose ReLU gives what is multiplied.
            after: the normalisation of what comes out.
            rectified: whether a ReLU ends it.
        """
        super().__init__()
        weight = weight.detach().double()
        bias = weight.new_zeros(len(weight))
        low = high = None
        if before is not None:
            scale, shift = (value.detach() for value in affine(before))
            # A scale of zero leaves relu(shift), whatever comes in.
            shift = torch.where(scale == 0, shift.clamp_min(0), shift)
            bound = torch.where(scale == 0, 0.0, -shift / torch.where(scale == 0, 1.0, scale))
            low, high = torch.where(scale >= 0, bound, -torch.inf), torch.where(scale >= 0, torch.inf, bound)
            weight, bias = weight * scale, weight @ shift
        if after is not None:
            scale, shift = (value.detach() for value in affine(after))
            weight, bias = weight * scale[:, None], bias * scale + shift
        self.rectified = rectified
        flat = weight.T
        for name, value in (("weight", flat), ("bias", bias), ("low", low), ("high", high)):
            self.register_buffer(name, None if value is None else value.float().contiguous(), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.low is not None:
            x = torch.clamp(x, self.low, self.high)
        x = torch.addmm(self.bias, x, self.weight)
        return x.relu_() if self.rectified else x


class Dense(nn.Module):
    """A dense layer: it reads the first columns of the block's rows and writes those behind them."""

    local: torch.Tensor

    def __init__(self, layer: CAMDenseTDNNLayer) -> None:
        super().__init__()
        gate = layer.cam_layer
        before, after = _norm(layer.nonlinear1), _norm(layer.nonlinear2)
        self.inner = Product(layer.linear1.weight[..., 0], before, after, rectified=True)
        self.dilation = int(gate.linear_local.dilation[0])
        # The three taps beside each other: one product, whose parts are then added with their shifts.
        taps = gate.linear_local.weight.detach().permute(1, 2, 0)
        self.register_buffer("local", taps.reshape(len(taps), -1).contiguous(), persistent=False)
        for name, conv in (("squeeze", gate.linear1), ("open", gate.linear2)):
            assert conv.bias is not None
            self.register_buffer(f"{name}_weight", conv.weight.detach()[..., 0].T.contiguous(), persistent=False)
            self.register_buffer(f"{name}_bias", conv.bias.detach().clone(), persistent=False)

    squeeze_weight: torch.Tensor
    squeeze_bias: torch.Tensor
    open_weight: torch.Tensor
    open_bias: torch.Tensor

    def forward(self, rows: torch.Tensor, channels: int, time: Timeline) -> int:
        """Add columns to the rows [t, c], of which the first ``channels`` are filled; how many are now."""
        hidden = self.inner(rows[:, :channels]).index_fill_(0, time.between, 0.0)
        context = time.contexts @ hidden
        gates = torch.addmm(self.squeeze_bias, context, self.squeeze_weight).relu_()
        gates = torch.addmm(self.open_bias, gates, self.open_weight).sigmoid_()
        products = hidden @ self.local
        growth, reach, t = gates.shape[1], self.dilation, len(rows)
        grown = rows[reach : t - reach, channels : channels + growth]
        torch.add(products[: t - 2 * reach, :growth], products[reach : t - reach, growth : 2 * growth], out=grown)
        grown += products[2 * reach :, 2 * growth :]
        grown *= gates.index_select(0, time.segment[reach : t - reach])
        return channels + growth


class Packed(nn.Module):
    """CAM++ in evaluation mode: frames [t, n_mels], file by file, and how many each has, to embeddings float32 [files, d]."""

    tdnn: torch.Tensor
    tdnn_bias: torch.Tensor
    out_scale: torch.Tensor
    out_shift: torch.Tensor

    def __init__(self, model: CAMPPlus) -> None:
        super().__init__()
        head, body = model.head, model.xvector
        self.entry, self.exit = Convolution(head.conv1, head.bn1), Convolution(head.conv2, head.bn2)
        blocks = [block for part in (head.layer1, head.layer2) for block in part]
        self.residual = nn.ModuleList(Residual(block) for block in blocks if isinstance(block, BasicResBlock))
        # Rows come out of the head with bands before maps; 3D-Speaker's weights have maps before bands.
        tdnn = _part(body, "tdnn", TDNNLayer)
        taps = tdnn.linear.weight.detach().double()
        scale, shift = affine(_norm(tdnn.nonlinear))
        taps = (taps * scale[:, None, None]).reshape(len(taps), model.sizes.maps, -1, 5).permute(3, 2, 1, 0)
        self.register_buffer("tdnn", taps.flatten(0, 2).detach().float().contiguous(), persistent=False)
        self.register_buffer("tdnn_bias", shift.detach().float(), persistent=False)
        self.blocks, self.transits = nn.ModuleList(), nn.ModuleList()
        for number in (1, 2, 3):
            layers = _part(body, f"block{number}", CAMDenseTDNNBlock).children()
            transit = _part(body, f"transit{number}", TransitLayer)
            self.blocks.append(nn.ModuleList(Dense(layer) for layer in layers if isinstance(layer, CAMDenseTDNNLayer)))
            self.transits.append(Product(transit.linear.weight[..., 0], _norm(transit.nonlinear)))
        out = affine(_norm(_part(body, "out_nonlinear", nn.Sequential)))
        for name, value in zip(("out_scale", "out_shift"), out):
            self.register_buffer(name, value.detach().float(), persistent=False)
        dense = _part(body, "dense", DenseLayer)
        self.dense = Product(dense.linear.weight[..., 0], after=_norm(dense.nonlinear))

    def forward(self, frames: torch.Tensor, counts: Sequence[int]) -> torch.Tensor:
        time = Timeline(counts, frames.device)
        x = self._head(frames, time)
        # Five frames around every other one; a file's first row has two rows of zeros, four frames, before it.
        padded = functional.pad(x, (0, 0, 2, 2))
        windows = padded.unfold(0, 5, 2).transpose(1, 2).reshape(time.total, -1)
        x = torch.addmm(self.tdnn_bias, windows, self.tdnn).relu_()
        for block, transit in zip(self.blocks, self.transits):
            x = transit(_grown(block, x, time))
        x = torch.addcmul(self.out_shift, x, self.out_scale).relu_()
        means = time.file_means @ x
        x = (x - means.index_select(0, time.file)).square_()
        spread = (time.file_means @ x * (time.rows / (time.rows - 1))).sqrt_()
        embeddings: torch.Tensor = self.dense(torch.cat([means, spread], 1))
        return embeddings

    def _head(self, frames: torch.Tensor, time: Timeline) -> torch.Tensor:
        """Frames, file by file, to rows of frames at their places, [2 * total, bands * maps]."""
        between = time.frames_between
        image = frames.new_zeros(2 * time.total, frames.shape[1]).index_copy_(0, time.frames, frames)
        x = image[None, None].contiguous(memory_format=torch.channels_last)
        x = _silent(self.entry(x).relu_(), between)
        for block in self.residual:
            x = block(x, between)
        x = _silent(self.exit(x).relu_(), between)
        return x[0].permute(1, 2, 0).flatten(1)


def _grown(block: nn.Module, x: torch.Tensor, time: Timeline) -> torch.Tensor:
    """The rows of a block, its input first and then what its layers add."""
    layers = [layer for layer in block.children() if isinstance(layer, Dense)]
    channels = x.shape[1]
    rows = x.new_zeros(time.total, channels + sum(len(layer.open_bias) for layer in layers))
    rows[:, :channels] = x
    for layer in layers:
        channels = layer(rows, channels, time)
    return rows


def _part(network: nn.Module, name: str, kind: type[Part]) -> Part:
    part = network.get_submodule(name)
    assert isinstance(part, kind)
    return part


def _norm(part: nn.Module) -> nn.BatchNorm1d:
    return _part(part, "batchnorm", nn.BatchNorm1d)
