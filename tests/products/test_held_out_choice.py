"""What held-out training speakers say of attacks, beside the leaderboard's choice by D_ECE."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest

from pipeline.products import find_eer_definition
from pipeline.products.checks.collect import find_choices
from pipeline.tables import answers, results


def attacks(*several: dict[str, Any]) -> pd.DataFrame:
    """Attacks of one system, the strongest first."""
    about = {
        "dataset": "d",
        "subset": "f",
        "system": "b2r",
        "condition": "PP",
        "extractor": "ecapa",
        "trained_on": "anonymised",
        "status": "ok",
    }
    return answers.frame("attacks", [{**about, **one} for one in several])


def attack(attacker: str, backend: str, held_out: float, contends: bool = True) -> dict[str, Any]:
    return {"attacker": attacker, "backend": backend, "held_out": held_out, "contends": contends}


def test_another_choice_of_held_out_speakers_is_said_of_the_strongest_and_flags_nothing() -> None:
    tables = [
        attack("semi", "cosine", 0.07),
        attack("lazy", "cosine", math.nan),
        attack("semi", "wccn", 0.0123),
        attack("semi", "plda", 0.03),
    ]
    ((about, found),) = find_choices(attacks(*tables))
    assert about == {"dataset": "d", "subset": "f", "system": "b2r", "condition": "PP", "attacker": "semi", "extractor": "ecapa",
                     "trained_on": "anonymised", "backend": "cosine"}  # fmt: skip
    assert (found.check, found.value, found.flagged) == ("held_out_choice", 0.0123, False)
    assert found.sentence == (
        "Held-out training speakers would choose another attack than the strongest: semi: ecapa (anonymised), wccn has an EER of 1.2 % "
        "there, and the strongest 7.0 %; on the evaluated speakers it cannot be told from the strongest."
    )
    tables[2]["contends"] = False
    assert [one.sentence.endswith("it discloses less.") for _, one in find_choices(attacks(*tables))] == [True]


@pytest.mark.parametrize(
    "several",
    [
        [],
        [attack("semi", "cosine", 0.01), attack("semi", "wccn", 0.02)],
        [attack("semi", "cosine", 0.02), attack("semi", "wccn", 0.02)],
        [attack("lazy", "cosine", math.nan), attack("semi", "wccn", 0.02)],
        [attack("semi", "cosine", 0.02), attack("speaker", "cosine", 0.01)],
    ],
    ids=["none", "the same", "equal", "not adapted", "of another training set"],
)
def test_nothing_is_said_where_the_choice_is_the_same_or_cannot_be_compared(several: list[dict[str, Any]]) -> None:
    assert list(find_choices(attacks(*several))) == []


def test_attacks_are_compared_on_the_convex_hull_where_there_are_several_definitions() -> None:
    def rows(*variants: str) -> pd.DataFrame:
        return results.frame([{"dataset": "d", "metric": "eer", "variant": one, "value": 0.1} for one in variants])

    assert find_eer_definition(rows("kaldi", "rocch")) == "rocch" == find_eer_definition(rows())
    assert find_eer_definition(rows("speechbrain")) == "speechbrain" and find_eer_definition(rows("own")) == "own"
