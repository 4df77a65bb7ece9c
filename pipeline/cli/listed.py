"""Where all faults are listed, when there are more than are printed."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from pipeline.errors import PipelineError


def keep_all(error: PipelineError, folder: Path | None = None) -> None:
    """Write all faults into a file that the message then names, where it does not say them all and no log has them.

    Args:
        error: its ``listed_in`` is set.
        folder: where the file is written; the folder of temporary files if it cannot be written there, or without one.
    """
    if not error.is_folded or error.listed_in:
        return
    text = error.paragraph(every=True) + "\n"
    name = f"faults-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-"
    for place in (folder, Path(tempfile.gettempdir())):
        if place is None:
            continue
        try:
            place.mkdir(parents=True, exist_ok=True)
            descriptor, path = tempfile.mkstemp(".txt", name, place)
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as stream:
                stream.write(text)
        except OSError:
            continue
        error.listed_in = path
        return
