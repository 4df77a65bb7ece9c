"""Attacks: enrolment against trial for each attacker, on one run or two of a system, and what to judge them by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pipeline.diagnostics import Diagnosis
from pipeline.engine.task import Input, Ref, Task
from pipeline.planning.extractors import LoadedExtractor
from pipeline.planning.plan import Cell, Plan, Scorer
from pipeline.planning.speech import SpeechSet
from pipeline.protocol.attackers import AttackerSettings
from pipeline.protocol.trials import TrialSet
from pipeline.stages import check_scores, check_treatment, measure

LIBRARIES = ("numpy", "scipy")


@dataclass(frozen=True)
class Attack:
    """Who attacks which system, with what enrolled against what; ``attacker`` is None for unprotected speech."""

    system: SpeechSet
    name: str
    attacker: AttackerSettings | None
    enrolled: SpeechSet
    tried: SpeechSet

    @property
    def condition(self) -> str:
        return self.attacker.condition if self.attacker else "OO"

    def extractors(self, plan: Plan) -> list[LoadedExtractor]:
        """The extractors that the attacker has."""
        if self.attacker is None:
            return plan.plain("trials")
        return plan.known_to(self.attacker, self.system.system, "trials")


def _attacks(plan: Plan, copies: Mapping[str, SpeechSet]) -> Iterator[Attack]:
    """All attacks on the anonymised systems that are among these copies."""
    for label, anonymised in copies.items():
        if label == plan.evaluation.original:
            continue
        for name, attacker in plan.evaluation.attackers.items():
            enrolled, tried = attacker.enrols(plan.original, anonymised), attacker.tries(plan.original, anonymised)
            yield Attack(anonymised, name, attacker, enrolled, tried)


@dataclass(frozen=True)
class Trial:
    """One attack on one trial set, with one extractor and one back end."""

    attack: Attack
    trial_set: TrialSet
    extractor: LoadedExtractor
    scorer: Scorer

    def cell(self) -> Cell:
        return Cell(
            subset=self.trial_set.name,
            condition=self.attack.condition,
            system=self.attack.system,
            attacker=self.attack.name,
            extractor=self.extractor,
            protocol=self.trial_set.digest,
            scorer=self.scorer,
        )

    def scores(self, plan: Plan, attack: Attack | None = None) -> Task:
        """The scores of the attack, or of another one on the same trials."""
        of = attack or self.attack
        return plan.trial_scores(of.enrolled, of.tried, self.extractor, self.scorer, self.trial_set)

    def context(self) -> measure.Context:
        return measure.Context(self.trial_set.expected, self.scorer.gives_llrs)


def _trials(plan: Plan, attack: Attack) -> Iterator[Trial]:
    for trial_set in plan.data.trials.values():
        for extractor in attack.extractors(plan):
            for backend in plan.evaluation.backends:
                if (backend, extractor.key) in plan.scorers:
                    yield Trial(attack, trial_set, extractor, plan.scorers[backend, extractor.key])


def trials(plan: Plan) -> None:
    """Enrolment against trial, for each attacker: scores, then EER, Cllr, ZEBRA."""
    families = plan.families("trials")
    if not families:
        return
    unprotected = Attack(plan.original, "unprotected", None, plan.original, plan.original)
    for attack in (unprotected, *_attacks(plan, plan.evaluated)):
        for trial in _trials(plan, attack):
            inputs: dict[str, Input] = {"scores": trial.scores(plan).ref()}
            for name, family in families:
                plan.measure(trial.cell(), name, family, trial.context(), inputs)
            heard = trial.extractor.component.hears
            if plan.evaluation.diagnostics and attack.attacker is not None and heard:
                _diagnose(plan, trial, attack.attacker)


def trial_runs(plan: Plan) -> None:
    """The same attack on two runs of a random system: calibration learnt on one, used on the other."""
    families = plan.families("trial_runs")
    if not families:
        return
    firsts = _attacks(plan, {label: plan.evaluated[label] for label in plan.second})
    for first, second in zip(firsts, _attacks(plan, plan.second), strict=True):
        if first.enrolled is first.tried is plan.original:
            continue
        for trial in _trials(plan, first):
            if not trial.extractor.reads(second.system):
                continue
            inputs: dict[str, Input] = {
                "scores": trial.scores(plan).ref(),
                "scores_again": trial.scores(plan, second).ref(),
            }
            for name, family in families:
                plan.measure(trial.cell(), name, family, trial.context(), inputs)


def _diagnose(plan: Plan, trial: Trial, attacker: AttackerSettings) -> None:
    """What there is to judge this attack by, and the scores that it takes."""
    attack, extractor, trial_set = trial.attack, trial.extractor, trial.trial_set
    treatment = on_original = None
    other: tuple[str, Ref] | None = None
    system = attack.system
    if attack.enrolled is attack.tried is system:
        treatment = _treatment(plan, system, extractor, trial_set)
        if system.system in plan.other and extractor.tables is None:
            enrolled = plan.other[system.system]
            scores = plan.trial_scores(enrolled, attack.tried, extractor, trial.scorer, trial_set)
            other = (enrolled.level, _checked(plan, scores))
    if extractor.training and extractor.system:
        unprotected = plan.trial_scores(plan.original, plan.original, extractor, trial.scorer, trial_set)
        on_original = _checked(plan, unprotected)
    levels = None
    if extractor.system and extractor.learnt:
        levels = (plan.level(system.system), extractor.learnt.level)
    plan.graph.diagnoses.append(
        Diagnosis(
            identity=trial.cell().identity(plan.data.name),
            training=extractor.training.ref() if extractor.training else None,
            treatment=treatment,
            on_original=on_original,
            other_level=other,
            levels=levels,
            note=trial.scorer.note,
        )
    )


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
