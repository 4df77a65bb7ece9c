"""What tests on a real Slurm share."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from tests import toy

HOOK = """
import os
if "SLURM_JOB_ID" in os.environ and "HOOK" in os.environ:
    import time
    from pathlib import Path
    from pipeline import slurm
    from pipeline.engine.store import Store
    folder, commit = Path(os.environ["HOOK"]), Store.commit
    def hooked(self, stage, key, temporary, parts, notes):
        held, fails = os.environ.get("HOLDS"), os.environ.get("FAILS")
        if held and notes["label"].startswith(held):
            (folder / f"held-{slurm.find_own_job()}").touch()
            while not (folder / "gate").exists():
                time.sleep(0.1)
        if fails and notes["label"].startswith(fails):
            raise RuntimeError("the vocoder fell over")
        return commit(self, stage, key, temporary, parts, notes)
    Store.commit = hooked
"""
"""Of each process of a job: a task whose label begins with $HOLDS waits for a gate before it commits, one with $FAILS fails."""


def hooked(folder: Path, **hooks: str) -> dict[str, str]:
    """The environment with which jobs are hooked; the gate and the names of held jobs lie in the folder."""
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(HOOK)
    path = os.pathsep.join([str(folder / "site"), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {"PYTHONPATH": path, "HOOK": str(folder), **hooks}


def until(condition: Callable[[], object]) -> None:
    """Wait for something that happens, or that never will."""
    for _ in range(10 * toy.HANGS):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("it never happened")
