"""Lists of trials in the forms that corpora and toolkits give them, found beside the data.

Lines are ``MODEL UTTERANCE [LABEL]``, ``LABEL UTTERANCE UTTERANCE`` (VoxCeleb's ``veri_test2.txt``) or ``UTTERANCE*UTTERANCE LABEL`` (ESPnet's
``trial_label``), and labels are any pair of words of :mod:`pipeline.tables.labels`. Where a list compares utterances with
utterances, each on its left side is a model of its own.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pipeline import audio
from pipeline.datasets.kaldi_tables import Record, read_records
from pipeline.datasets.listings import Enrolled, Listing, Trial, TrialList, Utterance
from pipeline.datasets.trial_checks import FEW_FAULTS
from pipeline.faults import Faults
from pipeline.names import make_id, normalise_name
from pipeline.tables import text

TRIALS_FILE = re.compile(r"trials?\d?([_.-].*)?|(veri|list)_test.*|vox.*[_-](o|e|h|test|val)([_.(-].*)?", re.IGNORECASE)

ENROLMENT_FILE = re.compile(r"enr?ol\w*([.-].*)?", re.IGNORECASE)
"""Names of files that hold lists, as toolkits and corpora call them."""

_SUFFIXES = ("", ".txt", ".lst", ".list", ".kaldi", ".trials", ".trl", ".map", ".csv", ".tsv", ".scp")


def find_lists(folder: Path, called: re.Pattern[str]) -> list[Path]:
    """The lists in a folder, or in its folders ``trials`` and ``lists``."""
    places = [place for place in (folder, folder / "trials", folder / "lists") if place.is_dir()]
    paths = [path for place in places for path in sorted(place.iterdir()) if called.fullmatch(path.name)]
    files = [path for path in paths if path.suffix in _SUFFIXES and "md5" not in path.name and path.is_file()]
    # ESPnet's tables of pairs with the files of each side, which trial_label names already.
    return [path for path in files if path.suffix != ".scp"] or files[:1]


def read_trials(path: Path, faults: Faults, notes: list[str]) -> list[Record]:
    """The trials of a list as MODEL UTTERANCE [LABEL], with a note where that is not how they stand."""
    lines = list(read_records(path, faults, range(2, 4)))
    if lines and all(len(line.fields) == 2 and line.fields[0].count("*") == 1 for line in lines):
        lines = [Record([*line.fields[0].split("*"), line.fields[1]], line.where) for line in lines]
        if text.find_label_pair(line.fields[2] for line in lines) is None:  # a table of files
            lines = [Record(line.fields[:2], line.where) for line in lines]
    if not lines or any(len(line.fields) != 3 for line in lines):
        return lines
    place = next((place for place in (2, 0) if text.find_label_pair(line.fields[place] for line in lines)), 2)
    pair = text.find_label_pair(line.fields[place] for line in lines)
    if pair is None or (place == 2 and {line.fields[2] for line in lines} <= {"target", "nontarget"}):
        return lines
    shape = "MODEL UTTERANCE LABEL" if place else "LABEL MODEL UTTERANCE"
    notes.append(f"{path}: lines are {shape}, {pair[0]} is read as target and {pair[1]} as nontarget")
    usual = []
    for line in lines:
        label = "target" if line.fields[place].lower() == pair[0] else "nontarget"
        usual.append(Record([*(line.fields[:2] if place else line.fields[1:]), label], line.where))
    return usual


def make_trials(lines: Sequence[Record], faults: Faults) -> list[Trial]:
    """Lines MODEL UTTERANCE [LABEL] as trials; a label that is none is a fault, and so are many of them."""
    trials, strange = [], defaultdict[str, list[Record]](list)
    for line in lines:
        label = line.fields[2] if len(line.fields) > 2 else None
        if len(line.fields) != len(lines[0].fields):
            what = f"{len(line.fields)} fields, but the first line has {len(lines[0].fields)}"
            faults.add("malformed", what, line.where)
        elif label not in (None, "target", "nontarget"):
            strange[str(label)].append(line)
        else:
            trials.append(
                Trial(line.fields[0], line.fields[1], None if label is None else label == "target", line.where)
            )
    if len(strange) > FEW_FAULTS:
        count, (label, (first, *_)) = sum(map(len, strange.values())), next(iter(strange.items()))
        what = f"{count} lines have something else than target or nontarget in their third column, e.g. '{label}'"
        faults.add("malformed", what, first.where)
        return trials
    for label, wrong in strange.items():
        more = f" ({len(wrong)} lines, this is the first)" if len(wrong) > 1 else ""
        faults.add("malformed", f"the label '{label}' is neither target nor nontarget{more}", wrong[0].where)
    return trials


def name_sets(paths: Sequence[Path]) -> list[str]:
    """What the trial sets of some lists are called behind the name of their set: ``trials`` where there is a single list."""
    names: list[str] = []
    for path in paths:
        stem = re.sub(r"\W+", "_", path.stem if path.suffix in _SUFFIXES else path.name)
        name = stem if re.fullmatch(r"trials(_\w+)?", stem) else "trials" if len(paths) == 1 else f"trials_{stem}"
        names.append(name if name not in names else f"{name}_{len(names)}")
    return names


def cut_tree_by_lists(listing: Listing, name: str, rows: Sequence[Utterance], root: Path) -> bool:
    """Cut the utterances of a tree by the lists in its root, or in the folder above that, as corpora bring them.

    A list counts if all its files are there. If some list does, others are named; otherwise one of which some files are there, or
    that lies in the root, is a fault.

    Returns:
        Whether there are lists, so that no halves are to be made.
    """
    inside = find_lists(root, TRIALS_FILE)
    complete: dict[Path, list[Record]] = {}
    incomplete: list[str] = []
    for path in [*inside, *(path for path in find_lists(root.parent, TRIALS_FILE) if path.parent == root.parent)]:
        slips, notes = Faults(), list[str]()
        lines, absent = _resolve_ids(read_trials(path, slips, notes), rows, root)
        if slips.found and path in inside:
            why = f"{slips.found[0].what} ({slips.found[0].where})"
            listing.limits.append(f"{path.name} is not read as a list of trials: {why}")
        elif lines and not absent:
            listing.notes += notes
            complete[path] = lines
        elif not slips.found and (lines or path in inside):
            example = f", e.g. {min(absent)}" if absent else ""
            incomplete.append(f"the list {path.name} names {len(absent)} files that are not there{example}")
    for what in incomplete if not complete else ():
        listing.faults.add("unread-list", what, root)
    if incomplete and complete:
        listing.limits.append(f"lists of trials that are not evaluated: {'; '.join(incomplete)}")
    speakers = {row.utterance: row.speaker for row in rows}
    targets = [line for lines in complete.values() for line in lines if line.fields[2:] == ["target"]]
    if targets and not any(speakers[line.fields[0]] == speakers[line.fields[1]] for line in targets):
        what = f"all targets of {next(iter(complete))} stand in two folders, e.g. {' '.join(targets[0].fields[:2])}"
        listing.faults.add("no-speaker-folder", f"{what}: the folders are no speakers", root)
    elif complete:
        names = [f"{name}_{ending}" for ending in name_sets([*complete])]
        cut_set_by_lists(listing, name, rows, dict(zip(names, complete.values())))
    return bool(complete or incomplete)


def cut_set_by_lists(
    listing: Listing, name: str, rows: Sequence[Utterance], trials: Mapping[str, list[Record]]
) -> None:
    """Cut a set by lists of utterance against utterance: each on a left side is a model of its own, in the set ``NAME_enrolls``."""
    where = {line.fields[0]: line.where for lines in trials.values() for line in reversed(lines)}
    enrolled = [Enrolled(row.utterance, row.utterance, where[row.utterance]) for row in rows if row.utterance in where]
    members = {f"{name}_enrolls": ("enrolment", set(where))}
    members |= {trial_set: ("trial", {line.fields[1] for line in lines}) for trial_set, lines in trials.items()}
    spare = {row.utterance for row in rows}.difference(*(ids for _, ids in members.values()))
    if spare:
        what = f"{len(spare)} of {len(rows)} recordings of {name} stand in no list of trials"
        listing.limits.append(f"{what} and are not evaluated")
    for set_name, (role, ids) in members.items():
        for place, row in enumerate(row for row in rows if row.utterance in ids):
            listing.utterances.append(replace(row, set=set_name, role=role, position=place))
    for trial_set, lines in trials.items():
        path = lines[0].where.rpartition(":")[0] if lines else name
        listed = TrialList(trial_set, f"{name}_enrolls", enrolled, make_trials(lines, listing.faults), path)
        listing.lists.append(listed)
    listing.notes.append(f"the lists of {name} compare utterances: each that is enrolled is a model of its own")


def _resolve_ids(lines: Sequence[Record], rows: Sequence[Utterance], root: Path) -> tuple[list[Record], set[str]]:
    """The trials of a list of which both utterances are there, and what is not there.

    A list names utterances by their ids, or by their paths below the root or below any folder above it.
    """
    names = {row.utterance: row.utterance for row in rows}
    names |= {
        normalise_name(str(row.path.relative_to(root).with_suffix(""))): row.utterance for row in rows if row.path
    }
    resolved, absent = [], set()
    for line in lines:
        ids = [_find_utterance(entry, names) for entry in line.fields[:2]]
        absent |= {entry for entry, utterance in zip(line.fields, ids) if not utterance}
        if all(ids):
            resolved.append(Record([*ids, *line.fields[2:]], line.where))
    return resolved, absent


def _find_utterance(entry: str, names: Mapping[str, str]) -> str:
    name = entry[: entry.rindex(".")] if entry.lower().endswith(audio.EXTENSIONS) else entry
    # Folders above the root may go, but never so many that the file's own name is left: others may be called so.
    while name not in names and name.count("/") > 1:
        name = name.partition("/")[2]
    return names.get(name, names.get(make_id(name), ""))
