"""The shape of an evaluation: which attackers see which extractor, what is trained on what, and what is planned twice."""

from __future__ import annotations

import functools
import pickle
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pandas as pd
import pytest

from pipeline.cli.compose import compose
from pipeline.datasets.prepare import TrainingGaps
from pipeline.engine.task import Derived, Task, planned_digest
from pipeline.errors import ConfigError, DataError
from pipeline.evaluation.assemble import assemble_graph
from pipeline.products.checks.collect import AttackCheck, EarlyFinding
from pipeline.products.strongest.collect import Candidate, StrongestAttack, SystemPair
from pipeline.stages.graph import Graph, Measurement, SpeechKey
from pipeline.stages.selections import SelectVectors
from pipeline.stages.settings import Machine
from pipeline.tables.results import make_signature
from tests import key_table


@pytest.fixture(autouse=True)
def weights() -> Iterator[None]:
    with key_table.made_up_weights():
        yield


def planned(*arguments: str, recordings: int = 3, untrained: tuple[str, ...] = (), lacking: int = 0) -> Graph:
    """The graph of a made-up data set of kind kaldi with so many training recordings a speaker.

    ``untrained`` are those that it has lost, ``lacking`` is the number of those that the training copy of system t8 has not.
    """
    given = [
        "recipe=kaldi",
        "train=default",
        "dataset.root=/data",
        "dataset.train=/train",
        "paths.root=/exp",
        *arguments,
    ]
    data = key_table.prepared()
    if recordings < 3:
        rows = data.manifest
        kept = (rows["role"] != "train") | rows["utterance"].str[-1].astype(int).lt(recordings)
        object.__setattr__(data, "manifest", rows[kept].reset_index(drop=True))
    object.__setattr__(data, "training_gaps", TrainingGaps(untrained=untrained))
    theirs = SpeechKey("t8", "training")
    copies = {**data.external, theirs: data.external[theirs].iloc[lacking:].reset_index(drop=True)}
    object.__setattr__(data, "external", copies)
    return assemble_graph(compose(given)[0], data, Machine("cpu", 1))


@functools.cache
def everything() -> Graph:
    """The graph of ``ALL``, which no test changes."""
    return planned(*ALL)


def cells(made: Graph, metric: str) -> Counter[tuple[str, ...]]:
    """(system, attacker, extractor, trained on, back end) of the rows of a metric, with the number of trial sets."""
    names = ("system", "attacker", "extractor", "trained_on", "backend")
    return Counter(
        tuple(source.identity[name] for name in names)
        for source in made.select(Measurement)
        if source.ref.task.label.startswith(f"measure {metric} ")
    )


ALL = (
    "system=[original,b2,b2r]", "attacker=[ignorant,lazy_informed,semi_informed]", "extractor=[ge2e,ecapa,f0]",
    "backend=[cosine,plda]",
)  # fmt: skip


def test_every_combination_that_makes_sense_and_no_other() -> None:
    made = everything()
    expected = {("original", "unprotected", extractor, "original", backend)
                for extractor in ("ge2e", "ecapa") for backend in ("cosine", "plda")}  # fmt: skip
    for system, level in (("b2", "fixed"), ("b2r", "utterance")):
        for backend in ("cosine", "plda"):
            expected |= {(system, attacker, extractor, "original", backend)
                         for attacker in ("ignorant", "lazy_informed") for extractor in ("ge2e", "ecapa")}  # fmt: skip
            expected.add((system, "semi_informed", "ecapa", f"anonymised ({level})", backend))
        # The back end that is trained is adapted to extractors that are not, too.
        expected |= {(system, "semi_informed", extractor, f"original; back end anonymised ({level})", "plda")
                     for extractor in ("ge2e", "ecapa")}  # fmt: skip
    found = cells(made, "asv")
    assert set(found) == expected
    alone = {cell for cell in expected if cell[:2] == ("b2", "semi_informed")}
    twice = {cell for cell, count in found.items() if count == 4}
    assert twice == alone, "b2 has one draw of the enrolment: with the original enrolment it is a further attack"
    assert {found[cell] for cell in expected - alone} == {2}, "both sexes"
    runs = {cell for cell in expected if cell[0] == "b2r"}
    assert set(cells(made, "cece")) == runs, "two runs of the random system alone"
    assert set(cells(made, "p0p1")) == {("b2r", "", extractor, "original", backend)
                                        for extractor in ("ge2e", "ecapa") for backend in ("cosine", "plda")}  # fmt: skip
    ranked = {(cell[0], cell[2], cell[3]) for cell in cells(made, "srd")}
    assert ranked == {
        *((system, extractor, "original") for system in ("original", "b2", "b2r") for extractor in ("ge2e", "ecapa", "f0")),
        ("b2", "ecapa", "anonymised (fixed)"), ("b2r", "ecapa", "anonymised (utterance)"),
    }  # fmt: skip
    assert not made.notes
    assert "left out on b2 for ge2e" in "".join(planned(*ALL, "backend=[cosine]").notes)


