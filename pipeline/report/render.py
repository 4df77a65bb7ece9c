"""Run folders in, one self-contained ``report.html`` out: no script, no font, no image from elsewhere.

The page follows from the rows. A metric that this module has never heard of gets its table like all others.
"""

from __future__ import annotations

import base64
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import jinja2
import pandas as pd
import yaml

from pipeline import contracts
from pipeline.contracts import Plot
from pipeline.diagnostics import bands as ranked
from pipeline.diagnostics import grouping as diagnostics
from pipeline.files import write_atomically
from pipeline.report import bands, glossary, runs, tables
from pipeline.report.drawn import NOT_KEPT, Drawn
from pipeline.report.scorecard import output as scorecard
from pipeline.report.words import joined
from pipeline.tables import csv, limits, results

log = logging.getLogger(__name__)

TEMPLATES = Path(__file__).parent / "templates"
# Bytes that are quoted in a link (RFC 3986), beside those that this one may hold; a long text has few of them.
_UNSAFE = re.compile(rb"[^A-Za-z0-9_.~,:;/()+*-]")
WORST = 3
MOST_FLAGGED = 6
"""Flagged checks that the top of the page shows unfolded."""
ANCHORS = (
    "limits",
    "bands",
    "summary",
    "scorecard",
    "attack",
    "doubt",
    "metrics",
    "speakers",
    "glossary",
    "signatures",
    "comparing",
)
"""Ids of the page's own parts, which no section of figures may have."""
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
        quoted = _UNSAFE.sub(lambda found: b"%%%02X" % found[0][0], self.text.encode())
        return "data:text/csv;charset=utf-8," + quoted.decode("ascii")


@dataclass(frozen=True)
class Figure:
    """A plot, ready for the page."""

    id: str
    plot: Plot
    download: Download

    @property
    def uri(self) -> str:
        return "data:image/svg+xml;base64," + base64.b64encode(self.plot.svg.encode()).decode()


Kind = Literal["text", "number", "value", "chance", "sentence", "note", "signature"]


@dataclass(frozen=True)
class Column:
    """A table column.

    Attributes:
        head: its heading.
        kind: how cells are set. A ``sentence`` or ``note`` may take several lines, a ``value`` is the number that the row is about,
            a ``signature`` leads to the list of signatures.
        once: how its content is called where it is the same in all rows and is said once, below the table; '' if it stays.
    """

    head: str
    kind: Kind = "text"
    once: str = ""

    @property
    def numeric(self) -> bool:
        return self.kind in ("number", "value")


METRIC_COLUMNS = (
    Column("value", "value"),
    Column("95 % interval", "number"),
    Column("null band", "number"),
    Column("against chance", "chance"),
    Column("ceiling", "number", "ceiling"),
    Column("used / expected", "number", "used / expected"),
    Column("speakers", "number", "speakers"),
    Column("targets", "number", "target trials"),
    Column("non-targets", "number", "non-target trials"),
    Column("note", "note", "note:"),
    Column("sig.", "signature", "signature"),
)
"""What the table of a metric says of each row, after what the row is about."""


@dataclass(frozen=True)
class Table:
    """A table of the page: cells are text; ``marked`` rows stand out; the first ``left`` columns say what a row is."""

    columns: list[Column]
    body: list[list[str]]
    marked: frozenset[int] = frozenset()
    note: str = ""
    left: int = 0


@dataclass(frozen=True)
class Section:
    """Figures under one heading; ``id`` is where the list of contents leads."""

    id: str
    heading: str
    figures: list[Figure]


@dataclass(frozen=True)
class Metric:
    """All rows of one metric."""

    name: str
    entry: contracts.Metric
    unit: str
    direction: str
    table: Table
    reason: str

    @property
    def without_value(self) -> bool:
        """Whether no row has a value, all for the same reason."""
        return bool(self.reason)


