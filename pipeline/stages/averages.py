"""Which averages over trial sets there are: those that are configured, and the means of the sets of f and m."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from pipeline.stages.settings import Average, Evaluation

OF_A_SEX = re.compile(r"(?P<stem>.+?)(?:[_-]trials)?[_-](?P<sex>f|m|female|male|women|men)(?P<rest>[_-].+)?")
"""The name of a trial set of one sex."""
OTHER_SEX = {"f": "m", "female": "male", "women": "men"}
SEX_METRICS = ("eer", "d_ece")
"""Metrics of which the mean of f and m is formed unless an average names its own."""


def list_averages(evaluation: Evaluation, sets: Collection[str]) -> dict[str, Average]:
    """The averages by label whose sets the data have: those that are configured, and the means of f and m that none of them covers."""
    averages = {label: average for label, average in evaluation.products.averages.items() if has_sets(average, sets)}
    if evaluation.products.report.mean_of_sexes:
        for name, weights in means_of_sexes(sets, [average.weights for average in averages.values()]).items():
            averages[name] = Average(subset=name, weights=weights, metrics=SEX_METRICS)
    return averages


def means_of_sexes(sets: Collection[str], covered: Iterable[Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """By name, the weights of the two trial sets of one corpus, one of each sex.

    Args:
        sets: names of the trial sets.
        covered: weights of other means; a pair that is part of one of them is left to it.
    """
    others = [set(weights) for weights in covered]
    means = {}
    for name in sets:
        match = OF_A_SEX.fullmatch(name)
        if match is None or match["sex"] not in OTHER_SEX:
            continue
        pair = (name, name[: match.start("sex")] + OTHER_SEX[match["sex"]] + name[match.end("sex") :])
        mean = f"{match['stem']}{match['rest'] or ''} (mean of f and m)"
        if pair[1] in sets and mean not in sets and not any(set(pair) <= other for other in others):
            means[mean] = dict.fromkeys(pair, 0.5)
    return means


def has_sets(average: Average, sets: Collection[str]) -> bool:
    """Whether the data have all the sets of an average: else it is not formed at all."""
    return set(average.weights) <= set(sets)
