"""Kaldi sets: folders with the tables ``wav.scp utt2spk spk2gender trials enrolls utt2dur spk2utt segments text``.

What a root may hold, in this order: ``X_enrolls`` with its ``X_trials_*``; sets with lists inside, which are cut; sets without lists,
which are halved. What is absent, and what becomes of it: data_manifests/README.md, section 2.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline.datasets import listings, trial_lists
from pipeline.datasets.kaldi_set import (
    KaldiSet,
    find_audio_root,
    find_start,
    find_trial_files,
    list_utterances,
    read_set,
)
from pipeline.datasets.kaldi_tables import Record, read_records
from pipeline.datasets.listings import Enrolled, Listing, TrialList, Utterance
from pipeline.datasets.settings import DatasetSettings
from pipeline.faults import Faults
from pipeline.names import join_few, normalise_name


@dataclass(frozen=True)
class Cut:
    """How a set with its lists inside is cut: the table of enrolment and those of trials, each with the set that is made of it."""

    folder: Path
    enrolment: tuple[str, str]
    trials: Mapping[str, str]


def add_data_set(settings: DatasetSettings, root: Path, listing: Listing) -> None:
    """List the Kaldi sets of ``root`` for evaluation, but for the training set, if that lies among them.

    Raises:
        DataError: it holds no sets; with the faults so far.
    """
    pairs, singles = discover_sets(root, settings, listing)
    add_sets(settings, root, listing, pairs, singles, starts=[root, root.parent, Path.cwd()])
    if singles:
        listings.select_sets(listing, settings.sets, "dataset.sets")


def add_sets(
    settings: DatasetSettings,
    root: Path,
    listing: Listing,
    pairs: Sequence[tuple[Path, Sequence[Path]]],
    singles: Sequence[Path] = (),
    cuts: Sequence[Cut] = (),
    *,
    starts: Sequence[Path],
) -> None:
    """List enrolment sets with their trial sets, sets that stand alone, and sets that are cut by the lists within them.

    Args:
        settings: of the data set.
        root: the data set, for messages.
        listing: gets the sets and their faults.
        pairs: the folder of an enrolment set, and those of its trial sets.
        singles: the folders of sets that are cut by their lists, or halved.
        cuts: how other sets are cut.
        starts: where relative paths of ``wav.scp`` may start.
    """
    faults = listing.faults
    enrolments = [read_set(folder, faults) for folder, _ in pairs]
    groups = [[read_set(folder, faults) for folder in folders] for _, folders in pairs]
    alone = [read_set(folder, faults) for folder in singles]
    uncut = [read_set(cut.folder, faults) for cut in cuts]
    sets = [*enrolments, *(kaldi_set for group in groups for kaldi_set in group), *alone, *uncut]
    listing.notes += [note for kaldi_set in sets for note in kaldi_set.notes]
    start = find_audio_root(settings, sets, [*starts], root, listing)

    def list_rows(kaldi_set: KaldiSet, role: str = "trial") -> list[Utterance]:
        return list_utterances(kaldi_set, role, start, faults, settings.follow_links)

    for enrolment, group in zip(enrolments, groups):
        listing.utterances += list_rows(enrolment, "enrolment")
        for kaldi_set in group:
            listing.utterances += list_rows(kaldi_set)
    # A set without spk2gender takes the sex of a speaker from the others.
    sexes = {row.speaker: row.sex for row in listing.utterances if row.sex != "u"}
    listing.utterances = [
        replace(row, sex=sexes.get(row.speaker, "u")) if row.sex == "u" else row for row in listing.utterances
    ]
    for enrolment, group in zip(enrolments, groups):
        enrolled = _list_enrolled(enrolment, faults)
        for kaldi_set in group:
            _add_list(listing, kaldi_set.name, enrolment.name, enrolled, *_choose_list(kaldi_set, faults))
    for kaldi_set in alone:
        _add_single(listing, kaldi_set, list_rows(kaldi_set), settings.seed)
    halved = [kaldi_set.name for kaldi_set in alone if not kaldi_set.trials and kaldi_set.enrolls is None]
    if halved:
        listings.note_halves(listing, halved, settings.seed)
    for kaldi_set, cut in zip(uncut, cuts):
        table = cut.folder / cut.enrolment[0]
        if table.exists():
            kaldi_set.enrolls = list(read_records(table, faults, range(1, 2)))
            _add_cut(listing, kaldi_set, list_rows(kaldi_set), cut.enrolment[1], cut.trials)
        else:
            faults.add("missing-table", f"the set {kaldi_set.name} has lists of trials and no {table.name}", table)


def add_training(settings: DatasetSettings, folder: Path, listing: Listing) -> None:
    """List the one Kaldi set that a folder is or holds as training set; its lists of trials do not matter."""
    folders = find_sets(folder)
    if len(folders) > 1:
        names = ", ".join(kaldi_set.name for kaldi_set in folders)
        listing.faults.add("train", f"the folder holds {len(folders)} sets ({names}), and one is trained on", folder)
        return
    listings.report_invisible("set", normalise_name(folders[0].name), folders[0], listing.faults)
    kaldi_set = read_set(folders[0], listing.faults)
    candidates = [kaldi_set.folder, kaldi_set.folder.parent, kaldi_set.folder.parent.parent, Path.cwd()]
    if settings.audio_root is not None:
        candidates.insert(0, Path(settings.audio_root).expanduser().absolute())
    start = find_start([kaldi_set], candidates, kaldi_set.folder, listing)
    listing.utterances += list_utterances(kaldi_set, "train", start, listing.faults, settings.follow_links)


# Which folders -------------------------------------------------------------------------------------------------------

_OF_A_PAIR = re.compile(r"_(enrolls|trials(_.*)?)$")


def find_sets(folder: Path) -> list[Path]:
    """The Kaldi sets that a folder is or holds."""
    return [place for place in (folder, *sorted(folder.iterdir())) if (place / "wav.scp").exists()]


def discover_sets(
    root: Path, settings: DatasetSettings, listing: Listing
) -> tuple[list[tuple[Path, list[Path]]], list[Path]]:
    """The enrolment folders with their trial folders, or else the folders of sets that stand alone."""
    faults = listing.faults
    if (root / "wav.scp").exists():
        has_lists = (root / "enrolls").exists() and find_trial_files(root)
        if _OF_A_PAIR.search(root.name) and not has_lists:
            faults.add(
                "no-sets",
                f"'{root.name}' is one set of several; give the folder that holds them: "
                f"dataset.root={shlex.quote(str(root.parent))}",
                root,
            )
            faults.stop(root)
        listings.report_invisible("set", normalise_name(root.name), root, faults)
        return [], [root]
    training = os.path.realpath(Path(settings.train).expanduser()) if settings.train else ""
    # A training set called like one of a pair is evaluated as well, and its speakers are named as such.
    folders = {
        normalise_name(folder.name): folder
        for folder in sorted(root.iterdir())
        if folder.is_dir() and (os.path.realpath(folder) != training or _OF_A_PAIR.search(folder.name))
    }
    for name, folder in folders.items():
        if (folder / "wav.scp").exists():
            listings.report_invisible("set", name, folder, faults)
    if faults.has("bad-id"):
        # Which sets belong together follows from their names.
        faults.stop(root)
    pairs = _pair_sets(folders, settings.sets, listing)
    if pairs is not None:
        return pairs, []
    singles = [folder for folder in folders.values() if (folder / "wav.scp").exists()]
    if not singles and training:
        # The only set there is: it is evaluated as well, and its speakers are named as such.
        singles = [
            place for place in sorted(root.iterdir()) if os.path.realpath(place) == training and find_sets(place)
        ]
    if not singles:
        empty = not any(root.iterdir())
        faults.add("no-sets", "the folder is empty" if empty else "the folder holds no Kaldi set (no */wav.scp)", root)
        faults.stop(root)
    if not any((folder / "enrolls").exists() and find_trial_files(folder) for folder in singles):
        _refuse_paired_names(root, [folder.name for folder in singles], faults)
    listed = [folder for folder in singles if (folder / "enrolls").exists() or find_trial_files(folder)]
    _note_passed_over([folder.name for folder in singles if listed and folder not in listed], listing)
    return [], listed or singles


def _pair_sets(
    folders: dict[str, Path], wanted: list[str] | None, listing: Listing
) -> list[tuple[Path, list[Path]]] | None:
    """Every X_enrolls with its X_trials_*; None if there is neither."""
    enrolments = [name for name in folders if name.endswith("_enrolls")]
    tried = {name: match[1] for name in folders if (match := re.fullmatch(r"(.+?)_trials(_.*)?", name))}
    if not enrolments and not tried:
        return None
    copies, pairs, taken = [], [], set()
    for enrolment in enrolments:
        base = enrolment.removesuffix("_enrolls")
        suffixes = tuple(name.removeprefix(enrolment) for name in folders if name.startswith(f"{enrolment}_"))
        copies += [f"{enrolment}{suffix}" for suffix in suffixes]
        mine = [name for name, owner in tried.items() if owner == base]
        copies += [name for name in mine if suffixes and name.endswith(suffixes)]
        taken |= {enrolment, *mine}
        pairs.append((enrolment, [name for name in mine if name not in copies]))
    lonely = [name for name in tried if name not in taken]
    if wanted is not None:
        trial_sets = [name for _, mine in pairs for name in mine]
        listings.report_unknown_sets(listing.faults, wanted, [*trial_sets, *lonely], "dataset.sets")
        listings.note_chosen_sets(listing, wanted, [*trial_sets, *lonely])
        lonely = [name for name in lonely if name in wanted]
        pairs = [(enrolment, kept) for enrolment, mine in pairs if (kept := [name for name in mine if name in wanted])]
    for name in lonely:
        what = f"the trial set {name} has no enrolment set {tried[name]}_enrolls beside it"
        listing.faults.add("missing-table", what, folders[name])
    for enrolment in [enrolment for enrolment, mine in pairs if not mine]:
        what = f"the enrolment set {enrolment} has no trial set {enrolment.removesuffix('_enrolls')}_trials_* beside it"
        listing.faults.add("missing-table", what, folders[enrolment])
    if copies:
        listing.notes.append(f"passed over as anonymised copies, to be given as systems: {', '.join(sorted(copies))}")
    others = [
        name for name in folders if name not in {*taken, *copies, *tried} and (folders[name] / "wav.scp").exists()
    ]
    _note_passed_over(others, listing)
    return [(folders[enrolment], [folders[name] for name in mine]) for enrolment, mine in pairs]


def _note_passed_over(others: Sequence[str], listing: Listing) -> None:
    if others:
        listing.limits.append(
            f"{len(others)} sets without lists of trials beside those are not evaluated: {join_few(others)}"
        )


_ENROLMENT_WORD = re.compile(r"(.*[_.-])?(enrol|gallery|reference|refs?$)", re.IGNORECASE)
_TRIALS_WORD = re.compile(r"(.*[_.-])?(trial|test|eval|probe|query|queries)", re.IGNORECASE)
"""What of a set's name says what it is for."""