def test_sources_come_first_and_nothing_is_planned_twice() -> None:
    made = everything()
    seen = set()
    for task in made.tasks:
        assert all(ref.task in seen for ref in task.sources()), task.label
        seen.add(task)
    assert len(seen) == len(made.tasks)
    keys = [key for task in made.tasks for key in task.planned.values()]
    assert len(set(keys)) == len(keys)
    identities = [(*sorted(source.identity.items()), source.ref.task.label) for source in made.select(Measurement)]
    assert len(set(identities)) == len(identities)


def test_three_trainings_each_on_its_own_copy_of_the_training_set() -> None:
    made = everything()
    trained = [task for task in made.tasks if task.name == "train"]
    assert [task.label for task in trained] == [
        "train ecapa on original, training set",
        "train ecapa on b2, training set (fixed)",
        "train ecapa on b2r, training set (utterance)",
    ]
    assert len({task.settings["architecture"] for task in trained}) == 1
    fitted = {task.label for task in made.tasks if task.name == "fit"}
    original, b2, b2r = (f"{name}, training set" for name in ("original", "b2", "b2r"))
    assert fitted == {
        *(f"fit plda for {extractor} on {original}" for extractor in ("ge2e", "ecapa")),
        *(f"fit plda for {extractor} on {b2} (fixed)" for extractor in ("ge2e", "ecapa", f"ecapa, {b2} (fixed)")),
        *(
            f"fit plda for {extractor} on {b2r} (utterance)"
            for extractor in ("ge2e", "ecapa", f"ecapa, {b2r} (utterance)")
        ),
    }


def test_the_level_of_the_training_set_is_a_setting_and_a_weak_mixture_is_said() -> None:
    given = ("system=[b2r]", "extractor=[ecapa]", "attacker=[semi_informed]")
    made = planned(*given)
    anonymised = {task.label: task.settings["level"] for task in made.tasks if task.name == "anonymise"}
    assert {level for label, level in anonymised.items() if "training set" in label} == {"utterance"}
    assert {level for label, level in anonymised.items() if label.startswith("anonymise b2r 1/")} == {"speaker"}
    assert {
        source.identity["trained_on"]
        for source in made.select(Measurement)
        if source.identity["attacker"] == "semi_informed"
    } == {"anonymised (utterance)"}
    assert not any("warning" in note for note in made.notes)
    weaker = planned(*given, "attacker.semi_informed.training_level=speaker", "system.b2r.level=utterance")
    assert any("speaker level, and b2r is evaluated at utterance level" in note for note in weaker.notes)


def test_one_recording_a_speaker_is_cut_before_it_is_anonymised_or_else_after_and_marked() -> None:
    whole, cut = everything(), planned(*ALL, recordings=1)
    assert not [task for task in whole.tasks if task.settings.get("cut") == "pieces"]
    pieces = [task for task in cut.tasks if task.settings.get("cut") == "pieces"]
    assert {task.name for task in pieces} == {"extract", "cut"}
    assert {task.settings["seconds"] for task in pieces} == {3.0}
    # Original speech is cut as it is read, once for all extractors that a back end compares; what is anonymised was cut before.
    read = {
        task.label.rpartition(" ")[0]: {key.name for key in task.outputs} for task in pieces if task.name == "extract"
    }
    assert read == {"extract original, training set": {"ge2e", "ecapa"}}
    notes = {(source.identity["trained_on"], source.identity["backend"], source.note)
             for source in cut.select(Measurement) if source.identity["attacker"]}  # fmt: skip
    assert {(backend, note) for known, backend, note in notes if known == "original"} == {
        ("cosine", ""), ("plda", "within-session PLDA, weak attacker")
    }  # fmt: skip
    assert {note for known, _, note in notes if known != "original"} == {""}
    assert {source.note for source in whole.select(Measurement)} == {""}


