"""Kills: a whole evaluation is killed at random moments, and the next run is held against one that nobody disturbed.

The evaluation goes over all stages with the smallest settings that they take. It is started as a user starts it, and ``SIGKILL`` goes
to the process itself, or to one of its workers. So that a kill is cheap, the run finds a part of its work done: the state of an
earlier moment of the undisturbed run, or all but some artefacts. Among what is missing is one artefact of each stage in turn, the aim.

Moments: while the process starts, in the middle of a task of the aim's stage, between two operations on files while the aim is written
(:mod:`tests.strike`), while the run replaces files of its own, while it gathers and reports, and while it sweeps what an earlier kill
left. Those that wait for a task wait for its line in the journal, so a slow machine moves no kill into another stage.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from pipeline.engine import claims as left_by_the_dead
from pipeline.engine import store as storage
from tests import strike
from tests.toy import HANGS

EVALUATION = (
    "recipe=demo", "dataset.speakers=4", "dataset.utterances=4", "dataset.seconds=0.8", "dataset.train_speakers=12",
    "system=[original,b2]", "extractor=[ecapa]", "backend=[cosine,wccn]", "attacker=[ignorant,semi_informed]", "metric=[asv,vsm]",
    "metric.asv.interval=none", "backend.wccn.as_norm=null", "train.channels=[16,16,16]", "train.aggregation=24",
    "train.embedding=16", "train.attention=8", "train.batch=8", "train.crop_seconds=0.5",
    "train.steps=24", "train.verify_every=6", "runtime.device=cpu", "runtime.threads=1",
)  # fmt: skip
STAGES = ("synthesise", "anonymise", "pack", "train", "extract", "fit", "score", "measure", "check")
ROOT = Path(__file__).resolve().parent.parent
ARTEFACT = re.compile("[0-9a-f]{64}")
NO_STAGES = ("files", "selections")
"""Folders of a store that hold what is known of files and of artefacts, and no artefacts."""
LOOKS = 0.01
"""Seconds between two looks at a journal that is waited for."""
DRAWS = 30
"""So often a moment is drawn anew that came too late, after the end of a run that was quicker this time."""

Victim = Literal["run", "worker"]
Moment = Literal["start", "task", "write", "books", "end", "sweep"]
MOMENTS: dict[Victim, tuple[Moment, ...]] = {
    "run": ("task", "write", "start", "task", "write", "books", "task", "write", "end", "sweep"),
    "worker": ("task", "write", "task", "write", "start"),
}
"""In turn, so that each is struck in any ten kills."""
IN_WORDS: dict[Moment, str] = {
    "start": "while it starts", "task": "in the middle of a task", "write": "between two file operations of a result's writing",
    "books": "while the run replaces a file of its own", "end": "while it gathers and reports",
    "sweep": "while it sweeps what an earlier kill left",
}  # fmt: skip
Event = dict[str, Any]
Key = tuple[str, str]
"""A stage, and the key of an artefact."""


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
        return f"executor={self.executor}"


WAYS: tuple[tuple[Way, Victim], ...] = (
    (Way(), "run"),
    *(pair for n in (1, 2, 3) for pair in ((Way("processes", n), "worker"), (Way("processes", n), "run"))),
)
"""What is killed in turn."""


@dataclass(frozen=True)
class Plan:
    """What one kill strikes, and when.

    Attributes:
        aim: an artefact that is missing when the run begins, and that a kill in a task or a writing waits for.
        missing: all that are.
    """

    number: int
    way: Way
    victim: Victim
    moment: Moment
    aim: Key
    missing: frozenset[Key]


@dataclass(frozen=True)
class Whole:
    """What an undisturbed run came to.

    Attributes:
        store: where its artefacts lie.
        values: the text of ``results.csv`` but for the id of the run, and of the other tables beside it.
        artefacts: the content digest of each artefact of the store by stage and key, in the order in which they were made.
        took: seconds of the longest task of each stage.
        begins, reports: seconds from the start of the process to the first line of its journal, and from the last one to its end.
        books: how many files the run replaces that are no artefacts.
    """

    store: Path
    values: dict[str, str]
    artefacts: dict[Key, str]
    took: dict[str, float]
    begins: float
    reports: float
    books: int


@dataclass(frozen=True)
class Kill:
    """A kill, and what it cost.

    Attributes:
        stage: of a task that was in flight; '' where none was.
        again: tasks in flight that were computed again.
        beyond: others that were computed again.
        wrong: what was not as it must be; empty if all was.
        seconds: all that it took.
    """

    way: Way
    victim: Victim
    moment: Moment
    stage: str
    again: int
    beyond: int = 0
    wrong: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass
class Run:
    """A run that was started."""

    exp: Path
    process: subprocess.Popen[bytes]
    said: Path = field(default_factory=Path)


class Chaos:
    """Kills evaluations in a folder.

    Args:
        home: an empty folder.
        seed: of what is struck.
    """

    def __init__(self, home: Path, seed: int = 0) -> None:
        self.home, self.seed = home, seed
        hook = home / "hook"
        hook.mkdir(parents=True)
        (hook / "sitecustomize.py").write_text(
            "import json, os\nfrom tests import strike\nasked = os.environ.get(strike.VARIABLE)\n"
            "if asked:\n    strike.arm(json.loads(asked))\n"
        )
        self.whole = self._undisturbed()

    def _undisturbed(self) -> Whole:
        exp, counted = self.home / "whole", self.home / "counted"
        began = time.time()
        books = {"where": "books", "root": str(exp), "victim": "run", "counted": str(counted)}
        with self.started(exp, Way(), books) as run:
            run.process.wait(HANGS)
        ended = time.time()
        assert run.process.returncode == 0, words(run)
        found, faults = artefacts(exp / "store")
        assert not faults
        assert {stage for stage, _ in found} >= set(STAGES), "a kill can fall into every stage"
        made = {key: (folder(exp / "store", key) / storage.RECORD).stat().st_mtime_ns for key in found}
        wrote, took = events(last_run(exp)), Counter[str]()
        stages = planned(wrote)
        for event in wrote:
            if event["event"] == "done":
                took[stages[event["task"]]] = max(took[stages[event["task"]]], event["took"])
        return Whole(
            exp / "store", values(last_run(exp)), dict(sorted(found.items(), key=lambda item: made[item[0]])), dict(took),
            wrote[0]["at"] - began, ended - wrote[-1]["at"], len(counted.read_text()),
        )  # fmt: skip

    @contextmanager
    def started(self, exp: Path, way: Way, asked: Mapping[str, Any] | None = None) -> Iterator[Run]:
        """A run in a session of its own, which is ended with all that it started."""
        exp.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pipeline", *EVALUATION, *way.arguments, f"paths.root={exp}"]
        places = [str(self.home / "hook"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(places)}
        if asked is not None:
            environment[strike.VARIABLE] = json.dumps(asked)
        said = exp / f"said-{len(list(exp.glob('said-*.txt')))}.txt"
        with said.open("wb") as out:
            process = subprocess.Popen(
                command, cwd=exp, stdout=out, stderr=out, env=environment, start_new_session=True
            )
            try:
                yield Run(exp, process, said)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait(HANGS)

    def kills(
        self, numbers: Sequence[int], at_once: int = 1, told: Callable[[int, Kill], None] = lambda *_: None
    ) -> list[Kill]:
        """Several kills, so many of them beside each other.

        Args:
            told: hears of each as soon as it is judged.
        """

        def one(number: int) -> Kill:
            kill = self.kill(self.plan(number))
            told(number, kill)
            return kill

        with ThreadPoolExecutor(at_once) as pool:
            return list(pool.map(one, numbers))

    def plan(self, number: int) -> Plan:
        """What the kill of a number strikes: ways, moments and stages in turn, the rest by chance."""
        draws = random.Random(f"{self.seed} {number}")
        way, victim = WAYS[number % len(WAYS)]
        moment = MOMENTS[victim][(number // len(WAYS) * 3 + number % len(WAYS)) % len(MOMENTS[victim])]
        stage = STAGES[number * 4 % len(STAGES)]
        made = list(self.whole.artefacts)
        aim = draws.choice([key for key in made if key[0] == stage])
        if draws.random() < 0.4:  # an earlier moment of the undisturbed run
            missing = set(made[made.index(aim) :])
        else:  # as after `store gc`, or with results of other runs
            share = draws.choice([0.0, 0.1, 0.5])
            missing = {aim, *(key for key in made if draws.random() < share)}
        return Plan(number, way, victim, moment, aim, frozenset(missing))

    def kill(self, plan: Plan) -> Kill:
        """Kill one run, and hold the next one (of a worker: the same one) against the undisturbed run.

        Raises:
            AssertionError: every draw came too late.
        """
        draws, began = random.Random(f"{self.seed} {plan.number} moment"), time.monotonic()
        for attempt in range(DRAWS):
            exp = self.home / f"kill-{plan.number}-{attempt}"
            self._prepare(exp, plan)
            with self.started(exp, plan.way, self._strike(exp, plan, draws, attempt)) as run:
                if self._struck(run, plan, draws):
                    found = self._after_run(run, plan, draws) if plan.victim == "run" else self._after_worker(run, plan)
                    assert group_ended(run.process.pid), "a worker that its parent's death does not end"
                    kill = Kill(plan.way, plan.victim, plan.moment, *found, seconds=round(time.monotonic() - began, 1))
                    if not kill.wrong:
                        shutil.rmtree(exp)
                    return kill
            shutil.rmtree(exp)
        raise AssertionError(f"every draw came too late: {plan}")

    def _prepare(self, exp: Path, plan: Plan) -> None:
        """A store that has all but what is missing; for a sweep also what a kill left."""
        (exp / "store").mkdir(parents=True)
        for key in self.whole.artefacts:
            if key not in plan.missing:
                shutil.copytree(folder(self.whole.store, key), folder(exp / "store", key))
        if plan.moment == "sweep":
            asked = {**self._writing(exp, plan), "record": True, "after": 1, "token": str(exp / "first")}
            with self.started(exp, Way(), asked) as run:
                run.process.wait(HANGS)
                assert group_ended(run.process.pid)
            assert leftovers(exp / "store"), words(run)

    def _writing(self, exp: Path, plan: Plan) -> dict[str, Any]:
        shelf = folder(exp / "store", plan.aim).parent
        return {"where": "write", "shelf": str(shelf), "key": plan.aim[1], "victim": plan.victim}

    def _strike(self, exp: Path, plan: Plan, draws: random.Random, attempt: int) -> dict[str, Any] | None:
        """What the processes of a run are told of the operation that they are to be killed in; None if the kill comes from outside.
        An operation that was too far on is drawn from the first ones."""
        token = {"token": str(exp / "struck"), "victim": plan.victim}
        match plan.moment:
            case "write":
                return {
                    **self._writing(exp, plan), **token, "record": draws.random() < 0.5, "after": draws.randrange(max(2, 10 >> attempt))
                }  # fmt: skip
            case "books":
                return {
                    "where": "books",
                    "root": str(exp),
                    **token,
                    "after": draws.randrange(max(1, self.whole.books >> attempt)),
                }
            case "sweep":
                return {"where": "sweep", **token, "after": draws.randrange(max(2, 5 >> attempt))}
            case _:
                return None

    def _struck(self, run: Run, plan: Plan, draws: random.Random) -> bool:
        """Wait for the kill, or kill; whether there was still something to kill."""
        process, whole = run.process, self.whole
        match plan.moment:
            case "start" if plan.victim == "run":
                time.sleep(draws.uniform(0.0, whole.begins))
            case "start":
                waited(process, lambda: bool(workers(process.pid)))
                time.sleep(draws.uniform(0.0, whole.begins))
            case "task":
                stage = plan.aim[0]
                waited(process, lambda: stage in Journalled(run.exp).began())
                time.sleep(draws.uniform(0.0, whole.took[stage]))
            case "end":
                waited(process, lambda: Journalled(run.exp).over())
                time.sleep(draws.uniform(0.0, whole.reports))
            case _:
                token = run.exp / "struck"
                waited(process, token.exists)
                return token.exists() and (plan.victim == "worker" or process.wait(HANGS) == -signal.SIGKILL)
        while process.poll() is None:
            targets = [process.pid] if plan.victim == "run" else workers(process.pid)
            if targets:
                with suppress(ProcessLookupError):
                    os.kill(draws.choice(targets), signal.SIGKILL)
                    return plan.victim == "worker" or process.wait(HANGS) == -signal.SIGKILL
            time.sleep(LOOKS)
        return False

    def _after_run(self, killed: Run, plan: Plan, draws: random.Random) -> tuple[str, int, int, tuple[str, ...]]:
        """The next run after a kill of the run itself."""
        exp, wrong = killed.exp, list[str]()
        at_once = draws.random() < 0.3
        if not at_once:  # else workers of the killed run may still be about to notice
            assert group_ended(killed.process.pid), "a worker that its parent's death does not end"
        run = last_run(exp) if runs(exp) else None
        before = events(run) if run else []
        there, half = artefacts(exp / "store")
        stood = standing(exp / "store", there)
        first = draws.random() < 0.5
        wrong += self._said_killed(run, before) if run and first else []
        with self.started(exp, plan.way) as next_run:
            next_run.process.wait(HANGS)
            assert group_ended(next_run.process.pid), "a worker outlives its run"
        stage = in_flight(before)
        if next_run.process.returncode != 0:
            return stage, 0, 0, (f"the next run ended with {next_run.process.returncode}: {words(next_run)}",)
        if run and not first:
            wrong += self._said_killed(run, before)
            if state(run) == "killed" and f"run {run.name} was killed" not in next_run.said.read_text():
                wrong.append("the next run does not say that the last one was killed")
        after = events(last_run(exp))
        done, again = tasks(before, "done"), tasks(after, "done")
        wrong += [*half, *self._differences(exp, swept=at_once), *self._recalled(next_run, after)]
        twice = sorted(done & again)
        wrong += [f"computed twice: {planned(after)[task]} {task}" for task in twice]
        wrong += [f"written twice: {one}" for one, how in standing(exp / "store", there).items() if how != stood[one]]
        cost = len(begun(before) & again)
        if cost > plan.way.workers:
            wrong.append(f"{cost} tasks in flight were computed again")
        return stage, cost, len(twice), tuple(wrong)

    def _after_worker(self, run: Run, plan: Plan) -> tuple[str, int, int, tuple[str, ...]]:
        """The same run after a kill of one of its workers."""
        run.process.wait(HANGS)
        after = events(last_run(run.exp))
        died = re.search(
            r"in the middle of (.*), which is tried once more", (last_run(run.exp) / "run.log").read_text()
        )
        labels = {row[2]: row[1] for event in after if event["event"] == "planned" for row in event["tasks"]}
        stage = labels[died[1]] if died else ""
        if run.process.returncode != 0:
            return stage, 0, 0, (f"the run ended with {run.process.returncode}: {words(run)}",)
        begins = Counter(event["task"] for event in after if event["event"] == "begin")
        cost = sum(several - 1 for several in begins.values())
        ends = Counter(event["task"] for event in after if event["event"] == "done")
        wrong = [*self._differences(run.exp, swept=True), *self._recalled(run, after)]
        twice = [task for task, several in ends.items() if several > 1]
        wrong += [f"computed twice: {task}" for task in twice]
        if cost != (1 if died else 0):
            wrong.append(f"{cost} tasks were begun again")
        if plan.moment == "write" and not died:
            wrong.append("nobody says that a worker was killed in the middle of a task")
        return stage, cost, len(twice), tuple(wrong)

    def _differences(self, exp: Path, swept: bool) -> list[str]:
        """What is not as after an undisturbed run in one process.

        Args:
            swept: what is left behind may be there until another run sweeps: its process was alive when this one began.
        """
        found, wrong = artefacts(exp / "store")
        here = values(last_run(exp))
        wrong += [
            f"{name} differs" for name in {*self.whole.values, *here} if here.get(name) != self.whole.values.get(name)
        ]
        wrong += [f"artefact {one} differs" for one in sorted({*found, *self.whole.artefacts})
                  if found.get(one) != self.whole.artefacts.get(one)]  # fmt: skip
        if swept:
            left_by_the_dead.sweep_leftovers(exp / "store")
        return wrong + [f"left behind: {path}" for path in leftovers(exp / "store")]

    def _said_killed(self, run: Path, before: Sequence[Event]) -> list[str]:
        """What ``status`` says of a killed run that is not so."""
        done = subprocess.run(
            [sys.executable, "-m", "pipeline", "status", "--json", str(run)], cwd=ROOT, capture_output=True, text=True, timeout=HANGS
        )  # fmt: skip
        if not (run / "status.json").exists():  # it was killed before it could say anything at all
            return []
        if done.returncode:
            return [f"status ends with {done.returncode}: {done.stderr[-500:]}"]
        said = json.loads(done.stdout)
        wrong = []
        if state(run) == "done":  # its last word came before the kill
            wrong += [
                f"{name} of the killed run differs"
                for name, text in self.whole.values.items()
                if values(run).get(name) != text
            ]
        elif state(run) != "killed" or said["record"]["state"] != "killed":
            wrong.append(f"status says {said['record']['state']}, the record {state(run)}")
        counts = Counter(task["state"] for task in said["tasks"])
        for kind in ("done", "reused"):
            if counts[kind] != len(tasks(before, kind)):
                wrong.append(f"status says {counts[kind]} {kind}, the journal {len(tasks(before, kind))}")
        if counts["running"]:
            wrong.append("status says that tasks of a killed run are running")
        return wrong

    def _recalled(self, run: Run, after: Sequence[Event]) -> list[str]:
        """What a run says of what it reused and computed that is not so."""
        counted = len(tasks(after, "reused")), len(tasks(after, "done"))
        wanted = f"tasks: {counted[0]} reused, {counted[1]} computed"
        said = set(re.findall(r"^tasks: .*$", run.said.read_text(), re.MULTILINE))
        return [] if said == {wanted} else [f"it says {said} instead of {wanted}"]


class Journalled:
    """The journal of the newest run."""

    def __init__(self, exp: Path) -> None:
        self.events = [event for run in runs(exp)[-1:] for event in events(run)]

    def began(self) -> set[str]:
        """Stages of which a task was begun to be computed."""
        stages = planned(self.events)
        return {stages[event["task"]] for event in self.events if event["event"] == "begin"
                and event["task"] not in tasks(self.events, "reused")}  # fmt: skip

    def over(self) -> bool:
        """Whether all tasks are: those of the data set came first."""
        return sum(event["event"] == "planned" for event in self.events) > 1 and self.events[-1]["event"] == "end"


def waited(process: subprocess.Popen[bytes], what: Callable[[], bool]) -> None:
    """Wait until something is so, or the run has ended."""
    while process.poll() is None and not what():
        time.sleep(LOOKS)


def words(run: Run) -> str:
    """The last words of a run."""
    return run.said.read_text(errors="replace")[-2000:]


def runs(exp: Path) -> list[Path]:
    """The run folders, the oldest first."""
    return sorted((exp / "runs").glob("*/"), key=made_at) if (exp / "runs").is_dir() else []


def made_at(run: Path) -> int:
    """When a run began: the time of the first file in it, else of the folder itself."""
    return min((path.stat().st_mtime_ns for path in run.glob("config.yaml")), default=run.stat().st_mtime_ns)


def last_run(exp: Path) -> Path:
    """The run folder that was made last."""
    return runs(exp)[-1]


def state(run: Path) -> str:
    """What the record of a run says, as it lies there; '' for one that was killed before it wrote any."""
    path = run / "status.json"
    return str(json.loads(path.read_text())["state"]) if path.exists() else ""


def events(run: Path) -> list[Event]:
    """What a run has written into its journals; a line that was cut off is none."""
    lines = [line for path in sorted(run.glob("tasks/*.jsonl")) for line in path.read_text().splitlines()]
    found = []
    for line in lines:
        with suppress(ValueError):
            found.append(json.loads(line))
    return found


def planned(several: Iterable[Event]) -> dict[str, str]:
    """The stage of each task."""
    return {row[0]: row[1] for event in several if event["event"] == "planned" for row in event["tasks"]}


def tasks(several: Iterable[Event], kind: str) -> set[str]:
    return {str(event["task"]) for event in several if event["event"] == kind}


def begun(several: Sequence[Event]) -> set[str]:
    """Tasks in flight at the end of a journal."""
    return tasks(several, "begin") - tasks(several, "done") - tasks(several, "reused") - tasks(several, "failed")


def in_flight(several: Sequence[Event]) -> str:
    """The stage of a task in flight; '' where there is none."""
    return next(
        (planned(several)[event["task"]] for event in reversed(several) if event.get("task") in begun(several)), ""
    )


def values(run: Path) -> dict[str, str]:
    """The tables of a run as text, without what tells the run."""
    rows = list(csv.reader((run / "results.csv").read_text(encoding="utf-8").splitlines()))
    own = rows[0].index("run_id")
    found = {"results.csv": "\n".join(",".join(row[:own] + row[own + 1 :]) for row in rows)}
    for path in sorted(run.glob("*.parquet")):
        table = pd.read_parquet(path)
        found[path.name] = table.drop(columns="run_id", errors="ignore").to_csv(index=False)
    return found


def folder(store: Path, key: Key) -> Path:
    return store / key[0] / key[1][:2] / key[1]


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
            record = storage.read_record((path / storage.RECORD).read_bytes(), stage, path.name)
        except (OSError, storage.WrongRecord) as error:
            wrong.append(f"half an artefact: {path}: {error}")
            continue
        there = {one.relative_to(path).as_posix() for one in path.rglob("*") if one.is_file()} - {storage.RECORD}
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
        found[stage, key] = (
            (path.stat().st_ino, (path / storage.RECORD).stat().st_mtime_ns) if path.exists() else (0, 0)
        )
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
    """What survives, as Markdown: a line for each victim and kind of moment."""
    lines = ["| killed | when | stages of tasks in flight | kills | next run equal | computed again beyond those in flight |",
             "| --- | --- | --- | --- | --- | --- |"]  # fmt: skip
    groups: dict[tuple[str, str], list[Kill]] = {}
    for one in kills:
        who = f"the run, `{one.way}`" if one.victim == "run" else f"a worker of `{one.way}`"
        groups.setdefault((who, one.moment), []).append(one)
    for moment, said in IN_WORDS.items():
        for (who, when), several in sorted(groups.items()):
            if when == moment:
                stages = Counter(one.stage or "none" for one in several)
                struck = ", ".join(f"{stage} {stages[stage]}" for stage in (*STAGES, "none") if stages[stage])
                equal, beyond = sum(not one.wrong for one in several), sum(one.beyond for one in several)
                lines.append(f"| {who} | {said} | {struck} | {len(several)} | {equal} | {beyond} |")
    return "\n".join(lines) + "\n"
