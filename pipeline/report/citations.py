"""BibTeX for whoever publishes numbers of a run: this program, and the papers that define the metrics of the run.

Which papers these are, the metric families say (``references``, and ``source`` of a metric). What is known of a paper stands here; one that is
not (of a family of another distribution) becomes an entry that holds what the family says.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pipeline.report import glossary, signatures
from pipeline.version import __version__

TITLE = "voice-privacy-pipeline: end-to-end evaluation of voice anonymisation"
AUTHOR = "{The developers of voice-privacy-pipeline}"
LICENCE = "Apache-2.0"
YEAR = "2026"


@dataclass(frozen=True)
class Paper:
    """An entry of BibTeX.

    Attributes:
        key, kind: of the entry.
        marks: what families call it by: one of these stands in what they say.
        fields: as BibTeX has them; texts as they are, without commands of LaTeX.
    """

    key: str
    kind: str
    marks: tuple[str, ...]
    fields: Mapping[str, str]


def _arxiv(number: str) -> dict[str, str]:
    return {"eprint": number, "archiveprefix": "arXiv"}


PAPERS = (
    Paper("brummer2006application", "article", ("Application-independent evaluation", "Brümmer and du Preez 2006"), {
        "author": "Brümmer, Niko and du Preez, Johan",
        "title": "Application-independent evaluation of speaker detection",
        "journal": "Computer Speech & Language", "volume": "20", "year": "2006",
    }),
    Paper("nautsch2020zebra", "inproceedings", ("The Privacy ZEBRA", "Nautsch et al. 2020"), {
        "author": "Nautsch, Andreas and others",
        "title": "The Privacy {ZEBRA}: Zero Evidence Biometric Recognition Assessment",
        "booktitle": "Interspeech", "year": "2020", **_arxiv("2005.09413"),
    }),
    Paper("noe2020similarity", "inproceedings", ("Voice Similarity Matrices", "Noé et al. 2020"), {
        "author": "Noé, Paul-Gauthier and others",
        "title": "Speech Pseudonymisation Assessment Using Voice Similarity Matrices",
        "booktitle": "Interspeech", "year": "2020",
    }),
    Paper("noe2022unified", "article", ("Towards a unified assessment", "Noé et al. 2022"), {
        "author": "Noé, Paul-Gauthier and others",
        "title": "Towards a unified assessment framework of speech pseudonymisation",
        "journal": "Computer Speech & Language", "volume": "72", "pages": "101299", "year": "2022",
    }),
    Paper("gomezbarrero2018unlinkability", "article", ("General framework to evaluate unlinkability", "Gomez-Barrero et al. 2018"), {
        "author": "Gomez-Barrero, Marta and others",
        "title": "General framework to evaluate unlinkability in biometric template protection systems",
        "journal": "IEEE Transactions on Information Forensics and Security", "volume": "13", "year": "2018",
    }),
    Paper("maouche2020comparative", "inproceedings", ("comparative study of speech anonymization metrics", "Maouche et al. 2020"), {
        "author": "Maouche, Mohamed and others",
        "title": "A comparative study of speech anonymization metrics",
        "booktitle": "Interspeech", "year": "2020",
    }),
    Paper("doddington1998sheep", "inproceedings", ("Sheep, goats, lambs and wolves",), {
        "author": "Doddington, George and others",
        "title": "Sheep, goats, lambs and wolves",
        "booktitle": "International Conference on Spoken Language Processing (ICSLP)", "year": "1998",
    }),
    Paper("dunstone2009biometric", "book", ("Biometric System and Data Analysis",), {
        "author": "Dunstone, Ted and Yager, Neil",
        "title": "Biometric System and Data Analysis",
        "publisher": "Springer", "year": "2009",
    }),
    Paper("backstrom2025rank", "misc", ("Privacy Disclosure of Similarity Rank", "Bäckström et al. 2025"), {
        "author": "Bäckström, Tom and Vali, Mohammad Hassan and Nguyen, My and Rech, Silas",
        "title": "Privacy Disclosure of Similarity Rank in Speech and Language Processing",
        "year": "2025", **_arxiv("2508.05250"),
    }),
    Paper("chandra2026rank", "misc", ("similarity rank disclosure”", "Chandra et al. 2026"), {
        "author": "Chandra, Shilpa and Pettenò, Matteo and Evans, Nicholas and Panariello, Michele and Todisco, Massimiliano and "
        "Bäckström, Tom and Kolossa, Dorothea and Martin, Rainer and Stafylakis, Themos and Gengembre, Nicolas",
        "title": "Evaluating voice anonymisation using similarity rank disclosure",
        "year": "2026", **_arxiv("2605.07291"),
    }),
    Paper("lid2026", "misc", ("2607.06259",), {
        "title": "Local information disclosure of speaker identity", "year": "2026", **_arxiv("2607.06259"),
    }),
    Paper("vauquier2025", "misc", ("Vauquier et al. 2025",), {
        "author": "Vauquier, Nathalie and others",
        "title": "voice-anonymization-legal-eval", "version": "2.1.0", "year": "2025",
        "howpublished": "release on PyPI",
    }),
    Paper("voxguard2025", "misc", ("2509.18413",), {
        "title": "VoxGuard: Evaluating user and attribute privacy in speech via Membership Inference Attacks",
        "year": "2025", **_arxiv("2509.18413"),
    }),
)  # fmt: skip


def to_bibtex(rows: pd.DataFrame) -> str:
    """The entries for rows of results, of one run or of several: the versions of this program that made them, then the papers."""
    versions = sorted(set(rows["code_version"].astype(str)) - {""}) or [__version__]
    entries = [_tool(version) for version in versions]
    entries += [_entry(paper.kind, paper.key, paper.fields) for paper in papers(rows)]
    return "\n".join(entries)


def papers(rows: pd.DataFrame) -> list[Paper]:
    """The papers that define the metrics of some rows, once each, in the order of the tables."""
    used = set(rows["metric"].astype(str))
    texts: list[str] = []
    for family in glossary.families():
        here = [metric for name, metric in family.metrics.items() if name in used]
        if here:
            texts += [*family.references, *(metric.source for metric in here if _find_papers(metric.source))]
    return list(
        {
            metric.key: metric for text in texts for metric in (_find_papers(text) or [_make_unknown_paper(text)])
        }.values()
    )


def _find_papers(text: str) -> list[Paper]:
    return [paper for paper in PAPERS if any(mark in text for mark in paper.marks)]


def _make_unknown_paper(text: str) -> Paper:
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    words = re.findall(r"[a-z0-9]+", plain)
    years = re.findall(r"\b(?:19|20)\d\d\b", text)
    return Paper(
        "_".join([*words[:6], signatures.fingerprint(text, 6)]),
        "misc",
        (),
        {"note": text, **({"year": years[-1]} if years else {})},
    )


def _tool(version: str) -> str:
    key = "voice_privacy_pipeline_" + re.sub(r"[^0-9a-zA-Z]+", "_", version)
    fields = {"author": AUTHOR, "title": f"{{{TITLE}}}", "version": version, "year": YEAR, "license": LICENCE}
    return _entry("software", key, fields)


def _entry(kind: str, key: str, fields: Mapping[str, Any]) -> str:
    width = max(map(len, fields))
    return "\n".join(
        [
            f"@{kind}{{{key},",
            *(f"  {name:{width}} = {{{_text(str(value))}}}," for name, value in fields.items()),
            "}",
            "",
        ]
    )


_COMMANDS = {"&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
             "\\": r"\textbackslash{}", "“": "``", "”": "''"}  # fmt: skip
_ACCENTS = {"\u0300": "`", "\u0301": "'", "\u0302": "^", "\u0303": "~", "\u0308": '"', "\u030c": "v "}


def _text(text: str) -> str:
    """A text for BibTeX: accents as commands, what LaTeX would take for commands escaped, braces kept where they agree."""
    if not _agrees(text):
        text = text.replace("{", "(").replace("}", ")")
    return "".join(_letters(text))


def _agrees(text: str) -> bool:
    depth = 0
    for character in text:
        depth += (character == "{") - (character == "}")
        if depth < 0:
            return False
    return depth == 0


def _letters(text: str) -> Iterator[str]:
    for character in unicodedata.normalize("NFC", text):
        base, *marks = list(unicodedata.normalize("NFD", character))
        if len(marks) == 1 and marks[0] in _ACCENTS:
            yield f"{{\\{_ACCENTS[marks[0]]}{base}}}"
        else:
            yield _COMMANDS.get(character, character if character.isprintable() else " ")
