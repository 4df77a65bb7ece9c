"""Two runs side by side: first which settings differ, then the differences between systems, then what became of the rows.

At most :data:`WIDTH` columns, but for a path that is longer.
"""

from __future__ import annotations

import shlex
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipeline.report import runs
from pipeline.report.formats import DASH, format_number, join_words
from pipeline.report.leaderboard import WIDTH
from pipeline.report.run_differences import AboutRun, Setting, find_differences, format_value, select_configs
from pipeline.report.summaries import LABELS
from pipeline.report.table import Column, Table, format_lines, shorten_middle
from pipeline.report.verdict import DIFFERENT
from pipeline.tables import results

SHOWN = 20
"""Changed rows that are shown; the others are counted."""
NAMES = ("A", "B")
CELL = 30
"""Characters of a value in the table of settings; a longer one stands whole below it."""
NAME = 13
"""Characters of a system's name that stand beside its numbers; a longer one stands whole below them."""
SAME_SCORES = "The same scores in both runs"
"""Why a row has no numbers: there is nothing to compare."""
STRONGEST = "strongest"
NOTE = (
    "D_ECE in bit (higher discloses more) and the lowest EER in %, with 95 % intervals over speakers. p: that the D_ECE are the "
    "same, two-sided, the runs swapped speaker by speaker, after Holm's correction over each table."
)
PARTIAL = " †: stands on less than was expected."
Pair = tuple[float, float]


@dataclass(frozen=True)
class Difference:
    """A number of A and of B, in bits or as a fraction, and B minus A with its interval."""

    values: Pair
    step: float
    interval: tuple[float | None, float | None] = (None, None)


@dataclass(frozen=True)
class SystemDifference:
    """One system under two runs, on one subset or mean.

    Attributes:
        under: ``strongest`` (each run's own) or ``same`` (one attack in both).
        attacks: in words, and of how many ``tried``.
        d_ece, eer: the highest and the lowest of all attacks; None where there is no number.
        p_value: of D_ECE, two-sided, runs swapped speaker by speaker; ``p_holm`` is corrected over the rows of a subset and kind of attack.
        reason: why there is no number, or no test.
        partial: whether a run has marked its numbers as partial.
    """

    subset: str
    system: str
    under: str
    attacks: tuple[str, str] = ("", "")
    tried: tuple[int, int] = (0, 0)
    d_ece: Difference | None = None
    eer: Difference | None = None
    p_value: float | None = None
    p_holm: float | None = None
    reason: str = ""
    partial: bool = False


@dataclass(frozen=True)
class RunDifferences:
    """What was found of the systems of two runs.

    Attributes:
        rows: differences, by subset.
        equal: systems and subsets with the same scores in both runs.
        systems, subsets: that A alone has, and B alone.
        gone: the runs whose scores cannot be read any more.
        unread: why nothing could be compared.
    """

    rows: tuple[SystemDifference, ...] = ()
    equal: tuple[tuple[str, str], ...] = ()
    systems: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    subsets: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    gone: tuple[str, ...] = ()
    unread: str = ""


def describe_same_run(first: Path, second: Path) -> str:
    """That two folders hold the same run; '' if they do not."""
    ids = [set(results.read(folder)["run_id"]) - {""} for folder in (first, second)]
    if first.resolve() != second.resolve() and (len(ids[0]) != 1 or ids[0] != ids[1]):
        return ""
    name = next(iter(ids[0]), first.name)
    return "\n".join(
        wrap_lines(f"A and B are the same run, {name}: no settings differ, and there is nothing to compare.")
    )


def to_text(first: Path, second: Path, differences: RunDifferences) -> str:
    """The whole comparison."""
    sides = runs.labelled([first, second])
    rows = pair_rows(sides[0][1], sides[1][1])
    parts = [
        _write_heads([run for run, _ in sides]),
        _compare_settings(sides),
        _list_differences(differences, [run for run, _ in sides]),
        _list_rows(rows),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part)


def wrap_lines(text: str, indent: str = "  ") -> list[str]:
    """A sentence on as many lines as it takes."""
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_on_hyphens=False)


# -------------------------------------------------------------------------------------------------------------- settings


def _write_heads(sides: Sequence[runs.Run]) -> list[str]:
    lines: list[str] = []
    for name, run in zip(NAMES, sides):
        label = f"  ({run.label})" if run.label not in NAMES else ""
        lines += wrap_lines(f"{name}  {run.run_id}{label}", "   ")
        lines += [line for problem in run.problems for line in wrap_lines(f"   it is not whole: {problem}", "   ")]
    return lines


