"""What each verb does."""

from __future__ import annotations

import functools
import logging
import os
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline import config
from pipeline.datasets.prepare import Prepared
from pipeline.engine.execute import Outcome, execute, standing
from pipeline.engine.stop import Stop, Stopped, listening
from pipeline.engine.store import Store
from pipeline.errors import ConfigError, DataError, Fault, PartialResult, PipelineError
from pipeline.evaluation.runfolder import RunFolder, log_to_stderr, utc
from pipeline.planning import Evaluation, Machine

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger(__name__)


def act(verb: str, arguments: Sequence[str], folders: Sequence[str]) -> int:
    """Compose the configuration and carry out a verb; the exit status."""
    log_to_stderr()
    if verb in ("report", "compare"):
        runs = [_run_folder(folder) for folder in folders]
        action = functools.partial(report if verb == "report" else compare, runs)
    else:
        actions: dict[str, Any] = {
            "run": functools.partial(run, arguments), "prepare": prepare, "train": train, "plan": plan,
            "validate": validate, "doctor": doctor, "fetch-models": fetch_models,
        }  # fmt: skip
        action = actions[verb]
    statuses: list[int] = []

    def once(evaluation: Evaluation, values: dict[str, Any]) -> None:
        log_to_stderr()  # a job of a sweep may run in another process, which has not seen the line above
        statuses.append(action(evaluation, values) or 0)

    config.enter(arguments, once)
    return max(statuses, default=0)


def machine(evaluation: Evaluation) -> Machine:
    """The device and the number of threads of this process; sets the thread pools of the numerical libraries."""
    import torch

    device = evaluation.runtime.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise ConfigError(
            f"runtime.device={device}, but torch sees no CUDA device",
            remedy="set runtime.device=cpu or auto, or ask for a GPU node",
        )
    threads = _threads(evaluation)
    torch.set_num_threads(threads)
    return Machine(device, threads)


def _threads(evaluation: Evaluation) -> int:
    return evaluation.runtime.threads or int(os.environ.get("SLURM_CPUS_PER_TASK") or len(os.sched_getaffinity(0)))


def run(arguments: Sequence[str], evaluation: Evaluation, values: dict[str, Any]) -> int:
    """Evaluate and report. The last line of standard output is the report's path, the one before it counts the tasks."""
    folder = RunFolder(evaluation.paths.runs, evaluation.recipe)
    try:
        folder.describe(values, arguments)
        with listening(
            lambda number: folder.status(state="interrupted", reasons=[signal.Signals(number).name])
        ) as stop:
            return _run(folder, stop, evaluation)
    except Stopped as error:
        folder.status(state="interrupted", exit_status=error.status, reasons=[str(error)])
        log.warning("%s; run the same command again to go on", error)
        raise
    except PipelineError as error:
        folder.status(state="failed", exit_status=error.status, reasons=[error.paragraph(most=10**9)])
        folder.log(error.paragraph(most=10**9))
        raise
    except BaseException as error:
        folder.status(state="failed", exit_status=1, reasons=[f"{type(error).__name__}: {error}"])
        folder.log(traceback.format_exc())
        raise
    finally:
        folder.close()


