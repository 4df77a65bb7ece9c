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

**What processes leave** in a store when they are killed:

- ``<key>.tmp-<process>-<unique>``: an artefact that is being written, the claim of its process. Nobody reads
  it. It is removed when its process has ended, or after a week where that cannot be told (another machine).
- ``<key>.<process>.scratch``: checkpoints of a training. Another training of the same artefact takes over the furthest of them as soon
  as nobody waits for that process any more: it has ended, or has touched neither its claim nor its checkpoints for
  :data:`QUIET_SECONDS`. Until then the other has a folder of its own, so two of them never share one. They are removed after a week,
  and at once where the artefact is there: that training was killed between its last two steps, or another one was faster.
- ``<key>.damaged-<date>-<unique>``: an artefact that was read and found wrong. It is removed after 30 days.
"""

from __future__ import annotations

import functools
import logging
import math
import os
import random
import re
import shlex
import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.files import read_clock
from pipeline.processes import Owner, is_dead, parse_token, this_process

if TYPE_CHECKING:
    from pipeline.engine.stop import Stop
    from pipeline.engine.store import Store
    from pipeline.engine.task import Name, Task

WRITTEN, SCRATCH, DAMAGED = ".tmp-", ".scratch", ".damaged-"
STALE_SECONDS = 7 * 24 * 3600
"""Longer than any task takes: what nobody wrote to for so long has no living writer, whatever machine it was."""
QUIET_SECONDS = 180
"""Who is at work touches the folder twice a minute (:func:`touch_claims`)."""
KEPT_DAYS = 30
"""Damaged artefacts are kept for so long, for whoever wants to know what happened."""

_NAME = re.compile(r"[0-9a-f]{64}\.(?:tmp-|damaged-|.*scratch$)")
_NOTE = re.compile(r"\.[0-9a-f]{64}\.[0-9a-f]{32}")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Sweep:
    """What a sweep found.

    Attributes:
        removed: folders and files that were removed.
        damaged: artefacts that are set aside and still there.
    """

    removed: int
    damaged: int


def sweep_leftovers(root: Path) -> Sweep:
    """Remove what processes that have ended left in a store, and say so. What cannot be removed stays."""
    removed, damaged = 0, 0
    time_there = functools.cache(lambda: read_clock(root))
    for path in _list_leftovers(root):
        if _is_over(path, time_there):
            _remove(path)
            removed += 1
        elif DAMAGED in path.name:
            damaged += 1
    if removed:
        log.info("removed %d leftovers of runs that were killed from %s", removed, root)
    if damaged:
        log.info(
            "%d damaged results are set aside in %s; they are removed %d days after they were found, or now by: rm -r %s/*/*/*%s*",
            damaged,
            root,
            KEPT_DAYS,
            shlex.quote(str(root)),
            DAMAGED,
        )
    return Sweep(removed, damaged)


def list_claims(*finals: Path) -> dict[Path, Owner]:
    """The claims of other processes on artefacts whose folders will be ``finals``, but of those known to have ended. Their names are read
    and nothing else: one call of the file system for each artefact."""
    owners = {
        left: parse_token(_read_token(left))
        for final in finals
        for left in final.parent.glob(f"{final.name}{WRITTEN}*")
    }
    own = this_process().token()
    return {left: owner for left, owner in owners.items() if owner and owner.token() != own and not is_dead(owner)}


def find_writers(*finals: Path) -> list[Owner]:
    """Other processes that are at work on artefacts: those of :func:`claims` that were heard of lately."""
    claimed, time_there = list_claims(*finals).items(), functools.cache(read_clock)
    return [
        owner
        for claim, owner in claimed
        if _is_heard([claim, _scratch_folder(_final_folder(claim), _read_token(claim))], time_there)
    ]


def take_scratch(final: Path, steps: Callable[[Path], int] | None = None) -> Path:
    """The scratch folder of this process for an artefact whose folder will be ``final``; see the top of this file.

    Args:
        steps: how many steps the checkpoint in a folder has behind it, -1 where there is none. Of several that are free, the one with
            most is taken; of equal ones, the newest.
    """
    final.parent.mkdir(parents=True, exist_ok=True)
    own = _scratch_folder(final, this_process().token())
    if own.is_dir():
        return own
    free = {
        left: (steps(left) if steps else -1, _read_write_time(left))
        for left in _list_scratches(final)
        if _is_free(left, final)
    }
    for left in sorted(free, key=free.__getitem__, reverse=True):
        try:
            left.rename(own)
        except OSError:  # another process was faster
            continue
        owner, step = parse_token(_scratch_token(left)), free[left][0]
        if step >= 0:
            whose = describe_owner(owner) if owner else "a training that was stopped"
            choice = f", the furthest of {len(free)}" if len(free) > 1 else ""
            log.info("taking over the checkpoint of %s at step %d%s", whose, step, choice)
        return own
    own.mkdir()
    return own


def describe_owner(owner: Owner) -> str:
    """A process, for messages: its machine has no readable name here."""
    return f"process {owner.pid} of {'this' if owner.here else 'another'} machine"


def release_scratch(final: Path) -> None:
    """Give the scratch folder of this process to whoever comes next."""
    free = final.with_name(f"{final.name}{SCRATCH}")
    with suppress(OSError):  # there is none, or one is free already
        _scratch_folder(final, this_process().token()).rename(free)


def drop_scratches(final: Path) -> None:
    """Remove the scratch folders of a finished artefact, but those of living processes."""
    own = _scratch_folder(final, this_process().token())
    for left in _list_scratches(final):
        if left == own or _is_free(left, final):
            shutil.rmtree(left, ignore_errors=True)


def _final_folder(left: Path) -> Path:
    """The folder of the artefact that something was left of."""
    return left.with_name(left.name.partition(".")[0])


def _read_token(written: Path) -> str:
    """Of the process that writes, or wrote, an unfinished artefact."""
    return written.name.partition(WRITTEN)[2].rpartition("-")[0]


def _scratch_folder(final: Path, token: str) -> Path:
    return final.with_name(f"{final.name}.{token}{SCRATCH}")


def _list_scratches(final: Path) -> list[Path]:
    return [path for path in final.parent.glob(f"{final.name}*{SCRATCH}") if path.is_dir()]


def _scratch_token(left: Path) -> str:
    """Of the process whose checkpoints these are; '' where it gave them up."""
    return left.name.partition(".")[2][: -len(SCRATCH)]


def _is_free(left: Path, final: Path) -> bool:
    token = _scratch_token(left)
    owner = parse_token(token)
    if not token or (owner is not None and is_dead(owner)):
        return True
    # By the same rule as writers(): whoever may make the artefact finds its checkpoints free.
    claimed = final.parent.glob(f"{final.name}{WRITTEN}{token}-*") if owner else ()
    return not _is_heard([left, *claimed], read_clock)


def _is_heard(signs: Iterable[Path], time_there: Callable[[Path], float]) -> bool:
    """Whether a folder was touched lately, or something was put into it or replaced there."""
    for path in signs:
        with suppress(OSError):  # it is gone
            if time_there(path.parent) - path.stat().st_mtime <= QUIET_SECONDS:
                return True
    return False


def _list_leftovers(root: Path) -> Iterator[Path]:
    """Everything in a store that is no artefact and no note."""
    for stage in _list_folder(root):
        for shelf in _list_folder(stage):
            if re.fullmatch("[0-9a-f]{2}", shelf.name):
                yield from (
                    path for path in _list_folder(shelf) if _NAME.match(path.name) or _NOTE.fullmatch(path.name)
                )


def _list_folder(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return [folder / entry.name for entry in entries]
    except OSError:
        return []


def _is_over(path: Path, time_there: Callable[[], float]) -> bool:
    """Whether nobody needs it any more; ``time_there`` is the time by the clock of the store's file system."""
    name = path.name
    if DAMAGED in name:
        return time_there() - _read_date(path) > KEPT_DAYS * 24 * 3600
    if WRITTEN in name:
        owner: Owner | None = parse_token(_read_token(path))
        if owner is not None and owner.here:
            return is_dead(owner)
    if name.endswith(SCRATCH):
        final = _final_folder(path)
        if final.is_dir() and _is_free(path, final):
            return True
    return time_there() - _read_write_time(path) > STALE_SECONDS


