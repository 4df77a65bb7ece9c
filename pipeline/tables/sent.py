"""The jobs of a run that was sent elsewhere: ``RUN/jobs/ROUND.sent.json``, written when all jobs of a round are sent."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from pipeline.files import write_atomically
from pipeline.tables import signed

FOLDER = "jobs"
_SENT = ".sent.json"


def write(run: Path, number: int, jobs: Sequence[str]) -> None:
    """Keep the ids of the jobs of a round: by part, then that of the last one."""
    write_atomically(run / FOLDER / f"{number}{_SENT}", signed.text({"jobs": list(jobs)}))


def last(run: Path) -> int:
    """The number of the last round that was sent; 0 where nothing was sent."""
    numbers = [path.name.removesuffix(_SENT) for path in (run / FOLDER).glob(f"*{_SENT}")]
    return max((int(number) for number in numbers if number.isdecimal()), default=0)


def jobs(run: Path) -> list[str]:
    """The ids of the jobs of the last round, by part, then that of the last one; none where nothing was sent."""
    with suppress(OSError, ValueError, KeyError):
        return [str(job) for job in signed.read((run / FOLDER / f"{last(run)}{_SENT}").read_bytes())["jobs"]]
    return []
