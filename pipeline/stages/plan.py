"""What the parts of the graph share while it is made: the plan, and the attacks on each system."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import pandas as pd

from pipeline.contracts import MetricFamily
from pipeline.datasets.prepare import Prepared
from pipeline.engine.task import Input, Task
from pipeline.protocol import trials
from pipeline.protocol.attackers import AttackerSettings
from pipeline.protocol.trials import TrialSet
from pipeline.seeds import digest
from pipeline.stages.backends.plan import Scorer
from pipeline.stages.features.plan import Features
from pipeline.stages.graph import ExtractorKey, Graph, TrainingKey
from pipeline.stages.scores.measure import Context
from pipeline.stages.scores.plan import Cell, Comparer, describe_comparer, score_trials
from pipeline.stages.settings import Chosen, Evaluation
from pipeline.stages.speech.plan import SpeechSet, TrainingSet
from pipeline.stages.training.plan import LoadedExtractor, Trainings
from pipeline.tables.manifest import Wanted

Pair = tuple[LoadedExtractor, Scorer]
"""What compares recordings: an extractor and a back end."""


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
class Copies:
    """The evaluated speech as each system has it.

    Attributes:
        evaluated: the evaluation sets of each system.
        second: those of the second runs of random systems.
        enrolled: anonymised enrolment sets by (system, attacker), a speech set a draw of the random numbers.
    """

    evaluated: dict[str, SpeechSet] = field(default_factory=dict)
    second: dict[str, SpeechSet] = field(default_factory=dict)
    enrolled: dict[tuple[str, str], tuple[SpeechSet, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Attempt:
    """An attack on one trial set, with its scores.

    Attributes:
        has_speakers: whether it is known who the speakers are.
        trial: the attack, where it is made here and not joined of others.
    """

    cell: Cell
    scores: Task
    has_speakers: bool = True
    trial: Trial | None = None


@dataclass
class Plan:
    """What the parts of the graph share while it is made.

    Attributes:
        scorers: back ends by (label, extractor, training set).
        measured: labels of the chosen metrics that are measured somewhere.
        attempts: all attacks that are tried.
    """

    evaluation: Evaluation
    data: Prepared
    graph: Graph
    trainings: Trainings
    extractors: list[LoadedExtractor]
    features: Features
    copies: Copies = field(default_factory=Copies)
    scorers: dict[tuple[str, ExtractorKey, TrainingKey | None], Scorer] = field(default_factory=dict)
    measured: set[str] = field(default_factory=set)
    attempts: list[Attempt] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.paired = functools.cache(self._pair)
        self.searched = functools.cache(self._complete)
        self._side = functools.cache(self._choose_side)

    @property
    def original(self) -> SpeechSet:
        """The evaluation sets as they are."""
        return self.copies.evaluated[self.evaluation.original]

    def families(self, reads: str) -> list[tuple[str, Chosen[MetricFamily]]]:
        """The chosen metric families that read this kind of scores."""
        chosen = self.evaluation.metrics.items()
        return [(label, family) for label, family in chosen if family.component.reads == reads]

    @property
    def scored(self) -> list[LoadedExtractor]:
        """The extractors whose vectors back ends compare."""
        return [extractor for extractor in self.extractors if extractor.is_scored]

    def judges(self, extractor: LoadedExtractor, learnt: TrainingSet) -> bool:
        """Whether attacks with an extractor are tried on held-out speakers of a training set: those of attackers who train on
        the speech of a system, to choose between them; on original speech to see what the extractor can do, or to join scores.
        Never with an extractor that has learnt from these speakers."""
        is_tried = bool(self.families("trials")) and "trials" in extractor.component.compared_as
        products = self.evaluation.products
        has_use = learnt is not self.trainings.original or products.diagnostics or bool(products.fusion)
        return is_tried and extractor.can_be_judged and has_use

    def pairs(self, attacker: AttackerSettings | None, system: str, name: str, kind: str) -> list[Pair]:
        """The extractors, each with a back end, that an attacker on a system has; without an attacker all that know original
        speech.

        An attacker who trains on the system's speech has the extractors that were trained on it, with each back end, and
        those that know original speech with each back end that was.
        """
        if attacker is None or not attacker.adapts:
            return [pair for extractor in self.plain(kind) for pair in self.with_back_ends(extractor)]
        learnt = self.trainings.anonymised.get((system, name))
        pairs: list[Pair] = []
        for extractor in self.extractors:
            if kind not in extractor.component.compared_as:
                continue
            if extractor.is_adapted:
                # One that the run trains has learnt from this very set; one from elsewhere from this system, as far as is known.
                own = extractor.learnt is learnt if extractor.adapted else extractor.system in ("", system)
                pairs += self.with_back_ends(extractor) if own else []
            elif learnt is not None and extractor.tables is None:
                scorers = [self.scorers.get((label, extractor.key, learnt.key)) for label in self.evaluation.backends]
                pairs += [(extractor, scorer) for scorer in scorers if scorer is not None and scorer.is_trained]
        return pairs

    def with_back_ends(self, extractor: LoadedExtractor) -> list[Pair]:
        """An extractor with each back end, which knows the same kind of speech."""
        training_set = self.trainings.known_to(extractor)
        unknown = training_set is None or (extractor.tables is not None and extractor.is_adapted)
        key = None if unknown or training_set is None else training_set.key
        scorers = [self.scorers.get((label, extractor.key, key)) for label in self.evaluation.backends]
        return [(extractor, scorer) for scorer in scorers if scorer is not None]

    def plain(self, compared_as: str) -> list[LoadedExtractor]:
        """The extractors that know original speech only."""
        able = [extractor for extractor in self.extractors if compared_as in extractor.component.compared_as]
        return [extractor for extractor in able if not extractor.is_adapted]

    def adapted(self, system: str) -> list[LoadedExtractor]:
        """The extractors that were trained on a system's anonymised speech; none on original speech."""
        if system == self.evaluation.original:
            return []
        return [extractor for extractor in self.extractors if extractor.is_adapted and extractor.system in ("", system)]

    def level(self, system: str) -> str:
        """At which level a system gives pseudo-voices, as its settings say it."""
        chosen = self.evaluation.systems[system]
        return chosen.component.level(chosen.settings)

    def rows(self, name: str) -> pd.DataFrame:
        """The rows of the manifest of one set."""
        return self.data.manifest[self.data.manifest["set"] == name]

    def side(self, speech: SpeechSet, extractor: LoadedExtractor, trial_set: TrialSet, side: str) -> Input:
        """The vectors of one side of a trial set, ``enrolment`` or ``trials``."""
        return self.features.vectors(speech, extractor, self._side(trial_set.name, side))

    def _choose_side(self, name: str, side: str) -> Wanted:
        trial_set = self.data.trials[name]
        rows = self.rows(trial_set.enrolment_set if side == "enrolment" else name)
        table = trial_set.enrolment if side == "enrolment" else trial_set.trials
        return Wanted.of(rows[rows["utterance"].isin(set(table["utterance"]))])

    def _pair(self, subset: str) -> Paired:
        rows = self.rows(subset)
        expected = len(rows) + sum(entry.set == subset for entry in self.data.dropped)
        return Paired(Wanted.of(rows), expected, digest(sorted(rows["utterance"])))

    def _complete(self, trial_set: TrialSet) -> TrialSet:
        """The list of a trial set with the trials that it lacks where a speaker is looked for among all candidates."""
        enrolled, tried = self.rows(trial_set.enrolment_set), self.rows(trial_set.name)
        owner = dict(zip(enrolled["utterance"], enrolled["speaker"]))
        models = zip(trial_set.enrolment["model"], trial_set.enrolment["utterance"])
        sexes = dict(zip(tried["speaker"], tried["sex"])) | dict(zip(enrolled["speaker"], enrolled["sex"]))
        owners = {model: owner[utterance] for model, utterance in models}
        return trials.complete_trials(trial_set, owners, dict(zip(tried["utterance"], tried["speaker"])), sexes)


