"""Speed of training an ECAPA-TDNN, and of fine-tuning CAM++, on a GPU as the trainers do it, on generated waveforms, without
network.

``python -m tests.benchmark.gpu_train [--device cuda|cpu] [--steps N] [--channels 512] [--batch 256] [--crop 3.0]``, and with
``--finetune last`` or ``--finetune all`` CAM++ with weights drawn at random, 32 pieces a step unless ``--batch`` says so. The
waveforms are packed on disk as the pipeline packs them, and the loader is at work: crops are read and made ahead in a thread.
Aim on one H100: 3,000 crops a second, which is 10 epochs of train-clean-360 (3.6 M crops) in 20 minutes. On a CPU, with small
numbers, it shows that the script works, and no more.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmark.harness import commit, machine

AIM, CROPS = 3000.0, 3.6e6
SPEAKERS, EACH, SECONDS = 921, 3, 12.0  # as many speakers as train-clean-360: 9 hours, 1 GB


def generated(folder: Path, speakers: int, each: int, seconds: float) -> Any:
    """Noise with the loudness of speech, packed on disk."""
    import pandas as pd

    from pipeline.nets import waveforms as packed

    random = np.random.default_rng(0)
    samples = round(seconds * packed.RATE)
    with (folder / packed.SAMPLES).open("wb") as stream:
        for _ in range(speakers * each):
            stream.write(random.integers(-3000, 3000, samples, dtype=np.int16).astype("<i2").tobytes())
    names = [f"{speaker}-{number}" for speaker in range(speakers) for number in range(each)]
    rows = {"utterance": names, "speaker": [name.split("-")[0] for name in names], "recording": names, "sha256": names}
    same = {"sex": "u", "draw": 0, "own": True, "samples": samples, "scale": np.float32(1 / 32768)}
    pd.DataFrame({**rows, **same}).to_parquet(folder / packed.ROWS)
    return packed.read(folder)


def measured(learner: Any, crops: Any, warm_up: int, steps: int) -> tuple[float, float]:
    """Seconds of some steps after a warm-up, and how many of them went by in waiting for crops."""
    import torch

    from pipeline.nets.training import make_ahead

    batches = make_ahead(crops.batch, 0, warm_up + steps)
    begin, waited = time.perf_counter(), 0.0
    for number in range(warm_up + steps):
        if number == warm_up:
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            begin, waited = time.perf_counter(), 0.0
        asked = time.perf_counter()
        step, batch = next(batches)
        waited += time.perf_counter() - asked
        learner.gradients(step, batch)
        learner.update(step, warm_up + steps)
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - begin, waited


def loaded(crops: Any, steps: int) -> float:
    """Seconds that the loader takes for some steps when nothing else goes on."""
    begin = time.perf_counter()
    for step in range(steps):
        crops.batch(step)
    return time.perf_counter() - begin


def tuned(chosen: argparse.Namespace, audio: Any) -> tuple[float, float, Any]:
    """Pieces a second in steps of fine-tuning CAM++, and through its trunk; and the learner."""
    import torch

    from pipeline.contracts import Pretrained
    from pipeline.extractors.campplus import CampplusSettings, Extractor
    from pipeline.extractors.campplus.network import CAMPPlus, Sizes
    from pipeline.nets.training import repeatable
    from pipeline.trainers.finetune import FinetuneSettings, Trainer
    from pipeline.trainers.finetune.learner import Learner
    from pipeline.trainers.finetune.pieces import View, Views, cut_pieces

    wanted = FinetuneSettings(
        layers=chosen.finetune, batch=chosen.batch or 32, micro_batch=chosen.micro, piece_seconds=chosen.crop,
        precision=chosen.precision, steps=chosen.warm_up + chosen.steps,
    )  # fmt: skip
    settings = Trainer.resolved(wanted, "campplus", chosen.speakers, audio.seconds)
    print(f"settings: {settings.numeric()}", flush=True)
    pieces = cut_pieces(audio, range(len(audio)), settings.piece_seconds)
    views = Views(pieces, range(len(pieces)), settings.speeds, False, settings.seed)

    def clock() -> float:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return time.perf_counter()

    with tempfile.TemporaryDirectory() as folder, repeatable(settings.threads):
        torch.manual_seed(0)
        Extractor.write(CAMPPlus(Sizes()), Path(folder))
        pretrained = Pretrained(Extractor, CampplusSettings(), Path(folder))
        learner = Learner(settings, pretrained, pieces, views, chosen.device)
        learner.embed([View(0)])
        begin = clock()
        learner.begin(lambda: False)
        started = len(views) / (clock() - begin)
        for step in range(chosen.warm_up + chosen.steps):
            if step == chosen.warm_up:
                begin = clock()
            learner.gradients(step, views.batch(step, settings.batch))
            learner.update(step, chosen.warm_up + chosen.steps)
    return chosen.steps * settings.batch / (clock() - begin), started, learner


def finetuning(chosen: argparse.Namespace, card: str, on_gpu: bool) -> int:
    """Measure and print fine-tuning."""
    import torch

    print(f"{card}, {machine()}, {commit()}")
    with tempfile.TemporaryDirectory() as folder:
        audio = generated(Path(folder), chosen.speakers, EACH, chosen.crop)
        rate, started, learner = tuned(chosen, audio)
    print(f"fine-tuning: {rate:.4g} pieces/s ({rate * chosen.crop:.4g} xRT)")
    print(f"vectors: {started:.4g} pieces/s, to begin with")
    print(f"default: {60 * 32 / rate:.4g} s for 60 steps of 32 pieces")
    if on_gpu:
        print(
            f"memory: {torch.cuda.max_memory_allocated() / 1e9:.3g} GB at most, parts of {learner.micro_batch} pieces"
        )
    return 0


def main(arguments: Sequence[str]) -> int:
    """Measures and prints; 2 where there is no such device."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", help="cuda or cpu")
    parser.add_argument("--steps", type=int, default=100, help="steps that count")
    parser.add_argument("--warm-up", type=int, default=10, help="steps before them")
    parser.add_argument("--channels", type=int, default=512)
    parser.add_argument("--finetune", choices=("last", "all"), help="layers of CAM++, in place of training ECAPA")
    parser.add_argument("--batch", type=int, help="256 by default, in fine-tuning 32")
    parser.add_argument("--micro", type=int, help="crops that go through the network at once; the batch by default")
    parser.add_argument("--crop", type=float, default=3.0, help="seconds")
    parser.add_argument("--speakers", type=int, default=SPEAKERS)
    parser.add_argument("--precision", choices=("bfloat16", "float32"), default="bfloat16")
    chosen = parser.parse_args(arguments)

    import torch

    on_gpu = torch.device(chosen.device).type == "cuda"
    if on_gpu and not torch.cuda.is_available():
        print("no CUDA device here; --device cpu rehearses with what numbers it is given", file=sys.stderr)
        return 2
    card = torch.cuda.get_device_name() if on_gpu else "rehearsal on the CPU: no figure counts"
    if chosen.finetune is not None:
        return finetuning(chosen, card, on_gpu)
    return training(chosen, card, on_gpu)