def test_pieces_are_anonymised_under_several_draws_and_a_fixed_system_under_one() -> None:
    made = planned(*ALL, recordings=1)
    drawn = {(task.label.split(",")[0], task.settings["seed"]) for task in made.tasks
             if task.name == "anonymise" and "training set" in task.label}  # fmt: skip
    assert drawn == {("anonymise b2", 0), *(("anonymise b2r", seed) for seed in (0, 1, 2))}
    known = {
        source.identity["trained_on"] for source in made.select(Measurement) if source.identity["extractor"] == "ecapa"
    }
    assert "anonymised (utterance pieces, 3 draws)" in known
    assert "anonymised (fixed pieces)" in known
    draws = ("attacker.semi_informed.training_draws=1", "attacker.semi_informed.enrolment_draws=1")
    once = planned(*ALL, *draws, recordings=1)
    assert not any("draw" in task.label for task in once.tasks)


def test_a_share_of_the_training_set_keeps_every_speaker() -> None:
    given = (
        *ALL,
        "train=finetune",
        "train.share=0.4",
        "extractor=[ge2e]",
        "backend=[wccn]",
        "backend.wccn.as_norm=null",
    )
    whole, part = planned(*given, "train.share=1"), planned(*given)

    def heard(made: Graph) -> set[str]:
        given = (task.inputs["audio"] for task in made.tasks if task.label.startswith("extract original, training set"))
        return {name for one in given for name in one.value["utterance"]}  # type: ignore[union-attr]

    speakers = {name.split("-")[0] for name in heard(whole)}
    assert heard(part) < heard(whole)
    assert {name.split("-")[0] for name in heard(part)} == speakers
    assert len(heard(part)) == 2 * len(speakers), "two recordings say how a speaker varies"


TUNED = ("train=finetune", "system=[original,b2,b2r]", "extractor=[campplus,ge2e]", "backend=[cosine,plda]",
         "attacker=[lazy_informed,semi_informed]", "metric=[asv]")  # fmt: skip


def test_each_adapted_attack_is_tried_on_held_out_speakers() -> None:
    made = planned(*TUNED, recordings=1)
    attacks = {(one.identity["system"], one.identity["extractor"], one.identity["trained_on"], one.identity["backend"])
               for one in made.select(Candidate)}  # fmt: skip
    semi = {cell[:1] + cell[2:] for cell in cells(made, "asv") if cell[1] == "semi_informed"}
    assert attacks == semi
    assert len(semi) == 2 * (2 + 1 + 1), "fine-tuned by each back end, and as they come with the one that is trained"


def test_an_extractor_that_learns_from_all_training_speakers_is_not_judged_on_them() -> None:
    made = planned(*ALL, recordings=1)
    assert {one.identity["extractor"] for one in made.select(Candidate)} == {"ge2e"}
    assert not [
        task.label for task in made.tasks if task.name == "check" and "ecapa" in task.label and "held-out" in task.label
    ]


def test_speech_of_another_system_that_helps_is_part_of_what_is_trained_and_of_signatures() -> None:
    alone, helped = planned(*TUNED), planned(*TUNED, "train.also=[b2r]")
    labels = {task.label for task in helped.tasks if task.name == "train"}
    assert labels == {
        "train campplus on b2, training set (fixed) with b2r",
        "train campplus on b2r, training set (utterance)",
    }
    packed = {task.label: task for task in helped.tasks if task.name == "pack"}
    (with_b2r,) = [task for label, task in packed.items() if "with b2r" in label]
    assert set(with_b2r.inputs) == {"audio.0", "also.0", "sexes"}
    other = planned(*TUNED, "train.also=[b2r]", "system.b2r.alpha_range=[0.6,0.9]")
    asked = signatures(helped, "semi_informed")["b2"]
    assert asked != signatures(alone, "semi_informed")["b2"]
    assert asked != signatures(other, "semi_informed")["b2"]
    with pytest.raises(ConfigError, match="t9 is to help training"):
        planned(*TUNED, "train.also=[t9]")


def test_two_attackers_train_on_their_own_copies() -> None:
    made = planned(
        *TUNED, "+attacker.other={enrolment: anonymised, trial: anonymised, training: anonymised, training_level: speaker}",
        "train.also=[b2]", recordings=1,
    )  # fmt: skip
    trained = [task for task in made.tasks if task.name == "train" and " on b2r" in task.label]
    assert len({task.id for task in trained}) == 2
    known = {(one.identity["attacker"], one.identity["trained_on"]) for one in made.select(Measurement)
             if one.identity["system"] == "b2r" and one.identity["trained_on"].startswith("anonymised")}  # fmt: skip
    assert known == {
        ("semi_informed", "anonymised (utterance pieces, 3 draws)"),
        ("other", "anonymised (speaker pieces, 3 draws)"),
    }


