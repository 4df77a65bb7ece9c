"""The verdict on a printed cell: beside a number of ours, and from other printed cells: what follows, what does not, what cannot be checked.

A print is an interval, and so is a number of ours.

Printed numbers are rounded or cut, so a cell follows if some numbers that may have been printed as the others give one that may have
been printed as it.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pipeline import metrics
from pipeline.tables.published import Ends, Printed, decimals

REPRODUCED = "reproduced"
WITHIN = "within interval"
DIFFERS = "differs"
PARTIAL = "partial"
"""A number of ours that does not stand on everything: near the print or not, it is not that number."""
NOT_RUN = "not run"
CANNOT = "cannot follow from the printed inputs"
DISAGREE = "sources disagree"
SEVERAL = "several of ours match"
VERDICTS = (REPRODUCED, WITHIN, DIFFERS, PARTIAL, NOT_RUN, CANNOT, DISAGREE, SEVERAL)

FOLLOWS = "follows"
CONSISTENT = "consistent"
UNCHECKED = "cannot be checked"
RECOMPUTED = (FOLLOWS, CONSISTENT, CANNOT, DISAGREE, UNCHECKED)
"""Verdicts without a run. ``CONSISTENT``: a bound or a grid that other cells set is kept, which is less than to follow."""

_SCALE = {("%", "fraction"): 0.01, ("fraction", "%"): 100.0, ("", "fraction"): 1.0, ("fraction", ""): 1.0}


def convert(unit: str, target: str) -> float | None:
    """What turns a number in one unit into another; None where nothing does."""
    return 1.0 if unit == target else _SCALE.get((unit, target))


def overlap(first: Ends, second: Ends) -> bool:
    """Whether two intervals share a number, up to rounding of the last bits."""
    low, high = max(first[0], second[0]), min(first[1], second[1])
    return low <= high or math.isclose(low, high, rel_tol=1e-9, abs_tol=1e-12)


def judge(printed: Ends, value: float, interval: Ends | None, tolerance: float) -> str:
    """The verdict on a number.

    Args:
        printed: the numbers that may have been printed so.
        value: ours, in the printed unit.
        interval: our 95 % interval; None where there is none.
        tolerance: how far ours may lie from the print.
    """
    if overlap((printed[0] - tolerance, printed[1] + tolerance), (value, value)):
        return REPRODUCED
    return WITHIN if interval is not None and overlap(printed, interval) else DIFFERS


# --------------------------------------------------------------------------------------------- printed cells from others

VPC2022_WEIGHTS = {
    "libri_{}_trials_f": 0.25, "libri_{}_trials_m": 0.25, "vctk_{}_trials_f": 0.2, "vctk_{}_trials_m": 0.2,
    "vctk_{}_trials_f_common": 0.05, "vctk_{}_trials_m_common": 0.05,
}  # fmt: skip
"""The official weights of VPC 2022, of EER, pitch correlation and G_VD; WER: LibriSpeech and VCTK alike."""
WER_WEIGHTS = {"libri_{}_asr": 0.5, "vctk_{}_asr": 0.5}
SRD_REFERENCES, SRD_INPUTS = 40, 800
"""Of SRD 2026: every printed rate is a multiple of 1/800 (data_manifests/README.md, section 7)."""
NORMALISED: Mapping[str, tuple[str, str, Callable[[float, float], float]]] = {
    "d_ece_op_oo": ("d_ece", "OP", metrics.d_ece_op_oo),
    "cllr_min_op_oo": ("cllr_min", "OP", metrics.cllr_min_op_oo),
    "g_d_ece": ("d_ece", "PP", metrics.g_d_ece),
    "g_cllr_min": ("cllr_min", "PP", metrics.g_cllr_min),
}
"""Metric, from which other one, with which condition beside OO, and how."""


@dataclass(frozen=True)
class Check:
    """A cell with one of ``RECOMPUTED``, and from what."""

    cell: Printed
    verdict: str
    reason: str = ""


@dataclass(frozen=True)
class _Result:
    """What a rule found of a cell: whether it holds, and whether it only bounds it."""

    holds: bool
    reason: str
    elsewhere: bool = False
    bound: bool = False


def check_cells(cells: Sequence[Printed], printed: Sequence[Printed], names: Mapping[str, str]) -> tuple[Check, ...]:
    """What the known cells say of some.

    Args:
        cells: those to check.
        printed: all that are printed, the former among them.
        names: what a source calls a system, and its common name.
    """
    book = _Book(printed, names)
    return tuple(_check_cell(cell, book) for cell in cells)


def _check_cell(cell: Printed, book: _Book) -> Check:
    outcomes = [outcome for rule in RULES for outcome in rule(cell, book)]
    wrong = [outcome for outcome in outcomes if not outcome.holds]
    if wrong:
        verdict = CANNOT if any(not outcome.elsewhere for outcome in wrong) else DISAGREE
        return Check(cell, verdict, _join_reasons(wrong))
    sufficient = [outcome for outcome in outcomes if not outcome.bound]
    if sufficient:
        return Check(cell, FOLLOWS, _join_reasons(sufficient))
    return Check(cell, CONSISTENT, _join_reasons(outcomes)) if outcomes else Check(cell, UNCHECKED)


def _join_reasons(outcomes: Sequence[_Result]) -> str:
    reasons = list(dict.fromkeys(outcome.reason for outcome in outcomes))
    return "; ".join(reasons[:3]) + (f"; and {len(reasons) - 3} more" if len(reasons) > 3 else "")


class _Book:
    """Printed cells by what they are."""

    def __init__(self, cells: Sequence[Printed], names: Mapping[str, str]) -> None:
        self.names = names
        self._of: dict[tuple[str, ...], list[Printed]] = {}
        for cell in dict.fromkeys(cells):
            self._of.setdefault(self.key(cell), []).append(cell)

    def key(self, cell: Printed, **other: str) -> tuple[str, ...]:
        """The identity of a cell, some words of it changed, with the common name of its system."""
        identity = cell.identity._replace(**other)
        return identity._replace(system=self.names.get(identity.system, identity.system))

    def like(self, cell: Printed, **other: str) -> list[Printed]:
        """The cells that are as one, but for some words."""
        return self._of.get(self.key(cell, **other), [])

    def together(self, cell: Printed, *others: Mapping[str, str]) -> list[tuple[Printed, ...]]:
        """Cells that stand in one table, each as ``cell`` but for some words: those of its own table first, then of its own
        source, then of the finest print."""
        parts = [self.like(cell, **other) for other in others]
        groups = []
        for first in parts[0]:
            matches = [[inputs for inputs in part if _locate(inputs) == _locate(first)] for part in parts[1:]]
            if all(matches):
                groups.append((first, *(part[0] for part in matches)))

        def order(inputs: Sequence[Printed]) -> tuple[bool, bool, int]:
            digits = min(decimals(other.value) for other in inputs)
            return _locate(inputs[0]) != _locate(cell), inputs[0].source != cell.source, -digits

        return sorted(groups, key=order)


def _locate(cell: Printed) -> tuple[str, str]:
    return cell.source, cell.table


def _scale(cell: Printed, unit: str) -> Ends | None:
    """The ends of a cell in another unit."""
    scale = convert(cell.unit, unit)
    return None if cell.ends is None or scale is None else (scale * cell.ends[0], scale * cell.ends[1])


def _span(function: Callable[..., float | None], *inputs: Ends) -> Ends | None:
    """Ends of a function that grows or falls with each of its inputs; None where it is not defined at some corner."""
    values = []
    for corner in itertools.product(*inputs):
        try:
            value = function(*corner)
        except (ValueError, ZeroDivisionError):
            return None
        if value is None or math.isnan(value):
            return None
        values.append(value)
    return min(values), max(values)


def _describe_inputs(cells: Sequence[Printed]) -> str:
    """Where inputs stand, and what they are, in a few words."""
    return f"{', '.join(cell.value for cell in cells)} of {cells[0].place}"


def _describe_result(inputs: Sequence[Printed], result: Ends, scale: float = 1.0) -> str:
    return f"{_describe_inputs(inputs)} give {scale * result[0]:.4g} to {scale * result[1]:.4g}"


def _check_repeated(cell: Printed, book: _Book) -> Iterator[_Result]:
    """The same number elsewhere."""
    for other in book.like(cell):
        if other == cell:
            continue
        ends = _scale(other, cell.unit)
        if cell.ends is not None and ends is not None:
            yield _Result(overlap(cell.ends, ends), f"{other.place} prints {other.value}", elsewhere=True)
        elif cell.ends is None and other.ends is None and cell.identity.metric == "tag":
            yield _Result(cell.value == other.value, f"{other.place} prints {other.value}", elsewhere=True)


def _check_normalised(cell: Printed, book: _Book) -> Iterator[_Result]:
    """The normalised metrics of Noé 2022, Eq. 17 to 20, of trial lists."""
    if cell.identity.metric not in NORMALISED or cell.identity.variant != "trial_lists" or cell.ends is None:
        return
    metric, condition, function = NORMALISED[cell.identity.metric]
    oo = {"condition": "OO", "system": "original", "attacker": "unprotected", "metric": metric, "variant": ""}
    for inputs in book.together(cell, oo, {"condition": condition, "metric": metric, "variant": ""}):
        pair = [_scale(input_, input_.unit) for input_ in inputs]
        if pair[0] is None or pair[1] is None:
            continue
        result = _span(function, pair[0], pair[1])
        if result is not None:
            scale = 100.0 if cell.unit == "%" else 1.0
            holds = overlap(cell.ends, (scale * result[0], scale * result[1]))
            yield _Result(holds, _describe_result(inputs, result, scale))
            return


def _check_tag(cell: Printed, book: _Book) -> Iterator[_Result]:
    """The tag of l_w (Nautsch 2020; Noé 2022, Table 1)."""
    if cell.identity.metric != "tag":
        return
    for (other,) in book.together(cell, {"metric": "l_w", "variant": ""}):
        if _locate(other) == _locate(cell) and other.ends is not None:
            tags = {metrics.tag(max(0.0, end)) for end in (*other.ends, float(other.value))}
            yield _Result(cell.value in tags, f"l_w {_describe_inputs([other])} has {' or '.join(sorted(tags))}")


def _check_average(cell: Printed, book: _Book) -> Iterator[_Result]:
    """Means of f and m, of dev and test, and the weighted averages of VPC 2022."""
    parts = _list_parts(cell)
    if not parts or cell.ends is None:
        return
    for inputs in book.together(cell, *({"subset": subset} for subset, _ in parts))[:1]:
        ends = [scaled for other in inputs if (scaled := _scale(other, cell.unit)) is not None]
        if len(ends) != len(parts):
            continue
        low, high = (sum(weight * end[side] for (_, weight), end in zip(parts, ends)) for side in (0, 1))
        text = _describe_result(inputs, (low, high))
        yield _Result(overlap(cell.ends, (low, high)), text, elsewhere=inputs[0].source != cell.source)


def _list_parts(cell: Printed) -> list[tuple[str, float]]:
    """Sets and weights that the average in a cell is made of."""
    if match := re.fullmatch(r"(\w+) \(mean of f and m\)", cell.identity.subset):
        return [(f"{match[1]}_trials_{sex}", 0.5) for sex in "fm"]
    if cell.identity.subset == "libri (mean of dev and test)":
        return [(f"libri_{part} (mean of f and m)", 0.5) for part in ("dev", "test")]
    if match := re.fullmatch(r"(dev|test) \((weighted average|average)\)", cell.identity.subset):
        weights = VPC2022_WEIGHTS if match[2] == "weighted average" else WER_WEIGHTS
        return [(name.format(match[1]), weight) for name, weight in weights.items()]
    return []


def _check_hull(cell: Printed, book: _Book) -> Iterator[_Result]:
    """On the convex hull an EER is never above Kaldi's of the same scores."""
    other = {"rocch": "kaldi", "kaldi": "rocch"}.get(cell.identity.variant) if cell.identity.metric == "eer" else None
    if other is None or cell.ends is None:
        return
    for (beside,) in book.together(cell, {"variant": other}):
        if _locate(beside) == _locate(cell) and beside.ends is not None:
            low, high = (cell, beside) if cell.identity.variant == "rocch" else (beside, cell)
            holds = low.ends is not None and high.ends is not None and low.ends[0] <= high.ends[1]
            yield _Result(holds, f"{other} {_describe_inputs([beside])}", bound=True)


