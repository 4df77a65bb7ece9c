"""What the tasks of a run left, as the files of its folder: rows of results, tables for figures, where the scores lie, and what each
product makes of that."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from pipeline.contracts import FIGURE_IDENTITY
from pipeline.datasets.prepare import Prepared
from pipeline.engine.outcome import Outcome
from pipeline.engine.task import Artefact, Ref, Task
from pipeline.names import join_few
from pipeline.products import FIGURES, Collection, find_kinds, name_in_figures
from pipeline.products.checks.collect import find_same_recordings
from pipeline.seeds import digest
from pipeline.stages.graph import Graph, Measurement
from pipeline.stages.scores.measure import ROWS
from pipeline.stages.settings import Evaluation
from pipeline.tables import answers, results, run_files
from pipeline.tables.results import make_signature
from pipeline.version import __version__

NOTES = "audio_notes.json"
Reasons = Sequence[tuple[str, str]]
"""(id, reason) of pieces of audio, or of tasks."""


@dataclass(frozen=True, eq=False)
class Collected:
    """What a run found.

    Attributes:
        rows: the results.
        unextracted: audio of which nothing could be extracted.
        undefined: metrics that are not defined on what there is, by the task that measures them.
        tied: what is in the result as a tie, because it holds nothing to compare.
        unlearnt: training recordings, or pieces of them, that a back end learnt without because nothing could be extracted.
    """

    rows: pd.DataFrame
    unextracted: Reasons
    undefined: Reasons
    tied: Reasons
    unlearnt: Reasons = ()

    def limits(self, allow_partial: bool) -> list[str]:
        """What a reader of the numbers must know first of what could not be extracted."""
        sentences = []
        if self.unlearnt:
            sentences.append(_without([name for name, _ in self.unlearnt]))
        if self.unextracted and allow_partial:
            names = list(dict.fromkeys(name for name, _ in self.unextracted))
            sentences.append(
                f"of {len(names)} pieces of audio nothing could be extracted; they are left out (allow_partial): {join_few(names)}"
            )
        return sentences


@dataclass(frozen=True)
class Origin:
    """What all rows of a run share."""

    run_id: str
    device: str
    config_digest: str
    allow_partial: bool


def collect(
    graph: Graph, data: Prepared, outcome: Outcome, folder: Path, run_id: str, device: str, evaluation: Evaluation
) -> Collected:
    """Write ``results.parquet``, ``results.csv``, ``figures/*.parquet``, ``artefacts.parquet``, ``audio_notes.json``, what must be
    known first, and the tables of all products into a run folder.

    A value is written only where it stands on everything that was expected; the others are null, with the reason and the
    status ``incomplete``. Under ``allow_partial`` they are written with the status ``partial``.
    """
    origin = Origin(run_id, device, digest(evaluation.numeric()), evaluation.execution.allow_partial)
    measured = results.frame(_collect_rows(graph, outcome, folder, origin))
    collection = Collection(graph, evaluation, data, outcome, folder, measured, measured)
    for kind in find_kinds():
        kind.collect(collection)
    results.write(collection.rows, folder)
    answers.write(collection.tables, folder)
    run_files.write_artefacts(_list_scores(graph, outcome), outcome.store.root, folder)
    undefined = {
        (row.ref.task.label, str(outcome.artefact(row.ref).record["notes"].get("undefined", "")))
        for row in graph.select(Measurement)
    }
    collected = Collected(
        collection.rows,
        list_notes(graph.tasks, outcome, "lost"),
        sorted((label, reason) for label, reason in undefined if reason),
        list_notes(graph.tasks, outcome, "without_evidence"),
        list_notes([task for task in graph.tasks if task.name == "fit"], outcome, "left_out"),
    )
    left_out = [{"utterance": name, "set": place, "reason": reason} for name, place, reason in data.dropped]
    unusable = [*collected.unextracted, *collected.unlearnt]
    left_out += [{"utterance": name, "reason": reason} for name, reason in unusable]
    tied = [{"utterance": name, "reason": reason} for name, reason in collected.tied]
    text = json.dumps({"left_out": left_out, "without_evidence": tied}, indent=1)
    (folder / NOTES).write_text(text + "\n", encoding="utf-8")
    recordings = [f"s{finding.sentence[1:-1]}" for _, finding in find_same_recordings(graph, outcome)]
    partial = collected.limits(evaluation.execution.allow_partial)
    run_files.write_limits(folder, [*graph.left_out, *recordings, *data.limits, *graph.limits, *partial])
    return collected


def _collect_rows(graph: Graph, outcome: Outcome, folder: Path, origin: Origin) -> list[dict[str, Any]]:
    """The rows of all measures; writes the tables for figures beside."""
    rows: list[dict[str, Any]] = []
    figures: dict[str, list[pd.DataFrame]] = {}
    for product in graph.select(Measurement):
        measurement = _with_fits(product, outcome, origin.allow_partial)
        artefact = outcome.artefact(measurement.ref)
        model = outcome.digest(measurement.model) if measurement.model is not None else ""
        own = [_row(row, measurement, artefact, model, origin) for row in _read_rows(artefact)]
        rows += own if origin.allow_partial else [_without_partial(row, _lacking(artefact)) for row in own]
        if origin.allow_partial or not any(row["status"] == "partial" for row in own):
            for path in sorted(path for path in artefact.folder.glob("*.parquet") if path.name != ROWS):
                with pq.ParquetFile(path) as file:  # pandas takes longer to find out what it is than to read it
                    table = file.read(use_threads=False).to_pandas()
                figures.setdefault(path.stem, []).append(_with_identity(table, measurement))
    (folder / FIGURES).mkdir(exist_ok=True)
    for name, tables in figures.items():
        pd.concat(tables, ignore_index=True).to_parquet(folder / FIGURES / f"{name}.parquet", index=False)
    return rows


def list_notes(tasks: Sequence[Task], outcome: Outcome, name: str) -> Reasons:
    """Everything that tasks noted as ``lost`` (not in the result) or ``without_evidence`` (a tie), with the task."""
    notes = {
        (audio, f"{reason} ({task.label})")
        for task in tasks
        for output in task.outputs
        for audio, reason in outcome.artefact(Ref(task, output)).record["notes"].get(name, [])
    }
    return sorted(notes)


def _with_fits(measurement: Measurement, outcome: Outcome, allow_partial: bool) -> Measurement:
    """A measurement with what the reader must know of training recordings that its back end learnt without.

    That a training recording holds no voice costs no value; where values may be partial, it makes them so.
    """
    entries = [outcome.artefact(ref).record["notes"].get("left_out", []) for ref in measurement.fits]
    names = list(dict.fromkeys(name for listed in entries for name, _ in listed))
    if not names:
        return measurement
    note = "; ".join(filter(None, [measurement.note, _without(names)]))
    return replace(measurement, note=note, partial=measurement.partial or allow_partial)


def _without(names: Sequence[str]) -> str:
    recordings = list(dict.fromkeys(names))
    return f"the back end learnt without {len(recordings)} training recordings of which nothing could be extracted: {join_few(recordings)}"


def _list_scores(graph: Graph, outcome: Outcome) -> Iterator[dict[str, str]]:
    for product in graph.select(Measurement):
        for name, value in product.ref.task.inputs.items():
            if isinstance(value, Ref):
                identity = {column: product.identity[column] for column in run_files.ARTEFACT_IDENTITY}
                path = outcome.artefact(value).place.relative_to(outcome.store.root).as_posix()
                yield {**identity, "reads": product.reads, "input": name, "path": path}


def _read_rows(artefact: Artefact) -> list[dict[str, Any]]:
    """The rows of a measure; an absent number is None."""
    with pq.ParquetFile(artefact.path(ROWS)) as file:
        rows: list[dict[str, Any]] = file.read(use_threads=False).to_pylist()
    return rows


def _lacking(artefact: Artefact) -> str:
    return str(artefact.record["notes"].get("lacking", ""))


def _without_partial(row: dict[str, Any], lacking: str) -> dict[str, Any]:
    if row["status"] != "partial":
        return row
    text = "; ".join(filter(None, [f"stands on {row['n_used']} of {row['n_expected']}", lacking]))
    reason = f"{text}; allow_partial=true would write it, marked"
    nothing = dict.fromkeys(results.NUMBERS, float("nan"))
    return {**row, **nothing, "label": "", "status": "incomplete", "reason": reason}


def _row(
    row: dict[str, Any], measurement: Measurement, artefact: Artefact, model: str, origin: Origin
) -> dict[str, Any]:
    identity = {**measurement.identity, **row, "condition": row["condition"] or measurement.identity["condition"]}
    counts = {name: None if row[name] is None or np.isnan(row[name]) else int(row[name]) for name in results.COUNTS}
    expected, count = counts["n_expected"], counts["n_used"]
    short = expected is not None and count is not None and count < expected
    notes = artefact.record["notes"]
    partial = short or measurement.partial or bool(notes.get("partial"))
    lacking = _lacking(artefact) if origin.allow_partial else ""
    return {
        **identity,
        **counts,
        "variant": ", ".join(filter(None, [row["variant"], measurement.apart])),
        "note": "; ".join(filter(None, [row["note"], measurement.note, lacking])),
        "run_id": origin.run_id,
        "status": "incomplete" if notes.get("undefined") else "partial" if partial else "ok",
        "signature": make_signature(identity, measurement.parameters),
        "config_digest": origin.config_digest,
        "input_digest": digest(artefact.record["parts"]["inputs"]),
        "model_digest": model,
        "code_version": __version__,
        "device": origin.device,
    }


def _with_identity(table: pd.DataFrame, measurement: Measurement) -> pd.DataFrame:
    known = {**measurement.identity, "extractor": name_in_figures(measurement.identity, measurement.apart)}
    for name in reversed(FIGURE_IDENTITY):
        if name not in table.columns:
            table.insert(0, name, known[name])
    return table