@dataclass(frozen=True)
class Attack:
    """Who attacks which system, with what enrolled against what; ``attacker`` is None for unprotected speech.

    Attributes:
        enrolled: the draws of the enrolment, of which all utterances make a model.
    """

    system: SpeechSet
    name: str
    attacker: AttackerSettings | None
    enrolled: tuple[SpeechSet, ...]
    tried: SpeechSet

    @property
    def condition(self) -> str:
        own = self.attacker.condition if self.attacker else "OO"
        return own if len({speech.system for speech in self.enrolled}) == 1 else f"O{own}"

    @property
    def drawn(self) -> bool:
        """Whether the attacker anonymised the enrolment otherwise than the system does."""
        return any(speech.key.part == "enrolment" for speech in self.enrolled)

    def enrolments(self, plan: Plan, extractor: LoadedExtractor) -> Iterator[Attack]:
        """The attack with each enrolment that the attacker can have: anonymised under several draws; or, where several are asked for
        and there is one, under that one, and together with the original enrolment."""
        attacker = self.attacker
        if attacker is None or attacker.enrolment == "original":
            yield self
            return
        drawn = plan.copies.enrolled[self.system.system, self.name] if extractor.tables is None else (self.system,)
        yield replace(self, enrolled=drawn)
        if attacker.enrolment_draws > 1 and len(drawn) == 1 and extractor.reads(plan.original):
            yield replace(self, enrolled=(plan.original, *drawn))

    def cell(self, trial_set: TrialSet, comparer: Comparer) -> Cell:
        """What its rows on a trial set are about."""
        enrolment = self.attacker.enrolment_request if self.attacker else ""
        about = trial_set.name, self.condition, self.system, self.name
        return Cell(*about, comparer, trial_set.digest, trial_set.across_sexes, enrolment)


