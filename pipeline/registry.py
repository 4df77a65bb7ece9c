"""Components by kind and name: ours, and those of other distributions.

``name: ecapa`` among the extractors means the class ``Extractor`` of the module ``pipeline.extractors.ecapa``, imported only when
chosen. Other distributions name a class by an entry point of the group ``voice_privacy.KIND``. The contract of each kind is in
:mod:`pipeline.contracts`.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import sys
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, Literal, overload

from pipeline import contracts
from pipeline.errors import ConfigError
from pipeline.names import suggest_names

if TYPE_CHECKING:
    from pipeline.engine.contracts import Executor

Kind = Literal["extractors", "anonymisers", "backends", "families", "trainers", "executors"]


@dataclass(frozen=True)
class ComponentKind:
    """Where the components of a kind are.

    Attributes:
        group: of the configuration.
        package: of ours.
        contract: name of the base class, and of the class in each module of ours.
        contract_module: where the base class is.
    """

    group: str
    package: str
    contract: str
    contract_module: str = "pipeline.contracts"

    @property
    def base(self) -> type[contracts.Component]:
        """The base class."""
        base: type[contracts.Component] = vars(importlib.import_module(self.contract_module))[self.contract]
        return base

    @property
    def is_multiple(self) -> bool:
        """Whether a run may have several of them, each under its label."""
        return self.group not in ("train", "executor")


COMPONENT_KINDS: dict[Kind, ComponentKind] = {
    "extractors": ComponentKind("extractor", "pipeline.extractors", "Extractor"),
    "anonymisers": ComponentKind("system", "pipeline.anonymisers", "Anonymiser"),
    "backends": ComponentKind("backend", "pipeline.backends", "Backend"),
    "families": ComponentKind("metric", "pipeline.families", "MetricFamily"),
    "trainers": ComponentKind("train", "pipeline.trainers", "Trainer"),
    "executors": ComponentKind("executor", "pipeline.engine.executors", "Executor", "pipeline.engine.contracts"),
}


def entry_point_group(kind: Kind) -> str:
    """The group of entry points under which other distributions name components of a kind."""
    return f"voice_privacy.{kind}"


@functools.cache
def _find_entry_points(kind: Kind) -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=entry_point_group(kind)))


@functools.cache
def list_own_names(kind: Kind) -> frozenset[str]:
    """Names of the components of a kind that come with the project."""
    package = importlib.import_module(COMPONENT_KINDS[kind].package)
    return frozenset(
        module.name for module in pkgutil.iter_modules(package.__path__) if not module.name.startswith("_")
    )


def list_names(kind: Kind) -> list[str]:
    """All component names of a kind, ours and those of other distributions."""
    return sorted({*list_own_names(kind), *(point.name for point in _find_entry_points(kind))})


@overload
def component(kind: Literal["extractors"], name: str) -> type[contracts.Extractor]: ...
@overload
def component(kind: Literal["anonymisers"], name: str) -> type[contracts.Anonymiser]: ...
@overload
def component(kind: Literal["backends"], name: str) -> type[contracts.Backend]: ...
@overload
def component(kind: Literal["families"], name: str) -> type[contracts.MetricFamily]: ...
@overload
def component(kind: Literal["trainers"], name: str) -> type[contracts.Trainer]: ...
@overload
def component(kind: Literal["executors"], name: str) -> type[Executor]: ...
@overload
def component(kind: Kind, name: str) -> type[contracts.Component]: ...
@functools.cache
def component(kind: Kind, name: str) -> Any:
    """The class of a component.

    Raises:
        ConfigError: no component of this name, with the nearest names; or an entry point that names no component.
    """
    place = COMPONENT_KINDS[kind]
    for point in _find_entry_points(kind):
        if point.name == name:
            plugin = _load(point)
            if not (isinstance(plugin, type) and issubclass(plugin, place.base)):
                raise ConfigError(
                    f"the entry point '{name}' of {entry_point_group(kind)} is no {place.contract}",
                    where=point.value,
                    remedy=f"name a class that derives from {place.contract_module}.{place.contract}",
                )
            return plugin
    if name in list_own_names(kind):
        return vars(importlib.import_module(f"{place.package}.{name}"))[place.contract]
    raise ConfigError(f"there is no component '{name}' among the {kind}", remedy=suggest_names(name, list_names(kind)))


def _load(point: EntryPoint) -> Any:
    try:
        return point.load()
    except Exception as error:  # whatever its code does when it is imported
        plugin = f"{point.dist.name} {point.dist.version}" if point.dist is not None else "another distribution"
        raise ConfigError(
            f"the plug-in '{point.name}' of {plugin} cannot be imported: {type(error).__name__}: {error}",
            where=f"{point.value}, in {sys.executable}",
            cause="the plug-in is at fault, or something that it needs is not installed",
            remedy=f"{sys.executable} -m pip install --force-reinstall {plugin.split()[0]}"
            if point.dist is not None
            else "",
        ) from error