def _run(folder: RunFolder, stop: Stop, evaluation: Evaluation) -> int:
    from pipeline import planning as plans
    from pipeline.diagnostics import judge as diagnose
    from pipeline.evaluation import gather
    from pipeline.report import render, tables
    from pipeline.stages import train as training

    device = machine(evaluation)
    log.info("run %s on %s with %d threads", folder.id, device.device, device.threads)
    store = Store(evaluation.paths.store)
    outcome = Outcome()

    def changed(label: str, done: int, total: int) -> None:
        folder.status(task=label, tasks_done=done, tasks_total=total)

    execute(plans.data_tasks(evaluation), store, stop, outcome, changed)
    data = plans.prepared(evaluation, list(outcome.artefacts.values()), device)
    _say(data)
    made = plans.graph(evaluation, data, device)
    for note in made.notes:
        log.info("%s", note)
    log.info("%d tasks over %d utterances", len(made.tasks), len(data.manifest))
    execute(made.tasks, store, stop, outcome, changed)
    trained = {
        task.label: training.summary(outcome.artefact(task.ref())) for task in made.tasks if task.name == "train"
    }
    for label, said in trained.items():
        log.info("%s: %s", label, said)
    lost = gather.named(made.tasks, outcome, "lost")
    tied = gather.named(made.tasks, outcome, "without_evidence")
    if tied:
        log.info(
            "%d pieces of audio hold nothing to compare (all references tie), first: %s; audio_notes.json names them",
            len(tied),
            ": ".join(tied[0]),
        )
    rows = gather.run(
        made.sources,
        data,
        outcome,
        folder.path,
        folder.id,
        device.device,
        evaluation.numeric(),
        evaluation.allow_partial,
        lost,
        tied,
    )
    found = diagnose.run(made.diagnoses, rows, outcome, folder.path)
    report_path = render.render([folder.path], folder.path / "report.html")
    counts = f"tasks: {outcome.reused} reused, {outcome.computed} computed"
    error = _shortfall(rows, data, lost, evaluation.allow_partial, report_path)
    status = error.status if error else 0
    folder.status(state="partial" if error else "done", exit_status=status, tasks=counts, training=trained, ended=utc())
    log.info("%s", counts)
    print(tables.to_text(rows, list(evaluation.systems)))
    if doubts := tables.diagnostics_text(found):
        print(doubts)
    print(counts)
    print(report_path.resolve())
    sys.stdout.flush()
    if error:
        folder.log(error.paragraph(most=10**9))
        print(f"error: {error}", file=sys.stderr)
    return status


def _shortfall(
    rows: pd.DataFrame, data: Prepared, lost: Sequence[tuple[str, str]], allow_partial: bool, report_path: Path
) -> PipelineError | None:
    """What is to be said, after the report is written, of values that do not stand on everything that was expected."""
    short = rows["status"].isin(["partial", "incomplete"]).sum()
    if not short and not data.dropped:
        return None
    faults = [Fault(entry.reason, f"{entry.set} {entry.utterance}") for entry in data.dropped]
    faults += [Fault(reason, name) for name, reason in lost]
    if allow_partial:
        return PartialResult(
            f"{short} of {len(rows)} results do not stand on everything that was expected; they are marked partial",
            where=str(report_path),
            faults=faults,
        )
    return DataError(
        f"{short} of {len(rows)} results do not stand on everything that was expected, and have no value; the others are written",
        where=str(report_path),
        cause="nothing could be extracted from some audio (below): too short, silent or unvoiced",
        remedy="mend or remove that audio, leave out the metric that needs it, or set allow_partial=true to leave it out, "
        "counted and marked; finished work is reused",
        faults=faults,
    )


def _say(data: Prepared) -> None:
    for note in data.notes:
        log.info("%s", note)


def _data(evaluation: Evaluation, device: Machine, training_alone: bool = False) -> tuple[Prepared, Outcome]:
    """The data set, with whatever has to be made for it; for verbs that make no run folder."""
    from pipeline import planning as plans

    with listening() as stop:
        tasks = [] if training_alone else plans.data_tasks(evaluation)
        outcome = execute(tasks, Store(evaluation.paths.store), stop)
    data = plans.prepared(evaluation, list(outcome.artefacts.values()), device, training_alone)
    _say(data)
    return data, outcome


def prepare(evaluation: Evaluation, values: dict[str, Any]) -> int:
    """Read and check the data set and print what it holds."""
    data, _ = _data(evaluation, Machine("cpu", _threads(evaluation)))  # without torch: it answers at once
    for (name, role), rows in data.manifest.groupby(["set", "role"], sort=True):
        minutes = (rows["samples"] / rows["sample_rate"]).sum() / 60
        print(f"{name}  {role}  {rows['speaker'].nunique()} speakers  {len(rows)} utterances  {minutes:.1f} min")
    for trials in data.trials.values():
        print(f"{trials.name}  trials  {trials.n_target} target  {trials.n_nontarget} non-target")
    return 0


