"""Scores joined to what asks for them, on ids and never by position, and what is refused on the way.

The ids of all files get one numbering, so that a pair of ids is one whole number (its key), and pandas looks that up. See
pipeline/metrics/README.md, section 17.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from pipeline import metrics
from pipeline.datasets.scores import score_table
from pipeline.datasets.scores.score_table import ID, Array, Table
from pipeline.errors import DataError
from pipeline.faults import escape_unprintable
from pipeline.metrics import ClassOrder
from pipeline.tables import text

Codes = npt.NDArray[np.int32]
Keys = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Names = npt.NDArray[np.object_]
"""Ids by code."""
Tell = Callable[[str], None]
"""Told what was made of files that are not as we write them."""


def ignore_note(text: str) -> None:
    """For nobody who wants to be told."""


@dataclass(frozen=True)
class SettingNames:
    """What messages call the settings that mend things."""

    trials: str = "the trial list behind --trials"
    speakers: str = "--utt2spk"
    strict: str = "--strict"


def read_noted(path: Path, columns: tuple[str, ...], note: Tell) -> Table:
    """A file of scores, trials or speakers, with a word on what was made of it."""
    table = score_table.read_table(path, columns)
    if table.note:
        note(f"{table.where}: {table.note}")
    return table


# Ids -----------------------------------------------------------------------------------------------------------------


def number_ids(columns: Sequence[pa.ChunkedArray]) -> tuple[Names, list[Codes]]:
    """One numbering for the ids of several dictionary-encoded columns: the names, and the codes [n] of each column."""
    chunks = [chunk for column in columns for chunk in column.chunks]
    unified = pa.chunked_array(chunks, type=ID).unify_dictionaries()
    text = unified.chunk(0).dictionary if chunks else pa.array([], pa.string())
    codes = (np.from_dlpack(chunk.indices) for chunk in unified.chunks)
    split = [np.concatenate([np.empty(0, np.int32), *itertools.islice(codes, column.num_chunks)]) for column in columns]
    return text.to_numpy(zero_copy_only=False), split


def list_names(names: Iterable[str], count: int, most: int = 10) -> str:
    """The first names, and how many there are if that is not all."""
    first = ", ".join(map(escape_unprintable, itertools.islice(names, most)))
    return first if count <= most else f"{first}, ... ({count} in all)"


def _list_pairs(names: Names, keys: Keys, most: int = 10) -> str:
    sides = (names[side] for side in np.divmod(keys[:most], max(len(names), 1)))
    return list_names((f"({first}, {second})" for first, second in zip(*sides)), len(keys))


def _list_distinct(codes: npt.NDArray[np.integer]) -> Keys:
    """The distinct codes, ascending; numpy.unique takes seconds on millions."""
    return np.sort(pd.unique(codes)).astype(np.int64)


def _index_keys(keys: Keys, names: Names, where: str, what: str) -> pd.Index:
    """Keys to look others up in.

    Raises:
        DataError: one stands twice.
    """
    index = pd.Index(keys)
    if not index.is_unique:
        repeated = np.unique(keys[index.duplicated()])
        raise _repeated_pairs(len(repeated), _list_pairs(names, repeated), where, what)
    return index


def _repeated_pairs(count: int, pairs: str, where: str, what: str) -> DataError:
    return DataError(
        f"{count} {what} stand more than once: {pairs}",
        where=where,
        cause="files that were joined one behind the other",
        remedy="keep one line a pair",
    )


# Scores --------------------------------------------------------------------------------------------------------------


def check_scores(table: Table, distance: bool) -> Array:
    """Scores [n], higher for more similar.

    Raises:
        DataError: NaN among them.
    """
    score = table.score
    missing = np.flatnonzero(np.isnan(score))
    if missing.size:
        sides = (column.take(pa.array(missing[:10])).to_pylist() for column in table.ids("enroll_id", "trial_id"))
        pairs = (f"({first}, {second})" for first, second in zip(*sides))
        raise DataError(
            f"{missing.size} of {score.size} scores are NaN: {list_names(pairs, missing.size)}",
            where=table.where,
            cause="embeddings of silence or of no voiced frame",
            remedy="score these pairs anew, or take them out of scores and trials alike",
        )
    return -score if distance else score


def report_spare(
    count: int, pairs: str, where: str, strict: bool, setting: SettingNames = SettingNames(), tell: Tell = ignore_note
) -> None:
    """Tell that scores were not asked for.

    Raises:
        DataError: with ``strict``.
    """
    if not count:
        return
    sentence = f"{count} scores that nothing asks for: {pairs}"
    if strict:
        raise DataError(sentence, where=where, remedy=f"take them out, or leave out {setting.strict}")
    tell(f"{sentence}. Where: {where}")


# Trials --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class JoinedTrials:
    """A trial list with the scores of one or more systems, and the speakers where they can be told.

    Attributes:
        scores: of each system, [n].
        enrolled: [n] speaker of the enrolled model, numbered by name in one numbering with ``spoken``.
        spoken: [n] speaker of the utterance.
        reason: why speakers cannot be told, or empty.
        sides: [n] whose both sides are, as far as target trials tell where the speakers are not known: ids that a target trial
            links are one speaker's.
        where: the file of each system.
        two_sided: whether the same ids stand on both sides.
    """

    scores: list[Array]
    is_target: Mask
    enrolled: Codes | None
    spoken: Codes | None
    reason: str
    sides: tuple[Codes, Codes]
    where: tuple[str, ...] = ()
    two_sided: bool = False

    def order(self, system: int) -> ClassOrder:
        """How the scores of a system order the two classes."""
        return metrics.class_order(self.scores[system], self.is_target, *self.sides, two_sided_ids=self.two_sided)

    def classes(self, system: int = 0) -> tuple[Array, Array]:
        """Target and non-target scores of a system."""
        return self.scores[system][self.is_target], self.scores[system][~self.is_target]


@dataclass(frozen=True)
class MatchedTrials:
    """A trial list with its scores, ascending by the pair of ids as they were numbered.

    Attributes:
        joined: scores, classes and speakers of each trial.
        models, utterances: [n] ids by code.
    """

    joined: JoinedTrials
    names: Names
    models: Codes
    utterances: Codes


def join_trials(
    files: Sequence[Path],
    trials: Path,
    utt2spk: Path | None = None,
    *,
    distance: Sequence[bool] = (),
    strict: bool = False,
    note: Tell = ignore_note,
    tell: Tell = ignore_note,
) -> JoinedTrials:
    """Join the scores of one or more systems to a list of trials. The result does not depend on the order of lines.

    ``distance`` says of each file whether lower scores are more similar.

    Raises:
        DataError: NaN, an empty class, trials without a score, duplicates, unknown ids, labels that contradict utt2spk.
    """
    wanted = read_noted(trials, score_table.TRIALS, note)
    tables = [read_noted(path, score_table.SCORES, note) for path in files]
    speakers = read_noted(utt2spk, score_table.SPEAKERS, note) if utt2spk else None
    matched = match_tables(wanted, tables, speakers, distance=distance, strict=strict, note=note, tell=tell)
    return _make_canonical(matched.joined, matched.names)


def match_tables(
    wanted: Table,
    tables: Sequence[Table],
    speakers: Table | None,
    *,
    distance: Sequence[bool] = (),
    strict: bool = False,
    note: Tell = ignore_note,
    tell: Tell = ignore_note,
    setting: SettingNames = SettingNames(),
) -> MatchedTrials:
    """Join tables of scores to a table of trials, with speakers as far as they can be told.

    Args:
        wanted: the trials.
        tables: the scores of each system.
        speakers: of ids.
        distance: of each system, whether lower scores are more similar.
        strict: refuse scores that nothing asks for.
        note: told what was made of what is not as we write it.
        tell: told of scores that nothing asks for.
        setting: what messages call the settings.

    Raises:
        DataError: as :func:`join_trials`.
    """
    columns = [column for table in (wanted, *tables) for column in table.ids("enroll_id", "trial_id")]
    names, codes = number_ids(columns + (speakers.ids("id", "speaker") if speakers else []))
    is_target = _read_labels(wanted, note, setting)
    for has_class, name in ((is_target.any(), "target"), (not is_target.all(), "non-target")):
        if not has_class:
            raise DataError(f"the list has no {name} trial", where=wanted.where, remedy="give trials of both classes")
    # Ascending keys, so that nothing depends on the order of lines.
    keys = [first.astype(np.int64) * max(len(names), 1) + second for first, second in zip(codes[::2], codes[1::2])]
    _index_keys(keys[0], names, wanted.where, "trials")
    order = np.argsort(keys[0])
    trials, is_target = keys[0][order], is_target[order]
    scores = []
    for number, (table, table_keys) in enumerate(zip(tables, keys[1:])):
        score = check_scores(table, number < len(distance) and distance[number])
        place, spare = _find_trials(trials, table_keys, names, table, wanted)
        report_spare(spare.size, _list_pairs(names, spare), table.where, strict, setting, tell)
        scores.append(score[place])
    models, utterances = codes[0][order], codes[1][order]
    if speakers is None:
        enrolled: Codes | None = models
        spoken, reason = _tell_speakers(models, utterances, is_target, len(names), setting)
    else:
        owner = _map_speakers(speakers, codes[-2], codes[-1], names)
        enrolled, spoken = _look_up_speakers(models, utterances, is_target, owner, names, speakers.where)
        reason = ""
    has_speakers = enrolled is not None and spoken is not None
    sides = (enrolled, spoken) if has_speakers else _link_by_targets(models, utterances, is_target, len(names))
    two_sided = bool(np.intersect1d(_list_distinct(models), _list_distinct(utterances)).size)
    where = tuple(table.where for table in tables)
    joined = JoinedTrials(scores, is_target, enrolled, spoken, reason, sides, where, two_sided)  # type: ignore[arg-type]
    return MatchedTrials(joined, names, models, utterances)


def _find_trials(
    trials: Keys, keys: Keys, names: Names, table: Table, wanted: Table
) -> tuple[npt.NDArray[np.intp], Keys]:
    """Where each trial stands in a table of these keys, and the keys that are of no trial.

    Raises:
        DataError: trials that do not stand there, or keys that stand twice.
    """
    place = _index_keys(keys, names, table.where, "scores").get_indexer(pd.Index(trials))
    missing = trials[place < 0]
    if missing.size:
        raise DataError(
            f"{missing.size} trials have no score: {_list_pairs(names, missing)}",
            where=f"{table.where}, asked for by {wanted.where}",
            cause="scores of another list, ids that are spelled differently, or ID1 and ID2 in the other order",
            remedy="score the missing pairs",
        )
    return place, np.sort(np.delete(keys, place))


def _read_labels(table: Table, note: Tell, setting: SettingNames) -> Mask:
    names, (codes,) = number_ids(table.ids("label"))
    # What no line has is not among the labels: a dictionary may hold more.
    present = names[_list_distinct(codes)].tolist()
    pair = text.find_label_pair(present)
    if pair is None:
        wrong = [repr(label) for label in present if label.lower() not in ("target", "nontarget")]
        raise DataError(
            f"labels other than target and nontarget: {list_names(wrong[:10], len(wrong))}",
            where=table.where,
            remedy=f"give {setting.trials}, with target or nontarget in one column of it",
        )
    if pair != ("target", "nontarget"):
        note(f"{table.where}: {pair[0]} is read as target, {pair[1]} as nontarget")
    return np.array([label.lower() == pair[0] for label in names], dtype=np.bool_)[codes]


# Speakers ------------------------------------------------------------------------------------------------------------


def _map_speakers(table: Table, ids: Codes, speakers: Codes, names: Names) -> Codes:
    """Speaker of each id that the table lists, by code; -1 elsewhere.

    Raises:
        DataError: an id stands twice.
    """
    repeated = _list_distinct(ids[pd.Index(ids).duplicated()])
    if repeated.size:
        raise DataError(
            f"ids stand more than once: {list_names(names[repeated[:10]], repeated.size)}",
            where=table.where,
            remedy="keep one line an id",
        )
    owner = np.full(len(names), -1, dtype=np.int32)
    owner[ids] = speakers
    return owner


def _tell_speakers(
    models: Codes, utterances: Codes, is_target: Mask, count: int, setting: SettingNames
) -> tuple[Codes | None, str]:
    """Speaker of each trial's utterance where model ids are speakers: the model of the utterance's target trial; else why not."""
    owner = np.full(count, -1, dtype=np.int32)
    tried, claimed = utterances[is_target], models[is_target]
    owner[tried] = claimed
    several_models = _list_distinct(tried[owner[tried] != claimed]).size
    if several_models:
        return None, (
            f"model ids are not speakers ({several_models} utterances are targets of several models): give {setting.speakers}"
        )
    spoken = owner[utterances]
    unknown = _list_distinct(utterances[spoken < 0]).size
    if unknown:
        return (
            None,
            f"the speakers of {unknown} utterances without a target trial are not known: give {setting.speakers}",
        )
    return spoken, ""


def _look_up_speakers(
    models: Codes, utterances: Codes, is_target: Mask, owner: Codes, names: Names, where: str
) -> tuple[Codes, Codes]:
    """Speakers of both sides; a model id that the table does not list is a speaker's."""
    spoken = owner[utterances]
    unknown = _list_distinct(utterances[spoken < 0])
    if unknown.size:
        listed = list_names(names[unknown[:10]], unknown.size)
        raise DataError(f"{unknown.size} utterances of trials are not listed: {listed}", where=where)
    enrolled = np.where(owner[models] >= 0, owner[models], models)
    wrong = np.flatnonzero((enrolled == spoken) != is_target)
    if wrong.size:
        keys = models[wrong].astype(np.int64) * len(names) + utterances[wrong]
        raise DataError(
            f"the labels of {wrong.size} trials contradict the speakers: {_list_pairs(names, keys)}",
            where=where,
            cause="a list and speakers of different data, or model ids that are neither utterances nor speakers",
            remedy="list the model ids with their speakers too",
        )
    return enrolled, spoken


