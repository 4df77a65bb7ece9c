"""Removing from a store what no run needs: artefacts that none of the kept runs used.

Nothing is removed that a run which goes on has used so far, or that is younger than some hours: a run that has just begun may be about
to use it. What is removed is renamed first, to the name of something that is
being written, and then deleted: at every instant a reader finds all of an artefact or nothing, and what a kill leaves the next run sweeps.
A run that misses an artefact computes it again.

Trained weights that no run has used yet are kept, unless they are asked for: the verb ``train`` makes them, and no run folder.

Not touched: what is being written, checkpoints and what was set aside (:mod:`pipeline.engine.claims` has their rules); ``recordings``
and ``files``, which the next run over the same data reads whatever its settings, and of which no run says what it used; ``selections``,
notes of a hundred bytes.
"""

from __future__ import annotations

import shlex
import shutil
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.engine import claims, inventory, usage
from pipeline.engine.inventory import StoredArtefact
from pipeline.errors import ConfigError, DataError, os_error
from pipeline.names import join_few
from pipeline.processes import this_process
from pipeline.tables import status


@dataclass(frozen=True)
class Removal:
    """What would be removed.

    Attributes:
        goes: artefacts that no kept run used.
        kept, young: how many artefacts stay because a kept run used them, and because they are too young.
        idle: how many trained weights stay because no run has used them.
        going: names of the runs that go on, whose artefacts are kept as far as they got.
        losing: names of other runs that used what goes.
        silent: names of other runs that do not say what they used.
    """

    goes: tuple[StoredArtefact, ...]
    kept: int
    young: int
    idle: int
    going: tuple[str, ...]
    losing: tuple[str, ...]
    silent: tuple[str, ...]

    @property
    def bytes(self) -> int:
        return sum(artefact.bytes for artefact in self.goes)


def plan_removal(root: Path, keep: Sequence[Path], younger_hours: float, idle_weights: bool = False) -> Removal:
    """What to remove from the store below ``paths.root``.

    Args:
        keep: folders of the runs to keep, wherever they lie.
        younger_hours: artefacts that were made within so many hours stay.
        idle_weights: whether trained weights go that no run has used.

    Raises:
        ConfigError: a run to keep, or one that goes on, does not say what it used.
        DataError: a list of what a run used is damaged.
    """
    others = [run for run in usage.list_runs(root) if run.resolve() not in {entry.resolve() for entry in keep}]
    going = [run for run in others if usage.is_active(run)]
    lists = {run: usage.read_usage(run) for run in (*keep, *going)}
    silent = [run for run in going if lists[run] is None]
    # One that waits for its cluster has used nothing.
    begun = [run for run in silent if status.read(run).get("state") != "submitted"]
    _refuse_silent([run for run in keep if lists[run] is None], begun)
    needed = {key for keys in lists.values() for key in keys or ()}
    ended: dict[Path, set[usage.Key] | None] = {}
    for run in others:
        if run not in going:
            try:
                ended[run] = usage.read_usage(run)
            except DataError:  # of a run that is not kept
                ended[run] = None
    asked_for = needed.union(*(keys for keys in ended.values() if keys is not None))
    goes, counts = [], Counter[str]()
    for artefact in inventory.list_artefacts(root / "store"):
        key = (artefact.stage, artefact.key)
        if key in needed:
            counts["kept"] += 1
        elif artefact.unread or _is_younger(
            artefact.folder, younger_hours
        ):  # of what may not be read nothing is removed
            counts["young"] += not artefact.unread
        elif artefact.stage == inventory.WEIGHTS and key not in asked_for and not idle_weights:
            counts["idle"] += 1
        else:
            goes.append(artefact)
    removed = {(entry.stage, entry.key) for entry in goes}
    return Removal(
        tuple(goes),
        counts["kept"],
        counts["young"],
        counts["idle"],
        going=tuple(run.name for run in going),
        losing=tuple(run.name for run, keys in ended.items() if keys is not None and keys & removed),
        silent=tuple(run.name for run, keys in ended.items() if keys is None),
    )


def _refuse_silent(keep: Sequence[Path], going: Sequence[Path]) -> None:
    if keep:
        raise ConfigError(
            f"what {'run' if len(keep) == 1 else 'runs'} {join_few([run.name for run in keep], 5)} used cannot be told, so nothing is removed",
            where=str(keep[0]),
            cause="it was made by an earlier version, or ended before it used anything",
            remedy=f"leave it out of --keep if its results need not be kept in the store, or {usage.explain_rerun(keep[0])}",
        )
    if going:
        quiet = status.quiet(going[0])
        gone = f"; if it has died, remove its folder first: rm -r {shlex.quote(str(going[0]))}" if quiet else ""
        raise ConfigError(
            f"{join_few([run.name for run in going], 5)} may still go on, and what it uses cannot be told, so nothing is removed",
            where=str(going[0]),
            cause=quiet or "it is a run of an earlier version, or one that has just begun",
            remedy=f"wait until it has ended, and run the same command again{gone}",
        )


def _is_younger(folder: Path, hours: float) -> bool:
    """Whether it came into the store within so many hours; one of a clock that was ahead is new."""
    try:
        return time.time() - folder.stat().st_mtime < hours * 3600
    except OSError:
        return hours > 0


def remove_artefacts(chosen: Removal) -> tuple[int, int]:
    """Remove what a plan says; how many artefacts, and their bytes.

    Raises:
        StageFailed: one may not be removed. What was removed before stays so.
    """
    count = size = 0
    for artefact in chosen.goes:
        name = f"{artefact.key}{claims.WRITTEN}{this_process().token()}-{uuid.uuid4().hex[:8]}"
        weighs = artefact.bytes
        try:
            doomed = artefact.folder.rename(artefact.folder.with_name(name))
            shutil.rmtree(doomed)
        except FileNotFoundError:  # another process was faster
            continue
        except OSError as error:
            raise os_error(error, "an artefact cannot be removed from the store", artefact.folder) from error
        count, size = count + 1, size + weighs
    return count, size
