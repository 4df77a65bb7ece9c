"""What planning makes: tasks, the products that are read from what they leave, and notes; and what it finds things by: plain values,
compared by all that they say, whose labels are for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal, TypeVar

from pipeline.engine.task import Input, Ref, Task, unwrap_function


@dataclass(frozen=True)
class Product:
    """One thing that is read from artefacts for the reader. Each kind of product has a class of its own.

    Attributes:
        identity: what it is about: columns of the results schema.
        is_essential: whether its system has no rank without it: what is lacking may be the strongest attack.
        needs_rank: whether it is told of systems alone that have a rank.
    """

    identity: Mapping[str, str]

    is_essential: ClassVar[bool] = False
    needs_rank: ClassVar[bool] = False

    @property
    def system(self) -> str:
        """The system that it is about; '' for none."""
        return self.identity.get("system", "")

    @property
    def compared_with(self) -> tuple[str, ...]:
        """Other systems that it is about."""
        return ()

    def refs(self) -> Iterator[Ref]:
        """All artefacts that it is read from: those in its fields."""
        for entry in fields(self):
            value = getattr(self, entry.name)
            yield from (ref for ref in (value if isinstance(value, tuple) else (value,)) if isinstance(ref, Ref))


@dataclass(frozen=True)
class Measurement(Product):
    """Rows of results: a measure's artefact.

    Attributes:
        ref: the artefact.
        parameters: what the numbers depend on beside the system, for the signature.
        reads: the kind of scores that the family reads.
        model: the weights behind it.
        note: what the reader of its values must know.
        partial: whether something is left out that the counts of its rows do not show (``allow_partial``).
        fits: the back ends behind it that the run trains.
        apart: what is added to the variant of its rows: an unusual definition, and the label where several are of one metric family.
    """

    ref: Ref
    parameters: Mapping[str, Any]
    reads: str
    model: Input | None = None
    note: str = ""
    partial: bool = False
    fits: tuple[Ref, ...] = ()
    apart: str = ""

    is_essential = True


@dataclass(frozen=True)
class StrongestAttack(Product):
    """The strongest attack on a system; its identity has ``dataset``, ``system`` and ``system_level``.

    Attributes:
        ref: the artefact (:func:`pipeline.products.strongest.compute.choose_strongest`).
        attacks: columns of the results schema of each attack, by its number.
        subsets: where each is tried.
        untried: attackers with extractors that were chosen, and have no attack on the system.
        protects: whether it is a system that protects.
    """

    ref: Ref
    attacks: tuple[Mapping[str, str], ...]
    subsets: Mapping[str, tuple[int, ...]]
    untried: tuple[str, ...]
    protects: bool

    needs_rank = True


P = TypeVar("P", bound=Product)


@dataclass
class Graph:
    """Tasks, sources first, each once; it pickles.

    Attributes:
        products: what is read from what the tasks leave.
        notes: what a reader should know of the attacks that were planned, and of those that were not.
        limits: what was asked for and gives no row (:mod:`pipeline.tables.run_files`).
        trained_on: by the label of a back end that is trained, how many speakers each of its training sets has, by what messages call it.
        left_out: of systems that are not ranked because tasks failed: that they are not, and why.
    """

    tasks: list[Task] = field(default_factory=list)
    products: list[Product] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    limits: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    trained_on: dict[str, dict[str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._functions: dict[str, str] = {}

    def add(self, task: Task) -> Task:
        """Put a task at the end, unless it is there.

        Raises:
            AssertionError: another function has the same key: its result would be taken for this one's.
        """
        function = unwrap_function(task).__qualname__
        if task.id not in self._functions:
            self._functions[task.id] = function
            self.tasks.append(task)
        elif self._functions[task.id] != function:
            raise AssertionError(f"{function} and {self._functions[task.id]} have one key: tell them apart by settings")
        return task

    def select(self, kind: type[P]) -> list[P]:
        """The products of a kind, in the order in which they were planned."""
        return [product for product in self.products if isinstance(product, kind)]


@dataclass(frozen=True)
class SpeechKey:
    """Some sets of the data, as one system has them.

    Attributes:
        system: its label.
        part: the evaluation sets, the training set, or the enrolment sets alone.
        run: under which random numbers, from 1; 2 is the second run, and the draws of training and enrolment sets count on.
        level: how pseudo-voices are given, where that is not left to the system.
    """

    system: str
    part: Literal["evaluation", "training", "enrolment"] = "evaluation"
    run: int = 1
    level: str = ""

    @property
    def label(self) -> str:
        draw = f", draw {self.run}" if self.run > 1 else ""
        if self.part == "enrolment":
            return f"{self.system}, enrolment at {self.level} level{draw}"
        if self.part == "training":
            words = f"{self.level}{draw}".lstrip(", ")
            return f"{self.system}, training set" + (f" ({words})" if words else "")
        return self.system if self.run == 1 else f"{self.system}, second run"

    def __str__(self) -> str:
        return self.label

    @property
    def file_label(self) -> str:
        """What files of vectors call it: training and evaluation sets of a system together, its second run apart."""
        return self.system if self.run == 1 else f"{self.system}@2"


@dataclass(frozen=True)
class TrainingKey:
    """Speech to train on: a training set, under so many draws of the system's random numbers, and those that help."""

    speech: SpeechKey
    draws: int = 1
    also: tuple[TrainingKey, ...] = ()

    @property
    def label(self) -> str:
        drawn = self.speech.label if self.draws == 1 else f"{self.speech.label}, {self.draws} draws"
        return " with ".join([drawn, *(training.speech.system for training in self.also)])


@dataclass(frozen=True)
class ExtractorKey:
    """An extractor with its weights.

    Attributes:
        name: its label in the configuration.
        learnt: the anonymised speech on which the run trains it; None for what knows original speech or comes with weights.
        system: label of the system on whose speech somebody else trained it; else ''.
    """

    name: str
    learnt: TrainingKey | None = None
    system: str = ""

    @property
    def label(self) -> str:
        if self.system:
            return f"{self.name} of {self.system}"
        return self.name if self.learnt is None else f"{self.name}, {self.learnt.label}"

    def __str__(self) -> str:
        return self.label
