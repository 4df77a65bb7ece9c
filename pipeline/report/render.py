"""Run folders in, one self-contained ``report.html`` out: no script, no font, no image from elsewhere.

The page follows from the rows. A metric that this module has never heard of gets its table like all others.
"""

from __future__ import annotations

import base64
import logging
import os
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2
import pandas as pd
import yaml

from pipeline.diagnostics import grouping as diagnostics
from pipeline.report import glossary, runs, tables
from pipeline.report.plots import cece, ece, plane, ranks, similarity, zoo
from pipeline.report.plots.base import Plot, joined

log = logging.getLogger(__name__)

TEMPLATES = Path(__file__).parent / "templates"
WORST = 3
MOST_FLAGGED = 6
"""Flagged checks that the top of the page shows unfolded."""
SAID_ONCE = {
    "used / expected": "used / expected",
    "speakers": "speakers",
    "targets": "target trials",
    "non-targets": "non-target trials",
    "ceiling": "ceiling",
    "note": "note:",
    "sig.": "signature",
}
SECTIONS = (
    ("similarity", "Voice similarity matrices"),
    ("zoo", "Zoo: who is easy, who is hard to recognise"),
    ("ece", "ECE profiles"),
    ("cece", "Calibrated on another run of a random system"),
    ("ranks", "Similarity rank histograms"),
    ("plane", "De-identification and voice distinctiveness"),
)
DRAWN = {
    "similarity": similarity.plots,
    "similarity_runs": similarity.runs,
    "zoo": zoo.plots,
    "ece_profile": ece.plots,
    "cece_profile": cece.plots,
    "ranks": ranks.plots,
}
SPEAKER_COLUMNS = (
    ("diagonal_oo", "similarity to itself, OO", ""),
    ("diagonal_op", "OP", ""),
    ("diagonal_pp", "PP", ""),
    ("deid", "DeID (%) ↑", "fraction"),
    ("d_ece", "D_ECE (bit) ↓", "bit"),
    ("max_llr", "largest |LLR| (nat) ↓", ""),
    ("srd_rank_median", "median rank ↑", ""),
)


@dataclass(frozen=True)
class Download:
    """A CSV twice: embedded in the page, and under ``figures/`` beside it."""

    name: str
    text: str

    @property
    def uri(self) -> str:
        return "data:text/csv;charset=utf-8," + quote(self.text, safe=",.-_:;/()+*")


@dataclass(frozen=True)
class Figure:
    """A plot, ready for the page."""

    id: str
    plot: Plot
    download: Download

    @property
    def uri(self) -> str:
        return "data:image/svg+xml;base64," + base64.b64encode(self.plot.svg.encode()).decode()


@dataclass(frozen=True)
class Column:
    """Head and kind (``text``, ``number``, or ``sentence``, which may take several lines) of a table column."""

    head: str
    kind: str = "text"


@dataclass(frozen=True)
class Table:
    """A table of the page: cells are text; ``marked`` rows stand out; the first ``left`` columns say what a row is."""

    columns: list[Column]
    body: list[list[str]]
    marked: frozenset[int] = frozenset()
    note: str = ""
    left: int = 0


@dataclass(frozen=True)
class Metric:
    """All rows of one metric."""

    name: str
    entry: glossary.Entry
    unit: str
    direction: str
    table: Table
    reason: str

    @property
    def without_value(self) -> bool:
        """Whether no row has a value, all for the same reason."""
        return bool(self.reason)


