"""Chapters and videos that stand for speakers, and the sets of speakers that only look like them."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from pipeline.datasets import corpus, importers
from pipeline.datasets.listings import Utterance
from pipeline.errors import DataError
from pipeline.faults import Faults

from .conftest import Tiny
from .test_scores import read


def found(rows: dict[str, str], role: str = "trial") -> list[str]:
    faults = Faults()
    corpus.check_readers([Utterance("s", role, name, who, "u", None, f"utt2spk:{k}", k) for k, (name, who) in enumerate(rows.items())], faults)  # fmt: skip
    return [fault.what for fault in faults.found]


def ids(form: str, who: str, first: tuple[str, ...], second: tuple[str, ...] = ("134686", "134691")) -> dict[str, str]:
    places = itertools.product(first, second, range(2))
    return {form.format(a=a, b=b, k=k): who.format(a=a, b=b) for a, b, k in places}


READERS = ("1089", "121")
CHAPTERS = {
    "Kaldi's LibriSpeech": ids("{a}-{b}-{k:04d}", "{a}-{b}", READERS),
    "the chapter alone": ids("{a}-{b}-{k:04d}", "{b}", READERS[:1]),
    "ESPnet's LibriTTS": ids("{a}_{b}_00000{k}_000001", "{a}_{b}", READERS),
    "MLS": ids("{a}_{b}_00000{k}", "{a}_{b}", READERS, ("10003", "9431")),
    "augmented": ids("{a}-{b}-{k:04d}-reverb", "{a}-{b}", READERS),
    "another speed": ids("sp0.9-{a}-{b}-{k:04d}", "sp0.9-{a}-{b}", READERS),
    "VoxCeleb": ids("{a}-{b}-0000{k}", "{a}-{b}", ("id10270", "id10271"), ("5r0dWxy17C8", "8jEAjG6SegY")),
    "CN-Celeb": ids("{a}-{b}-01-00{k}", "{a}-{b}", ("id00001", "id00002"), ("singing", "speech")),
}
HONEST = {
    "readers": ids("{a}-{b}-{k:04d}", "{a}", READERS),
    "one chapter a reader": ids("{a}-{b}-{k:04d}", "{a}-{b}", READERS, ("134686",)),
    "VCTK": ids("{a}_{b}_mic{k}", "{a}", ("p225", "p226"), ("001", "002")),
    "letters and numbers": ids("{a}-{b}-{k:03d}", "{a}-{b}", ("F", "M", "S0001"), ("01", "02")),
    "site and patient": ids("{a}-{b}-{k:04d}", "{a}-{b}", ("01", "02"), ("001", "002")),
    "CN-Celeb": ids("{a}-{b}-01-00{k}", "{a}", ("id00001", "id00002"), ("singing", "speech")),
    "VoxCeleb at other speeds": ids("{a}-x-0000{k}_{b}", "{a}_{b}", ("id10270",), ("sp0.9", "sp1.1")),
    "sentences by speakers": ids("{a}-{b}-{k:04d}", "{b}", ("12", "13"), ("345", "346")),
    "sentences, once": {f"{a}_{b}": b for a in ("12", "13") for b in ("345", "346")},
    "speeds": ids("{b}-{a}-134686-000{k}", "{b}-{a}", READERS, ("sp0.9", "sp1.1")),
    "sides of conversations": ids("sw0{a}-{b}_{k:06d}-000100", "sw0{a}-{b}", ("2001", "2005"), ("A", "B")),
}


@pytest.mark.parametrize("name", CHAPTERS)
def test_chapters_as_speakers_are_named(name: str) -> None:
    rows = CHAPTERS[name]
    for role in ("trial", "train"):
        (what,) = found(rows, role)
        assert what.startswith(
            f"{len(set(rows.values()))} {'training ' if role == 'train' else ''}speakers are chapters"
        )


@pytest.mark.parametrize("name", HONEST)
def test_speakers_that_are_none_are_left_alone(name: str) -> None:
    assert found(HONEST[name]) == []


def test_a_set_of_chapters_is_refused_before_any_number(tiny: Tiny, refused: Callable[..., DataError]) -> None:
    rows = CHAPTERS["Kaldi's LibriSpeech"]
    tiny.tables = {"clean": tiny.basic([*rows]) | {"utt2spk": [f"{u} {s}" for u, s in rows.items()]}}
    tiny.tables["clean"]["spk2gender"] = sorted({f"{speaker} f" for speaker in rows.values()})
    error = refused(importers.read_data_set, tiny.save().settings())
    assert {fault.kind for fault in error.faults} == {"readers"} and "train-clean-360-asv" in error.remedy


def test_a_training_set_of_chapters_is_refused(tiny: Tiny, refused: Callable[..., DataError]) -> None:
    rows = CHAPTERS["Kaldi's LibriSpeech"]
    tiny.tables["train"] = tiny.basic([*rows]) | {"utt2spk": [f"{u} {s}" for u, s in rows.items()]}
    tiny.tables["train"]["spk2gender"] = sorted({f"{speaker} f" for speaker in rows.values()})
    error = refused(importers.read_data_set, tiny.save().settings(train=str(tiny.root / "train")))
    assert [fault.kind for fault in error.faults] == ["readers"]
    assert "4 training speakers are chapters or recordings of 2 readers" in error.faults[0].what


def test_a_reader_who_is_trained_on_by_a_chapter_and_evaluated_is_found() -> None:
    rows = [Utterance("e", "trial", "1089-134686-0000", "1089", "u", None, "e:1", 0), Utterance("t", "train", "1089-134691-0000", "1089-134691", "u", None, "t:1", 0)]  # fmt: skip
    faults = Faults()
    corpus.check_readers(rows, faults)
    (fault,) = faults.found
    assert fault.what.startswith("2 speakers, trained on and evaluated, are chapters or recordings of 1 readers")
    corpus.check_readers(rows[:1], other := Faults())
    assert other.found == []


def test_score_files_of_chapters_say_so_above_the_results(tmp_path) -> None:
    folder = tmp_path / "exp" / "asv_orig" / "libri_test_enrolls-libri_test_trials_f"
    folder.mkdir(parents=True)
    rows = CHAPTERS["Kaldi's LibriSpeech"]
    models = sorted(set(rows.values()))
    lines = [f"{m} {u} {(m == s) + 0.01 * k}\n" for m in models for k, (u, s) in enumerate(rows.items())]
    (folder / "scores").write_text("".join(lines))
    given = read(tmp_path, labels="ids")
    # Each of 8 utterances is tried against the other chapter of its reader.
    assert "8 non-target trials compare recordings of one reader" in " ".join(given.limits)
