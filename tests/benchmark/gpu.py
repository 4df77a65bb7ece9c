"""What ``gpu.sh`` prints: extraction and anonymisation on one GPU, on generated audio, without network.

``python -m tests.benchmark.gpu [--rehearse] [--out FILE]``. The rehearsal does the same on the CPU with little audio, so that
the script is known to run before a GPU is at hand; its figures say nothing and are marked.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmark.harness import commit, machine

RATE = 16_000


@dataclass(frozen=True)
class Size:
    """How much is measured: seconds of audio at once, rendered utterances and their longest length, runs, channels of
    ECAPA, dense layers of CAM++."""

    audio: float
    rendered: int
    longest: float
    runs: int
    ecapa: tuple[int, ...]
    campplus: tuple[int, int, int]


FULL = Size(1800.0, 24, 20.0, 5, (1024, 1024, 1024, 1024, 3072), (12, 24, 16))
REHEARSAL = Size(12.0, 3, 3.0, 1, (64, 64, 64, 64, 192), (2, 2, 2))


@dataclass(frozen=True)
class Figure:
    """One measured number, with what is aimed at ('' if nothing is) and whether it is reached."""

    name: str
    value: float
    unit: str
    aim: str
    met: bool | None
    note: str


def figure(name: str, value: float, unit: str, note: str, at_least: float | None = None) -> Figure:
    """A figure whose value should be at least something."""
    met = None if at_least is None else value >= at_least
    return Figure(name, float(f"{value:.4g}"), unit, "" if at_least is None else f">= {at_least:g}", met, note)


def agreement(name: str, worst: float, what: str, at_least: float) -> Figure:
    """How many digits two results share."""
    return figure(f"{name}_agreement", -np.log10(max(worst, 1e-12)), "digits", f"{what} {worst:.1e}", at_least)


class Bench:
    """The device, the audio and the clock."""

    def __init__(self, device: str, size: Size, threads: int, folder: Path) -> None:
        self.device, self.size, self.threads, self.folder = device, size, threads, folder
        self.rendered = list(self._render())

    def _render(self) -> Iterator[np.ndarray]:
        from pipeline.datasets.synthetic import make_speaker, make_utterance

        lengths = np.linspace(self.size.longest / 5, self.size.longest, self.size.rendered)
        for index, seconds in enumerate(lengths):
            yield make_utterance(make_speaker(11, index % 8), 11, index, float(seconds), RATE).wave.astype(np.float32)

    def waves(self, rate: int = RATE) -> list[np.ndarray]:
        """The rendered utterances over and over, each time with another gain, ``size.audio`` seconds in all."""
        from pipeline.audio import resample

        base = [resample(wave, RATE, rate) for wave in self.rendered]
        found: list[np.ndarray] = []
        seconds = 0.0
        while seconds < self.size.audio:
            wave = base[len(found) % len(base)]
            found.append(wave * np.float32(0.999 ** (len(found) // len(base))))
            seconds += len(wave) / rate
        return found

    def seconds(self, call: Callable[[], object]) -> float:
        """Median time of a call, after one that does not count."""
        import torch

        taken = []
        for run in range(self.size.runs + 1):
            begin = time.perf_counter()
            call()
            if self.device != "cpu":
                torch.cuda.synchronize()
            if run:
                taken.append(time.perf_counter() - begin)
        return statistics.median(taken)


def heard(waves: Sequence[np.ndarray], rate: int = RATE) -> float:
    """Seconds of audio."""
    return sum(len(wave) for wave in waves) / rate


def loader(bench: Bench) -> list[Figure]:
    """Decoding FLAC and resampling to 8 kHz, as the extract stage does it."""
    what = f"FLAC decoded and brought to 16 and 8 kHz, {bench.threads} threads"
    return [figure("loader", _loaded(bench), "xRT", what)]


def _loaded(bench: Bench) -> float:
    import pandas as pd
    import soundfile

    from pipeline.contracts import Preparation
    from pipeline.files import file_digest
    from pipeline.protocol.cuts import Whole
    from pipeline.stages.features import compute

    paths = []
    for number, wave in enumerate(bench.rendered):
        path = bench.folder / f"{number}.flac"
        soundfile.write(path, wave / max(1.0, float(np.abs(wave).max())), RATE, subtype="PCM_16")
        paths.append(path)
    lengths = [len(wave) for wave in bench.rendered]
    times = max(1, round(bench.size.audio / (sum(lengths) / RATE)))
    digests = [file_digest(path) for path in paths]
    columns = {"path": paths * times, "sha256": digests * times, "samples": lengths * times}
    rows = pd.DataFrame({**columns, "sample_rate": RATE})
    cut = compute.chunks(rows, Whole(), bench.device)

    def all_of_it() -> float:
        wants = [(Preparation(), rate) for rate in (RATE, 8000)]
        chunks = compute.decoded(cut, Whole(), wants, bench.threads)
        return sum(len(recording.wave) / recording.rate for chunk in chunks for recording in chunk)

    return all_of_it() / bench.seconds(all_of_it)


def embeddings(bench: Bench) -> list[Figure]:
    """ECAPA embeddings: float32 and bfloat16 in batches, and one file at a time."""
    from safetensors.torch import save_file

    from pipeline.extractors.ecapa import EcapaSettings, Extractor
    from pipeline.nets import speechbrain_networks as ecapa

    folder = bench.folder / "ecapa"
    folder.mkdir()
    model = ecapa.make_ecapa(80, list(bench.size.ecapa), 192, 128)
    save_file(
        {key: value.contiguous() for key, value in model.state_dict().items()}, folder / "embedding_model.safetensors"
    )
    waves = bench.waves()
    audio = heard(waves)
    exact = Extractor(EcapaSettings(source=str(folder)), folder, bench.device, bench.threads)
    speed = audio / bench.seconds(lambda: exact.extract(waves))
    some = waves[: 4 * len(bench.rendered)]
    alone = heard(some) / bench.seconds(lambda: [exact.extract([wave]) for wave in some])
    half = Extractor(EcapaSettings(source=str(folder), precision="bfloat16"), folder, bench.device, bench.threads)
    loading = _loaded(bench)
    bound = "loader" if loading < speed else "compute"
    channels = bench.size.ecapa[0]
    minutes = 363 * 60 / min(speed, loading)
    what = (
        f"float32, exact batches; with the loader at {loading:.0f} xRT it is {bound}-bound: 363 h in {minutes:.1f} min"
    )
    speed_half = audio / bench.seconds(lambda: half.extract(waves))
    figures = [
        figure(f"ecapa_{channels}", speed, "xRT", what, 363 * 6),
        figure(f"ecapa_{channels}_batching", speed / alone, "x", f"to one file at a time ({alone:.0f} xRT)", 20),
        figure(f"ecapa_{channels}_bf16", speed_half, "xRT", "precision=bfloat16"),
    ]
    if bench.device != "cpu":
        host = Extractor(EcapaSettings(source=str(folder)), folder, "cpu", bench.threads)
        worst = max(map(_apart, exact.extract(bench.rendered), host.extract(bench.rendered)))
        figures.append(agreement("ecapa", worst, "largest cosine distance to the CPU", 4))
    return figures


def campplus(bench: Bench) -> list[Figure]:
    """CAM++ embeddings with random weights, in batches and one file at a time."""
    import torch

    from pipeline.extractors.campplus import CampplusSettings, Extractor
    from pipeline.extractors.campplus import network as cam

    folder = bench.folder / "campplus"
    folder.mkdir()
    torch.manual_seed(0)
    Extractor.write(cam.CAMPPlus(cam.Sizes(layers=bench.size.campplus)), folder)
    settings, waves = CampplusSettings(source=str(folder)), bench.waves()
    there = Extractor(settings, folder, bench.device, bench.threads)
    speed = heard(waves) / bench.seconds(lambda: there.extract(waves))
    some = waves[: 4 * len(bench.rendered)]
    alone = heard(some) / bench.seconds(lambda: [there.extract([wave]) for wave in some])
    figures = [
        figure("campplus", speed, "xRT", f"float32, exact batches: 363 h in {363 * 60 / speed:.1f} min", 363 * 6),
        figure("campplus_batching", speed / alone, "x", f"to one file at a time ({alone:.0f} xRT)"),
    ]
    if bench.device != "cpu":
        here = Extractor(settings, folder, "cpu", bench.threads)
        worst = max(map(_apart, there.extract(bench.rendered), here.extract(bench.rendered)))
        figures.append(agreement("campplus", worst, "largest cosine distance to the CPU", 6))
    return figures


def _apart(a: Any, b: Any) -> float:
    x, y = a.vector.astype(np.float64), b.vector.astype(np.float64)
    return float(1 - x @ y / np.linalg.norm(x) / np.linalg.norm(y))


def pyin(bench: Bench) -> list[Figure]:
    """F0 histograms at 8 kHz."""
    from pipeline.extractors.f0 import Extractor, F0Settings

    waves = bench.waves(8000)
    audio = heard(waves, 8000)
    there = Extractor(F0Settings(), None, bench.device, bench.threads)
    speed = audio / bench.seconds(lambda: there.extract(waves))
    figures = [figure("pyin", speed, "xRT", f"{audio:.0f} s at once", 20_000)]
    if bench.device != "cpu":
        from pipeline.extractors.f0.pyin_torch import Batched

        graphs = Batched(there.tracker, bench.device, graphs=True)
        speed = audio / bench.seconds(lambda: graphs.track(waves))
        figures.append(figure("pyin_graphs", speed, "xRT", "the same with CUDA graphs"))
        here = Extractor(F0Settings(), None, "cpu", bench.threads)
        some = waves[: len(bench.rendered)]
        same, counted = _shared(there.extract(some), here.extract(some))
        what = f"of {counted:.0f} voiced frames in the bin of the CPU"
        figures.append(figure("pyin_agreement", 100 * same, "%", what, 99.9))
    return figures


def phones(bench: Bench) -> list[Figure]:
    """Phone histograms, with a network after two steps, which is as fast as a trained one."""
    from pipeline.extractors.phones import Extractor, PhonesSettings
    from pipeline.extractors.phones import training as trainer
    from pipeline.nets import waveforms as packed

    folder = bench.folder / "phones"
    folder.mkdir()
    crops = bench.rendered[:4]
    trainer.Trainer.train(
        trainer.PhonesTrainerSettings(steps=2),
        packed.pack_waveforms(crops, [str(item) for item in range(len(crops))]),
        folder,
    )
    waves = bench.waves()
    audio = heard(waves)
    there = Extractor(PhonesSettings(source=str(folder)), folder, bench.device, bench.threads)
    figures = [figure("phones", audio / bench.seconds(lambda: there.extract(waves)), "xRT", f"{audio:.0f} s at once")]
    if bench.device != "cpu":
        here = Extractor(PhonesSettings(source=str(folder)), folder, "cpu", bench.threads)
        same, counted = _shared(there.extract(bench.rendered), here.extract(bench.rendered))
        figures.append(figure("phones_agreement", 100 * same, "%", f"of {counted:.0f} codes those of the CPU", 99.9))
    return figures


def _shared(a: Sequence[Any], b: Sequence[Any]) -> tuple[float, float]:
    """Part of the counts of histograms b that lie in the same places in histograms a, and how many there are."""
    total = sum(one.weight for one in b)
    same = sum(float(np.minimum(x.vector * x.weight, y.vector * y.weight).sum()) for x, y in zip(a, b))
    return same / max(total, 1.0), total


def mcadams(bench: Bench) -> list[Figure]:
    """McAdams anonymisation, each file with an alpha of its own."""
    from pipeline.anonymisers.mcadams import Anonymiser, McAdamsSettings
    from pipeline.contracts import Utterance

    settings = McAdamsSettings(level="utterance", alpha_range=(0.5, 0.9))
    waves = bench.waves()
    audio = heard(waves)
    told = [(wave, RATE, Utterance(str(number), "speaker", "set", number)) for number, wave in enumerate(waves)]
    there = Anonymiser(settings, device=bench.device)
    speed = audio / bench.seconds(lambda: there.anonymise_many(told))
    figures = [figure("mcadams", speed, "xRT", f"{audio:.0f} s at once", 5000)]
    if bench.device != "cpu":
        here = Anonymiser(settings)
        some = told[: len(bench.rendered)]
        pairs = zip(there.anonymise_many(some), (here.anonymise(*one) for one in some))
        worst = max(float(np.abs(a.wave - b.wave).max()) for a, b in pairs)
        figures.append(agreement("mcadams", worst, "largest difference to the CPU", 4))
    return figures


SECTIONS: tuple[Callable[[Bench], list[Figure]], ...] = (loader, embeddings, campplus, pyin, phones, mcadams)


def main(arguments: Sequence[str]) -> int:
    """Measures all sections; 1 if one of them fails, whatever the others found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rehearse", action="store_true", help="the same on the CPU with little audio")
    parser.add_argument("--out", type=Path, help="where the figures go, as JSON")
    chosen = parser.parse_args(arguments)

    import torch

    if not chosen.rehearse and not torch.cuda.is_available():
        print("no CUDA device here; --rehearse runs the same on the CPU", file=sys.stderr)
        return 2
    device = "cpu" if chosen.rehearse else "cuda"
    card = "rehearsal on the CPU: no figure counts" if chosen.rehearse else torch.cuda.get_device_name()
    facts = {"card": card, "date": datetime.now(UTC).strftime("%Y-%m-%d"), "commit": commit(), "machine": machine()}
    print(", ".join(facts.values()), flush=True)
    figures, failed = [], []
    with tempfile.TemporaryDirectory() as folder:
        threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        bench = Bench(device, REHEARSAL if chosen.rehearse else FULL, threads, Path(folder))
        for section in SECTIONS:
            begin = time.perf_counter()
            try:
                found = section(bench)
            except Exception as error:  # what the other sections find must not be lost with a machine lent for minutes
                failed.append(section.__name__)
                print(f"{section.__name__} FAILED: {type(error).__name__}: {error}", flush=True)
                continue
            figures += found
            for each in found:
                is_judged = each.aim and not chosen.rehearse
                verdict = f" (aim {each.aim}: {'met' if each.met else 'MISSED'})" if is_judged else ""
                print(f"{each.name}: {each.value:g} {each.unit}{verdict}; {each.note}", flush=True)
            print(f"  {section.__name__} took {time.perf_counter() - begin:.0f} s", flush=True)
    if chosen.out:
        chosen.out.write_text(
            json.dumps({**facts, "failed": failed, "figures": [asdict(one) for one in figures]}, indent=1) + "\n"
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
