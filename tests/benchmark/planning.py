"""How long it takes to plan: many systems at once, and a large corpus that was looked at before."""

from __future__ import annotations

import resource
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from pipeline.cli import compose
from pipeline.datasets.prepare import Prepared
from pipeline.engine.outcome import Outcome
from pipeline.engine.rates import Rates
from pipeline.engine.store import Store
from pipeline.evaluation.assemble import assemble_graph
from pipeline.evaluation.planned import describe_plan
from pipeline.host import collect_seldom
from pipeline.protocol import trials
from pipeline.seeds import digest
from pipeline.stages.graph import SpeechKey
from pipeline.stages.settings import Machine
from pipeline.tables import manifest
from tests import key_table
from tests.benchmark.harness import ROOT, Row, apart, row

SPEAKERS, ENROLLED, TRIED = 100, 10, 90
"""Of a data set of the large corpus; recordings are of each speaker."""
RATE, SAMPLES = 8000, 960
IMPOSTORS = 4
"""A recording is compared with its own speaker and so many others."""


def corpus(root: Path, sets: int = 10) -> Path:
    """Kaldi folders of so many trial sets, each with an enrolment set, over wavs of 120 ms of a voiced sound, each of its own bytes."""
    noise = np.random.default_rng(1)
    for number in range(sets):
        names = [f"s{number:02d}x{speaker:03d}" for speaker in range(SPEAKERS)]
        trials = []
        for which, recordings in ("enrolls", range(ENROLLED)), ("trials", range(ENROLLED, ENROLLED + TRIED)):
            folder = root / f"d{number:02d}_{which}"
            (folder / "wav").mkdir(parents=True)
            rows = [(f"{name}-{one:03d}", name) for name in names for one in recordings]
            for utterance, _ in rows:
                _write(folder / "wav" / f"{utterance}.wav", _buzz(noise))
            _table(folder / "wav.scp", (f"{one} {folder.relative_to(root)}/wav/{one}.wav" for one, _ in rows))
            _table(folder / "utt2spk", (f"{one} {name}" for one, name in rows))
            _table(folder / "spk2gender", (f"{name} {'fm'[place % 2]}" for place, name in enumerate(names)))
            if which == "enrolls":
                _table(folder / "enrolls", (one for one, _ in rows))
            else:
                for one, name in rows:
                    others = noise.choice(SPEAKERS, IMPOSTORS + 1, replace=False)
                    chosen = [names[other] for other in others if names[other] != name][:IMPOSTORS]
                    trials += [f"{name} {one} target", *(f"{other} {one} nontarget" for other in chosen)]
                _table(folder / "trials", trials)
    return root


def _buzz(random: np.random.Generator) -> np.ndarray:
    """A sawtooth of 90 to 250 Hz, in a little noise."""
    phase = np.arange(SAMPLES) * random.uniform(90, 250) / RATE
    return (9000 * (phase % 1 - 0.5) + random.integers(-300, 300, SAMPLES)).astype("<i2")


def _write(path: Path, samples: np.ndarray) -> None:
    sound = samples.tobytes()
    head = struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + len(sound), b"WAVE", b"fmt ", 16, 1, 1, RATE, 2 * RATE, 2, 16,
                       b"data", len(sound))  # fmt: skip
    path.write_bytes(head + sound)


def _table(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines))


SYSTEMS, SETS = 100, 10


