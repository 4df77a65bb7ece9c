"""What earlier runs measured: one machine, device and number of threads at a time, whatever else stands in the file."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.engine import rates as module
from pipeline.engine.executors.local import Executor, Settings
from pipeline.engine.outcome import Outcome
from pipeline.engine.rates import FILE, Measuring, Rates
from pipeline.engine.stop import Stop, Stopped
from pipeline.engine.store import Store
from pipeline.engine.task import Output, Resources, Task, Work
from pipeline.errors import StageFailed
from tests.running import execute


def writes(size: int = 5000) -> Callable[[Work], None]:
    def function(work: Work) -> None:
        for output in work.missing:
            (work.folder(output) / "value").write_bytes(b"x" * size)

    return function


def task(stage: str = "leaf", /, seconds: float = 0.0, outputs: tuple[str, ...] = ("",), code: str = "", **settings: object) -> Task:  # fmt: skip
    made = {one: Output({"name": one}, code=(f"made.{one}",)) for one in outputs}
    return Task(stage, f"{stage} {settings}", writes(), settings=settings, outputs=made, code=(code,) if code else (), resources=Resources(seconds))  # fmt: skip


def kept(root: Path, *measured: tuple[Task, float, dict[str, int]], device: str = "cpu", threads: int = 1) -> None:
    rates = Rates.read(root, device, threads)
    for one, seconds, sizes in measured:
        rates.measured(one, seconds, dict(sizes))
    rates.write()


def test_audio_scales_what_was_measured_and_tasks_without_any_count_as_their_mean(tmp_path: Path) -> None:
    kept(tmp_path, (task(seconds=10), 2.0, {"": 100}), (task(seconds=30), 6.0, {"": 300}))
    kept(tmp_path, (task("score", x=1), 1.0, {"": 10}), (task("score", x=1), 3.0, {"": 30}))
    rates = Rates.read(tmp_path, "cpu", 1)
    assert rates.seconds(task(seconds=100)) == pytest.approx(20)
    assert rates.bytes(task(seconds=100)) == pytest.approx(1000)
    assert (rates.seconds(task("score", x=1)), rates.bytes(task("score", x=1))) == (2.0, 20.0)
    assert rates.seconds(task("measure")) is None and rates.bytes(task("measure")) is None


def test_machines_devices_and_threads_are_not_mixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = task(seconds=10)
    kept(tmp_path, (one, 1.0, {"": 1}))
    kept(tmp_path, (one, 2.0, {"": 1}), device="cuda:1")
    kept(tmp_path, (one, 4.0, {"": 1}), threads=8)
    with monkeypatch.context() as patch:
        patch.setattr(module.socket, "gethostname", lambda: "other")
        kept(tmp_path, (one, 8.0, {"": 1}))
        assert Rates.read(tmp_path, "cpu", 1).seconds(one) == 8.0
    assert Rates.read(tmp_path, "cpu", 1).seconds(one) == 1.0
    assert Rates.read(tmp_path, "cuda:0", 1).seconds(one) == 2.0, "devices of one kind"
    assert Rates.read(tmp_path, "cpu", 8).seconds(one) == 4.0
    assert Rates.read(tmp_path, "cpu", 2).seconds(one) is None
    assert Rates.read(tmp_path, "cpu").seconds(one) == 2.5, "any number of threads: the mean of 1 and 4"
    assert Rates.read(tmp_path, "cpu", 1, host=None).seconds(one) == 4.5, "any host: the mean of 1 and 8"


def test_outputs_that_were_made_together_are_one_measure_and_each_has_its_share(tmp_path: Path) -> None:
    both = task(seconds=10, outputs=("a", "b"))
    kept(tmp_path, (both, 6.0, {"a": 100, "b": 900}))
    rates = Rates.read(tmp_path, "cpu", 1)
    assert (rates.seconds(both), rates.bytes(both)) == (6.0, 1000.0)
    assert (rates.seconds(both, ["b"]), rates.bytes(both, ["b"])) == (3.0, 900.0)
    assert rates.seconds(task(seconds=10, outputs=("a", "c"))) is None, "of one of them nothing is known"
    kept(tmp_path, (task(seconds=10, outputs=("c",)), 1.0, {"c": 5}))
    rates = Rates.read(tmp_path, "cpu", 1)
    assert rates.seconds(task(seconds=10, outputs=("a", "c"))) == 4.0
    assert rates.seconds(both) == 6.0


def test_other_settings_of_a_component_are_asked_where_these_were_never_measured(tmp_path: Path) -> None:
    kept(tmp_path, (task("train", code="one", name="ecapa", epochs=2), 2.0, {"": 10}))
    rates = Rates.read(tmp_path, "cpu", 1)
    assert rates.seconds(task("train", code="one", name="ecapa", epochs=50)) == 2.0
    assert rates.seconds(task("train", code="one", name="other", epochs=2)) is None
    assert rates.seconds(task("train", code="two", name="ecapa", epochs=2)) is None
    kept(tmp_path, (task("train", code="one", name="ecapa", epochs=50), 50.0, {"": 10}))
    assert Rates.read(tmp_path, "cpu", 1).seconds(task("train", code="one", name="ecapa", epochs=50)) == 50.0


def test_a_line_that_cannot_be_read_spoils_no_other(tmp_path: Path) -> None:
    one = task(seconds=10)
    kept(tmp_path, (one, 2.0, {"": 100}))
    place = tmp_path / FILE
    line = json.loads(place.read_text())
    spoilt = [
        {**line, "tasks": 0}, {**line, "tasks": "many"}, {**line, "work": -1}, {**line, "bytes": []}, {**line, "of": []},
        {**line, "of": 7}, {**line, "threads": None}, {**line, "work": 1e300}, {**line, "audio": None}, {}, [], 3,
    ]  # fmt: skip
    with place.open("ab") as stream:
        stream.writelines(json.dumps(bad).encode() + b"\n" for bad in spoilt)
        stream.write(b'\xff\xfe\x00 no text \n{"work": NaN}\n\n' + b"[" * 100_000 + b"\n" + place.read_bytes()[:40])
    assert Rates.read(tmp_path, "cpu", 1).seconds(one) == 2.0
    kept(tmp_path, (one, 4.0, {"": 100}))
    assert Rates.read(tmp_path, "cpu", 1).seconds(one) == 3.0, "a line that was cut off takes no other with it"


def test_a_large_file_is_added_up_and_a_folder_that_cannot_be_written_costs_estimates_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LARGEST", 4000)
    several = [task(seconds=10, x=number % 3) for number in range(60)]
    for one in several:
        kept(tmp_path, (one, 2.0, {"": 100}))
    assert (tmp_path / FILE).stat().st_size <= 4000
    rates = Rates.read(tmp_path, "cpu", 1)
    assert sum(total.tasks for total in rates.known.values()) == 2 * 60, "by either kind"
    for number in range(60):
        kept(tmp_path, (task(f"stage{number}"), 2.0, {"": 100}))
    assert (tmp_path / FILE).stat().st_size <= 4000, "kinds that are too many: the last stay"
    assert Rates.read(tmp_path, "cpu", 1).seconds(task("stage59")) == 2.0
    assert list(tmp_path.iterdir()) == [tmp_path / FILE]
    kept(tmp_path / "gone", (several[0], 1.0, {"": 1}))
    assert not (tmp_path / "gone").exists()


def test_a_run_measures_what_it_computes_also_when_it_fails_or_is_stopped(tmp_path: Path) -> None:
    store, stop = Store(tmp_path / "store"), Stop()

    def measured(tasks: list[Task], stop: Stop) -> list[Task]:
        outcome = Outcome(store)
        measuring = Measuring(Rates.read(tmp_path, "cpu", 1), outcome)
        Executor(Settings()).execute(tasks, stop, outcome, measuring)
        return tasks

    def fails(work: Work) -> None:
        raise StageFailed("no")

    def stops(work: Work) -> None:
        stop.number = 15

    good, twice = task("good"), task("twice", outputs=("a", "b"))
    with pytest.raises(StageFailed):
        measured([good, Task("bad", "bad", fails), twice], Stop())
    rates = Rates.read(tmp_path, "cpu", 1)
    assert rates.bytes(good) == 3 * 4096, "5000 bytes are two blocks, and the record is one"
    assert rates.bytes(twice) == 6 * 4096
    seconds = rates.seconds(good)
    assert seconds is not None and seconds > 0 and rates.seconds(task("bad")) is None
    before = (tmp_path / FILE).read_bytes()
    measured([good, twice], Stop())
    assert (tmp_path / FILE).read_bytes() == before, "what was there took no time"
    last = Task("last", "last", lambda work: (stops(work), writes()(work))[1])
    with pytest.raises(Stopped):
        measured([last, good], stop)
    assert Rates.read(tmp_path, "cpu", 1).seconds(last) is not None


def test_what_will_not_fit_is_refused_before_anything_is_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = task(x=1), task("unheard of")
    kept(tmp_path, (one, 1.0, {"": 1000}))
    outcome, rates = Outcome(Store(tmp_path / "store")), Rates.read(tmp_path, "cpu", 1)
    asked: list[Path] = []

    def free(size: int) -> None:
        real = shutil.disk_usage(tmp_path)

        def usage(path: os.PathLike[str]) -> object:
            asked.append(Path(path))
            return real._replace(free=size)

        monkeypatch.setattr(module.shutil, "disk_usage", usage)

    free(1100)
    module.check_free_space([one], outcome, rates)
    assert asked == [tmp_path], "the nearest folder that is there"
    free(1099)
    with pytest.raises(StageFailed, match=r"about 1\.1 kB are needed, 1\.1 kB are free"):
        module.check_free_space([one], outcome, rates)
    with pytest.raises(StageFailed, match="at least") as caught:
        module.check_free_space([one, other], outcome, rates)
    assert f"paths.root={tmp_path}" in caught.value.remedy and "store gc" in caught.value.remedy
    module.check_free_space([other], outcome, rates)
    execute([one], outcome.store, Stop())
    module.check_free_space([one, other], outcome, rates)
    assert asked.count(tmp_path / "store") == 1, "what is stored needs nothing more"
    free(0)
    module.check_free_space(
        [one], Outcome(Store(tmp_path / "empty" / "store")), Rates.read(tmp_path / "empty", "cpu", 1)
    )
