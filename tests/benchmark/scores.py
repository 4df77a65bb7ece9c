"""Metrics of large score sets, replicates over speakers, and similarity matrices."""

from __future__ import annotations

import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv

from pipeline import metrics
from tests.benchmark.harness import Row, apart, interleaved, row


def gaussian(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Target (10 %) and non-target scores."""
    random = np.random.default_rng(count)
    return random.normal(2.0, 1.0, count // 10), random.normal(0.0, 1.0, count - count // 10)


def _against_argsort(count: int, runs: int) -> tuple[float, float]:
    target, nontarget = gaussian(count)
    pooled = np.concatenate([target, nontarget])
    ours, sort = interleaved(
        [lambda: metrics.trial_metrics(target, nontarget), lambda: np.argsort(pooled, kind="stable")], runs
    )
    return ours, ours / sort


_WHAT = "EER (3 variants), Cllr, Cllr_min, D_ECE, l_w, tag, TPR at 2 FPRs, ECE profile; to one stable numpy.argsort"


def metrics_1e6() -> list[Row]:
    """All metrics of 10^6 trials."""
    seconds, ratio = _against_argsort(1_000_000, 5)
    return [row("metrics_1e6", seconds, "s CPU", f"10^6 scores: {_WHAT}", ratio=ratio, at_most=3)]


def ten_million() -> float:
    """D_ECE and all the rest of 10^7 trials, for the peak memory."""
    return metrics.trial_metrics(*gaussian(10_000_000)).d_ece


def metrics_1e7() -> list[Row]:
    """All metrics of 10^7 trials, and their memory."""
    seconds, ratio = _against_argsort(10_000_000, 3)
    _, peak = apart("tests.benchmark.scores:ten_million")
    return [
        row("metrics_1e7", seconds, "s CPU", f"10^7 scores: {_WHAT}", ratio=ratio, at_most=3),
        row("metrics_1e7_memory", peak, "GB", "peak of a process that draws and measures 10^7 scores", at_most=1.5),
    ]


def vsm_of(utterances: int) -> float:
    """Seconds for OO, OP and PP of 15 speakers from vectors of 192 dimensions, all ordered pairs, calibrated."""
    random = np.random.default_rng(utterances)
    speakers = np.sort(np.arange(utterances) % 15)
    original, protected = (
        (
            spread * random.normal(size=(15, 192))[speakers] + random.normal(size=(utterances, 192))
        ).astype(np.float32)
        for spread in (0.6, 0.2)
    )  # fmt: skip
    begin = time.perf_counter()
    original, protected = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (original, protected))
    oo, op, pp = (
        metrics.similarity_matrix(a @ b.T, speakers)
        for a, b in ((original, original), (original, protected), (protected, protected))
    )
    metrics.vsm_metrics(oo, op, pp, [f"speaker {i}" for i in range(15)])
    return time.perf_counter() - begin


def vsm_largest() -> float:
    """For a process of its own."""
    return vsm_of(5328)


def vsm_5328() -> list[Row]:
    """The matrices of a challenge's set: time, memory, growth."""
    vsm_of(300)
    quarter = min(vsm_of(2664) for _ in range(3))
    seconds, peak = apart("tests.benchmark.scores:vsm_largest")

    def work(utterances: int) -> float:
        pairs = utterances * (utterances - 1)
        return pairs * math.log(pairs)

    growth = seconds / quarter / (work(5328) / work(2664))
    what = "5,328 utterances x 192 dimensions, 15 speakers: cosine, OO + OP + PP, all ordered pairs, calibrated"
    return [
        row("vsm_5328", seconds, "s", what, at_most=60),
        row("vsm_5328_memory", peak, "GB", "peak of that process", at_most=4),
        row(
            "vsm_growth", growth, "", "growth of time from 2,664 utterances, over that of pairs log(pairs)", at_most=1.3
        ),
    ]


def trials(n_enrolled: int, n_other: int, per_speaker: int, seed: int = 0) -> metrics.Trials:
    """Every model against every utterance."""
    random = np.random.default_rng(seed)
    spoken = np.repeat(np.arange(n_enrolled + n_other), per_speaker)
    enrolled = np.repeat(np.arange(n_enrolled), spoken.size)
    spoken = np.tile(spoken, n_enrolled)
    return metrics.Trials(random.normal(size=spoken.size) + 2.0 * (enrolled == spoken), enrolled, spoken)


def challenge_list() -> metrics.Trials:
    """11,744 trials, 548 of them target: 16 models and 734 utterances of 20 speakers."""
    random = np.random.default_rng(1)
    own = np.concatenate([np.arange(16), random.integers(0, 16, 548 - 16)])
    spoken = np.concatenate([own, random.integers(16, 20, 734 - 548)])
    enrolled = np.repeat(np.arange(16), spoken.size)
    spoken = np.tile(spoken, 16)
    return metrics.Trials(random.normal(size=spoken.size) + 2.0 * (enrolled == spoken), enrolled, spoken)


def _replicates(name: str, given: metrics.Trials, runs: int, limit: float, what: str) -> list[Row]:
    def draw() -> None:
        metrics.intervals(
            metrics.trials_by_speaker(given), method="percentile", replicates=1000, generator=np.random.default_rng(0)
        )

    def permute() -> None:
        metrics.null_bands(metrics.trials_by_identity(given), replicates=1000, generator=np.random.default_rng(0))

    intervals, bands = interleaved([draw, permute], runs, time.perf_counter)
    return [
        row(name, intervals, "s", f"1,000 bootstrap replicates of EER, Cllr_min and D_ECE on {what}", at_most=limit),
        row(f"{name}_null_band", bands, "s", f"1,000 permutations of speakers, D_ECE and l_w, on {what}"),
    ]


def replicates() -> list[Row]:
    """Replicates over speakers."""
    return [
        *_replicates("replicates_11744", challenge_list(), 3, 2.0, "11,744 trials (548 target)"),
        *_replicates("replicates_1e6", trials(40, 10, 500), 1, 60.0, "10^6 trials (20,000 target)"),
    ]


def _write_scores(folder: Path, models: int, utterances: int) -> None:
    """Score file and trial list of all models against all utterances, in a shuffled order each."""
    random = np.random.default_rng(7)
    count = models * utterances
    model, utterance = np.divmod(np.arange(count), utterances)
    target = utterance % models == model
    score = np.round(random.normal(size=count) + 2.0 * target, 6)
    names = pa.array([f"speaker{k:04d}" for k in range(models)])
    others = pa.array([f"speaker{k % models:04d}-utterance-{k:05d}" for k in range(utterances)])
    labels = pa.array(["nontarget", "target"])
    options = csv.WriteOptions(include_header=False, delimiter=" ", quoting_style="none")
    for name, column in (("scores", pa.array(score)), ("trials", labels.take(pa.array(target.astype(np.int64))))):
        order = pa.array(random.permutation(count))
        table = pa.table({"m": names.take(pa.array(model)), "u": others.take(pa.array(utterance)), "x": column}).take(
            order
        )
        csv.write_csv(table, folder / name, options)


def reading() -> list[Row]:
    """``from-scores trials`` on 10^7 lines of scores and 10^7 lines of trials, as a command of its own; and with speakers."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write_scores(folder, 1000, 10_000)
        (folder / "speakers").write_text(
            "".join(f"speaker{k % 1000:04d}-utterance-{k:05d} speaker{k % 1000:04d}\n" for k in range(10_000))
        )
        command = [sys.executable, "-m", "pipeline", "from-scores", "trials", "--scores", str(folder / "scores"),
                   "--trials", str(folder / "trials"), "--json", "-"]  # fmt: skip
        begin, used = time.perf_counter(), _cpu_of_children()
        done = subprocess.run([*command, "--replicates", "0"], check=True, capture_output=True, text=True)
        seconds, alone = time.perf_counter() - begin, _cpu_of_children() - used
        used = _cpu_of_children()
        subprocess.run([*command, "--utt2spk", str(folder / "speakers")], check=True, capture_output=True)
        with_speakers = _cpu_of_children() - used
    found = json.loads(done.stdout)
    assert (found["n_target"], found["n_nontarget"]) == (10_000, 9_990_000)
    what = "with --utt2spk: intervals over 1,000 speakers and 1,000 permutations; to the same without both"
    return [
        row("read_1e7", seconds, "s", "from-scores on 10^7 scores and 10^7 trials, metrics included", at_most=30),
        row("read_1e7_speakers", with_speakers, "s CPU", what, ratio=with_speakers / alone, at_most=3),
    ]


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
