"""What ``from-scores`` does where scores order the classes the wrong way round: distances, or classes exchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipeline.cli.score_report import Report
from pipeline.errors import DataError, Fault
from pipeline.metrics import ClassOrder

AS_IS = "--as-is"


def check(
    orders: Mapping[str, tuple[str, ClassOrder]], negated: Sequence[str], as_is: bool, report: Report, unit: str
) -> None:
    """Put the order of each file into the report, and refuse files whose order is the wrong way round beyond chance.

    Args:
        orders: by the name of an option that gave scores, the file and its order.
        negated: the options of which distances were made similarities.
        as_is: keep a wrong order, and say so.
        unit: what scores above what in the right order, as ``a target scores above a non-target``.

    Raises:
        DataError: an order is the wrong way round.
    """
    wrong = {name: found for name, found in orders.items() if found[1].is_reversed}
    for name, (where, order) in orders.items():
        place = ("order", name) if len(orders) > 1 else ("order",)
        for part in ("auc", "p_value", "speakers"):
            report.put((*place, part), getattr(order, part), order.reason)
        said = _said(order, unit)
        if name in wrong and as_is:
            report.note(f"{where}: the scores order the classes the wrong way round and are kept by {AS_IS}: {said}")
        elif order.is_doubtful and not as_is:
            report.note(
                f"{where}: the scores may order the classes the wrong way round: {said}, with too few speakers to tell that "
                "from chance. If lower means more similar, give --distance"
            )
    if wrong and not as_is:
        raise _refusal(wrong, list(orders), negated, unit)


def _refusal(
    wrong: Mapping[str, tuple[str, ClassOrder]], names: Sequence[str], negated: Sequence[str], unit: str
) -> DataError:
    again = [name for name in wrong if name in negated]
    if again:
        cause = "similarities, which --distance negates, or target and non-target exchanged"
        rest = [name for name in negated if name not in again]
        mend = f"give `--distance {' '.join(rest)}`" if rest else "leave out --distance"
    else:
        cause = "distances, or target and non-target exchanged in labels or in scores"
        given = sorted({*wrong, *negated}, key=list(names).index)
        which = "" if len(given) == len(names) else f" {' '.join(given)}"
        mend = f"if lower means more similar, add `--distance{which}`"
    return DataError(
        "the scores order the classes the wrong way round, beyond chance",
        where=", ".join(where for where, _ in wrong.values()),
        cause=cause,
        remedy=f"{mend}; if the attack is worse than chance indeed, add `{AS_IS}`: the result says so then",
        faults=[Fault(_said(order, unit), where) for where, order in wrong.values()],
    )


def _said(order: ClassOrder, unit: str) -> str:
    tested = "" if order.p_value is None else f" (p = {order.p_value:.1g} over {order.speakers} speakers)"
    return f"{unit} in {100 * order.auc:.1f} % of comparisons{tested}"
