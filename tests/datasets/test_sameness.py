"""One sound where the originals hold several: counts against plain loops."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from pipeline.datasets import resemblance

ROWS = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from("abc"), st.integers(0, 3)), min_size=1, max_size=9, unique_by=lambda row: row[0]
)  # fmt: skip


@given(ROWS)
def test_counts_are_those_of_all_pairs(rows: list[tuple[int, str, int]]) -> None:
    """Each original once, of a speaker, as some sound."""
    originals = [{"utterance": f"{s}{o}", "speaker": s, "sha256": f"o{o}"} for o, s, _ in rows]
    made = [{"utterance": f"{s}{o}", "speaker": s, "sha256": f"x{sound}"} for o, s, sound in rows]
    pairs = [(one, other) for one, other in itertools.permutations(rows, 2) if one[2] == other[2]]
    found = resemblance.find_identical(originals, made)
    assert found.files == len(rows)
    assert found.shared == len({one for one, _ in pairs}) and found.sounds == len({one[2] for one, _ in pairs})
    speakers = {s: [sound for _, who, sound in rows if who == s] for s in "abc"}
    assert found.of == sum(len(sounds) > 1 for sounds in speakers.values())
    assert found.speakers == sum(len(sounds) > 1 and len(set(sounds)) == 1 for sounds in speakers.values())
    mixed = {one[2] for one, other in pairs if one[1] != other[1]}
    assert found.across == sum(sound in mixed for _, _, sound in rows)
    assert bool([*found.sentences()]) is bool(pairs)


def test_one_original_in_several_sets_is_no_news() -> None:
    """VCTK's common sentences stand in two sets, and an utterance may stand under two ids."""
    originals = [{"utterance": name, "speaker": "a", "sha256": "o"} for name in ("u", "u", "v")]
    made = [{**row, "sha256": "x"} for row in originals]
    assert not [*resemblance.find_identical(originals, made).sentences()]
    # Different files of one sound are one original too, and one file of a system by its sound.
    others = [{**row, "sha256": f"o{n}"} for n, row in enumerate(originals)]
    assert not [*resemblance.find_identical(others, made, {"o0": "s", "o1": "s", "o2": "s"}).sentences()]
    apart = [{**row, "sha256": f"x{n}"} for n, row in enumerate(originals)]
    assert resemblance.find_identical(others, apart, {}, {"x0": "y", "x1": "y"}).shared == 2
