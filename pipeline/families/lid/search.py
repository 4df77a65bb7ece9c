"""Trials as a search among candidates: settings, complete matrices of trial utterances and candidates, and slopes.

Slopes come from other speakers of a development set, or from all but the one who is scored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np
import pandas as pd
from pydantic import Field, field_validator, model_validator

from pipeline.contracts import Attribute, Trials, numeric
from pipeline.families._common import UncertaintySettings
from pipeline.metrics._base import MetricError, Undefined
from pipeline.metrics.conversation import length_slopes
from pipeline.metrics.local_disclosure import loso_slopes, published_slope, softmax_slope
from pipeline.seeds import generator


class NoMatrix(MetricError):
    """Some candidate was not tried with some trial utterance, or with several models."""


@dataclass(frozen=True, eq=False)
class Block:
    """Candidates who are all tried with the same utterances.

    Attributes:
        scores: float64 [n, N].
        truth: int [n], the true candidate.
        candidates: str [N], their speakers.
        utterances: str [n].
        name: what tells it from the others, ``''`` where there are none.
    """

    scores: np.ndarray
    truth: np.ndarray
    candidates: np.ndarray
    utterances: np.ndarray
    name: str = ""


@dataclass(frozen=True)
class Search:
    """All blocks of an attack: one, unless trials stay within groups of speakers, such as the sexes.

    Attributes:
        left_out: utterances of speakers who are not enrolled.
    """

    blocks: Sequence[Block]
    left_out: int

    @property
    def note(self) -> str:
        """What the reader of its numbers must know."""
        notes = []
        if self.left_out:
            notes.append(f"{self.left_out} trial utterances of speakers who are not enrolled are left out")
        if len(self.blocks) > 1:
            sizes = " and ".join(f"{block.candidates.size} ({block.name})" for block in self.blocks)
            notes.append(f"each speaker is one of the candidates of the same group: {sizes}")
        return "; ".join(notes)


def build_search(data: Trials) -> Search:
    """The matrices of scores against all candidates.

    Raises:
        NoMatrix: there is none.
        MetricError: the ids of utterances are not known.
    """
    if data.utterances is None:
        raise NoMatrix("the trials do not say which utterance they try")
    column, names = _number(data.models)
    line, utterances = _number(data.utterances)
    first = np.zeros(len(utterances), dtype=np.int64)
    first[line] = np.arange(line.size)
    counts = np.zeros((len(utterances), len(names)), dtype=np.int64)
    np.add.at(counts, (line, column), 1)
    place = {name: number for number, name in enumerate(names.tolist())}
    truth = np.array([place.get(name, -1) for name in data.speakers[first].tolist()], dtype=np.int64)
    kept = truth >= 0
    if not kept.any():
        raise NoMatrix("no trial is of a speaker who is enrolled")
    if (counts[kept] > 1).any():
        raise NoMatrix("a candidate has several enrolment models, and a posterior over candidates needs one of each")
    scores = np.full(counts.shape, np.nan)
    scores[line, column] = data.scores
    tried = counts[kept] > 0
    # Each block has candidates of its own, two at least, and their utterances.
    patterns = np.unique(tried, axis=0)
    is_apart = (patterns.sum(axis=0) == 1).all() and (patterns.sum(axis=1) >= 2).all()
    if not is_apart or not tried[np.arange(len(tried)), truth[kept]].all():
        raise NoMatrix(
            f"{int((~tried).sum())} of {tried.size} pairs of a candidate and a trial utterance are no trial, and who among all "
            "candidates speaks needs all"
        )
    blocks = []
    for members in sorted((np.flatnonzero(pattern) for pattern in patterns), key=lambda members: int(members[0])):
        mine = np.isin(truth, members) & kept
        own = np.searchsorted(members, truth[mine])
        blocks.append(Block(scores[np.ix_(mine, members)], own, names[members], utterances[mine]))
    return Search(_name_blocks(blocks, data.attributes), int((~kept).sum()))


def _number(names: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    numbers, ordered = pd.factorize(names, sort=True)
    return numbers, np.asarray(ordered, dtype=str)


def _name_blocks(blocks: Sequence[Block], attributes: Mapping[str, Attribute]) -> list[Block]:
    """Blocks with names: their sex, else numbers."""
    if len(blocks) == 1:
        return list(blocks)
    sexes_by_name = attributes["sex"].speakers if "sex" in attributes else {}
    sexes = [{sexes_by_name.get(name, "") for name in block.candidates.tolist()} for block in blocks]
    told = all(len(sex) == 1 and "" not in sex for sex in sexes) and len(set().union(*sexes)) == len(blocks)
    names = [next(iter(sex)) for sex in sexes] if told else [f"group {k}" for k in range(1, len(blocks) + 1)]
    return [replace(block, name=name) for block, name in zip(blocks, names)]


class LidSettings(UncertaintySettings):
    """Settings of the disclosure of one among N candidates.

    Attributes:
        slope: of the posterior over candidates. ``softmax`` learns it from the trial set that ``development`` names, and where
            it names none as ``loso`` does: for each speaker from the trials of all the others. ``published`` is the logistic
            regression of arXiv 2607.06259, on that trial set too. A number must come from other speakers than those who are
            evaluated. Rows name it: ``dev``, ``loso``, ``published`` or the number.
        development: by trial set, another one of other speakers, under the same attack, to learn the slope from:
            ``{libri_test_trials_f: libri_dev_trials_f}``.
        ties: ranks and pi_link ``spread`` equal scores evenly, or take the ``best`` or ``worst`` place.
        lengths: numbers of trial utterances that are pooled, for the figure of longer conversations: of them, those that half
            of the speakers have, and three of them. The same speakers stand at each; () leaves the figure out.
        pooled: choices of utterances of a speaker at each length; where there are more, so many are drawn, and fewer where
            speakers and candidates are so many that 300,000 scores at a length would be passed, down to 10.
    """

    name: Literal["lid"] = numeric("lid")
    slope: Literal["softmax", "loso", "published"] | Annotated[float, Field(ge=0, allow_inf_nan=False)] = numeric(
        "softmax"
    )
    development: dict[str, str] | None = numeric(None)
    ties: Literal["spread", "best", "worst"] = numeric("spread")
    lengths: tuple[int, ...] = numeric((1, 2, 3, 5, 10))
    pooled: int = numeric(100, ge=1)

    @field_validator("lengths")
    @classmethod
    def _distinct(cls, chosen: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(chosen)) != len(chosen) or any(length < 1 for length in chosen):
            raise ValueError("lengths are 1 or more, each once")
        return tuple(sorted(chosen))

    @model_validator(mode="after")
    def _has_others(self) -> LidSettings:
        if self.slope == "published" and not self.development:
            raise ValueError(
                "slope=published is learnt from other speakers: development={SET: OTHER_SET} names them, or leave slope out"
            )
        if self.development and self.slope not in ("softmax", "published"):
            raise ValueError(
                f"development names speakers to learn from, and slope={self.slope} learns nothing from them"
            )
        return self


Slope = float | np.ndarray
"""Of the posterior: one, or one for each candidate [N]."""


class Slopes:
    """The slopes of an attack.

    Attributes:
        name: as rows name their source.
        fixed: whether they are of other speakers than those who are scored.
    """

    def __init__(self, settings: LidSettings, development: Trials | None) -> None:
        self.settings = settings
        self._dev: Search | None = None
        self._why = ""
        slope = settings.slope
        if isinstance(slope, float):
            self.name = f"slope {slope:g}"
        elif slope == "published":
            self.name = "published"
            self._why = "" if development is not None else "no other trial set is named for this one (development)"
        else:
            self.name = "loso" if development is None or slope == "loso" else "dev"
        self.fixed = self.name != "loso"
        if development is not None:
            try:
                self._dev = build_search(development)
            except NoMatrix as error:
                self._why = f"of the speakers to learn from: {error}"

    def learn(self, block: Block) -> Slope:
        """The slope of the posterior over the candidates of a block.

        Raises:
            Undefined: there is nobody to learn it from, or too few.
        """
        slope = self.settings.slope
        if isinstance(slope, float):
            return slope
        if self.name == "loso":
            return loso_slopes(block.scores, block.truth).value
        dev = self._matching_block(block)
        if self.name == "published":
            return max(published_slope(dev.scores, dev.truth)[0], 0.0)
        return softmax_slope(dev.scores, dev.truth).value

    def learn_for_lengths(self, block: Block, lengths: Sequence[int]) -> float | list[float] | None:
        """The slope at each number of pooled utterances; None learns it from the other speakers."""
        slope = self.settings.slope
        if isinstance(slope, float):
            return slope
        if self.name != "dev" or self._why:
            return None
        dev = self._matching_block(block)
        draws = generator(self.settings.seed, "choices of utterances that are pooled, to learn from")
        return length_slopes(dev.scores, dev.truth, lengths, subsets=self.settings.pooled, generator=draws)

    def count_utterances(self, block: Block) -> np.ndarray | None:
        """Utterances of each speaker [S] who is learnt from at each number of pooled ones; None where nobody is."""
        if self.name != "dev" or self._why:
            return None
        counts = np.bincount(self._matching_block(block).truth)
        return counts[counts > 0]

    def _matching_block(self, block: Block) -> Block:
        """The candidates to learn from, of the same name where there are several blocks.

        Raises:
            Undefined: there are none.
        """
        if self._why or self._dev is None:
            raise Undefined(self._why)
        blocks = self._dev.blocks
        alike = blocks if len(blocks) == 1 else [other for other in blocks if other.name == block.name]
        if len(alike) != 1:
            raise Undefined("those to learn from are in several groups, and none is like this one")
        return alike[0]