def _read_date(path: Path) -> float:
    """When; the name says it, in the names of earlier versions the change of the folder does."""
    try:
        return time.mktime(time.strptime(path.name.partition(DAMAGED)[2][:9], "%Y%m%d-"))
    except ValueError:
        return _read_change_time(path)


def _read_change_time(path: Path) -> float:
    try:
        return path.stat().st_ctime
    except OSError:
        return math.inf


def _read_write_time(path: Path) -> float:
    """When something in a folder was written last; never ago where it is gone."""
    try:
        return max(entry.stat().st_mtime for entry in [path, *_list_folder(path)])
    except OSError:
        return math.inf


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


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
    before = list_claims(*finals)
    if before and find_writers(*finals):
        _wait(task, finals, stop)
        return None
    silent = [describe_owner(owner) for claim, owner in before.items() if claim.is_dir()]
    if silent:
        log.info("%s: %s began it and has been silent for minutes: it is made here", task.label, silent[0])
    claimed: dict[Name, Path] = {}
    try:
        for name, key in keys.items():
            claimed[name] = store.begin(task.name, key)
        alone = _is_alone(finals, before, stop)
        # Somebody may have finished between the last look and this folder.
        if alone and not any(store.find(task.name, key) for key in keys.values()):
            return claimed
    except BaseException:
        _discard(store, claimed.values())
        raise
    _discard(store, claimed.values())
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
    while rivals := [owner.token() for claim, owner in list_claims(*finals).items() if claim not in before]:
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
    begun, is_reported = time.monotonic(), False
    while others := find_writers(*finals):
        stop.check()
        if not is_reported and time.monotonic() - begun > SAID_SECONDS:
            is_reported = True
            log.info("%s: %s makes it already, and is waited for", task.label, describe_owner(others[0]))
        _pause(begun)


def _pause(begun: float) -> None:
    time.sleep(_uniform(0.5, 1.0) * min(LOOK_SECONDS, 0.05 + time.monotonic() - begun))


def _discard(store: Store, folders: Collection[Path]) -> None:
    for folder in folders:
        store.discard(folder)
