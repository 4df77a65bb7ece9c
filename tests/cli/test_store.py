"""The verb ``store`` over small stores whose artefacts are texts: what it lists, finds and removes."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pipeline import cli
from pipeline.engine import cleaning, inventory
from pipeline.engine.outcome import Outcome
from pipeline.engine.store import RECORD, Store, sign_record
from pipeline.engine.task import Task, Value, Work
from pipeline.engine.usage import UsageRecorder
from pipeline.evaluation.run_folder import RunFolder
from pipeline.seeds import digest
from tests.running import execute

ROOT = Path(__file__).resolve().parents[2]
Command = Callable[..., tuple[int, str, str]]


def writes(work: Work) -> None:
    given = work.input("text")
    above = work.input("above").path("value").read_text() if work.has("above") else ""
    (work.folder() / "value").write_text(above + given)
    (work.folder() / "deep").mkdir()
    (work.folder() / "deep" / "er").write_text(given)


def task(text: str, stage: str = "extract", above: Task | None = None) -> Task:
    inputs: dict[str, Any] = {"text": Value(digest(text), text)}
    if above is not None:
        inputs["above"] = above.ref()
    return Task(stage, f"{stage} {text}", writes, settings={"size": 3, "deep": {"er": [1, 2]}}, inputs=inputs)


def a_run(root: Path, *tasks: Task, state: str = "done") -> Path:
    """The folder of a run that performed some tasks."""
    folder = RunFolder(root / "runs", "kaldi")
    folder.describe({}, ["recipe=kaldi", "system=[original]"])
    outcome = execute(tasks, Store(root / "store"))
    used = UsageRecorder(folder.path, outcome)
    for one in tasks:
        used.end(one, True)
    used.finish()
    folder.status(state=state)
    folder.close()
    return folder.path


def key(root: Path, label: str) -> str:
    (record,) = [one for one in map(_record, root.glob("store/*/*/*/record.json")) if one["notes"]["label"] == label]
    return str(record["key"])


def _record(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())  # type: ignore[no-any-return]


def place(root: Path, label: str) -> Path:
    (found,) = root.glob(f"store/*/*/{key(root, label)}")
    return found


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "exp"


@pytest.fixture
def command(root: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """``store`` with these arguments, over ``root`` unless another is given; exit status, output, errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VOICE_PRIVACY_ROOT", raising=False)

    def call(*arguments: str) -> tuple[int, str, str]:
        capfd.readouterr()
        status = cli.run(["store", *arguments])
        out, err = capfd.readouterr()
        assert "Traceback" not in err and "bug of the pipeline" not in err, err
        return status, out, err

    return call


@dataclass(frozen=True)
class Made:
    """A root with two runs that share an artefact: ``shared`` is read for ``one`` and for ``two``."""

    root: Path
    runs: tuple[str, str]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    root, shared = tmp_path_factory.mktemp("made") / "exp", task("shared")
    runs = [a_run(root, shared, task(text, "score", shared)).name for text in ("one", "two")]
    return Made(root, (runs[0], runs[1]))


@pytest.fixture
def two(made: Made, root: Path) -> tuple[Path, Path]:
    """The two runs, in a copy of their root."""
    shutil.copytree(made.root, root)
    return root / "runs" / made.runs[0], root / "runs" / made.runs[1]


