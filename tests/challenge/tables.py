"""Kaldi folders: plain tables sorted by id, as the challenges' scripts leave them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.challenge.sets import Set


def write(folder: Path, held: Set, wavs: Mapping[str, str], seconds: Mapping[str, float]) -> None:
    """The tables of a set.

    Args:
        folder: where to.
        held: the set.
        wavs: what wav.scp says, by id.
        seconds: of each utterance; utt2dur has a blank at the end of each line, as Kaldi writes it.
    """
    rows = held.utterances
    by_speaker: dict[str, list[str]] = {}
    for row in rows:
        by_speaker.setdefault(row.speaker, []).append(row.id)
    lines(folder / "wav.scp", (f"{row.id} {wavs[row.id]}" for row in rows))
    lines(folder / "utt2spk", (f"{row.id} {row.speaker}" for row in rows))
    lines(folder / "spk2utt", (f"{name} {' '.join(ids)}" for name, ids in sorted(by_speaker.items())))
    lines(folder / "spk2gender", sorted({f"{row.speaker} {row.sex}" for row in rows}))
    lines(folder / "text", (f"{row.id} {row.words}" for row in rows))
    lines(folder / "utt2dur", (f"{row.id} {seconds[row.id]:g} " for row in rows))
    lists(folder, held)


def lists(folder: Path, held: Set) -> None:
    """``enrolls``, ``trials`` and what else a set has."""
    if held.enrols:
        lines(folder / "enrolls", (row.id for row in held.utterances))
    if held.trials is not None:
        lines(folder / "trials", (" ".join(trial) for trial in held.trials))
    for name, content in held.extra.items():
        lines(folder / name, content)


def lines(path: Path, content: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in content))
