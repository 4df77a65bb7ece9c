"""Checks of lists of trials: root faults first and once each, and nothing that follows from one of them."""

from __future__ import annotations

import difflib
import shlex
from collections import defaultdict
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.faults import Faults
from pipeline.tables import text

if TYPE_CHECKING:
    from pipeline.datasets.corpus import Listed, Trial, TrialList

NEARLY_ALL, FEW = 0.9, 10
"""The share from which faults are one fault of the whole list, and the number below which they never are."""

_NAMES_COMPARED = 2000
_HINTS = 25
"""Unknown ids that get the nearest known one: looking for it takes its time."""


def check(made: TrialList, known: Mapping[tuple[str, str], Listed], faults: Faults) -> None:
    """Report what is wrong with a list of trials and its list of enrolment.

    An id that is not known is named once, with the nearest known one and the number of its trials; of trials with such an id
    nothing else is said. A set of which nothing could be read has been reported, and its list is not looked at.
    """
    enrolled = {utterance for in_set, utterance in known if in_set == made.enrolment_set}
    tried = {utterance for in_set, utterance in known if in_set == made.name}
    if enrolled:
        _check_enrolment(made, enrolled, faults)
    models = {line.model for line in made.enrolment} - {""}
    if not models:
        if not faults.found:
            faults.add("unknown-model", f"nobody is enrolled in {made.enrolment_set}", made.where)
        return
    if not tried or _swapped(made, models, tried, faults):
        return
    _check_ids(made, models, tried, faults)
    _check_labels(made, models, known, faults)


def nearest(name: str, known: Collection[str]) -> str:
    """``; did you mean 'X'?`` with the known id that is most like a name; '' if none is like it."""
    names: Collection[str] = known
    if len(names) > _NAMES_COMPARED:
        names = [one for one in names if one[:4] == name[:4] or one[-4:] == name[-4:]][:_NAMES_COMPARED]
    near = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean '{near[0]}'?" if near else ""


def invisible(kind: str, name: str, where: str, faults: Faults, path: Path | None = None) -> bool:
    """Report an id with characters that nobody can see; whether it has some.

    ``path`` is the folder or file that it comes from: then the command that renames that is given.
    """
    problem = text.not_an_id(name)
    if problem:
        command = f": {text.renamed(path)}" if path is not None else ""
        faults.add("bad-id", f"the {kind} '{name}' holds {problem}{command}", where)
    return bool(problem)


def _check_enrolment(made: TrialList, enrolled: Collection[str], faults: Faults) -> None:
    seen = set()
    for line in made.enrolment:
        if line.utterance in enrolled or line.utterance in seen:
            continue
        seen.add(line.utterance)
        if not invisible("utterance", line.utterance, line.where, faults):
            hint = nearest(line.utterance, enrolled) if len(seen) <= _HINTS else ""
            what = f"enrolment utterance '{line.utterance}' is not in {made.enrolment_set}{hint}"
            faults.add("unknown-utterance", what, line.where)


def _swapped(made: TrialList, models: Collection[str], tried: Collection[str], faults: Faults) -> bool:
    """Whether model and utterance stand in each other's column, which is then reported."""
    other = sum(trial.model in tried and trial.utterance in models for trial in made.trials)
    right = sum(trial.model in models and trial.utterance in tried for trial in made.trials)
    if not other or other < NEARLY_ALL * len(made.trials) or right >= other:
        return False
    faults.add(
        "columns",
        f"{other} of {len(made.trials)} lines are UTTERANCE MODEL instead of MODEL UTTERANCE, e.g. "
        f"{made.trials[0].model} {made.trials[0].utterance}: {rewritten(made.where, '{ t = $1; $1 = $2; $2 = t; print }')}",
        made.trials[0].where,
    )
    return True


def _check_ids(made: TrialList, models: Collection[str], tried: Collection[str], faults: Faults) -> None:
    strange: dict[tuple[str, str], list[Trial]] = defaultdict(list)
    first: dict[tuple[str, str], Trial] = {}
    for trial in made.trials:
        if trial.model not in models:
            strange["unknown-model", trial.model].append(trial)
        if trial.utterance not in tried:
            strange["unknown-utterance", trial.utterance].append(trial)
        before = first.setdefault((trial.model, trial.utterance), trial)
        if before is not trial and trial.model in models and trial.utterance in tried:
            what = f"the trial {trial.model} {trial.utterance} stands twice, first in {before.where}"
            faults.add("duplicate-trial", what, trial.where)
    for number, ((kind, name), several) in enumerate(strange.items()):
        is_model = kind == "unknown-model"
        if invisible("model" if is_model else "utterance", name, several[0].where, faults):
            continue
        hint = nearest(name, models if is_model else tried) if number < _HINTS else ""
        what = f"model '{name}' is not enrolled in {made.enrolment_set}" if is_model else (
            f"utterance '{name}' is not in {made.name}")  # fmt: skip
        count = f"{len(several)} trial{'s' if len(several) > 1 else ''}, this is the first"
        faults.add(kind, f"{what} ({count}){hint}", several[0].where)


def _check_labels(
    made: TrialList, models: Collection[str], known: Mapping[tuple[str, str], Listed], faults: Faults
) -> None:
    """Labels of the trials whose model and utterance are known; if nearly all are wrong, that is one fault."""
    judged, wrong = 0, []
    for trial in made.trials:
        row = known.get((made.name, trial.utterance))
        if trial.target is None or row is None or not row.speaker or trial.model not in models:
            continue
        judged += 1
        if trial.target != (trial.model == row.speaker):
            wrong.append((trial, row.speaker))
    if len(wrong) >= FEW and len(wrong) >= NEARLY_ALL * judged:
        trial, speaker = wrong[0]
        command = rewritten(made.where, '{ $3 = ($3 == "target") ? "nontarget" : "target"; print }')
        faults.add(
            "labels",
            f"{len(wrong)} of {judged} labels are the other way round, e.g. {trial.model} {trial.utterance} of the speaker "
            f"'{speaker}': target and nontarget stand for each other: {command}",
            trial.where,
        )
        return
    for trial, speaker in wrong:
        given, right = ("target", "nontarget") if trial.target else ("nontarget", "target")
        faults.add(
            "label",
            f"the trial {trial.model} {trial.utterance} is labelled {given}, but the speaker of the "
            f"utterance is '{speaker}', so it is {right}",
            trial.where,
        )


def rewritten(file: str, program: str) -> str:
    """The command that rewrites the lines of a list."""
    name = shlex.quote(file)
    return f"awk '{{ sub(/\\r$/, \"\") }} {program}' {name} > {name}.new && mv {name}.new {name}"
