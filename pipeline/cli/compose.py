"""Hydra's Compose API: a command line or a list of overrides becomes a checked evaluation. No other room of the project knows Hydra.

Nothing in a configuration names code: composing calls nothing of what it composes. What option files from elsewhere say of folders, of
programs, and of Hydra itself is refused all the same, for a run would go by it.
"""

from __future__ import annotations

import contextlib
import logging
import shlex
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.cli import failures, option_files, output
from pipeline.cli.command_line import GROUPS, CommandLine, quote, read_command_line
from pipeline.engine.stop import Stopped
from pipeline.errors import ConfigError, Fault, PipelineError
from pipeline.evaluation import discovery
from pipeline.evaluation.validate import validate
from pipeline.files import find_assets as assets
from pipeline.names import suggest_names
from pipeline.registry import component
from pipeline.stages.settings import Evaluation

Action = Callable[[Evaluation, dict[str, Any]], int]
OWN = ("paths", "store.verify", "hydra")
"""What only the command line and the environment may set. Libraries unpickle what lies in ``paths.cache``, and whoever chooses a folder
chooses what is read from it."""
SET_BY_HYDRA = ("overrides", "runtime", "searchpath", "job")
"""Parts of Hydra's node that differ from one composition to the next."""
FROM_SCORE_FILES = ("system", "extractor", "attacker", "backend", "train")
_LOCK = threading.RLock()

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Job:
    """One composed configuration.

    Attributes:
        line: the command line.
        composed: not resolved.
        choices: the option that is chosen of each group.
        varied: the overrides that tell it from the other jobs of a sweep.
    """

    line: CommandLine
    composed: Any
    choices: Mapping[str, str | None]
    varied: str = ""

    @property
    def recipe(self) -> str:
        return self.choices.get("recipe") or "custom"

    def values(self) -> dict[str, Any]:
        """The configuration as plain values, without what is not asked for."""
        values = _without_given(_resolve(self.composed, self.line), self.line)
        return _without_unchosen(values, self.line, self.recipe)

    def evaluation(self, values: dict[str, Any], without_models: bool = False) -> Evaluation:
        """The checked evaluation; faults name the option file that they stand in.

        Raises:
            ConfigError: all faults at once.
        """
        try:
            return validate(values, self.recipe, without_models)
        except ConfigError as error:
            raise option_files.locate_faults(error, self.line) from None


def compose(overrides: Sequence[str]) -> tuple[Evaluation, dict[str, Any]]:
    """The checked evaluation of some overrides, and the composed configuration as plain values; for use within Python.

    Raises:
        ConfigError: the overrides or the configuration are at fault; all faults at once.
    """
    flags = [word for word in overrides if word.startswith("-") and not word.startswith("--config-dir=")]
    if flags:
        raise ConfigError(
            f"within Python a flag of the command line has no meaning: {', '.join(flags)}",
            where="the overrides",
            remedy="leave it out; a sweep is a loop that calls evaluate once for each combination, and options of your own "
            'are found with "--config-dir=DIR"',
        )
    (job,) = compose_jobs(read_command_line(overrides))
    values = job.values()
    return job.evaluation(values), values


def evaluate_each(line: CommandLine, action: Action, without_models: bool = False) -> int:
    """Compose the configuration of a command line and call ``action`` with it; under ``-m`` once for each combination.

    Args:
        line: the command line.
        action: gets the checked evaluation and the composed configuration as plain values; gives the exit status.
        without_models: the action looks at data alone, so that no model or vector has to be there.

    Returns:
        The exit status; of a sweep the highest of its jobs.

    Raises:
        PipelineError: the configuration is at fault, or what the action raises; of a sweep only what no job could be composed for.
    """
    output.log_to_stderr()
    jobs = compose_jobs(line)

    def carry_out(job: Job) -> int:
        values = job.values()
        evaluation = job.evaluation(values, without_models)
        try:
            return action(evaluation, values)
        except PipelineError as error:
            failures.list_all_faults(error, evaluation.paths.runs.parent)
            raise

    with option_files.guarded():  # one for all jobs, so that nothing is said twice
        if line.shows:
            for job in jobs:
                _show(job)
            return 0
        return _carry_out_all(jobs, carry_out) if line.sweeps else carry_out(jobs[0])


def _show(job: Job) -> None:
    from omegaconf import OmegaConf

    shown = OmegaConf.masked_copy(job.composed, [key for key in job.composed if key != "hydra"])
    if job.line.resolves:
        shown = OmegaConf.create(_resolve(job.composed, job.line))
    print(OmegaConf.to_yaml(shown))


# Sweeps ----------------------------------------------------------------------------------------------------------------


