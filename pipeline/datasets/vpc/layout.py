"""Where the sets, their anonymised copies and the trained models of a VoicePrivacy folder lie, and which edition it is.

Directories are listed and nothing else is read. A root may be a challenge's checkout, its ``baseline/`` (2020 and 2022 keep ``data``
and ``exp`` below that), its ``data/``, or the tree of the Attacker Challenge, ``ROOT/SYSTEM/data/SET_SYSTEM``.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

EDITIONS = ("2020", "2022", "2024", "2026", "attacker")
TRAINING = "train-clean-360"
_CORPORA = ("libri", "vctk")
_LANGUAGES = ("en", "es", "fr", "de", "ja", "cn")


def _known() -> Iterator[str]:
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


KNOWN = tuple(_known())
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
        recognised: the edition by what lies there.
        marks: by what it was recognised; '' where nothing tells 2020 from 2022.
        notes: what else was noticed of names.
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


def look(root: Path, edition: str = "auto", originals: Path | None = None) -> Layout | None:
    """The layout of a challenge's folder; None if it holds none of a challenge's sets.

    Args:
        root: a checkout, its ``baseline/``, its ``data/``, or the Attacker Challenge's tree.
        edition: ``auto``, or the edition that it is said to be.
        originals: where the original sets are, if they are not in ``root``: a folder of the same kinds.
    """
    data = _data(root)
    nested = _nested(root)
    if data is None and not nested:
        return None
    start = root if data is None else data.parent if data.name == "data" else data
    sets: dict[str, Path] = _original(root) if nested else {}
    copies: dict[str, dict[str, Path]] = {}
    notes: list[str] = []
    for folder in folders_in(data) if data is not None else ():
        name, suffix = split(folder.name)
        if name and suffix:
            copies.setdefault(suffix, {})[name] = folder
        elif name:
            sets[name] = folder
    for system, several in nested.items():
        suffix, found = _of_system(system, several, notes)
        copies.setdefault(suffix, {}).update(found)
    copies = {suffix: found for suffix, found in copies.items() if any(map(_OF_TRIALS.search, found))}
    exp = _exp(root, data)
    recognised, marks = _recognise(root, start, exp, sets, bool(nested))
    theirs = look(originals) if originals is not None else None
    if theirs is not None:
        sets = {**theirs.sets, **sets}
    return Layout(
        recognised if edition == "auto" else edition,
        start,
        data or (theirs.data if theirs is not None else root),
        exp,
        dict(sorted(sets.items())),
        {suffix: dict(sorted(found.items())) for suffix, found in sorted(copies.items())},
        recognised,
        marks,
        tuple(notes),
    )


def split(folder: str) -> tuple[str, str]:
    """The name of the original set and the suffix of a folder's name; ('', '') if it is called like no set of a challenge."""
    for name in sorted(KNOWN, key=len, reverse=True):
        suffix = folder.removeprefix(name)
        if folder.startswith(name) and (not suffix or suffix.startswith("_")):
            return (name, suffix) if not _NEVER_A_SYSTEM.match(suffix) else ("", "")
    return "", ""


# Where ---------------------------------------------------------------------------------------------------------------


def _data(root: Path) -> Path | None:
    """The first folder that holds a challenge's sets side by side."""
    for folder in (root / "data", root / "baseline" / "data", root):
        if any(split(one.name)[0] for one in folders_in(folder)):
            return folder
    return None


def _exp(root: Path, data: Path | None) -> Path | None:
    beside = [data.parent / "exp", data / "exp"] if data is not None else [root / "exp"]
    return next((folder for folder in beside if folder.is_dir()), None)


def folders_in(folder: Path) -> list[Path]:
    """The folders in a folder, by name; none if it cannot be listed."""
    try:
        return sorted(one for one in folder.iterdir() if one.is_dir() and not one.name.startswith("."))
    except OSError:
        return []


def _nested(root: Path) -> dict[str, list[Path]]:
    """The folders of ``ROOT/SYSTEM/data`` by system, where some are called like copies of a challenge's sets and none like a set.

    A folder that holds both is a checkout of its own: nothing original may be taken for anonymised speech.
    """
    found = {}
    for system in folders_in(root):
        folders = folders_in(system / "data")
        names = [split(one.name) for one in folders]
        if any(suffix for _, suffix in names) and not any(name and not suffix for name, suffix in names):
            found[system.name] = folders
    return found


def _original(root: Path) -> dict[str, Path]:
    """The sets of folders ``ROOT/ANY/data`` that hold originals alone."""
    found = {}
    for place in folders_in(root):
        folders = {split(one.name): one for one in folders_in(place / "data")}
        if not any(suffix for _, suffix in folders):
            found.update({name: folder for (name, _), folder in folders.items() if name})
    return found


