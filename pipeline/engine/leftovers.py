"""What processes leave in a store when they are killed: folders that were written to, checkpoints, what was set aside.

- ``<key>.tmp-<process>-<unique>``: an artefact that was being written. Nobody reads it. It is removed when its process has ended, or
  after a week where that cannot be told (another machine).
- ``<key>.<process>.scratch``: checkpoints of a training. Another training of the same artefact takes them over when that process has
  ended, or has not written for :data:`SILENT_SECONDS` on another machine; until then it has a folder of its own, so two of them
  never share one. They are removed after a week, and at once where the artefact is there: that training was killed between its last
  two steps, or another one was faster.
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
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pipeline.files import now
from pipeline.processes import Owner, from_token, is_dead, mine

WRITTEN, SCRATCH, DAMAGED = ".tmp-", ".scratch", ".damaged-"
STALE_SECONDS = 7 * 24 * 3600
"""Longer than any task takes: what nobody wrote to for so long has no living writer, whatever machine it was."""
SILENT_SECONDS = 30 * 60
"""A training writes a checkpoint a minute."""
QUIET_SECONDS = 180
"""Who is at work touches the folder twice a minute (pipeline/engine/turns.py)."""
KEPT_DAYS = 30
"""Damaged artefacts are kept for so long, for whoever wants to know what happened."""

_NAME = re.compile(r"[0-9a-f]{64}\.(?:tmp-|damaged-|.*scratch$)")
_NOTE = re.compile(r"\.[0-9a-f]{64}\.[0-9a-f]{32}")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Swept:
    """What a sweep found.

    Attributes:
        removed: folders and files that were removed.
        damaged: artefacts that are set aside and still there.
    """

    removed: int
    damaged: int


def sweep(root: Path) -> Swept:
    """Remove what processes that have ended left in a store, and say so. What cannot be removed stays."""
    removed, damaged = 0, 0
    time_there = functools.cache(lambda: now(root))
    for path in _left(root):
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
    return Swept(removed, damaged)


def writers(final: Path) -> list[Owner]:
    """Other processes that are at work on an artefact whose folder will be ``final``: not known to have ended, and heard of lately."""
    found = []
    for left in final.parent.glob(f"{final.name}{WRITTEN}*"):
        token = _token(left)
        owner = from_token(token)
        if owner is None or token == mine().token() or is_dead(owner):
            continue
        if now(final.parent) - _written(left) <= QUIET_SECONDS:
            found.append(owner)
    return found


def scratch(final: Path) -> Path:
    """The scratch folder of this process for an artefact whose folder will be ``final``; see the top of this file."""
    final.parent.mkdir(parents=True, exist_ok=True)
    own = _own(final)
    if own.is_dir():
        return own
    for left in sorted(_scratches(final), key=_written, reverse=True):
        if _is_free(left, final):
            try:
                left.rename(own)
            except OSError:  # another process was faster
                continue
            return own
    own.mkdir()
    return own


def release(final: Path) -> None:
    """Give the scratch folder of this process to whoever comes next."""
    free = final.with_name(f"{final.name}{SCRATCH}")
    with suppress(OSError):  # there is none, or one is free already
        _own(final).rename(free)


def drop_scratches(final: Path) -> None:
    """Remove the scratch folders of a finished artefact, but those of living processes."""
    for left in _scratches(final):
        if left == _own(final) or _is_free(left, final):
            shutil.rmtree(left, ignore_errors=True)


def _token(written: Path) -> str:
    """Of the process that writes, or wrote, an unfinished artefact."""
    return written.name.partition(WRITTEN)[2].rpartition("-")[0]


def _own(final: Path) -> Path:
    return final.with_name(f"{final.name}.{mine().token()}{SCRATCH}")


def _scratches(final: Path) -> list[Path]:
    return [path for path in final.parent.glob(f"{final.name}*{SCRATCH}") if path.is_dir()]


def _is_free(left: Path, final: Path) -> bool:
    token = left.name[len(final.name) : -len(SCRATCH)].removeprefix(".")
    owner = from_token(token)
    if not token or (owner is not None and is_dead(owner)):
        return True
    return (owner is None or not owner.here) and now(final.parent) - _written(left) > SILENT_SECONDS


def _left(root: Path) -> Iterator[Path]:
    """Everything in a store that is no artefact and no note."""
    for stage in _listed(root):
        for shelf in _listed(stage):
            if re.fullmatch("[0-9a-f]{2}", shelf.name):
                yield from (path for path in _listed(shelf) if _NAME.match(path.name) or _NOTE.fullmatch(path.name))


def _listed(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as found:
            return [folder / entry.name for entry in found]
    except OSError:
        return []


def _is_over(path: Path, time_there: Callable[[], float]) -> bool:
    """Whether nobody needs it any more; ``time_there`` is the time by the clock of the store's file system."""
    name = path.name
    if DAMAGED in name:
        return time_there() - _set_aside_at(path) > KEPT_DAYS * 24 * 3600
    if WRITTEN in name:
        owner: Owner | None = from_token(_token(path))
        if owner is not None and owner.here:
            return is_dead(owner)
    if name.endswith(SCRATCH):
        final = path.with_name(name.partition(".")[0])
        if final.is_dir() and _is_free(path, final):
            return True
    return time_there() - _written(path) > STALE_SECONDS


def _set_aside_at(path: Path) -> float:
    """When; the name says it, in the names of earlier versions the change of the folder does."""
    try:
        return time.mktime(time.strptime(path.name.partition(DAMAGED)[2][:9], "%Y%m%d-"))
    except ValueError:
        return _changed(path)


def _changed(path: Path) -> float:
    try:
        return path.stat().st_ctime
    except OSError:
        return math.inf


def _written(path: Path) -> float:
    """When something in a folder was written last; never ago where it is gone."""
    try:
        return max(one.stat().st_mtime for one in [path, *_listed(path)])
    except OSError:
        return math.inf


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()
