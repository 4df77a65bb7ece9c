"""Why a task has to be computed: the field that differs from the nearest result, whatever else the store holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.engine import code
from pipeline.engine.outcome import Outcome, find_missing
from pipeline.engine.reasons import NOTHING, Reason, Reasons
from pipeline.engine.stop import Stop
from pipeline.engine.store import RECORD, Store
from pipeline.engine.task import Name, Output, Ref, Task, Value, Work
from pipeline.seeds import digest
from tests.running import execute


def function(work: Work) -> None:
    for output in work.missing:
        (work.folder(output) / "value").write_text(work.task.label)  # type: ignore[attr-defined]


def leaf(label: str = "leaf", audio: str = "a", outputs: dict[Name, Output] | None = None, **settings: object) -> Task:
    inputs = {"audio": Value(digest(audio), audio)}
    return Task("leaf", label, function, {"name": "x", **settings}, inputs, outputs or {"": Output()}, libraries=("numpy",))  # fmt: skip


def reasons(tmp_path: Path, *tasks: Task) -> list[Reason]:
    outcome = Outcome(Store(tmp_path))
    lacking = find_missing(tasks, outcome)
    answers = Reasons(outcome)
    return [answers.of(task, names) for task, names in lacking.items()]


def stored(tmp_path: Path, *tasks: Task) -> None:
    execute(list(tasks), Store(tmp_path), Stop())


def test_the_first_field_that_differs_is_named_with_both_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert reasons(tmp_path, leaf()) == [NOTHING]
    stored(tmp_path, leaf(trim=False, rate=1), leaf("other", "b", trim=False, rate=2))
    assert reasons(tmp_path, leaf(trim=True, rate=1)) == [Reason("setting trim true, stored: false")]
    assert reasons(tmp_path, leaf(trim=False, rate=3)) == [Reason("setting rate 3, stored: 1")]
    assert reasons(tmp_path, leaf("other", "b", trim=True, rate=3)) == [
        Reason("setting rate 3, stored: 2, and 1 more field")
    ]
    assert reasons(tmp_path, leaf(trim=False, rate=1, new=None)) == [Reason("setting new null, stored: none")]
    assert reasons(tmp_path, leaf(audio="c", trim=False, rate=1)) == [Reason("input audio differs")]
    assert reasons(tmp_path, leaf("third", "c", trim=False, rate=2)) == [Reason("input audio differs", "other")]
    assert str(Reason("input audio differs", "other")) == "input audio differs (nearest: other)"
    monkeypatch.setattr(code, "collect_versions", lambda modules: {"decoding": 3})
    stored(tmp_path, leaf(trim=False, rate=9))
    monkeypatch.setattr(code, "collect_versions", lambda modules: {"decoding": 4})
    assert reasons(tmp_path, leaf(trim=False, rate=9)) == [Reason("version of decoding 4, stored: 3")]
    monkeypatch.setattr("pipeline.engine.task.read_library_version", lambda name: "9.9")
    (reason,) = reasons(tmp_path, leaf(trim=False, rate=9))
    assert reason.text.startswith("version of decoding 4, stored: 3, and 1 more field")


def test_a_result_of_another_component_is_not_near(tmp_path: Path) -> None:
    stored(tmp_path, leaf(rate=1))
    other = Task("leaf", "leaf", function, {"name": "y", "rate": 1}, {"audio": Value(digest("a"), "a")})
    assert reasons(tmp_path, other) == [NOTHING]


def test_what_stands_on_missing_work_says_so_and_an_output_is_named_where_there_are_several(tmp_path: Path) -> None:
    both = {"f0": Output({"name": "f0", "fmax": 1}), "ge2e": Output({"name": "ge2e"})}
    stored(tmp_path, leaf(outputs=both))
    more = {**both, "f0": Output({"name": "f0", "fmax": 2})}
    first = leaf(outputs=more)
    second = Task("join", "join", function, inputs={"leaf": Ref(first, "f0")})
    one, two = reasons(tmp_path, first, second)
    assert one == Reason("f0: setting fmax 2, stored: 1")
    assert two.waits and str(two) == "stands on leaf, which is to be computed"


def test_a_label_decides_between_equally_near_results_and_long_values_are_cut(tmp_path: Path) -> None:
    stored(tmp_path, leaf("one", "a", weights=digest(1)), leaf("two", "b", weights=digest(2)))
    (reason,) = reasons(tmp_path, leaf("one", "c", weights=digest(3)))
    assert reason == Reason(f"setting weights {digest(3)[:12]}…, stored: {digest(1)[:12]}…, and 1 more field")
    stored(tmp_path, leaf("long", "l", table=list(range(100))))
    (reason,) = reasons(tmp_path, leaf("long", "l", table=list(range(99, 0, -1))))
    assert len(reason.text) < 150 and "[99, 98" in reason.text and "stored: [0, 1" in reason.text


def test_garbage_in_the_store_and_a_large_store_change_no_more_than_the_nearest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(tmp_path, leaf(rate=1))
    spoilt = [
        b"",
        b"[]",
        b"{}",
        b'{"parts": [], "notes": {}}',
        json.dumps({"parts": {"settings": 3}, "notes": 1}).encode(),
    ]
    for number, content in enumerate(spoilt):
        folder = tmp_path / "leaf" / "00" / digest(number)
        folder.mkdir(parents=True)
        (folder / RECORD).write_bytes(content)
    (tmp_path / "leaf" / "00" / digest("empty")).mkdir()
    assert reasons(tmp_path, leaf(rate=2)) == [Reason("setting rate 2, stored: 1")]
    monkeypatch.setattr("pipeline.engine.reasons.LOOKED_AT", 3)
    for number in range(10, 14):
        stored(tmp_path, leaf(rate=number))
    read: list[Path] = []
    before = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: (read.append(path), before(path))[1])
    (reason,) = reasons(tmp_path, leaf(rate=2))
    assert reason.text.startswith("setting rate 2, stored: 1") and len(read) == 3
