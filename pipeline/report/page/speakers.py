"""Speakers who are protected worst: whom the strongest attack still tells most of, and why."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pipeline.report import runs, verdict
from pipeline.report.formats import DASH, format_interval, format_number, join_words
from pipeline.report.page import Download, write_csv
from pipeline.report.table import Column, Table
from pipeline.tables import answers, results
from pipeline.tables.answers import ATTACK

Row = Mapping[str, Any]
SHOWN, UNFOLDED = 3, 12
"""Speakers of each system and subset that are shown at most, and rows in all that are shown unfolded, but one of each at least."""
MOST = 1000
"""Rows of a table of the page; the files have all."""
MOST_SAID = 12
"""Sentences that are shown unfolded."""
RULE = (
    "Ranked by what the strongest attack still tells of a speaker (D_ECE of the speaker’s own trials, with a 95 % interval over "
    "utterances and other speakers). Not by de-identification, which is low for a speaker whom nobody could find in original speech "
    "either. In every set somebody comes first; whether that speaker differs from the median one is said beside it (p corrected over "
    "the speakers)."
)
AGAINST = {"above": "told more of", "below": "told less of", "alike": "cannot be told apart", "": "not known"}
BEFORE = {"recognised": "recognised", "not shown": "not shown to be recognised", "": "not attacked"}


MATRICES_RULE = (
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


@dataclass(frozen=True)
class Others:
    """The worst speakers under attacks that are not the strongest."""

    title: str
    table: Table


@dataclass(frozen=True)
class Speakers:
    """The worst-protected speakers under the strongest attack, all speakers, and how far attacks agree; nothing of what the runs do
    not have. ``sentences`` say of each system and subset whether anybody is protected worse than the others."""

    rule: str
    sentences: list[str]
    most_said: int
    worst: Table | None
    every: Table | None
    others: list[Others]
    agreement: str
    overlap: Table | None
    matrices: Matrices | None
    downloads: list[Download]


def describe_speakers(evaluation: runs.Evaluation) -> Speakers | None:
    """None where no run has a table of speakers."""
    rows = _order_rows(evaluation, _read_rows(evaluation, "speakers"))
    matrices = tabulate_matrices(evaluation)
    if not rows and matrices is None:
        return None
    protected = [row for row in rows if row["condition"] != "OO"] or rows
    strongest = [row for row in rows if row["strongest"]]
    shown = [row for row in protected if row["strongest"]]
    overlaps = _order_rows(evaluation, _read_rows(evaluation, "worst_overlap"))
    overlaps = [row for row in overlaps if row["strongest"] and not math.isnan(row["listed"])]
    others: dict[str, list[Row]] = {}
    for row in protected:
        if not row["strongest"]:
            others.setdefault(f"{row['condition']}, {verdict.describe_attack(row)}", []).append(row)
    return Speakers(
        RULE,
        list(_write_sentences(shown)),
        MOST_SAID,
        _tabulate(_select_worst(shown)) if shown else None,
        _tabulate(strongest) if strongest else None,
        [Others(title, _tabulate(_select_worst(group))) for title, group in others.items()],
        _describe_agreement(overlaps),
        _tabulate_overlap(overlaps) if overlaps else None,
        matrices,
        _make_downloads(evaluation, strongest, overlaps),
    )


def _read_rows(evaluation: runs.Evaluation, name: str) -> list[dict[str, Any]]:
    """The rows of all runs that have a number, each with ``label``: its system, and its run where there are several."""
    all_rows = []
    for run in evaluation.runs:
        for row in results.records(answers.read(name, run.folder)):
            if row["status"] != "incomplete":
                all_rows.append({**row, "run_id": run.run_id, "label": evaluation.name(row["system"], run.run_id)})
    return [{key: math.nan if value is pd.NA else value for key, value in row.items()} for row in all_rows]


def _order_rows(evaluation: runs.Evaluation, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """By system and subset; within them as written, the worst first."""
    place = {name: index for index, name in enumerate(evaluation.series)}
    return sorted(rows, key=lambda row: (place.get(row["label"], len(place)), row["subset"]))


def _group_rows(rows: Sequence[Row]) -> dict[tuple[str, str], list[Row]]:
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["label"], row["subset"]), []).append(row)
    return groups


def _select_worst(rows: Sequence[Row]) -> list[Row]:
    """The worst of each system and subset: fewer of each where there are many."""
    groups = _group_rows(rows)
    each = min(SHOWN, max(UNFOLDED // max(len(groups), 1), 1))
    return [row for group in groups.values() for row in group[:each]]


# ----------------------------------------------------------------------------------------------------------- sentences


def _write_sentences(rows: Sequence[Row]) -> Iterator[str]:
    """Of each system and subset where somebody is told apart who that is; in one sentence where nobody is."""
    alike, unknown = [], []
    for (label, subset), group in _group_rows(rows).items():
        above = [row for row in group if row["against_median"] == "above"]
        median = f"{verdict.format_bits(group[0]['median'])} bit"
        if above:
            names = join_words(f"{row['speaker']} ({verdict.format_bits(row['d_ece'])} bit)" for row in above[:SHOWN])
            more = f" and {len(above) - SHOWN} more" if len(above) > SHOWN else ""
            are = "is" if len(above) == 1 else "are"
            where = f"{label} on {subset} under {verdict.describe_attack(group[0])}"
            yield f"{where}: {names}{more} {are} told more of than the median speaker ({median}), out of {len(group)}."
        elif any(row["against_median"] for row in group):
            alike.append(f"{label} on {subset} ({len(group)} speakers, median {median})")
        else:
            unknown.append(f"{label} on {subset} ({group[0]['reason'].partition(';')[0]})")
    if alike:
        nobody = (
            "No speaker is shown to be worse protected than the median speaker, so that who comes first may be chance"
        )
        yield f"{nobody}: {'; '.join(alike)}."
    if unknown:
        yield f"There are no intervals, so who comes first may be chance: {'; '.join(unknown)}."


def _describe_agreement(rows: Sequence[Row]) -> str:
    """What the overlaps come to over all systems, subsets and other attacks."""
    if not rows:
        return ""
    shared, chance, listed = (
        math.fsum(row[name] for row in rows) / len(rows) for name in ("shared", "shared_chance", "listed")
    )
    return (
        f"A list belongs to a configuration. Of {listed:.3g} speakers on the list under the strongest attack, another attack on the same "
        f"system lists {shared:.2g} as well, on average over {len(rows)} comparison{'s' if len(rows) > 1 else ''}; lists drawn at "
        f"random would share {chance:.2g}."
    )


# -------------------------------------------------------------------------------------------------------------- tables


COLUMNS = (
    Column("speaker"),
    Column("D_ECE of the speaker (bit) ↓", "value"),
    Column("95 % interval", "number"),
    Column("system"),
    Column("subset"),
    Column("than the median speaker", "note"),
    Column("in original speech", "note"),
    Column("own EER (%) ↑", "number"),
    Column("ALID of the speaker (bit) ↓", "number"),
    Column("median rank ↑", "number"),
    Column("who", "note"),
    Column("taken for", "note"),
    Column("most evidence (LLR, nat)", "note"),
)


def _tabulate(rows: Sequence[Row]) -> Table:
    """Speakers; those who are told more of than the median one are marked. Columns that nobody has are left out."""
    marked = frozenset(place for place, row in enumerate(rows[:MOST]) if row["against_median"] == "above")
    more = [f"{len(rows) - MOST} more in speakers.csv of the run folder."] if len(rows) > MOST else []
    table = Table(COLUMNS, [_make_line(row) for row in rows[:MOST]], notes=more, marked=marked)
    return table.without_empty_columns()


def _make_line(row: Row) -> list[str]:
    scores = f"mean score {format_number(row['nearest_score'], '')}, own {format_number(row['own_score'], '')}"
    evidence = [
        f"{row[f'utterance_{place}']} {format_number(round(row[f'llr_{place}'], 2), '')}"
        for place in range(1, answers.TOP + 1)
        if row[f"utterance_{place}"]
    ]
    p = "" if math.isnan(row["p_median"]) else f" ({verdict.format_p(row['p_median'])})"
    return [
        str(row["speaker"]),
        format_number(row["d_ece"], "bit"),
        format_interval(row["d_ece_low"], row["d_ece_high"], "bit") or DASH,
        str(row["label"]),
        str(row["subset"]),
        AGAINST[row["against_median"]] + p,
        _describe_original(row),
        format_number(row["eer"], "fraction"),
        format_number(row["alid"], "bit"),
        DASH if math.isnan(row["srd_rank_median"]) else f"{row['srd_rank_median']:.1f}",
        ", ".join(_describe_speaker(row)),
        f"{row['nearest']} ({scores})" if row["nearest"] else "",
        "; ".join(evidence),
    ]


def _describe_original(row: Row) -> str:
    if math.isnan(row["original_d_ece"]):
        return ""
    return f"{BEFORE[row['before']]} ({format_number(row['original_d_ece'], 'bit')} bit, EER {format_number(row['original_eer'], 'fraction')} %)"


def _describe_speaker(row: Row) -> Iterator[str]:
    """Sex, mean F0 and seconds, as far as they are known."""
    if row["sex"] and row["sex"] != "u":
        yield str(row["sex"])
    if not math.isnan(row["mean_f0"]):
        after = row["mean_f0_protected"]
        yield f"F0 {row['mean_f0']:.0f} Hz" + ("" if math.isnan(after) else f", {after:.0f} Hz protected")
    seconds = [(row["trial_seconds"], "tried"), (row["enrolment_seconds"], "enrolled")]
    yield from (f"{value:.0f} s {what}" for value, what in seconds if not math.isnan(value))


OVERLAP = (
    Column("system"),
    Column("both on the list", "number"),
    Column("by chance", "number"),
    Column("Jaccard", "number"),
    Column("by chance", "number"),
    Column("p", "number"),
    Column("rank correlation", "number"),
    Column("subset"),
    Column("strongest attack", "note"),
    Column("other attack", "note"),
    Column("on both lists", "note"),
)


def _tabulate_overlap(rows: Sequence[Row]) -> Table:
    body = [
        [
            str(row["label"]),
            f"{row['shared']:.0f} of {row['listed']:.0f}",
            f"{row['shared_chance']:.2f}",
            f"{row['jaccard']:.2f}",
            f"{row['jaccard_chance']:.2f}",
            f"{row['p_value']:.2g}",
            DASH if math.isnan(row["rank_correlation"]) else f"{row['rank_correlation']:.2f}".replace("-", "−"),
            str(row["subset"]),
            verdict.describe_attack(row),
            verdict.describe_attack({name: row[f"other_{name}"] for name in ATTACK}),
            str(row["names"]) or DASH,
        ]
        for row in rows[:MOST]
    ]
    return Table(list(OVERLAP), body)


def _make_downloads(evaluation: runs.Evaluation, strongest: Sequence[Row], overlaps: Sequence[Row]) -> list[Download]:
    left = ["label"] if evaluation.several else ["label", "run_id"]
    tables = {"speakers": strongest, "worst_overlap": overlaps}
    return [
        Download(f"{name}.csv", write_csv(pd.DataFrame(list(rows)).drop(columns=left)))
        for name, rows in tables.items()
        if rows
    ]


# ------------------------------------------------------------------------------- in similarity matrices, of all pairs


def tabulate_matrices(evaluation: runs.Evaluation) -> Matrices | None:
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
    present = [c for c in SPEAKER_COLUMNS if c[0] in table.columns]
    values = [c for c in present if table[c[0]].notna().any()]
    body = [
        [
            str(row["speaker"]),
            *(_format_value(row[name], name, unit) for name, _, unit in values),
            *(str(row[c]) for c in names),
        ]
        for row in results.records(table)
    ]
    columns = [Column("speaker"), *(Column(head, "number") for _, head, _ in values), *heads]
    kept = table[[*group[:3], "run_id", "system", "speaker", *(name for name, _, _ in present)]]
    return Matrices(
        Table(columns, body),
        MATRICES_RULE,
        Download("speakers-matrices.csv", write_csv(kept if evaluation.several else kept.drop(columns="run_id"))),
    )


def _format_value(value: float, name: str, unit: str) -> str:
    if pd.isna(value):
        return DASH
    return (
        format_number(value, unit) if unit else f"{value:.{1 if name == 'srd_rank_median' else 2}f}".replace("-", "−")
    )