def listing(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# Looking -------------------------------------------------------------------------------------------------------------


def test_nothing_heavy_is_imported() -> None:
    said = subprocess.run(
        [sys.executable, "-c", "import sys; from pipeline import cli; cli.run(['store', '--root', '/nowhere', 'ls']);"
         "print([name for name in ('torch', 'pandas', 'pyarrow', 'hydra', 'pydantic', 'scipy') if name in sys.modules])"],
        capture_output=True, text=True, cwd=ROOT, check=True, timeout=300,
    )  # fmt: skip
    assert said.stdout == "[]\n"
    assert "there is no store in /nowhere" in said.stderr


def test_artefacts_are_listed_by_stage_and_label(root: Path, two: tuple[Path, Path], command: Command) -> None:
    status, out, _ = command("ls")
    rows = [line.split() for line in out.partition("room:")[0].splitlines()]
    assert status == 0
    assert [(row[0], " ".join(row[6:])) for row in rows] == [
        ("extract", "extract shared"), ("score", "score one"), ("score", "score two"),
    ]  # fmt: skip
    assert [row[1] for row in rows] == [key(root, " ".join(row[6:]))[:12] for row in rows]
    assert [json.loads(line)["label"] for line in command("ls", "score", "--json")[1].splitlines()] == [
        "score one", "score two",
    ]  # fmt: skip
    status, _, err = command("ls", "scores")
    assert status == 2 and "its stages: extract, score" in err


def test_room_is_said_with_all_artefacts_alone(root: Path, two: tuple[Path, Path], command: Command) -> None:
    (root / "store" / "recordings").mkdir()
    (root / "store" / "recordings" / "bytes").write_bytes(bytes(10_000))
    out = command("ls")[1]
    assert re.search(r"^  recordings +1 files +10\.0 kB$", out, re.MULTILINE) and "\nfree: " in out
    assert "room" not in command("ls", "score")[1]


def test_why_an_artefact_is_what_it_is(root: Path, two: tuple[Path, Path], command: Command) -> None:
    shared, one = (f"{label.split()[0]} {key(root, label)} {label}" for label in ("extract shared", "score one"))
    status, out, _ = command("why", key(root, "score one")[:12].upper())
    said = json.loads(out)
    assert status == 0 and said["artefact"] == one and said["parts"]["settings"] == {"size": 3, "deep": {"er": [1, 2]}}
    assert said["sources"] == {"text": [digest("one")], "above": [shared]} and said["runs"] == [two[0].name]
    said = json.loads(command("why", str(place(root, "extract shared")))[1])
    assert set(said["read_by"]) == {one, f"score {key(root, 'score two')} score two"}
    assert said["runs"] == [run.name for run in two]


def test_a_record_that_does_not_say_its_sources_is_told_by_digests(
    root: Path, two: tuple[Path, Path], command: Command
) -> None:
    record = _record(place(root, "score one") / RECORD)
    del record["check"], record["notes"]["sources"]
    (place(root, "score one") / RECORD).write_text(sign_record(record))
    (above,) = json.loads(command("why", record["key"])[1])["sources"]["above"]
    assert above == f"extract {key(root, 'extract shared')} extract shared"


@pytest.mark.parametrize(
    ("asked", "said"),
    [("xyz", "is no key"), ("", "is no key"), ("0" * 64, "no artefact has a key that begins with"), ("0" * 65, "is no key")],
)  # fmt: skip
def test_a_key_that_is_none(two: tuple[Path, Path], command: Command, asked: str, said: str) -> None:
    status, _, err = command("why", asked)
    assert status == 2 and said in err and "ls lists the keys" in err


def test_a_key_that_several_have(root: Path, command: Command) -> None:
    # Among 17 artefacts two begin with the same digit.
    a_run(root, *(task(str(number)) for number in range(17)))
    first = [found.name[0] for found in root.glob("store/extract/*/*")]
    twice = next(digit for digit in first if first.count(digit) > 1)
    status, _, err = command("why", twice)
    assert status == 2 and f"have keys that begin with {twice}" in err and "give more digits" in err


@pytest.mark.parametrize("action", [["ls"], ["verify"], ["why", "ab"], ["gc", "--keep", "x"]])
def test_a_store_that_is_not_there_or_empty(root: Path, command: Command, action: list[str]) -> None:
    status, _, err = command(*action)
    assert status == 2 and "there is no store in exp" in err
    (root / "store").mkdir(parents=True)
    status, _, err = command(*action)
    assert status == (0 if action[0] in ("ls", "verify") else 2), err
    # One level too deep: the remedy is an option, ready to paste.
    status, _, err = command(*action, "--root", str(root / "store"))
    assert status == 2 and f"--root {shlex.quote(str(root))}" in err


def test_the_root_comes_from_an_option_an_override_or_the_environment(
    root: Path, two: tuple[Path, Path], command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = command("ls", "score")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert command("--root", str(root), "ls", "score") == command("ls", "score", "--root", str(root)) == expected
    assert command("ls", "score", f"paths.root={root}") == expected
    monkeypatch.setenv("VOICE_PRIVACY_ROOT", str(root))
    assert command("ls", "score") == expected
    assert command("lss")[0] == 2


# Damage --------------------------------------------------------------------------------------------------------------


def damage(where: Path, how: str) -> None:
    record = where / RECORD
    if how == "bit":
        content = bytearray((where / "value").read_bytes())
        content[0] ^= 1
        (where / "value").write_bytes(content)
    elif how == "size":
        (where / "deep" / "er").write_text("longer than it was")
    elif how == "gone":
        (where / "value").unlink()
    else:
        record.write_text(
            {"empty": "", "list": "[]", "other": record.read_text().replace('"size": 3', '"size": 4')}[how]
        )


@pytest.mark.parametrize("how", ["bit", "size", "gone", "empty", "list", "other"])
def test_what_is_damaged_is_found_set_aside_and_made_again(
    root: Path, two: tuple[Path, Path], command: Command, how: str
) -> None:
    where = place(root, "score one")
    name = where.name
    damage(where, how)
    assert command("ls")[0] == 0
    if how != "bit":
        assert name[:12] in command("ls")[2]
        status, _, err = command("why", name[:12])
        assert status == 5 and "is damaged" in err
    status, out, err = command("verify", "--dry-run")
    assert status == 5 and out.startswith(f"score {name}: ") and "of 3 artefacts 1 are damaged" in err
    assert where.is_dir()
    # The remedy is the command without its option. Which runs stand on it is said before it goes, and after.
    words = f"voice-privacy recipe=kaldi 'system=[original]' paths.root={root}\n"
    assert f"score {name[:12]}" in out and out.split()[-1] == two[0].name and err.endswith(words)
    status, out, err = command("verify")
    assert status == 5 and out.startswith(f"score {name}: ") and not where.exists()
    assert out.split()[-1] == two[0].name and two[1].name not in out and err.endswith(words)
    status, _, err = command("why", name)
    assert "set aside" in err and f"used by {two[0].name}." in err and err.endswith(words)
    status, out, _ = command("verify")
    assert (status, out.split(" (")[0]) == (0, "2 artefacts are whole")
    shared = task("shared")
    assert execute([shared, task("one", "score", shared)], Store(root / "store")).computed == 1
    assert command("verify")[0] == 0


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda record: record.update(key="ab" * 32), "of another artefact"),
        (lambda record: record.update(stage="train"), "of another artefact"),
        (lambda record: record.update(digest="ab" * 32), "the digest in its record"),
        (lambda record: record["files"].update({"../../evil": {"bytes": 1, "sha256": "ab" * 32}}), "a file that is none of its own"),
        (lambda record: record["files"].update({"more": {"bytes": 1, "sha256": "ab" * 32}}), "the digest in its record"),
        (lambda record: record.clear(), "other fields"),
    ],
    ids=["another key", "another stage", "another digest", "a file outside", "another file", "no fields"],
)  # fmt: skip
def test_a_record_that_was_rewritten_and_signed_again_is_damage(
    root: Path, two: tuple[Path, Path], command: Command, change: Callable[[dict[str, Any]], object], problem: str
) -> None:
    path = place(root, "score one") / RECORD
    record = _record(path)
    record.pop("check")
    change(record)
    path.write_text(sign_record(record))
    status, out, _ = command("verify")
    assert status == 5 and problem in out and not path.exists()


