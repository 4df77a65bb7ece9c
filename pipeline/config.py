"""Hydra and the validated settings; nothing else of the project knows Hydra.

``compose`` turns a command line into a checked :class:`pipeline.planning.Evaluation`: Hydra composes, then each part is checked
by the pydantic model declared beside its component. Every fault is reported at once, with the nearest key for a misspelt one.
"""

from __future__ import annotations

import difflib
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from pipeline.errors import ConfigError, Fault, PipelineError
from pipeline.planning import AttackerSettings, Calibration, Evaluation, Paths, Runtime
from pipeline.registry import ComponentSettings, Kind, component, numeric, runtime

log = logging.getLogger(__name__)

LISTS: dict[str, Kind] = {
    "system": "anonymisers",
    "extractor": "extractors",
    "backend": "backends",
    "metric": "families",
}
GROUPS = ("dataset", "train", "executor", "system", "extractor", "attacker", "backend", "metric", "recipe")


class Executor(ComponentSettings):
    """How tasks are run: ``local`` runs them in turn in this process."""

    name: Literal["local"] = runtime("local")


class _NoTraining(ComponentSettings):
    name: Literal["none"] = numeric("none")


def assets(kind: str) -> Path:
    """The folder ``conf``, ``recipes`` or ``data_manifests``: in the wheel beside this file, else in the clone."""
    here = Path(__file__).resolve().parent
    packed = here / "_assets" / kind
    return packed if packed.is_dir() else here.parent / kind


def recipes() -> list[str]:
    """Names of the recipes that come with the project."""
    return sorted(path.parent.name for path in assets("recipes").glob("*/config.yaml"))


def enter(arguments: Sequence[str], action: Callable[[Evaluation, dict[str, Any]], None]) -> None:
    """Compose the configuration of a command line and call ``action`` with it; under ``-m`` once for each combination.

    Args:
        arguments: Hydra flags and overrides.
        action: gets the checked evaluation and the composed configuration as plain values.

    Raises:
        ConfigError: the command line or the configuration is at fault; all faults at once.
    """
    os.environ["HYDRA_FULL_ERROR"] = "1"
    import hydra
    from hydra.core.config_store import ConfigStore
    from hydra.core.hydra_config import HydraConfig
    from hydra.errors import HydraException
    from omegaconf import DictConfig, OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    for name in recipes():
        node = OmegaConf.load(assets("recipes") / name / "config.yaml")
        ConfigStore.instance().store(group="recipe", name=name, node=node, package="_global_")

    here = os.getpid()
    errors: list[BaseException] = []
    ran: list[str] = []

    def app(composed: DictConfig) -> None:
        ran.append("here")
        try:
            try:
                plain = OmegaConf.to_container(composed, resolve=True)
            except OmegaConfBaseException as error:
                raise ConfigError(f"the configuration cannot be resolved: {_first_line(error)}") from error
            assert isinstance(plain, dict)
            values = {str(key): value for key, value in plain.items()}
            recipe = str(HydraConfig.get().runtime.choices.get("recipe") or "custom")
            action(validate(values, recipe), values)
        except Exception as error:
            # In this process the errors of a sweep are kept, so that its other jobs still run and Hydra adds no words
            # of its own; a job on another node has only the exception to tell that it failed.
            if os.getpid() != here:
                raise
            if errors:
                print(f"error: {error}", file=sys.stderr)
            errors.append(error)

    before = sys.argv
    sys.argv = [before[0], *forced(arguments)]
    try:
        hydra.main(config_path=str(assets("conf")), config_name="config", version_base="1.3")(app)()
    except PipelineError:
        raise
    except (HydraException, OmegaConfBaseException) as error:
        raise _composition_error(error) from error
    finally:
        sys.argv = before
    if errors:
        raise errors[0]
    if not ran and any(argument in ("-m", "--multirun") for argument in arguments):
        log.info(
            "the jobs ran in processes of their own: run folders are in paths.root/runs, output in paths.root/sweeps"
        )