def _check_ranks(cell: Printed, book: _Book) -> Iterator[_Result]:
    """Rank disclosure: shares are counts of inputs, MaxD is that of the largest share, and no less than that of rank 1."""
    if cell.source != "SRD2026" or not cell.identity.estimator or cell.ends is None:
        return
    low, high = cell.ends
    if cell.identity.metric in ("idr", "rank_spread"):
        parts = SRD_INPUTS if cell.identity.metric == "idr" else SRD_REFERENCES
        yield _Result(_is_on_grid((low / 100, high / 100), parts), f"a multiple of 1/{parts}", bound=True)
    if cell.identity.metric == "mean_d":
        for (top,) in book.together(cell, {"metric": "max_d"}):
            if top.ends is not None and _locate(top) == _locate(cell):
                yield _Result(high >= 0 and low <= top.ends[1], f"from 0 to MaxD {top.value}", bound=True)
    if cell.identity.metric == "max_d":
        share = (2**low / SRD_REFERENCES, 2**high / SRD_REFERENCES)
        yield _Result(_is_on_grid(share, SRD_INPUTS), f"log2({SRD_REFERENCES} k/{SRD_INPUTS}) of a whole k", bound=True)
        for (first,) in book.together(cell, {"metric": "idr"}):
            if first.ends is not None and _locate(first) == _locate(cell):
                ends = tuple(math.log2(SRD_REFERENCES * end / 100) for end in first.ends)
                equal = overlap(cell.ends, (ends[0], ends[1]))
                reason = f"IdR {first.value} % gives {ends[0]:.3f} to {ends[1]:.3f} at rank 1"
                yield _Result(equal or low > ends[0], reason if equal else f"above rank 1: {reason}", bound=not equal)


