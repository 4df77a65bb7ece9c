"""``compare recipe=NAME [RUN]`` through the command line: recomputed cells, verdicts of a run, files, faults and their remedies."""

from __future__ import annotations

import csv
import json
import shlex
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline.report import render
from pipeline.report.scorecard import output, runs, settings
from pipeline.tables import published, results, run_files
from tests import toy
from tests.report.test_scorecard import eer

Command = Callable[..., tuple[int, str, str]]


def run_of(
    folder: Path, *rows: dict[str, Any], said: tuple[str, ...] = (), config: dict[str, Any] | None = None
) -> Path:
    """A finished run with these rows."""
    folder.mkdir(parents=True)
    results.write(results.frame(rows), folder)
    run_files.write_limits(folder, said)
    (folder / "config.yaml").write_text(yaml.safe_dump(config or {}), encoding="utf-8")
    run_files.seal_run(folder)
    return folder


ROWS = (
    eer("original", "libri_test_trials_f", 0.08761, 0.05, 0.12),
    eer("b2", "libri_test_trials_f", 0.07483, 0.05, 0.1),
    eer("b2", "libri_test_trials_m", 0.031, 0.01, 0.04),
    eer("mine", "libri_test_trials_f", 0.41, 0.38, 0.44),
)


def test_without_a_run_every_cell_is_recomputed_and_nothing_is_written(command: Command, tmp_path: Path) -> None:
    status, out, err = command("compare", "recipe=srd2026")
    assert (status, err) == (0, "")
    assert "100 published cells: 4 sources disagree, 22 follows, 74 consistent" in out
    assert sum("libri_test" in line for line in out.splitlines()) == 100
    assert not list(tmp_path.rglob("scorecard*"))


def test_a_run_is_held_against_the_published_cells(command: Command, tmp_path: Path) -> None:
    folder = run_of(tmp_path / "run", *ROWS, said=("the protocol was made here",))
    status, out, err = command("compare", "recipe=vpc2024", str(folder))
    assert (status, err) == (0, "")
    assert out.index("the protocol was made here") < out.index("ours: mine") < out.index("IEMOCAP_dev")
    found = {row["our_system"]: row["verdict"] for row in read(folder) if row["ours"]}
    assert found == {"original": "reproduced", "b2": "within interval"}
    counted = Counter(row["verdict"] for row in read(folder))
    # Seven logs print the same cell of the original speech; what is doubted is the WER of two logs.
    assert counted == {"reproduced": 8, "within interval": 1, "sources disagree": 14, "not run": 201}
    assert out.splitlines()[-3:] == [str(folder.resolve() / f"scorecard.{kind}") for kind in ("csv", "md", "tex")]
    run_files.check_seal(folder)
    again = command("compare", "recipe=vpc2024", str(folder))
    assert again == (status, out, err)


def test_a_card_of_another_recipe_leaves_the_runs_own_as_they_are(command: Command, tmp_path: Path) -> None:
    folder = run_of(tmp_path / "run", *ROWS, config={"scorecard": {"tables": ["vpc2024_results"]}})
    (folder / "overrides.txt").write_text("recipe=vpc2024\n", encoding="utf-8")
    assert command("compare", "recipe=vpc2024", str(folder))[0] == 0
    own = {path.name: path.read_bytes() for path in folder.iterdir()}
    status, out, _ = command("compare", "recipe=vpac", str(folder))
    named = [f"scorecard-vpac.{kind}" for kind in ("csv", "md", "tex")]
    assert status == 0 and out.splitlines()[-3:] == [str(folder.resolve() / name) for name in named]
    assert {name for name in own if name.startswith("scorecard")} == {"scorecard.csv", "scorecard.md", "scorecard.tex"}
    assert {name: (folder / name).read_bytes() for name in own} == own
    assert "133 published cells" in out, "the tables are those of the recipe that is asked for"


