"""The check on held-out speakers against loops over pairs of vectors."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest

from pipeline import metrics
from pipeline.backends import cosine, plda, wccn
from pipeline.backends._adaptation import AsNorm
from pipeline.contracts import Choice, Vectors
from pipeline.engine.store import Store
from pipeline.engine.task import Artefact, Task, Value
from pipeline.nets import waveforms
from pipeline.protocol import held_out
from pipeline.protocol.held_out import hold_out_speakers
from pipeline.stages.backends import check_held_out
from pipeline.stages.backends import compute as fit
from pipeline.tables import records
from pipeline.trainers.finetune import pieces
from tests.running import execute

D = 8
WCCN = wccn.WccnSettings(as_norm=None, shrinkage=0.2)


def drawn(ids: list[str], seed: int = 0, lost: tuple[str, ...] = ()) -> Vectors:
    """Vectors of ids ``SPEAKER-RECORDING`` or ``SPEAKER-RECORDING#PIECE``."""
    random = np.random.default_rng(0)
    speakers = [name.partition("-")[0] for name in ids]
    own = {name: random.normal(size=D) for name in sorted(set(speakers))}
    noise = np.random.default_rng(seed).normal(size=(len(ids), D))
    rows = np.array([own[name] for name in speakers]) + 0.7 * noise
    weights = np.array([0.0 if name in lost else 1.0 for name in ids])
    reasons = tuple("silent" if name in lost else "" for name in ids)
    return Vectors(tuple(ids), tuple(speakers), rows.astype(np.float32), weights, reasons)


def checked(
    folder: Path, several: list[Vectors], sexes: Mapping[str, str], backend: Any = wccn.Backend, settings: Any = WCCN
) -> tuple[pd.DataFrame, dict[str, Any]]:
    inputs = {"vectors" if not draw else f"vectors.{draw}": Value(f"{draw}", one) for draw, one in enumerate(several)}
    function = functools.partial(check_held_out.check_held_out, backend, settings, True)
    task = Task("check", "check", function, inputs={**inputs, "sexes": Value("sexes", dict(sexes))})
    made: Artefact = execute([task], Store(folder)).artefact(task.ref())
    return pd.read_parquet(made.path(check_held_out.PAIRS)), records.read(made.folder)


def names(speakers: int, recordings: int, pieces: int) -> list[str]:
    return [
        f"s{speaker:02d}-{recording}" + (f"#{piece}" if pieces else "")
        for speaker in range(speakers)
        for recording in range(recordings)
        for piece in range(max(pieces, 1))
    ]


SEXES = {f"s{number:02d}": "fmu"[number % 3] for number in range(40)}


def unknown(speakers: int) -> dict[str, str]:
    return {f"s{number:02d}": "u" for number in range(speakers)}


@pytest.mark.parametrize(("recordings", "pieces"), [(1, 4), (2, 3), (3, 0)])
def test_pairs_and_scores_are_those_of_loops(recordings: int, pieces: int, tmp_path: Path) -> None:
    ids = names(40, recordings, pieces)
    several = [drawn(ids, 1, ("s00-0", "s03-0#1")), drawn(ids, 2)]
    table, record = checked(tmp_path / "store", several, SEXES)
    held = hold_out_speakers(SEXES, SEXES)
    known = [one.usable() for one in several]
    rows = np.array([row for one in known for row, name in zip(one.vectors, one.speakers) if name not in held])
    owners = [name for one in known for name in one.speakers if name not in held]
    made = tmp_path / "fit"
    made.mkdir()
    wccn.Backend.fit(WCCN, rows, owners, made, within_session=True)
    backend = wccn.Backend(WCCN, made)

    expected = {}
    places = [place for place, name in enumerate(known[0].speakers) if name in held]
    for one in places:
        for two in places:
            a, b = known[0].ids[one], known[0].ids[two]
            first, second = known[0].speakers[one], known[0].speakers[two]
            sexes = {SEXES[first], SEXES[second]} - {"u"}
            if a >= b or len(sexes) > 1:
                continue
            if first == second and recordings > 1 and a.partition("#")[0] == b.partition("#")[0]:
                continue
            model = backend.enrol(known[0].vectors[[one]], np.array([0]), 1)
            score = backend.score(model, known[0].vectors[[two]])[0, 0]
            expected[a, b] = (score, first == second)
    found = {(row.first, row.second): (row.score, row.target) for row in table.itertuples(index=False)}
    assert found.keys() == expected.keys()
    assert all(found[key][1] == expected[key][1] for key in expected)
    assert [found[key][0] for key in expected] == pytest.approx([value[0] for value in expected.values()], abs=1e-9)
    target = [score for score, same in expected.values() if same]
    nontarget = [score for score, same in expected.values() if not same]
    assert record["eer"] == pytest.approx(metrics.eer(target, nontarget))
    assert record["cllr_min"] == pytest.approx(metrics.cllr_min(target, nontarget))
    assert (record["n_target"], record["n_nontarget"]) == (len(target), len(nontarget))
    assert record["speakers"] == len(held) and record["same_session"] is (recordings == 1)
    assert ("pieces of one recording" in record["summary"]) is (recordings == 1)


