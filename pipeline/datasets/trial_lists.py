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
from pipeline.datasets.corpus import Enrolled, Listed, Listing, Trial, TrialList
from pipeline.datasets.lists import FEW
from pipeline.datasets.records import Record, records
from pipeline.faults import Faults
from pipeline.names import composed, legal_id
from pipeline.tables import labels

TRIALS = re.compile(r"trials?\d?([_.-].*)?|(veri|list)_test.*|vox.*[_-](o|e|h|test|val)([_.(-].*)?", re.IGNORECASE)
ENROLMENT = re.compile(r"enr?ol\w*([.-].*)?", re.IGNORECASE)
"""Names of files that hold lists, as toolkits and corpora call them."""
_SUFFIXES = ("", ".txt", ".lst", ".list", ".kaldi", ".trials", ".trl", ".map", ".csv", ".tsv", ".scp")


def beside(folder: Path, called: re.Pattern[str]) -> list[Path]:
    """The lists in a folder, or in its folders ``trials`` and ``lists``."""
    places = [place for place in (folder, folder / "trials", folder / "lists") if place.is_dir()]
    there = [path for place in places for path in sorted(place.iterdir()) if called.fullmatch(path.name)]
    found = [path for path in there if path.suffix in _SUFFIXES and "md5" not in path.name and path.is_file()]
    # ESPnet's tables of pairs with the files of each side, which trial_label names already.
    return [path for path in found if path.suffix != ".scp"] or found[:1]


def read(path: Path, faults: Faults, notes: list[str]) -> list[Record]:
    """The trials of a list as MODEL UTTERANCE [LABEL], with a note where that is not how they stand."""
    lines = list(records(path, faults, range(2, 4)))
    if lines and all(len(line.fields) == 2 and line.fields[0].count("*") == 1 for line in lines):
        lines = [Record([*line.fields[0].split("*"), line.fields[1]], line.where) for line in lines]
        if labels.pair(line.fields[2] for line in lines) is None:  # a table of files
            lines = [Record(line.fields[:2], line.where) for line in lines]
    if not lines or any(len(line.fields) != 3 for line in lines):
        return lines
    place = next((place for place in (2, 0) if labels.pair(line.fields[place] for line in lines)), 2)
    pair = labels.pair(line.fields[place] for line in lines)
    if pair is None or (place == 2 and {line.fields[2] for line in lines} <= {"target", "nontarget"}):
        return lines
    shape = "MODEL UTTERANCE LABEL" if place else "LABEL MODEL UTTERANCE"
    notes.append(f"{path}: lines are {shape}, {pair[0]} is read as target and {pair[1]} as nontarget")
    made = []
    for line in lines:
        label = "target" if line.fields[place].lower() == pair[0] else "nontarget"
        made.append(Record([*(line.fields[:2] if place else line.fields[1:]), label], line.where))
    return made


def as_trials(lines: Sequence[Record], faults: Faults) -> list[Trial]:
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
    if len(strange) > FEW:
        count, (label, (first, *_)) = sum(map(len, strange.values())), next(iter(strange.items()))
        what = f"{count} lines have something else than target or nontarget in their third column, e.g. '{label}'"
        faults.add("malformed", what, first.where)
        return trials
    for label, wrong in strange.items():
        more = f" ({len(wrong)} lines, this is the first)" if len(wrong) > 1 else ""
        faults.add("malformed", f"the label '{label}' is neither target nor nontarget{more}", wrong[0].where)
    return trials


def names_of(paths: Sequence[Path]) -> list[str]:
    """What the trial sets of some lists are called behind the name of their set: ``trials`` where there is one."""
    found: list[str] = []
    for path in paths:
        stem = re.sub(r"\W+", "_", path.stem if path.suffix in _SUFFIXES else path.name)
        name = stem if re.fullmatch(r"trials(_\w+)?", stem) else "trials" if len(paths) == 1 else f"trials_{stem}"
        found.append(name if name not in found else f"{name}_{len(found)}")
    return found


