"""x-vectors: SpeechBrain's TDNN class with weights of the hub, of a folder, or trained in the run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from pipeline.errors import ModelMissing
from pipeline.models import embedding
from pipeline.models.feature import Feature
from pipeline.models.weights import Weights, embedding_weights
from pipeline.registry import ComponentSettings, numeric, runtime

HUB, REVISION = "speechbrain/spkrec-xvect-voxceleb", "e2cc27f853f99bd5d539432f0cba3f124c059f71"
# No sha256 of these weights was found in print: what fetch-models brings is recorded beside them, not compared.
CHECKSUMS: dict[tuple[str, str], str] = {}


class Settings(ComponentSettings):
    """Settings of the x-vector extractor.

    Attributes:
        source: a hub id, a folder that holds ``embedding_model.ckpt`` or ``embedding_model.safetensors``, or ``trained``
            (the weights come from a training task of the run).
        revision: revision of a hub id.

    Both stay out of keys: what they lead to, the digest of the weights, is in them.
    """

    name: Literal["xvector"] = numeric("xvector")
    source: str = runtime(HUB, min_length=1)
    revision: str = runtime(REVISION, min_length=1)


class Extractor:
    """Waveforms at 16 kHz to embeddings as the network gives them (not length-normalised).

    Files go through the model one at a time, so that a vector depends on its own audio alone. Audio of less than 30 ms
    is repeated up to 30 ms (4 frames, the least that the convolutions take); silent audio has weight 0.
    """

    version: ClassVar[int] = 1
    measures: ClassVar[frozenset[str]] = frozenset({"trials", "pairs", "ranks"})
    similarity: ClassVar[str] = "cosine"
    libraries: ClassVar[tuple[str, ...]] = ("torch", "speechbrain")
    evidence_optional: ClassVar[bool] = False
    sample_rate: int = 16_000
    pool = staticmethod(embedding.pool)

    def __init__(self, settings: Settings, weights: Path | None, device: str, threads: int) -> None:
        from pipeline.models import speechbrain_layout, xvector

        if weights is None:
            raise ModelMissing("the x-vector extractor was given no weights", where=f"extractor {settings.name}")
        self.settings, self.device, self.threads = settings, device, threads
        model, arguments = xvector.build(speechbrain_layout.read_state(weights))
        self.model = model.to(device)
        self.front_end = speechbrain_layout.FrontEnd(arguments["in_channels"]).to(device)
        self.dimension = int(arguments["lin_neurons"])
        self.least_frames = xvector.least_frames(arguments)

    def extract(self, waveforms: Sequence[np.ndarray]) -> list[Feature]:
        """Embeddings of waveforms, each float32 [n] at 16 kHz; see the class for short and silent ones."""
        from pipeline.models.speechbrain_layout import embed

        def one(wave: np.ndarray) -> Feature:
            reason = embedding.unusable(wave)
            if reason:
                return embedding.nothing(self.dimension, reason)
            return embedding.as_feature(embed(self.front_end, self.model, wave, self.least_frames, self.device))

        return embedding.each(one, waveforms, self.device, self.threads)


def weights(settings: Settings, models: Path) -> Weights | None:
    """The weights on this machine; None if they are trained in the run.

    Raises:
        ModelMissing: they are not here, with the command that fetches them.
    """
    return embedding_weights(settings, settings.source, settings.revision, CHECKSUMS, models)
