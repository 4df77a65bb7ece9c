"""What planning makes: tasks, where the results will lie, and what to judge the attacks by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeline.engine.task import Input, Ref, Task
from pipeline.tables.checks import Finding

FIGURES = "figures"
"""The folder of a run folder with the tables for figures."""


@dataclass(frozen=True)
class Diagnosis:
    """What there is to judge an attack by.

    Attributes:
        identity: of the result's rows.
        training: what trained the extractor, if the run did.
        check: how well it tells held-out training speakers apart.
        check_on_original: the same of this extractor and back end with original speech, for those who know original speech.
        treatment: how much enrolment and trials were changed.
        on_original: the EER of this attacker on original speech.
        original_enrolment: the EER of this attacker with original speech enrolled in place of protected speech.
        levels: the level of the evaluated speech, and that of the training set.
        note: of the back end.
    """

    identity: Mapping[str, str]
    training: Ref | None = None
    check: Ref | None = None
    check_on_original: Ref | None = None
    treatment: Ref | None = None
    on_original: Ref | None = None
    original_enrolment: Ref | None = None
    levels: tuple[str, str] | None = None
    note: str = ""


@dataclass
class Heard:
    """What is heard of the evaluated speech, whatever the attack.

    Attributes:
        systems: artefacts of whole recordings, by the label of the system; their records count digital silence.
        same: which recordings hold one sound, of each system that is run here, by its label.
        trims: whether an extractor drops digital silence before it takes the vectors that back ends compare, by its label.
    """

    systems: dict[str, tuple[Ref, ...]] = field(default_factory=dict)
    same: dict[str, Ref] = field(default_factory=dict)
    trims: dict[str, bool] = field(default_factory=dict)


@dataclass(frozen=True)
class Source:
    """A measure's artefact and what its rows are about.

    Attributes:
        ref: the artefact.
        identity: columns of the results schema.
        parameters: what the numbers depend on beside the system, for the signature.
        reads: the kind of scores that the family reads.
        model: the weights behind it.
        note: what the reader of its values must know.
        partial: whether something is left out that the counts of its rows do not show (``allow_partial``).
        fits: the back ends behind it that the run trains.
        apart: what is added to the variant of its rows: an unusual definition, and the label where several are of one metric family.
    """

    ref: Ref
    identity: Mapping[str, str]
    parameters: Mapping[str, Any]
    reads: str
    model: Input | None = None
    note: str = ""
    partial: bool = False
    fits: tuple[Ref, ...] = ()
    apart: str = ""


@dataclass(frozen=True)
class Candidate:
    """An attack whose strength is known from held-out training speakers.

    Attributes:
        identity: columns of the results schema.
        check: the artefact that says how strong it is there.
    """

    identity: Mapping[str, str]
    check: Ref


@dataclass(frozen=True)
class Answered:
    """What is found of the strongest attack on a system.

    Attributes:
        identity: ``dataset``, ``system`` and ``system_level``.
        attacks: columns of the results schema of each attack, by its number.
        subsets: where each is tried.
        untried: attackers with extractors that were asked for, and have no attack on the system.
        protects: whether it is a system that protects.
        ref: the artefact (:func:`pipeline.products.strongest.compute.strongest`).
    """

    identity: Mapping[str, str]
    attacks: tuple[Mapping[str, str], ...]
    subsets: Mapping[str, tuple[int, ...]]
    untried: tuple[str, ...]
    protects: bool
    ref: Ref


@dataclass(frozen=True)
class Compared:
    """Two systems that are compared, ``b`` minus ``a``.

    Attributes:
        a, b: their labels.
        to_baseline: whether ``a`` is the baseline.
        ref: the artefact (:func:`pipeline.products.strongest.compute.differences`).
    """

    a: str
    b: str
    to_baseline: bool
    ref: Ref


@dataclass(frozen=True)
class OfSpeakers:
    """What is found of each speaker under each attack on a system, on one subset.

    Attributes:
        system, subset: which.
        attacks: columns of the results schema of each attack, in the order of their scores.
        ref: the artefact (:func:`pipeline.products.speakers.compute.speakers`).
    """

    system: str
    subset: str
    attacks: tuple[Mapping[str, str], ...]
    ref: Ref


@dataclass
class Graph:
    """Tasks, sources first, each once; it pickles.

    Attributes:
        sources: what the rows of results are read from.
        diagnoses: what the attacks are judged by.
        findings: what is said of the attacks before anything is computed, and of which results.
        candidates: the attacks that were adapted to a system, between which held-out speakers choose.
        heard: what is heard of the evaluated speech.
        orders: how the scores of each attack order the classes, by the identity of its results.
        answered: the strongest attack on each system.
        compared: the systems that are compared in pairs.
        speakers: each speaker under each attack.
        pitches: the mean F0 of the speakers, by system.
        means: by name, the weights of the subsets that it is a mean of.
        notes: what a reader should know of the attacks that were planned, and of those that were not.
        limits: what was asked for and gives no row (:mod:`pipeline.tables.run_files`).
        trained_on: by the label of a back end that is trained, how many speakers each of its training sets has, by what messages call it.
        left_out: of systems that are not ranked because tasks failed: that they are not, and why.
    """

    tasks: list[Task] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
    diagnoses: list[Diagnosis] = field(default_factory=list)
    findings: list[tuple[Mapping[str, str], Finding]] = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)
    heard: Heard = field(default_factory=Heard)
    orders: list[tuple[Mapping[str, str], Ref]] = field(default_factory=list)
    answered: list[Answered] = field(default_factory=list)
    compared: list[Compared] = field(default_factory=list)
    speakers: list[OfSpeakers] = field(default_factory=list)
    pitches: dict[str, Ref] = field(default_factory=dict)
    means: dict[str, Mapping[str, float]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    limits: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    trained_on: dict[str, dict[str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._known: set[str] = set()

    def add(self, task: Task) -> Task:
        """Put a task at the end, unless it is there."""
        if task.id not in self._known:
            self._known.add(task.id)
            self.tasks.append(task)
        return task


def name_in_figures(identity: Mapping[str, str], apart: str = "") -> str:
    """What tables for figures call an extractor: they tell curves apart by it alone.

    One that was trained on anonymised speech is another one, and so is one that was measured in two ways. The level is said where it
    is not the system's own, so that systems share a panel otherwise.
    """
    name, trained = identity["extractor"], identity["trained_on"]
    if trained not in ("original", "", "given"):
        own = f" ({identity['system_level'].split(',')[0]})"
        name = f"{name}, trained on {trained.removesuffix(own)}"
    return f"{name}, {apart}" if apart else name
