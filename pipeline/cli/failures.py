"""What is said of an error: its exit status and its words, and a file of all faults where there are too many for the screen.

The standard library and :mod:`pipeline.errors` alone are imported before something has failed.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.errors import ConfigError, DataError, PipelineError, explain_system_error

if TYPE_CHECKING:
    from pipeline.stages.settings import Evaluation

ODD_NAME = "rename it in UTF-8, as `convmv -f latin1 -t utf-8 --notest` does: tables and records hold no other names"
_BYTE = re.compile("[\udc80-\udcff]")


def describe_failure(error: Exception) -> tuple[int, str]:
    """The exit status of an error, and what is said of it; of a stop nothing is, for the run has said it."""
    from pipeline.engine.stop import Stopped

    if isinstance(error, Stopped):
        return error.status, ""
    explained = error if isinstance(error, PipelineError) else _explain(error)
    if explained is not None:
        return explained.status, f"error: {explained}"
    lines = "".join(traceback.format_exception(error))
    return 1, (
        f"{lines}error: {type(error).__name__}: {error}. This is a bug of the pipeline: please report it with the lines above."
    )


def _explain(error: Exception) -> PipelineError | None:
    if isinstance(error, UnicodeEncodeError) and _BYTE.search(error.object):
        return DataError("the name of a file is not UTF-8", where=show_bytes(error.object), remedy=ODD_NAME)
    if isinstance(error, ImportError) and "pipeline" not in (error.name or str(error)):
        return ConfigError(
            f"{error}: this Python does not have what the pipeline stands on",
            where=f"{sys.executable} (Python {sys.version.split()[0]})",
            cause="another Python than that of the environment, or an environment that is not complete",
            remedy=f"{shlex.quote(sys.executable)} -m pip install voice-privacy-pipeline, or `make install` in a clone, and then "
            ".venv/bin/voice-privacy",
        )
    return explain_system_error(error)


def show_bytes(text: str) -> str:
    """A name that may hold bytes which are no UTF-8, with these as escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def list_all_faults(error: PipelineError, folder: Path | None = None) -> None:
    """Write all faults into a file that the message then names, where it does not say them all and no log has them.

    Args:
        error: its ``listed_in`` is set.
        folder: where the file is written; the folder of temporary files if it cannot be written there, or without one.
    """
    if not error.is_folded or error.listed_in:
        return
    text = error.paragraph(every=True) + "\n"
    name = f"faults-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-"
    for place in filter(None, (folder, Path(tempfile.gettempdir()))):
        try:
            place.mkdir(parents=True, exist_ok=True)
            descriptor, path = tempfile.mkstemp(".txt", name, place)
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as stream:
                stream.write(text)
        except OSError:
            continue
        error.listed_in = path
        return


def list_needed(evaluation: Evaluation) -> list[str]:
    """What of models and vectors is not there: nothing that the data lack."""
    return [f"a run would also need: what {fault.where} asks for; {fault.what}" for fault in evaluation.models.lacking]
