"""ECAPA-TDNN speaker embeddings: SpeechBrain's class with weights of the hub, of a folder, or trained in the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pipeline.contracts import numeric, runtime
from pipeline.errors import ConfigError
from pipeline.nets.speechbrain import SpeechBrainExtractor, SpeechBrainSettings, embedding_file
from pipeline.nets.trainable import Sizes

if TYPE_CHECKING:
    import torch

VERSION = "ecapa 2"
HUB, REVISION = "speechbrain/spkrec-ecapa-voxceleb", "0f99f2d0ebe89ac095bcc5903c4dd8f72b367286"
CHECKSUMS = {(HUB, REVISION): "0575cb64845e6b9a10db9bcb74d5ac32b326b8dc90352671d345e2ee3d0126a2"}
DOWNLOADS = {HUB: (83_300_000, "Apache-2.0")}


class EcapaSettings(SpeechBrainSettings):
    """Settings of the ECAPA extractor: see the base class."""

    name: Literal["ecapa"] = numeric("ecapa")
    source: str = runtime(HUB, min_length=1)
    revision: str = runtime(REVISION, min_length=1)


class Extractor(SpeechBrainExtractor):
    """ECAPA-TDNN; audio of less than 40 ms (5 frames) is repeated up to that. See the base class for the rest."""

    Settings = EcapaSettings
    checksums = CHECKSUMS
    downloads = DOWNLOADS

    @classmethod
    def is_strong(cls, settings: EcapaSettings) -> bool:
        """With weights of thousands of speakers; trained in the run, it knows as many as there are."""
        return settings.source not in ("trained", "auto")

    @classmethod
    def takes_checkpoint(cls, settings: EcapaSettings) -> bool:
        return settings.source in ("auto", "trained")

    @classmethod
    def with_checkpoint(cls, settings: EcapaSettings, folder: Path, beside: Path) -> EcapaSettings | None:
        """The attacker of the VoicePrivacy Challenge 2024; that of 2026, which hears WavLM too, is another network."""
        if not cls.takes_checkpoint(settings) or embedding_file(folder) is None:
            return None
        if any((place / "WavLM-Large.pt").is_file() for place in (folder, folder.parent, beside, beside.parent)):
            return None
        return settings.model_copy(update={"source": str(folder)})

    @staticmethod
    def network(state: Mapping[str, torch.Tensor], dtype: torch.dtype) -> tuple[Any, int, int, int]:
        from pipeline.nets import speechbrain_networks as networks

        model, arguments = networks.build_ecapa(dict(state))
        least = networks.count_least_ecapa_frames(arguments)
        return networks.PackedEcapa(model, dtype), arguments["input_size"], arguments["lin_neurons"], least

    @classmethod
    def untrained(cls, sizes: Sizes) -> torch.nn.Module:
        from pipeline.nets import speechbrain_networks as networks

        if any(width % networks.RES2NET_SCALE for width in sizes.channels):
            raise ConfigError(
                f"ECAPA channels are multiples of {networks.RES2NET_SCALE}", where=f"channels {sizes.channels}"
            )
        assert sizes.attention is not None
        return networks.make_ecapa(sizes.n_mels, [*sizes.channels, sizes.aggregation], sizes.embedding, sizes.attention)

    @classmethod
    def forward_in_training(cls, model: torch.nn.Module, dtype: torch.dtype) -> Callable[[torch.Tensor], torch.Tensor]:
        from pipeline.extractors.ecapa.training_network import Network

        return Network(model, dtype)