@dataclass(frozen=True)
class Trial:
    """One attack on one trial set, with one extractor and one back end."""

    attack: Attack
    trial_set: TrialSet
    extractor: LoadedExtractor
    scorer: Scorer

    @functools.cached_property
    def cell(self) -> Cell:
        return self.attack.cell(self.trial_set, describe_comparer(self.extractor, self.scorer))

    def scores(self, plan: Plan, trial_set: TrialSet | None = None, run: SpeechSet | None = None) -> Task:
        """The scores of the attack, on another trial set or on another run of the system where one is given."""
        attack = self.attack
        enrolled, tried = attack.enrolled, attack.tried
        if run is not None:
            enrolled = tuple(run if speech is attack.system else speech for speech in enrolled)
            tried = run if tried is attack.system else tried
        return score_trials(plan, enrolled, tried, self.extractor, self.scorer, trial_set or self.trial_set)

    @property
    def adapted_to(self) -> TrainingSet | None:
        """The speech of the system that its extractor or its back end knows."""
        if self.extractor.adapted:
            return self.extractor.learnt
        learnt = self.scorer.learnt
        return learnt if self.scorer.is_trained and learnt is not None and learnt.anonymised else None

    @property
    def is_candidate(self) -> bool:
        """Whether its attacker adapts to the system, and held-out training speakers say how strong it is."""
        attacker = self.attack.attacker
        return attacker is not None and attacker.adapts and self.scorer.check is not None

    def context(self) -> Context:
        return Context(self.trial_set.expected, self.scorer.gives_llrs)


def list_attacks(plan: Plan, systems: Sequence[str]) -> Iterator[Attack]:
    """All attacks on some anonymised systems, each with the system's own enrolment."""
    for system in systems:
        if system == plan.evaluation.original:
            continue
        sides = {"original": plan.original, "anonymised": plan.copies.evaluated[system]}
        for name, attacker in plan.evaluation.attackers.items():
            yield Attack(sides["anonymised"], name, attacker, (sides[attacker.enrolment],), sides[attacker.trial])


def list_trials(plan: Plan, attack: Attack) -> Iterator[Trial]:
    """An attack on each trial set, with all that the attacker has: extractors, each with a back end in each of its ways."""
    pairs = plan.pairs(attack.attacker, attack.system.system, attack.name, "trials")
    variants = [(extractor, variant) for extractor, scorer in pairs for variant in scorer.variants]
    for trial_set in plan.data.trials.values():
        for extractor, scorer in variants:
            for enrolment in attack.enrolments(plan, extractor):
                yield Trial(enrolment, trial_set, extractor, scorer)
