"""Audio of many lengths through one network at once, each file as if it were alone.

The files of a batch lie one after the other on the time axis, [T, channels] with T frames in all and nothing between them.
A convolution gathers the rows that its taps see, by numbers that reflect at the ends of each file as SpeechBrain's padding
does, and then is one matrix product; what is pointwise needs no care; statistics are taken file by file. So there is no
padding to mask or to pay for, and a GPU gets the same few launches whatever the lengths.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch

Precision = Literal["float32", "bfloat16"]


class Layout:
    """Where the files of a batch lie.

    Attributes:
        frames: of each file.
        lengths: the same on the device, int64 [files].
        first: the first frame of each file, int64 [files].
        file: the file of each frame, int64 [T].
        rows: 0, 1, ..., T - 1.
    """

    def __init__(self, frames: Sequence[int], device: str | torch.device) -> None:
        self.frames = list(frames)
        self.lengths = on_device(torch.tensor(self.frames), device)
        self.first = torch.cumsum(self.lengths, 0) - self.lengths
        files = torch.arange(len(self.frames), device=self.lengths.device)
        self.file = torch.repeat_interleave(files, self.lengths, output_size=sum(self.frames))
        self.rows = torch.arange(len(self.file), device=self.lengths.device)
        self._taps: dict[tuple[int, int], torch.Tensor] = {}

    def taps(self, kernel: int, dilation: int) -> torch.Tensor | None:
        """The rows around each frame that a convolution sees, int64 [T * kernel], those beyond a file's ends reflected.

        Each file has more frames than the convolution reaches beyond its ends. None where it sees the frame alone.
        """
        if kernel == 1:
            return None
        if (kernel, dilation) not in self._taps:
            offsets = dilation * (torch.arange(kernel, device=self.file.device) - (kernel - 1) // 2)
            rows = self.rows[:, None] + offsets
            first = self.first[self.file][:, None]
            last = first + self.lengths[self.file][:, None] - 1
            # |rows - first| and its mirror at the other end: at most one of the two reflects.
            rows = first + (rows - first).abs()
            rows = last - (last - rows).abs()
            self._taps[kernel, dilation] = rows.reshape(-1)
        return self._taps[kernel, dilation]

    def sums(self, x: torch.Tensor) -> torch.Tensor:
        """Sum over the frames of each file, [T, c] to float32 [files, c]; the same whatever lies beside a file."""
        if x.is_cuda:
            return self._reduced(x.float(), "sum")
        return torch.stack([part.sum(0, dtype=torch.float32) for part in torch.split(x, self.frames)])

    def largest(self, x: torch.Tensor) -> torch.Tensor:
        """Maximum over the frames of each file, [T, c] to [files, c]."""
        if x.is_cuda:
            return self._reduced(x, "max")
        return torch.stack([part.amax(0) for part in torch.split(x, self.frames)])

    def _reduced(self, x: torch.Tensor, reduction: str) -> torch.Tensor:
        # One launch for all files; on a CPU it walks along time channel by channel, 20 times as slowly as file by file.
        # "unsafe" leaves out a look at the lengths for which it would wait for the GPU.
        return torch.segment_reduce(x, reduction, lengths=self.lengths, axis=0, unsafe=True)

    def means(self, x: torch.Tensor) -> torch.Tensor:
        """Mean over the frames of each file, [T, c] to float32 [files, c]."""
        return self.sums(x) / self.lengths[:, None]

    def spread(self, values: torch.Tensor) -> torch.Tensor:
        """What belongs to files at each of their frames, [files, c] to [T, c]."""
        return values.index_select(0, self.file)


class Convolution(torch.nn.Module):
    """A convolution of SpeechBrain at stride 1, with the ReLU and the batch normalisation behind it where there are any.

    With a scale s and a shift b of the normalisation, s relu(z) + b is max(s z + b, b) where s is not negative and
    min(s z + b, b) where it is: the scale goes into the weights, and what is left is one clamp.
    """

    weight: torch.Tensor
    bias: torch.Tensor
    low: torch.Tensor | None
    high: torch.Tensor | None

    def __init__(
        self, conv: torch.nn.Conv1d, norm: torch.nn.BatchNorm1d | None = None, dtype: torch.dtype = torch.float32
    ) -> None:
        super().__init__()
        assert conv.bias is not None
        (self.kernel,), (self.dilation,) = conv.kernel_size, conv.dilation
        weight, bias = conv.weight.double(), conv.bias.double()
        low = high = None
        if norm is not None:
            scale, shift = affine(norm)
            weight, bias = weight * scale[:, None, None], bias * scale + shift
            low = torch.where(scale >= 0, shift, -torch.inf)
            high = torch.where(scale >= 0, torch.inf, shift)
        flat = weight.permute(2, 1, 0).reshape(-1, weight.shape[0])
        for name, value in (("weight", flat), ("bias", bias), ("low", low), ("high", high)):
            self.register_buffer(
                name, None if value is None else value.detach().to(dtype).contiguous(), persistent=False
            )

    def taps(self, layout: Layout) -> torch.Tensor | None:
        """The rows that it gathers in a layout."""
        return layout.taps(self.kernel, self.dilation)

    def forward(self, x: torch.Tensor, taps: torch.Tensor | None = None) -> torch.Tensor:
        """Frames [T, in] to [T, out], with the rows that it gathers."""
        if taps is not None:
            x = x.index_select(0, taps).view(len(x), -1)
        x = torch.addmm(self.bias, x, self.weight)
        return x if self.low is None else x.clamp_(self.low, self.high)


def affine(norm: torch.nn.BatchNorm1d | torch.nn.BatchNorm2d) -> tuple[torch.Tensor, torch.Tensor]:
    """Scale and shift of a batch normalisation in evaluation mode, float64 [c] each."""
    assert norm.running_mean is not None and norm.running_var is not None
    root = (norm.running_var.double() + norm.eps).sqrt()
    scale, shift = (
        (norm.weight.double() / root, norm.bias.double()) if norm.affine else (1 / root, torch.zeros_like(root))
    )
    return scale, shift - norm.running_mean.double() * scale


def on_device(tensor: torch.Tensor, device: str | torch.device) -> torch.Tensor:
    """A tensor of the CPU on a device, without waiting for what a GPU is doing."""
    if torch.device(device).type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
