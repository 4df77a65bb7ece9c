"""What tasks read of artefacts: selections pickle, say the same in every process, and change their digest with what they choose."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pipeline.contracts import ComponentSettings, Feature, Vectors
from pipeline.engine.task import Artefact, Derived, Selection, Task, Value
from pipeline.seeds import digest
from pipeline.stages import selections
from pipeline.stages.component_cache import loaded
from pipeline.stages.features.compute import FEATURES
from pipeline.stages.selections import SelectAudio, SelectPieces, SelectSegments, SelectVectors
from pipeline.tables import manifest, vectors
from pipeline.tables.manifest import Listing, Wanted
from tests.raised import raised

UTTERANCES = [("x", "u0", "a"), ("x", "u1", "b"), ("y", "u0", "a"), ("y", "u2", "b"), ("x", "u3", "a")]
SHA = {("x", "u0"): "s0", ("x", "u1"): "s1", ("y", "u0"): "s0", ("y", "u2"): "s2", ("x", "u3"): "s3"}
"""The same audio stands in two sets."""
LISTED = pd.DataFrame(
    [(*row, f"/audio/{row[1]}.wav", 16_000, SHA[row[:2]]) for row in UTTERANCES],
    columns=["set", "utterance", "speaker", "path", "samples", "sha256"],
)
WANTED = LISTED[["set", "utterance", "speaker"]].iloc[[3, 0, 2]].reset_index(drop=True)
LISTING, ASKED = Listing(LISTED), Wanted(WANTED)


def artefact(folder: Path) -> Artefact:
    return Artefact(folder.name, folder, folder.name, {})


def vector(name: str) -> list[float]:
    """Another one for each id."""
    return [float(ord(letter)) for letter in name.ljust(4)[:4]]


def features(folder: Path, *ids: str) -> Artefact:
    folder.mkdir(parents=True)
    made = [Feature(np.array(vector(one), np.float32), float(len(one)), f"reason of {one}") for one in ids]
    vectors.write(folder / FEATURES, ids, made)
    return artefact(folder)


def anonymised(folder: Path, rows: pd.DataFrame) -> Artefact:
    """As the anonymise stage writes it: a manifest with files of its own."""
    folder.mkdir(parents=True)
    made = rows.assign(path=[f"wav/{utterance}.wav" for utterance in rows["utterance"]])
    made.to_parquet(folder / manifest.FILE, index=False)
    return artefact(folder)


@pytest.fixture
def made(tmp_path: Path) -> dict[str, tuple[Selection, list[Artefact]]]:
    """Each selection with artefacts to choose from: of files that are given, and of files that tasks write."""
    whole = [features(tmp_path / "w1", "s1", "s0"), features(tmp_path / "w2", "s2", "s3")]
    pieces = [features(tmp_path / "p1", "s1#0", "s0#0", "s0#1"), features(tmp_path / "p2", "s2#0", "s3#0", "s3#1")]
    segments = [features(tmp_path / "g1", "0", "1", "2"), features(tmp_path / "g2", "0", "1")]
    written = [anonymised(tmp_path / "a1", LISTED.iloc[[3, 1]]), anonymised(tmp_path / "a2", LISTED.iloc[[4, 0, 2]])]
    return {
        "audio": (SelectAudio(LISTING, 0, ASKED), []),
        "audio of tasks": (SelectAudio(None, 2, ASKED), written),
        "vectors": (SelectVectors(LISTING, 0, ASKED), whole),
        "vectors of tasks": (SelectVectors(None, 2, ASKED), [*written, *whole]),
        "pieces": (SelectPieces(LISTING, 0, ASKED), pieces),
        "pieces of tasks": (SelectPieces(None, 2, ASKED), [*written, *pieces]),
        "segments": (SelectSegments(("a", "b")), segments),
    }


# What is chosen ------------------------------------------------------------------------------------------------------


def check(found: Value, ids: Sequence[str], speakers: str, sources: Sequence[str]) -> None:
    """The vectors that stand under these names are those of the named rows of the artefacts."""
    value: Vectors = found.value
    assert (value.ids, value.speakers) == (tuple(ids), tuple(speakers))
    assert value.vectors.tolist() == [vector(one) for one in sources] and value.vectors.dtype == np.float32
    assert value.weights.tolist() == [len(one) for one in sources]
    assert value.reasons == tuple(f"reason of {one}" for one in sources)
    assert found.digest == vectors.content(value)


@pytest.mark.parametrize("of", ["", " of tasks"])
def test_vectors_are_those_of_the_wanted_utterances_in_their_order(
    of: str, made: dict[str, tuple[Selection, list[Artefact]]]
) -> None:
    select, artefacts = made[f"vectors{of}"]
    check(select(artefacts), ["u2", "u0", "u0"], "baa", ["s2", "s0", "s0"])


@pytest.mark.parametrize("of", ["", " of tasks"])
def test_all_pieces_of_the_wanted_utterances(of: str, made: dict[str, tuple[Selection, list[Artefact]]]) -> None:
    select, artefacts = made[f"pieces{of}"]
    check(
        select(artefacts),
        ["u2#0", "u0#0", "u0#1", "u0#0", "u0#1"],
        "baaaa",
        ["s2#0", "s0#0", "s0#1", "s0#0", "s0#1"],
    )


def test_segments_of_all_speakers(made: dict[str, tuple[Selection, list[Artefact]]]) -> None:
    select, artefacts = made["segments"]
    check(select(artefacts), ["a#0", "a#1", "a#2", "b#0", "b#1"], "aaabb", ["0", "1", "2", "0", "1"])


def test_audio_is_the_rows_with_the_files_of_the_system(
    made: dict[str, tuple[Selection, list[Artefact]]], tmp_path: Path
) -> None:
    places = {"audio": ["/audio/u2.wav", "/audio/u0.wav", "/audio/u0.wav"]}
    places["audio of tasks"] = [str(tmp_path / folder / "wav" / name) for folder, name in
                                (("a1", "u2.wav"), ("a2", "u0.wav"), ("a2", "u0.wav"))]  # fmt: skip
    for name, paths in places.items():
        select, artefacts = made[name]
        found = select(artefacts)
        assert found.value["path"].tolist() == paths
        assert found.value[["set", "utterance", "speaker"]].equals(WANTED)
        assert found.digest == digest([["s2"], ["s0"], ["s0"]]), "the audio alone, not where it lies"


def test_what_is_wanted_and_not_there_is_refused(made: dict[str, tuple[Selection, list[Artefact]]]) -> None:
    more = pd.concat([WANTED, pd.DataFrame([("x", "u9", "a")], columns=WANTED.columns)], ignore_index=True)
    for name in ("audio", "vectors of tasks", "pieces"):
        select, artefacts = made[name]
        with pytest.raises(LookupError, match="u9"):
            dataclasses.replace(select, wanted=Wanted(more))(artefacts)  # type: ignore[type-var]


# In another process --------------------------------------------------------------------------------------------------


def content(found: Value) -> Any:
    if isinstance(found.value, pd.DataFrame):
        return found.digest, found.value.to_dict("list")
    value = found.value
    return found.digest, value.ids, value.speakers, value.vectors.tolist(), value.weights.tolist(), value.reasons


NAMES = ["audio", "audio of tasks", "vectors", "vectors of tasks", "pieces", "pieces of tasks", "segments"]


@pytest.mark.parametrize("name", NAMES)
def test_a_selection_pickles_and_chooses_the_same(name: str, made: dict[str, tuple[Selection, list[Artefact]]]) -> None:
    select, artefacts = made[name]
    before = select.digest(), content(select(artefacts))
    carried = pickle.loads(pickle.dumps(select))
    assert type(carried) is type(select) and carried is not select
    assert (carried.digest(), content(carried(artefacts))) == before
    again = pickle.loads(pickle.dumps(carried))
    assert (again.digest(), content(again(artefacts))) == before


@pytest.mark.parametrize("name", NAMES)
def test_a_selection_is_frozen(name: str, made: dict[str, tuple[Selection, list[Artefact]]]) -> None:
    select = made[name][0]
    for field in dataclasses.fields(select):  # type: ignore[arg-type]
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(select, field.name, None)


# Digests -------------------------------------------------------------------------------------------------------------


def changed(column: str, value: str) -> pd.DataFrame:
    """The wanted rows or the manifest with the value of the first of WANTED changed."""
    other = LISTED.copy()
    other.loc[3, column] = value
    return other


OTHERS: dict[str, list[Any]] = {
    # Other audio of a wanted utterance; files that are made instead of given.
    "listed": [Listing(changed("sha256", "other")), None],
    "manifests": [1, 2],
    "wanted": [
        Wanted(WANTED.iloc[:2]),
        Wanted(WANTED.iloc[::-1]),
        Wanted(WANTED.assign(utterance=["u2", "u0", "u0"], set=["y", "y", "x"])),
        Wanted(WANTED.assign(speaker=["a", "a", "b"])),
        Wanted(LISTED[["set", "utterance", "speaker"]]),
    ],
}


@pytest.mark.parametrize("kind", [SelectAudio, SelectVectors, SelectPieces])
def test_the_digest_changes_with_every_field(kind: type[selections.Choice]) -> None:
    assert {field.name for field in dataclasses.fields(kind)} == set(OTHERS), "a field without a case here"
    one = kind(LISTING, 0, ASKED)
    found = [one.digest()]
    for field, values in OTHERS.items():
        found += [dataclasses.replace(one, **{field: value}).digest() for value in values]
    assert len(set(found)) == len(found) == 10


def test_what_audio_is_chosen_of_given_files_is_known_without_choosing() -> None:
    for wanted in (WANTED, WANTED.iloc[:1], WANTED.iloc[::-1], LISTED[["set", "utterance", "speaker"]]):
        select = SelectAudio(LISTING, 0, Wanted(wanted))
        assert (
            select.content()
            == select([]).digest
            == digest([[SHA[key]] for key in zip(wanted["set"], wanted["utterance"])])
        )
    assert SelectAudio(None, 2, ASKED).content() == "", "tasks make the files"


def test_a_listing_that_is_like_another_finds_its_own_rows() -> None:
    other = Listing(LISTED.assign(sha256=LISTED["sha256"] + "'"), like=LISTING)
    assert LISTING.digests(ASKED) == ["s2", "s0", "s0"] and other.digests(ASKED) == ["s2'", "s0'", "s0'"]
    moved = LISTED.iloc[::-1].assign(sha256=LISTED["sha256"] + "'").reset_index(drop=True)
    fewer = LISTED.iloc[[0, 2, 3]].reset_index(drop=True)
    renamed = LISTED.assign(utterance=["u0", "u1", "u0", "u2", "u9"])
    for rows in (moved, fewer, renamed):
        found = Listing(rows, like=LISTING).matching(ASKED)
        assert found[["set", "utterance"]].equals(WANTED[["set", "utterance"]])
        assert found["sha256"].str.rstrip("'").tolist() == ["s2", "s0", "s0"]
    with pytest.raises(LookupError, match="u3"):
        Listing(renamed, like=LISTING).digests(Wanted(WANTED.assign(set="x", utterance="u3")))


def test_the_digest_of_segments_changes_with_the_speakers() -> None:
    assert [field.name for field in dataclasses.fields(SelectSegments)] == ["speakers"]
    found = {SelectSegments(names).digest() for names in (("a", "b"), ("b", "a"), ("a",), ("a", "b", "c"), ("ab",))}
    assert len(found) == 5


def test_selections_of_different_kinds_differ() -> None:
    kinds = (SelectAudio, SelectVectors, SelectPieces)
    assert len({kind(LISTING, 0, ASKED).digest() for kind in kinds}) == 3


@pytest.mark.parametrize("kind", [SelectAudio, SelectVectors, SelectPieces])
def test_neither_places_nor_what_lies_beside_the_wanted_rows_enter_the_digest(kind: type[selections.Choice]) -> None:
    one = kind(LISTING, 0, ASKED).digest()
    moved = LISTED.assign(path="/elsewhere/" + LISTED["utterance"])
    beside = LISTED.assign(sha256=["s0", "other", "s0", "s2", "another"])
    fewer = LISTED.iloc[[0, 2, 3]]
    turned = LISTED.iloc[::-1]
    for listed in (moved, beside, fewer, turned, LISTED.copy()):
        assert kind(Listing(listed), 0, Wanted(WANTED.copy())).digest() == one


def test_a_raised_version_of_the_file_changes_every_digest() -> None:
    several: list[Selection] = [kind(LISTING, 0, ASKED) for kind in (SelectAudio, SelectVectors, SelectPieces)]
    several.append(SelectSegments(("a", "b")))
    before = [one.digest() for one in several]
    with raised(selections.__name__):
        # Another process reads another version: there the values are other ones.
        after = [dataclasses.replace(one).digest() for one in several]  # type: ignore[type-var]
    assert not set(before) & set(after)


def _nothing(work: Any) -> None:
    """The function of a task that is never run."""


def test_equal_selections_of_equal_sources_make_equal_tasks() -> None:
    def task(wanted: pd.DataFrame, listed: pd.DataFrame) -> Task:
        source = Task("extract", "extract", _nothing)
        select = SelectVectors(Listing(listed), 0, Wanted(wanted))
        return Task("score", "s", _nothing, inputs={"v": Derived((source.ref(),), select)})

    assert task(WANTED, LISTED) == task(WANTED.copy(), LISTED.copy())
    assert task(WANTED, LISTED) != task(WANTED.iloc[:2], LISTED)
    assert pickle.loads(pickle.dumps(task(WANTED, LISTED))) == task(WANTED, LISTED)


# Rows of a manifest --------------------------------------------------------------------------------------------------


def test_rows_are_known_by_their_audio_and_the_named_columns_in_their_order() -> None:
    before = selections.rows(LISTED, ("set",)).digest
    assert selections.rows(LISTED.assign(path="/moved", utterance="other"), ("set",)).digest == before
    assert selections.rows(LISTED, ("set", "utterance")).digest != before
    assert selections.rows(LISTED.iloc[::-1], ("set",)).digest != before
    assert selections.rows(LISTED.assign(set="z"), ("set",)).digest != before
    assert selections.rows(LISTED.assign(sha256="s"), ("set",)).digest != before
    assert selections.rows(LISTED, ("set",)).value is LISTED


@pytest.mark.parametrize("name", ["vectors", "audio of tasks"])
def test_what_is_made_again_in_the_same_place_is_read_anew(
    made: dict[str, tuple[Selection, list[Artefact]]], name: str
) -> None:
    """A process that has read a damaged artefact, as a sweep does, reads the one that was made in its place."""
    selection, artefacts = made[name]
    before, last = selection(artefacts), artefacts[-1]
    if name == "vectors":
        other = [Feature(np.array(vector("else"), np.float32), 1.0, "")] * 2
        vectors.write(last.place / FEATURES, ("s2", "s3"), other)
    else:
        table = pd.read_parquet(last.place / manifest.FILE)
        table.assign(sha256="another").to_parquet(last.place / manifest.FILE, index=False)
    again = selection([*artefacts[:-1], dataclasses.replace(last, digest="another")])
    assert again.digest != before.digest
    if name == "vectors":
        assert again.value.vectors[0].tolist() == vector("else")
    else:
        assert "another" in set(again.value["sha256"])


def test_a_model_that_is_made_again_in_the_same_place_is_loaded_anew(tmp_path: Path) -> None:
    class Component:
        def __init__(self, settings: ComponentSettings, folder: Path) -> None:
            self.weights = (folder / "weights").read_text()

    (tmp_path / "weights").write_text("one")
    settings = ComponentSettings()
    first = loaded(Component, settings, tmp_path, content="1")
    (tmp_path / "weights").write_text("two")
    assert loaded(Component, settings, tmp_path, content="1") is first
    assert loaded(Component, settings, tmp_path, content="2").weights == "two"
