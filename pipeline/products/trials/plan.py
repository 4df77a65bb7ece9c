"""Attacks: enrolment against trial for each attacker, on one run or two of a system, and what to judge them by."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from pipeline.engine.task import Input, Ref, Task
from pipeline.products.checks import check_scores, check_treatment
from pipeline.products.checks import compute as check_order
from pipeline.products.fusion import compute as fuse
from pipeline.protocol.attackers import AttackerSettings
from pipeline.protocol.trials import TrialSet
from pipeline.stages.graph import Candidate, Diagnosis
from pipeline.stages.measures import compute as measure
from pipeline.stages.measures import searches
from pipeline.stages.plan import Cell, Comparer, Pair, Plan, Scorer
from pipeline.stages.settings import FusionKind
from pipeline.stages.speech.plan import SpeechSet, TrainingSet
from pipeline.stages.training.plan import LoadedExtractor

LIBRARIES = ("numpy", "scipy")


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
        return own if len({one.system for one in self.enrolled}) == 1 else f"O{own}"

    @property
    def drawn(self) -> bool:
        """Whether the attacker anonymised the enrolment otherwise than the system does."""
        return any(one.key.part == "enrolment" for one in self.enrolled)

    def pairs(self, plan: Plan) -> list[Pair]:
        """The extractors that the attacker has, each with a back end in each of its ways."""
        found = plan.pairs_of(self.attacker, self.system.system, self.name, "trials")
        return [(extractor, way) for extractor, scorer in found for way in scorer.variants]

    def enrolments(self, plan: Plan, extractor: LoadedExtractor) -> Iterator[Attack]:
        """The attack with each enrolment that the attacker can have: anonymised under several draws; or, where several are asked for
        and there is one, under that one, and together with the original enrolment."""
        attacker = self.attacker
        if attacker is None or attacker.enrolment == "original":
            yield self
            return
        drawn = plan.enrolled[self.system.system, self.name] if extractor.tables is None else (self.system,)
        yield replace(self, enrolled=drawn)
        if attacker.enrolment_draws > 1 and len(drawn) == 1 and extractor.reads(plan.original):
            yield replace(self, enrolled=(plan.original, *drawn))


def _attacks(plan: Plan, labels: Sequence[str]) -> Iterator[Attack]:
    """All attacks on some anonymised systems, each with the system's own enrolment."""
    for label in labels:
        if label == plan.evaluation.original:
            continue
        sides = {"original": plan.original, "anonymised": plan.evaluated[label]}
        for name, attacker in plan.evaluation.attackers.items():
            yield Attack(sides["anonymised"], name, attacker, (sides[attacker.enrolment],), sides[attacker.trial])


@dataclass(frozen=True)
class Trial:
    """One attack on one trial set, with one extractor and one back end."""

    attack: Attack
    trial_set: TrialSet
    extractor: LoadedExtractor
    scorer: Scorer

    def cell(self) -> Cell:
        return _cell(self.attack, self.trial_set, Comparer.of(self.extractor, self.scorer))

    def scores(self, plan: Plan, run: SpeechSet | None = None) -> Task:
        """The scores of the attack, on another run of the system where one is given."""
        attack = self.attack
        enrolled, tried = attack.enrolled, attack.tried
        if run is not None:
            enrolled = tuple(run if one is attack.system else one for one in enrolled)
            tried = run if tried is attack.system else tried
        return plan.trial_scores(enrolled, tried, self.extractor, self.scorer, self.trial_set)

    def on(self, plan: Plan) -> Callable[[TrialSet], Task]:
        """The scores of the attack on a trial set."""
        return lambda trial_set: replace(self, trial_set=trial_set).scores(plan)

    @property
    def adapted_to(self) -> TrainingSet | None:
        """The speech of the system that its extractor or its back end knows."""
        if self.extractor.adapted:
            return self.extractor.learnt
        learnt = self.scorer.learnt
        return learnt if self.scorer.is_trained and learnt is not None and learnt.anonymised else None

    def context(self) -> measure.Context:
        return measure.Context(self.trial_set.expected, self.scorer.gives_llrs)


def _cell(attack: Attack, trial_set: TrialSet, comparer: Comparer) -> Cell:
    asked = attack.attacker.enrolment_request if attack.attacker else ""
    cell = Cell(trial_set.name, attack.condition, attack.system, attack.name, comparer, trial_set.digest)
    return replace(cell, across_sexes=trial_set.across_sexes, enrolment=asked)


