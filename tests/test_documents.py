"""The documents: tables made from the code, links and cited sections that exist, columns, and the example that is printed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.tables import checks as diagnostics
from pipeline.tables import manifest, results
from tests import documents
from tests.documents import DOCUMENTS, ROOT

TABLES = documents.tables()
SOURCES = sorted(
    path
    for folder in ("pipeline", "tests", "conf", "recipes")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in (".py", ".yaml", ".md")
)
CITED = re.compile(r"([\w./-]*README\.md)\)?, sections? (\d+(?:(?:, | and )\d+)*)")


def text_of(name: str) -> str:
    return (ROOT / name).read_text()


def headings(path: Path) -> list[str]:
    outside_code = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"^#+ (.*)$", outside_code, re.MULTILINE)


def anchor(heading: str) -> str:
    """What GitHub makes of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


# Generated tables ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DOCUMENTS)
def test_marked_parts_are_what_the_code_makes(name: str) -> None:
    text = text_of(name)
    assert documents.filled(text, TABLES) == text, "python -m tests.documents writes them anew"
    begun, ended = (re.findall(pattern, text, re.MULTILINE) for pattern in (r"^<!-- generated:", r"^<!-- end -->$"))
    assert len(begun) == len(ended) == len(documents.marks(text)), "a mark without its other half"


def test_every_table_stands_in_one_document() -> None:
    held = [mark for name in DOCUMENTS for mark in documents.marks(text_of(name))]
    assert sorted(held) == sorted(TABLES)


def test_a_part_that_was_changed_by_hand_is_seen_and_made_anew() -> None:
    text = text_of("README.md")
    changed = text.replace("The error rate of", "The rate of", 1)
    assert changed != text and documents.filled(changed, TABLES) == text
    with pytest.raises(KeyError):
        documents.filled("<!-- generated: nothing -->\n<!-- end -->", TABLES)


# What documents promise ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "most"), [("README.md", 12_000), ("conf/README.md", 45_000)])
def test_documents_stay_short(name: str, most: int) -> None:
    assert len((ROOT / name).read_bytes()) <= most


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_lead_somewhere(name: str) -> None:
    path = ROOT / name
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
        if target.startswith("http"):
            continue
        file, _, part = target.partition("#")
        found = (path.parent / file).resolve() if file else path
        if not found.exists() or (part and part not in map(anchor, headings(found))):
            broken.append(target)
    assert not broken


def test_cited_sections_exist() -> None:
    """``pipeline/metrics/README.md, section 4`` in a docstring or a document is a heading that begins with 4."""
    cited, missing = 0, []
    for source in SOURCES:
        for file, numbers in CITED.findall(source.read_text()):
            found = ROOT / file if (ROOT / file).exists() else source.parent / file
            for number in re.findall(r"\d+", numbers):
                cited += 1
                if not found.exists() or not any(heading.startswith(f"{number}. ") for heading in headings(found)):
                    missing.append((str(source.relative_to(ROOT)), file, number))
    assert cited >= 5 and not missing


def documented(name: str, after: str) -> list[str]:
    """The columns that the first table after some words lists, in its order."""
    table = text_of(name).split(after)[1].split("| column |")[1].split("\n\n")[0]
    return [column for line in table.splitlines()[2:] for column in re.findall(r"`(\w+)`", line.split("|")[1])]


def test_documented_columns_are_those_of_the_files() -> None:
    name = "data_manifests/README.md"
    assert documented(name, "**Manifest**") == manifest.COLUMNS
    assert documented(name, f"\nSchema {results.SCHEMA_VERSION}") == results.COLUMNS
    assert documented(name, "**Diagnostics**") == list(diagnostics.COLUMNS)


def test_the_printed_example_of_the_metrics_runs(tmp_path: Path) -> None:
    code = re.findall(r"^```python\n(.*?)^```", text_of("pipeline/metrics/README.md"), re.DOTALL | re.MULTILINE)
    assert len(code) == 1
    done = subprocess.run([sys.executable, "-c", code[0]], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    numbers, said = done.stdout.splitlines()
    # Unit Gaussians two apart: the EER is Phi(-1) = 0.159, up to the spread of 500 targets.
    assert float(numbers.split()[0]) == pytest.approx(0.1587, abs=0.03)
    assert "'unit': 'bit'" in said and "'private': 'lower'" in said
