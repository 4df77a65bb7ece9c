"""Kills: a whole evaluation is killed at random moments, and the next run is held against one that nobody disturbed.

The evaluation goes over all stages with the smallest settings that they take. It is started as a user starts it, and ``SIGKILL`` goes
to the process itself, or to one of its workers. A moment is drawn from the time line of an undisturbed run: as the number of lines that
its journal has by then (``RUN/tasks``), and how long after the last of them; so a slow machine moves no kill into another stage.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from pipeline.engine import sound
from tests.toy import HANGS

EVALUATION = (
    "recipe=demo", "dataset.speakers=4", "dataset.utterances=4", "dataset.seconds=0.8", "dataset.train_speakers=12",
    "system=[original,b2]", "extractor=[ecapa]", "backend=[cosine,wccn]", "attacker=[ignorant,semi_informed]", "metric=[asv,vsm]",
    "metric.asv.interval=none", "backend.wccn.as_norm=null", "train.channels=[16,16,16]", "train.aggregation=24",
    "train.embedding=16", "train.attention=8", "train.batch=8", "train.crop_seconds=0.5",
    "train.steps=24", "train.verify_every=6", "runtime.device=cpu", "runtime.threads=1",
)  # fmt: skip
STAGES = {"synthesise", "anonymise", "pack", "train", "extract", "fit", "score", "measure", "check"}
ARTEFACT = re.compile("[0-9a-f]{64}")
NO_STAGES = ("files", "selections")
"""Folders of a store that hold what is known of files and of artefacts, and no artefacts."""
LOOKS = 0.002
"""Seconds between two looks at a journal that is waited for."""

Victim = Literal["run", "worker"]
Event = dict[str, Any]


@dataclass(frozen=True)
class Way:
    """By which executor a run goes.

    Attributes:
        executor: ``local``, or ``processes`` with so many workers.
    """

    executor: str = "local"
    workers: int = 1

    @property
    def arguments(self) -> list[str]:
        return [
            f"executor={self.executor}",
            *([f"executor.workers={self.workers}"] if self.executor != "local" else []),
        ]

    def __str__(self) -> str:
        return self.executor if self.executor == "local" else f"{self.executor}, {self.workers} workers"


@dataclass(frozen=True)
class Whole:
    """What an undisturbed run came to.

    Attributes:
        values: the text of ``results.csv`` but for the id of the run, and of the other tables beside it.
        artefacts: the content digest of each artefact of the store, by stage and key.
        times: seconds from the start of the process to each line of the journal, and to its end.
    """

    values: dict[str, str]
    artefacts: dict[tuple[str, str], str]
    times: tuple[float, ...]


@dataclass(frozen=True)
class Kill:
    """A kill, and what it cost.

    Attributes:
        stage: of a task that was in flight; '' where none was.
        again: tasks in flight that were computed again.
        wrong: what was not as it must be; empty if all was.
    """

    way: Way
    victim: Victim
    stage: str
    again: int
    wrong: tuple[str, ...] = ()


class Chaos:
    """Kills evaluations in a folder.

    Args:
        home: an empty folder.
        seed: of the moments.
    """

    def __init__(self, home: Path, seed: int = 0) -> None:
        self.home, self.seed = home, seed
        self._whole: dict[Way, Whole] = {}

    def whole(self, way: Way) -> Whole:
        """An undisturbed run, made once."""
        if way not in self._whole:
            exp = self.home / f"whole-{way.executor}-{way.workers}"
            began = time.time()
            with started(exp, way) as process:
                process.wait(HANGS)
            assert process.returncode == 0, said(exp)
            run = last_run(exp)
            times = tuple(event["at"] - began for event in events(run))
            found, faults = artefacts(exp / "store")
            assert not faults
            assert {stage for stage, _ in found} >= STAGES, "a kill can fall into every stage"
            self._whole[way] = Whole(values(run), found, (*times, time.time() - began))
        return self._whole[way]

    def kill(self, number: int, way: Way, victim: Victim) -> Kill:
        """Kill one run, and hold the next one (of a worker: the same one) against an undisturbed run.

        A draw that comes too late, after the end of a run that was quicker this time, is drawn again.
        """
        draws = random.Random(f"{self.seed} {number}")
        for attempt in range(100):
            exp = self.home / f"kill-{number}-{attempt}"
            with started(exp, way) as process:
                if self._struck(process, exp, victim, moment(self.whole(way).times, draws), draws):
                    found = self._parent(exp, way) if victim == "run" else self._worker(process, exp, way)
                    assert group_ended(process.pid), "a worker that its parent's death does not end"
                    return found
        raise AssertionError("every draw came too late")

    def _struck(
        self, process: subprocess.Popen[bytes], exp: Path, victim: Victim, when: tuple[int, float], draws: random.Random
    ) -> bool:
        """Kill at a moment; whether there was still something to kill."""
        lines, delay = when
        while process.poll() is None and count(exp) < lines:
            time.sleep(LOOKS)
        time.sleep(delay)
        while process.poll() is None:
            targets = [process.pid] if victim == "run" else workers(process.pid)
            if targets:
                with suppress(ProcessLookupError):
                    os.kill(draws.choice(targets), signal.SIGKILL)
                    return victim == "worker" or process.wait(HANGS) == -signal.SIGKILL
            time.sleep(LOOKS)
        return False

    def _parent(self, exp: Path, way: Way) -> Kill:
        """The next run after a kill of the run itself."""
        before = events(last_run(exp)) if runs(exp) else []
        there, half = artefacts(exp / "store")
        stood = standing(exp / "store", there)
        with started(exp, way) as process:
            process.wait(HANGS)
        if process.returncode != 0:
            return Kill(
                way, "run", in_flight(before), 0, (f"the next run ended with {process.returncode}: {said(exp)}",)
            )
        after = events(last_run(exp))
        done, again = tasks(before, "done"), tasks(after, "done")
        wrong = [*half, *self._differences(exp, way)]
        wrong += [f"computed twice: {task}" for task in sorted(done & again)]
        wrong += [f"written twice: {one}" for one, how in standing(exp / "store", there).items() if how != stood[one]]
        cost = len(begun(before) & again)
        if cost > way.workers:
            wrong.append(f"{cost} tasks were computed again")
        return Kill(way, "run", in_flight(before), cost, tuple(wrong))

    def _worker(self, process: subprocess.Popen[bytes], exp: Path, way: Way) -> Kill:
        """The same run after a kill of one of its workers."""
        process.wait(HANGS)
        after = events(last_run(exp))
        text = (last_run(exp) / "run.log").read_text()
        died = re.search(r"in the middle of (\w+)", text)
        stage = died[1] if died else ""
        if process.returncode != 0:
            return Kill(way, "worker", stage, 0, (f"the run ended with {process.returncode}: {said(exp)}",))
        times = Counter(event["task"] for event in after if event["event"] == "begin")
        cost = sum(several - 1 for several in times.values())
        done = Counter(event["task"] for event in after if event["event"] == "done")
        wrong = self._differences(exp, way)
        wrong += [f"computed twice: {task}" for task, several in done.items() if several > 1]
        if cost > 1:
            wrong.append(f"{cost} tasks were computed again")
        return Kill(way, "worker", stage, cost, tuple(wrong))

    def _differences(self, exp: Path, way: Way) -> list[str]:
        """What is not as after an undisturbed run in one process."""
        whole, (found, wrong) = self.whole(Way()), artefacts(exp / "store")
        here = values(last_run(exp))
        wrong += [f"{name} differs" for name in whole.values if here.get(name) != whole.values[name]]
        wrong += [f"artefact {one} differs" for one in sorted({*found, *whole.artefacts})
                  if found.get(one) != whole.artefacts.get(one)]  # fmt: skip
        wrong += [f"left behind: {path}" for path in leftovers(exp / "store")]
        return wrong


@contextmanager
def started(exp: Path, way: Way) -> Iterator[subprocess.Popen[bytes]]:
    """A run in a session of its own, which is ended with all that it started."""
    exp.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, "-m", "pipeline", *EVALUATION, *way.arguments, f"paths.root={exp}"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with (exp / "said.txt").open("ab") as out:
        process = subprocess.Popen(words, cwd=exp, stdout=out, stderr=out, env=environment, start_new_session=True)
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(HANGS)


def said(exp: Path) -> str:
    """The last words of a run."""
    return (exp / "said.txt").read_text(errors="replace")[-2000:]


def moment(times: Sequence[float], draws: random.Random) -> tuple[int, float]:
    """How many lines a journal has when the kill falls, and how many seconds after the last of them.

    Every other one is drawn uniformly over the time of a run, the others over its lines: what takes long is struck often, and what takes
    a moment too.
    """
    if draws.random() < 0.5:
        at = draws.uniform(0.0, times[-1])
        lines = sum(one <= at for one in times[:-1])
        return lines, at - (times[lines - 1] if lines else 0.0)
    lines = draws.randrange(len(times))
    before = times[lines - 1] if lines else 0.0
    return lines, draws.uniform(0.0, max(times[lines] - before, 0.0))


def runs(exp: Path) -> list[Path]:
    """The run folders, the oldest first."""
    return sorted((exp / "runs").glob("*/"), key=lambda run: run.stat().st_ctime_ns) if (exp / "runs").is_dir() else []


def last_run(exp: Path) -> Path:
    """The run folder that was made last, as its own record says."""
    return max(
        runs(exp), key=lambda run: (run / "config.yaml").stat().st_mtime_ns if (run / "config.yaml").is_file() else 0
    )


def count(exp: Path) -> int:
    """Lines that are whole in the journals of the only run."""
    return sum(path.read_bytes().count(b"\n") for run in runs(exp) for path in run.glob("tasks/*.jsonl"))


def events(run: Path) -> list[Event]:
    """What a run has written into its journals; a line that was cut off is none."""
    lines = [line for path in sorted(run.glob("tasks/*.jsonl")) for line in path.read_text().splitlines()]
    found = []
    for line in lines:
        with suppress(ValueError):
            found.append(json.loads(line))
    return sorted(found, key=lambda event: float(event["at"]))


def tasks(several: Iterable[Event], kind: str) -> set[str]:
    return {str(event["task"]) for event in several if event["event"] == kind}


def begun(several: Sequence[Event]) -> set[str]:
    """Tasks in flight at the end of a journal."""
    return tasks(several, "begin") - tasks(several, "done") - tasks(several, "reused") - tasks(several, "failed")


def in_flight(several: Sequence[Event]) -> str:
    """The stage of a task in flight; '' where there is none."""
    stages = {row[0]: row[1] for event in several if event["event"] == "planned" for row in event["tasks"]}
    return next((stages[event["task"]] for event in reversed(several) if event.get("task") in begun(several)), "")


def values(run: Path) -> dict[str, str]:
    """The tables of a run as text, without what tells the run."""
    rows = list(csv.reader((run / "results.csv").read_text(encoding="utf-8").splitlines()))
    own = rows[0].index("run_id")
    found = {"results.csv": "\n".join(",".join(row[:own] + row[own + 1 :]) for row in rows)}
    for path in sorted(run.glob("*.parquet")):
        table = pd.read_parquet(path)
        found[path.name] = table.drop(columns="run_id", errors="ignore").to_csv(index=False)
    return found


def folders(store: Path) -> Iterator[tuple[str, Path]]:
    """Whatever lies where artefacts do, with its stage."""
    for path in sorted(store.glob("*/??/*")):
        if path.parts[-3] not in NO_STAGES:
            yield path.parts[-3], path


def artefacts(store: Path) -> tuple[dict[tuple[str, str], str], list[str]]:
    """The content digest of each artefact by stage and key, and what is wrong with any: all bytes are hashed."""
    found, wrong = {}, []
    for stage, path in folders(store):
        if not ARTEFACT.fullmatch(path.name):
            continue
        try:
            record = sound.read_record((path / sound.RECORD).read_bytes(), stage, path.name)
        except (OSError, sound.Wrong) as error:
            wrong.append(f"half an artefact: {path}: {error}")
            continue
        there = {one.relative_to(path).as_posix() for one in path.rglob("*") if one.is_file()} - {sound.RECORD}
        if there != set(record["files"]):
            wrong.append(f"half an artefact: {path}: {there ^ set(record['files'])}")
            continue
        for name, entry in record["files"].items():
            if hashlib.sha256((path / name).read_bytes()).hexdigest() != entry["sha256"]:
                wrong.append(f"half an artefact: {path / name}")
        found[stage, path.name] = str(record["digest"])
    return found, wrong


def standing(store: Path, which: Iterable[tuple[str, str]]) -> dict[tuple[str, str], tuple[int, int]]:
    """By which artefacts can be told from others that were made again in their place."""
    found = {}
    for stage, key in which:
        path = store / stage / key[:2] / key
        found[stage, key] = (path.stat().st_ino, (path / sound.RECORD).stat().st_mtime_ns) if path.exists() else (0, 0)
    return found


def leftovers(store: Path) -> list[Path]:
    """What lies among artefacts and is none."""
    return [path for _, path in folders(store) if not ARTEFACT.fullmatch(path.name)]


def workers(parent: int) -> list[int]:
    """The worker processes of a run: its children, but for those that keep books of what they share."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            fields = (path / "stat").read_bytes().rpartition(b") ")[2].split()
            if int(fields[1]) == parent and fields[0] != b"Z" and b"spawn_main" in (path / "cmdline").read_bytes():
                found.append(int(path.name))
    return sorted(found)


def group_ended(group: int) -> bool:
    """Wait until nothing is left of a process group."""
    end = time.monotonic() + HANGS
    while time.monotonic() < end:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(LOOKS)
    return False


def table(kills: Sequence[Kill]) -> str:
    """What survives, as Markdown: a line for each way and victim."""
    lines = ["| killed | in the middle of | kills | next run with equal bytes | tasks computed again, at most |",
             "| --- | --- | --- | --- | --- |"]  # fmt: skip
    groups: dict[tuple[str, Victim], list[Kill]] = {}
    for one in kills:
        groups.setdefault((str(one.way), one.victim), []).append(one)
    for (way, victim), several in groups.items():
        stages = Counter(one.stage or "no task" for one in several)
        struck = ", ".join(f"{stage} {number}" for stage, number in stages.most_common())
        equal, most = sum(not one.wrong for one in several), max(one.again for one in several)
        who = f"the run (`executor={way}`)" if victim == "run" else f"a worker (`executor={way}`)"
        lines.append(f"| {who} | {struck} | {len(several)} | {equal} | {most} |")
    return "\n".join(lines) + "\n"
