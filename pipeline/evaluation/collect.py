"""Gather: rows of all measures as one table of results, figure tables beside it, and where the scores lie."""

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
from pipeline.products.averages import derived
from pipeline.seeds import digest
from pipeline.stages.graph import FIGURES, Graph, Source, name_in_figures
from pipeline.stages.measures.compute import ROWS
from pipeline.stages.settings import Evaluation
from pipeline.tables import results, run_files
from pipeline.tables.results import make_signature
from pipeline.version import __version__

NOTES = "audio_notes.json"
Named = Sequence[tuple[str, str]]
"""(id, reason) of pieces of audio."""


@dataclass(frozen=True, eq=False)
class Gathered:
    """What a run found.

    Attributes:
        rows: the results.
        measured: those of them that are no averages and follow from no others: what is judged.
        lost: what could not be extracted.
        undefined: metrics that are not defined on what there is, by the task that measures them.
        tied: what is in the result as a tie, because it holds nothing to compare.
        unlearnt: training recordings, or pieces of them, that a back end learnt without because nothing could be extracted.
    """

    rows: pd.DataFrame
    measured: pd.DataFrame
    lost: Named
    undefined: Named
    tied: Named
    unlearnt: Named = ()

    def limits(self, allow_partial: bool) -> list[str]:
        """What a reader of the numbers must know first of what could not be extracted."""
        found = []
        if self.unlearnt:
            found.append(_without([name for name, _ in self.unlearnt]))
        if self.lost and allow_partial:
            names = list(dict.fromkeys(name for name, _ in self.lost))
            found.append(
                f"of {len(names)} pieces of audio nothing could be extracted; they are left out (allow_partial): {join_few(names)}"
            )
        return found


@dataclass(frozen=True)
class _About:
    """What all rows of a run share."""

    run_id: str
    device: str
    config_digest: str
    allow_partial: bool


def gather(
    graph: Graph, data: Prepared, outcome: Outcome, folder: Path, run_id: str, device: str, asked: Evaluation
) -> Gathered:
    """Write ``results.parquet``, ``results.csv``, ``figures/*.parquet``, ``artefacts.parquet`` and ``audio_notes.json`` into a
    run folder.

    A value is written only where it stands on everything that was expected; the others are null, with the reason and the
    status ``incomplete``. Under ``allow_partial`` they are written with the status ``partial``.
    """
    about = _About(run_id, device, digest(asked.numeric()), asked.allow_partial)
    rows: list[dict[str, Any]] = []
    figures: dict[str, list[pd.DataFrame]] = {}
    for each in graph.sources:
        source = _said_of_fits(each, outcome, asked.allow_partial)
        made = outcome.artefact(source.ref)
        model = outcome.digest(source.model) if source.model is not None else ""
        found = [_row(line, source, made, model, about) for line in _records(made)]
        partial = any(row["status"] == "partial" for row in found)
        rows += found if about.allow_partial else [_whole(row, _lacking(made)) for row in found]
        if about.allow_partial or not partial:
            for path in sorted(path for path in made.folder.glob("*.parquet") if path.name != ROWS):
                figures.setdefault(path.stem, []).append(_with_identity(_figure_table(path), source))
    table = results.frame([*rows, *derived.rows(rows, data, asked)])
    results.write(table, folder)
    (folder / FIGURES).mkdir(exist_ok=True)
    for name, several in figures.items():
        pd.concat(several, ignore_index=True).to_parquet(folder / FIGURES / f"{name}.parquet", index=False)
    run_files.write_artefacts(_scored(graph, outcome), outcome.store.root, folder)
    gathered = Gathered(
        table,
        results.frame(rows),
        named(graph.tasks, outcome, "lost"),
        _undefined(graph, outcome),
        named(graph.tasks, outcome, "without_evidence"),
        named([task for task in graph.tasks if task.name == "fit"], outcome, "left_out"),
    )
    _note(gathered, data, folder)
    return gathered


def named(tasks: Sequence[Task], outcome: Outcome, what: str) -> Named:
    """Everything that tasks noted as ``lost`` (not in the result) or ``without_evidence`` (a tie), with the task."""
    found = {
        (name, f"{reason} ({task.label})")
        for task in tasks
        for output in task.outputs
        for name, reason in outcome.artefact(Ref(task, output)).record["notes"].get(what, [])
    }
    return sorted(found)


