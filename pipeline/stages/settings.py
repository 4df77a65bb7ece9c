"""What is asked for, checked: the settings of one evaluation."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterable, Mapping
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
            raise ValueError("an empty path would be the current folder: write a folder, or leave it out")
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
        products = self.products
        groups: dict[str, Mapping[str, Any]] = {**self._groups(), "attacker": self.attackers}
        numbers = {name: {label: each.numeric() for label, each in group.items()} for name, group in groups.items()}
        more = {
            "averages": {label: average.numeric() for label, average in products.averages.items()},
            "derived": list(products.derived),
            "report": products.report.numeric() if products.report != ReportSettings() else {},
        }
        return {
            "dataset": self.dataset.numeric(),
            "train": self.train.settings.numeric() if self.train is not None else None,
            "fusion": list(products.fusion),
            "diagnostics": products.diagnostics,
            "allow_partial": self.execution.allow_partial,
            **numbers,
            # A run that forms nothing has the digest that it had before anything could be formed.
            **{name: value for name, value in more.items() if value},
        }

    def components(self) -> dict[str, Chosen[Any]]:
        """All chosen components that may have weights, by what messages call them."""
        groups = self._groups().items()
        return {f"{group} {label}": component for group, chosen in groups for label, component in chosen.items()}

    def _groups(self) -> dict[str, Mapping[str, Chosen[Any]]]:
        return {"system": self.systems, "extractor": self.extractors, "backend": self.backends, "metric": self.metrics}

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
        is_fitted = any(chosen.component.is_fitted(chosen.settings) for chosen in self.backends.values())
        if is_fitted or not self.models.adapted:
            return True
        lacking = [chosen for label, chosen in self.extractors.items() if (label, system) not in self.models.adapted]
        return any(chosen.component.adaptation(chosen.settings, self.train) is not None for chosen in lacking)

    @property
    def adapting(self) -> dict[str, AttackerSettings]:
        """The attackers whose models are trained on anonymised speech."""
        return {label: attacker for label, attacker in self.attackers.items() if attacker.adapts}


OF_A_SEX = re.compile(r"(?P<stem>.+?)(?:[_-]trials)?[_-](?P<sex>f|m|female|male|women|men)(?P<rest>[_-].+)?")
"""The name of a trial set of one sex."""
OTHER_SEX = {"f": "m", "female": "male", "women": "men"}
SEX_METRICS = ("eer", "d_ece")
"""Metrics of which the mean of f and m is formed unless an average names its own."""


def list_averages(evaluation: Evaluation, sets: Collection[str]) -> dict[str, Average]:
    """The averages by label whose sets the data have: those that are configured, and the means of f and m that none of them covers."""
    averages = {label: average for label, average in evaluation.products.averages.items() if has_sets(average, sets)}
    if evaluation.products.report.mean_of_sexes:
        for name, weights in means_of_sexes(sets, [average.weights for average in averages.values()]).items():
            averages[name] = Average(subset=name, weights=weights, metrics=SEX_METRICS)
    return averages


def means_of_sexes(sets: Collection[str], covered: Iterable[Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """By name, the weights of the two trial sets of one corpus, one of each sex.

    Args:
        sets: names of the trial sets.
        covered: weights of other means; a pair that is part of one of them is left to it.
    """
    others = [set(weights) for weights in covered]
    means = {}
    for name in sets:
        match = OF_A_SEX.fullmatch(name)
        if match is None or match["sex"] not in OTHER_SEX:
            continue
        pair = (name, name[: match.start("sex")] + OTHER_SEX[match["sex"]] + name[match.end("sex") :])
        mean = f"{match['stem']}{match['rest'] or ''} (mean of f and m)"
        if pair[1] in sets and mean not in sets and not any(set(pair) <= other for other in others):
            means[mean] = dict.fromkeys(pair, 0.5)
    return means


def has_sets(average: Average, sets: Collection[str]) -> bool:
    """Whether the data have all the sets of an average: else it is not formed at all."""
    return set(average.weights) <= set(sets)
