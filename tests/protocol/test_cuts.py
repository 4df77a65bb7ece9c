"""Cuts: as many features as names, pieces that make up the whole, and plain values that keys and plans can hold."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
import pytest
import soxr
import torch
import torchaudio

from pipeline import audio, contracts
from pipeline.contracts import ComponentSettings, Feature, Preparation, numeric
from pipeline.protocol.cuts import Cut, Pieces, Recording, Segments, Whole, describe_want

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


def recordings(cut: Cut, ear: contracts.Extractor = EAR) -> list[Recording]:
    random = np.random.default_rng(0)
    waves = [(random.standard_normal(samples).astype(np.float32), rate) for samples, rate in LENGTHS]
    return [Recording.of(wave, rate, cut, [describe_want(ear)]) for wave, rate in waves]


def rows() -> pd.DataFrame:
    made = pd.DataFrame(LENGTHS, columns=["samples", "sample_rate"])
    return made.assign(sha256=[f"sha{number}" for number in range(len(made))])


CUTS = [Whole(), Pieces(3.0), Pieces(0.8), Pieces(0.01), Segments(20), Segments(1), Segments(7)]


@pytest.mark.parametrize("cut", CUTS, ids=repr)
def test_there_are_as_many_features_as_names_and_no_name_twice(cut: Cut) -> None:
    names = cut.names(rows())
    assert len(names) == len(set(names)) == len(cut.features(EAR, recordings(cut)))


def test_whole_recordings_are_heard_as_they_are() -> None:
    assert Whole().names(rows()) == list(rows()["sha256"])
    heard = recordings(Whole())
    for made, recording in zip(Whole().features(EAR, heard), heard, strict=True):
        np.testing.assert_array_equal(made.vector, audio.resample(recording.wave, recording.rate, RATE))


@pytest.mark.parametrize("seconds", [3.0, 0.8, 0.3])
def test_pieces_make_up_their_recording_and_are_about_as_long_as_asked(seconds: float) -> None:
    cut = Pieces(seconds)
    by_file: dict[str, list[np.ndarray]] = {}
    heard = recordings(cut)
    for name, made in zip(cut.names(rows()), cut.features(EAR, heard), strict=True):
        sha, _, number = name.partition("#")
        assert int(number) == len(by_file.setdefault(sha, [])), "in the order of time"
        by_file[sha].append(made.vector)
    assert list(by_file) == list(rows()["sha256"])
    for pieces, recording in zip(by_file.values(), heard, strict=True):
        sizes = {len(piece) for piece in pieces}
        assert max(sizes) - min(sizes) <= 1
        if recording.rate == RATE:
            np.testing.assert_array_equal(np.concatenate(pieces), recording.wave)
        else:
            assert sum(len(piece) for piece in pieces) == pytest.approx(
                len(recording.wave) * RATE / recording.rate, abs=len(pieces)
            )
        # No other number of pieces makes the number nearer to that of pieces of exactly this length.
        wanted = len(recording.wave) / recording.rate / seconds
        assert len(pieces) == min(range(1, 500), key=lambda count: abs(count - wanted))


@pytest.mark.parametrize("count", [1, 7, 20])
def test_segments_are_of_all_recordings_joined(count: int) -> None:
    """Files of another rate are brought to that of the first, so here the first rate is that of the ear."""
    heard = recordings(Segments(count))[1:4]
    made = Segments(count).features(EAR, heard)
    joined = np.concatenate([recording.wave for recording in heard])
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


# Preparation ----------------------------------------------------------------------------------------------------------


class _Trimming(_Ear):
    """Hears recordings without the zeros at their ends, at another rate."""

    sample_rate = 16_000
    asked = Preparation("soxr_hq", True)

    @classmethod
    def preparation(cls, settings: Any) -> Preparation:
        return cls.asked


class _Sinc(_Trimming):
    asked = Preparation("torchaudio_sinc", True)


TRIMMING, SINC = (kind(_Settings(), None, "cpu", 1) for kind in (_Trimming, _Sinc))
INSIDE = np.concatenate([np.ones(1000), np.zeros(300), -np.ones(1700)]).astype(np.float32)
PADDED = np.concatenate([np.zeros(160), INSIDE, np.zeros(1)]).astype(np.float32)


def heard_by(ear: contracts.Extractor, cut: Cut, *waves: np.ndarray, rate: int = 16_000) -> list[np.ndarray]:
    made = cut.features(ear, [Recording.of(wave, rate, cut, [describe_want(ear)]) for wave in waves])
    return [one.vector for one in made]


def test_zeros_at_ends_are_dropped_and_zeros_inside_are_kept() -> None:
    (made,) = heard_by(TRIMMING, Whole(), PADDED)
    np.testing.assert_array_equal(made, INSIDE)


def test_pieces_are_cut_from_the_recording_as_it_is_and_then_trimmed() -> None:
    """Their number is told from lengths in a manifest, which know nothing of zeros."""
    cut = Pieces(1001 / 16_000)
    names = cut.names(pd.DataFrame({"sha256": ["x"], "samples": [len(PADDED)], "sample_rate": [16_000]}))
    made = heard_by(TRIMMING, cut, PADDED)
    assert len(names) == len(made) == 3
    for piece, plain in zip(made, np.array_split(PADDED, 3), strict=True):
        np.testing.assert_array_equal(piece, np.trim_zeros(plain))


def test_recordings_are_trimmed_before_they_are_joined() -> None:
    made = heard_by(TRIMMING, Segments(3), PADDED, np.zeros(500, np.float32), PADDED)
    np.testing.assert_array_equal(np.concatenate(made), np.tile(INSIDE, 2))


@pytest.mark.parametrize("cut", [Whole(), Pieces(0.1), Segments(2)], ids=repr)
def test_of_zeros_alone_nothing_is_left(cut: Cut) -> None:
    assert [len(one) for one in heard_by(TRIMMING, cut, np.zeros(3000, np.float32))] == [0] * len(
        cut.names(pd.DataFrame({"sha256": ["x"], "samples": [3000], "sample_rate": [16_000]}))
    )


@pytest.mark.parametrize("cut", [Whole(), Segments(1)], ids=repr)
def test_trimmed_and_then_brought_to_the_rate_by_the_resampler_of_choice(cut: Cut) -> None:
    wave = np.pad(np.random.default_rng(0).standard_normal(4001).astype(np.float32), (0, 300))
    (soxr_heard,) = heard_by(TRIMMING, cut, wave, rate=8000)
    (sinc_heard,) = heard_by(SINC, cut, wave, rate=8000)
    np.testing.assert_array_equal(soxr_heard, soxr.resample(wave[:4001], 8000, 16_000, quality="HQ"))
    direct = torchaudio.functional.resample(torch.from_numpy(wave[:4001]), 8000, 16_000).numpy()
    np.testing.assert_array_equal(sinc_heard, direct)
    assert np.abs(soxr_heard - sinc_heard).max() > 0.01


def test_a_file_is_prepared_once_for_each_way_that_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(audio, "resample", lambda wave, rate, target, how: asked.append((target, how)) or wave)
    ways = [describe_want(ear) for ear in (TRIMMING, EAR, SINC, TRIMMING, EAR)]
    Recording.of(PADDED, 22_050, Whole(), ways)
    assert asked == [(16_000, "soxr_hq"), (RATE, "soxr_hq"), (16_000, "torchaudio_sinc")]
