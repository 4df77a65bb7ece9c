"""What to cite: the program as its project file has it, and every paper that a family names."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from types import MappingProxyType

import pandas as pd
import pytest

from pipeline import contracts, registry
from pipeline.report import citations, glossary
from pipeline.version import __version__

PROJECT = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ENTRY = re.compile(r"@(\w+)\{(\w+),\n((?:  \w+ *= \{.*\},\n)+)\}\n")
REQUIRED = {
    "software": {"author", "title", "version", "year"},
    "article": {"author", "title", "journal", "year"},
    "inproceedings": {"author", "title", "booktitle", "year"},
    "book": {"author", "title", "publisher", "year"},
    "misc": set(),
}


def rows(*metrics: str, versions: tuple[str, ...] = (__version__,)) -> pd.DataFrame:
    return pd.DataFrame([{"metric": metric, "code_version": version} for metric in metrics for version in versions])


def entries(text: str) -> dict[str, tuple[str, dict[str, str]]]:
    """The entries by key: kind and fields. All of the text is entries."""
    assert not ENTRY.sub("", text).strip(), ENTRY.sub("", text)
    found = ENTRY.findall(text)
    made = {key: (kind, dict(re.findall(r"  (\w+) *= \{(.*)\},\n", body))) for kind, key, body in found}
    assert len(made) == len(found), "keys are unique"
    for kind, fields in made.values():
        assert set(fields) >= REQUIRED[kind], (kind, fields)
        for value in fields.values():
            depth = 0
            for character in value:
                depth += (character == "{") - (character == "}")
                assert depth >= 0, value
            assert depth == 0, value
            assert not re.search(r"(?<!\\)[&%#_$]", value), value
    return made


def test_the_program_is_cited_as_the_project_file_has_it() -> None:
    ((kind, fields), *_) = entries(citations.to_bibtex(rows("eer"))).values()
    assert kind == "software" and fields["version"] == __version__ == PROJECT["version"]
    assert PROJECT["name"] in fields["title"] and fields["license"] == PROJECT["license"]


def test_each_version_that_made_numbers_is_cited() -> None:
    found = entries(citations.to_bibtex(rows("eer", versions=("0.1.0", "0.2.0"))))
    assert list(found)[:2] == ["voice_privacy_pipeline_0_1_0", "voice_privacy_pipeline_0_2_0"]


def test_every_paper_that_our_families_name_is_known() -> None:
    ours = registry.list_own_names("families")
    for family in glossary.families():
        if family.__module__.split(".")[2] in ours:
            for reference in family.references:
                assert citations.find_papers(reference), reference


def test_all_metrics_together() -> None:
    found = entries(citations.to_bibtex(rows(*glossary.metrics())))
    assert set(found) >= {*re.findall(r"@\w+{(\w+),", "".join(citations.read_papers()))}, (
        "no entry that nothing asks for"
    )
    assert r"No{\'e}, Paul-Gauthier and others" in found["noe2020similarity"][1]["author"]


@pytest.mark.parametrize(
    ("metric", "keys"),
    [("eer", ["brummer2006application"]), ("mean_d", ["backstrom2025rank", "chandra2026rank"]), ("nothing", [])],
)
def test_only_what_the_run_measured_is_cited(metric: str, keys: list[str]) -> None:
    assert list(entries(citations.to_bibtex(rows(metric))))[1:] == keys


def test_what_a_family_of_others_says_is_an_entry_as_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    class Theirs(contracts.MetricFamily):
        metrics = MappingProxyType({"theirs": contracts.Metric("T", "T", "T.", source="somewhere")})
        references = (
            "Ä. Author_1, “50 % of {everything}}”, 2031.",
            "Ä. Author_1, “50 % of {everything}”, volume 2, 2032.",
        )

    monkeypatch.setattr(glossary, "families", lambda: (Theirs,))
    found = entries(citations.to_bibtex(rows("theirs")))
    assert [fields["year"] for kind, fields in list(found.values())[1:] if kind == "misc"] == ["2031", "2032"]
    assert r"Ä. Author\_1" in next(fields["note"] for _, fields in found.values() if "note" in fields)