def test_scores_are_joined_or_it_is_said_why_not() -> None:
    made = planned(*TUNED, "fusion=[equal,logistic]", recordings=1)
    fused = {source.identity["backend"] for source in made.select(Measurement) if "fused" in source.identity["backend"]}
    assert fused == {f"{backend}, fused ({kind})" for backend in ("cosine", "plda") for kind in ("equal", "logistic")}
    without = planned(*TUNED, "fusion=[equal]", "extractor=[ge2e]", "backend=[cosine]", "attacker=[lazy_informed]")
    assert any("fusion is left out" in note for note in without.notes)


def test_ranks_alone_need_no_back_end() -> None:
    made = planned(*TUNED, "metric=[srd]", "attacker=[semi_informed]")
    assert not [task.label for task in made.tasks if task.name in ("fit", "score") and "plda" in task.label]
    assert [task for task in made.tasks if task.name == "train"], "the features that know anonymised speech"


def test_what_is_trained_is_decided_by_what_there_is_to_train_on() -> None:
    made = planned("extractor=[ecapa]", "train=none")
    assert not [task for task in made.tasks if task.name in ("train", "pack")], "without a trainer, the hub's weights"
    made = planned("extractor=[ecapa]", "dataset.train=")
    assert not [task for task in made.tasks if task.name in ("train", "pack")], "without speech to train on, too"
    made = planned("extractor=[ecapa]")
    assert [task for task in made.tasks if task.name == "train"]


def test_what_cannot_be_is_refused_with_the_setting_that_mends_it() -> None:
    with pytest.raises(ConfigError, match="nothing that is chosen can be adapted") as error:
        planned("extractor=[ge2e]", "attacker=[semi_informed]")
    assert "backend=" in error.value.remedy
    with pytest.raises(ConfigError) as error:
        planned("extractor=[ecapa]", "attacker=[semi_informed]", "train=none")
    assert any("train=default" in fault.what for fault in error.value.faults)
    nobody = key_table.prepared()
    object.__setattr__(nobody, "manifest", nobody.manifest[nobody.manifest["role"] != "train"].reset_index(drop=True))
    given = ["recipe=kaldi", "dataset.root=/data", "backend=[plda]", "extractor=[ge2e]", "paths.root=/exp"]
    with pytest.raises(DataError, match="there is no training set") as no_speech:
        assemble_graph(compose(given)[0], nobody, Machine("cpu", 1))
    assert "dataset.train=DIR" in no_speech.value.remedy


def test_diagnostics_can_be_left_out_and_then_cost_nothing() -> None:
    made, without = everything(), planned(*ALL, "diagnostics=false")
    assert len(made.select(AttackCheck)) == sum(cells(made, "asv").values()) - 2 * 4, "one an attack on a system"
    assert not without.select(AttackCheck)
    checks = [task.label for task in without.tasks if task.name == "check"]
    assert all("held-out speakers of b2" in label or "recordings of b2" in label for label in checks), (
        "what chooses between adapted attacks, and whether a system gives one recording for several: that is said of any result"
    )
    assert len(without.tasks) < len(made.tasks)


def test_the_second_run_differs_in_its_seed_alone() -> None:
    made = planned("system=[b2r]", "extractor=[ge2e]")
    settings = {task.label: dict(task.settings) for task in made.tasks if task.name == "anonymise"}
    first, second = settings["anonymise b2r 1/3"], settings["anonymise b2r, second run 1/3"]
    assert first.pop("seed") + 1 == second.pop("seed")
    assert first == second


EER = {"metric": "eer", "variant": "rocch", "estimator": "", "input_unit": ""}


def signatures(made: Graph, attacker: str) -> dict[str, set[str]]:
    """Signatures of a metric's rows by system."""
    found: dict[str, set[str]] = {}
    for source in made.select(Measurement):
        if source.identity["attacker"] == attacker and source.ref.task.label.startswith("measure asv "):
            made_of = make_signature({**EER, **source.identity}, source.parameters)
            found.setdefault(source.identity["system"], set()).add(made_of)
    return found


def test_semi_informed_numbers_of_two_systems_are_comparable_and_other_attackers_or_levels_are_not() -> None:
    given = ("system=[b2,b2r]", "extractor=[ecapa]", "attacker=[lazy_informed,semi_informed]")
    same = planned(*given)
    semi = signatures(same, "semi_informed")
    assert {one for one in semi["b2"] if "|OPP|" not in one} == semi["b2r"]
    assert not semi["b2r"] & signatures(same, "lazy_informed")["b2r"]
    for setting in ("training_level=speaker", "enrolment_level=same", "enrolment_draws=2"):
        other = signatures(planned(*given, f"attacker.semi_informed.{setting}"), "semi_informed")
        assert not other["b2r"] & semi["b2r"]


