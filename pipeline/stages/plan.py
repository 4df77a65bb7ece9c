"""What the parts of the graph share while it is made: the plan, and one cell of the evaluation's grid."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from pipeline.contracts import Backend, MetricFamily
from pipeline.datasets.prepare import Prepared
from pipeline.engine import code
from pipeline.engine.task import Input, Ref, Task, Value
from pipeline.names import join_few
from pipeline.protocol import trials
from pipeline.protocol.attackers import AttackerSettings
from pipeline.protocol.trials import TrialSet
from pipeline.seeds import digest
from pipeline.stages.features.plan import Features
from pipeline.stages.graph import Graph, Source
from pipeline.stages.keys import ExtractorKey, TrainingKey
from pipeline.stages.measures import compute as measure
from pipeline.stages.scores import compute as score
from pipeline.stages.settings import ORACLE, Chosen, Evaluation
from pipeline.stages.speech.plan import SpeechSet, TrainingSet
from pipeline.stages.training.plan import LoadedExtractor, Trainings
from pipeline.tables import run_files
from pipeline.tables.manifest import Wanted


@dataclass(frozen=True)
class Scorer:
    """A back end with its parameters, for one extractor.

    Attributes:
        label: of the back end.
        model: its parameters; None where it has none.
        learnt: the training set that goes with it: that of its parameters, or of its check.
        note: what the reader of its numbers must know.
        check: how well it tells held-out training speakers apart.
        variant: which of the attacks that its parameters serve; '' for the first.
    """

    label: str
    chosen: Chosen[Backend]
    model: Input | None = None
    learnt: TrainingSet | None = None
    note: str = ""
    check: Ref | None = None
    variant: str = ""

    @property
    def shown(self) -> str:
        """What tables call it."""
        return f"{self.label}, {self.variant}" if self.variant else self.label

    @property
    def centred(self) -> bool:
        """Whether it centres vectors on the enrolment."""
        return self.component.centres_on_enrolment(self.chosen.settings)

    @property
    def variants(self) -> list[Scorer]:
        """The back end in each way in which its parameters are an attack of their own."""
        ways = self.component.variants(self.chosen.settings).items()
        return [replace(self, chosen=replace(self.chosen, settings=way), variant=name) for name, way in ways]

    @property
    def component(self) -> type[Backend]:
        return self.chosen.component

    @property
    def gives_llrs(self) -> bool:
        """Whether scores are natural-log likelihood ratios."""
        return self.component.gives_llrs(self.chosen.settings)

    @property
    def is_trained(self) -> bool:
        """Whether the run makes its parameters."""
        return isinstance(self.model, Ref)

    @property
    def lacks(self) -> tuple[str, ...]:
        """Utterances that were left out of the speech on which the run trains it."""
        return self.learnt.lost if self.is_trained and self.learnt is not None else ()

    def with_check(self, check: Ref) -> Scorer:
        """The same, with its check."""
        return replace(self, check=check)

    def inputs(self) -> dict[str, Input]:
        """What score tasks read beside vectors."""
        return {} if self.model is None else {"backend": self.model}

    @property
    def described(self) -> dict[str, Any]:
        """What the signature says of the back end: its settings, and where its parameters come from."""
        parameters: dict[str, Any] = {}
        if isinstance(self.model, Value):
            parameters = {"weights": self.model.digest}
        elif self.is_trained and self.learnt is not None:
            parameters = {"data": self.learnt.content, "anonymised": self.learnt.asked, "note": self.note}
        return {**self.chosen.numeric(), **parameters}


Pair = tuple[LoadedExtractor, Scorer]
"""What compares recordings: an extractor and a back end."""


@dataclass(frozen=True)
class Comparer:
    """What compares recordings, as tables and signatures say it.

    Attributes:
        extractor, trained_on, backend, calibration: columns of the results.
        described: what the numbers depend on, by name, for signatures.
        modules: whose code makes them.
        weights: for the digest in the results.
        gives_llrs: whether scores are natural-log likelihood ratios.
        note: what the reader of its numbers must know.
        check: how well it tells held-out training speakers apart.
        judged: the speech of that check, for the signatures of what stands on it.
        lacks: utterances that were left out of what the run trains it on.
        judged_lacks: those that were left out of the speech of its check.
        fits: the back ends that the run trains.
    """

    extractor: str
    trained_on: str
    backend: str
    calibration: str
    described: Mapping[str, Any]
    modules: frozenset[str] = frozenset()
    weights: Input | None = None
    gives_llrs: bool = False
    note: str = ""
    check: Ref | None = None
    judged: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    judged_lacks: tuple[str, ...] = ()
    fits: tuple[Ref, ...] = ()

    @classmethod
    def of(cls, extractor: LoadedExtractor, scorer: Scorer | None) -> Comparer:
        """An extractor with a back end; without one, inputs are compared with references by the extractor's similarity."""
        said = {"training data": extractor.training_data} if extractor.training_data else {}
        described: dict[str, Any] = {"extractor": extractor.described, "backend": {}, **said}
        if scorer is None:
            similarity = extractor.component.similarity
            known, weights = extractor.trained_on, extractor.model()
            return cls(extractor.name, known, similarity, "none", described, weights=weights, lacks=extractor.lacks)
        return cls(
            extractor.name,
            trained_on(extractor, scorer),
            scorer.shown,
            ORACLE,
            {**described, "backend": scorer.described},
            frozenset({scorer.chosen.module}),
            extractor.model(),
            scorer.gives_llrs,
            scorer.note,
            scorer.check,
            (scorer.learnt.content, scorer.learnt.asked) if scorer.learnt is not None else (),
            tuple(dict.fromkeys((*extractor.lacks, *scorer.lacks))),
            scorer.learnt.lost if scorer.learnt is not None else (),
            (scorer.model,) if isinstance(scorer.model, Ref) else (),
        )

    @classmethod
    def fused(cls, kind: str, several: Sequence[Comparer]) -> Comparer:
        """Several with one back end, whose scores are joined."""
        first = several[0]
        known = tuple(dict.fromkeys(one.trained_on for one in several))
        names = tuple(dict.fromkeys(one.extractor for one in several))
        return cls(
            "+".join(names),
            " + ".join(known),
            f"{first.backend}, fused ({kind})",
            ORACLE,
            {
                "fusion": [kind, *(list(one.judged) for one in several)],
                "extractor": [one.described["extractor"] for one in several],
                "backend": [kind, *(one.described["backend"] for one in several)],
            },
            frozenset().union({"pipeline.products.fusion.compute"}, *(one.modules for one in several)),
            note="; ".join(dict.fromkeys(one.note for one in several if one.note)),
            # Scores are joined as held-out training speakers say.
            lacks=tuple(dict.fromkeys(name for one in several for name in (*one.lacks, *one.judged_lacks))),
            fits=tuple(dict.fromkeys(ref for one in several for ref in one.fits)),
        )


