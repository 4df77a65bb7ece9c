"""Hydra: a command line or a list of overrides becomes a checked evaluation. Only sweeps know Hydra beside it."""

from __future__ import annotations

import difflib
import functools
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pipeline.cli.sweeps import Jobs
from pipeline.errors import ConfigError, PipelineError
from pipeline.evaluation.validate import validate
from pipeline.planning.settings import Evaluation

GROUPS = ("dataset", "train", "executor", "system", "extractor", "attacker", "backend", "metric", "recipe")


def assets(kind: str) -> Path:
    """The folder ``conf``, ``recipes`` or ``data_manifests``: in the wheel within the package, else in the clone."""
    package = Path(__file__).resolve().parent.parent
    packed = package / "_assets" / kind
    return packed if packed.is_dir() else package.parent / kind


def recipes() -> list[str]:
    """Names of the recipes that come with the project."""
    return sorted(path.parent.name for path in assets("recipes").glob("*/config.yaml"))


def compose(overrides: Sequence[str]) -> tuple[Evaluation, dict[str, Any]]:
    """The checked evaluation of some overrides, and the composed configuration as plain values; for use within Python.

    Raises:
        ConfigError: the overrides or the configuration are at fault; all faults at once.
    """
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    _store_recipes()
    changed, folders = forced([one for one in overrides if not one.startswith("-")]), _config_dirs(overrides)
    if folders:
        # Hydra looks for this key as it stands: with a prefix it is not found. In quotes, a path may hold blanks and commas.
        quoted = ["'file://" + str(folder).replace("'", r"\'") + "'" for folder in folders]
        changed.append(f"hydra.searchpath=[{','.join(quoted)}]")
    try:
        with initialize_config_dir(str(assets("conf")), version_base="1.3"):
            composed = hydra_compose("config", changed, return_hydra_config=True)
    except (HydraException, OmegaConfBaseException) as error:
        raise _composition_error(error) from error
    recipe = str(composed.hydra.runtime.choices.get("recipe") or "custom")
    values = _plain(OmegaConf.masked_copy(composed, [str(key) for key in composed if key != "hydra"]))
    return validate(values, recipe), values


def enter(arguments: Sequence[str], action: Callable[[Evaluation, dict[str, Any]], int]) -> int:
    """Compose the configuration of a command line and call ``action`` with it; under ``-m`` once for each combination.

    Args:
        arguments: Hydra flags and overrides.
        action: gets the checked evaluation and the composed configuration as plain values; gives the exit status.

    Returns:
        The exit status; of a sweep the highest of its jobs.

    Raises:
        ConfigError: the command line or the configuration is at fault; all faults at once.
    """
    os.environ["HYDRA_FULL_ERROR"] = "1"
    import hydra
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    _store_recipes()
    _install_launchers()
    given = forced(arguments)
    jobs = Jobs(functools.partial(_act, action), given)
    before = sys.argv
    sys.argv = [before[0], *given]
    try:
        hydra.main(config_path=str(assets("conf")), config_name="config", version_base="1.3")(jobs)()
    except PipelineError:
        raise
    except (HydraException, OmegaConfBaseException) as error:
        raise _composition_error(error) from error
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


def _act(action: Callable[[Evaluation, dict[str, Any]], int], composed: Any, recipe: str) -> int:
    values = _plain(composed)
    return action(validate(values, recipe), values)


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


def _store_recipes() -> None:
    from hydra.core.config_store import ConfigStore
    from omegaconf import OmegaConf

    for name in recipes():
        node = OmegaConf.load(assets("recipes") / name / "config.yaml")
        ConfigStore.instance().store(group="recipe", name=name, node=node, package="_global_")


def _config_dirs(overrides: Sequence[str]) -> list[Path]:
    """Folders given as ``--config-dir=DIR``."""
    return [Path(one.partition("=")[2]).expanduser().absolute() for one in overrides if one.startswith("--config-dir=")]


def _plain(composed: Any) -> dict[str, Any]:
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        plain = OmegaConf.to_container(composed, resolve=True)
    except OmegaConfBaseException as error:
        raise ConfigError(f"the configuration cannot be resolved: {_first_line(error)}") from error
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}


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
