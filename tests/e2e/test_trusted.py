"""Nothing in a configuration names code: what Hydra would call is refused before it does."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline import cli
from pipeline.cli import compose
from pipeline.errors import ConfigError

Call = Callable[..., tuple[int, str, str]]
BASE = ("recipe=demo", "metric=[asv]")
SYSTEM = "system:\n  mine: {name: mcadams, alpha: 0.8, level: fixed}\n"


@pytest.fixture
def call(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    """Validate by a command line in this process; exit status, standard output and standard error."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "payload").write_text("x")

    def run(*arguments: str) -> tuple[int, str, str]:
        base = BASE[1:] if any(one.startswith("recipe=") for one in arguments) else BASE
        status = cli.run(["validate", *base, *arguments, f"paths.root={tmp_path / 'exp'}"])
        out, err = capfd.readouterr()
        return status, out, err

    return run


def copies(folder: Path) -> str:
    """What makes a file ``hit`` when Hydra calls it."""
    return f"{{_target_: shutil.copy, src: {folder}/payload, dst: {folder}/hit}}"


def logs(folder: Path) -> str:
    return (
        f"version: 1\nformatters:\n  x:\n    (): shutil.copy\n    src: {folder}/payload\n    dst: {folder}/hit\n"
        "handlers:\n  c: {class: logging.StreamHandler, formatter: x}\nroot: {handlers: [c]}\n"
    )


def option(folder: Path, name: str, text: str) -> str:
    path = folder / "own" / name
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return f"--config-dir={folder / 'own'}"


OVERRIDES = {
    "callback": ["+hydra.callbacks.x=COPIES"],
    "handler": [
        "++hydra.job_logging.handlers.f={class: logging.FileHandler, filename: FOLDER/hit}",
        "++hydra.job_logging.root.handlers=[f]",
    ],
    "sweep": ["-m", "system=b2,b2r", "+hydra.callbacks.x=COPIES"],
    "launcher": ["-m", "system=b2,b2r", "++hydra.launcher._target_=shutil.copy", "++hydra.launcher.src=FOLDER/payload"],
    "nested": ["-m", "hydra/launcher=submitit_local", "system=b2,b2r", "++hydra.launcher.name=x", "++hydra.launcher.more=COPIES"],
    "environment": ["++hydra.job.env_set.LD_PRELOAD=FOLDER/payload"],
    "environment kept": ["hydra.job.env_copy=[PATH]"],
    "package": ["hydra.searchpath=[pkg://antigravity]"],
    "pickle": ["--experimental-rerun=FOLDER/payload"],
    "pickle, short": ["--exp", "FOLDER/payload"],
}  # fmt: skip


@pytest.mark.parametrize("name", OVERRIDES)
def test_an_override_that_names_code_is_refused(call: Call, tmp_path: Path, name: str) -> None:
    given = [one.replace("COPIES", copies(tmp_path)).replace("FOLDER", str(tmp_path)) for one in OVERRIDES[name]]
    status, out, err = call(*given)
    assert (status, out) == (2, "") and "Traceback" not in err and not (tmp_path / "hit").exists()
    assert any(one in err for one in given) and "To mend it:" in err


