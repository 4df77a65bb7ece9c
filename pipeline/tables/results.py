"""The schema of results rows, the one contract between stages, files, report and other people's scripts.

One row is one number (or label) of one metric for one data set, subset, condition, system, attacker, extractor, training
source, back end and calibration, in one variant, by one estimator, on one unit of input. Everything that belongs to the number
stands in its row: interval, null band, ceiling, counts, why there is none, and what a reader has to know. Its signature says all that it
depends on beside the system: numbers with equal signatures are comparable.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.errors import DataError
from pipeline.seeds import digest
from pipeline.tables import csv, run_files
from pipeline.version import __version__

SCHEMA_VERSION = 2

ABOUT = [
    "dataset", "subset", "condition", "system", "system_level", "attacker", "extractor", "trained_on", "backend", "calibration",
]  # fmt: skip
"""What a number is of."""
IDENTITY = [*ABOUT, "metric", "variant", "estimator", "input_unit"]
"""Unique together in a run."""

NUMBERS = ["value", "low", "high", "null_low", "null_high", "ceiling"]
COUNTS = ["n_expected", "n_used", "n_speakers", "n_target", "n_nontarget"]
COLUMNS = [
    "schema_version", "run_id", *IDENTITY, "value", "label", "unit", "direction", "low", "high", "null_low", "null_high",
    "ceiling", *COUNTS, "status", "reason", "note", "signature", "config_digest", "input_digest", "model_digest",
    "code_version", "device",
]  # fmt: skip


def frame(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Rows as a table with exactly the columns of the contract, in order and typed; absent text is '', absent numbers NaN.

    Raises:
        ValueError: an unknown column, or two rows with the same identity.
    """
    rows = list(rows)
    unknown = {key for row in rows for key in row} - set(COLUMNS)
    if unknown:
        raise ValueError(f"not columns of the results schema: {sorted(unknown)}")
    table = pd.DataFrame([{**row, "schema_version": SCHEMA_VERSION} for row in rows], columns=COLUMNS)
    for column in COLUMNS:
        if column in NUMBERS:
            table[column] = table[column].astype("float64")
        elif column in COUNTS or column == "schema_version":
            table[column] = table[column].astype("Int64")
        else:
            table[column] = table[column].astype("object").fillna("").astype("string")
    twice = table[table.duplicated(IDENTITY, keep=False)]
    if len(twice):
        raise ValueError(f"rows with the same identity: {twice[IDENTITY].drop_duplicates().to_dict('records')[:3]}")
    return table.sort_values(IDENTITY, kind="stable").reset_index(drop=True)


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of any table as plain dictionaries: much faster than rows as series."""
    names = [str(name) for name in table.columns]
    return [dict(zip(names, values)) for values in zip(*(table[name].tolist() for name in names))]


def write(table: pd.DataFrame, folder: Path) -> None:
    """Write ``results.parquet`` and ``results.csv`` into ``folder``; :func:`read_csv` reads the latter, as pandas does."""
    table.to_parquet(folder / "results.parquet", index=False)
    (folder / "results.csv").write_text(csv.text(table, "%.17g"), encoding="utf-8", errors="replace", newline="")


def read_csv(path: Path) -> pd.DataFrame:
    """The rows of a ``results.csv``, cell for cell those of ``results.parquet`` beside it."""
    types = {**dict.fromkeys(NUMBERS, "float64"), **dict.fromkeys([*COUNTS, "schema_version"], "Int64")}
    table = csv.read(path, types)
    return table.astype({column: "string" for column in COLUMNS if column not in types})


def read(folder: Path) -> pd.DataFrame:
    """The results rows of a run folder; those of schema 1 as rows of this one.

    Raises:
        DataError: rows of a schema that is not known here, or a file that cannot be parsed.
    """
    path = folder / "results.parquet"
    table = run_files.read_parquet(path)
    versions = set(table["schema_version"]) if "schema_version" in table.columns else {None}
    if versions <= {1}:
        return from_schema_1(table)
    lacking = [column for column in COLUMNS if column not in table.columns]
    if not versions <= {SCHEMA_VERSION} or lacking:
        raise DataError(
            f"the results are not of schema {SCHEMA_VERSION}"
            + (f": they lack the columns {', '.join(lacking)}" if versions <= {SCHEMA_VERSION} else ""),
            where=str(path),
            cause="the file comes from another version",
            remedy="read it with the version that wrote it, or run the evaluation again",
        )
    return table[COLUMNS]


def from_schema_1(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of schema 1 as rows of this schema; no number changes.

    Raises:
        ValueError: columns that schema 1 does not have, or rows with the same identity.
    """
    return frame(convert_schema_1(table))


