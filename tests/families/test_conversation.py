"""Conversations as a family: several utterances of a trial speaker together, by plain counting in loops."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import defaultdict

import numpy as np
import pytest

from pipeline import metrics
from pipeline.contracts import Row, Trials
from pipeline.families.conversation import MetricFamily
from tests.acceptance import definitions
from tests.families.runs import trial_runs

DATA = trial_runs(2, utterances=9).first


def named(data: Trials = DATA, seed: int = 0) -> Trials:
    """With ids of utterances, in another order than that of their names."""
    place: dict[tuple[str, str], int] = defaultdict(int)
    ids = []
    for model, speaker in zip(data.models, data.speakers):
        ids.append(f"{speaker}-{place[model, speaker]:02d}")
        place[model, speaker] += 1
    order = np.random.default_rng(seed).permutation(len(ids))
    held = {name: getattr(data, name)[order] for name in ("scores", "target", "models", "speakers")}
    return dataclasses.replace(data, **held, utterances=np.array(ids)[order])


def measured(data: Trials, **settings: object) -> dict[tuple[str, str], Row]:
    made = MetricFamily.measure(MetricFamily.Settings(**{"replicates": 40, **settings}), data)
    return {(row.metric, row.input_unit): row for row in made.rows}


@pytest.mark.parametrize("length", [2, 3])
def test_a_conversation_is_the_mean_of_neighbouring_utterances(length: int) -> None:
    data = named()
    heard: dict[tuple[str, str], list[tuple[str, float]]] = defaultdict(list)
    for model, speaker, utterance, score in zip(data.models, data.speakers, data.utterances, data.scores):  # type: ignore[arg-type]
        heard[str(model), str(speaker)].append((str(utterance), float(score)))
    target, nontarget = [], []
    for (model, speaker), several in heard.items():
        scores = [score for _, score in sorted(several)]
        for start in range(0, len(scores) - length + 1, length):
            (target if model == speaker else nontarget).append(math.fsum(scores[start : start + length]) / length)
    rows = measured(data)
    eer, d_ece = (rows[f"conversation_{name}", f"{length} utterances"] for name in ("eer", "d_ece"))
    assert eer.value == pytest.approx(definitions.eer(np.array(target), np.array(nontarget)), abs=1e-12)
    assert d_ece.value == pytest.approx(definitions.d_ece(np.array(target), np.array(nontarget)), abs=1e-9)
    for row in (eer, d_ece):
        assert row.low <= row.value <= row.high
        assert (row.n_target, row.n_nontarget, row.n_speakers) == (len(target), len(nontarget), len(set(data.models)))
        assert row.n_expected == row.n_used == len(target) + len(nontarget)


def test_a_second_model_of_a_speaker_is_heard_beside_the_first_and_makes_no_conversation_longer() -> None:
    found = metrics.conversations(
        [4.0, 2.0, 1.0, 0.0], ["a", "a", "b", "b"], ["a", "a", "a", "a"], ["2", "1", "1", "2"], 2
    )
    assert found.scores.tolist() == [3.0, 0.5] and found.is_target.tolist() == [True, False]


def test_trials_that_are_missing_make_the_rows_partial() -> None:
    whole = named()
    short = dataclasses.replace(
        whole, **{name: getattr(whole, name)[:-5] for name in ("scores", "target", "models", "speakers", "utterances")}
    )
    for row in measured(short).values():
        assert row.n_expected is not None and row.n_used is not None and row.n_expected > row.n_used


def test_what_nobody_has_gives_the_reason() -> None:
    data = named(trial_runs(2, utterances=3).first)
    rows = measured(data)
    assert not math.isnan(rows["conversation_eer", "2 utterances"].value)
    assert "no speaker has 3 utterances" in rows["conversation_eer", "3 utterances"].reason
    unnamed = measured(dataclasses.replace(data, utterances=None))
    assert all("ids" in row.reason and math.isnan(row.value) for row in unnamed.values())


def test_more_speech_discloses_more_and_its_metrics_are_no_others() -> None:
    rows = measured(named())
    single = metrics.eer(DATA.scores[DATA.target], DATA.scores[~DATA.target])
    rates = [single, *(rows["conversation_eer", f"{length} utterances"].value for length in (2, 3))]
    assert all(more > less for more, less in itertools.pairwise(rates))
    assert not {"eer", "d_ece"} & set(MetricFamily.metrics)
