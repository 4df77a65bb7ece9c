"""Validation of a composed configuration, as plain values: each fault where it is, and every fault at once."""

from __future__ import annotations

import copy
import subprocess
import sys
from typing import Any

import pytest

from pipeline.contracts import Component
from pipeline.errors import ConfigError
from pipeline.evaluation.validate import validate
from pipeline.registry import component

GOOD: dict[str, Any] = {
    "config_version": 1,
    "paths": {"root": "./exp", "data": "./data", "models": None},
    "runtime": {"device": "cpu", "threads": 2},
    "diagnostics": True,
    "allow_partial": False,
    "fail_fast": False,
    "dataset": {"name": "kaldi", "root": "/data"},
    "train": {"name": "none"},
    "executor": {"name": "local"},
    "system": {"original": {"name": "original"}, "b2": {"name": "mcadams", "alpha": 0.7, "level": "fixed"}},
    "extractor": {"ge2e": {"name": "ge2e"}, "pitch": {"name": "f0"}},
    "attacker": {"ignorant": {"enrolment": "original", "trial": "anonymised"}},
    "backend": {"cosine": {"name": "cosine"}},
    "metric": {"asv": {"name": "asv"}, "srd": {"name": "srd"}},
}

# (path, new value, where the fault is, words that it says). A path that ends in nothing takes its leaf away.
GONE = object()
Case = tuple[str, Any, str, str]
FAULTS: list[Case] = [
    ("config_version", 2, "config_version", "must be 1"),
    ("diagnostics", "yes", "diagnostics", "true or false"),
    ("allow_partial", 1, "allow_partial", "true or false"),
    ("metrc", ["asv"], "metrc", "did you mean metric"),
    ("wholly_other", 1, "wholly_other", "unknown key"),
    ("paths.rooot", "x", "paths.rooot", "did you mean root"),
    ("runtime.threads", 0, "runtime.threads", "greater than or equal to 1"),
    ("runtime.device", "tpu", "runtime.device", "tpu"),
    ("dataset.name", "wav", "dataset.name", "'kaldi'"),
    ("executor.name", "locl", "executor.name", "did you mean local"),
    ("train.nme", "x", "train.nme", "did you mean name"),
    ("system.b2.alfa", 1, "system.b2.alfa", "did you mean alpha"),
    ("system.b2.level", "loud", "system.b2.level", "loud"),
    ("system.orignal.alpha", 0.6, "system.orignal", "did you mean system.original"),
    ("extractor.ge2e.level", 3, "extractor.ge2e.level", "given: 3"),
    ("extractor.x.name", "ge2", "extractor.x.name", "did you mean ge2e"),
    ("extractor.y", "ge2e", "extractor.y", "no extractor of this label is chosen"),
    ("attacker.lazy.enrolment", "original", "attacker.lazy.trial", "Field required"),
    ("attacker.ignorant.training_level", "both", "attacker.ignorant.training_level", "both"),
    ("backend.cosine._target_", "os.system", "backend.cosine._target_", "unknown key"),
    ("metric.srd.replicates", -1, "metric.srd.replicates", "-1"),
    ("metric.asv.interval", "wide", "metric.asv.interval", "wide"),
]
ALONE: list[Case] = [
    *((group, GONE, group, f"no {group} is chosen") for group in ("system", "extractor", "attacker", "backend", "metric")),
    *((group, {}, group, f"no {group} is chosen") for group in ("system", "metric")),
    ("extractor", ["ge2e"], "extractor", "no extractor is chosen"),
    ("paths", "here", "paths", "given: 'here'"),
    ("runtime", [], "runtime", "given: []"),
    ("train", {"name": "embeding"}, "train.name", "did you mean embedding"),
    ("train", "default", "train", "given: 'default'"),
]  # fmt: skip
"""These take away what others of the list above would change."""


def changed(*cases: Case) -> dict[str, Any]:
    values = copy.deepcopy(GOOD)
    for path, value, *_ in cases:
        *parents, leaf = path.split(".")
        place = values
        for name in parents:
            place = place.setdefault(name, {})
        if value is GONE:
            del place[leaf]
        else:
            place[leaf] = value
    return values


def refused(values: dict[str, Any]) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        validate(values, "custom")
    assert caught.value.status == 2
    return caught.value


def test_a_good_configuration_is_what_it_says() -> None:
    made = validate(copy.deepcopy(GOOD), "mine")
    assert made.recipe == "mine" and made.train is None
    assert (made.products.diagnostics, made.execution.allow_partial, made.execution.runtime.threads) == (True, False, 2)
    chosen: dict[str, tuple[str, type[Component]]] = {
        label: (one.name, one.component)
        for group in (made.systems, made.extractors, made.backends, made.metrics)
        for label, one in group.items()
    }
    assert chosen == {
        "original": ("original", component("anonymisers", "original")),
        "b2": ("mcadams", component("anonymisers", "mcadams")),
        "ge2e": ("ge2e", component("extractors", "ge2e")),
        "pitch": ("f0", component("extractors", "f0")),
        "cosine": ("cosine", component("backends", "cosine")),
        "asv": ("asv", component("families", "asv")),
        "srd": ("srd", component("families", "srd")),
    }
    assert made.systems["b2"].settings.alpha == 0.7
    assert made.attackers["ignorant"].condition == "OP"
    assert made.execution.executor.component is component("executors", "local")


