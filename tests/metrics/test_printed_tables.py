"""Printed tables: what follows from other printed cells must come out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import betaln, comb

from pipeline import metrics as m

from .conftest import table


def cells(name):
    return {(row["subset"], row["system"], f"{row['metric']} {row['condition']}"): row["value"] for row in table(name)}


TABLE_2, TABLE_3 = cells("noe2022_table2"), cells("noe2022_table3")
RATIOS = sorted(key for key in TABLE_3 if key[2] == "d_ece_op_oo OP")
SRD = {
    (number, row["system"], "ET_orig" if row["trained_on"] == "original" else "ET_anon", row["metric"]): float(
        row["value"]
    )
    for number in (1, 2)
    for row in table(f"srd2026_table{number}")
    if row["metric"] != "eer"
}
ROWS = sorted((number, system, kind) for number, system, kind, metric in SRD if metric == "max_d")

# Rows of SRD Table 1 whose largest share stands at another rank than 1.
PEAK_ELSEWHERE = {
    ("ET_orig", "B3"), ("ET_orig", "B4"), ("ET_orig", "B5"), ("ET_orig", "T12-5"), ("ET_anon", "T12-5"),
}  # fmt: skip


def test_there_are_as_many_cells_as_in_print():
    assert len(RATIOS) == 18
    assert [sum(row[0] == number for row in ROWS) for number in (1, 2)] == [15, 8]


@pytest.mark.parametrize("key", RATIOS, ids="-".join)
def test_d_ece_op_oo_of_noe_2022_table_3_follows_from_table_2(key):
    dataset, system, _ = key
    oo = float(TABLE_2[dataset, "original", "d_ece OO"])
    op = float(TABLE_2[dataset, system, "d_ece OP"])
    found = 100 * m.d_ece_op_oo(oo, op)
    if TABLE_3[key] == "~100":
        assert 99.99 <= found <= 100
    else:
        assert found == pytest.approx(float(TABLE_3[key]), abs=0.0051)


def test_every_l_w_of_noe_2022_table_2_has_the_tag_of_table_1():
    compared = 0
    for (dataset, system, metric), value in TABLE_2.items():
        if metric.startswith("l_w"):
            assert m.tag(float(value)) == TABLE_2[dataset, system, metric.replace("l_w", "tag")]
            compared += 1
    assert compared == 24


@pytest.mark.parametrize("row", ROWS, ids=lambda row: "-".join(map(str, (row[0], row[1], row[2]))))
def test_max_d_of_srd_2026_is_a_count_of_800_inputs(row):
    number, system, kind = row
    printed = SRD[number, system, kind, "max_d"]
    # The share of one rank is k/800, so MaxD is log2(40 k/800) for a whole k; print cuts or rounds the second decimal.
    k = round(800 / 40 * 2**printed)
    candidates = [math.log2(40 * i / 800) for i in (k - 1, k, k + 1)]
    nearest = min(candidates, key=lambda d: abs(d - printed))
    assert nearest == pytest.approx(printed, abs=0.01)
    found = m.disclosure([(k / 800), *[(1 - k / 800) / 39] * 39])
    if k >= 20:
        assert found.max_d == pytest.approx(math.log2(40 * k / 800), abs=1e-12)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: "-".join(map(str, (row[0], row[1], row[2]))))
def test_max_d_of_srd_2026_follows_from_the_identification_rate(row):
    number, system, kind = row
    printed = SRD[number, system, kind, "max_d"]
    idr = SRD[number, system, kind, "idr"] / 100
    k = round(800 * idr)
    first = k / 800
    from_first_rank = m.disclosure([first, *[(1 - first) / 39] * 39]).max_d if k > 20 else math.log2(40 * first)
    if number == 1 and (kind, system) in PEAK_ELSEWHERE:
        assert printed > from_first_rank + 0.01
    else:
        assert from_first_rank == pytest.approx(printed, abs=0.01)


@pytest.mark.parametrize("row", [row for row in ROWS if row[0] == 2], ids=lambda row: row[1])
def test_a_beta_binomial_reproduces_mean_d_and_rank_spread_of_table_2(row):
    """With the printed IdR as constraint, one alpha must give MeanD and RS at once.

    See pipeline/metrics/README.md, section 13.
    """
    number, system, kind = row
    first = round(8 * SRD[number, system, kind, "idr"]) / 800
    mean_d, spread = SRD[number, system, kind, "mean_d"], SRD[number, system, kind, "rank_spread"] / 100
    agreed, ranks = False, np.arange(40)
    for alpha in np.geomspace(0.05, 3, 1500):
        beta = brentq(lambda b, a=alpha: betaln(a, 39 + b) - betaln(a, b) - math.log(first), 1e-4, 1e5)
        law = np.exp(betaln(ranks + alpha, 39 - ranks + beta) - betaln(alpha, beta)) * comb(39, ranks)
        found = m.disclosure(law)
        agreed |= abs(found.mean_d - mean_d) <= 0.0101 and abs(found.rank_spread - spread) < 1e-9
    assert agreed


def test_gains_of_noe_2022_table_4_from_the_logs_of_vpc_2020():
    """Eq. 20 with PP in the numerator: Cllr_min 0.839 and 0.183 of B1 on libri_test_trials_f are printed as -7.05 dB."""
    assert m.g_cllr_min(0.183, 0.839) == pytest.approx(-7.05, abs=0.01)
