"""Printed cells from other printed cells: what follows, what does not, and what cannot be checked.

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
from pipeline.report.scorecard import verdicts
from pipeline.tables.published import Ends, Printed, decimals

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
    """A cell with one of ``verdicts.RECOMPUTED``, and from what."""

    cell: Printed
    verdict: str
    said: str = ""


@dataclass(frozen=True)
class _Found:
    """What a rule found of a cell: whether it holds, and whether it only bounds it."""

    holds: bool
    said: str
    elsewhere: bool = False
    bound: bool = False


def checked(cells: Sequence[Printed], known: Sequence[Printed], names: Mapping[str, str]) -> tuple[Check, ...]:
    """What the known cells say of some.

    Args:
        cells: those to check.
        known: all that are printed, the former among them.
        names: what a source calls a system, and its common name.
    """
    book = _Book(known, names)
    return tuple(_check(cell, book) for cell in cells)


def _check(cell: Printed, book: _Book) -> Check:
    found = [one for rule in RULES for one in rule(cell, book)]
    wrong = [one for one in found if not one.holds]
    if wrong:
        verdict = verdicts.CANNOT if any(not one.elsewhere for one in wrong) else verdicts.DISAGREE
        return Check(cell, verdict, _told(wrong))
    whole = [one for one in found if not one.bound]
    if whole:
        return Check(cell, verdicts.FOLLOWS, _told(whole))
    return Check(cell, verdicts.CONSISTENT, _told(found)) if found else Check(cell, verdicts.UNCHECKED)


def _told(found: Sequence[_Found]) -> str:
    said = list(dict.fromkeys(one.said for one in found))
    return "; ".join(said[:3]) + (f"; and {len(said) - 3} more" if len(said) > 3 else "")


class _Book:
    """Printed cells by what they are."""

    def __init__(self, cells: Sequence[Printed], names: Mapping[str, str]) -> None:
        self.names = names
        self._of: dict[tuple[str, ...], list[Printed]] = {}
        for cell in dict.fromkeys(cells):
            self._of.setdefault(self.key(cell), []).append(cell)

    def key(self, cell: Printed, **other: str) -> tuple[str, ...]:
        """The identity of a cell, some words of it changed, with the common name of its system."""
        words = dict(zip(_WORDS, cell.identity), **other)
        words["system"] = self.names.get(words["system"], words["system"])
        return tuple(words.values())

    def like(self, cell: Printed, **other: str) -> list[Printed]:
        """The cells that are as one, but for some words."""
        return self._of.get(self.key(cell, **other), [])

    def together(self, cell: Printed, *others: Mapping[str, str]) -> list[tuple[Printed, ...]]:
        """Cells that stand in one table, each as ``cell`` but for some words: those of its own table first, then of its own
        source, then of the finest print."""
        parts = [self.like(cell, **other) for other in others]
        found = []
        for first in parts[0]:
            rest = [[one for one in part if _where(one) == _where(first)] for part in parts[1:]]
            if all(rest):
                found.append((first, *(part[0] for part in rest)))
        return sorted(found, key=lambda one: _nearness(cell, one))


_WORDS = (
    "subset", "condition", "system", "attacker", "extractor", "trained_on", "backend", "metric", "variant", "estimator",
    "input_unit",
)  # fmt: skip


def _where(cell: Printed) -> tuple[str, str]:
    return cell.source, cell.table


def _nearness(cell: Printed, inputs: Sequence[Printed]) -> tuple[bool, bool, int]:
    return (
        _where(inputs[0]) != _where(cell),
        inputs[0].source != cell.source,
        -min(decimals(one.value) for one in inputs),
    )


def _scaled(cell: Printed, unit: str) -> Ends | None:
    """The ends of a cell in another unit."""
    scale = verdicts.factor(cell.unit, unit)
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


def _shown(cells: Sequence[Printed]) -> str:
    """Where inputs stand, and what they are, in a few words."""
    return f"{', '.join(one.value for one in cells)} of {cells[0].place}"


def _repeated(cell: Printed, book: _Book) -> Iterator[_Found]:
    """The same number elsewhere."""
    for other in book.like(cell):
        if other == cell:
            continue
        ends = _scaled(other, cell.unit)
        if cell.ends is not None and ends is not None:
            yield _Found(verdicts.meet(cell.ends, ends), f"{other.place} prints {other.value}", elsewhere=True)
        elif cell.ends is None and other.ends is None and cell.metric == "tag":
            yield _Found(cell.value == other.value, f"{other.place} prints {other.value}", elsewhere=True)


def _normalised(cell: Printed, book: _Book) -> Iterator[_Found]:
    """The normalised metrics of Noé 2022, Eq. 17 to 20, of trial lists."""
    if cell.metric not in NORMALISED or cell.variant != "trial_lists" or cell.ends is None:
        return
    metric, condition, function = NORMALISED[cell.metric]
    oo = {"condition": "OO", "system": "original", "attacker": "unprotected", "metric": metric, "variant": ""}
    for inputs in book.together(cell, oo, {"condition": condition, "metric": metric, "variant": ""}):
        pair = [_scaled(one, one.unit) for one in inputs]
        if pair[0] is None or pair[1] is None:
            continue
        found = _span(function, pair[0], pair[1])
        if found is not None:
            scale = 100.0 if cell.unit == "%" else 1.0
            holds = verdicts.meet(cell.ends, (scale * found[0], scale * found[1]))
            yield _Found(holds, _gives(inputs, found, scale))
            return


def _gives(inputs: Sequence[Printed], found: Ends, scale: float = 1.0) -> str:
    return f"{_shown(inputs)} give {scale * found[0]:.4g} to {scale * found[1]:.4g}"


def _tagged(cell: Printed, book: _Book) -> Iterator[_Found]:
    """The tag of l_w (Nautsch 2020; Noé 2022, Table 1)."""
    if cell.metric != "tag":
        return
    for (other,) in book.together(cell, {"metric": "l_w", "variant": ""}):
        if _where(other) == _where(cell) and other.ends is not None:
            tags = {metrics.tag(max(0.0, end)) for end in (*other.ends, float(other.value))}
            yield _Found(cell.value in tags, f"l_w {_shown([other])} has {' or '.join(sorted(tags))}")


def _averages(cell: Printed, book: _Book) -> Iterator[_Found]:
    """Means of f and m, of dev and test, and the weighted averages of VPC 2022."""
    parts = _parts(cell)
    if not parts or cell.ends is None:
        return
    tables = book.together(cell, *({"subset": subset} for subset, _ in parts))
    for inputs in tables[:1] if tables else []:
        ends = [_scaled(one, cell.unit) for one in inputs]
        known = [one for one in ends if one is not None]
        if len(known) != len(parts):
            continue
        low, high = (sum(weight * one[side] for (_, weight), one in zip(parts, known)) for side in (0, 1))
        said = _gives(inputs, (low, high))
        yield _Found(verdicts.meet(cell.ends, (low, high)), said, elsewhere=inputs[0].source != cell.source)


def _parts(cell: Printed) -> list[tuple[str, float]]:
    """Sets and weights that the average in a cell is made of."""
    if found := re.fullmatch(r"(\w+) \(mean of f and m\)", cell.subset):
        return [(f"{found[1]}_trials_{sex}", 0.5) for sex in "fm"]
    if cell.subset == "libri (mean of dev and test)":
        return [(f"libri_{part} (mean of f and m)", 0.5) for part in ("dev", "test")]
    if found := re.fullmatch(r"(dev|test) \((weighted average|average)\)", cell.subset):
        weights = VPC2022_WEIGHTS if found[2] == "weighted average" else WER_WEIGHTS
        return [(name.format(found[1]), weight) for name, weight in weights.items()]
    return []


def _hull(cell: Printed, book: _Book) -> Iterator[_Found]:
    """On the convex hull an EER is never above Kaldi's of the same scores."""
    other = {"rocch": "kaldi", "kaldi": "rocch"}.get(cell.variant) if cell.metric == "eer" else None
    if other is None or cell.ends is None:
        return
    for (beside,) in book.together(cell, {"variant": other}):
        if _where(beside) == _where(cell) and beside.ends is not None:
            low, high = (cell, beside) if cell.variant == "rocch" else (beside, cell)
            holds = low.ends is not None and high.ends is not None and low.ends[0] <= high.ends[1]
            yield _Found(holds, f"{other} {_shown([beside])}", bound=True)