def training(chosen: argparse.Namespace, card: str, on_gpu: bool) -> int:
    """Measure and print training."""
    import torch

    from pipeline.nets.training import repeatable
    from pipeline.trainers.embedding import EmbeddingSettings, Trainer
    from pipeline.trainers.embedding.crops import Crops
    from pipeline.trainers.embedding.learner import Learner

    batch = chosen.batch or 256
    settings = EmbeddingSettings(
        architecture="ecapa", channels=(chosen.channels,) * 4, aggregation=3 * chosen.channels, embedding=192, attention=128,
        batch=batch, micro_batch=chosen.micro or batch, crop_seconds=chosen.crop, speeds=(1.0,), held_out=0.0,
        steps=chosen.warm_up + chosen.steps, precision=chosen.precision, threads=2 if on_gpu else 1,
    )  # fmt: skip
    settings = Trainer.resolved(settings, "ecapa", chosen.speakers, 0.0)
    print(f"{card}, {machine()}, {commit()}")
    print(f"settings: {settings.numeric()}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        audio = generated(Path(folder), chosen.speakers, EACH, max(SECONDS, chosen.crop) if on_gpu else chosen.crop + 1)
        crops = Crops(settings, audio, audio.speakers, range(len(audio)))
        alone = batch * 5 / loaded(crops, 5)
        with repeatable(settings.threads):
            learner = Learner(settings, crops.n_classes, chosen.device)
            seconds, waited = measured(learner, crops, chosen.warm_up, chosen.steps)
    rate = chosen.steps * batch / seconds
    judged = f" (aim >= {AIM:g}: {'met' if rate >= AIM else 'MISSED'})" if on_gpu else ""
    print(f"training: {rate:.4g} crops/s{judged}")
    print(f"waiting: {100 * waited / seconds:.3g} % of the time is spent in waiting for the loader")
    print(f"loader: {alone:.4g} crops/s by itself")
    print(f"extrapolated: {CROPS / rate / 60:.4g} min for {CROPS / 1e6:g} M crops")
    if on_gpu:
        print(f"memory: {torch.cuda.max_memory_allocated() / 1e9:.3g} GB at most, parts of {learner.micro_batch} crops")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