FILES = {
    "callback": ("system/mine.yaml", "system=mine", f"# @package _global_\n{SYSTEM}hydra:\n  callbacks:\n    x: COPIES\n", 6),
    "recipe": ("recipe/evil.yaml", "recipe=evil", f"# @package _global_\n{SYSTEM}hydra:\n  callbacks:\n    x: COPIES\n", 6),
    "in its place": ("hydra/callbacks/evil.yaml", "hydra/callbacks=evil", "x: COPIES\n", 1),
    "job_logging": ("hydra/job_logging/evil.yaml", "hydra/job_logging=evil", "LOGS", 2),
    "hydra_logging": ("hydra/hydra_logging/evil.yaml", "hydra/hydra_logging=evil", "LOGS", 2),
    "interpolated": ("system/mine.yaml", "system=mine",
                     f"# @package _global_\n{SYSTEM}x:\n  y: COPIES\nhydra:\n  callbacks:\n    x: ${{x.y}}\n", 8),
    "launcher": ("hydra/launcher/mine.yaml", "hydra/launcher=mine", "_target_: shutil.copy\n", 1),
    "searchpath": ("evil.yaml", "--config-name=evil", "defaults: [config]\nhydra:\n  searchpath: ['pkg://antigravity']\n", 3),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_an_option_file_that_names_code_is_refused_by_file_and_line(call: Call, tmp_path: Path, name: str) -> None:
    file, choice, text, line = FILES[name]
    folder = option(tmp_path, file, text.replace("COPIES", copies(tmp_path)).replace("LOGS", logs(tmp_path)))
    status, out, err = call(folder, choice)
    assert (status, out) == (2, "") and "Traceback" not in err and not (tmp_path / "hit").exists()
    assert f"{tmp_path}/own/{file}:{line}" in err and "To mend it:" in err


GIFT = "# @package _global_\n" + SYSTEM
OWN = {
    "compiled code": ("system/mine.yaml", ["system=mine"], f"{GIFT}paths:\n  cache: GIFT\n", "paths.cache", 5),
    "trust in a store": ("recipe/evil.yaml", ["recipe=evil"], f"{GIFT}store:\n  verify: never\n", "store.verify", 5),
    "results of jobs": ("evil.yaml", ["--config-name=evil"], "defaults: [config, _self_]\nhydra:\n  sweep:\n    dir: GIFT\n",
                        "hydra.sweep.dir", 4),
    "through a sweep": ("system/mine.yaml", ["-m", "system=mine"],
                        f"{GIFT}hydra:\n  sweeper:\n    params:\n      paths.cache: GIFT\n", "paths.cache", 0),
    "of a launcher": ("system/mine.yaml", ["system=mine", "hydra/launcher=submitit_local"],
                      f"{GIFT}hydra:\n  launcher:\n    submitit_folder: GIFT\n", "hydra.launcher.submitit_folder", 6),
}  # fmt: skip


@pytest.mark.parametrize("name", OWN)
def test_a_file_does_not_say_what_folders_are_read(call: Call, tmp_path: Path, name: str) -> None:
    file, choice, text, key, line = OWN[name]
    folder = option(tmp_path, file, text.replace("GIFT", f"{tmp_path}/gift"))
    status, out, err = call(folder, *choice)
    assert (status, out) == (2, "") and "Traceback" not in err and not (tmp_path / "gift").exists()
    assert key in err and "command line" in err and (not line or f"{tmp_path}/own/{file}:{line}" in err)


def test_the_command_line_and_the_environment_say_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"{GIFT}paths:\n  cache: {tmp_path}/gift\n"
    given = [option(tmp_path, "system/mine.yaml", text), *BASE, "system=mine"]
    monkeypatch.setenv("VOICE_PRIVACY_MODELS", str(tmp_path / "models"))
    paths = compose.compose([*given, f"paths.cache={tmp_path}/mine"])[1]["paths"]
    assert (paths["cache"], paths["models"]) == (f"{tmp_path}/mine", f"{tmp_path}/models")


def test_a_job_of_a_sweep_is_refused_before_any_runs(call: Call, tmp_path: Path) -> None:
    text = f"# @package _global_\n{SYSTEM}hydra:\n  job_logging:\n    formatters: {{x: {{(): shutil.copy}}}}\n"
    status, out, err = call("-m", option(tmp_path, "system/mine.yaml", text), "system=b2,mine")
    assert (status, out) == (2, "") and "own/system/mine.yaml:6" in err


def test_within_python_too(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"hydra\.callbacks\.x"):
        compose.compose([*BASE, f"+hydra.callbacks.x={copies(tmp_path)}"])


def test_shell_lines_of_a_launcher_are_for_ones_own_command_line(call: Call, tmp_path: Path) -> None:
    pytest.importorskip("hydra_plugins.hydra_submitit_launcher")
    text = (
        f"# @package _global_\n{SYSTEM}hydra:\n  launcher:\n    timeout_min: 5\n    setup: ['touch {tmp_path}/hit']\n"
    )
    folder = option(tmp_path, "system/mine.yaml", text)
    given = [folder, "hydra/launcher=submitit_slurm", "system=mine"]
    status, _, err = call(*given)
    assert status == 2 and "own/system/mine.yaml:7" in err and "timeout_min" not in err
    (remedy,) = shlex.split(re.findall(r"command line: ('\+\+hydra.+\]')", err)[0].replace("\n", " "))
    assert call(*given, remedy)[0] == 0


def test_a_line_break_does_not_reach_a_job_script(call: Call, tmp_path: Path) -> None:
    pytest.importorskip("hydra_plugins.hydra_submitit_launcher")
    text = f'# @package _global_\n{SYSTEM}hydra:\n  launcher:\n    comment: "x\\ntouch {tmp_path}/hit"\n'
    status, _, err = call(option(tmp_path, "system/mine.yaml", text), "hydra/launcher=submitit_slurm", "system=mine")
    assert status == 2 and "own/system/mine.yaml:6" in err and "line break" in err


@pytest.mark.parametrize(
    "given",
    [
        ["hydra.run.dir=here", "hydra.job.name=x"],
        ["-m", "system=b2,b2r", "hydra.sweep.dir=there", "hydra.sweep.subdir=x"],
        ["hydra/launcher=submitit_slurm", "hydra.launcher.partition=gpu", "hydra.launcher.setup=[a b]",
         "++hydra.launcher.additional_parameters={mail-type: END}"],
    ],
)  # fmt: skip
def test_what_may_be_set_is_taken(call: Call, given: list[str]) -> None:
    assert call(*given)[0] == 0


REMEDIES = {
    "blanks around the equals sign": ["attacker=[ignorant]", "extractor", "=", "[ge2e]"],
    "blanks everywhere": ["extractor", "=", "[ge2e,", "f0]"],
    "a bracket open before another override": ["system=[b2,", "b2r", "extractor=[ge2e]"],
    "a value behind a bracket": ["system=[b2,b2r],original"],
    "a brace open before another override": ["+system.t={name:", "mcadams,", "alpha:", "0.8,", "level:", "fixed", "extractor=[ge2e]"],
    "two dashes": ["--runtime.threads=1"],
    "one dash": ["-runtime.threads=1"],
    "a long dash": ["system=b2", "\u2014m"],
    "a dash of an editor": ["system=b2", "\u2013-cfg=job"],
}  # fmt: skip


@pytest.mark.parametrize("name", REMEDIES)
def test_the_right_form_is_said_and_is_right(call: Call, name: str) -> None:
    given = REMEDIES[name]
    status, out, err = call(*given)
    assert (status, out) == (2, "")
    (where, remedy) = re.findall(r"^  - (.*): .*?write: (?:-m .* write: )?(\S.*)$", err, re.MULTILINE)[0]
    where = where.split(": ")[0] if where.split(": ")[0] in given else where
    (right,) = shlex.split(remedy)
    kept = [
        one
        for one in given
        if one.partition("=")[0] not in (right.partition("=")[0], where) and one.find("=") > 0 and one != where
    ]
    assert call(*kept, right)[0] == 0, (kept, right)


def test_flags_may_stand_between_overrides(call: Call) -> None:
    status, out, _ = call("extractor=[ge2e]", "-m", "system=b2,b2r")
    assert status == 0 and out.count("valid: ") == 2


@pytest.mark.parametrize(
    "value",
    ["${oc.env:VOICE_PRIVACY_NO,${oc.env:TOKEN_OF_MINE}}", "/x/${oc.env:VOICE_PRIVACY_NO,${oc.env:TOKEN_OF_MINE}}"],
)
def test_a_variable_within_another_is_asked_as_in_a_file(
    call: Call, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("TOKEN_OF_MINE", "hunter2")
    for given in (f"++dataset.train={value}", f"+system.t={{name: external, root: {value}}}"):
        status, _, err = call(given)
        assert status == 2 and "environment variable" in err and "TOKEN_OF_MINE" in err and "hunter2" not in err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mine: &a\n  name: mcadams\n  <<: *a\n", "mine.yaml:1: an anchor (&) that holds itself"),
        ("mine: &a\n  name: [*a]\n", "mine.yaml:1: an anchor (&) that holds itself"),
        ("- a\n", "mine.yaml:1: holds a list instead of KEY: VALUE"),
    ],
)
def test_an_option_file_of_another_form(call: Call, tmp_path: Path, text: str, said: str) -> None:
    status, _, err = call(option(tmp_path, "system/mine.yaml", text), "system=mine")
    assert status == 2 and said in err and "Traceback" not in err


def test_help_to_nowhere_speaks_of_no_results(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "pipeline", "--help"], stdout=full, stderr=subprocess.PIPE, text=True, cwd=tmp_path
        )
    assert done.returncode == 5 and "could be written" in done.stderr and "computed" not in done.stderr
