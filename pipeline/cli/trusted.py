"""What of Hydra a configuration may set: folders, the launcher's amounts, nothing that is called.

Hydra calls what its own part of a configuration names: callbacks, factories of logging, launchers, sweepers. Option files are passed
from hand to hand, so each composition is looked at before Hydra acts on it: of the first one, and of every job of a sweep. What comes
of groups, packages, defaults lists, interpolations and overrides is then one value, whoever wrote it.
This module is imported only where Hydra is used.
"""

from __future__ import annotations

import contextlib
import functools
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hydra._internal import hydra as entry
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from omegaconf import DictConfig, OmegaConf
from omegaconf import _utils as omegaconf_utils
from omegaconf.errors import OmegaConfBaseException

from pipeline.cli import option_files, overrides
from pipeline.errors import ConfigError, Fault
from pipeline.files import find_assets
from pipeline.tables.bounds import bounded

SUBMITIT = "hydra_plugins.hydra_submitit_launcher.submitit_launcher"
LAUNCHERS = {
    "basic": "hydra._internal.core_plugins.basic_launcher.BasicLauncher",
    "submitit_local": f"{SUBMITIT}.LocalLauncher",
    "submitit_slurm": f"{SUBMITIT}.SlurmLauncher",
    "joblib": "hydra_plugins.hydra_joblib_launcher.joblib_launcher.JoblibLauncher",
}
SWEEPER = "hydra._internal.core_plugins.basic_sweeper.BasicSweeper"
_SILENT = {"version": 1, "root": None, "disable_existing_loggers": False}
FIXED: dict[str, Any] = {
    "callbacks": {}, "env": {}, "job_logging": _SILENT, "hydra_logging": _SILENT, "output_subdir": None,
    "job.env_set": {}, "job.env_copy": [],
}  # fmt: skip
"""What stands as ``conf/config.yaml`` has it."""
FREE = frozenset(
    ("run", "sweep", "mode", "verbose", "searchpath", "help", "hydra_help", "overrides", "runtime", "job", "launcher", "sweeper")
)  # fmt: skip
"""What is text or number to Hydra; the last three are looked at one by one."""
AMOUNTS = frozenset(
    ("timeout_min", "cpus_per_task", "gpus_per_node", "tasks_per_node", "mem_gb", "nodes", "name",
     "stderr_to_stdout", "partition", "qos", "comment", "constraint", "exclude", "gres", "cpus_per_gpu", "gpus_per_task",
     "mem_per_gpu", "mem_per_cpu", "account", "signal_delay_s", "max_num_timeout", "array_parallelism",
     "n_jobs", "prefer", "require", "verbose", "timeout", "batch_size", "max_nbytes", "mmap_mode")
)  # fmt: skip
"""What a file may set of a launcher. The rest is shell lines, arguments of commands, and folders from which pickles are read: one's own
command line may give those."""
DEFAULTS = {"pre_dispatch": "2*n_jobs", "submitit_folder": "${hydra.sweep.dir}/.submitit/%j"}
OWN = ("paths", "store.verify", "hydra.run.dir", "hydra.sweep.dir", "hydra.sweep.subdir")
"""What only the command line and the environment may set. Libraries unpickle what lies in ``paths.cache``, and whoever chooses a folder
chooses what is read from it."""
MAY = "hydra.job.name, hydra.verbose, hydra/launcher and hydra.launcher.*"


class Loader(ConfigLoaderImpl):
    """Hydra's composition, whose outcome is refused if it names code. It goes to the jobs of a sweep, which compose anew.

    Args:
        arguments: of the command line, as they were given.
    """

    def __init__(self, arguments: tuple[str, ...], config_search_path: Any) -> None:
        super().__init__(config_search_path)
        self.arguments = arguments

    def load_configuration(self, *given: Any, **named: Any) -> DictConfig:
        """See Hydra's.

        Raises:
            ConfigError: the configuration names code, or sets of Hydra what it may not.
        """
        composed = super().load_configuration(*given, **named)
        check(composed, self.arguments)
        return composed

    def _process_config_searchpath(self, config_name: str | None, parsed_overrides: list[Any], repo: Any) -> None:
        # Before Hydra looks there: for a package it imports it.
        loaded = repo.load_config(config_path=config_name) if config_name is not None else None
        paths = [one.value() for one in parsed_overrides if one.get_key_element() == "hydra.searchpath"]
        if loaded is not None and OmegaConf.is_dict(loaded.config):
            paths.append(OmegaConf.select(loaded.config, "hydra.searchpath"))
        for path in (str(part) for one in paths for part in ([one] if isinstance(one, str) else one or [])):
            if "://" in path and not path.startswith("file://"):
                _stop([_fault("hydra.searchpath", f"names a package, {path}", self.arguments)])
        super()._process_config_searchpath(config_name, parsed_overrides, repo)