def test_signatures_say_where_the_training_data_of_weights_is_not_stated() -> None:
    made = planned("system=[b2]", "extractor=[campplus,ge2e]", "attacker=[ignorant]", "backend=[cosine]", "train=none")
    said = {
        source.identity["extractor"]: "|training data:not stated|"
        in make_signature({**EER, **source.identity}, source.parameters)
        for source in made.select(Measurement)
    }
    assert said == {"campplus": True, "ge2e": False}


def test_a_second_run_is_made_only_where_something_is_compared_between_two() -> None:
    made = planned("system=[b2r]", "extractor=[f0]")
    assert not [task.label for task in made.tasks if "second run" in task.label]
    made = planned("system=[b2r]", "extractor=[ge2e]", "metric=[asv,srd]")
    assert not [task.label for task in made.tasks if "second run" in task.label]


def enrolled(made: Graph, **identity: str) -> set[tuple[str, tuple[str, ...]]]:
    """Condition of each attack on the first trial set, and the draws of which its enrolment is made."""
    found = set()
    for source in made.select(Measurement):
        if source.ref.task.label.startswith("measure asv x_trials_f") and identity.items() <= source.identity.items():
            scores = source.ref.task.inputs["scores"]
            label = scores.task.label.removeprefix("score x_trials_f ").partition(" against ")[0]
            assert sum(name.startswith("enrolment") for name in scores.task.inputs) == len(label.split(" and "))
            found.add((source.identity["condition"], tuple(label.split(" and "))))
    return found


SEMI = ("extractor=[campplus]", "attacker=[lazy_informed,semi_informed]", "backend=[cosine,wccn]", "train=none")


def test_the_semi_informed_attacker_anonymises_the_enrolment_under_three_draws_at_utterance_level() -> None:
    made = planned("system=[original,b2r]", *SEMI)
    drawn = ("b2r, enrolment at utterance level", *(f"b2r, enrolment at utterance level, draw {n}" for n in (2, 3)))
    assert enrolled(made, attacker="semi_informed") == {("PP", drawn)}
    assert enrolled(made, attacker="lazy_informed") == {("PP", ("b2r",))}
    part = [task for task in made.tasks if task.label.startswith("anonymise b2r, enrolment at utterance")]
    assert {task.settings["seed"] for task in part} == {0, 1, 2}
    same = planned("system=[original,b2r]", *SEMI, "attacker.semi_informed.enrolment_level=same")
    assert enrolled(same, attacker="semi_informed") == {
        ("PP", ("b2r", *(f"b2r, enrolment at speaker level, draw {n}" for n in (2, 3))))
    }


@pytest.mark.parametrize(
    "system", ["system=[original,b2]", "+system.t8={name: external, root: /theirs, level: speaker}"]
)
def test_what_has_one_draw_is_enrolled_together_with_original_speech_in_a_further_attack(system: str) -> None:
    made = planned("system=[original]", system, *SEMI)
    label = "b2" if "b2" in system else "t8"
    assert enrolled(made, attacker="semi_informed") == {("PP", (label,)), ("OPP", ("original", label))}
    once = planned("system=[original]", system, *SEMI, "attacker.semi_informed.enrolment_draws=1")
    assert enrolled(once, attacker="semi_informed") == {("PP", (label,))}


def test_both_centres_are_tried_with_one_training_of_the_back_end() -> None:
    made = planned("system=[original,b2r]", *SEMI)
    tried = {
        source.identity["backend"]
        for source in made.select(Measurement)
        if source.identity["attacker"] == "unprotected"
    }
    assert tried == {"cosine", "wccn", "wccn, enrolment centre"}
    fits = [task.label for task in made.tasks if task.name == "fit"]
    assert len(fits) == 2 and all(label.startswith("fit wccn for campplus on ") for label in fits)
    of_pairs = {source.identity["backend"] for source in made.select(Measurement) if source.reads == "pairs"}
    assert of_pairs == {"cosine", "wccn"}, "pairs have no enrolment"
    for centre in ("training", "enrolment"):
        alone = planned("system=[original,b2r]", *SEMI, f"backend.wccn.centre={centre}")
        assert {source.identity["backend"] for source in alone.select(Measurement) if source.reads == "trials"} == {
            "cosine",
            "wccn",
        }


