"""Diagnose: was each attack strong enough? Sentences beside the results (:mod:`pipeline.products.checks.words`)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.datasets.resemblance import IdenticalAudio
from pipeline.engine.outcome import Outcome
from pipeline.engine.task import Ref
from pipeline.metrics.treatment import Treatment
from pipeline.products.checks import choices as strongest
from pipeline.products.checks import words as diagnostics
from pipeline.products.checks.words import Rate
from pipeline.stages.graph import Diagnosis, Heard
from pipeline.tables import records, results
from pipeline.tables.checks import IDENTITY, TABLE, Finding, frame

GRID = ["dataset", "subset", "system", "extractor", "backend"]
WHOSE = ("dataset", "subset", "system")

Rows = Sequence[Mapping[str, Any]]
"""Rows of the results."""

Known = tuple[Mapping[str, str], Finding]
"""A finding and the results that it is about."""


def run(
    diagnoses: Sequence[Diagnosis],
    heard: Heard,
    rows: pd.DataFrame,
    outcome: Outcome,
    folder: Path,
    known: Sequence[Known] = (),
    orders: Sequence[tuple[Mapping[str, str], Ref]] = (),
    board: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Write ``diagnostics.parquet`` into a run folder.

    Args:
        diagnoses: what there is to judge each attack by.
        heard: what was heard of the evaluated speech.
        rows: the results.
        known: what was found before anything was computed, and of which results.
        orders: how the scores of attacks order the classes, and of which results.
        board: the leaderboard (:mod:`pipeline.tables.answers`), with the test of the attacks that enrol protected speech.
    """
    measured = results.records(rows[rows["value"].notna()])
    eers = _where(measured, {"metric": "eer", "variant": strongest.definition(rows)})
    padded = {system: silence(refs, outcome) for system, refs in heard.systems.items()}
    found = [
        ({name: str(each.identity[name]) for name in IDENTITY}, finding)
        for each in diagnoses
        for finding in (*_of(each, eers, measured, outcome), *_silence(each.identity, padded, heard))
    ]
    tested = (
        {tuple(row[name] for name in WHOSE): row["pp_p_chance"] for row in results.records(board)}
        if board is not None
        else {}
    )
    hidden = _hidden(measured, eers, tested)
    table = frame([*known, *same(heard, outcome, rows), *found, *hidden, *_orders(orders, outcome)])
    table.to_parquet(folder / TABLE, index=False)
    return table


def same(heard: Heard, outcome: Outcome, rows: pd.DataFrame) -> Iterator[Known]:
    """What is found of systems that were run here and gave one recording for several, or the original."""
    dataset = str(rows["dataset"].iloc[0]) if len(rows) else ""
    for system, ref in heard.same.items():
        found = IdenticalAudio.of_record(records.read(outcome.artefact(ref).folder))
        whose = {"dataset": dataset, "system": system}
        yield from ((whose, finding) for finding in diagnostics.same_audio(system, found))


def _hidden(rows: Rows, eers: Rows, tested: Mapping[tuple[str, ...], float]) -> Iterator[Known]:
    """DeID beside the strongest attack on protected speech of the same set and system, whatever its extractor."""
    # Of several definitions of one DeID the usual one, whose variant has no words.
    for deid in _each(sorted(_where(rows, {"metric": "deid"}), key=lambda row: len(str(row["variant"])))):
        rivals = _where(eers, {name: str(deid[name]) for name in WHOSE} | {"condition": "PP"})
        if rivals:
            lowest = min(rivals, key=lambda row: float(row["value"]))
            p = tested.get(tuple(deid[name] for name in WHOSE), math.nan)
            finding = diagnostics.deid_against_eer(float(deid["value"]), _rate(lowest), strongest.named(lowest), p)
            yield {name: str(deid[name]) for name in IDENTITY}, finding


def _each(rows: Rows) -> Rows:
    """The first row of each result."""
    found: dict[tuple[str, ...], Mapping[str, Any]] = {}
    for row in rows:
        found.setdefault(tuple(str(row[name]) for name in IDENTITY), row)
    return list(found.values())


def _orders(orders: Sequence[tuple[Mapping[str, str], Ref]], outcome: Outcome) -> Iterator[Known]:
    """The attacks whose scores order the classes the wrong way round; nothing is said of the others."""
    for identity, ref in orders:
        record = records.read(outcome.artefact(ref).folder)
        if record["auc"] is not None and (record["reversed"] or record["doubtful"]):
            yield {name: str(identity[name]) for name in IDENTITY}, diagnostics.class_order(record)


def silence(refs: Sequence[Ref], outcome: Outcome) -> tuple[int, list[float]]:
    """How many files there are, and milliseconds of digital silence of each that begins or ends with some."""
    found = [outcome.artefact(ref).record["notes"][records.SILENCE] for ref in refs]
    return sum(one["files"] for one in found), [padded for one in found for padded in one["milliseconds"]]


