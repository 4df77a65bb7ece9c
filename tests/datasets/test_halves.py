"""SRD halves and inputs: against the rule written out with hashlib, and sample by sample with exact fractions."""

from __future__ import annotations

import hashlib
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import audio
from pipeline.datasets import importers
from pipeline.datasets.settings import DatasetSettings
from pipeline.errors import DataError
from pipeline.protocol import halves


def _manifest(rows: list[tuple[str, str, str, int, int]]) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=["utterance", "speaker", "set", "samples", "sample_rate"])
    return table.assign(role="trial")


def _uneven(seed: int = 0) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    return _manifest(
        [
            (
                f"{speaker}-{number}",
                speaker,
                f"s{number % 2}",
                int(random.integers(50, 5000)),
                int(random.choice([8000, 16000])),
            )
            for speaker, count in (("a", 2), ("b", 7), ("c", 50))
            for number in range(count)
        ]
    )


def test_halves_are_in_the_order_of_the_digest_of_seed_and_id() -> None:
    ids = [f"u{number}" for number in range(7)]
    ordered = sorted(ids, key=lambda name: hashlib.sha256(f'[3,"{name}"]'.encode()).hexdigest())
    assert halves.halve_ids(reversed(ids), 3) == (ordered[:3], ordered[3:])


@pytest.mark.parametrize("unit", ["segment", "utterance"])
def test_references_and_inputs_are_disjoint_and_complete(unit) -> None:
    manifest = _uneven()
    made = halves.make_halves(manifest, 5, unit)
    known, ranked = set(made.references["utterance"]), set(made.pieces["utterance"])
    assert not known & ranked
    for speaker, count in (("a", 2), ("b", 7), ("c", 50)):
        assert (made.references["speaker"] == speaker).sum() == count // 2
        mine = set(made.pieces[made.pieces["speaker"] == speaker]["utterance"])
        assert len(mine) == (count - count // 2 if unit == "segment" else min(20, count - count // 2))
    for piece in made.pieces.itertuples():
        assert manifest.loc[piece.row, "utterance"] == piece.utterance and manifest.loc[piece.row, "set"] == piece.set


@pytest.mark.parametrize(("unit", "counts"), [("segment", [20, 20, 20]), ("utterance", [1, 4, 20])])
def test_speakers_weigh_equally(unit, counts: list[int]) -> None:
    inputs = halves.make_halves(_uneven(), 5, unit).inputs
    assert inputs.groupby("speaker").size().tolist() == counts
    assert inputs.groupby("speaker")["weight"].sum().to_numpy() == pytest.approx(np.full(3, 1 / 3), abs=1e-15)
    assert inputs.groupby("speaker")["weight"].nunique().tolist() == [1, 1, 1]


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 700), st.sampled_from([80, 160, 441])), min_size=1, max_size=9),
    st.sampled_from([20, 1, 7]),
)
def test_segments_hold_each_sample_once_where_its_time_says(files: list[tuple[int, int]], count: int) -> None:
    """Each sample alone: it begins at a time t of the joined duration T, and belongs to segment floor(count t / T)."""
    total = sum((Fraction(samples, rate) for samples, rate in files), Fraction(0))
    expected, begin = {}, Fraction(0)
    for place, (samples, rate) in enumerate(files):
        for sample in range(samples):
            expected[place, sample] = int((begin + Fraction(sample, rate)) * count / total)
        begin += Fraction(samples, rate)
    found = {}
    for number, segment in enumerate(audio.cut_uniformly(files, count)):
        for place, start, stop in segment:
            for sample in range(start, stop):
                assert (place, sample) not in found
                found[place, sample] = number
    assert found == expected


def test_segments_of_one_rate_differ_by_a_sample_at_most() -> None:
    manifest = _uneven().assign(sample_rate=16000)
    pieces = halves.make_halves(manifest, 0).pieces
    lengths = (pieces["stop"] - pieces["start"]).groupby([pieces["speaker"], pieces["input"]]).sum()
    assert all(group.max() - group.min() <= 1 for _, group in lengths.groupby(level=0))


@pytest.mark.parametrize(("minutes", "count"), [(0.1, 1), (0.7, 1), (0.8, 2), (2.6, 5), (8.2, 16)])
def test_segments_by_their_length_are_as_near_to_it_as_whole_numbers_allow(minutes: float, count: int) -> None:
    files = [(int(minutes * 60 * 80), 80), (0, 160)]
    assert halves.count_segments(files, 30.0) == count
    assert halves.count_segments(files, None) == 20


