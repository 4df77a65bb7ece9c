"""What the parts of the graph share while it is made: the plan, and one cell of the evaluation's grid."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from pipeline.contracts import Backend, MetricFamily
from pipeline.datasets.prepare import Prepared
from pipeline.engine import code
from pipeline.engine.task import Given, Input, Task
from pipeline.planning.extractors import LoadedExtractor, Trainings
from pipeline.planning.features import Features
from pipeline.planning.graph import Graph, Source
from pipeline.planning.keys import ExtractorKey
from pipeline.planning.settings import ORACLE, Chosen, Evaluation
from pipeline.planning.speech import SpeechSet
from pipeline.protocol.attackers import AttackerSettings
from pipeline.protocol.trials import TrialSet
from pipeline.stages import measure, score


@dataclass(frozen=True)
class Scorer:
    """A back end with its parameters, for one extractor.

    Attributes:
        label: of the back end.
        model: its parameters; None where it has none.
        note: what the reader of its numbers must know.
    """

    label: str
    chosen: Chosen[Backend]
    model: Input | None = None
    note: str = ""

    @property
    def component(self) -> type[Backend]:
        return self.chosen.component

    @property
    def gives_llrs(self) -> bool:
        """Whether scores are natural-log likelihood ratios."""
        return self.component.gives_llrs(self.chosen.settings)

    def inputs(self) -> dict[str, Input]:
        """What score tasks read beside vectors."""
        return {} if self.model is None else {"backend": self.model}

    def described(self, extractor: LoadedExtractor) -> dict[str, Any]:
        """What the signature says of the back end: its settings, and where its parameters come from."""
        learnt = extractor.learnt
        parameters: dict[str, Any] = {}
        if isinstance(self.model, Given):
            parameters = {"weights": self.model.digest}
        elif self.model is not None and learnt is not None:
            parameters = {"data": learnt.content, "note": self.note}
        return {**self.chosen.numeric(), **parameters}


@dataclass(frozen=True)
class Cell:
    """One cell of the evaluation's grid: what is measured, on which speech, by which attacker.

    Attributes:
        scorer: None where inputs are compared with references: ``similarity`` then says how.
        protocol: digest of what is compared.
    """

    subset: str
    condition: str
    system: SpeechSet
    attacker: str
    extractor: LoadedExtractor
    protocol: str
    scorer: Scorer | None = None

    @property
    def label(self) -> str:
        """What messages call it."""
        backend = self.scorer.label if self.scorer else ""
        parts = (self.subset, self.system.system, self.attacker, self.extractor.label, backend)
        return " ".join(part for part in parts if part)

    @property
    def calibration(self) -> str:
        """How scores become LLRs; ranks need none."""
        return ORACLE if self.scorer else "none"

    def identity(self, dataset: str) -> dict[str, str]:
        """Columns of the results schema."""
        return {
            "dataset": dataset,
            "subset": self.subset,
            "condition": self.condition,
            "system": self.system.system,
            "system_level": self.system.level,
            "attacker": self.attacker,
            "extractor": self.extractor.name,
            "trained_on": self.extractor.trained_on,
            "backend": self.scorer.label if self.scorer else self.extractor.component.similarity,
            "calibration": self.calibration,
        }


@dataclass
class Plan:
    """What the parts of the graph share while it is made.

    Attributes:
        evaluated: the evaluation sets of each system.
        second: those of the second runs of random systems.
        other: enrolment sets at the other level.
        scorers: back ends by (label, extractor).
        answered: the chosen metrics that are measured somewhere.
    """

    evaluation: Evaluation
    data: Prepared
    graph: Graph
    trainings: Trainings
    extractors: list[LoadedExtractor]
    features: Features
    evaluated: dict[str, SpeechSet] = field(default_factory=dict)
    second: dict[str, SpeechSet] = field(default_factory=dict)
    other: dict[str, SpeechSet] = field(default_factory=dict)
    scorers: dict[tuple[str, ExtractorKey], Scorer] = field(default_factory=dict)
    answered: set[str] = field(default_factory=set)

    @property
    def original(self) -> SpeechSet:
        """The evaluation sets as they are."""
        return self.evaluated[self.evaluation.original]

    def families(self, reads: str) -> list[tuple[str, Chosen[MetricFamily]]]:
        """The chosen metric families that read this kind of scores."""
        chosen = self.evaluation.metrics.items()
        return [(label, family) for label, family in chosen if family.component.reads == reads]

    def known_to(self, attacker: AttackerSettings, system: str, compared_as: str) -> list[LoadedExtractor]:
        """The extractors that an attacker on a system has."""
        if not attacker.adapts:
            return self.plain(compared_as)
        learnt = self.trainings.anonymised.get((system, attacker.training_level))
        found = [one for one in self.extractors if compared_as in one.component.compared_as and one.is_adapted]
        return [one for one in found if not one.system or one.learnt is learnt]

    def plain(self, compared_as: str) -> list[LoadedExtractor]:
        """The extractors that know original speech only."""
        return [one for one in self.extractors if compared_as in one.component.compared_as and not one.is_adapted]

    def adapted(self, system: str) -> list[LoadedExtractor]:
        """The extractors that were trained on a system's anonymised speech."""
        return [one for one in self.extractors if one.is_adapted and one.system in ("", system)]

    def level(self, system: str) -> str:
        """At which level a system gives pseudo-voices, as its settings say it."""
        chosen = self.evaluation.systems[system]
        return chosen.component.level(chosen.settings)

    def side(self, speech: SpeechSet, extractor: LoadedExtractor, trial_set: TrialSet, side: str) -> Input:
        """The vectors of one side of a trial set, ``enrolment`` or ``trials``."""
        enrolment = side == "enrolment"
        name = trial_set.enrolment_set if enrolment else trial_set.name
        table = trial_set.enrolment if enrolment else trial_set.trials

        def rows() -> pd.DataFrame:
            listed = self.data.manifest
            return listed[(listed["set"] == name) & listed["utterance"].isin(table["utterance"])]

        return self.features.vectors(speech, extractor, rows, (trial_set.name, side))

    def trial_scores(
        self, enrolled: SpeechSet, tried: SpeechSet, extractor: LoadedExtractor, scorer: Scorer, trial_set: TrialSet
    ) -> Task:
        """The scores of a trial set, once however often they are asked for."""
        return self.graph.add(
            Task(
                name="score",
                label=f"score {trial_set.name} {enrolled.label} against {tried.label} {extractor.label} {scorer.label}",
                settings=scorer.chosen.numeric(),
                inputs={
                    "enrolment": self.side(enrolled, extractor, trial_set, "enrolment"),
                    "trial": self.side(tried, extractor, trial_set, "trials"),
                    "trials": Given(trial_set.digest, trial_set),
                    **scorer.inputs(),
                },
                function=functools.partial(score.trials, scorer.component, scorer.chosen.settings),
                code=(scorer.chosen.module,),
                libraries=("numpy",),
            )
        )

    def pair_scores(
        self, rows: SpeechSet, columns: SpeechSet, extractor: LoadedExtractor, scorer: Scorer, subset: str
    ) -> Task:
        """The scores of all utterances of a set in one speech against all in another, once for all that ask."""
        sides = {"rows": rows, "columns": columns}
        vectors = {name: self._whole_set(speech, extractor, subset) for name, speech in sides.items()}
        return self.graph.add(
            Task(
                name="score",
                label=f"score all pairs of {subset} {rows.label} against {columns.label} {extractor.label} {scorer.label}",
                settings=scorer.chosen.numeric(),
                inputs={**vectors, **scorer.inputs()},
                function=functools.partial(score.pairs, scorer.component, scorer.chosen.settings),
                code=(scorer.chosen.module,),
                libraries=("numpy",),
            )
        )

    def _whole_set(self, speech: SpeechSet, extractor: LoadedExtractor, subset: str) -> Input:
        def rows() -> pd.DataFrame:
            return self.data.manifest[self.data.manifest["set"] == subset]

        return self.features.vectors(speech, extractor, rows, ("all", subset))

    def rank_scores(self, speech: SpeechSet, extractor: LoadedExtractor, reference: Input, inputs: Input) -> Task:
        """The similarity of inputs to one reference a speaker."""
        component = extractor.component
        return self.graph.add(
            Task(
                name="score",
                label=f"score ranks of {speech.label} {extractor.label}",
                settings={"similarity": component.similarity, "evidence_optional": component.evidence_optional},
                inputs={"reference": reference, "input": inputs},
                function=functools.partial(score.ranks, component),
                code=(extractor.chosen.module,),
                libraries=("numpy",),
            )
        )

    def measure(
        self,
        cell: Cell,
        name: str,
        family: Chosen[MetricFamily],
        context: measure.Context,
        inputs: Mapping[str, Input],
    ) -> None:
        """One metric family of one cell."""
        task = self.graph.add(
            Task(
                name="measure",
                label=f"measure {name} {cell.label}",
                settings={**family.numeric(), "n_expected": context.n_expected, "are_llrs": context.are_llrs},
                inputs=inputs,
                function=functools.partial(measure.run, family.component, family.settings, context),
                code=(family.module,),
                libraries=("numpy", "scipy", *family.component.libraries),
            )
        )
        self.answered.add(name)
        makers = {"pipeline.stages.extract", "pipeline.stages.score", "pipeline.stages.measure", family.module}
        if cell.scorer is not None:
            makers.add(cell.scorer.chosen.module)
        parameters = {
            "extractor": cell.extractor.described,
            "backend": cell.scorer.described(cell.extractor) if cell.scorer else {},
            "calibration": cell.calibration,
            "settings": family.numeric(),
            "protocol": cell.protocol,
            "code": code.versions(makers),
        }
        if cell.extractor.training_data:
            parameters["training data"] = cell.extractor.training_data
        note = cell.scorer.note if cell.scorer else ""
        identity, reads = cell.identity(self.data.name), family.component.reads
        self.graph.sources.append(Source(task.ref(), identity, parameters, reads, cell.extractor.model(), note))
