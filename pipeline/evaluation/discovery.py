"""``system=found``: the anonymised copies in a challenge's folder, each made an external system. Folders are listed, nothing is read."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.datasets.settings import DatasetSettings
from pipeline.datasets.vpc import models, protocols
from pipeline.datasets.vpc.importer import find_originals, list_needed_sets
from pipeline.datasets.vpc.layout import FoundCopy, Layout, is_training_set, list_copies, read_layout
from pipeline.errors import DataError, Fault
from pipeline.names import join_few

NAME = "found"
"""The name of a system that stands for copies, instead of a component."""
SEVERAL = "found:"
"""What comes before the suffix of one copy in a list of systems."""
KIND = "external"
"""The component that a copy becomes."""
RECIPES = {"vpc2020": "2020", "vpc2022": "2022", "vpc2024": "2024", "vpac": "attacker"}
"""The recipes that are of one edition."""
UNPROTECTED = {"original": {"name": "original"}}


def label(suffix: str) -> str:
    """The label under which the copy of a suffix is asked for, before anybody has looked at the folder."""
    return suffix.lstrip("_") if suffix.lstrip("_") not in ("", "original") else suffix


def systems(entries: Any, dataset: DatasetSettings | None, faults: list[Fault], passed_over: list[str]) -> Any:
    """The systems of a configuration, with each that stands for copies made into these in its place.

    What else is set of it goes to all of them; what is set under the label of a copy goes to that one.

    Args:
        entries: plain values by label, as composed.
        dataset: where to look; None if its settings are at fault.
        faults: gets what is wrong.
        passed_over: gets what is to be said of copies that nobody asked for by name and that lack sets.

    Raises:
        DataError: the folder of the data set is no challenge's.
    """
    if not isinstance(entries, Mapping):
        return entries
    standing = {
        str(key): entry for key, entry in entries.items() if isinstance(entry, Mapping) and entry.get("name") == NAME
    }
    if not standing:
        return entries
    others = {str(key): entry for key, entry in entries.items() if str(key) not in standing}
    if dataset is None or dataset.name != "vpc":
        if dataset is not None:
            text = f"it stands for the anonymised copies in the folder of a VoicePrivacy Challenge, and the data set is dataset={dataset.name}"
            text = f"{text}: set dataset=vpc, or name a copy by '+system.NAME={{name: {KIND}, root: DIR}}'"
            faults += [Fault(text, f"system.{key}") for key in standing]
        return {key: entry for key, entry in others.items() if _is_named(entry)} or UNPROTECTED
    layout, before = layout_of(dataset), len(faults)
    offered = list_copies(layout)
    complete: dict[str, Any] = {}
    for key in map(str, entries):
        if key in standing:
            shared = {name: value for name, value in standing[key].items() if name not in ("name", "suffix")}
            suffix = standing[key].get("suffix")
            chosen = _chosen(key, suffix, offered, layout, faults)
            chosen = _complete(chosen, list_needed_sets(dataset, layout), passed_over) if suffix is None else chosen
            for entry in chosen:
                if entry.label in complete or _is_named(others.get(entry.label)):
                    faults.append(_taken(entry, key, others))
                complete[entry.label] = {**_values(entry), **shared}
        elif _is_named(others[key]):
            complete[key] = others[key]
    if len(faults) > before:
        return {**UNPROTECTED, **complete}
    for key, entry in others.items():
        if not _is_named(entry):
            complete[key] = {**complete.get(key, {}), **entry} if isinstance(entry, Mapping) else entry
    return complete


def _taken(copy: FoundCopy, key: str, others: Mapping[str, Any]) -> Fault:
    """A copy whose label is that of another system: rows of one would be taken for the other's."""
    values = _values(copy)
    named = f"'+system.NAME={{name: {KIND}, root: {values['root']}, suffix: {copy.suffix}}}'"
    whose = "another chosen system's" if copy.label in others else "another copy's"
    text = f"the copy {copy.suffix} would have the label {copy.label}, which is {whose}: leave one out, or name the copy by {named}"
    return Fault(text, f"system.{key}")


def _is_named(entry: Any) -> bool:
    """Whether an entry says of itself what it is: else it sets fields of another one's."""
    return isinstance(entry, Mapping) and "name" in entry


def look_at(dataset: DatasetSettings) -> Layout | None:
    """The folder of the data set as a challenge's; None if it is none."""
    if dataset.name != "vpc" or not dataset.root:
        return None
    return read_layout(Path(dataset.root).expanduser().absolute(), dataset.edition, find_originals(dataset))


