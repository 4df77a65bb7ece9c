"""Speakers: what each attack still tells of each of them, whether they could be recognised before, and what may be the cause."""

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
from pipeline.products.averages.plan import maker
from pipeline.products.speakers.compute import OVERLAPS, PITCH, SPEAKERS
from pipeline.report import verdict as words
from pipeline.stages.graph import FIGURES, Graph, OfSpeakers, name_in_figures
from pipeline.tables import answers, manifest, records, results
from pipeline.tables.answers import ATTACK

Row = dict[str, Any]
ALPHA = 0.05
"""p-values up to it tell a speaker apart from the median one."""
OWN = ("speaker", "rank", "worst", "d_ece", "median", "p_median", "eer", "target_llr", "impostor_llr", "max_llr", "own_score", "nearest",
       "nearest_score", "n_target", "n_nontarget", "n_utterances", "doddington", "dunstone_yager", *answers.UTTERANCES)  # fmt: skip
"""Columns that are those of the artefact."""
ABSENT = {
    "alid": ("the attack has no ALID, which needs every candidate tried with every utterance", "alid"),
    "srd_rank_median": ("this speaker has no similarity rank with this extractor", "mean_d"),
    "deid": ("there are no similarity matrices with this extractor and back end", "deid"),
    "mean_f0": ("F0 is not extracted in this run, or this speaker has no voiced frame", ""),
}
"""Why a column is absent, and the metric whose family gives it."""


def formed(
    graph: Graph, data: Prepared, outcome: Outcome, board: pd.DataFrame, folder: Path
) -> dict[str, pd.DataFrame]:
    """The tables of :mod:`pipeline.tables.answers`.

    Args:
        board: the leaderboard, which says which attack is the strongest, and whether the attacks stand on everything.
        folder: of the run, with its tables for figures.
    """
    shown = {(row["subset"], row["system"]): row for row in results.records(board)}
    about = _Known.of(data, folder, graph, outcome)
    original = {
        each.subset: _originals(each, outcome, shown.get((each.subset, each.system), {}))
        for each in graph.speakers
        if _unprotected(each)
    }
    rows: list[Row] = []
    overlaps: list[Row] = []
    for each in graph.speakers:
        of_board = shown.get((each.subset, each.system), {})
        found = list(_speakers(each, outcome, of_board, about, original.get(each.subset, {})))
        rows += sorted(found, key=lambda row: (not row["strongest"], row["place"], row.get("rank", 0)))
        pairs = list(_overlaps(each, outcome, of_board))
        overlaps += sorted(pairs, key=lambda row: not row["strongest"])
    for row in rows:
        del row["place"]
    return {"speakers": answers.frame("speakers", rows), "worst_overlap": answers.frame("worst_overlap", overlaps)}


def _unprotected(each: OfSpeakers) -> bool:
    return all(attack["condition"] == "OO" for attack in each.attacks)


def _pitch(outcome: Outcome, ref: Ref) -> dict[str, float]:
    table = pd.read_parquet(outcome.artefact(ref).path(PITCH))
    return dict(zip(table["speaker"].astype(str), table["hertz"].astype(float)))


def _is_strongest(attack: Mapping[str, str], of_board: Mapping[str, Any]) -> bool:
    return bool(of_board) and all(attack[name] == of_board[name] for name in ATTACK)


def _originals(each: OfSpeakers, outcome: Outcome, of_board: Mapping[str, Any]) -> dict[str, Row]:
    """Each speaker under the strongest attack on unprotected speech, where it stands on everything."""
    if of_board.get("status") not in ("ok", "partial"):
        return {}
    numbers = [number for number, attack in enumerate(each.attacks) if _is_strongest(attack, of_board)]
    found = {}
    for row in results.records(pd.read_parquet(outcome.artefact(each.ref).path(SPEAKERS))):
        if row["attack"] in numbers:
            known = not math.isnan(row["low"])
            found[str(row["speaker"])] = {
                "original_d_ece": row["d_ece"],
                "original_d_ece_low": row["low"],
                "original_d_ece_high": row["high"],
                "original_eer": row["eer"],
                "original_attack": words.describe_attack(each.attacks[row["attack"]]),
                "before": ("recognised" if row["low"] > 0 else "not shown") if known else "",
            }
    return found


