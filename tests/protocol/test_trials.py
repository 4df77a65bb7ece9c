"""Trial sets without utterances of which somebody has no sound."""

from __future__ import annotations

import pandas as pd

from pipeline.protocol import trials

ENROLMENT = [("a", "a-0"), ("a", "a-1"), ("b", "b-0")]
TRIALS = [(model, f"{who}-{number}", model == who) for model in "ab" for who in "ab" for number in (5, 6)]
MADE = trials.make("t", "e", ENROLMENT, TRIALS, len(TRIALS))


def plainly(gone: set[tuple[str, str]]) -> tuple[list[tuple[str, str]], list[tuple[str, str, bool]]]:
    """What is left, a line at a time."""
    enrolment = [line for line in ENROLMENT if ("e", line[1]) not in gone]
    models = {model for model, _ in enrolment}
    return enrolment, sorted(line for line in TRIALS if ("t", line[1]) not in gone and line[0] in models)


def test_what_is_left_is_what_a_loop_leaves() -> None:
    every = [("e", name) for _, name in ENROLMENT] + [("t", f"{who}-{number}") for who in "ab" for number in (5, 6)]
    # The same utterance of another set is another one.
    for gone in ({every[0]}, {every[2]}, {every[3], every[1]}, {("t", "a-0"), every[4]}, {("e", "a-5"), every[2]}):
        left = trials.without(MADE, gone)
        enrolment, tried = plainly(gone)
        assert [tuple(row) for row in left.enrolment.to_numpy(object)] == enrolment
        assert [tuple(row) for row in left.trials.to_numpy(object)] == tried
        assert list(left.trials.index) == list(range(len(tried))) and left.expected == len(TRIALS)
    assert trials.without(MADE, {every[0]}).thinned == ("a",) and trials.without(MADE, {every[2]}).thinned == ()


def test_where_nothing_is_gone_nothing_is_made_anew() -> None:
    assert trials.without(MADE, ()) is MADE
    assert trials.without(MADE, {("other", "a-0"), ("t", "a-0")}).trials.equals(MADE.trials)
    assert trials.without(MADE, {("other", "a-0")}) is MADE
    assert isinstance(MADE.trials, pd.DataFrame)
