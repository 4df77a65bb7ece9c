"""What a run answers, as tables of its folder, each as parquet and as CSV: ``leaderboard``, ``attacks`` and ``differences``; who is protected
worst: ``speakers`` and ``worst_overlap``; what leak would have been seen: ``limits``; and which minimum-EER conditions of a challenge each system meets (parquet alone).

What each column means, and its unit, stands in data_manifests/README.md, section 10. Absent numbers are NaN, absent texts ''.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipeline.tables import csv, run_files

ATTACK = ["condition", "attacker", "extractor", "trained_on", "backend"]
TAKEN = ["alid", "mean_d", "idr", "deid", "g_vd"]
"""Columns that are taken from rows of results about no attack, each with ``_low``, ``_high`` and ``_by``."""
COUNTS = ["n_sets", "n_attacks", "contenders", "n_expected", "n_used", "n_target", "n_nontarget", "n_speakers", "swaps"]

LEADERBOARD = [
    "dataset", "subset", "n_sets", "system", "system_level", "anonymised", "verdict", "withheld", "rank", *ATTACK, "by_set", "n_attacks", "contenders",
    "untried", "unchecked",
    "d_ece", "d_ece_low", "d_ece_high", "d_ece_corrected", "null_low", "null_high", "p_chance", "chance", "limit", "limit_rise", "limit_reason",
    "eer", "eer_low", "eer_high", "lowest_eer", "lowest_eer_low", "lowest_eer_high", "lowest_eer_attack", "pp_attack", "pp_d_ece", "pp_eer", "pp_p_chance",
    "l_w", "l_w_ceiling", "tag", "alid_ceiling", "alid_chance", *(f"{name}{end}" for name in TAKEN for end in ("", "_low", "_high", "_by")),
    "n_expected", "n_used", "n_target", "n_nontarget", "n_speakers", "status", "reason", "interval_reason", "null_reason",
]  # fmt: skip
ATTACKS = [
    "dataset", "subset", "system", *ATTACK, "d_ece", "d_ece_low", "d_ece_high", "eer", "eer_low", "eer_high", "contends",
    "held_out", "status",
]  # fmt: skip
DIFFERENCES = [
    "dataset", "subset", "under", "system", "reference", "baseline", "unprotected", "attack", "reference_attack", "metric", "unit",
    "value",
    "reference_value", "difference", "low", "high", "p_value", "p_holm", "n_compared", "n_speakers", "swaps", "exact", "status",
    "reason", "sentence",
]  # fmt: skip
TOP = 3
UTTERANCES = [f"{name}_{number}" for number in range(1, TOP + 1) for name in ("utterance", "llr")]
SPEAKERS = [
    "dataset", "subset", "system", *ATTACK, "strongest", "speaker", "rank", "worst", "d_ece", "d_ece_low", "d_ece_high", "median", "p_median",
    "against_median", "eer", "alid", "srd_rank_median", "deid", "original_d_ece", "original_d_ece_low", "original_d_ece_high", "original_eer",
    "original_attack", "before", "sex", "mean_f0", "mean_f0_protected", "trial_seconds", "enrolment_seconds", "nearest", "nearest_score", "own_score",
    "target_llr", "impostor_llr", "max_llr", "doddington", "dunstone_yager", *UTTERANCES, "n_speakers", "n_target", "n_nontarget", "n_utterances",
    "status", "reason",
]  # fmt: skip
OVERLAP = [
    "dataset", "subset", "system", *ATTACK, "strongest", *(f"other_{name}" for name in ATTACK), "n_speakers", "listed", "shared", "shared_chance",
    "jaccard", "jaccard_chance", "p_value", "rank_correlation", "names", "status",
]  # fmt: skip
LIMITS = ["dataset", "subset", "system", "unit", "share", "d_ece", "rise", "threshold", "units", "draws", "reason"]
BANDS_FILE = "bands.parquet"
BANDS = (
    "dataset", "subset", "system", "ranked_by", "attack", "variant", "value", "low", "high", "met", "least", "most", "edges", "status",
)  # fmt: skip
STRONGEST = "strongest attack"
"""What systems are ranked by in the last table."""
ANSWERS = ("leaderboard", "attacks", "differences")
TABLES = {
    "leaderboard": LEADERBOARD, "attacks": ATTACKS, "differences": DIFFERENCES, "speakers": SPEAKERS, "worst_overlap": OVERLAP,
    "limits": LIMITS,
}  # fmt: skip
FLAGS = {"anonymised", "contends", "baseline", "unprotected", "exact", "strongest", "worst"}
INTEGERS = {*COUNTS, "rank", "n_compared", "n_utterances", "listed", "shared"}
TEXTS = {
    "dataset", "subset", "system", "system_level", *ATTACK, "by_set", "verdict", "withheld", "untried", "unchecked", "lowest_eer_attack",
    "pp_attack", "chance", "tag", *(f"{name}_by" for name in TAKEN), "status", "reason", "interval_reason", "null_reason", "limit_reason", "under",
    "reference", "attack", "reference_attack", "metric", "unit", "sentence", *(f"other_{name}" for name in ATTACK), "speaker",
    "against_median", "original_attack", "before", "sex", "nearest", "doddington", "dunstone_yager",
    *(name for name in UTTERANCES if name.startswith("utterance")), "names",
}  # fmt: skip


def frame(name: str, rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Rows as a table with exactly its columns, in order and typed: texts ('' where absent), flags, whole numbers, and other numbers.

    Raises:
        ValueError: an unknown column.
    """
    rows, columns = list(rows), TABLES[name]
    unknown = {key for row in rows for key in row} - set(columns)
    if unknown:
        raise ValueError(f"not among the columns of this table: {sorted(unknown)}")
    table = pd.DataFrame(rows, columns=columns)
    for column in columns:
        values = table[column].astype(object)
        if column in TEXTS:
            table[column] = values.where(values.notna(), "").astype("string")
        elif column in FLAGS:
            table[column] = values.where(values.notna(), False).astype(bool)
        elif column in INTEGERS:
            table[column] = pd.to_numeric(values).astype("Int64")
        else:
            table[column] = pd.to_numeric(values).astype(np.float64)
    return table


def write(tables: Mapping[str, pd.DataFrame], folder: Path) -> None:
    """Write the tables into a run folder."""
    for name, table in tables.items():
        table.to_parquet(folder / f"{name}.parquet", index=False)
        (folder / f"{name}.csv").write_text(csv.text(table, "%.17g"), encoding="utf-8", errors="replace", newline="")


def read(name: str, folder: Path) -> pd.DataFrame:
    """A table of a run folder; without rows where the run wrote none. Raises DataError where it cannot be parsed."""
    path = folder / f"{name}.parquet"
    return run_files.read_columns(path, TABLES[name]) if path.is_file() else frame(name, [])


def write_bands(table: pd.DataFrame, folder: Path) -> None:
    """Write which minimum-EER conditions of a challenge each system meets (:data:`BANDS`) into a run folder."""
    table.to_parquet(folder / BANDS_FILE, index=False)


def read_bands(folder: Path) -> pd.DataFrame:
    """The conditions of a run folder; none where there is no such file."""
    path = folder / BANDS_FILE
    return run_files.read_columns(path, BANDS) if path.is_file() else pd.DataFrame(columns=list(BANDS))