def cut(listing: Listing, name: str, rows: Sequence[Listed], root: Path) -> bool:
    """Cut the utterances of a tree by the lists in its root, or in the folder above that, as corpora bring them.

    A list is used if all its files are there. If some list is, others are named; otherwise one of which some files are there, or
    that lies in the root, is a fault.

    Returns:
        Whether there are lists, so that no halves are to be made.
    """
    own = beside(root, TRIALS)
    known = {row.utterance: row.utterance for row in rows}
    for row in rows:
        if row.path is not None:
            known[composed(str(row.path.relative_to(root).with_suffix("")))] = row.utterance
    used: dict[Path, list[Record]] = {}
    partly: list[str] = []
    for path in [*own, *(one for one in beside(root.parent, TRIALS) if one.parent == root.parent)]:
        slips, notes = Faults(), list[str]()
        lines, absent = _resolved(read(path, slips, notes), known)
        if slips.found:
            why = f"{slips.found[0].what} ({slips.found[0].where})"
            listing.limits.append(f"{path.name} is not read as a list of trials: {why}")
        elif lines and not absent:
            listing.notes += notes
            used[path] = lines
        elif lines or path in own:
            partly.append(
                f"{path.name} names {len(absent)} files that are not there, e.g. {min(absent, default='none')}"
            )
    if not used:
        for said in partly:
            listing.faults.add("unread-list", said, root)
        return bool(partly)
    if partly:
        listing.limits.append(f"lists of trials that are not used: {'; '.join(partly)}")
    speakers = {row.utterance: row.speaker for row in rows}
    targets = [line for lines in used.values() for line in lines if line.fields[2:] == ["target"]]
    if targets and not any(speakers[line.fields[0]] == speakers[line.fields[1]] for line in targets):
        what = f"the folders are no speakers by {next(iter(used))}: all its targets stand in two of them, e.g. {' '.join(targets[0].fields)}"
        listing.faults.add("no-speaker-folder", what, root)
        return True
    by_utterance(listing, name, rows, {f"{name}_{end}": lines for end, lines in zip(names_of([*used]), used.values())})
    return True


def by_utterance(listing: Listing, name: str, rows: Sequence[Listed], trials: Mapping[str, list[Record]]) -> None:
    """Cut a set by lists of utterance against utterance: each on a left side is a model of its own, in the set ``NAME_enrolls``."""
    where = {line.fields[0]: line.where for lines in trials.values() for line in reversed(lines)}
    enrolled = [Enrolled(row.utterance, row.utterance, where[row.utterance]) for row in rows if row.utterance in where]
    parts = {f"{name}_enrolls": ("enrolment", set(where))}
    parts |= {set_name: ("trial", {line.fields[1] for line in lines}) for set_name, lines in trials.items()}
    left = {row.utterance for row in rows}.difference(*(ids for _, ids in parts.values()))
    if left:
        listing.limits.append(
            f"{len(left)} of {len(rows)} recordings of {name} stand in no list of trials and are not evaluated"
        )
    for set_name, (role, ids) in parts.items():
        members = [row for row in rows if row.utterance in ids]
        listing.utterances += [
            replace(row, set=set_name, role=role, position=place) for place, row in enumerate(members)
        ]
    for set_name, lines in trials.items():
        made = as_trials(lines, listing.faults)
        listing.lists.append(
            TrialList(set_name, f"{name}_enrolls", enrolled, made, lines[0].where.rpartition(":")[0] if lines else name)
        )
    listing.notes.append(f"the lists of {name} compare utterances: each that is enrolled is a model of its own")


def _resolved(lines: Sequence[Record], known: Mapping[str, str]) -> tuple[list[Record], set[str]]:
    """The trials of a list of which both utterances are there, and what is not; it is named by id, or by path with any folders
    above the root."""
    found, absent = [], set()
    for line in lines:
        ids = [_utterance(entry, known) for entry in line.fields[:2]]
        absent |= {entry for entry, utterance in zip(line.fields, ids) if utterance is None}
        if None not in ids:
            found.append(Record([*filter(None, ids), *line.fields[2:]], line.where))
    return found, absent


def _utterance(entry: str, known: Mapping[str, str]) -> str | None:
    name = entry[: entry.rindex(".")] if entry.lower().endswith(audio.EXTENSIONS) else entry
    while name not in known and "/" in name:
        name = name.partition("/")[2]
    return known.get(name, known.get(legal_id(name)))
