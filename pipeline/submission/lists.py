"""Checks of the data set that a submission is held against: its lists of trials, and whatever else would stop a run."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from pipeline.datasets.listings import Trial, TrialList, Utterance
from pipeline.datasets.trial_checks import find_contradictions as contradictions_of
from pipeline.datasets.trial_checks import rewrite_command
from pipeline.faults import Faults
from pipeline.names import few
from pipeline.submission.findings import Check, Named, Verdict, judged

MIXED = re.compile(r"(^|_)mixed(_|$)")
"""Sets of both sexes are called so (VoicePrivacy Challenge 2026)."""

_ELSEWHERE = ("label", "labels", "duplicate-trial")
"""Kinds of faults that have a check of their own here."""

Known = Mapping[tuple[str, str], Utterance]
"""Utterances by (set, utterance)."""


def checks(lists: Sequence[TrialList], known: Known, faults: Faults) -> list[Check]:
    """All of them."""
    return [data(faults), labels(lists, known), duplicates(lists), contradictions(lists), cross_sex(lists, known)]


def data(faults: Faults) -> Check:
    """What else would keep a run from using the data set."""
    left = [fault for fault in faults.found if fault.kind not in _ELSEWHERE]
    found = [Named(fault.where, "", fault.what) for fault in left]
    mend = "; ".join(faults.kinds[kind][1] for kind in dict.fromkeys(fault.kind for fault in left))
    return judged("data", "", found, 0, mend=mend)


def _name(trial: Trial) -> str:
    return f"{trial.model} {trial.utterance}"


def labels(lists: Sequence[TrialList], known: Known) -> Check:
    """Pairs of one speaker that are labelled nontarget, and of two that are labelled target."""
    found, same, judged_trials = [], 0, 0
    for made in lists:
        wrong, judged_here = contradictions_of(made, known)
        judged_trials += judged_here
        for trial, speaker in wrong:
            same += not trial.target
            what = f"of speaker {speaker}, labelled target" if trial.target else "of one speaker, labelled nontarget"
            found.append(Named(_name(trial), made.name, f"{what} ({trial.where})"))
    said = f"{same} pairs of one speaker are labelled nontarget, {len(found) - same} pairs of two speakers target"
    return judged("labels", "", found, judged_trials, said=f"{said}{_by_set(found)}")


def _by_set(found: Sequence[Named]) -> str:
    counts = Counter(one.set for one in found)
    return f" ({', '.join(f'{name}: {count}' for name, count in sorted(counts.items()))})"


def _pairs(made: TrialList) -> dict[tuple[str, str], list[Trial]]:
    pairs: dict[tuple[str, str], list[Trial]] = defaultdict(list)
    for trial in made.trials:
        pairs[trial.model, trial.utterance].append(trial)
    return pairs


def duplicates(lists: Sequence[TrialList]) -> Check:
    """Pairs that stand twice with one label."""
    found, total, files = [], 0, []
    for made in lists:
        for several in _pairs(made).values():
            total += 1
            counts = Counter(trial.target for trial in several)
            if max(counts.values()) > 1:
                files.append(made.where)
                found.append(Named(_name(several[0]), made.name, f"{len(several)} times, first {several[0].where}"))
    mend = "; ".join(rewrite_command(file, '!seen[$1 " " $2 " " $3]++') for file in dict.fromkeys(files))
    return judged("duplicates", "", found, total, said=f"pairs that stand twice or more{_by_set(found)}", mend=mend)


def contradictions(lists: Sequence[TrialList]) -> Check:
    """Pairs that stand with both labels."""
    found, total = [], 0
    for made in lists:
        for several in _pairs(made).values():
            total += 1
            if len({trial.target for trial in several}) > 1:
                found.append(Named(_name(several[0]), made.name, " and ".join(trial.where for trial in several)))
    return judged("contradictions", "", found, total, said=f"pairs that are target and nontarget{_by_set(found)}")


def cross_sex(lists: Sequence[TrialList], known: Known) -> Check:
    """Lists over both sexes in which no pair crosses them: wrong if the name says that they are mixed."""
    found, wrong = [], False
    sexes = {row.speaker: row.sex for row in known.values() if row.speaker}
    for made in lists:
        models = {line.model for line in made.enrolment if line.model}
        tried = {row.utterance: row.sex for (of, _), row in known.items() if of == made.name}
        is_mixed = bool(MIXED.search(made.name))
        there = {*tried.values()} - {"u"}
        enrolled = {sexes.get(model, "u") for model in models} - {"u"}
        if len(there | enrolled) < 2 and not is_mixed:
            continue
        crossing = sum({sexes.get(trial.model), tried.get(trial.utterance)} == {"f", "m"} for trial in made.trials)
        # Enrolment sets hold both sexes for lists of either.
        if crossing or (len(there) < 2 and not is_mixed):
            continue
        what = "is called mixed, and" if is_mixed else "has trial utterances of both sexes, and"
        if is_mixed and len(there) == 1:
            what = f"is called mixed, holds utterances of sex {few(sorted(there))} alone, and"
        possible = _possible(models, sexes, tried)
        found.append(
            Named(
                made.name, made.name, f"{what} none of its {len(made.trials)} trials crosses sexes ({possible} could)"
            )
        )
        wrong = wrong or is_mixed
    verdict: Verdict = "wrong" if wrong else "warning"
    return judged("cross_sex", "", found, len(lists), verdict, said="; ".join(f"{one.set} {one.what}" for one in found))


def _possible(models: set[str], sexes: Mapping[str, str], tried: Mapping[str, str]) -> int:
    """How many pairs of a model and an utterance would cross sexes."""
    enrolled, there = Counter(sexes.get(model, "u") for model in models), Counter(tried.values())
    return enrolled["f"] * there["m"] + enrolled["m"] * there["f"]
