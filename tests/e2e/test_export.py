"""The verb ``export``: a run as a paper wants it, in every format, and what is wrong with its remedy."""

from __future__ import annotations

import io
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import chdir
from pathlib import Path

import pandas as pd
import pytest

from pipeline import Result, cli
from pipeline import read as read_run
from pipeline.report import verdict
from pipeline.tables import csv
from tests import latex
from tests.e2e import test_answers as scores
from tests.toy import HANGS

NASTY = "t8 & 100%_#{x}$"
LIMIT = "evaluated from 8 score files alone"
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with two runs: of two systems, one of which has a name that LaTeX would take for commands; and of one system."""
    root = tmp_path_factory.mktemp("export")
    with pytest.MonkeyPatch.context() as patch, chdir(root):
        patch.setitem(scores.SHIFTS, NASTY, {"lazy_informed": 3.0})
        for name, systems in (("given", [NASTY, "good"]), ("one", ["good"])):
            scores.given(root / name, systems)
            made = cli.run([*scores.RUN, f"dataset.root={name}", "metric=[asv]", "diagnostics=false"])
            assert made == 0
        yield root


@pytest.fixture
def command(home: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.chdir(home)

    def call(*arguments: str) -> tuple[int, str, str]:
        capfd.readouterr()
        status = cli.run(arguments)
        out, err = capfd.readouterr()
        assert "Traceback" not in err and "bug of the pipeline" not in err, err
        return status, out, err

    return call


def run(home: Path, place: int = 0) -> Result:
    return read_run(sorted((home / "exp" / "runs").iterdir())[place])


def remedies(err: str) -> list[list[str]]:
    """The command lines of a message."""
    return [shlex.split(one)[1:] for one in re.findall(r"(voice-privacy [^;\n]*)", err)]


def earlier(made: Result, to: Path, board: pd.DataFrame | None) -> Path:
    """A copy of a run with another leaderboard, or as an earlier version would have left it: without one, and without digests."""
    shutil.copytree(made.folder, to)
    for path in (to / "digests.json", *to.glob("leaderboard.*")):
        path.unlink()
    if board is not None:
        board.to_parquet(to / "leaderboard.parquet", index=False)
    return to


def test_markdown_has_the_sentence_and_a_row_a_system(home: Path, command: Command) -> None:
    made = run(home)
    status, out, err = command("export", str(made.folder))
    assert (status, err) == (0, "")
    assert out.index(LIMIT) < out.index("What the strongest attack")
    board = made.leaderboard
    said = verdict.write_sentence(board, made.differences, scores.MEAN, made.diagnostics)
    plain = re.sub(r"\\(.)", r"\1", out).replace("&lt;", "<").replace("&amp;", "&")
    assert said in plain and plain.index(said) < plain.index("| rank |")
    blocks = out.split("**What the strongest attack")[1:]
    assert len(blocks) == 3 and scores.MEAN.replace("_", r"\_") in blocks[0], "the mean first"
    first, other = blocks[0].split("Other numbers of the systems:")
    rows = [line for line in first.splitlines() if line.startswith("| ")][2:]
    mean = board[board["subset"] == scores.MEAN]
    assert len(rows) == len(mean) == 3
    for line, more, row in zip(rows, other.splitlines()[4:], mean.to_dict("records")):
        assert f"| {row['d_ece']:.3f} " in more and f"{100 * row['eer_low']:.2f}" in more
        assert f"{row['d_ece_corrected']:.3f}" in line and f"{100 * row['lowest_eer_low']:.2f}" in line
    assert "eer:rocch" in blocks[0] and "v:0." in blocks[0] and re.search(r"sha256 [0-9a-f]{8}", blocks[0])
    assert "ALID" not in out and "tag" not in out, "columns without any value are left out"
    assert made.to_markdown().startswith(out)


def test_latex_would_compile_whatever_systems_are_called(home: Path, command: Command) -> None:
    made = run(home)
    status, out, _ = command("export", str(made.folder), "--format", "latex")
    assert status == 0 and out.startswith("% needs \\usepackage{booktabs}\n") and LIMIT in out
    found = latex.tables(out)
    assert len(found) == 6, "each subset has the answer and the other numbers"
    bodies = [latex.body(table) for table in found]
    names = ["good", r"t8 \& 100\%\_\#\{x\}\$", "original"]
    assert [[row[1 - place % 2] for row in body] for place, body in enumerate(bodies)] == [names] * 6
    assert out.count(r"\caption{") == out.count(r"\begin{table*}") == 3 and "good protects" in out
    assert made.to_latex().count(r"\begin{table*}") == 3
    latex.tables(made.to_latex())


def test_csv_is_the_leaderboard_and_what_must_be_known_goes_to_standard_error(
    home: Path, command: Command, tmp_path: Path
) -> None:
    made = run(home)
    status, out, err = command("export", made.folder.name, "--format", "csv")
    assert status == 0 and LIMIT in err
    assert out == (made.folder / "leaderboard.csv").read_text(encoding="utf-8")
    status, out, err = command("export", made.folder.name, "--format", "csv", "--subset", "libri_test_trials_m")
    assert status == 0 and set(pd.read_csv(io.StringIO(out))["subset"]) == {"libri_test_trials_m"}
    status, out, err = command("export", made.folder.name, "--format", "csv", "--what", "table")
    assert status == 0 and out == (made.folder / "results.csv").read_text(encoding="utf-8")


@pytest.mark.slow
def test_tables_are_those_of_the_result(home: Path, command: Command) -> None:
    made = run(home)
    _, out, _ = command("export", str(made.folder), "--what", "table")
    assert out.endswith(made.metrics_markdown()) and LIMIT in out.partition("| subset |")[0]
    assert "What the strongest attack" not in out
    _, out, _ = command("export", str(made.folder), "--what", "table", "--format", "latex")
    assert out.endswith(made.metrics_latex()) and LIMIT in out
    assert len(latex.tables(out)) >= 1


def test_bibtex_is_the_program_and_what_the_metrics_stand_on(home: Path, command: Command) -> None:
    made = run(home)
    status, out, err = command("export", str(made.folder), "--format", "bibtex")
    assert status == 0 and LIMIT in err and out == made.to_bibtex()
    keys = re.findall(r"^@(\w+)\{(\w+),$", out, re.MULTILINE)
    assert keys[0][0] == "software" and keys[1] == ("article", "brummer2006application") and len(keys) == 2
    assert r"Br{\"u}mmer" in out and out.count("{") == out.count("}")
    status, _, err = command("export", str(made.folder), "--format", "bibtex", "--what", "table")
    assert status == 2
    (again,) = remedies(err)
    assert command(*again)[:2] == (0, out)


def test_several_runs_are_one_table(home: Path, command: Command) -> None:
    one, two = run(home), run(home, 1)
    names = [one.folder.name, two.folder.name]
    _, out, _ = command("export", *names, names[0])
    blocks = out.split("**What the strongest attack")[1:]
    first = blocks[0].split("Other numbers of the systems:")[0]
    rows = [line.split(" | ") for line in first.splitlines() if line.startswith("| ")][2:]
    labels = list(dict.fromkeys(row[2] for row in rows))
    assert [labels.index(row[2]) for row in rows] == [0, 0, 0, 1, 1] and len(labels) == 2
    a, b = (label.replace("\\", "") for label in labels)
    plain = out.replace("\\", "")
    assert all(name in plain for name in names) and f"{a}: On libri_test (mean" in plain
    assert f"{b}: On libri_test (" in plain
    assert f"{a}: evaluated from 8 score files" in plain and f"{b}: evaluated from 6 score files" in plain
    _, out, _ = command("export", *names, "--format", "latex")
    assert [len(latex.body(table)) for table in latex.tables(out)] == [5] * 6
    _, out, err = command("export", *names, "--format", "csv")
    table = pd.read_csv(io.StringIO(out))
    assert list(dict.fromkeys(table["run_id"])) == names and len(table) == len(one.leaderboard) + len(two.leaderboard)
    assert f"{names[0]}: evaluated from 8" in err
    _, out, _ = command("export", *names, "--what", "table", "--format", "latex")
    first = latex.body(latex.tables(out)[0])
    assert f" is {names[1].replace('_', chr(92) + '_')}" in out and len({row[0] for row in first}) == 2
    _, out, _ = command("export", *names, "--what", "table", "--format", "csv")
    assert len(pd.read_csv(io.StringIO(out))) == len(one.rows) + len(two.rows)


def test_a_run_of_an_earlier_version_has_no_leaderboard(home: Path, command: Command, tmp_path: Path) -> None:
    old = earlier(run(home), tmp_path / "old", None)
    status, out, err = command("export", str(old), "--format", "latex")
    assert (status, out) == (2, "") and "an earlier version made it" in err
    (table,) = remedies(err)
    status, out, _ = command(*table)
    assert status == 0 and latex.tables(out)


def test_a_run_that_nobody_attacked_has_none_either(home: Path, command: Command, tmp_path: Path) -> None:
    made = run(home)
    none = earlier(run(home, 1), tmp_path / "none", made.leaderboard.iloc[:0])
    status, _, err = command("export", str(made.folder), str(none))
    assert status == 2 and "no metric of trials or no attacker" in err and str(none) in err
    status, out, _ = command(*remedies(err)[0])
    assert status == 0 and "| subset |" in out


def test_what_is_no_run_is_refused(home: Path, command: Command, tmp_path: Path) -> None:
    names = [path.name for path in sorted((home / "exp" / "runs").iterdir())]
    for wrong in (names[0][:-1] + "x", "exp", str(tmp_path / "nowhere")):
        status, out, err = command("export", wrong)
        assert (status, out) == (2, "") and wrong in err and names[-1] in err
    begun = tmp_path / "begun"
    begun.mkdir()
    (begun / "status.json").write_text("{}")
    status, _, err = command("export", str(begun))
    assert status == 2 and "no finished run" in err
    status, _, err = command("export", names[0], "--root", str(tmp_path))
    assert status == 2 and "--root DIR" in err
    assert command("export", names[0], "paths.root=exp")[0] == 0


def test_a_subset_that_is_not_there(home: Path, command: Command) -> None:
    status, _, err = command("export", run(home).folder.name, "--subset", "libri_test_trials")
    assert status == 2 and scores.MEAN in err
    status, out, _ = command(*remedies(err)[0])
    assert status == 0 and out.count("**What the strongest attack") == 1


def test_numbers_that_stand_on_less_are_marked_in_every_format(home: Path, command: Command, tmp_path: Path) -> None:
    made = run(home)
    board = made.leaderboard.copy()
    board.loc[board["system"] == "good", "status"] = "partial"
    lacking = board["system"] == NASTY
    board.loc[lacking, "status"] = "incomplete"
    board.loc[lacking, "reason"] = "stands on 3 of 4 trials"
    numbers = ["d_ece", "d_ece_corrected", "eer", "lowest_eer"]
    board.loc[
        lacking, [f"{name}{end}" for name in numbers for end in ("", "_low", "_high") if f"{name}{end}" in board]
    ] = float("nan")
    partial = earlier(made, tmp_path / "partial", board)
    rows = made.rows.copy()
    rows.loc[rows["system"] == "good", "status"] = "partial"
    rows.to_parquet(partial / "results.parquet", index=False)
    status, out, _ = command("export", str(partial))
    assert status == 0 and "†" in out and "do not compare" in out and "stands on 3 of 4 trials" in out
    _, out, _ = command("export", str(partial), "--format", "latex")
    assert r"\textdagger{}" in out and "stands on 3 of 4 trials" in out and latex.tables(out)
    _, out, err = command("export", str(partial), "--format", "csv")
    assert "partial" in out and f"{(rows['status'] == 'partial').sum()} of {len(rows)} results do not stand on" in err
    assert json.loads((made.folder / "limits.json").read_text())[0] in err


def test_plain_usage_is_said(command: Command) -> None:
    assert command("export")[0] == 2
    status, out, _ = command("export", "--help")
    assert status == 0 and "--what" in out
    status, _, err = command("export", "x", "--format", "html")
    assert status == 2 and "markdown" in err
    assert "export RUN" in command("--help")[1]


def test_csv_cells_are_no_formulas(home: Path, command: Command) -> None:
    _, out, _ = command("export", run(home).folder.name, "--format", "csv")
    assert csv.text(run(home).leaderboard, "%.17g") == out


def test_help_loads_nothing_heavy(tmp_path: Path) -> None:
    """A process of its own: which modules it has loaded is the matter."""
    heavy = "torch pandas hydra pyarrow scipy pydantic numpy matplotlib"
    code = (
        "import sys; from pipeline import cli; cli.run(['export', '--help']); "
        f"print([name for name in '{heavy}'.split() if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=HANGS)
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "[]", done.stdout + done.stderr
