"""What a run says of its failures: a table of the roots, their class, and what was left out for which reason."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from pipeline.engine import failures
from pipeline.engine.executors.local import Executor, Settings
from pipeline.engine.outcome import Outcome
from pipeline.engine.progress import Progress
from pipeline.engine.stop import Stop
from pipeline.engine.store import Store
from pipeline.engine.task import Task, Work
from pipeline.errors import DataError, FailedTask, ModelMissing, PipelineError, StageFailed


def raises(error: Exception) -> Callable[[Work], None]:
    def function(work: Work) -> None:
        raise error

    return function


def writes(work: Work) -> None:
    (work.folder() / "value").write_text("x")


def failing(number: int, error: Exception) -> Task:
    return Task("bad", f"bad {number}", raises(error), {"n": number})


def on(*sources: Task, label: str) -> Task:
    return Task("join", label, writes, {"label": label}, {"sources": tuple(task.ref() for task in sources)})


def error_of(tasks: Sequence[Task], folder: Path, fail_fast: bool = False) -> PipelineError:
    outcome = Outcome(Store(folder))
    with pytest.raises(PipelineError) as caught:
        Executor(Settings()).execute(tasks, Stop(), outcome, Progress(), fail_fast)
    return caught.value


def test_a_table_names_each_root_and_counts_what_stood_on_it(tmp_path: Path) -> None:
    one, other = failing(1, ValueError("no good\nat all")), failing(2, KeyError("x"))
    first = on(one, label="on one")
    tasks = [one, other, first, on(first, label="on on one"), on(one, other, label="on both")]
    error = pickle.loads(pickle.dumps(error_of(tasks, tmp_path)))
    assert [(row.label, row.stage, row.stood, row.status) for row in error.faults if isinstance(row, FailedTask)] == [
        ("bad 1", "bad", 3, 5),
        ("bad 2", "bad", 1, 5),
    ]
    error.listed_in = "/a/run.log"
    lines = str(error).splitlines()
    assert lines[:3] == [
        "bad 1 failed with ValueError: no good",
        "at all. Where: bad 1. Likely cause: see the traceback in run.log. To mend it: mend the cause and run the same "
        "command again; all finished tasks are reused",
        "  2 tasks failed (all of it in /a/run.log):",
    ]
    assert lines[3:] == [
        "  stage  task   stood on it  what happened",
        "  bad    bad 1  3            failed with ValueError: no good at all",
        "  bad    bad 2  1            failed with KeyError: 'x'",
        "  - on one, on on one, on both: not run, because a task that it stands on failed",
    ]


def test_logs_of_others_stand_in_the_table() -> None:
    one, other = failing(1, ValueError()), failing(2, ValueError())
    failed = {task: failures.explain_exception(task, ValueError("no")) for task in (one, other)}
    with pytest.raises(StageFailed) as caught:
        failures.raise_failures(failed, {other: "/b/worker.log"})
    caught.value.listed_in = "/a/run.log"
    assert [line.split()[-1] for line in str(caught.value).splitlines()[-2:]] == ["/a/run.log", "/b/worker.log"]


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ([DataError("a"), DataError("b")], DataError),
        ([ModelMissing("a"), ModelMissing("b")], ModelMissing),
        ([DataError("a"), ModelMissing("b")], StageFailed),
        ([DataError("a"), ValueError("b")], StageFailed),
        ([DataError("a")], DataError),
        ([ValueError("a")], StageFailed),
    ],
)
@pytest.mark.parametrize("stood", [False, True])
def test_the_class_is_that_of_all_roots(
    tmp_path: Path, errors: list[Exception], expected: type[PipelineError], stood: bool
) -> None:
    roots = [failing(number, error) for number, error in enumerate(errors)]
    error = error_of([*roots, *([on(*roots, label="join")] if stood else [])], tmp_path)
    assert type(error) is expected
    assert list(failures.select_roots(error.failed)) == roots


def test_what_was_not_begun_is_told_from_what_could_not_be_run(tmp_path: Path) -> None:
    bad, free = failing(1, ValueError("no")), Task("leaf", "free", writes)
    tasks = [bad, on(bad, label="on bad"), free, on(free, label="on free"), on(bad, free, label="on both")]
    error = error_of(tasks, tmp_path, fail_fast=True)
    assert [(fault.where, fault.what.partition(",")[0]) for fault in error.faults] == [
        ("on bad, on both", "not run"),
        ("free, on free", "not begun"),
    ]
    assert "fail_fast=true" in str(error)
    assert not list(tmp_path.glob("leaf"))
    slow = error_of(tasks, tmp_path)
    assert [fault.where for fault in slow.faults] == ["on bad, on both"]
    assert list(tmp_path.glob("leaf/*/*/record.json"))