def _said_of_fits(source: Source, outcome: Outcome, allow_partial: bool) -> Source:
    """A source with what the reader must know of training recordings that its back end learnt without.

    That a training recording holds no voice costs no value; where values may be partial, it makes them so.
    """
    several = [outcome.artefact(ref).record["notes"].get("left_out", []) for ref in source.fits]
    names = list(dict.fromkeys(name for entries in several for name, _ in entries))
    if not names:
        return source
    note = "; ".join(filter(None, [source.note, _without(names)]))
    return replace(source, note=note, partial=source.partial or allow_partial)


def _without(names: Sequence[str]) -> str:
    lost = list(dict.fromkeys(names))
    return f"the back end learnt without {len(lost)} training recordings of which nothing could be extracted: {join_few(lost)}"


def _undefined(graph: Graph, outcome: Outcome) -> Named:
    said = {
        (source.ref.task.label, str(outcome.artefact(source.ref).record["notes"].get("undefined", "")))
        for source in graph.sources
    }
    return sorted((label, reason) for label, reason in said if reason)


def _note(gathered: Gathered, data: Prepared, folder: Path) -> None:
    left_out = [{"utterance": name, "set": where, "reason": reason} for name, where, reason in data.dropped]
    left_out += [{"utterance": name, "reason": reason} for name, reason in [*gathered.lost, *gathered.unlearnt]]
    tied = [{"utterance": name, "reason": reason} for name, reason in gathered.tied]
    text = json.dumps({"left_out": left_out, "without_evidence": tied}, indent=1)
    (folder / NOTES).write_text(text + "\n", encoding="utf-8")


def _scored(graph: Graph, outcome: Outcome) -> Iterator[dict[str, str]]:
    """Where the scores lie that were measured."""
    for source in graph.sources:
        for name, value in source.ref.task.inputs.items():
            if isinstance(value, Ref):
                identity = {column: source.identity[column] for column in run_files.ARTEFACT_IDENTITY}
                path = outcome.artefact(value).place.relative_to(outcome.store.root).as_posix()
                yield {**identity, "reads": source.reads, "input": name, "path": path}


def _records(made: Artefact) -> list[dict[str, Any]]:
    """The rows of a measure; an absent number is None."""
    with pq.ParquetFile(made.path(ROWS)) as file:
        found: list[dict[str, Any]] = file.read(use_threads=False).to_pylist()
    return found


def _figure_table(path: Path) -> pd.DataFrame:
    with pq.ParquetFile(path) as file:  # a small file: pandas takes longer to find out what it is than to read it
        table: pd.DataFrame = file.read(use_threads=False).to_pandas()
    return table


def _lacking(made: Artefact) -> str:
    """What a measure lacks beside what the counts of its rows tell, in words."""
    return str(made.record["notes"].get("lacking", ""))


def _whole(row: dict[str, Any], lacking: str) -> dict[str, Any]:
    """The row itself if it stands on everything, else without its numbers."""
    if row["status"] != "partial":
        return row
    said = "; ".join(filter(None, [f"stands on {row['n_used']} of {row['n_expected']}", lacking]))
    reason = f"{said}; allow_partial=true would write it, marked"
    nothing = dict.fromkeys(results.NUMBERS, float("nan"))
    return {**row, **nothing, "label": "", "status": "incomplete", "reason": reason}


def _row(row: dict[str, Any], source: Source, made: Artefact, model: str, about: _About) -> dict[str, Any]:
    identity = {**source.identity, **row, "condition": row["condition"] or source.identity["condition"]}
    expected, used = row["n_expected"], row["n_used"]
    short = expected is not None and used is not None and not np.isnan(expected) and used < expected
    partial = short or source.partial or bool(made.record["notes"].get("partial"))
    counts = {name: None if row[name] is None or np.isnan(row[name]) else int(row[name]) for name in results.COUNTS}
    undefined = bool(made.record["notes"].get("undefined"))
    return {
        **identity,
        **counts,
        "variant": ", ".join(filter(None, [row["variant"], source.apart])),
        "note": "; ".join(filter(None, [row["note"], source.note, _lacking(made) if about.allow_partial else ""])),
        "run_id": about.run_id,
        "status": "incomplete" if undefined else "partial" if partial else "ok",
        "signature": make_signature(identity, source.parameters),
        "config_digest": about.config_digest,
        "input_digest": digest(made.record["parts"]["inputs"]),
        "model_digest": model,
        "code_version": __version__,
        "device": about.device,
    }


def _with_identity(table: pd.DataFrame, source: Source) -> pd.DataFrame:
    known = {**source.identity, "extractor": name_in_figures(source.identity, source.apart)}
    for name in reversed(FIGURE_IDENTITY):
        if name not in table.columns:
            table.insert(0, name, known[name])
    return table
