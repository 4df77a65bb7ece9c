"""Which score files a folder holds, and what each is of: told by the names that the challenges' scripts give.

VPC 2024: ``exp/{asv_orig,asv_anonSUFFIX}/ENROL[SUFFIX]-TRIAL[SUFFIX]/scores``. VPC 2020 and 2022:
``exp/results-DATE/ASV-ENROL-TRIAL/scores``, with ``_anon`` behind the names of anonymised sets. VPC 2022 writes what its downloaded
model scores, which knows original speech, to ``results-DATE.orig``, and what the model scores that was trained on anonymised speech to
``results-DATE``; its published logs are called ``results.orig_SYSTEM`` and ``results.anon_SYSTEM``, its papers' models ASV_eval and
ASV_eval^anon. The Attacker Challenge: such a folder for each system. The root may be any folder above the files.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline.datasets.listings import Fence
from pipeline.datasets.scores.columns import INDEX
from pipeline.faults import Faults
from pipeline.names import join_few
from pipeline.tables import text

SCORE_NAMES = ("scores", "scores.txt")

SSL = "asv_ssl"
"""What tables call the extractor of VPC 2026, whichever speech it was trained on."""

ORIGINAL, UNPROTECTED = "original", "unprotected"
IGNORANT, LAZY, SEMI = "ignorant", "lazy_informed", "semi_informed"

CONDITIONS = {UNPROTECTED: "OO", IGNORANT: "OP", LAZY: "PP", SEMI: "PP"}
"""What the usual attackers enrol against what they try."""

_FOLDERS_PASSED = {"wav", "corpora", "data", "emb_xvect", "spk-level", "utt-level"}
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
class ScoreFolder:
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
class SetNames:
    """The name of a folder of scores, taken apart."""

    enrolment: str
    enrolled: str
    trials: str
    tried: str


@dataclass(frozen=True)
class _TrainedOn:
    """The speech on which an extractor of 2020 or 2022 was trained: ``orig`` or ``anon``; '' is in doubt, and taken for ``orig``."""

    speech: str
    anew: bool = False


class Ambiguous(Exception):
    """Several folders of results, and which is meant cannot be told: the message says which."""


def find_score_files(root: Path, results: str = "") -> ScoreFolder:
    """The score files below a folder.

    Args:
        root: any folder above them.
        results: the name of the folder ``results-…`` to take, where there are several.

    Raises:
        Ambiguous: several such folders without a date, and none of this name.
    """
    paths = sorted(_walk_score_files(root))
    chosen, limits = _choose_results(paths, results)
    files: list[ScoreFile] = []
    unknown: list[tuple[Path, str]] = []
    aside: dict[str, list[str]] = {}
    for path in chosen:
        identified = _identify_file(path, root)
        if isinstance(identified, ScoreFile):
            files.append(identified)
        elif identified.startswith("aside: "):
            aside.setdefault(identified.removeprefix("aside: "), []).append(
                f"{path.parent.parent.name}/{path.parent.name}"
            )
        else:
            unknown.append((path, identified))
    notes = [f"{len(names)} score files are left out, {why}: {join_few(names, 3)}" for why, names in aside.items()]
    return ScoreFolder(tuple(files), tuple(unknown), tuple(notes), (*limits, *_describe_doubts(files)))


def parse_folder_name(folder: str) -> SetNames | None:
    """The name ``[ASV-]ENROL[SUFFIX]-TRIAL[SUFFIX]`` taken apart; None where it is no such name.

    A suffix may hold hyphens (``_T10-2``): the right cut is the one at which both sets are of one corpus and both suffixes,
    where there are two, the same.
    """
    plain = _OLD.sub("", folder, count=1)
    for cut in (place for place, letter in enumerate(plain) if letter == "-"):
        enrolment, trials = _ENROLMENT.fullmatch(plain[:cut]), _TRIALS.fullmatch(plain[cut + 1 :])
        if enrolment is None or trials is None or enrolment["stem"] != trials["stem"]:
            continue
        enrolled, tried = enrolment["suffix"] or "", trials["suffix"] or ""
        if enrolled and tried and enrolled != tried:
            continue
        return SetNames(plain[:cut].removesuffix(enrolled), enrolled, plain[cut + 1 :].removesuffix(tried), tried)
    return None


def _walk_score_files(root: Path) -> Iterator[Path]:
    """The files called so; of a folder behind links once, by its own path if that is below the root."""
    seen = {_identify_folder(folder) for folder in root.resolve().parents}
    places = [root]
    while places:
        links: list[Path] = []
        for start in sorted(places):
            for place, folders, files in os.walk(start):
                here = Path(place)
                if _identify_folder(here) in seen:
                    folders.clear()
                    continue
                seen.add(_identify_folder(here))
                deep = len(here.parts) - len(root.parts) >= _DEEPEST
                folders[:] = [
                    name for name in folders if name not in _FOLDERS_PASSED and not name.startswith(".") and not deep
                ]
                links += [here / name for name in folders if (here / name).is_symlink()]
                yield from (here / name for name in files if name in SCORE_NAMES)
        places = links


def _identify_folder(folder: Path) -> tuple[int, int]:
    status = folder.stat()
    return status.st_dev, status.st_ino


def _choose_results(paths: Sequence[Path], results: str) -> tuple[list[Path], list[str]]:
    """Of the folders ``results-…`` of each place, the one that is asked for, or the newest; and a word on it.

    ``results-DATE`` and ``results-DATE.orig`` are one result, of two models.
    """
    by_place: dict[Path, dict[str, list[Path]]] = {}
    kept = []
    for path in paths:
        folder = path.parent.parent
        if _RESULTS.fullmatch(folder.name):
            by_place.setdefault(folder.parent, {}).setdefault(_name_result(folder.name), []).append(path)
        else:
            kept.append(path)
    notes = []
    for place, results_here in by_place.items():
        alone = [
            path
            for result_paths in results_here.values()
            for path in result_paths
            if path.parent.parent.name == results
        ]
        if results and results not in results_here and not alone:
            raise Ambiguous(f"there is no {results} in {place}, which holds {join_few(sorted(results_here))}")
        newest = results or max(results_here)
        if len(results_here) > 1 and not results:
            if not all(map(_DATE.fullmatch, results_here)):
                raise Ambiguous(
                    f"{place} holds {join_few(sorted(results_here))}, and their names do not say which is the newest"
                )
            others = sorted(set(results_here) - {newest})
            notes.append(
                f"of {len(results_here)} folders of results the newest is taken, {newest} (not {join_few(others)})"
            )
        kept += results_here.get(newest, alone)
    return sorted(kept), notes


def _name_result(folder: str) -> str:
    """The name that the folders of one result share, whichever model scored."""
    return re.sub(r"^results\.(orig|anon)_", "results.", re.sub(r"(?<=.)\.(orig|anon)$", "", folder))


def _find_training(path: Path) -> _TrainedOn:
    """On what the extractor behind a score file of 2020 or 2022 was trained, as far as names say it."""
    results = path.parent.parent
    own, of = _OLD.match(path.parent.name), _OF_RESULTS.fullmatch(results.name)
    if own is not None and own["known"]:
        return _TrainedOn(own["known"])
    if of is not None:
        return _TrainedOn(of[1] or of[2])
    models = results.parent / "models"
    anew = [speech for speech in ("anon", "orig") if (models / f"user_asv_eval_{speech}").is_dir()]
    if anew or results.with_name(f"{results.name}.orig").is_dir():
        return _TrainedOn(anew[0] if anew else "anon", anew=True)
    of_2020 = (models / "asv_eval" / "xvect_01709_1" / "xvect_train_clean_360").is_dir()
    dated = _DATE.fullmatch(results.name)
    return _TrainedOn("orig" if of_2020 or (dated and results.name < "results-2022") else "")


def _describe_doubts(files: Sequence[ScoreFile]) -> list[str]:
    """What is to be said of anonymised enrolment of which no name says what the extractor was trained on."""
    doubted = [
        score_file
        for score_file in files
        if score_file.condition == "PP" and _is_old_name(score_file.path) and not _find_training(score_file.path).speech
    ]
    by_folder: dict[str, int] = {}
    for score_file in doubted:
        by_folder[score_file.path.parent.parent.name] = by_folder.get(score_file.path.parent.parent.name, 0) + 1
    return [
        f"nothing in the names below {folder} says whether the attacker's extractor was trained on original or on anonymised speech, "
        f"as that by which VoicePrivacy 2022 ranks: {count} score files of anonymised enrolment count as {LAZY}; if they are "
        f"{SEMI}, rename these folders from ASV-… to ASV_anon-…, or list them in scores.csv"
        for folder, count in by_folder.items()
    ]


def _is_old_name(path: Path) -> bool:
    """Whether a score file is called as in 2020 and 2022."""
    return _OLD.match(path.parent.name) is not None


def _identify_file(path: Path, root: Path) -> ScoreFile | str:
    """What a score file is of, or why it is not taken: ``aside: …`` for what is recognised and not evaluated."""
    set_names = parse_folder_name(path.parent.name)
    if set_names is None:
        return f"the folder {path.parent.name} is not called ENROL[SUFFIX]-TRIAL[SUFFIX]"
    model, old = _MODEL.fullmatch(path.parent.parent.name), _is_old_name(path)
    if model is None and not old:
        return f"the folder {path.parent.parent.name} does not say which attacker this is (asv_orig or asv_anonSUFFIX)"
    suffix = set_names.tried or set_names.enrolled
    trained_on = _find_training(path) if old else _TrainedOn("")
    if trained_on == _TrainedOn("orig", anew=True):
        return "aside: the extractor was trained anew on original speech"
    adapted = trained_on.speech == "anon" if old else model is not None and model[1].startswith("anon")
    score_file = ScoreFile(
        path, set_names.trials, set_names.enrolment, "OO", ORIGINAL, UNPROTECTED,
        *(("ecapa", "original", "cosine", False) if not old else ("xvector", "original", "plda", True)),
    )  # fmt: skip
    if model is not None and model[1] == "ssl":
        score_file = replace(score_file, extractor=SSL)
    system = _name_system(suffix, path, root)
    if adapted and not (set_names.tried and set_names.enrolled):
        return "aside: the attacker who knows anonymised speech is tried on anonymised enrolment and trials alone"
    if set_names.enrolled and not set_names.tried:
        return "aside: anonymised enrolment against original trials is no condition of these tables"
    if not suffix:
        return score_file
    if not set_names.enrolled:
        return replace(score_file, condition="OP", system=system, attacker=IGNORANT)
    if not adapted:
        return replace(score_file, condition="PP", system=system, attacker=LAZY)
    if model is not None and model["suffix"] not in (None, suffix):
        return "aside: the attacker was trained on the speech of another system"
    if model is not None:
        orig, ssl = ((path.parent.parent.parent / name).is_dir() for name in ("asv_orig", "asv_ssl"))
        if orig and ssl:
            return f"asv_orig and asv_ssl are two extractors, and {path.parent.parent.name} does not say which it was made of"
        if ssl or set_names.trials.endswith("_trials_mixed"):
            score_file = replace(score_file, extractor=SSL)
    return replace(score_file, condition="PP", system=system, attacker=SEMI, trained_on="anonymised")


def _name_system(suffix: str, path: Path, root: Path) -> str:
    """The label of a system: its suffix; the folder of the system where all are called ``_anon``."""
    label = suffix.lstrip("_")
    within = path.relative_to(root).parts
    own = (
        within[0]
        if len(within) > 3 and within[0] not in ("exp", "baseline") and not _RESULTS.fullmatch(within[0])
        else ""
    )
    return own if label == "anon" and own and _MODEL.fullmatch(own) is None else label


LIST_NAME = "scores.csv"
NEEDED_COLUMNS = ("file", "subset")

LIST_COLUMNS = (
    *NEEDED_COLUMNS,
    "trials",
    "condition",
    "system",
    "attacker",
    "extractor",
    "backend",
    "trained_on",
    "llr",
)

UNNAMED = "given"
"""What tables call an extractor, its training speech or a back end of which nothing is said."""

_CONDITIONS = {"OO": "OO", "OP": "OP", "PP": "PP", "OA": "OP", "AA": "PP"}

_KNOWS = {IGNORANT: ORIGINAL, LAZY: ORIGINAL, SEMI: "anonymised"}
"""What the extractors of the usual attackers were trained on."""

_YES_NO = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def read_score_list(path: Path, faults: Faults, follow_links: bool = False) -> ScoreFolder:
    """The files that a table names; paths are relative to its folder, and lead to files below it. Faults are added for each line.

    Columns are parted by commas, semicolons or tabs; ``file`` and ``subset`` are needed. ``condition`` follows from the attacker,
    the attacker of OO is the unprotected one. ``llr`` says whether scores are natural-log likelihood ratios (Cllr is defined for
    these alone).
    """
    try:
        content = text.text(path)
    except text.Unreadable as error:
        faults.add(error.kind, error.what, path)
        return ScoreFolder(())
    head = content.partition("\n")[0]
    delimiter = max(",;\t", key=head.count)
    rows = csv.DictReader(content.splitlines(), delimiter=delimiter, skipinitialspace=True)
    header = [name.strip() or (INDEX if place == 0 else "") for place, name in enumerate(rows.fieldnames or ())]
    rows.fieldnames = header
    wrong = [name for name in header if name not in (*LIST_COLUMNS, INDEX)]
    lacking = [name for name in NEEDED_COLUMNS if name not in header]
    if wrong or lacking or len(set(header)) < len(header):
        problems = [f"unknown {', '.join(wrong)}" if wrong else "", f"missing {', '.join(lacking)}" if lacking else ""]
        what = "; ".join(filter(None, problems)) or "a column stands twice"
        faults.add("score-table", f"columns: {what}; known are {', '.join(LIST_COLUMNS)}", path)
        return ScoreFolder(())
    score_files, fence = [], Fence(path.parent, follow_links)
    for row in rows:
        where = f"{path}:{rows.line_num}"
        if None in row or None in row.values():
            faults.add("score-table", f"a line of another number of fields than the header's {len(header)}", where)
            continue
        score_file = _parse_row({name: value.strip() for name, value in row.items()}, path.parent, where, faults)
        if score_file is not None and _check_fence(fence, score_file, where, faults):
            score_files.append(score_file)
    if not score_files and not faults.found:
        faults.add("score-table", "it names no file", path)
    return ScoreFolder(tuple(score_files))


def _check_fence(fence: Fence, score_file: ScoreFile, where: str, faults: Faults) -> bool:
    """Whether what a line names lies below the table's folder."""
    away = [path for path in (score_file.path, score_file.trials) if path is not None and not fence.holds(path)]
    for path in away:
        faults.add("leaves-table", f"'{path}' leads out of the table's folder, to {os.path.realpath(path)}", where)
    return not away


