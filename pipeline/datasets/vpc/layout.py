"""Where the sets, their anonymised copies and the trained models of a VoicePrivacy folder lie, and which edition it is.

Directories are listed and nothing else is read. A root may be a challenge's checkout, its ``baseline/`` (2020 and 2022 keep ``data``
and ``exp`` below that), its ``data/``, or the tree of the Attacker Challenge, ``ROOT/SYSTEM/data/SET_SYSTEM``.
"""

from __future__ import annotations

import difflib
import os
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pipeline import audio
from pipeline.names import join_few

EDITIONS = ("2020", "2022", "2024", "2026", "attacker")
TRAINING = "train-clean-360"
_CORPORA = ("libri", "vctk")
_LANGUAGES = ("en", "es", "fr", "de", "ja", "cn")


def _list_set_names() -> Iterator[str]:
    for part in ("dev", "test"):
        for corpus in _CORPORA:
            yield f"{corpus}_{part}"
            for tail in ("enrolls", "trials_f", "trials_m", "trials_mixed", "trials_all", "asr"):
                yield f"{corpus}_{part}_{tail}"
        for tail in ("f_common", "m_common", "f_all", "m_all"):
            yield f"vctk_{part}_trials_{tail}"
        for language in _LANGUAGES:
            yield from (f"{language}_{part}_enrolls", f"{language}_{part}_trials_mixed")
        yield f"IEMOCAP_{part}"
    yield from (f"{TRAINING}-asv", TRAINING)


SET_NAMES = tuple(_list_set_names())
"""Names of original sets, of any edition."""

_OF_TRIALS = re.compile(r"_(enrolls|trials_\w+)$")

_OWN_NAMES = {"libri360_anon": TRAINING, "libri360": TRAINING}
"""Other names of a set in the Attacker Challenge's tree."""

_NEVER_A_SYSTEM = re.compile(r"_(enrolls|trials|asr|hires|sp|no_sil)(_|$)")
"""What behind the name of a set says that it is another set, or features of it, and no system."""

_CHALLENGE = re.compile(r"(?:voice-?privacy(?:-challenge)?|vpc)[-_]?(20(?:20|22|24|26))", re.IGNORECASE)


@dataclass(frozen=True)
class Layout:
    """What lies in a challenge's folder.

    Attributes:
        edition: ``2020``, ``2022``, ``2024``, ``2026`` or ``attacker``: the one that was asked for, else the one that was recognised.
        root: the folder that holds ``data`` and ``exp``, where relative paths of the recipes start; of the Attacker Challenge its tree.
        data: the folder of the Kaldi sets.
        exp: the folder of trained models and results, if there is one.
        sets: the original sets by name, raw downloads (``libri_dev``) among them.
        copies: anonymised copies: by suffix, with its own underscore (``_mcadams``), the folders by the name of the original set.
            Where folders of several systems have one suffix, by ``_SYSTEM``.
        recognised: the edition by what lies there.
        marks: by what it was recognised; '' where nothing tells the editions that call their sets alike.
        notes: what else was noticed of names.
        limits: folders whose names were guessed at or passed over, which a reader of the numbers must know.
        shared: of copies that are called ``_SYSTEM``, the suffix.
    """

    edition: str
    root: Path
    data: Path
    exp: Path | None
    sets: Mapping[str, Path]
    copies: Mapping[str, Mapping[str, Path]]
    recognised: str = ""
    marks: str = ""
    notes: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    shared: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_sure(self) -> bool:
        """Whether something tells the edition."""
        return bool(self.marks)

    @property
    def has_evaluation(self) -> bool:
        """Whether there is an original set of enrolment or of trials, or a raw download that holds both."""
        return any(_OF_TRIALS.search(name) or is_raw(name) for name in self.sets)


def is_raw(name: str) -> bool:
    """Whether a set is called like a raw download, which holds enrolment and trials."""
    return re.fullmatch(rf"({'|'.join(_CORPORA)})_(dev|test)", name) is not None


@dataclass(frozen=True)
class _SuffixCopies:
    """The copies of one suffix in one folder; ``place`` is what the folder is called that holds their ``data``."""

    place: str
    suffix: str
    folders: Mapping[str, Path]


@dataclass
class _Remarks:
    """What is to be told of names."""

    notes: list[str] = field(default_factory=list)
    limits: list[str] = field(default_factory=list)