def _link_by_targets(models: Codes, utterances: Codes, is_target: Mask, count: int) -> tuple[Codes, Codes]:
    """Whose both sides are where nobody says it: ids that are linked by target trials are one speaker's."""
    links = coo_array(
        (np.ones(np.count_nonzero(is_target), np.int8), (models[is_target], utterances[is_target])),
        shape=(count, count),
    )
    _, owner = connected_components(links, directed=False)
    return owner[models].astype(np.int32), owner[utterances].astype(np.int32)


def _make_canonical(joined: JoinedTrials, names: Names) -> JoinedTrials:
    """Trials in an order, and speakers in a numbering, that do not depend on the order of lines."""
    if joined.enrolled is None or joined.spoken is None:
        order = np.lexsort((*joined.scores, joined.is_target))
        return _reorder(joined, order, None)
    codes = np.union1d(_list_distinct(joined.enrolled), _list_distinct(joined.spoken))
    rank: Codes = np.zeros(len(names), dtype=np.int16 if codes.size < 2**15 else np.int32)
    rank[codes[np.argsort(names[codes])]] = np.arange(codes.size)
    enrolled, spoken = rank[joined.enrolled], rank[joined.spoken]
    # By enrolled and spoken speaker, then score. Trials that are equal in all are the same trial, so the first sort, the dear
    # one, need not be stable; short integers are sorted by their digits.
    order = np.argsort(joined.scores[0]) if len(joined.scores) == 1 else np.lexsort(tuple(joined.scores))
    for side in (spoken, enrolled):
        order = order[np.argsort(side[order], kind="stable")]
    return _reorder(joined, order, (enrolled, spoken))