def trained_on(extractor: LoadedExtractor, scorer: Scorer) -> str:
    """What tables say of the speech that an extractor and its back end know."""
    learnt = scorer.learnt
    if extractor.is_adapted or not scorer.is_trained or learnt is None or not learnt.anonymised:
        return extractor.trained_on
    return f"{extractor.trained_on}; back end anonymised ({learnt.said})"


@dataclass(frozen=True)
class Cell:
    """One cell of the evaluation's grid: what is measured, on which speech, by which attacker.

    Attributes:
        protocol: digest of what is compared.
        across_sexes: whether it is trials that were made here without the sex of any speaker.
        enrolment: how the attacker asked for the enrolment, for signatures; what it became follows from the system.
    """

    subset: str
    condition: str
    system: SpeechSet
    attacker: str
    comparer: Comparer
    protocol: str
    across_sexes: bool = False
    enrolment: str = ""

    @property
    def label(self) -> str:
        """What messages call it."""
        by = self.comparer
        both = self.condition if len(self.condition) > 2 else ""
        parts = (self.subset, self.system.system, self.attacker, both, by.extractor, by.trained_on, by.backend)
        return " ".join(part for part in parts if part)

    def identity(self, dataset: str) -> dict[str, str]:
        """Columns of the results schema."""
        return {
            "dataset": dataset,
            "subset": self.subset,
            "condition": self.condition,
            "system": self.system.system,
            "system_level": self.system.level,
            "attacker": self.attacker,
            "extractor": self.comparer.extractor,
            "trained_on": self.comparer.trained_on,
            "backend": self.comparer.backend,
            "calibration": self.comparer.calibration,
        }


@dataclass(frozen=True)
class Paired:
    """The utterances of a trial set that are compared in pairs.

    Attributes:
        expected: how many there are, with those that were left out (``allow_partial``).
        protocol: digest of their names.
    """

    wanted: Wanted
    expected: int
    protocol: str


