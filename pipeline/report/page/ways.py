"""Which rows are the number, and which are the same number once more: by another way, of another system, under another name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from pipeline.report import summaries

ORIGINAL, NONE = "original", "none"
ABOUT, WAYS = list(summaries.LEFT), list(summaries.DEFINED_BY)
SAID = ["value", "label", "low", "high", "null_low", "null_high", "ceiling"]
COUNTS = ["n_expected", "n_used", "n_speakers", "n_target", "n_nontarget", "status", "reason", "note", "signature"]


def parted(rows: pd.DataFrame, ways: Sequence[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows of a metric that are the number, and those that are the same number by another way.

    A row is another way where one of the same thing is by an earlier way, or by the same one with fewer words in its variant: the
    usual definition has none.

    Args:
        rows: of one metric.
        ways: variants and estimators that are ways to compute it, the one to be read first at the front.
    """
    order = {way: place for place, way in enumerate(ways)}
    told = list(zip(*(rows[column].astype(str) for column in [*ABOUT, WAYS[-1]])))
    by = [_by(variant, estimator, order) for variant, estimator in zip(rows["variant"], rows["estimator"])]
    of: dict[tuple[str, ...], set[tuple[int, frozenset[str]]]] = {}
    for about, way in zip(told, by):
        of.setdefault(about, set()).add(way)
    other = [
        any(way != mine and way[0] <= mine[0] and way[1] <= mine[1] for way in of[about])
        for about, mine in zip(told, by)
    ]
    chosen = pd.Series(other, index=rows.index, dtype=bool)
    return rows[~chosen], rows[chosen]


def _by(variant: str, estimator: str, order: Mapping[str, int]) -> tuple[int, frozenset[str]]:
    """The place of the way by which a row is, and the other words of its variant."""
    words = {*filter(None, str(variant).split(", ")), *filter(None, [str(estimator)])}
    return min((order[word] for word in words if word in order), default=0), frozenset(words - {*order})


def once(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with those of original against original speech once instead of once a system, where these do not differ."""
    originals = rows[rows["condition"] == "OO"]
    if not len(originals):
        return rows
    system = ["system", "system_level"]
    same = ["metric", *(column for column in [*ABOUT, *WAYS] if column not in system)]
    content = originals[[*SAID, *COUNTS]].astype("string").fillna("")
    line = content.agg("\x1f".join, axis=1)
    uniform = line.groupby([originals[column].astype(str) for column in same], sort=False).transform("nunique") == 1
    first = ~originals.duplicated(same)
    kept = rows.drop(index=originals.index[uniform & ~first])
    alike = originals.index[uniform & first]
    kept.loc[alike, system[0]] = ORIGINAL
    kept.loc[alike, system[1]] = NONE
    return kept


def the_same(parts: Mapping[str, pd.DataFrame]) -> dict[str, str]:
    """Metrics whose rows have the very numbers of an earlier one's, by name, and that one's name.

    Args:
        parts: the rows of each metric of a family.
    """
    seen: dict[str, dict[tuple[str, ...], tuple[float, ...]]] = {}
    found: dict[str, str] = {}
    for name, rows in parts.items():
        numbers = {
            tuple(map(str, key)): values
            for key, values in zip(
                rows[[*ABOUT, *WAYS]].itertuples(index=False, name=None),
                rows[["value", "low", "high", "null_low", "null_high"]].itertuples(index=False, name=None),
            )
        }
        original = next((earlier for earlier, held in seen.items() if _is_held(numbers, held)), None)
        if original is None:
            seen[name] = numbers
        else:
            found[name] = original
    return found


def _is_held(
    numbers: Mapping[tuple[str, ...], tuple[float, ...]], by: Mapping[tuple[str, ...], tuple[float, ...]]
) -> bool:
    """Whether all numbers that there are stand in the other's rows, of which there are as many."""
    if numbers.keys() != by.keys() or all(pd.isna(values[0]) for values in numbers.values()):
        return False
    return all(
        mine == other or (pd.isna(mine) and (place > 0 or pd.isna(other)))
        for about, values in numbers.items()
        for place, (mine, other) in enumerate(zip(values, by[about]))
    )
