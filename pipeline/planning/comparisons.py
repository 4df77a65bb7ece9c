"""Comparisons without an enrolment: all pairs of the trial side, and inputs against one reference a speaker."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import pandas as pd

from pipeline.engine.task import Artefact, Derived, Given, Input, Ref, Task
from pipeline.planning import features
from pipeline.planning.features import View
from pipeline.planning.grid import Cell, Plan, measured
from pipeline.planning.speech import Speech
from pipeline.protocol import halves as srd
from pipeline.registry import digest
from pipeline.stages import audio_rows, measure, segments


def pairs(plan: Plan) -> None:
    """All pairs of the trial side, OO, OP and PP: voice similarity matrices."""
    for name, metric in plan.measures("pairs"):
        for label in plan.evaluation.anonymised:
            _compared(plan, name, metric, plan.evaluated[label], None)


def pair_runs(plan: Plan) -> None:
    """All pairs of the trial side between two runs of a random system."""
    for name, metric in plan.measures("pair_runs"):
        for label, again in plan.second.items():
            _compared(plan, name, metric, plan.evaluated[label], again)


def _compared(plan: Plan, name: str, metric: Any, system: Speech, again: Speech | None) -> None:
    for trial_set in plan.data.trials.values():
        rows = plan.data.manifest[plan.data.manifest["set"] == trial_set.name]
        expected = len(rows) + sum(entry.set == trial_set.name for entry in plan.data.dropped)
        for view in plan.seeing("pairs"):
            if again is not None and not features.reads(view, again):
                continue
            other = ("original", plan.original) if again is None else ("again", again)
            inputs = {
                "protected": features.vectors(system, view, plan.refs, rows),
                other[0]: features.vectors(other[1], view, plan.refs, rows),
            }
            for backend in plan.evaluation.backends:
                scorer = plan.scorers[backend, view.key]
                cell = Cell(
                    trial_set.name, "" if again is None else "PP", system, "", view, scorer,
                    plan.evaluation.calibration.method, digest(sorted(rows["utterance"])),
                )  # fmt: skip
                context = measure.Context(backend=scorer.settings)
                measured(plan, cell, name, metric, context, {**inputs, **scorer.inputs()}, expected)


def ranks(plan: Plan) -> None:
    """Inputs against one reference a speaker, all sets pooled: similarity rank disclosure.

    An extractor that is trained gives two features: trained on original speech, and on the system's anonymised speech.
    """
    manifest = plan.data.manifest
    for name, metric in plan.measures("ranks"):
        halves = srd.halves(manifest, metric.halves_seed, metric.unit, metric.segment_seconds)
        protocol = digest(
            halves.references.to_numpy().tolist(), halves.pieces[["set", "utterance"]].to_numpy().tolist()
        )
        # Any utterance that is left out changes the halves of its speaker, so the inputs do not stand on all speech.
        evaluated = set(manifest.loc[manifest["role"] != "train", "set"])
        short = len(halves.inputs) + len({entry.utterance for entry in plan.data.dropped if entry.set in evaluated})
        for label, system in plan.evaluated.items():
            adapted = plan.adapted(label) if label != plan.evaluation.original else []
            ranked = [view for view in [*plan.seeing("ranks"), *adapted] if "ranks" in view.cls.measures]
            if metric.unit == "segment":
                ranked = [view for view in ranked if view.tables is None]
                inputs = _segments(plan, system, halves, ranked)
            else:
                inputs = {view.key: features.vectors(system, view, plan.refs, halves.pieces) for view in ranked}
            for view in ranked:
                cell = Cell(
                    "pooled", "OO" if system.level == "none" else "PP", system, "", view, None, "none", protocol,
                    view.cls.similarity,
                )  # fmt: skip
                reference = features.vectors(system, view, plan.refs, halves.references)
                context = measure.Context(extractor=view.settings.name, similarity=view.cls.similarity)
                both = {"reference": reference, "input": inputs[view.key]}
                measured(plan, cell, name, metric, context, both, short)


def _segments(plan: Plan, system: Speech, halves: srd.Halves, views: Sequence[View]) -> dict[str, Input]:
    """One task a speaker: the input half joined, cut into uniform segments, extracted."""
    refs: dict[str, list[Ref]] = {view.key: [] for view in views}
    if not views:
        return {}
    rates = plan.data.manifest["sample_rate"]
    speakers = [str(name) for name in sorted(halves.pieces["speaker"].unique())]
    for speaker in speakers:
        mine = halves.pieces[halves.pieces["speaker"] == speaker]
        joined = mine.drop_duplicates(["set", "utterance"])
        count = int((halves.inputs["speaker"] == speaker).sum())

        def select(artefacts: Sequence[Artefact], joined: pd.DataFrame = joined) -> Given:
            return audio_rows.given(audio_rows.of(audio_rows.manifest(artefacts, system.rows), joined), ())

        task = Task(
            name="segments",
            label=f"segments {system.key} {speaker}",
            version=segments.VERSION,
            settings={"inputs": count},
            inputs={"audio": Derived(system.made(), select, digest(joined["utterance"].tolist()))},
            outputs={view.key: view.output() for view in views},
            function=functools.partial(
                segments.run, features.recipes(views), plan.machine.device, plan.machine.threads, count
            ),
            libraries=("soundfile", "soxr", "numpy"),
            cost=float(((mine["stop"] - mine["start"]) / rates[mine["row"]].to_numpy()).sum()),
        )
        plan.graph.tasks.append(task)
        for view in views:
            refs[view.key].append(task.ref(view.key))
    return {key: Derived(tuple(several), functools.partial(segments.gather, speakers)) for key, several in refs.items()}
