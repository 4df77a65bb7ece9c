"""Execution: what is reused, what is computed, what a failure and a signal leave behind."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from pipeline.engine import failures
from pipeline.engine.outcome import Outcome, look_up_tasks
from pipeline.engine.stop import Stop, Stopped
from pipeline.engine.store import Store
from pipeline.engine.task import Artefact, Derived, Output, Task, Value, Work
from pipeline.errors import DataError, ModelMissing, PipelineError, StageFailed
from pipeline.seeds import digest
from tests.running import execute
from tests.toy import HANGS

ROOT = Path(__file__).resolve().parents[2]


def writes(text: str | Callable[[Work], str], calls: list[str] | None = None) -> Callable[[Work], None]:
    def function(work: Work) -> None:
        value = text if isinstance(text, str) else text(work)
        if calls is not None:
            calls.append(value)
        for output in work.missing:
            (work.folder(output) / "value").write_text(value)

    return function


@dataclass(frozen=True)
class FirstPart:
    """Takes what stands before the comma."""

    taken: ClassVar[list[str]] = []

    def __call__(self, artefacts: Sequence[Artefact]) -> Value:
        part = artefacts[0].path("value").read_text().split(",")[0]
        self.taken.append(part)
        return Value(digest(part), part)

    def digest(self) -> str:
        return digest("first part")


def part_of(work: Work) -> str:
    return str(work.input("part"))


def read(work: Work) -> str:
    return "+".join(made.path("value").read_text() for made in work.input("sources"))


def test_a_second_run_computes_nothing_and_one_change_touches_what_stands_on_it(tmp_path: Path) -> None:
    def graph(second: str) -> list[Task]:
        a = Task("leaf", "a", writes("one"), settings={"x": 1})
        b = Task("leaf", "b", writes(second), settings={"x": second})
        ends = [Task("join", f"join {name}", writes(read), inputs={"sources": refs}) for name, refs in
                {"a": (a.ref(),), "ab": (a.ref(), b.ref())}.items()]  # fmt: skip
        return [a, b, *ends]

    store = Store(tmp_path)
    first = execute(graph("two"), store, Stop())
    assert (first.reused, first.computed) == (0, 4)
    assert [made.path("value").read_text() for made in first.artefacts.values()] == ["one", "two", "one", "one+two"]
    again = execute(graph("two"), store, Stop())
    assert (again.reused, again.computed) == (4, 0)
    changed = execute(graph("three"), store, Stop())
    assert (changed.reused, changed.computed) == (2, 2)


def test_equal_content_upstream_stops_the_change(tmp_path: Path) -> None:
    """Keys take the content of inputs, so a new version that makes the same bytes recomputes nothing downstream."""

    def graph(version: int) -> list[Task]:
        a = Task("leaf", "a", writes("same"), settings={"version": version})
        return [a, Task("join", "join", writes(read), inputs={"sources": (a.ref(),)})]

    store = Store(tmp_path)
    execute(graph(1), store, Stop())
    outcome = execute(graph(2), store, Stop())
    assert (outcome.reused, outcome.computed) == (1, 1)


def test_only_missing_outputs_are_made_and_outputs_have_keys_of_their_own(tmp_path: Path) -> None:
    calls: list[tuple[str, ...]] = []

    def function(work: Work) -> None:
        calls.append(work.missing)
        for output in work.missing:
            (work.folder(output) / "value").write_text(output)

    def task(*names: str) -> Task:
        return Task("extract", "t", function, outputs={name: Output(settings={"name": name}) for name in names})

    store = Store(tmp_path)
    execute([task("f0")], store, Stop())
    execute([task("f0", "ecapa")], store, Stop())
    assert calls == [("f0",), ("ecapa",)]


def test_a_label_is_no_part_of_the_key(tmp_path: Path) -> None:
    store = Store(tmp_path)
    execute([Task("leaf", "one name", writes("x"), outputs={"a": Output()})], store, Stop())
    outcome = execute([Task("leaf", "another", writes("x"), outputs={"b": Output()})], store, Stop())
    assert outcome.reused == 1


def test_a_derived_input_sees_its_part_alone(tmp_path: Path) -> None:
    def graph(beside: str) -> list[Task]:
        wide = Task("wide", "wide", writes(f"part,{beside}"), settings={"beside": beside})

        narrow = Task("narrow", "narrow", writes(part_of), inputs={"part": Derived((wide.ref(),), FirstPart())})
        return [wide, narrow]

    store = Store(tmp_path)
    assert execute(graph("x"), store, Stop()).computed == 2
    outcome = execute(graph("y"), store, Stop())
    assert (outcome.reused, outcome.computed) == (1, 1)
    FirstPart.taken.clear()
    assert execute(graph("y"), store, Stop()).computed == 0
    assert not FirstPart.taken, "the digest of a selection is kept: a finished run reads no artefact"


def test_a_failure_names_what_it_takes_down_and_the_rest_is_still_done(tmp_path: Path) -> None:
    def fails(work: Work) -> None:
        (work.folder() / "half").write_text("half")
        raise ValueError("no good")

    bad = Task("bad", "the bad one", fails)
    on_it = Task("join", "on it", writes(read), inputs={"sources": (bad.ref(),)})
    good = Task("leaf", "good", writes("fine"))
    store = Store(tmp_path)
    with pytest.raises(StageFailed, match="the bad one failed with ValueError: no good") as caught:
        execute([bad, on_it, good], store, Stop())
    assert [fault.where for fault in caught.value.faults] == ["on it"]
    several = [Task("join", f"on it {n}", writes(read), {"n": n}, {"sources": (bad.ref(),)}) for n in range(90)]
    with pytest.raises(StageFailed) as caught:
        execute([bad, *several, Task("bad", "another", fails, {"n": 1})], store, Stop())
    assert [fault.where for fault in caught.value.faults] == [
        "the bad one",
        "another",
        "on it 0, on it 1, on it 2 and 87 more",
    ]
    assert execute([good], store, Stop()).reused == 1
    assert not list(tmp_path.rglob("half"))


def test_an_error_of_the_data_keeps_its_status(tmp_path: Path) -> None:
    def fails(work: Work) -> None:
        raise DataError("too few speakers", remedy="add some")

    with pytest.raises(DataError, match="too few speakers"):
        execute([Task("bad", "bad", fails)], Store(tmp_path), Stop())


@pytest.mark.parametrize(
    ("roots", "kind"),
    [
        ((DataError, DataError), DataError),
        ((DataError, ValueError), StageFailed),
        ((ModelMissing, DataError), StageFailed),
        ((ModelMissing, ModelMissing), ModelMissing),
    ],
)
def test_several_failures_have_the_status_that_all_have(
    tmp_path: Path, roots: tuple[type[Exception], ...], kind: type[PipelineError]
) -> None:
    """And each of them is there by its task, for those who take what is whole."""

    def fails(number: int) -> Callable[[Work], None]:
        def function(work: Work) -> None:
            raise roots[number]("no good")

        return function

    bad = [Task("bad", f"bad {number}", fails(number), {"n": number}) for number in range(len(roots))]
    on_it = Task("join", "on it", writes(read), inputs={"sources": (bad[1].ref(),)})
    with pytest.raises(PipelineError) as caught:
        execute([*bad, on_it, Task("leaf", "good", writes("fine"))], Store(tmp_path), Stop())
    assert type(caught.value) is kind
    assert list(caught.value.failed) == [*bad, on_it]
    assert list(failures.select_roots(caught.value.failed)) == bad


def test_planned_keys_change_where_and_only_where_settings_reach() -> None:
    def graph(x: int) -> list[Task]:
        leaves = [Task("leaf", name, writes(name), {"name": name, "x": value}) for name, value in (("a", x), ("b", 0))]
        ends = [Task("join", f"on {leaf.label}", writes(read), inputs={"sources": (leaf.ref(),)}) for leaf in leaves]
        return [*leaves, *ends]

    before, after = ([task.planned[""] for task in graph(x)] for x in (1, 2))
    assert [old == new for old, new in zip(before, after)] == [False, True, False, True]


def test_tasks_that_do_the_same_are_equal_in_every_process() -> None:
    def graph(x: int) -> Task:
        leaf = Task("leaf", f"leaf {x}", part_of, {"x": x})
        return Task(
            "join", "join", part_of, inputs={"sources": (leaf.ref(),), "part": Derived((leaf.ref(),), FirstPart())}
        )

    one, other = graph(1), graph(1)
    assert one == other and hash(one) == hash(other) and one is not other
    assert one != graph(2)
    carried = pickle.loads(pickle.dumps(one))
    assert carried == one
    assert carried.sources() == one.sources()


def test_standing_tells_what_would_be_reused(tmp_path: Path) -> None:
    a = Task("leaf", "a", writes("one"))
    b = Task("join", "b", writes(read), inputs={"sources": (a.ref(),)})
    store = Store(tmp_path)
    assert [reused for _, reused in look_up_tasks([a, b], Outcome(store))] == [False, False]
    execute([a], store, Stop())
    assert [reused for _, reused in look_up_tasks([a, b], Outcome(store))] == [True, False]


SLEEPER = """
import sys, time
from pathlib import Path
from pipeline.engine import stop as stops
from pipeline.engine.store import Store
from pipeline.engine.task import Task
from tests.running import execute

