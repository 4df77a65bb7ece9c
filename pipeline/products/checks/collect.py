"""Was each attack strong enough? From what the checks left to sentences (:mod:`pipeline.products.checks.words`)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pipeline.datasets.resemblance import IdenticalAudio
from pipeline.engine.outcome import Outcome
from pipeline.engine.task import Ref
from pipeline.metrics.treatment import Treatment
from pipeline.products import Collection, find_eer_definition, name_attack
from pipeline.products.checks import words
from pipeline.products.checks.words import Rate
from pipeline.report import verdict
from pipeline.stages.graph import Graph, Product
from pipeline.tables import records, results
from pipeline.tables.checks import IDENTITY, TABLE, Finding, frame

GRID = ("dataset", "subset", "system", "extractor", "backend")
SUBSET = ("dataset", "subset", "system")

Rows = Sequence[Mapping[str, Any]]
"""Rows of the results."""

About = tuple[Mapping[str, str], Finding]
"""A finding and the results that it is about."""


@dataclass(frozen=True)
class AttackCheck(Product):
    """What there is to judge an attack by.

    Attributes:
        training: what trained the extractor, if the run did.
        check: how well it tells held-out training speakers apart.
        check_on_original: the same of this extractor and back end with original speech, for those who know original speech.
        treatment: how much enrolment and trials were changed.
        on_original: the EER of this attacker on original speech.
        original_enrolment: the EER of this attacker with original speech enrolled in place of protected speech.
        levels: the level of the evaluated speech, and that of the training set.
        note: of the back end.
    """

    training: Ref | None = None
    check: Ref | None = None
    check_on_original: Ref | None = None
    treatment: Ref | None = None
    on_original: Ref | None = None
    original_enrolment: Ref | None = None
    levels: tuple[str, str] | None = None
    note: str = ""


@dataclass(frozen=True)
class ClassOrder(Product):
    """How the scores of an attack order the classes."""

    ref: Ref


@dataclass(frozen=True)
class Recordings(Product):
    """Which recordings of a system that is run here hold one sound."""

    ref: Ref

    is_essential = True


@dataclass(frozen=True)
class Silence(Product):
    """Digital silence in the evaluated speech of a system.

    Attributes:
        artefacts: of whole recordings; their records count it.
        trims: whether an extractor drops it before it takes the vectors that back ends compare, by its label.
    """

    artefacts: tuple[Ref, ...]
    trims: Mapping[str, bool]


@dataclass(frozen=True)
class EarlyFinding(Product):
    """What was found before anything was computed."""

    finding: Finding


def collect_checks(collected: Collection) -> None:
    """Write ``diagnostics.parquet``, and judge by it which systems protect."""
    graph, outcome, tables = collected.graph, collected.outcome, collected.tables
    table = frame(
        [
            *((early.identity, early.finding) for early in graph.select(EarlyFinding)),
            *find_same_recordings(graph, outcome),
            *_find_of_attacks(collected),
        ]
    )
    table.to_parquet(collected.folder / TABLE, index=False)
    tables["leaderboard"] = verdict.judge(tables["leaderboard"], tables["differences"], table)


def find_same_recordings(graph: Graph, outcome: Outcome) -> Iterator[About]:
    """What is found of systems that were run here and gave one recording for several, or the original."""
    for product in graph.select(Recordings):
        same = IdenticalAudio.of_record(records.read(outcome.artefact(product.ref).folder))
        yield from ((product.identity, finding) for finding in words.same_audio(product.system, same))


def _find_of_attacks(collected: Collection) -> Iterator[About]:
    graph, outcome = collected.graph, collected.outcome
    measured = results.records(collected.measured[collected.measured["value"].notna()])
    eers = _where(measured, {"metric": "eer", "variant": find_eer_definition(collected.measured)})
    silences = {silence.system: silence for silence in graph.select(Silence)}
    for product in graph.select(AttackCheck):
        yield from ((_columns(product.identity), finding) for finding in _judge(product, eers, measured, outcome))
        silence, extractor = silences.get(product.system), product.identity["extractor"]
        if silence is not None and extractor in silence.trims:
            notes = [outcome.artefact(ref).record["notes"][records.SILENCE] for ref in silence.artefacts]
            padded = [milliseconds for note in notes for milliseconds in note["milliseconds"]]
            files, trimmed = sum(note["files"] for note in notes), silence.trims[extractor]
            finding = words.digital_silence(product.system, files, padded, extractor, trimmed=trimmed)
            yield _columns(product.identity), finding
    yield from _hidden(measured, eers, collected.tables["leaderboard"])
    for order in graph.select(ClassOrder):
        record = records.read(outcome.artefact(order.ref).folder)
        if record["auc"] is not None and (record["reversed"] or record["doubtful"]):
            yield _columns(order.identity), words.class_order(record)


def _hidden(rows: Rows, eers: Rows, board: pd.DataFrame) -> Iterator[About]:
    """DeID beside the strongest attack on protected speech of the same set and system, whatever its extractor."""
    tested = {tuple(row[name] for name in SUBSET): row["pp_p_chance"] for row in results.records(board)}
    first: dict[tuple[str, ...], Mapping[str, Any]] = {}
    # Of several definitions of one DeID the usual one, whose variant has no words.
    for row in sorted(_where(rows, {"metric": "deid"}), key=lambda row: len(str(row["variant"]))):
        first.setdefault(tuple(_columns(row).values()), row)
    for deid in first.values():
        rivals = _where(eers, {name: str(deid[name]) for name in SUBSET} | {"condition": "PP"})
        if rivals:
            lowest = min(rivals, key=lambda row: float(row["value"]))
            p = tested.get(tuple(deid[name] for name in SUBSET), math.nan)
            finding = words.deid_against_eer(float(deid["value"]), _rate(lowest), name_attack(lowest), p)
            yield _columns(deid), finding


def _judge(product: AttackCheck, eers: Rows, rows: Rows, outcome: Outcome) -> Iterator[Finding]:
    """What is found of one attack, given all rows with a value and those of them that are its kind of EER."""
    identity = product.identity

    def read(ref: Ref | None) -> dict[str, Any]:
        return {} if ref is None else records.read(outcome.artefact(ref).folder)

    test = _eer(eers, identity)
    same = {name: identity[name] for name in ("dataset", "subset", "extractor", "backend")}
    unprotected = _eer(eers, {**same, "attacker": "unprotected"})
    plain = None if unprotected is None else unprotected.value
    yield from _judge_training(product, test, plain, outcome)
    own, original = (read(ref).get("eer") for ref in (product.on_original, product.original_enrolment))
    if own is not None or plain is not None:
        yield words.on_original(own, plain)
    held_out = read(product.check_on_original)
    if held_out.get("eer") is not None and plain is not None:
        yield words.original_gap(held_out, plain)
    if product.treatment is not None:
        yield words.treated_differently(Treatment(**read(product.treatment)))
    if original is not None and test is not None:
        yield words.original_enrolment(test.value, original)
    if product.levels is not None:
        yield words.training_level(*product.levels, test.value if test else math.nan)
    if product.note:
        yield words.weak_backend(product.note)
    if test is not None and identity["condition"] == "PP":
        yield from _against_srd(test, rows, identity)
    if test is not None and identity["trained_on"] not in ("original", "given"):
        rivals = _where(eers, {name: identity[name] for name in GRID})
        # An attacker with several ways is as strong as the best of them.
        ordered = sorted(rivals, key=lambda row: -float(row["value"]))
        yield words.attackers({str(row["attacker"]): _rate(row) for row in ordered}, identity["attacker"])


def _judge_training(
    product: AttackCheck, test: Rate | None, plain: float | None, outcome: Outcome
) -> Iterator[Finding]:
    """What is found of training speakers: of the training of the extractor, and of this attack as it is on those held out."""
    trained_on = str(product.identity["trained_on"])
    check = None if product.check is None else records.read(outcome.artefact(product.check).folder)
    held_out = check if check is not None and check["eer"] is not None else None
    if product.training is not None and not trained_on.startswith("original;"):
        record = records.read_training(outcome.artefact(product.training).folder)
        speech = "anonymised" if trained_on != "original" else "original"
        # The check is of this attack with its back end; the training verified by cosine.
        of_attack = {**record, "held_out": held_out} if held_out is not None else record
        yield words.held_out(of_attack, plain, speech=speech)
        yield from words.training_gap(record)
        if speech == "anonymised":
            # For an attacker who knows original speech alone, the test is harder because the system protects.
            yield from words.test_gap(of_attack, test.value if test else math.nan)
        yield words.suspected_same_speaker(record)
        if "held_out_before" in record:
            yield words.fine_tuning(record)
    elif check is not None and trained_on != "original":
        yield words.held_out({"speakers": check["speakers"], "held_out": held_out}, plain)


def _against_srd(test: Rate, rows: Rows, identity: Mapping[str, str]) -> Iterator[Finding]:
    same = {name: identity[name] for name in ("system", "extractor", "trained_on")}
    same |= {"estimator": "empirical", "variant": ""}
    means, rates = (_where(rows, same | {"metric": metric}) for metric in ("mean_d", "idr"))
    if len(means) != 1 or len(rates) != 1:
        return
    mean = means[0]
    if pd.notna(mean["null_high"]) and pd.notna(mean["n_speakers"]):
        numbers = float(mean["value"]), float(mean["null_high"]), float(rates[0]["value"]), int(mean["n_speakers"])
        yield words.eer_against_srd(test, *numbers)


def _columns(identity: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(identity[name]) for name in IDENTITY}


def _eer(eers: Rows, identity: Mapping[str, str]) -> Rate | None:
    kept = _where(eers, {name: identity[name] for name in IDENTITY if name in identity})
    return _rate(kept[0]) if len(kept) == 1 else None


def _where(rows: Rows, values: Mapping[str, str]) -> Rows:
    return [row for row in rows if all(row[name] == value for name, value in values.items())]


def _rate(row: Mapping[str, Any]) -> Rate:
    return Rate(float(row["value"]), float(row["low"]), float(row["high"]))