def render(run_folders: Sequence[Path], out: Path) -> Path:
    """Write the report of one or several runs and, beside it, ``figures/*.csv`` with the data of each figure.

    Args:
        run_folders: folders with ``results.parquet``; ``status.json``, ``config.yaml``, ``environment.json`` and
            ``figures/*.parquet`` are shown where they exist.
        out: the HTML file to write, or a folder to write ``report.html`` into.

    Returns:
        The absolute path of the HTML file. Equal inputs give equal bytes.

    Raises:
        DataError: a folder that is no run folder, or figure data of another version.
    """
    page = (out if out.suffix.lower() in {".html", ".htm"} else out / "report.html").absolute()
    evaluation = runs.read(run_folders)
    rows = evaluation.rows.assign(
        series=[
            evaluation.name(system, run) for system, run in zip(evaluation.rows["system"], evaluation.rows["run_id"])
        ]
    )
    figures = _figures(evaluation, rows)
    by_metric = tables.ordered(rows, evaluation.systems).sort_values(
        "metric",
        key=lambda names: names.map({n: i for i, n in enumerate(sorted(set(names), key=glossary.rank))}),
        kind="stable",
    )
    signatures = [signature for signature in dict.fromkeys(by_metric["signature"]) if signature]
    names = {signature: f"S{index}" for index, signature in enumerate(signatures, start=1)}
    summaries = tables.summaries(evaluation.rows, evaluation.systems)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals.update(glossary=glossary, tables=tables, reason_breaks=_breakable, most_flagged=MOST_FLAGGED)
    html = environment.get_template("report.html.j2").render(
        evaluation=evaluation,
        title=_title(rows),
        words=_words(evaluation, rows),
        facts=_facts(evaluation, rows),
        sets=_sets(rows),
        partial=_partial(evaluation, rows),
        attack=_attack(evaluation),
        summaries=[(summary, _summary(summary), tables.footnotes(summary, False)) for summary in summaries],
        metrics=_metrics(rows, evaluation, names),
        sections=[(kind, heading, [f for f in figures if f.plot.kind == kind]) for kind, heading in SECTIONS],
        speakers=_speakers(evaluation),
        signatures=[(name, signature, _measures(rows, signature)) for signature, name in names.items()],
        rows_csv=Download("results.csv", _csv(evaluation.rows)),
        records=[(run, _yaml(run.config), _yaml(run.environment), _yaml(run.status)) for run in evaluation.runs],
        style=(TEMPLATES / "style.css").read_text(encoding="utf-8"),
    )
    beside = page.parent / "figures"
    beside.mkdir(parents=True, exist_ok=True)
    for figure in figures:
        _write(beside / figure.download.name, figure.download.text)
    _write(page, html)
    log.info("report with %d rows and %d figures: %s", len(rows), len(figures), page)
    return page


def _figures(evaluation: runs.Evaluation, rows: pd.DataFrame) -> list[Figure]:
    data, series = evaluation.figures, evaluation.series
    plots: list[Plot] = []
    for name, drawn in DRAWN.items():
        if name in data:
            plots += drawn(data[name], series)
    plots += plane.plots(rows, series)
    figures, taken = [], set()
    for plot in plots:
        slug = re.sub(r"[^a-z0-9]+", "-", f"{plot.kind} {plot.title.partition(':')[2]}".lower()).strip("-")[:60]
        name, count = slug, 1
        while name in taken:
            count += 1
            name = f"{slug}-{count}"
        taken.add(name)
        shown = plot.data if evaluation.several else plot.data.drop(columns="run_id", errors="ignore")
        figures.append(Figure(name, plot, Download(f"{name}.csv", _csv(shown))))
    return figures


def _csv(table: pd.DataFrame) -> str:
    return table.drop(columns="series", errors="ignore").to_csv(index=False, float_format="%.10g", lineterminator="\n")


def _title(rows: pd.DataFrame) -> str:
    names = _names(rows, "dataset")
    return "Voice privacy report" + (f": {joined(names)}" if names else "")


def _names(rows: pd.DataFrame, column: str) -> list[str]:
    return [str(name) for name in dict.fromkeys(rows[column]) if name]


def _words(evaluation: runs.Evaluation, rows: pd.DataFrame) -> str:
    """What was evaluated, in a few plain sentences."""
    protected = [system for system in evaluation.systems if system != "original"]
    unprotected = "original" in evaluation.systems or (rows["condition"] == "OO").any()
    names = _names(rows, "dataset")
    what = f"Data set{'s' if len(names) > 1 else ''} {joined(names)}: " if names else ""
    said = (
        f"speech protected by {joined(protected)}{', beside the unprotected speech' if unprotected else ''}."
        if protected
        else "unprotected speech."
    )
    sentences = [what + (said if what else said[0].upper() + said[1:])]
    attackers, extractors = _names(rows, "attacker"), _names(rows, "extractor")
    if extractors:
        sentences.append(
            f"Speakers are described by {joined(sorted(extractors))}"
            + (f"; the attacker is {joined(sorted(attackers), 'or')}." if attackers else ".")
        )
    sentences.append(
        "In conditions OO, OP and PP, original speech is compared with original, original with protected, and "
        "protected with protected speech."
    )
    return " ".join(sentences)


