"""Speed of the exact batches of embeddings: of ECAPA with random weights against SpeechBrain's own, of CAM++ against itself."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tests.benchmark.audio import files
from tests.benchmark.harness import Row, Skipped, interleaved, row

THREADS, BATCH = 2, 8
NARROW, WIDE = [512] * 4 + [1536], [1024] * 4 + [3072]


def embeddings(threads: int = THREADS, runs: int = 5, clock: Any = time.perf_counter) -> list[Row]:
    """Both sizes of ECAPA at equal threads: exact batches, in float32 and bfloat16, single files, and random batches of 8."""
    return [
        *_compare("ecapa_1024", WIDE, 0.9, threads, runs, clock),
        *_compare("ecapa_512", NARROW, 1.1, threads, runs, clock),
    ]


def shuffle(waves: list[np.ndarray]) -> list[list[np.ndarray]]:
    """Batches of files in a random order."""
    order = np.random.default_rng(0).permutation(len(waves))
    return [[waves[item] for item in order[first : first + BATCH]] for first in range(0, len(waves), BATCH)]


def _compare(name: str, channels: list[int], least: float, threads: int, runs: int, clock: Any) -> list[Row]:
    import torch
    from speechbrain.lobes.features import Fbank
    from speechbrain.lobes.models.ECAPA_TDNN import ECAPA_TDNN
    from speechbrain.processing.features import InputNormalization

    from pipeline.extractors.ecapa import EcapaSettings, Extractor

    waves = files(16, 60.0, 16_000)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = ECAPA_TDNN(80, channels=channels, lin_neurons=192).eval()
    front_end, normalise = Fbank(n_mels=80), InputNormalization(norm_type="sentence", std_norm=False)

    def theirs(groups: list[list[np.ndarray]]) -> list[np.ndarray]:
        found = []
        with torch.inference_mode():
            for group in groups:
                lengths = torch.tensor([len(wave) for wave in group])
                padded = torch.nn.utils.rnn.pad_sequence([torch.from_numpy(wave) for wave in group], batch_first=True)
                relative = lengths / lengths.max()
                found += [*model(normalise(front_end(padded), relative), relative)[:, 0].numpy()]
        return found

    def single() -> list[np.ndarray]:
        return theirs([[wave] for wave in waves])

    def padded() -> list[np.ndarray]:
        return theirs(shuffle(waves))

    def extractor(precision: Literal["float32", "bfloat16"]) -> Extractor:
        with tempfile.TemporaryDirectory() as folder:
            torch.save(model.state_dict(), Path(folder) / "embedding_model.ckpt")
            return Extractor(EcapaSettings(source=folder, precision=precision), Path(folder), "cpu", threads)

    exact, half = extractor("float32"), extractor("bfloat16")
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for vector, feature in zip(single(), exact.extract(waves), strict=True):
            far = 1 - float(vector @ feature.vector / np.linalg.norm(vector) / np.linalg.norm(feature.vector))
            assert far < 1e-5, f"the two are {far:.1e} apart"
        half.extract(waves)
        calls = [lambda: exact.extract(waves), lambda: half.extract(waves), single, padded]
        ours, ours_half, alone, eight = interleaved(calls, runs, clock)
    finally:
        torch.set_num_threads(before)
    heard = sum(wave.size for wave in waves) / 16_000
    what = f"{len(waves)} files, {heard:.0f} s, {threads} threads, to SpeechBrain's"
    return [
        row(name, heard / ours, "xRT", f"{what} single files", ratio=alone / ours, at_least=least),
        row(f"{name}_batch8", heard / ours, "xRT", f"{what} random batches of {BATCH}", ratio=eight / ours, at_least=3),
        row(f"{name}_bf16", heard / ours_half, "xRT", f"{what} single files in float32", ratio=alone / ours_half, at_least=1.5),
    ]  # fmt: skip


def campplus(runs: int = 5, clock: Any = time.process_time) -> list[Row]:
    """CAM++ on one thread: exact batches, the plain network file by file, and padded batches of 8 files through it."""
    import torch

    from pipeline.errors import ModelMissing
    from pipeline.extractors.campplus import CampplusSettings, Extractor

    models = Path(os.environ.get("VOICE_PRIVACY_MODELS", Path.home() / ".cache" / "voice-privacy" / "models"))
    settings = CampplusSettings()
    try:
        folder = Extractor.weights(settings, models).folder
    except ModelMissing as missing:
        raise Skipped(str(missing)) from missing
    waves = files(16, 60.0, 16_000)
    exact, plain = Extractor(settings, folder, "cpu", 1), Extractor.pretrained(settings, folder)

    def through(groups: list[list[np.ndarray]]) -> list[np.ndarray]:
        found: list[np.ndarray] = []
        with torch.inference_mode():
            for group in groups:
                padded = torch.nn.utils.rnn.pad_sequence([torch.from_numpy(wave) for wave in group], batch_first=True)
                found += [*plain(Extractor.frames(settings, plain, padded)).numpy()]
        return found

    def single() -> list[np.ndarray]:
        return through([[wave] for wave in waves])

    def eight() -> list[np.ndarray]:
        return through(shuffle(waves))

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for vector, feature in zip(single(), exact.extract(waves), strict=True):
            far = 1 - float(vector @ feature.vector / np.linalg.norm(vector) / np.linalg.norm(feature.vector))
            assert far < 1e-6, f"the two are {far:.1e} apart"
        ours, alone, padded = interleaved([lambda: exact.extract(waves), single, eight], runs, clock)
    finally:
        torch.set_num_threads(before)
    heard = sum(wave.size for wave in waves) / 16_000
    what = f"{len(waves)} files, {heard:.0f} s, processor time of 1 thread"
    return [
        row("campplus", heard / ours, "xRT", what, at_least=45),
        row("campplus_single", heard / alone, "xRT", f"{what}; ratio to the plain network", ratio=alone / ours, at_least=1),
        row("campplus_batch8", heard / padded, "xRT", f"{what}; ratio to its padded batches of {BATCH}", ratio=padded / ours,
            at_least=2.5),
    ]  # fmt: skip
