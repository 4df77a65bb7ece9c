"""What is asked for, checked: the settings of one evaluation."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import Field, field_validator

from pipeline import host
from pipeline.contracts import (
    Anonymiser,
    Backend,
    Component,
    ComponentSettings,
    Extractor,
    MetricFamily,
    Training,
    Weights,
    numeric,
    runtime,
)
from pipeline.datasets.settings import DatasetSettings
from pipeline.engine.contracts import Executor
from pipeline.errors import Fault
from pipeline.protocol.attackers import AttackerSettings
from pipeline.report.scorecard.settings import Changes
from pipeline.weights.find import make_unreadable

ORACLE = "oracle"
"""How scores become LLRs: PAV on the very scores under test, a part of each metric's definition."""

C = TypeVar("C", bound=Component)


class Paths(ComponentSettings):
    """Where things lie; no path enters a key."""

    root: str = runtime("./exp")
    data: str = runtime("./data")
    models: str | None = runtime(None)
    cache: str | None = runtime(None)

    @field_validator("*")
    @classmethod
    def _named(cls, value: str | None) -> str | None:
        if value is not None and not value.strip():
            raise ValueError(
                "an empty path would be the current folder: leave it out for the default, or write a folder"
            )
        try:
            Path(value or ".").expanduser().resolve()
        except RuntimeError as error:  # links that lead to one another, or ~USER of nobody
            raise ValueError(f"leads nowhere ({error}): write a folder") from error
        return value

    @property
    def store(self) -> Path:
        return Path(self.root).expanduser().resolve() / "store"

    @property
    def runs(self) -> Path:
        return Path(self.root).expanduser().resolve() / "runs"

    @property
    def weights(self) -> Path:
        if self.models:
            return Path(self.models).expanduser().resolve()
        return host.find_home() / ".cache" / "voice-privacy" / "models"

    @property
    def compiled(self) -> Path:
        return Path(self.cache).expanduser().resolve() if self.cache else host.find_cache_folder()


class Runtime(ComponentSettings):
    """What changes speed and no number."""

    device: str = runtime("auto", pattern=r"^(auto|cpu|cuda(:\d+)?)$")
    threads: int | None = runtime(None, ge=1)


class Storage(ComponentSettings):
    """How far stored results are trusted."""

    verify: Literal["read", "never"] = runtime("read")


class Average(ComponentSettings):
    """A weighted mean over trial sets: further rows of the results, which have its name for a subset.

    Attributes:
        subset: what tables call it; by default its label.
        weights: the weight of each trial set; together 1.
        metrics: of which it is formed. A word (``tag``) has no mean.
    """

    subset: str = numeric("")
    weights: dict[str, Annotated[float, Field(gt=0)]] = numeric(min_length=1)
    metrics: tuple[str, ...] = numeric(("eer",), min_length=1)

    @field_validator("weights")
    @classmethod
    def _whole(cls, weights: dict[str, float]) -> dict[str, float]:
        total = sum(weights.values())
        if abs(total - 1) > 1e-6:
            scaled = ", ".join(f"{name}: {weight / total:.9g}" for name, weight in weights.items())
            raise ValueError(f"the weights add up to {total:.6g}, not to 1; in the same proportions: {{{scaled}}}")
        return weights


class Bands(ComponentSettings):
    """The minimum-EER conditions of a challenge: systems are ranked among those whose EER reaches the same of several limits.

    Attributes:
        subset: whose EER is ranked: the ``subset`` of an average, or a trial set.
        edges: the least EER of each condition, as fractions, ascending: ``[0.1, 0.2, 0.3, 0.4]``.
        variant: which definition of the EER; '' is rocch, or whichever the run has.
        attacker: by whose lowest EER the challenge ranks; '' is every attacker that adapts to the system. That of our strongest
            attack stands beside it.
    """

    subset: str = runtime(min_length=1)
    edges: tuple[Annotated[float, Field(gt=0)], ...] = runtime(min_length=1)
    variant: Literal["", "rocch", "kaldi", "speechbrain"] = runtime("")
    attacker: str = runtime("")

    @field_validator("edges")
    @classmethod
    def _ascending(cls, edges: tuple[float, ...]) -> tuple[float, ...]:
        if max(edges) >= 1:
            raise ValueError(f"edges are fractions: [{', '.join(f'{edge / 100:g}' for edge in sorted(edges))}]?")
        if list(edges) != sorted(set(edges)):
            raise ValueError("edges ascend")
        return edges


class ReportSettings(ComponentSettings):
    """What the report compares systems with, and how the strongest attacks are judged.

    Attributes:
        baseline: label of the system that all others are compared with; '' is the first one that protects.
        mean_of_sexes: form the mean of the trial sets of f and m (``X_f`` and ``X_m``) that no average of ``averages`` holds.
        replicates: permutations of the null band of the strongest attack (enrolment models permuted whole, once for all attacks); 0
            leaves it out.
        seed: of permutations, and of swaps of systems.
    """

    baseline: str = numeric("")
    mean_of_sexes: bool = numeric(True)
    replicates: int = numeric(1000, ge=0)
    seed: int = numeric(0, ge=0)


FusionKind = Literal["equal", "logistic"]
"""How the scores of several extractors are joined."""

Derived = Literal["normalised"]
"""What can be formed of the rows of several conditions."""


@dataclass(frozen=True)
class Machine:
    """The device and threads of this process."""

    device: str
    threads: int


