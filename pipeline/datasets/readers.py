"""Chapters that stand for speakers.

Kaldi's recipe for LibriSpeech and ESPnet's for LibriTTS write READER-CHAPTER into ``utt2spk``, and so do the scripts of VoicePrivacy
2022 for the set on which speech recognition is trained. Trials between chapters of one reader then count as non-target although they
compare a voice with itself, and everybody looks better protected. Ids of LibriSpeech, LibriTTS, MLS, VoxCeleb and CN-Celeb tell it.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pipeline.faults import Faults
from pipeline.names import join_few

if TYPE_CHECKING:
    from pipeline.datasets.corpus import Listed

_BOOKS = re.compile(r"((?:sp[\d.]+-)?[1-9]\d{0,4})[-_]([1-9]\d{2,5})(?:[-_]\d{4,}(?:[-_].*)?)?")
"""READER-CHAPTER-NUMBER, and whatever augmentation writes around it; no number in the id of a model."""
_VIDEOS = re.compile(r"(id\d{5})[-_/](.+)")
_SPED = re.compile(r"[-_]sp[\d.]+$")


def reader_of(name: str) -> tuple[str, str] | None:
    """The reader and the chapter of an id; None if it is not called as in these corpora."""
    match = _BOOKS.fullmatch(name) or _VIDEOS.fullmatch(name)
    return (match[1], match[2]) if match else None


def check(rows: Sequence[Listed], faults: Faults) -> None:
    """Report readers of whom chapters or videos are speakers of their own: among the speakers who are evaluated, among those who are
    trained on, and where neither has any, among both together, for nobody may be in both."""
    trained = [row for row in rows if row.role == "train"]
    evaluated = [row for row in rows if row.role != "train"]
    split = [_report(evaluated, "speakers", faults), _report(trained, "training speakers", faults)]
    if trained and not any(split):
        _report(rows, "speakers, trained on and evaluated,", faults)


def _report(rows: Sequence[Listed], who: str, faults: Faults) -> bool:
    voices: dict[str, dict[str, Listed]] = defaultdict(dict)
    for row in rows:
        place = reader_of(row.utterance)
        if place is None or not row.speaker:
            continue
        # A model's id may end with the chapter; an utterance of that form may be SENTENCE-SPEAKER.
        if place[0].startswith("id") or not row.utterance.endswith(place[1]):
            voices[place[0]].setdefault(_SPED.sub("", row.speaker), row)
    readers = Counter(speaker for speakers in voices.values() for speaker in speakers)
    split = {reader: speakers for reader, speakers in voices.items()
             if sum(readers[speaker] == 1 for speaker in speakers) > 1 and any(map(_is_chapter, speakers.values()))}  # fmt: skip
    for reader, speakers in [*split.items()][:1]:
        what = f"{sum(map(len, split.values()))} {who} are chapters or recordings of {len(split)} readers"
        example = f"{join_few(sorted(speakers), 2)} of {reader}"
        where = next(iter(speakers.values())).where
        faults.add("readers", f"{what}, e.g. {example}: one voice counts as several speakers", where)
    return bool(split)


def _is_chapter(row: Listed) -> bool:
    """Whether the speaker of an utterance is called after its chapter; of a video, after more than the person."""
    reader, chapter = reader_of(row.utterance) or ("", "")
    return row.speaker != reader if reader.startswith("id") else chapter in re.split(r"[-_]", row.speaker)


def same_readers(trials: Iterable[tuple[str, str, bool]]) -> list[tuple[str, str]]:
    """The non-target trials (model, utterance) whose two ids name one reader."""
    pairs = [(model, utterance) for model, utterance, target in trials if not target]
    places = [(reader_of(model), reader_of(utterance)) for model, utterance in pairs]
    return [pair for pair, (left, right) in zip(pairs, places) if left and right and left[0] == right[0]]
