"""A data set of score files: found, joined to their trials, checked, and as tables of the schema that stage ``score`` writes."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from pipeline.datasets import corpus
from pipeline.datasets.scores import discovery, joins, score_table
from pipeline.datasets.scores.columns import is_number
from pipeline.datasets.scores.discovery import ScoreFile
from pipeline.datasets.scores.joins import MatchedTrials
from pipeline.datasets.scores.score_table import Table
from pipeline.datasets.settings import DatasetSettings
from pipeline.errors import DataError, Fault
from pipeline.faults import Faults
from pipeline.metrics import ClassOrder
from pipeline.names import join_few
from pipeline.protocol import trials
from pipeline.protocol.trials import TrialSet
from pipeline.seeds import digest
from pipeline.tables import text

SETTING_NAMES = joins.SettingNames("a list by dataset.trials=DIR", "dataset.utt2spk=FILE", "what refuses them")
POOLED = "pooled"
_OF_A_SEX = re.compile(r"(?P<stem>.+)_trials_(?P<sex>[fm])(?P<rest>_.+)?")


@dataclass(frozen=True, eq=False)
class ScoreSet:
    """The scores of one attack on one trial set.

    Attributes:
        of: what they are of; ``subset`` is the name that tables call the trials by.
        table: columns of ``scores.parquet``, ordered by model and utterance.
        digest: of the table.
        no_speakers: why it is not known whose the trials are, or empty; ``model_speaker`` and ``speaker`` are then groups of ids
            that target trials link.
        note: what the reader of its numbers must know.
    """

    of: ScoreFile
    table: pd.DataFrame
    digest: str
    no_speakers: str = ""
    note: str = ""


@dataclass(frozen=True, eq=False)
class ScoreData:
    """What was read.

    Attributes:
        sets: the scores of each attack on each trial set.
        trials: the trial sets by name.
        notes: what was noticed.
        limits: what a reader of the numbers must know first.
    """

    sets: tuple[ScoreSet, ...]
    trials: Mapping[str, TrialSet]
    notes: tuple[str, ...]
    limits: tuple[str, ...]


def read_score_sets(settings: DatasetSettings) -> ScoreData:
    """Find, join and check score files.

    Raises:
        DataError: with all faults of what is found; without any, with all faults of the files; without those, with all files
            whose scores order the classes the wrong way round.
    """
    faults = Faults(about="the score files have")
    root = Path(settings.root).expanduser().absolute()
    folder = _find_files(settings, root, faults)
    faults.stop(settings.root)
    list_of = _find_lists(settings, root, folder.files, faults)
    faults.stop(settings.root)
    notes, limits = list(folder.notes), list(folder.limits)
    sets, orders = _join_files(settings, root, folder.files, list_of, notes, limits)
    _check_order(settings, root, orders, limits)
    trial_sets = _make_trial_sets(sets, settings.root)
    pooled = list(_pool_sexes(settings, sets, notes, faults))
    faults.stop(settings.root)
    sets += pooled
    for score_set in pooled:
        trial_sets.setdefault(score_set.of.subset, _make_trial_set(score_set))
    counted = f"{len(folder.files)} score file{'s' if len(folder.files) > 1 else ''}"
    first = f"evaluated from {counted} alone: what made the scores, and on what it was trained, is as their names say"
    return ScoreData(tuple(sets), trial_sets, tuple(dict.fromkeys(notes)), tuple(dict.fromkeys([first, *limits])))


# Files ---------------------------------------------------------------------------------------------------------------


def _find_files(settings: DatasetSettings, root: Path, faults: Faults) -> discovery.ScoreFolder:
    """The score files, those of the sets that are asked for, each attack once."""
    if not settings.root or not root.exists():
        faults.add("root", f"there is no folder '{settings.root}'", "dataset.root")
        return discovery.ScoreFolder(())
    table = root if root.is_file() else root / discovery.LIST_NAME
    try:
        folder = (
            discovery.read_score_list(table, faults, settings.follow_links)
            if table.is_file()
            else discovery.find_score_files(root, settings.results or "")
        )
    except discovery.Ambiguous as error:
        faults.add("results", str(error), root)
        return discovery.ScoreFolder(())
    for path, why in folder.unknown:
        faults.add("score-files", why, path)
    if not folder.files and not faults.found:
        faults.add(
            "score-files",
            f"no file is called {' or '.join(discovery.SCORE_NAMES)}, and there is no {discovery.LIST_NAME}",
            root,
        )
    for score_file in folder.files:
        if not score_file.path.is_file():
            faults.add("missing-scores", "there is no such file", score_file.path)
    sets = list(dict.fromkeys(score_file.subset for score_file in folder.files))
    for name in settings.sets or ():
        if name not in sets:
            faults.add("unknown-set", f"there is no set {name}; there are {join_few(sets)}", "dataset.sets")
    if folder.files:
        # Distances taken for similarities look like privacy.
        names = [_shorten(score_file.path, root) for score_file in folder.files]
        for pattern in () if isinstance(settings.distances, bool) else settings.distances:
            if not any(fnmatchcase(name, pattern) for name in names):
                what = f"no score file is called {pattern}; there are {join_few(names)}"
                faults.add("unused", what, "dataset.distances")
    kept = [score_file for score_file in folder.files if settings.sets is None or score_file.subset in settings.sets]
    return replace(folder, files=tuple(_list_once(kept, faults)))


def _list_once(files: Sequence[ScoreFile], faults: Faults) -> Iterator[ScoreFile]:
    """Each attack once: files with the same bytes are one, as the original speech in the folder of each system."""
    first: dict[tuple[str, ...], ScoreFile] = {}
    for score_file in files:
        other = first.setdefault(score_file.attack, score_file)
        if other is score_file:
            yield score_file
        elif (
            score_file.path.is_file()
            and other.path.is_file()
            and score_file.path.read_bytes() != other.path.read_bytes()
        ):
            what = f"{score_file.subset}, system {score_file.system}, attacker {score_file.attacker}: {other.path} has other scores of the same"
            faults.add("scores-twice", what, score_file.path)


def _find_lists(
    settings: DatasetSettings, root: Path, files: Sequence[ScoreFile], faults: Faults
) -> dict[Path, Path | None]:
    """The list of trials of each file; None where labels stand in the file or follow from its ids."""
    list_of: dict[Path, Path | None] = {}
    folder = None if settings.trials is None else Path(settings.trials).expanduser().absolute()
    if folder is not None and not folder.is_dir():
        faults.add("root", f"there is no folder '{settings.trials}'", "dataset.trials")
        return list_of
    lacking: dict[str, Path] = {}
    for score_file in files:
        list_path = None
        if settings.labels == "auto":
            # In the folder that is given, or in ``data`` beside the scores.
            top = root.parent.parent
            ups = [parent for parent in score_file.path.parents if parent == top or top in parent.parents]
            places = [up / "data" for up in ups] if folder is None else [folder, folder / "data"]
            list_path = score_file.trials or _find_list(score_file.subset, places)
            if list_path is None and not _has_labels(score_file.path):
                lacking.setdefault(score_file.subset, score_file.path)
        if list_path is not None and not list_path.is_file():
            faults.add("no-trials", f"{score_file.subset}: there is no list {list_path}", score_file.path)
        list_of[score_file.path] = list_path
    for subset, path in lacking.items():
        faults.add("no-trials", f"{subset}: no list of trials (data/{subset}/trials), and no labels in the file", path)
    return list_of


def _find_list(subset: str, places: Iterable[Path]) -> Path | None:
    """``SUBSET/trials``, or ``NAME/trials_f`` in the raw set of NAME_trials_f; of VCTK ``trials_f_mic2``, as the recipes take it."""
    stem, mark, ending = subset.partition("_trials")
    for place in places:
        raw = [place / stem / f"trials{ending}{mic}" for mic in ("_mic2", "")] if mark else []
        for path in (place / subset / "trials", *raw):
            if path.is_file():
                return path
    return None


def _has_labels(path: Path) -> bool:
    """Whether a file of scores has a column of labels beside the scores; what is wrong with the file is found later."""
    try:
        labels_column = score_table.read_table(path, score_table.TRIALS).columns["label"]
        scores = score_table.read_table(path, score_table.SCORES)
    except DataError:
        return False
    words = labels_column.unify_dictionaries().chunk(0).dictionary.to_pylist() if labels_column.num_chunks else []
    if text.find_label_pair(words) is None:
        return False
    # Of three columns the last is the score, whatever it looks like.
    return not (
        all(map(is_number, words)) and [float(text) for text in labels_column.to_pylist()] == scores.score.tolist()
    )


# Scores --------------------------------------------------------------------------------------------------------------

ClassOrders = list[tuple[ScoreFile, bool, ClassOrder]]
"""How the scores of each file order the classes, and whether they were negated."""


def _join_files(
    settings: DatasetSettings,
    root: Path,
    files: Sequence[ScoreFile],
    list_of: Mapping[Path, Path | None],
    notes: list[str],
    limits: list[str],
) -> tuple[list[ScoreSet], ClassOrders]:
    """The scores of each file, joined to its trials.

    Raises:
        DataError: with the faults of all files.
    """
    sets, orders, errors = [], [], []
    for score_file in files:
        patterns, name = settings.distances, _shorten(score_file.path, root)
        distance = patterns if isinstance(patterns, bool) else any(fnmatchcase(name, pattern) for pattern in patterns)
        try:
            matched, source = _match_file(settings, score_file, list_of[score_file.path], distance, notes)
        except DataError as error:
            errors.append((score_file, error))
            continue
        sets.append(_make_score_set(score_file, matched))
        same = corpus.find_same_readers(
            sets[-1].table[["model", "utterance", "target"]].itertuples(index=False, name=None)
        )
        if same:
            limits.append(
                f"{score_file.subset}: {len(same)} non-target trials compare recordings of one reader by their ids, e.g. {' '.join(same[0])}: "
                "chapters stand for speakers, a voice counts as a stranger to itself, and everybody looks better protected"
            )
        orders.append((score_file, distance, matched.joined.order(0)))
        if matched.joined.reason:
            limits.append(f"{score_file.subset}: no intervals and no null bands: {matched.joined.reason}")
        if source:
            limits.append(source)
    if errors:
        raise _merge_errors(errors, settings.root)
    used = [score_file for score_file, distance, _ in orders if distance]
    if used:
        limits.append(f"{len(used)} score files hold distances, as dataset.distances says: they are negated")
    return sets, orders


def _match_file(
    settings: DatasetSettings, score_file: ScoreFile, trial_list: Path | None, distance: bool, notes: list[str]
) -> tuple[MatchedTrials, str]:
    """A file joined to its trials, and where its labels come from, if that is to be said."""
    scores, source = joins.read_noted(score_file.path, score_table.SCORES, notes.append), ""
    speaker_table: Table | None
    speakers = Path(settings.utt2spk).expanduser() if settings.utt2spk else None
    if settings.labels == "ids":
        wanted, speaker_table, source = _tell_by_ids(scores)
    else:
        wanted = joins.read_noted(trial_list or score_file.path, score_table.TRIALS, notes.append)
        beside = trial_list.parent / "utt2spk" if trial_list is not None else None
        speakers = speakers or (beside if beside is not None and beside.is_file() else None)
        speaker_table = joins.read_noted(speakers, score_table.SPEAKERS, notes.append) if speakers is not None else None
    matched = joins.match_tables(
        wanted,
        [scores],
        speaker_table,
        distance=[distance],
        note=notes.append,
        tell=notes.append,
        setting=SETTING_NAMES,
    )
    return matched, source


def _tell_by_ids(scores: Table) -> tuple[Table, Table | None, str]:
    """The trials of a file, the speakers of its ids where they follow, and a sentence on how.

    A trial is a target if the utterance's id is the model's, or begins with it and goes on with neither letter nor digit. An
    utterance of nobody who is enrolled has as many parts of its id for a speaker as the models have.

    Raises:
        DataError: no utterance begins with a model, or one begins with several.
    """
    enrolled, tried = (column.to_pylist() for column in scores.ids("enroll_id", "trial_id"))
    models = set(enrolled)
    prefixes = {name: [start for start in _list_beginnings(name) if start in models] for name in sorted({*tried})}
    doubtful = {name: starts for name, starts in prefixes.items() if len(starts) > 1 and name not in models}
    if doubtful or not any(models & {*starts} - {name} for name, starts in prefixes.items()):
        example = next((f": {name} with {' and '.join(starts)}" for name, starts in doubtful.items()), "")
        what = f"{len(doubtful)} utterances begin with several models{example}" if doubtful else (
            f"no utterance's id begins with a model's, e.g. model {min(models)}, utterance {min(prefixes)}")  # fmt: skip
        raise DataError(
            f"ids do not say which trials are targets: {what}",
            where=scores.where,
            cause="models that are no speakers, or ids that do not begin with the speaker",
            remedy="give a list of trials by dataset.trials=DIR",
        )
    speakers = {name: starts[-1] for name, starts in prefixes.items() if starts}
    targets = ["target" if speakers.get(name) == model else "nontarget" for model, name in zip(enrolled, tried)]
    columns = dict(zip(score_table.TRIALS, (scores.columns["enroll_id"], scores.columns["trial_id"], _encode(targets))))
    depths = {len(_list_beginnings(model)) for model in models}
    for name in prefixes.keys() - speakers.keys() if len(depths) == 1 else ():
        speakers[name] = _list_beginnings(name)[: min(depths)][-1]
    speakers |= {model: model for model in models}
    table = Table(scores.where, {"id": _encode([*speakers]), "speaker": _encode([*speakers.values()])})
    alike = Counter(_list_beginnings(model)[0] for model in models)
    shared = sorted(model for model in models if alike[_list_beginnings(model)[0]] > 1)
    source = (
        "targets are told by ids: a trial is one if the utterance's id begins with the model's (dataset.labels=ids)"
    )
    if shared and depths != {1}:
        source += f"; models that begin alike are different speakers: {join_few(shared, 3)}"
    return Table(scores.where, columns), table if prefixes.keys() <= speakers.keys() else None, source


def _list_beginnings(name: str) -> list[str]:
    """What an id may begin with, the shortest first: all of it before a character that is neither letter nor digit, and it itself."""
    ends = [place for place in range(1, len(name)) if not name[place].isalnum() and name[place - 1].isalnum()]
    return [*(name[:end] for end in ends), name]


def _encode(texts: Sequence[str]) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(texts, pa.string()).dictionary_encode()])


def _make_score_set(score_file: ScoreFile, matched: MatchedTrials) -> ScoreSet:
    joined, names = matched.joined, matched.names
    models, utterances = names[matched.models], names[matched.utterances]
    if joined.enrolled is not None and joined.spoken is not None:
        speakers = [names[side] for side in (joined.enrolled, joined.spoken)]
    else:
        # Whoever is linked by targets is called after the first of their names.
        groups = pd.DataFrame({"group": np.concatenate(joined.sides), "name": np.concatenate([models, utterances])})
        first = "linked to " + groups.groupby("group")["name"].min()
        speakers = [first[side].to_numpy(object) for side in joined.sides]
    table = pd.DataFrame(
        {
            "model_speaker": speakers[0],
            "speaker": speakers[1],
            "model": models,
            "utterance": utterances,
            "score": joined.scores[0],
            "target": joined.is_target,
        }
    ).sort_values(["model", "utterance"], kind="stable", ignore_index=True)
    return ScoreSet(score_file, table, _digest_table(table), joined.reason)


def _digest_table(table: pd.DataFrame) -> str:
    numbers = [hashlib.sha256(table[name].to_numpy().tobytes()).hexdigest() for name in ("score", "target")]
    texts = [table[name].tolist() for name in ("model_speaker", "speaker", "model", "utterance")]
    return digest("given scores", *numbers, *texts)


def _shorten(path: Path, root: Path) -> str:
    """How a file is called in settings: from the root on."""
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def _merge_errors(errors: Sequence[tuple[ScoreFile, DataError]], where: str) -> DataError:
    """The errors of several files as one, each with its file and its set."""
    faults = []
    for score_file, error in errors:
        place = f"{score_file.path}, set {score_file.subset}"
        # An error of another file, such as the list, names that.
        other = "" if not error.where or error.where.startswith(str(score_file.path)) else f" (in {error.where})"
        faults += [Fault(f"{error.what}{other}", place)] if not error.faults else []
        faults += [Fault(fault.what, f"{fault.where}, set {score_file.subset}") for fault in error.faults]
    texts = {
        part: "; ".join(dict.fromkeys(filter(None, (str(vars(error)[part]) for _, error in errors))))
        for part in ("cause", "remedy")
    }
    many = len(faults)
    return DataError(f"the score files have {many} fault{'s' if many > 1 else ''}", where=where, faults=faults, **texts)


def _check_order(settings: DatasetSettings, root: Path, orders: ClassOrders, limits: list[str]) -> None:
    """Refuse scores that order the classes the wrong way round beyond chance, as ``from-scores`` does.

    Raises:
        DataError: with all such files, and the setting that says they are distances.
    """
    wrong = [(score_file, negated, order) for score_file, negated, order in orders if order.is_reversed]
    if not wrong:
        return
    faults = [
        Fault(_describe_order(order), f"{score_file.path}, set {score_file.subset}") for score_file, _, order in wrong
    ]
    if settings.as_is:
        limits.append(f"{len(wrong)} score files order the classes the wrong way round and are kept (dataset.as_is)")
        return
    turned = {_shorten(score_file.path, root) for score_file, negated, _ in orders if negated}
    for score_file, _, _ in wrong:
        turned ^= {_shorten(score_file.path, root)}
    if not turned:
        mend = "leave out dataset.distances"
    elif len(turned) == len(orders):
        mend = "if lower means more similar, add dataset.distances=true"
    else:
        mend = f"if lower means more similar, give 'dataset.distances=[{','.join(sorted(turned))}]'"
    raise DataError(
        "the scores order the classes the wrong way round, beyond chance",
        where=settings.root,
        cause="distances, or target and non-target exchanged in labels or in scores",
        remedy=f"{mend}; if the attack is worse than chance indeed, add dataset.as_is=true: the report says so then",
        faults=faults,
    )


def _describe_order(order: ClassOrder) -> str:
    tested = "" if order.p_value is None else f" (p = {order.p_value:.1g} over {order.speakers} speakers)"
    return f"a target scores above a non-target in {100 * order.auc:.1f} % of comparisons{tested}"


# Trial sets ----------------------------------------------------------------------------------------------------------


def _make_trial_set(score_set: ScoreSet) -> TrialSet:
    rows = score_set.table[["model", "utterance", "target"]].itertuples(index=False, name=None)
    return trials.make_trial_set(score_set.of.subset, score_set.of.enrolment, [], rows, len(score_set.table))


def _make_trial_sets(sets: Sequence[ScoreSet], where: str) -> dict[str, TrialSet]:
    """The trial sets by name.

    Raises:
        DataError: files of one set hold scores of other trials.
    """
    first: dict[str, ScoreSet] = {}
    faults = []
    for score_set in sets:
        other = first.setdefault(score_set.of.subset, score_set)
        names = ["model", "utterance", "target"]
        if not score_set.table[names].equals(other.table[names]):
            faults.append(
                Fault(f"other trials than {other.of.path}", f"{score_set.of.path}, set {score_set.of.subset}")
            )
    if faults:
        raise DataError(
            "score files of one set hold scores of different trials",
            where=where,
            cause="sets of different data under one name",
            remedy="give a list of trials for all by dataset.trials=DIR, or other names of sets in scores.csv",
            faults=faults,
        )
    return {name: _make_trial_set(score_set) for name, score_set in first.items()}


def _pool_sexes(
    settings: DatasetSettings, sets: Sequence[ScoreSet], notes: list[str], faults: Faults
) -> Iterator[ScoreSet]:
    """The scores of the f and the m set of a corpus as those of one set, for each attack on both."""
    if not settings.pool:
        return
    by_stem: dict[str, dict[tuple[str, ...], dict[str, ScoreSet]]] = {}
    for score_set in sets:
        match = _OF_A_SEX.fullmatch(score_set.of.subset)
        if match is not None:
            attack = by_stem.setdefault(match["stem"] + (match["rest"] or ""), {}).setdefault(
                score_set.of.attack[1:], {}
            )
            attack[match["sex"]] = score_set
    for stem, attacks in by_stem.items():
        for both in attacks.values():
            score_set = next(iter(both.values()))
            if set(both) != {"f", "m"}:
                notes.append(
                    f"{score_set.of.subset} of {score_set.of.system} is not pooled: there is no set of the other sex"
                )
                continue
            table = pd.concat([both["f"].table, both["m"].table], ignore_index=True)
            table = table.sort_values(["model", "utterance"], kind="stable", ignore_index=True)
            if table.duplicated(["model", "utterance"]).any():
                faults.add("disagrees", f"the f and m sets of {stem} share trials", score_set.of.path)
                continue
            of = replace(score_set.of, subset=f"{stem} ({POOLED})")
            lacking = both["f"].no_speakers or both["m"].no_speakers
            note = "scores of both sexes at one threshold, without trials across sexes"
            yield ScoreSet(of, table, _digest_table(table), lacking, note)