def _refuse_paired_names(root: Path, names: Sequence[str], faults: Faults) -> None:
    """Refuse sets without lists if some are enrolment and some trials by their names: halved by itself, each would be another
    protocol than was meant.

    Raises:
        DataError: they look like pairs; with the faults so far.
    """
    enrolled = [name for name in names if _ENROLMENT_WORD.match(name)]
    tried = [name for name in names if _TRIALS_WORD.match(name) and name not in enrolled]
    if enrolled and tried:
        what = f"{', '.join([*enrolled, *tried])} look like enrolment and trials of one protocol by their names"
        faults.add("names", f"{what}; each would be halved by itself", root)
        faults.stop(root)


# Lists ---------------------------------------------------------------------------------------------------------------


def _list_enrolled(kaldi_set: KaldiSet, faults: Faults) -> list[Enrolled]:
    """The models of an enrolment set: its speakers, made of the utterances of ``enrolls`` or of all."""
    lines = []
    first: dict[str, Record] = {}
    if kaldi_set.enrolls is None:
        _report_unread_enrolment(kaldi_set, faults)
    for record in kaldi_set.enrolls if kaldi_set.enrolls is not None else kaldi_set.audio:
        utterance = record.fields[0]
        before = first.setdefault(utterance, record)
        if before is record:
            lines.append(Enrolled(kaldi_set.speakers.get(utterance, ""), utterance, record.where))
        elif kaldi_set.enrolls is not None:
            faults.add("duplicate-id", f"'{utterance}' is enrolled twice, first {before.where}", record.where)
    return lines


