"""Hydra: a command line or a list of overrides becomes a checked evaluation. No other room of the project knows Hydra."""

from __future__ import annotations

import contextlib
import difflib
import functools
import os
import re
import shlex
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.assets import assets as assets
from pipeline.cli import environment, given_scores, names, option_files, overrides
from pipeline.cli.overrides import GROUPS
from pipeline.cli.sweeps import Jobs
from pipeline.errors import ConfigError, DataError, PipelineError
from pipeline.evaluation import discovery
from pipeline.evaluation.validate import validate
from pipeline.stages.settings import Evaluation

_LOCK = threading.RLock()


def recipes() -> list[str]:
    """Names of the recipes that come with the project."""
    return sorted(path.parent.name for path in assets("recipes").glob("*/config.yaml"))


def compose(given: Sequence[str]) -> tuple[Evaluation, dict[str, Any]]:
    """The checked evaluation of some overrides, and the composed configuration as plain values; for use within Python.

    Raises:
        ConfigError: the overrides or the configuration are at fault; all faults at once.
    """
    from omegaconf import OmegaConf

    _refuse_flags(given)
    with _own_hydra():
        composed = _composed(given)
        values = _plain(OmegaConf.masked_copy(composed, [str(key) for key in composed if key != "hydra"]), given)
    choices = composed.hydra.runtime.choices
    values = _without_unchosen(given_scores.settled(values, given), given, str(choices.get("recipe")))
    return _validated(values, given, choices), values


def _composed(given: Sequence[str]) -> Any:
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir

    from pipeline.cli import trusted

    _store_recipes()
    _store_copies(given)
    folders = option_files.folders(given)
    changed = forced(overrides.readable([one for one in given if not one.startswith("-")]))
    if folders:
        # Hydra looks for this key as it stands: with a prefix it is not found. In quotes, a path may hold blanks and commas.
        changed.append(f"hydra.searchpath=[{','.join(overrides.quoted(f'file://{folder}') for folder in folders)}]")
    with (
        _composing(given, folders),
        trusted.checked(given),
        initialize_config_dir(str(assets("conf")), version_base="1.3"),
    ):
        return hydra_compose("config", changed, return_hydra_config=True)


@contextlib.contextmanager
def _own_hydra() -> Iterator[None]:
    """Hydra keeps one state for a process. While this lasts it is ours alone; afterwards it is as it was, for the program that calls us
    and may have been started by Hydra, and for other threads."""
    from hydra.core.config_store import ConfigStore
    from hydra.core.global_hydra import GlobalHydra
    from hydra.core.hydra_config import HydraConfig
    from hydra.core.plugins import Plugins
    from hydra.core.singleton import Singleton
    from hydra.version import VersionBase
    from omegaconf.basecontainer import BaseContainer

    with _LOCK:
        Plugins.instance()  # once for all: its plug-ins store their options when they are found
        store = ConfigStore.instance()
        options = store.repo
        instances, resolvers = dict(Singleton._instances), dict(BaseContainer._resolvers)
        store.repo = {name: node for name, node in options.items() if name in ("hydra", "_dummy_empty_config_.yaml")}
        for kind in (GlobalHydra, HydraConfig, VersionBase):
            Singleton._instances.pop(kind, None)
        try:
            yield
        finally:
            store.repo = options
            Singleton._instances, BaseContainer._resolvers = instances, resolvers


def _refuse_flags(given: Sequence[str]) -> None:
    flags = [one for one in given if one.startswith("-") and not one.startswith("--config-dir=")]
    if flags:
        raise ConfigError(
            f"within Python a flag of the command line has no meaning: {', '.join(flags)}",
            where="the overrides",
            remedy="leave it out; a sweep is a loop that calls evaluate once for each combination, and options of your own "
            'are found with "--config-dir=DIR"',
        )


@contextlib.contextmanager
def _composing(arguments: Sequence[str], folders: Sequence[Path]) -> Iterator[None]:
    """Composition by Hydra: what it raises, said to people."""
    import yaml
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    with environment.guarded() as guard:
        try:
            yield
        except PipelineError:
            raise
        except Exception as error:
            guard.stop(arguments, folders)
            kinds = (HydraException, OmegaConfBaseException, yaml.YAMLError, UnicodeDecodeError)
            if isinstance(error, kinds) or _is_of_composition(error):
                option_files.check(folders, " ".join(arguments), error)
                raise _composition_error(error, arguments, folders) from error
            raise


