"""What the sets of each edition should hold: ``data_manifests/protocols/*.csv``, one row a set and edition."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline.files import find_assets

TITLES = {
    "2020": "VoicePrivacy 2020",
    "2022": "VoicePrivacy 2022",
    "2024": "VoicePrivacy 2024",
    "2026": "VoicePrivacy 2026 (track 1)",
    "attacker": "the VoicePrivacy Attacker Challenge",
}


@dataclass(frozen=True)
class Expected:
    """What a set should hold; None where nobody has printed or counted it.

    Attributes:
        role: ``enrolment``, ``trials``; ``union`` and ``part`` of sets that are evaluated; ``words``, ``emotion``, ``training``.
        sex: ``f``, ``m``, ``both``; ``mixed``: its trials cross the sexes.
    """

    set: str
    role: str
    sex: str
    speakers: int | None
    utterances: int | None
    target: int | None
    nontarget: int | None


def folder() -> Path:
    """Where the protocols lie."""
    return find_assets("data_manifests") / "protocols"


def read(edition: str) -> Mapping[str, Expected]:
    """The sets of an edition by name, in the order of the table."""
    found = {}
    for path in sorted(folder().glob("*.csv")):
        with path.open(encoding="utf-8", newline="") as stream:
            for row in csv.DictReader(stream):
                if row["edition"] == edition:
                    found[row["set"]] = Expected(
                        row["set"],
                        row["role"],
                        row["sex"],
                        *(int(row[name]) if row[name] else None for name in ("speakers", "utterances")),
                        *(int(row[name]) if row[name] else None for name in ("target", "nontarget")),
                    )
    return found


def editions_of(name: str) -> list[str]:
    """The editions that enrol or try the utterances of a set, be it as a part of another; unions and sets for other ends are of all."""
    roles = ("enrolment", "trials", "part")
    return [edition for edition in TITLES if (row := read(edition).get(name)) is not None and row.role in roles]
