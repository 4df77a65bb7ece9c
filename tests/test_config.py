"""Composition and validation of the configuration, as a command line meets it."""

from __future__ import annotations

import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import pipeline
from pipeline.cli import compose as composition
from pipeline.cli.command_line import read_command_line
from pipeline.contracts import ComponentSettings
from pipeline.errors import ConfigError
from pipeline.registry import component, list_names
from pipeline.stages.settings import Evaluation
from tests.sampled import mostly_slow

LISTS = ("system", "extractor", "attacker", "backend", "metric")
OPTIONS = [
    (group, path.stem)
    for group in composition.GROUPS
    for path in sorted((composition.assets("conf") / group).glob("*.yaml"))
]
IN_A_CHALLENGES_FOLDER = [("system", "found"), ("train", "found"), ("extractor", "found"), ("backend", "found")]
"""What means something only where there is a folder to look in: tests/e2e/test_found.py."""


def compose(*arguments: str) -> Evaluation:
    """As the command line and as Python compose it, which is the same."""
    found = entered(*arguments)
    assert composition.compose(arguments)[0] == found
    return found


def entered(*arguments: str) -> Evaluation:
    found: list[Evaluation] = []

    def keep(evaluation: Evaluation, values: object) -> int:
        found.append(evaluation)
        return 0

    assert composition.evaluate_each(read_command_line(arguments), keep) == 0
    return found[0]


def faults(*arguments: str) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        composition.evaluate_each(read_command_line(arguments), lambda evaluation, values: 0)
    assert caught.value.status == 2
    with pytest.raises(ConfigError) as within_python:
        composition.compose(arguments)
    assert str(within_python.value) == str(caught.value)
    return {fault.where: fault.what for fault in caught.value.faults} or {"": str(caught.value)}


def test_there_are_options_to_compose() -> None:
    assert {group for group, _ in OPTIONS} == {*composition.GROUPS} - {"recipe"}
    assert {"bring_your_scores", "demo", "kaldi"} <= {*composition.list_recipes()}


@pytest.mark.parametrize(
    ("group", "option"), mostly_slow((one for one in OPTIONS if one not in IN_A_CHALLENGES_FOLDER), 3)
)
def test_every_option_of_every_group_composes_and_validates(group: str, option: str) -> None:
    chosen = f"[original,{option}]" if (group, option) != ("system", "original") and group == "system" else option
    evaluation = compose(f"{group}={chosen}", *(["extractor=[ecapa]"] if option == "semi_informed" else []))
    written = yaml.safe_load((composition.assets("conf") / group / f"{option}.yaml").read_text())
    if group in LISTS:
        label = next(iter(written))
        assert label in {"system": evaluation.systems, "extractor": evaluation.extractors, "metric": evaluation.metrics,
                         "attacker": evaluation.attackers, "backend": evaluation.backends}[group]  # fmt: skip


@pytest.mark.parametrize("recipe", composition.list_recipes())
def test_every_recipe_composes(recipe: str) -> None:
    assert (composition.assets("recipes") / recipe / "README.md").is_file()
    if f'"{recipe}"' in (Path(__file__).parent / "e2e" / "test_recipes.py").read_text():
        return  # It may need a challenge's folder to compose, and is run there.
    assert compose(f"recipe={recipe}").recipe == recipe


def test_a_bare_option_is_a_list_of_one_and_the_command_line_beats_the_recipe() -> None:
    assert list(compose("recipe=demo", "system=original").systems) == ["original"]
    assert list(compose("recipe=demo", "system=b2").systems) == ["original", "b2"]
    assert list(compose("recipe=demo", "extractor=[f0]").extractors) == ["f0"]
    assert compose("recipe=demo", "dataset.speakers=5").dataset.speakers == 5


def test_other_peoples_systems_and_settings_of_a_label() -> None:
    evaluation = compose("+system.t8={name: external, root: /some/where}", "system.b2.alpha=0.7")
    assert evaluation.systems["t8"].settings.root == "/some/where"
    assert evaluation.systems["b2"].settings.alpha == 0.7
    assert list(evaluation.systems) == ["original", "b2", "b2r", "t8"]


def test_options_of_ones_own_by_config_dir(tmp_path: Path) -> None:
    own = tmp_path / "options, my own"
    (own / "system").mkdir(parents=True)
    (own / "system" / "mine.yaml").write_text("mine:\n  name: mcadams\n  alpha: 0.6\n")
    evaluation = compose(f"--config-dir={own}", "system=[original,mine]")
    assert evaluation.systems["mine"].settings.alpha == 0.6
    assert entered("--config-dir", str(own), "system=[original,mine]") == evaluation


