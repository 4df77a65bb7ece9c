"""``part``: what a job of a run does that was sent to a cluster; by hand, to see why one fails."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pipeline.cli.logs import log_to_stderr
from pipeline.errors import ConfigError

REPORT = "report"
USAGE = "voice-privacy part RUN ROUND NUMBER, or report in place of the number"


def main(arguments: Sequence[str]) -> int:
    """Carry out ``part`` with its arguments; the exit status.

    Raises:
        ConfigError: usage.
    """
    log_to_stderr()
    numbers = [one for one in arguments[1:] if one.isdecimal() or one == REPORT]
    if len(arguments) != 3 or len(numbers) != 2 or numbers[0] == REPORT:
        raise ConfigError("part needs a run folder, a round and the number of a part", remedy=USAGE)
    from pipeline.evaluation import job

    return job.perform(Path(arguments[0]), int(numbers[0]), None if numbers[1] == REPORT else int(numbers[1]))
