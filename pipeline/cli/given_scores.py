"""What a configuration may choose where score files are evaluated: the files say themselves who attacks what, and with what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.cli import overrides
from pipeline.errors import ConfigError, Fault
from pipeline.registry import component

SAID_BY_FILES = ("system", "extractor", "attacker", "backend", "train")


def settled(values: dict[str, Any], arguments: Sequence[str]) -> dict[str, Any]:
    """The configuration without what score files say themselves; any other configuration as it is.

    Args:
        values: as composed.
        arguments: the command line.

    Raises:
        ConfigError: the command line chooses what the files say, or metrics that need more than scores of trials.
    """
    dataset = values.get("dataset")
    if not isinstance(dataset, Mapping) or dataset.get("name") != "scores":
        return values
    faults = [
        Fault("score files say this themselves, or scores.csv does: leave it out", argument)
        for argument in arguments
        if "=" in argument and _group(argument) in SAID_BY_FILES
    ]
    faults += _more_than_trials(values, overrides.chosen(arguments).get("metric", []))
    if faults:
        raise ConfigError(
            "this cannot be chosen where score files are evaluated",
            where="dataset=scores",
            remedy="leave it out of the command line",
            faults=faults,
        )
    return {name: value for name, value in values.items() if name not in SAID_BY_FILES}


def _group(argument: str) -> str:
    return argument.partition("=")[0].lstrip("+~").partition(".")[0].partition("/")[0].partition("@")[0]


def _more_than_trials(values: Mapping[str, Any], asked: Sequence[str]) -> list[Fault]:
    """The metrics that the command line names and that scores of trials do not hold."""
    chosen = values.get("metric")
    entries = chosen if isinstance(chosen, Mapping) else {}
    named = {label: entries[label].get("name") for label in asked if isinstance(entries.get(label), Mapping)}
    return [
        Fault(
            "it compares all pairs of recordings, or vectors, which score files of trials do not hold",
            f"metric={label}",
        )
        for label, name in named.items()
        if isinstance(name, str) and _reads(name) not in ("", "trials")
    ]


def _reads(name: str) -> str:
    """What a family reads; '' of one that is not known, which the validation says."""
    try:
        return str(component("families", name).reads)
    except ConfigError:
        return ""