@contextlib.contextmanager
def checked(arguments: Sequence[str]) -> Iterator[None]:
    """While this lasts, Hydra composes by :class:`Loader`, from YAML that does not unpack without end.

    Raises:
        ConfigError: the command line asks Hydra to read a pickle.
    """
    for one in arguments:
        flag = one.partition("=")[0]
        if len(flag) > 3 and "--experimental-rerun".startswith(flag):
            raise ConfigError(
                "a run is not repeated from a pickle: reading one runs whatever it holds",
                where=one,
                remedy="give the command line of that run, which its run.json holds; finished tasks are reused",
            )
    composes, reads = entry.ConfigLoaderImpl, omegaconf_utils.get_yaml_loader  # type: ignore[attr-defined]
    setattr(entry, "ConfigLoaderImpl", functools.partial(Loader, tuple(arguments)))  # noqa: B010
    omegaconf_utils.get_yaml_loader = lambda: bounded(reads())
    try:
        yield
    finally:
        setattr(entry, "ConfigLoaderImpl", composes)  # noqa: B010
        omegaconf_utils.get_yaml_loader = reads


def check(composed: DictConfig, arguments: Sequence[str]) -> None:
    """Refuse a composed configuration of which Hydra would call more than its own launcher and sweeper.

    Args:
        composed: with Hydra's node.
        arguments: of the command line: what it says itself of a launcher is one's own.

    Raises:
        ConfigError: each key, with the override or the file and line that sets it.
    """
    plain = OmegaConf.to_container(composed.hydra, resolve=False)
    assert isinstance(plain, dict)
    raw: dict[str, Any] = {str(key): value for key, value in plain.items()}
    faults = [
        _fault(f"hydra.{key}", "is not for a configuration", arguments) for key in raw if key not in {*FREE, *FIXED}
    ]
    for name, right in FIXED.items():
        found: Any = raw
        for part in name.split("."):
            found = found.get(part, right) if isinstance(found, dict) else found
        what = (
            "names code that Hydra would call" if name in ("callbacks", "job_logging", "hydra_logging") else "is fixed"
        )
        faults += [_fault(key, what, arguments) for key in _changed(f"hydra.{name}", found, right)]
    faults += _of_launcher(composed, raw, arguments)
    faults += _of_commands(composed, arguments)
    faults += _of_folders(composed, arguments)
    _stop(faults)


def _changed(name: str, found: Any, right: Any) -> list[str]:
    """The keys of a node that are not as they must be."""
    if found == right:
        return []
    if not isinstance(found, dict) or not isinstance(right, dict):
        return [name]
    return [f"{name}.{key}" for key in found if key not in right or found[key] != right[key]] or [name]


def _of_launcher(composed: DictConfig, raw: Mapping[str, Any], arguments: Sequence[str]) -> list[Fault]:
    faults = []
    sweeper, launcher = raw["sweeper"], raw["launcher"]
    if not isinstance(sweeper, dict) or sweeper.get("_target_") != SWEEPER:
        faults.append(_fault("hydra.sweeper._target_", "is no sweeper of this project", arguments))
    elif set(sweeper) - {"_target_", "max_batch_size", "params"} or _called(sweeper.get("params")):
        faults.append(_fault("hydra.sweeper.params", "is no list of values", arguments))
    if not isinstance(launcher, dict) or launcher.get("_target_") not in LAUNCHERS.values():
        known = ", ".join(LAUNCHERS)
        return [*faults, _fault("hydra.launcher._target_", f"is no launcher of Hydra's own: {known}", arguments)]
    resolved = OmegaConf.to_container(composed.hydra.launcher, resolve=True)
    assert isinstance(resolved, dict)
    for key, value in ((str(name), each) for name, each in resolved.items()):
        if key == "_target_":
            continue
        own = any(overrides.Override(*one.partition("=")[::2]).name == f"hydra.launcher.{key}" for one in arguments)
        if key.startswith("_") or _called(value):
            faults.append(_fault(f"hydra.launcher.{key}", "names code that Hydra would call", arguments))
        elif own or value in (None, {}, []) or launcher[key] == DEFAULTS.get(key):
            continue
        elif key not in AMOUNTS:
            what = (
                "is read by unpickling" if key in ("submitit_folder", "temp_folder") else "is run by the shell of a job"
            )
            said = f"{what}; if it is yours, give it on the command line: {_as_override(key, value)}"
            faults.append(_fault(f"hydra.launcher.{key}", said, arguments))
        elif any(not character.isprintable() for character in str(value)):
            faults.append(_fault(f"hydra.launcher.{key}", "holds a line break or a control character", arguments))
    return faults


