"""Recordings cut into pieces before they are anonymised: nothing is lost, and planning knows the pieces."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import soundfile

from pipeline import audio
from pipeline.engine.store import Store
from pipeline.engine.task import Task, Value
from pipeline.files import file_digest
from pipeline.protocol.cuts import Pieces, cut_rows, name_recording
from pipeline.stages.speech import cut
from pipeline.tables import manifest
from tests.running import execute

LENGTHS = {"a-1": 16_000 * 12 + 7, "a-2": 20_000, "b/é": 8_000}


def recordings(folder: Path) -> tuple[pd.DataFrame, dict[str, np.ndarray]]:
    """A manifest of three recordings of noise, and their samples as they are read."""
    rows, waves = [], {}
    for place, (name, length) in enumerate(LENGTHS.items()):
        path = folder / f"{place}.flac"
        soundfile.write(path, np.random.default_rng(place).uniform(-0.5, 0.5, length), 16_000)
        waves[name] = soundfile.read(path, dtype="float32")[0]
        rows.append((name, name[0], "f", "train", "train", str(path), 16_000, length, file_digest(path), place))
    return pd.DataFrame(rows, columns=manifest.COLUMNS), waves


def test_pieces_joined_are_the_recording_bit_for_bit(tmp_path: Path) -> None:
    rows, waves = recordings(tmp_path)
    task = Task(
        "cut", "cut", functools.partial(cut.cut_recordings, Pieces(3.0), 2), inputs={"audio": Value("rows", rows)}
    )
    made = manifest.read(execute([task], Store(tmp_path / "store")).artefact(task.ref()).folder)
    joined: dict[str, list[np.ndarray]] = {}
    for path, name in zip(made["path"], made["utterance"]):
        joined.setdefault(name_recording(name), []).append(soundfile.read(path, dtype="float32")[0])
    assert {name: len(parts) for name, parts in joined.items()} == {"a-1": 4, "a-2": 1, "b/é": 1}
    for name, parts in joined.items():
        assert np.array_equal(np.concatenate(parts), waves[name])
    assert made["position"].nunique() == 6
    assert made["sha256"].nunique() == 6
    changed = rows.assign(sha256=["0" * 64, *rows["sha256"][1:]])
    task = Task(
        "cut", "cut", functools.partial(cut.cut_recordings, Pieces(3.0), 2), inputs={"audio": Value("other", changed)}
    )
    with pytest.raises(audio.Changed):
        execute([task], Store(tmp_path / "store"))


def test_planning_knows_the_names_and_lengths_of_pieces_before_they_are_cut(tmp_path: Path) -> None:
    rows, _ = recordings(tmp_path)
    task = Task(
        "cut", "cut", functools.partial(cut.cut_recordings, Pieces(3.0), 1), inputs={"audio": Value("rows", rows)}
    )
    made = manifest.read(execute([task], Store(tmp_path / "store")).artefact(task.ref()).folder)
    known = cut_rows(rows, Pieces(3.0))
    same = ["set", "utterance", "speaker", "sex", "role", "sample_rate", "samples", "position"]
    pd.testing.assert_frame_equal(known[same], made[same], check_dtype=False)
