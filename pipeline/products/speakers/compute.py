"""Each speaker under each attack on a system, and how far the attacks agree on who is protected worst; mean F0."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pipeline import metrics
from pipeline.contracts import Vectors
from pipeline.engine.task import Work
from pipeline.metrics import MetricError, SpeakerDisclosure, Trials
from pipeline.tables import records, scores

VERSION = "speaker attacks 1"

SPEAKERS, OVERLAPS, PITCH = "speakers.parquet", "overlaps.parquet", "pitch.parquet"
TOP = 3
"""So many of a speaker's own trial utterances are named, those with the most evidence first."""
NUMBERS = ("d_ece", "low", "high", "p_median", "eer", "target_llr", "impostor_llr", "max_llr", "own_score", "nearest_score",
           "n_target", "n_nontarget", "n_utterances")  # fmt: skip
"""Fields of :class:`SpeakerDisclosure` that are columns."""


def measure_speakers(n_attacks: int, work: Work) -> None:
    """Write a row an attack and speaker, on the trials that all attacks have, and a row a pair of attacks.

    ``speakers.parquet``: attack (number of its input ``scores.K``), speaker, rank, worst, :data:`NUMBERS`, median, nearest,
    doddington, dunstone_yager, utterance_1, llr_1 and so on. ``overlaps.parquet``: attack_a, attack_b, n_speakers, listed, shared,
    jaccard, both at chance, p_value, rank_correlation, names. Where nothing can be measured there is no row, and the record has the
    reason.
    """
    tables = scores.common([pd.read_parquet(work.input(f"scores.{k}").path(scores.TRIALS)) for k in range(n_attacks)])
    reason, disclosures = "", []
    names: np.ndarray = np.array([], str)
    try:
        sides = [tables[0][name].to_numpy(str) for name in ("model_speaker", "speaker")]
        names, codes = np.unique(np.concatenate(sides), return_inverse=True)
        enrolled, spoken = codes[: len(sides[0])].astype(np.int64), codes[len(sides[0]) :].astype(np.int64)
        utterances = np.unique(tables[0]["utterance"].to_numpy(str), return_inverse=True)[1].astype(np.int64)
        trials = [Trials(table["score"].to_numpy(np.float64), enrolled, spoken) for table in tables]
        disclosures = [metrics.measure_speakers(attack, utterances) for attack in trials]
    except MetricError as error:
        reason = str(error)
    rows = [
        row for number, disclosure in enumerate(disclosures) for row in _rows(number, disclosure, names, tables[number])
    ]
    folder = work.folder()
    pd.DataFrame(rows).to_parquet(folder / SPEAKERS, index=False)
    pd.DataFrame(list(_overlaps(disclosures, names))).to_parquet(folder / OVERLAPS, index=False)
    records.write(folder, {"reason": reason, "interval_reason": disclosures[0].certainty.reason if disclosures else ""})


def _rows(
    number: int, disclosure: SpeakerDisclosure, names: np.ndarray, table: pd.DataFrame
) -> Iterator[dict[str, Any]]:
    """The speakers under one attack, the worst first."""
    zoo = metrics.zoo(disclosure.target_llr, disclosure.impostor_llr)
    values = metrics.flatten(disclosure)
    evidence = _evidence(disclosure, table)
    # Equal values share their rank.
    rank = pd.Series(-disclosure.d_ece).rank(method="min").to_numpy(int)
    listed = metrics.count_listed(disclosure.speakers.size)
    for place, k in enumerate(disclosure.order):
        name, nearest = str(names[disclosure.speakers[k]]), int(disclosure.neighbours.nearest[k])
        fields = {field: np.asarray(values[field])[k].item() for field in NUMBERS}
        yield {
            "attack": number,
            "speaker": name,
            "rank": int(rank[k]),
            "worst": place < listed,
            **fields,
            "median": disclosure.certainty.median,
            "nearest": str(names[nearest]) if nearest >= 0 else "",
            "doddington": zoo.doddington[k],
            "dunstone_yager": zoo.dunstone_yager[k],
            **evidence.get(name, {}),
        }


def _evidence(disclosure: SpeakerDisclosure, table: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Of each speaker the own trial utterances with the highest scores, and their LLRs."""
    own = table.loc[table["target"].to_numpy(bool), ["speaker", "utterance", "score"]]
    own = own.sort_values(["speaker", "score", "utterance"], ascending=[True, False, True], kind="stable")
    own = own.drop_duplicates(["speaker", "utterance"])
    own = own.assign(llr=disclosure.map.apply(own["score"].to_numpy(np.float64)))
    evidence: dict[str, dict[str, Any]] = {}
    for name, part in own.groupby("speaker", sort=False):
        first = part.head(TOP)
        for n, (utterance, llr) in enumerate(zip(first["utterance"], first["llr"]), 1):
            evidence.setdefault(str(name), {}).update({f"utterance_{n}": utterance, f"llr_{n}": llr})
    return evidence


def _overlaps(disclosures: Sequence[SpeakerDisclosure], names: np.ndarray) -> Iterator[dict[str, Any]]:
    """How much the lists of the worst have in common, of each two attacks."""
    for (a, first), (b, second) in itertools.combinations(enumerate(disclosures), 2):
        n = first.speakers.size
        listed = metrics.count_listed(n)
        lists = [each.speakers[each.order[:listed]] for each in (first, second)]
        both = metrics.overlap(lists[0], lists[1], n)
        # Spearman's; NaN where all speakers are alike.
        ranks = [pd.Series(each.d_ece).rank().to_numpy(np.float64) for each in (first, second)]
        is_flat = min(np.ptp(each) for each in ranks) == 0
        yield {
            "attack_a": a,
            "attack_b": b,
            "n_speakers": n,
            "listed": listed,
            **{
                name: getattr(both, name)
                for name in ("shared", "shared_chance", "jaccard", "jaccard_chance", "p_value")
            },
            "rank_correlation": math.nan if is_flat else float(np.corrcoef(ranks[0], ranks[1])[0, 1]),
            "names": ", ".join(str(names[code]) for code in lists[0] if code in set(lists[1].tolist())),
        }


def measure_pitch(frequencies: tuple[float, ...], work: Work) -> None:
    """Write the mean F0 in Hz of each speaker, over the voiced frames of his utterances (speaker, hertz, frames).

    The input ``vectors`` are histograms of F0 whose entries stand for these frequencies, weighed by their voiced frames.
    """
    told: Vectors = work.input("vectors")
    told = told.usable()
    hertz = np.asarray(frequencies)
    each = told.vectors.astype(np.float64) @ hertz
    whose, place = np.unique(np.asarray(told.speakers, dtype=str), return_inverse=True)
    frames = np.bincount(place, told.weights, len(whose))
    table = pd.DataFrame(
        {"speaker": whose, "hertz": np.bincount(place, told.weights * each, len(whose)) / frames, "frames": frames}
    )
    table.to_parquet(work.folder() / PITCH, index=False)
