"""A challenge's folder: the original sets of its edition, read as Kaldi sets and held against the protocol.

Sets that are there ready are read; of a raw download (``libri_dev`` with ``enrolls`` and ``trials_f`` in it, ``vctk_dev`` with
``enrolls_mic2``) they are cut, as the recipes do. Anonymised copies, the unions ``_all`` beside their parts, and sets for words,
emotions and training are recognised and not evaluated. Trials are those of the original trial set.
"""

from __future__ import annotations

import os
import re
import shlex
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.datasets import kaldi, listings
from pipeline.datasets.listings import Listing
from pipeline.datasets.settings import DatasetSettings
from pipeline.datasets.vpc import layout, protocols
from pipeline.datasets.vpc.layout import Layout
from pipeline.datasets.vpc.protocols import Expected
from pipeline.faults import Faults
from pipeline.names import join_few

_TRIAL_SET = re.compile(r"(\w+?)_trials_\w+")
_RAW_TABLE = re.compile(r"(trials_[fm](?:_common)?)(?:_mic2)?")

Available = dict[str, Path | tuple[Path, str]]
"""Trial sets by name: the folder, or of one that is to be cut the raw download's folder and the table of its trials."""


@dataclass
class ChosenFolders:
    """What is read: enrolment and trial folders by the name of the corpus half (``libri_dev``), and raw downloads that are cut."""

    enrolments: dict[str, Path] = field(default_factory=dict)
    trials: dict[str, dict[str, Path]] = field(default_factory=lambda: defaultdict(dict))
    cuts: dict[str, kaldi.Cut] = field(default_factory=dict)


def add_data_set(settings: DatasetSettings, root: Path, listing: Listing) -> None:
    """List the sets of a challenge's folder that are evaluated.

    Raises:
        DataError: it is no such folder, holds no original sets, or sets in the place of others; with the faults so far.
    """
    faults = listing.faults
    found_layout = _read_layout(settings, root, faults)
    protocol = protocols.read_protocol(found_layout.edition)
    _note_layout(found_layout, settings.edition, listing)
    available = _list_available(found_layout)
    names = _choose_sets(settings, available, protocol, listing)
    chosen = _choose_folders(found_layout, available, names, faults)
    protocols.check_structure(found_layout, protocol, available, settings.sets, settings.protocol == "strict", listing)
    if not available:
        present = [name for name in found_layout.sets if name in protocol]
        faults.add(
            "no-sets", f"no set of trials is there; there are {join_few(present or list(found_layout.sets))}", root
        )
    if faults.has("edition") or not (chosen.trials or chosen.cuts):
        # Whatever else is wrong follows from that.
        faults.stop(root)
    pairs = [(chosen.enrolments[half], list(folders.values())) for half, folders in chosen.trials.items()]
    cuts = list(chosen.cuts.values())
    # The recipes write paths that start where data lies; the originals may be in another folder than the rest.
    places = [folder.parent for folder in found_layout.sets.values()]
    starts = [
        found_layout.root,
        found_layout.data,
        *(place.parent for place in places),
        *places,
        root,
        root.parent,
        Path.cwd(),
    ]
    kaldi.add_sets(settings, root, listing, pairs, cuts=cuts, starts=[*starts, *(cut.folder for cut in cuts)])
    protocols.check_counts(found_layout, protocol, settings.protocol == "strict", listing)
    if faults.has("another-set"):
        faults.stop(root)


def find_training_folder(settings: DatasetSettings) -> str:
    """The folder of the training set, where ``dataset.train`` is its name in a challenge's folder; else what was given.

    A folder of that name in the current directory is meant by ``./NAME``."""
    if settings.name != "vpc" or not settings.train:
        return settings.train
    found_layout = layout.read_layout(
        Path(settings.root).expanduser().absolute(), settings.edition, find_originals(settings)
    )
    return (
        str(found_layout.sets[settings.train])
        if found_layout is not None and settings.train in found_layout.sets
        else settings.train
    )


def list_needed_sets(settings: DatasetSettings, found_layout: Layout) -> list[str]:
    """The names of the sets that are enrolled and tried, which a copy has to hold."""
    tried = _choose_sets(
        settings, _list_available(found_layout), protocols.read_protocol(found_layout.edition), Listing()
    )
    return [*dict.fromkeys(f"{name.rpartition('_trials_')[0]}_enrolls" for name in tried), *tried]


def find_originals(settings: DatasetSettings) -> Path | None:
    """The folder ``dataset.originals``, if one is given."""
    return None if settings.originals is None else Path(settings.originals).expanduser().absolute()


# What lies there -----------------------------------------------------------------------------------------------------


def _read_layout(settings: DatasetSettings, root: Path, faults: Faults) -> Layout:
    originals = find_originals(settings)
    if originals is not None and not originals.is_dir():
        faults.add("root", f"there is no folder '{settings.originals}'", "dataset.originals")
        faults.stop("dataset.originals")
    found_layout = layout.read_layout(root, settings.edition, originals)
    if found_layout is None:
        below = next((folder for folder in layout.list_folders(root) if layout.read_layout(folder) is not None), None)
        hint = f"; this one does: dataset.root={shlex.quote(str(below))}" if below is not None else ""
        faults.add("no-sets", f"the folder holds no set of a VoicePrivacy challenge{hint}", root)
        faults.stop(root)
    assert found_layout is not None
    if not found_layout.has_evaluation:
        what = f"the folder holds {join_few([f'SET{suffix}' for suffix in found_layout.copies])} and no original set"
        if originals is not None:
            what += f", and neither does {originals}"
        faults.add("originals" if found_layout.copies else "no-sets", what, root)
        faults.stop(root)
    return found_layout