def read(folder: Path) -> list[dict[str, str]]:
    with (folder / "scorecard.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_two_labels_for_one_system_are_refused_and_the_remedy_mends_it(command: Command, tmp_path: Path) -> None:
    twice = eer("b2_vpc2024", "libri_test_trials_f", 0.2)
    folder = run_of(tmp_path / "run", *ROWS, twice)
    status, out, err = command("compare", "recipe=vpc2024", str(folder))
    assert (status, out) == (2, "") and "several rows of the run stand for one published cell" in err
    remedy = shlex.split(err.partition("named with each: ")[2].splitlines()[0])[0]
    assert remedy.startswith("scorecard.systems.B2=")
    status, out, _ = command("compare", "recipe=vpc2024", str(folder), remedy)
    assert status == 0 and "ours: b2_vpc2024" in out


@pytest.mark.slow
def test_labels_and_tolerances_of_the_command_line_and_of_the_run(command: Command, tmp_path: Path) -> None:
    folder = run_of(tmp_path / "run", *ROWS, config={"scorecard": {"systems": {"B3": "mine"}}})

    def systems(*given: str) -> dict[str, str]:
        assert command("compare", "recipe=vpc2024", str(folder), *given)[0] == 0
        return {row["system"]: row["our_system"] for row in read(folder) if row["ours"] and row["condition"] == "PP"}

    assert systems() == {"mcadams": "b2", "sttts": "mine"}
    assert systems("scorecard.systems.B3=none", "scorecard.systems.B4=[mine,other]") == {"mcadams": "b2", "nac": "mine"}
    assert command("compare", "recipe=vpc2024", str(folder), "scorecard.tolerances.eer=2")[0] == 0
    assert {row["verdict"] for row in read(folder) if row["our_system"] == "b2"} == {"reproduced"}
    status, _, err = command("compare", "recipe=demo", str(folder), "scorecard.systems.B3=mine")
    assert status == 2 and "the recipe 'demo' has no scorecard" in err
    status, _, err = command("compare", "recipe=vpc2024", str(folder), "scorecard.system.B3=mine")
    assert status == 2 and "scorecard.system" in err and "did you mean systems" in err


def test_mistyped_labels_and_names_are_said(command: Command, tmp_path: Path) -> None:
    folder = run_of(tmp_path / "run", *ROWS)
    status, out, err = command("compare", "recipe=vpc2024", str(folder), "scorecard.systems.B1=mcadam")
    assert status == 0 and "published cells" in out
    assert "warning: scorecard.systems.B1=mcadam: the run has no system of this label; it has b2, mine, original" in err
    wrong = ("scorecard.systems.B9=mine", "scorecard.extractors.ecapo=x")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for verb in (
        ("compare", "recipe=vpc2024", str(folder)),
        ("validate", "recipe=vpc2024", "system=[original,b2]", "train=default"),
    ):
        status, _, err = command(*verb, *wrong)
        assert status == 2 and "scorecard.systems.B9: no published name" in err and "B1, B2, B3, B4, B5, B6" in err
        assert "scorecard.extractors.ecapo: no published name: did you mean ecapa?" in err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_table_of_ones_own_is_a_csv_and_no_code(command: Command, tmp_path: Path) -> None:
    folder = run_of(tmp_path / "run", *ROWS)
    cell = {"condition": "PP", "system": "mine", "metric": "eer", "variant": "speechbrain", "unit": "%"}
    own_table(tmp_path / "own.csv", subset="libri_test_trials_f", value="41", **{**cell, "rounding": "truncated"})
    status, out, _ = command("compare", "recipe=own", "scorecard.tables=[own.csv]", str(folder))
    assert status == 0 and "1 published cells: 1 reproduced" in out
    assert read(folder)[0]["our_system"] == "mine"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("compare", "recipe=vpc224"), "did you mean vpc2024"),
        (("compare", "recipe=demo"), "there is no scorecard of a recipe 'demo'"),
        (("compare", "recipe=vpc2024", "a", "b"), "a scorecard is of one run"),
        (("compare", "recipe=vpc2024", "nothing"), "no finished run"),
        (("compare", "recipe=vpc2024", "scorecard.tables=[nothing.csv]"), "there is no published table 'nothing.csv'"),
        (("compare",), "compare recipe=NAME"),
    ],
)
def test_what_cannot_be_compared_is_said(command: Command, tmp_path: Path, given: tuple[str, ...], said: str) -> None:
    for name in "ab":
        run_of(tmp_path / name, *ROWS)
    status, out, err = command(*given)
    assert (status, out) == (2, "") and said in err and "Traceback" not in err


def test_the_report_has_the_scorecard_that_was_sealed(tmp_path: Path) -> None:
    folder = run_of(tmp_path / "run", *ROWS)
    found = settings.read("vpc2024")
    assert found is not None
    runs.write_card_of_run(folder, found)
    run_files.seal_run(folder)
    page = render.render([folder], folder / "report.html").read_text(encoding="utf-8")
    assert '<h2 id="scorecard">Scorecard</h2>' in page and "ours: mine" in page and "7.483" in page
    assert page.index('id="scorecard"') < page.index('id="metrics"')
    (folder / output.FILE).write_text(json.dumps({}))
    with pytest.raises(Exception, match="not what was written"):
        run_files.check_seal(folder)
    plain = run_of(tmp_path / "plain", *ROWS)
    assert "Scorecard" not in render.render([plain], plain / "report.html").read_text(encoding="utf-8")


def own_table(path: Path, **words: str) -> Path:
    """A published table of one cell."""
    given = {"source": "Me 2027", "table": "Table 1", "rounding": "rounded", **words}
    path.write_text(",".join(published.COLUMNS) + "\n" + ",".join(given.get(n, "") for n in published.COLUMNS) + "\n")
    return path


@pytest.mark.slow
def test_a_run_with_a_scorecard_writes_it_before_it_is_sealed(command: Command, tmp_path: Path) -> None:
    cell = {"condition": "OO", "system": "original", "metric": "idr", "estimator": "empirical", "unit": "%"}
    own_table(tmp_path / "own.csv", subset="nowhere", value="100", **cell)
    status, out, err = command(
        f"dataset.root={toy.corpus(tmp_path / 'toy', speakers=6, utterances=4)}", "system=original", "extractor=f0",
        "metric=srd", "diagnostics=false", "runtime.device=cpu", "scorecard.tables=[own.csv]",
    )  # fmt: skip
    assert status == 0, err
    folder = Path(out.splitlines()[-1]).parent
    assert f"scorecard: 1 published cells: 1 not run ({folder / 'scorecard.md'})" in out.splitlines()
    made = {path.name for path in folder.glob("scorecard.*")}
    assert made == {"scorecard.csv", "scorecard.md", "scorecard.tex", "scorecard.json"}
    assert output.FILE in json.loads((folder / "digests.json").read_text())["sha256"]
    assert '<h2 id="scorecard">' in (folder / "report.html").read_text(encoding="utf-8")
    (row,) = [
        one
        for one in results.records(results.read(folder))
        if one["metric"] == "idr" and one["estimator"] == "empirical"
    ]
    own_table(tmp_path / "own.csv", subset=row["subset"], value=f"{100 * row['value']:.2f}", **cell)
    status, out, _ = command("compare", "recipe=mine", str(folder))
    assert status == 0 and "1 published cells: 1 reproduced" in out and "PARTIAL" not in out
    assert out.splitlines()[-1] == str(folder / "scorecard-mine.tex")
