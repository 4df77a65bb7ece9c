"""Components by name, and the base class of their settings.

``name: ecapa`` among the extractors means the module ``pipeline.extractors.ecapa``, imported only when chosen;
other distributions add components through the entry points ``voice_privacy.{extractors,anonymisers,backends,families,trainers}``.
A component module has a class ``Settings`` (a :class:`ComponentSettings`) and the class that does the work; it imports
nothing heavy at module level, because configuration is validated before torch is loaded.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import pkgutil
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from pipeline.errors import ConfigError
from pipeline.seeds import digest as digest
from pipeline.seeds import generator as generator

Kind = Literal["extractors", "anonymisers", "backends", "families", "trainers"]


def numeric(default: Any = ..., **constraints: Any) -> Any:
    """A field that can change a number: it enters the keys of artefacts."""
    return Field(default, json_schema_extra={"role": "numeric"}, **constraints)


def runtime(default: Any = ..., **constraints: Any) -> Any:
    """A field that cannot change a number (device, batch budget, paths): it stays out of keys and goes into the record."""
    return Field(default, json_schema_extra={"role": "runtime"}, **constraints)


class ComponentSettings(BaseModel):
    """Settings of a component or of a part of the configuration; each field is marked numeric or runtime."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    def numeric(self) -> dict[str, Any]:
        """The numeric settings, fully resolved, as plain JSON values."""
        kept: dict[str, Any] = {}
        plain = self.model_dump(mode="json")
        for name, field in type(self).model_fields.items():
            extra = field.json_schema_extra
            role = extra.get("role") if isinstance(extra, dict) else None
            value = getattr(self, name)
            if role == "numeric":
                kept[name] = value.numeric() if isinstance(value, ComponentSettings) else plain[name]
            elif role != "runtime":
                raise TypeError(f"{type(self).__qualname__}.{name} is marked neither numeric nor runtime")
        return kept


@functools.cache
def _points(kind: Kind) -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=f"voice_privacy.{kind}"))


@functools.cache
def _ours(kind: Kind) -> frozenset[str]:
    package = importlib.import_module(f"pipeline.{kind}")
    return frozenset(
        module.name for module in pkgutil.iter_modules(package.__path__) if not module.name.startswith("_")
    )


def names(kind: Kind) -> list[str]:
    """All component names of a kind, ours and those of other distributions."""
    return sorted({*_ours(kind), *(point.name for point in _points(kind))})


def component(kind: Kind, name: str) -> ModuleType:
    """The module of a component.

    Raises:
        ConfigError: no component of this name, with the nearest names.
    """
    if name in names(kind):
        for point in _points(kind):
            if point.name == name:
                loaded = point.load()
                if not isinstance(loaded, ModuleType):
                    raise ConfigError(f"the entry point '{name}' of voice_privacy.{kind} is not a module")
                return loaded
        return importlib.import_module(f"pipeline.{kind}.{name}")
    near = difflib.get_close_matches(name, names(kind), n=2)
    raise ConfigError(
        f"there is no component '{name}' among the {kind}",
        remedy=(f"did you mean {' or '.join(near)}? " if near else "") + f"known: {', '.join(names(kind))}",
    )