@dataclass
class Plan:
    """What the parts of the graph share while it is made.

    Attributes:
        evaluated: the evaluation sets of each system.
        second: those of the second runs of random systems.
        enrolled: anonymised enrolment sets by (system, attacker), a speech set a draw of the random numbers.
        scorers: back ends by (label, extractor, training set).
        answered: the chosen metrics that are measured somewhere.
        tried: all attacks with their scores, and whether it is known who the speakers are.
    """

    evaluation: Evaluation
    data: Prepared
    graph: Graph
    trainings: Trainings
    extractors: list[LoadedExtractor]
    features: Features
    evaluated: dict[str, SpeechSet] = field(default_factory=dict)
    second: dict[str, SpeechSet] = field(default_factory=dict)
    enrolled: dict[tuple[str, str], tuple[SpeechSet, ...]] = field(default_factory=dict)
    scorers: dict[tuple[str, ExtractorKey, TrainingKey | None], Scorer] = field(default_factory=dict)
    answered: set[str] = field(default_factory=set)
    tried: list[tuple[Cell, Task, bool]] = field(default_factory=list)
    _paired: dict[str, Paired] = field(default_factory=dict)
    _sides: dict[tuple[str, str], Wanted] = field(default_factory=dict)
    _searched: dict[str, TrialSet] = field(default_factory=dict)

    @property
    def original(self) -> SpeechSet:
        """The evaluation sets as they are."""
        return self.evaluated[self.evaluation.original]

    def families(self, reads: str) -> list[tuple[str, Chosen[MetricFamily]]]:
        """The chosen metric families that read this kind of scores."""
        chosen = self.evaluation.metrics.items()
        return [(label, family) for label, family in chosen if family.component.reads == reads]

    @property
    def scored(self) -> list[LoadedExtractor]:
        """The extractors whose vectors back ends compare."""
        return [one for one in self.extractors if one.is_scored]

    def judges(self, extractor: LoadedExtractor, learnt: TrainingSet) -> bool:
        """Whether attacks with an extractor are tried on held-out speakers of a training set: those of attackers who train on
        the speech of a system, to choose between them; on original speech to see what the extractor can do, or to join scores.
        Never with an extractor that has learnt from these speakers."""
        if not self.families("trials") or "trials" not in extractor.component.compared_as:
            return False
        if not extractor.can_be_judged:
            return False
        if learnt is not self.trainings.original:
            return True
        return self.evaluation.diagnostics or bool(self.evaluation.fusion)

    def pairs_of(self, attacker: AttackerSettings | None, system: str, name: str, kind: str) -> list[Pair]:
        """The extractors, each with a back end, that an attacker on a system has; without an attacker all that know original
        speech.

        An attacker who trains on the system's speech has the extractors that were trained on it, with each back end, and
        those that know original speech with each back end that was.
        """
        if attacker is None or not attacker.adapts:
            return [pair for extractor in self.plain(kind) for pair in self.with_back_ends(extractor)]
        learnt = self.trainings.anonymised.get((system, name))
        found = []
        for extractor in self.extractors:
            if kind not in extractor.component.compared_as:
                continue
            if extractor.is_adapted:
                own = extractor.learnt is learnt if extractor.adapted else extractor.system in ("", system)
                found += self.with_back_ends(extractor) if own else []
            elif learnt is not None and extractor.tables is None:
                of = [self.scorers.get((label, extractor.key, learnt.key)) for label in self.evaluation.backends]
                found += [(extractor, scorer) for scorer in of if scorer is not None and scorer.is_trained]
        return found

    def with_back_ends(self, extractor: LoadedExtractor) -> list[Pair]:
        """An extractor with each back end, which knows the same kind of speech."""
        made = self.trainings.known_to(extractor)
        learnt = None if made is None or (extractor.tables is not None and extractor.is_adapted) else made.key
        of = [self.scorers.get((label, extractor.key, learnt)) for label in self.evaluation.backends]
        return [(extractor, scorer) for scorer in of if scorer is not None]

    def plain(self, compared_as: str) -> list[LoadedExtractor]:
        """The extractors that know original speech only."""
        return [one for one in self.extractors if compared_as in one.component.compared_as and not one.is_adapted]

    def adapted(self, system: str) -> list[LoadedExtractor]:
        """The extractors that were trained on a system's anonymised speech."""
        return [one for one in self.extractors if one.is_adapted and one.system in ("", system)]

    def paired(self, subset: str) -> Paired:
        """The utterances of a trial set that are compared in pairs."""
        if subset not in self._paired:
            rows = self._set(subset)
            expected = len(rows) + sum(entry.set == subset for entry in self.data.dropped)
            self._paired[subset] = Paired(Wanted.of(rows), expected, digest(sorted(rows["utterance"])))
        return self._paired[subset]

    def level(self, system: str) -> str:
        """At which level a system gives pseudo-voices, as its settings say it."""
        chosen = self.evaluation.systems[system]
        return chosen.component.level(chosen.settings)

    def side(self, speech: SpeechSet, extractor: LoadedExtractor, trial_set: TrialSet, side: str) -> Input:
        """The vectors of one side of a trial set, ``enrolment`` or ``trials``."""
        enrolment = side == "enrolment"
        name = trial_set.enrolment_set if enrolment else trial_set.name
        table = trial_set.enrolment if enrolment else trial_set.trials

        if (trial_set.name, side) not in self._sides:
            rows = self._set(name)
            rows = rows[rows["utterance"].isin(set(table["utterance"]))]
            self._sides[trial_set.name, side] = Wanted.of(rows)
        return self.features.vectors(speech, extractor, self._sides[trial_set.name, side])

    def trial_scores(
        self,
        enrolled: Sequence[SpeechSet],
        tried: SpeechSet,
        extractor: LoadedExtractor,
        scorer: Scorer,
        trial_set: TrialSet,
    ) -> Task:
        """The scores of a trial set, once however often they are asked for; ``enrolled`` are the draws that make a model."""
        all_candidates = trial_set is not self.data.trials.get(trial_set.name)
        which = f"{trial_set.name} (all candidates)" if all_candidates else trial_set.name
        sides = {
            f"enrolment.{draw}" if draw else "enrolment": self.side(one, extractor, trial_set, "enrolment")
            for draw, one in enumerate(enrolled)
        }
        drawn = " and ".join(one.label for one in enrolled)
        return self.graph.add(
            Task(
                name="score",
                label=f"score {which} {drawn} against {tried.label} {extractor.label} {scorer.shown}",
                settings=scorer.chosen.numeric(),
                inputs={
                    **sides,
                    "trial": self.side(tried, extractor, trial_set, "trials"),
                    "trials": Value(trial_set.digest, trial_set),
                    **scorer.inputs(),
                },
                function=functools.partial(score.trials, scorer.component, scorer.chosen.settings),
                code=(scorer.chosen.module,),
                libraries=("numpy",),
            )
        )

    def searched(self, trial_set: TrialSet) -> TrialSet:
        """The list of a trial set with the trials that it lacks where a speaker is looked for among all candidates."""
        if trial_set.name not in self._searched:
            enrolled, tried = self._set(trial_set.enrolment_set), self._set(trial_set.name)
            owner = dict(zip(enrolled["utterance"], enrolled["speaker"]))
            made = zip(trial_set.enrolment["model"], trial_set.enrolment["utterance"])
            sexes = dict(zip(tried["speaker"], tried["sex"])) | dict(zip(enrolled["speaker"], enrolled["sex"]))
            self._searched[trial_set.name] = trials.complete_trials(
                trial_set,
                {model: owner[utterance] for model, utterance in made},
                dict(zip(tried["utterance"], tried["speaker"])),
                sexes,
            )
        return self._searched[trial_set.name]

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
        return self.features.vectors(speech, extractor, self.paired(subset).wanted)

    def _set(self, name: str) -> pd.DataFrame:
        return self.data.manifest[self.data.manifest["set"] == name]

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
                settings={**family.numeric(), **context.plain},
                inputs=inputs,
                function=functools.partial(measure.run, family.component, family.settings, context),
                code=(family.module,),
                libraries=("numpy", "scipy", *family.component.libraries),
            )
        )
        self.answered.add(name)
        makers = {
            "pipeline.stages.features.compute",
            "pipeline.stages.scores.compute",
            "pipeline.stages.measures.compute",
            family.module,
        }
        makers |= cell.comparer.modules
        parameters = {
            **cell.comparer.described,
            "calibration": cell.comparer.calibration,
            "settings": family.numeric(),
            "protocol": cell.protocol,
            "code": code.collect_versions(makers),
        }
        if cell.across_sexes:
            parameters["sexes"] = "unknown"
        if cell.enrolment:
            parameters["enrolment"] = cell.enrolment
        identity, reads = cell.identity(self.data.name), family.component.reads
        by, notes = cell.comparer, [cell.comparer.note, run_files.SEXES_UNKNOWN if cell.across_sexes else ""]
        tried = self.data.trials.get(cell.subset) if reads.startswith("trial") else None
        thinned = tried.thinned if tried is not None else ()
        if thinned:
            notes.append(f"{len(thinned)} models lack enrolment utterances that were left out: {join_few(thinned)}")
        if by.lacks:
            notes.append(
                f"{len(by.lacks)} training utterances were left out, so the attacker has learnt from less: {join_few(by.lacks)}"
            )
        partial, note = bool(thinned or by.lacks), "; ".join(filter(None, notes))
        told = apart(name, family, self.evaluation.metrics)
        self.graph.sources.append(
            Source(task.ref(), identity, parameters, reads, by.weights, note, partial, by.fits, told)
        )


def apart(label: str, family: Chosen[MetricFamily], chosen: Mapping[str, Chosen[MetricFamily]]) -> str:
    """What rows of a family under a label add to their variant: by which definition they are, where it is not the usual one, and the
    label, unless it is the family's name or the definition says it already."""
    alike = [one for one in chosen.values() if one.name == family.name]
    words = family.component.definition(family.settings)
    same = [one for one in alike if one.component.definition(one.settings) == words]
    needless = len(alike) == 1 or label == family.name or (label in words and len(same) == 1)
    return ", ".join([*words, *([] if needless else [label])])
