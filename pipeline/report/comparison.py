"""Two runs side by side: first which settings differ, then the differences between systems, then what became of the rows.

At most :data:`WIDTH` columns, but for a path that is longer.
"""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from pipeline.report import counterparts, run_labels, runs, summaries
from pipeline.report import run_differences as differ
from pipeline.report.leaderboard import WIDTH
from pipeline.report.verdict import DIFFERENT
from pipeline.report.words import joined
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
class SystemDifference:
    """One system under two runs, on one subset or mean; differences are B minus A.

    Attributes:
        under: ``strongest`` (each run's own) or ``same`` (one attack in both).
        attacks: in words, and of how many ``tried``.
        d_ece, eer: values of A and B, in bits and as fractions.
        difference: of D_ECE, with its ``interval``; ``eer_interval`` is that of the difference of EERs.
        p_value: two-sided, runs swapped speaker by speaker; ``p_holm`` is corrected over ``n_compared`` rows.
        reason: why there is no number, or no test.
        partial: whether a run has marked its numbers as partial.
    """

    subset: str
    system: str
    under: str
    attacks: tuple[str, str] = ("", "")
    tried: tuple[int, int] = (0, 0)
    d_ece: Pair | None = None
    difference: float = 0.0
    interval: tuple[float | None, float | None] = (None, None)
    eer: Pair | None = None
    eer_interval: tuple[float | None, float | None] = (None, None)
    p_value: float | None = None
    p_holm: float | None = None
    n_compared: int = 0
    n_speakers: int = 0
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


def one_run(first: Path, second: Path) -> str:
    """That two folders hold the same run; '' if they do not."""
    ids = [set(results.read(folder)["run_id"]) - {""} for folder in (first, second)]
    if first.resolve() != second.resolve() and (len(ids[0]) != 1 or ids[0] != ids[1]):
        return ""
    name = next(iter(ids[0]), first.name)
    return "\n".join(wrapped(f"A and B are the same run, {name}: no settings differ, and there is nothing to compare."))


def to_text(first: Path, second: Path, found: RunDifferences) -> str:
    """The whole comparison."""
    sides = runs.labelled([first, second])
    rows = counterparts.of(sides[0][1], sides[1][1])
    parts = [
        _heads([run for run, _ in sides]),
        _settings(sides),
        _differences(found, [run for run, _ in sides]),
        _rows(rows),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part)


def wrapped(text: str, indent: str = "  ") -> list[str]:
    """A sentence on as many lines as it takes."""
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_on_hyphens=False)


# -------------------------------------------------------------------------------------------------------------- settings


def _heads(sides: Sequence[runs.Run]) -> list[str]:
    found: list[str] = []
    for name, run in zip(NAMES, sides):
        label = f"  ({run.label})" if run.label not in NAMES else ""
        found += wrapped(f"{name}  {run.run_id}{label}", "   ")
        found += [line for said in run.problems for line in wrapped(f"   it is not whole: {said}", "   ")]
    return found


def _settings(sides: Sequence[tuple[runs.Run, pd.DataFrame]]) -> list[str]:
    """Which settings differ, and what else numbers depend on."""
    several = [run for run, _ in sides]
    lines = []
    without = [name for name, run in zip(NAMES, several) if not run.config]
    if without:
        lines += wrapped(
            f"{joined(without)} wrote no configuration: only the components that its rows name can be compared."
        )
    found = differ.of_configs(run_labels.configs_of([run.about for run in several]))
    body = [[one.group, *(", ".join(own) or summaries.DASH for own in one.own)] for one in found.labels]
    body += [[one.path, *_values(one)] for one in found.numeric]
    if body:
        short = [
            [differ.cut(cells[0], WIDTH - 2 * CELL - 4), *(differ.cut(one, CELL) for one in cells[1:])]
            for cells in body
        ]
        lines += ["Which settings differ", "", *summaries.aligned(["setting", *NAMES], short, (0, 1, 2))]
        for cells in (cells for cells, cut in zip(body, short) if cells != cut):
            lines += wrapped(f"{cells[0]} in full: A {cells[1]}; B {cells[2]}")
        lines.append("")
    elif without:
        lines.append("These do not differ.")
    else:
        lines += wrapped(f"No settings differ that numbers depend on{_unwritten(*(rows for _, rows in sides))}.")
    lines += _runtime(found.runtime)
    lines += _versions(several, sides)
    lines += _typed(several)
    return lines