def read_layout(root: Path, edition: str = "auto", originals: Path | None = None) -> Layout | None:
    """The layout of a challenge's folder; None if it holds none of a challenge's sets.

    Args:
        root: a checkout, its ``baseline/``, its ``data/``, or the Attacker Challenge's tree.
        edition: ``auto``, or the edition that it is said to be.
        originals: where the original sets are, if they are not in ``root``: a folder of the same kinds.
    """
    # The first folder that holds a challenge's sets side by side.
    places = (root / "data", root / "baseline" / "data", root)
    data = next((place for place in places if any(split_name(child.name)[0] for child in list_folders(place))), None)
    remarks = _Remarks()
    beside = list_folders(data) if data is not None else []
    nested = _find_nested(root, data, remarks)
    if data is None and not nested:
        return None
    start = root if data is None else data.parent if data.name == "data" else data
    sets = {folder.name: folder for folder in beside if split_name(folder.name)[0] == folder.name}
    # A folder of copies alone is that of a system, whose names may be guessed at; beside originals nothing is.
    systems = _group_copies(start.name, beside) if sets else _group_system(start.name, beside, remarks)
    systems += [folder for name, folders in nested.items() for folder in _group_system(name, folders, remarks)]
    if nested and not _list_evaluated(beside):
        sets = {**_find_nested_originals(root), **sets}
    copies, shared = _name_copies(systems, remarks)
    beside_data = [data.parent / "exp", data / "exp"] if data is not None else [root / "exp"]
    exp = next((folder for folder in beside_data if folder.is_dir()), None)
    originals_layout = read_layout(originals) if originals is not None else None
    if not _list_evaluated(beside) and (nested or f"_{start.name}" in copies):
        recognised, marks = "attacker", "systems in folders of their own, SYSTEM/data/SET_SYSTEM"
    else:
        recognised, marks = _recognise(root, start, exp, sets)
        if not marks and originals_layout is not None and not _list_evaluated(beside):
            recognised, marks = originals_layout.recognised, originals_layout.marks
    if originals_layout is not None:
        sets = {**originals_layout.sets, **sets}
    return Layout(
        recognised if edition == "auto" else edition,
        start,
        data or (originals_layout.data if originals_layout is not None else root),
        exp,
        dict(sorted(sets.items())),
        {name: dict(sorted(folder_of.items())) for name, folder_of in sorted(copies.items())},
        recognised,
        marks,
        tuple(remarks.notes),
        tuple(remarks.limits),
        shared,
    )


def split_name(folder: str) -> tuple[str, str]:
    """The name of the original set and the suffix of a folder's name; ('', '') if it is called like no set of a challenge."""
    for name in sorted(SET_NAMES, key=len, reverse=True):
        suffix = folder.removeprefix(name)
        if folder.startswith(name) and (not suffix or suffix.startswith("_")):
            return (name, suffix) if not _NEVER_A_SYSTEM.match(suffix) else ("", "")
    return "", ""


# Where ---------------------------------------------------------------------------------------------------------------


def list_folders(folder: Path) -> list[Path]:
    """The folders in a folder, by name; none if it cannot be listed."""
    try:
        return sorted(child for child in folder.iterdir() if child.is_dir() and not child.name.startswith("."))
    except OSError:
        return []


def _list_evaluated(folders: Iterable[Path]) -> set[str]:
    """The folders that are called like original sets of enrolment or of trials, or like downloads that hold both."""
    names = (folder.name for folder in folders if split_name(folder.name)[0] == folder.name)
    return {name for name in names if _OF_TRIALS.search(name) or is_raw(name)}


def _find_nested(root: Path, data: Path | None, remarks: _Remarks) -> dict[str, list[Path]]:
    """The folders of ``ROOT/SYSTEM/data`` by system, where some are called like copies of a challenge's sets.

    Where the originals of all of them lie beside them it is a checkout of its own: nothing original may be taken for anonymised speech.
    """
    nested: dict[str, list[Path]] = {}
    checkouts = {}
    for system in list_folders(root):
        folders = list_folders(system / "data") if system / "data" != data else []
        copied = {
            name
            for name, suffix in (split_name(folder.name) for folder in folders)
            if suffix and _OF_TRIALS.search(name)
        }
        if copied and copied <= _list_evaluated(folders):
            checkouts[system] = join_few([folder.name for folder in folders if split_name(folder.name)[1]])
        elif any(suffix for _, suffix in (split_name(folder.name) for folder in folders)):
            nested[system.name] = folders
    if nested or data is not None:
        remarks.limits += [
            f"{system.name}: holds original sets beside its copies ({names}), is a checkout of its own and passed over: "
            f"dataset.root={shlex.quote(str(system))} evaluates it"
            for system, names in checkouts.items()
        ]
    return nested


def _find_nested_originals(root: Path) -> dict[str, Path]:
    """The sets of folders ``ROOT/ANY/data`` that hold originals alone."""
    originals = {}
    for place in list_folders(root):
        folders = {split_name(child.name): child for child in list_folders(place / "data")}
        if not any(suffix for _, suffix in folders):
            originals.update({name: folder for (name, _), folder in folders.items() if name})
    return originals


