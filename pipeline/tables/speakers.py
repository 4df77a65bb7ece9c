"""Who is protected worst, as tables of a run folder: ``speakers`` and ``worst_overlap``, each as parquet and as CSV.

A list of the worst belongs to a configuration: to one attack on one system. ``worst_overlap`` says how far two attacks agree.

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
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.tables import answers, written
from pipeline.tables.answers import ATTACK

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
TABLES = {"speakers": SPEAKERS, "worst_overlap": OVERLAP}
FLAGS = {"strongest", "worst"}
WHOLE = {"rank", "n_speakers", "n_target", "n_nontarget", "n_utterances", "listed", "shared"}
TEXTS = {
    "dataset", "subset", "system", *ATTACK, *(f"other_{name}" for name in ATTACK), "speaker", "against_median", "original_attack", "before", "sex",
    "nearest", "doddington", "dunstone_yager", *(name for name in UTTERANCES if name.startswith("utterance")), "status", "reason", "names",
}  # fmt: skip


def frame(name: str, rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Rows as a table with exactly its columns, in order and typed.

    Raises:
        ValueError: an unknown column.
    """
    return answers.typed(rows, TABLES[name], TEXTS, FLAGS, WHOLE)


def read(name: str, folder: Path) -> pd.DataFrame:
    """A table of a run folder; without rows where the run wrote none.

    Raises:
        DataError: it cannot be parsed.
    """
    path = folder / f"{name}.parquet"
    return written.parquet(path) if path.is_file() else frame(name, [])
