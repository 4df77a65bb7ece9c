"""The protocols of the challenges' editions, and a folder held against them."""

from __future__ import annotations

import csv
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.assets import assets
from pipeline.datasets.listings import Listing, TrialList
from pipeline.datasets.vpc.layout import Layout, is_raw
from pipeline.files import exchange
from pipeline.names import composed, few

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
    return assets("data_manifests") / "protocols"


def read_protocol(edition: str) -> Mapping[str, Expected]:
    """The sets of an edition by name, in the order of the table."""
    found = {}
    for path in sorted(protocols_folder().glob("*.csv")):
        with path.open(encoding="utf-8", newline="") as stream:
            for row in csv.DictReader(stream):
                if row["edition"] == edition:
                    found[row["set"]] = Expected(
                        row["set"],
                        row["role"],
                        row["sex"],
                        *(int(row[name]) if row[name] else None for name in ("speakers", "utterances")),
                        *(int(row[name]) if row[name] else None for name in ("target", "nontarget")),
                    )
    return found


def find_editions(name: str) -> list[str]:
    """The editions that enrol or try the utterances of a set, be it as a part of another; unions and sets for other ends are of all."""
    roles = ("enrolment", "trials", "part")
    return [
        edition for edition in TITLES if (row := read_protocol(edition).get(name)) is not None and row.role in roles
    ]


_TABLES = "wav.scp utt2spk spk2utt spk2gender utt2dur text"


def describe_swap(enrolment: Path, trials: Path) -> str:
    """What is wrong where the lists say that an enrolment and a trial folder stand in each other's place; '' where they do not."""
    holds = [(folder / name).exists() for folder in (enrolment, trials) for name in ("enrolls", "trials")]
    if holds != [False, True, True, False]:
        return ""
    return (
        f"{enrolment.name} holds the list of trials and {trials.name} that of enrolment: {exchange(enrolment, trials)}"
    )


def check_structure(
    found: Layout,
    protocol: Mapping[str, Expected],
    available: Collection[str],
    wanted: Sequence[str] | None,
    strict: bool,
    listing: Listing,
) -> None:
    """Report sets of the edition that are missing, and sets that only other editions have; with ``wanted`` nothing else is asked for."""
    if wanted is not None:
        asked = [name for name in map(composed, wanted) if name in available and name not in protocol]
        foreign = [name for name in asked if find_editions(name)]
        missing: list[str] = []
    else:
        foreign = _list_foreign(found, protocol)
        missing = _list_missing(found, protocol, available)
    unknown = [name for name in available if name not in protocol and name not in foreign]
    if unknown and wanted is None:
        listing.limits.append(f"no protocol says what these sets are to hold: {few(unknown)}")
    title = TITLES[found.edition]
    if found.is_sure and found.edition != found.recognised and (foreign or missing):
        what = (
            f"dataset.edition={found.edition}, but {found.marks} is a mark of {TITLES[found.recognised]}: "
            f"dataset.edition={found.recognised}"
        )
        _report_deviation("edition", what, found.data, strict, listing)
    if foreign:
        ours = [name for name in available if name in protocol and protocol[name].role == "trials"]
        choice = f"; those of the edition alone: 'dataset.sets=[{','.join(ours)}]'" if ours and wanted is None else ""
        _report_deviation(
            "edition",
            f"{title} has no set {', '.join(map(_name_editions, foreign))}{choice}",
            found.data,
            strict,
            listing,
        )
    for name in missing:
        _report_deviation("protocol", f"the set {name} of {title} is missing", found.data / name, strict, listing)


