"""The examples in the docstrings of ``pipeline.metrics`` run, and those that users meet first have one."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

from pipeline import metrics

MODULES = [
    "pipeline.metrics",
    *(f"pipeline.metrics.{module.name}" for module in pkgutil.iter_modules(metrics.__path__)),
]

WITH_EXAMPLES = [
    "c_ece",
    "calibrate",
    "cllr",
    "cllr_min",
    "d_ece",
    "d_ece_oracle",
    "d_sys",
    "eer",
    "intervals",
    "linkage",
    "normalised",
    "null_bands",
    "pi_link",
    "pi_sing",
    "similarity_matrix",
    "srd",
    "tpr_at_fpr",
    "trial_metrics",
    "vsm_metrics",
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str) -> None:
    found = doctest.testmod(importlib.import_module(name))
    assert not found.failed


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_what_users_meet_first_has_an_example(name: str) -> None:
    """The example imports the function as a user does: from the package, not from the module where it stands."""
    examples = doctest.DocTestParser().get_examples(getattr(metrics, name).__doc__)
    imported = [example.source for example in examples if example.source.startswith("from pipeline.metrics import ")]
    assert any(name in source.replace(",", " ").split() for source in imported)
    assert any(example.want for example in examples)


@pytest.mark.parametrize("name", MODULES)
def test_each_module_opens_with_its_conventions(name: str) -> None:
    assert "\n\nConventions: " in (importlib.import_module(name).__doc__ or "")
