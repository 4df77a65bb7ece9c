"""Weights of systems, found while a run is planned."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.anonymisers import mcadams
from pipeline.contracts import Weights
from pipeline.errors import ModelMissing
from pipeline.evaluation.assemble import assemble_graph
from pipeline.evaluation.validate import validate
from pipeline.stages.graph import Measurement
from pipeline.stages.settings import Machine
from pipeline.tables.results import make_signature
from tests import key_table


def signatures() -> list[str]:
    with key_table.made_up_weights():
        graph = assemble_graph(validate(key_table.composed(), "demo"), key_table.prepared("f"), Machine("cpu", 1))
    metric = {"metric": "m", "variant": "", "estimator": "", "input_unit": ""}
    return [make_signature({**source.identity, **metric}, source.parameters) for source in graph.select(Measurement)]


def found(monkeypatch: pytest.MonkeyPatch, digest: str) -> None:
    weights = Weights(Path("/weights"), digest)
    monkeypatch.setattr(mcadams.Anonymiser, "weights", lambda settings, models: weights)


def test_the_weights_of_a_system_enter_its_keys_and_no_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    values = key_table.composed()
    keys, signed = [], []
    for digest in ("one", "two"):
        found(monkeypatch, digest)
        keys.append(key_table.keys(values))
        signed.append(signatures())
    assert not keys[0]["anonymise"] & keys[1]["anonymise"]
    assert keys[0]["synthesise"] == keys[1]["synthesise"]
    assert signed[0] == signed[1], "numbers of two systems are comparable"


def test_weights_that_are_not_here_stop_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(settings: object, models: Path) -> Weights:
        raise ModelMissing("the weights of this system are not on this machine", remedy="fetch them")

    monkeypatch.setattr(mcadams.Anonymiser, "weights", missing)
    with pytest.raises(ModelMissing) as caught:
        signatures()
    assert caught.value.status == 4
