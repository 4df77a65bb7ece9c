"""The protocols of the challenges' editions, and a folder held against them."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.datasets.listings import Listing, TrialList
from pipeline.datasets.vpc.layout import Layout, is_raw
from pipeline.files import find_assets
from pipeline.names import join_few, normalise_name

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


def protocols_folder() -> Path:
    """Where the protocols lie."""
    return find_assets("data_manifests") / "protocols"


def read_protocol(edition: str) -> Mapping[str, Expected]:
    """The sets of an edition by name, in the order of the table."""
    sets = {}
    for path in sorted(protocols_folder().glob("*.csv")):
        with path.open(encoding="utf-8", newline="") as stream:
            for row in csv.DictReader(stream):
                if row["edition"] == edition:
                    sets[row["set"]] = Expected(
                        row["set"],
                        row["role"],
                        row["sex"],
                        *(int(row[name]) if row[name] else None for name in ("speakers", "utterances")),
                        *(int(row[name]) if row[name] else None for name in ("target", "nontarget")),
                    )
    return sets


def find_editions(name: str) -> list[str]:
    """The editions that enrol or try the utterances of a set, be it as a part of another; unions and sets for other ends are of all."""
    roles = ("enrolment", "trials", "part")
    return [
        edition for edition in TITLES if (row := read_protocol(edition).get(name)) is not None and row.role in roles
    ]


def check_structure(
    layout: Layout,
    protocol: Mapping[str, Expected],
    available: Collection[str],
    wanted: Sequence[str] | None,
    strict: bool,
    listing: Listing,
) -> None:
    """Report sets of the edition that are missing, and sets that only other editions have; with ``wanted`` nothing else is asked for."""
    if wanted is not None:
        chosen = [name for name in map(normalise_name, wanted) if name in available and name not in protocol]
        foreign = [name for name in chosen if find_editions(name)]
        missing: list[str] = []
    else:
        foreign = [
            name
            for name in layout.sets
            if name not in protocol
            and (find_editions(name) if not is_raw(name) else not any(row.startswith(f"{name}_") for row in protocol))
        ]
        # What is neither there nor cut out of what is.
        present = {*layout.sets, *available}
        present |= {f"{name.rpartition('_trials_')[0]}_enrolls" for name in available if name not in layout.sets}
        missing = [
            name for name, row in protocol.items() if row.role in ("enrolment", "trials") and name not in present
        ]
    unknown = [name for name in available if name not in protocol and name not in foreign]
    if unknown and wanted is None:
        listing.limits.append(f"no protocol says what these sets are to hold: {join_few(unknown)}")
    title = TITLES[layout.edition]
    if layout.is_sure and layout.edition != layout.recognised and (foreign or missing):
        what = (
            f"dataset.edition={layout.edition}, but {layout.marks} is a mark of {TITLES[layout.recognised]}: "
            f"dataset.edition={layout.recognised}"
        )
        _report_deviation("edition", what, layout.data, strict, listing)
    if foreign:
        editions = {name: find_editions(f"{name}_enrolls" if is_raw(name) else name) for name in foreign}
        named = [f"{name} (of {join_few(of)})" if of else name for name, of in editions.items()]
        own_sets = [name for name in available if name in protocol and protocol[name].role == "trials"]
        choice = (
            f"; those of the edition alone: 'dataset.sets=[{','.join(own_sets)}]'"
            if own_sets and wanted is None
            else ""
        )
        _report_deviation("edition", f"{title} has no set {', '.join(named)}{choice}", layout.data, strict, listing)
    for name in missing:
        _report_deviation("protocol", f"the set {name} of {title} is missing", layout.data / name, strict, listing)


def check_counts(layout: Layout, protocol: Mapping[str, Expected], strict: bool, listing: Listing) -> None:
    """Report sets and lists that were read and have other counts than the protocol says, and lists without trials across sexes."""
    speakers: dict[str, set[str]] = {}
    utterances: dict[str, set[str]] = {}
    for row in listing.utterances:
        speakers.setdefault(row.set, set()).add(row.speaker)
        utterances.setdefault(row.set, set()).add(row.utterance)
    sizes = {name: (len(speakers[name]), len(utterances[name])) for name in utterances}
    _check_set_sexes(layout, protocol, strict, listing)
    if listing.faults.has("another-set"):
        return
    for name, size in sizes.items():
        expected = protocol.get(name)
        if expected is None:
            continue
        numbers = [(size[0], expected.speakers, "speakers"), (size[1], expected.utterances, "utterances")]
        for trial_list in [trial_list for trial_list in listing.lists if trial_list.name == name]:
            who = {row.utterance: row.speaker for row in listing.utterances if row.set == name}
            pairs = {(trial.model, trial.utterance) for trial in trial_list.trials}
            target = sum(who.get(utterance) == model for model, utterance in pairs)
            numbers.append((target, expected.target, "target trials"))
            numbers.append((len(pairs) - target, expected.nontarget, "non-target trials"))
        off = [f"{count} {what} instead of {most}" for count, most, what in numbers if most not in (None, count)]
        if off:
            _report_deviation("protocol", f"{name} has {', '.join(off)}", _find_folder(layout, name), strict, listing)
    # The tables of an enrolment set may hold more than its list names.
    listed: dict[str, set[str]] = {}
    for trial_list in listing.lists:
        listed.setdefault(trial_list.enrolment_set, set()).update(line.utterance for line in trial_list.enrolment)
    for name, ids in listed.items():
        enrolled, due = len(ids), protocol[name].utterances if name in protocol else None
        if due not in (None, enrolled) and enrolled != sizes.get(name, (0, 0))[1]:  # else it has been said of the set
            what = f"the list of {name} enrols {enrolled} of {due} utterances"
            _report_deviation("protocol", what, _find_folder(layout, name), strict, listing)
    for trial_list in listing.lists:
        if (
            trial_list.name in protocol
            and protocol[trial_list.name].sex == "mixed"
            and not _has_cross_sex(trial_list, listing)
        ):
            what = (
                f"the list of {trial_list.name} has no trial across sexes, of which the edition's list is to have many"
            )
            _report_deviation("protocol", what, trial_list.where, strict, listing)


def _report_deviation(kind: str, what: str, where: Path | str, strict: bool, listing: Listing) -> None:
    if strict:
        listing.faults.add(kind, what, where)
    else:
        # The commands of a refusal are no part of what readers of a table have to know.
        listing.limits.append(f"deviates from the protocol: {re.split(r'; those of|: dataset', what)[0]}")


def _find_folder(layout: Layout, name: str) -> Path:
    raw = re.sub(r"_(enrolls|trials_\w+)$", "", name)
    return layout.sets.get(name, layout.sets.get(raw, layout.data))


def _check_set_sexes(layout: Layout, protocol: Mapping[str, Expected], strict: bool, listing: Listing) -> None:
    """Report sets of one sex that hold speakers of the other: where nobody is of the set's own, it is another set, which no setting
    excuses."""
    of_set: dict[str, dict[str, str]] = {}
    for row in listing.utterances:
        if row.sex in ("f", "m"):
            of_set.setdefault(row.set, {})[row.speaker] = row.sex
    for name, sexes in of_set.items():
        due = protocol[name].sex if name in protocol else ""
        wrong = sum(sex != due for sex in sexes.values()) if due in ("f", "m") else 0
        what = f"{wrong} of {len(sexes)} speakers of {name} are not of its sex, {due}"
        if wrong == len(sexes):
            what += ": another set stands in its place, or its spk2gender is wrong"
            listing.faults.add("another-set", what, _find_folder(layout, name))
        elif wrong:
            _report_deviation("protocol", what, _find_folder(layout, name), strict, listing)


def _has_cross_sex(trial_list: TrialList, listing: Listing) -> bool:
    """Whether a list compares a model of one known sex with an utterance of the other."""
    sex = {row.speaker: row.sex for row in listing.utterances if row.set in (trial_list.name, trial_list.enrolment_set)}
    who = {row.utterance: row.speaker for row in listing.utterances if row.set == trial_list.name}
    return any(
        {sex.get(trial.model, "u"), sex.get(who.get(trial.utterance, ""), "u")} == {"f", "m"}
        for trial in trial_list.trials
    )