def check_counts(found: Layout, protocol: Mapping[str, Expected], strict: bool, listing: Listing) -> None:
    """Report sets and lists that were read and have other counts than the protocol says, and lists without trials across sexes."""
    speakers: dict[str, set[str]] = {}
    utterances: dict[str, set[str]] = {}
    for row in listing.utterances:
        speakers.setdefault(row.set, set()).add(row.speaker)
        utterances.setdefault(row.set, set()).add(row.utterance)
    sizes = {name: (len(speakers[name]), len(utterances[name])) for name in utterances}
    for made in listing.lists:
        _report_swapped_sizes(found, made, sizes, protocol, listing)
    _check_set_sexes(found, sizes, protocol, strict, listing)
    if listing.faults.has("swapped"):
        return
    for name, size in sizes.items():
        expected = protocol.get(name)
        if expected is None:
            continue
        numbers = [(size[0], expected.speakers, "speakers"), (size[1], expected.utterances, "utterances")]
        numbers += [
            number for made in listing.lists if made.name == name for number in _count_labels(made, expected, listing)
        ]
        off = [f"{count} {what} instead of {most}" for count, most, what in numbers if most not in (None, count)]
        if off:
            _report_deviation("protocol", f"{name} has {', '.join(off)}", _find_folder(found, name), strict, listing)
    for name, enrolled in _count_enrolled(listing).items():
        due = protocol[name].utterances if name in protocol else None
        if due not in (None, enrolled) and enrolled != sizes.get(name, (0, 0))[1]:  # else it has been said of the set
            what = f"the list of {name} enrols {enrolled} of {due} utterances"
            _report_deviation("protocol", what, _find_folder(found, name), strict, listing)
    for made in listing.lists:
        if made.name in protocol and protocol[made.name].sex == "mixed" and not _has_cross_sex(made, listing):
            what = f"the list of {made.name} has no trial across sexes, of which the edition's list is to have many"
            _report_deviation("protocol", what, made.where, strict, listing)


def _report_deviation(kind: str, what: str, where: Path | str, strict: bool, listing: Listing) -> None:
    if strict:
        listing.faults.add(kind, what, where)
    else:
        # The commands of a refusal are no part of what readers of a table have to know.
        listing.limits.append(f"deviates from the protocol: {re.split(r'; those of|: dataset', what)[0]}")


# Which sets ----------------------------------------------------------------------------------------------------------


def _list_foreign(found: Layout, protocol: Mapping[str, Expected]) -> list[str]:
    """Sets that are there and that only other editions have."""
    return [
        name
        for name in found.sets
        if name not in protocol
        and (find_editions(name) if not is_raw(name) else not any(row.startswith(f"{name}_") for row in protocol))
    ]


def _list_missing(found: Layout, protocol: Mapping[str, Expected], available: Collection[str]) -> list[str]:
    """Enrolment and trial sets of the edition that are not there and cannot be cut out of what is."""
    cut = {f"{name.rpartition('_trials_')[0]}_enrolls" for name in available if name not in found.sets}
    return [
        name
        for name, row in protocol.items()
        if row.role in ("enrolment", "trials") and name not in found.sets and name not in available and name not in cut
    ]


def _name_editions(name: str) -> str:
    editions = find_editions(f"{name}_enrolls" if is_raw(name) else name)
    return f"{name} (of {few(editions)})" if editions else name


def _find_folder(found: Layout, name: str) -> Path:
    raw = re.sub(r"_(enrolls|trials_\w+)$", "", name)
    return found.sets.get(name, found.sets.get(raw, found.data))


# Of which sex --------------------------------------------------------------------------------------------------------


def _check_set_sexes(
    found: Layout,
    sizes: Mapping[str, tuple[int, int]],
    protocol: Mapping[str, Expected],
    strict: bool,
    listing: Listing,
) -> None:
    """Report sets of one sex that hold speakers of the other: where nobody is of the set's own, it is another set, which no setting
    excuses."""
    of_set: dict[str, dict[str, str]] = {}
    for row in listing.utterances:
        if row.sex in ("f", "m"):
            of_set.setdefault(row.set, {})[row.speaker] = row.sex
    due = {name: protocol[name].sex for name in of_set if name in protocol and protocol[name].sex in ("f", "m")}
    wrong = {name: sum(sex != due[name] for sex in of_set[name].values()) for name in due}
    others = [name for name, count in wrong.items() if count == len(of_set[name])]
    for name in [name for name, count in wrong.items() if count]:
        what = f"{name} holds {_describe_people(wrong[name], due[name])}"
        if name not in others:
            what += f" beside {len(of_set[name]) - wrong[name]} of its own sex"
            _report_deviation("protocol", what, _find_folder(found, name), strict, listing)
            continue
        twin = re.sub("_trials_[fm]", f"_trials_{_OTHER_SEX[due[name]]}", name)
        kind = "another-set"
        if twin in protocol and _has_size(sizes[name], protocol[name]) and not _has_size(sizes[name], protocol[twin]):
            what += f", but has the speakers and utterances of {name}: correct the sexes in its spk2gender"
        elif twin not in others:
            what += f" alone: another set stands in its place, perhaps {twin}"
        elif due[name] == "f":
            what += f" and {twin} {_describe_people(wrong[twin], due[twin])}: the sets are exchanged"
            if name in found.sets and twin in found.sets:
                kind, what = "swapped", f"{what}: {exchange(found.sets[name], found.sets[twin])}"
            else:
                what += ", or the lists that they are cut by"
        else:
            continue  # said of its twin
        listing.faults.add(kind, what, _find_folder(found, name))


