"""``scores.csv``: which score files there are and what each is of, for layouts that no challenge's script makes."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping
from pathlib import Path

from pipeline.datasets.corpus import Fence
from pipeline.datasets.scores.folders import CONDITIONS, IGNORANT, LAZY, ORIGINAL, SEMI, UNPROTECTED, Found, ScoreFile
from pipeline.datasets.scores.layout import INDEX
from pipeline.faults import Faults
from pipeline.tables import text

FILE = "scores.csv"
NEEDED = ("file", "subset")
COLUMNS = (*NEEDED, "trials", "condition", "system", "attacker", "extractor", "backend", "trained_on", "llr")
GIVEN = "given"
"""What tables call an extractor, its training speech or a back end of which nothing is said."""

_CONDITIONS = {"OO": "OO", "OP": "OP", "PP": "PP", "OA": "OP", "AA": "PP"}
_KNOWS = {IGNORANT: ORIGINAL, LAZY: ORIGINAL, SEMI: "anonymised"}
"""What the extractors of the usual attackers were trained on."""
_YES_NO = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def read(path: Path, faults: Faults, follow_links: bool = False) -> Found:
    """The files that a table names; paths are relative to its folder, and lead to files below it. Faults are added for each line.

    Columns are parted by commas, semicolons or tabs; ``file`` and ``subset`` are needed. ``condition`` follows from the attacker,
    the attacker of OO is the unprotected one. ``llr`` says whether scores are natural-log likelihood ratios (Cllr is defined for
    these alone).
    """
    try:
        content = text.text(path)
    except text.Unreadable as error:
        faults.add(error.kind, error.what, path)
        return Found(())
    head = content.partition("\n")[0]
    delimiter = max(",;\t", key=head.count)
    rows = csv.DictReader(content.splitlines(), delimiter=delimiter, skipinitialspace=True)
    known = [name.strip() or (INDEX if place == 0 else "") for place, name in enumerate(rows.fieldnames or ())]
    rows.fieldnames = known
    wrong = [name for name in known if name not in (*COLUMNS, INDEX)]
    lacking = [name for name in NEEDED if name not in known]
    if wrong or lacking or len(set(known)) < len(known):
        said = [f"unknown {', '.join(wrong)}" if wrong else "", f"missing {', '.join(lacking)}" if lacking else ""]
        what = "; ".join(filter(None, said)) or "a column stands twice"
        faults.add("score-table", f"columns: {what}; known are {', '.join(COLUMNS)}", path)
        return Found(())
    made, fence = [], Fence(path.parent, follow_links)
    for row in rows:
        where = f"{path}:{rows.line_num}"
        if None in row or None in row.values():
            faults.add("score-table", f"a line of another number of fields than the header's {len(known)}", where)
            continue
        one = _of({name: value.strip() for name, value in row.items()}, path.parent, where, faults)
        if one is not None and _holds(fence, one, where, faults):
            made.append(one)
    if not made and not faults.found:
        faults.add("score-table", "it names no file", path)
    return Found(tuple(made))


def _holds(fence: Fence, one: ScoreFile, where: str, faults: Faults) -> bool:
    """Whether what a line names lies below the table's folder."""
    away = [path for path in (one.path, one.trials) if path is not None and not fence.holds(path)]
    for path in away:
        faults.add("leaves-table", f"'{path}' leads out of the table's folder, to {os.path.realpath(path)}", where)
    return not away


def _of(row: Mapping[str, str], folder: Path, where: str, faults: Faults) -> ScoreFile | None:
    attacker, condition = row.get("attacker", ""), row.get("condition", "").upper()
    if not condition:
        condition = CONDITIONS.get(attacker, "OO" if not attacker else "")
    if condition not in _CONDITIONS:
        faults.add("score-table", f"condition '{row.get('condition', '')}' is none of OO, OP, PP (or OA, AA)", where)
        return None
    condition = _CONDITIONS[condition]
    protected = condition != "OO"
    attacker = attacker or ("" if protected else UNPROTECTED)
    system = row.get("system", "") or ("" if protected else ORIGINAL)
    llr = row.get("llr", "").lower() or "no"
    empty = [
        name
        for name, value in (
            ("file", row["file"]),
            ("subset", row["subset"]),
            ("attacker", attacker),
            ("system", system),
        )
        if not value
    ]
    if empty:
        faults.add("score-table", f"{', '.join(empty)}: nothing is said", where)
    if CONDITIONS.get(attacker, condition) != condition:
        faults.add("score-table", f"the attacker {attacker} is one of {CONDITIONS[attacker]}, not {condition}", where)
    elif (system == ORIGINAL) == protected:
        faults.add("score-table", f"the system '{system}' cannot be one of {condition}", where)
    if llr not in _YES_NO:
        faults.add("score-table", f"llr '{llr}' is neither yes nor no", where)
    if any(fault.where == where for fault in faults.found):
        return None
    return ScoreFile(
        folder / row["file"], row["subset"], "", condition, system, attacker,
        row.get("extractor", "") or GIVEN,
        row.get("trained_on", "") or (ORIGINAL if not protected else _KNOWS.get(attacker, GIVEN)),
        row.get("backend", "") or GIVEN,
        _YES_NO[llr],
        folder / row["trials"] if row.get("trials") else None,
    )  # fmt: skip
