"""Settings of components: pydantic models whose fields say whether they can change a number.

A field is *numeric* (it can change a number, so it enters keys and signatures) or *runtime* (it cannot).
"""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, model_validator


def numeric(default: Any = ..., **constraints: Any) -> Any:
    """A field that can change a number: it enters the keys of artefacts."""
    return Field(default, json_schema_extra={"role": "numeric"}, **constraints)


def runtime(default: Any = ..., **constraints: Any) -> Any:
    """A field that cannot change a number (device, batch budget, paths): it stays out of keys and goes into the record."""
    return Field(default, json_schema_extra={"role": "runtime"}, **constraints)


def _takes_text(annotation: Any) -> bool:
    kinds = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    return all(kind in (str, NoneType) or get_args(kind)[:1] == (str,) for kind in kinds)


class ComponentSettings(BaseModel):
    """Settings of a component or of a part of the configuration; each field is marked numeric or runtime."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    @model_validator(mode="before")
    @classmethod
    def _read_texts(cls, values: Any) -> Any:
        """Take a whole number where a text is wanted: ``dataset.label=2024`` can be written no other way. 1e3 or 2.10 would change."""
        if not isinstance(values, dict):
            return values
        texts = {name for name, declared in cls.model_fields.items() if _takes_text(declared.annotation)}
        return {name: str(value) if type(value) is int and name in texts else value for name, value in values.items()}

    def numeric(self) -> dict[str, Any]:
        """The numeric settings, fully resolved, as plain JSON values."""
        numbers: dict[str, Any] = {}
        dumped = self.model_dump(mode="json")
        for name, declared in type(self).model_fields.items():
            extra = declared.json_schema_extra
            role = extra.get("role") if isinstance(extra, dict) else None
            value = getattr(self, name)
            if role == "numeric":
                numbers[name] = value.numeric() if isinstance(value, ComponentSettings) else dumped[name]
            elif role != "runtime":
                raise TypeError(f"{type(self).__qualname__}.{name} is marked neither numeric nor runtime")
        return numbers
