"""What a check of a submission found, and the verdict over all checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from pipeline.faults import escape_unprintable
from pipeline.submission.words import WORDS, Words

Verdict = Literal["ok", "warning", "wrong", "unknown"]
COLUMNS = ("about", "check", "verdict", "set", "id", "what")


@dataclass(frozen=True)
class Named:
    """One thing that was found: an utterance, a trial, a file or a set."""

    id: str
    set: str = ""
    what: str = ""

    def __post_init__(self) -> None:
        # File names and ids may hold what a terminal would obey.
        for field in ("id", "set", "what"):
            object.__setattr__(self, field, escape_unprintable(getattr(self, field)))


@dataclass(frozen=True)
class Check:
    """What one check found.

    Attributes:
        name: key of :data:`pipeline.submission.words.WORDS`.
        about: the label of the submission; '' for the data set.
        verdict: ``unknown`` where it could not be told.
        found: all that was found, in order.
        total: of how many.
        said: what is to be said of all of it together.
        mend: what to do, where that is not always the same.
    """

    name: str
    about: str
    verdict: Verdict
    found: tuple[Named, ...] = ()
    total: int = 0
    said: str = ""
    mend: str = ""

    @property
    def words(self) -> Words:
        return WORDS[self.name]

    @property
    def title(self) -> str:
        """What tables call it."""
        return f"{self.about}: {self.words.title}" if self.about else self.words.title

    @property
    def remedy(self) -> str:
        """What to do; '' where nothing was found."""
        return "" if self.verdict == "ok" else self.mend or self.words.mend

    @property
    def count(self) -> str:
        """How many of how many."""
        return f"{len(self.found)} of {self.total}" if self.total else str(len(self.found) or "")


def judged(
    name: str,
    about: str,
    found: Sequence[Named],
    total: int,
    verdict: Verdict = "wrong",
    said: str = "",
    mend: str = "",
) -> Check:
    """A check that is ok where nothing was found."""
    return Check(name, about, verdict if found else "ok", tuple(found), total, said if found else "", mend)


@dataclass(frozen=True)
class Report:
    """All checks of some submissions to one data set.

    Attributes:
        checks: those of each submission, then those of the data set.
        measured: what was looked at, a sentence each.
    """

    checks: tuple[Check, ...]
    measured: tuple[str, ...]

    def of(self, verdict: Verdict) -> list[Check]:
        """The checks with this verdict."""
        return [check for check in self.checks if check.verdict == verdict]

    @property
    def is_wrong(self) -> bool:
        return bool(self.of("wrong"))

    @property
    def verdict(self) -> str:
        """The last line."""
        wrong, warnings, unknown = self.of("wrong"), self.of("warning"), self.of("unknown")
        parts = []
        if wrong:
            named = ", ".join(check.title for check in wrong)
            parts.append(f"wrong: {len(wrong)} of {len(self.checks)} checks ({named})")
        else:
            parts.append("nothing wrong")
        if warnings:
            parts.append(f"{len(warnings)} warning{'s' if len(warnings) > 1 else ''}")
        if unknown:
            parts.append(f"{len(unknown)} could not be told ({', '.join(check.title for check in unknown)})")
        return f"verdict: {', '.join(parts)}"

    def table(self) -> pd.DataFrame:
        """Everything that was found, a row each; columns :data:`COLUMNS`."""
        rows = [
            (check.about, check.words.title, check.verdict, one.set, one.id, one.what)
            for check in self.checks
            for one in check.found
        ]
        return pd.DataFrame(rows, columns=list(COLUMNS), dtype=str)
