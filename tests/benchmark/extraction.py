"""The extract stage as a whole: features together against one after the other, phone codes, and memory."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tests.benchmark.audio import files, paths
from tests.benchmark.harness import Row, apart, interleaved, row, speech

THREADS = 2


def _extractors(folder: Path) -> dict[str, Any]:
    """ECAPA-512 and phones with fresh weights, which are as fast as trained ones, and F0."""
    import torch
    from safetensors.torch import save_file

    from pipeline.extractors import ecapa, f0, phones
    from pipeline.extractors.phones import training as trainer
    from pipeline.nets import speechbrain_networks as network
    from pipeline.nets import waveforms as packed

    with torch.random.fork_rng():
        torch.manual_seed(0)
        state = network.make_ecapa(80, [512, 512, 512, 512, 1536], 192, 128).state_dict()
    for name in ("ecapa", "phones"):
        (folder / name).mkdir()
    save_file(
        {key: tensor.contiguous() for key, tensor in state.items()}, folder / "ecapa" / "embedding_model.safetensors"
    )
    waves = [wave.astype(np.float32) for wave in files(4, 4.0, 16_000)]
    trainer.Trainer.train(
        trainer.PhonesTrainerSettings(steps=2), packed.pack_waveforms(waves, ["a", "a", "b", "b"]), folder / "phones"
    )
    return {
        "ecapa": ecapa.Extractor(ecapa.EcapaSettings(source=str(folder / "ecapa")), folder / "ecapa", "cpu", THREADS),
        "f0": f0.Extractor(f0.F0Settings(), None, "cpu", THREADS),
        "phones": phones.Extractor(
            phones.PhonesSettings(source=str(folder / "phones")), folder / "phones", "cpu", THREADS
        ),
    }


def _rows(paths: list[Path]) -> pd.DataFrame:
    import soundfile

    from pipeline.files import file_digest

    headers = [soundfile.info(path) for path in paths]
    return pd.DataFrame(
        {"path": [str(path) for path in paths], "sha256": [file_digest(path) for path in paths], "samples": [one.frames for one in headers], "sample_rate": [one.samplerate for one in headers]}
    )  # fmt: skip


def _pass(chosen: dict[str, Any], rows: pd.DataFrame) -> None:
    from pipeline.nets import memory
    from pipeline.protocol.cuts import Whole, describe_want
    from pipeline.stages.features import compute

    wants = [describe_want(extractor) for extractor in chosen.values()]
    for chunk in compute.decoded(compute.chunks(rows, Whole(), "cpu"), Whole(), wants, THREADS):
        for extractor in chosen.values():
            Whole().features(extractor, chunk)
            memory.release_free_memory()


def together() -> list[Row]:
    """ECAPA-512, F0 and phones in one pass over the files, against three passes."""
    rows = _rows(paths(40))
    with tempfile.TemporaryDirectory() as folder:
        chosen = _extractors(Path(folder))
        _pass(chosen, rows)
        calls = [lambda: _pass(chosen, rows), lambda: [_pass({label: one}, rows) for label, one in chosen.items()]]
        one, three = interleaved(calls, 5, time.perf_counter)
        phones = chosen["phones"]
        waves = files(40, 60.0, 16_000)
        (seconds,) = interleaved([lambda: phones.extract(waves)], 5, time.perf_counter)
    heard = float((rows["samples"] / rows["sample_rate"]).sum())
    audio = sum(len(wave) for wave in waves) / 16_000
    what = f"40 files, {heard:.0f} s, {THREADS} threads: ecapa (512), f0 and phones in one pass, to three passes"
    return [
        row("extract_together", one, "s", what, ratio=one / three, at_most=1.05),
        row("phones", audio / seconds, "xRT", f"histograms of 40 files, {audio:.0f} s, {THREADS} threads", at_least=1000),
    ]  # fmt: skip


def memory() -> list[Row]:
    """Peak memory of a process that extracts a file of two hours, and of one that extracts 1,126 files."""
    made = []
    for name, what in {
        "two_hours": "one file of 2 h, 16 kHz, by ecapa (512), f0 and phones",
        "many_files": "1,126 mp3 files of LibriSpeech dev-clean, 162 min, by ecapa (512), f0 and phones",
    }.items():
        seconds, peak = apart(f"tests.benchmark.extraction:{name}")
        made.append(
            row(f"extract_memory_{name}", peak, "GB", f"peak of a process: {what}; took {seconds:.0f} s", at_most=3)
        )
    return made


def two_hours() -> float:
    """Writes and extracts a file of two hours; seconds of the extraction."""
    import soundfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long.wav"
        piece = np.concatenate(files(40, 60.0, 16_000))
        with soundfile.SoundFile(path, "w", 16_000, 1, "PCM_16") as sound:
            for _ in range(int(np.ceil(7200 * 16_000 / len(piece)))):
                sound.write(piece)
        return _timed(_rows([path]), Path(folder))


def many_files() -> float:
    """Extracts all files of dev-clean; seconds."""
    found = sorted((speech() / "librispeech-dev-clean-mp3").rglob("*.mp3"))
    with tempfile.TemporaryDirectory() as folder:
        return _timed(_rows(found), Path(folder))


def _timed(rows: pd.DataFrame, folder: Path) -> float:
    chosen = _extractors(folder)
    begin = time.perf_counter()
    _pass(chosen, rows)
    return time.perf_counter() - begin