# ---------------------------------------------------------------------------------------------------- what is known of them


FIGURED = {
    "lid_speakers": ("alid", ("system", "subset", "condition", "attacker", "backend", "speaker")),
    "speaker_ranks": ("srd_rank_median", ("system", "speaker")),
    "speakers": ("deid", ("system", "subset", "backend", "speaker")),
}
"""Tables for figures, with the column that is taken and what tells its rows apart beside the extractor."""


@dataclass(frozen=True)
class _Known:
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
    def of(cls, data: Prepared, folder: Path, graph: Graph, outcome: Outcome) -> _Known:
        """From the manifest, from tables for figures in the run folder, and from what was heard of F0."""
        pitches = {system: _pitch(outcome, ref) for system, ref in graph.pitches.items()}
        original = next(
            (pitches[each.system] for each in graph.speakers if _unprotected(each) and each.system in pitches), {}
        )
        figures = {name: _figured(folder / FIGURES / f"{name}.parquet", *of) for name, of in FIGURED.items()}
        sexes = dict(zip(data.manifest["speaker"], data.manifest["sex"])) if len(data.manifest) else {}
        return cls(sexes, dict(_seconds(data)), figures, original, pitches)

    def value(self, table: str, about: Mapping[str, str], extractors: Sequence[str]) -> float:
        """What a table for figures says of a speaker, by the first extractor of which it says something."""
        key = tuple(about[name] for name in FIGURED[table][1])
        found = self.figures[table].get(key, {})
        for extractor in extractors:
            # What follows a name says by which of several definitions, or that it is another extractor.
            others = (f"{extractor}, ", f"{extractor}, trained on ")
            mine = [name for name in found if name.startswith(others[0]) and not name.startswith(others[1])]
            for name in (extractor, *mine):
                if not math.isnan(found.get(name, math.nan)):
                    return found[name]
        return math.nan


Figured = dict[tuple[str, ...], dict[str, float]]
"""A column of a table for figures, by what a row is about and the extractor."""


def _figured(path: Path, column: str, key: Sequence[str]) -> Figured:
    found: Figured = {}
    if path.is_file():
        for row in results.records(pd.read_parquet(path)):
            found.setdefault(tuple(str(row[name]) for name in key), {}).setdefault(
                str(row["extractor"]), float(row[column])
            )
    return found


def _seconds(data: Prepared) -> Iterator[tuple[tuple[str, str], tuple[float, float]]]:
    """Seconds of recordings of each speaker of each trial set: those that are tried, and those that are enrolled."""
    if not len(data.manifest):
        return
    rows = data.manifest.assign(seconds=manifest.seconds(data.manifest))
    for name, trial_set in data.trials.items():
        sides = ((name, trial_set.trials), (trial_set.enrolment_set, trial_set.enrolment))
        tried, enrolled = (
            rows[(rows["set"] == of) & rows["utterance"].isin(set(table["utterance"]))]
            .groupby("speaker")["seconds"]
            .sum()
            for of, table in sides
        )
        for speaker in sorted({*tried.index, *enrolled.index}):
            yield (name, str(speaker)), (float(tried.get(speaker, math.nan)), float(enrolled.get(speaker, math.nan)))


# ---------------------------------------------------------------------------------------------------------------- rows


