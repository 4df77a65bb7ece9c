"""Scores joined to what asks for them, on ids and never by position, and what is refused on the way.

See pipeline/metrics/README.md, section 17.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from pipeline import metrics
from pipeline.datasets.scores import score_table as score_files
from pipeline.datasets.scores.score_table import ID, Array, Table
from pipeline.errors import DataError
from pipeline.faults import shown
from pipeline.metrics import ClassOrder
from pipeline.names import differing, look_alike
from pipeline.tables import text

Mask = npt.NDArray[np.bool_]


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


@dataclass(frozen=True)
class Pairs:
    """Pairs of ids of one file, ascending by key (code of ID1 times the number of names, plus code of ID2)."""

    where: str
    names: IdNames
    key: Keys
    order: npt.NDArray[np.intp]

    @staticmethod
    def sorted(where: str, names: IdNames, first: Codes, second: Codes, what: str) -> Pairs:
        """Sort pairs.

        Raises:
            DataError: a pair stands twice.
        """
        key = first.astype(np.int64) * max(len(names), 1) + second
        order = np.argsort(key)
        key = key[order]
        twice = np.unique(key[1:][key[1:] == key[:-1]])
        if twice.size:
            raise DataError(
                f"{twice.size} {what} stand more than once: {names.pairs(twice)}",
                where=where,
                cause="files that were joined one behind the other",
                remedy="keep one line a pair",
            )
        return Pairs(where, names, key, order)


def check_scores(table: Table, names: IdNames, first: Codes, second: Codes, distance: bool) -> Array:
    """Scores [n], higher for more similar.

    Raises:
        DataError: NaN among them.
    """
    score = table.score
    missing = np.flatnonzero(np.isnan(score))
    if missing.size:
        shown = missing[:10]
        pairs = (f"({a}, {b})" for a, b in zip(names.of(first[shown]), names.of(second[shown])))
        raise DataError(
            f"{missing.size} of {score.size} scores are NaN: {list_names(pairs, missing.size)}",
            where=table.where,
            cause="embeddings of silence or of no voiced frame",
            remedy="score these pairs anew, or take them out of scores and trials alike",
        )
    return -score if distance else score


def report_spare(
    count: int, shown: str, where: str, strict: bool, words: SettingNames = SettingNames(), tell: Tell = ignore_note
) -> None:
    """Tell that scores were not asked for.

    Raises:
        DataError: with ``strict``.
    """
    if not count:
        return
    said = f"{count} scores that nothing asks for: {shown}"
    if strict:
        raise DataError(said, where=where, remedy=f"take them out, or leave out {words.strict}")
    tell(f"{said}. Where: {where}")


def lacking_scores(keys: Keys, names: IdNames, where: str, asked: str, what: str = "trials") -> DataError:
    return DataError(
        f"{keys.size} {what} have no score: {names.pairs(keys)}{names.twin(keys)}",
        where=f"{where}, asked for by {asked}",
        cause="scores of another list, ids that are spelled differently, or ID1 and ID2 in the other order",
        remedy="score the missing pairs",
    )


# Trials --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class JoinedTrials:
    """A trial list with the scores of one or more systems, and the speakers where they can be told."""

    scores: list[Array]
    """Of each system, [n]."""
    is_target: Mask
    enrolled: Codes | None
    """[n] speaker of the enrolled model, numbered by name in one numbering with ``spoken``."""
    spoken: Codes | None
    reason: str
    """Why speakers cannot be told, or empty."""
    sides: tuple[Codes, Codes]
    """[n] whose both sides are, as far as target trials tell where the speakers are not known: ids that a target trial links
    are one speaker's."""
    where: tuple[str, ...] = ()
    """The file of each system."""
    two_sided: bool = False
    """Whether the same ids stand on both sides."""

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
    names: IdNames
    models: Codes
    utterances: Codes


