"""The README's commands are run: those that evaluate are composed and checked, the demo and the Kaldi recipe run end to end."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from pipeline import cli
from tests import toy
from tests.e2e.conftest import Demo

README = Path(__file__).resolve().parents[2] / "README.md"
COMMANDS = sorted(
    {
        line.split("  #")[0].strip()
        for line in re.findall(r"^(?:    )?(python -m pipeline .*|make \w.*)$", README.read_text(), re.MULTILINE)
    }
)
INLINE = sorted(set(re.findall(r"`(python -m pipeline [^`…]*)`", README.read_text())))


def test_there_are_commands() -> None:
    assert len(COMMANDS) >= 8 and len(INLINE) >= 2


@pytest.mark.parametrize("command", [one for one in [*COMMANDS, *INLINE] if one.startswith("python")])
def test_each_command_is_understood(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    _, _, _, *words = shlex.split(command)
    verb = words[0] if words[0] in cli.VERBS else "run"
    if verb in ("report", "compare"):
        assert cli.run(words) == 2 and "no finished run" in capfd.readouterr().err
        return
    if verb == "from-scores":  # understood, and refused because the files are not there
        assert cli.run(words) == 3
        return
    if "--help" in words or "--cfg" in words:
        assert cli.run(words) == 0
        return
    assert cli.run(["validate", *words[verb in words :]]) == 0


def test_make_targets_exist() -> None:
    makefile = (README.parent / "Makefile").read_text()
    for command in COMMANDS:
        if command.startswith("make "):
            assert f"\n{command.split()[1]}:" in makefile


def test_the_kaldi_command_evaluates_a_folder(tmp_path: Path, models: Path) -> None:
    """The main command of the README as printed, on a small folder."""
    assert "python -m pipeline recipe=kaldi dataset.root=DIR" in COMMANDS
    if not (models / "ge2e" / "pretrained.pt").is_file():
        pytest.skip("the offline weights are not here: make install")
    root = toy.corpus(tmp_path / "DIR", speakers=6, utterances=4)
    done = toy.run("recipe=kaldi", f"dataset.root={root}", cwd=tmp_path, check=True)
    assert Path(done.stdout.splitlines()[-1]).is_file()


def test_the_shown_output_has_the_shape_of_the_demos(demo: Demo) -> None:
    """Numbers differ in the last digit between processors; heads, rows and closing lines must not."""
    shown = README.read_text().split("$ make demo\n...\n")[1].split("```")[0].splitlines()
    printed = demo.stdout.splitlines()
    for line in shown:
        if line.startswith(("subset", "-----")):
            assert line in [one.rstrip() for one in printed]
        if line.startswith("synthetic_"):
            names = line.split("ecapa")[0]
            assert any(one.startswith(names) for one in printed), names
    assert next(line for line in shown if line.startswith("tasks:")) == printed[-2]