def forced(arguments: Sequence[str]) -> list[str]:
    """Plain overrides of fields as ``++field=value``.

    Hydra stops at the first unknown key with a hint that invites ``+key``; forced in, all unknown keys reach the
    validation, which names them together with the nearest right ones.
    """
    changed = []
    for argument in arguments:
        key = argument.split("=", 1)[0]
        plain = "=" in argument and not argument.startswith(("+", "~", "-", "hydra", "'", '"'))
        is_group = key.split("@")[0].split("/")[0] in GROUPS and "." not in key
        changed.append(argument if not plain or is_group else f"++{argument}")
    return changed


def _composition_error(error: Exception) -> ConfigError:
    text = str(error)
    message = _first_line(error)
    for group in GROUPS:
        if f"'{group}/" in text:
            wanted = text.split(f"'{group}/")[1].split("'")[0]
            folder = assets("conf") / group
            known = recipes() if group == "recipe" else sorted(path.stem for path in folder.glob("*.yaml"))
            near = difflib.get_close_matches(wanted, known, n=2)
            hint = f"did you mean {' or '.join(near)}? " if near else ""
            return ConfigError(
                f"there is no option '{wanted}' in the group {group}",
                where=f"{group}={wanted}",
                remedy=f"{hint}known: {', '.join(known)}; options of your own are found with --config-dir DIR",
            )
    return ConfigError(f"the configuration cannot be composed: {message}", remedy="see python -m pipeline --help")


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def validate(values: Mapping[str, Any], recipe: str) -> Evaluation:
    """Check a composed configuration and make the evaluation of it.

    Raises:
        ConfigError: with every fault of the configuration.
    """
    from pipeline.datasets.settings import DatasetSettings

    faults: list[Fault] = []
    known = {
        "config_version", "paths", "runtime", "calibration", "diagnostics", "allow_partial", "dataset", "train", "executor",
        "system", "extractor", "attacker", "backend", "metric",
    }  # fmt: skip
    for name in sorted(set(values) - known):
        faults.append(_unknown(name, "", sorted(known)))
    if values.get("config_version") != 1:
        faults.append(
            Fault(f"config_version is {values.get('config_version')!r}; this version reads 1", "config_version")
        )
    for name in ("diagnostics", "allow_partial"):
        if not isinstance(values.get(name), bool):
            faults.append(Fault("must be true or false", name))

    paths = _part(Paths, values.get("paths"), "paths", faults)
    run = _part(Runtime, values.get("runtime"), "runtime", faults)
    calibration = _part(Calibration, values.get("calibration"), "calibration", faults)
    dataset = _part(DatasetSettings, values.get("dataset"), "dataset", faults)
    _part(Executor, values.get("executor"), "executor", faults)
    train = _training(values.get("train"), faults)
    lists = {group: _several(group, kind, values.get(group), faults) for group, kind in LISTS.items()}
    attackers: dict[str, Any] = {}
    for label, entry in _entries("attacker", values.get("attacker"), faults).items():
        attackers[label] = _part(AttackerSettings, entry, f"attacker.{label}", faults)
    if not faults:
        lists["system"] = _with_original(lists["system"])
        lists["extractor"] = _with_sources(lists["extractor"], train, dataset)
        faults.extend(_across(lists, train, attackers))
    if faults:
        raise ConfigError(
            f"the configuration has {len(faults)} fault{'s' if len(faults) > 1 else ''}",
            remedy="see `python -m pipeline --cfg job` for all keys",
            faults=faults,
        )
    assert isinstance(paths, Paths)
    assert isinstance(run, Runtime)
    assert isinstance(calibration, Calibration)
    assert isinstance(dataset, DatasetSettings)
    return Evaluation(
        recipe=recipe,
        paths=paths,
        runtime=run,
        calibration=calibration,
        dataset=dataset,
        train=train if train is not None and not isinstance(train, _NoTraining) else None,
        systems=lists["system"],
        extractors=lists["extractor"],
        attackers=attackers,
        backends=lists["backend"],
        metrics=lists["metric"],
        diagnostics=bool(values["diagnostics"]),
        allow_partial=bool(values["allow_partial"]),
    )