def _prepared() -> Prepared:
    """Ten trial sets of 20 speakers with 5 + 25 recordings, and copies of them by half of the systems."""
    rows, sets = [], {}
    for number in range(SETS):
        speakers = [f"s{number:02d}x{speaker:02d}" for speaker in range(20)]
        enrolled, tried = [], []
        for place, speaker in enumerate(speakers):
            for one in range(30):
                role = "enrolment" if one < 5 else "trial"
                part, name = f"d{number:02d}_{role}", f"{speaker}-{one:02d}"
                samples = RATE * 2 + int(digest(name)[:4], 16)
                path, sex = f"/audio/{name}.wav", "fm"[place % 2]
                rows.append((name, speaker, sex, part, role, path, RATE, samples, digest(name), len(rows)))
                (enrolled if one < 5 else tried).append((speaker, name))
        trials_of = [(model, name, model == speaker) for speaker, name in tried for model in speakers]
        one_set = f"d{number:02d}_trial"
        sets[one_set] = trials.make_trial_set(one_set, f"d{number:02d}_enrolment", enrolled, trials_of, len(trials_of))
    listed = pd.DataFrame(rows, columns=manifest.COLUMNS)
    copies = {
        SpeechKey(f"t{number}"): listed.assign(
            sha256=[digest(number, one) for one in listed["sha256"]],
            path=[f"/copies/{number}/{name}.wav" for name in listed["utterance"]],
        )
        for number in range(SYSTEMS // 2)
    }
    return Prepared("made-up", listed, sets, copies, (), ())


def many() -> tuple[int, float]:
    """Tasks, and seconds of the processor to plan them over an empty store, as ``plan`` does."""
    run_here = [
        f"+system.b{number}={{name: mcadams, alpha: {0.6 + number / 200:.3f}}}" for number in range(SYSTEMS // 2)
    ]
    theirs = [f"+system.t{number}={{name: external, root: /copies/{number}}}" for number in range(SYSTEMS // 2)]
    with key_table.made_up_weights(), tempfile.TemporaryDirectory() as empty:
        given = ["recipe=kaldi", "dataset.root=/data", f"paths.root={empty}", "system=[original]",
                 "extractor=[campplus,ecapa,f0]", "extractor.ecapa.source=/weights", *run_here, *theirs]  # fmt: skip
        evaluation, data = compose.compose(given)[0], _prepared()
        begin = time.process_time()
        with collect_seldom():
            graph = assemble_graph(evaluation, data, Machine("cpu", 1))
            found = describe_plan(
                graph.tasks, Outcome(Store(evaluation.paths.store)), Rates.read(Path(empty), "cpu"), 1
            )
        return len(found.tasks), time.process_time() - begin


def planning_many() -> list[Row]:
    """A hundred systems, ten trial sets, three extractors."""
    (tasks, seconds), peak = apart("tests.benchmark.planning:many")
    what = f"{SYSTEMS} systems, half of them copies, x {SETS} trial sets of 20 speakers x 3 extractors: {tasks} tasks"
    return [
        row("planning", seconds, "s CPU", f"{what}, planned over an empty store", at_most=10),
        row("planning_memory", peak, "GB", f"peak of a process that plans {what}", at_most=1),
    ]


def planning_100k() -> list[Row]:
    """100,000 recordings: ``plan`` and a finished run, each a second time; the first run takes minutes."""
    with tempfile.TemporaryDirectory() as folder:
        root = corpus(Path(folder) / "data")
        vectors = Path(folder) / "vectors.npz"
        _vectors(root, vectors)
        given = [f"dataset.root={root}", f"paths.root={folder}/exp", "recipe=kaldi", "system=[original]",
                 "extractor=[f0,precomputed]", f"+extractor.precomputed.vectors={{original: {vectors}}}",
                 "attacker=[ignorant]", "metric=[asv,srd]", "diagnostics=false", "runtime.threads=1"]  # fmt: skip
        _started(given)
        again, finished = _started(["plan", *given]), _started(given)
    what = "100,000 wav files, 450,000 trials and 1,000 speakers in 10 sets, f0 and vectors from files; all is stored"
    return [
        row("planning_100k", again, "s CPU", f"plan, the second time: {what}", at_most=15),
        row("planning_100k_finished", finished, "s CPU", f"a finished run started again: {what}", at_most=20),
    ]


def _vectors(root: Path, place: Path) -> None:
    names = [line.split()[0] for table in sorted(root.glob("*/utt2spk")) for line in table.read_text().splitlines()]
    random = np.random.default_rng(2)
    np.savez(place, ids=np.array(names), vectors=random.standard_normal((len(names), 16)).astype(np.float32))


def _started(arguments: list[str]) -> float:
    """Seconds of the processor that a start took, with its child processes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "pipeline", *arguments], cwd=ROOT, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
