"""Checks of lists of trials: root faults first and once each, and nothing that follows from one of them."""

from __future__ import annotations

import difflib
import functools
import re
import shlex
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pipeline.datasets.listings import Trial, TrialList, Utterance, report_invisible
from pipeline.faults import Faults, escape_unprintable
from pipeline.files import write_replace_command
from pipeline.names import describe_difference, fold_lookalikes, join_few
from pipeline.tables import text

NEARLY_ALL, FEW_FAULTS = 0.9, 10
"""The share from which faults are one fault of the whole list, and the number below which they never are."""


_NAMES_COMPARED = 2000


_ALIKE = 2
"""Names from which one can tell that all were changed alike."""


_HINTS = 25
"""Unknown ids that get the nearest known one: looking for it takes its time."""


def check_trial_list(trial_list: TrialList, rows: Mapping[tuple[str, str], Utterance], faults: Faults) -> None:
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
    wrong, judged = find_contradictions(trial_list, rows)
    follow = _labels_may_follow(trial_list, wrong, map_models(trial_list, rows))
    _check_ids(trial_list, models, tried, rows, follow, faults)
    if not _report_strange_models(trial_list, wrong, rows, faults):
        _check_labels(trial_list, wrong, judged, follow, faults)


def find_contradictions(
    trial_list: TrialList, rows: Mapping[tuple[str, str], Utterance]
) -> tuple[list[tuple[Trial, str]], int]:
    """The trials whose label contradicts the speakers, each with the speaker of its utterance, and how many have been looked at."""
    whose = map_models(trial_list, rows)
    judged, wrong = 0, []
    for trial in trial_list.trials:
        row = rows.get((trial_list.name, trial.utterance))
        if trial.target is None or row is None or not row.speaker or trial.model not in whose:
            continue
        judged += 1
        if trial.target != (whose[trial.model] == row.speaker):
            wrong.append((trial, row.speaker))
    return wrong, judged


def map_models(trial_list: TrialList, rows: Mapping[tuple[str, str], Utterance]) -> dict[str, str]:
    """The speaker of each model, by the utterances that it consists of."""
    pairs = ((line.model, rows.get((trial_list.enrolment_set, line.utterance))) for line in trial_list.enrolment)
    return {model: row.speaker for model, row in pairs if row is not None}


def _labels_may_follow(trial_list: TrialList, wrong: Sequence[tuple[Trial, str]], whose: Mapping[str, str]) -> bool:
    """Whether labels that contradict the speakers can only be slips of the list: the same pair stands with the other label too, or a
    pair of one speaker is labelled nontarget and nobody else's target. Elsewhere the speakers may be what is wrong.

    ``whose`` is the speaker of each model.
    """
    labels: dict[tuple[str, str], set[bool | None]] = defaultdict(set)
    claimed: dict[str, set[str]] = defaultdict(set)
    for trial in trial_list.trials if wrong else ():
        labels[trial.model, trial.utterance].add(trial.target)
        if trial.target:
            claimed[trial.utterance].add(whose.get(trial.model, ""))
    return bool(wrong) and all(
        len(labels[trial.model, trial.utterance]) > 1 or (not trial.target and claimed[trial.utterance] <= {speaker})
        for trial, speaker in wrong
    )


def _report_strange_models(
    trial_list: TrialList, wrong: Sequence[tuple[Trial, str]], rows: Mapping[tuple[str, str], Utterance], faults: Faults
) -> bool:
    """Whether models with wrong targets are called like no speaker of the trial set, which is then reported."""
    speakers = {row.speaker for (name, _), row in rows.items() if name == trial_list.name}
    whose = map_models(trial_list, rows)
    strange = sorted({trial.model for trial, _ in wrong if trial.target and whose[trial.model] not in speakers})
    if not strange:
        return False
    trial, speaker = next((trial, speaker) for trial, speaker in wrong if trial.model in strange)
    faults.add(
        "models",
        f"{len(strange)} models of {trial_list.enrolment_set} are targets of speakers of other names, e.g. {trial.model} of '{speaker}' in "
        f"{trial.utterance}: {join_few(strange)}",
        trial.where,
    )
    return True


