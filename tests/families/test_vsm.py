"""Similarity matrices of protected speech alone, as an attacker sees them who has adapted: the part PP of all three, and its picture."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from pipeline.contracts import Pairs, ProtectedPairs
from pipeline.families.vsm import MetricFamily, VsmSettings, figures
from pipeline.metrics import MetricError

RANDOM = np.random.default_rng(4)
SPEAKERS = np.repeat([f"s{k}" for k in range(8)], 3)
SAME = np.equal.outer(SPEAKERS, SPEAKERS)
OO, OP, PP = (RANDOM.normal(size=SAME.shape) + shift * SAME for shift in (4.0, 1.0, 2.0))


def test_it_is_the_part_of_all_matrices() -> None:
    settings = VsmSettings()
    whole = MetricFamily.measure(settings, Pairs(OO, OP, PP, SPEAKERS, 24))
    alone = MetricFamily.measure_protected(settings, ProtectedPairs(PP, SPEAKERS, 24))
    theirs = {row.metric: row for row in whole.rows if row.condition == "PP" and row.metric in ("d_diag", "signed")}
    assert {row.metric: row for row in alone.rows} == theirs and theirs["d_diag"].low < theirs["d_diag"].value
    assert tuple(theirs) == MetricFamily.protected_metrics
    for name in ("similarity", "zoo"):
        part = whole.tables[name][whole.tables[name]["block"] == "PP"].reset_index(drop=True)
        pd.testing.assert_frame_equal(alone.tables[name], part)
    speakers = alone.tables["speakers"]
    assert speakers["diagonal_pp"].tolist() == whole.tables["speakers"]["diagonal_pp"].tolist()
    assert speakers[["diagonal_oo", "diagonal_op", "deid"]].isna().all(axis=None)
    assert not np.allclose(speakers["d_ece"], whole.tables["speakers"]["d_ece"]), "of PP, not of OP"


def test_a_speaker_without_a_pair_is_named() -> None:
    kept = np.arange(22)
    with pytest.raises(MetricError, match="s7"):
        MetricFamily.measure_protected(VsmSettings(), ProtectedPairs(PP[np.ix_(kept, kept)], SPEAKERS[kept], 22))


def test_pictures_show_the_one_block_that_there_is() -> None:
    tables = MetricFamily.measure_protected(VsmSettings(interval="none"), ProtectedPairs(PP, SPEAKERS, 24)).tables
    about = {"subset": "t", "system": "b2", "extractor": "ear, trained on anonymised", "backend": "cosine", "series": "b2",
             "run_id": "1"}  # fmt: skip
    (matrix,) = figures.plot_matrices(tables["similarity"].assign(**about), ["b2"])
    assert (
        "ear, trained on anonymised" in matrix.title
        and "b2: PP " in matrix.alt
        and "OO" not in matrix.alt.split(":", 2)[2]
    )
    (picture,) = figures.plot_zoo(tables["zoo"].assign(**about), ["b2"])
    assert len(re.findall(r'id="zoo-', picture.svg)) == 8