def _ranks(cell: Printed, book: _Book) -> Iterator[_Found]:
    """Rank disclosure: shares are counts of inputs, MaxD is that of the largest share, and no less than that of rank 1."""
    if cell.source != "SRD2026" or not cell.estimator or cell.ends is None:
        return
    low, high = cell.ends
    if cell.metric in ("idr", "rank_spread"):
        parts = SRD_INPUTS if cell.metric == "idr" else SRD_REFERENCES
        yield _Found(_on_grid((low / 100, high / 100), parts), f"a multiple of 1/{parts}", bound=True)
    if cell.metric == "mean_d":
        for (top,) in book.together(cell, {"metric": "max_d"}):
            if top.ends is not None and _where(top) == _where(cell):
                yield _Found(high >= 0 and low <= top.ends[1], f"from 0 to MaxD {top.value}", bound=True)
    if cell.metric == "max_d":
        share = (2**low / SRD_REFERENCES, 2**high / SRD_REFERENCES)
        yield _Found(_on_grid(share, SRD_INPUTS), f"log2({SRD_REFERENCES} k/{SRD_INPUTS}) of a whole k", bound=True)
        for (first,) in book.together(cell, {"metric": "idr"}):
            if first.ends is not None and _where(first) == _where(cell):
                ends = tuple(math.log2(SRD_REFERENCES * end / 100) for end in first.ends)
                equal = verdicts.meet(cell.ends, (ends[0], ends[1]))
                said = f"IdR {first.value} % gives {ends[0]:.3f} to {ends[1]:.3f} at rank 1"
                yield _Found(equal or low > ends[0], said if equal else f"above rank 1: {said}", bound=not equal)


