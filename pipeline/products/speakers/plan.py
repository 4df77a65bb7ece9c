"""Each speaker under each attack, from the scores of all attacks, and mean F0 where the run hears F0 anyway."""

from __future__ import annotations

import functools

from pipeline.engine.task import Input, Task
from pipeline.products.speakers import compute as stage
from pipeline.stages.graph import OfSpeakers
from pipeline.stages.plan import Cell, Plan
from pipeline.tables.manifest import Wanted

LIBRARIES = ("numpy", "scipy")


def speakers(plan: Plan) -> None:
    """Plan them, of all attacks that are tried and whose speakers are known."""
    tried: dict[tuple[str, str], list[tuple[Cell, Task]]] = {}
    unknown = set()
    for cell, scores, known in plan.tried:
        tried.setdefault((cell.system.system, cell.subset), []).append((cell, scores))
        if not known:
            unknown.add((cell.system.system, cell.subset))
    for (system, subset), several in tried.items():
        if (system, subset) in unknown:
            continue
        inputs: dict[str, Input] = {f"scores.{k}": scores.ref() for k, (_, scores) in enumerate(several)}
        task = plan.graph.add(
            Task(
                name="measure",
                label=f"measure speakers of {system} {subset}",
                settings={"each": "speaker", "utterances": stage.TOP},
                inputs=inputs,
                function=functools.partial(stage.speakers, len(several)),
                libraries=LIBRARIES,
            )
        )
        identities = tuple(cell.identity(plan.data.name) for cell, _ in several)
        plan.graph.speakers.append(OfSpeakers(system, subset, identities, task.ref()))
    if tried:
        _pitches(plan)


def _pitches(plan: Plan) -> None:
    """The mean F0 of the speakers of each system, where F0 is extracted."""
    chosen = [one for one in plan.plain("ranks") if one.component.frequencies(one.chosen.settings) is not None]
    if not chosen:
        return
    # One value for all systems: it is worked out once.
    wanted = Wanted.of(plan.data.manifest[plan.data.manifest["role"] != "train"])
    for label, speech in plan.evaluated.items():
        frequencies = chosen[0].component.frequencies(chosen[0].chosen.settings)
        assert frequencies is not None
        task = Task(
            name="measure",
            label=f"measure F0 of {speech.label}",
            settings={"frequencies": list(frequencies)},
            inputs={"vectors": plan.features.vectors(speech, chosen[0], wanted)},
            function=functools.partial(stage.pitch, frequencies),
            libraries=("numpy",),
        )
        plan.graph.pitches[label] = plan.graph.add(task).ref()