def _part(model: type[BaseModel], value: Any, where: str, faults: list[Fault]) -> Any:
    """One part checked by its model; None and the faults if it does not pass."""
    if value is None:
        value = {}
    try:
        return model.model_validate(value)
    except ValidationError as error:
        for entry in error.errors():
            place = ".".join([where, *(str(part) for part in entry["loc"])])
            if entry["type"] == "extra_forbidden":
                faults.append(_unknown(str(entry["loc"][-1]), where, _fields(model, entry["loc"][:-1])))
            else:
                faults.append(Fault(f"{entry['msg']} (given: {entry.get('input')!r})", place))
        return None


def _fields(model: type[BaseModel], location: Sequence[int | str]) -> list[str]:
    for name in location:
        field = model.model_fields.get(str(name))
        inner = field.annotation if field is not None else None
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            model = inner
    return sorted(model.model_fields)


def _unknown(name: str, where: str, known: Sequence[str]) -> Fault:
    near = difflib.get_close_matches(name, known, n=2, cutoff=0.5)
    hint = f"; did you mean {' or '.join(near)}?" if near else f"; known: {', '.join(known)}"
    return Fault(f"unknown key{hint}", f"{where}.{name}" if where else name)


def _entries(group: str, value: Any, faults: list[Fault]) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not value:
        faults.append(Fault(f"no {group} is chosen", group))
        return {}
    return {str(label): entry for label, entry in value.items()}


def _several(group: str, kind: Kind, value: Any, faults: list[Fault]) -> dict[str, Any]:
    chosen: dict[str, Any] = {}
    labels = _entries(group, value, faults)
    for label, entry in labels.items():
        where = f"{group}.{label}"
        if not isinstance(entry, Mapping) or "name" not in entry:
            others = [other for other in labels if other != label]
            near = difflib.get_close_matches(label, others, n=1)
            hint = f"did you mean {group}.{near[0]}? " if near else ""
            faults.append(Fault(f"no {group} of this label is chosen: {hint}chosen are {', '.join(others)}", where))
            continue
        try:
            settings = component(kind, str(entry["name"])).Settings
        except ConfigError as error:
            faults.append(Fault(f"{error.what}; {error.remedy}", f"{where}.name"))
            continue
        chosen[label] = _part(settings, entry, where, faults)
    return chosen


def _training(value: Any, faults: list[Fault]) -> Any:
    if isinstance(value, Mapping) and value.get("name") not in (None, "none"):
        try:
            settings = component("trainers", str(value["name"])).Settings
        except ConfigError as error:
            faults.append(Fault(f"{error.what}; {error.remedy}", "train.name"))
            return None
        return _part(settings, value, "train", faults)
    return _part(_NoTraining, value, "train", faults)


def _with_original(systems: dict[str, Any]) -> dict[str, Any]:
    """The systems with the original speech first: every metric refers to it, so ``system=b2`` evaluates both."""
    if any(system.name == "original" for system in systems.values()):
        return systems
    if "original" in systems:
        raise ConfigError("the label 'original' is that of the original speech", where="system.original")
    return {"original": component("anonymisers", "original").Settings(name="original"), **systems}


def _with_sources(extractors: dict[str, Any], train: Any, dataset: Any) -> dict[str, Any]:
    """The extractors with ``source: auto`` decided: trained in the run where there is a trainer and speech to train on, else
    the weights that are the component's default."""
    speech = bool(dataset.train) or (dataset.name == "synthetic" and dataset.train_speakers > 0)
    decided = dict(extractors)
    for label, settings in extractors.items():
        if getattr(settings, "source", "") == "auto":
            usual = type(settings).model_fields["source"].default
            trained = speech and not isinstance(train, _NoTraining)
            decided[label] = settings.model_copy(update={"source": "trained" if trained else usual})
    return decided


def _across(lists: Mapping[str, Mapping[str, Any]], train: Any, attackers: Mapping[str, Any]) -> list[Fault]:
    """Faults that no part shows alone."""
    faults: list[Fault] = []
    if not isinstance(train, _NoTraining):
        return faults
    for label, extractor in lists["extractor"].items():
        if getattr(extractor, "source", "") == "trained" and getattr(extractor, "training", None) is None:
            faults.append(Fault("source=trained needs a trainer: add train=default", f"extractor.{label}.source"))
    for label, attacker in attackers.items():
        if attacker.training == "anonymised":
            faults.append(Fault("training=anonymised needs a trainer: add train=default", f"attacker.{label}.training"))
    return faults
