"""The ready queue: what can be done, what first, and what a failure takes down."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.engine.ready import Ready, State
from pipeline.engine.task import Output, Resources, Task, Work


def nothing(work: Work) -> None:
    raise AssertionError("no task is done here")


def task(name: str, *on: Task, seconds: float = 1.0, device: bool = False) -> Task:
    return Task("t", name, nothing, {"n": name}, {"on": tuple(one.ref() for one in on)}, resources=Resources(seconds, device))  # fmt: skip


def ready(*tasks: Task) -> Ready:
    return Ready(tasks, lambda one: one.resources.seconds, lambda one: one.resources.device)


def all_fresh(queue: Ready) -> list[str]:
    """What is fresh, in its order; it is then missing."""
    found = []
    while (number := queue.fresh()) is not None:
        queue.missing(number)
        found.append(queue.tasks[number].label)
    return found


def taken(queue: Ready, device: bool = False) -> list[str]:
    found = []
    while (number := queue.take(device)) is not None:
        found.append(queue.tasks[number].label)
    return found


def test_the_longest_way_comes_first_and_not_the_longest_task() -> None:
    long, short = task("long", seconds=5), task("short", seconds=1)
    after = task("after", short, seconds=9)
    queue = ready(long, short, after)
    assert queue.below == [5, 10, 9]
    assert all_fresh(queue) == ["short", "long"] == taken(queue)
    queue.done(1)
    assert all_fresh(queue) == ["after"]


def test_tasks_for_accelerators_are_taken_apart() -> None:
    queue = ready(task("cpu"), task("gpu", device=True))
    all_fresh(queue)
    assert (queue.left(), queue.left(True), queue.left(False)) == (2, 1, 1)
    assert queue.has(True) and taken(queue, True) == ["gpu"] and not queue.has(True)
    assert queue.has(False) and taken(queue, False) == ["cpu"]


def test_a_failure_takes_down_what_stands_on_it_and_nothing_else() -> None:
    a, b = task("a"), task("b")
    on_a, on_both = task("on a", a), task("on both", a, b)
    queue = ready(a, b, on_a, on_both, task("on it", on_both), task("on b", b))
    all_fresh(queue)
    assert taken(queue) == ["a", "b"]
    assert queue.failed(0) == [2, 3, 4]
    queue.done(1)
    assert all_fresh(queue) == ["on b"]
    assert queue.unfinished() == [5] and queue.left() == 1


def test_what_makes_the_same_output_waits_and_goes_on_also_after_a_failure() -> None:
    """Two tasks of one graph may make one output: it is made once, and the second is not lost with the first."""

    def extracting(label: str, *names: str) -> Task:
        return Task("t", label, nothing, outputs={name: Output({"name": name}) for name in names})

    for ends in (Ready.done, Ready.failed):
        queue = ready(extracting("one", "f0"), extracting("two", "f0", "ecapa"), extracting("three", "ecapa"))
        assert all_fresh(queue) == ["one"]
        for number, later in enumerate(("two", "three")):
            ends(queue, number)
            assert all_fresh(queue) == [later]


def test_a_source_that_is_made_elsewhere_is_not_waited_for() -> None:
    assert all_fresh(ready(task("b", task("a")))) == ["b"]


def test_what_is_lost_is_done_again_before_what_has_not_begun() -> None:
    a = task("a")
    b, c = task("b", a), task("c", a, seconds=2)
    queue = ready(a, b, c)
    all_fresh(queue), taken(queue)
    queue.done(0)
    assert all_fresh(queue) == ["c", "b"]
    assert queue.take(False) == 2
    queue.again(0)
    assert queue.state(1) is State.WAITING and queue.state(2) is State.RUNNING
    queue.back(2)
    assert all_fresh(queue) == ["a"] == taken(queue)
    queue.done(0)
    assert all_fresh(queue) == ["c", "b"]
    assert queue.before(2) == [0] and queue.standing_on(0) == [1, 2]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[Task], Mapping[str, str]]:
    """Tasks, sources first, and what becomes of each."""
    tasks: list[Task] = []
    for number in range(draw(st.integers(1, 12))):
        on = draw(st.sets(st.sampled_from(tasks), max_size=3)) if tasks else set()
        tasks.append(task(str(number), *sorted(on, key=lambda one: one.label), seconds=draw(st.floats(0, 9)), device=draw(st.booleans())))  # fmt: skip
    ends = st.sampled_from(["found", "done", "fails", "back"])
    return tasks, {one.label: draw(ends) for one in tasks}


@settings(max_examples=40, deadline=None)
@given(graphs(), st.randoms())
def test_every_task_ends_exactly_once_after_its_sources(
    given: tuple[list[Task], Mapping[str, str]], random: object
) -> None:
    """Against the plain rule: a task is done if and only if it does not fail and all that it stands on is done."""
    tasks, ends = given
    queue, done, failed, down, back = ready(*tasks), set(), set(), set(), set()
    running: list[int] = []
    while queue.left():
        number = queue.fresh()
        if number is not None:
            assert all(ref.task in done for ref in tasks[number].sources())
            if ends[tasks[number].label] == "found":
                queue.done(number)
                done.add(tasks[number])
            else:
                queue.missing(number)
            continue
        for device in (True, False):
            while queue.has(device):
                number = queue.take(device)
                assert number is not None and tasks[number].resources.device == device
                running.append(number)
        number = running.pop(random.randrange(len(running)))  # type: ignore[attr-defined]
        what = ends[tasks[number].label]
        if what == "back" and number not in back:
            back.add(number)
            queue.back(number)
        elif what == "fails":
            failed.add(tasks[number])
            down.update(tasks[one] for one in queue.failed(number))
        else:
            queue.done(number)
            done.add(tasks[number])
    expected: set[Task] = set()
    for one in tasks:
        if ends[one.label] != "fails" and all(ref.task in expected for ref in one.sources()):
            expected.add(one)
    assert done == expected and not running and not queue.unfinished()
    assert done | failed | down == set(tasks) and len(done) + len(failed) + len(down) == len(tasks)