def _of_system(system: str, folders: list[Path], notes: list[str]) -> tuple[str, dict[str, Path]]:
    """The suffix of an Attacker Challenge's system, and its folders by the name of the original set.

    Its training set may be called otherwise, and a name may be misspelt: the suffix is what most folders end in.
    """
    ends = Counter(split(one.name)[1] for one in folders)
    ends.pop("", None)
    suffix = ends.most_common(1)[0][0] if ends else f"_{system}"
    found: dict[str, Path] = {}
    unclear: list[Path] = []
    for folder in folders:
        name, end = split(folder.name)
        if name and end == suffix:
            found[name] = folder
        else:
            unclear.append(folder)
    for folder in unclear:
        name = _meant(folder.name, suffix, found)
        if name:
            found[name] = folder
            notes.append(f"{system}: the folder {folder.name} is taken for {name}{suffix}")
        else:
            notes.append(
                f"{system}: the folder {folder.name} is called like no set of the challenge, and is passed over"
            )
    return suffix, found


def _meant(folder: str, suffix: str, found: Mapping[str, Path]) -> str:
    """Which set a folder of another name is meant to be: one that has no folder yet; '' if that is not clear."""
    base = folder.removesuffix(suffix)
    lacking = [name for name in KNOWN if name not in found and (name == TRAINING or name.startswith("libri_"))]
    if base in _OWN_NAMES:
        return _OWN_NAMES[base] if _OWN_NAMES[base] in lacking else ""
    name = split(folder)[0]
    if name and not is_raw(name):
        # Its suffix is another one than that of the other folders. (A misspelt libri_dev_trails_f begins like the download libri_dev,
        # which nobody anonymises.)
        return name if name in lacking else ""
    near = difflib.get_close_matches(f"{base}{suffix}", [f"{name}{suffix}" for name in lacking], n=1, cutoff=0.85)
    return near[0].removesuffix(suffix) if near else ""


# Which edition -------------------------------------------------------------------------------------------------------


def _recognise(root: Path, start: Path, exp: Path | None, sets: Mapping[str, Path], nested: bool) -> tuple[str, str]:
    """The edition, and what tells it in words; '' where it is a guess between 2020 and 2022."""
    if nested:
        return "attacker", "systems in folders of their own, SYSTEM/data/SET_SYSTEM"
    mixed = [name for name in sets if name.endswith("_trials_mixed")]
    if mixed:
        return "2026", f"the set {mixed[0]}"
    if exp is not None and (exp / "asv_ssl").is_dir():
        return "2026", "exp/asv_ssl"
    vctk = [name for name in sets if name.startswith("vctk_")]
    if vctk or (exp is not None and (exp / "models" / "asv_eval").is_dir()):
        edition, mark = _of_two(root, start, exp, sets)
        both = f"the set {vctk[0]}" if vctk else "exp/models/asv_eval"
        return edition, f"{both}, {mark}" if mark else ""
    if exp is not None and (exp / "asv_orig").is_dir():
        return "2024", "exp/asv_orig"
    named = _named(root)
    if named:
        return named[0], f"the name of the folder {named[1]}"
    return "2024", "LibriSpeech sets without VCTK beside them"


def _of_two(root: Path, start: Path, exp: Path | None, sets: Mapping[str, Path]) -> tuple[str, str]:
    """2020 or 2022, whose sets are called alike: by their models, their training sets, their scripts, or the folder's name."""
    if exp is not None:
        models = exp / "models"
        vectors = models / "asv_eval" / "xvect_01709_1"
        if (vectors / "xvect_train_clean_360").is_dir():
            return "2020", f"{vectors.relative_to(exp.parent)}/xvect_train_clean_360"
        for made in (vectors / "plda", models / "asv_eval_sidekit", models / "user_asv_eval_anon"):
            if made.exists():
                return "2022", str(made.relative_to(exp.parent))
    if f"{TRAINING}-asv" in sets:
        return "2022", f"the set {TRAINING}-asv"
    if (start / "local" / "main_anonymization_train_data.sh").is_file():
        return "2022", "local/main_anonymization_train_data.sh"
    named = _named(root)
    if named and named[0] in ("2020", "2022"):
        return named[0], f"the name of the folder {named[1]}"
    return "2022", ""


def _named(root: Path) -> tuple[str, str] | None:
    """The edition that a checkout is called, here or up to two folders above."""
    path = root.absolute()
    for folder in (path, *path.parents[:2]):
        found = _CHALLENGE.search(folder.name)
        if found:
            return found[1], folder.name
    return None
