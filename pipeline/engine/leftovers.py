"""What processes leave in a store when they are killed: folders that were written to, checkpoints, what was set aside.

- ``<key>.tmp-<process>-<unique>``: an artefact that is being written, the claim of its process (pipeline/engine/turns.py). Nobody reads
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
import re
import shlex
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pipeline.files import read_clock
from pipeline.processes import Owner, is_dead, parse_token, this_process

WRITTEN, SCRATCH, DAMAGED = ".tmp-", ".scratch", ".damaged-"
STALE_SECONDS = 7 * 24 * 3600
"""Longer than any task takes: what nobody wrote to for so long has no living writer, whatever machine it was."""
QUIET_SECONDS = 180
"""Who is at work touches the folder twice a minute (pipeline/engine/turns.py)."""
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
    found = {
        left: parse_token(_read_token(left))
        for final in finals
        for left in final.parent.glob(f"{final.name}{WRITTEN}*")
    }
    own = this_process().token()
    return {left: owner for left, owner in found.items() if owner and owner.token() != own and not is_dead(owner)}


def find_writers(*finals: Path) -> list[Owner]:
    """Other processes that are at work on artefacts: those of :func:`claims` that were heard of lately."""
    found, time_there = list_claims(*finals).items(), functools.cache(read_clock)
    return [
        owner
        for claim, owner in found
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
        with os.scandir(folder) as found:
            return [folder / entry.name for entry in found]
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
        return max(one.stat().st_mtime for one in [path, *_list_folder(path)])
    except OSError:
        return math.inf


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()