def test_a_back_end_that_is_not_fitted_is_checked_as_it_is(tmp_path: Path) -> None:
    ids = names(15, 1, 3)
    table, record = checked(tmp_path, [drawn(ids)], unknown(15), cosine.Backend, cosine.CosineSettings())
    vectors = dict(zip(ids, drawn(ids).vectors.astype(float)))
    for row in table.itertuples():
        one, two = vectors[row.first], vectors[row.second]
        assert row.score == pytest.approx(one @ two / np.linalg.norm(one) / np.linalg.norm(two))
    assert len(table) == 9 * 8 // 2 and record["speakers"] == 3


def test_vectors_and_speakers_are_sampled_evenly_and_by_name() -> None:
    ids = [f"s-{number:03d}" for number in range(100)]
    rows = held_out.sample_vectors(ids[::-1], ["s"] * 100, {"s"})
    assert [ids[::-1][row] for row in rows] == [ids[99 * place // 11] for place in range(12)]
    assert held_out.space_evenly(12, 12) == list(range(12))
    many = [f"s{number}" for number in range(300)]
    rows = held_out.sample_vectors(many, many, set(many))
    again = held_out.sample_vectors(many[::-1], many[::-1], set(many))
    assert len(rows) == 100 and {many[row] for row in rows} == {many[::-1][row] for row in again}


def test_what_cannot_be_measured_says_why(tmp_path: Path) -> None:
    cases: list[tuple[list[str], dict[str, str], Any, str]] = [
        (names(4, 1, 3), unknown(4), WCCN, "1 held-out speakers, and it takes 2"),
        (names(20, 1, 0), unknown(20), WCCN, "no held-out speaker has a second recording or piece"),
        (names(2, 1, 3), {"s00": "f", "s01": "m"}, WCCN, "no two held-out speakers are of one sex"),
        (
            names(12, 1, 3),
            unknown(12),
            WCCN,
            "cannot learn from the other speakers: the covariance of the back end wccn",
        ),
    ]
    for number, (ids, sexes, settings, reason) in enumerate(cases):
        table, record = checked(tmp_path / str(number), [drawn(ids)], sexes, settings=settings)
        assert table.empty and list(table) == ["first", "second", "score", "target"]
        assert record["eer"] is None and record["cllr_min"] is None
        assert reason in record["reason"] and reason in record["summary"]


def test_fit_learns_from_all_draws(tmp_path: Path) -> None:
    ids = names(12, 1, 3)
    several = [drawn(ids, 1), drawn(ids, 2, ("s03-0#1",)), drawn(ids, 3)]
    inputs = {"vectors": several[0], "vectors.1": several[1], "vectors.2": several[2]}
    task = Task(
        "fit", "fit", functools.partial(fit.fit_backend, wccn.Backend, WCCN, False),
        inputs={name: Value(name, value) for name, value in inputs.items()},
    )  # fmt: skip
    made = execute([task], Store(tmp_path / "store")).artefact(task.ref())
    record = json.loads(made.path(fit.RECORD).read_text())
    assert (record["vectors"], record["left_out"], record["draws"]) == (107, 1, 3)
    assert made.record["notes"]["left_out"] == [["s03-0#1", "silent"]]
    alone = tmp_path / "alone"
    alone.mkdir()
    usable = [one.usable() for one in several]
    rows = np.concatenate([one.vectors for one in usable])
    wccn.Backend.fit(WCCN, rows, [name for one in usable for name in one.speakers], alone, within_session=False)
    tried = drawn(ids, 9).vectors
    scores = []
    for folder in (made.folder, alone):
        backend = wccn.Backend(WCCN, folder)
        scores.append(backend.score(backend.enrol(tried, np.arange(36), 36), tried))
    assert (scores[0] == scores[1]).all()


def test_a_cohort_of_all_training_speakers_is_smaller_by_those_held_out(tmp_path: Path) -> None:
    """A back end that fits the whole training set is checked with the cohort that is left, and not left unchecked."""
    several = [drawn(names(40, 1, 4), 1)]
    left = 40 - len(hold_out_speakers(SEXES, SEXES))
    whole, fewer = (WCCN.model_copy(update={"as_norm": AsNorm(top=top)}) for top in (40, left))
    scores, record = checked(tmp_path / "whole", several, SEXES, settings=whole)
    expected, _ = checked(tmp_path / "fewer", several, SEXES, settings=fewer)
    assert record["eer"] is not None
    assert left < 40
    pd.testing.assert_frame_equal(scores, expected)


class Told(cosine.Backend):
    """The cosine back end, which remembers what it is told."""

    told: ClassVar[list[tuple[list[str], np.ndarray, Choice | None]]] = []

    @classmethod
    def fit(
        cls,
        settings: Any,
        vectors: Any,
        speakers: Any,
        folder: Path,
        *,
        within_session: bool,
        choice: Choice | None = None,
    ) -> dict[str, Any]:
        cls.told.append((list(speakers), np.asarray(vectors), choice))
        return super().fit(settings, vectors, speakers, folder, within_session=within_session, choice=choice)


def fitted(folder: Path, several: list[Vectors], sexes: Mapping[str, str], backend: Any, settings: Any) -> Artefact:
    inputs = {"vectors" if not draw else f"vectors.{draw}": Value(f"{draw}", one) for draw, one in enumerate(several)}
    function = functools.partial(fit.fit_backend, backend, settings, True)
    task = Task("fit", "fit", function, inputs={**inputs, "sexes": Value("sexes", dict(sexes))})
    return execute([task], Store(folder)).artefact(task.ref())


def test_nobody_whom_a_network_has_learnt_from_takes_part_in_a_choice(tmp_path: Path) -> None:
    """Not even where a held-out speaker has no usable vector, which shifts the ranks of the others of that sex."""
    ids = names(40, 1, 4)
    trained_on, aside = finetune_split(SEXES)
    lost_speaker = next(name for name in sorted(aside) if hold_out_speakers(set(SEXES) - {name}, SEXES) - aside)
    lost = tuple(name for name in ids if name.startswith(lost_speaker))
    several = [drawn(ids, 1, lost), drawn(ids, 2, lost)]
    settings = cosine.CosineSettings(centre=True)
    Told.told.clear()
    made = fitted(tmp_path / "fit", several, SEXES, Told, settings)
    table, record = checked(tmp_path / "check", several, SEXES, Told, settings)
    assert [choice.alone for _, _, choice in Told.told if choice is not None] == [False, True]

    first = [name for name in ids if name not in lost]
    for speakers, vectors, choice in Told.told:
        assert choice is not None and len(vectors) == len(choice.held_out) == 2 * len(first)
        assert {name for name, held in zip(speakers, choice.held_out) if held} == aside - {lost_speaker}
        assert {name for name, held in zip(speakers, choice.held_out) if not held} == trained_on
        told = {(first[choice.rows[a]], first[choice.rows[b]]) for a, b in zip(choice.first, choice.second)}
        assert told == set(zip(table["first"], table["second"])) and choice.speakers == record["speakers"]
        for one, other in told:
            pair = {one.partition("-")[0], other.partition("-")[0]}
            assert pair <= aside and {SEXES[name] for name in pair} - {"u"} in ({"f"}, {"m"}, set())
        same = [speakers[choice.rows[a]] == speakers[choice.rows[b]] for a, b in zip(choice.first, choice.second)]
        assert choice.target.tolist() == same
    record = json.loads(made.path(fit.RECORD).read_text())
    assert (record["speakers"], record["vectors"]) == (39, 2 * 39 * 4)


def finetune_split(sexes: Mapping[str, str]) -> tuple[set[str], set[str]]:
    """Whom fine-tuning learns from and whom it leaves aside, of a set with one recording each."""
    everyone = sorted(sexes)
    audio = waveforms.pack_waveforms(
        [np.zeros(16, dtype=np.float32)] * len(everyone), everyone, sexes=[sexes[name] for name in everyone]
    )
    trained, verified = pieces.split_utterances(audio)
    return {everyone[item] for item in trained}, {everyone[item] for item in verified}


@pytest.mark.parametrize(
    ("backend", "settings", "where"),
    [
        (wccn.Backend, wccn.WccnSettings(as_norm=AsNorm(top=40)), "shrinkage"),
        (plda.Backend, plda.PldaSettings(lda=6, as_norm=AsNorm(top=40)), "regularisation"),
    ],
)
def test_what_is_checked_is_what_the_run_chooses(backend: Any, settings: Any, where: str, tmp_path: Path) -> None:
    """The EER of the check is that of the value which the fit chose, learnt from the others; and the fit learns from all."""
    ids = names(40, 1, 4)
    several = [drawn(ids, 1), drawn(ids, 2)]
    made = fitted(tmp_path / "fit", several, SEXES, backend, settings)
    record = json.loads(made.path(fit.RECORD).read_text())
    assert record["speakers"] == record["cohort"] == 40 and record["vectors"] == 320
    _, found = checked(tmp_path / "check", several, SEXES, backend, settings)
    chosen = record[where]
    used = chosen["used"] if where == "shrinkage" else chosen["share"]
    set_to = settings.model_copy(update={where: used})
    _, as_set = checked(tmp_path / "set", several, SEXES, backend, set_to)
    assert found["eer"] == as_set["eer"] and found["cllr_min"] == as_set["cllr_min"]
    if where == "shrinkage":
        assert chosen["chosen"] and record["held_out"]["eer"] == found["eer"]
        assert record["held_out"]["n_target"] == found["n_target"]
        assert record["held_out"]["n_nontarget"] == found["n_nontarget"]
    else:
        assert chosen["held_out_speakers"] == len(hold_out_speakers(SEXES, SEXES)) and chosen["rule"].startswith(
            "held-out"
        )
