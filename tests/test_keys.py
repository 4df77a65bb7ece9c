"""Which settings reach which artefacts, and whether a stage changed without its version."""

from __future__ import annotations

import copy
import csv
import functools
import pickle
from pathlib import Path

import pytest

from pipeline.evaluation.assemble import assemble_graph
from pipeline.evaluation.validate import validate
from pipeline.stages.graph import Measurement
from pipeline.stages.settings import Machine
from pipeline.tables.results import make_signature
from tests import key_table
from tests.raised import raised

HERE = Path(__file__).parent


@pytest.mark.slow
def test_each_setting_reaches_the_stages_of_the_committed_table() -> None:
    with (HERE / "key_table.csv").open() as stream:
        committed = {row["setting"]: row["stages"] for row in csv.DictReader(stream)}
    found = key_table.table()
    differ = {leaf: (committed.get(leaf), found.get(leaf)) for leaf in {*committed, *found}
              if committed.get(leaf) != found.get(leaf)}  # fmt: skip
    assert not differ, "look at the difference; python -m tests.key_table > tests/key_table.csv writes the new table"


@pytest.mark.slow
def test_runtime_settings_reach_no_key() -> None:
    table = key_table.table()
    for leaf in ("paths.root", "paths.models", "runtime.device", "runtime.threads", "dataset.root", "dataset.label"):
        assert table[leaf] == "-"


METRIC = {"metric": "metric", "variant": "", "estimator": "", "input_unit": ""}


def signatures(**changes: object) -> set[str]:
    """Signatures of all cells of the plan, with some settings changed."""
    return {make_signature({**METRIC, **source.identity}, source.parameters) for source in sources(**changes)}


def sources(**changes: object) -> list[Measurement]:
    """All cells of the plan, with some settings changed."""
    values = copy.deepcopy(key_table.composed())
    for leaf, value in changes.items():
        *path, last = leaf.split("__")
        functools.reduce(dict.__getitem__, path, values)[last] = value  # type: ignore[arg-type]
    with key_table.made_up_weights():
        graph = assemble_graph(validate(values, "demo"), key_table.prepared(), Machine("cpu", 1))
    return graph.select(Measurement)


@pytest.mark.slow
def test_signatures_tell_apart_what_cannot_be_compared() -> None:
    """Equal signatures mean comparable numbers: whatever changes a number changes them, but for the system itself."""
    before = signatures()
    different: list[dict[str, object]] = [
        {"train__seed": 5},
        {"backend__cosine__normalise_utterances": False},
        {"extractor__campplus__level": "keep"},
        {"extractor__f0__fmax": 400.0},
        {"metric__vsm__pairing": "vpc2020"},
        {"metric__srd__halves_seed": 1},
    ]
    for change in different:
        assert signatures(**change) != before, change
    same: list[dict[str, object]] = [
        {"system__b2r__alpha_range": [0.6, 0.9]},
        {"runtime__threads": 3},
        {"paths__root": "/elsewhere"},
    ]
    for change in same:
        assert signatures(**change) == before, change


def test_a_raised_version_changes_the_signatures_of_what_stands_on_it() -> None:

    def by_backend() -> dict[str, set[str]]:
        """Signatures by back end; ranks, which have none, apart."""
        found: dict[str, set[str]] = {}
        for source in sources():
            made = make_signature({**METRIC, **source.identity}, source.parameters)
            found.setdefault("none" if source.reads == "ranks" else source.identity["backend"], set()).add(made)
        return found

    before = by_backend()
    with raised("pipeline.backends.cosine"):
        after = by_backend()
    assert not before["cosine"] & after["cosine"]
    assert before["plda"] == after["plda"]
    assert before["none"] == after["none"], "what has no back end stays comparable"


def test_a_plan_pickles() -> None:
    """A plan can go to another process, and says the same there."""
    tasks = key_table.tasks()
    carried = pickle.loads(pickle.dumps(tasks))
    assert [task.id for task in carried] == [task.id for task in tasks]
    assert len({task.id for task in tasks}) == len(tasks), "each task once"