def hint_nearest(name: str, ids: Collection[str]) -> str:
    """``; did you mean 'X'?`` with the known id that is most like a name; '' if none is like it.

    An id in other capitals comes first, then one that is a part of the name or of which the name is a part, then one of like letters.
    """
    twin = ""
    if not (name.isascii() and all(map(str.isascii, ids))):
        twin = next((other for other in ids if fold_lookalikes(other) == fold_lookalikes(name)), "")
    if twin:
        return f"; it looks like '{twin}', and is not: {describe_difference(name, twin)}"
    folded = name.casefold()
    near = sorted(candidate for candidate in ids if candidate.casefold() == folded)
    if not near:
        parts = [
            candidate
            for candidate in ids
            if _is_part(candidate.casefold(), folded) or _is_part(folded, candidate.casefold())
        ]
        # The longest part of the name, or the shortest of which it is one: that adds or takes away least.
        least = min((abs(len(candidate) - len(name)) for candidate in parts), default=0)
        near = [candidate for candidate in parts if abs(len(candidate) - len(name)) == least]
        near = near if len(near) == 1 else []
    if not near:
        names: Collection[str] = ids
        if len(names) > _NAMES_COMPARED:
            names = [candidate for candidate in names if candidate[:4] == name[:4] or candidate[-4:] == name[-4:]][
                :_NAMES_COMPARED
            ]
        near = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean '{near[0]}'?" if near else ""


def _is_part(part: str, longer: str) -> bool:
    """Whether an id is a part of another, and neither a number nor a word is cut in two."""
    start = longer.find(part) if part else -1
    while start >= 0:
        stop = start + len(part)
        before, behind = longer[:start][-1:], longer[stop:][:1]
        if not _is_one_token(before, part[0]) and not _is_one_token(part[-1], behind):
            return True
        start = longer.find(part, start + 1)
    return False


def _is_one_token(before: str, behind: str) -> bool:
    return (before.isdigit() and behind.isdigit()) or (before.isalpha() and behind.isalpha())


def _find_renaming(names: Collection[str], ids: Collection[str]) -> tuple[str, str, str] | None:
    """What one change makes known ids of all names: in words, as an expression of awk for the field ``@``, and an example.

    Where two changes do, both stand in the words, and the expression is ''. None if there is no such change, if some names are
    known, or if there are too few names to tell.
    """
    ids = set(ids)
    if len(names) < _ALIKE or not ids.isdisjoint(names):
        return None
    first = min(names)
    if text.not_an_id(first):
        return None
    changes: dict[str, tuple[str, str, str]] = {}
    for candidate in sorted(ids, key=lambda candidate: (-len(candidate), candidate)):
        for change in _list_changes(first, candidate):
            if candidate not in changes and all(change.apply(name) in ids for name in names):
                changes[candidate] = change.description, change.awk, f"{first} for {candidate}"
        if len(changes) > 1:
            (description, _, example), (other, _, other_example) = list(changes.values())[:2]
            return f"{description}, or {other}", "", f"{example} or {other_example.rpartition(' ')[2]}"
    return next(iter(changes.values()), None)


@dataclass(frozen=True)
class _Change:
    """One change of names: what stands before and behind them is taken away or put there, or capitals are changed.

    Attributes:
        apply: what becomes of a name; '' if it is not one to be changed so.
        description: in words, how the names differ.
        awk: the same as an expression of awk for the field ``@``.
    """

    apply: Callable[[str], str]
    description: str
    awk: str


def _list_changes(name: str, candidate: str) -> Iterator[_Change]:
    """How a name may become a known id, by affixes or capitals."""
    for before, behind in _list_affixes(candidate, name):
        awk = " ".join(filter(None, [_quote_awk(before), "@", _quote_awk(behind)]))
        yield _Change(
            functools.partial(_add_affixes, before, behind), f"lack {_describe_affixes(before, behind)} them", awk
        )
    for before, behind in _list_affixes(name, candidate):
        cut = [f"length({_quote_awk(affix)})" if affix else "0" for affix in (before, behind)]
        awk = f"substr(@, {cut[0]} + 1, length(@) - {cut[0]} - {cut[1]})"
        yield _Change(
            functools.partial(_strip_affixes, before, behind), f"have {_describe_affixes(before, behind)} them", awk
        )
    for function, word in ((str.lower, "tolower"), (str.upper, "toupper")):
        if name.isascii() and function(name) == candidate:
            yield _Change(function, "differ in upper and lower case", f"{word}(@)")


