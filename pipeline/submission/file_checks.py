"""Checks of names and lists: files that are missing, too many or unclear; the data set that a submission is held against."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pipeline.datasets import external_copy
from pipeline.datasets.listings import TrialList, Utterance
from pipeline.faults import Faults
from pipeline.names import join_few
from pipeline.submission.findings import Check, Named, Verdict, make_check
from pipeline.submission.side import Side

MIXED = re.compile(r"(^|_)mixed(_|$)")
"""Sets of both sexes are called so (VoicePrivacy Challenge 2026)."""
_ROOTS = ("root", "swapped", "names", "own-table")
"""Kinds of faults from which missing files follow."""


def check_files(side: Side) -> list[Check]:
    """All of them."""
    return [check_missing(side), check_extra(side), check_unclear(side)]


def check_missing(side: Side) -> Check:
    """Utterances without a file."""
    listed = side.files
    findings = [
        Named(str(row["utterance"]), str(row["set"]), f"no file {side.copy.pattern.wanted(row)}.ext under {place}")
        for row, place in listed.missing
    ]
    homeless = [row for row in side.wanted if row["set"] not in listed.places]
    if listed.places or not listed.faults.has("ambiguous"):
        findings += [Named(str(row["utterance"]), str(row["set"]), "its set has no folder") for row in homeless]
    text = "; ".join(_describe_missing(side, Counter(finding.set for finding in findings)))
    return make_check("missing", side.label, findings, len(side.wanted), summary=text, mend=_mend_missing(side))


def _describe_missing(side: Side, lacking: Counter[str]) -> Iterator[str]:
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
    remedies = [kinds.kinds[kind][1] for kind in _ROOTS if kinds.has(kind)]
    if not remedies and external_copy.find_elsewhere(side.files.missing, side.files.unused, side.copy.pattern):
        remedies = [kinds.kinds["missing-audio"][1]]
    return "; ".join(remedies)


def check_extra(side: Side) -> Check:
    """Audio files that belong to no utterance of the sets that are looked at."""
    folder, pattern = side.files.folder, side.copy.pattern
    # Several files of one utterance are none too many but unclear, and one in the folder of another set is missing in its own.
    meant = {pattern.wanted(row) for row, _ in (*side.files.refused, *side.files.missing)}
    findings = [
        Named(os.path.relpath(path, folder), _name_set(side, path), "belongs to no utterance")
        for path in side.files.unused
        if pattern.found(path.stem) not in meant
    ]
    return make_check("extra", side.label, findings, len(findings) + len(side.files.chosen), "warning")


def _name_set(side: Side, path: Path) -> str:
    return next(
        (name for name, place in side.files.places.items() if place in path.parents and place != side.files.folder), ""
    )


def check_unclear(side: Side) -> Check:
    """Utterances with several files, or with a link that leads out of the folder; folders of several systems."""
    faults = side.files.faults
    findings = [Named(str(row["utterance"]), str(row["set"]), what) for row, what in side.files.refused]
    if not side.files.places:
        findings += [
            Named(str(side.files.folder), "", fault.what) for fault in faults.found if fault.kind == "ambiguous"
        ]
    mend = "; ".join(faults.kinds[kind][1] for kind in ("ambiguous", "leaves-root") if faults.has(kind))
    return make_check("unclear", side.label, findings, len(side.wanted), mend=mend)


# ------------------------------------------------------------------------------------------------------- the data set


Utterances = Mapping[tuple[str, str], Utterance]
"""By (set, utterance)."""


def check_data(faults: Faults) -> Check:
    """What would keep a run from using the data set: its lists, labels that contradict the speakers, trials that stand twice."""
    findings = [Named(fault.where, "", fault.what) for fault in faults.found]
    mend = "; ".join(faults.kinds[kind][1] for kind in dict.fromkeys(fault.kind for fault in faults.found))
    return make_check("data", "", findings, 0, mend=mend)


def check_cross_sex(lists: Sequence[TrialList], utterances: Utterances) -> Check:
    """Lists over both sexes in which no pair crosses them: wrong if the name says that they are mixed."""
    findings, wrong = [], False
    sexes = {row.speaker: row.sex for row in utterances.values() if row.speaker}
    for trials in lists:
        models = {line.model for line in trials.enrolment if line.model}
        tried = {row.utterance: row.sex for (name, _), row in utterances.items() if name == trials.name}
        is_mixed = bool(MIXED.search(trials.name))
        tried_sexes = {*tried.values()} - {"u"}
        enrolled = {sexes.get(model, "u") for model in models} - {"u"}
        if len(tried_sexes | enrolled) < 2 and not is_mixed:
            continue
        crossing = sum({sexes.get(trial.model), tried.get(trial.utterance)} == {"f", "m"} for trial in trials.trials)
        # Enrolment sets hold both sexes for lists of either.
        if crossing or (len(tried_sexes) < 2 and not is_mixed):
            continue
        what = "is called mixed, and" if is_mixed else "has trial utterances of both sexes, and"
        if is_mixed and len(tried_sexes) == 1:
            what = f"is called mixed, holds utterances of sex {join_few(sorted(tried_sexes))} alone, and"
        possible = _count_possible(models, sexes, tried)
        findings.append(
            Named(
                trials.name,
                trials.name,
                f"{what} none of its {len(trials.trials)} trials crosses sexes ({possible} could)",
            )
        )
        wrong = wrong or is_mixed
    verdict: Verdict = "wrong" if wrong else "warning"
    return make_check(
        "cross_sex",
        "",
        findings,
        len(lists),
        verdict,
        summary="; ".join(f"{finding.set} {finding.what}" for finding in findings),
    )


def _count_possible(models: set[str], sexes: Mapping[str, str], tried: Mapping[str, str]) -> int:
    """How many pairs of a model and an utterance would cross sexes."""
    enrolled, tried_counts = Counter(sexes.get(model, "u") for model in models), Counter(tried.values())
    return enrolled["f"] * tried_counts["m"] + enrolled["m"] * tried_counts["f"]