def _compare_settings(sides: Sequence[tuple[runs.Run, pd.DataFrame]]) -> list[str]:
    """Which settings differ, and what else numbers depend on."""
    two_runs = [run for run, _ in sides]
    lines = []
    without = [name for name, run in zip(NAMES, two_runs) if not run.config]
    if without:
        lines += wrap_lines(
            f"{join_words(without)} wrote no configuration: only the components that its rows name can be compared."
        )
    differences = find_differences(select_configs([run.about for run in two_runs]))
    body = [
        [difference.group, *(", ".join(own) or DASH for own in difference.own)] for difference in differences.labels
    ]
    body += [[difference.path, *_format_values(difference)] for difference in differences.numeric]
    if body:
        short = [
            [
                shorten_middle(cells[0], WIDTH - 2 * CELL - 4),
                *(shorten_middle(difference, CELL) for difference in cells[1:]),
            ]
            for cells in body
        ]
        lines += ["Which settings differ", "", *format_lines(Table([*map(Column, ("setting", *NAMES))], short))]
        for cells in (cells for cells, cut in zip(body, short) if cells != cut):
            lines += wrap_lines(f"{cells[0]} in full: A {cells[1]}; B {cells[2]}")
        lines.append("")
    elif without:
        lines.append("These do not differ.")
    else:
        lines += wrap_lines(
            f"No settings differ that numbers depend on{_note_other_defaults(*(rows for _, rows in sides))}."
        )
    lines += _list_runtime(differences.runtime)
    lines += _compare_versions(two_runs, sides)
    lines += _list_typed(two_runs)
    return lines


def _note_other_defaults(first: pd.DataFrame, second: pd.DataFrame) -> str:
    """That the digests of settings differ although what was written does not."""
    same = set(first["config_digest"]) == set(second["config_digest"])
    return "" if same else ", as they were written; their digests do: a default is another one, in another version"


def _format_values(setting: Setting) -> list[str]:
    return [
        f"{format_value(value)}{' (default)' if default else ''}"
        for value, default in zip(setting.values, setting.defaults)
    ]


def _list_runtime(settings: Sequence[Setting]) -> list[str]:
    """What no number depends on, shortly."""
    texts = [
        f"{setting.path} {' / '.join(shorten_middle(format_value(value), 30) for value in setting.values)}"
        for setting in settings
    ]
    return wrap_lines(f"Numbers do not depend on: {'; '.join(texts)}.") if texts else []


def _compare_versions(two_runs: Sequence[runs.Run], sides: Sequence[tuple[runs.Run, pd.DataFrame]]) -> list[str]:
    """Code, libraries, devices, weights and inputs that differ, as records and rows have them."""
    about = [run.about for run in two_runs]
    texts = []
    for what, values in (
        ("code", [" + ".join(side.versions) for side in about]),
        ("device", [" + ".join(side.devices) for side in about]),
        *((name, [side.libraries.get(name, "absent") for side in about]) for name in _name_libraries(about)),
    ):
        if len(set(values)) > 1:
            texts.append(f"{what} {' / '.join(value or 'unknown' for value in values)}")
    complete = all(side.libraries for side in about)
    remark = "" if complete else " Of libraries nothing is known: a run has no environment.json."
    lines = wrap_lines(
        f"Versions that differ: {'; '.join(texts)}.{remark}" if texts else f"Versions are the same.{remark}"
    )
    return [*lines, *_compare_digests(*(rows for _, rows in sides))]


def _name_libraries(about: Sequence[AboutRun]) -> list[str]:
    return (
        list(dict.fromkeys(name for run in about for name in run.libraries)) if all(o.libraries for o in about) else []
    )


def _compare_digests(first: pd.DataFrame, second: pd.DataFrame) -> Iterator[str]:
    """What rows about the same stand on: inputs and weights."""
    columns = [*results.IDENTITY, "input_digest", "model_digest"]
    both = first[columns].merge(second[columns], on=results.IDENTITY, suffixes=("_a", "_b"))
    for what, digest in (("inputs", "input_digest"), ("weights", "model_digest")):
        other = both[both[f"{digest}_a"] != both[f"{digest}_b"]]
        if len(other):
            column = "system" if what == "inputs" else "extractor"
            of = join_words(sorted({str(name) for name in other[column] if name}))
            yield from wrap_lines(
                f"Other {what}: {len(other)} of {len(both)} rows about the same{f' ({of})' if of else ''} stand on other "
                + ("recordings, trials or vectors." if what == "inputs" else "weights.")
            )