def _silence(
    identity: Mapping[str, str], padded: Mapping[str, tuple[int, list[float]]], heard: Heard
) -> Iterator[Finding]:
    system, extractor = identity["system"], identity["extractor"]
    if system in padded and extractor in heard.trims:
        files, milliseconds = padded[system]
        yield diagnostics.digital_silence(system, files, milliseconds, extractor, trimmed=heard.trims[extractor])


def _of(each: Diagnosis, eers: Rows, rows: Rows, outcome: Outcome) -> Iterator[Finding]:
    """What is found of one attack, given all rows with a value and those of them that are its kind of EER."""
    identity = each.identity
    test = _eer(eers, identity)
    same = {name: identity[name] for name in ("dataset", "subset", "extractor", "backend")}
    unprotected = _eer(eers, {**same, "attacker": "unprotected"})
    plain = None if unprotected is None else unprotected.value
    yield from _of_training(each, test, plain, outcome)
    own = None if each.on_original is None else records.read(outcome.artefact(each.on_original).folder)["eer"]
    if own is not None or plain is not None:
        yield diagnostics.on_original(own, plain)
    if each.check_on_original is not None and plain is not None:
        held = records.read(outcome.artefact(each.check_on_original).folder)
        if held["eer"] is not None:
            yield diagnostics.original_gap(held, plain)
    if each.treatment is not None:
        yield diagnostics.treated_differently(Treatment(**records.read(outcome.artefact(each.treatment).folder)))
    if each.original_enrolment is not None and test is not None:
        original = records.read(outcome.artefact(each.original_enrolment).folder)["eer"]
        if original is not None:
            yield diagnostics.original_enrolment(test, original)
    if each.levels is not None:
        system, learnt = each.levels
        yield diagnostics.training_level(system, learnt, test)
    if each.note:
        yield diagnostics.weak_backend(each.note)
    if test is not None and identity["condition"] == "PP":
        yield from _against_srd(test, rows, identity)
    if test is not None and identity["trained_on"] not in ("original", "given"):
        rivals = _where(eers, {name: identity[name] for name in GRID})
        # An attacker with several ways is as strong as the best of them.
        several = {str(row["attacker"]): _rate(row) for row in sorted(rivals, key=lambda row: -float(row["value"]))}
        yield diagnostics.attackers(several, identity["attacker"])


def _of_training(each: Diagnosis, test: Rate | None, plain: float | None, outcome: Outcome) -> Iterator[Finding]:
    """What is found of training speakers: of the training of the extractor, and of this attack as it is on those held out."""
    known = str(each.identity["trained_on"])
    measured = test.value if test else math.nan
    check = None if each.check is None else records.read(outcome.artefact(each.check).folder)
    held = check if check is not None and check["eer"] is not None else None
    if each.training is not None and not known.startswith("original;"):
        record = records.read_training(outcome.artefact(each.training).folder)
        speech = "anonymised" if known != "original" else "original"
        # The check is of this attack with its back end; the training verified by cosine.
        of_attack = {**record, "held_out": held, "trained": None} if held is not None else record
        yield diagnostics.held_out(of_attack, plain, speech=speech)
        yield from diagnostics.gap(record, math.nan, speech=speech)
        if speech == "anonymised":
            # For an attacker who knows original speech alone, the test is harder because the system protects.
            yield from (one for one in diagnostics.gap(of_attack, measured, speech=speech) if one.check == "test_gap")
        yield diagnostics.suspected_same_speaker(record)
        if "held_out_before" in record:
            yield diagnostics.fine_tuning(record)
    elif check is not None and known != "original":
        yield diagnostics.held_out({"speakers": check["speakers"], "held_out": held}, plain)


def _eer(eers: Rows, identity: Mapping[str, str]) -> Rate | None:
    """The EER of an attack with its interval, if it has one value."""
    kept = _where(eers, {name: identity[name] for name in IDENTITY if name in identity})
    return _rate(kept[0]) if len(kept) == 1 else None


def _where(rows: Rows, values: Mapping[str, str]) -> Rows:
    """The rows with these values."""
    return [row for row in rows if all(row[name] == value for name, value in values.items())]


def _rate(row: Mapping[str, Any]) -> Rate:
    return Rate(float(row["value"]), float(row["low"]), float(row["high"]))


def _against_srd(test: Rate, rows: Rows, identity: Mapping[str, str]) -> Iterator[Finding]:
    """The EER against the SRD of the same vectors, if both were measured."""
    same = {name: identity[name] for name in ("system", "extractor", "trained_on")} | {
        "estimator": "empirical",
        "variant": "",
    }
    means, rates = (_where(rows, same | {"metric": metric}) for metric in ("mean_d", "idr"))
    if len(means) != 1 or len(rates) != 1:
        return
    mean = means[0]
    if pd.notna(mean["null_high"]) and pd.notna(mean["n_speakers"]):
        yield diagnostics.eer_against_srd(
            test, float(mean["value"]), float(mean["null_high"]), float(rates[0]["value"]), int(mean["n_speakers"])
        )
