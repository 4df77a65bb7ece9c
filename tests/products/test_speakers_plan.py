"""What is planned of speakers: each attack on a system and subset in one task, F0 where it is extracted, matrices of who adapts."""

from __future__ import annotations

from pipeline.engine.task import Ref
from pipeline.products.speakers.collect import Pitch, SpeakersAttacked
from pipeline.stages.graph import Measurement
from tests.evaluation.test_assemble import ALL, planned


def test_all_attacks_on_a_system_and_subset_stand_in_one_task() -> None:
    made = planned(*ALL)
    tried = {}
    for source in made.select(Measurement):
        if source.reads == "trials":
            about = (source.identity["system"], source.identity["subset"])
            tried.setdefault(about, {})[source.ref.task.inputs["scores"].task] = dict(source.identity)
    assert {(one.system, one.subset) for one in made.select(SpeakersAttacked)} == set(tried)
    for one in made.select(SpeakersAttacked):
        scored = [value.task for value in one.ref.task.inputs.values() if isinstance(value, Ref)]
        expected = tried[one.system, one.subset]
        assert set(scored) == set(expected) and len(scored) == len(one.attacks)
        assert [expected[task] for task in scored] == [dict(attack) for attack in one.attacks]


def test_f0_is_told_where_it_is_extracted_and_extracts_nothing_more() -> None:
    asked = (
        "system=[original,b2]",
        "extractor=[ge2e,f0]",
        "attacker=[ignorant]",
        "metric=[asv,srd]",
        "diagnostics=false",
    )
    made = planned(*asked)
    assert {pitch.system for pitch in made.select(Pitch)} == {"original", "b2"}
    assert not planned(*asked, "extractor=[ge2e]").select(Pitch)
    before = {task.id for task in planned(*asked, "metric=[srd]").tasks if task.name == "extract"}
    assert {task.id for task in made.tasks if task.name == "extract"} == before


def test_who_adapts_to_a_system_has_matrices_of_protected_speech_alone() -> None:
    made = planned(*ALL)
    pairs = [source for source in made.select(Measurement) if source.reads == "pairs"]
    attacked = {
        (
            source.identity["system"],
            source.identity["extractor"],
            source.identity["trained_on"],
            source.identity["backend"],
        )
        for source in made.select(Measurement)
        if source.reads == "trials"
        and source.identity["attacker"] == "semi_informed"
        and "fused" not in source.identity["backend"]
    }
    adapted = [source for source in pairs if source.identity["attacker"]]
    assert attacked and attacked == {
        (one.identity["system"], one.identity["extractor"], one.identity["trained_on"], one.identity["backend"])
        for one in adapted
    }
    assert all(set(one.ref.task.inputs) == {"pp"} and one.identity["condition"] == "PP" for one in adapted)
    assert all(set(one.ref.task.inputs) == {"oo", "op", "pp"} for one in pairs if not one.identity["attacker"])
