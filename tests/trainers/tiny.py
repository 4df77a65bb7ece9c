"""A network that can be fine-tuned and costs nothing, for tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from pipeline.contracts import ComponentSettings, Extractor, Feature, Pretrained, numeric
from pipeline.nets.trainable import Finetunable

FILE = "tiny.safetensors"


class TinySettings(ComponentSettings):
    name: Literal["tiny"] = numeric("tiny")


class Network(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.below = torch.nn.Conv1d(24, 16, 3, padding=1)
        self.norm = torch.nn.BatchNorm1d(16)
        self.above = torch.nn.Conv1d(16, 16, 3, padding=1)
        self.out = torch.nn.Linear(32, 8)


class Tiny(Extractor, Finetunable):
    Settings = TinySettings

    def extract(self, waveforms: Sequence[np.ndarray]) -> list[Feature]:
        model = self.pretrained(self.settings, self.folder)
        with torch.no_grad():
            frames = [self.frames(self.settings, model, torch.from_numpy(wave)[None]) for wave in waveforms]
            return [Feature(self.last(model, self.trunk(model, one))[0].numpy()) for one in frames]

    def __init__(self, settings: Any, weights: Path | None, device: str, threads: int) -> None:
        super().__init__(settings, weights, device, threads)
        assert weights is not None
        self.folder = weights

    @classmethod
    def pretrained(cls, settings: Any, weights: Path) -> torch.nn.Module:
        model = Network()
        model.load_state_dict(load_file(weights / FILE))
        return model.eval()

    @classmethod
    def frames(cls, settings: Any, model: torch.nn.Module, waves: torch.Tensor) -> torch.Tensor:
        power = torch.stft(waves, 400, 160, window=torch.hann_window(400), return_complex=True).abs().square()[:, 1:193]
        bands = torch.log(power.unflatten(1, (24, 8)).mean(2) + 1e-6).transpose(1, 2)
        return bands - bands.mean(1, keepdim=True)

    @classmethod
    def trunk(cls, model: Any, frames: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = model.norm(torch.relu(model.below(frames.transpose(1, 2))))
        return made

    @classmethod
    def last(cls, model: Any, hidden: torch.Tensor) -> torch.Tensor:
        made = torch.relu(model.above(hidden))
        vectors: torch.Tensor = model.out(torch.cat([made.mean(2), made.std(2)], 1))
        return vectors

    @classmethod
    def learnt(cls, model: Any, layers: str) -> Iterable[torch.nn.Parameter]:
        return model.parameters() if layers == "all" else [*model.above.parameters(), *model.out.parameters()]

    @classmethod
    def write(cls, model: torch.nn.Module, folder: Path) -> None:
        save_file(model.state_dict(), folder / FILE)


def pretrained(folder: Path) -> Pretrained:
    """The network with weights that are always the same, written into a folder that is made."""
    folder.mkdir(exist_ok=True)
    torch.manual_seed(11)
    model = Network()
    with torch.no_grad():
        model.norm.running_mean.copy_(torch.rand(16))
        model.norm.running_var.copy_(0.5 + torch.rand(16))
    Tiny.write(model, folder)
    return Pretrained(Tiny, TinySettings(), folder)
