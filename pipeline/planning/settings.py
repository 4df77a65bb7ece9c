"""What is asked for, checked: the settings of one evaluation; and what planning makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pipeline.datasets.settings import DatasetSettings
from pipeline.engine.task import Input, Ref, Task
from pipeline.registry import ComponentSettings, numeric, runtime


class Paths(ComponentSettings):
    """Where things lie; no path enters a key."""

    root: str = runtime("./exp")
    data: str = runtime("./data")
    models: str | None = runtime(None)

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
        return Path.home() / ".cache" / "voice-privacy" / "models"


class Runtime(ComponentSettings):
    """What changes speed and no number."""

    device: str = runtime("auto", pattern=r"^(auto|cpu|cuda(:\d+)?)$")
    threads: int | None = runtime(None, ge=1)


class Calibration(ComponentSettings):
    """How scores become LLRs: ``oracle`` is PAV on the very scores under test, part of each metric's definition."""

    method: Literal["oracle"] = numeric("oracle")


class AttackerSettings(ComponentSettings):
    """What the attacker enrols, what the trials are, and what the attacker's models are trained on (PROTOCOLS section 3).

    Attributes:
        enrolment, trial: original or anonymised speech.
        training: of extractor and back end: the original training set, or the system's anonymised copy of it.
        training_level: how pseudo-voices are given in that copy: as the system does (``same``), one a ``speaker`` or one an
            ``utterance``. An attacker trained at another level than the speech under attack may be too weak.
    """

    enrolment: Literal["original", "anonymised"] = numeric()
    trial: Literal["original", "anonymised"] = numeric()
    training: Literal["original", "anonymised"] = numeric("original")
    training_level: Literal["same", "speaker", "utterance"] = numeric("same")

    @property
    def condition(self) -> str:
        return "".join("O" if side == "original" else "P" for side in (self.enrolment, self.trial))


@dataclass(frozen=True)
class Evaluation:
    """The validated settings of one evaluation; the mappings go from label to settings, in the order of the tables."""

    recipe: str
    paths: Paths
    runtime: Runtime
    calibration: Calibration
    dataset: DatasetSettings
    train: Any
    systems: Mapping[str, Any]
    extractors: Mapping[str, Any]
    attackers: Mapping[str, AttackerSettings]
    backends: Mapping[str, Any]
    metrics: Mapping[str, Any]
    diagnostics: bool
    allow_partial: bool

    def numeric(self) -> dict[str, Any]:
        """All numeric settings, as plain values: the same for the same evaluation in another place."""
        several = {"system": self.systems, "extractor": self.extractors, "attacker": self.attackers,
                   "backend": self.backends, "metric": self.metrics}  # fmt: skip
        return {
            "calibration": self.calibration.numeric(),
            "dataset": self.dataset.numeric(),
            "train": self.train.numeric() if self.train is not None else None,
            "diagnostics": self.diagnostics,
            "allow_partial": self.allow_partial,
            **{group: {label: one.numeric() for label, one in chosen.items()} for group, chosen in several.items()},
        }

    @property
    def original(self) -> str:
        """The label of the original speech."""
        return next(label for label, settings in self.systems.items() if settings.name == "original")

    @property
    def anonymised(self) -> list[str]:
        """Labels of the systems that protect."""
        return [label for label, settings in self.systems.items() if settings.name != "original"]

    @property
    def semi_informed(self) -> dict[str, AttackerSettings]:
        """The attackers whose models are trained on anonymised speech."""
        return {label: one for label, one in self.attackers.items() if one.training == "anonymised"}


@dataclass(frozen=True)
class Machine:
    """The device and threads of this process."""

    device: str
    threads: int


@dataclass(frozen=True)
class Source:
    """A measure's artefact and what its rows are about.

    Attributes:
        ref: the artefact.
        identity: columns of the results schema.
        parameters: what the numbers depend on beside the system, for the signature.
        model: the weights behind it.
        note: what the reader of its values must know.
    """

    ref: Ref
    identity: Mapping[str, str]
    parameters: Mapping[str, Any]
    model: Input | None = None
    note: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """What there is to judge an attack by.

    Attributes:
        identity: of the result's rows.
        training: what trained the extractor, if the run did.
        treatment: how much enrolment and trials were changed.
        on_original: the EER of this attacker on original speech.
        other_level: the EER with the enrolment anonymised at another level.
        levels: the level of the evaluated speech, and that of the training set.
        note: of the back end.
    """

    identity: Mapping[str, str]
    training: Ref | None = None
    treatment: Ref | None = None
    on_original: Ref | None = None
    other_level: tuple[str, Ref] | None = None
    levels: tuple[str, str] | None = None
    note: str = ""


@dataclass
class Graph:
    """Tasks, sources first, where the results will lie, and what to judge the attacks by."""

    tasks: list[Task] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
    diagnoses: list[Diagnosis] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