def _trials(plan: Plan, attack: Attack) -> Iterator[Trial]:
    for trial_set in plan.data.trials.values():
        for extractor, scorer in attack.pairs(plan):
            for enrolled in attack.enrolments(plan, extractor):
                yield Trial(enrolled, trial_set, extractor, scorer)


def trials(plan: Plan) -> None:
    """Enrolment against trial, for each attacker: scores, then EER, Cllr, ZEBRA."""
    families = plan.families("trials")
    if not families:
        return
    unprotected = Attack(plan.original, "unprotected", None, (plan.original,), plan.original)
    for attack in (unprotected, *_attacks(plan, list(plan.evaluated))):
        for trial in _trials(plan, attack):
            scored = trial.scores(plan)
            for name, family in families:
                read, context = searches.inputs(plan, name, family, trial.trial_set, trial.context(), trial.on(plan))
                plan.measure(trial.cell(), name, family, context, read)
            plan.tried.append((trial.cell(), scored, True))
            ordered(plan, trial.cell(), scored)
            heard = trial.extractor.component.hears
            if plan.evaluation.diagnostics and attack.attacker is not None and heard:
                _diagnose(plan, trial, attack.attacker)
            _candidate(plan, trial)
        _fused(plan, attack)


def planned(plan: Plan, label: str) -> Iterator[Trial]:
    """All attacks on one anonymised system, on each trial set."""
    for attack in _attacks(plan, [label]):
        yield from _trials(plan, attack)


def _candidate(plan: Plan, trial: Trial) -> None:
    """One of the attacks between which held-out training speakers choose."""
    attacker = trial.attack.attacker
    if attacker is not None and attacker.adapts and trial.scorer.check is not None:
        plan.graph.candidates.append(Candidate(trial.cell().identity(plan.data.name), trial.scorer.check))


def fused_nowhere(plan: Plan) -> bool:
    """Whether scores are to be joined, and nothing is."""
    return bool(plan.evaluation.fusion) and not any(task.name == "fuse" for task in plan.graph.tasks)


def _fused(plan: Plan, attack: Attack) -> None:
    """The scores of all extractors of an attacker with one back end and the same enrolment, joined."""
    together: dict[tuple[str, str, str], list[Trial]] = {}
    for trial in _trials(plan, attack):
        if trial.scorer.check is not None:
            key = (trial.trial_set.name, trial.scorer.shown, trial.attack.condition)
            together.setdefault(key, []).append(trial)
    for several in together.values():
        if len(several) < 2:
            continue
        for kind in plan.evaluation.fusion:
            _fused_as(plan, kind, several)


def _fused_as(plan: Plan, kind: FusionKind, several: Sequence[Trial]) -> None:
    """The scores of some trials, that differ in their extractor, joined in one way."""
    attack, trial_set = several[0].attack, several[0].trial_set
    cell = _cell(attack, trial_set, Comparer.fused(kind, [one.cell().comparer for one in several]))
    checks = [one.scorer.check for one in several if one.scorer.check is not None]

    def joined(on: TrialSet) -> Task:
        return fused_scores(plan, kind, [one.on(plan)(on) for one in several], checks, cell.label)

    fused = joined(trial_set)
    for name, family in plan.families("trials"):
        context = measure.Context(trial_set.expected, False)
        read, context = searches.inputs(plan, name, family, trial_set, context, joined)
        plan.measure(cell, name, family, context, read)
    plan.tried.append((cell, fused, True))
    ordered(plan, cell, fused)


def fused_scores(plan: Plan, kind: FusionKind, scores: Sequence[Task], checks: Sequence[Ref], label: str) -> Task:
    """Scores of several extractors on the same trials as one."""
    inputs: dict[str, Input] = {f"scores.{number}": one.ref() for number, one in enumerate(scores)}
    inputs |= {f"held_out.{number}": one for number, one in enumerate(checks)}
    return plan.graph.add(
        Task(
            name="fuse",
            label=f"fuse {label}",
            settings={"kind": kind},
            inputs=inputs,
            function=functools.partial(fuse.run, kind),
            libraries=("numpy", "scipy"),
        )
    )