def _speakers(
    each: OfSpeakers, outcome: Outcome, of_board: Mapping[str, Any], about: _Known, original: Mapping[str, Row]
) -> Iterator[Row]:
    made = outcome.artefact(each.ref)
    table = pd.read_parquet(made.path(SPEAKERS))
    said = records.read(made.folder)["interval_reason"]
    counts: Mapping[int, int] = dict(table["attack"].value_counts()) if len(table) else {}
    for row in results.records(table):
        attack = each.attacks[row["attack"]]
        base = {**{name: attack[name] for name in ("dataset", "subset", "system", *ATTACK)}, "speaker": row["speaker"]}
        base |= {"strongest": _is_strongest(attack, of_board), "place": row["attack"]}
        base["status"] = of_board.get("status", "incomplete")
        if base["status"] == "incomplete":
            yield {**base, "reason": str(of_board.get("reason", ""))}
            continue
        base |= {name: row[name] for name in OWN if name in row}
        base |= {"d_ece_low": row["low"], "d_ece_high": row["high"], "n_speakers": int(counts[row["attack"]])}
        base["against_median"] = _against(row)
        if attack["condition"] != "OO":
            base |= original.get(row["speaker"], {})
        absent = {"interval": said} if said else {}
        base |= _why(attack, row["speaker"], about, absent)
        yield {**base, "reason": "; ".join(f"{name}: {why}" for name, why in absent.items())}


def _against(row: Mapping[str, Any]) -> str:
    if math.isnan(row["p_median"]):
        return ""
    if row["p_median"] > ALPHA:
        return "alike"
    return "above" if row["d_ece"] > row["median"] else "below"


def _why(attack: Mapping[str, str], speaker: str, about: _Known, absent: dict[str, str]) -> Row:
    """What else is known of a speaker; what is absent gets its reason."""
    system, subset = attack["system"], attack["subset"]
    mine = {**attack, "speaker": speaker}
    extractors = list(dict.fromkeys((name_in_figures(attack), attack["extractor"])))
    tried, enrolled = about.seconds.get((subset, speaker), (math.nan, math.nan))
    found: Row = {
        "alid": about.value("lid_speakers", mine, extractors[:1]),
        "srd_rank_median": about.value("speaker_ranks", mine, extractors),
        "sex": about.sexes.get(speaker, ""),
        "trial_seconds": tried,
        "enrolment_seconds": enrolled,
        "mean_f0": about.original.get(speaker, math.nan),
    }
    protects = attack["condition"] != "OO"
    if protects:
        # Pairs have no enrolment: their back end is that of all attacks that its parameters serve.
        pairs = {**mine, "backend": attack["backend"].partition(", ")[0]}
        found["deid"] = about.value("speakers", pairs, extractors)
        found["mean_f0_protected"] = about.pitches.get(system, {}).get(speaker, math.nan)
    for name, (why, metric) in ABSENT.items():
        if math.isnan(found.get(name, 0.0)):
            absent[name] = f"{why} ({maker(metric)})" if metric else why
    return found


def _overlaps(each: OfSpeakers, outcome: Outcome, of_board: Mapping[str, Any]) -> Iterator[Row]:
    """Pairs of attacks; where one of them is the strongest it comes first."""
    status = of_board.get("status", "incomplete")
    for row in results.records(pd.read_parquet(outcome.artefact(each.ref).path(OVERLAPS))):
        pair = [each.attacks[row["attack_a"]], each.attacks[row["attack_b"]]]
        if _is_strongest(pair[1], of_board):
            pair.reverse()
        one, other = pair
        base = {name: one[name] for name in ("dataset", "subset", "system", *ATTACK)}
        base |= {**{f"other_{name}": other[name] for name in ATTACK}, "status": status, "n_speakers": row["n_speakers"]}
        base["strongest"] = _is_strongest(one, of_board)
        if status != "incomplete":
            kept = (
                "listed",
                "shared",
                "shared_chance",
                "jaccard",
                "jaccard_chance",
                "p_value",
                "rank_correlation",
                "names",
            )
            base |= {name: row[name] for name in kept}
        yield base
