"""Which settings reach which artefacts, and whether a stage changed without its version."""

from __future__ import annotations

import copy
import csv
import functools
import json
from pathlib import Path

import pytest

from pipeline import config
from pipeline import planning as plan
from pipeline.evaluation import gather
from pipeline.weights.find import Weights
from tests import key_table, stage_sources

HERE = Path(__file__).parent


def test_each_setting_reaches_the_stages_of_the_committed_table() -> None:
    with (HERE / "key_table.csv").open() as stream:
        committed = {row["setting"]: row["stages"] for row in csv.DictReader(stream)}
    found = key_table.table()
    differ = {leaf: (committed.get(leaf), found.get(leaf)) for leaf in {*committed, *found}
              if committed.get(leaf) != found.get(leaf)}  # fmt: skip
    assert not differ, "look at the difference; python -m tests.key_table > tests/key_table.csv writes the new table"


def test_runtime_settings_reach_no_key() -> None:
    table = key_table.table()
    for leaf in ("paths.root", "paths.models", "runtime.device", "runtime.threads", "dataset.root", "dataset.label"):
        assert table[leaf] == "-"


def signatures(**changes: object) -> set[str]:
    """Signatures of all cells of the plan, with some settings changed."""
    values = copy.deepcopy(key_table.composed())
    for leaf, value in changes.items():
        *path, last = leaf.split("__")
        functools.reduce(dict.__getitem__, path, values)[last] = value  # type: ignore[arg-type]
    evaluation = config.validate(values, "demo")
    made = plan.graph(evaluation, key_table.prepared(), plan.Machine("cpu", 1))
    return {gather.signature("metric", "", source.identity, source.parameters) for source in made.sources}


def test_signatures_tell_apart_what_cannot_be_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal signatures mean comparable numbers: whatever changes a number changes them, but for the system itself."""
    weights = Weights(Path("/weights"), "digest of the weights")
    monkeypatch.setattr("pipeline.extractors.ge2e.weights", lambda settings, models: weights)
    before = signatures()
    for change in (
        {"train__seed": 5}, {"backend__cosine__normalise_utterances": False}, {"extractor__ge2e__level": "keep"},
        {"extractor__f0__fmax": 400.0}, {"metric__vsm__pairing": "vpc2020"}, {"metric__srd__halves_seed": 1},
    ):  # fmt: skip
        assert signatures(**change) != before, change
    for change in ({"system__b2__alpha": 0.7}, {"runtime__threads": 3}, {"paths__root": "/elsewhere"}):
        assert signatures(**change) == before, change


def test_a_stage_does_not_change_without_its_version() -> None:
    """The digest of each stage's source stands beside its version.

    If this fails: either the numbers change, then raise the version; or they do not, and you say so by committing the new
    digest. In both cases ``python -m tests.stage_sources > tests/stage_sources.json`` writes the file.
    """
    committed = json.loads((HERE / "stage_sources.json").read_text())
    assert stage_sources.table() == committed