def _facts(evaluation: runs.Evaluation, rows: pd.DataFrame) -> list[tuple[str, str]]:
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
            values = _names(part, column)
            shown = joined(v if len(v) <= most else f"{v[:most]}…" for v in values[:3])
            own.append((label, shown + (f" and {len(values) - 3} more" if len(values) > 3 else "")))
        if evaluation.several:
            own = [(f"run {run.letter}", " · ".join([run.run_id, _when(run), *(f"{k} {v}" for k, v in own[2:] if v)]))]
        facts += own
    total, full = len(rows), int((rows["n_used"].fillna(0) >= rows["n_expected"].fillna(0)).sum())
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


def _sets(rows: pd.DataFrame) -> Table | None:
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
        return tables.DASH
    low, high = int(known.min()), int(known.max())
    return f"{low:,}".replace(",", " ") if low == high else f"{low}–{high}"


def _partial(evaluation: runs.Evaluation, rows: pd.DataFrame) -> list[str]:
    """Why the report is partial, one line a reason; empty if it is not."""
    lines = [
        f"{f'Run {run.letter}: ' if evaluation.several else ''}{problem}"
        for run in evaluation.runs
        for problem in run.problems
    ]
    bad = rows[rows["status"] != "ok"]
    for (status, reason), part in bad.groupby(["status", "reason"], sort=True):
        symbols = joined([glossary.entry(m).symbol for m in sorted(set(part["metric"]), key=glossary.rank)])
        where = joined([f"{s or 'no subset'} / {c}" for s, c in sorted({*zip(part["subset"], part["system"])})][:6])
        more = part[["subset", "system"]].drop_duplicates()
        extra = f" and {len(more) - 6} more" if len(more) > 6 else ""
        lines.append(
            f"{reason or 'no reason given'} — {status or 'no status'}, {len(part)} "
            f"row{'s' if len(part) != 1 else ''}: {symbols} for {where}{extra}"
        )
    return lines


@dataclass(frozen=True)
class Attack:
    """How strong the attack was: what casts doubt on the results, first and in full, and the other checks by name."""

    flagged: list[diagnostics.Finding]
    table: Table
    others: list[tuple[str, Table]]
    checks: int
    download: Download


def _attack(evaluation: runs.Evaluation) -> Attack | None:
    frame = evaluation.diagnostics
    if not len(frame):
        return None
    found = diagnostics.findings(frame)
    columns = [*(Column(diagnostics.PLACE[name][0]) for name in found.places), Column("what was found", "sentence")]

    def table(part: Sequence[diagnostics.Finding], marked: bool = False) -> Table:
        body = [
            [*(diagnostics.values(box, index) for index in range(len(found.places))), finding.sentence]
            for finding in part
            for box in finding.boxes
        ]
        return Table(columns, body, frozenset(range(len(body))) if marked else frozenset())

    return Attack(
        found.flagged,
        table(found.flagged, marked=True),
        [(check, table(part)) for check, part in found.unflagged().items()],
        len(frame),
        Download("diagnostics.csv", _csv(frame if evaluation.several else frame.drop(columns="run"))),
    )


def _summary(summary: tables.Summary) -> Table:
    columns = [
        *(Column(tables.LABELS[c]) for c in summary.left),
        *(Column(h.replace(") ", ")\N{NO-BREAK SPACE}"), "number") for h in summary.heads),
    ]
    body = [[*names, *(c.shown() for c in cells)] for names, cells in summary.body]
    return Table(columns, body, left=len(summary.left))


def _metrics(rows: pd.DataFrame, evaluation: runs.Evaluation, signatures: dict[str, str]) -> list[Metric]:
    rows = tables.ordered(tables.folded(rows), evaluation.systems)
    always = (*tables.ALWAYS, "run_id") if evaluation.several else tables.ALWAYS
    found = []
    for name in sorted(set(rows["metric"]), key=glossary.rank):
        part = rows[rows["metric"] == name]
        shown = tables.varying(part, always=always)
        no_value = (part["value"].isna() & (part["label"] == "")).all() and (part["band_low"].isna()).all()
        reasons = set(part["reason"])
        common = ", ".join(f"{label} {value}" for label, value in tables.constant(part, shown))
        found.append(
            Metric(
                str(name),
                glossary.entry(str(name)),
                glossary.unit(str(part["unit"].iloc[0])),
                str(part["direction"].iloc[0]),
                _metric_table(part, shown, signatures, common),
                str(next(iter(reasons))) if no_value and len(reasons) == 1 else "",
            )
        )
    return found


