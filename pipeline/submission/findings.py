"""What a check of a submission found, in which words, and the verdict over all checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from pipeline.faults import escape_unprintable

Verdict = Literal["ok", "warning", "wrong", "unknown"]
COLUMNS = ("about", "check", "verdict", "set", "id", "what")


@dataclass(frozen=True)
class Words:
    """Title, meaning and remedy of a check."""

    title: str
    means: str
    mend: str


WORDS = {
    "missing": Words(
        "missing files",
        "a run refuses the submission; with allow_partial=true it leaves the utterances out of every system, and numbers over fewer "
        "trials do not compare with others",
        "anonymise the utterances that are named and add their files",
    ),
    "extra": Words(
        "extra files",
        "nothing, for they are not used; but a file that was meant for an utterance is not used either",
        "take them away, or name them after their utterances",
    ),
    "unclear": Words(
        "ambiguous files",
        "a run refuses the submission: it would have to guess which file is meant",
        "keep one file for each utterance, in the folder itself",
    ),
    "unreadable": Words(
        "unreadable files",
        "a run refuses the submission, as for missing files",
        "write the files that are named once more",
    ),
    "silent": Words(
        "files without speech",
        "a run refuses the submission: silence has no speaker, and would count as perfect privacy",
        "look at what the anonymiser gave back for these utterances, and make them again",
    ),
    "duration": Words(
        "duration changed",
        "what was cut off is missing from privacy and utility alike; where the protocol asks for the length of the original, the "
        "submission breaks it",
        "pad or trim to the original's number of samples; files below half or above twice their length were cut off or run on",
    ),
    "header": Words(
        "wrong sampling rate in the header",
        "the speech plays too fast or too slow, and its voice is too high or too low: attackers miss it, which looks like privacy; a run "
        "refuses files with as many samples as their original at another rate",
        "write the files again with the rate that they were made at; if the lengths are meant, nothing",
    ),
    "rate": Words(
        "sampling rate changed",
        "files are resampled before features are taken; below 16 kHz they hold nothing above half their rate, where extractors listen too",
        "write files at the rate of the original",
    ),
    "bandwidth": Words(
        "narrow band",
        "extractors that were trained on 8 kHz of bandwidth hear a telephone, which looks like privacy",
        "give the system what it needs to write the whole band, or evaluate the originals cut to the same band beside it",
    ),
    "zeros": Words(
        "digital silence at the ends",
        "an extractor that does not trim exact zeros hears them: on VoicePrivacy 2024 that moves an EER by up to 2.8 points",
        "nothing, if trim_zeros=true is used as the challenge does; else write files without padding",
    ),
    "clipping": Words(
        "clipping",
        "clipped speech is used as it is: distortion hides voices and words, and files of floats above full scale depend on who reads them",
        "scale the waves down before they are written, and write 16-bit files",
    ),
    "alike": Words(
        "identical audio under two ids",
        "no number on such speech tells how private a system is: the same was given back for different speech",
        "look for a loader that mixes up names or an anonymiser that falls back on one file, and make the files again",
    ),
    "unprotected": Words(
        "files that are the original",
        "these utterances were not anonymised: privacy is that of the original for them, whatever their level, offset and format; a run "
        "refuses a system that leaves all of them so",
        "anonymise them; if the system passes what it cannot treat, say so beside the numbers",
    ),
    "others": Words(
        "original audio of another utterance",
        "names and recordings do not belong together, and nothing was anonymised",
        "look for a list that is shifted by a line, and make the files again",
    ),
    "second_run": Words(
        "second run that repeats the first",
        "what compares two runs compares recordings with themselves",
        "anonymise once more with other random numbers, unless the system draws none",
    ),
    "data": Words(
        "the data set itself",
        "a run refuses the data set before any compute",
        "mend the data set as said with each fault",
    ),
    "cross_sex": Words(
        "missing cross-sex trials",
        "without pairs across sexes the attacker is denied the easy non-targets that the protocol has: the EER comes out higher than it is "
        "defined to be, and two lists under one name do not compare",
        "add the pairs of a model and an utterance of the other sex, or name the set as the lists of one sex are named",
    ),
}


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
        name: key of :data:`WORDS`.
        about: the label of the submission; '' for the data set.
        verdict: ``unknown`` where it could not be told.
        findings: all that was found, in order.
        total: of how many.
        summary: what is to be said of all of it together.
        mend: what to do, where that is not always the same.
    """

    name: str
    about: str
    verdict: Verdict
    findings: tuple[Named, ...] = ()
    total: int = 0
    summary: str = ""
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
        return f"{len(self.findings)} of {self.total}" if self.total else str(len(self.findings) or "")


def make_check(
    name: str,
    about: str,
    findings: Sequence[Named],
    total: int,
    verdict: Verdict = "wrong",
    summary: str = "",
    mend: str = "",
) -> Check:
    """A check that is ok where nothing was found."""
    return Check(name, about, verdict if findings else "ok", tuple(findings), total, summary if findings else "", mend)


@dataclass(frozen=True)
class Report:
    """All checks of some submissions to one data set.

    Attributes:
        checks: those of each submission, then those of the data set.
        measured: what was looked at, a sentence each.
    """

    checks: tuple[Check, ...]
    measured: tuple[str, ...]

    def select(self, verdict: Verdict) -> list[Check]:
        """The checks with this verdict."""
        return [check for check in self.checks if check.verdict == verdict]

    @property
    def is_wrong(self) -> bool:
        return bool(self.select("wrong"))

    @property
    def verdict(self) -> str:
        """The last line."""
        wrong, warnings, unknown = self.select("wrong"), self.select("warning"), self.select("unknown")
        parts = []
        if wrong:
            titles = ", ".join(check.title for check in wrong)
            parts.append(f"wrong: {len(wrong)} of {len(self.checks)} checks ({titles})")
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
            (check.about, check.words.title, check.verdict, finding.set, finding.id, finding.what)
            for check in self.checks
            for finding in check.findings
        ]
        return pd.DataFrame(rows, columns=list(COLUMNS), dtype=str)