def _reorder(joined: JoinedTrials, order: npt.NDArray[np.intp], speakers: tuple[Codes, Codes] | None) -> JoinedTrials:
    """Trials in another order, with the speakers in their numbering."""
    first, second = (side[order].astype(np.int32) for side in speakers or joined.sides)
    return replace(
        joined,
        scores=[score[order] for score in joined.scores],
        is_target=joined.is_target[order],
        enrolled=first if speakers else None,
        spoken=second if speakers else None,
        sides=(first, second),
    )


# Matrices ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SpeakerTable:
    """Ids with their speakers, in the order of ids."""

    table: Table
    ids: list[str]
    speakers: list[str]


def read_speakers(path: Path, note: Tell = ignore_note) -> SpeakerTable:
    """A table of ids and speakers, sorted by id.

    Raises:
        DataError: an id stands twice, or there is none.
    """
    table = read_noted(path, score_table.SPEAKERS, note)
    names, (ids, speakers) = number_ids(table.ids("id", "speaker"))
    _map_speakers(table, ids, speakers, names)
    pairs = sorted(zip(names[ids].tolist(), names[speakers].tolist()))
    if not pairs:
        raise DataError("no id is listed", where=table.where)
    return SpeakerTable(table, [name for name, _ in pairs], [speaker for _, speaker in pairs])