def test_what_cannot_be_read_is_said_and_stays(
    root: Path, two: tuple[Path, Path], command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = place(root, "score one")
    real = inventory.file_digest

    def fails(path: Path) -> str:
        if path.resolve().is_relative_to(where):
            raise OSError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(inventory, "file_digest", fails)
    status, out, err = command("verify")
    assert status == 5 and "Permission denied" in out and "1 unreadable" in err and "chmod -R u+rwX" in err
    assert where.is_dir()


def test_a_name_that_a_terminal_would_obey_is_printed_in_its_escape_form(root: Path, command: Command) -> None:
    a_run(root, task("\x1b]0;owned\x07"))
    name = next(root.glob("store/extract/*/*")).name
    for arguments in (["ls"], ["why", name]):
        out = command(*arguments)[1]
        assert "\x1b" not in out and "]0;owned" in out


# What a run used -----------------------------------------------------------------------------------------------------


def test_a_run_says_what_it_used_as_it_goes_and_a_line_cut_off_by_a_kill_is_none(root: Path, command: Command) -> None:
    first, second = task("first"), task("second")
    run = a_run(root, first)
    execute([second], Store(root / "store"))
    (said,) = (run / "used").iterdir()
    assert said.read_text().splitlines()[1:] == [f"extract {key(root, 'extract first')}"]
    said.write_text(said.read_text() + f"extract {key(root, 'extract second')}")  # no end of line
    assert "would remove 1 artefacts" in command("gc", "--keep", run.name, "--younger", "0")[1]


def test_a_list_that_could_not_be_written_is_written_whole_later(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = [task(text) for text in "abc"]
    outcome = execute(tasks, Store(root / "store"))
    used = UsageRecorder(tmp_path, outcome)
    used.end(tasks[0], True)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", _full)
        used.end(tasks[1], True)
        assert not used.path.exists(), "half a list would let results be removed"
    used.end(tasks[2], True)
    assert sorted(used.path.read_text().splitlines()[1:]) == sorted(
        f"extract {key(root, f'extract {text}')}" for text in "abc"
    )


def _full(*_: Any, **__: Any) -> Any:
    raise OSError(28, "No space left on device")


# Removing ------------------------------------------------------------------------------------------------------------


def labels(root: Path) -> set[str]:
    return {_record(path)["notes"]["label"] for path in root.glob("store/*/*/*/record.json")}


def test_what_no_kept_run_used_goes_when_it_is_said_twice(root: Path, two: tuple[Path, Path], command: Command) -> None:
    one, other = two
    status, out, _ = command("gc", "--keep", one.name)
    assert status == 0 and "nothing is to be removed" in out and "1 younger than 24 hours" in out
    status, out, _ = command("gc", "--keep", one.name, "--younger", "0")
    assert status == 0 and "would remove 1 artefacts" in out and "--yes does it" in out and other.name in out
    assert labels(root) == {"extract shared", "score one", "score two"}
    status, out, _ = command("gc", "--keep", str(one), str(other), "--younger", "0", "--yes")
    assert status == 0 and "nothing is to be removed" in out
    status, out, _ = command("gc", "--keep", one.name, "--younger", "0", "--yes")
    assert status == 0 and "removed 1 artefacts" in out
    assert labels(root) == {"extract shared", "score one"}
    assert not list(root.glob("store/*/*/*.tmp-*")) and other.is_dir()


def test_what_a_run_that_goes_on_has_used_stays(root: Path, two: tuple[Path, Path], command: Command) -> None:
    going = a_run(root, task("going"), state="running")  # this process is alive
    status, out, _ = command("gc", "--keep", two[0].name, "--younger", "0", "--yes")
    assert status == 0 and f"still go on: {going.name}" in out
    assert labels(root) == {"extract shared", "score one", "extract going"}
    # One that does not say what it uses may use anything.
    shutil.rmtree(going / "used")
    status, _, err = command("gc", "--keep", two[0].name, "--younger", "0", "--yes")
    assert status == 2 and "may still go on" in err
    assert labels(root) == {"extract shared", "score one", "extract going"}
    assert "rm -r" not in err
    # Where it is silent and nobody can tell whether it has died, its folder is in the way, and it is said how it goes.
    for name in ("status.json", "run.log"):
        os.utime(going / name, (10**9, 10**9))
    _, _, err = command("gc", "--keep", two[0].name, "--younger", "0", "--yes")
    words = shlex.split(err.partition("remove its folder first: ")[2])
    assert "last sign of life was at 2001" in err and words == ["rm", "-r", f"exp/runs/{going.name}"]
    shutil.rmtree(words[2])
    assert command("gc", "--keep", two[0].name, "--younger", "0", "--yes")[0] == 0
    assert labels(root) == {"extract shared", "score one"}


def test_a_run_that_does_not_say_what_it_used_stops_the_removal(
    root: Path, two: tuple[Path, Path], command: Command
) -> None:
    shutil.rmtree(two[0] / "used")
    status, _, err = command("gc", "--keep", *(one.name for one in two), "--younger", "0", "--yes")
    assert status == 2 and "voice-privacy recipe=kaldi 'system=[original]'" in err
    status, out, _ = command("gc", "--keep", two[1].name, "--younger", "0")
    assert status == 0 and f"may lose some: {two[0].name}" in out
    (said,) = (two[1] / "used").iterdir()
    said.write_text(said.read_text().replace("score ", "sc?re "))
    status, _, err = command("gc", "--keep", two[1].name, "--younger", "0", "--yes")
    assert status == 3 and "not what was written" in err
    assert labels(root) == {"extract shared", "score one", "score two"}


def test_weights_that_no_run_has_used_stay_until_they_are_asked_for(
    root: Path, two: tuple[Path, Path], command: Command
) -> None:
    execute([task("night", "train")], Store(root / "store"))
    keep = ["gc", "--keep", *(one.name for one in two), "--younger", "0", "--yes"]
    assert "1 trained weights that no run has used" in command(*keep)[1]
    assert "train night" in labels(root)
    assert command(*keep, "--idle-weights")[0] == 0
    assert "train night" not in labels(root)


def test_what_others_write_and_what_runs_share_is_not_touched(
    root: Path, two: tuple[Path, Path], command: Command
) -> None:
    store = Store(root / "store")
    written, checkpoints = store.begin("score", digest("new")), store.scratch("train", digest("new"))
    for name in ("recordings/ab/one.wav", "files/one/two", "selections/ab/one"):
        (store.root / name).parent.mkdir(parents=True)
        (store.root / name).write_text("kept")
    assert command("gc", "--keep", two[0].name, "--younger", "0", "--yes")[0] == 0
    assert written.is_dir() and checkpoints.is_dir()
    assert len([path for path in store.root.rglob("*") if path.is_file() and path.read_text() == "kept"]) == 3


def test_two_that_clean_at_once_do_not_meet(root: Path, two: tuple[Path, Path]) -> None:
    first, second = (cleaning.plan_removal(root, [two[0]], 0) for _ in range(2))
    assert cleaning.remove_artefacts(first)[0] == 1
    assert cleaning.remove_artefacts(second)[0] == 0


def test_a_read_only_store_is_one_plain_error(
    root: Path, two: tuple[Path, Path], command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the system says it, whoever this process is."""
    damage(place(root, "score one"), "bit")

    def refused(self: Path, *_: Any, **__: Any) -> Any:
        raise OSError(30, "Read-only file system", str(self))

    for name in ("rename", "replace", "mkdir"):
        monkeypatch.setattr(Path, name, refused)
    status, out, err = command("verify")
    assert status == 5 and "value are not those" in out and "cannot be set aside" in err
    status, _, err = command("gc", "--keep", two[1].name, "--younger", "0", "--yes")
    assert status == 5 and "Read-only file system" in err


def test_outcomes_are_what_lists_are_made_of(tmp_path: Path) -> None:
    """What was recalled from the store is in the list too, though no task of it ended here."""
    above = task("above")
    store = Store(tmp_path / "store")
    execute([above], store)
    outcome = Outcome(store)
    assert outcome.recall(task("below", "score", above))
    used = UsageRecorder(tmp_path, outcome)
    used.finish()
    assert used.path.read_text().splitlines()[1:] == [f"extract {key(tmp_path, 'extract above')}"]
