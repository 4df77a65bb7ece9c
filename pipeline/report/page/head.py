"""What was evaluated, from what, and what a reader must know before the numbers; whether the attack was strong enough."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pipeline.report import findings, glossary, runs, summaries
from pipeline.report.formats import DASH, count_noun, join_words
from pipeline.report.page import Download, write_csv
from pipeline.report.table import Column, Table
from pipeline.report.verdict import ADVICE
from pipeline.tables.checks import OF_NUMBERS


def write_title(rows: pd.DataFrame) -> str:
    names = list_present(rows, "dataset")
    return "Voice privacy report" + (f": {join_words(names)}" if names else "")


def list_present(rows: pd.DataFrame, column: str) -> list[str]:
    return [str(name) for name in dict.fromkeys(rows[column]) if name]


def describe_evaluation(evaluation: runs.Evaluation, rows: pd.DataFrame) -> str:
    """What was evaluated, in a few plain sentences."""
    protected = [system for system in evaluation.systems if system != "original"]
    unprotected = "original" in evaluation.systems or (rows["condition"] == "OO").any()
    names = list_present(rows, "dataset")
    what = f"Data set{'s' if len(names) > 1 else ''} {join_words(names)}: " if names else ""
    speech = (
        f"speech protected by {join_words(protected)}{', beside the unprotected speech' if unprotected else ''}."
        if protected
        else "unprotected speech."
    )
    sentences = [what + (speech if what else speech[0].upper() + speech[1:])]
    attackers, extractors = list_present(rows, "attacker"), list_present(rows, "extractor")
    if extractors:
        sentences.append(
            f"Speakers are described by {join_words(sorted(extractors))}"
            + (f"; the attacker is {join_words(sorted(attackers), 'or')}." if attackers else ".")
        )
    sentences.append(
        "In conditions OO, OP and PP, original speech is compared with original, original with protected, and "
        "protected with protected speech."
        + (" In OPP original and protected speech are enrolled together." if (rows["condition"] == "OPP").any() else "")
    )
    return " ".join(sentences)


def list_facts(evaluation: runs.Evaluation, rows: pd.DataFrame) -> list[tuple[str, str]]:
    """(Label, value) lines of the header: one a fact, or one a run if there are several."""
    facts = []
    for run in evaluation.runs:
        part = rows[rows["run_id"] == run.run_id]
        own = [("run", run.run_id), ("when", _tell_time(run))]
        for label, column, most in (
            ("configuration digest", "config_digest", 16),
            ("input digest", "input_digest", 16),
            ("code version", "code_version", 60),
            ("device", "device", 60),
        ):
            values = list_present(part, column)
            shown = join_words(v if len(v) <= most else f"{v[:most]}…" for v in values[:3])
            own.append((label, shown + (f" and {len(values) - 3} more" if len(values) > 3 else "")))
        if evaluation.several:
            own = [
                (f"run {run.label}", " · ".join([run.run_id, _tell_time(run), *(f"{k} {v}" for k, v in own[2:] if v)]))
            ]
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


def _tell_time(run: runs.Run) -> str:
    """When a run began and ended, as its record or its id says."""
    times = [str(run.status[key]) for key in ("started", "ended") if run.status.get(key)]
    stamp = re.match(r"(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)", run.run_id)
    return " to ".join(times) or ("{}-{}-{} {}:{} UTC".format(*stamp.groups()) if stamp else "")


def count_sets(rows: pd.DataFrame) -> Table | None:
    """Speakers and trials of each subset, as the rows count them."""
    counted = rows[rows["n_target"].notna()]
    if not len(counted):
        return None
    body = []
    for (dataset, subset), part in counted.groupby(["dataset", "subset"], sort=True):
        line = [str(dataset), str(subset)]
        for name in ("n_speakers", "n_target", "n_nontarget"):
            counts = sorted(set(part[name].dropna().astype(int)))
            line.append(
                DASH
                if not counts
                else f"{counts[0]:,}".replace(",", " ")
                if len(counts) == 1
                else f"{counts[0]}–{counts[-1]}"
            )
        body.append(line)
    numbers = [Column(head, "number") for head in ("speakers", "target trials", "non-target trials")]
    return Table([Column("data set"), Column("subset"), *numbers], body)


def explain_partial(evaluation: runs.Evaluation, rows: pd.DataFrame) -> list[str]:
    """Why the report is partial, one line a reason; empty if it is not."""
    names = {run.run_id: f"Run {run.label}: " if evaluation.several else "" for run in evaluation.runs}
    lines = [f"{names[run.run_id]}{problem}" for run in evaluation.runs for problem in run.problems]
    bad = summaries.present_rows(rows[rows["status"] != "ok"])
    bad = bad.assign(lacks=[_explain_lack(row) for row in bad.to_dict("records")])
    for (status, reason), part in bad.groupby(["status", "lacks"], sort=True):
        symbols = join_words([glossary.metric(m).symbol for m in sorted(set(part["metric"]), key=glossary.rank)])
        where = join_words([f"{s or 'no subset'} / {c}" for s, c in sorted({*zip(part["subset"], part["system"])})][:6])
        more = part[["subset", "system"]].drop_duplicates()
        extra = f" and {len(more) - 6} more" if len(more) > 6 else ""
        lines.append(
            f"{reason} — {status or 'no status'}, {count_noun(len(part), 'row')}: {symbols} for {where}{extra}"
        )
    return lines


def _explain_lack(row: Mapping[Any, Any]) -> str:
    """What a row that is not whole lacks, in words."""
    if row["status"] == "incomplete":
        return str(row["remark"]) or "no value"
    if row["n_used"] < row["n_expected"]:
        return f"{row['n_used']:.0f} of {row['n_expected']:.0f} are used"
    return str(row["note"]) or "some recordings are left out"


def list_limits(evaluation: runs.Evaluation) -> list[str]:
    """What a reader must know before the numbers, of each run; what is the same in all runs is said once."""
    of_runs: dict[str, list[str]] = {}
    for run in evaluation.runs:
        for limit in run.limits:
            of_runs.setdefault(limit, []).append(run.label)
    everywhere = len(evaluation.runs)
    return [
        limit if len(labels) == everywhere else f"Run{'s' if len(labels) > 1 else ''} {join_words(labels)}: {limit}"
        for limit, labels in of_runs.items()
    ]


# ---------------------------------------------------------------------------------------------- strength of the attack


@dataclass(frozen=True)
class Attack:
    """How strong the attack was.

    Attributes:
        flagged: what casts doubt on attacks, and with them on results.
        table: the same as a table.
        misleading: numbers that say more than there is, as a table; None where there are none.
        others: the other checks, by what they look at.
        checks: how many there are.
    """

    flagged: list[findings.Finding]
    table: Table
    misleading: Table | None
    others: list[tuple[str, Table]]
    checks: int
    download: Download


def judge_attack(evaluation: runs.Evaluation) -> Attack | None:
    frame = evaluation.diagnostics
    if not len(frame):
        return None
    grouped = findings.findings(frame)
    doubts = [finding for finding in grouped.flagged if finding.check not in OF_NUMBERS]
    # What was found wrong comes before what else could be tried.
    doubts.sort(key=lambda finding: finding.check in ADVICE)
    misleading = [finding for finding in grouped.flagged if finding.check in OF_NUMBERS]
    return Attack(
        doubts,
        _tabulate_findings(grouped.places, doubts, marked=True),
        _tabulate_findings(grouped.places, misleading, marked=True) if misleading else None,
        [
            (findings.title(check), _tabulate_findings(grouped.places, part))
            for check, part in grouped.unflagged().items()
        ],
        len(frame),
        Download("diagnostics.csv", write_csv(frame if evaluation.several else frame.drop(columns="run"))),
    )


def _tabulate_findings(places: Sequence[str], part: Sequence[findings.Finding], marked: bool = False) -> Table:
    columns = [*(Column(findings.PLACE[name][0]) for name in places), Column("what was found", "sentence")]
    body = [
        [*(findings.values(box, index) for index in range(len(places))), finding.sentence]
        for finding in part
        for box in finding.boxes
    ]
    return Table(columns, body, marked=frozenset(range(len(body))) if marked else frozenset())