def _carry_out_all(jobs: Sequence[Job], carry_out: Callable[[Job], int]) -> int:
    """Each job after the other; what fails is named at once, and the others go on. The highest exit status."""
    endings: list[tuple[str, int]] = []
    stopped = 0
    for number, job in enumerate(jobs):
        name = f"job {number}" + (f" ({job.varied})" if job.varied else "")
        if stopped:
            log.info("%s: not run, because the sweep was stopped before", name)
            continue
        text = ""
        try:
            status = carry_out(job)
        except Stopped as error:
            status = stopped = error.status
            text = f"{error}; run the same command again to go on"
        except Exception as error:
            status, text = failures.describe_failure(error)
        if text:
            print(f"{name}: {text}", file=sys.stderr, flush=True)
        endings.append((name, status))
    bad = [f"{name}: exit {status}" for name, status in endings if status]
    highest = max(status for _, status in endings)
    if bad and len(jobs) > 1:
        log.info("%d of %d jobs did not end well; the exit status is the highest, %d:", len(bad), len(jobs), highest)
        for line in bad:
            log.info("  %s", line)
    return highest


# Composition -----------------------------------------------------------------------------------------------------------


def list_recipes() -> list[str]:
    """Names of the recipes that come with the project."""
    return sorted(path.parent.name for path in assets("recipes").glob("*/config.yaml"))


def list_options(group: str, line: CommandLine | None = None) -> list[str]:
    """The names that can be chosen of a group, those of option files among them."""
    names = list_recipes() if group == "recipe" else [path.stem for path in (assets("conf") / group).glob("*.yaml")]
    files = option_files.list_files(line.folders) if line is not None else []
    own = [file.name for file in files if file.group == group]
    return sorted({*names, *own})


def compose_jobs(line: CommandLine) -> list[Job]:
    """The configuration of each job of a command line, all of them before any begins.

    Raises:
        ConfigError: what cannot be composed, or what option files may not set.
    """
    from hydra import compose as compose_by_hydra
    from hydra import initialize_config_dir

    option_files.refuse_unreadable(line)
    # In quotes, a path may hold blanks and commas.
    folders = ",".join(quote(f"file://{folder}") for folder in line.folders)
    search = [f"hydra.searchpath=[{folders}]"] if folders else []
    jobs = []
    with _own_hydra(), _explaining(line), initialize_config_dir(str(assets("conf")), version_base="1.3"):
        _store_options(line)
        plain = compose_by_hydra("config", return_hydra_config=True) if folders else None
        for overrides, varied in line.jobs(lambda group: list_options(group, line)):
            composed = compose_by_hydra("config", [*overrides, *search], return_hydra_config=True)
            choices = {str(group): choice for group, choice in composed.hydra.runtime.choices.items()}
            jobs.append(Job(line, composed, choices, varied))
            if plain is not None:
                _refuse_foreign(composed, plain, line)
    return jobs


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


def _store_options(line: CommandLine) -> None:
    """Have Hydra know our recipes, and the anonymised copies that a command line names by their suffix."""
    from hydra.core.config_store import ConfigStore
    from omegaconf import OmegaConf

    store = ConfigStore.instance()
    for name in list_recipes():
        node = OmegaConf.load(assets("recipes") / name / "config.yaml")
        store.store(group="recipe", name=name, node=node, package="_global_")
    for name in line.chosen.get("system", ()):
        suffix = name.removeprefix(discovery.SEVERAL)
        if name.startswith(discovery.SEVERAL) and suffix:  # an anonymised copy by its suffix, system=found:_SUFFIX
            store.store(
                group="system", name=name, node={discovery.label(suffix): {"name": discovery.NAME, "suffix": suffix}}
            )


@contextlib.contextmanager
def _explaining(line: CommandLine) -> Iterator[None]:
    import yaml
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    with option_files.guarded() as guard:
        try:
            yield
        except PipelineError:
            raise
        except (HydraException, OmegaConfBaseException, yaml.YAMLError, ValueError, RecursionError) as error:
            guard.refuse(line)
            if isinstance(error, (yaml.YAMLError, UnicodeDecodeError, RecursionError)):
                option_files.refuse_unreadable(line, unnamed=True)
            raise _explain(error, line) from error


def _resolve(composed: Any, line: CommandLine) -> dict[str, Any]:
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    with _own_hydra(), option_files.guarded() as guard:
        try:
            own = OmegaConf.masked_copy(composed, [key for key in composed if key != "hydra"])
            plain = OmegaConf.to_container(own, resolve=True)
        except OmegaConfBaseException as error:
            guard.refuse(line)
            key = str(error.full_key or "")
            raise ConfigError(
                f"the configuration cannot be resolved: {_first_line(error)}",
                where=" in ".join(filter(None, [key, option_files.find_key(key, line)])),
                remedy="correct what stands between ${ and }: the name of another key, as `--cfg job` prints it",
            ) from error
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}


def _explain(error: Exception, line: CommandLine) -> ConfigError:
    text = str(error)
    group = next((group for group in GROUPS if f"'{group}/" in text), "")
    wanted = text.split(f"'{group}/")[1].split("'")[0] if group else ""
    if not group or any((file.group, file.name) == (group, wanted) for file in option_files.list_files(line.folders)):
        told = [each.word for each in line.overrides if each.word in text or each.key.lstrip("+~") in text]
        return ConfigError(
            f"the configuration cannot be composed: {_first_line(error)}",
            where=", ".join(told),
            remedy="voice-privacy --help shows how overrides are written, conf/README.md what there is; an option file needs its "
            "package line and defaults as in conf/ or recipes/",
        )
    misplaced = option_files.find_misplaced(wanted, line.folders)
    return ConfigError(
        f"there is no option '{wanted}' in the group {group}",
        where=f"{group}={wanted}",
        cause=f"{misplaced} is not {group}/{wanted}.yaml in the folder of options" if misplaced else "",
        remedy=f"{suggest_names(wanted, list_options(group, line))}; options of your own are found with --config-dir DIR, as DIR/{group}/NAME.yaml",
    )


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


