"""Cuts: as many features as names, pieces that make up the whole, and plain values that keys and plans can hold."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
import pytest

from pipeline import audio, contracts
from pipeline.contracts import ComponentSettings, Feature, numeric
from pipeline.protocol.cuts import Cut, Pieces, Recording, Segments, Whole

RATE = 8000


class _Settings(ComponentSettings):
    name: Literal["ear"] = numeric("ear")


class _Ear(contracts.Extractor):
    """Gives back what it heard: the vector is the waveform."""

    Settings = _Settings
    sample_rate = RATE

    def extract(self, waveforms: Sequence[np.ndarray]) -> list[Feature]:
        return [Feature(np.asarray(wave), float(len(wave))) for wave in waveforms]


EAR = _Ear(_Settings(), None, "cpu", 1)
LENGTHS = [
    (1, RATE),
    (4000, RATE),
    (12_345, RATE),
    (40_000, RATE),
    (11_025, 22_050),
    (99_000, 44_100),
    (23_999, 16_000),
]


def recordings() -> list[Recording]:
    random = np.random.default_rng(0)
    waves = [(random.standard_normal(samples).astype(np.float32), rate) for samples, rate in LENGTHS]
    return [Recording(wave, rate, {RATE: audio.resample(wave, rate, RATE)}) for wave, rate in waves]


def rows() -> pd.DataFrame:
    made = pd.DataFrame(LENGTHS, columns=["samples", "sample_rate"])
    return made.assign(sha256=[f"sha{number}" for number in range(len(made))])


CUTS = [Whole(), Pieces(3.0), Pieces(0.8), Pieces(0.01), Segments(20), Segments(1), Segments(7)]


@pytest.mark.parametrize("cut", CUTS, ids=repr)
def test_there_are_as_many_features_as_names_and_no_name_twice(cut: Cut) -> None:
    names = cut.names(rows())
    assert len(names) == len(set(names)) == len(cut.features(EAR, recordings()))


def test_whole_recordings_are_heard_as_they_are() -> None:
    assert Whole().names(rows()) == list(rows()["sha256"])
    for made, recording in zip(Whole().features(EAR, recordings()), recordings(), strict=True):
        np.testing.assert_array_equal(made.vector, recording.at_rate[RATE])


@pytest.mark.parametrize("seconds", [3.0, 0.8, 0.3])
def test_pieces_make_up_their_recording_and_are_about_as_long_as_asked(seconds: float) -> None:
    cut = Pieces(seconds)
    by_file: dict[str, list[np.ndarray]] = {}
    for name, made in zip(cut.names(rows()), cut.features(EAR, recordings()), strict=True):
        sha, _, number = name.partition("#")
        assert int(number) == len(by_file.setdefault(sha, [])), "in the order of time"
        by_file[sha].append(made.vector)
    assert list(by_file) == list(rows()["sha256"])
    for pieces, recording in zip(by_file.values(), recordings(), strict=True):
        np.testing.assert_array_equal(np.concatenate(pieces), recording.at_rate[RATE])
        sizes = {len(piece) for piece in pieces}
        assert max(sizes) - min(sizes) <= 1
        # No other number of pieces makes the number nearer to that of pieces of exactly this length.
        wanted = len(recording.wave) / recording.rate / seconds
        assert len(pieces) == min(range(1, 500), key=lambda count: abs(count - wanted))


@pytest.mark.parametrize("count", [1, 7, 20])
def test_segments_are_of_all_recordings_joined(count: int) -> None:
    """Files of another rate are brought to that of the first, so here the first rate is that of the ear."""
    made = Segments(count).features(EAR, recordings()[1:4])
    joined = np.concatenate([recording.wave for recording in recordings()[1:4]])
    np.testing.assert_array_equal(np.concatenate([one.vector for one in made]), joined)
    sizes = [len(one.vector) for one in made]
    assert len(sizes) == count and max(sizes) - min(sizes) <= 1
    assert Segments(count).names(rows()) == [str(number) for number in range(count)]


def test_only_segments_join() -> None:
    assert [type(cut) for cut in CUTS if cut.joins] == [Segments] * 3


@pytest.mark.parametrize("cut", CUTS, ids=repr)
def test_a_cut_is_a_plain_value(cut: Cut) -> None:
    """Plans find features by it, and tasks carry it to other processes."""
    carried = pickle.loads(pickle.dumps(cut))
    assert carried == cut and hash(carried) == hash(cut) and carried.numeric() == cut.numeric()
    assert [other for other in CUTS if other == cut] == [cut]
    for field in dataclasses.fields(cut):  # type: ignore[arg-type]
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(cut, field.name, 1)


def test_every_cut_has_other_keys() -> None:
    def plain(value: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
        return tuple(sorted(value.items()))

    assert len({plain(cut.numeric()) for cut in CUTS}) == len(CUTS)
