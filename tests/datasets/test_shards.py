"""Borders of shards depend on the digest at them alone."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.protocol.shards import duration_band, split_shards

RATES = [8000, 16000, 44100]
# Digests whose last byte is often 0, and of few values so that they repeat.
DIGESTS = st.builds(
    lambda head, last: f"{head:062x}{last}", st.integers(0, 40), st.sampled_from(["00", "00", "01", "a0"])
)
FILES = st.lists(
    st.tuples(DIGESTS, st.sampled_from(["s", "t"]), st.integers(0, 50)), max_size=60, unique_by=lambda file: file[1:]
)


def _length(digest: str) -> tuple[int, int]:
    """Samples and rate of the file with this digest: equal digests are equal files."""
    number = int(digest, 16) // 256
    return 1 + number * number * 7919 % 300_000, RATES[number % 3]


def _frame(files: list[tuple[str, str, int]]) -> pd.DataFrame:
    rows = [(f"u{number}", name, digest, *_length(digest)) for digest, name, number in files]
    return pd.DataFrame(rows, columns=["utterance", "set", "sha256", "samples", "sample_rate"])


def _contents(frame: pd.DataFrame) -> list[tuple[tuple[str, str], ...]]:
    return [tuple(zip(part["set"], part["utterance"])) for part in split_shards(frame)]


def _by_hand(files: list[tuple[str, str, int]]) -> list[tuple[tuple[str, str], ...]]:
    """The rule as a loop: sort tuples, go on to a new shard when the digest changes after one that ends in 00, or the band."""
    keyed = sorted(
        (math.floor(math.log2(_length(digest)[0] / _length(digest)[1])), digest, name, f"u{number}")
        for digest, name, number in files
    )
    made: list[list[tuple[str, str]]] = []
    before, last_band = "", 0
    for length_band, digest, name, utterance in keyed:
        if not made or (before[-2:] == "00" and digest != before) or length_band != last_band:
            made.append([])
        made[-1].append((name, utterance))
        before, last_band = digest, length_band
    return [tuple(part) for part in made]


@settings(deadline=None)
@given(FILES)
def test_the_rule_as_a_loop(files: list[tuple[str, str, int]]) -> None:
    assert _contents(_frame(files)) == _by_hand(files)


@settings(deadline=None)
@given(FILES, st.randoms(use_true_random=False))
def test_order_moves_nothing(files: list[tuple[str, str, int]], random) -> None:
    mixed = list(files)
    random.shuffle(mixed)
    assert _contents(_frame(mixed)) == _contents(_frame(files))


@settings(deadline=None)
@given(FILES, DIGESTS)
def test_one_more_file_touches_one_shard(files: list[tuple[str, str, int]], digest: str) -> None:
    """All other shards are as before; the one touched may fall into two if the new digest is a border."""
    before, after = set(_contents(_frame(files))), set(_contents(_frame([*files, (digest, "s", 999)])))
    assert len(before - after) <= 1
    assert len(after - before) <= (2 if digest.endswith("00") else 1)


@settings(deadline=None)
@given(FILES)
def test_nothing_is_lost_and_equal_digests_stay_together(files: list[tuple[str, str, int]]) -> None:
    frame = _frame(files)
    parts = split_shards(frame)
    assert sorted(name for part in parts for name in part["utterance"]) == sorted(frame["utterance"])
    homes: dict[str, set[int]] = {}
    for number, part in enumerate(parts):
        assert part.index.tolist() == list(range(len(part)))
        for digest in part["sha256"]:
            homes.setdefault(digest, set()).add(number)
    assert all(len(home) == 1 for home in homes.values())


def test_about_256_utterances_a_shard() -> None:
    random = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "utterance": [f"u{number}" for number in range(50_000)],
            "set": "s",
            "sha256": [random.bytes(32).hex() for _ in range(50_000)],
            "samples": random.integers(8000, 400_000, 50_000),
            "sample_rate": 16000,
        }
    )
    # 50000/256 = 195 borders, binomial with a standard deviation of 14; five of them.
    assert len(split_shards(frame)) == pytest.approx(195, abs=70)


@pytest.mark.parametrize("power", range(-6, 12))
def test_bands_are_exact_at_their_borders(power: int) -> None:
    for rate in (8000, 16000, 48000):
        edge = rate * 2**power if power >= 0 else rate // 2**-power
        if edge * 2**-power == rate:
            assert duration_band(np.array([edge - 1, edge]), np.array([rate, rate])).tolist() == [power - 1, power]
