"""The trainer of embeddings with a network that it has never heard of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_file

from pipeline import registry
from pipeline.contracts import ComponentSettings, Extractor, Feature, Training, numeric
from pipeline.nets.trainable import Sizes, Trainable
from pipeline.trainers.embedding import EmbeddingSettings, Trainer
from tests.trainers.voices import voices


class ToySettings(ComponentSettings):
    name: Literal["toy"] = numeric("toy")


class Mean(torch.nn.Module):
    """Frames to a linear map of their mean magnitude over time."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.out = torch.nn.Linear(sizes.n_mels, sizes.embedding)

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.out(frames.abs().mean(1))
        return made


class Toy(Extractor, Trainable):
    Settings = ToySettings
    without = frozenset({"attention", "channels"})

    def extract(self, waveforms: Sequence[np.ndarray]) -> list[Feature]:
        raise NotImplementedError

    @classmethod
    def untrained(cls, sizes: Sizes) -> torch.nn.Module:
        return Mean(sizes)


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Registered by another distribution."""
    group = registry.entry_point_group("extractors")
    monkeypatch.setattr(
        registry,
        "_find_entry_points",
        lambda kind: (EntryPoint("toy", "x:Toy", group),) if kind == "extractors" else (),
    )
    monkeypatch.setattr(EntryPoint, "load", lambda self: Toy)
    registry.component.cache_clear()
    yield
    registry.component.cache_clear()


def test_it_trains_any_network_that_says_how(tmp_path: Path) -> None:
    chosen = EmbeddingSettings(
        n_mels=24, embedding=8, steps=40, batch=12, crop_seconds=0.3, speeds=(1.0,), learning_rate=0.02
    )
    assert Trainer.trains(Toy)
    settings = Trainer.resolved(chosen, "toy", 6, 18.0)
    assert (settings.architecture, settings.attention, settings.channels) == ("toy", None, None)
    assert Trainer.resolved(settings, "toy", 6, 18.0) == settings
    losses: list[float] = []
    audio = voices([item % 6 for item in range(18)])
    assert Trainer.train(settings, audio, tmp_path, progress=lambda step, steps, loss: losses.append(loss))
    assert np.mean(losses[-5:]) < np.mean(losses[:5])
    made = load_file(tmp_path / "embedding_model.safetensors")
    assert {name: tuple(tensor.shape) for name, tensor in made.items()} == {"out.weight": (8, 24), "out.bias": (8,)}


def test_what_cannot_be_trained_is_refused_with_what_can() -> None:
    with pytest.raises(ValidationError, match="network of 'f0' cannot be trained; known: ecapa, toy, xvector"):
        EmbeddingSettings(architecture="f0")
    with pytest.raises(ValidationError, match="no component 'ecapas' among the extractors; did you mean ecapa"):
        EmbeddingSettings(architecture="ecapas")
    f0 = registry.component("extractors", "f0")
    assert not Trainer.trains(f0)
    assert f0.adaptation(f0.Settings(), Training(Trainer, EmbeddingSettings())) is None
