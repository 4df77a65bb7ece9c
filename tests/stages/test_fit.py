"""The fit stage: parameters that a back end reads, on usable vectors alone, with a record."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import numpy as np
import pytest

from pipeline.backends import plda
from pipeline.contracts import Vectors
from pipeline.engine.store import Store
from pipeline.engine.task import Artefact, Task, Value
from pipeline.errors import DataError
from pipeline.stages.backends import compute
from tests.running import execute

SETTINGS = plda.PldaSettings(lda=4)


def fitted(vectors: np.ndarray, weights: np.ndarray, folder: Path) -> Artefact:
    speakers = tuple(f"s{row // 4}" for row in range(len(vectors)))
    reasons = tuple("" if weight else "silent" for weight in weights)
    value = Vectors(tuple(str(row) for row in range(len(vectors))), speakers, vectors, weights, reasons)
    function = functools.partial(compute.fit_backend, plda.Backend, SETTINGS, True)
    task = Task("fit", "fit plda for x", function, inputs={"vectors": Value("content", value)})
    return execute([task], Store(folder)).artefact(task.ref())


def drawn() -> np.ndarray:
    random = np.random.default_rng(0)
    speakers = np.repeat(random.standard_normal((12, 6)), 4, axis=0)
    return (3 * speakers + random.standard_normal((48, 6))).astype(np.float32)


def test_unusable_vectors_are_left_out_by_name_and_change_nothing(tmp_path: Path) -> None:
    vectors, weights = drawn(), np.ones(48)
    spoilt, lost = vectors.copy(), weights.copy()
    spoilt[[5, 17]], lost[[5, 17]] = 1e6, 0
    made = fitted(spoilt, lost, tmp_path / "spoilt")
    record = json.loads(made.path(compute.RECORD).read_text())
    assert record["left_out"] == 2
    assert record["vectors"] == 46
    assert record["within_session"] is True
    assert made.record["notes"]["left_out"] == [["5", "silent"], ["17", "silent"]]
    backend = plda.Backend(SETTINGS, made.folder)
    scores = backend.score(backend.enrol(vectors[::4], np.arange(12), 12), vectors[1::4])
    assert (scores.argmax(axis=1) == np.arange(12)).mean() > 0.7
    assert scores.diagonal().mean() > 2 > -2 > scores[~np.eye(12, dtype=bool)].mean()


def test_what_the_data_cannot_support_is_refused_by_the_task(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="identical"):
        fitted(np.ones((48, 6), np.float32), np.ones(48), tmp_path)
