"""The commands that the documents print are run: those that evaluate are composed and checked, the demo and the Kaldi recipe run
end to end."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from pipeline import cli
from pipeline.tables import results
from tests import toy
from tests.documents import DOCUMENTS, ROOT
from tests.e2e.conftest import Demo
from tests.sampled import mostly_slow

README = ROOT / "README.md"
TOOL = "(?:python -m pipeline|voice-privacy)"
OURS = ("python", "voice-privacy")
"""How the commands of ours begin."""


def commands(name: str) -> list[str]:
    """The commands of a document: lines of their own, and those within sentences."""
    text = (ROOT / name).read_text()
    lines = re.findall(rf"^(?:    )?({TOOL} .*|make \w.*)$", text, re.MULTILINE)
    return sorted({line.split("  #")[0].strip() for line in lines} | {*re.findall(rf"`({TOOL} [^`…]*)`", text)})


COMMANDS = {name: commands(name) for name in DOCUMENTS}
ALL = sorted({one for several in COMMANDS.values() for one in several})


def test_there_are_commands() -> None:
    """As many as when all of them stood in the README, and those of each document."""
    assert len(ALL) >= 24
    least = {"README.md": 10, "conf/README.md": 15, "pipeline/metrics/README.md": 6, "recipes/kaldi/README.md": 6,
             "recipes/demo/README.md": 1, "CONTRIBUTING.md": 4}  # fmt: skip
    assert {name: len(COMMANDS[name]) for name in least if len(COMMANDS[name]) < least[name]} == {}
    assert {"make demo", "make test"} <= {*COMMANDS["README.md"]}


FIRST = {one for one in COMMANDS["README.md"] if one.startswith(OURS)}
"""What everybody reads is tried at once; of the rest a few, and all in ``make test-all``."""


UNKNOWN_HERE = ("part",)
UNDERSTOOD = {
    "--help": (0, ""),
    "help": (0, ""),
    "--cfg": (0, ""),
    "--html": (2, "there is no folder 'DIR' of the data set"),
    "part": (2, "a run folder"),
    "export": (2, "RUN"),
    "report": (2, "no finished run"),
    "compare": (2, "no finished run"),
    "status": (2, "there is no run yet"),
    "doctor": (3, "DIR"),
    "from-scores": (3, ""),
}
"""By verb or flag, how a command ends that is understood where what it names is not there, and a part of what it says."""


@pytest.mark.parametrize(
    "command",
    [
        *(pytest.param(one, marks=pytest.mark.slow) if " doctor " in one else one for one in sorted(FIRST)),
        *mostly_slow(one for one in ALL if one.startswith(OURS) and one not in FIRST),
    ],
)
def test_each_command_is_understood(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = shlex.split(re.sub(f"^{TOOL} ", "", command))
    verb = words[0] if words[0] in {*cli.VERBS, *UNKNOWN_HERE} else "run"
    status, part = next((want for key, want in UNDERSTOOD.items() if key in (verb, *words)), (None, ""))
    if verb == "compare" and words[1].startswith("recipe=") and len(words) == 2:  # of a scorecard, without a run
        status, part = 0, "published cells"
    if status is not None:
        if ">" in words:  # a shell takes the file that standard output goes into
            words = words[: words.index(">")]
        assert cli.run([word for word in words if word != "[RUN]"]) == status
        assert part in "".join(capfd.readouterr())
        return
    if "--config-dir" in words:
        own_options(tmp_path)
    if cli.run(["validate", *words[verb in words :]]):  # understood, and refused because the folders are not there
        err = capfd.readouterr().err
        assert "is not that of a VoicePrivacy Challenge" in err or "no audio can be checked: there is no folder" in err


def own_options(folder: Path) -> None:
    """The folder of own options as conf/README.md shows it."""
    shown = re.findall(r"^  (\w+/\w+\.yaml) +(.*)$", (ROOT / "conf" / "README.md").read_text(), re.MULTILINE)
    assert shown
    for name, content in shown:
        (folder / "mine" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "mine" / name).write_text(f"{content}\n")


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for command in ALL:
        if command.startswith("make "):
            assert f"\n{command.split()[1]}:" in makefile


@pytest.mark.slow
def test_the_kaldi_command_evaluates_a_folder(tmp_path: Path, models: Path) -> None:
    """The main command of the README as printed, on a small folder."""
    asked = "recipe=kaldi dataset.root=DIR"
    assert {f"python -m pipeline {asked}", f"voice-privacy {asked}"} & {*COMMANDS["README.md"]}
    if not (models / "ge2e" / "pretrained.pt").is_file():
        pytest.skip("the offline weights are not here: make install")
    root = toy.corpus(tmp_path / "DIR", speakers=6, utterances=4)
    done = toy.run("recipe=kaldi", f"dataset.root={root}", cwd=tmp_path, check=True)
    assert Path(done.stdout.splitlines()[-1]).is_file()


def test_the_shown_output_has_the_shape_of_the_demos(demo: Demo) -> None:
    """Numbers differ in the last digit between processors; heads, systems, attacks and closing lines must not. The demo is one screen."""
    shown = README.read_text().split("$ make demo\n")[1].split("```")[0].splitlines()
    printed, number = demo.stdout.splitlines(), re.compile(r"\d\.\d+")
    assert len(printed) <= 40 and printed[0] in shown
    for line in shown:
        if line.startswith(("rank  ", "      ")):
            assert number.sub("#", line) in [number.sub("#", one) for one in printed], line
    # Rows of the table, not lines of the paragraph that begin with a number: it breaks elsewhere where numbers are shorter.
    rows = [line for line in shown if re.match(r"(\d+|–) {2,}\S", line)]
    assert len(rows) == 3 and all(any(line.startswith(row[:16]) for line in printed) for row in rows)
    assert next(line for line in shown if line.startswith("tasks:")) == printed[-2]


def notebook() -> str:
    """The script of the README's section \"From a notebook\"."""
    section = README.read_text().split("## From a notebook")[1]
    return section.split("```python\n")[1].split("```")[0]


