"""Halves of a speaker's utterances, and the inputs and references of similarity rank disclosure (SRD).

The protocol (data_manifests/README.md, section 7): the sets are pooled; each speaker's utterances are halved into a reference half, from
which one reference a speaker is made, and an input half, of which 20 inputs a speaker are taken: uniform segments of the joined half
(``segment``), or utterances of it. Utterances of one chapter share microphone, room and day: whole chapters can be held apart instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal, NamedTuple

import pandas as pd

from pipeline import audio
from pipeline.errors import DataError, Fault
from pipeline.seeds import digest
from pipeline.tables import manifest as manifests

INPUTS = 20


def halve_ids(ids: Iterable[str], seed: int) -> tuple[list[str], list[str]]:
    """Two halves of the ids in the order of digest(seed, id); the first is the smaller one if the number is odd."""
    ordered = sorted(ids, key=lambda name: digest(seed, name))
    middle = len(ordered) // 2
    return ordered[:middle], ordered[middle:]


@dataclass(frozen=True, eq=False)
class Halves:
    """Reference and input speech of N speakers.

    Attributes:
        unit: what an input is.
        references: columns speaker, set, utterance: the utterances that are pooled to one reference a speaker.
        inputs: columns speaker, input (from 0, within the speaker), weight: one row an input. Weights sum to 1, and so
            that speakers weigh equally.
        left_out: speakers with a single chapter, where chapters are held apart.
        pieces: columns speaker, input, set, utterance, row, start, stop: an input is the samples [start, stop) at the
            file's own rate of each of its rows, joined in this order; ``row`` is the row label of the manifest. An input of
            a speaker with less than 20 samples may have no piece.
    """

    unit: str
    references: pd.DataFrame
    inputs: pd.DataFrame
    pieces: pd.DataFrame
    left_out: tuple[str, ...] = ()


def pool_sets(manifest: pd.DataFrame) -> pd.DataFrame:
    """Rows of the evaluation sets with each utterance once: of several sets that hold it, the first by name."""
    rows = manifest[manifest["role"] != "train"].sort_values(manifests.IDENTITY, kind="stable")
    return rows.drop_duplicates("utterance")


def read_chapter(utterance: str) -> str:
    """The chapter of an utterance by its id as LibriSpeech writes it, ``SPEAKER-CHAPTER-NUMBER``.

    Raises:
        DataError: it is no such id.
    """
    parts = utterance.split("-")
    if len(parts) != 3 or not all(parts):
        raise DataError(
            f"the chapter of utterance '{utterance}' is not known",
            cause="chapters are read from ids as LibriSpeech writes them, SPEAKER-CHAPTER-NUMBER",
            remedy="leave the metric srd_chapter out",
        )
    return parts[1]


def halve_chapters(ids: Iterable[str], seed: int) -> tuple[list[str], list[str]]:
    """Two parts of the ids that share no chapter; the second is empty where there is one chapter.

    Chapters come in the order of digest(seed, chapter); the first of them, as many as come nearest to half of the ids, are the
    first part. Within a part ids are in the order of digest(seed, id).
    """
    chapters: dict[str, list[str]] = {}
    for name in sorted(ids, key=lambda name: digest(seed, name)):
        chapters.setdefault(read_chapter(name), []).append(name)
    ordered = sorted(chapters, key=lambda name: digest(seed, name))
    total = sum(map(len, chapters.values()))
    sizes = list(accumulate(len(chapters[name]) for name in ordered))
    first = min(range(max(1, len(ordered) - 1)), key=lambda place: abs(2 * sizes[place] - total)) + 1
    parts = ordered[:first], ordered[first:]
    return tuple([name for part_name in part for name in chapters[part_name]] for part in parts)  # type: ignore[return-value]


def make_halves(
    manifest: pd.DataFrame,
    seed: int,
    unit: Literal["segment", "utterance"] = "segment",
    seconds: float | None = None,
    apart: Literal["utterance", "chapter"] = "utterance",
) -> Halves:
    """Reference and input halves of all speakers of the manifest's evaluation sets.

    Which utterance falls into which half depends on (seed, id) alone, so the manifest of an anonymised system, with other
    durations, has the same halves; its segments are cut from its own durations.

    Args:
        manifest: see :mod:`pipeline.tables.manifest`.
        seed: of the halving.
        unit: what an input is.
        seconds: length of a segment; without it there are :data:`INPUTS` a speaker.
        apart: what the halves have not in common. Speakers with a single chapter are left out where that is ``chapter``.

    Raises:
        DataError: speakers with fewer than two utterances, by name; fewer than two speakers with two chapters.
    """
    speakers, left_out = _choose_speakers(_group_by_speaker(pool_sets(manifest)), apart)
    references, inputs, pieces = [], [], []
    for speaker, group in speakers.items():
        reference_ids, input_ids = (halve_chapters if apart == "chapter" else halve_ids)(group, seed)
        references += [(speaker, group[name].set, name) for name in reference_ids]
        if unit == "segment":
            files = [(group[name].samples, group[name].rate) for name in input_ids]
            cuts = audio.cut_uniformly(files, count_segments(files, seconds))
        else:
            cuts = [[(place, 0, group[name].samples)] for place, name in enumerate(input_ids[:INPUTS])]
        for number, cut in enumerate(cuts):
            inputs.append((speaker, number, 1.0 / (len(speakers) * len(cuts))))
            pieces += [
                (
                    speaker,
                    number,
                    group[input_ids[place]].set,
                    input_ids[place],
                    group[input_ids[place]].row,
                    start,
                    stop,
                )
                for place, start, stop in cut
            ]
    return Halves(
        unit,
        pd.DataFrame(references, columns=["speaker", "set", "utterance"]),
        pd.DataFrame(inputs, columns=["speaker", "input", "weight"]),
        pd.DataFrame(pieces, columns=["speaker", "input", "set", "utterance", "row", "start", "stop"]),
        left_out,
    )


def _choose_speakers(
    speakers: dict[str, dict[str, _Recording]], apart: str
) -> tuple[dict[str, dict[str, _Recording]], tuple[str, ...]]:
    """The speakers who can be halved, and those who are left out for having a single chapter."""
    left_out: tuple[str, ...] = ()
    if apart == "chapter":
        left_out = tuple(name for name, group in speakers.items() if len(set(map(read_chapter, group))) < 2)
        speakers = {name: group for name, group in speakers.items() if name not in left_out}
        if len(speakers) < 2:
            raise DataError(
                f"similarity rank disclosure with chapters apart needs two speakers with two chapters each; {len(left_out)} "
                f"of {len(left_out) + len(speakers)} speakers have one",
                cause="a data set with one session a speaker",
                remedy="leave the metric srd_chapter out",
            )
    lone = [speaker for speaker, group in speakers.items() if len(group) < 2]
    if lone:
        raise DataError(
            f"similarity rank disclosure needs two utterances a speaker, one to be known by and one to be ranked; "
            f"{len(lone)} of {len(speakers)} speakers have fewer",
            cause="a data set cut down too far",
            remedy="take these speakers out of the sets, or leave the metric srd out",
            faults=[Fault(f"speaker '{speaker}' has one utterance", kind="lone-speaker") for speaker in lone],
        )
    return speakers, left_out


class _Recording(NamedTuple):
    """What is asked of an utterance; ``row`` is its label in the manifest."""

    set: str
    samples: int
    rate: int
    row: int


def _group_by_speaker(rows: pd.DataFrame) -> dict[str, dict[str, _Recording]]:
    """The utterances of each speaker, by name; speakers in order."""
    recordings: dict[str, dict[str, _Recording]] = {speaker: {} for speaker in sorted(set(rows["speaker"].tolist()))}
    columns = [rows[name].tolist() for name in ("speaker", "utterance", "set", "samples", "sample_rate")]
    for speaker, utterance, of, samples, rate, row in zip(*columns, rows.index.tolist()):
        recordings[speaker][utterance] = _Recording(of, samples, rate, row)
    return recordings


def count_segments(files: list[tuple[int, int]], seconds: float | None) -> int:
    """How many segments are cut of joined files, given as (samples, rate): :data:`INPUTS`, or as many as come nearest to
    having a length of so many seconds, one at least."""
    if seconds is None:
        return INPUTS
    return max(1, round(sum(samples / rate for samples, rate in files) / seconds))
