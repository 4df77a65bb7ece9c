"""What was evaluated, from what, and what a reader must know before the numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pandas as pd

from pipeline.report import glossary, runs, summaries
from pipeline.report.page.parts import Column, Table
from pipeline.report.words import joined


def title(rows: pd.DataFrame) -> str:
    names = present(rows, "dataset")
    return "Voice privacy report" + (f": {joined(names)}" if names else "")


def present(rows: pd.DataFrame, column: str) -> list[str]:
    return [str(name) for name in dict.fromkeys(rows[column]) if name]


def words(evaluation: runs.Evaluation, rows: pd.DataFrame) -> str:
    """What was evaluated, in a few plain sentences."""
    protected = [system for system in evaluation.systems if system != "original"]
    unprotected = "original" in evaluation.systems or (rows["condition"] == "OO").any()
    names = present(rows, "dataset")
    what = f"Data set{'s' if len(names) > 1 else ''} {joined(names)}: " if names else ""
    said = (
        f"speech protected by {joined(protected)}{', beside the unprotected speech' if unprotected else ''}."
        if protected
        else "unprotected speech."
    )
    sentences = [what + (said if what else said[0].upper() + said[1:])]
    attackers, extractors = present(rows, "attacker"), present(rows, "extractor")
    if extractors:
        sentences.append(
            f"Speakers are described by {joined(sorted(extractors))}"
            + (f"; the attacker is {joined(sorted(attackers), 'or')}." if attackers else ".")
        )
    sentences.append(
        "In conditions OO, OP and PP, original speech is compared with original, original with protected, and "
        "protected with protected speech."
        + (" In OPP original and protected speech are enrolled together." if (rows["condition"] == "OPP").any() else "")
    )
    return " ".join(sentences)


def facts(evaluation: runs.Evaluation, rows: pd.DataFrame) -> list[tuple[str, str]]:
    """(Label, value) lines of the header: one a fact, or one a run if there are several."""
    facts = []
    for run in evaluation.runs:
        part = rows[rows["run_id"] == run.run_id]
        own = [("run", run.run_id), ("when", _when(run))]
        for label, column, most in (
            ("configuration digest", "config_digest", 16),
            ("input digest", "input_digest", 16),
            ("code version", "code_version", 60),
            ("device", "device", 60),
        ):
            values = present(part, column)
            shown = joined(v if len(v) <= most else f"{v[:most]}…" for v in values[:3])
            own.append((label, shown + (f" and {len(values) - 3} more" if len(values) > 3 else "")))
        if evaluation.several:
            own = [(f"run {run.label}", " · ".join([run.run_id, _when(run), *(f"{k} {v}" for k, v in own[2:] if v)]))]
        facts += own
    short = rows["status"].isin(["partial", "incomplete"]) | (rows["n_used"].fillna(0) < rows["n_expected"].fillna(0))
    total, full = len(rows), int((~short).sum())
    text = (
        f"{total} result rows; all of them use everything that was expected"
        if full == total
        else f"{total} result rows; {total - full} of them use less than was expected"
    )
    facts.append(("counts", text))
    return [fact for fact in facts if fact[1]]


def _when(run: runs.Run) -> str:
    def first(*keys: str) -> str:
        return next((str(run.status[key]) for key in keys if run.status.get(key)), "")

    start, end = first("started", "start", "begin", "created"), first("ended", "finished", "end")
    if start or end:
        return " to ".join(filter(None, [start, end]))
    stamp = re.match(r"(\d{4})-?(\d\d)-?(\d\d)[T_-]?(\d\d)?-?(\d\d)?", run.run_id)
    if not stamp:
        return ""
    year, month, day, hour, minute = stamp.groups()
    return f"{year}-{month}-{day}" + (f" {hour}:{minute} UTC" if hour and minute else "")


def sets(rows: pd.DataFrame) -> Table | None:
    """Speakers and trials of each subset, as the rows count them."""
    counted = rows[rows["n_target"].notna()]
    if not len(counted):
        return None
    body = []
    for (dataset, subset), part in counted.groupby(["dataset", "subset"], sort=True):
        body.append([str(dataset), str(subset), *(_span(part[c]) for c in ("n_speakers", "n_target", "n_nontarget"))])
    heads = [
        Column("data set"),
        Column("subset"),
        *(Column(h, "number") for h in ("speakers", "target trials", "non-target trials")),
    ]
    return Table(heads, body)


def _span(counts: pd.Series) -> str:
    known = counts.dropna()
    if not len(known):
        return summaries.DASH
    low, high = int(known.min()), int(known.max())
    return f"{low:,}".replace(",", " ") if low == high else f"{low}–{high}"


def partial(evaluation: runs.Evaluation, rows: pd.DataFrame) -> list[str]:
    """Why the report is partial, one line a reason; empty if it is not."""
    lines = [
        f"{f'Run {run.label}: ' if evaluation.several else ''}{problem}"
        for run in evaluation.runs
        for problem in run.problems
    ]
    bad = summaries.presented(rows[rows["status"] != "ok"])
    bad = bad.assign(lacks=[_lacks(row) for row in bad.to_dict("records")])
    for (status, reason), part in bad.groupby(["status", "lacks"], sort=True):
        symbols = joined([glossary.metric(m).symbol for m in sorted(set(part["metric"]), key=glossary.rank)])
        where = joined([f"{s or 'no subset'} / {c}" for s, c in sorted({*zip(part["subset"], part["system"])})][:6])
        more = part[["subset", "system"]].drop_duplicates()
        extra = f" and {len(more) - 6} more" if len(more) > 6 else ""
        lines.append(
            f"{reason} — {status or 'no status'}, {len(part)} "
            f"row{'s' if len(part) != 1 else ''}: {symbols} for {where}{extra}"
        )
    return lines


def _lacks(row: Mapping[Any, Any]) -> str:
    """What a row that is not whole lacks, in words."""
    if row["status"] == "incomplete":
        return str(row["said"]) or "no value"
    if row["n_used"] < row["n_expected"]:
        return f"{row['n_used']:.0f} of {row['n_expected']:.0f} are used"
    return str(row["note"]) or "some recordings are left out"


def limits(evaluation: runs.Evaluation) -> list[str]:
    """What a reader must know before the numbers, of each run; what is the same in all runs is said once."""
    of_runs: dict[str, list[str]] = {}
    for run in evaluation.runs:
        for one in run.limits:
            of_runs.setdefault(one, []).append(run.label)
    everywhere = len(evaluation.runs)
    return [
        one if len(labels) == everywhere else f"Run{'s' if len(labels) > 1 else ''} {joined(labels)}: {one}"
        for one, labels in of_runs.items()
    ]