def _unwritten(first: pd.DataFrame, second: pd.DataFrame) -> str:
    """That the digests of settings differ although what was written does not."""
    same = set(first["config_digest"]) == set(second["config_digest"])
    return "" if same else ", as they were written; their digests do: a default is another one, in another version"


def _values(one: differ.Setting) -> list[str]:
    return [
        f"{differ.value(value)}{' (default)' if default else ''}" for value, default in zip(one.values, one.defaults)
    ]


def _runtime(several: Sequence[differ.Setting]) -> list[str]:
    """What no number depends on, shortly."""
    said = [f"{one.path} {' / '.join(differ.value(value, 30) for value in one.values)}" for one in several]
    return wrapped(f"Numbers do not depend on: {'; '.join(said)}.") if said else []


def _versions(several: Sequence[runs.Run], sides: Sequence[tuple[runs.Run, pd.DataFrame]]) -> list[str]:
    """Code, libraries, devices, weights and inputs that differ, as records and rows have them."""
    about = [run.about for run in several]
    said = []
    for what, values in (
        ("code", [" + ".join(one.versions) for one in about]),
        ("device", [" + ".join(one.devices) for one in about]),
        *((name, [one.libraries.get(name, "absent") for one in about]) for name in _libraries(about)),
    ):
        if len(set(values)) > 1:
            said.append(f"{what} {' / '.join(value or 'unknown' for value in values)}")
    known = all(one.libraries for one in about)
    unknown = "" if known else " Of libraries nothing is known: a run has no environment.json."
    lines = wrapped(
        f"Versions that differ: {'; '.join(said)}.{unknown}" if said else f"Versions are the same.{unknown}"
    )
    return [*lines, *_digests(*(rows for _, rows in sides))]


def _libraries(about: Sequence[run_labels.About]) -> list[str]:
    return (
        list(dict.fromkeys(name for one in about for name in one.libraries)) if all(o.libraries for o in about) else []
    )


def _digests(first: pd.DataFrame, second: pd.DataFrame) -> Iterator[str]:
    """What rows about the same stand on: inputs and weights."""
    columns = [*results.IDENTITY, "input_digest", "model_digest"]
    both = first[columns].merge(second[columns], on=results.IDENTITY, suffixes=("_a", "_b"))
    for what, digest in (("inputs", "input_digest"), ("weights", "model_digest")):
        other = both[both[f"{digest}_a"] != both[f"{digest}_b"]]
        if len(other):
            column = "system" if what == "inputs" else "extractor"
            of = joined(sorted({str(name) for name in other[column] if name}))
            yield from wrapped(
                f"Other {what}: {len(other)} of {len(both)} rows about the same{f' ({of})' if of else ''} stand on other "
                + ("recordings, trials or vectors." if what == "inputs" else "weights.")
            )


def _typed(several: Sequence[runs.Run]) -> list[str]:
    """Overrides as they were typed, those that the other run has not."""
    lines = []
    for name, own, other in zip(NAMES, several, several[::-1]):
        alone = [one for one in own.overrides if one not in other.overrides]
        if alone:
            lines += wrapped(f"Typed for {name} alone: {' '.join(differ.cut(one, WIDTH - 8) for one in alone)}")
    return lines


# ----------------------------------------------------------------------------------------------------------- differences