def _group_copies(place: str, folders: Iterable[Path]) -> list[_SuffixCopies]:
    """The copies beside originals, by their suffixes."""
    by_suffix: dict[str, dict[str, Path]] = {}
    for folder in folders:
        name, suffix = split_name(folder.name)
        if suffix:
            by_suffix.setdefault(suffix, {})[name] = folder
    return [
        _SuffixCopies(place, suffix, folder_of)
        for suffix, folder_of in by_suffix.items()
        if any(map(_OF_TRIALS.search, folder_of))
    ]


def _group_system(place: str, folders: list[Path], remarks: _Remarks) -> list[_SuffixCopies]:
    """The copies in the folder of an Attacker Challenge's system: one system, or one for each suffix that names a set exactly.

    Its training set may be called otherwise, and a name may be misspelt: such a folder goes with the suffix that it ends in.
    """
    systems = _group_copies(place, [system for system in folders if not is_raw(split_name(system.name)[0])])
    taken = {folder for system in systems for folder in system.folders.values()}
    for folder in folders:
        if folder in taken:
            continue
        of = [system for system in systems if folder.name.endswith(system.suffix)] or systems
        name = _guess_set(folder.name, of[0].suffix, of[0].folders) if len(of) == 1 else ""
        if name:
            of[0] = replace(of[0], folders={**of[0].folders, name: folder})
            systems = [of[0] if system.suffix == of[0].suffix else system for system in systems]
            text = f"{place}: the folder {folder.name} is taken for {name}{of[0].suffix}"
            (remarks.notes if _OWN_NAMES.get(folder.name.removesuffix(of[0].suffix)) else remarks.limits).append(text)
        elif split_name(folder.name)[0] == folder.name:
            remarks.limits.append(
                f"{place}: the folder {folder.name} is called like an original set, and is passed over"
            )
        else:
            text = f"{place}: the folder {folder.name} is called like no set of the challenge, and is passed over"
            (
                remarks.limits if any(folder.name.endswith(system.suffix) for system in systems) else remarks.notes
            ).append(text)
    return systems


def _name_copies(
    systems: list[_SuffixCopies], remarks: _Remarks
) -> tuple[dict[str, Mapping[str, Path]], dict[str, str]]:
    """The copies of each system by what it is called: its suffix, or its folder where several have that suffix; and theirs."""
    count = Counter(system.suffix for system in systems)
    copies: dict[str, Mapping[str, Path]] = {
        system.suffix: system.folders for system in systems if count[system.suffix] == 1
    }
    shared: dict[str, str] = {}
    for system in systems:
        if count[system.suffix] > 1:
            name = f"_{system.place}" if f"_{system.place}" not in copies else f"_{system.place}{system.suffix}"
            copies[name], shared[name] = system.folders, system.suffix
    for suffix in dict.fromkeys(shared.values()):
        names = ", ".join(name for name in shared if shared[name] == suffix)
        remarks.limits.append(f"folders of several systems end in {suffix}, and each is evaluated by itself: {names}")
    return copies, shared


def _guess_set(folder: str, suffix: str, folder_of: Mapping[str, Path]) -> str:
    """Which set a folder of another name is meant to be: one that has no folder yet; '' if that is not clear."""
    base = folder.removesuffix(suffix)
    lacking = [name for name in SET_NAMES if name not in folder_of and (name == TRAINING or name.startswith("libri_"))]
    if base in _OWN_NAMES:
        return _OWN_NAMES[base] if _OWN_NAMES[base] in lacking else ""
    name = split_name(folder)[0]
    if name and not is_raw(name):
        # Its suffix is another one than that of the other folders. (A misspelt libri_dev_trails_f begins like the download libri_dev,
        # which nobody anonymises.)
        return name if name in lacking and name != folder else ""
    near = difflib.get_close_matches(f"{base}{suffix}", [f"{name}{suffix}" for name in lacking], n=1, cutoff=0.85)
    return near[0].removesuffix(suffix) if near else ""


# Which edition -------------------------------------------------------------------------------------------------------