def test_speakers_with_more_speech_have_more_segments_of_a_length_and_weigh_the_same() -> None:
    one = _uneven()
    made = halves.make_halves(one, 5, "segment", 2.0)
    for speaker, inputs in made.inputs.groupby("speaker"):
        pieces = made.pieces[made.pieces["speaker"] == speaker]
        rates = one.loc[pieces["row"], "sample_rate"].to_numpy()
        seconds = ((pieces["stop"] - pieces["start"]) / rates).sum()
        assert len(inputs) == max(1, round(seconds / 2.0))
        assert inputs["weight"].sum() == pytest.approx(1 / 3)
    assert made.inputs.groupby("speaker").size().nunique() > 1


def test_utterances_that_stand_in_several_sets_count_once() -> None:
    one = _uneven()
    again = pd.concat(
        [one, one.assign(set="s9"), one.assign(set="train", role="train", utterance="t" + one["utterance"])]
    )
    again = again.sample(frac=1, random_state=0).reset_index(drop=True)
    columns = ["speaker", "input", "set", "utterance", "start", "stop"]
    assert halves.make_halves(again, 1).pieces[columns].equals(halves.make_halves(one, 1).pieces[columns])


def test_other_durations_keep_the_halves() -> None:
    one = _uneven()
    slower = one.assign(samples=one["samples"] * 3)
    first, second = halves.make_halves(one, 2), halves.make_halves(slower, 2)
    assert first.references.equals(second.references) and first.inputs.equals(second.inputs)
    ends = [(made.pieces["stop"] - made.pieces["start"]).sum() for made in (first, second)]
    assert ends[1] == 3 * ends[0]


def test_speakers_with_one_utterance_are_refused_by_name() -> None:
    manifest = _manifest(
        [("a-0", "a", "s", 9, 8), ("b-0", "b", "s", 9, 8), ("c-0", "c", "s", 9, 8), ("c-1", "c", "s", 9, 8)]
    )
    with pytest.raises(DataError) as caught:
        halves.make_halves(manifest, 0)
    assert "speaker 'a'" in str(caught.value) and "speaker 'b'" in str(caught.value) and "'c'" not in str(caught.value)


@pytest.mark.slow
def test_the_pooled_real_sets_give_20_inputs_of_20_speakers(speech) -> None:
    root = speech / "librispeech-dev-clean-mp3" / "kaldi"
    manifest = importers.read_data_set(DatasetSettings(name="kaldi", root=str(root)), threads=2).manifest
    made = halves.make_halves(manifest, 0)
    assert made.inputs.groupby("speaker").size().tolist() == [20] * 20
    sizes = manifest.groupby("speaker").size()
    assert made.references.groupby("speaker").size().equals(sizes // 2)
    used = (made.pieces["stop"] - made.pieces["start"]).sum()
    ranked = manifest[~manifest["utterance"].isin(made.references["utterance"])]
    assert used == ranked["samples"].sum()


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=2, max_size=6), st.integers(0, 99))
def test_chapters_held_apart_are_in_one_half_each_and_the_cut_is_the_most_even_of_its_order(sizes, seed) -> None:
    ids = [f"1-{place}-{number:04d}" for place, size in enumerate(sizes) for number in range(size)]
    known, ranked = halves.halve_chapters(ids, seed)
    apart = {name.split("-")[1] for name in known}, {name.split("-")[1] for name in ranked}
    assert sorted(known + ranked) == sorted(ids) and known and ranked and not apart[0] & apart[1]
    order = sorted(map(str, range(len(sizes))), key=lambda name: halves.digest(seed, name))
    cuts = [sum(sizes[int(name)] for name in order[:place]) for place in range(1, len(sizes))]
    assert abs(2 * len(known) - len(ids)) == min(abs(2 * cut - len(ids)) for cut in cuts)


def test_who_has_one_chapter_cannot_be_held_apart() -> None:
    rows = [(f"{s}-{c}-{n:04d}", s, "t", 900, 16000) for s, cs in (("1", "78"), ("2", "78"), ("3", "7")) for c in cs for n in (0, 1)]  # fmt: skip
    made = halves.make_halves(_manifest(rows), 0, apart="chapter")
    assert made.left_out == ("3",) and set(made.inputs["speaker"]) == {"1", "2"}
    with pytest.raises(DataError, match="two speakers with two chapters each; 2 of 3"):
        halves.make_halves(_manifest([row for row in rows if not row[0].startswith("2-8")]), 0, apart="chapter")
    with pytest.raises(DataError, match="the chapter of utterance 'a-0' is not known"):
        halves.make_halves(_uneven(), 0, apart="chapter")
