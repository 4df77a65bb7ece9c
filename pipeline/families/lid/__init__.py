"""Disclosure of one among N candidates: what each trial utterance says about who of the enrolled speakers speaks."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd
from pydantic import field_validator

from pipeline import contracts
from pipeline.contracts import FigureTable, Measured, Metric, Row, Trials, numeric
from pipeline.families._rows import field_of, row
from pipeline.families._trials import coded, counts
from pipeline.families._uncertainty import UncertaintySettings, bands, intervals
from pipeline.metrics import (
    Lid,
    LidChance,
    MetricError,
    RankLlr,
    TprEvidence,
    Undefined,
    chance_exceedance,
    exceedance,
    length_by_speaker,
    length_curve,
    lid,
    lid_by_identity,
    lid_by_speaker,
    llr_of_share,
    loso_slopes,
    pi_link_by_speaker,
    pi_link_curve,
    rank_llr,
    srd_by_speaker,
    tpr_evidence,
    trials_by_speaker,
)
from pipeline.seeds import generator

VERSION = 2

SOURCE = "arXiv 2607.06259"
FEWEST = 3
"""Speakers on whom a curve of lengths stands."""
FPRS = {0.01: "1 %", 0.001: "0.1 %"}


class LidSettings(UncertaintySettings):
    """Settings of the disclosure of one among N candidates.

    Attributes:
        slope: of the posterior over candidates. None learns it, for each speaker, from the trials of all the others; a number
            must come from other speakers than those who are evaluated. Rows name it.
        ties: ranks and pi_link ``spread`` equal scores evenly, or take the ``best`` or ``worst`` place.
        lengths: numbers of trial utterances that are pooled, for the figure of longer conversations: of them, those that half
            of the speakers have, and three of them. The same speakers stand at each; () leaves the figure out.
        pooled: choices of utterances of a speaker at each length; where there are more, so many are drawn.
    """

    name: Literal["lid"] = numeric("lid")
    slope: float | None = numeric(None, ge=0, allow_inf_nan=False)
    ties: Literal["spread", "best", "worst"] = numeric("spread")
    lengths: tuple[int, ...] = numeric((1, 2, 3, 5, 10))
    pooled: int = numeric(100, ge=1)

    @field_validator("lengths")
    @classmethod
    def _distinct(cls, chosen: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(chosen)) != len(chosen) or any(length < 1 for length in chosen):
            raise ValueError("lengths are 1 or more, each once")
        return tuple(sorted(chosen))

    @property
    def variant(self) -> str:
        """Where the slope is from, as rows name it."""
        return "loso" if self.slope is None else f"slope {self.slope:g}"


METRICS = {
    "alid": field_of(
        Lid,
        "alid",
        "ALID",
        "average local information disclosure",
        "The information about who of the enrolled speakers speaks that an attacker gains from one trial utterance, on "
        "average over utterances: 0 bit means none, log2 N at most; below 0 the attacker is surer than it should be.",
        SOURCE,
    ),
    "alid_chance": field_of(
        LidChance,
        "alid",
        "ALID_0",
        "ALID at chance",
        "What ALID is worth where any candidate may be the speaker, at the same slope; exact.",
        SOURCE,
    ),
    "alid_speaker": field_of(
        Lid,
        "alid_speaker",
        "ALID_spk",
        "ALID, speakers weighing alike",
        "ALID as the mean over speakers of their own means.",
        SOURCE,
        summary=False,
    ),
    "pdr": field_of(
        Lid,
        "pdr",
        "PDR",
        "positive disclosure rate",
        "The share of trial utterances whose speaker the attacker thinks likelier than before; to be read against PDR_0, "
        "not against 50 %.",
        SOURCE,
    ),
    "pdr_chance": field_of(
        LidChance,
        "pdr",
        "PDR_0",
        "PDR at chance",
        "The share of candidates with more than 1/N of the posterior: PDR where any candidate may be the speaker; exact.",
        SOURCE,
    ),
    "lid_plus": field_of(
        Lid,
        "lid_plus",
        "LID+",
        "mean positive disclosure",
        "The mean of the positive disclosures.",
        SOURCE,
        summary=False,
    ),
    "lid_minus": field_of(
        Lid,
        "lid_minus",
        "LID-",
        "mean negative disclosure",
        "The mean of the other disclosures.",
        SOURCE,
        summary=False,
    ),
    "lid_max": field_of(
        Lid,
        "lid_max",
        "LID_max",
        "largest local information disclosure",
        "The information in the one trial utterance that says most; the slope and the number of candidates set a ceiling, "
        "which is shown beside it, and chance reaches most of it.",
        SOURCE,
    ),
    "rank_llr": field_of(
        RankLlr,
        "rank_one",
        "LLR_1",
        "evidence of the first rank",
        "The log-likelihood ratio of “the most similar candidate is the speaker”, by Laplace's rule; the number of trials sets "
        "a ceiling, which is shown beside it. 0 means that the first rank says nothing.",
        "pipeline/metrics/README.md, section 14b",
        summary=False,
    ),
    "pi_link": Metric(
        "pi_link",
        "linkability among N' candidates",
        "How often the speaker stands first among N' enrolled speakers; chance is 1/N'. Rows name N'.",
        "fraction",
        "lower",
        (0.0, 1.0),
        "Vauquier et al. 2025",
        summary=False,
    ),
    "tpr_at_fpr": field_of(
        TprEvidence,
        "tpr",
        "TPR",
        "true-positive rate at a low false-positive rate",
        "The share of target trials that an attacker accepts who lets so few impostors pass; chance is that rate itself. Rows "
        "name it.",
        "arXiv 2509.18413",
        summary=False,
    ),
}


class MetricFamily(contracts.MetricFamily):
    """What each trial utterance gives away about who of N candidates speaks."""

    Settings = LidSettings
    reads = "trials"
    title = "Disclosure of one among N candidates"
    metrics = METRICS
    figures = (
        FigureTable(
            "lid_ccdf",
            ("bit", "share", "chance", "ceiling"),
            "Local information disclosure",
            "pipeline.families.lid.curves:disclosures",
        ),
        FigureTable(
            "population",
            ("population", "value", "low", "high", "chance"),
            "Linkability by population",
            "pipeline.families.lid.curves:populations",
        ),
        FigureTable(
            "lengths",
            ("length", "measure", "value", "low", "high", "chance", "speakers"),
            "Longer conversations",
            "pipeline.families.lid.curves:lengths",
        ),
        FigureTable("lid_speakers", ("speaker", "alid")),
    )
    references = (
        "“Local information disclosure” of speaker identity, arXiv 2607.06259, 2026 (ALID, PDR, LID).",
        "Vauquier et al. 2025, with the release voice-anonymization-legal-eval 2.1.0 (linkability by population).",
    )

    @classmethod
    def measure(cls, settings: LidSettings, data: Trials) -> Measured:
        """LID at slopes from the other speakers, with exact chance values; ranks; linkability by population; TPR at low FPR.

        Raises:
            MetricError: scores that are not finite, trials that are no complete matrix, no trial of an enrolled speaker.
        """
        scores, truth, left_out = _matrix(data)
        note = f"{left_out} trial utterances of speakers who are not enrolled are left out" if left_out else ""
        rows, tables = _lid_rows(settings, data, scores, truth, note)
        rows.append(_rank_row(settings, data, scores, truth, note))
        more, population = _link_rows(settings, data, scores, truth, note)
        rows += more
        rows += [_tpr_row(settings, data, fpr) for fpr in FPRS]
        tables |= {"population": population, **_length_table(settings, scores, truth)}
        return Measured(rows, tables)


def _matrix(data: Trials) -> tuple[np.ndarray, np.ndarray, int]:
    """Scores [n, N], the true candidate [n], and the number of utterances that are left out."""
    if data.utterances is None:
        raise MetricError("the trials do not say which utterance they try")
    candidates, column = np.unique(data.models, return_inverse=True)
    utterances, first, line = np.unique(data.utterances, return_index=True, return_inverse=True)
    n_candidates = len(candidates)
    held = np.zeros((len(utterances), n_candidates), dtype=np.int64)
    np.add.at(held, (line, column), 1)
    place = {name: number for number, name in enumerate(candidates.tolist())}
    truth = np.array([place.get(name, -1) for name in data.speakers[first].tolist()], dtype=np.int64)
    kept = truth >= 0
    if not kept.any():
        raise MetricError("no trial is of a speaker who is enrolled")
    if (held[kept] > 1).any():
        raise MetricError("a candidate has several enrolment models, and a posterior over candidates needs one of each")
    missing = int((held[kept] == 0).sum())
    if missing:
        raise MetricError(
            f"{missing} of {kept.sum() * n_candidates} pairs of a candidate and a trial utterance are no trial: a posterior "
            "over candidates needs all"
        )
    scores = np.full(held.shape, np.nan)
    scores[line, column] = data.scores
    return scores[kept], truth[kept], int((~kept).sum())


def _lid_rows(
    settings: LidSettings, data: Trials, scores: np.ndarray, truth: np.ndarray, note: str
) -> tuple[list[Row], dict[str, pd.DataFrame]]:
    number, variant = counts(data), settings.variant
    try:
        slope = loso_slopes(scores, truth).value if settings.slope is None else settings.slope
    except Undefined as undefined:
        names = ("alid", "alid_chance", "alid_speaker", "pdr", "pdr_chance", "lid_plus", "lid_minus", "lid_max")
        return [row(name, variant=variant, reason=str(undefined), counts=number) for name in names], {}
    found = lid(scores, truth, slope)
    ends = intervals(settings, lambda: lid_by_speaker(scores, truth, slope))
    null = bands(settings, lambda: lid_by_identity(scores, truth, settings.slope), "null band over candidates")

    about = partial(row, variant=variant, note=note, counts=number)

    def said(name: str, value: float | None) -> Row:
        why = found.reason if value is None else ""
        return about(name, value, interval=ends.get(name), band=null.get(name), reason=why)

    rows = [
        said("alid", found.alid),
        said("alid_chance", found.chance.alid),
        said("alid_speaker", found.alid_speaker),
        said("pdr", found.pdr),
        said("pdr_chance", found.chance.pdr),
        said("lid_plus", found.lid_plus),
        said("lid_minus", found.lid_minus),
        about("lid_max", found.lid_max, band=null.get("lid_max"), ceiling=found.lid_max_ceiling),
    ]
    bits = np.unique(np.append(found.lid, 0.0))
    table = pd.DataFrame(
        {
            "bit": bits,
            "share": exceedance(found.lid, bits),
            "chance": chance_exceedance(scores, truth, slope, bits),
            "ceiling": found.lid_max_ceiling,
        }
    )
    return rows, {"lid_ccdf": table, "lid_speakers": _of_speakers(data, found)}


def _of_speakers(data: Trials, found: Lid) -> pd.DataFrame:
    """ALID of each candidate's own trial utterances; candidates without any have no row."""
    told = np.isfinite(found.speaker_alid)
    return pd.DataFrame({"speaker": np.unique(data.models)[told], "alid": found.speaker_alid[told]})