def _list_affixes(longer: str, part: str) -> Iterator[tuple[str, str]]:
    """What stands before and behind a part of a text, for each place where it stands.

    Letters beyond ASCII have several forms, and awk may count them in bytes: such affixes are left out.
    """
    start = longer.find(part) if part and part != longer else -1
    while start >= 0:
        before, behind = longer[:start], longer[start + len(part) :]
        if (before + behind).isascii():
            yield before, behind
        start = longer.find(part, start + 1)


def _add_affixes(before: str, behind: str, name: str) -> str:
    return f"{before}{name}{behind}"


def _strip_affixes(before: str, behind: str, name: str) -> str:
    fits = name.startswith(before) and name.endswith(behind) and len(name) > len(before) + len(behind)
    return name[len(before) : len(name) - len(behind)] if fits else ""


def _describe_affixes(before: str, behind: str) -> str:
    places = ((before, "before"), (behind, "behind"))
    return " and ".join(f"'{affix}' {place}" for affix, place in places if affix)


def _quote_awk(affix: str) -> str:
    """A text as awk writes it between the quotes of a shell; '' for none."""
    return '"' + re.sub(r"""["'\\@]""", lambda match: f"\\{ord(match[0]):03o}", affix) + '"' if affix else ""


def _check_enrolment(trial_list: TrialList, enrolled: Collection[str], faults: Faults) -> None:
    names = {line.utterance for line in trial_list.enrolment}
    changed = _find_renaming(names, enrolled)
    if changed:
        line = trial_list.enrolment[0]
        description, awk, example = changed
        what = f"all {len(names)} enrolled utterances of {trial_list.enrolment_set} {description}, e.g. {example}"
        _report_once("columns", what + _change_field(line.where.rpartition(":")[0], "$1", awk), line.where, faults)
        return
    seen = set()
    for line in trial_list.enrolment:
        if line.utterance in enrolled or line.utterance in seen:
            continue
        seen.add(line.utterance)
        if not report_invisible("utterance", line.utterance, line.where, faults):
            hint = hint_nearest(line.utterance, enrolled) if len(seen) <= _HINTS else ""
            what = f"enrolment utterance '{line.utterance}' is not in {trial_list.enrolment_set}{hint}"
            _report_once("unknown-utterance", what, line.where, faults)


def _report_once(kind: str, what: str, where: str, faults: Faults) -> None:
    """Report a fault of an enrolment set, which may belong to several lists."""
    if not any(
        (fault.kind, fault.what, fault.where) == (kind, escape_unprintable(what), escape_unprintable(where))
        for fault in faults.found
    ):
        faults.add(kind, what, where)


def _report_swapped_columns(
    trial_list: TrialList, models: Collection[str], tried: Collection[str], faults: Faults
) -> bool:
    """Whether model and utterance stand in each other's column, which is then reported."""
    other = sum(trial.model in tried and trial.utterance in models for trial in trial_list.trials)
    right = sum(trial.model in models and trial.utterance in tried for trial in trial_list.trials)
    if not other or other < NEARLY_ALL * len(trial_list.trials) or right >= other:
        return False
    faults.add(
        "columns",
        f"{other} of {len(trial_list.trials)} lines are UTTERANCE MODEL instead of MODEL UTTERANCE, e.g. "
        f"{trial_list.trials[0].model} {trial_list.trials[0].utterance}: {rewrite_command(trial_list.where, '{ t = $1; $1 = $2; $2 = t; print }')}",
        trial_list.trials[0].where,
    )
    return True


