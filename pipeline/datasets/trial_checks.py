"""Checks of lists of trials: root faults first and once each, and nothing that follows from one of them."""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from pipeline.datasets.listings import Trial, TrialList, Utterance, report_invisible
from pipeline.faults import Faults

NEARLY_ALL, FEW_FAULTS = 0.9, 10
"""The share from which faults are one fault of the whole list, and the number below which they never are."""

_NAMES_COMPARED = 2000

Rows = Mapping[tuple[str, str], Utterance]
"""Utterances by (set, utterance)."""


def check_trial_list(trial_list: TrialList, rows: Rows, faults: Faults) -> None:
    """Report what is wrong with a list of trials and its list of enrolment.

    An id that is not known is named once, with the nearest known one and the number of its trials; of trials with such an id
    nothing else is said. A set of which nothing could be read has been reported, and its list is not looked at.
    """
    enrolled = {utterance for in_set, utterance in rows if in_set == trial_list.enrolment_set}
    tried = {utterance for in_set, utterance in rows if in_set == trial_list.name}
    if enrolled:
        _check_enrolment(trial_list, enrolled, faults)
    models = {line.model for line in trial_list.enrolment} - {""}
    if not models:
        if not faults.found:
            faults.add("unknown-model", f"nobody is enrolled in {trial_list.enrolment_set}", trial_list.where)
        return
    if not tried or _report_swapped_columns(trial_list, models, tried, faults):
        return
    _check_ids(trial_list, models, tried, faults)
    _check_labels(trial_list, rows, faults)


def map_models(trial_list: TrialList, rows: Rows) -> dict[str, str]:
    """The speaker of each model, by the utterances that it consists of."""
    pairs = ((line.model, rows.get((trial_list.enrolment_set, line.utterance))) for line in trial_list.enrolment)
    return {model: row.speaker for model, row in pairs if row is not None}


def hint_nearest(name: str, ids: Collection[str]) -> str:
    """``; did you mean 'X'?`` with the known id that is most like a name; '' if none is like it."""
    near = [known for known in ids if known.casefold() == name.casefold()]
    if not near:
        alike = [known for known in ids if known[:4] == name[:4] or known[-4:] == name[-4:]]
        near = difflib.get_close_matches(
            name, (alike if len(ids) > _NAMES_COMPARED else list(ids))[:_NAMES_COMPARED], 1
        )
    return f"; did you mean '{near[0]}'?" if near else ""


def _check_enrolment(trial_list: TrialList, enrolled: Collection[str], faults: Faults) -> None:
    # The list of an enrolment set may belong to several lists of trials.
    reported = {fault.where for fault in faults.found if fault.kind in ("unknown-utterance", "bad-id")}
    places = {line.utterance: line.where for line in reversed(trial_list.enrolment) if line.utterance not in enrolled}
    if not reported.isdisjoint(places.values()):
        return
    strange = {("enrolment utterance", name): [where] for name, where in reversed(places.items())}
    _report_strange("unknown-utterance", strange, trial_list.enrolment_set, enrolled, faults)


def _report_strange(
    kind: str,
    strange: Mapping[tuple[str, str], Sequence[str]],
    set_name: str,
    candidates: Collection[str],
    faults: Faults,
) -> None:
    """Report ids, given as (what it is, id) with the places of their lines, that a set lacks: many of them as one fault."""
    first = [
        (what, name, places)
        for (what, name), places in strange.items()
        if not report_invisible(what, name, places[0], faults)
    ]
    many = len(first) > FEW_FAULTS
    for what, name, places in first[: 1 if many else None]:
        problem = f"'{name}' is not {'enrolled in' if what == 'model' else 'in'} {set_name}"
        lines = f" ({len(places)} trials, this is the first)" if len(places) > 1 else ""
        others = f", and so are {len(first) - 1} more" if many else ""
        faults.add(kind, f"{what} {problem}{lines}{others}{hint_nearest(name, candidates)}", places[0])


