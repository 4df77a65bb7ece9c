"""What SpeechBrain's embedding networks share: their settings, and how audio goes through them in batches.

``hyperparams.yaml`` can run code and is never read; what it would say about sizes stands in the shapes of the tensors.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from pipeline.contracts import Feature, Training, Weights, numeric, runtime
from pipeline.errors import ConfigError, DataError, ModelMissing
from pipeline.nets.embedding import EmbeddingExtractor, PreparationSettings
from pipeline.nets.trainable import Trainable
from pipeline.weights.fetch import SourcedWeights
from pipeline.weights.find import HubModel, first_file

if TYPE_CHECKING:
    import torch

EMBEDDING_FILES = ("embedding_model.safetensors", "embedding_model.ckpt")
"""What the weights of a speaker embedding are called; the first that a folder holds is taken."""


class SpeechBrainSettings(PreparationSettings):
    """Settings that the extractors with SpeechBrain's networks share; how recordings are prepared stands at the base class.

    Attributes:
        source: a hub id, a folder that holds ``embedding_model.ckpt`` or ``embedding_model.safetensors``, or ``trained``
            (the weights come from a training task of the run). In configurations also ``auto``: ``trained`` where there is
            a training set and a trainer, else the hub id that is the default.
        revision: revision of a hub id.
        precision: of the convolutions; the front end and the statistics stay in float32. ``bfloat16`` is 1.7 times as fast
            on a CPU that has it (avx512_bf16), and moves embeddings by up to 2e-5 in cosine distance (trained ECAPA on
            real speech; x-vectors 1e-5).
        longest_seconds: longer audio is cut into the fewest uniform pieces not longer than this, and its embedding is the
            mean of theirs. (The VPC 2020 recipe stops at 100 s.)
        batch_seconds: audio in a batch; the default is 10 s on a CPU and 600 s on a GPU. It does not change a vector by
            more than rounding does (a cosine distance of 1e-5 at the very most).

    ``source`` and ``revision`` stay out of keys: what they lead to, the digest of the weights, is in them.
    """

    source: str = runtime(min_length=1)
    revision: str = runtime(min_length=1)
    precision: Literal["float32", "bfloat16"] = numeric("float32")
    longest_seconds: float = numeric(100.0, ge=1)
    batch_seconds: float | None = runtime(None, gt=0)


class SpeechBrainExtractor(SourcedWeights, EmbeddingExtractor, Trainable):
    """Waveforms at 16 kHz to embeddings as the network gives them (not length-normalised).

    Files go through the model in batches, and a vector is the one that its file has alone, to a cosine distance of 1e-5.
    Audio shorter than the least that the convolutions take is repeated up to it; silent audio has weight 0, and silent
    pieces of long audio do not count.

    Attributes:
        checksums: sha256 of ``embedding_model.ckpt`` by (hub id, revision), where it is known.
        downloads: bytes and licence by hub id, as its page says.
    """

    libraries = ("torch", "speechbrain")
    checksums: ClassVar[Mapping[tuple[str, str], str]] = {}
    downloads: ClassVar[Mapping[str, tuple[int, str]]] = {}

    def __init__(self, settings: Any, weights: Path | None, device: str, threads: int) -> None:
        import torch

        from pipeline.nets import batches, speechbrain_networks

        if weights is None:
            raise ModelMissing(
                f"the {settings.name} extractor was given no weights", where=f"extractor {settings.name}"
            )
        super().__init__(settings, weights, device, threads)
        dtype = torch.bfloat16 if settings.precision == "bfloat16" else torch.float32
        packed, n_mels, self.dimension, self.least_frames = self.network(read_state(weights), dtype)
        self.model = packed.to(device)
        self.front_end = speechbrain_networks.PackedFrontEnd(n_mels).to(device)
        seconds = settings.batch_seconds or batches.SECONDS[torch.device(device).type]
        self.batches = batches.Batches(self._embed, seconds * self.sample_rate, device, threads)

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
        longest, least = int(self.settings.longest_seconds * self.sample_rate), (self.least_frames - 1) * 160
        return self.batches.embed(waveforms, self.dimension, longest, least)

    @classmethod
    def embeddings(cls, model: torch.nn.Module, frames: torch.Tensor) -> torch.Tensor:
        # SpeechBrain's networks give [b, 1, d].
        vectors: torch.Tensor = model(frames)[:, 0]
        return vectors

    @classmethod
    def resolved(cls, settings: Any, chosen: Training | None) -> Any:
        """``source: auto`` decided: trained in the run if it can be, else the hub's model that is the default."""
        if settings.source != "auto":
            return settings
        usual = cls.Settings.model_fields["source"].default
        return settings.model_copy(update={"source": "trained" if cls.adaptation(settings, chosen) else usual})

    @classmethod
    def training(cls, settings: Any, chosen: Training | None) -> Training | None:
        """The chosen trainer for ``source: trained``."""
        if settings.source != "trained":
            return None
        training = cls.adaptation(settings, chosen)
        if training is None:
            raise ConfigError("source=trained needs a trainer: add train=default", where="source")
        return training

    @classmethod
    def adaptation(cls, settings: Any, chosen: Training | None) -> Training | None:
        """The chosen trainer if it is one of networks."""
        return chosen if chosen is not None and chosen.trainer.trains(cls) else None

    @classmethod
    def weights(cls, settings: Any, models: Path) -> Weights | None:
        """As of :class:`SourcedWeights`; None if the run trains them."""
        return None if settings.source == "trained" else super().weights(settings, models)

    @classmethod
    def describe_hub_model(cls, settings: Any) -> HubModel:
        checksum = cls.checksums.get((settings.source, settings.revision))
        size, licence = cls.downloads.get(settings.source, (None, ""))
        return HubModel(
            settings.source,
            settings.revision,
            EMBEDDING_FILES,
            {EMBEDDING_FILES[1]: checksum} if checksum else {},
            beside=("mean_var_norm_emb.ckpt", "hyperparams.yaml"),
            holds="speaker embedding",
            otherwise="name a model in SpeechBrain's layout",
            bytes=size,
            licence=licence,
        )


def embedding_file(folder: Path) -> Path | None:
    """The file of a folder that holds the weights of a speaker embedding, if there is one."""
    return first_file(folder, EMBEDDING_FILES)


def read_state(folder: Path) -> dict[str, torch.Tensor]:
    """The tensors of the weights of a speaker embedding in a folder.

    Raises:
        DataError: there are none, or the file holds anything but plain tensors by name.
    """
    from pipeline.nets import states

    path = embedding_file(folder)
    if path is None:
        raise DataError("a folder holds no speaker embedding", where=str(folder))
    return states.read_tensors(path)
