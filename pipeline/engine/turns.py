"""Who makes an artefact that several processes want at the same moment: one of them, and the others wait for it.

A process that makes something has a claim on it: a folder in the store whose name says who it is (:meth:`Store.begin`). It touches the
claim as long as its work goes on, so others see that it is at work. Nobody waits for a process that has ended, or that has not touched its
claim for three minutes: a machine that is gone, a process that is suspended, work that hangs (:data:`HANG_SECONDS`).

**At most one maker.** A process puts up no claim where another is at work. Otherwise it puts up its own, and begins only after a later look
that shows no other claim. Of two processes, the one whose look came last saw the claim of the other, so it did not begin. In that look
claims count by their names alone; only those that were there before the own claim, and silent, do not count.

**Somebody begins.** Where the look shows others, the smallest name keeps its claim up until it is alone, and all others take theirs down
and wait. While a claim is up nobody new puts one up but those whose first look came before: finitely many, of whom the smallest stays. Nothing
depends on chance or on how fast the file system is. No two wait for each other: who waits with a claim waits for larger names, which step
back, or for a maker, which waits for nobody.

**Where two may make the same.** A file system may show a new folder late to other machines. A process that was silent may wake up after
another took its place. Then the first to finish counts and the other's work is lost; no result is wrong.
"""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from pipeline.engine import leftovers
from pipeline.engine.stop import Stop
from pipeline.engine.store import Store
from pipeline.engine.task import Name, Task
from pipeline.files import read_clock
from pipeline.processes import this_process

BEAT_SECONDS = 30.0
"""So often a folder is touched while its process works."""
LOOK_SECONDS = 1.0
"""So often it is looked whether another process has finished."""
SAID_SECONDS = 2.0
"""So long a wait goes unsaid."""
RACE_SECONDS = 60.0
"""So long the smallest claim stays up beside others: a machine may have gone down between its claim and its look. A claim that wins after
this time is touched before it counts as silent."""
HANG_SECONDS = 2 * 3600.0
"""Work that has given no sign for so long counts as hanging: its claim is not touched any more. Signs are the calls of
:class:`pipeline.engine.task.Work`, which ask for inputs and report steps and seconds of audio. The longest honest step without one is
a user's program that is given half an hour of speech at once; two hours are four times as long. If a step does take longer, it
goes on, and a process that wants the same makes it too."""

log = logging.getLogger(__name__)
_uniform = random.SystemRandom().uniform
# Of the system: no state that anything else draws from is changed.


def claim_folders(store: Store, task: Task, keys: Mapping[Name, str], stop: Stop) -> dict[Name, Path] | None:
    """Folders in which this process makes outputs of a task, which nobody else makes. None where somebody else made, or began to make, some
    of them: then it is to be looked again what is missing.

    Args:
        keys: of the outputs that are missing.

    Raises:
        Stopped: it was told to stop while it waited.
        OSError: a folder cannot be made.
    """
    finals = [store.folder(task.name, key) for key in keys.values()]
    before = leftovers.list_claims(*finals)
    if before and leftovers.find_writers(*finals):
        _wait(task, finals, stop)
        return None
    silent = [leftovers.describe_owner(owner) for claim, owner in before.items() if claim.is_dir()]
    if silent:
        log.info("%s: %s began it and has been silent for minutes: it is made here", task.label, silent[0])
    made: dict[Name, Path] = {}
    try:
        for name, key in keys.items():
            made[name] = store.begin(task.name, key)
        alone = _is_alone(finals, before, stop)
        # Somebody may have finished between the last look and this folder.
        if alone and not any(store.find(task.name, key) for key in keys.values()):
            return made
    except BaseException:
        _discard(store, made.values())
        raise
    _discard(store, made.values())
    if not alone:
        _wait(task, finals, stop)
    return None


@contextmanager
def touch_claims(folders: Collection[Path], last_sign: Callable[[], float] = time.monotonic) -> Iterator[None]:
    """Show others that this process is at work on what will be in these folders.

    Args:
        last_sign: when the work last gave a sign, by :func:`time.monotonic`; see :data:`HANG_SECONDS`.
    """
    over = threading.Event()

    def beat() -> None:
        while not over.wait(BEAT_SECONDS):
            hangs = time.monotonic() - last_sign() > HANG_SECONDS
            for folder in () if hangs else folders:
                with suppress(OSError):
                    os.utime(folder)

    thread = threading.Thread(target=beat, name="at work", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()


def _is_alone(finals: Collection[Path], before: Collection[Path], stop: Stop) -> bool:
    """Whether no claims are up but those of this process and silent ones from ``before``. The smallest waits for that, no other does."""
    begun, own = time.monotonic(), this_process().token()
    while rivals := [owner.token() for claim, owner in leftovers.list_claims(*finals).items() if claim not in before]:
        if min(rivals) < own or time.monotonic() - begun > RACE_SECONDS:
            return False
        stop.check()
        _pause(begun)
        for folder in {final.parent for final in finals}:
            read_clock(
                folder
            )  # NFS shows a folder as it was up to a minute ago, but not to a machine that makes a file in it
    return True


def _wait(task: Task, finals: Collection[Path], stop: Stop) -> None:
    begun, said = time.monotonic(), False
    while others := leftovers.find_writers(*finals):
        stop.check()
        if not said and time.monotonic() - begun > SAID_SECONDS:
            said = True
            log.info("%s: %s makes it already, and is waited for", task.label, leftovers.describe_owner(others[0]))
        _pause(begun)


def _pause(begun: float) -> None:
    time.sleep(_uniform(0.5, 1.0) * min(LOOK_SECONDS, 0.05 + time.monotonic() - begun))


def _discard(store: Store, made: Collection[Path]) -> None:
    for folder in made:
        store.discard(folder)
