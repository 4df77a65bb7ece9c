"""Speaker embeddings on WavLM: W-NT of the paper on SRD, WavLM itself, and the attacker of the VoicePrivacy Challenge 2026.

Layouts, told by the files of a folder:

- ``w_nt``: ``config.json`` and ``model.safetensors`` of ``Orange/Speaker-wavLM-pro`` (or ``-tbr``, timbre, ``-id``, identity): WavLM
  Large fine-tuned on speakers, and a head. Licence CC-BY-SA-3.0: what is made of the weights, fine-tuned ones among it, is shared
  alike.
- ``microsoft``: ``WavLM-Large.pt``, a ``{cfg, model}``, or ``microsoft/wavlm-large`` of the hub. The embedding is mean and deviation
  over time of the last hidden state, what W-NT's head takes too. It was never trained on speakers: a start for fine-tuning, and a weak
  attacker as it is. Licence MIT in Microsoft's repository, CC-BY-SA-3.0 on the hub.
- ``ssl_ecapa``: ``embedding_model.ckpt`` beside ``WavLM-Large.pt``, as the VoicePrivacy Challenge 2026 gives them out in
  ``exp/asv_ssl``. The challenge's code is GPL; none of it is here, and the weights come with its terms.

W-NT of anonymised speech is not published: ``train=finetune`` makes it of any of the three, which gives W-NT_orig and W-NT_anon as
features of similarity rank disclosure.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from pipeline.contracts import Feature, Training, Weights, numeric, runtime
from pipeline.errors import ConfigError, DataError, ModelMissing
from pipeline.extractors.wavlm import layouts
from pipeline.nets import embedding
from pipeline.nets.embedding import EmbeddingExtractor, PreparationSettings
from pipeline.nets.trainable import Finetunable, choose_finetuning
from pipeline.weights.fetch import SourcedWeights
from pipeline.weights.find import HubModel, find_hub_weights, first_file, is_hub_id, take_from_folder

if TYPE_CHECKING:
    import torch

    from pipeline.extractors.wavlm.backbone import Network

VERSION = "wavlm 1"
HUB, REVISION = "Orange/Speaker-wavLM-pro", "main"
SHARED_ALIKE = "CC-BY-SA-3.0 (what is made of them is shared alike)"
DOWNLOADS = {
    **{f"Orange/Speaker-wavLM-{kind}": (1_270_000_000, SHARED_ALIKE) for kind in ("pro", "tbr", "id")},
    "microsoft/wavlm-large": (1_260_000_000, SHARED_ALIKE),
}
"""Bytes and licence of models of the hub, as their pages say."""


class WavlmSettings(PreparationSettings):
    """Settings of the WavLM extractor.

    Attributes:
        source: a hub id or a folder.
        revision: revision of a hub id.
        layout: of the folder; ``auto`` tells it by the files.
        embedding_normalisation: ``unit`` scales an embedding to length 1; ``none`` leaves it as the network gives it (that of
            W-NT has length 1, less after the mean of pieces); ``sign_vpc2026june`` keeps the sign of each value alone, as the VoicePrivacy
            Challenge 2026 did until its fixes of September 2026 by a normalisation along the wrong axis: for comparison with tables
            of that time, and a weaker attack.
        longest_seconds: longer audio is cut into the fewest uniform pieces not longer than this, and its embedding is the
            mean of theirs. (W-NT's demo stops at 20 s; the challenge takes whole files.)

        backbone: the folder with the WavLM that the branches of ``ssl_ecapa`` stand on, where it does not lie beside them: checkpoints
            of the challenge hold the branches alone.

    ``source``, ``revision``, ``layout`` and ``backbone`` stay out of keys: what they lead to, the digest of the files that are read, is in them.
    """

    name: Literal["wavlm"] = numeric("wavlm")
    source: str = runtime(HUB, min_length=1)
    revision: str = runtime(REVISION, min_length=1)
    layout: Literal["auto", "w_nt", "microsoft", "ssl_ecapa"] = runtime("auto")
    backbone: str | None = runtime(None)
    embedding_normalisation: Literal["none", "unit", "sign_vpc2026june"] = numeric("unit")
    longest_seconds: float = numeric(20.0, ge=1)


class Extractor(SourcedWeights, EmbeddingExtractor, Finetunable):
    """Waveforms at 16 kHz to embeddings of a network on WavLM.

    Files go through the network one at a time, so that a vector depends on its own audio alone. Audio shorter than the least that
    the network takes (45 ms; 105 ms for ``ssl_ecapa``) is repeated up to it; silent audio has weight 0, and silent pieces of long
    audio do not count.
    """

    Settings = WavlmSettings
    libraries = ("torch", "transformers", "speechbrain")
    settings: WavlmSettings

    def __init__(self, settings: WavlmSettings, weights: Path | None, device: str, threads: int) -> None:
        if weights is None:
            raise ModelMissing("the WavLM extractor was given no weights", where=f"extractor {settings.name}")
        super().__init__(settings, weights, device, threads)
        self.network = _load(settings, weights).to(device)
        self.dimension = self.network.dimension

    def extract(self, waveforms: Sequence[np.ndarray]) -> list[Feature]:
        """Embeddings of waveforms, each float32 [n] at 16 kHz; see the class for short, long and silent ones."""
        from pipeline.nets.batches import cut_evenly

        longest = int(self.settings.longest_seconds * self.sample_rate)

        def embed(wave: np.ndarray) -> Feature:
            reason = _unusable(wave)
            if reason:
                return embedding.make_unusable(self.dimension, reason)
            parts = cut_evenly(wave, longest)
            usable = [part for part in parts if len(parts) == 1 or not _unusable(part)]
            vectors = [self.network(embedding.to_tensor(part, self.device)[None])[0].cpu().numpy() for part in usable]
            vector = np.mean(vectors, axis=0)
            length = np.linalg.norm(vector)
            if self.settings.embedding_normalisation == "sign_vpc2026june":
                vector = np.sign(vector)
            elif self.settings.embedding_normalisation == "unit" and length > 0:
                vector = vector / length
            return embedding.make_feature(vector)

        return embedding.run_each(embed, waveforms, self.device, self.threads)

    # Weights ---------------------------------------------------------------------------------------------------------

    @classmethod
    def weights(cls, settings: WavlmSettings, models: Path) -> Weights:
        """A local folder as it is, or a model of the hub in ``models`` or in the hub's own cache.

        Raises:
            ModelMissing: they are not here; with the command that fetches them, or what to put where.
            DataError: ``config.json`` is not one of the layout.
            ConfigError: they are here, and transformers is not installed.
        """
        folder = Path(settings.source).expanduser()
        if is_hub_id(settings.source):
            command = cls.get_fetch_command(settings, models)
            folder = find_hub_weights(cls.describe_hub_model(settings), models, command).folder
        layout = layouts.recognise(folder, settings.layout, settings.backbone)
        _require_transformers()
        return take_from_folder(folder, layout.files)

    @classmethod
    def fetch(cls, settings: WavlmSettings, models: Path) -> None:
        try:
            super().fetch(settings, models)
        except ModelMissing as error:
            if is_hub_id(settings.source):
                error.remedy = f"{error.remedy}; {layouts.CONFIG} belongs beside it"
            raise

    @classmethod
    def describe_hub_model(cls, settings: WavlmSettings) -> HubModel:
        size, licence = DOWNLOADS.get(settings.source, (None, ""))
        return HubModel(
            settings.source,
            settings.revision,
            (*layouts.BRANCHES, *layouts.MICROSOFT, *reversed(layouts.TENSORS)),
            beside=(layouts.CONFIG,),
            holds="WavLM weights",
            otherwise="name a model whose files are " + "; or ".join(layouts.WANTED.values()),
            bytes=size,
            licence=licence,
        )

    @classmethod
    def takes_checkpoint(cls, settings: WavlmSettings) -> bool:
        return settings.source == HUB

    @classmethod
    def with_checkpoint(cls, settings: WavlmSettings, folder: Path, beside: Path) -> WavlmSettings | None:
        """The attacker of the VoicePrivacy Challenge 2026, its branches on the WavLM of ``exp/asv_ssl``."""
        if not cls.takes_checkpoint(settings) or first_file(folder, layouts.BRANCHES) is None:
            return None
        for place in (folder, beside, folder.parent, beside.parent):
            if first_file(place, layouts.MICROSOFT) is not None:
                return settings.model_copy(
                    update={"source": str(folder), "layout": "ssl_ecapa", "backbone": str(place)}
                )
        return None

    @classmethod
    def is_strong(cls, settings: WavlmSettings) -> bool:
        """Not the statistics of a network that has learnt no speakers."""
        if settings.layout == "auto" and not is_hub_id(settings.source):
            try:
                folder = Path(settings.source).expanduser()
                return layouts.recognise(folder, "auto", settings.backbone).layout != "microsoft"
            except (ModelMissing, DataError):
                return False
        return settings.layout != "microsoft" and not settings.source.startswith("microsoft/")

    @classmethod
    def adaptation(cls, settings: WavlmSettings, chosen: Training | None) -> Training | None:
        """The chosen trainer if it can fine-tune, else fine-tuning as it is by default."""
        return choose_finetuning(cls, chosen)

    # Fine-tuning -----------------------------------------------------------------------------------------------------

    @classmethod
    def pretrained(cls, settings: WavlmSettings, weights: Path) -> torch.nn.Module:
        """The network of a folder; a WavLM without a head gets one like W-NT's."""
        network = _load(settings, weights)
        network.begin()
        return network.eval()


def _unusable(wave: np.ndarray) -> str:
    """Why no embedding can be taken of a waveform, or ''; a constant has no deviation to divide by."""
    return embedding.find_fault(wave) or ("the same value throughout" if wave.min() == wave.max() else "")


def _load(settings: WavlmSettings, folder: Path) -> Network:
    """The network of a folder, in evaluation mode and float32 on the CPU."""
    _require_transformers()
    layout = layouts.recognise(folder, settings.layout, settings.backbone)
    if layout.layout == "ssl_ecapa":
        from pipeline.extractors.wavlm import ssl_ecapa

        return ssl_ecapa.load(folder, layout)
    from pipeline.extractors.wavlm import backbone

    return backbone.load_pooled(folder, layout)


def _require_transformers() -> None:
    if importlib.util.find_spec("transformers") is None:
        raise ConfigError(
            "the WavLM extractor needs transformers, which is not installed",
            where="extractor wavlm",
            remedy="run pip install 'voice-privacy-pipeline[wavlm]', or pip install transformers",
        )
