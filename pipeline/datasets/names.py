"""Names of Kaldi sets that belong together, though they do not say so as the recipes do (``X_enrolls``, ``X_trials_*``)."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from pipeline.faults import Faults

ENROLMENT = re.compile(r"enrol|gallery|reference|refs?$", re.IGNORECASE)
TRIALS = re.compile(r"trial|test|eval|probe|query|queries", re.IGNORECASE)
"""How the word begins that says what a set is for."""

_PARTS = re.compile(r"[_.\-]+")


def look_like_pairs(root: Path, found: Sequence[str], faults: Faults) -> None:
    """Refuse sets without lists if some are enrolment and some trials by their names: halved by itself, each would be another
    protocol than was meant.

    Raises:
        DataError: they look like pairs; with the faults so far.
    """
    enrolled = {name: _rest(name, ENROLMENT) for name in found if _is(name, ENROLMENT)}
    tried = {name: _rest(name, TRIALS) for name in found if _is(name, TRIALS) and name not in enrolled}
    if not enrolled or not tried:
        return
    moves = _moves(enrolled, tried, re.sub(r"\W+", "_", root.name).strip("_") or "data")
    taken = {new for _, new in moves}
    if len(taken) < len(moves) or any((root / name).exists() for name in taken):
        moves = []
    commands = " && ".join(f"mv {_quoted(root / old)} {_quoted(root / new)}" for old, new in moves)
    faults.add(
        "names",
        f"{', '.join([*enrolled, *tried])} look like enrolment and trials of one protocol by their names; each would be halved "
        f"by itself{': ' if commands else ''}{commands}",
        root,
    )
    faults.stop(root)


def perhaps(root: Path, wanted: str, found: Sequence[str], kind: re.Pattern[str]) -> str:
    """``; if NAME is it: mv …`` where one set has a name of the kind; '' otherwise."""
    like = [name for name in found if _is(name, kind)]
    return f"; if {like[0]} is it: mv {_quoted(root / like[0])} {_quoted(root / wanted)}" if len(like) == 1 else ""


def _moves(enrolled: dict[str, str], tried: dict[str, str], base: str) -> list[tuple[str, str]]:
    """Old and new names; one enrolment set goes with all trials, several each with those of the same rest of the name."""
    if len(enrolled) == 1:
        ((name, rest),) = enrolled.items()
        stem = rest or base
        tails = {trial: other.removeprefix(rest).strip("_") for trial, other in tried.items()}
        trials = [(trial, "_".join(filter(None, [stem, "trials", tail]))) for trial, tail in tails.items()]
        return [(name, f"{stem}_enrolls"), *trials]
    stems = {
        name: "_".join(filter(None, [base if rest in ("f", "m", "") else "", rest])) for name, rest in enrolled.items()
    }
    by_rest = {rest: stems[name] for name, rest in enrolled.items()}
    if set(tried.values()) - by_rest.keys():
        return []
    return [
        *((name, f"{stem}_enrolls") for name, stem in stems.items()),
        *((trial, f"{by_rest[rest]}_trials") for trial, rest in tried.items()),
    ]


def _is(name: str, kind: re.Pattern[str]) -> bool:
    return any(kind.match(part) for part in _PARTS.split(name))


def _rest(name: str, kind: re.Pattern[str]) -> str:
    """The name without the word that says what it is for."""
    return "_".join(part for part in _PARTS.split(name) if part and not kind.match(part))


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))