def _add_list(
    listing: Listing, name: str, enrolment_set: str, enrolled: list[Enrolled], records: list[Record] | None, where: str
) -> None:
    if records is None:
        listings.add_same_sex_pairs(listing, name, enrolment_set, enrolled, where)
        listing.protocol.append(
            f"the trials of {name} were made here: no list came with it, so {listings.MADE_PAIRS} of an enrolled speaker and an utterance "
            "are tried"
        )
        return
    lines = trial_lists.make_trials(records, listing.faults)
    listing.lists.append(TrialList(name, enrolment_set, enrolled, lines, where))


def _choose_list(kaldi_set: KaldiSet, faults: Faults) -> tuple[list[Record] | None, str]:
    """The list of a trial set, and its place: ``trials``, or the only one that is there under another name."""
    if "trials" in kaldi_set.trials or not kaldi_set.trials:
        return kaldi_set.trials.get("trials"), kaldi_set.where("trials")
    if len(kaldi_set.trials) > 1:
        what = f"{kaldi_set.name} holds {join_few([*kaldi_set.trials])} and no list called trials: which of them is meant cannot be told"
        faults.add("unread-list", what, kaldi_set.folder)
    ((_, lines),) = [*kaldi_set.trials.items()][:1]
    return lines, lines[0].where.rpartition(":")[0] if lines else kaldi_set.where("trials")


