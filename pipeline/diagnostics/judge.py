"""Diagnose: was each attack strong enough? Sentences beside the results (:mod:`pipeline.diagnostics.sentences`)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.diagnostics import sentences as diagnostics
from pipeline.diagnostics.sentences import Finding, Rate
from pipeline.engine.execute import Outcome
from pipeline.metrics.treatment import Treatment
from pipeline.stages import check, train

TABLE = "diagnostics.parquet"
GRID = ["dataset", "subset", "system", "extractor", "backend"]


def run(diagnoses: Sequence[Any], rows: pd.DataFrame, outcome: Outcome, folder: Path) -> pd.DataFrame:
    """Write ``diagnostics.parquet`` into a run folder.

    Args:
        diagnoses: :class:`pipeline.planning.Diagnosis` of each attack.
        rows: the results.
    """
    eers = rows[(rows["metric"] == "eer") & (rows["variant"] == "rocch") & rows["value"].notna()]
    found = [
        ({name: str(each.identity[name]) for name in diagnostics.IDENTITY}, finding)
        for each in diagnoses
        for finding in _of(each, eers, rows, outcome)
    ]
    table = diagnostics.frame(found)
    table.to_parquet(folder / TABLE, index=False)
    return table


def _of(each: Any, eers: pd.DataFrame, rows: pd.DataFrame, outcome: Outcome) -> Iterator[Finding]:
    """What is found of one attack."""
    identity = each.identity
    test = _eer(eers, identity)
    unprotected = _eer(eers, {**{name: identity[name] for name in ("dataset", "subset", "extractor", "backend")},
                              "attacker": "unprotected"})  # fmt: skip
    plain = None if unprotected is None else unprotected.value
    if each.training is not None:
        record = train.record(outcome.artefact(each.training))
        speech = "anonymised" if identity["trained_on"] != "original" else "original"
        yield diagnostics.held_out(record, plain, speech=speech)
        gaps = diagnostics.gap(record, test.value if test else math.nan, speech=speech)
        # For an attacker who knows original speech alone, the test is harder because the system protects.
        yield from (one for one in gaps if speech == "anonymised" or one.check == "training_gap")
        yield diagnostics.suspected_same_speaker(record)
    own = None if each.on_original is None else check.read(outcome.artefact(each.on_original))["eer"]
    if own is not None or plain is not None:
        yield diagnostics.on_original(own, plain)
    if each.treatment is not None:
        yield diagnostics.treated_differently(Treatment(**check.read(outcome.artefact(each.treatment))))
    if each.other_level is not None and test is not None:
        level, ref = each.other_level
        other = check.read(outcome.artefact(ref))["eer"]
        used = "utterance" if level == "speaker" else "speaker"
        both = {used: test, level: other}
        yield diagnostics.enrolment_level(both["speaker"], both["utterance"], used)
    if each.levels is not None:
        system, learnt = each.levels
        yield diagnostics.training_level(system, learnt, test)
    if each.note:
        yield diagnostics.weak_backend(each.note)
    if test is not None and identity["condition"] == "PP":
        yield from _against_srd(test, rows, identity)
    if test is not None and identity["trained_on"] != "original":
        same = _where(eers, {name: identity[name] for name in GRID})
        several = {str(row["attacker"]): _rate(row) for _, row in same.iterrows()}
        yield diagnostics.attackers(several, identity["attacker"])


def _eer(eers: pd.DataFrame, identity: Any) -> Rate | None:
    """The EER of an attack with its interval, if it has one value."""
    kept = _where(eers, {name: identity[name] for name in diagnostics.IDENTITY if name in identity})
    return _rate(kept.iloc[0]) if len(kept) == 1 else None


def _where(rows: pd.DataFrame, values: Mapping[str, str]) -> pd.DataFrame:
    """The rows with these values."""
    kept = pd.Series(True, index=rows.index)
    for name, value in values.items():
        kept &= (rows[name] == value).astype(bool)
    return rows[kept]


def _rate(row: pd.Series) -> Rate:
    return Rate(float(row["value"]), float(row["low"]), float(row["high"]))


def _against_srd(test: Rate, rows: pd.DataFrame, identity: Any) -> Iterator[Finding]:
    """The EER against the SRD of the same vectors, if both were measured."""
    same = _where(rows, {name: identity[name] for name in ("system", "extractor", "trained_on")})
    means = same[(same["metric"] == "mean_d") & same["variant"].str.startswith("empirical") & same["value"].notna()]
    values = means[~means["variant"].str.endswith("null_band")]
    bands = same[(same["metric"] == "mean_d") & same["variant"].str.endswith("null_band")]
    rates = same[(same["metric"] == "idr") & same["variant"].str.startswith("empirical") & same["value"].notna()]
    if len(values) == 1 and len(rates) == 1 and len(bands) == 1 and pd.notna(values["n_speakers"].iloc[0]):
        yield diagnostics.eer_against_srd(
            test,
            float(values["value"].iloc[0]),
            float(bands["high"].iloc[0]),
            float(rates["value"].iloc[0]),
            int(values["n_speakers"].iloc[0]),
        )
