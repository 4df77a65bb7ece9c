"""Running tasks in tests."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.engine.executors.local import Executor, Settings
from pipeline.engine.outcome import Outcome
from pipeline.engine.progress import Progress
from pipeline.engine.stop import Stop
from pipeline.engine.store import Store
from pipeline.engine.task import Task


def execute(tasks: Sequence[Task], store: Store, stop: Stop | None = None) -> Outcome:
    """Run tasks in turn; what they made."""
    outcome = Outcome(store)
    Executor(Settings()).execute(tasks, stop or Stop(), outcome, Progress())
    return outcome