@pytest.mark.parametrize(
    "case", [*FAULTS, *ALONE], ids=lambda case: f"{case[0]}={'gone' if case[1] is GONE else repr(case[1])}"[:60]
)
def test_each_fault_is_said_where_it_is_and_no_other(case: Case) -> None:
    error = refused(changed(case))
    (fault,) = error.faults
    assert fault.where == case[2]
    assert case[3] in fault.what
    assert error.what == "the configuration has 1 fault"


def test_every_fault_at_once() -> None:
    error = refused(changed(*FAULTS))
    assert sorted(fault.where for fault in error.faults) == sorted(case[2] for case in FAULTS)
    said = {fault.where: fault.what for fault in error.faults}
    assert all(words in said[where] for _, _, where, words in FAULTS)
    assert error.what == f"the configuration has {len(FAULTS)} faults"
    assert all(case[2] in str(error) for case in FAULTS), "and all are printed"


def test_an_empty_configuration_lacks_every_group() -> None:
    error = refused({})
    assert {fault.where for fault in error.faults} >= {
        "config_version", "diagnostics", "allow_partial", "fail_fast", "system", "extractor", "attacker", "backend", "metric", "dataset.name",
    }  # fmt: skip


# What no part shows alone --------------------------------------------------------------------------------------------


def test_whatever_needs_a_trainer_is_named() -> None:
    error = refused(
        changed(
            ("extractor.ecapa", {"name": "ecapa", "source": "trained"}, "", ""),
            ("attacker.semi", {"enrolment": "anonymised", "trial": "anonymised", "training": "anonymised"}, "", ""),
        )
    )
    assert {fault.where for fault in error.faults} == {"extractor.ecapa.source", "attacker.semi.training"}
    assert all("train=default" in fault.what for fault in error.faults)


def test_the_original_speech_comes_first_where_it_is_not_named() -> None:
    values = changed(("system.original", GONE, "", ""))
    assert list(validate(values, "custom").systems) == ["original", "b2"]
    renamed = changed(("system.original", GONE, "", ""), ("system.mine", {"name": "original"}, "", ""))
    assert list(validate(renamed, "custom").systems) == ["b2", "mine"]
    assert validate(renamed, "custom").original == "mine"


def test_its_label_is_its_own() -> None:
    """And that is one fault among all others."""
    error = refused(changed(*FAULTS, ("system.original", {"name": "mcadams"}, "", "")))
    said = {fault.where: fault.what for fault in error.faults}
    assert "label 'original'" in said.pop("system.original") and "+system.NAME={name: mcadams}" in str(error)
    assert set(said) == {case[2] for case in FAULTS}


LABELS = [
    ("a" * 65, "a label of 65 characters", "system.aaaaaaaaaaaaaaaaaaaa...aaaaaaaa"),
    ("h\u00e9", "letters a to z", "system.h\u00e9"),
    ("a b", "letters a to z", "system.a b"),
    ("a/b", "letters a to z", "system.a/b"),
    (".a", "begins with", "system..a"),
    ("-a", "begins with", "system.-a"),
    ("a\n", "letters a to z", "system.a\n"),
]


@pytest.mark.parametrize(("label", "words", "where"), LABELS, ids=[repr(case[0])[:20] for case in LABELS])
@pytest.mark.parametrize("group", ["system", "extractor", "attacker", "backend", "metric"])
def test_labels_are_names_for_any_file_system(group: str, label: str, words: str, where: str) -> None:
    values = copy.deepcopy(GOOD)
    first = next(iter(values[group]))
    values[group] = {"b2": values[group].pop(first), **values[group], label: next(iter(GOOD[group].values()))}
    if group == "system":
        values[group]["b2"] = GOOD[group]["b2"]
    (fault,) = refused(values).faults
    assert fault.where == where.replace("system", group, 1) and words in fault.what


def test_labels_of_sixty_four_characters_with_every_sign_are_taken() -> None:
    label = "A_b-c.9" + "x" * 57
    values = changed((f"system.{'x'}", {"name": "mcadams"}, "", ""))
    values["system"][label] = values["system"].pop("x")
    assert label in validate(values, "custom").systems


@pytest.mark.parametrize(
    ("train", "speech", "source"),
    [("none", "/train", "speechbrain/"), ("embedding", "", "speechbrain/"), ("embedding", "/train", "trained")],
)
def test_what_is_left_open_is_decided_by_trainer_and_speech(train: str, speech: str, source: str) -> None:
    values = changed(
        ("train", {"name": train}, "", ""),
        ("dataset.train", speech, "", ""),
        ("extractor.ecapa", {"name": "ecapa", "source": "auto"}, "", ""),
    )
    assert validate(values, "custom").extractors["ecapa"].settings.source.startswith(source)


def test_the_values_are_left_as_they_are_and_hydra_is_not_needed() -> None:
    values = copy.deepcopy(GOOD)
    validate(values, "custom")
    assert values == GOOD
    code = (
        "import sys, pipeline.evaluation.validate, pipeline.evaluation;"
        "sys.exit(str({'hydra', 'omegaconf'} & set(sys.modules) or ''))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""
