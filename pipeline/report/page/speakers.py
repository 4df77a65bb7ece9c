"""Speakers who are protected worst."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from pipeline.report import runs, tables
from pipeline.report.page.parts import Column, Download, Table, csv_text
from pipeline.tables import results

WORST = 3
SPEAKER_COLUMNS = (
    ("diagonal_oo", "similarity to itself, OO", ""),
    ("diagonal_op", "OP", ""),
    ("diagonal_pp", "PP", ""),
    ("deid", "DeID_OP (%) ↑", "fraction"),
    ("d_ece", "D_ECE (bit) ↓", "bit"),
    ("max_llr", "largest |LLR| (nat) ↓", ""),
    ("srd_rank_median", "median rank ↑", ""),
)


@dataclass(frozen=True)
class Speakers:
    """The worst-protected speakers and the table of all, with its CSV."""

    worst: Table
    every: Table
    rule: str
    download: Download


def speakers(evaluation: runs.Evaluation) -> Speakers | None:
    table = evaluation.figures.get("speakers")
    if table is None:
        return None
    place = {name: index for index, name in enumerate(evaluation.series)}
    group = ["subset", "extractor", "backend", "series"]
    table = table.assign(
        place=table["series"].map(place),
        # Without de-identification (no protected speech) the disclosure decides alone.
        first=table["deid"].astype(float),
        second=-table["d_ece"].astype(float),
        third=-table["max_llr"].astype(float),
    )
    table = table.sort_values(
        ["subset", "extractor", "backend", "place", "first", "second", "third", "speaker"],
        kind="stable",
        na_position="last",
    ).reset_index(drop=True)
    table["n"] = table.groupby(group, sort=False).cumcount()
    judged = table[table[["first", "second", "third"]].notna().any(axis=1)]
    worst = judged[(judged["n"] < WORST) & (judged["system"] != "original")]
    if not len(worst):
        worst = judged[judged["n"] < WORST]
    left = [c for c in group if c != "backend" or table["backend"].nunique() > 1]
    heads = [Column({"series": "system", "backend": "back end"}.get(c, c)) for c in left]
    known = [c for c in SPEAKER_COLUMNS if c[0] in table.columns]
    values = [c for c in known if table[c[0]].notna().any()]

    def lines(part: pd.DataFrame) -> list[list[str]]:
        return [
            [
                *(str(row[c]) for c in left),
                str(row["speaker"]),
                *(_speaker_value(row[name], name, unit) for name, _, unit in values),
            ]
            for row in results.records(part)
        ]

    columns = [*heads, Column("speaker"), *(Column(head, "number") for _, head, _ in values)]
    sorted_all = table[[*group[:3], "run_id", "system", "speaker", *(name for name, _, _ in known)]]
    return Speakers(
        Table(columns, lines(worst), left=len(left)),
        Table(
            columns, lines(table), frozenset(int(i) for i in table.index[table.index.isin(worst.index)]), left=len(left)
        ),
        f"The {WORST} worst of each subset, feature and system: lowest de-identification first, then highest disclosure. In "
        "every set somebody is worst; the values say how bad that is.",
        Download("speakers.csv", csv_text(sorted_all if evaluation.several else sorted_all.drop(columns="run_id"))),
    )


def _speaker_value(value: float, name: str, unit: str) -> str:
    if pd.isna(value):
        return tables.DASH
    return (
        tables.number(value, unit) if unit else f"{value:.{1 if name == 'srd_rank_median' else 2}f}".replace("-", "−")
    )