def _on_grid(ends: Ends, parts: int) -> bool:
    """Whether a multiple of 1/parts lies between the ends."""
    return math.floor(ends[1] * parts + 1e-9) >= ends[0] * parts - 1e-9


RECALLS = ("sad", "neu", "ang", "hap")
FOLDED = 0.0005
"""Half the last place of a fold: the challenges print means over five folds of rates that are rounded to three decimals (every printed
rate is a multiple of 0.0002), so a print is less exact than its decimals say."""


def _recalled(cell: Printed, book: _Book) -> Iterator[_Found]:
    """The unweighted average recall is the mean of the recalls of the four emotions."""
    if cell.metric != "uar" or cell.ends is None:
        return
    for inputs in book.together(cell, *({"metric": "recall", "variant": name} for name in RECALLS)):
        ends = [one.ends for one in inputs if one.ends is not None]
        if _where(inputs[0]) == _where(cell) and len(ends) == len(RECALLS):
            means = [sum(one[side] for one in ends) / len(RECALLS) for side in (0, 1)]
            found = means[0] - 2 * FOLDED, means[1] + 2 * FOLDED
            yield _Found(verdicts.meet(cell.ends, found), _gives(inputs, found))


def _disclosed(cell: Printed, book: _Book) -> Iterator[_Found]:
    """LID 2026: the mean is made of its positive and its other part."""
    names = {"alid": ("pdr", "lid_plus", "ndr", "lid_minus"), "ndr": ("pdr",)}.get(cell.metric)
    if names is None or cell.ends is None:
        return
    for inputs in book.together(cell, *({"metric": name} for name in names)):
        if _where(inputs[0]) != _where(cell):
            continue
        ends = [_scaled(one, "fraction" if one.unit == "%" else one.unit) for one in inputs]
        known = [one for one in ends if one is not None]
        if len(known) == len(names):
            of_mean = len(names) > 1
            found = _span((lambda p, a, n, b: p * a + n * b) if of_mean else (lambda p: 1 - p), *known)
            own = _scaled(cell, "fraction" if cell.unit == "%" else cell.unit)
            if found is not None and own is not None:
                yield _Found(verdicts.meet(own, found), _gives(inputs, found))


RULES = (_repeated, _normalised, _tagged, _averages, _hull, _ranks, _recalled, _disclosed)