def test_unknown_options_components_and_labels() -> None:
    assert "did you mean original" in faults("system=[orginal]")[""]
    assert "known: bring_your_scores, demo, kaldi" in faults("recipe=nothing")[""]
    assert "did you mean ge2e" in faults("+extractor.x={name: ge2}")["extractor.x.name"]
    assert "did you mean extractor.ge2e" in faults("extractor=[ge2e]", "extractor.ge2.level=keep")["extractor.ge2"]


def test_code_in_a_configuration_is_refused() -> None:
    assert "+x._target_" not in faults("+system.b2._target_=os.system")
    assert "unknown key" in faults("+system.b2._target_=os.system")["system.b2._target_"]


def settings_classes() -> list[type[ComponentSettings]]:
    for kind in ("anonymisers", "backends", "extractors", "families", "trainers"):
        for name in list_names(kind):  # type: ignore[arg-type]
            component(kind, name)  # type: ignore[arg-type]
    found: list[type[ComponentSettings]] = []
    queue: list[type[Any]] = [ComponentSettings]
    while queue:
        for each in queue.pop().__subclasses__():
            found.append(each)
            queue.append(each)
    return [each for each in found if each.__module__.startswith("pipeline.")]


@pytest.mark.parametrize("settings", settings_classes(), ids=lambda each: f"{each.__module__}.{each.__qualname__}")
def test_each_field_is_marked_numeric_or_runtime(settings: type[ComponentSettings]) -> None:
    for name, field in settings.model_fields.items():
        extra = field.json_schema_extra
        assert isinstance(extra, dict) and extra.get("role") in ("numeric", "runtime"), name


def test_every_module_is_imported_without_cuda() -> None:
    modules = [name for _, name, _ in pkgutil.walk_packages(pipeline.__path__, "pipeline.") if "__main__" not in name]
    assert len(modules) > 50
    for name in modules:
        importlib.import_module(name)


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_help_answers_without_loading_anything_heavy(arguments: list[str]) -> None:
    code = (
        "import sys; from pipeline.cli import run; status = run(sys.argv[1:]);"
        "heavy = {'torch', 'pandas', 'hydra', 'librosa', 'scipy', 'numba'} & set(sys.modules);"
        "sys.exit(status or (f'loaded {heavy}' if heavy else 0))"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout


HYDRA = """
import threading
from hydra import initialize
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf
from pipeline.cli.compose import compose

ConfigStore.instance().store(group="dataset", name="kaldi", node={"theirs": 1})
OmegaConf.register_new_resolver("oc.env", lambda name: "theirs", replace=True)
with initialize(config_path=None, version_base=None):
    before, options = GlobalHydra.instance(), dict(ConfigStore.instance().repo)
    found = {}
    def call(k):
        found[k] = compose([f"dataset.root=d{k}", f"report.seed={k}", "dataset.label=2024"])[0]
    threads = [threading.Thread(target=call, args=(k,)) for k in range(4)]
    for each in threads: each.start()
    for each in threads: each.join()
    print([(found[k].products.report.seed, found[k].dataset.root, found[k].dataset.label) for k in range(4)])
    print(GlobalHydra.instance() is before, before.is_initialized(), dict(ConfigStore.instance().repo) == options)
    print(OmegaConf.create({"x": "${oc.env:HOME}"}).x)
"""


def test_several_threads_of_a_program_that_uses_hydra_itself_compose_and_leave_its_hydra_alone() -> None:
    done = subprocess.run([sys.executable, "-c", HYDRA], capture_output=True, text=True, check=False)
    composed = [(k, f"d{k}", "2024") for k in range(4)]
    assert done.stdout.splitlines() == [str(composed), "True True True", "theirs"], done.stderr


@pytest.mark.parametrize("word", ["system=" + "[" * 3000 + "]" * 3000, "+x=" + "{a: " * 3000 + "1" + "}" * 3000,
                                  "seed=" + "${a." * 3000 + "}" * 3000, "system=" + "sort(" * 3000 + ")" * 3000])  # fmt: skip
def test_overrides_nested_beyond_sense_are_refused(word: str) -> None:
    with pytest.raises(ConfigError, match="nested more than 100 levels deep"):
        composition.compose([word])


def test_a_list_for_a_text_and_a_number_for_a_text() -> None:
    asked = ("recipe=demo", "executor=slurm")
    (said,) = faults(*asked, "executor.partition=gpu,long").values()
    (right,) = re.findall(r"""where it is a text '([^']+)'""", said)
    found = composition.compose([*asked, right, "executor.account=1234", "dataset.label=2024"])[0]
    settings = found.execution.executor.settings
    assert (settings.partition, settings.account, found.dataset.label) == ("gpu,long", "1234", "2024")
    assert "in quotes it is a text" in faults("recipe=demo", "dataset.label=2.10")["dataset.label"]
    assert composition.compose(["recipe=demo", 'dataset.label="2.10"'])[0].dataset.label == "2.10"