_OTHER_SEX = {"f": "m", "m": "f"}


def _describe_people(count: int, due: str) -> str:
    """How many speakers who are not of the sex that is due, in words."""
    one, many = ("man", "men") if due == "f" else ("woman", "women")
    return f"{count} {one if count == 1 else many}"


def _has_size(size: tuple[int, int], expected: Expected) -> bool:
    return size == (expected.speakers, expected.utterances)


# How many ------------------------------------------------------------------------------------------------------------


def _count_labels(made: TrialList, expected: Expected, listing: Listing) -> list[tuple[int, int | None, str]]:
    """The numbers of pairs of one and of two speakers in a list, each pair once, and what they should be."""
    who = {row.utterance: row.speaker for row in listing.utterances if row.set == made.name}
    pairs = {(trial.model, trial.utterance) for trial in made.trials}
    target = sum(who.get(utterance) == model for model, utterance in pairs)
    return [
        (target, expected.target, "target trials"),
        (len(pairs) - target, expected.nontarget, "non-target trials"),
    ]


def _count_enrolled(listing: Listing) -> dict[str, int]:
    """How many utterances the lists enrol, by the enrolment set: its tables may hold more than its list names."""
    ids: dict[str, set[str]] = {}
    for made in listing.lists:
        ids.setdefault(made.enrolment_set, set()).update(line.utterance for line in made.enrolment)
    return {name: len(found) for name, found in ids.items()}


def _has_cross_sex(made: TrialList, listing: Listing) -> bool:
    """Whether a list compares a model of one known sex with an utterance of the other."""
    sex = {row.speaker: row.sex for row in listing.utterances if row.set in (made.name, made.enrolment_set)}
    who = {row.utterance: row.speaker for row in listing.utterances if row.set == made.name}
    return any(
        {sex.get(trial.model, "u"), sex.get(who.get(trial.utterance, ""), "u")} == {"f", "m"} for trial in made.trials
    )


def _report_swapped_sizes(
    found: Layout,
    made: TrialList,
    sizes: Mapping[str, tuple[int, int]],
    protocol: Mapping[str, Expected],
    listing: Listing,
) -> None:
    """Report an enrolment and a trial set of which each has the speakers and utterances of the other."""
    both = (made.enrolment_set, made.name)
    if not all(name in sizes and name in protocol and name in found.sets for name in both):
        return
    due = [(protocol[name].speakers, protocol[name].utterances) for name in both]
    if due[0] == due[1] or [sizes[name] for name in both] != due[::-1]:
        return
    one, other = (shlex.quote(str(found.sets[name])) for name in both)
    listing.faults.add(
        "swapped",
        f"{both[0]} holds the {sizes[both[0]][0]} speakers and {sizes[both[0]][1]} utterances of {both[1]}, and the other way round: "
        f"for t in {_TABLES}; do [ ! -e {one}/$t ] || mv {one}/$t {one}/$t.swap; [ ! -e {other}/$t ] || mv {other}/$t {one}/$t; "
        f"[ ! -e {one}/$t.swap ] || mv {one}/$t.swap {other}/$t; done",
        found.sets[both[0]],
    )