def render(run_folders: Sequence[Path], out: Path, drawn: Drawn = NOT_KEPT) -> Path:
    """Write the report of one or several runs and, beside it, ``figures/*.csv`` with the data of each figure.

    Args:
        run_folders: folders with ``results.parquet``; ``status.json``, ``config.yaml``, ``environment.json`` and
            ``figures/*.parquet`` are shown where they exist.
        out: the HTML file to write, or a folder to write ``report.html`` into.
        drawn: draws the figures, or has them.

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
    sections = _sections(evaluation, rows, drawn)
    names = _numbered(rows, evaluation.systems)
    summaries = tables.summaries(evaluation.rows, evaluation.systems)
    html = _template().render(
        evaluation=evaluation,
        title=_title(rows),
        words=_words(evaluation, rows),
        facts=_facts(evaluation, rows),
        sets=_sets(rows),
        bands=_bands(evaluation),
        bands_title=bands.TITLE,
        limits=_limits(evaluation),
        limits_title=limits.TITLE,
        partial=_partial(evaluation, rows),
        attack=_attack(evaluation),
        summaries=[(summary, _summary(summary), tables.footnotes(summary, False)) for summary in summaries],
        scorecards=_scorecards(evaluation),
        metrics=_metrics(rows, evaluation, names),
        sections=sections,
        speakers=_speakers(evaluation),
        signatures=_signatures(rows, names),
        rows_csv=Download("results.csv", _csv(evaluation.rows)),
        records=[(run, _yaml(run.config), _yaml(run.environment), _yaml(run.status)) for run in evaluation.runs],
        style=(TEMPLATES / "style.css").read_text(encoding="utf-8"),
    )
    beside = page.parent / "figures"
    beside.mkdir(parents=True, exist_ok=True)
    figures = [figure for section in sections for figure in section.figures]
    for figure in figures:
        _write(beside / figure.download.name, figure.download.text)
    _write(page, html)
    log.info("report with %d rows and %d figures: %s", len(rows), len(figures), page)
    return page


def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals.update(glossary=glossary, tables=tables, reason_breaks=_breakable, most_flagged=MOST_FLAGGED)
    return environment.get_template("report.html.j2")


def _numbered(rows: pd.DataFrame, systems: Sequence[str]) -> dict[str, str]:
    """The short name (S1, S2, …) of each signature, in the order in which the tables of metrics show them."""
    place = {name: index for index, name in enumerate(sorted(set(rows["metric"]), key=glossary.rank))}
    shown = tables.ordered(rows, systems)
    shown = shown.sort_values("metric", key=lambda metrics: metrics.map(place), kind="stable")
    signatures = [signature for signature in dict.fromkeys(shown["signature"]) if signature]
    return {signature: f"S{index}" for index, signature in enumerate(signatures, start=1)}


def _sections(evaluation: runs.Evaluation, rows: pd.DataFrame, drawn: Drawn) -> list[Section]:
    """All figures that there are data for, by heading, in the order in which the families' figures stand."""
    data, series = evaluation.figures, evaluation.series
    found = [
        (table.section, drawn.plots(table.draw, data[table.name], series))
        for table in glossary.figure_tables()
        if table.draw and table.name in data
    ]
    found += [(one.section, drawn.plots(one.draw, rows, series)) for one in glossary.row_figures()]
    plots: dict[str, list[Plot]] = {}
    for heading, several in found:
        plots.setdefault(heading, []).extend(several)
    taken: set[str] = set()
    anchors: set[str] = set(ANCHORS)
    return [
        Section(_free(several[0].kind, anchors), heading, [_figure(evaluation, plot, taken) for plot in several])
        for heading, several in plots.items()
        if several
    ]


def _figure(evaluation: runs.Evaluation, plot: Plot, taken: set[str]) -> Figure:
    name = _free(_slug(f"{plot.kind} {plot.title.partition(':')[2]}"), taken)
    shown = plot.data if evaluation.several else plot.data.drop(columns="run_id", errors="ignore")
    return Figure(name, plot, Download(f"{name}.csv", _csv(shown)))


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:60]


def _free(name: str, taken: set[str]) -> str:
    """The name, with a number if it is taken; it then is."""
    free, count = name, 1
    while free in taken:
        count += 1
        free = f"{name}-{count}"
    taken.add(free)
    return free


def _csv(table: pd.DataFrame) -> str:
    return csv.text(table.drop(columns="series", errors="ignore"), "%.10g")


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
    bad = tables.presented(rows[rows["status"] != "ok"])
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


def _limits(evaluation: runs.Evaluation) -> list[str]:
    """What a reader must know before the numbers, of each run; what is the same in all runs is said once."""
    of_runs: dict[str, list[str]] = {}
    for run in evaluation.runs:
        for one in run.limits:
            of_runs.setdefault(one, []).append(run.letter)
    everywhere = len(evaluation.runs)
    return [
        one if len(letters) == everywhere else f"Run{'s' if len(letters) > 1 else ''} {joined(letters)}: {one}"
        for one, letters in of_runs.items()
    ]


def _bands(evaluation: runs.Evaluation) -> Table | None:
    """The minimum-EER conditions that each system meets, of each run."""
    body: list[list[str]] = []
    notes: list[str] = []
    for run in evaluation.runs:
        conditions = ranked.read(run.folder)
        mark = [run.letter] if evaluation.several else []
        body += [[*mark, *line] for line in bands.lines(conditions, evaluation.systems)]
        notes += bands.notes(conditions) if len(conditions) else []
    if not body:
        return None
    columns = [Column(head, "number" if place in bands.NUMBERS else "text") for place, head in enumerate(bands.HEADS)]
    columns = [*([Column("run")] if evaluation.several else []), *columns]
    return Table(columns, body, note=" ".join(dict.fromkeys(notes)))


@dataclass(frozen=True)
class Scorecard:
    """A run beside the published cells of its recipe."""

    title: str
    counts: str
    notes: list[str]
    faults: list[str]
    views: list[tuple[str, Table]]
    compared: Table
    not_run: Table