def join_matrix(
    path: Path,
    rows: SpeakerTable,
    columns: SpeakerTable,
    needed: Mask,
    *,
    distance: bool = False,
    strict: bool = False,
    note: Tell = ignore_note,
    tell: Tell = ignore_note,
) -> Array:
    """Scores [rows, columns] of a file: ID1 is a row, ID2 a column. Cells that are not ``needed`` may be NaN.

    Raises:
        DataError: NaN, unknown ids, duplicates, needed cells without a score.
    """
    table = read_noted(path, score_table.SCORES, note)
    places = [
        _find_places(side, table.columns[name], path) for side, name in ((rows, "enroll_id"), (columns, "trial_id"))
    ]
    score = check_scores(table, distance)
    n = len(columns.ids)

    def list_cells(cells: Keys) -> str:
        return list_names((f"({rows.ids[cell // n]}, {columns.ids[cell % n]})" for cell in cells[:10]), cells.size)

    cells = places[0].astype(np.int64) * n + places[1]
    matrix = np.full(needed.size, np.nan)
    matrix[cells] = score
    filled = ~np.isnan(matrix)
    if np.count_nonzero(filled) < cells.size:
        repeated = np.unique(cells[pd.Index(cells).duplicated()])
        raise _repeated_pairs(repeated.size, list_cells(repeated), table.where, "scores")
    missing = np.flatnonzero(needed.ravel() & ~filled)
    if missing.size:
        raise DataError(
            f"{missing.size} of {np.count_nonzero(needed)} comparisons have no score: {list_cells(missing)}",
            where=f"{path}, asked for by {rows.table.where}"
            + (f" and {columns.table.where}" if columns is not rows else ""),
            cause="ids that were not scored, or pairs in one order only",
            remedy="score the missing pairs, or take the ids out of the table",
        )
    spare = np.flatnonzero(filled & ~needed.ravel())
    report_spare(spare.size, list_cells(spare), str(path), strict, tell=tell)
    return matrix.reshape(needed.shape)


def _find_places(listed: SpeakerTable, column: pa.ChunkedArray, path: Path) -> Keys:
    """Place of each id of a column among those that are listed."""
    names, (codes,) = number_ids([column])
    place = pd.Index(listed.ids).get_indexer(pd.Index(names))[codes]
    unknown = _list_distinct(codes[place < 0])
    if unknown.size:
        raise DataError(
            f"{unknown.size} ids are not listed: {list_names(names[unknown[:10]], unknown.size)}",
            where=f"{path}, ids listed in {listed.table.where}",
            cause="another spelling of ids, or ID1 and ID2 in the other order",
            remedy="list them with their speakers",
        )
    return np.asarray(place, dtype=np.int64)
