"""Labels of runs by what differs between them, and what differs between configurations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pipeline.report import run_differences
from pipeline.report.run_differences import MOST, AboutRun, label_runs

CONFIG: dict[str, Any] = {
    "paths": {"root": "/one"},
    "runtime": {"device": "auto", "threads": None},
    "dataset": {"name": "synthetic", "seed": 1},
    "train": {"name": "embedding"},
    "executor": {"name": "local"},
    "system": {"original": {"name": "original"}, "b2": {"name": "mcadams", "alpha": 0.8}},
    "extractor": {"ecapa": {"name": "ecapa"}},
    "attacker": {"ignorant": {"enrolment": "original", "trial": "anonymised"}},
    "metric": {"asv": {"name": "asv"}},
}
RUN = AboutRun(CONFIG, ("libri_test",), ("0.2",), ("cpu",), started="2026-11-29T10:40:16Z")


def changed(path: str, value: Any) -> dict[str, Any]:
    """The configuration with another value; None takes a part out."""
    *above, name = path.split(".")
    if not above:
        return {**CONFIG, name: value}
    found: dict[str, Any] = {**CONFIG}
    place = found
    for one in above:
        place[one] = {**place[one]}
        place = place[one]
    place[name] = value
    return found


def of(*values: Any, path: str) -> list[str]:
    return label_runs([replace(RUN, config=changed(path, value)) for value in values])


@pytest.mark.parametrize(
    ("path", "values", "expected"),
    [
        ("extractor", [{"ecapa": {"name": "ecapa"}}, {"campplus": {"name": "campplus"}}], ["ecapa", "campplus"]),
        ("extractor", [{"a": {}}, {"a": {}, "b": {}}], ["without b", "with b"]),
        ("dataset.seed", [1, 2, 3], ["seed=1", "seed=2", "seed=3"]),
        ("system.b2.alpha", [0.8, 0.9], ["alpha=0.8", "alpha=0.9"]),
        ("train", [{"name": "embedding"}, None], ["train=embedding", "train=none"]),
        ("train.name", ["embedding", "finetune"], ["train=embedding", "train=finetune"]),
        ("system", [{"b2": {"name": "mcadams"}}, {"b2r": {"name": "mcadams"}}], ["b2", "b2r"]),
    ],
)
def test_runs_are_called_by_what_differs(path: str, values: list[Any], expected: list[str]) -> None:
    assert of(*values, path=path) == expected


def test_a_data_set_is_said_with_its_word_and_beside_the_rest() -> None:
    other = replace(RUN, datasets=("vctk",), config=changed("system.b2.alpha", 0.9))
    assert label_runs([RUN, replace(RUN, datasets=("vctk",))]) == ["dataset libri_test", "dataset vctk"]
    assert label_runs([RUN, replace(other, datasets=RUN.datasets)]) == ["alpha=0.8", "alpha=0.9"]
    assert label_runs([RUN, other]) == ["dataset libri_test", "dataset vctk"]


def test_equal_runs_are_told_apart_by_time_then_by_letter() -> None:
    later = replace(RUN, started="2026-11-29T11:02:00Z")
    assert label_runs([RUN, later]) == ["10:40:16", "11:02:00"]
    assert label_runs([RUN, replace(RUN, started="2026-11-29T10:40:59Z")]) == ["10:40:16", "10:40:59"]
    assert label_runs([RUN, replace(RUN, started="20261130T104016Z-custom-abc")]) == [
        "2026-11-29 10:40:16",
        "2026-11-30 10:40:16",
    ]
    assert label_runs([RUN, RUN]) == ["A", "B"] and label_runs([replace(RUN, started="?")] * 3) == ["A", "B", "C"]
    assert label_runs([RUN]) == [""]


def test_what_does_not_move_numbers_is_no_label() -> None:
    elsewhere = replace(RUN, config={**CONFIG, "paths": {"root": "/two"}}, started="2026-11-29T11:02:00Z")
    assert label_runs([RUN, elsewhere]) == ["10:40:16", "11:02:00"]


def test_labels_stay_short_and_differ_whatever_the_settings_are() -> None:
    long = [f"{'x' * 60}{number}" for number in range(30)]
    several = of(*long, path="system.b2.alpha")
    assert len(set(several)) == 30 and max(map(len, several)) <= MOST
    alike = of(*([long[0]] * 28), path="system.b2.alpha")
    assert len(set(alike)) == 28 and max(map(len, alike)) <= MOST
    ends_differ = of("a" * 50, "a" * 25 + "b" * 25, path="system.b2.alpha")
    assert len(set(ends_differ)) == 2
    two = [changed("system.b2.alpha", 0.8), changed("system.b2.alpha", 0.8), changed("system.b2.alpha", 0.9)]
    first = [replace(RUN, config=config, started=f"2026-11-29T1{n}:00:00Z") for n, config in enumerate(two)]
    assert label_runs(first) == ["alpha=0.8, 10:00:00", "alpha=0.8, 11:00:00", "alpha=0.9, 12:00:00"]
    assert label_runs(first[::-1]) == label_runs(first)[::-1], "the order in which they are given is nothing to them"


def test_several_runs_that_differ_here_and_there() -> None:
    both, lazy = {**CONFIG["system"], "b2r": {"name": "mcadams"}}, {**CONFIG["attacker"], "lazy_informed": {}}
    configs = [CONFIG, changed("system.b2.alpha", 0.9), {**CONFIG, "system": both},
               {**CONFIG, "system": both, "attacker": lazy}]  # fmt: skip
    found = label_runs([replace(RUN, config=config) for config in configs])
    assert found == ["A", "B", "+b2r", "+lazy_informed, +b2r"]
    more = of(*({name: {} for name in ("ignorant", *names)} for names in ("", "x", "y")), path="attacker")
    assert more == ["A", "+x", "+y"]


def test_a_run_without_a_configuration_is_called_by_its_rows() -> None:
    old = replace(RUN, config={}, components={"extractor": ("ge2e",), "system": ("b2", "original")})
    new = replace(RUN, components={"extractor": ("ecapa",), "system": ("b2", "original")})
    assert label_runs([old, new]) == ["ge2e", "ecapa"]


# ------------------------------------------------------------------------------------------------- what differs


def paths(*configs: dict[str, Any]) -> tuple[list[str], list[str]]:
    found = run_differences.find_differences(configs)
    return [one.path for one in found.numeric], [one.path for one in found.runtime]


def test_only_leaves_that_differ_and_runtime_ones_apart() -> None:
    one = changed("system.b2.alpha", 0.9) | {"paths": {"root": "/two"}, "executor": {"name": "slurm"}}
    one["dataset"] = {"name": "synthetic", "seed": 1, "root": "/data"}
    one["extractor"] = {"ecapa": {"name": "ecapa", "batch_seconds": 60.0}}
    numeric, runtime = paths(CONFIG, one)
    assert numeric == ["system.b2.alpha"]
    assert set(runtime) == {"paths.root", "executor.name", "dataset.root", "extractor.ecapa.batch_seconds"}


def test_a_default_that_is_written_out_is_no_difference() -> None:
    bare = {"b2": {"name": "mcadams"}}
    assert paths({"system": bare}, {"system": {"b2": {"name": "mcadams", "order": 20}}}) == ([], [])
    (found,) = run_differences.find_differences(
        [{"system": bare}, {"system": {"b2": {"name": "mcadams", "order": 24}}}]
    ).numeric
    assert found.values == (20, 24) and found.defaults == (True, False)


def test_settings_of_a_component_that_is_not_installed_count_as_numeric() -> None:
    several = [{"extractor": {"x": {"name": "of_a_plug_in", "device": one}}} for one in "ab"]
    assert paths(*several) == (["extractor.x.device"], [])


def test_values_that_are_written_differently_and_mean_the_same() -> None:
    assert paths(CONFIG, changed("system.b2.alpha", 0.80)) == ([], [])
    assert paths({"fusion": []}, {}) == ([], []) and paths({"bands": None}, {"bands": {}}) == ([], [])
    assert paths({"a": {"b": 1}}, {"a": {"b": 1.0}}) == ([], [])
    assert paths({"a": {"b": True}}, {"a": {"b": 1}}) == (["a.b"], [])
    assert run_differences.name_by_letter(26) == "AA"
