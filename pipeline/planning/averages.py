"""What the configuration asks for beyond measured rows, and this data or these metrics do not give."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from pipeline.contracts import MetricFamily
from pipeline.names import few
from pipeline.planning.settings import Average, Evaluation
from pipeline.registry import component, ours

NORMALISED = {"d_ece_op_oo": "d_ece", "cllr_min_op_oo": "cllr_min", "g_d_ece": "d_ece", "g_cllr_min": "cllr_min"}
"""What ``derived=[normalised]`` forms, and of which metric."""
MEASURED_ON_SETS = ("trials", "pairs", "trial_runs", "pair_runs")


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
            yield f"'{average.subset}' is not formed: there is no trial set {few(lacking)} (there is: {few(sorted(sets), 8)})"
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
    formed = {one.subset for one in evaluation.averages.values() if has_sets(one, sets) and "eer" in one.metrics}
    if bands.subset not in formed | set(sets):
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
