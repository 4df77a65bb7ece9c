"""How a command or a job of a sweep ended: the exit status and what is said."""

from __future__ import annotations

import traceback

from pipeline.engine.stop import Stopped
from pipeline.errors import PipelineError, explain_system_error


def ending(error: Exception) -> tuple[int, str]:
    """The exit status of an error, and what is said of it; of a stop nothing is, for the run has said it."""
    if isinstance(error, Stopped):
        return error.status, ""
    told = error if isinstance(error, PipelineError) else explain_system_error(error)
    if told is not None:
        return told.status, f"error: {told}"
    lines = "".join(traceback.format_exception(error))
    return 1, (
        f"{lines}error: {type(error).__name__}: {error}. This is a bug of the pipeline: please report it with the lines above."
    )