def _add_single(listing: Listing, kaldi_set: KaldiSet, rows: list[Utterance], seed: int) -> None:
    """A set with lists inside is cut into sets, one without is halved.

    Without ``enrolls`` a list compares utterances; without trials all utterances that are not enrolled are tried.
    """
    ids, speakers = {row.utterance for row in rows}, {row.speaker for row in rows}
    models = {line.fields[0] for lines in kaldi_set.trials.values() for line in lines}
    if kaldi_set.enrolls is not None:
        others = ids - {record.fields[0] for record in kaldi_set.enrolls}
        _add_cut(
            listing,
            kaldi_set,
            rows,
            f"{kaldi_set.name}_enrolls",
            {table: f"{kaldi_set.name}_{table}" for table in kaldi_set.trials or ["trials"]},
            others,
        )
    elif models & ids:
        trial_lists.cut_set_by_lists(
            listing,
            kaldi_set.name,
            rows,
            {f"{kaldi_set.name}_{table}": lines for table, lines in kaldi_set.trials.items()},
        )
    elif kaldi_set.trials:
        who = "speakers" if models <= speakers else "ids that it lacks"
        what = f"the set {kaldi_set.name} has lists of trials ({join_few([*kaldi_set.trials])}) of which the models are {who}, e.g. {min(models, default='none')}"
        listing.faults.add(
            "unread-list", f"{what}, and no list enrolls that says what they are made of", kaldi_set.folder
        )
    elif not _report_unread_enrolment(kaldi_set, listing.faults):
        listings.add_halves(listing, kaldi_set.name, rows, seed, str(kaldi_set.folder))


def _report_unread_enrolment(kaldi_set: KaldiSet, faults: Faults) -> bool:
    """Whether a set without ``enrolls`` has a list of enrolment under another name, which is then reported."""
    paths = trial_lists.find_lists(kaldi_set.folder, trial_lists.ENROLMENT_FILE)
    if paths:
        what = f"{kaldi_set.name} has a list of enrolment that is called {join_few([path.name for path in paths])}, not enrolls"
        faults.add("unread-list", what, kaldi_set.folder)
    return bool(paths)


def _add_cut(
    listing: Listing,
    kaldi_set: KaldiSet,
    rows: list[Utterance],
    enrolment_set: str,
    names: Mapping[str, str],
    tried: Collection[str] = (),
) -> None:
    """Cut a set with its lists inside; ``names`` are the sets that its tables of trials become, and ``tried`` the utterances of one
    that has none."""
    enrolled = _list_enrolled(kaldi_set, listing.faults)
    parts = {enrolment_set: ("enrolment", {line.utterance for line in enrolled})}
    for table, name in names.items():
        lines = kaldi_set.trials.get(table)
        parts[name] = ("trial", set(tried) if lines is None else {record.fields[1] for record in lines})
    for name, (role, ids) in parts.items():
        members = [row for row in rows if row.utterance in ids]
        listing.utterances += [replace(row, set=name, role=role, position=place) for place, row in enumerate(members)]
    for table, name in names.items():
        _add_list(listing, name, enrolment_set, enrolled, kaldi_set.trials.get(table), kaldi_set.where(table))