def _scorecards(evaluation: runs.Evaluation) -> list[Scorecard]:
    """The scorecards of those runs that have one."""
    made = []
    for run in evaluation.runs:
        kept = scorecard.kept(run.folder)
        if kept is None:
            continue
        kinds: dict[int, Kind] = {**dict.fromkeys(kept["numbers"], "number"), len(kept["heads"]) - 1: "note"}
        columns = [Column(head, kinds.get(place, "text")) for place, head in enumerate(kept["heads"])]
        views = [
            Table([Column(head, "number" if place else "text") for place, head in enumerate(one["heads"])], one["body"],
                  frozenset(one["ours"]))
            for one in kept["views"]
        ]  # fmt: skip
        made.append(
            Scorecard(
                f"{f'Run {run.letter}: ' if evaluation.several else ''}{kept['title']}",
                kept["counts"],
                kept["notes"],
                kept["faults"],
                list(zip([one["title"] for one in kept["views"]], views)),
                Table(columns, kept["compared"]),
                Table(columns, kept["not_run"]),
            )
        )
    return made


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
    rows = tables.ordered(tables.presented(rows), evaluation.systems)
    always = (*tables.ALWAYS, "run_id") if evaluation.several else tables.ALWAYS
    found = []
    for name in sorted(set(rows["metric"]), key=glossary.rank):
        part = rows[rows["metric"] == name]
        shown = tables.varying(part, always=always)
        no_value = (part["value"].isna() & (part["label"] == "")).all() and part["null_low"].isna().all()
        reasons = set(part["said"])
        common = ", ".join(f"{label} {value}" for label, value in tables.constant(part, shown))
        found.append(
            Metric(
                str(name),
                glossary.metric(str(name)),
                glossary.unit(str(part["unit"].iloc[0])),
                str(part["direction"].iloc[0]),
                _metric_table(part, shown, signatures, common),
                str(next(iter(reasons))) if no_value and len(reasons) == 1 else "",
            )
        )
    return found


def _metric_table(rows: pd.DataFrame, left: list[str], signatures: dict[str, str], note: str) -> Table:
    columns = [*(Column(tables.LABELS[column]) for column in left), *METRIC_COLUMNS]
    body = [[*(str(row[column]) for column in left), *_cells(row, signatures)] for row in results.records(rows)]
    keep = [i for i, _ in enumerate(columns) if i <= len(left) or any(line[i] for line in body)]
    same = [i for i in keep if columns[i].once and len(body) > 1 and len({line[i] for line in body}) == 1]
    keep = [i for i in keep if i not in same]
    note = ", ".join(filter(None, [note, *(f"{columns[i].once} {body[0][i]}" for i in same)]))
    marked = frozenset(index for index, status in enumerate(rows["status"]) if status != "ok")
    return Table(
        [columns[i] for i in keep],
        [[line[i] for i in keep] for line in body],
        marked,
        f"For all rows: {note}." if note else "",
        len(left),
    )


def _cells(row: Mapping[Any, Any], signatures: dict[str, str]) -> list[str]:
    """The cells of ``METRIC_COLUMNS`` of a presented row."""
    unit, value = str(row["unit"]), tables.cell(row)
    ends = [tables.number(row[name], unit) for name in ("null_low", "null_high")]
    return [
        value.text,
        value.interval,
        "" if pd.isna(row["null_low"]) else f"[{', '.join(ends)}]",
        str(row["chance"]),
        "" if pd.isna(row["ceiling"]) else tables.number(row["ceiling"], unit),
        "" if pd.isna(row["n_expected"]) else f"{_count(row['n_used'])} / {_count(row['n_expected'])}",
        *(_count(row[column]) for column in ("n_speakers", "n_target", "n_nontarget")),
        ": ".join(filter(None, ["" if row["status"] == "ok" else str(row["status"]), str(row["said"])])),
        signatures.get(str(row["signature"]), ""),
    ]


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
        Download("speakers.csv", _csv(sorted_all if evaluation.several else sorted_all.drop(columns="run_id"))),
    )


def _speaker_value(value: float, name: str, unit: str) -> str:
    if pd.isna(value):
        return tables.DASH
    return (
        tables.number(value, unit) if unit else f"{value:.{1 if name == 'srd_rank_median' else 2}f}".replace("-", "−")
    )


def _signatures(rows: pd.DataFrame, names: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """(Name, signature, what was measured under it) of each signature."""
    found: dict[str, list[str]] = {signature: [] for signature in names}
    for signature, metric in zip(rows["signature"], rows["metric"]):
        if signature in found:
            found[signature].append(str(metric))
    return [(name, signature, _measures(found[signature])) for signature, name in names.items()]


def _measures(metrics: Sequence[str]) -> str:
    symbols = joined([glossary.metric(name).symbol for name in sorted(set(metrics), key=glossary.rank)])
    return f"{symbols}, {len(metrics)} row{'s' if len(metrics) != 1 else ''}"


def _breakable(text: str) -> list[str]:
    """Pieces of a long text between which the page may break the line."""
    return re.findall(r".{1,40}?(?:[|,;/:=]|$)|.{1,40}", text, flags=re.DOTALL)


def _yaml(record: dict[str, Any]) -> str:
    return yaml.safe_dump(record, sort_keys=False, allow_unicode=True, default_flow_style=False) if record else ""


def _write(path: Path, text: str) -> None:
    # A name that is no UTF-8 comes with lone surrogates.
    write_atomically(path, text.encode("utf-8", errors="replace"))