def _is_of_composition(error: BaseException) -> bool:
    """Whether an exception comes from Hydra's own reading of a configuration, which uses plain ValueErrors too."""
    trace = error.__traceback__
    name = ""
    while trace is not None:
        name = str(trace.tb_frame.f_globals.get("__name__", ""))
        trace = trace.tb_next
    return name.startswith(("hydra._internal.defaults_list", "hydra._internal.config_", "hydra.core.", "omegaconf."))


def _validated(
    values: dict[str, Any],
    arguments: Sequence[str],
    choices: Mapping[Any, Any],
    without_models: bool = False,
    without_data: bool = False,
) -> Evaluation:
    """The evaluation of a configuration; faults name the option file that they stand in."""
    options = {str(group): [str(choices[group])] for group in choices if choices[group] is not None}
    chosen = {**options, **overrides.chosen(arguments)}
    names.refuse(values)
    option_files.refuse_empty(arguments, chosen)
    recipe = str(choices.get("recipe") or "custom")
    try:
        try:
            return validate(values, recipe, without_models)
        except DataError:
            if not without_data:
                raise
            return validate(values, recipe, without_models, without_data)
    except ConfigError as error:
        raise option_files.located(error, arguments, chosen) from None


def enter(
    arguments: Sequence[str],
    action: Callable[[Evaluation, dict[str, Any]], int],
    without_models: bool = False,
    without_data: bool = False,
) -> int:
    """Compose the configuration of a command line and call ``action`` with it; under ``-m`` once for each combination.

    Args:
        arguments: Hydra flags and overrides.
        action: gets the checked evaluation and the composed configuration as plain values; gives the exit status.
        without_models: the action looks at data alone, so that no model or vector has to be there.
        without_data: where the folder of the data set is not what it should be, the action gets what can be told without it.

    Returns:
        The exit status; of a sweep the highest of its jobs.

    Raises:
        ConfigError: the command line or the configuration is at fault; all faults at once.
    """
    os.environ["HYDRA_FULL_ERROR"] = "1"
    import hydra

    from pipeline.cli import trusted

    folders = option_files.folders(arguments)
    read = overrides.readable(arguments)
    _store_recipes()
    _store_copies(arguments)
    _install_launchers()
    given = forced(option_files.absolute(read))
    jobs = Jobs(functools.partial(_act, action, tuple(arguments), without_models, without_data), given)
    before = sys.argv
    sys.argv = [before[0], *given]
    try:
        with _composing(arguments, folders), trusted.checked(arguments):
            hydra.main(config_path=str(assets("conf")), config_name="config", version_base="1.3")(jobs)()
    finally:
        sys.argv = before
        jobs.summarise()
    if jobs.error:
        raise jobs.error
    return jobs.status


def _install_launchers() -> None:
    try:
        from pipeline.cli import launchers
    except ImportError:  # the plugin comes with the extra `slurm`
        return
    launchers.install()


def _act(
    action: Callable[[Evaluation, dict[str, Any]], int],
    arguments: Sequence[str],
    without_models: bool,
    without_data: bool,
    composed: Any,
    recipe: str,
) -> int:
    from hydra.core.hydra_config import HydraConfig

    choices = HydraConfig.get().runtime.choices
    values = given_scores.settled(_plain(composed, arguments), arguments)
    values = _without_unchosen(values, arguments, str(choices.get("recipe")))
    return action(_validated(values, arguments, choices, without_models, without_data), values)


def _without_unchosen(values: dict[str, Any], arguments: Sequence[str], recipe: str) -> dict[str, Any]:
    """Without the fields that a recipe of the project sets of a component which the command line has replaced by others.

    ``extractor=[campplus]`` needs nothing of what the recipe says of ``ecapa``. A field that the command line itself sets stays, and is
    at fault where its component is not chosen.
    """
    from omegaconf import OmegaConf

    if recipe not in recipes():
        return values
    own: Any = OmegaConf.load(assets("recipes") / recipe / "config.yaml")
    kept = dict(values)
    # An option file of each group gives the field that is named here; what lacks it has the recipe's fields alone.
    for group, needed in {"extractor": "name", "backend": "name", "metric": "name", "attacker": "enrolment"}.items():
        entries = kept.get(group)
        if isinstance(entries, Mapping):
            spare = {
                label
                for label in own.get(group) or {}
                if isinstance(entries.get(label), Mapping)
                and needed not in entries[label]
                and not any(one.lstrip("+").startswith(f"{group}.{label}.") for one in arguments)
            }
            kept[group] = {label: entry for label, entry in entries.items() if label not in spare}
    return kept


