"""Held-out speakers, the excerpts that they are verified on, their EER, and one speaker under two names."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.nets.waveforms import Waveforms, pack_waveforms
from pipeline.trainers.embedding import EmbeddingSettings
from pipeline.trainers.embedding.crops import cut_excerpts, find_doubles, split, verify


@pytest.mark.parametrize(
    ("speakers", "share", "held_out"),
    [
        (19, 0.1, 0),
        (20, 0.1, 5),
        (24, 0.1, 6),
        (32, 0.1, 8),
        (79, 0.1, 8),
        (168, 0.1, 17),
        (168, 0.25, 42),
        (168, 0.0, 0),
    ],
)
def test_how_many_speakers_are_held_out(speakers: int, share: float, held_out: int) -> None:
    names = [f"s{item % speakers}" for item in range(2 * speakers)]
    trained, kept = split(EmbeddingSettings(held_out=share), names)
    assert sorted([*trained, *kept]) == list(range(2 * speakers))
    assert len({names[item] for item in kept}) == held_out
    assert not {names[item] for item in kept} & {names[item] for item in trained}
    assert (trained, kept) == split(EmbeddingSettings(held_out=share), names)
    if held_out:
        assert kept != split(EmbeddingSettings(held_out=share, seed=1), names)[1]


def test_utterances_are_held_out_whoever_speaks() -> None:
    names = [f"s{item % 30}" for item in range(300)]
    trained, kept = split(EmbeddingSettings(held_out_by="utterance"), names)
    assert (len(trained), len(kept)) == (270, 30)
    assert {names[item] for item in kept} <= {names[item] for item in trained}


def counted(lengths: list[int], speakers: list[str]) -> Waveforms:
    """Utterance i is constant at (i + 1) / 64, its n-th sample a little more."""
    waves = [(item + 1) / 64 + np.arange(length) / 2**15 for item, length in enumerate(lengths)]
    return pack_waveforms(waves, speakers)


def test_excerpts_of_several_utterances_are_their_middles() -> None:
    audio = counted([100, 40, 30, 90, 50], ["a", "a", "b", "b", "c"])
    made = cut_excerpts(audio, range(5), audio.speakers, 40, 0)
    assert made is not None
    assert (made.names, made.same_session) == (["a", "b", "c"], False)
    assert made.speakers.tolist() == [0, 0, 1, 1, 2]
    np.testing.assert_array_equal(made.waves[0], audio.piece(0, 30, 70))
    np.testing.assert_array_equal(made.waves[1], audio.piece(1))
    np.testing.assert_array_equal(made.waves[2], np.concatenate([audio.piece(2), audio.piece(2, 0, 10)]))
    np.testing.assert_array_equal(made.waves[4], audio.piece(4, 5, 45))


def test_excerpts_of_one_utterance_do_not_overlap_and_say_so() -> None:
    audio = counted([1000, 130, 20, 90, 1], ["a", "b", "c", "d", "e"])
    made = cut_excerpts(audio, range(5), audio.speakers, 40, 0)
    assert made is not None
    assert made.same_session
    assert np.bincount(made.speakers).tolist() == [6, 3, 2, 2, 2]
    values = made.waves[made.speakers == 0]
    assert len(np.unique(values)) == 6 * 40
    np.testing.assert_array_equal(made.waves[made.speakers == 2][0], np.resize(audio.piece(2, 0, 10), 40))
    np.testing.assert_array_equal(made.waves[made.speakers == 2][1], np.resize(audio.piece(2, 10, 20), 40))


def test_excerpts_are_of_some_speakers_and_some_utterances() -> None:
    audio = counted([50] * 90, [f"s{item % 9}" for item in range(90)])
    made = cut_excerpts(audio, range(81), audio.speakers, 40, 0, most=4)
    assert made is not None
    assert len(made.names) == 4
    assert np.bincount(made.speakers).tolist() == [6] * 4
    assert cut_excerpts(audio, [0, 9], audio.speakers, 40, 0) is None
    assert cut_excerpts(audio, [], audio.speakers, 40, 0) is None


def test_verification_is_over_all_pairs() -> None:
    random = np.random.default_rng(0)
    audio = pack_waveforms([random.uniform(-0.5, 0.5, 50) for _ in range(40)], [f"s{item % 10}" for item in range(40)])
    excerpts = cut_excerpts(audio, range(40), audio.speakers, 40, 0)
    assert excerpts is not None
    vectors = random.standard_normal((10, 8))[excerpts.speakers] + 0.8 * random.standard_normal((40, 8))
    found = verify(excerpts, lambda waves: vectors)
    targets, others = [], []
    for one in range(40):
        for two in range(one):
            cosine = vectors[one] @ vectors[two] / np.linalg.norm(vectors[one]) / np.linalg.norm(vectors[two])
            (targets if excerpts.speakers[one] == excerpts.speakers[two] else others).append(cosine)
    assert (found.n_target, found.n_nontarget, found.speakers) == (60, 720, 10)
    # The rates at the threshold where they cross; the hull's EER lies within a step of the targets of that.
    rates = [(np.mean(np.array(targets) < t), np.mean(np.array(others) >= t)) for t in sorted(targets + others)]
    crossing = min(rates, key=lambda pair: abs(pair[0] - pair[1]))
    assert found.eer == pytest.approx(np.mean(crossing), abs=1 / 60)
    assert 0.02 < found.eer < 0.3
    assert found.eer < found.cllr_min < 1


def duplicates(spread: float, speakers: int = 30, utterances: int = 6, single: bool = False) -> list[tuple[str, str]]:
    """Who is suspected among speakers whose embeddings lie this far from their centre; half of s3's utterances are named s3x."""
    random = np.random.default_rng(4)
    names = [f"s{item % speakers}" for item in range(speakers * utterances)]
    owners = np.array([int(name[1:]) for name in names])
    if single:
        names += [f"alone{item}" for item in range(5)]
        owners = np.concatenate([owners, speakers + np.arange(5)])
    names = [name + ("x" if name == "s3" and item // speakers % 2 else "") for item, name in enumerate(names)]
    # What is heard in an utterance is its number, so that an embedding can be looked up.
    audio = pack_waveforms([np.full(20, item / 2**15) for item in range(len(names))], names)
    centres = random.standard_normal((speakers + 5, 16))
    vectors = centres[owners] + spread * random.standard_normal((len(names), 16))
    found = find_doubles(audio, names, 20, 0, lambda waves: vectors[np.rint(waves[:, 0] * 2**15).astype(int)])
    cosines = [cosine for _, _, cosine in found]
    assert cosines == sorted(cosines, reverse=True)
    return [(one, two) for one, two, _ in found]


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("spread", [0.1, 0.3])
def test_one_speaker_under_two_names_is_found_and_nobody_else(spread: float, single: bool) -> None:
    assert duplicates(spread, single=single) == [("s3", "s3x")]


def test_a_network_that_tells_nobody_apart_suspects_nobody() -> None:
    assert duplicates(20.0) == []


def test_names_with_one_excerpt_each_are_not_judged() -> None:
    audio = pack_waveforms([np.full(40, level) for level in (0.1, 0.2, 0.3)], ["a", "b", "c"])
    assert find_doubles(audio, ["a", "a", "a"], 20, 0, lambda waves: waves) == []
    assert find_doubles(audio, audio.speakers, 20, 0, lambda waves: np.ones((len(waves), 2))) == []
