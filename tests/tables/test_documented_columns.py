"""The columns of a run's tables are documented, and nothing else is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pipeline.errors import DataError
from pipeline.tables import answers, results

DOCUMENT = (Path(__file__).resolve().parents[2] / "data_manifests" / "README.md").read_text(encoding="utf-8")
TABLES = {"rows": results.COLUMNS, **answers.TABLES}


def documented(name: str) -> list[str]:
    """The columns in the table of the document that begins with a table's name."""
    begins = "Schema 2; the columns from" if name == "rows" else f"`{name}`: a row a"
    (after,) = re.findall(rf"^{re.escape(begins)}.*?\n\n((?:\|.*\n)+)", DOCUMENT, re.MULTILINE)
    return [column for line in after.splitlines()[2:] for column in re.findall(r"`(\w+)`", line.split("|")[1])]


@pytest.mark.parametrize("name", TABLES)
def test_the_document_has_the_columns_of_the_code(name: str) -> None:
    assert sorted(documented(name)) == sorted(TABLES[name])


def test_a_leaderboard_of_a_version_with_fewer_columns_is_refused(tmp_path: Path) -> None:
    table = answers.frame("leaderboard", [{"system": "b2", "d_ece": 0.1, "rank": 1, "anonymised": True}])
    table.drop(columns=["untried"]).to_parquet(tmp_path / "leaderboard.parquet", index=False)
    with pytest.raises(DataError, match="lacks columns: untried"):
        answers.read("leaderboard", tmp_path)
