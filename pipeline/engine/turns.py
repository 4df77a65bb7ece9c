"""Who makes an artefact that several processes want at the same moment: one of them, and the others wait for it.

A process that makes something has a folder in the store whose name says who it is (:meth:`Store.begin`), and touches it while it works. So
others see that it is at work. One that has ended, or has not touched its folder for a while (a machine that is gone, a process that is
suspended), holds nobody up. Nobody waits who has such a folder: no two can wait for each other.

Where a file system shows a new folder late to other machines, two may still make the same; the first to finish counts.
"""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from pipeline.engine import leftovers
from pipeline.engine.stop import Stop
from pipeline.engine.store import Store
from pipeline.engine.task import Name, Task
from pipeline.processes import Owner

BEAT_SECONDS = 30.0
"""So often a folder is touched while its process works."""
LOOK_SECONDS = 1.0
"""So often it is looked whether another process has finished."""
SAID_SECONDS = 2.0
"""So long a wait goes unsaid."""

log = logging.getLogger(__name__)
_uniform = random.SystemRandom().uniform
# Of the system: no state that anything else draws from is changed.


def folders(store: Store, task: Task, keys: Mapping[Name, str], stop: Stop) -> dict[Name, Path] | None:
    """Folders in which this process makes outputs of a task, which nobody else makes. None where somebody else made, or began to make, some
    of them: then it is to be looked again what is missing.

    Args:
        keys: of the outputs that are missing.

    Raises:
        Stopped: it was told to stop while it waited.
        OSError: a folder cannot be made.
    """
    if not _others(store, task, keys):
        made: dict[Name, Path] = {}
        try:
            for name, key in keys.items():
                made[name] = store.begin(task.name, key)
            if not _others(store, task, keys):
                # Somebody may have finished between the last look and this folder.
                if not any(store.find(task.name, key) for key in keys.values()):
                    return made
                _discard(store, made.values())
                return None
        except BaseException:
            _discard(store, made.values())
            raise
        # Another one began at the same moment. It sees this one too: both step back, and begin again at moments of their own.
        _discard(store, made.values())
        time.sleep(_uniform(0.0, LOOK_SECONDS / 2))
    _wait(store, task, keys, stop)
    return None


@contextmanager
def touching(folders: Collection[Path]) -> Iterator[None]:
    """Show others that this process is at work on what will be in these folders."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(BEAT_SECONDS):
            for folder in folders:
                with suppress(OSError):
                    os.utime(folder)

    thread = threading.Thread(target=beat, name="at work", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()


def _wait(store: Store, task: Task, keys: Mapping[Name, str], stop: Stop) -> None:
    begun, said = time.monotonic(), False
    while others := _others(store, task, keys):
        stop.check()
        if not said and time.monotonic() - begun > SAID_SECONDS:
            said = True
            log.info("%s: %s makes it already, and is waited for", task.label, _who(others[0]))
        time.sleep(_uniform(0.5, 1.0) * min(LOOK_SECONDS, 0.05 + time.monotonic() - begun))


def _others(store: Store, task: Task, keys: Mapping[Name, str]) -> list[Owner]:
    return [owner for key in keys.values() for owner in leftovers.writers(store.folder(task.name, key))]


def _who(owner: Owner) -> str:
    return f"process {owner.pid} of this machine" if owner.here else f"process {owner.pid} of another machine"


def _discard(store: Store, made: Collection[Path]) -> None:
    for folder in made:
        store.discard(folder)
