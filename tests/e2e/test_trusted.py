"""Nothing in a configuration names code, and option files name no folder, no program and nothing of Hydra's."""

from __future__ import annotations

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


COPIES = "{_target_: shutil.copy, src: FOLDER/payload, dst: FOLDER/hit}"
"""What makes a file ``hit`` where Hydra calls it."""


def option(folder: Path, name: str, text: str) -> str:
    path = folder / "own" / name
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return f"--config-dir={folder / 'own'}"


@pytest.mark.parametrize(
    "given",
    [
        [f"+hydra.callbacks.x={COPIES}"],
        ["-m", "system=b2,b2r", f"+hydra.callbacks.x={COPIES}"],
        ["++hydra.job_logging.handlers.f={class: logging.FileHandler, filename: FOLDER/hit}"],
        ["++hydra.job.env_set.LD_PRELOAD=FOLDER/payload"],
        ["hydra.searchpath=[pkg://antigravity]"],
        ["--experimental-rerun=FOLDER/payload"],
        ["--config-name=evil"],
    ],
)
def test_an_override_that_names_code_is_refused(call: Call, tmp_path: Path, given: list[str]) -> None:
    words = [word.replace("FOLDER", str(tmp_path)) for word in given]
    status, out, err = call(*words)
    assert (status, out) == (2, "") and "Traceback" not in err and not (tmp_path / "hit").exists()
    assert words[-1] in err and "To mend it:" in err


FILES = {
    "callback": ("system/mine.yaml", "system=mine", f"# @package _global_\n{SYSTEM}hydra:\n  callbacks:\n    x: {COPIES}\n", 6),
    "recipe": ("recipe/evil.yaml", "recipe=evil", f"# @package _global_\n{SYSTEM}hydra:\n  callbacks:\n    x: {COPIES}\n", 6),
    "interpolated": ("system/mine.yaml", "system=mine",
                     f"# @package _global_\n{SYSTEM}x:\n  y: {COPIES}\nhydra:\n  callbacks:\n    x: ${{x.y}}\n", 8),
    "launcher": ("system/mine.yaml", "system=mine", f"# @package _global_\n{SYSTEM}hydra:\n  launcher:\n    _target_: shutil.copy\n", 6),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_an_option_file_that_names_code_is_refused_by_file_and_line(call: Call, tmp_path: Path, name: str) -> None:
    file, choice, text, line = FILES[name]
    status, out, err = call(option(tmp_path, file, text.replace("FOLDER", str(tmp_path))), choice)
    assert (status, out) == (2, "") and "Traceback" not in err and not (tmp_path / "hit").exists()
    assert f"{tmp_path}/own/{file}:{line}" in err and "To mend it:" in err


GIFT = "# @package _global_\n" + SYSTEM
OWN = {
    "compiled code": ("system/mine.yaml", "system=mine", f"{GIFT}paths:\n  cache: GIFT\n", "paths.cache", 5),
    "trust in a store": ("recipe/evil.yaml", "recipe=evil", f"{GIFT}store:\n  verify: never\n", "store.verify", 5),
    "a program": (
        "system/mine.yaml",
        "system=mine",
        "mine: {name: command, command: GIFT}\n",
        "system.mine.command",
        1,
    ),
}


@pytest.mark.parametrize("name", OWN)
def test_a_file_does_not_say_what_folders_are_read(call: Call, tmp_path: Path, name: str) -> None:
    file, choice, text, key, line = OWN[name]
    folder = option(tmp_path, file, text.replace("GIFT", f"{tmp_path}/gift"))
    status, out, err = call(folder, choice)
    assert (status, out) == (2, "") and "Traceback" not in err and not (tmp_path / "gift").exists()
    assert key in err and "command line" in err and f"{tmp_path}/own/{file}:{line}" in err


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
    with pytest.raises(ConfigError) as caught:
        compose.compose([*BASE, "+hydra.callbacks.x={_target_: builtins.print}"])
    assert "hydra.callbacks.x" in str(caught.value)


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
        ("- a\n", "mine.yaml:1: holds no KEY: VALUE"),
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