def _metric_table(rows: pd.DataFrame, left: list[str], signatures: dict[str, str], note: str) -> Table:
    columns = [
        *(Column(tables.LABELS[column]) for column in left),
        Column("value", "number"),
        Column("95 % interval", "number"),
        Column("null band", "number"),
        Column("against chance"),
        Column("ceiling", "number"),
        Column("used / expected", "number"),
        Column("speakers", "number"),
        Column("targets", "number"),
        Column("non-targets", "number"),
        Column("note"),
        Column("sig."),
    ]
    body = []
    for _, row in rows.iterrows():
        unit, value = str(row["unit"]), tables.cell(row)
        band = (
            ""
            if pd.isna(row["band_low"])
            else (f"[{tables.number(row['band_low'], unit)}, {tables.number(row['band_high'], unit)}]")
        )
        used = "" if pd.isna(row["n_expected"]) else f"{_count(row['n_used'])} / {_count(row['n_expected'])}"
        body.append(
            [
                *(str(row[column]) for column in left),
                value.text,
                value.interval,
                band,
                str(row["chance"]),
                "" if pd.isna(row["ceiling"]) else tables.number(row["ceiling"], unit),
                used,
                *(_count(row[column]) for column in ("n_speakers", "n_target", "n_nontarget")),
                ": ".join(filter(None, ["" if row["status"] == "ok" else str(row["status"]), str(row["reason"])])),
                signatures.get(str(row["signature"]), ""),
            ]
        )
    keep = [i for i, _ in enumerate(columns) if i <= len(left) or any(line[i] for line in body)]
    # What is the same in all rows is said once, below the table.
    same = [i for i in keep if columns[i].head in SAID_ONCE and len(body) > 1 and len({line[i] for line in body}) == 1]
    keep = [i for i in keep if i not in same]
    note = ", ".join(filter(None, [note, *(f"{SAID_ONCE[columns[i].head]} {body[0][i]}" for i in same)]))
    marked = frozenset(index for index, status in enumerate(rows["status"]) if status != "ok")
    return Table(
        [columns[i] for i in keep],
        [[line[i] for i in keep] for line in body],
        marked,
        f"For all rows: {note}." if note else "",
        len(left),
    )


def _count(value: object) -> str:
    return "" if pd.isna(value) else f"{int(value):,}".replace(",", "\N{NARROW NO-BREAK SPACE}")  # type: ignore[call-overload]


@dataclass(frozen=True)
class Speakers:
    """The worst-protected speakers and the table of all, with its CSV."""

    worst: Table
    every: Table
    rule: str
    download: Download


def _speakers(evaluation: runs.Evaluation) -> Speakers | None:
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
            for _, row in part.iterrows()
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
        Download("speakers.csv", _csv(sorted_all if evaluation.several else sorted_all.drop(columns="run_id"))),
    )


def _speaker_value(value: float, name: str, unit: str) -> str:
    if pd.isna(value):
        return tables.DASH
    return (
        tables.number(value, unit) if unit else f"{value:.{1 if name == 'srd_rank_median' else 2}f}".replace("-", "−")
    )


def _measures(rows: pd.DataFrame, signature: str) -> str:
    part = rows[rows["signature"] == signature]
    symbols = joined([glossary.entry(m).symbol for m in sorted(set(part["metric"]), key=glossary.rank)])
    return f"{symbols}, {len(part)} row{'s' if len(part) != 1 else ''}"


def _breakable(text: str) -> list[str]:
    """Pieces of a long text between which the page may break the line."""
    return re.findall(r".{1,40}?(?:[|,;/:=]|$)|.{1,40}", text, flags=re.DOTALL)


def _yaml(record: dict[str, Any]) -> str:
    return yaml.safe_dump(record, sort_keys=False, allow_unicode=True, default_flow_style=False) if record else ""


def _write(path: Path, text: str) -> None:
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        part.write_text(text, encoding="utf-8", newline="\n", errors="replace")
        os.replace(part, path)  # noqa: PTH105 (one atomic call)
    finally:
        part.unlink(missing_ok=True)