def _differences(found: RunDifferences, sides: Sequence[runs.Run]) -> list[str]:
    """The tables of differences, what has no number, what is equal, and what has no counterpart."""
    lines = ["Differences, B minus A"]
    shown = [row for row in found.rows if row.d_ece is not None]
    if shown:
        lines += wrapped(NOTE + (PARTIAL if any(row.partial for row in shown) else ""), "")
    groups: dict[tuple[str, str], list[SystemDifference]] = {}
    for row in shown:
        groups.setdefault((row.subset, row.under), []).append(row)
    for (subset, under), several in groups.items():
        lines += ["", *_table(subset, under, several)]
    rest = [*_without_numbers(found), *_alone(found)]
    if found.unread:
        rest.append(f"No systems can be compared. {found.unread}.")
    elif not found.rows and not found.equal:
        rest.append(_nothing_in_common(found))
    lines += ["", *(line for said in rest for line in wrapped(said))] if rest else []
    return [*lines, *(line for name, run in zip(NAMES, sides) if name in found.gone for line in _again(name, run))]


def _without_numbers(found: RunDifferences) -> Iterator[str]:
    """Systems and subsets without numbers, by why."""
    by_reason: dict[str, dict[str, list[str]]] = {}
    for system, subset in found.equal:
        by_reason.setdefault(SAME_SCORES, {}).setdefault(system, []).append(subset)
    for row in found.rows:
        if row.d_ece is None:
            name = row.system if row.under == STRONGEST else f"{row.system} ({row.attacks[0]})"
            by_reason.setdefault(row.reason, {}).setdefault(name, []).append(row.subset)
    for reason, several in by_reason.items():
        of: dict[tuple[str, ...], list[str]] = {}
        for name, subsets in several.items():
            of.setdefault(tuple(subsets), []).append(name)
        where = "; ".join(f"{joined(names)} on {joined(subsets)}" for subsets, names in of.items())
        yield f"{reason}: {where}." if reason == SAME_SCORES else f"Not compared: {where}. {reason}."


def _alone(found: RunDifferences) -> Iterator[str]:
    for what, alone in (("Systems", found.systems), ("Trial sets", found.subsets)):
        said = [f"{', '.join(names)} (in {name} alone)" for name, names in zip(NAMES, alone) if names]
        if said:
            yield f"{what} without a counterpart: {'; '.join(said)}."


def _again(name: str, run: runs.Run) -> list[str]:
    """How the scores of a run are had again, as a command to paste."""
    if not run.overrides:
        return wrapped(
            f"To have the scores of {name}, run the same evaluation again and compare the folder that it names."
        )
    said = f"To have the scores of {name}, run again, and compare the folder that it names; what is stored is reused:"
    words = ["voice-privacy", *(shlex.quote(one) for one in run.overrides)]
    command = textwrap.wrap(" ".join(words), WIDTH - 4, break_long_words=False, break_on_hyphens=False)
    return [*wrapped(said), *(f"  {line} \\" for line in command[:-1]), f"  {command[-1]}"]


def _nothing_in_common(found: RunDifferences) -> str:
    if any(found.subsets):
        return "No system has trials of the same set in both runs."
    return "No system is in both runs with scores of trials: add a metric that reads them to metric=[…]."


def _table(subset: str, under: str, rows: Sequence[SystemDifference]) -> list[str]:
    how = "each run under its strongest attack" if under == STRONGEST else "under the same attack in both"
    aligned = summaries.aligned(
        ["system", "D_ECE A", "B", "B - A", "p", "EER A", "B", "B - A"], [*map(_cells, rows)], (0,)
    )
    lines = [*wrapped(f"{subset}, {how}"), *aligned[:2]]
    for row, line in zip(rows, aligned[2:]):
        lines += [line, *(f"      {differ.cut(text, WIDTH - 6)}" for text in _attacks(row))]
    untested: dict[str, list[str]] = {}
    for row in rows:
        if row.reason:
            untested.setdefault(row.reason, []).append(row.system)
    said = [f"Not tested: {joined(dict.fromkeys(names))}, for {reason}." for reason, names in untested.items()]
    return [*lines, *(line for one in (_verdict(rows), *said) if one for line in wrapped(one))]


