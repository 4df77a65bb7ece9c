"""What each attack still tells of each speaker, whether they could be recognised before, and what may be the cause."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.datasets.prepare import Prepared
from pipeline.engine.outcome import Outcome
from pipeline.engine.task import Ref
from pipeline.products import FIGURES, Collection, name_in_figures
from pipeline.products.speakers.compute import OVERLAPS, PITCH, SPEAKERS
from pipeline.report import verdict as words
from pipeline.stages.graph import Product
from pipeline.stages.suggestions import families_with
from pipeline.tables import answers, manifest, records, results
from pipeline.tables.answers import ATTACK

Row = dict[str, Any]
ALPHA = 0.05
"""p-values up to it tell a speaker apart from the median one."""
OWN = ("speaker", "rank", "worst", "d_ece", "median", "p_median", "eer", "target_llr", "impostor_llr", "max_llr", "own_score", "nearest",
       "nearest_score", "n_target", "n_nontarget", "n_utterances", "doddington", "dunstone_yager", *answers.UTTERANCES)  # fmt: skip
"""Columns that are those of the artefact."""
OVERLAP = ("listed", "shared", "shared_chance", "jaccard", "jaccard_chance", "p_value", "rank_correlation", "names")
ABSENT = {
    "alid": ("the attack has no ALID, which needs every candidate tried with every utterance", "alid"),
    "srd_rank_median": ("this speaker has no similarity rank with this extractor", "mean_d"),
    "deid": ("there are no similarity matrices with this extractor and back end", "deid"),
    "mean_f0": ("F0 is not extracted in this run, or this speaker has no voiced frame", ""),
}
"""Why a column is absent, and the metric whose family gives it."""
FIGURED = {
    "lid_speakers": ("alid", ("system", "subset", "condition", "attacker", "backend", "speaker")),
    "speaker_ranks": ("srd_rank_median", ("system", "speaker")),
    "speakers": ("deid", ("system", "subset", "backend", "speaker")),
}
"""Tables for figures, with the column that is taken and what tells its rows apart beside the extractor."""


@dataclass(frozen=True)
class SpeakersAttacked(Product):
    """Each speaker under each attack on a system, on one subset.

    Attributes:
        ref: the artefact (:func:`pipeline.products.speakers.compute.measure_speakers`).
        attacks: columns of the results schema of each attack, in the order of their scores.
    """

    ref: Ref
    attacks: tuple[Mapping[str, str], ...]

    needs_rank = True

    @property
    def subset(self) -> str:
        return self.identity["subset"]

    @property
    def is_unprotected(self) -> bool:
        """Whether the system is unprotected speech."""
        return all(attack["condition"] == "OO" for attack in self.attacks)


@dataclass(frozen=True)
class Pitch(Product):
    """The mean F0 of the speakers of a system (:func:`pipeline.products.speakers.compute.measure_pitch`)."""

    ref: Ref

    needs_rank = True


def collect_speakers(collected: Collection) -> None:
    """Add the tables of :mod:`pipeline.tables.speakers`; the leaderboard says which attack is the strongest, and whether the attacks
    stand on everything."""
    outcome = collected.outcome
    boards = {(row["subset"], row["system"]): row for row in results.records(collected.tables["leaderboard"])}
    context = _Context.read(collected)
    products = collected.graph.select(SpeakersAttacked)
    original = {
        product.subset: _originals(product, outcome, boards.get((product.subset, product.system), {}))
        for product in products
        if product.is_unprotected
    }
    rows: list[Row] = []
    overlaps: list[Row] = []
    for product in products:
        board = boards.get((product.subset, product.system), {})
        speakers_of = list(_speaker_rows(product, outcome, board, context, original.get(product.subset, {})))
        rows += sorted(speakers_of, key=lambda row: (not row["strongest"], row["place"], row.get("rank", 0)))
        pairs = list(_overlap_rows(product, outcome, board))
        overlaps += sorted(pairs, key=lambda row: not row["strongest"])
    for row in rows:
        del row["place"]
    collected.tables["speakers"] = answers.frame("speakers", rows)
    collected.tables["worst_overlap"] = answers.frame("worst_overlap", overlaps)


def _is_strongest(attack: Mapping[str, str], board: Mapping[str, Any]) -> bool:
    return bool(board) and all(attack[name] == board[name] for name in ATTACK)


def _originals(product: SpeakersAttacked, outcome: Outcome, board: Mapping[str, Any]) -> dict[str, Row]:
    """Each speaker under the strongest attack on unprotected speech, where it stands on everything."""
    if board.get("status") not in ("ok", "partial"):
        return {}
    numbers = [number for number, attack in enumerate(product.attacks) if _is_strongest(attack, board)]
    originals = {}
    for row in results.records(pd.read_parquet(outcome.artefact(product.ref).path(SPEAKERS))):
        if row["attack"] in numbers:
            shown = "recognised" if row["low"] > 0 else "not shown"
            originals[str(row["speaker"])] = {
                "original_d_ece": row["d_ece"],
                "original_d_ece_low": row["low"],
                "original_d_ece_high": row["high"],
                "original_eer": row["eer"],
                "original_attack": words.describe_attack(product.attacks[row["attack"]]),
                "before": "" if math.isnan(row["low"]) else shown,
            }
    return originals


# ---------------------------------------------------------------------------------------------------- what is known of them


Figured = dict[tuple[str, ...], dict[str, float]]
"""A column of a table for figures, by what a row is about and the extractor."""


@dataclass(frozen=True)
class _Context:
    """What is known of speakers beside their scores.

    Attributes:
        sexes: by speaker.
        seconds: of recordings by subset and speaker, (tried, enrolled).
        figures: a column of each of :data:`FIGURED`; nothing where the run has no such table.
        original: mean F0 in Hz of original recordings by speaker.
        pitches: mean F0 in Hz of recordings by system and speaker.
    """

    sexes: Mapping[str, str]
    seconds: Mapping[tuple[str, str], tuple[float, float]]
    figures: Mapping[str, Figured]
    original: Mapping[str, float]
    pitches: Mapping[str, Mapping[str, float]]

    @classmethod
    def read(cls, collected: Collection) -> _Context:
        """From the manifest, from tables for figures in the run folder, and from what was heard of F0."""
        graph, manifest_rows = collected.graph, collected.data.manifest
        pitches = {}
        for pitch in graph.select(Pitch):
            table = pd.read_parquet(collected.outcome.artefact(pitch.ref).path(PITCH))
            pitches[pitch.system] = dict(zip(table["speaker"].astype(str), table["hertz"].astype(float)))
        unprotected = [product.system for product in graph.select(SpeakersAttacked) if product.is_unprotected]
        original = next((pitches[system] for system in unprotected if system in pitches), {})
        figures = {
            name: _read_figured(collected.folder / FIGURES / f"{name}.parquet", column, key)
            for name, (column, key) in FIGURED.items()
        }
        sexes = dict(zip(manifest_rows["speaker"], manifest_rows["sex"])) if len(manifest_rows) else {}
        return cls(sexes, dict(_seconds(collected.data)), figures, original, pitches)

    def value(self, table: str, speaker: Mapping[str, str], extractors: Sequence[str]) -> float:
        """What a table for figures says of a speaker, by the first extractor of which it says something."""
        values = self.figures[table].get(tuple(speaker[name] for name in FIGURED[table][1]), {})
        for extractor in extractors:
            # What follows a name says by which of several definitions, or that it is another extractor.
            another = f"{extractor}, trained on "
            defined = [name for name in values if name.startswith(f"{extractor}, ") and not name.startswith(another)]
            for name in (extractor, *defined):
                if not math.isnan(values.get(name, math.nan)):
                    return values[name]
        return math.nan


def _read_figured(path: Path, column: str, key: Sequence[str]) -> Figured:
    figured: Figured = {}
    if path.is_file():
        for row in results.records(pd.read_parquet(path)):
            values = figured.setdefault(tuple(str(row[name]) for name in key), {})
            values.setdefault(str(row["extractor"]), float(row[column]))
    return figured


def _seconds(data: Prepared) -> Iterator[tuple[tuple[str, str], tuple[float, float]]]:
    """Seconds of recordings of each speaker of each trial set: those that are tried, and those that are enrolled."""
    if not len(data.manifest):
        return
    rows = data.manifest.assign(seconds=manifest.seconds(data.manifest))
    for name, trial_set in data.trials.items():
        sides = ((name, trial_set.trials), (trial_set.enrolment_set, trial_set.enrolment))
        tried, enrolled = (
            rows[(rows["set"] == place) & rows["utterance"].isin(set(table["utterance"]))]
            .groupby("speaker")["seconds"]
            .sum()
            for place, table in sides
        )
        for speaker in sorted({*tried.index, *enrolled.index}):
            yield (name, str(speaker)), (float(tried.get(speaker, math.nan)), float(enrolled.get(speaker, math.nan)))


# ---------------------------------------------------------------------------------------------------------------- rows


def _speaker_rows(
    product: SpeakersAttacked,
    outcome: Outcome,
    board: Mapping[str, Any],
    context: _Context,
    original: Mapping[str, Row],
) -> Iterator[Row]:
    artefact = outcome.artefact(product.ref)
    table = pd.read_parquet(artefact.path(SPEAKERS))
    interval_reason = records.read(artefact.folder)["interval_reason"]
    counts: Mapping[int, int] = dict(table["attack"].value_counts()) if len(table) else {}
    for row in results.records(table):
        attack = product.attacks[row["attack"]]
        columns = {name: attack[name] for name in ("dataset", "subset", "system", *ATTACK)}
        columns |= {"speaker": row["speaker"], "strongest": _is_strongest(attack, board), "place": row["attack"]}
        columns["status"] = board.get("status", "incomplete")
        if columns["status"] == "incomplete":
            yield {**columns, "reason": str(board.get("reason", ""))}
            continue
        columns |= {name: row[name] for name in OWN if name in row}
        columns |= {"d_ece_low": row["low"], "d_ece_high": row["high"], "n_speakers": int(counts[row["attack"]])}
        if not math.isnan(row["p_median"]):
            differs = "above" if row["d_ece"] > row["median"] else "below"
            columns["against_median"] = "alike" if row["p_median"] > ALPHA else differs
        if attack["condition"] != "OO":
            columns |= original.get(row["speaker"], {})
        causes = _causes(attack, row["speaker"], context)
        absent = {"interval": interval_reason} if interval_reason else {}
        absent |= {
            name: f"{reason} ({families_with(metric)})" if metric else reason
            for name, (reason, metric) in ABSENT.items()
            if math.isnan(causes.get(name, 0.0))
        }
        yield {**columns, **causes, "reason": "; ".join(f"{name}: {reason}" for name, reason in absent.items())}


def _causes(attack: Mapping[str, str], speaker: str, context: _Context) -> Row:
    system, subset = attack["system"], attack["subset"]
    identity = {**attack, "speaker": speaker}
    extractors = list(dict.fromkeys((name_in_figures(attack), attack["extractor"])))
    tried, enrolled = context.seconds.get((subset, speaker), (math.nan, math.nan))
    causes: Row = {
        "alid": context.value("lid_speakers", identity, extractors[:1]),
        "srd_rank_median": context.value("speaker_ranks", identity, extractors),
        "sex": context.sexes.get(speaker, ""),
        "trial_seconds": tried,
        "enrolment_seconds": enrolled,
        "mean_f0": context.original.get(speaker, math.nan),
    }
    if attack["condition"] != "OO":
        # Pairs have no enrolment: their back end is that of all attacks that its parameters serve.
        pairs = {**identity, "backend": attack["backend"].partition(", ")[0]}
        causes["deid"] = context.value("speakers", pairs, extractors)
        causes["mean_f0_protected"] = context.pitches.get(system, {}).get(speaker, math.nan)
    return causes


def _overlap_rows(product: SpeakersAttacked, outcome: Outcome, board: Mapping[str, Any]) -> Iterator[Row]:
    """Pairs of attacks; where one of them is the strongest it comes first."""
    status = board.get("status", "incomplete")
    for row in results.records(pd.read_parquet(outcome.artefact(product.ref).path(OVERLAPS))):
        first, second = product.attacks[row["attack_a"]], product.attacks[row["attack_b"]]
        if _is_strongest(second, board):
            first, second = second, first
        columns = {name: first[name] for name in ("dataset", "subset", "system", *ATTACK)}
        columns |= {f"other_{name}": second[name] for name in ATTACK}
        columns |= {"status": status, "n_speakers": row["n_speakers"], "strongest": _is_strongest(first, board)}
        yield columns if status == "incomplete" else {**columns, **{name: row[name] for name in OVERLAP}}
