"""What a run answers, as tables of its folder, each as parquet and as CSV: ``leaderboard``, ``attacks`` and ``differences``; and who is
protected worst: ``speakers`` and ``worst_overlap``, which says how far two attacks agree on that (a list of the worst belongs to one attack
on one system); and what would have been seen: ``limits`` and ``leak_curves``.

Fractions, bits and dB as in the results. Intervals and null bands are those of :mod:`pipeline.metrics.maximum` and of the rows of results
that a column is taken from; tests are those of :mod:`pipeline.metrics.swaps`. Absent numbers are NaN, absent texts ''.

``leaderboard``: a row a subset (or mean over subsets, by its name) and system.
    anonymised: whether the system is not unprotected speech. verdict: ``protects`` | ``withheld`` | ``not shown to protect`` | ``discloses more`` |
    ``not tested`` | ``not compared`` (:mod:`pipeline.report.verdict`), '' without a number; withheld: why no verdict is given.
    n_sets: 1, or how many sets it is a mean of; on a mean the strongest attack of each set counts. rank: 1 and one more for each system that
    is shown to be better (p_holm at most 0.05 under each one's strongest attack); none of what does not protect. condition attacker extractor
    trained_on backend: the attack with the highest D_ECE; by_set: that in words where it is another one on each set of a mean, and those columns
    have all of theirs. n_attacks: so many were tried. contenders: how many of them cannot be told from the strongest. untried: what was asked for and
    has no attack, or none on all of these sets. unchecked: why it was not checked whether the attacks were strong enough. d_ece: the raw maximum
    over all attacks, which is too high by chance; d_ece_low and d_ece_high: the interval of the maximum; d_ece_corrected: the maximum corrected for this
    optimism, which decides the order of rows. null_low, null_high: null band of the raw maximum; p_chance: share of permutations that reach it. eer: of
    this attack, with an interval that holds however the attack was chosen. lowest_eer: the lowest EER of all attacks, with the interval of
    that minimum; lowest_eer_attack: the attack that has it. pp_attack: the strongest attack that enrols protected speech ('' where there is none), with
    pp_d_ece, pp_eer and pp_p_chance, the share of permutations in which one of those attacks reaches pp_d_ece. l_w, its ceiling and tag: of the attack; of
    a mean the worst of its sets. alid: of this attack, with log2 of the enrolled speakers alid_ceiling, and alid_chance (ALID_0), what it is worth where any
    candidate may be the speaker. mean_d idr deid g_vd: of the extractor of the attack where it has them, else the value that discloses most, by
    ``*_by``; of a mean over sets the mean of theirs, where all have one. chance: ``''`` | ``within`` | ``above`` the null band. limit: the smallest share of utterances that would have been seen
    above the null band if they had passed unprotected, in 95 % of draws (0: this system is above it as it is); limit_rise: what they add to D_ECE.
``attacks``: a row a subset, system and attack, the strongest first: d_ece and eer with the interval of this attack alone; ``contends``: whether it cannot
    be told from the strongest; held_out: EER on held-out training speakers of the system's anonymised speech, of attacks that were adapted to it.
``differences``: a row a subset, pair of systems, kind of attack and metric: ``difference`` = value - reference_value. under: ``strongest`` (each one's) or
    ``same`` (one attack on both). p_value: two-sided, systems swapped speaker by speaker; p_holm: corrected over the rows with the same subset,
    under, metric and unprotected. baseline: whether the reference is the one of ``report.baseline``; unprotected: whether it is unprotected speech.
``speakers``: a row a subset, system, attack and speaker who is enrolled and tried, the worst protected first. Fractions, bits and nats as in
the results (:mod:`pipeline.metrics.speaker_disclosure`); all numbers of one attack stand on the trials that all attacks have.
    condition attacker extractor trained_on backend: the attack. strongest: whether it is the one of the leaderboard on this subset.
    rank: 1 is whom the attack tells most of, by ``d_ece``; equal values share theirs. worst: on the list of the worst (one in ten of the
    speakers, three at least, never more than half). d_ece: D_ECE of the speaker's own targets and of the non-targets in which he is on either
    side, under the map of the whole set, with a 95 % interval over his utterances and the other speakers. median: of the speakers.
    p_median: of the difference from the median speaker, Holm-corrected over the speakers of this attack. against_median: ``above`` or
    ``below`` where p_median is at most 0.05, ``alike`` where the speaker cannot be told apart from the median one, '' where that is not known.
    eer: EER (rocch) of the same trials alone. alid: ALID of his own trials (metric=lid). srd_rank_median: median similarity rank (metric=srd) of the
    extractor, as it was trained on the system's speech where it was. deid: DeID_i (metric=vsm), the view of who knows original speech only.
    original_*: the same speaker under the strongest attack on unprotected speech, named by original_attack; before: ``recognised`` where the interval
    of original_d_ece lies above 0, ``not shown`` where it does not, '' where unprotected speech is not attacked: of the last two nobody can say that
    the system protects them badly.
    sex: f, m, u (unknown) or ''. mean_f0, mean_f0_protected: in Hz, of his original and protected recordings (pYIN, voiced frames), where the run extracts
    F0. trial_seconds, enrolment_seconds: of his recordings, pauses included. n_target, n_nontarget, n_utterances: of his trials.
    nearest: the other speaker with the highest mean score in trials of the two; nearest_score beside own_score, the mean of his targets.
    target_llr, impostor_llr, max_llr, doddington, dunstone_yager: his place in the zoo of this attack. utterance_1, llr_1 to _3: his trial utterances
    with the most evidence. reason: why numbers are absent, each by name.
``worst_overlap``: a row a subset, system and pair of attacks, those with the strongest first. listed: length of both lists, out of n_speakers. shared: speakers
    on both (names), jaccard: over speakers on either, both with what lists drawn at random give (shared_chance, jaccard_chance); p_value: how often those
    share as many. rank_correlation: Spearman's, of d_ece of all speakers.
``limits``: a row a subset, system and unit (``utterance`` or ``speaker``): the leak that would have been seen (:mod:`pipeline.metrics.phantoms`): share,
    with the D_ECE that it leads to, its rise, so many units and draws, and the threshold, which is the upper end of the null band; reason: why there is none.
``leak_curves``: a row a subset, system, unit and share of them that passes unprotected: D_ECE on average, and power, how often it is above the null band.
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
    "d_ece", "d_ece_low", "d_ece_high", "d_ece_corrected", "null_low", "null_high", "p_chance", "chance", "limit", "limit_rise",
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
CURVES = ["dataset", "subset", "system", "unit", "share", "d_ece", "power"]
ANSWERS = ("leaderboard", "attacks", "differences")
TABLES = {
    "leaderboard": LEADERBOARD, "attacks": ATTACKS, "differences": DIFFERENCES, "speakers": SPEAKERS, "worst_overlap": OVERLAP,
    "limits": LIMITS, "leak_curves": CURVES,
}  # fmt: skip
FLAGS = {"anonymised", "contends", "baseline", "unprotected", "exact", "strongest", "worst"}
INTEGERS = {*COUNTS, "rank", "n_compared", "n_utterances", "listed", "shared"}
TEXTS = {
    "dataset", "subset", "system", "system_level", *ATTACK, "by_set", "verdict", "withheld", "untried", "unchecked", "lowest_eer_attack",
    "pp_attack", "chance", "tag", *(f"{name}_by" for name in TAKEN), "status", "reason", "interval_reason", "null_reason", "under",
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
    """A table of a run folder; without rows where the run wrote none.

    Raises:
        DataError: it cannot be parsed.
    """
    path = folder / f"{name}.parquet"
    if not path.is_file():
        return frame(name, [])
    table = run_files.read_parquet(path)
    # An earlier version called it so, whether anything was shown or not.
    table = table.rename(columns={"protects": "anonymised"})
    if set(table.columns) >= set(TABLES[name]):
        return table
    # An earlier version knew fewer columns: those are absent.
    present = [column for column in TABLES[name] if column in table.columns]
    return frame(name, [dict(zip(present, row)) for row in table[present].itertuples(index=False, name=None)])