def _of_commands(composed: DictConfig, arguments: Sequence[str]) -> list[Fault]:
    """Systems whose program a file names: a run would start it, so one's own command line has to say it."""
    try:
        systems = OmegaConf.to_container(composed.get("system") or OmegaConf.create({}), resolve=True)
    except (OmegaConfBaseException, ConfigError):
        return []  # What cannot be resolved ends the composition, with all such keys at once.
    found = []
    for label, settings in systems.items() if isinstance(systems, dict) else ():
        command = settings.get("command") if isinstance(settings, dict) else None
        if command is None or command in overrides.given(f"system.{label!s}.command", arguments):
            continue
        key = f"system.{label!s}.command"
        override = shlex.quote(f"++{key}={overrides.quoted(f'{command!s}')}")
        found.append(
            _fault(
                key,
                f"is a program that the run would start; if it is yours, give it on the command line: {override}",
                arguments,
            )
        )
    return found


def _of_folders(composed: DictConfig, arguments: Sequence[str]) -> list[Fault]:
    """Keys of :data:`OWN` that are not as ``conf/config.yaml`` has them, and that the command line itself does not set."""
    ours: Any = OmegaConf.to_container(OmegaConf.load(find_assets("conf") / "config.yaml"))
    found: Any = OmegaConf.to_container(composed, resolve=False)
    faults = []
    for key in OWN:
        right, value = ours, found
        for part in key.split("."):
            right, value = right[part], value.get(part) if isinstance(value, dict) else None
        for changed in _changed(key, value, right):
            if not overrides.sets(changed, arguments):
                said = "is taken from the command line and the environment alone; if it is yours, give it there"
                faults.append(_fault(changed, said, arguments))
    return faults


def _called(value: Any) -> bool:
    """Whether Hydra or logging would call something that a value names, at any depth."""
    if isinstance(value, dict):
        return any(str(key).startswith(("_", "()")) or _called(each) for key, each in value.items())
    return isinstance(value, list) and any(map(_called, value))


def _as_override(key: str, value: Any) -> str:
    def written(one: Any) -> str:
        if isinstance(one, list):
            return f"[{','.join(map(written, one))}]"
        if isinstance(one, dict):
            return f"{{{', '.join(f'{name}: {written(each)}' for name, each in one.items())}}}"
        return overrides.quoted(one) if isinstance(one, str) else str(one)

    return shlex.quote(f"++hydra.launcher.{key}={written(value)}")


def _fault(key: str, what: str, arguments: Sequence[str]) -> Fault:
    """A fault at a key, with the overrides or the file and line that may have set it."""
    places = []
    for one in arguments:
        name = overrides.Override(*one.partition("=")[::2]).name.replace("/", ".")
        if "=" in one and (f"{key}.".startswith(f"{name}.") or name.startswith(f"{key}.")):
            places.append(one)
    found = option_files.place_of_hydra(key, arguments)
    return Fault(f"{key} {what}", ", ".join([*places, *([found] if found else [])]))


def _stop(faults: Sequence[Fault]) -> None:
    if not faults:
        return
    many = len(faults) > 1
    raise ConfigError(
        f"the configuration sets {f'{len(faults)} keys' if many else 'a key'} that it may not"
        + ("" if many else f": {faults[0].what}"),
        where="; ".join(dict.fromkeys(fault.where for fault in faults if fault.where)),
        cause="an option file of somebody else, or a habit from other projects: nothing in a configuration names code here",
        remedy=f"leave it out; of Hydra may be set: {MAY}",
        faults=faults if many else (),
    )
