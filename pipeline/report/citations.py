"""BibTeX for whoever publishes numbers of a run: this program, and the papers that define the metrics of the run.

Which papers these are, the metric families say (``references``, and ``source`` of a metric). Their entries stand in ``papers.bib``, each below
the words by which families name it; a paper that is not there becomes an entry that holds what the family says.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from pathlib import Path

import pandas as pd

from pipeline.report import glossary, signatures
from pipeline.version import __version__

TITLE = "voice-privacy-pipeline: end-to-end evaluation of voice anonymisation"
AUTHOR = "{The developers of voice-privacy-pipeline}"
LICENCE = "Apache-2.0"
YEAR = "2026"
_COMMANDS = str.maketrans({
    "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "\\": r"\textbackslash{}", "“": "``", "”": "''", "{": "(", "}": ")",
})  # fmt: skip


@functools.cache
def read_papers() -> dict[str, tuple[str, ...]]:
    """The entries that are known, each with the words of which one stands where a family names it."""
    blocks = Path(__file__).with_name("papers.bib").read_text(encoding="utf-8").split("% named by: ")[1:]
    papers = [block.partition("\n") for block in blocks]
    return {entry.strip() + "\n": tuple(words.split(" | ")) for words, _, entry in papers}


def to_bibtex(rows: pd.DataFrame) -> str:
    """The entries for rows of results, of one run or of several: the versions of this program that made them, then the papers."""
    versions = sorted(set(rows["code_version"].astype(str)) - {""}) or [__version__]
    tools = []
    for version in versions:
        key = "voice_privacy_pipeline_" + re.sub(r"[^0-9a-zA-Z]+", "_", version)
        fields = {"author": AUTHOR, "title": f"{{{TITLE}}}", "version": version, "year": YEAR, "license": LICENCE}
        tools.append(_write_entry("software", key, fields))
    return "\n".join([*tools, *list_papers(rows)])


def list_papers(rows: pd.DataFrame) -> list[str]:
    """The entries of the papers that define the metrics of some rows, once each, in the order of the tables."""
    used = set(rows["metric"].astype(str))
    texts: list[str] = []
    for family in glossary.families():
        here = [metric for name, metric in family.metrics.items() if name in used]
        if here:
            texts += [*family.references, *(metric.source for metric in here if find_papers(metric.source))]
    return list(dict.fromkeys(entry for text in texts for entry in find_papers(text) or [_write_unknown(text)]))


def find_papers(text: str) -> list[str]:
    """The entries of the papers that a text names."""
    return [entry for entry, words in read_papers().items() if any(word in text for word in words)]


def _write_unknown(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    words = re.findall(r"[a-z0-9]+", plain)
    years = re.findall(r"\b(?:19|20)\d\d\b", text)
    note = "".join(character if character.isprintable() else " " for character in text).translate(_COMMANDS)
    fields = {"note": note, **({"year": years[-1]} if years else {})}
    return _write_entry("misc", "_".join([*words[:6], signatures.fingerprint(text, 6)]), fields)


def _write_entry(kind: str, key: str, fields: dict[str, str]) -> str:
    width = max(map(len, fields))
    return "\n".join(
        [f"@{kind}{{{key},", *(f"  {name:{width}} = {{{value}}}," for name, value in fields.items()), "}", ""]
    )
