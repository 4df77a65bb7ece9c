"""Attributes of speakers and utterances: which tables are read for whom, and what is lacking."""

from __future__ import annotations

import pytest

from pipeline.datasets import importers
from pipeline.datasets.settings import DatasetSettings
from pipeline.errors import DataError
from tests.datasets.conftest import Tiny

ACCENTS = ["a scots", "b irish", "c welsh"]


def named(tiny: Tiny, *names: str) -> DatasetSettings:
    return tiny.settings().model_copy(update={"attributes": list(names)})


def test_speakers_and_utterances_have_tables_and_sets_share_those_of_speakers(tiny: Tiny) -> None:
    tiny.tables["t_enrolls"]["spk2accent"] = ACCENTS
    for tables in tiny.tables.values():
        tables["utt2mood"] = [f"{line.split()[0]} {line.split()[0][-1]}" for line in tables["wav.scp"]]
    tiny.save()
    found = importers.read_data_set(named(tiny, "accent", "mood"))
    there = set(zip(found.manifest["set"], found.manifest["utterance"]))
    accents = dict(line.split() for line in ACCENTS)
    assert found.attributes["accent"] == {key: accents[key[1][0]] for key in there}
    assert found.attributes["mood"] == {key: key[1][-1] for key in there}
    assert not importers.read_data_set(tiny.settings()).attributes


@pytest.mark.parametrize("lists", [True, False])
def test_a_set_that_is_cut_into_sets_keeps_its_table(tiny: Tiny, lists: bool) -> None:
    joined = tiny.basic([f"{speaker}-{number}" for speaker in "abc" for number in range(4)])
    if lists:
        joined |= {"enrolls": ["a-0", "b-0"], "trials": ["a a-1 target", "a b-1 nontarget", "b c-1 nontarget"]}
    tiny.tables = {"set": joined | {"spk2accent": ACCENTS}}
    tiny.save()
    found = importers.read_data_set(named(tiny, "accent")).attributes["accent"]
    assert len({of for of, _ in found}) == 2 and found[next(key for key in found if key[1] == "b-1")] == "irish"


def test_what_lacks_a_value_is_named_once_for_all(tiny: Tiny) -> None:
    tiny.tables["t_enrolls"]["spk2accent"] = ACCENTS[:1]
    tiny.tables["t_trials_f"]["utt2mood"] = ["c-t1 low", "c-t1 high"]
    tiny.save()
    with pytest.raises(DataError) as caught:
        importers.read_data_set(named(tiny, "accent", "mood", "age"))
    said = [f"{fault.what} {fault.where}" for fault in caught.value.faults]
    assert any("speaker 'b' has no line in spk2accent" in one and "t_enrolls" in one for one in said)
    assert any("'c-t1' has a second line with another value" in one for one in said)
    assert any("no set has a table spk2age or utt2age" in one for one in said)
    assert "dataset.attributes=[]" in caught.value.remedy
    assert importers.read_data_set(named(tiny)).trials


def test_names_that_are_no_attributes_are_refused() -> None:
    for names, said in ((["sex"], "known without"), (["a", "a"], "once"), (["../x"], "names a table")):
        with pytest.raises(ValueError, match=said):
            DatasetSettings(name="kaldi", attributes=names)
    with pytest.raises(ValueError, match="dataset=kaldi"):
        DatasetSettings(name="folders", attributes=["accent"])