def _rank_row(settings: LidSettings, data: Trials, scores: np.ndarray, truth: np.ndarray, note: str) -> Row:
    found = rank_llr(scores, truth, ties=settings.ties)
    share = intervals(settings, lambda: srd_by_speaker(scores, truth, settings.ties)).get("idr")
    ends = None
    if share is not None:
        low, high = llr_of_share(share, found.n_candidates)
        ends = (max(float(low), found.floor), min(float(high), found.ceiling))
    return row("rank_llr", found.rank_one, ceiling=found.ceiling, interval=ends, note=note, counts=counts(data))


def _link_rows(
    settings: LidSettings, data: Trials, scores: np.ndarray, truth: np.ndarray, note: str
) -> tuple[list[Row], pd.DataFrame]:
    """Rows at two, at half and at all of the candidates, and the whole curve."""
    curve = pi_link_curve(scores, truth, ties=settings.ties)
    ends = intervals(settings, lambda: pi_link_by_speaker(scores, truth, ties=settings.ties))
    largest = int(curve.population[-1])
    each = [ends.get(f"pi_link.{n}", (math.nan, math.nan)) for n in curve.population]
    table = pd.DataFrame(
        {
            "population": curve.population,
            "value": curve.value,
            "low": [low for low, _ in each],
            "high": [high for _, high in each],
            "chance": curve.chance,
        }
    )
    rows = [
        row(
            "pi_link",
            float(curve.value[n - 1]),
            variant=f"among {n}",
            interval=ends.get(f"pi_link.{n}"),
            note=note,
            counts=counts(data),
        )
        for n in sorted({2, max(largest // 2, 2), largest})
    ]
    return rows, table


def _tpr_row(settings: LidSettings, data: Trials, fpr: float) -> Row:
    trials, number, variant = coded(data), counts(data), f"FPR {FPRS[fpr]}"
    found = tpr_evidence(trials, fpr)
    if found.tpr is None:
        return row("tpr_at_fpr", variant=variant, reason=found.reason, counts=number)
    notes = []
    if found.few:
        notes.append(f"coarse: {found.allowed} false alarms are allowed")
    if found.few_pairs:
        notes.append(f"the alarms come from {found.alarm_pairs} pairs of speakers")
    name = f"tpr_at_fpr.{fpr:g}"
    # The jackknife covers rates of few alarms badly; drawing speakers does not (pipeline/metrics/README.md, section 15).
    drawn = "none" if settings.interval == "none" or not settings.replicates else "percentile"
    ends = intervals(settings.model_copy(update={"interval": drawn}), lambda: trials_by_speaker(trials, [name]))
    return row(
        "tpr_at_fpr",
        found.tpr,
        variant=variant,
        interval=ends.get(name),
        note="; ".join(notes),
        counts=number,
    )


def _length_table(settings: LidSettings, scores: np.ndarray, truth: np.ndarray) -> dict[str, pd.DataFrame]:
    """ALID, IdR and EER by number of pooled utterances, on one panel of speakers; nothing where speech is too little."""
    held = np.bincount(truth)
    n_speakers = np.count_nonzero(held)
    lengths = [length for length in settings.lengths if np.count_nonzero(held >= length) >= max(FEWEST, n_speakers / 2)]
    if len(lengths) < 2:
        return {}

    def drawn() -> np.random.Generator:
        return generator(settings.seed, "choices of utterances that are pooled")

    more: dict[str, Any] = {"slope": settings.slope, "subsets": settings.pooled}
    found = length_curve(scores, truth, lengths, generator=drawn(), **more)
    ends = intervals(settings, lambda: length_by_speaker(scores, truth, lengths, generator=drawn(), **more))
    chance = {"alid": 0.0, "idr": 1 / scores.shape[1], "eer": 0.5}
    lines = []
    for measure, at_chance in chance.items():
        for length, value in zip(lengths, getattr(found, measure).tolist()):
            low, high = ends.get(f"{measure}.{length}", (math.nan, math.nan))
            lines.append((length, measure, value, low, high, at_chance, found.panel.size))
    columns = ["length", "measure", "value", "low", "high", "chance", "speakers"]
    return {"lengths": pd.DataFrame(lines, columns=columns)}