def _list_typed(two_runs: Sequence[runs.Run]) -> list[str]:
    """Overrides as they were typed, those that the other run has not."""
    lines = []
    for name, own, other in zip(NAMES, two_runs, two_runs[::-1]):
        own_overrides = [override for override in own.overrides if override not in other.overrides]
        if own_overrides:
            lines += wrap_lines(
                f"Typed for {name} alone: {' '.join(shorten_middle(override, WIDTH - 8) for override in own_overrides)}"
            )
    return lines


# ----------------------------------------------------------------------------------------------------------- differences


def _list_differences(differences: RunDifferences, sides: Sequence[runs.Run]) -> list[str]:
    """The tables of differences, what has no number, what is equal, and what has no counterpart."""
    lines = ["Differences, B minus A"]
    shown = [row for row in differences.rows if row.d_ece is not None]
    if shown:
        lines += wrap_lines(NOTE + (PARTIAL if any(row.partial for row in shown) else ""), "")
    groups: dict[tuple[str, str], list[SystemDifference]] = {}
    for row in shown:
        groups.setdefault((row.subset, row.under), []).append(row)
    for (subset, under), members in groups.items():
        lines += ["", *_tabulate(subset, under, members)]
    remarks = [*_explain_missing(differences), *_list_unmatched(differences)]
    if differences.unread:
        remarks.append(f"No systems can be compared. {differences.unread}.")
    elif not differences.rows and not differences.equal:
        remarks.append(_explain_nothing(differences))
    lines += ["", *(line for text in remarks for line in wrap_lines(text))] if remarks else []
    return [
        *lines,
        *(line for name, run in zip(NAMES, sides) if name in differences.gone for line in _describe_rerun(name, run)),
    ]


def _explain_missing(differences: RunDifferences) -> Iterator[str]:
    """Systems and subsets without numbers, by why."""
    by_reason: dict[str, dict[str, list[str]]] = {}
    for system, subset in differences.equal:
        by_reason.setdefault(SAME_SCORES, {}).setdefault(system, []).append(subset)
    for row in differences.rows:
        if row.d_ece is None:
            name = row.system if row.under == STRONGEST else f"{row.system} ({row.attacks[0]})"
            by_reason.setdefault(row.reason, {}).setdefault(name, []).append(row.subset)
    for reason, by_name in by_reason.items():
        of: dict[tuple[str, ...], list[str]] = {}
        for name, subsets in by_name.items():
            of.setdefault(tuple(subsets), []).append(name)
        where = "; ".join(f"{join_words(names)} on {join_words(subsets)}" for subsets, names in of.items())
        yield f"{reason}: {where}." if reason == SAME_SCORES else f"Not compared: {where}. {reason}."


def _list_unmatched(differences: RunDifferences) -> Iterator[str]:
    for what, alone in (("Systems", differences.systems), ("Trial sets", differences.subsets)):
        texts = [f"{', '.join(names)} (in {name} alone)" for name, names in zip(NAMES, alone) if names]
        if texts:
            yield f"{what} without a counterpart: {'; '.join(texts)}."


def _describe_rerun(name: str, run: runs.Run) -> list[str]:
    """How the scores of a run are had again, as a command to paste."""
    if not run.overrides:
        return wrap_lines(
            f"To have the scores of {name}, run the same evaluation again and compare the folder that it names."
        )
    sentence = (
        f"To have the scores of {name}, run again, and compare the folder that it names; what is stored is reused:"
    )
    words = ["voice-privacy", *(shlex.quote(override) for override in run.overrides)]
    command = textwrap.wrap(" ".join(words), WIDTH - 4, break_long_words=False, break_on_hyphens=False)
    return [*wrap_lines(sentence), *(f"  {line} \\" for line in command[:-1]), f"  {command[-1]}"]


def _explain_nothing(differences: RunDifferences) -> str:
    if any(differences.subsets):
        return "No system has trials of the same set in both runs."
    return "No system is in both runs with scores of trials: add a metric that reads them to metric=[…]."


