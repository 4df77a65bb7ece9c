"""Each speaker under each attack, from the scores of all attacks, and mean F0 where the run hears F0 anyway."""

from __future__ import annotations

import functools

from pipeline.engine.task import Input, Task
from pipeline.products import ProductKind
from pipeline.products.speakers import compute
from pipeline.products.speakers.collect import Pitch, SpeakersAttacked, collect_speakers
from pipeline.stages.plan import Attempt, Plan
from pipeline.tables.manifest import Wanted


def plan_speakers(plan: Plan) -> None:
    """Plan them, of all attacks that are tried and whose speakers are known."""
    attempts: dict[tuple[str, str], list[Attempt]] = {}
    for attempt in plan.attempts:
        attempts.setdefault((attempt.cell.system.system, attempt.cell.subset), []).append(attempt)
    for (system, subset), tried in attempts.items():
        if not all(attempt.has_speakers for attempt in tried):
            continue
        inputs: dict[str, Input] = {f"scores.{k}": attempt.scores.ref() for k, attempt in enumerate(tried)}
        task = plan.graph.add(
            Task(
                name="measure",
                label=f"measure speakers of {system} {subset}",
                settings={"each": "speaker", "utterances": compute.TOP},
                inputs=inputs,
                function=functools.partial(compute.measure_speakers, len(tried)),
                libraries=("numpy", "scipy"),
            )
        )
        identities = tuple(attempt.cell.identity(plan.data.name) for attempt in tried)
        plan.graph.products.append(SpeakersAttacked({"system": system, "subset": subset}, task.ref(), identities))
    if attempts:
        _plan_pitches(plan)


def _plan_pitches(plan: Plan) -> None:
    """The mean F0 of the speakers of each system, where F0 is extracted."""
    chosen = [each for each in plan.plain("ranks") if each.component.frequencies(each.chosen.settings) is not None]
    if not chosen:
        return
    # One value for all systems: it is worked out once.
    wanted = Wanted.of(plan.data.manifest[plan.data.manifest["role"] != "train"])
    frequencies = chosen[0].component.frequencies(chosen[0].chosen.settings)
    assert frequencies is not None
    for label, speech in plan.copies.evaluated.items():
        task = Task(
            name="measure",
            label=f"measure F0 of {speech.label}",
            settings={"frequencies": list(frequencies)},
            inputs={"vectors": plan.features.vectors(speech, chosen[0], wanted)},
            function=functools.partial(compute.measure_pitch, frequencies),
            libraries=("numpy",),
        )
        plan.graph.products.append(Pitch({"system": label}, plan.graph.add(task).ref()))


KIND = ProductKind(order=40, plan=plan_speakers, collect=collect_speakers, needs_speech=False)