def of_another_edition(dataset: DatasetSettings, recipe: str) -> list[Fault]:
    """The fault of a folder that is of another edition than a challenge's recipe asks for: whatever else lacks follows from it.

    What a folder is called is no such mark, and without a recipe the edition is what the user says.
    """
    layout = look_at(dataset) if dataset.edition != "auto" and recipe in RECIPES else None
    if (
        layout is None
        or not layout.is_sure
        or layout.recognised == layout.edition
        or layout.marks.startswith("the name ")
    ):
        return []
    titles, recognised = protocols.TITLES, layout.recognised
    others = [name for name, edition in RECIPES.items() if edition == recognised]
    mended = f"recipe={others[0]}, or dataset.edition={recognised}" if others else f"dataset.edition={recognised}"
    text = f"the folder is one of {titles[recognised]} (by {layout.marks}), and recipe={recipe} asks for {titles[layout.edition]}"
    return [Fault(f"{text}: set {mended} if that is meant", "dataset.root")]


def layout_of(dataset: DatasetSettings) -> Layout:
    """The folder of the data set as a challenge's.

    Raises:
        DataError: it is none.
    """
    layout = look_at(dataset)
    if layout is None:
        raise DataError(
            f"the folder '{dataset.root}' is not that of a VoicePrivacy Challenge, so no anonymised copies are looked for in it",
            where="dataset.root",
            cause="a misspelt or unmounted folder, or one that is too high or too low",
            remedy="set dataset.root=DIR to the challenge's checkout or to its data/",
        )
    return layout


def _chosen(
    key: str, suffix: Any, offered: Mapping[str, FoundCopy], layout: Layout, faults: list[Fault]
) -> list[FoundCopy]:
    where = f"system.{key}"
    if not offered:
        faults.append(Fault(f"there are no anonymised copies: {looked_for(layout)}; {_without_copies(layout)}", where))
        return []
    if suffix is None:
        return list(offered.values())
    by_suffix = {copy.called or copy.suffix: copy for copy in offered.values()}
    copies = []
    for wanted in map(str, suffix if isinstance(suffix, list) else [suffix]):
        copy = by_suffix.get(wanted) or by_suffix.get(f"_{wanted}")
        if copy is None:
            first = shlex.quote(f"system=[original,{SEVERAL}{next(iter(by_suffix))}]")
            text = (
                f"there is no anonymised copy with the suffix {wanted}; there are {', '.join(by_suffix)}: write {first}"
            )
            faults.append(Fault(f"{text} ({looked_for(layout)})", where))
        else:
            copies.append(copy)
    return copies


def _complete(chosen: list[FoundCopy], needed: list[str], passed_over: list[str]) -> list[FoundCopy]:
    """The copies that hold all sets; all of them where none does, so that what they lack is refused."""
    lacking = {copy.label: copy.lacks(needed) for copy in chosen}
    complete = [copy for copy in chosen if not lacking[copy.label]]
    if not complete:
        return chosen
    for copy in chosen:
        if lacking[copy.label]:
            passed_over.append(
                f"the copy {copy.called or copy.suffix} is passed over: it lacks {len(lacking[copy.label])} of {len(needed)} sets, "
                f"{join_few(lacking[copy.label])} (system={SEVERAL}{copy.called or copy.suffix} asks for it by name)"
            )
    return complete


def _without_copies(layout: Layout) -> str:
    more = (
        ""
        if models.choose_original_model(layout) is not None or layout.edition in ("2020", "2022")
        else " train=default"
    )
    which = " by a public model" if more else ""
    return (
        f"evaluate the original speech alone{which}: system=original{more} (attackers of anonymised speech have nothing to do then), "
        f"or name a folder of copies: '+system.NAME={{name: {KIND}, root: DIR}}' system=original"
    )


def looked_for(layout: Layout) -> str:
    """Where copies were looked for."""
    names = [name for name in sorted(layout.sets) if not is_training_set(name)]
    sets = f", the sets are {join_few(names)}" if names else ""
    return f"looked for folders SET_SUFFIX in {layout.data}{sets}"


def _values(copy: FoundCopy) -> dict[str, Any]:
    return {
        "name": KIND,
        "root": str(copy.root),
        "suffix": copy.suffix,
        "level": copy.level,
        "train_root": str(copy.train_root) if copy.train_root is not None else None,
        "folders": {name: str(place) for name, place in copy.folders.items()},
    }
