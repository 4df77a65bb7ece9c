"""What SpeechBrain's embedding networks share: the class is built directly, its state loaded, files go through one by one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from pipeline.errors import ModelMissing
from pipeline.models import embedding
from pipeline.models.feature import Feature

if TYPE_CHECKING:
    import torch


class SpeechBrainExtractor(ABC):
    """Waveforms at 16 kHz to embeddings as the network gives them (not length-normalised).

    Files go through the model one at a time, so that a vector depends on its own audio alone. Audio shorter than the least
    that the convolutions take is repeated up to it; silent audio has weight 0.
    """

    version: ClassVar[int] = 1
    measures: ClassVar[frozenset[str]] = frozenset({"trials", "pairs", "ranks"})
    similarity: ClassVar[str] = "cosine"
    libraries: ClassVar[tuple[str, ...]] = ("torch", "speechbrain")
    evidence_optional: ClassVar[bool] = False
    sample_rate: int = 16_000
    pool = staticmethod(embedding.pool)

    def __init__(self, settings: Any, weights: Path | None, device: str, threads: int) -> None:
        from pipeline.models import speechbrain_layout

        if weights is None:
            raise ModelMissing(
                f"the {settings.name} extractor was given no weights", where=f"extractor {settings.name}"
            )
        self.settings, self.device, self.threads = settings, device, threads
        model, n_mels, self.dimension, self.least_frames = self.network(speechbrain_layout.read_state(weights))
        self.model = model.to(device)
        self.front_end = speechbrain_layout.FrontEnd(n_mels).to(device)

    @staticmethod
    @abstractmethod
    def network(state: Mapping[str, torch.Tensor]) -> tuple[torch.nn.Module, int, int, int]:
        """The network of a state dict, its mel bands, the dimension of its embedding, and the least frames it takes."""

    def extract(self, waveforms: Sequence[np.ndarray]) -> list[Feature]:
        """Embeddings of waveforms, each float32 [n] at 16 kHz; see the class for short and silent ones."""
        from pipeline.models.speechbrain_layout import embed

        def one(wave: np.ndarray) -> Feature:
            reason = embedding.unusable(wave)
            if reason:
                return embedding.nothing(self.dimension, reason)
            return embedding.as_feature(embed(self.front_end, self.model, wave, self.least_frames, self.device))

        return embedding.each(one, waveforms, self.device, self.threads)