stops.GRACE_SECONDS = float(sys.argv[2])
finishes = sys.argv[3] == "1"

def work(w):
    print("working", flush=True)
    while not finishes or stop.number is None:  # a shard that ends as soon as the signal is there, or never
        time.sleep(0.01)
    (w.folder() / "value").write_text("x")

tasks = [Task("leaf", str(n), work, {"n": n}) for n in range(3)]
with stops.listen_for_signals() as stop:
    try:
        execute(tasks, Store(Path(sys.argv[1])), stop)
    except stops.Stopped as error:
        sys.exit(error.status)
"""


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
@pytest.mark.parametrize(("grace", "finished"), [(3600.0, 1), (0.3, 0)])
def test_a_signal_ends_after_the_shard_in_flight_or_the_grace_time(
    tmp_path: Path, number: int, status: int, grace: float, finished: int
) -> None:
    worker = subprocess.Popen(
        [sys.executable, "-c", SLEEPER, str(tmp_path), str(grace), str(finished)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert worker.stdout is not None
    worker.stdout.readline()
    worker.send_signal(number)
    assert worker.wait(timeout=HANGS) == status
    assert len(list(tmp_path.glob("leaf/*/*/record.json"))) == finished


def test_a_stopped_task_leaves_its_scratch_and_the_next_run_goes_on_from_it(tmp_path: Path) -> None:
    store, stop = Store(tmp_path), Stop()
    asked: list[int] = []

    def function(work: Work) -> None:
        counter = work.scratch() / "counter"
        done = int(counter.read_text()) if counter.exists() else 0
        while done < 5:
            done += 1
            counter.write_text(str(done))
            asked.append(done)
            if done == 3 and len(asked) == 3:
                stop.number = signal.SIGTERM
            if work.stopping():
                return
        (work.folder() / "value").write_text(str(done))

    task = Task("long", "long", function)
    with pytest.raises(Stopped):
        execute([task], store, stop)
    assert asked == [1, 2, 3]
    assert not list(tmp_path.rglob("record.json"))
    outcome = execute([task], store, Stop())
    assert asked == [1, 2, 3, 4, 5]
    assert outcome.artefact(task.ref()).path("value").read_text() == "5"
    assert not list(tmp_path.rglob("*.scratch")), "the scratch goes when the output is committed"


def test_a_signal_after_the_last_look_keeps_finished_work(tmp_path: Path) -> None:
    stop = Stop()

    def function(work: Work) -> None:
        assert not work.stopping()
        (work.folder() / "value").write_text("done")
        stop.number = signal.SIGTERM

    first, second = Task("long", "first", function), Task("leaf", "second", writes("never"))
    with pytest.raises(Stopped):
        execute([first, second], Store(tmp_path), stop)
    assert execute([first], Store(tmp_path), Stop()).reused == 1


def test_what_a_run_made_pickles(tmp_path: Path) -> None:
    a = Task("leaf", "a", part_of, {"x": 1}, {"part": Value("digest", "one")})
    b = Task("join", "b", part_of, inputs={"part": Derived((a.ref(),), FirstPart())})
    outcome = Outcome(Store(tmp_path))
    folder = outcome.store.begin("leaf", "0" * 64)
    (folder / "value").write_text("one,two")
    outcome.artefacts[a.id, ""] = outcome.store.commit("leaf", "0" * 64, folder, {}, {})
    carried = pickle.loads(pickle.dumps(outcome))
    assert carried.has(a.ref()) and not carried.has(b.ref())
    assert carried.artefact(a.ref()) == outcome.artefact(a.ref())
    assert carried.value(b.inputs["part"]) == "one"
    assert carried.digest(b.inputs["part"]) == outcome.digest(b.inputs["part"]) == digest("one")
