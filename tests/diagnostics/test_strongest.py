"""The attack that numbers stand on: chosen on held-out speakers where there are any, never by the test."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from pipeline.diagnostics import strongest
from pipeline.report import strongest as table
from pipeline.tables import results

ATTACKS = {
    "lazy": ("lazy_informed", "campplus", "original", "cosine"),
    "adapted": ("semi_informed", "campplus", "original; back end anonymised (utterance)", "wccn"),
    "speaker": ("semi_speaker", "campplus", "anonymised (speaker)", "cosine"),
    "tuned": ("semi_informed", "campplus", "anonymised (utterance)", "cosine"),
}


def rows(eers: dict[str, tuple[float, float]], system: str = "b2r") -> pd.DataFrame:
    """Results with the EER of each attack on two subsets, and of unprotected speech."""
    made: list[dict[str, Any]] = []
    attacks = {**{name: ATTACKS[name] for name in eers}, "oo": ("unprotected", "campplus", "original", "cosine")}
    for name, attack in attacks.items():
        for place, subset in enumerate(("f", "m")):
            value = eers[name][place] if name in eers else 0.001
            identity = dict(zip(strongest.ATTACK, attack))
            made.append({"dataset": "d", "subset": subset, "system": system, "metric": "eer", "variant": "rocch",
                         "value": value, "low": value - 0.01, "high": value + 0.01, **identity})  # fmt: skip
    return results.frame(made)


def candidates(held: dict[str, tuple[float | None, float | None]], system: str = "b2r") -> list[tuple[Any, Any]]:
    return [
        (
            {"dataset": "d", "system": system, "subset": subset, **dict(zip(strongest.ATTACK, ATTACKS[name]))},
            {"eer": eer, "cllr_min": cllr},
        )
        for name, (eer, cllr) in held.items()
        for subset in ("f", "m")
    ]


def test_held_out_speakers_choose_even_where_the_test_would_not() -> None:
    measured = rows({"lazy": (0.30, 0.20), "adapted": (0.12, 0.08), "tuned": (0.10, 0.05)})
    choice = strongest.choose(candidates({"adapted": (0.02, 0.1), "tuned": (0.04, 0.05)}), measured)
    (chosen,) = choice.to_dict("records")
    assert (chosen["trained_on"], chosen["chosen"]) == (ATTACKS["adapted"][2], strongest.HELD_OUT)
    assert (chosen["held_out"], chosen["candidates"]) == (0.02, 2)
    found = strongest.measured(choice, measured).set_index("subset")
    assert found["value"].to_dict() == {"f": 0.12, "m": 0.08}
    assert found["lowest"].to_dict() == {"f": 0.10, "m": 0.05}
    assert set(found["lowest_by"]) == {"semi_informed: campplus (anonymised (utterance)), cosine"}


def test_equal_rates_are_told_apart_by_the_minimum_cllr() -> None:
    measured = rows({"adapted": (0.12, 0.08), "tuned": (0.10, 0.05)})
    choice = strongest.choose(candidates({"adapted": (0.0, 0.02), "tuned": (0.0, 0.01)}), measured)
    assert choice["trained_on"].tolist() == [ATTACKS["tuned"][2]]


def test_without_an_adapted_attack_the_lowest_mean_is_shown_and_said_to_be_no_choice() -> None:
    measured = rows({"lazy": (0.30, 0.02), "tuned": (0.10, 0.10)})
    choice = strongest.choose(candidates({"tuned": (None, None)}), measured)
    (chosen,) = choice.to_dict("records")
    assert (chosen["trained_on"], chosen["chosen"]) == (ATTACKS["tuned"][2], strongest.MEASURED), "0.10 against 0.16"
    assert np.isnan(chosen["held_out"])
    assert "No attack on b2r was adapted and judged" in " ".join(table.notes(choice, measured))


def test_attackers_with_other_training_sets_are_not_compared_on_held_out_speakers() -> None:
    """A set at speaker level is easier, whoever attacks it: the number there says nothing beside that at utterance level."""
    measured = rows({"adapted": (0.12, 0.08), "tuned": (0.10, 0.05), "speaker": (0.30, 0.30)})
    held = candidates({"adapted": (0.06, 0.1), "tuned": (0.07, 0.05), "speaker": (0.01, 0.01)})
    (chosen,) = strongest.choose(held, measured).to_dict("records")
    assert (chosen["trained_on"], chosen["chosen"]) == (ATTACKS["adapted"][2], strongest.BOTH)
    assert chosen["held_out"] == 0.06
    assert "Several attackers were adapted to b2r" in " ".join(table.notes(strongest.choose(held, measured), measured))


def test_the_table_has_a_line_a_subset_and_system_in_the_order_of_systems() -> None:
    both = pd.concat([rows({"lazy": (0.30, 0.20)}, "b2"), rows({"lazy": (0.25, 0.15)}, "b2r")], ignore_index=True)
    choice = strongest.choose([], both)
    lines = table.lines(choice, both, ["b2r", "b2"])
    assert [line[:2] for line in lines] == [["f", "b2r"], ["m", "b2r"], ["f", "b2"], ["m", "b2"]]
    assert lines[0][2:4] == ["25.00", "[24.00, 26.00]"]
    assert table.to_text(choice, both, ["b2r", "b2"]).startswith(table.TITLE)
    assert not len(strongest.choose([], pd.DataFrame()))


def test_a_run_with_another_definition_of_the_eer_has_a_strongest_attack_and_names_the_definition() -> None:
    measured = rows({"lazy": (0.30, 0.02), "tuned": (0.10, 0.10)})
    other = results.frame([*results.records(measured.assign(variant="speechbrain").drop(columns="schema_version"))])
    choice = strongest.choose([], other)
    assert (
        choice["trained_on"].tolist() == strongest.choose([], measured)["trained_on"].tolist() == [ATTACKS["tuned"][2]]
    )
    assert "EER by the definition speechbrain." in table.notes(choice, other)
    assert not any("definition" in said for said in table.notes(choice, measured))
    both = results.frame(
        [
            one
            for part in (measured, other.assign(value=0.5))
            for one in results.records(part.drop(columns="schema_version"))
        ]
    )
    assert set(strongest.measured(choice, both)["value"]) == {0.10}, "that on the convex hull, where there are several"