def join_trials(
    files: Sequence[Path],
    asked: Path,
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
    wanted = read_noted(asked, score_files.TRIALS, note)
    tables = [read_noted(path, score_files.SCORES, note) for path in files]
    known = read_noted(utt2spk, score_files.SPEAKERS, note) if utt2spk else None
    found = match_tables(wanted, tables, known, distance=distance, strict=strict, note=note, tell=tell)
    return _canonical(found.joined, found.names)


def match_tables(
    wanted: Table,
    tables: Sequence[Table],
    known: Table | None,
    *,
    distance: Sequence[bool] = (),
    strict: bool = False,
    note: Tell = ignore_note,
    tell: Tell = ignore_note,
    words: SettingNames = SettingNames(),
) -> MatchedTrials:
    """Join tables of scores to a table of trials, with speakers as far as they can be told.

    Args:
        wanted: the trials.
        tables: the scores of each system.
        known: the speakers of ids.
        distance: of each system, whether lower scores are more similar.
        strict: refuse scores that nothing asks for.
        note: told what was made of what is not as we write it.
        tell: told of scores that nothing asks for.
        words: what messages call the settings.

    Raises:
        DataError: as :func:`trials`.
    """
    columns = [column for table in (wanted, *tables) for column in table.ids("enroll_id", "trial_id")]
    names, codes = number_ids(columns + (known.ids("id", "speaker") if known else []))
    is_target = _labels(wanted, note, words)
    for held, name in ((is_target.any(), "target"), (not is_target.all(), "non-target")):
        if not held:
            raise DataError(f"the list has no {name} trial", where=wanted.where, remedy="give trials of both classes")

    pairs = Pairs.sorted(wanted.where, names, codes[0], codes[1], "trials")
    negated = [k < len(distance) and distance[k] for k in range(len(tables))]
    scores = []
    for k, table in enumerate(tables):
        first, second = codes[2 * k + 2], codes[2 * k + 3]
        score = check_scores(table, names, first, second, negated[k])
        given = Pairs.sorted(table.where, names, first, second, "scores")
        place, spare = _places_of(pairs, given)
        report_spare(spare.size, names.pairs(spare), table.where, strict, words, tell)
        scores.append(score[given.order[place]])
    is_target = is_target[pairs.order]
    models, utterances = codes[0][pairs.order], codes[1][pairs.order]
    if known is None:
        enrolled, spoken, reason = models, *_speakers_by_targets(models, utterances, is_target, names, words)
    else:
        speaker = _speakers(known, codes[-2], codes[-1], names)
        enrolled, spoken, reason = *_speakers_by_table(models, utterances, is_target, speaker, names, known.where), ""
    if enrolled is None or spoken is None:
        sides = _linked(models, utterances, is_target, names)
    else:
        sides = enrolled, spoken
    two_sided = bool(np.intersect1d(_held(models, names), _held(utterances, names)).size)
    where = tuple(table.where for table in tables)
    joined = JoinedTrials(scores, is_target, enrolled, spoken, reason, sides, where, two_sided)
    return MatchedTrials(joined, names, models, utterances)


def _labels(table: Table, note: Tell, words: SettingNames) -> Mask:
    names, (codes,) = number_ids(table.ids("label"))
    # What no line has is not among the labels: a dictionary may hold more.
    held = names.of(_held(codes, names)) if codes.size else []
    pair = text.find_label_pair(held)
    if pair is None:
        ours = [label for label in held if label.lower() in ("target", "nontarget")]
        wrong = [repr(label) for label in held if label not in ours]
        raise DataError(
            f"labels other than target and nontarget: {list_names(wrong[:10], len(wrong))}",
            where=table.where,
            remedy=f"give {words.trials}, with target or nontarget in one column of it",
        )
    if pair != ("target", "nontarget"):
        note(f"{table.where}: {pair[0]} is read as target, {pair[1]} as nontarget")
    lower = np.array([label.lower() for label in names.of(np.arange(len(names)))], dtype=object)
    return np.asarray((lower == pair[0])[codes], dtype=np.bool_) if codes.size else np.zeros(0, dtype=np.bool_)


def read_noted(path: Path, columns: tuple[str, ...], note: Tell) -> Table:
    """A file of scores, trials or speakers, with a word on what was made of it."""
    table = score_files.read_table(path, columns)
    if table.note:
        note(f"{table.where}: {table.note}")
    return table


def _places_of(pairs: Pairs, given: Pairs) -> tuple[npt.NDArray[np.intp], Keys]:
    """Where each pair stands among the given ones, and the given ones that stand nowhere among the pairs.

    Raises:
        DataError: pairs that are not given.
    """
    place = np.searchsorted(given.key, pairs.key)
    found = place < given.key.size
    found[found] = given.key[place[found]] == pairs.key[found]
    if not found.all():
        raise lacking_scores(pairs.key[~found], pairs.names, given.where, pairs.where)
    free = np.ones(given.key.size, dtype=np.bool_)
    free[place] = False
    return place, given.key[free]


# Speakers ------------------------------------------------------------------------------------------------------------


def _speakers(table: Table, ids: Codes, speakers: Codes, names: IdNames) -> Codes:
    """Speaker of each id that the table lists, by code; -1 elsewhere.

    Raises:
        DataError: an id stands twice.
    """
    counts = np.bincount(ids, minlength=len(names))
    twice = np.flatnonzero(counts > 1)
    if twice.size:
        raise DataError(
            f"ids stand more than once: {names.first(twice)}", where=table.where, remedy="keep one line an id"
        )
    speaker = np.full(len(names), -1, dtype=np.int32)
    speaker[ids] = speakers
    return speaker


def _speakers_by_targets(
    models: Codes, utterances: Codes, is_target: Mask, names: IdNames, words: SettingNames
) -> tuple[Codes | None, str]:
    """Speaker of each trial's utterance where model ids are speakers: the model of the utterance's target trial."""
    speaker = np.full(len(names), -1, dtype=np.int32)
    speaker[utterances[is_target]] = models[is_target]
    other = _held(utterances[is_target][speaker[utterances[is_target]] != models[is_target]], names)
    if other.size:
        return (
            None,
            f"model ids are not speakers ({other.size} utterances are targets of several models): give {words.speakers}",
        )
    spoken = speaker[utterances]
    unknown = _held(utterances[spoken < 0], names)
    if unknown.size:
        return (
            None,
            f"the speakers of {unknown.size} utterances without a target trial are not known: give {words.speakers}",
        )
    return spoken, ""


def _speakers_by_table(
    models: Codes, utterances: Codes, is_target: Mask, speaker: Codes, names: IdNames, where: str
) -> tuple[Codes, Codes]:
    """Speakers of both sides; a model id that the table does not list is a speaker's."""
    spoken = speaker[utterances]
    unknown = _held(utterances[spoken < 0], names)
    if unknown.size:
        raise DataError(f"{unknown.size} utterances of trials are not listed: {names.first(unknown)}", where=where)
    enrolled = np.where(speaker[models] >= 0, speaker[models], models)
    wrong = np.flatnonzero((enrolled == spoken) != is_target)
    if wrong.size:
        keys = models[wrong].astype(np.int64) * len(names) + utterances[wrong]
        raise DataError(
            f"the labels of {wrong.size} trials contradict the speakers: {names.pairs(keys)}",
            where=where,
            cause="a list and speakers of different data, or model ids that are neither utterances nor speakers",
            remedy="list the model ids with their speakers too",
        )
    return enrolled, spoken


def _linked(models: Codes, utterances: Codes, is_target: Mask, names: IdNames) -> tuple[Codes, Codes]:
    """Whose both sides are where nobody says it: ids that are linked by target trials are one speaker's."""
    size = len(names)
    links = coo_array(
        (np.ones(np.count_nonzero(is_target), np.int8), (models[is_target], utterances[is_target])), shape=(size, size)
    )
    _, owner = connected_components(links, directed=False)
    return owner[models].astype(np.int32), owner[utterances].astype(np.int32)


def _held(codes: Codes, names: IdNames) -> Keys:
    """The distinct codes, ascending; quicker than numpy.unique on millions."""
    held = np.zeros(len(names), dtype=np.bool_)
    held[codes] = True
    return np.flatnonzero(held)


def _canonical(joined: JoinedTrials, names: IdNames) -> JoinedTrials:
    """Trials in an order, and speakers in a numbering, that do not depend on the order of lines."""
    if joined.enrolled is None or joined.spoken is None:
        order = np.lexsort((*joined.scores, joined.is_target))
        return _ordered(joined, order, None)
    codes = np.union1d(_held(joined.enrolled, names), _held(joined.spoken, names))
    rank: Codes = np.zeros(len(names), dtype=np.int16 if codes.size < 2**15 else np.int32)
    text = names.of(codes)
    rank[codes[sorted(range(codes.size), key=text.__getitem__)]] = np.arange(codes.size)
    enrolled, spoken = rank[joined.enrolled], rank[joined.spoken]
    # By enrolled and spoken speaker, then score. Trials that are equal in all are the same trial, so the first sort, the dear
    # one, need not be stable; short integers are sorted by their digits.
    order = np.argsort(joined.scores[0]) if len(joined.scores) == 1 else np.lexsort(tuple(joined.scores))
    for side in (spoken, enrolled):
        order = order[np.argsort(side[order], kind="stable")]
    return _ordered(joined, order, (enrolled, spoken))


def _ordered(joined: JoinedTrials, order: npt.NDArray[np.intp], told: tuple[Codes, Codes] | None) -> JoinedTrials:
    """Trials in another order; ``told`` are the speakers in their numbering."""
    first, second = ((told or joined.sides)[k][order].astype(np.int32) for k in range(2))
    return replace(
        joined,
        scores=[score[order] for score in joined.scores],
        is_target=joined.is_target[order],
        enrolled=first if told else None,
        spoken=second if told else None,
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
    table = read_noted(path, score_files.SPEAKERS, note)
    names, (ids, speakers) = number_ids(table.ids("id", "speaker"))
    _speakers(table, ids, speakers, names)
    pairs = sorted(zip(names.of(ids), names.of(speakers)))
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
    table = read_noted(path, score_files.SCORES, note)
    sides = [*rows.table.ids("id"), *columns.table.ids("id")]
    names, (row_ids, column_ids, first, second) = number_ids(sides + table.ids("enroll_id", "trial_id"))
    where = f"{path}, ids listed in {rows.table.where}"
    i, j = (
        _places(row_ids, first, names, where),
        _places(column_ids, second, names, f"{path}, ids listed in {columns.table.where}"),
    )
    score = check_scores(table, names, first, second, distance)

    n = len(columns.ids)
    cell = i.astype(np.int64) * n + j
    found = np.full(needed.size, np.nan)
    found[cell] = score
    held = ~np.isnan(found)
    if np.count_nonzero(held) < cell.size:
        Pairs.sorted(table.where, names, first, second, "scores")
    missing = np.flatnonzero(needed.ravel() & ~held)
    if missing.size:
        shown = (f"({rows.ids[k // n]}, {columns.ids[k % n]})" for k in missing[:10])
        raise DataError(
            f"{missing.size} of {np.count_nonzero(needed)} comparisons have no score: {list_names(shown, missing.size)}",
            where=f"{path}, asked for by {rows.table.where}"
            + (f" and {columns.table.where}" if columns is not rows else ""),
            cause="ids that were not scored, or pairs in one order only",
            remedy="score the missing pairs, or take the ids out of the table",
        )
    spare = np.flatnonzero(held & ~needed.ravel())
    shown = (f"({rows.ids[k // n]}, {columns.ids[k % n]})" for k in spare[:10])
    report_spare(spare.size, list_names(shown, spare.size), str(path), strict, tell=tell)
    return found.reshape(needed.shape)


def _places(known: Codes, ids: Codes, names: IdNames, where: str) -> Codes:
    """Place of each id in the sorted list of the known ones."""
    text = names.of(known)
    place = np.full(len(names), -1, dtype=np.int32)
    place[known[sorted(range(known.size), key=text.__getitem__)]] = np.arange(known.size)
    found = place[ids]
    if (found < 0).any():
        unknown = _held(ids[found < 0], names)
        raise DataError(
            f"{unknown.size} ids are not listed: {names.first(unknown)}",
            where=where,
            cause="another spelling of ids, or ID1 and ID2 in the other order",
            remedy="list them with their speakers",
        )
    return found


Codes = npt.NDArray[np.int32]


Keys = npt.NDArray[np.int64]


def list_names(names: Iterable[str], count: int, most: int = 10) -> str:
    """The first names, and how many there are if that is not all."""
    first = ", ".join(map(shown, itertools.islice(names, most)))
    return first if count <= most else f"{first}, ... ({count} in all)"


@dataclass(frozen=True)
class IdNames:
    """Names of ids by code."""

    text: pa.Array

    def __len__(self) -> int:
        return len(self.text)

    def of(self, codes: npt.NDArray[np.integer]) -> list[str]:
        places = np.ascontiguousarray(codes, dtype=np.int64)
        # From a buffer: pa.array would import pandas.
        taken = self.text.take(pa.Array.from_buffers(pa.int64(), places.size, [None, pa.py_buffer(places)]))
        return list(taken.to_pylist())

    def first(self, codes: npt.NDArray[np.integer], most: int = 10) -> str:
        """The first names of codes, and how many there are."""
        return list_names(self.of(codes[:most]), len(codes), most)

    def pairs(self, keys: Keys, most: int = 10) -> str:
        """The first names of (ID1, ID2) keys (code of ID1 times the number of names, plus code of ID2)."""
        one, two = (self.of(side[:most]) for side in np.divmod(keys, max(len(self), 1)))
        return list_names((f"({a}, {b})" for a, b in zip(one, two)), len(keys), most)

    def twin(self, keys: Keys, most: int = 10) -> str:
        """The first id of some keys that looks like another id, and by which characters it differs; '' if none does."""
        text = self.of(np.arange(len(self)))
        for name in self.of(np.unique(np.divmod(keys[:most], max(len(self), 1)))):
            for other in text if not all(map(str.isascii, text)) else ():
                if other != name and look_alike(other) == look_alike(name):
                    return f"; {name} looks like another id, {other}: {differing(name, other)}"
        return ""


def number_ids(columns: Sequence[pa.ChunkedArray]) -> tuple[IdNames, list[Codes]]:
    """One numbering for the ids of several dictionary-encoded columns: the names, and the codes [n] of each column."""
    chunks = [chunk for column in columns for chunk in column.chunks]
    joined = pa.chunked_array(chunks, type=ID).unify_dictionaries()
    text = joined.chunk(0).dictionary if chunks else pa.nulls(0, pa.string())
    codes = (np.from_dlpack(chunk.indices) for chunk in joined.chunks)
    split = [np.concatenate([np.empty(0, np.int32), *itertools.islice(codes, column.num_chunks)]) for column in columns]
    return IdNames(text), split
