"""What all speaker embeddings share: how audio is prepared, which audio is unusable, and how torch is set up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline import audio
from pipeline.contracts import ComponentSettings, Extractor, Feature, Preparation, numeric

if TYPE_CHECKING:
    import torch

# Samples taken at a time where double precision is needed: hours of audio then take no more memory than minutes.
_BLOCK = 2**22

SILENCE_DBFS = -100.0
"""Audio below this RMS level holds no speech: the rounding noise of 16-bit audio lies at -101 dBFS."""


class PreparationSettings(ComponentSettings):
    """Settings that all speaker embeddings share: what is done to a recording before the network hears it.

    Attributes:
        trim_zeros: whether samples at both ends of a recording that are exactly zero are dropped, as the attackers of the
            VoicePrivacy Challenges 2024 and 2026 do: a system that pads its output would look more private otherwise.
            Zeros inside stay. The decoded file is trimmed and then brought to 16 kHz, because zeros are exact there; the
            challenge of 2024 resamples first, after which padding is no longer exactly zero near speech. At 16 kHz, the rate of
            all challenge data, both are the same. Of a recording that is cut into pieces each piece is trimmed; recordings
            that are joined are trimmed before.
        resampler: how a recording comes to 16 kHz: ``soxr_hq`` is the better one (:mod:`pipeline.audio`);
            ``torchaudio_sinc`` is that of the challenges. At 16 kHz there is nothing to choose; which it is moves vectors of
            8 kHz recordings (GE2E, LibriSpeech: by a cosine distance of 0.001 in the median and up to 0.012).
    """

    trim_zeros: bool = numeric(True)
    resampler: audio.Resampler = numeric("soxr_hq")


class EmbeddingExtractor(Extractor):
    """An extractor whose settings are :class:`PreparationSettings`."""

    @classmethod
    def preparation(cls, settings: Any) -> Preparation:
        """As the settings say."""
        return Preparation(settings.resampler, settings.trim_zeros)


def level_dbfs(wave: np.ndarray) -> float:
    """RMS level in dB re full scale (a square wave between -1 and 1 is 0 dBFS); -inf for silence."""
    blocks = (wave[start : start + _BLOCK] for start in range(0, len(wave), _BLOCK))
    energy = sum(float(np.square(block, dtype=np.float64).sum()) for block in blocks)
    return 10 * float(np.log10(energy / len(wave))) if energy > 0 else -np.inf


def set_level(wave: np.ndarray, level: str, dbfs: float) -> np.ndarray:
    """A waveform that is not silent, float32 [n], at the RMS level that the settings of an extractor ask for.

    Args:
        wave: float32 [n].
        level: ``normalise`` brings it to ``dbfs``, ``raise_only`` leaves a louder one alone, ``keep`` leaves all.
        dbfs: the level in dB re full scale.
    """
    gain = dbfs - level_dbfs(wave)
    if level == "keep" or (level == "raise_only" and gain < 0):
        return wave
    return np.asarray(wave * 10 ** (gain / 20), dtype=np.float32)


def find_fault(wave: np.ndarray) -> str:
    """Why no embedding can be taken of a waveform, or ''."""
    if len(wave) == 0:
        return "no samples"
    if not np.isfinite(wave).all():
        return "samples that are NaN or infinite"
    if level_dbfs(wave) < SILENCE_DBFS:
        return f"silent: below {SILENCE_DBFS:g} dBFS"
    return ""


def make_feature(vector: np.ndarray) -> Feature:
    """An embedding as a feature of weight 1, or of weight 0 with the reason where it carries nothing."""
    vector = np.ascontiguousarray(vector, dtype=np.float32)
    if not np.isfinite(vector).all():
        return Feature(np.zeros_like(vector), 0.0, "the embedding is not finite")
    if not vector.any():
        return Feature(vector, 0.0, "the embedding is zero")
    return Feature(vector)


def make_unusable(dimension: int, reason: str) -> Feature:
    """The feature of audio of which no embedding can be taken."""
    return Feature(np.zeros(dimension, dtype=np.float32), 0.0, reason)


@contextmanager
def inference(threads: int) -> Iterator[None]:
    """Run a model: no gradients, this many threads, and float32 that is float32 on a GPU too (TF32 moves embeddings)."""
    import torch

    before, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision("highest")
    try:
        with (
            torch.inference_mode(),
            torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False),
        ):
            yield
    finally:
        torch.set_num_threads(before)
        torch.set_float32_matmul_precision(precision)


def run_each(
    function: Callable[[np.ndarray], Feature], waveforms: Sequence[np.ndarray], device: str, threads: int
) -> list[Feature]:
    """The feature of each waveform, in order.

    On a CPU, files run beside each other with one thread each: the operations are small, and threads that wait for each
    other inside every one of them lose most of a core as soon as something else runs on the machine. A vector is then also
    the same whatever the number of threads.
    """
    import torch

    def run(wave: np.ndarray) -> Feature:
        with torch.inference_mode():
            return function(wave)

    if device != "cpu":
        with inference(threads):
            return [run(wave) for wave in waveforms]
    with inference(1), ThreadPoolExecutor(threads) as pool:
        return list(pool.map(run, waveforms))


def to_tensor(wave: np.ndarray, device: str) -> torch.Tensor:
    """A waveform as a float32 tensor [n] on a device."""
    import torch

    return torch.from_numpy(np.ascontiguousarray(wave, dtype=np.float32)).to(device)
