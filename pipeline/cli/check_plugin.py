"""``check-plugin``: whether a component of another distribution keeps its contract."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from pipeline import conformance, host
from pipeline.cli.options import Parser
from pipeline.errors import ConfigError, Fault
from pipeline.names import suggest_names
from pipeline.registry import COMPONENT_KINDS, Kind, component, list_names
from pipeline.tables import bounds
from pipeline.weights.find import default_models


def main(arguments: Sequence[str]) -> int:
    """Carry out ``check-plugin`` with its arguments; the exit status.

    Raises:
        ConfigError: usage, or a contract that is not kept, with all faults.
    """
    options = _parser().parse(arguments)
    host.use_cache_folder(host.find_cache_folder())
    names = {kind: list_names(kind) for kind in COMPONENT_KINDS}
    kinds = [kind for kind in COMPONENT_KINDS if options.name in names[kind]]
    if not kinds:
        remedy = suggest_names(options.name, sorted({name for own in names.values() for name in own}))
        raise ConfigError(f"there is no component '{options.name}'", remedy=remedy)
    faults = [fault for kind in kinds for fault in _checked(kind, options)]
    if faults:
        raise ConfigError(
            f"'{options.name}' breaks its contract",
            remedy="pipeline/contracts/ says what a component of each kind has",
            faults=faults,
        )
    return 0


def _checked(kind: Kind, options: argparse.Namespace) -> list[Fault]:
    where = f"{kind}: {options.name}"
    try:
        cls = component(kind, options.name)
    except ConfigError as error:
        return [Fault(f"{error.what}; {error.remedy}", where)]
    except Exception as error:  # a plug-in may fail in any way
        return [Fault(f"it cannot be imported: {type(error).__name__}: {error}", where)]
    models, folder = Path(options.models or default_models()).expanduser(), options.weights
    report = conformance.examine(kind, options.name, cls, models, _values(options.settings), folder and Path(folder))
    print(f"{where} ({cls.__module__}.{cls.__qualname__})")
    for title in report.checked:
        print(f"  checked: {title}")
    for reason in report.skipped:
        print(f"  not checked: {reason}")
    return [Fault(fault.what, ", ".join(filter(None, [where, fault.where]))) for fault in report.faults]


def _values(settings: Sequence[str]) -> dict[str, Any]:
    """``FIELD=VALUE`` as values, read as YAML."""
    values = {}
    for each in settings:
        name, equals, value = each.partition("=")
        if not equals:
            raise ConfigError(f"'{each}' is no setting", remedy="write FIELD=VALUE")
        try:
            values[name] = bounds.read_yaml(value)
        except yaml.YAMLError as error:
            problem = " ".join(filter(None, [getattr(error, "context", ""), getattr(error, "problem", "")]))
            raise ConfigError(f"the value of '{name}' is no YAML: {problem}", remedy="write FIELD=VALUE") from None
    return values


def _parser() -> Parser:
    parser = Parser(
        prog="voice-privacy check-plugin",
        description="Asks a component everything that its contract says, and names what could not be asked here.",
        epilog="exit status: 0 the contract is kept, 2 it is not, or usage",
    )
    parser.add_argument("name", help="name of the component, as in the configuration")
    parser.add_argument("settings", nargs="*", metavar="FIELD=VALUE", help="settings that have no default")
    parser.add_argument("--models", help="the folder of weights, paths.models")
    parser.add_argument("--weights", help="a folder of weights that a training made")
    return parser
