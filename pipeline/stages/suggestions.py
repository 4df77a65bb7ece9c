"""What a message can suggest: components by what they can do, so that none is named here."""

from __future__ import annotations

from typing import Any

from pipeline.registry import Kind, component, ours


def strong_extractors() -> str:
    """Extractors that a claim of privacy may stand on."""
    return _able("extractors", lambda found, settings: found.is_strong(settings))


def trained_back_ends() -> str:
    """Back ends that the run trains."""
    return _able("backends", lambda found, settings: found.is_fitted(settings))


def centring_back_ends() -> str:
    """Back ends that can be centred on the enrolment."""
    return _able("backends", lambda found, given: any(map(found.centres_on_enrolment, found.variants(given).values())))


def _able(kind: Kind, able: Any) -> str:
    """Names of the components of ours that are able to, with their usual settings."""
    found = []
    for name in sorted(ours(kind)):
        one: Any = component(kind, name)
        if able(one, one.Settings.model_construct(name=name)):
            found.append(name)
    return ", ".join(found)
