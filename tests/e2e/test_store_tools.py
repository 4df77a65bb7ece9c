"""Real runs and the verb ``store``: what is removed, damaged or copied elsewhere, and what the next run then computes."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline import cli
from pipeline.evaluation import run_folder
from pipeline.tables import results
from tests.e2e.test_run_folder import arguments

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data, and a finished run over them."""
    home = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        assert cli.run(arguments(home)) == 0
    return home


@pytest.fixture
def asked(finished: Path, tmp_path: Path) -> list[str]:
    """The command of the finished run, over a copy of what it left: ``exp``."""
    shutil.copytree(finished / "exp", tmp_path / "exp")
    return [f"paths.root={tmp_path / 'exp'}" if one.startswith("paths.root") else one for one in arguments_of(finished)]


def arguments_of(home: Path) -> list[str]:
    (run,) = (home / "exp" / "runs").iterdir()
    return (run / "overrides.txt").read_text().splitlines()


def counts(out: str) -> tuple[int, int]:
    """Tasks reused and computed."""
    words = out.splitlines()[-2].split()
    return int(words[1]), int(words[3])


def only(root: Path) -> Path:
    (run,) = (root / "runs").iterdir()
    return run


def same(one: Path, other: Path) -> bool:
    first, second = (
        results.read(run).drop(columns=["run_id", "config_digest"], errors="ignore") for run in (one, other)
    )
    return bool(first.equals(second))


def test_elsewhere_a_run_computes_nothing_again(
    finished: Path, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = only(finished / "exp")
    # The other cluster: another root, and the same data in another place.
    other = tmp_path / "other"
    shutil.copytree(finished / "data", other / "data")
    shutil.copytree(finished / "x", other / "x")
    monkeypatch.chdir(other)
    for folder in ("store", "runs"):
        shutil.copytree(finished / "exp" / folder, other / "new" / folder)
    status, out, _ = command("store", "--root", "new", "verify")
    assert status == 0 and "artefacts are whole" in out
    there = other / "new" / "runs" / run.name
    given = [
        one.replace(str(finished), str(other)) for one in arguments_of(finished) if not one.startswith("paths.root")
    ]
    status, out, _ = command(*given, "paths.root=new")
    assert status == 0 and counts(out)[1] == 0 and counts(out)[0] > 0
    assert same(run, there) and same(run, Path(out.splitlines()[-1]).parent)
    assert command("report", str(there))[0] == 0


@pytest.mark.slow
def test_all_that_a_run_reuses_is_in_its_list(
    finished: Path, asked: list[str], tmp_path: Path, command: Command
) -> None:
    """What it does not name can go without the next run computing anything, and what it names cannot."""
    first = only(tmp_path / "exp")
    status, out, _ = command("store", "gc", "--keep", first.name, "--younger", "0", "--yes")
    assert status == 0 and "nothing is to be removed" in out, "a run used all that it made"
    otherwise = [one.replace("asv.interval=none", "asv.interval=jackknife") for one in asked]
    assert otherwise != asked and command(*otherwise)[0] == 0
    status, out, _ = command("store", "gc", "--keep", first.name, "--younger", "0", "--yes")
    assert status == 0 and re.search(r"removed [1-9]", out)
    status, out, _ = command(*asked)
    assert status == 0 and counts(out)[1] == 0


@pytest.mark.slow
def test_a_run_beside_which_its_artefacts_are_removed_ends_well(
    finished: Path, asked: list[str], tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = only(tmp_path / "exp")
    (tmp_path / "exp" / "runs" / "empty" / "used").mkdir(parents=True)
    (tmp_path / "exp" / "runs" / "empty" / "used" / "1.txt").write_text("# nothing\n")
    begun: list[str] = []
    real = run_folder.Recording.begin

    def begin(self: run_folder.Recording, task: object, where: str = "") -> None:
        begun.append(where)
        if len(begun) == 3:
            assert cli.run(["store", "--root", "exp", "gc", "--keep", "empty", "--younger", "0", "--yes"]) == 0
        real(self, task, where)  # type: ignore[arg-type]

    monkeypatch.setattr(run_folder.Recording, "begin", begin)
    status, out, err = command(*asked)
    assert status == 0 and "removed " in out and "still go on" in out, err
    report = Path(out.splitlines()[-1])
    assert counts(out)[1] > 0 and same(first, report.parent)
    assert counts(command(*asked)[1])[1] == 0


def test_a_run_that_was_interrupted_says_what_it_used(
    finished: Path, asked: list[str], tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = only(tmp_path / "exp")
    begun: list[str] = []

    def begin(self: run_folder.Recording, task: object, where: str = "") -> None:
        begun.append(where)
        if len(begun) == 4:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(run_folder.Recording, "begin", begin)
        assert command(*asked)[0] == 130
    (run,) = set((tmp_path / "exp" / "runs").iterdir()) - {first}
    (said,) = (run / "used").iterdir()
    used = said.read_text().splitlines()[1:]
    assert len(used) == 3 and set(used) < set(next((first / "used").iterdir()).read_text().splitlines())
    assert command("store", "gc", "--keep", run.name, "--younger", "0", "--yes")[0] == 0
    assert sorted(f"{path.parent.parent.name} {path.name}" for path in Path("exp/store").glob("*/*/" + "?" * 64) if path.is_dir()) == sorted(used)  # fmt: skip
