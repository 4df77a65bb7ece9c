"""Extraction and anonymisation of real speech: LibriSpeech test-other as FLAC and dev-clean as MP3, half of the files each."""

from __future__ import annotations

import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmark.harness import Row, Skipped, interleaved, row, speech


def paths(count: int) -> list[Path]:
    """Half of ``count`` files from librispeech/test-other (FLAC), half from librispeech-dev-clean-mp3, spread over speakers."""
    chosen = []
    for folder, pattern in (("librispeech/test-other", "*.flac"), ("librispeech-dev-clean-mp3", "*.mp3")):
        found, wanted = sorted((speech() / folder).rglob(pattern)), count // 2
        if len(found) < wanted:
            raise Skipped(f"{folder} holds {len(found)} files, {wanted} are needed")
        chosen += found[:: len(found) // wanted][:wanted]
    return chosen


def files(count: int, seconds: float, rate: int) -> list[np.ndarray]:
    """The beginnings of such files at a sampling rate."""
    from pipeline.audio import load, resample

    waves = []
    for path in paths(count):
        wave, own = load(path)
        waves.append(resample(wave[: int(seconds * own)], own, rate))
    return waves


def ge2e() -> list[Row]:
    """Speed of the offline embedding, one thread."""
    import torch

    from pipeline.errors import ModelMissing
    from pipeline.extractors.ge2e import Extractor, Ge2eSettings

    models = Path(os.environ.get("VOICE_PRIVACY_MODELS", Path.home() / ".cache" / "voice-privacy" / "models"))
    try:
        held = Extractor.weights(Ge2eSettings(), models)
    except ModelMissing as missing:
        raise Skipped(str(missing)) from missing
    assert held is not None
    waves = files(20, 60.0, 16_000)
    extractor = Extractor(Ge2eSettings(), held.folder, "cpu", 1)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        extractor.extract(waves[:2])
        (seconds,) = interleaved([lambda: extractor.extract(waves)], 5, time.perf_counter)
    finally:
        torch.set_num_threads(before)
    heard = sum(wave.size for wave in waves) / 16_000
    return [row("ge2e", heard / seconds, "xRT", f"20 files, {heard:.0f} s of speech, 1 thread")]


def pyin() -> list[Row]:
    """pYIN with librosa's bins against librosa's own, a core, at two settings."""
    return [_pyin("pyin_8k", 8000, 256), _pyin("pyin_16k", 16_000, 1024)]


def _pyin(name: str, rate: int, frame: int) -> Row:
    import librosa
    from threadpoolctl import threadpool_limits

    from pipeline.nets.pyin import Tracker

    waves = [wave.astype(np.float64) for wave in files(6, 6.0, rate)]
    tracker = Tracker(rate, frame=frame, hop=rate // 100)

    def ours() -> list[np.ndarray]:
        return [tracker.track(wave).voiced for wave in waves]

    def theirs() -> list[np.ndarray]:
        limits: dict[str, Any] = {
            "fmin": 65.0,
            "fmax": 450.0,
            "sr": rate,
            "frame_length": frame,
            "hop_length": rate // 100,
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [librosa.pyin(wave, **limits)[1] for wave in waves]

    with threadpool_limits(1):
        # Compiles both, and sees that they do the same.
        assert all(np.array_equal(a, b) for a, b in zip(ours(), theirs()))
        mine, librosas = interleaved([ours, theirs], 5)
    heard = sum(wave.size for wave in waves) / rate
    what = f"6 files, {heard:.0f} s, frames of {frame} at {rate // 1000} kHz, 1 thread, to librosa.pyin"
    return row(name, heard / mine, "xRT (CPU)", what, ratio=librosas / mine, at_least=25)


def mcadams() -> list[Row]:
    """The McAdams anonymiser against one frame after the other."""
    from threadpoolctl import threadpool_limits

    from pipeline.anonymisers.mcadams import Anonymiser, McAdamsSettings
    from pipeline.contracts import Utterance
    from tests.anonymisers.test_mcadams import reference

    waves = files(6, 6.0, 16_000)
    anonymiser = Anonymiser(McAdamsSettings(mode="vpc2024", alpha=0.8))
    who = Utterance("utterance", "speaker", "set", 0)

    def ours() -> list[np.ndarray]:
        return [anonymiser.anonymise(wave, 16_000, who).wave for wave in waves]

    def theirs() -> list[np.ndarray]:
        return [reference(wave, 16_000, 0.8, "vpc2024") for wave in waves]

    with threadpool_limits(1):
        far = max(float(np.abs(a - b).max()) for a, b in zip(ours(), theirs()))
        assert far < 2e-4, f"the two differ by {far:.1e}"
        mine, plain = interleaved([ours, theirs], 5)
    heard = sum(wave.size for wave in waves) / 16_000
    what = f"6 files, {heard:.0f} s, 1 thread, against the frame-by-frame algorithm (VPC 2024) of the tests"
    return [row("mcadams", heard / mine, "xRT (CPU)", what, ratio=plain / mine, at_least=3)]
