"""Short signatures: readable, and never one for two that differ."""

from __future__ import annotations

import itertools
import string
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.report import signatures
from pipeline.report.signatures import Names
from pipeline.tables.results import make_signature

ROW = {"metric": "eer", "variant": "", "estimator": "rocch", "input_unit": "", "condition": "PP", "attacker": "lazy_informed"}  # fmt: skip
PARAMETERS: dict[str, Any] = {
    "extractor": {"name": "ecapa", "training": {"epochs": 3, "code": {"ecapa": 1}}},
    "backend": {"name": "cosine"},
    "calibration": "oracle",
    "settings": {"replicates": 1000},
    "protocol": "a" * 64,
    "code": {"measures": 1},
}
NAMES = Names("libri_test_f", "ecapa", "original", "cosine")


def of(parameters: dict[str, Any] | None = None, **row: str) -> str:
    return make_signature({**ROW, **row}, {**PARAMETERS, **(parameters or {})})


def mean(*several: str) -> str:
    return make_signature(ROW, {"mean": " + ".join(f"0.5 × ({one})" for one in several), "interval": {"code": 1}})


def test_a_short_form_is_made_of_names() -> None:
    (form,) = signatures.shorten([of()], {of(): NAMES}).values()
    version = of().rsplit("v:", 1)[1].rsplit(".", 1)[0]
    assert form == f"eer:rocch|lazy_informed|trials:libri_test_f|ext:ecapa(trained original)|be:cosine|v:{version}"


def test_without_names_digests_stand_for_them() -> None:
    (form,) = signatures.shorten([of()]).values()
    assert "|trials:aaaaaaaa|ext:" in form and "a" * 9 not in form


DEEP: dict[str, tuple[dict[str, Any], str]] = {
    "an extractor's setting": ({"extractor": {"name": "ecapa", "training": {"epochs": 4}}}, ""),
    "code": ({"code": {"measures": 2}}, ""),
    "replicates": ({"settings": {"replicates": 999}}, ""),
    "the calibration": ({"calibration": "linear"}, "calibration:linear"),
    "who is asked": ({"sexes": "unknown"}, "sexes:unknown"),
    "the end of a protocol": ({"protocol": "a" * 63 + "b"}, ""),
    "what weights learnt from": ({"training data": "200k speakers"}, "training data:200k speakers"),
}
"""Parameters of which one is changed, and how the difference is said; '' is by digits of the whole signature."""


@pytest.mark.parametrize("wraps", [False, True], ids=["alone", "within a mean"])
@pytest.mark.parametrize("name", DEEP)
def test_one_deep_parameter_tells_signatures_apart(name: str, wraps: bool) -> None:
    change, said = DEEP[name]
    one, other = of(), of(change)
    if wraps:
        one, other = mean(of(), of()), mean(of(), other)
    found = signatures.shorten([one, other], {one: NAMES, other: NAMES})
    assert found[one] != found[other]
    if said:
        assert found[other].split("|")[-1].removeprefix("mean 2 ") == said
    else:
        assert found[other].endswith(f"#{signatures.fingerprint(other)}")


def test_a_patch_of_the_version_is_said_where_it_differs() -> None:
    begins = of().rsplit("v:", 1)[0]
    several = [f"{begins}v:{version}" for version in ("0.1.7", "0.1.8", "0.2.0")]
    found = signatures.shorten(several, dict.fromkeys(several, NAMES))
    assert [found[one].split("be:cosine|")[1] for one in several] == ["v:0.1|v:0.1.7", "v:0.1|v:0.1.8", "v:0.2"]


def test_what_cannot_be_named_gets_a_digest_that_is_the_same_everywhere() -> None:
    one, other = "eer|OO|(", "eer|OO|(|"
    found = signatures.shorten([one, other])
    assert found[one] != found[other]
    assert signatures.fingerprint(one) != signatures.fingerprint(other)


def test_no_two_of_many_have_one_form() -> None:
    """All combinations of small changes, with and without names that hide them."""
    changes = [
        change for several in itertools.combinations(DEEP.values(), 2) for change in [several[0][0] | several[1][0]]
    ]
    all_of = list(dict.fromkeys([of(), *(of(one) for one, _ in DEEP.values()), *(of(change) for change in changes)]))
    for names in ({}, dict.fromkeys(all_of, NAMES)):
        found = signatures.shorten(all_of, names)
        assert list(found) == all_of and len(set(found.values())) == len(all_of)


TEXTS = st.text(alphabet="ab|():#×+ 0" + string.ascii_lowercase[:3], max_size=12)


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXTS, max_size=12), st.lists(TEXTS, min_size=1, max_size=3))
def test_any_texts_that_differ_have_forms_that_differ(several: list[str], subsets: list[str]) -> None:
    names = {one: Names(subset=subsets[place % len(subsets)]) for place, one in enumerate(several)}
    found = signatures.shorten(several, names)
    assert set(found) == set(several) and len(set(found.values())) == len(set(several))
