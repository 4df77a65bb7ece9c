"""x-vectors: SpeechBrain's TDNN class with weights of the hub, of a folder, or trained in the run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pipeline.nets.speechbrain import SpeechBrainExtractor, SpeechBrainSettings
from pipeline.registry import numeric, runtime
from pipeline.weights.find import Weights, embedding_weights

if TYPE_CHECKING:
    import torch

HUB, REVISION = "speechbrain/spkrec-xvect-voxceleb", "e2cc27f853f99bd5d539432f0cba3f124c059f71"
# No sha256 of these weights was found in print: what fetch-models brings is recorded beside them, not compared.
CHECKSUMS: dict[tuple[str, str], str] = {}

TRAINED_BY = "embedding"
"""The trainer that can make its weights, from original or from anonymised speech."""


class Settings(SpeechBrainSettings):
    """Settings of the x-vector extractor: see the base class."""

    name: Literal["xvector"] = numeric("xvector")
    source: str = runtime(HUB, min_length=1)
    revision: str = runtime(REVISION, min_length=1)


class Extractor(SpeechBrainExtractor):
    """x-vector TDNN; audio of less than 30 ms (4 frames) is repeated up to that. See the base class for the rest."""

    @staticmethod
    def network(state: Mapping[str, torch.Tensor], dtype: torch.dtype) -> tuple[Any, int, int, int]:
        """The packed network of a state dict, its mel bands, the dimension of its embedding, and the least frames it takes."""
        from pipeline.extractors.xvector import network as xvector

        model, arguments = xvector.build(dict(state))
        packed = xvector.Packed(model, dtype)
        return packed, int(arguments["in_channels"]), int(arguments["lin_neurons"]), xvector.least_frames(arguments)


def weights(settings: Settings, models: Path) -> Weights | None:
    """The weights on this machine; None if they are trained in the run.

    Raises:
        ModelMissing: they are not here, with the command that fetches them.
    """
    return embedding_weights(settings, settings.source, settings.revision, CHECKSUMS, models)
