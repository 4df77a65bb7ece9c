"""Checks of the files of a submission by their names: what is missing, what is too much, what cannot be told."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from pipeline.datasets import external_copy
from pipeline.submission.findings import Check, Named, judged
from pipeline.submission.side import Side

_ROOTS = ("root", "swapped", "names", "own-table")
"""Kinds of faults from which missing files follow."""


def checks(side: Side) -> list[Check]:
    """All of them."""
    return [missing(side), extra(side), unclear(side)]


def missing(side: Side) -> Check:
    """Utterances without a file."""
    listed = side.files
    found = [
        Named(str(row["utterance"]), str(row["set"]), f"no file {side.copy.pattern.wanted(row)}.ext under {place}")
        for row, place in listed.missing
    ]
    lost = [row for row in side.wanted if row["set"] not in listed.places]
    if listed.places or not listed.faults.has("ambiguous"):
        found += [Named(str(row["utterance"]), str(row["set"]), "its set has no folder") for row in lost]
    said = "; ".join(_said_of_missing(side, Counter(one.set for one in found)))
    return judged("missing", side.label, found, len(side.wanted), said=said, mend=_mend_missing(side))


def _said_of_missing(side: Side, lacking: Counter[str]) -> Iterator[str]:
    """How many are missing of each set, and where files lie that may be meant."""
    listed = side.files
    wanted = Counter(str(row["set"]) for row in side.wanted)
    for name, count in sorted(lacking.items()):
        yield f"all {count} of {name}" if count == wanted[name] else f"{count} of {wanted[name]} of {name}"
    yield from (fault.what for fault in listed.faults.found if fault.kind in _ROOTS)
    if not listed.faults.has("swapped"):
        elsewhere = external_copy.find_elsewhere(listed.missing, listed.unused, side.copy.pattern)
        yield from external_copy.describe_elsewhere(listed.missing, elsewhere)


def _mend_missing(side: Side) -> str:
    kinds = side.files.faults
    said = [kinds.kinds[kind][1] for kind in _ROOTS if kinds.has(kind)]
    if not said and external_copy.find_elsewhere(side.files.missing, side.files.unused, side.copy.pattern):
        said = [kinds.kinds["missing-audio"][1]]
    return "; ".join(said)


def extra(side: Side) -> Check:
    """Audio files that belong to no utterance of the sets that are looked at."""
    folder, pattern = side.files.folder, side.copy.pattern
    # Several files of one utterance are none too many but unclear, and one in the folder of another set is missing in its own.
    meant = {pattern.wanted(row) for row, _ in (*side.files.refused, *side.files.missing)}
    found = [
        Named(os.path.relpath(path, folder), _set_of(side, path), "belongs to no utterance")
        for path in side.files.unused
        if pattern.found(path.stem) not in meant
    ]
    return judged("extra", side.label, found, len(found) + len(side.files.chosen), "warning")


def _set_of(side: Side, path: Path) -> str:
    return next(
        (name for name, place in side.files.places.items() if place in path.parents and place != side.files.folder), ""
    )


def unclear(side: Side) -> Check:
    """Utterances with several files, or with a link that leads out of the folder; folders of several systems."""
    faults = side.files.faults
    found = [Named(str(row["utterance"]), str(row["set"]), what) for row, what in side.files.refused]
    if not side.files.places:
        found += [Named(str(side.files.folder), "", fault.what) for fault in faults.found if fault.kind == "ambiguous"]
    mend = "; ".join(faults.kinds[kind][1] for kind in ("ambiguous", "leaves-root") if faults.has(kind))
    return judged("unclear", side.label, found, len(side.wanted), mend=mend)