def _recognise(root: Path, start: Path, exp: Path | None, sets: Mapping[str, Path]) -> tuple[str, str]:
    """The edition, and what tells it in words; '' where it is a guess: 2020 and 2022 call their sets alike, and so do all editions
    those of LibriSpeech."""
    mixed = [name for name in sets if name.endswith("_trials_mixed")]
    if mixed:
        return "2026", f"the set {mixed[0]}"
    if exp is not None and (exp / "asv_ssl").is_dir():
        return "2026", "exp/asv_ssl"
    vctk = [name for name in sets if name.startswith("vctk_")]
    if vctk or (exp is not None and (exp / "models" / "asv_eval").is_dir()):
        edition, mark = _tell_2020_from_2022(root, start, exp, sets)
        both = f"the set {vctk[0]}" if vctk else "exp/models/asv_eval"
        return edition, f"{both}, {mark}" if mark else ""
    if exp is not None and (exp / "asv_orig").is_dir():
        return "2024", "exp/asv_orig"
    named = _read_edition_name(root)
    if named:
        return named[0], f"the name of the folder {named[1]}"
    return "2024", ""


def _tell_2020_from_2022(root: Path, start: Path, exp: Path | None, sets: Mapping[str, Path]) -> tuple[str, str]:
    """2020 or 2022, whose sets are called alike: by their models, their training sets, their scripts, or the folder's name."""
    if exp is not None:
        models = exp / "models"
        vectors = models / "asv_eval" / "xvect_01709_1"
        if (vectors / "xvect_train_clean_360").is_dir():
            return "2020", f"{vectors.relative_to(exp.parent)}/xvect_train_clean_360"
        for path in (vectors / "plda", models / "asv_eval_sidekit", models / "user_asv_eval_anon"):
            if path.exists():
                return "2022", str(path.relative_to(exp.parent))
    if f"{TRAINING}-asv" in sets:
        return "2022", f"the set {TRAINING}-asv"
    if (start / "local" / "main_anonymization_train_data.sh").is_file():
        return "2022", "local/main_anonymization_train_data.sh"
    named = _read_edition_name(root)
    if named and named[0] in ("2020", "2022"):
        return named[0], f"the name of the folder {named[1]}"
    return "2022", ""


def _read_edition_name(root: Path) -> tuple[str, str] | None:
    """The edition that a checkout is called, here or up to two folders above."""
    path = root.absolute()
    for folder in (path, *path.parents[:2]):
        match = _CHALLENGE.search(folder.name)
        if match:
            return match[1], folder.name
    return None


PSEUDO_VOICE_LEVELS = {"2020": "speaker", "2022": "speaker"}
"""Who has a pseudo-voice in the evaluation sets, by the edition's rules; in the others each utterance."""


@dataclass(frozen=True)
class FoundCopy:
    """A copy of the sets as a system.

    Attributes:
        label: the suffix without its leading underscores, or the whole of it where that would be another's.
        suffix: of the folders' names.
        level: who has a pseudo-voice, by the edition's rule.
        root: the folder that holds those of the sets.
        folders: of the sets; empty where all are called after their sets and the suffix.
        train_root: the anonymised training set; None where there is none.
        sets: the folder of each set that it holds but for the training set.
        called: what the copy is asked for by, where folders of several systems have its suffix; a model that is called after the
            suffix alone is then nobody's.
    """

    label: str
    suffix: str
    level: str
    root: Path
    folders: Mapping[str, Path] = field(default_factory=dict)
    train_root: Path | None = None
    called: str = ""
    sets: Mapping[str, Path] = field(default_factory=dict, compare=False)

    def lacks(self, needed: Iterable[str]) -> list[str]:
        """Those of some sets that it does not hold: there is no folder, or neither audio nor a ``wav.scp`` in it."""
        files = {
            name: [Path(file) for _, _, below in os.walk(folder) for file in below]
            for name, folder in self.sets.items()
        }
        having = {
            name
            for name, paths in files.items()
            if any(path.name == "wav.scp" or path.suffix.lower() in audio.EXTENSIONS for path in paths)
        }
        return [name for name in needed if name not in having]


def list_copies(layout: Layout) -> dict[str, FoundCopy]:
    """The copies of a layout by their labels, in the order of their suffixes."""
    copies: dict[str, FoundCopy] = {}
    for name, places in sorted(layout.copies.items()):
        suffix, called = layout.shared.get(name, name), name if name in layout.shared else ""
        evaluated = {of: place for of, place in places.items() if not is_training_set(of)}
        training = [place for of, place in sorted(places.items()) if is_training_set(of)]
        if not evaluated:
            continue
        bare = name.lstrip("_")
        label = bare if bare not in ("", "original", *copies) else name
        level = PSEUDO_VOICE_LEVELS.get(layout.edition, "utterance")
        root = Path(os.path.commonpath([place.parent for place in evaluated.values()]))
        plain = all(place == root / f"{of}{suffix}" for of, place in evaluated.items())
        folders = {} if plain else evaluated
        copies[label] = FoundCopy(
            label, suffix, level, root, folders, training[0] if training else None, called, evaluated
        )
    return copies


def is_training_set(name: str) -> bool:
    """Whether a set of this name is one to train on."""
    return name.startswith(TRAINING)