def test_attacks_that_leave_the_enrolment_or_its_centre_untried_are_doubted() -> None:
    def said(*arguments: str) -> dict[str, str]:
        early = planned("system=[original,b2r]", "extractor=[campplus]", "train=none", *arguments).select(EarlyFinding)
        return {entry.finding.check: entry.finding.sentence for entry in early if entry.finding.flagged}

    weak = said("attacker=[ignorant,lazy_informed]", "backend=[cosine]")
    assert "attacker.NAME.enrolment_draws=3" in weak["enrolled_once"] and "backend=[…]" in weak["other_centre"]
    assert "wccn" in weak["other_centre"]
    strong = said("attacker=[lazy_informed,semi_informed]", "backend=[cosine,wccn]")
    assert not {"enrolled_once", "other_centre"} & set(strong)
    blind = said("attacker=[ignorant]", "backend=[cosine]")
    assert not {"enrolled_once", "other_centre"} & set(blind), "nobody enrols protected speech: that is said elsewhere"


def test_a_level_that_an_external_system_cannot_have_is_said() -> None:
    given = ("system=[original]", "+system.t8={name: external, root: /theirs, level: speaker}", "extractor=[ecapa]",
             "attacker=[semi_informed]")  # fmt: skip
    made = planned(*given, "attacker.semi_informed.training_level=utterance")
    assert any("t8's training set at utterance level" in note and "train_root" in note for note in made.notes)
    assert {
        one.identity["trained_on"] for one in made.select(Measurement) if one.identity["attacker"] == "semi_informed"
    } == {"anonymised (speaker)"}
    assert not any("warning" in note for note in planned(*given).notes)


PARTS = (
    "system=[original,b2]", "+system.t8={name: external, root: /theirs}", "extractor=[ecapa,ge2e,campplus]", "backend=[cosine,plda]",
    "attacker=[ignorant,semi_informed]", "metric=[asv]", "fusion=[equal]",
)  # fmt: skip


def marked(made: Graph) -> dict[tuple[str, ...], str]:
    """The notes of what does not stand on everything, by system, extractor, what it was trained on, and back end."""
    names = ("system", "extractor", "trained_on", "backend")
    return {tuple(one.identity[name] for name in names): one.note for one in made.select(Measurement) if one.partial}


def test_what_learnt_from_less_is_marked_in_all_that_stands_on_it_and_nothing_else() -> None:
    assert not marked(planned(*PARTS))
    made = planned(*PARTS, untrained=("x", "y"))
    found = marked(made)
    assert all("2 training utterances were left out" in note and note.endswith("x, y") for note in found.values())
    # ge2e comes with its weights, and the cosine learns nothing; all else learns in the run, or is joined as that says.
    whole = {
        (one.identity["extractor"], one.identity["backend"]) for one in made.select(Measurement) if not one.partial
    }
    assert whole == {("ge2e", "cosine"), ("campplus", "cosine")}
    assert {("original", "ge2e", "original", "plda"), ("original", "ecapa", "original", "cosine")} <= set(found)
    assert any("fused" in backend for *_, backend in found)


def test_a_training_copy_that_lacks_recordings_marks_the_rows_of_its_system_alone() -> None:
    found = marked(planned(*PARTS, lacking=2))
    assert {system for system, *_ in found} == {"t8"} and all("anonymised" in known for _, _, known, _ in found)
    assert all("2 training utterances were left out" in note for note in found.values())
    assert {("ecapa", "cosine"), ("ecapa", "plda"), ("ge2e", "plda")} <= {(one, by) for _, one, _, by in found}


def test_two_runs_are_compared_with_each_other_alone() -> None:
    made = planned("system=[b2r]", "extractor=[ge2e]")
    inputs = {source.ref.task.label.split()[1]: set(source.ref.task.inputs) for source in made.select(Measurement)}
    assert inputs["p0p1"] == {"pp", "p0p1"}
    assert inputs["vsm"] == {"oo", "op", "pp"}
    assert inputs["cece"] == {"scores", "scores_again"}


def test_pairs_of_the_original_speech_are_scored_once_for_all_systems() -> None:
    """And those of a protected set once for all families that read them."""
    made = planned("system=[b2,b2r]", "extractor=[ge2e]")
    labels = Counter(task.label for task in made.tasks if task.label.startswith("score all pairs of "))
    assert set(labels.values()) == {1}
    expected = {("original", "original"), ("b2r", "b2r, second run")}
    expected |= {pair for system in ("b2", "b2r") for pair in (("original", system), (system, system))}
    assert set(labels) == {
        f"score all pairs of {subset} {rows} against {columns} ge2e cosine"
        for subset in ("x_trials_f", "x_trials_m")
        for rows, columns in expected
    }