def _is_on_grid(ends: Ends, parts: int) -> bool:
    """Whether a multiple of 1/parts lies between the ends."""
    return math.floor(ends[1] * parts + 1e-9) >= ends[0] * parts - 1e-9


RECALLS = ("sad", "neu", "ang", "hap")
FOLDED = 0.0005
"""Half the last place of a fold: the challenges print means over five folds of rates that are rounded to three decimals (every printed
rate is a multiple of 0.0002), so a print is less exact than its decimals say."""


def _check_recall(cell: Printed, book: _Book) -> Iterator[_Result]:
    """The unweighted average recall is the mean of the recalls of the four emotions."""
    if cell.identity.metric != "uar" or cell.ends is None:
        return
    for inputs in book.together(cell, *({"metric": "recall", "variant": name} for name in RECALLS)):
        ends = [input_.ends for input_ in inputs if input_.ends is not None]
        if _locate(inputs[0]) == _locate(cell) and len(ends) == len(RECALLS):
            means = [sum(input_[side] for input_ in ends) / len(RECALLS) for side in (0, 1)]
            result = means[0] - 2 * FOLDED, means[1] + 2 * FOLDED
            yield _Result(overlap(cell.ends, result), _describe_result(inputs, result))


def _check_disclosure(cell: Printed, book: _Book) -> Iterator[_Result]:
    """LID 2026: the mean is made of its positive and its other part."""
    names = {"alid": ("pdr", "lid_plus", "ndr", "lid_minus"), "ndr": ("pdr",)}.get(cell.identity.metric)
    if names is None or cell.ends is None:
        return
    for inputs in book.together(cell, *({"metric": name} for name in names)):
        if _locate(inputs[0]) != _locate(cell):
            continue
        own, *ends = (_scale(other, "fraction" if other.unit == "%" else other.unit) for other in (cell, *inputs))
        known = [end for end in ends if end is not None]
        if len(known) == len(names):
            of_mean = len(names) > 1
            result = _span((lambda p, a, n, b: p * a + n * b) if of_mean else (lambda p: 1 - p), *known)
            if result is not None and own is not None:
                yield _Result(overlap(own, result), _describe_result(inputs, result))


RULES = (
    _check_repeated, _check_normalised, _check_tag, _check_average, _check_hull, _check_ranks, _check_recall, _check_disclosure,
)  # fmt: skip
