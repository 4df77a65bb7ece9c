"""Running tasks in tests, and what runs found."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pipeline.engine.executors.local import Executor, Settings
from pipeline.engine.outcome import Outcome
from pipeline.engine.progress import Progress
from pipeline.engine.stop import Stop
from pipeline.engine.store import Store
from pipeline.engine.task import Task
from pipeline.tables import results


def execute(tasks: Sequence[Task], store: Store, stop: Stop | None = None) -> Outcome:
    """Run tasks in turn; what they made."""
    outcome = Outcome(store)
    Executor(Settings()).execute(tasks, stop or Stop(), outcome, Progress())
    return outcome


def values(*runs: Path) -> list[tuple[str, ...]]:
    """All numbers of some runs, with what they are about, in an order of their own."""
    named = (
        "dataset",
        "subset",
        "system",
        "attacker",
        "extractor",
        "backend",
        "metric",
        "variant",
        "value",
        "low",
        "high",
    )
    tables = [results.read(run) for run in runs]
    rows = (table[[one for one in named if one in table.columns]].astype(str).to_numpy() for table in tables)
    return sorted(tuple(row) for found in rows for row in found)
