"""Names of files: patterns of them, and ids that are made of them."""

from __future__ import annotations

import unicodedata

import pytest

from pipeline.names import Pattern, make_id, normalise_name

ROWS = [{"utterance": f"s{s}-{n:02d}", "speaker": f"s{s}", "set": "dev"} for s in range(3) for n in range(4)]
IDS = [row["utterance"] for row in ROWS]


def test_both_forms_and_blanks() -> None:
    apart = unicodedata.normalize("NFD", "Zoë 声")
    assert apart != "Zoë 声" and normalise_name(apart) == "Zoë 声" and make_id(f" {apart}\t2 ") == "Zoë_声_2"


@pytest.mark.parametrize(
    ("text", "name", "takes"),
    [
        ("{utterance}", "s0-00", True),
        ("{utterance}_anon", "s0-00_anon", True),
        ("{utterance}_anon", "s0-00", False),
        ("{set}-{utterance}", "dev-s0-00", True),
        ("x{speaker} {utterance}", "xs0 s0-00", True),
        ("{number}_{utterance}", "0017_s0-00", True),
        ("{number}_{utterance}", "_s0-00", False),
        ("{utterance}_{number}", "s0-00_3", True),
        ("{utterance}_{number}", "s0-01_3", False),
        ("{utterance}", "S0-00", False),
    ],
)
def test_a_pattern_takes_the_names_that_it_spells(text: str, name: str, takes: bool) -> None:
    pattern = Pattern(text)
    assert (pattern.found(name) == pattern.wanted(ROWS[0])) is takes


def test_case_may_be_ignored() -> None:
    pattern = Pattern("{utterance}_Anon", ignore_case=True)
    assert pattern.found("S0-00_ANON") == pattern.wanted(ROWS[0])


@pytest.mark.parametrize(
    "text",
    ["anon", "{utterance}{utterance}", "{utterance}_{what}", "{utterance}/x", "{utterance}{number}", "a{number}b{utterance}",
     "{number}_{utterance}_{number}", "{utterance", "{utterance}}"],
)  # fmt: skip
def test_what_is_no_pattern(text: str) -> None:
    with pytest.raises(ValueError, match="pattern"):
        Pattern(text)
