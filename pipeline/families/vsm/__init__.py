"""Voice similarity matrices: DeID, G_VD, the zoo and the speaker table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd

from pipeline import contracts
from pipeline.contracts import FigureTable, Measured, Pairs, ProtectedPairs, Row, RowFigure, numeric
from pipeline.families._common import (
    NOE_2020,
    NOE_2022,
    PAIRS,
    UncertaintySettings,
    field_of,
    intervals,
    matrix_table,
    row,
)
from pipeline.metrics.gains import Normalised
from pipeline.metrics.vsm import SimilarityMatrix, similarity_matrix
from pipeline.metrics.vsm_measures import VsmMetrics, Zoo, vsm_metrics
from pipeline.metrics.vsm_measures import zoo as characters
from pipeline.metrics.vsm_uncertainty import vsm_by_speaker

VERSION = "vsm 1"
ZOO = {"oo": "OO", "op_original": "OP original side", "op_protected": "OP protected side", "pp": "PP"}
NORMALISED = {"d_ece_op_oo": "op", "cllr_min_op_oo": "op", "g_d_ece": "pp", "g_cllr_min": "pp"}
ALL_PAIRS = "all_pairs"
"""The variant of the normalised measures: on all pairs of the trial side instead of enrolment against trial."""
ON = (
    "Variant all_pairs: on all pairs of the trial side; trial_lists: on enrolment and trial lists (derived=[normalised]). Numbers "
    "of the two cannot be compared."
)

CAUTION = "DeID is the view of an attacker who knows original speech only: read the EER under PP beside it."


class VsmSettings(UncertaintySettings):
    """Settings of the voice similarity matrices.

    Attributes:
        similarity: ``geometric_mean`` of posteriors (Noe 2022, Eq. 6) or ``sigmoid_mean`` of LLRs (Noe 2020, Eq. 2).
        pairing: ``all`` ordered pairs, or ``vpc2020`` (i < j only, also in OP).
        self_pairs: whether OP keeps the pair of an utterance with its own anonymised version.
        replicates: of bootstraps; there is no null band.
    """

    name: Literal["vsm"] = numeric("vsm")
    similarity: Literal["geometric_mean", "sigmoid_mean"] = numeric("geometric_mean")
    pairing: Literal["all", "vpc2020"] = numeric("all")
    self_pairs: Literal["drop", "keep"] = numeric("drop")


METRICS = {
    "d_diag": field_of(
        VsmMetrics, "d_diag", "D_diag", "diagonal dominance of a voice similarity matrix",
        "How much more similar speakers are to themselves than to others, from 0 (nobody stands out) to 1, among "
        "originals (OO), between originals and protected speech (OP) and among protected speech (PP).",
        "Noé et al. 2020, Eq. 3", summary=False,
    ),
    "signed": field_of(
        VsmMetrics, "signed", "D_diag signed", "diagonal dominance with its sign",
        "Mean similarity of speakers to themselves minus that to others: below 0, speakers are less similar to themselves "
        "than to others, which identifies them as well.", "Noé et al. 2020, Eq. 3", summary=False,
    ),
    "d_ece_op_oo": field_of(
        Normalised, "d_ece_op_oo", "D_ECE(OP/OO)", "disclosure removed",
        f"The share of the disclosed information that protection removes. {ON}",
        "Noé et al. 2022, Eq. 17", summary=False,
    ),
    "cllr_min_op_oo": field_of(
        Normalised, "cllr_min_op_oo", "Cllr_min(OP/OO)", "discrimination removed",
        f"The share of the attacker's discrimination that protection removes. {ON}",
        "Noé et al. 2022, Eq. 18", summary=False,
    ),
    "g_d_ece": field_of(
        Normalised, "g_d_ece", "G_D_ECE", "gain of distinctiveness by D_ECE",
        "How well protected voices can be told from one another, by disclosed information: 0 dB means as well as "
        f"originals. {ON}", "Noé et al. 2022, Eq. 19", summary=False,
    ),
    "g_cllr_min": field_of(
        Normalised, "g_cllr_min", "G_Cllr_min", "gain of distinctiveness by Cllr_min",
        f"How well protected voices can be told from one another, by Cllr_min: 0 dB means as well as originals. {ON}",
        "Noé et al. 2022, Eq. 20 corrected", summary=False,
    ),
    "deid": field_of(
        VsmMetrics, "deid", "DeID_OP", "de-identification, in the view of an attacker who knows original speech only",
        "How much of the similarity between a speaker's original and protected voice is gone: 0 % means no protection, "
        "100 % that the protected voice points to no original speaker. It is the view of an attacker who knows original "
        "speech only (OP); one who has protected speech to compare with may still find everybody.",
        "Noé et al. 2020", caution=CAUTION,
    ),
    "g_vd": field_of(
        VsmMetrics, "g_vd", "G_VD", "gain of voice distinctiveness",
        "How well protected voices can still be told from one another: 0 dB means as well as the originals, below 0 dB "
        "less, −∞ dB not at all. A property of usefulness, not of privacy.", "Noé et al. 2020",
    ),
}  # fmt: skip


class MetricFamily(contracts.MetricFamily):
    """How similar the speakers of a set are to themselves and to each other, before and after protection."""

    Settings = VsmSettings
    reads = "pairs"
    title = "Voice similarity matrices"
    metrics = METRICS
    figures = (
        FigureTable(
            "similarity",
            ("block", "row_speaker", "column_speaker", "similarity"),
            "Voice similarity matrices",
            "pipeline.families.vsm.figures:plot_matrices",
            PAIRS,
        ),
        FigureTable(
            "zoo",
            ("block", "speaker", "x", "y", "doddington", "dunstone_yager"),
            "Zoo: who is easy, who is hard to recognise",
            "pipeline.families.vsm.figures:plot_zoo",
            PAIRS,
        ),
        FigureTable(
            "speakers",
            ("speaker", "diagonal_oo", "diagonal_op", "diagonal_pp", "deid", "d_ece", "max_llr"),
            identity=PAIRS,
        ),
    )
    protected_metrics = ("d_diag", "signed")
    row_figures = (
        RowFigure(
            "De-identification and voice distinctiveness: the first for an attacker who knows original speech only",
            "pipeline.families.vsm.figures:plot_plane",
        ),
    )
    references = (
        NOE_2020,
        NOE_2022,
        "G. Doddington et al., “Sheep, goats, lambs and wolves”, ICSLP 1998; T. Dunstone and N. Yager, “Biometric System and "
        "Data Analysis”, Springer 2009 (zoo).",
    )

    @classmethod
    def definition(cls, settings: VsmSettings) -> tuple[str, ...]:
        words = {
            "noe2020": settings.similarity == "sigmoid_mean",
            "half": settings.pairing == "vpc2020",
            "self pairs": settings.self_pairs == "keep",
        }
        return tuple(word for word, meant in words.items() if meant)

    @classmethod
    def measure(cls, settings: VsmSettings, data: Pairs) -> Measured:
        """D_diag of OO, OP and PP, DeID, G_VD and the normalised measures on all pairs, with tables for the figures.

        Raises:
            MetricError: a speaker without a pair of their own, by name.
        """
        names, codes = np.unique(data.speakers, return_inverse=True)
        blocks = {"oo": data.oo, "op": data.op, "pp": data.pp}
        options = _options(settings, names)
        parts: dict[str, SimilarityMatrix] = {
            block: similarity_matrix(scores, codes, **options) for block, scores in blocks.items()
        }
        measures = vsm_metrics(parts["oo"], parts["op"], parts["pp"], list(names))
        counts = {"n_expected": data.n_expected, "n_used": len(codes), "n_speakers": len(names)}
        pairs = {
            block: {**counts, "n_target": part.n_target, "n_nontarget": part.n_nontarget}
            for block, part in parts.items()
        }
        ends = intervals(settings, lambda: vsm_by_speaker(blocks, codes, **options))

        def line(name: str, value: float | None, block: str, interval: str = "", **more: Any) -> Row:
            return row(name, value, condition=block.upper(), interval=ends.get(interval), counts=pairs[block], **more)

        rows = []
        for block, part in parts.items():
            rows.append(line("d_diag", part.d_diag, block, f"d_diag.{block}"))
            rows.append(line("signed", part.signed, block))
        why = measures.reasons
        rows.append(line("deid", measures.deid, "op", "deid", reason=why.get("deid", "")))
        rows.append(line("g_vd", measures.g_vd, "pp", "g_vd", reason=why.get("g_vd", "")))
        others = measures.normalised_all_pairs
        for name, block in NORMALISED.items():
            details = {"variant": ALL_PAIRS, "reason": others.reasons.get(name, "")}
            rows.append(line(name, getattr(others, name), block, f"normalised_all_pairs.{name}", **details))
        matrices = matrix_table({block.upper(): part for block, part in parts.items()}, names)
        zoos = [_characters(block, measures.speakers, measures.zoo[key]) for key, block in ZOO.items()]
        lines = measures.speaker_table
        # D_ECE and max |LLR| are those of OP: what the attacker who enrols original speech learns of the speaker.
        speakers = {
            "speaker": [line.speaker for line in lines],
            **{f"diagonal_{block}": [line.diagonal[block] for line in lines] for block in blocks},
            "deid": [np.nan if line.deid is None else line.deid for line in lines],
            "d_ece": [line.d_ece["op"] for line in lines],
            "max_llr": [line.max_llr["op"] for line in lines],
        }
        tables = {"similarity": matrices, "zoo": pd.concat(zoos, ignore_index=True), "speakers": pd.DataFrame(speakers)}
        return Measured(rows, tables)

    @classmethod
    def measure_protected(cls, settings: VsmSettings, data: ProtectedPairs) -> Measured:
        """D_diag of PP with its matrix, zoo and speakers, as an attacker sees them who has adapted to the system.

        Raises:
            MetricError: a speaker without a pair of their own, by name.
        """
        names, codes = np.unique(data.speakers, return_inverse=True)
        options = _options(settings, names)
        part = similarity_matrix(data.pp, codes, **options)
        ends = intervals(settings, lambda: vsm_by_speaker({"pp": data.pp}, codes, **options))
        counts = {"n_expected": data.n_expected, "n_used": len(codes), "n_speakers": len(names)}
        counts |= {"n_target": part.n_target, "n_nontarget": part.n_nontarget}
        rows = [
            row("d_diag", part.d_diag, condition="PP", interval=ends.get("d_diag.pp"), counts=counts),
            row("signed", part.signed, condition="PP", counts=counts),
        ]
        # D_ECE and max |LLR| are those of PP: who has adapted to a system compares protected speech with protected speech.
        speakers = {
            "speaker": names,
            **dict.fromkeys(("diagonal_oo", "diagonal_op"), np.nan),
            "diagonal_pp": np.diag(part.matrix),
            "deid": np.nan,
            "d_ece": part.speaker_d_ece,
            "max_llr": part.speaker_max_llr,
        }
        zoo = _characters("PP", names, characters(part.target_llr, part.impostor_llr))
        tables = {"similarity": matrix_table({"PP": part}, names), "zoo": zoo, "speakers": pd.DataFrame(speakers)}
        return Measured(rows, tables)


def _options(settings: VsmSettings, names: np.ndarray) -> dict[str, Any]:
    chosen = {name: getattr(settings, name) for name in ("similarity", "pairing", "self_pairs")}
    return {"names": list(names), **chosen}


def _characters(block: str, speakers: Sequence[str] | np.ndarray, zoo: Zoo) -> pd.DataFrame:
    return pd.DataFrame({"block": block, "speaker": speakers, **vars(zoo)})