def forced(arguments: Sequence[str]) -> list[str]:
    """Plain overrides of fields as ``++field=value``.

    Hydra stops at the first unknown key with a hint that invites ``+key``; forced in, all unknown keys reach the
    validation, which names them together with the nearest right ones.
    """
    changed = []
    for argument in arguments:
        key = argument.split("=", 1)[0]
        plain = "=" in argument and not argument.startswith(("+", "~", "-", "hydra", "'", '"'))
        changed.append(argument if not plain or overrides.is_group(key) else f"++{argument}")
    return changed


def _store_copies(arguments: Sequence[str]) -> None:
    """An option for each anonymised copy that a command line names by its suffix, ``system=found:_SUFFIX``."""
    from hydra.core.config_store import ConfigStore

    for name in overrides.chosen(arguments).get("system", ()):
        suffix = name.removeprefix(discovery.SEVERAL)
        if name.startswith(discovery.SEVERAL) and suffix:
            node = {discovery.label(suffix): {"name": discovery.NAME, "suffix": suffix}}
            ConfigStore.instance().store(group="system", name=name, node=node)


def _store_recipes() -> None:
    from hydra.core.config_store import ConfigStore
    from omegaconf import OmegaConf

    for name in recipes():
        node = OmegaConf.load(assets("recipes") / name / "config.yaml")
        ConfigStore.instance().store(group="recipe", name=name, node=node, package="_global_")


def _plain(composed: Any, arguments: Sequence[str]) -> dict[str, Any]:
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    with environment.guarded() as guard:
        try:
            plain = OmegaConf.to_container(composed, resolve=True)
        except OmegaConfBaseException as error:
            environment.ask_all(composed)
            guard.stop(arguments, option_files.folders(arguments))
            key = str(error.full_key or "")
            raise ConfigError(
                f"the configuration cannot be resolved: {_first_line(error)}",
                where=" in ".join(filter(None, [key, option_files.place(key, arguments)])),
                remedy="correct what stands between ${ and }: the name of another key, as `--cfg job` prints it",
            ) from error
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}


def _composition_error(error: Exception, arguments: Sequence[str], folders: Sequence[Path]) -> ConfigError:
    text = str(error)
    message = _first_line(error)
    for group in GROUPS:
        if f"'{group}/" in text:
            wanted = text.split(f"'{group}/")[1].split("'")[0]
            own = {one.name: one.path for one in option_files.found(folders) if one.group == group}
            if wanted in own:
                return ConfigError(
                    f"the option file cannot be composed: {message}",
                    where=str(own[wanted]),
                    remedy="correct its head: the package line and the defaults, as in conf/ or recipes/",
                )
            folder = assets("conf") / group
            known = recipes() if group == "recipe" else [path.stem for path in folder.glob("*.yaml")]
            known = sorted({*known, *own})
            near = difflib.get_close_matches(wanted, known, n=2)
            hint = f"did you mean {' or '.join(near)}? " if near else ""
            moved = option_files.misplaced(group, wanted, folders)
            return ConfigError(
                f"there is no option '{wanted}' in the group {group}",
                where=f"{group}={wanted}",
                cause="the file of this name lies elsewhere" if moved else "",
                remedy=moved or f"{hint}known: {', '.join(known)}; options of your own are found with --config-dir DIR",
            )
    launcher = re.search(r"'hydra/launcher/(submitit_\w+)'", text)
    if launcher:
        return ConfigError(
            f"hydra/launcher={launcher[1]} is not known here",
            where=_told(error, arguments) or f"hydra/launcher={launcher[1]}",
            cause="the plug-in that sends jobs to Slurm is not installed with this Python, or this is not its name: "
            "submitit_slurm or submitit_local",
            remedy=f"{shlex.quote(sys.executable)} -m pip install 'voice-privacy-pipeline[slurm]'",
        )
    return ConfigError(
        f"the configuration cannot be composed: {message}",
        where=_told(error, arguments),
        remedy="voice-privacy --help shows how overrides are written, conf/README.md what there is",
    )


def _told(error: Exception, arguments: Sequence[str]) -> str:
    """The overrides that a message of Hydra speaks of."""
    text = str(error)
    return ", ".join(
        one for one in arguments if "=" in one and (one in text or one.partition("=")[0].lstrip("+~") in text)
    )


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
