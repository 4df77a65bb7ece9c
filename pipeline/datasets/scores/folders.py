"""Which score files a folder holds, and what each is of: told by the names that the challenges' scripts give.

VPC 2024: ``exp/{asv_orig,asv_anonSUFFIX}/ENROL[SUFFIX]-TRIAL[SUFFIX]/scores``. VPC 2020 and 2022:
``exp/results-DATE/ASV-ENROL-TRIAL/scores``, with ``_anon`` behind the names of anonymised sets. VPC 2022 writes what its downloaded
model scores, which knows original speech, to ``results-DATE.orig``, and what the model scores that was trained on anonymised speech to
``results-DATE``; its published logs are called ``results.orig_SYSTEM`` and ``results.anon_SYSTEM``, its papers' models ASV_eval and
ASV_eval^anon. The Attacker Challenge: such a folder for each system. The root may be any folder above the files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline.names import join_few

SCORES = ("scores", "scores.txt")
SSL = "asv_ssl"
"""What tables call the extractor of VPC 2026, whichever speech it was trained on."""
ORIGINAL, UNPROTECTED = "original", "unprotected"
IGNORANT, LAZY, SEMI = "ignorant", "lazy_informed", "semi_informed"
CONDITIONS = {UNPROTECTED: "OO", IGNORANT: "OP", LAZY: "PP", SEMI: "PP"}
"""What the usual attackers enrol against what they try."""

_PASSED = {"wav", "corpora", "data", "emb_xvect", "spk-level", "utt-level"}
_DEEPEST = 8
_ENROLMENT = re.compile(r"(?P<stem>.+?)_enrolls(?P<mic>_mic\d)?(?P<suffix>_.+)?")
_TRIALS = re.compile(
    r"(?P<stem>.+?)_trials(_(f|m|mixed)(?=_|$))?(_(common|all)(?=_|$))?(_mic\d(?=_|$))?(?P<suffix>_.+)?"
)
_MODEL = re.compile(r"asv_(orig|ssl|anon(?P<suffix>_.+)?)")
_RESULTS = re.compile(r"results[-.].+")
_OF_RESULTS = re.compile(r"results\.(orig|anon)_.+|results-.+\.(orig|anon)")
"""Folders of results whose names say what the extractor was trained on."""
_OLD = re.compile(r"ASV(_eval)?([_^](?P<known>orig|anon))?-")
"""What comes before the names of the sets in 2020 and 2022; ``ASV_anon-`` and ``ASV_eval^anon-`` say what the extractor knows."""
_DATE = re.compile(r"results-\d{4}-\d\d-\d\d(-\d\d){0,3}")


@dataclass(frozen=True)
class ScoreFile:
    """A file of scores and what it is of.

    Attributes:
        path: the file.
        subset, enrolment: names of the sets of trials and of enrolment, without suffix.
        condition, system, attacker, extractor, trained_on, backend: columns of the results.
        gives_llrs: whether scores are natural-log likelihood ratios.
        trials: the list of its trials; None where one is looked for by the name of the set.
    """

    path: Path
    subset: str
    enrolment: str
    condition: str
    system: str
    attacker: str
    extractor: str
    trained_on: str
    backend: str
    gives_llrs: bool
    trials: Path | None = None

    @property
    def attack(self) -> tuple[str, ...]:
        """What tells it from other files of the same set."""
        return self.subset, self.condition, self.system, self.attacker, self.extractor, self.trained_on, self.backend


@dataclass(frozen=True)
class Found:
    """What a folder holds.

    Attributes:
        files: the score files that are evaluated.
        unknown: those of which the names do not say what they are, with the reason.
        notes: what was passed over.
        limits: which of several results was taken.
    """

    files: tuple[ScoreFile, ...]
    unknown: tuple[tuple[Path, str], ...] = ()
    notes: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Names:
    """The name of a folder of scores, taken apart."""

    enrolment: str
    enrolled: str
    trials: str
    tried: str


@dataclass(frozen=True)
class _Known:
    """The speech on which an extractor of 2020 or 2022 was trained: ``orig`` or ``anon``; '' is in doubt, and taken for ``orig``."""

    speech: str
    anew: bool = False


class Ambiguous(Exception):
    """Several folders of results, and which is meant cannot be told: the message says which."""


def look(root: Path, results: str = "") -> Found:
    """The score files below a folder.

    Args:
        root: any folder above them.
        results: the name of the folder ``results-…`` to take, where there are several.

    Raises:
        Ambiguous: several such folders without a date, and none of this name.
    """
    paths = sorted(_score_files(root))
    chosen, limits = _one_date(paths, results)
    files: list[ScoreFile] = []
    unknown: list[tuple[Path, str]] = []
    aside: dict[str, list[str]] = {}
    for path in chosen:
        made = _of(path, root)
        if isinstance(made, ScoreFile):
            files.append(made)
        elif made.startswith("aside: "):
            aside.setdefault(made.removeprefix("aside: "), []).append(f"{path.parent.parent.name}/{path.parent.name}")
        else:
            unknown.append((path, made))
    notes = [f"{len(names)} score files are left out, {why}: {join_few(names, 3)}" for why, names in aside.items()]
    return Found(tuple(files), tuple(unknown), tuple(notes), (*limits, *_in_doubt(files)))


def names(folder: str) -> _Names | None:
    """The name ``[ASV-]ENROL[SUFFIX]-TRIAL[SUFFIX]`` taken apart; None where it is no such name.

    A suffix may hold hyphens (``_T10-2``): the right cut is the one at which both sets are of one corpus and both suffixes,
    where there are two, the same.
    """
    plain = _OLD.sub("", folder, count=1)
    for cut in (place for place, letter in enumerate(plain) if letter == "-"):
        left, right = _ENROLMENT.fullmatch(plain[:cut]), _TRIALS.fullmatch(plain[cut + 1 :])
        if left is None or right is None or left["stem"] != right["stem"]:
            continue
        enrolled, tried = left["suffix"] or "", right["suffix"] or ""
        if enrolled and tried and enrolled != tried:
            continue
        return _Names(plain[:cut].removesuffix(enrolled), enrolled, plain[cut + 1 :].removesuffix(tried), tried)
    return None


def _score_files(root: Path) -> Iterator[Path]:
    """The files called so; of a folder behind links once, by its own path if that is below the root."""
    seen = {_identity(folder) for folder in root.resolve().parents}
    places = [root]
    while places:
        links: list[Path] = []
        for start in sorted(places):
            for place, folders, files in os.walk(start):
                here = Path(place)
                if _identity(here) in seen:
                    folders.clear()
                    continue
                seen.add(_identity(here))
                deep = len(here.parts) - len(root.parts) >= _DEEPEST
                folders[:] = [name for name in folders if name not in _PASSED and not name.startswith(".") and not deep]
                links += [here / name for name in folders if (here / name).is_symlink()]
                yield from (here / name for name in files if name in SCORES)
        places = links


def _identity(folder: Path) -> tuple[int, int]:
    found = folder.stat()
    return found.st_dev, found.st_ino


def is_of(path: Path, results: str) -> bool:
    """Whether a score file is one of the folder of results that is asked for."""
    return results in (path.parent.parent.name, _result(path.parent.parent.name))


def _one_date(paths: Sequence[Path], results: str) -> tuple[list[Path], list[str]]:
    """Of the folders ``results-…`` of each place, the one that is asked for, or the newest; and a word on it.

    ``results-DATE`` and ``results-DATE.orig`` are one result, of two models.
    """
    by_place: dict[Path, dict[str, list[Path]]] = {}
    kept = []
    for path in paths:
        folder = path.parent.parent
        if _RESULTS.fullmatch(folder.name):
            by_place.setdefault(folder.parent, {}).setdefault(_result(folder.name), []).append(path)
        else:
            kept.append(path)
    notes = []
    for place, several in by_place.items():
        alone = [path for found in several.values() for path in found if path.parent.parent.name == results]
        if results and results not in several and not alone:
            raise Ambiguous(f"there is no {results} in {place}, which holds {join_few(sorted(several))}")
        newest = results or max(several)
        if len(several) > 1 and not results:
            if not all(map(_DATE.fullmatch, several)):
                raise Ambiguous(
                    f"{place} holds {join_few(sorted(several))}, and their names do not say which is the newest"
                )
            others = sorted(set(several) - {newest})
            notes.append(f"of {len(several)} folders of results the newest is taken, {newest} (not {join_few(others)})")
        kept += several.get(newest, alone)
    return sorted(kept), notes


def _result(folder: str) -> str:
    """The name that the folders of one result share, whichever model scored."""
    return re.sub(r"^results\.(orig|anon)_", "results.", re.sub(r"(?<=.)\.(orig|anon)$", "", folder))


def _knows(path: Path) -> _Known:
    """On what the extractor behind a score file of 2020 or 2022 was trained, as far as names say it."""
    results = path.parent.parent
    own, of = _OLD.match(path.parent.name), _OF_RESULTS.fullmatch(results.name)
    if own is not None and own["known"]:
        return _Known(own["known"])
    if of is not None:
        return _Known(of[1] or of[2])
    models = results.parent / "models"
    anew = [speech for speech in ("anon", "orig") if (models / f"user_asv_eval_{speech}").is_dir()]
    if anew or results.with_name(f"{results.name}.orig").is_dir():
        return _Known(anew[0] if anew else "anon", anew=True)
    of_2020 = (models / "asv_eval" / "xvect_01709_1" / "xvect_train_clean_360").is_dir()
    dated = _DATE.fullmatch(results.name)
    return _Known("orig" if of_2020 or (dated and results.name < "results-2022") else "")


def _in_doubt(files: Sequence[ScoreFile]) -> list[str]:
    """What is to be said of anonymised enrolment of which no name says what the extractor was trained on."""
    doubted = [one for one in files if one.condition == "PP" and _is_old(one.path) and not _knows(one.path).speech]
    by_folder: dict[str, int] = {}
    for one in doubted:
        by_folder[one.path.parent.parent.name] = by_folder.get(one.path.parent.parent.name, 0) + 1
    return [
        f"nothing in the names below {folder} says whether the attacker's extractor was trained on original or on anonymised speech, "
        f"as that by which VoicePrivacy 2022 ranks: {count} score files of anonymised enrolment count as {LAZY}; if they are "
        f"{SEMI}, rename these folders from ASV-… to ASV_anon-…, or list them in scores.csv"
        for folder, count in by_folder.items()
    ]


def _is_old(path: Path) -> bool:
    """Whether a score file is called as in 2020 and 2022."""
    return _OLD.match(path.parent.name) is not None


def _of(path: Path, root: Path) -> ScoreFile | str:
    """What a score file is of, or why it is not taken: ``aside: …`` for what is recognised and not evaluated."""
    found = names(path.parent.name)
    if found is None:
        return f"the folder {path.parent.name} is not called ENROL[SUFFIX]-TRIAL[SUFFIX]"
    model, old = _MODEL.fullmatch(path.parent.parent.name), _is_old(path)
    if model is None and not old:
        return f"the folder {path.parent.parent.name} does not say which attacker this is (asv_orig or asv_anonSUFFIX)"
    suffix = found.tried or found.enrolled
    known = _knows(path) if old else _Known("")
    if known == _Known("orig", anew=True):
        return "aside: the extractor was trained anew on original speech"
    adapted = known.speech == "anon" if old else model is not None and model[1].startswith("anon")
    made = ScoreFile(
        path, found.trials, found.enrolment, "OO", ORIGINAL, UNPROTECTED,
        *(("ecapa", "original", "cosine", False) if not old else ("xvector", "original", "plda", True)),
    )  # fmt: skip
    if model is not None and model[1] == "ssl":
        made = replace(made, extractor=SSL)
    system = _system(suffix, path, root)
    if adapted and not (found.tried and found.enrolled):
        return "aside: the attacker who knows anonymised speech is tried on anonymised enrolment and trials alone"
    if found.enrolled and not found.tried:
        return "aside: anonymised enrolment against original trials is no condition of these tables"
    if not suffix:
        return made
    if not found.enrolled:
        return replace(made, condition="OP", system=system, attacker=IGNORANT)
    if not adapted:
        return replace(made, condition="PP", system=system, attacker=LAZY)
    if model is not None and model["suffix"] not in (None, suffix):
        return "aside: the attacker was trained on the speech of another system"
    if model is not None:
        orig, ssl = ((path.parent.parent.parent / name).is_dir() for name in ("asv_orig", "asv_ssl"))
        if orig and ssl:
            return f"asv_orig and asv_ssl are two extractors, and {path.parent.parent.name} does not say which it was made of"
        if ssl or found.trials.endswith("_trials_mixed"):
            made = replace(made, extractor=SSL)
    return replace(made, condition="PP", system=system, attacker=SEMI, trained_on="anonymised")


def _system(suffix: str, path: Path, root: Path) -> str:
    """The label of a system: its suffix; the folder of the system where all are called ``_anon``."""
    label = suffix.lstrip("_")
    within = path.relative_to(root).parts
    own = (
        within[0]
        if len(within) > 3 and within[0] not in ("exp", "baseline") and not _RESULTS.fullmatch(within[0])
        else ""
    )
    return own if label == "anon" and own and _MODEL.fullmatch(own) is None else label
