"""What is worked out of tables that nobody changes, kept while it is likely to be asked for again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Kept(Generic[P, T]):
    """A function of tables (or other values that do not change), by their identity, with its last answers.

    Args:
        function: what is worked out.
        most: so many answers are kept, and what they were worked out of.
    """

    def __init__(self, function: Callable[P, T], most: int) -> None:
        self.function, self.most = function, most
        self._answers: OrderedDict[tuple[int, ...], tuple[tuple[object, ...], T]] = OrderedDict()

    def __call__(self, *of: P.args, **none: P.kwargs) -> T:
        asked = tuple(map(id, of))
        # One look: another thread may push an answer out between two.
        found = self._answers.get(asked)
        if found is not None:
            return found[1]
        made = self.function(*of, **none)
        self._answers[asked] = (of, made)
        while len(self._answers) > self.most:
            self._answers.popitem(last=False)
        return made

    def answers(self) -> list[T]:
        """What is kept."""
        return [made for _, made in list(self._answers.values())]
