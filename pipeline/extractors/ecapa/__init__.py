"""ECAPA-TDNN speaker embeddings: SpeechBrain's class with weights of the hub, of a folder, or trained in the run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pipeline.nets.speechbrain import SpeechBrainExtractor, SpeechBrainSettings
from pipeline.registry import numeric, runtime
from pipeline.weights.find import Weights, embedding_weights

if TYPE_CHECKING:
    import torch

HUB, REVISION = "speechbrain/spkrec-ecapa-voxceleb", "0f99f2d0ebe89ac095bcc5903c4dd8f72b367286"
CHECKSUMS = {(HUB, REVISION): "0575cb64845e6b9a10db9bcb74d5ac32b326b8dc90352671d345e2ee3d0126a2"}

TRAINED_BY = "embedding"
"""The trainer that can make its weights, from original or from anonymised speech."""


class Settings(SpeechBrainSettings):
    """Settings of the ECAPA extractor: see the base class."""

    name: Literal["ecapa"] = numeric("ecapa")
    source: str = runtime(HUB, min_length=1)
    revision: str = runtime(REVISION, min_length=1)


class Extractor(SpeechBrainExtractor):
    """ECAPA-TDNN; audio of less than 40 ms (5 frames) is repeated up to that. See the base class for the rest."""

    @staticmethod
    def network(state: Mapping[str, torch.Tensor], dtype: torch.dtype) -> tuple[Any, int, int, int]:
        """The packed network of a state dict, its mel bands, the dimension of its embedding, and the least frames it takes."""
        from pipeline.extractors.ecapa import network as ecapa

        model, arguments = ecapa.build(dict(state))
        packed = ecapa.Packed(model, dtype)
        return packed, int(arguments["input_size"]), int(arguments["lin_neurons"]), ecapa.least_frames(arguments)


def weights(settings: Settings, models: Path) -> Weights | None:
    """The weights on this machine; None if they are trained in the run.

    Raises:
        ModelMissing: they are not here, with the command that fetches them.
    """
    return embedding_weights(settings, settings.source, settings.revision, CHECKSUMS, models)
