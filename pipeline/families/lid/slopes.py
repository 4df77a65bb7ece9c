"""Where slopes come from: other speakers of a development set, or all but the one who is scored."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipeline.contracts import Trials
from pipeline.families.lid.matrix import Block, NoMatrix, Search, search
from pipeline.families.lid.settings import LidSettings
from pipeline.metrics import (
    Undefined,
    length_slopes,
    loso_slopes,
    published_slope,
    softmax_slope,
    stranger_slopes,
)
from pipeline.seeds import generator

Slope = float | np.ndarray
"""Of the posterior: one, or one for each candidate [N]."""


class Slopes:
    """The slopes of an attack.

    Attributes:
        name: as rows name their source.
        fixed: whether they are of other speakers than those who are scored.
    """

    def __init__(self, settings: LidSettings, found: Search, development: Trials | None) -> None:
        self.settings = settings
        self._several = len(found.blocks) > 1
        self._dev: Search | None = None
        self._why = ""
        given = settings.slope
        if isinstance(given, float):
            self.name = f"slope {given:g}"
        elif given == "published":
            self.name = "published"
            self._why = "" if development is not None else "no other trial set is named for this one (development)"
        else:
            self.name = "loso" if development is None or given == "loso" else "dev"
        self.fixed = self.name != "loso"
        if development is not None:
            try:
                self._dev = search(development)
            except NoMatrix as error:
                self._why = f"of the speakers to learn from: {error}"

    def of(self, block: Block) -> Slope:
        """The slope of the posterior over the candidates of a block.

        Raises:
            Undefined: there is nobody to learn it from, or too few.
        """
        given = self.settings.slope
        if isinstance(given, float):
            return given
        if self.name == "loso":
            return loso_slopes(block.scores, block.truth).value
        dev = self._like(block)
        if self.name == "published":
            return max(published_slope(dev.scores, dev.truth)[0], 0.0)
        return softmax_slope(dev.scores, dev.truth).value

    def of_stranger(self, block: Block, classes: np.ndarray, spoken: np.ndarray) -> np.ndarray:
        """The slope [N] of the question for the class of a stranger, always from the other speakers; raises as :meth:`of` does."""
        return stranger_slopes(block.scores, block.truth, classes, spoken)

    def of_lengths(self, block: Block, lengths: Sequence[int]) -> float | list[float] | None:
        """The slope at each number of pooled utterances; None learns it from the other speakers."""
        given = self.settings.slope
        if isinstance(given, float):
            return given
        if self.name != "dev" or self._why:
            return None
        dev = self._like(block)
        draws = generator(self.settings.seed, "choices of utterances that are pooled, to learn from")
        return length_slopes(dev.scores, dev.truth, lengths, subsets=self.settings.pooled, generator=draws)

    def held(self, block: Block) -> np.ndarray | None:
        """Utterances of each speaker [S] who is learnt from at each number of pooled ones; None where nobody is."""
        if self.name != "dev" or self._why:
            return None
        held = np.bincount(self._like(block).truth)
        return held[held > 0]

    def _like(self, block: Block) -> Block:
        """The candidates to learn from, of the same name where there are several blocks.

        Raises:
            Undefined: there are none.
        """
        if self._why or self._dev is None:
            raise Undefined(self._why)
        blocks = self._dev.blocks
        alike = [one for one in blocks if one.name == block.name] if len(blocks) > 1 or self._several else blocks
        if len(blocks) == 1:
            return blocks[0]
        if len(alike) != 1:
            raise Undefined("those to learn from are in several groups, and none is like this one")
        return alike[0]
