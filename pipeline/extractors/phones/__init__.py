"""Histograms of phone-like units as a speaker feature: what similarity rank disclosure measures of phonetic habits.

The units are the codes of a VQ-VAE, 50 a second (:mod:`pipeline.extractors.phones.network`); those of active speech are counted and
normalised, and compared by Euclidean distance (arXiv 2605.07291, section 4.2.4). The level of a recording is normalised
before, over its active speech.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from pipeline import audio, contracts
from pipeline.contracts import ComponentSettings, Feature, Training, Weights, numeric, runtime
from pipeline.errors import ModelMissing
from pipeline.extractors.phones.training import WEIGHTS, PhonesTrainerSettings, Trainer
from pipeline.nets import activity
from pipeline.nets.embedding import find_fault, inference
from pipeline.nets.histograms import pool_histograms
from pipeline.weights.find import take_from_folder

log = logging.getLogger(__name__)

VERSION = "phones 1"
INACTIVE = "no active speech"


class PhonesSettings(ComponentSettings):
    """Settings of the phone extractor.

    Attributes:
        source: ``trained`` (the run trains the network on the data set's training speakers) or a folder that holds
            ``phones.safetensors``. It stays out of keys: the digest of the weights is in them.
        training: how the network is trained.
        range_db, floor_dbfs, hangover: which 20 ms are active, see :mod:`pipeline.nets.activity`.
        batch_seconds: padded audio that goes through the network at a time on a GPU.
    """

    name: Literal["phones"] = numeric("phones")
    source: str = runtime("trained", min_length=1)
    training: PhonesTrainerSettings = numeric(PhonesTrainerSettings())
    range_db: float = numeric(activity.RANGE_DB, gt=0)
    floor_dbfs: float = numeric(activity.FLOOR_DBFS, le=0)
    hangover: int = numeric(activity.HANGOVER, ge=0)
    batch_seconds: float = runtime(1800.0, gt=0)


@dataclass(frozen=True)
class _Prepared:
    """A waveform with the gain that brings its active speech to power 1, and which of its codes are active."""

    wave: np.ndarray
    gain: float
    active: np.ndarray
    reason: str


class Extractor(contracts.Extractor):
    """Waveforms at 16 kHz to histograms of codes.

    The weight of a vector is its number of active codes; without any it is 0, with the reason. Such audio is still an
    observation: it tells an attacker who looks at phones nothing, so all references tie.
    """

    Settings = PhonesSettings
    libraries = ("torch",)
    compared_as = frozenset({"ranks"})
    similarity = "euclidean"
    evidence_optional = True
    pool = staticmethod(pool_histograms)
    settings: PhonesSettings

    def __init__(self, settings: PhonesSettings, weights: Path | None, device: str, threads: int) -> None:
        from pipeline.extractors.phones import network as vqvae
        from pipeline.nets.states import read_tensors

        if weights is None:
            raise ModelMissing("the phones extractor was given no weights", where="extractor phones")
        super().__init__(settings, weights, device, threads)
        self.encoder = vqvae.Encoder(read_tensors(weights / WEIGHTS), device)
        self.dimension = self.encoder.n_codes
        self.batch_seconds = settings.batch_seconds

    def extract(self, waveforms: Sequence[np.ndarray]) -> list[Feature]:
        """Histograms of waveforms, each float32 [n] at 16 kHz."""
        return [self._histogram(codes, reason) for codes, reason in self._active_codes(waveforms)]

    def segments(self, recordings: Sequence[tuple[np.ndarray, int]], count: int) -> list[Feature]:
        """Histograms of ``count`` uniform runs of the active codes of recordings, joined in order.

        Each recording is encoded whole. No code is lost or used twice; runs are equally long, give or take one code.
        """
        waveforms = [audio.resample(wave, rate, self.sample_rate) for wave, rate in recordings]
        codes = np.concatenate([np.zeros(0, np.int64), *(codes for codes, _ in self._active_codes(waveforms))])
        borders = [-(-len(codes) * number // count) for number in range(count + 1)]
        return [self._histogram(codes[low:high], "") for low, high in itertools.pairwise(borders)]

    def _histogram(self, codes: np.ndarray, reason: str) -> Feature:
        if not len(codes):
            return Feature(np.zeros(self.dimension, np.float32), 0.0, reason or INACTIVE)
        counts = np.bincount(codes, minlength=self.dimension)
        return Feature((counts / len(codes)).astype(np.float32), float(len(codes)))

    def _active_codes(self, waveforms: Sequence[np.ndarray]) -> list[tuple[np.ndarray, str]]:
        """The codes of the active speech of each waveform, int64, and why it is unusable or ''.

        On a CPU, files run beside each other, each alone and with one thread; on a GPU they go together.
        """
        with inference(1), ThreadPoolExecutor(self.threads) as pool:
            if self.device == "cpu":
                return list(pool.map(lambda wave: self._encoded([self._prepared(wave)])[0], waveforms))
            return self._encoded(list(pool.map(self._prepared, waveforms)))

    def _prepared(self, wave: np.ndarray) -> _Prepared:
        reason = find_fault(wave)
        if reason:
            return _Prepared(wave[:0], 0.0, np.zeros(0, dtype=bool), reason)
        power = activity.powers(wave)
        level = activity.detect(power).level
        active = activity.detect(power, self.settings.range_db, self.settings.floor_dbfs, self.settings.hangover).active
        if level == 0 or not active.any():
            return _Prepared(wave[:0], 0.0, np.zeros(0, dtype=bool), INACTIVE)
        return _Prepared(wave, level**-0.5, active, "")

    def _encoded(self, prepared: Sequence[_Prepared]) -> list[tuple[np.ndarray, str]]:
        import torch

        waves, gains = [each.wave for each in prepared], [each.gain for each in prepared]
        while True:
            try:
                # One block at a time keeps to the caches of a core, and a file then depends on nothing but itself.
                codes = self.encoder.codes(waves, gains, 0.0 if self.device == "cpu" else self.batch_seconds)
                break
            except torch.OutOfMemoryError:
                if self.batch_seconds < 1:
                    raise
                self.batch_seconds /= 2
                log.warning("phones: out of GPU memory; batches of %g s from here on", self.batch_seconds)
        return [(own[each.active], each.reason) for own, each in zip(codes, prepared)]

    @classmethod
    def weights(cls, settings: PhonesSettings, models: Path) -> Weights | None:
        """The weights on this machine; None if they are trained in the run.

        Raises:
            ModelMissing: the folder does not hold them, with the command that trains some.
        """
        if settings.source == "trained":
            return None
        folder = Path(settings.source).expanduser()
        if not (folder / WEIGHTS).is_file():
            raise ModelMissing(
                f"the folder '{settings.source}' holds no {WEIGHTS}",
                where="extractor phones, setting source",
                remedy="name a folder that does, set extractor.phones.source=trained, or train a network with "
                "voice-privacy train 'extractor=[phones]' dataset=librispeech dataset.train=FOLDER",
            )
        return take_from_folder(folder, [WEIGHTS])

    @classmethod
    def training(cls, settings: PhonesSettings, chosen: Training | None) -> Training | None:
        """Its own trainer, whatever is chosen."""
        return Training(Trainer, settings.training) if settings.source == "trained" else None