def _cells(row: SystemDifference) -> list[str]:
    assert row.d_ece is not None and row.eer is not None
    p = "" if row.p_holm is None else "< 0.001" if row.p_holm < 0.001 else f"{row.p_holm:.2g}"
    return [
        differ.cut(row.system, NAME) + ("†" if row.partial else ""),
        *(f"{value:.3f}" for value in row.d_ece),
        _step(row.difference, row.interval, 1, 3),
        p or summaries.DASH,
        *(f"{100 * value:.1f}" for value in row.eer),
        _step(row.eer[1] - row.eer[0], row.eer_interval, 100, 1),
    ]


def _step(step: float, interval: tuple[float | None, float | None], scale: float, digits: int) -> str:
    low, high = interval
    text = f"{scale * step:+.{digits}f}"
    return text if low is None or high is None else f"{text} [{scale * low:+.{digits}f}, {scale * high:+.{digits}f}]"


def _attacks(row: SystemDifference) -> list[str]:
    """The attacks that a row stands on; one line where it is the same."""

    def said(place: int) -> str:
        tried = row.tried[place]
        return row.attacks[place] + (f" (of {tried} attacks)" if tried > 1 else "")

    whole = [row.system] if len(row.system) > NAME else []
    return [*whole, *([said(0)] if said(0) == said(1) else [f"{name}: {said(k)}" for k, name in enumerate(NAMES)])]


def _verdict(rows: Sequence[SystemDifference]) -> str:
    """What is shown to be different, in a sentence."""
    tested = [row for row in rows if row.p_holm is not None]
    if not tested:
        return ""

    def named(row: SystemDifference) -> str:
        return row.system if row.under == STRONGEST else f"{row.system} ({row.attacks[0]})"

    unlike = [row for row in tested if (row.p_holm or 0.0) <= DIFFERENT]
    n = len(tested)
    how = f"p at most {DIFFERENT:g}" + (f" after Holm's correction for {n} comparisons" if n > 1 else "")
    said = []
    for word, several in (
        ("more in B", [named(row) for row in unlike if row.difference > 0]),
        ("less in B", [named(row) for row in unlike if row.difference < 0]),
    ):
        if several:
            said.append(f"{joined(several)} disclose{'s' if len(several) == 1 else ''} {word} than in A")
    alike = [named(row) for row in tested if row not in unlike]
    if not said:
        return f"Not shown to be different: {joined(alike)}."
    rest = f"; not shown to be different: {joined(alike)}" if alike else ""
    return f"{'; '.join(said)} ({how}){rest}."


# ------------------------------------------------------------------------------------------------------------------ rows


def _rows(rows: counterparts.Rows) -> list[str]:
    """Rows that changed although their signatures are equal, the others counted."""
    lines: list[str] = []
    changed = results.records(rows.changed)
    if changed:
        lines += ["Rows with equal signatures that differ, A / B"]
        lines += [line for row in changed[:SHOWN] for line in wrapped(counterparts.line(row))]
        if len(changed) > SHOWN:
            lines.append(f"and {len(changed) - SHOWN} more")
    for name, left in zip(NAMES, rows.left):
        lines += [
            line
            for why, count in left.items()
            for line in wrapped(f"{count} row{'s' if count > 1 else ''} of {name} without a counterpart: {why}")
        ]
    both, without = len(rows.both), sum(sum(left.values()) for left in rows.left)
    lines.append(f"{both} rows with equal signatures, {without} rows without a counterpart")
    if both:
        lines[-1:] = [f"{both - len(changed)} of {both} rows with equal signatures are equal", lines[-1]]
    return lines
