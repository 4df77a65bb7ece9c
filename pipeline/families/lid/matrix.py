"""Trials as what a search among candidates needs: complete matrices of trial utterances and candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from pipeline.contracts import Attribute, Trials
from pipeline.metrics import MetricError


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
        found = []
        if self.left_out:
            found.append(f"{self.left_out} trial utterances of speakers who are not enrolled are left out")
        if len(self.blocks) > 1:
            sizes = " and ".join(f"{block.candidates.size} ({block.name})" for block in self.blocks)
            found.append(f"each speaker is one of the candidates of the same group: {sizes}")
        return "; ".join(found)


def search(data: Trials) -> Search:
    """The matrices of scores against all candidates.

    Raises:
        NoMatrix: there is none.
        MetricError: the ids of utterances are not known.
    """
    if data.utterances is None:
        raise NoMatrix("the trials do not say which utterance they try")
    column, names = _numbered(data.models)
    line, utterances = _numbered(data.utterances)
    first = np.zeros(len(utterances), dtype=np.int64)
    first[line] = np.arange(line.size)
    held = np.zeros((len(utterances), len(names)), dtype=np.int64)
    np.add.at(held, (line, column), 1)
    place = {name: number for number, name in enumerate(names.tolist())}
    truth = np.array([place.get(name, -1) for name in data.speakers[first].tolist()], dtype=np.int64)
    kept = truth >= 0
    if not kept.any():
        raise NoMatrix("no trial is of a speaker who is enrolled")
    if (held[kept] > 1).any():
        raise NoMatrix("a candidate has several enrolment models, and a posterior over candidates needs one of each")
    scores = np.full(held.shape, np.nan)
    scores[line, column] = data.scores
    tried = held[kept] > 0
    groups = _groups(tried, truth[kept])
    if groups is None:
        missing, wanted = int((~tried).sum()), tried.size
        raise NoMatrix(
            f"{missing} of {wanted} pairs of a candidate and a trial utterance are no trial, and who among all candidates speaks "
            "needs all"
        )
    blocks = []
    for members in groups:
        mine = np.isin(truth, members) & kept
        own = np.searchsorted(members, truth[mine])
        blocks.append(Block(scores[np.ix_(mine, members)], own, names[members], utterances[mine]))
    return Search(_named(blocks, data.attributes), int((~kept).sum()))


def _numbered(names: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The number of each name, and the names in order."""
    numbers, found = pd.factorize(names, sort=True)
    return numbers, np.asarray(found, dtype=str)


def _groups(tried: np.ndarray, truth: np.ndarray) -> list[np.ndarray] | None:
    """The candidates [N] of each block, of two at least; None where trials are no blocks.

    Args:
        tried: bool [n, N].
        truth: int [n].
    """
    patterns = np.unique(tried, axis=0)
    alone = patterns.sum(axis=0) == 1
    if not alone.all() or (patterns.sum(axis=1) < 2).any() or not tried[np.arange(truth.size), truth].all():
        return None
    groups = [np.flatnonzero(pattern) for pattern in patterns]
    return sorted(groups, key=lambda members: int(members[0]))


def _named(blocks: Sequence[Block], attributes: Mapping[str, Attribute]) -> list[Block]:
    """Blocks with names: their sex, else numbers."""
    if len(blocks) == 1:
        return list(blocks)
    known = attributes["sex"].speakers if "sex" in attributes else {}
    sexes = [{known.get(name, "") for name in block.candidates.tolist()} for block in blocks]
    told = all(len(each) == 1 and "" not in each for each in sexes) and len(set().union(*sexes)) == len(blocks)
    names = [next(iter(each)) for each in sexes] if told else [f"group {k}" for k in range(1, len(blocks) + 1)]
    return [
        Block(block.scores, block.truth, block.candidates, block.utterances, name) for block, name in zip(blocks, names)
    ]