def _check_ids(
    trial_list: TrialList,
    models: Collection[str],
    tried: Collection[str],
    rows: Mapping[tuple[str, str], Utterance],
    follow: bool,
    faults: Faults,
) -> None:
    strange: dict[tuple[str, str], list[Trial]] = defaultdict(list)
    first: dict[tuple[str, str], Trial] = {}
    again: list[tuple[Trial, Trial]] = []
    for trial in trial_list.trials:
        if trial.model not in models:
            strange["unknown-model", trial.model].append(trial)
        if trial.utterance not in tried:
            strange["unknown-utterance", trial.utterance].append(trial)
        before = first.setdefault((trial.model, trial.utterance), trial)
        if before is not trial and trial.model in models and trial.utterance in tried:
            again.append((trial, before))
    _report_repeated(trial_list, again, follow, faults)
    alike = {
        "unknown-model": _report_renaming(
            trial_list, "model", [trial.model for trial in trial_list.trials], models, faults
        ),
        "unknown-utterance": _report_renaming(
            trial_list, "utterance", [trial.utterance for trial in trial_list.trials], tried, faults
        ),
    }
    lacking = {name for kind, name in strange if kind == "unknown-model"}
    other = not alike["unknown-model"] and _report_other_pair(trial_list, lacking, rows, faults)
    for number, ((kind, name), trials) in enumerate(strange.items()):
        if alike[kind] or (other and kind == "unknown-model"):
            continue
        is_model = kind == "unknown-model"
        if report_invisible("model" if is_model else "utterance", name, trials[0].where, faults):
            continue
        hint = hint_nearest(name, models if is_model else tried) if number < _HINTS else ""
        what = f"model '{name}' is not enrolled in {trial_list.enrolment_set}" if is_model else (
            f"utterance '{name}' is not in {trial_list.name}")  # fmt: skip
        count = f"{len(trials)} trial{'s' if len(trials) > 1 else ''}, this is the first"
        faults.add(kind, f"{what} ({count}){hint}", trials[0].where)


def _report_other_pair(
    trial_list: TrialList, lacking: set[str], rows: Mapping[tuple[str, str], Utterance], faults: Faults
) -> bool:
    """Whether most models of a list are enrolled nowhere beside it, as one fault, which is then reported: a set of another pair stands
    there, and to mend lists or sets by hand would make a protocol that nobody has."""
    models = {trial.model for trial in trial_list.trials}
    if len(models) < _ALIKE or 2 * len(lacking) <= len(models):
        return False
    speakers: dict[str, set[str]] = defaultdict(set)
    for row in rows.values():
        if row.role == "enrolment" and row.set != trial_list.enrolment_set:
            speakers[row.set].add(row.speaker)
    meant = [name for name, members in sorted(speakers.items()) if members.issuperset(lacking)]
    hint = f"; they are speakers of {' and of '.join(meant)}" if meant else ""
    enrolled = {line.model for line in trial_list.enrolment}
    if not meant and (same := [name for name, members in sorted(speakers.items()) if enrolled <= members]):
        hint = f"; {trial_list.enrolment_set} has the speakers of {' and of '.join(same)}"
    count = "none" if len(lacking) == len(models) else f"only {len(models) - len(lacking)}"
    faults.add(
        "another-set",
        f"{count} of the {len(models)} models of the list of {trial_list.name} are enrolled in {trial_list.enrolment_set}, e.g. not {min(lacking)}{hint}: "
        f"{trial_list.enrolment_set} and {trial_list.name} are not of one pair, and another set stands in the place of one of them",
        trial_list.where,
    )
    return True