def test_the_notebook_script_has_ten_statements() -> None:
    tree = ast.parse(notebook())
    assert len(tree.body) == 10
    assert isinstance(tree.body[0], ast.Import) and tree.body[0].names[0].name in ("pipeline", "voice_privacy")


@pytest.mark.slow
def test_the_notebook_script_runs_as_it_stands(tmp_path: Path, models: Path) -> None:
    """But for the folder of the data. It prints the tables, LaTeX, a signature and the path of the report, and draws a figure."""
    if not (models / "ge2e" / "pretrained.pt").is_file():
        pytest.skip("the offline weights are not here: make install")
    root = toy.corpus(tmp_path / "data", speakers=6, utterances=6)
    assert notebook().count("DIR") == 1
    done = subprocess.run(
        [sys.executable, "-c", notebook().replace("DIR", str(root))],
        cwd=tmp_path, capture_output=True, text=True, timeout=toy.HANGS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr and "Warning" not in done.stderr
    *_, signed, page = done.stdout.splitlines()
    assert Path(page).is_absolute() and Path(page).is_file()
    rows = results.read(Path(page).parent)
    assert signed == rows[rows["metric"] == "eer"]["signature"].iloc[0]
    assert set(rows["system"]) == {"original", "b2"} and set(rows["extractor"]) == {"ge2e"}
    shown, _, latex = done.stdout.partition("\\begin{")
    for text in (shown, latex):
        assert all(f"{100 * value:.2f}" in text for value in rows[(rows["variant"] == "rocch")]["value"])
    assert latex.count("\\toprule") == latex.count("\\bottomrule") > 1
    with Image.open(tmp_path / "matrix.png") as picture:
        assert min(picture.size) > 200
        assert len(picture.convert("RGB").getcolors(maxcolors=10**6) or []) > 100
