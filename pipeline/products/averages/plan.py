"""What the configuration asks for beyond measured rows, and this data or these metrics do not give."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from pipeline.contracts import MetricFamily
from pipeline.names import join_few
from pipeline.registry import component, ours
from pipeline.stages.settings import Average, Evaluation

NORMALISED = {"d_ece_op_oo": "d_ece", "cllr_min_op_oo": "cllr_min", "g_d_ece": "d_ece", "g_cllr_min": "cllr_min"}
"""What ``derived=[normalised]`` forms, and of which metric."""
MEASURED_ON_SETS = ("trials", "pairs", "trial_runs", "pair_runs")
OF_A_SEX = re.compile(r"(?P<stem>.+?)(?:[_-]trials)?[_-](?P<sex>f|m|female|male|women|men)(?P<rest>[_-].+)?")
"""The name of a trial set of one sex."""
OTHER_SEX = {"f": "m", "female": "male", "women": "men"}
SEX_METRICS = ("eer", "d_ece")
"""Metrics of which the mean of f and m is formed unless an average names its own."""


def formed(evaluation: Evaluation, sets: Collection[str]) -> dict[str, Average]:
    """The averages by label whose sets the data have: those that are configured, and the means of f and m that none of them covers."""
    found = {label: one for label, one in evaluation.averages.items() if has_sets(one, sets)}
    if evaluation.report.mean_of_sexes:
        for name, weights in means_of_sexes(sets, [one.weights for one in found.values()]).items():
            found[name] = Average(subset=name, weights=weights, metrics=SEX_METRICS)
    return found


def means_of_sexes(sets: Collection[str], covered: Iterable[Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """By name, the weights of the two trial sets of one corpus, one of each sex.

    Args:
        sets: names of the trial sets.
        covered: weights of other means; a pair that is part of one of them is left to it.
    """
    others = [set(weights) for weights in covered]
    found = {}
    for name in sets:
        read = OF_A_SEX.fullmatch(name)
        if read is None or read["sex"] not in OTHER_SEX:
            continue
        pair = (name, name[: read.start("sex")] + OTHER_SEX[read["sex"]] + name[read.end("sex") :])
        mean = f"{read['stem']}{read['rest'] or ''} (mean of f and m)"
        if pair[1] in sets and mean not in sets and not any(set(pair) <= one for one in others):
            found[mean] = dict.fromkeys(pair, 0.5)
    return found


def has_sets(average: Average, sets: Collection[str]) -> bool:
    """Whether the data have all the sets of an average: else it is not formed at all."""
    return set(average.weights) <= set(sets)


def unformed(evaluation: Evaluation, sets: Collection[str]) -> Iterator[str]:
    """What is asked for and cannot be formed, a sentence each.

    Args:
        sets: names of the trial sets.
    """
    measured = _measured(evaluation)
    for name, of in NORMALISED.items():
        if evaluation.derived and of not in measured:
            yield f"{name} from trial lists is not formed: it needs {of}, which {maker(of)} gives"
        elif evaluation.derived:
            measured.add(name)
    for average in evaluation.averages.values():
        lacking = [name for name in average.weights if name not in sets]
        if lacking:
            yield f"'{average.subset}' is not formed: there is no trial set {join_few(lacking)} (there is: {join_few(sorted(sets), 8)})"
            continue
        without = [name for name in average.metrics if name not in measured]
        if without:
            yield f"'{average.subset}' is not formed of {', '.join(without)}: no chosen metric measures that on trial sets"
    yield from _unranked(evaluation, sets)


def _unranked(evaluation: Evaluation, sets: Collection[str]) -> Iterator[str]:
    """Why systems are not put into the conditions of a challenge, or not as it puts them."""
    bands = evaluation.bands
    if bands is None:
        return
    means = {one.subset for one in formed(evaluation, sets).values() if "eer" in one.metrics}
    if bands.subset not in means | set(sets):
        yield f"no minimum-EER conditions: there is no '{bands.subset}' (bands.subset), a trial set or an average of the EER"
    elif bands.attacker and bands.attacker not in evaluation.attackers:
        yield f"minimum-EER conditions by the strongest attack alone: no attacker {bands.attacker} is chosen (bands.attacker)"
    elif not rankers(evaluation):
        yield (
            "minimum-EER conditions by the strongest attack alone: no chosen attacker adapts to the systems, as those do by whom "
            "the challenges rank (training=anonymised)"
        )


def rankers(evaluation: Evaluation) -> list[str]:
    """The attackers by whose lowest EER systems are ranked: the one that is named, else those that adapt to a system."""
    bands = evaluation.bands
    return [bands.attacker] if bands is not None and bands.attacker else list(evaluation.adapting)


def maker(metric: str) -> str:
    """The metric families of ours that give a metric, as one chooses them."""
    families = [name for name in ours("families") if metric in component("families", name).metrics]
    return " or ".join(f"metric={name}" for name in families)


def _measured(evaluation: Evaluation) -> set[str]:
    """Names of the metrics that have rows for trial sets."""
    families: Mapping[str, type[MetricFamily]] = {label: one.component for label, one in evaluation.metrics.items()}
    return {name for one in families.values() if one.reads in MEASURED_ON_SETS for name in one.metrics}
