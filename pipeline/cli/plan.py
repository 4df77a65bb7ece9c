"""The verb ``plan``: what a run would do, stage by stage, and why."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pipeline import evaluation
from pipeline.cli.command_line import read_command_line
from pipeline.cli.compose import evaluate_each
from pipeline.cli.progress import Meter
from pipeline.engine.rates import Estimate, format_bytes
from pipeline.engine.reasons import Reason
from pipeline.engine.task import Task
from pipeline.evaluation import Planned
from pipeline.stages.settings import Evaluation

MOST = 8
"""So many reasons of a stage stand on the screen."""


def main(verb: str, arguments: Sequence[str]) -> int:
    """Carry out ``plan``; the exit status."""
    line = read_command_line(arguments, verb, [("--tasks", {"action": "store_true"})])
    return evaluate_each(line, functools.partial(plan, line.options.tasks))


def plan(each: bool, settings: Evaluation, values: dict[str, Any]) -> int:
    """Print what a run would do, stage by stage, and why; what stands on work not yet done counts as to compute.

    Raises:
        StageFailed: what is known to be needed does not fit on the disk; all else is printed before.
    """
    planned = evaluation.plan(settings, Meter())
    for line in lines(planned, each):
        print(line)
    planned.refuse()
    return 0


def lines(planned: Planned, each: bool) -> Iterator[str]:
    """A stage a line, with the reasons why its tasks have to be computed below it; then what all of it takes.

    Args:
        each: list every task with its own reason.
    """
    by_stage: dict[str, list[tuple[Task, bool]]] = {}
    for task, reused in planned.tasks:
        by_stage.setdefault(task.name, []).append((task, reused))
    for name, (done, missing) in planned.counts().items():
        takes = planned.takes.get(name)
        yield f"{name}: {done} reused, {missing} to compute" + (
            f"; {_audio(takes.audio_seconds)}time {_format(takes.work_seconds, _duration)}, disk {_format(takes.bytes, format_bytes)}"
            if takes
            else ""
        )
        if each:
            for task, is_stored in by_stage[name]:
                yield f"  {task.label}: {'reused' if is_stored else planned.reasons[task]}"
        else:
            yield from _reasons([(task, planned.reasons[task]) for task, is_stored in by_stage[name] if not is_stored])
    yield from planned.foreseen
    yield from _summarise(planned)


def _reasons(tasks: Sequence[tuple[Task, Reason]]) -> Iterator[str]:
    groups: dict[str, list[tuple[Task, Reason]]] = {}
    for task, reason in tasks:
        groups.setdefault(reason.text, []).append((task, reason))
    ordered = sorted(groups.items(), key=lambda group: -len(group[1]))
    for text, members in ordered[:MOST]:
        task, reason = members[0]
        count = f"{len(members)} tasks" if len(members) > 1 else "1 task"
        if reason.waits:
            stand = "stand" if len(members) > 1 else "stands"
            yield f"  {count}: {stand} on what is to be computed, e.g. {task.label} on {reason.than}"
        else:
            nearest = f" (nearest: {reason.than})" if reason.than else ""
            yield f"  {count}: {text}, e.g. {task.label}{nearest}"
    if len(ordered) > MOST:
        left = sum(len(members) for _, members in ordered[MOST:])
        yield f"  {left} tasks for {len(ordered) - MOST} other reasons: plan --tasks lists them"


def _summarise(planned: Planned) -> Iterator[str]:
    missing = len(planned.reasons)
    if not missing:
        yield f"in all: {len(planned.tasks)} tasks, nothing to compute"
        return
    takes = planned.all_takes
    yield f"in all: {missing} of {len(planned.tasks)} tasks to compute; {_audio(takes.audio_seconds)}".rstrip("; ,")
    together = ""
    if planned.at_once > 1 and not takes.work_seconds.is_unknown:
        together = f" of work; {planned.at_once} tasks at once: at least {_duration(planned.least_seconds)}"
    yield f"time: {_format(takes.work_seconds, _duration)}{together}{_measured(takes.work_seconds)}"
    free = f"; {format_bytes(planned.free_bytes)} free" if planned.free_bytes is not None else ""
    yield f"disk: {_format(takes.bytes, format_bytes)}{_measured(takes.bytes)}{free}"


def _audio(seconds: float) -> str:
    return f"{_duration(seconds)} of audio, " if seconds else ""


def _measured(estimate: Estimate) -> str:
    if not estimate.unknown or estimate.is_unknown:
        return " (nothing like it was measured on this machine yet)" if estimate.unknown else ""
    return f" ({estimate.unknown} of {estimate.tasks} tasks are of kinds that were not measured on this machine yet)"


def _format(estimate: Estimate, write: Callable[[float], str]) -> str:
    if estimate.is_unknown:
        return "unknown"
    return f"{'at least' if estimate.unknown else 'about'} {write(estimate.amount)}"


def _duration(seconds: float) -> str:
    if seconds < 99.5:
        return f"{max(1.0, seconds):.0f} s"
    if seconds < 100 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.3g} h"