def test_original_speech_is_compared_with_itself_once_for_all_systems() -> None:
    """OO is one artefact a set, extractor and back end, whatever the number of systems; OP and PP are one a system."""
    scored = [task for task in everything().tasks if task.label.startswith("score all pairs of ")]
    sides = Counter(task.label.split(" ge2e")[0].split(" ecapa")[0].partition("trials_f ")[2] for task in scored)
    cells = 4  # two extractors, two back ends; the other trial set has no such words in its label
    assert sides.pop("") == len(scored) / 2
    assert sides == {
        "original against original": cells,
        "original against b2": cells,
        "b2 against b2": 2 * cells,  # as many again by what attackers have adapted
        "original against b2r": cells,
        "b2r against b2r": 2 * cells,
        "b2r against b2r, second run": cells,
    }


def test_a_graph_pickles_and_goes_on_where_it_was() -> None:
    made = everything()
    carried = pickle.loads(pickle.dumps(made))
    assert carried.tasks == made.tasks and carried.notes == made.notes
    assert [source.ref.task for source in carried.select(Measurement)] == [
        source.ref.task for source in made.select(Measurement)
    ]
    assert [(one.parameters, one.identity) for one in carried.select(Measurement)] == [(one.parameters, one.identity) for one in made.select(Measurement)]  # fmt: skip
    assert len(carried.select(AttackCheck)) == len(made.select(AttackCheck)) > 0
    assert carried.add(made.tasks[-1]) == made.tasks[-1] and len(carried.tasks) == len(made.tasks), "each task once"


def test_what_a_copy_lacks_of_the_training_speech_is_lacking_for_its_attackers_alone() -> None:
    given = ("system=[original]", "+system.t8={name: external, root: /theirs, train_root: /theirs}", "extractor=[ge2e]",
             "attacker=[ignorant,semi_informed]", "backend=[plda]", "diagnostics=false")  # fmt: skip
    made = planned(*given, lacking=2)
    learnt = {}
    for task in made.tasks:
        if task.name == "fit":
            vectors = task.inputs["vectors"]
            assert isinstance(vectors, Derived) and isinstance(vectors.select, SelectVectors)
            learnt[task.label.partition(" on ")[2]] = vectors.select.wanted.table["utterance"].tolist()
    every = [f"{speaker}-x_train-{number}" for speaker in "ef" for number in range(3)]
    assert learnt == {"original, training set": every, "t8, training set": every[2:]}


def test_the_strongest_attack_stands_on_all_attacks_and_systems_are_compared_in_pairs() -> None:
    made = everything()
    assert [one.identity["system"] for one in made.select(StrongestAttack)] == ["original", "b2", "b2r"]
    for one in made.select(StrongestAttack):
        system = one.identity["system"]
        rows = [
            source.identity for source in made.select(Measurement) if source.ref.task.label.startswith("measure asv ")
        ]
        names = ("condition", "attacker", "extractor", "trained_on", "backend")
        mine = {tuple(row[name] for name in names) for row in rows if row["system"] == system}
        assert {tuple(attack[name] for name in names) for attack in one.attacks} == mine and len(one.attacks) == len(
            mine
        )
        assert all(ids == tuple(range(len(mine))) for ids in one.subsets.values())
        scores = {ref.task for attacks in one.ref.task.sources() for ref in attacks.task.sources()}
        wanted = {
            ref.task
            for source in made.select(Measurement)
            if source.ref.task.label.startswith("measure asv ") and source.identity["system"] == system
            for ref in source.ref.task.sources()
        }
        assert scores == wanted
    assert [(one.reference, one.system, one.to_baseline) for one in made.select(SystemPair)] == [
        ("b2", "b2r", True), ("original", "b2", False), ("original", "b2r", False),
    ]  # fmt: skip
    task = made.select(SystemPair)[0].ref.task
    protected = made.select(StrongestAttack)[1].ref.task.settings["protected"]
    assert (
        protected
        == [
            place
            for place, one in enumerate(made.select(StrongestAttack)[1].attacks)
            if one["condition"] in ("PP", "OPP")
        ]
        != []
    )
    # The levels of the systems' training sets differ; the attacks are the same.
    both = [one for one in made.select(StrongestAttack)[1].attacks if one["condition"] == "OPP"]
    assert (
        len(task.settings["same"])
        == len(made.select(StrongestAttack)[1].attacks) - len(both)
        == len(made.select(StrongestAttack)[2].attacks)
    )
    other = planned(*ALL, "report.baseline=original")
    assert [(one.reference, one.system, one.to_baseline) for one in other.select(SystemPair)] == [
        ("original", "b2", True), ("original", "b2r", True), ("b2", "b2r", False),
    ]  # fmt: skip
    assert not planned(*ALL, "metric=[srd]").select(StrongestAttack)


