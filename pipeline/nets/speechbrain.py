"""What SpeechBrain's embedding networks share: their settings, and how audio goes through them in batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from pipeline.errors import ModelMissing
from pipeline.nets import embedding
from pipeline.nets.feature import Feature
from pipeline.registry import ComponentSettings, numeric, runtime

if TYPE_CHECKING:
    import torch


class SpeechBrainSettings(ComponentSettings):
    """Settings that the extractors with SpeechBrain's networks share.

    Attributes:
        source: a hub id, a folder that holds ``embedding_model.ckpt`` or ``embedding_model.safetensors``, or ``trained``
            (the weights come from a training task of the run). In configurations also ``auto``: ``trained`` where there is
            a training set and a trainer, else the hub id that is the default.
        revision: revision of a hub id.
        precision: of the convolutions; the front end and the statistics stay in float32. ``bfloat16`` is 1.7 times as fast
            on a CPU that has it (avx512_bf16), and moves embeddings by up to 2e-5 in cosine distance (trained ECAPA on
            real speech; x-vectors 1e-5).
        compile: whether ``torch.compile`` fuses the layers; it takes a C++ compiler, and rounds otherwise.
        longest_seconds: longer audio is cut into the fewest uniform pieces not longer than this, and its embedding is the
            mean of theirs. (The VPC 2020 recipe stops at 100 s.)
        batch_seconds: audio in a batch; the default is 10 s on a CPU and 600 s on a GPU. It does not change a vector by
            more than rounding does (a cosine distance of 1e-5 at the very most).

    ``source`` and ``revision`` stay out of keys: what they lead to, the digest of the weights, is in them.
    """

    source: str = runtime(min_length=1)
    revision: str = runtime(min_length=1)
    precision: Literal["float32", "bfloat16"] = numeric("float32")
    compile: bool = numeric(False)
    longest_seconds: float = numeric(100.0, ge=1)
    batch_seconds: float | None = runtime(None, gt=0)


class SpeechBrainExtractor(ABC):
    """Waveforms at 16 kHz to embeddings as the network gives them (not length-normalised).

    Files go through the model in batches, and a vector is the one that its file has alone, to a cosine distance of 1e-5.
    Audio shorter than the least that the convolutions take is repeated up to it; silent audio has weight 0, and silent
    pieces of long audio do not count.
    """

    version: ClassVar[int] = 2
    measures: ClassVar[frozenset[str]] = frozenset({"trials", "pairs", "ranks"})
    similarity: ClassVar[str] = "cosine"
    libraries: ClassVar[tuple[str, ...]] = ("torch", "speechbrain")
    evidence_optional: ClassVar[bool] = False
    sample_rate: int = 16_000
    pool = staticmethod(embedding.pool)

    def __init__(self, settings: Any, weights: Path | None, device: str, threads: int) -> None:
        import torch

        from pipeline.nets import batches, speechbrain_layout

        if weights is None:
            raise ModelMissing(
                f"the {settings.name} extractor was given no weights", where=f"extractor {settings.name}"
            )
        self.settings, self.device, self.threads = settings, device, threads
        dtype = getattr(torch, settings.precision)
        packed, n_mels, self.dimension, self.least_frames = self.network(speechbrain_layout.read_state(weights), dtype)
        self.model = packed.to(device)
        self.front_end = speechbrain_layout.PackedFrontEnd(n_mels).to(device)
        seconds = settings.batch_seconds or batches.SECONDS[torch.device(device).type]
        self.batches = batches.Batches(self._embed, seconds * self.sample_rate, device, threads)
        if settings.compile:
            batches.compiled(
                packed.parts(), lambda: self.batches.run([np.ones(n, np.float32) for n in (16_000, 8_000)])
            )

    @staticmethod
    @abstractmethod
    def network(state: Mapping[str, torch.Tensor], dtype: torch.dtype) -> tuple[Any, int, int, int]:
        """The packed network of a state dict, its mel bands, the dimension of its embedding, and the least frames it takes."""

    def _embed(self, waves: Sequence[np.ndarray]) -> torch.Tensor:
        vectors: torch.Tensor = self.model(*self.front_end(waves))
        return vectors

    def extract(self, waveforms: Sequence[np.ndarray]) -> list[Feature]:
        """Embeddings of waveforms, each float32 [n] at 16 kHz; see the class for short, long and silent ones.

        Raises:
            StageFailed: a piece of audio does not fit into the memory of the device.
        """
        from pipeline.nets.batches import cut

        reasons = [embedding.unusable(wave) for wave in waveforms]
        longest, least = int(self.settings.longest_seconds * self.sample_rate), (self.least_frames - 1) * 160
        pieces: list[np.ndarray] = []
        owners: list[int] = []
        for number, (wave, reason) in enumerate(zip(waveforms, reasons, strict=True)):
            parts = [] if reason else cut(wave, longest)
            parts = [part for part in parts if len(parts) == 1 or not embedding.unusable(part)]
            pieces += [np.resize(part, least) if len(part) < least else part for part in parts]
            owners += [number] * len(parts)
        vectors = self.batches.run(pieces)
        held = np.array(owners)
        return [
            embedding.nothing(self.dimension, reason)
            if reason
            else embedding.as_feature(vectors[held == number].mean(0))
            for number, reason in enumerate(reasons)
        ]
