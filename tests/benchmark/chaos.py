"""Kills at random moments, and what they cost: the table of what survives (tests/chaos.py)."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tests.benchmark.harness import Row, row
from tests.chaos import Chaos, Kill, table

KILLS = int(os.environ.get("TESTS_KILLS", "200"))
TABLE = Path(__file__).with_name("SURVIVES.md")
"""What survives, as the documents have it. Written by :func:`chaos`."""


def chaos(kills: int = KILLS, seed: int = 14) -> list[Row]:
    """Kill so many runs and workers, two at a time. A folder of a kill after which something was wrong is kept, and named."""
    folder = Path(tempfile.mkdtemp(prefix="chaos-"))

    def told(number: int, kill: Kill) -> None:
        said = "; ".join(kill.wrong) or "equal"
        where = f"{kill.victim}, {kill.way} {kill.way.workers}, {kill.moment}, {kill.stage or 'no task'}"
        print(f"{number}: {where}: {said} ({kill.seconds:.0f} s)", flush=True)

    found = Chaos(folder / "kills", seed).kills(range(kills), at_once=2, told=told)
    TABLE.write_text(table(found), encoding="utf-8")
    print(table(found))
    wrong = [one for one in found if one.wrong]
    if wrong:
        print(f"{len(wrong)} are wrong, see {folder}")
    note = f"{kills} kills of runs and workers, all stages, 1 to 3 workers, seed {seed}"
    return [
        row("chaos_equal", 100 * (1 - len(wrong) / kills), "%", f"{note}: the next run is equal in each byte", at_least=100),
        row("chaos_beyond", sum(one.beyond for one in found), "tasks", f"{note}: computed again, not in flight", at_most=0),
        row("chaos_seconds", sum(one.seconds for one in found) / kills, "s", f"{note}: for one, two beside each other"),
    ]  # fmt: skip