def test_what_was_asked_for_and_has_no_attack_is_named() -> None:
    made = planned(
        "system=[original,b2]", "attacker=[ignorant,semi_informed]", "extractor=[ge2e,ecapa]", "backend=[cosine]"
    )
    (b2,) = (one for one in made.select(StrongestAttack) if one.identity["system"] == "b2")
    assert b2.untried == ("semi_informed with ge2e",)
    assert next(one for one in made.select(StrongestAttack) if one.identity["system"] == "original").untried == ()


def test_a_system_that_is_added_moves_no_task_of_the_others() -> None:
    few, more = (
        planned("system=[" + ",".join(systems) + "]", *ALL[1:])
        for systems in (("original", "b2"), ("original", "b2", "b2r"))
    )
    keys = [{one.identity["system"]: one.ref.task.id for one in made.select(StrongestAttack)} for made in (few, more)]
    assert keys[0].items() <= keys[1].items()


LID = ("system=[original,b2]", "attacker=[ignorant]", "extractor=[ge2e]", "metric=[asv,lid]", "diagnostics=false")


def measures(made: Graph, metric: str) -> list[Task]:
    return [
        source.ref.task for source in made.select(Measurement) if source.ref.task.label.startswith(f"measure {metric} ")
    ]


def without_some_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    """One nontarget of the women is no trial."""
    whole = key_table.prepared()
    women = whole.trials["x_trials_f"]
    kept = replace(women, trials=women.trials.drop(index=3).reset_index(drop=True), expected=11)
    object.__setattr__(whole, "trials", {**whole.trials, "x_trials_f": kept})
    monkeypatch.setattr(key_table, "prepared", lambda: whole)


def test_candidates_are_all_scored_for_whoever_looks_among_them_and_for_nobody_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    complete = planned(*LID)
    assert all(set(task.inputs) == {"scores"} for task in measures(complete, "lid")), "the list has them all"
    without_some_trials(monkeypatch)
    made = planned(*LID)
    by_set = {task.label.split()[2]: task for task in measures(made, "lid")}
    assert set(by_set["x_trials_m"].inputs) == {"scores"}
    women = by_set["x_trials_f"]
    assert set(women.inputs) == {"scores", "candidates"}
    assert (women.settings["n_expected"], women.settings["n_searched"]) == (11, 12)
    whole, listed = (women.inputs[name].task for name in ("candidates", "scores"))  # type: ignore[union-attr]
    assert "(all candidates)" in whole.label and len(whole.inputs["trials"].value.trials) == 12  # type: ignore[union-attr]
    # The same attack: all but the list is equal.
    assert {name: planned_digest(one) for name, one in whole.inputs.items() if name != "trials"} == {
        name: planned_digest(one) for name, one in listed.inputs.items() if name != "trials"
    }
    assert whole.settings == listed.settings
    assert not any("(all candidates)" in task.label for task in planned(*LID, "metric=[asv]").tasks)


def test_a_slope_is_learnt_from_a_set_of_other_speakers_under_the_same_attack(monkeypatch: pytest.MonkeyPatch) -> None:
    made = planned(*LID, "metric.lid.development={x_trials_f: x_trials_m}")
    by_cell = {task.label: task for task in measures(made, "lid")}
    for label, task in by_cell.items():
        if "x_trials_m" in label:
            assert "development" not in task.inputs
            continue
        other = by_cell[label.replace("x_trials_f", "x_trials_m")]
        assert task.inputs["development"] == other.inputs["scores"] and task.settings["n_development"] == 12
    for wrong, said in (("x_trials_u", "no other trial set"), ("x_trials_f", "no other trial set")):
        with pytest.raises(ConfigError, match=said) as caught:
            planned(*LID, f"metric.lid.development={{x_trials_f: {wrong}}}")
        assert caught.value.remedy.endswith("metric.lid.development=null")
    assert planned(*LID, "metric.lid.development=null").select(Measurement)
    same = key_table.prepared()
    object.__setattr__(same, "trials", {**same.trials, "again": replace(same.trials["x_trials_f"], name="again")})
    again = same.manifest[same.manifest["set"] == "x_trials_f"].assign(set="again")
    object.__setattr__(same, "manifest", pd.concat([same.manifest, again], ignore_index=True))
    monkeypatch.setattr(key_table, "prepared", lambda: same)
    with pytest.raises(ConfigError, match="2 speakers are in x_trials_f and in again"):
        planned(*LID, "metric.lid.development={x_trials_f: again}")
