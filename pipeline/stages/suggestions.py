"""What a message can suggest: components by what they can do, so that none is named here."""

from __future__ import annotations

from typing import Any

from pipeline.registry import Kind, component, list_own_names


def strong_extractors() -> str:
    """Extractors that a claim of privacy may stand on."""
    return _able("extractors", lambda extractor, settings: extractor.is_strong(settings))


def trained_back_ends() -> str:
    """Back ends that the run trains."""
    return _able("backends", lambda backend, settings: backend.is_fitted(settings))


def centring_back_ends() -> str:
    """Back ends that can be centred on the enrolment."""

    def centres(backend: Any, settings: Any) -> bool:
        return any(map(backend.centres_on_enrolment, backend.variants(settings).values()))

    return _able("backends", centres)


def families_with(metric: str) -> str:
    """The metric families of ours that give a metric, as one chooses them."""
    names = [name for name in list_own_names("families") if metric in component("families", name).metrics]
    return " or ".join(f"metric={name}" for name in names)


def _able(kind: Kind, able: Any) -> str:
    """Names of the components of ours that are able to, with their usual settings."""
    components: dict[str, Any] = {name: component(kind, name) for name in sorted(list_own_names(kind))}
    return ", ".join(name for name, each in components.items() if able(each, each.Settings.model_construct(name=name)))
