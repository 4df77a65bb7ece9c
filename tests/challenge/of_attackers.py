"""The tree of the Attacker Challenge, and the raw downloads of 2020 and 2024."""

from __future__ import annotations

from collections.abc import Sequence

from tests.challenge import sets, tables
from tests.challenge.common import (
    Recordings,
    Wanted,
    Written,
    named,
    notes,
    originals,
    write_originals,
    write_raw,
    write_training,
)

SYSTEMS = ("B3", "B4", "B5", "T8-5", "T10-2", "T12-5", "T25-1")
MISSPELT = {("T25-1", "libri_dev_trials_f"): "libri_dev_trails_f"}


def write(wanted: Wanted) -> Written:
    """``ROOT/SYSTEM/data/SET_SYSTEM/wav/UTT.wav``, with its traps; the originals lie in ``ROOT/original/data``.

    B4 comes without tables and calls its training set ``libri360_anon_B4``; T25-1 has a misspelt folder.
    """
    home = wanted.folder / "original"
    recordings = Recordings(home, wanted.seconds)
    evaluated, training = originals(wanted, ["libri"]), sets.training(*wanted.training)
    write_originals(home / "data", evaluated, recordings)
    write_training(home / "data", training, recordings)
    for system in wanted.systems:
        root = wanted.folder / system
        theirs = Recordings(root, wanted.seconds)
        for held in [*evaluated, training]:
            name = MISSPELT.get((system, held.name), held.name)
            if system == "B4" and held is training:
                name = "libri360_anon"
            folder = f"data/{name}_{system}"
            wavs = {
                row.id: theirs.copy(row, f"_{system}", f"{folder}/wav/{row.id}.wav", row.id) for row in held.utterances
            }
            if system != "B4":
                tables.write(root / folder, held, wavs, theirs.seconds)
    return Written(wanted.folder, home / "data", named([*evaluated, training]), tuple(notes(wanted)))


def write_raw_2020(wanted: Wanted) -> Written:
    """``data/libri_dev`` and ``data/vctk_dev`` with their lists inside, before anything is cut out of them."""
    return _downloads(wanted, ["libri", "vctk"])


def write_raw_2024(wanted: Wanted) -> Written:
    """``data/libri_dev`` and ``data/libri_test`` with their lists inside."""
    return _downloads(wanted, ["libri"])


def _downloads(wanted: Wanted, corpora: Sequence[str]) -> Written:
    evaluated = originals(wanted, corpora)
    write_raw(wanted.folder / "data", evaluated, Recordings(wanted.folder, wanted.seconds))
    return Written(wanted.folder, wanted.folder / "data", named(evaluated), tuple(notes(wanted)[1:]))