def _tabulate(subset: str, under: str, rows: Sequence[SystemDifference]) -> list[str]:
    attacks = "each run under its strongest attack" if under == STRONGEST else "under the same attack in both"
    heads = ("D_ECE A", "B", "B - A", "p", "EER A", "B", "B - A")
    columns = [Column("system"), *(Column(head, "number") for head in heads)]
    head, rule, *body = format_lines(Table(columns, [*map(_make_cells, rows)]))
    lines = [*wrap_lines(f"{subset}, {attacks}"), head, rule]
    for row, line in zip(rows, body):
        lines += [line, *(f"      {shorten_middle(text, WIDTH - 6)}" for text in _list_attacks(row))]
    untested: dict[str, list[str]] = {}
    for row in rows:
        if row.reason:
            untested.setdefault(row.reason, []).append(row.system)
    texts = [f"Not tested: {join_words(dict.fromkeys(names))}, for {reason}." for reason, names in untested.items()]
    return [*lines, *(line for text in (_write_verdict(rows), *texts) if text for line in wrap_lines(text))]


def _make_cells(row: SystemDifference) -> list[str]:
    assert row.d_ece is not None and row.eer is not None
    p = "" if row.p_holm is None else "< 0.001" if row.p_holm < 0.001 else f"{row.p_holm:.2g}"
    return [
        shorten_middle(row.system, NAME) + ("†" if row.partial else ""),
        *(f"{value:.3f}" for value in row.d_ece.values),
        _format_step(row.d_ece, 1, 3),
        p or DASH,
        *(f"{100 * value:.1f}" for value in row.eer.values),
        _format_step(row.eer, 100, 1),
    ]


def _format_step(difference: Difference, scale: float, digits: int) -> str:
    low, high = difference.interval
    text = f"{scale * difference.step:+.{digits}f}"
    return text if low is None or high is None else f"{text} [{scale * low:+.{digits}f}, {scale * high:+.{digits}f}]"


def _list_attacks(row: SystemDifference) -> list[str]:
    """The attacks that a row stands on; one line where it is the same."""

    def said(place: int) -> str:
        tried = row.tried[place]
        return row.attacks[place] + (f" (of {tried} attacks)" if tried > 1 else "")

    full_name = [row.system] if len(row.system) > NAME else []
    return [*full_name, *([said(0)] if said(0) == said(1) else [f"{name}: {said(k)}" for k, name in enumerate(NAMES)])]


def _write_verdict(rows: Sequence[SystemDifference]) -> str:
    """What is shown to be different, in a sentence."""
    tested = [row for row in rows if row.p_holm is not None]
    if not tested:
        return ""

    def named(row: SystemDifference) -> str:
        return row.system if row.under == STRONGEST else f"{row.system} ({row.attacks[0]})"

    unlike = [row for row in tested if (row.p_holm or 0.0) <= DIFFERENT]
    n = len(tested)
    how = f"p at most {DIFFERENT:g}" + (f" after Holm's correction for {n} comparisons" if n > 1 else "")
    clauses = []
    for word, systems in (
        ("more in B", [named(row) for row in unlike if row.d_ece is not None and row.d_ece.step > 0]),
        ("less in B", [named(row) for row in unlike if row.d_ece is not None and row.d_ece.step < 0]),
    ):
        if systems:
            clauses.append(f"{join_words(systems)} disclose{'s' if len(systems) == 1 else ''} {word} than in A")
    alike = [named(row) for row in tested if row not in unlike]
    if not clauses:
        return f"Not shown to be different: {join_words(alike)}."
    rest = f"; not shown to be different: {join_words(alike)}" if alike else ""
    return f"{'; '.join(clauses)} ({how}){rest}."


# ------------------------------------------------------------------------------------------------------------------ rows


def _list_rows(rows: PairedRows) -> list[str]:
    """Rows that changed although their signatures are equal, the others counted."""
    lines: list[str] = []
    changed = results.records(rows.changed)
    if changed:
        lines += ["Rows with equal signatures that differ, A / B"]
        lines += [line for row in changed[:SHOWN] for line in wrap_lines(_format_changed_row(row))]
        if len(changed) > SHOWN:
            lines.append(f"and {len(changed) - SHOWN} more")
    for name, left in zip(NAMES, rows.left):
        lines += [
            line
            for why, count in left.items()
            for line in wrap_lines(f"{count} row{'s' if count > 1 else ''} of {name} without a counterpart: {why}")
        ]
    both, without = len(rows.both), sum(sum(left.values()) for left in rows.left)
    lines.append(f"{both} rows with equal signatures, {without} rows without a counterpart")
    if both:
        lines[-1:] = [f"{both - len(changed)} of {both} rows with equal signatures are equal", lines[-1]]
    return lines