@dataclass(frozen=True)
class Chosen(Generic[C]):
    """A component that the configuration names, with its checked settings."""

    name: str
    component: type[C]
    settings: Any

    def numeric(self) -> dict[str, Any]:
        """The numeric settings."""
        return dict(self._numeric)

    @functools.cached_property
    def _numeric(self) -> dict[str, Any]:
        return self.settings.numeric()  # type: ignore[no-any-return]

    def weights(self, models: Path) -> Weights | None:
        """The weights that its settings ask for, on this machine; None where none are needed or the run makes them.

        Raises:
            ModelMissing: they are not here, or may not be read.
        """
        try:
            weights: Weights | None = self.component.weights(self.settings, models)
        except OSError as error:
            raise make_unreadable(error, models) from error
        return weights

    @property
    def module(self) -> str:
        """The module whose code makes its numbers."""
        return self.component.__module__


@dataclass(frozen=True)
class FoundModels:
    """Models that somebody else's training left in the folder of the data set.

    Attributes:
        original: labels of the extractors whose weights, of original speech, are of there.
        adapted: extractors with weights that learnt from a system's anonymised speech, or with the vectors of such, by (label of
            extractor, label of system).
        backends: back ends with the parameters that go with such vectors, by (label of back end, label of system).
        descriptions: which of them is what.
        lacking: what a run needs and is not there, such as vectors: of a run these are faults.
        passed_over: what is to be said of copies that lie there and are no systems of the run, a sentence each.
    """

    original: tuple[str, ...] = ()
    adapted: Mapping[tuple[str, str], Chosen[Extractor]] = field(default_factory=dict)
    backends: Mapping[tuple[str, str], Chosen[Backend]] = field(default_factory=dict)
    descriptions: tuple[str, ...] = ()
    lacking: tuple[Fault, ...] = ()
    passed_over: tuple[str, ...] = ()


@dataclass(frozen=True)
class Execution:
    """How an evaluation is computed: where, and what becomes of it where something fails."""

    runtime: Runtime
    store: Storage
    executor: Chosen[Executor]
    allow_partial: bool
    fail_fast: bool = False


@dataclass(frozen=True)
class Products:
    """What is made of the scores beside the numbers of each attack."""

    fusion: tuple[FusionKind, ...]
    diagnostics: bool
    averages: Mapping[str, Average] = field(default_factory=dict)
    derived: tuple[Derived, ...] = ()
    bands: Bands | None = None
    report: ReportSettings = field(default_factory=ReportSettings)
    scorecard: Changes = field(default_factory=Changes)


@dataclass(frozen=True)
class Evaluation:
    """The validated settings of one evaluation; the mappings go from label to component, in the order of the tables."""

    recipe: str
    paths: Paths
    dataset: DatasetSettings
    train: Training | None
    systems: Mapping[str, Chosen[Anonymiser]]
    extractors: Mapping[str, Chosen[Extractor]]
    attackers: Mapping[str, AttackerSettings]
    backends: Mapping[str, Chosen[Backend]]
    metrics: Mapping[str, Chosen[MetricFamily]]
    execution: Execution
    products: Products
    models: FoundModels = field(default_factory=FoundModels)

    def numeric(self) -> dict[str, Any]:
        """All numeric settings, as plain values: the same for the same evaluation in another place."""
        more: dict[str, Any] = {
            "averages": {label: chosen.numeric() for label, chosen in self.products.averages.items()}
        }
        more["derived"] = list(self.products.derived)
        more["report"] = self.products.report.numeric() if self.products.report != ReportSettings() else {}
        return {
            "dataset": self.dataset.numeric(),
            "train": self.train.settings.numeric() if self.train is not None else None,
            "fusion": list(self.products.fusion),
            "diagnostics": self.products.diagnostics,
            "allow_partial": self.execution.allow_partial,
            "system": {label: chosen.numeric() for label, chosen in self.systems.items()},
            "extractor": {label: chosen.numeric() for label, chosen in self.extractors.items()},
            "attacker": {label: chosen.numeric() for label, chosen in self.attackers.items()},
            "backend": {label: chosen.numeric() for label, chosen in self.backends.items()},
            "metric": {label: chosen.numeric() for label, chosen in self.metrics.items()},
            # A run that forms nothing has the digest that it had before anything could be formed.
            **{name: value for name, value in more.items() if value},
        }

    def components(self) -> dict[str, Chosen[Any]]:
        """All chosen components that may have weights, by what messages call them."""
        groups: dict[str, Mapping[str, Chosen[Any]]] = {
            "system": self.systems,
            "extractor": self.extractors,
            "backend": self.backends,
            "metric": self.metrics,
        }
        return {
            f"{group} {label}": component for group, chosen in groups.items() for label, component in chosen.items()
        }

    @property
    def original(self) -> str:
        """The label of the original speech."""
        return next(label for label, system in self.systems.items() if system.component.unchanged)

    @property
    def anonymised(self) -> list[str]:
        """Labels of the systems that protect."""
        return [label for label, system in self.systems.items() if not system.component.unchanged]

    def learns_from(self, system: str) -> bool:
        """Whether the run trains something on a system's anonymised speech: a back end, or an extractor that none is found of."""
        if not self.adapting:
            return False
        if any(chosen.component.is_fitted(chosen.settings) for chosen in self.backends.values()):
            return True
        if not self.models.adapted:
            return True
        wanting = {
            label: chosen for label, chosen in self.extractors.items() if (label, system) not in self.models.adapted
        }
        return any(chosen.component.adaptation(chosen.settings, self.train) is not None for chosen in wanting.values())

    @property
    def adapting(self) -> dict[str, AttackerSettings]:
        """The attackers whose models are trained on anonymised speech."""
        return {label: attacker for label, attacker in self.attackers.items() if attacker.adapts}
