"""Which stages get a new key when a setting changes: ``python -m tests.key_table > tests/key_table.csv`` after looking at the difference.

Each leaf of the validated configuration is changed in turn; the graph is planned over a made-up manifest, and the keys of
each stage are compared.
"""

from __future__ import annotations

import copy
import functools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args, get_origin

import pandas as pd
import pytest

from pipeline.cli import compose
from pipeline.contracts import ComponentSettings, Weights
from pipeline.datasets.prepare import Prepared
from pipeline.engine.task import Task
from pipeline.errors import ConfigError
from pipeline.evaluation.assemble import assemble_graph
from pipeline.evaluation.validate import validate
from pipeline.protocol import trials
from pipeline.registry import component
from pipeline.seeds import digest
from pipeline.stages.graph import SpeechKey
from pipeline.stages.settings import Evaluation, Machine
from pipeline.stages.speech.plan import data_tasks

ARGUMENTS = [
    "recipe=demo", "system=[original,b2r]", "extractor=[ecapa,campplus,f0,phones]", "backend=[cosine,plda]", "fusion=[equal]",
    "+system.t8={name: external, root: /theirs}", "paths.root=/exp",
]  # fmt: skip
# Values by name or by whole path, for leaves whose type does not suggest one, or that depend on another leaf.
OTHER: dict[str, Any] = {
    "report.baseline": "original",
    "alpha": 0.75, "alpha_range": [0.6, 0.9], "sets": ["other"], "audio_root": "/elsewhere", "models": "/models",
    "suffix": "_t9", "device": "cuda", "threads": 3, "source": "/weights", "eer": ["kaldi"], "root": "/other",
    "channels": [24, 24, 24, 24], "fmin": 80.0, "frame": 512, "data": "/data2", "halves_seed": 5, "window_ms": 25.0, "hop_ms": 8.0,
    "beta_parameters": [2.0, 20.0], "segment_seconds": 1.0, "batch_seconds": 60.0,
    "extractor.phones.training.channels": 24, "extractor.phones.training.n_mels": 64,
}  # fmt: skip


def composed() -> dict[str, Any]:
    return compose.compose(ARGUMENTS)[1]


def parts(evaluation: Evaluation) -> dict[str, ComponentSettings]:
    """Every settings object by its path in the configuration."""
    found: dict[str, ComponentSettings] = {
        "paths": evaluation.paths,
        "runtime": evaluation.execution.runtime,
        "store": evaluation.execution.store,
        "dataset": evaluation.dataset,
        "report": evaluation.products.report,
    }
    if evaluation.train is not None:
        found["train"] = evaluation.train.settings
    for group, several in {"system": evaluation.systems, "extractor": evaluation.extractors}.items():
        found.update({f"{group}.{label}": chosen.settings for label, chosen in several.items()})
    found.update({f"attacker.{label}": settings for label, settings in evaluation.attackers.items()})
    for group, several in {"backend": evaluation.backends, "metric": evaluation.metrics}.items():
        found.update({f"{group}.{label}": chosen.settings for label, chosen in several.items()})
    for path, settings in list(found.items()):
        nested = {name: getattr(settings, name) for name in type(settings).model_fields}
        found.update({f"{path}.{name}": one for name, one in nested.items() if isinstance(one, ComponentSettings)})
    return found


def leaves(evaluation: Evaluation) -> Iterator[tuple[str, Any]]:
    """Path and another value of each leaf that can have one."""
    for path, settings in parts(evaluation).items():
        for name, field in type(settings).model_fields.items():
            value = getattr(settings, name)
            other = OTHER.get(f"{path}.{name}", _other(name, value, field.annotation))
            if other is not None:
                yield f"{path}.{name}", other
    yield "diagnostics", False
    yield "allow_partial", True
    yield "fail_fast", True
    yield "fusion", ["logistic"]


def _other(name: str, value: Any, kind: Any) -> Any:
    if name in OTHER:
        return OTHER[name]
    choices = [choice for choice in get_args(kind) if isinstance(choice, str)] if get_origin(kind) is not None else []
    if choices:
        return next((choice for choice in choices if choice != value), None)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value * 0.9 if value else 0.1
    return f"{value}x" if isinstance(value, str) else None


