"""How tasks are shared out to jobs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.engine.executors.slurm import Executor, Settings
from pipeline.engine.task import Resources, Task, Value, Work
from pipeline.engine.waves import Request, Wave, plan_waves
from pipeline.errors import ConfigError
from pipeline.seeds import digest

CPU, GPU = Request(False), Request(True)


def nothing(work: Work) -> None:
    """The tasks of these tests are never performed."""


def task(name: str, *sources: Task, stage: str = "step", seconds: float = 1.0, device: bool = False) -> Task:
    """A task that stands on others."""
    inputs = {"own": Value(digest(name), name), "sources": tuple(source.ref() for source in sources)}
    return Task(stage, name, nothing, inputs=inputs, resources=Resources(seconds, device))


def shared(tasks: Sequence[Task], chunk: float) -> list[Wave]:
    return plan_waves(tasks, lambda one: GPU if one.resources.device else CPU, lambda one: one.resources.seconds, chunk)


def labels(found: Sequence[Wave]) -> list[list[list[str]]]:
    return [[[one.label for one in part] for part in wave.parts] for wave in found]


def test_a_wave_is_the_tasks_of_a_level_and_waits_for_those_it_stands_on() -> None:
    a, b = task("a", seconds=9), task("b", seconds=9)
    c, d = task("c", a, b, seconds=9), task("d", b, seconds=9)
    e = task("e", c, seconds=9)
    found = shared([a, b, c, d, e], chunk=10)
    assert labels(found) == [[["a"], ["b"]], [["c"], ["d"]], [["e"]]]
    assert [wave.after for wave in found] == [(), (0,), (1,)]


def test_parts_are_about_a_chunk_and_a_long_task_has_its_own() -> None:
    tasks = [task(str(number), seconds=seconds) for number, seconds in enumerate([4, 4, 4, 30, 1, 1])]
    assert labels(shared(tasks, chunk=10)) == [[["0", "1"], ["2"], ["3"], ["4", "5"]]]
    assert [len(wave.parts) for wave in shared(tasks, chunk=0)] == [6]


def test_what_asks_for_different_things_is_never_in_one_job() -> None:
    a, b = task("a", device=True), task("b")
    found = shared([a, b], chunk=100)
    assert labels(found) == [[["a"]], [["b"]]]
    assert [wave.ask for wave in found] == [GPU, CPU]
    assert [wave.after for wave in found] == [(), ()]


def test_cheap_steps_that_follow_each_other_are_one_job() -> None:
    a = task("a", seconds=100, device=True)
    b, c = task("b", a), task("c", a)
    d = task("d", b, c)
    found = shared([a, b, c, d], chunk=10)
    assert labels(found) == [[["a"]], [["b", "c", "d"]]]
    assert found[1].after == (0,)


def test_cheap_steps_are_not_joined_over_what_stands_between_them() -> None:
    a = task("a")
    b = task("b", a, device=True)
    c = task("c", b)
    assert labels(shared([a, b, c], chunk=10)) == [[["a"]], [["b"]], [["c"]]]


def test_cheap_steps_wait_for_later_ones_where_nobody_waits_for_them() -> None:
    a, x = task("a", device=True), task("x")
    b = task("b", a, device=True)
    y = task("y", x, b)
    found = shared([a, x, b, y], chunk=1.5)
    assert labels(found) == [[["a"]], [["x"]], [["b"]], [["y"]]]  # together they are more than a chunk
    found = shared([a, x, b, y], chunk=3)
    assert labels(found) == [[["a", "b"]], [["x", "y"]]]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_every_task_is_done_once_and_after_all_that_it_stands_on(data: st.DataObject) -> None:
    tasks: list[Task] = []
    for number in range(data.draw(st.integers(1, 14))):
        below = data.draw(st.lists(st.sampled_from(tasks), max_size=3, unique=True)) if tasks else []
        seconds, device = data.draw(st.sampled_from([0.5, 3.0, 20.0])), data.draw(st.booleans())
        tasks.append(task(str(number), *below, seconds=seconds, device=device))
    missing = tasks[data.draw(st.integers(0, len(tasks) - 1)) :]
    chunk = data.draw(st.sampled_from([0.0, 5.0, 60.0]))
    found = shared(missing, chunk)
    placed = {
        one: (wave, part) for wave, made in enumerate(found) for part, held in enumerate(made.parts) for one in held
    }
    assert sorted(placed, key=tasks.index) == missing
    assert sum(len(part) for wave in found for part in wave.parts) == len(missing)
    for number, wave in enumerate(found):
        assert all(place < number for place in wave.after)
        for part in wave.parts:
            assert len(part) == 1 or sum(one.resources.seconds for one in part) <= chunk
            for spot, one in enumerate(part):
                assert wave.ask == (GPU if one.resources.device else CPU)
                for source in {ref.task for ref in one.sources()} & placed.keys():
                    assert source in part[:spot] or placed[source][0] in wave.after


# What jobs ask for ---------------------------------------------------------------------------------------------------


def asked(given: dict[str, object], one: Task, device: str = "auto") -> dict[str, object]:
    """What submitit is told of the job of a task."""
    executor = Executor(Settings.model_validate({"name": "slurm", **given}))
    (wave,) = executor.shared_out([one], device, lambda _: 1.0)
    return {**executor._options(wave.ask), "device": wave.ask.device}


EXTRACT, SCORE = task("e", stage="extract", device=True), task("s", stage="score")


def test_a_task_that_uses_a_gpu_asks_for_one_unless_there_is_none_or_none_is_wanted() -> None:
    assert asked({}, EXTRACT)["gpus_per_node"] == 1 and asked({}, EXTRACT)["device"] is True
    assert asked({}, EXTRACT, "cuda:0")["device"] is True
    for settings_, device in (({"gpus": 0}, "auto"), ({}, "cpu")):
        found = asked(settings_, EXTRACT, device)
        assert "gpus_per_node" not in found and found["device"] is False
    with pytest.raises(ConfigError, match="gives no job one"):
        asked({"gpus": 0}, EXTRACT, "cuda:0")
    assert "gpus_per_node" not in asked({"gpus": 0}, SCORE, "cuda:0") and "gpus_per_node" not in asked({}, SCORE)
    # A program of the user's may use one, of which the pipeline knows nothing.
    assert asked({"stages": {"score": {"gpus": 2}}}, SCORE)["gpus_per_node"] == 2


def test_stages_and_jobs_with_a_gpu_ask_for_their_own() -> None:
    given = {
        "partition": "cpu", "account": "us", "time": 100, "mem_gb": 8, "extra": {"qos": "short"},
        "gpu": {"partition": "gpu", "mem_gb": 40}, "stages": {"extract": {"time": 600, "extra": {"constraint": "a100"}}},
    }  # fmt: skip
    plain, own = asked(given, SCORE), asked(given, EXTRACT)
    assert (plain["slurm_partition"], plain["timeout_min"], plain["mem_gb"]) == ("cpu", 100, 8)
    assert (own["slurm_partition"], own["timeout_min"], own["mem_gb"]) == ("gpu", 600, 40)
    assert own["slurm_account"] == "us"
    assert own["slurm_additional_parameters"] == {"requeue": True, "qos": "short", "constraint": "a100"}


@pytest.mark.parametrize(
    "given",
    [{"partition": "a\nscancel"}, {"partition": "a b"}, {"extra": {"output": "/x"}}, {"extra": {"wrap": "rm"}},
     {"extra": {"qos": "a'\nrm"}}, {"stages": {"train": {"extra": {"export": "ALL"}}}}, {"extra": {"qos\nx": "1"}},
     {"account": "$(x)"}, {"gpu": {"account": "`x`"}}],
)  # fmt: skip
def test_nothing_reaches_the_script_of_a_job_but_amounts_and_names(given: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"pattern|may not stand here"):
        Settings.model_validate({"name": "slurm", **given})
