"""x-vectors: SpeechBrain's TDNN class with weights of the hub, of a folder, or trained in the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from pipeline.contracts import numeric, runtime
from pipeline.nets.speechbrain import SpeechBrainExtractor, SpeechBrainSettings
from pipeline.nets.trainable import Sizes

if TYPE_CHECKING:
    import torch

VERSION = "xvector 2"
HUB, REVISION = "speechbrain/spkrec-xvect-voxceleb", "e2cc27f853f99bd5d539432f0cba3f124c059f71"
DOWNLOADS = {HUB: (16_900_000, "Apache-2.0")}
# No sha256 of these weights was found in print: what fetch-models brings is recorded beside them, not compared.


class XVectorSettings(SpeechBrainSettings):
    """Settings of the x-vector extractor: see the base class."""

    name: Literal["xvector"] = numeric("xvector")
    source: str = runtime(HUB, min_length=1)
    revision: str = runtime(REVISION, min_length=1)


class Extractor(SpeechBrainExtractor):
    """x-vector TDNN; audio of less than 30 ms (4 frames) is repeated up to that. See the base class for the rest."""

    Settings = XVectorSettings
    downloads = DOWNLOADS
    without = frozenset({"attention"})

    @staticmethod
    def network(state: Mapping[str, torch.Tensor], dtype: torch.dtype) -> tuple[Any, int, int, int]:
        from pipeline.nets import speechbrain_networks as networks

        model, arguments = networks.build_xvector(dict(state))
        least = networks.count_least_xvector_frames(arguments)
        return networks.PackedXvector(model, dtype), arguments["in_channels"], arguments["lin_neurons"], least

    @classmethod
    def untrained(cls, sizes: Sizes) -> torch.nn.Module:
        from pipeline.nets import speechbrain_networks as networks

        return networks.make_xvector(sizes.n_mels, [*sizes.channels, sizes.aggregation], sizes.embedding)
