"""Golden values for the tests of the metrics."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

GOLDEN = Path(__file__).resolve().parent.parent / "golden"


def golden(name):
    return json.loads((GOLDEN / f"{name}.json").read_text())


def table(name):
    """Rows of a printed table as dicts."""
    with (GOLDEN / "tables" / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def scores_of(entry):
    """Target and non-target scores of a golden set, from its values or its recipe."""
    if "recipe" in entry:
        rng = np.random.default_rng(entry["seed"])
        means = {110: ((2.0, 1.5), (-1.0, 1.5)), 111: ((1.0, 1.5), (-1.0, 1.5))}[entry["seed"]]
        target = rng.normal(*means[0], entry["n_tar"])
        nontarget = rng.normal(*means[1], entry["n_non"])
        assert target[0] == entry["check"]["tar_first"]
        assert nontarget[-1] == entry["check"]["non_last"]
        return target, nontarget
    return np.array([float(x) for x in entry["tar"]]), np.array([float(x) for x in entry["non"]])


SCORE_SETS = golden("score_sets")


@pytest.fixture(params=sorted(SCORE_SETS))
def score_set(request):
    """(name, targets, non-targets, entry) of each golden score set."""
    entry = SCORE_SETS[request.param]
    return request.param, *scores_of(entry), entry
