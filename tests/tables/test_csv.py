"""CSV that a spreadsheet does not obey, and that comes back cell for cell."""

from __future__ import annotations

import csv as plain
import io
from pathlib import Path

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.tables import csv, results

OBEYED = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")
NASTY = [
    "=1+1",
    "+1",
    "-1",
    "@SUM(1)",
    "'=1",
    "''-x",
    "'quoted'",
    "\t=1",
    "\r=1",
    'a"b,c\nd',
    "plain",
    "",
    "nan",
    "–5",
    "＝1",
]


def cells(text: str) -> list[list[str]]:
    """The cells of a CSV as a reader of another kind finds them."""
    return list(plain.reader(io.StringIO(text, newline="")))


def test_no_cell_begins_like_a_formula_and_all_come_back(tmp_path: Path) -> None:
    table = pd.DataFrame({"=head": NASTY, "text": NASTY[::-1], "number": np.linspace(-1, 1, len(NASTY))})
    text = csv.text(table, "%.17g")
    head, *body = cells(text)
    assert not head[0].startswith(OBEYED)
    assert not any(cell.startswith(OBEYED) for line in body for cell in line[:2])
    path = tmp_path / "x.csv"
    path.write_text(text, encoding="utf-8", newline="")
    pd.testing.assert_frame_equal(csv.read(path, {"number": float}), table, check_dtype=False)
    # The line of the documents, with pandas alone.
    documented = pd.read_csv(path, keep_default_na=False, dtype=str).replace(
        r"^'(?='*[=+\-@\t\r＝＋－＠])", "", regex=True
    )
    assert documented["text"].tolist() == NASTY[::-1] and documented["number"].astype(float).equals(table["number"])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(alphabet="'=+-@\t\ra,\"\n ＝é", max_size=5), min_size=1, max_size=5))
def test_any_text_comes_back(tmp_path_factory, texts: list[str]) -> None:
    path = tmp_path_factory.mktemp("csv") / "x.csv"
    table = pd.DataFrame({"id": texts, "n": range(len(texts))})
    path.write_text(csv.text(table, "%.10g"), encoding="utf-8", newline="")
    assert csv.read(path)["id"].tolist() == texts


def test_results_are_the_same_in_both_files(tmp_path: Path) -> None:
    rows = [
        {
            "metric": "eer",
            "system": name,
            "value": value,
            "low": np.nan,
            "high": 0.1 + 0.2,
            "n_used": count,
            "note": "-; =x",
        }
        for name, value, count in (("=cmd|' /C calc'!A0", 1 / 3, 5), ("'-", np.nan, None), ("b2", np.inf, 1 << 40))
    ]
    results.write(results.frame(rows), tmp_path)
    pd.testing.assert_frame_equal(results.read_csv(tmp_path / "results.csv"), results.read(tmp_path), check_dtype=False)
    for line in cells((tmp_path / "results.csv").read_text(encoding="utf-8"))[1:]:
        assert not any(cell.startswith(OBEYED) for cell in line if not cell.lstrip("-").replace(".", "").isdigit())