def train(evaluation: Evaluation, values: dict[str, Any]) -> int:
    """Train the extractors whose source is ``trained``; prints the folder of the weights.

    With a training set of its own (``dataset.train``) it needs no data to evaluate.
    """
    from pipeline import planning as plans
    from pipeline.stages import train as training

    device = machine(evaluation)
    data, outcome = _data(evaluation, device, training_alone=bool(evaluation.dataset.train))
    tasks = plans.trainings(evaluation, data, device).tasks
    if not tasks:
        raise ConfigError(
            "no chosen extractor is trained",
            remedy="name a training set by dataset.train=DIR and choose ecapa, xvector or phones, e.g. 'extractor=[ecapa]' "
            "train=default",
        )
    with listening() as stop:
        execute(tasks, Store(evaluation.paths.store), stop, outcome)
    print(f"tasks: {outcome.reused} reused, {outcome.computed} computed")
    for task in (task for task in tasks if task.name == "train"):
        print(f"{task.label}: {training.summary(outcome.artefact(task.ref()))}")
        print(outcome.artefact(task.ref()).folder)
    return 0


def plan(evaluation: Evaluation, values: dict[str, Any]) -> int:
    """Print what a run would do, stage by stage; what stands on work not yet done counts as to compute."""
    from pipeline import planning as plans

    device = machine(evaluation)
    data, outcome = _data(evaluation, device)
    made = plans.graph(evaluation, data, device)
    states = standing(made.tasks, Store(evaluation.paths.store), outcome)
    counts = Counter((task.name, reused) for task, reused in states)
    for name in dict.fromkeys(task.name for task in made.tasks):
        print(f"{name}: {counts[(name, True)]} reused, {counts[(name, False)]} to compute")
    return 0


def validate(evaluation: Evaluation, values: dict[str, Any]) -> int:
    """The configuration has been checked when this is reached."""
    print(
        f"valid: dataset {evaluation.dataset.name}, systems {', '.join(evaluation.systems)}, "
        f"extractors {', '.join(evaluation.extractors)}, attackers {', '.join(evaluation.attackers)}"
    )
    return 0


def _run_folder(name: str) -> Path:
    path = Path(name).expanduser()
    if not (path / "results.parquet").is_file():
        raise ConfigError(
            f"'{name}' is no finished run: it has no results.parquet",
            remedy="name folders under paths.root/runs whose status.json says done",
        )
    return path.resolve()


def report(runs: Sequence[Path], evaluation: Evaluation, values: dict[str, Any]) -> int:
    """One report of one or more finished runs, beside the first of them."""
    from pipeline.report import render

    if not runs:
        raise ConfigError("report needs run folders", remedy="python -m pipeline report exp/runs/RUN [RUN ...]")
    name = "report.html" if len(runs) == 1 else "report-merged.html"
    print(render.render(list(runs), runs[0] / name).resolve())
    return 0


def compare(runs: Sequence[Path], evaluation: Evaluation, values: dict[str, Any]) -> int:
    """Numbers of two runs side by side where their signatures are equal."""
    from pipeline.report import comparison

    if len(runs) != 2:
        raise ConfigError(
            "compare needs two run folders", remedy="python -m pipeline compare exp/runs/RUN exp/runs/RUN"
        )
    print(comparison.to_text(*runs))
    return 0


def doctor(evaluation: Evaluation, values: dict[str, Any]) -> int:
    """Say what this machine has."""
    from pipeline.cli.examine import lines

    for line in lines(evaluation):
        print(line)
    return 0


def fetch_models(evaluation: Evaluation, values: dict[str, Any]) -> int:
    """Get the weights of the chosen extractors into ``paths.models``."""
    from pipeline.weights import fetch

    for label, settings in evaluation.extractors.items():
        found = fetch.fetch(settings.name, settings, evaluation.paths.weights)
        print(f"{label}: {found.folder if found else 'needs no weights'}")
    return 0
