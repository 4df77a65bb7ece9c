"""Tables and texts on a terminal: columns, where lines break, and that names that differ still do."""

from __future__ import annotations

import pytest

from pipeline.report.table import Column, Table, format_lines, shorten, shorten_names, wrap


def test_lines_break_between_words_and_in_words_that_are_longer() -> None:
    assert wrap("one two three", 8) == ["one two", "three"]
    assert wrap("a\tb\nc", 80) == ["a b c"] and wrap("", 80) == []
    assert wrap("abcdefgh ij", 4, first="- ", then="  ") == ["- ab", "  cd", "  ef", "  gh", "  ij"]
    assert wrap("聲音隱私 系統", 5) == ["聲音", "隱私", "系統"]
    assert wrap("one two three four", 6, most=2) == ["one", "two …"]


def test_a_cut_counts_columns() -> None:
    assert shorten("abcdef", 6) == "abcdef" and shorten("abcdefg", 6) == "abcde…"
    assert (
        shorten("聲音隱私", 6) == "聲音…"
        and shorten("e\N{COMBINING ACUTE ACCENT}" * 3, 3) == "e\N{COMBINING ACUTE ACCENT}" * 3
    )


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["b2", "b2r", "b2"], ["b2", "b2r", "b2"]),
        (["a_long_name", "b_long_name"], ["a_lon…", "b_lon…"]),
        (["a_long_name_1", "a_long_name_2"], ["a_…e_1", "a_…e_2"]),
        (["a_long_1_name", "a_long_2_name", "a_long_1_name"], ["a_lo…1", "a_lo…2", "a_lo…1"]),
    ],
)
def test_names_that_differ_do_so_when_they_are_cut(names: list[str], found: list[str]) -> None:
    assert shorten_names(names, 6) == found


def test_letters_that_take_two_columns_or_none_leave_the_columns_aligned() -> None:
    table = Table([Column("name"), Column("n", "number")], [["文字", "1"], ["e\u0301te\u0301", "22"], ["plain", "3"]])
    heads, rule, *body = format_lines(table)
    assert (heads, rule) == ("name    n", "-----  --")
    assert body == ["文字    1", "e\u0301te\u0301    22", "plain   3"]
