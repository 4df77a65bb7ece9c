"""Gather: rows of all measures into one table of results, and the figure tables beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipeline import __version__
from pipeline.datasets.prepare import Prepared
from pipeline.engine.execute import Outcome
from pipeline.engine.task import Artefact, Task
from pipeline.registry import digest
from pipeline.stages.measure import ROWS
from pipeline.tables import results

FIGURES = "figures"


def run(
    sources: Sequence[Any], data: Prepared, outcome: Outcome, folder: Path, run_id: str, device: str, settings: Mapping[str, Any],
    allow_partial: bool, lost: Sequence[tuple[str, str]], tied: Sequence[tuple[str, str]],
) -> pd.DataFrame:  # fmt: skip
    """Write ``results.parquet``, ``results.csv`` and ``figures/*.parquet`` into a run folder.

    A value is written only where it stands on everything that was expected; the others are null, with the reason and the
    status ``incomplete``. Under ``allow_partial`` they are written with the status ``partial``.

    Args:
        sources: :class:`pipeline.planning.Source` of each measure.
        settings: all numeric settings; their digest is the same wherever the run takes place.
        lost: (utterance, reason) of what could not be extracted.
        tied: (utterance, reason) of what is in the result as a tie, because it holds nothing to compare.
    """
    config_digest = digest(settings)
    rows: list[dict[str, Any]] = []
    figures: dict[str, list[pd.DataFrame]] = {}
    for source in sources:
        made = outcome.artefact(source.ref)
        model = outcome.resolve(source.model)[0] if source.model is not None else ""
        made_rows = [_row(line, source, made, model, run_id, device, config_digest) for line in _records(made)]
        rows += made_rows if allow_partial else [_whole(row) for row in made_rows]
        if not allow_partial and any(row["status"] == "partial" for row in made_rows):
            continue
        for path in sorted(made.folder.glob("*.parquet")):
            if path.name != ROWS:
                figures.setdefault(path.stem, []).append(_with_identity(pd.read_parquet(path), source.identity))
    table = results.frame(rows)
    results.write(table, folder)
    (folder / FIGURES).mkdir()
    for name, several in figures.items():
        pd.concat(several, ignore_index=True).to_parquet(folder / FIGURES / f"{name}.parquet", index=False)
    notable = {
        "left_out": [{"utterance": name, "set": where, "reason": reason} for name, where, reason in data.dropped]
        + [{"utterance": name, "reason": reason} for name, reason in lost],
        "without_evidence": [{"utterance": name, "reason": reason} for name, reason in tied],
    }
    (folder / "audio_notes.json").write_text(json.dumps(notable, indent=1) + "\n")
    return table


def _records(made: Artefact) -> list[dict[str, Any]]:
    return [
        {str(name): value for name, value in row.items()} for row in pd.read_parquet(made.path(ROWS)).to_dict("records")
    ]


def _whole(row: dict[str, Any]) -> dict[str, Any]:
    """The row itself if it stands on everything, else without its value."""
    if row["status"] != "partial":
        return row
    reason = f"stands on {row['n_used']} of {row['n_expected']}; allow_partial=true would write it, marked"
    nothing = float("nan")
    return {
        **row,
        "value": nothing,
        "low": nothing,
        "high": nothing,
        "label": "",
        "status": "incomplete",
        "reason": reason,
    }


def named(tasks: Sequence[Task], outcome: Outcome, what: str) -> list[tuple[str, str]]:
    """(utterance, reason) of everything that tasks noted as ``lost`` (not in the result) or ``without_evidence`` (a tie)."""
    found = {
        (name, f"{reason} ({task.label})") for task in tasks for output in task.outputs
        for name, reason in outcome.artefacts[(task, output)].record["notes"].get(what, [])
    }  # fmt: skip
    return sorted(found)


def _row(
    row: dict[str, Any], source: Any, made: Artefact, model: str, run_id: str, device: str, config_digest: str
) -> dict[str, Any]:
    identity = dict(source.identity)
    condition = row.pop("condition")
    if condition:
        identity["condition"] = condition
    expected, used = row["n_expected"], row["n_used"]
    short = expected is not None and used is not None and not np.isnan(expected) and used < expected
    partial = short or bool(made.record["notes"].get("lost"))
    counts = {name: None if row[name] is None or np.isnan(row[name]) else int(row[name]) for name in results.COUNTS}
    # What the reader of a value must know stands where otherwise the reason for its absence does.
    noted = {"reason": row["reason"] or source.note}
    return {
        **identity,
        **row,
        **noted,
        **counts,
        "run_id": run_id,
        "status": "partial" if partial else "ok",
        "signature": signature(row["metric"], row["variant"], identity, source.parameters),
        "config_digest": config_digest,
        "input_digest": digest(made.record["parts"]["inputs"]),
        "model_digest": model,
        "code_version": __version__,
        "device": device,
    }


def signature(metric: str, variant: str, identity: Mapping[str, str], parameters: Mapping[str, Any]) -> str:
    """All that a number depends on beside the system: numbers with equal signatures are comparable."""
    parts = [f"{metric}:{variant}" if variant else metric, identity["condition"]]
    if identity["attacker"]:
        parts.append(f"attacker:{identity['attacker']}")
    parts += [f"{name}:{value if isinstance(value, str) else digest(value)[:8]}" for name, value in parameters.items()]
    return "|".join([*parts, f"v:{__version__}"])


def _with_identity(table: pd.DataFrame, identity: Mapping[str, str]) -> pd.DataFrame:
    known = dict(identity)
    if known["trained_on"] not in ("original", ""):
        # Figures tell curves apart by extractor: one that was trained on anonymised speech is another one. The level is said
        # where it is not the system's own, so that systems share a panel otherwise.
        own = f" ({known['system_level'].split(',')[0]})"
        known["extractor"] = f"{known['extractor']}, trained on {known['trained_on'].removesuffix(own)}"
    for name in ("backend", "extractor", "attacker", "condition", "system", "subset"):
        if name not in table.columns:
            table.insert(0, name, known[name])
    return table