def _report_repeated(trial_list: TrialList, again: Sequence[tuple[Trial, Trial]], follow: bool, faults: Faults) -> None:
    """Report trials that stand again, each with its first: one by one, or many of them as one fault of the list.

    Of lines that contradict each other the command keeps one without a label where labels may follow from the speakers, else both.
    """
    if not again:
        return
    program = '!seen[$1 " " $2]++ { print $1, $2 }' if follow else '!seen[$1 " " $2 " " $3]++'
    command = f": {rewrite_command(trial_list.where, program)}"
    if len(again) < FEW_FAULTS:
        for trial, before in again:
            what = f"the trial {trial.model} {trial.utterance} stands twice"
            if trial.target != before.target and not follow:
                what += f" with both labels, first in {before.where}: keep the line whose label is right"
            else:
                both = " with both labels" if trial.target != before.target else ""
                what, command = f"{what}{both}, first in {before.where}{command}", ""
            faults.add("duplicate-trial", what, trial.where)
        return
    trial, before = again[0]
    pairs = {(trial.model, trial.utterance) for trial, _ in again}
    split = {(trial.model, trial.utterance) for trial, before in again if trial.target != before.target}
    also = f", {len(split)} of them with both labels" if split else ""
    faults.add(
        "duplicate-trial",
        f"{len(pairs)} pairs of the list of {trial_list.name} stand more than once{also}, e.g. {trial.model} {trial.utterance}, first in "
        f"{before.where}{command}",
        trial.where,
    )


def _report_renaming(
    trial_list: TrialList, what: str, ids: Sequence[str], candidates: Collection[str], faults: Faults
) -> bool:
    """Whether one change of the ids of a column makes known ones of all, which is then reported."""
    changed = _find_renaming(set(ids), candidates)
    if changed is None:
        return False
    description, awk, example = changed
    command = _change_field(trial_list.where, "$1" if what == "model" else "$2", awk)
    faults.add(
        "columns",
        f"all {len(set(ids))} {what}s of the list of {trial_list.name} {description}, e.g. {example}{command}",
        trial_list.trials[0].where,
    )
    return True


def _change_field(file: str, field: str, awk: str) -> str:
    """``: COMMAND`` that changes a field of each line; where there is no expression of awk, that it cannot be told which is meant."""
    if not awk:
        return "; which of the two is meant cannot be told: write the ids in full"
    program = f"{{ {field} = {awk.replace('@', field)}; print }}"
    return f": {rewrite_command(file, program)}"


def _check_labels(
    trial_list: TrialList, wrong: Sequence[tuple[Trial, str]], judged: int, follow: bool, faults: Faults
) -> None:
    """Report labels that contradict the speakers: one by one, or as one fault of the list."""
    if not wrong:
        return
    trial, speaker = wrong[0]
    leave = f": {rewrite_command(trial_list.where, '{ print $1, $2 }')}" if follow else ""
    if len(wrong) >= FEW_FAULTS and len(wrong) >= NEARLY_ALL * judged:
        command = rewrite_command(trial_list.where, '{ $3 = ($3 == "target") ? "nontarget" : "target"; print }')
        faults.add(
            "labels",
            f"{len(wrong)} of {judged} labels are the other way round, e.g. {trial.model} {trial.utterance} of the speaker "
            f"'{speaker}': target and nontarget stand for each other: {command}",
            trial.where,
        )
        return
    if len(wrong) >= FEW_FAULTS:
        missed = sum(not trial.target for trial, _ in wrong)
        both = [
            (missed, "same-speaker pairs are labelled nontarget"),
            (len(wrong) - missed, "pairs of two speakers are labelled target"),
        ]
        description = " and ".join(f"{count} {words}" for count, words in both if count)
        faults.add(
            "label",
            f"{description} in the list of {trial_list.name} ({judged} labels), e.g. {trial.model} {trial.utterance} of the speaker '{speaker}'"
            f"{'; this leaves the labels to follow from the speakers' if leave else ''}{leave}",
            trial.where,
        )
        return
    leave = f"; this leaves all labels to follow from the speakers{leave}" if leave else ""
    for trial, speaker in wrong:
        label, right = ("target", "nontarget") if trial.target else ("nontarget", "target")
        faults.add(
            "label",
            f"the trial {trial.model} {trial.utterance} is labelled {label}, but the speaker of the "
            f"utterance is '{speaker}', so it is {right}{leave}",
            trial.where,
        )
        leave = ""


def rewrite_command(file: str, program: str) -> str:
    """The command that rewrites the lines of a list, and keeps the old one beside it."""
    new = shlex.quote(f"{file}.new")
    return write_replace_command(file, f"awk '{{ sub(/\\r$/, \"\") }} {program}' {shlex.quote(file)} > {new}")