def trial_runs(plan: Plan) -> None:
    """The same attack on two runs of a random system: calibration learnt on one, used on the other."""
    families = plan.families("trial_runs")
    if not families:
        return
    for attack in _attacks(plan, list(plan.second)):
        if attack.condition == "OO":
            continue
        again = plan.second[attack.system.system]
        for trial in _trials(plan, attack):
            if not trial.extractor.reads(again) or trial.attack.condition != attack.condition:
                continue
            inputs: dict[str, Input] = {
                "scores": trial.scores(plan).ref(),
                "scores_again": trial.scores(plan, again).ref(),
            }
            for name, family in families:
                plan.measure(trial.cell(), name, family, trial.context(), inputs)


def _diagnose(plan: Plan, trial: Trial, attacker: AttackerSettings) -> None:
    """What there is to judge this attack by, and the scores that it takes."""
    attack, extractor, trial_set = trial.attack, trial.extractor, trial.trial_set
    treatment = on_original = original_enrolment = None
    system = attack.system
    if attack.enrolled == (attack.tried,) == (system,):
        treatment = _treatment(plan, system, extractor, trial_set)
    if attack.condition == "PP" and not trial.scorer.centred:
        scores = plan.trial_scores((plan.original,), attack.tried, extractor, trial.scorer, trial_set)
        original_enrolment = _checked(plan, scores)
    if extractor.system or trial.adapted_to:
        unprotected = plan.trial_scores((plan.original,), plan.original, extractor, trial.scorer, trial_set)
        on_original = _checked(plan, unprotected)
    learnt = trial.adapted_to
    levels = (plan.level(system.system), learnt.level) if learnt is not None else None
    plan.graph.diagnoses.append(
        Diagnosis(
            identity=trial.cell().identity(plan.data.name),
            training=extractor.training.ref() if extractor.training else None,
            check=trial.scorer.check,
            check_on_original=_check_on_original(plan, trial),
            treatment=treatment,
            on_original=on_original,
            original_enrolment=original_enrolment,
            levels=levels,
            note=trial.scorer.note,
        )
    )


def _check_on_original(plan: Plan, trial: Trial) -> Ref | None:
    """How well the extractor, as it knows original speech, and the back end tell held-out training speakers apart there."""
    original = plan.trainings.original
    plain = next((one for one in plan.plain("trials") if one.name == trial.extractor.name), None)
    if original is None or plain is None or plain.tables is not None:
        return None
    return plan.scorers[trial.scorer.label, plain.key, original.key].check


def _checked(plan: Plan, scores: Task) -> Ref:
    """The EER of some scores, for diagnostics."""
    task = Task(
        name="check",
        label=f"check {scores.label.removeprefix('score ')}",
        inputs={"scores": scores.ref()},
        function=check_scores.run,
        libraries=LIBRARIES,
    )
    return plan.graph.add(task).ref()


def ordered(plan: Plan, cell: Cell, scores: Task) -> None:
    """Whether scores order the classes the right way round, for diagnostics: no EER shows it."""
    if not plan.evaluation.diagnostics:
        return
    task = Task(
        name="check",
        label=f"check order of {scores.label.removeprefix('score ')}",
        inputs={"scores": scores.ref()},
        function=check_order.run,
        libraries=LIBRARIES,
    )
    plan.graph.orders.append((cell.identity(plan.data.name), plan.graph.add(task).ref()))


def _treatment(plan: Plan, system: SpeechSet, extractor: LoadedExtractor, trial_set: TrialSet) -> Ref:
    """How enrolment and trials were changed, seen by an extractor, by preference as it knows original speech."""
    seen = next((one for one in plan.plain("trials") if one.name == extractor.name), extractor)
    task = Task(
        name="check",
        label=f"check treatment of {trial_set.name} by {system.label} {seen.label}",
        inputs={
            "enrolment_original": plan.side(plan.original, seen, trial_set, "enrolment"),
            "enrolment_protected": plan.side(system, seen, trial_set, "enrolment"),
            "trial_original": plan.side(plan.original, seen, trial_set, "trials"),
            "trial_protected": plan.side(system, seen, trial_set, "trials"),
        },
        function=check_treatment.run,
        libraries=LIBRARIES,
    )
    return plan.graph.add(task).ref()
