"""Components that are kept between tasks, because loading a model costs more than a short file."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

from pipeline.contracts import ComponentSettings

MOST = 8

C = TypeVar("C")
_KEPT: dict[Hashable, object] = {}


def loaded(make: Callable[..., C], settings: ComponentSettings, *rest: Hashable, content: str = "") -> C:
    """``make(settings, *rest)``, or what it gave before in this process; the last :data:`MOST` are kept.

    Args:
        make: the class.
        settings: of the component.
        rest: what else it is made of.
        content: digest of weights that the run made: in their place may lie others, if they were damaged and made again.
    """
    key = (make, settings.model_dump_json(), content, *rest)
    if key not in _KEPT:
        while len(_KEPT) >= MOST:
            _KEPT.pop(next(iter(_KEPT)))
        _KEPT[key] = make(settings, *rest)
    component: C = _KEPT[key]  # type: ignore[assignment]
    return component
