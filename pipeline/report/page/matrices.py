"""Speakers in similarity matrices, of all pairs of utterances of the trial side."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from pipeline.report import runs, summaries
from pipeline.report.page.parts import Column, Download, Table, csv_text
from pipeline.tables import results

RULE = (
    "Of all pairs of utterances of the trial side, by an extractor that knows original speech: D_ECE and largest LLR of original against "
    "protected speech. Median rank: of similarity rank disclosure. De-identification is low for a speaker whom nobody could find in "
    "original speech either."
)
SPEAKER_COLUMNS = (
    ("d_ece", "D_ECE (bit) ↓", "bit"),
    ("diagonal_oo", "similarity to itself, OO", ""),
    ("diagonal_op", "OP", ""),
    ("diagonal_pp", "PP", ""),
    ("deid", "DeID_OP (%) ↑", "fraction"),
    ("max_llr", "largest |LLR| (nat) ↓", ""),
    ("srd_rank_median", "median rank ↑", ""),
)


@dataclass(frozen=True)
class Matrices:
    """Each speaker in the matrices of each system, with a CSV."""

    every: Table
    rule: str
    download: Download


def matrices(evaluation: runs.Evaluation) -> Matrices | None:
    """None where no run has similarity matrices."""
    table = evaluation.figures.get("speakers")
    if table is None:
        return None
    place = {name: index for index, name in enumerate(evaluation.series)}
    group = ["subset", "extractor", "backend", "series"]
    table = table.assign(place=table["series"].map(place), first=-table["d_ece"].astype(float))
    table = table.sort_values(
        ["subset", "extractor", "backend", "place", "first", "speaker"], kind="stable", na_position="last"
    ).reset_index(drop=True)
    names = [c for c in group if c != "backend" or table["backend"].nunique() > 1]
    heads = [Column({"series": "system", "backend": "back end"}.get(c, c)) for c in names]
    known = [c for c in SPEAKER_COLUMNS if c[0] in table.columns]
    values = [c for c in known if table[c[0]].notna().any()]
    body = [
        [
            str(row["speaker"]),
            *(_speaker_value(row[name], name, unit) for name, _, unit in values),
            *(str(row[c]) for c in names),
        ]
        for row in results.records(table)
    ]
    columns = [Column("speaker"), *(Column(head, "number") for _, head, _ in values), *heads]
    kept = table[[*group[:3], "run_id", "system", "speaker", *(name for name, _, _ in known)]]
    return Matrices(
        Table(columns, body),
        RULE,
        Download("speakers-matrices.csv", csv_text(kept if evaluation.several else kept.drop(columns="run_id"))),
    )


def _speaker_value(value: float, name: str, unit: str) -> str:
    if pd.isna(value):
        return summaries.DASH
    return (
        summaries.number(value, unit)
        if unit
        else f"{value:.{1 if name == 'srd_rank_median' else 2}f}".replace("-", "−")
    )