# What option files may not set -----------------------------------------------------------------------------------------


def _refuse_foreign(composed: Any, plain: Any, line: CommandLine) -> None:
    """Refuse folders, Hydra's own part, and programs, where the command line itself does not set them."""
    from omegaconf import OmegaConf

    plain_values, values = (OmegaConf.to_container(config, resolve=False) for config in (plain, composed))
    keys = [key for name in OWN for key in _list_changed(name, _select(plain_values, name), _select(values, name))]
    faults = []
    for key in keys:
        if key.startswith("hydra."):
            faults.append(Fault(f"{key} is Hydra's, and not for a configuration", option_files.find_key(key, line)))
        elif not line.sets(key):
            what = "is taken from the command line and the environment alone; if it is yours, give it there"
            faults.append(Fault(f"{key} {what}", option_files.find_key(key, line)))
    for label, command in _list_commands(composed):
        key = f"system.{label}.command"
        if command not in line.values(key):
            override = shlex.quote(f"++{key}={quote(command)}")
            what = f"is a program that the run would start; if it is yours, give it on the command line: {override}"
            faults.append(Fault(f"{key} {what}", option_files.find_key(key, line)))
    if faults:
        raise ConfigError(
            "the configuration sets what it may not",
            cause="an option file of somebody else, or a habit from other projects: nothing in a configuration names code here",
            remedy="leave it out",
            faults=faults,
        )


def _select(values: Any, key: str) -> Any:
    for part in key.split("."):
        values = values.get(part) if isinstance(values, dict) else None
    return {name: value for name, value in values.items() if name not in SET_BY_HYDRA} if key == "hydra" else values


def _list_changed(name: str, before: Any, after: Any) -> list[str]:
    if before == after:
        return []
    if not isinstance(before, dict) or not isinstance(after, dict):
        return [name]
    keys = [key for key in after if key not in before or before[key] != after[key]]
    return [each for key in keys for each in _list_changed(f"{name}.{key}", before.get(key), after[key])] or [name]


def _list_commands(composed: Any) -> list[tuple[str, str]]:
    """The labels of systems that name a program, with it."""
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        systems = OmegaConf.to_container(composed.get("system") or OmegaConf.create({}), resolve=True)
    except (OmegaConfBaseException, ConfigError):
        return []  # What cannot be resolved ends the composition, with all such keys at once.
    entries = systems.items() if isinstance(systems, dict) else ()
    return [
        (str(label), str(settings["command"]))
        for label, settings in entries
        if isinstance(settings, dict) and settings.get("command") is not None
    ]


# What is not asked for -------------------------------------------------------------------------------------------------


def _without_unchosen(values: dict[str, Any], line: CommandLine, recipe: str) -> dict[str, Any]:
    """Without the fields that a recipe of the project sets of a component which the command line has replaced by others.

    ``extractor=[campplus]`` needs nothing of what the recipe says of ``ecapa``. A field that the command line itself sets stays, and is
    at fault where its component is not chosen.
    """
    from omegaconf import OmegaConf

    if recipe not in list_recipes():
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
                and not any(override.name.startswith(f"{group}.{label}.") for override in line.overrides)
            }
            kept[group] = {label: entry for label, entry in entries.items() if label not in spare}
    return kept


def _without_given(values: dict[str, Any], line: CommandLine) -> dict[str, Any]:
    """Without what score files say themselves, where score files are evaluated: who attacks what, and with what."""
    dataset = values.get("dataset")
    if not isinstance(dataset, Mapping) or dataset.get("name") != "scores":
        return values
    faults = [
        Fault("score files say this themselves, or scores.csv does: leave it out", override.word)
        for override in line.overrides
        if override.name.partition(".")[0].partition("@")[0] in FROM_SCORE_FILES
    ]
    entries = values.get("metric")
    for label in line.chosen.get("metric", []):
        entry = entries.get(label) if isinstance(entries, Mapping) else None
        name = entry.get("name") if isinstance(entry, Mapping) else None
        if isinstance(name, str) and not _reads_trials(name):
            what = "it compares all pairs of recordings, or vectors, which score files of trials do not hold"
            faults.append(Fault(what, f"metric={label}"))
    if faults:
        raise ConfigError(
            "this cannot be chosen where score files are evaluated",
            where="dataset=scores",
            remedy="leave it out of the command line",
            faults=faults,
        )
    return {name: value for name, value in values.items() if name not in FROM_SCORE_FILES}


def _reads_trials(family: str) -> bool:
    """Whether a family needs scores of trials alone; so of one that is not known, which the validation says."""
    try:
        return component("families", family).reads == "trials"
    except ConfigError:
        return True
