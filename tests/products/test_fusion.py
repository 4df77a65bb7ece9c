"""The fusion stage against joins and sums in loops."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pipeline import metrics
from pipeline.engine.store import Store
from pipeline.engine.task import Artefact, Task, Work
from pipeline.errors import DataError
from pipeline.products.fusion import compute as fuse
from pipeline.stages.backends import check_held_out
from pipeline.stages.scores.measure import Context, _as_trials, _table
from pipeline.tables import scores
from tests.running import execute

MODELS, TRIED = [f"m{number}" for number in range(6)], [f"u{number}" for number in range(5)]


def trials(seed: int, lost: tuple[tuple[str, str], ...] = ()) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    rows = [
        {"model_speaker": model, "speaker": f"m{tried[1:]}", "model": model, "utterance": tried,
         "score": random.normal() + 2 * (model[1:] == tried[1:]), "target": model[1:] == tried[1:]}
        for model in MODELS for tried in TRIED
    ]  # fmt: skip
    return pd.DataFrame([row for row in rows if (row["model"], row["utterance"]) not in lost])


def held(seed: int, n: int = 200, missing: int = 0) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    target = np.arange(n) % 4 == 0
    table = pd.DataFrame(
        {"first": [f"a{row}" for row in range(n)], "second": [f"b{row}" for row in range(n)],
         "score": random.normal(size=n) * seed + (1 + seed) * target, "target": target}
    )  # fmt: skip
    return table.iloc[missing:].sample(frac=1, random_state=seed)


def _write(table: pd.DataFrame, name: str, work: Work) -> None:
    table.to_parquet(work.folder() / name, index=False)
    if name == scores.TRIALS:
        first = f"{table['model'].iloc[0]}-e"
        scores.write_thinned(work.folder(), [("m1", "m1-e", "silent"), (table["model"].iloc[0], first, "silent")])


def _task(table: pd.DataFrame, name: str, label: str) -> Task:
    content = {"content": table.to_json(), "label": label}
    return Task("made", label, functools.partial(_write, table, name), settings=content)


def fused(kind: Any, store: Path, tried: list[pd.DataFrame], kept: list[pd.DataFrame]) -> Artefact:
    tasks = {f"scores.{number}": _task(one, scores.TRIALS, f"s{number}") for number, one in enumerate(tried)}
    tasks |= {f"held_out.{number}": _task(one, check_held_out.PAIRS, f"h{number}") for number, one in enumerate(kept)}
    task = Task(
        "fuse",
        "fuse",
        functools.partial(fuse.fuse_scores, kind),
        inputs={name: one.ref() for name, one in tasks.items()},
    )
    return execute([*tasks.values(), task], Store(store)).artefact(task.ref())


@pytest.mark.parametrize("kind", ["equal", "logistic"])
def test_scores_are_joined_by_ids_and_what_one_lacks_is_lost_by_name(kind: str, tmp_path: Path) -> None:
    tried = [trials(1, (("m0", "u1"),)), trials(2).iloc[::-1], trials(3, (("m5", "u4"), ("m0", "u1")))]
    kept = [held(1), held(2, missing=3), held(3)]
    made = fused(kind, tmp_path, tried, kept)
    table = pd.read_parquet(made.path(scores.TRIALS))
    notes = made.record["notes"]
    assert notes["lost"] == [["m0 u1", "no score in 0, 2"], ["m5 u4", "no score in 2"]]
    assert (notes["n_expected"], notes["n_used"], len(table)) == (30, 28, 28)
    # Each recording that some model lacks, once.
    assert scores.thinned(made.folder) == sorted(
        {("m1", "m1-e", "silent"), *((t["model"].iloc[0], f"{t['model'].iloc[0]}-e", "silent") for t in tried)},
        key=[
            ("m1", "m1-e", "silent"),
            *((t["model"].iloc[0], f"{t['model'].iloc[0]}-e", "silent") for t in tried),
        ].index,
    )
    assert notes["held_out"] == {"n_target": 49, "n_nontarget": 148}
    assert list(table) == ["model_speaker", "speaker", "model", "utterance", "score", "target"]
    assert list(zip(table["model"], table["utterance"])) == sorted(zip(table["model"], table["utterance"]))

    by_pair: list[dict[tuple[str, str], float]] = [dict(zip(zip(t["first"], t["second"]), t["score"])) for t in kept]
    same = dict(zip(zip(kept[0]["first"], kept[0]["second"]), kept[0]["target"]))
    common = sorted(set(by_pair[0]) & set(by_pair[1]) & set(by_pair[2]))
    matrix = np.array([[one[pair] for one in by_pair] for pair in common])
    target = np.array([same[pair] for pair in common])
    means, spreads = matrix[~target].mean(0), matrix[~target].std(0)
    weights, offset = np.full(3, 1 / 3), 0.0
    if kind == "logistic":
        reference = metrics.logistic_fusion(matrix, target)
        weights, offset = reference.weights, reference.offset
    assert notes["weights"] == pytest.approx(weights.tolist(), abs=1e-6) and notes["kind"] == kind
    by_trial = [dict(zip(zip(t["model"], t["utterance"]), t["score"])) for t in tried]
    for row in table.itertuples():
        z = [
            (one[row.model, row.utterance] - mean) / spread
            for one, mean, spread in zip(by_trial, means, spreads, strict=True)
        ]
        assert row.score == pytest.approx(sum(w * value for w, value in zip(weights, z)) + offset, abs=1e-5)
        assert (row.model_speaker, row.speaker) == (row.model, f"m{row.utterance[1:]}")
        assert row.target == (row.model[1:] == row.utterance[1:])


def test_what_it_writes_is_measured(tmp_path: Path) -> None:
    made = fused("equal", tmp_path, [trials(1), trials(2)], [held(1), held(2)])

    class Measuring:
        def input(self, name: str) -> Artefact:
            return made

    read = _as_trials(Context(30), _table(Measuring(), "scores"))  # type: ignore[arg-type]
    assert (len(read.scores), int(read.target.sum())) == (30, 5) and np.isfinite(read.scores).all()


def test_what_cannot_be_fused_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="0 non-target scores") as caught:
        fused("equal", tmp_path / "none", [trials(1), trials(2)], [held(1).iloc[:0], held(2)])
    assert "To mend it" in str(caught.value)
    with pytest.raises(DataError, match="no target score"):
        fused("logistic", tmp_path / "targets", [trials(1)], [held(1).query("not target")])
    with pytest.raises(DataError, match="contradict each other on the target of a trial"):
        fused("equal", tmp_path / "labels", [trials(1), trials(2).assign(target=False)], [held(1), held(2)])