# ---------------------------------------------------------------------------------------------------------- signatures


def make_signature(row: Mapping[str, Any], parameters: Mapping[str, Any]) -> str:
    """The signature of a row of results.

    Args:
        row: with ``metric``, ``variant``, ``estimator``, ``input_unit``, ``condition`` and ``attacker``.
        parameters: everything else by name; what is no text stands there as a digest.
    """
    parts = [name_variant(row), row["condition"]]
    if row["attacker"]:
        parts.append(f"attacker:{row['attacker']}")
    parts += [f"{name}:{value if isinstance(value, str) else digest(value)[:8]}" for name, value in parameters.items()]
    return "|".join([*parts, f"v:{__version__}"])


def name_variant(row: Mapping[str, Any]) -> str:
    """The first parts of a signature: which metric, which of its variants, by which estimator, on which unit of input."""
    name = ":".join(filter(None, [row["metric"], row["variant"]]))
    more = (("estimator", row["estimator"]), ("input", row["input_unit"]))
    return "|".join([name, *(f"{key}:{value}" for key, value in more if value)])


# ------------------------------------------------------------------------------------------------------------ schema 1

BAND, CEILING = "null_band", "_ceiling"
ESTIMATORS = ("empirical", "beta_binomial")
RENAMED = {
    "d_diag_signed": ("signed", ""),
    "d_ece_op_oo_all_pairs": ("d_ece_op_oo", "all_pairs"),
    "cllr_min_op_oo_all_pairs": ("cllr_min_op_oo", "all_pairs"),
    "g_d_ece_all_pairs": ("g_d_ece", "all_pairs"),
    "g_cllr_min_all_pairs": ("g_cllr_min", "all_pairs"),
}
"""Metric and variant of schema 2."""


def convert_schema_1(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows of schema 1 in the columns of schema 2, a row a value with all that belongs to it.

    There the variant of a row also held its estimator and its unit of input (``empirical, segment``), null bands were rows of their
    own (variant ``null_band`` or ``<variant>:null_band``) and so were ceilings (metric ``<metric>_ceiling``), some metrics had names
    of their own beside the JSON keys of ``from-scores``, and ``reason`` held notes on values as well.
    """
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    beside: list[tuple[tuple[str, ...], Mapping[Any, Any], dict[str, Any]]] = []
    metrics = set(table["metric"])
    old: Mapping[Any, Any]
    for old in table.to_dict("records"):
        about = tuple(str(old[name]) for name in ("run_id", *ABOUT))
        metric, variant = str(old["metric"]), str(old["variant"])
        bare = variant.removesuffix(BAND).removesuffix(":")
        of_ceiling = metric.removesuffix(CEILING)
        if variant in (BAND, f"{bare}:{BAND}"):
            beside.append(((*about, metric, bare), old, {"null_low": old["low"], "null_high": old["high"]}))
        elif metric != of_ceiling and of_ceiling in metrics:
            beside.append(((*about, of_ceiling, variant), old, {"ceiling": old["value"]}))
        else:
            rows[(*about, metric, variant)] = _convert_row(old, metric, variant)
    for key, old, more in beside:
        if key not in rows:  # a band or a ceiling without its value is kept as it is
            rows[key] = _convert_row(old, *key[-2:]) | dict.fromkeys(("value", "low", "high"), math.nan)
        rows[key] |= more
    return list(rows.values())


def _convert_row(old: Mapping[Any, Any], metric: str, variant: str) -> dict[str, Any]:
    """A row of its own; ``metric`` and ``variant`` without what says that it is a band or a ceiling."""
    new: dict[str, Any] = {str(name): value for name, value in old.items() if name != "schema_version"}
    estimator, _, unit = variant.partition(", ")
    if estimator in ESTIMATORS:
        new |= {"metric": metric, "variant": "", "estimator": estimator, "input_unit": unit}
    else:
        name, renamed = RENAMED.get(metric, (metric, variant))
        new |= {"metric": name, "variant": renamed, "estimator": "", "input_unit": ""}
    # A tag is a value in words. Other words beside no value (of a fit) do not stand for it.
    valued = not math.isnan(old["value"]) or (old["unit"] == "tag" and bool(old["label"]))
    new |= {"reason": "", "note": old["reason"]} if valued else {"reason": old["reason"], "note": ""}
    begins = ":".join(filter(None, [old["metric"], old["variant"]]))
    if str(old["signature"]).startswith(f"{begins}|"):
        new["signature"] = name_variant(new) + str(old["signature"]).removeprefix(begins)
    return new
