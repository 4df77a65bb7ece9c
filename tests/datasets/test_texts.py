"""Transcripts of a data set: which tables are read for which utterances, and every fault of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.datasets import importers, kaldi_tables
from pipeline.datasets.settings import DatasetSettings
from pipeline.errors import DataError
from tests.datasets.conftest import Tiny
from tests.datasets.test_training_sets import tree

Refused = Callable[..., DataError]


def spoken(tiny: Tiny) -> Tiny:
    """Each utterance says its own name."""
    for tables in tiny.tables.values():
        tables["text"] = [f"{line.split()[0]}  THIS IS {line.split()[0]} " for line in tables["wav.scp"]]
    return tiny


def transcripts(settings: DatasetSettings) -> kaldi_tables.TranscriptTables:
    return kaldi_tables.TranscriptTables(importers.read_data_set(settings).transcripts, settings.root)


def evaluated(settings: DatasetSettings, allow_partial: bool = False) -> dict[tuple[str, str], str]:
    return dict(transcripts(settings).read_evaluated(allow_partial=allow_partial))


def test_kaldi_sets_have_a_table_each(tiny: Tiny) -> None:
    spoken(tiny).save()
    found = evaluated(tiny.settings())
    assert len(found) == 10
    assert found["t_enrolls", "a-e0"] == "THIS IS a-e0" and found["t_trials_f", "c-t1"] == "THIS IS c-t1"


@pytest.mark.parametrize("lists", [True, False])
def test_a_set_that_is_cut_into_sets_keeps_its_table(tiny: Tiny, lists: bool) -> None:
    joined = tiny.basic([f"{speaker}-{number}" for speaker in "abc" for number in range(4)])
    if lists:
        joined |= {"enrolls": ["a-0", "b-0"], "trials": ["a a-1 target", "a b-1 nontarget", "b c-1 nontarget"]}
    tiny.tables = {"set": joined}
    spoken(tiny).save()
    found = evaluated(tiny.settings())
    assert all(said == f"THIS IS {utterance}" for (_, utterance), said in found.items())
    assert len({name for name, _ in found}) == 2 and len(found) == (5 if lists else 12)


def test_librispeech_trees_have_a_table_a_chapter(tmp_path: Path) -> None:
    names = [f"{speaker}-{number}" for speaker in "ab" for number in range(4)]
    root = tree(tmp_path / "test-x", names)
    for folder in {path.parent for path in root.glob("*/*/*.*")}:
        lines = [f"{path.stem} THIS IS {path.stem}\n" for path in sorted(folder.iterdir())]
        (folder / f"{folder.parent.name}-{folder.name}.trans.txt").write_text("".join(lines))
    found = evaluated(DatasetSettings(name="librispeech", root=str(root)))
    assert {utterance: said for (_, utterance), said in found.items()} == {name: f"THIS IS {name}" for name in names}


def test_training_sets_need_none(tiny: Tiny, tmp_path: Path) -> None:
    spoken(tiny).save()
    found = evaluated(tiny.settings(train=str(tree(tmp_path / "other" / "train", ["d-0", "d-1"]))))
    assert {name for name, _ in found} == {"t_enrolls", "t_trials_f"}


def test_nothing_is_read_before_somebody_asks(tiny: Tiny) -> None:
    tiny.tables["t_enrolls"]["text"] = ["a-e0 \0 no text"]
    assert len(transcripts(tiny.save().settings()).files) == 10


def test_all_utterances_without_a_transcript_are_named_at_once(tiny: Tiny, refused: Refused) -> None:
    del spoken(tiny).tables["t_enrolls"]["text"][0]
    del tiny.tables["t_trials_f"]["text"][2:4]
    said = transcripts(tiny.save().settings())
    error = refused(said.read_evaluated, allow_partial=False)
    assert {(fault.kind, fault.where) for fault in error.faults} == {
        ("missing-text", str(tiny.root / "t_enrolls" / "text")), ("missing-text", str(tiny.root / "t_trials_f" / "text")),
    }  # fmt: skip
    named = {fault.what.split("'")[1] for fault in error.faults}
    assert named == {"a-e0", "b-t0", "b-t1"} and "leave text out of extractor" in error.remedy
    assert len(said.read_evaluated(allow_partial=True)) == 7


def test_a_set_without_a_table_beside_one_with_a_table(tiny: Tiny, refused: Refused) -> None:
    del spoken(tiny).tables["t_trials_f"]["text"]
    said = transcripts(tiny.save().settings())
    (fault,) = refused(said.read_evaluated, allow_partial=False).faults
    assert (
        fault.where == str(tiny.root / "t_trials_f" / "text")
        and "6 utterances: a-t0, a-t1, b-t0 and 3 more" in fault.what
    )
    assert len(said.read_evaluated(allow_partial=True)) == 4


@pytest.mark.parametrize("allow_partial", [False, True])
@pytest.mark.parametrize("table", [None, [], ["somebody-else HELLO"]])
def test_a_data_set_without_transcripts_is_refused(
    tiny: Tiny, refused: Refused, table: list[str] | None, allow_partial: bool
) -> None:
    if table is not None:
        for tables in tiny.tables.values():
            tables["text"] = table
    error = refused(transcripts(tiny.save().settings()).read_evaluated, allow_partial=allow_partial)
    assert "no-text" in {fault.kind for fault in error.faults} and "UTTERANCE WORD WORD" in error.remedy


@pytest.mark.parametrize(
    ("line", "kind"), [("a-t0 TWICE", "duplicate-id"), ("a-t1 A\0B", "malformed"), ("a-e0 OTHER WORDS", "disagrees")]
)
def test_a_damaged_table_is_refused(tiny: Tiny, refused: Refused, line: str, kind: str) -> None:
    spoken(tiny)
    if kind == "disagrees":
        # The same recording stands in the trial set too.
        for table in ("wav.scp", "utt2spk", "utt2dur"):
            tiny.tables["t_trials_f"][table].append(tiny.tables["t_enrolls"][table][0])
    tiny.tables["t_trials_f"]["text"].append(line)
    error = refused(transcripts(tiny.save().settings()).read_evaluated, allow_partial=True)
    assert [fault.kind for fault in error.faults] == [kind]


def test_words_may_differ_in_case(tiny: Tiny) -> None:
    spoken(tiny)
    for table in ("wav.scp", "utt2spk", "utt2dur"):
        tiny.tables["t_trials_f"][table].append(tiny.tables["t_enrolls"][table][0])
    tiny.tables["t_trials_f"]["text"].append("a-e0 this is A-E0")
    assert len(evaluated(tiny.save().settings())) == 11
