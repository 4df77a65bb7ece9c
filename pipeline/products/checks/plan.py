"""What can be said of an evaluation's attacks before anything is computed: what was available and is not used."""

from __future__ import annotations

from pipeline.contracts import Anonymiser
from pipeline.products.checks.words import DRAW, same_audio
from pipeline.products.trials.plan import planned
from pipeline.stages.plan import Plan
from pipeline.stages.settings import Chosen
from pipeline.stages.suggestions import centring_back_ends, strong_extractors, trained_back_ends
from pipeline.tables.checks import Finding


def doubts(plan: Plan) -> None:
    """Add findings on attacks that would be stronger, and on speech that no attack says anything of."""
    evaluation = plan.evaluation
    for label, same in plan.data.same.items():
        whose = {"dataset": plan.data.name, "system": label}
        plan.graph.findings += [(whose, found) for found in same_audio(label, same)]
    if not (evaluation.diagnostics and evaluation.anonymised and plan.families("trials")):
        return
    identity = {"dataset": plan.data.name}
    heard = [one for one in plan.extractors if "trials" in one.component.compared_as and one.tables is None]
    if (
        heard
        and not evaluation.dataset.is_rendered
        and not any(one.component.is_strong(one.chosen.settings) for one in heard)
    ):
        names = ", ".join(dict.fromkeys(one.name for one in heard))
        sentence = (
            f"The attacks use {names}. Stronger extractors are at hand ({strong_extractors()}), and with a weaker one privacy is "
            "overestimated: add one to extractor=[…]."
        )
        plan.graph.findings.append((identity, Finding("weak_extractor", float(len(heard)), "count", sentence, True)))
    if not plan.graph.candidates and not any(one.is_adapted for one in plan.extractors):
        sentence = (
            "No attack was adapted to a system. An attacker who trains on the system's anonymised speech is stronger, so "
            "privacy is overestimated: name speech of other speakers by dataset.train=DIR, add an attacker with training=anonymised, "
            f"and a back end that is trained ({trained_back_ends()}) to backend=[…]."
        )
        plan.graph.findings.append((identity, Finding("not_adapted", 0.0, "count", sentence, True)))
    trials = [one for label in evaluation.anonymised for one in planned(plan, label)]
    trials = [
        one
        for one in trials
        if one.attack.condition == "PP" and one.extractor in heard and one.extractor.component.hears
    ]
    for label in dict.fromkeys(one.attack.system.system for one in trials):
        drawn = any(one.attack.drawn for one in trials if one.attack.system.system == label)
        if plan.level(label) == "speaker" and not drawn:
            plan.graph.findings.append(
                ({**identity, "system": label}, _enrolled_once(evaluation.systems[label], label))
            )
    if trials and plan.trainings.original is not None and not any(one.scorer.centred for one in trials):
        sentence = (
            "No attack is centred on the protected speech itself. An attacker who does that is often stronger, since training speech "
            f"sounds different. Add a back end that can ({centring_back_ends()}) to backend=[…], with centre=both."
        )
        plan.graph.findings.append((identity, Finding("other_centre", 0.0, "count", sentence, True)))


def _enrolled_once(system: Chosen[Anonymiser], label: str) -> Finding:
    """That no attacker anonymised the enrolment again."""
    able = system.component.rerun(system.settings, 1) is not None
    sentence = (
        f"All attacks enrol speech of {label} that was anonymised once, with one pseudo-voice a speaker. An attacker who anonymises it "
        f"several times is often stronger. {DRAW if able else 'Give the program itself as a system (name: command)'}."
    )
    return Finding("enrolled_once", 1.0, "count", sentence, True)