def _parse_row(row: Mapping[str, str], folder: Path, where: str, faults: Faults) -> ScoreFile | None:
    attacker, condition = row.get("attacker", ""), row.get("condition", "").upper()
    if not condition:
        condition = CONDITIONS.get(attacker, "OO" if not attacker else "")
    if condition not in _CONDITIONS:
        faults.add("score-table", f"condition '{row.get('condition', '')}' is none of OO, OP, PP (or OA, AA)", where)
        return None
    condition = _CONDITIONS[condition]
    protected = condition != "OO"
    attacker = attacker or ("" if protected else UNPROTECTED)
    system = row.get("system", "") or ("" if protected else ORIGINAL)
    llr = row.get("llr", "").lower() or "no"
    empty = [
        name
        for name, value in (
            ("file", row["file"]),
            ("subset", row["subset"]),
            ("attacker", attacker),
            ("system", system),
        )
        if not value
    ]
    if empty:
        faults.add("score-table", f"{', '.join(empty)}: nothing is said", where)
    if CONDITIONS.get(attacker, condition) != condition:
        faults.add("score-table", f"the attacker {attacker} is one of {CONDITIONS[attacker]}, not {condition}", where)
    elif (system == ORIGINAL) == protected:
        faults.add("score-table", f"the system '{system}' cannot be one of {condition}", where)
    if llr not in _YES_NO:
        faults.add("score-table", f"llr '{llr}' is neither yes nor no", where)
    if any(fault.where == where for fault in faults.found):
        return None
    return ScoreFile(
        folder / row["file"], row["subset"], "", condition, system, attacker,
        row.get("extractor", "") or UNNAMED,
        row.get("trained_on", "") or (ORIGINAL if not protected else _KNOWS.get(attacker, UNNAMED)),
        row.get("backend", "") or UNNAMED,
        _YES_NO[llr],
        folder / row["trials"] if row.get("trials") else None,
    )  # fmt: skip