KEY = [*results.IDENTITY, "signature"]
TOLD_BY = ("dataset", "subset", "system", "attacker", "extractor", "trained_on", "backend", "metric")
"""What a row is likely to be about that the other run has none of; of several, the first is said."""
ANOTHER = "what it is about is in the other run, in another combination"


@dataclass(frozen=True)
class PairedRows:
    """Rows of two runs.

    Attributes:
        both: rows with a counterpart: the columns of :data:`KEY`, unit, value_first, value_second, label_first, label_second.
        changed: those of them that differ in value or label.
        left: for either run, how many rows have no counterpart, by why.
    """

    both: pd.DataFrame
    changed: pd.DataFrame
    left: tuple[dict[str, int], dict[str, int]]


def pair_rows(first: pd.DataFrame, second: pd.DataFrame) -> PairedRows:
    """Rows of results of two runs beside one another."""
    values = ["value", "label"]
    both = first[[*KEY, "unit", *values]].merge(second[[*KEY, *values]], on=KEY, suffixes=("_first", "_second"))
    values_a, values_b = (both[f"value_{end}"].to_numpy(np.float64) for end in ("first", "second"))
    same = (values_a == values_b) | (np.isnan(values_a) & np.isnan(values_b))
    changed = both[~same | (both["label_first"] != both["label_second"]).to_numpy(bool)]
    left = (
        _count_reasons(_explain_unpaired(first, second, both)),
        _count_reasons(_explain_unpaired(second, first, both)),
    )
    return PairedRows(both, changed, left)


def _count_reasons(reasons: Iterable[tuple[str, str]]) -> dict[str, int]:
    """How many there are, by what they have in common; the most first."""
    named: dict[str, Counter[str]] = {}
    for what, name in reasons:
        named.setdefault(what, Counter())[name] += 1
    order = sorted(named, key=lambda what: -named[what].total())
    return {f"{what} {', '.join(named[what])}".strip(): named[what].total() for what in order}


def _explain_unpaired(own: pd.DataFrame, others: pd.DataFrame, both: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """Why each row of a run that has no counterpart has none: what it is, and its name."""
    paired = set(zip(*(both[name] for name in KEY)))
    values_there = {name: set(others[name]) for name in TOLD_BY}
    signatures = {tuple(row[name] for name in results.IDENTITY): row["signature"] for row in results.records(others)}
    for row in results.records(own):
        if tuple(row[name] for name in KEY) in paired:
            continue
        signature = signatures.get(tuple(row[name] for name in results.IDENTITY))
        if signature is not None:
            yield f"the signature differs in {_name_differing_parts(row['signature'], signature)}", ""
            continue
        alone = [name for name in TOLD_BY if row[name] not in values_there[name]]
        yield (LABELS.get(alone[0], alone[0]), row[alone[0]] or "none") if alone else (ANOTHER, "")


def _name_differing_parts(first: str, second: str) -> str:
    parts = [_split_signature(first), _split_signature(second)]
    names = [name for name in dict.fromkeys([*parts[0], *parts[1]]) if parts[0].get(name) != parts[1].get(name)]
    return ", ".join(names) or "the order of its parts"


def _split_signature(signature: str) -> dict[str, str]:
    """What a signature says, by name; what has no name stands under itself."""
    pieces = [part.partition(":") for part in signature.split("|")[1:]]
    return {name: value for name, _, value in pieces}


def _format_changed_row(row: Mapping[str, Any]) -> str:
    """A changed row: its metric, what it is about, both values and the difference where there is one."""
    unit = row["unit"]
    about = ("subset", "system", "condition", "attacker", "extractor", "variant", "estimator")
    place = " ".join(str(row[name]) for name in about if row[name])
    values = [_format_value(row, end, unit) for end in ("first", "second")]
    step = row["value_second"] - row["value_first"]
    change = "" if np.isnan(step) or step == 0 else f" ({'+' if step > 0 else ''}{format_number(step, unit)})"
    return f"{row['metric']} {place}: {values[0]} / {values[1]}{change}"


def _format_value(row: Mapping[str, Any], end: str, unit: str) -> str:
    return str(row[f"label_{end}"]) or format_number(row[f"value_{end}"], unit, with_unit=True)
