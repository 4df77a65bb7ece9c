"""Texts on a terminal: where they break, and that names that differ still do."""

from __future__ import annotations

import pytest

from pipeline.report.fitting import cut, distinct, height, wrapped


def test_lines_break_between_words_and_in_words_that_are_longer() -> None:
    assert wrapped("one two three", 8) == ["one two", "three"]
    assert wrapped("a\tb\nc", 80) == ["a b c"] and wrapped("", 80) == []
    assert wrapped("abcdefgh ij", 4, first="- ", then="  ") == ["- ab", "  cd", "  ef", "  gh", "  ij"]
    assert wrapped("聲音隱私 系統", 5) == ["聲音", "隱私", "系統"]
    assert wrapped("one two three four", 6, most=2) == ["one", "two …"]


def test_a_cut_counts_columns() -> None:
    assert cut("abcdef", 6) == "abcdef" and cut("abcdefg", 6) == "abcde…"
    assert (
        cut("聲音隱私", 6) == "聲音…" and cut("e\N{COMBINING ACUTE ACCENT}" * 3, 3) == "e\N{COMBINING ACUTE ACCENT}" * 3
    )
    assert height(["", "a" * 10, "a" * 11, "聲" * 6], 10) == 1 + 1 + 2 + 2


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["b2", "b2r", "b2"], ["b2", "b2r", "b2"]),
        (["a_long_name", "b_long_name"], ["a_lon…", "b_lon…"]),
        (["a_long_name_1", "a_long_name_2"], ["a_l…_1", "a_l…_2"]),
        (["a_long_1_name", "a_long_2_name", "a_long_1_name"], ["a_lo…1", "a_lo…2", "a_lo…1"]),
    ],
)
def test_names_that_differ_do_so_when_they_are_cut(names: list[str], found: list[str]) -> None:
    assert distinct(names, 6) == found
