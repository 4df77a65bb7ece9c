"""Two runs side by side: which settings differ, the differences between systems, and what became of the rows."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipeline.report import runs
from pipeline.report.formats import DASH, count_noun, format_number, join_words
from pipeline.report.leaderboard import WIDTH
from pipeline.report.run_differences import AboutRun, Setting, find_differences, format_value, select_configs
from pipeline.report.summaries import LABELS
from pipeline.report.table import Column, Table, format_lines, shorten_middle
from pipeline.report.verdict import DIFFERENT
from pipeline.tables import results

SHOWN = 20
"""Changed rows that are shown; the others are counted."""
NAMES = ("A", "B")
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
        d_ece, eer: the highest and the lowest of all attacks; None where there is no number, and why that is in ``reason``.
        p_value: of D_ECE, two-sided, runs swapped speaker by speaker; ``p_holm`` is corrected over the rows of a subset and kind of attack.
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
    """What was found of the systems of two runs: differences, systems and subsets with equal scores, what A and B alone have, which
    of them has no scores any more, and why nothing could be compared."""

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
    (run_a, rows_a), (run_b, rows_b) = sides = runs.labelled([first, second])
    heads: list[str] = []
    for name, run in zip(NAMES, (run_a, run_b)):
        label = f"  ({run.label})" if run.label not in NAMES else ""
        heads += wrap_lines(f"{name}  {run.run_id}{label}", "   ")
        heads += [line for problem in run.problems for line in wrap_lines(f"   it is not whole: {problem}", "   ")]
    parts = [heads, _compare_settings(sides), _list_differences(differences), _list_rows(rows_a, rows_b)]
    return "\n\n".join("\n".join(part) for part in parts if part)


def wrap_lines(text: str, indent: str = "  ") -> list[str]:
    """A sentence on as many lines as it takes."""
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_on_hyphens=False)


# -------------------------------------------------------------------------------------------------------------- settings


def _compare_settings(sides: Sequence[tuple[runs.Run, pd.DataFrame]]) -> list[str]:
    """Which settings differ, and what else numbers depend on."""
    two_runs = [run for run, _ in sides]
    lines = []
    without = [name for name, run in zip(NAMES, two_runs) if not run.config]
    if without:
        lines += wrap_lines(
            f"{join_words(without)} wrote no configuration: only components that its rows name are compared."
        )
    differences = find_differences(select_configs([run.about for run in two_runs]))
    differing = [
        f"{group.group}: {' / '.join(', '.join(own) or DASH for own in group.own)}" for group in differences.labels
    ]
    differing += map(_format_setting, differences.numeric)
    if differing:
        lines += ["Which settings differ, A / B", "", *(line for text in differing for line in wrap_lines(text)), ""]
    elif without:
        lines.append("These do not differ.")
    else:
        # A default may be another one in another version.
        digests = [set(rows["config_digest"]) for _, rows in sides]
        but = "" if digests[0] == digests[1] else ", as they were written; their digests do"
        lines += wrap_lines(f"No settings differ that numbers depend on{but}.")
    if differences.runtime:
        lines += wrap_lines(f"Numbers do not depend on: {'; '.join(map(_format_setting, differences.runtime))}.")
    return [
        *lines,
        *_compare_versions([run.about for run in two_runs]),
        *_compare_digests(*(rows for _, rows in sides)),
    ]


def _format_setting(setting: Setting) -> str:
    values = zip(setting.values, setting.defaults)
    return f"{setting.path}: {' / '.join(format_value(value) + ' (default)' * default for value, default in values)}"


def _compare_versions(about: Sequence[AboutRun]) -> list[str]:
    """Code, libraries and devices that differ, as records and rows have them."""
    complete = all(run.libraries for run in about)
    names = dict.fromkeys(name for run in about for name in run.libraries) if complete else {}
    texts = []
    for what, values in (
        ("code", [" + ".join(run.versions) for run in about]),
        ("device", [" + ".join(run.devices) for run in about]),
        *((name, [run.libraries.get(name, "absent") for run in about]) for name in names),
    ):
        if len(set(values)) > 1:
            texts.append(f"{what} {' / '.join(value or 'unknown' for value in values)}")
    remark = "" if complete else " Of libraries nothing is known: a run has no environment.json."
    return wrap_lines((f"Versions that differ: {'; '.join(texts)}." if texts else "Versions are the same.") + remark)


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


# ----------------------------------------------------------------------------------------------------------- differences


def _list_differences(differences: RunDifferences) -> list[str]:
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
    remarks = [*_explain_missing(differences)]
    for what, alone in (("Systems", differences.systems), ("Trial sets", differences.subsets)):
        texts = [f"{', '.join(names)} (in {name} alone)" for name, names in zip(NAMES, alone) if names]
        if texts:
            remarks.append(f"{what} without a counterpart: {'; '.join(texts)}.")
    if differences.unread:
        remarks.append(f"No systems can be compared. {differences.unread}.")
    elif not differences.rows and not differences.equal:
        remarks.append(
            "No system has trials of the same set in both runs."
            if any(differences.subsets)
            else "No system is in both runs with scores of trials: add a metric that reads them to metric=[…]."
        )
    remarks += [
        f"To have the scores of {name}, run the same evaluation again, and compare its new folder."
        for name in differences.gone
    ]
    return [*lines, *([""] if remarks else []), *(line for text in remarks for line in wrap_lines(text))]


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
    attacks = [
        attack + (f" (of {tried} attacks)" if tried > 1 else "") for attack, tried in zip(row.attacks, row.tried)
    ]
    both = attacks[:1] if attacks[0] == attacks[1] else [f"{name}: {attack}" for name, attack in zip(NAMES, attacks)]
    return [*([row.system] if len(row.system) > NAME else []), *both]


def _write_verdict(rows: Sequence[SystemDifference]) -> str:
    """What is shown to be different, in a sentence."""
    more: list[str] = []
    less: list[str] = []
    alike: list[str] = []
    for row in rows:
        if row.p_holm is not None and row.d_ece is not None:
            group = alike if row.p_holm > DIFFERENT or not row.d_ece.step else more if row.d_ece.step > 0 else less
            group.append(row.system if row.under == STRONGEST else f"{row.system} ({row.attacks[0]})")
    n = len(more) + len(less) + len(alike)
    clauses = [
        f"{join_words(systems)} disclose{'s' if len(systems) == 1 else ''} {word} in B than in A"
        for word, systems in (("more", more), ("less", less))
        if systems
    ]
    if not clauses:
        return f"Not shown to be different: {join_words(alike)}." if alike else ""
    how = f"p at most {DIFFERENT:g}" + (f" after Holm's correction for {n} comparisons" if n > 1 else "")
    rest = f"; not shown to be different: {join_words(alike)}" if alike else ""
    return f"{'; '.join(clauses)} ({how}){rest}."


# ------------------------------------------------------------------------------------------------------------------ rows


KEY = [*results.IDENTITY, "signature"]
TOLD_BY = ("dataset", "subset", "system", "attacker", "extractor", "trained_on", "backend", "metric")
"""What a row is likely to be about that the other run has none of; of several, the first is said."""
ANOTHER = "what it is about is in the other run, in another combination"


def _list_rows(first: pd.DataFrame, second: pd.DataFrame) -> list[str]:
    """Rows that changed although their signatures are equal, the others counted."""
    both = pair_rows(first, second)
    changed = results.records(both[both["differs"]])
    lines = ["Rows with equal signatures that differ, A / B"] if changed else []
    lines += [line for row in changed[:SHOWN] for line in wrap_lines(_format_changed_row(row))]
    lines += [f"and {len(changed) - SHOWN} more"] if len(changed) > SHOWN else []
    for name, own, others in ((NAMES[0], first, second), (NAMES[1], second, first)):
        reasons = Counter(_explain_unpaired(own, others, both))
        for why, count in reasons.most_common():
            lines += wrap_lines(f"{count_noun(count, 'row')} of {name} without a counterpart: {why}")
    if len(both):
        lines.append(f"{len(both) - len(changed)} of {len(both)} rows with equal signatures are equal")
    without = len(first) + len(second) - 2 * len(both)
    return [*lines, f"{len(both)} rows with equal signatures, {without} rows without a counterpart"]


def pair_rows(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    """Rows of results of two runs beside one another: :data:`KEY`, unit, value and label of the ``_first`` and the ``_second``, and
    whether the pair ``differs`` in value or label."""
    values = ["value", "label"]
    both = first[[*KEY, "unit", *values]].merge(second[[*KEY, *values]], on=KEY, suffixes=("_first", "_second"))
    values_a, values_b = (both[f"value_{end}"].to_numpy(np.float64) for end in ("first", "second"))
    same = (values_a == values_b) | (np.isnan(values_a) & np.isnan(values_b))
    return both.assign(differs=~same | (both["label_first"] != both["label_second"]).to_numpy(bool))


def _explain_unpaired(own: pd.DataFrame, others: pd.DataFrame, both: pd.DataFrame) -> Iterator[str]:
    """Why each row of a run that has no counterpart has none."""
    paired = set(zip(*(both[name] for name in KEY)))
    values_there = {name: set(others[name]) for name in TOLD_BY}
    signatures = {tuple(row[name] for name in results.IDENTITY): row["signature"] for row in results.records(others)}
    for row in results.records(own):
        if tuple(row[name] for name in KEY) in paired:
            continue
        signature = signatures.get(tuple(row[name] for name in results.IDENTITY))
        alone = [name for name in TOLD_BY if row[name] not in values_there[name]]
        if signature is not None:
            parts = [
                dict(part.partition(":")[::2] for part in each.split("|")[1:]) for each in (row["signature"], signature)
            ]
            names = [name for name in {**parts[0], **parts[1]} if parts[0].get(name) != parts[1].get(name)]
            yield f"the signature differs in {', '.join(names) or 'the order of its parts'}"
        elif alone:
            yield f"{LABELS.get(alone[0], alone[0])} {row[alone[0]] or 'none'}"
        else:
            yield ANOTHER


def _format_changed_row(row: Mapping[str, Any]) -> str:
    """A changed row: its metric, what it is about, both values and the difference where there is one."""
    unit = row["unit"]
    about = ("subset", "system", "condition", "attacker", "extractor", "variant", "estimator")
    place = " ".join(str(row[name]) for name in about if row[name])
    values = [
        str(row[f"label_{end}"]) or format_number(row[f"value_{end}"], unit, with_unit=True)
        for end in ("first", "second")
    ]
    step = row["value_second"] - row["value_first"]
    change = "" if np.isnan(step) or step == 0 else f" ({'+' if step > 0 else ''}{format_number(step, unit)})"
    return f"{row['metric']} {place}: {values[0]} / {values[1]}{change}"
