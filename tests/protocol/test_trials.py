"""Trial sets without utterances of which somebody has no sound."""

from __future__ import annotations

import pandas as pd

from pipeline.protocol import trials

ENROLMENT = [("a", "a-0"), ("a", "a-1"), ("b", "b-0")]
TRIALS = [(model, f"{who}-{number}", model == who) for model in "ab" for who in "ab" for number in (5, 6)]
MADE = trials.make_trial_set("t", "e", ENROLMENT, TRIALS, len(TRIALS))


def plainly(gone: set[tuple[str, str]]) -> tuple[list[tuple[str, str]], list[tuple[str, str, bool]]]:
    """What is left, a line at a time."""
    enrolment = [line for line in ENROLMENT if ("e", line[1]) not in gone]
    models = {model for model, _ in enrolment}
    return enrolment, sorted(line for line in TRIALS if ("t", line[1]) not in gone and line[0] in models)


def test_what_is_left_is_what_a_loop_leaves() -> None:
    every = [("e", name) for _, name in ENROLMENT] + [("t", f"{who}-{number}") for who in "ab" for number in (5, 6)]
    # The same utterance of another set is another one.
    for gone in ({every[0]}, {every[2]}, {every[3], every[1]}, {("t", "a-0"), every[4]}, {("e", "a-5"), every[2]}):
        left = trials.drop_utterances(MADE, gone)
        enrolment, tried = plainly(gone)
        assert [tuple(row) for row in left.enrolment.to_numpy(object)] == enrolment
        assert [tuple(row) for row in left.trials.to_numpy(object)] == tried
        assert list(left.trials.index) == list(range(len(tried))) and left.expected == len(TRIALS)
    assert (
        trials.drop_utterances(MADE, {every[0]}).thinned == ("a",)
        and trials.drop_utterances(MADE, {every[2]}).thinned == ()
    )


def test_where_nothing_is_gone_nothing_is_made_anew() -> None:
    assert trials.drop_utterances(MADE, ()) is MADE
    assert trials.drop_utterances(MADE, {("other", "a-0"), ("t", "a-0")}).trials.equals(MADE.trials)
    assert trials.drop_utterances(MADE, {("other", "a-0")}) is MADE
    assert isinstance(MADE.trials, pd.DataFrame)


def listed(*pairs: str) -> trials.TrialSet:
    """A list of pairs like ``a:b1``: model of speaker a against the first utterance of b."""
    split = [one.split(":") for one in pairs]
    enrolled = [(model, f"{model}0") for model in dict(split)]
    return trials.make_trial_set(
        "t", "e", enrolled, [(model, one, one[0] == model) for model, one in split], len(pairs)
    )


SEXES = {"a": "f", "b": "f", "c": "m", "d": "m", "x": "f"}


def searched_pairs(made: trials.TrialSet, sexes: dict[str, str] = SEXES) -> set[str]:
    models = {model: model for model in made.enrolment["model"]}
    whole = trials.complete_trials(made, models, {one: one[0] for one in made.trials["utterance"]}, sexes)
    assert whole.expected == made.expected + len(whole.trials) - len(made.trials)
    assert (whole.trials["target"] == (whole.trials["model"] == whole.trials["utterance"].str[0])).all()
    assert whole.trials.equals(whole.trials.sort_values(["model", "utterance"], ignore_index=True))
    return {f"{model}:{one}" for model, one in zip(whole.trials["model"], whole.trials["utterance"])}


def test_what_a_list_lacks_stays_within_the_sexes_where_it_does() -> None:
    within = ("a:a1", "a:b1", "b:b1", "c:c1", "c:d1", "d:d1")
    assert searched_pairs(listed(*within)) == {*within, "b:a1", "d:c1"}
    across = (*within, "a:c1")
    everybody = {f"{model}:{one}1" for model in "abcd" for one in "abcd"}
    assert searched_pairs(listed(*across)) == everybody
    assert searched_pairs(listed(*within), dict.fromkeys(SEXES, "u")) == everybody


def test_a_list_that_lacks_nothing_or_cannot_be_completed_is_itself() -> None:
    whole = listed("a:a1", "a:b1", "b:a1", "b:b1", "a:x1")  # nobody has enrolled x
    assert trials.complete_trials(whole, {"a": "a", "b": "b"}, {"a1": "a", "b1": "b", "x1": "x"}, SEXES) is whole
    twice = listed("a:a1", "b:b1", "c:a1")
    assert trials.complete_trials(twice, {"a": "a", "b": "b", "c": "a"}, {"a1": "a", "b1": "b"}, SEXES) is twice
