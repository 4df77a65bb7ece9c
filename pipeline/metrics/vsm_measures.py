"""What is read off voice similarity matrices: DeID, G_VD, the speaker table, the zoo, and the link between two runs.

See pipeline/metrics/README.md, sections 8, 9 and 11.

Run P0 and run P1 of a random system differ in its seed alone. A diagonal in M_P0P1 says that what one run makes of a
speaker's voice points to what another run makes of it: sessions can be linked.

Conventions: as of :mod:`pipeline.metrics.vsm`; DeID and G_VD are Undefined where D_diag(OO) is 0; the
zoo's x and y are mean LLRs in nat, one of each a speaker.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.metrics._base import Array, MetricError, Undefined, quantity, round_means
from pipeline.metrics.gains import Normalised, decibel, normalised, value_or_reason
from pipeline.metrics.vsm import FLAT, SimilarityMatrix, signed_dominance

VERSION = "similarity matrix measures 2"

NEAR_ZERO = 0.1
"""Mean LLRs within this many nat of 0 on both axes are no evidence of a character."""


FEWEST = 8
"""Quartiles of fewer speakers name nobody: only the coordinates are given."""


@dataclass(frozen=True)
class Zoo:
    """Coordinates and characters of N speakers."""

    x: Array = quantity("nat", "[N] mean oracle LLR of the speaker's own pairs")
    y: Array = quantity("nat", "[N] mean oracle LLR of the speaker's pairs with others")
    doddington: tuple[str, ...] = quantity("label", "[N] goat, wolf/lamb, goat and wolf/lamb, sheep, or empty")
    dunstone_yager: tuple[str, ...] = quantity("label", "[N] worm, dove, phantom, chameleon, none, or empty")
    note: str = quantity("", "why there are no labels, or empty")


def zoo(x: npt.ArrayLike, y: npt.ArrayLike) -> Zoo:
    """Characters by quartiles of x and y [N], in nat.

    Doddington: goat in the lowest quartile of x, wolf/lamb in the highest of y, else sheep. Dunstone and Yager: worm
    (low x, high y), dove (high x, low y), phantom (both low), chameleon (both high). Speakers with |x| and |y| below
    0.1 nat are ``near zero evidence``. Under 8 speakers, or with infinite means, all labels are empty.

    Raises:
        MetricError: lengths that differ.
    """
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if x.size != y.size:
        raise MetricError(f"{x.size} x for {y.size} y")
    if x.size < FEWEST:
        empty = ("",) * x.size
        return Zoo(x, y, empty, empty, f"{x.size} speakers: quartiles need at least {FEWEST}")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        empty = ("",) * x.size
        return Zoo(x, y, empty, empty, "a speaker's mean LLR is not finite")
    (low_x, high_x), (low_y, high_y) = (
        (mean <= np.quantile(mean, 0.25), mean >= np.quantile(mean, 0.75)) for mean in (round_means(x), round_means(y))
    )
    near_zero = (np.abs(x) < NEAR_ZERO) & (np.abs(y) < NEAR_ZERO)
    roles = ("goat and wolf/lamb", "goat", "wolf/lamb")
    doddington = np.select([near_zero, low_x & high_y, low_x, high_y], ["near zero evidence", *roles], "sheep")
    animals = [low_x & high_y, high_x & low_y, low_x & low_y, high_x & high_y]
    names = ["near zero evidence", "worm", "dove", "phantom", "chameleon"]
    dunstone_yager = np.select([near_zero, *animals], names, "none")
    return Zoo(x, y, tuple(doddington.tolist()), tuple(dunstone_yager.tolist()), "")


@dataclass(frozen=True)
class SpeakerRow:
    """One speaker of the speaker table; a value that does not exist is None."""

    speaker: str = quantity("label", "name of the speaker")
    diagonal: Mapping[str, float] = quantity("fraction", "similarity to oneself in oo, op and pp")
    deid: float | None = quantity(
        "fraction", "1 - |D_i(OP)|/|D_i(OO)|, D_i the diagonal minus the row and column", "higher"
    )
    d_ece: Mapping[str, float] = quantity("bit", "D_ECE of the speaker's pairs in oo, op and pp", "lower")
    max_llr: Mapping[str, float] = quantity("nat", "largest |LLR| of the speaker's pairs in oo, op and pp", "lower")


@dataclass(frozen=True)
class VsmMetrics:
    """What the three matrices of a system say; a value that does not exist is None, with its reason in ``reasons``."""

    speakers: tuple[str, ...] = quantity("label", "names of the speakers, in the order of the matrices")
    d_diag: Mapping[str, float] = quantity("fraction", "diagonal dominance of oo, op, pp", bounds=(0.0, 1.0))
    signed: Mapping[str, float] = quantity("fraction", "diagonal dominance with its sign", bounds=(-1.0, 1.0))
    deid: float | None = quantity(
        "fraction", "de-identification, 1 - D_diag(OP)/D_diag(OO)", "higher", bounds=(-math.inf, 1.0)
    )
    g_vd: float | None = quantity("dB", "gain of voice distinctiveness, 10 log10(D_diag(PP)/D_diag(OO))")
    normalised_all_pairs: Normalised = quantity("", "Eq. 17-20 on all pairs instead of enrolment x trial scores")
    speaker_table: tuple[SpeakerRow, ...] = quantity("", "one row a speaker")
    zoo: Mapping[str, Zoo] = quantity("", "zoo of oo, op_original (row role), op_protected (column role) and pp")
    reasons: Mapping[str, str] = quantity("", "why a value is missing, by name")


def d_diag(matrix: npt.ArrayLike) -> float:
    """Diagonal dominance in [0, 1] of a similarity matrix: |mean diagonal - mean off-diagonal| (Noe 2020, Eq. 3; Noe 2022, Eq. 8)."""
    return abs(signed_dominance(matrix))


def deid(oo: npt.ArrayLike, op: npt.ArrayLike) -> float:
    """:func:`deid_of` of similarity matrices [N, N]."""
    return deid_of(d_diag(oo), d_diag(op))


def g_vd(oo: npt.ArrayLike, pp: npt.ArrayLike) -> float:
    """:func:`g_vd_of` of similarity matrices [N, N]."""
    return g_vd_of(d_diag(oo), d_diag(pp))


def deid_of(d_oo: float, d_op: float) -> float:
    """De-identification 1 - D_diag(OP)/D_diag(OO), a fraction of at most 1; negative where OP is more diagonal than OO."""
    if d_oo <= FLAT:
        raise Undefined("the matrix of the original speech has no diagonal: D_diag(OO) is 0")
    return 1 - d_op / d_oo


def g_vd_of(d_oo: float, d_pp: float) -> float:
    """Gain of voice distinctiveness 10 log10(D_diag(PP)/D_diag(OO)) in dB; -inf where PP is flat."""
    if d_oo <= FLAT:
        raise Undefined("the matrix of the original speech has no diagonal: D_diag(OO) is 0")
    return decibel(d_pp / d_oo)


def vsm_metrics(oo: SimilarityMatrix, op: SimilarityMatrix, pp: SimilarityMatrix, names: Sequence[str]) -> VsmMetrics:
    """DeID, G_VD, the normalised measures on all pairs, zoo and speaker table of one system.

    Args:
        names: [N] names of the speakers, in the order of the matrices.

    Example:
        >>> import numpy as np
        >>> from pipeline.metrics import similarity_matrix, vsm_metrics
        >>> speakers = [0, 0, 1, 1, 2, 2]
        >>> llr = np.where(np.equal.outer(speakers, speakers), 2.0, -2.0)
        >>> oo, op, pp = (similarity_matrix(llr / k, speakers, scores_are_llr=True) for k in (1, 4, 2))
        >>> found = vsm_metrics(oo, op, pp, ["ann", "bob", "cid"])
        >>> round(found.deid, 3), round(found.g_vd, 2)  # a fraction, and dB
        (0.678, -2.17)
    """
    parts = {"oo": oo, "op": op, "pp": pp}
    reasons: dict[str, str] = {}
    speakers = tuple(str(name) for name in names)
    per_speaker = {}
    for key, part in parts.items():
        # The diagonal cell of each speaker minus the mean of the other cells of its row and column.
        diagonal = np.diag(part.matrix)
        others = part.matrix.sum(axis=0) + part.matrix.sum(axis=1) - 2 * diagonal
        per_speaker[key] = diagonal - others / (2 * (len(diagonal) - 1))
    table = []
    for i, name in enumerate(speakers):
        table.append(
            SpeakerRow(
                speaker=name,
                diagonal={key: float(part.matrix[i, i]) for key, part in parts.items()},
                deid=value_or_reason("", {}, deid_of, abs(per_speaker["oo"][i]), abs(per_speaker["op"][i])),
                d_ece={key: float(part.speaker_d_ece[i]) for key, part in parts.items()},
                max_llr={key: float(part.speaker_max_llr[i]) for key, part in parts.items()},
            )
        )
    return VsmMetrics(
        speakers=speakers,
        d_diag={key: part.d_diag for key, part in parts.items()},
        signed={key: part.signed for key, part in parts.items()},
        deid=value_or_reason("deid", reasons, deid_of, oo.d_diag, op.d_diag),
        g_vd=value_or_reason("g_vd", reasons, g_vd_of, oo.d_diag, pp.d_diag),
        normalised_all_pairs=normalised(
            d_ece=(oo.d_ece, op.d_ece, pp.d_ece), cllr_min=(oo.cllr_min, op.cllr_min, pp.cllr_min)
        ),
        speaker_table=tuple(table),
        zoo={
            "oo": zoo(oo.target_llr, oo.impostor_llr),
            "op_original": zoo(op.target_llr, op.impostor_llr_row),
            "op_protected": zoo(op.target_llr, op.impostor_llr_column),
            "pp": zoo(pp.target_llr, pp.impostor_llr),
        },
        reasons=reasons,
    )


@dataclass(frozen=True)
class Linkage:
    """What the similarity matrix of two runs says; a value that does not exist is None, with its reason in ``reasons``."""

    d_diag_p0p1: float = quantity("fraction", "diagonal dominance of P0P1", "lower", bounds=(0.0, 1.0))
    d_diag_p0p1_signed: float = quantity("fraction", "diagonal dominance of P0P1 with its sign", bounds=(-1.0, 1.0))
    p0p1_ratio: float | None = quantity(
        "fraction",
        "D_diag(P0P1)/D_diag(PP): 0 no link between runs, 1 a link as strong as within a run",
        "lower",
        bounds=(0.0, math.inf),
    )
    reasons: Mapping[str, str] = quantity("", "why a value is missing, by name")


def p0p1_ratio(d_pp: float, d_p0p1: float) -> float:
    """D_diag(P0P1)/D_diag(PP): 0 no link between runs, 1 a link as strong as within one run; it may exceed 1.

    Args:
        d_pp: diagonal dominance of the first run with itself.
        d_p0p1: that of the first run with the second.

    Raises:
        Undefined: D_diag(PP) is 0.
    """
    if d_pp <= FLAT:
        raise Undefined("the matrix of the first run has no diagonal: D_diag(PP) is 0")
    return d_p0p1 / d_pp


def linkage(pp: SimilarityMatrix, p0p1: SimilarityMatrix) -> Linkage:
    """Diagonal dominance of P0P1 and its ratio to that of PP.

    Args:
        pp: similarity matrix of the first run.
        p0p1: that of the first run (rows) with the second (columns), over the same speakers.

    Example:
        >>> import numpy as np
        >>> from pipeline.metrics import linkage, similarity_matrix
        >>> speakers = [0, 0, 1, 1, 2, 2]
        >>> llr = np.where(np.equal.outer(speakers, speakers), 2.0, -2.0)
        >>> pp, p0p1 = (similarity_matrix(llr / k, speakers, scores_are_llr=True) for k in (1, 4))
        >>> round(linkage(pp, p0p1).p0p1_ratio, 3)
        0.322
    """
    reasons: dict[str, str] = {}
    ratio = value_or_reason("p0p1_ratio", reasons, p0p1_ratio, pp.d_diag, p0p1.d_diag)
    return Linkage(p0p1.d_diag, p0p1.signed, ratio, reasons)