def _report_swapped_columns(
    trial_list: TrialList, models: Collection[str], tried: Collection[str], faults: Faults
) -> bool:
    """Whether model and utterance stand in each other's column, which is then reported."""
    first = trial_list.trials[0] if trial_list.trials else None
    other = sum(trial.model in tried and trial.utterance in models for trial in trial_list.trials)
    right = sum(trial.model in models and trial.utterance in tried for trial in trial_list.trials)
    if first is None or not other or other < NEARLY_ALL * len(trial_list.trials) or right >= other:
        return False
    faults.add(
        "columns",
        f"{other} of {len(trial_list.trials)} lines are UTTERANCE MODEL instead of MODEL UTTERANCE, e.g. {first.model} "
        f"{first.utterance}",
        first.where,
    )
    return True


def _check_ids(trial_list: TrialList, models: Collection[str], tried: Collection[str], faults: Faults) -> None:
    strange_models: dict[tuple[str, str], list[str]] = defaultdict(list)
    strange_utterances: dict[tuple[str, str], list[str]] = defaultdict(list)
    first: dict[tuple[str, str], Trial] = {}
    again: list[tuple[Trial, Trial]] = []
    for trial in trial_list.trials:
        if trial.model not in models:
            strange_models["model", trial.model].append(trial.where)
        if trial.utterance not in tried:
            strange_utterances["utterance", trial.utterance].append(trial.where)
        before = first.setdefault((trial.model, trial.utterance), trial)
        if before is not trial and trial.model in models and trial.utterance in tried:
            again.append((trial, before))
    _report_repeated(trial_list, again, faults)
    _report_strange("unknown-model", strange_models, trial_list.enrolment_set, models, faults)
    _report_strange("unknown-utterance", strange_utterances, trial_list.name, tried, faults)


def _report_repeated(trial_list: TrialList, again: Sequence[tuple[Trial, Trial]], faults: Faults) -> None:
    """Report trials that stand again, each with its first: one by one, or many of them as one fault of the list."""
    split = sum(trial.target != before.target for trial, before in again)
    many = len(again) >= FEW_FAULTS
    for trial, before in again[: 1 if many else None]:
        what = f"the trial {trial.model} {trial.utterance} stands twice"
        if many:
            what = f"{len(again)} lines of the list of {trial_list.name} repeat a pair, e.g. {trial.model} {trial.utterance}"
            what += f", {split} of them with the other label" if split else ""
        elif trial.target != before.target:
            what += " with both labels"
        faults.add("duplicate-trial", f"{what}, first in {before.where}", trial.where)


def _check_labels(trial_list: TrialList, rows: Rows, faults: Faults) -> None:
    """Report labels that contradict the speakers: one by one, or as one fault of the list."""
    whose = map_models(trial_list, rows)
    judged, wrong = 0, []
    for trial in trial_list.trials:
        row = rows.get((trial_list.name, trial.utterance))
        if trial.target is None or row is None or not row.speaker or trial.model not in whose:
            continue
        judged += 1
        if trial.target != (whose[trial.model] == row.speaker):
            wrong.append((trial, row.speaker))
    if len(wrong) < FEW_FAULTS:
        for trial, speaker in wrong:
            label = "target" if trial.target else "nontarget"
            what = f"the trial {trial.model} {trial.utterance} is labelled {label}, but the speaker of the utterance is '{speaker}'"
            faults.add("label", what, trial.where)
        return
    trial, speaker = wrong[0]
    example = f"e.g. {trial.model} {trial.utterance} of the speaker '{speaker}'"
    if len(wrong) >= NEARLY_ALL * judged:
        what = f"{len(wrong)} of {judged} labels are the other way round, {example}"
        faults.add("labels", f"{what}: target and nontarget stand for each other", trial.where)
        return
    missed = sum(not trial.target for trial, _ in wrong)
    both = [(missed, "same-speaker pairs are labelled nontarget"), (len(wrong) - missed, "pairs of two speakers are labelled target")]  # fmt: skip
    counts = " and ".join(f"{count} {words}" for count, words in both if count)
    faults.add("label", f"{counts} in the list of {trial_list.name} ({judged} labels), {example}", trial.where)
