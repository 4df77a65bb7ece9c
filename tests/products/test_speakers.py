"""From scores to speakers under each attack and to overlaps; from histograms to mean F0."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pipeline import metrics
from pipeline.contracts import Vectors
from pipeline.engine.outcome import Outcome
from pipeline.engine.store import Store
from pipeline.engine.task import Task, Value, Work
from pipeline.products.speakers import compute as stage
from pipeline.tables import records, scores
from tests.running import execute

SPEAKERS, EACH = 8, 6


def table(shift: float, seed: int, planted: int | None = None) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    rows = [
        (f"s{m}", f"s{s}", f"m{m}", f"s{s}-{k}", random.normal() + (m == s) * (6 if s == planted else shift), m == s)
        for m in range(SPEAKERS)
        for s in range(SPEAKERS)
        for k in range(EACH)
    ]
    columns = ["model_speaker", "speaker", "model", "utterance", "score", "target"]
    return pd.DataFrame(rows, columns=columns).sort_values(["model", "utterance"], ignore_index=True)


def measured(root: Path, *tables: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame, dict[str, str]]:
    def write(of: pd.DataFrame, work: Work) -> None:
        of.to_parquet(work.folder() / scores.TRIALS, index=False)

    made = [Task("score", f"{k}", functools.partial(write, one), {"k": k}) for k, one in enumerate(tables)]
    inputs = {f"scores.{k}": one.ref() for k, one in enumerate(made)}
    task = Task("measure", "speakers", functools.partial(stage.measure_speakers, len(made)), {}, inputs)
    found: Outcome = execute([*made, task], Store(root))
    artefact = found.artefact(task.ref())
    return (
        pd.read_parquet(artefact.path(stage.SPEAKERS)),
        pd.read_parquet(artefact.path(stage.OVERLAPS)),
        records.read(artefact.folder),
    )


def test_rows_are_those_of_the_metric_core_and_the_worst_come_first(tmp_path: Path) -> None:
    tables = [table(0.5, 1, planted=3), table(0.2, 2, planted=3), table(1.0, 3)]
    found, overlaps, said = measured(tmp_path, *tables)
    assert said == {"interval_reason": "", "reason": ""} and len(found) == 3 * SPEAKERS
    for number, one in enumerate(tables):
        mine = found[found["attack"] == number]
        codes = [one[name].str[1:].astype(int).to_numpy() for name in ("model_speaker", "speaker")]
        core = metrics.measure_speakers(
            metrics.Trials(one["score"].to_numpy(), *codes), one["utterance"].astype("category").cat.codes.to_numpy()
        )
        assert mine["speaker"].tolist() == [f"s{k}" for k in core.order]
        np.testing.assert_allclose(mine["d_ece"], core.d_ece[core.order])
        np.testing.assert_allclose(mine["p_median"], core.certainty.p_median[core.order])
        assert mine["rank"].is_monotonic_increasing and mine["worst"].tolist() == [True] * 3 + [False] * 5
        assert mine["nearest"].tolist() == [f"s{core.neighbours.nearest[k]}" for k in core.order]
        for row in mine.to_dict("records"):
            own = one[one["target"] & (one["speaker"] == row["speaker"])].sort_values("score", ascending=False)
            assert [row[f"utterance_{k}"] for k in (1, 2, 3)] == own["utterance"].tolist()[:3]
            assert row["llr_1"] == core.map.apply(own["score"].to_numpy()[:1])[0]
    first = found[found["rank"] == 1].set_index("attack")
    assert first.loc[[0, 1], "speaker"].tolist() == ["s3", "s3"] and (first.loc[[0, 1], "p_median"] < 0.05).all()
    assert overlaps[["attack_a", "attack_b"]].to_numpy().tolist() == [[0, 1], [0, 2], [1, 2]]
    for row in overlaps.to_dict("records"):
        lists = [
            set(found[(found["attack"] == row[side]) & found["worst"]]["speaker"]) for side in ("attack_a", "attack_b")
        ]
        assert row["shared"] == len(lists[0] & lists[1]) and row["listed"] == 3 and row["shared_chance"] == 9 / 8
        assert set(filter(None, row["names"].split(", "))) == lists[0] & lists[1]
        d_ece = [found[found["attack"] == row[side]].set_index("speaker")["d_ece"] for side in ("attack_a", "attack_b")]
        assert row["rank_correlation"] == pytest.approx(d_ece[0].rank().corr(d_ece[1].rank()))
    assert "s3" in overlaps["names"].iloc[0]


def test_attacks_are_held_against_each_other_on_the_trials_that_all_have(tmp_path: Path) -> None:
    whole = table(1.0, 1)
    found, _, _ = measured(tmp_path, whole, table(1.0, 2)[whole["utterance"] != "s0-0"].reset_index(drop=True))
    assert set(found[found["speaker"] == "s0"]["n_target"]) == {EACH - 1}
    assert set(found[found["speaker"] == "s1"]["n_target"]) == {EACH}


def test_what_cannot_be_measured_has_no_row_and_its_reason(tmp_path: Path) -> None:
    targets = table(1.0, 1)
    found, overlaps, said = measured(tmp_path, targets[targets["target"]].reset_index(drop=True))
    assert not len(found) and not len(overlaps) and said["reason"] == "there is no non-target score"


def test_the_mean_f0_is_over_voiced_frames(tmp_path: Path) -> None:
    hertz = (400.0, 200.0, 100.0)
    told = Vectors(
        ("a1", "a2", "a3", "b1"),
        ("a", "a", "a", "b"),
        np.array([[1, 0, 0], [0, 0.5, 0.5], [0, 0, 0], [0, 0, 0]], np.float32),
        np.array([10.0, 30.0, 0.0, 0.0]),
        ("", "", "no voiced frame", "no voiced frame"),
    )
    task = Task("measure", "F0", functools.partial(stage.measure_pitch, hertz), {}, {"vectors": Value("x", told)})
    made = execute([task], Store(tmp_path)).artefact(task.ref())
    rows = pd.read_parquet(made.path(stage.PITCH)).to_dict("records")
    assert rows == [{"speaker": "a", "hertz": (10 * 400 + 30 * 150) / 40, "frames": 40.0}]
