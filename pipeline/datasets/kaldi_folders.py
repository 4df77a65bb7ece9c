"""Which folders of a root are Kaldi sets that belong together."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from pipeline.datasets import listings
from pipeline.datasets.kaldi_set import find_trial_files
from pipeline.datasets.listings import Listing
from pipeline.datasets.settings import DatasetSettings
from pipeline.faults import Faults
from pipeline.names import join_few, normalise_name

_OF_A_PAIR = re.compile(r"_(enrolls|trials(_.*)?)$")


def wanted_sets(settings: DatasetSettings) -> list[str] | None:
    """``dataset.sets`` as names are kept here."""
    return None if settings.sets is None else [normalise_name(name) for name in settings.sets]


def holds_sets(folder: Path) -> bool:
    """Whether a folder is a Kaldi set or holds some."""
    return bool(find_sets(folder))


def find_sets(folder: Path) -> list[Path]:
    return [place for place in (folder, *sorted(folder.iterdir())) if (place / "wav.scp").exists()]


# Which folders -------------------------------------------------------------------------------------------------------


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
    pairs = _pair_sets(folders, wanted_sets(settings), listing)
    if pairs is not None:
        return pairs, []
    singles = [folder for folder in folders.values() if (folder / "wav.scp").exists()]
    if not singles and training:
        # The only set there is: it is evaluated as well, and its speakers are named as such.
        singles = [
            place for place in sorted(root.iterdir()) if os.path.realpath(place) == training and holds_sets(place)
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
