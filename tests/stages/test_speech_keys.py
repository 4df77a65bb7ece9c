"""What a plan finds things by: equal where all that they say is equal, whatever they are called."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import pytest

from pipeline.stages.graph import ExtractorKey, SpeechKey

SPEECH = SpeechKey("b2")
OTHERS: dict[str, list[Any]] = {
    "system": ["b2r", "b2, second run"],
    "part": ["training", "enrolment"],
    "run": [2],
    "level": ["speaker"],
}


def test_speech_differs_in_every_field() -> None:
    assert {field.name for field in dataclasses.fields(SpeechKey)} == set(OTHERS), "a field without a case here"
    found = [SPEECH, *(dataclasses.replace(SPEECH, **{name: one}) for name, many in OTHERS.items() for one in many)]
    assert len(set(found)) == len(found) == 7
    assert SpeechKey("b2") == SPEECH and hash(SpeechKey("b2")) == hash(SPEECH)


def test_an_extractor_differs_by_its_name_and_by_the_speech_that_it_learnt() -> None:
    learnt = [
        None,
        *(SpeechKey(system, "training", level=level) for system in ("b2", "b2r") for level in ("", "speaker")),
    ]
    found = [ExtractorKey(name, speech) for name in ("ecapa", "xvector") for speech in learnt]
    assert len(set(found)) == len(found)
    assert ExtractorKey("ecapa", SpeechKey("b2", "training")) == ExtractorKey("ecapa", SpeechKey("b2", "training"))


def test_labels_are_for_people_and_two_things_may_share_one() -> None:
    run, odd = SpeechKey("b2", run=2), SpeechKey("b2, second run")
    assert run.label == odd.label == "b2, second run" and run != odd
    trained = ExtractorKey("ecapa", SpeechKey("b2", "training", level="fixed"))
    assert trained.label == str(trained) == "ecapa, b2, training set (fixed)"
    assert trained != ExtractorKey("ecapa, b2, training set (fixed)")


@pytest.mark.parametrize("key", [SPEECH, SpeechKey("b2", "enrolment", level="speaker"), ExtractorKey("ecapa", SPEECH)])
def test_keys_pickle(key: object) -> None:
    carried = pickle.loads(pickle.dumps(key))
    assert carried == key and hash(carried) == hash(key)


def test_files_of_vectors_hold_training_and_evaluation_together_and_the_second_run_apart() -> None:
    assert SpeechKey("b2").file_label == SpeechKey("b2", "training").file_label == "b2"
    assert SpeechKey("b2", run=2).file_label == "b2@2"