def _note_layout(found_layout: Layout, edition_wanted: str, listing: Listing) -> None:
    """Which edition it is, and what lies there beside the sets that are evaluated."""
    title = protocols.TITLES[found_layout.edition]
    if found_layout.edition != found_layout.recognised or (edition_wanted != "auto" and not found_layout.is_sure):
        by = f", as dataset.edition={found_layout.edition} says"
    elif found_layout.is_sure:
        by = f", recognised by {found_layout.marks}"
    else:
        alike = ["2020"] if found_layout.edition == "2022" else ["2020", "2022"]
        choice = " or ".join(f"dataset.edition={edition}" for edition in alike)
        by = (
            f"; nothing here tells it from {' and '.join(alike)}, whose sets are called alike: {choice} if it is that "
            "(where a pseudo-voice is that of a speaker; in later editions it is that of an utterance)"
        )
    listing.notes.append(f"the data are those of {title}{by}")
    listing.notes += found_layout.notes
    listing.limits += found_layout.limits
    if found_layout.copies:
        counts = [f"{suffix} ({len(sets)} sets)" for suffix, sets in found_layout.copies.items()]
        listing.notes.append(
            f"anonymised copies lie there (system=found evaluates those that hold all sets): {', '.join(counts)}"
        )
    if layout.TRAINING in found_layout.sets:
        listing.notes.append(
            f"training speech lies there: dataset.train={layout.TRAINING} ({found_layout.sets[layout.TRAINING]})"
        )
    others = [name for name in found_layout.sets if re.search(r"_asr$|^IEMOCAP_", name)]
    if others:
        listing.notes.append(f"recognised and not evaluated, for they are for words and emotions: {', '.join(others)}")


# What is evaluated ---------------------------------------------------------------------------------------------------


def _list_available(found_layout: Layout) -> Available:
    """The trial sets that are there, and those that can be cut out of raw downloads."""
    available: Available = {name: folder for name, folder in found_layout.sets.items() if _TRIAL_SET.fullmatch(name)}
    halves = {name.partition("_trials_")[0] for name in available}
    for half, folder in found_layout.sets.items():
        if layout.is_raw(half) and half not in halves and f"{half}_enrolls" not in found_layout.sets:
            available |= {f"{half}_{name}": (folder, table) for name, table in _find_raw_lists(folder).items()}
    return available


def _find_raw_lists(folder: Path) -> dict[str, str]:
    """The tables of trials in a raw download by the set that each becomes; of VCTK those of the second microphone."""
    tables = {}
    for table in sorted(path.name for path in folder.iterdir()):
        match = _RAW_TABLE.fullmatch(table)
        if match:
            tables[match[1]] = table  # trials_f_mic2 comes after trials_f
    return tables


def _choose_sets(
    settings: DatasetSettings, available: Available, protocol: Mapping[str, Expected], listing: Listing
) -> list[str]:
    """The names of the trial sets that are evaluated: those of ``dataset.sets``, or all that are no part or union of others."""
    wanted = settings.sets
    beside = {name for name in available if _is_covered(name, available, protocol)}
    if wanted is None:
        if beside:
            listing.notes.append(
                f"not evaluated beside the sets that they are unions or parts of: {', '.join(sorted(beside))}"
            )
        return [name for name in available if name not in beside]
    listings.report_unknown_sets(listing.faults, wanted, list(available), "dataset.sets")
    listings.note_chosen_sets(listing, wanted, [name for name in available if name not in beside or name in wanted])
    return [name for name in available if name in wanted]


def _is_covered(name: str, available: Available, protocol: Mapping[str, Expected]) -> bool:
    """Whether a trial set is a union of others that are there, or a part of one with both sexes; which of them the edition tries,
    its protocol says."""
    if name in protocol and protocol[name].role == "trials":
        return False
    half = name.rpartition("_trials_")[0]
    if name in protocol and protocol[name].role == "part":
        return f"{half}_trials_mixed" in available
    union = re.sub(r"_(all|mixed)$", "", name)
    return union != name and (union in available or f"{union}_f" in available)


def _choose_folders(found_layout: Layout, available: Available, names: list[str], faults: Faults) -> ChosenFolders:
    """The folders that are read; a trial set without enrolment set or without its list is a fault."""
    chosen = ChosenFolders()
    for name in names:
        half = name.rpartition("_trials_")[0] or name
        place = available[name]
        if isinstance(place, tuple):
            folder, table = place
            enrolment = "enrolls_mic2" if (folder / "enrolls_mic2").exists() else "enrolls"
            cut = chosen.cuts.get(half) or kaldi.Cut(folder, (enrolment, f"{half}_enrolls"), {})
            chosen.cuts[half] = kaldi.Cut(folder, cut.enrolment, {**cut.trials, table: name})
            continue
        enrolls = found_layout.sets.get(f"{half}_enrolls")
        if enrolls is None:
            faults.add("missing-table", f"the trial set {name} has no enrolment set {half}_enrolls beside it", place)
            continue
        if not (place / "trials").exists():
            faults.add("missing-table", f"the trial set {name} has no list of trials", os.fspath(place / "trials"))
        chosen.enrolments[half] = enrolls
        chosen.trials[half][name] = place
    return chosen