def prepared(trial_sets: str = "fm") -> Prepared:
    """A made-up data set: an enrolment set, a trial set a sex, a training set, audio of three lengths."""
    rows = []
    for set_name, role, speakers in (
        ("x_enrolls", "enrolment", "abcd"), ("x_trials_f", "trial", "ab"), ("x_trials_m", "trial", "cd"), ("x_train", "train", "ef"),
    ):  # fmt: skip
        for speaker in speakers:
            for number in range(3):
                name = f"{speaker}-{set_name}-{number}"
                rows.append((name, speaker, "f" if speaker in "abe" else "m", set_name, role, f"/audio/{name}.wav", 16000,
                             16000 * 2**number + 100, digest(name), number))  # fmt: skip
    columns = ["utterance", "speaker", "sex", "set", "role", "path", "sample_rate", "samples", "sha256", "position"]
    manifest = pd.DataFrame(rows, columns=columns)
    sets = {}
    for name, speakers in (("x_trials_f", "ab"), ("x_trials_m", "cd")):
        enrolled = [
            (s, u)
            for s in speakers
            for u in manifest[(manifest["set"] == "x_enrolls") & (manifest["speaker"] == s)]["utterance"]
        ]
        tried = [(m, f"{s}-{name}-{n}", m == s) for m in speakers for s in speakers for n in range(3)]
        if name[-1] in trial_sets:
            sets[name] = trials.make_trial_set(name, "x_enrolls", enrolled, tried, len(tried))
    theirs = manifest.assign(sha256=[digest("t8", one) for one in manifest["sha256"]])
    copies = {
        key: theirs[(theirs["role"] == "train") == (key.part == "training")].reset_index(drop=True)
        for key in (SpeechKey("t8"), SpeechKey("t8", "training"))
    }
    return Prepared("made-up", manifest, sets, copies, (), ())


def planned(values: dict[str, Any]) -> list[Task]:
    """All tasks of a composed configuration over the made-up data set, with one recording a training speaker."""
    evaluation, data = validate(values, "demo"), prepared("f")
    rows = data.manifest
    one_each = (rows["role"] != "train") | (rows["position"] == 0)
    object.__setattr__(data, "manifest", rows[one_each].reset_index(drop=True))
    graph = assemble_graph(evaluation, data, Machine("cpu", 1))
    return [*data_tasks(evaluation), *graph.tasks]


def tasks() -> list[Task]:
    """All tasks of the table's configuration."""
    with made_up_weights():
        return planned(composed())


@contextmanager
def made_up_weights() -> Iterator[None]:
    """No weights are looked for on this machine."""
    with pytest.MonkeyPatch.context() as patch:
        found = Weights(Path("/weights"), "digest of the weights")
        for name in ("ge2e", "ecapa", "campplus"):
            patch.setattr(component("extractors", name), "weights", classmethod(lambda cls, settings, models: found))
        yield


def keys(values: dict[str, Any]) -> dict[str, set[str]]:
    """Keys by stage."""
    found: dict[str, set[str]] = {}
    for task in planned(values):
        found.setdefault(task.name, set()).update(task.planned.values())
    return found


@functools.cache
def table() -> dict[str, str]:
    """Leaf to the stages whose keys change with it, joined by a blank; '-' for none."""
    with made_up_weights():
        values = composed()
        before = keys(values)
        found = {}
        for leaf, other in leaves(validate(values, "demo")):
            changed = copy.deepcopy(values)
            *path, last = leaf.split(".")
            place = changed
            for name in path:
                place = place.setdefault(name, {})
            place[last] = other
            if leaf.startswith("system.") and last == "level" and "t8" not in path:
                place.update({"alpha": None, "alpha_range": [0.7, 0.9]} if other != "fixed" else {"alpha_range": None})
            if leaf in ("extractor.ecapa.source", "extractor.phones.source", "backend.plda.source"):
                found[leaf] = "-"  # a folder instead of training changes the graph, not a key
                continue
            try:
                after = keys(changed)
            except ConfigError:
                found[leaf] = "refused"  # it contradicts another leaf
                continue
            stages = [stage for stage in before if before[stage] != after.get(stage)]
            found[leaf] = " ".join(stages) or "-"
    return found


if __name__ == "__main__":
    sys.stdout.write("setting,stages\n")
    sys.stdout.writelines(f"{leaf},{stages}\n" for leaf, stages in table().items())
