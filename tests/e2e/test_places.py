"""Where a run writes: below paths.root and paths.cache, whatever else there is; and what it does where some place takes nothing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from pipeline import cli, host
from pipeline.tables import results
from tests import toy
from tests.namespaces import FULL, READ_ONLY, SMALL_MEMORY, within

CACHES = dict.fromkeys((*host.FOLDERS, "VOICE_PRIVACY_CACHE", "TMPDIR"), "")
"""Variables that would say where something is kept, unset."""
PIPELINE = (sys.executable, "-m", "pipeline")
EXECUTORS = [(), ("executor=processes", "executor.workers=2")]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy.corpus(tmp_path_factory.mktemp("data") / "toy", speakers=4, utterances=4)


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of wav files a speaker."""
    root = tmp_path_factory.mktemp("train") / "speakers"
    for speaker in range(20, 34):
        for number in range(3):
            _, who, path = toy.wav(root.parent, speaker, number, 1.0)
            (root / who).mkdir(parents=True, exist_ok=True)
            path.rename(root / who / path.name)
    return root


def small(data: Path, exp: Path, *more: str) -> list[str]:
    return [
        "recipe=kaldi", f"dataset.root={data}", "system=[original]", "extractor=[ge2e]", "attacker=[ignorant]", "metric=[asv]",
        "metric.asv.interval=none", "diagnostics=false", f"paths.root={exp}", *more,
    ]  # fmt: skip


def large(data: Path, training: Path, exp: Path) -> list[str]:
    """What compiles, fits, judges and draws."""
    return [
        "recipe=kaldi", f"dataset.root={data}", f"dataset.train={training}", "system=[original,b2]", "extractor=[ge2e,f0]",
        "attacker=[ignorant]", "backend=[wccn]", "backend.wccn.as_norm=null", "metric=[asv,vsm,cece]", "metric.cece.interval=none",
        f"paths.root={exp}",
    ]  # fmt: skip


def values(exp: Path) -> np.ndarray:
    """The values of the newest run."""
    *_, run = sorted((exp / "runs").iterdir())
    return results.read(run)["value"].to_numpy()


def _models() -> Path:
    return Path(os.environ.get("VOICE_PRIVACY_MODELS", Path.home() / ".cache" / "voice-privacy" / "models"))


def started(words: Sequence[object], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder; of an empty value the variable is unset."""
    given = {name: value for name, value in {**os.environ, **environment}.items() if value}
    return subprocess.run(
        [str(word) for word in words], cwd=folder, env=given, capture_output=True, text=True, timeout=toy.HANGS
    )


# Nowhere else

WATCHED = """
import os, runpy, sys
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
NAMES = {"os.mkdir": 1, "os.rename": 2, "os.remove": 1, "os.rmdir": 1, "os.link": 2, "os.symlink": 2, "os.truncate": 1, "os.chmod": 1,
         "os.utime": 1, "tempfile.mkstemp": 1, "tempfile.mkdtemp": 1, "sqlite3.connect": 1, "socket.bind": 0}
seen = open(sys.argv.pop(1), "a", buffering=1)
def told(event, given):
    if event == "open":
        names = given[:1] if isinstance(given[2], int) and given[2] & WRITES else ()
    else:
        names = given[: NAMES.get(event, 0)]
    for name in names:
        if isinstance(name, (str, bytes, os.PathLike)):
            print(event, os.path.abspath(os.fsdecode(name)), file=seen)
sys.addaudithook(told)
runpy.run_module("pipeline", run_name="__main__", alter_sys=True)
"""
"""A run that lists what it writes, as far as Python sees it; what its libraries do beside it, a read-only file system shows."""


@pytest.mark.slow
def test_a_run_writes_into_its_root_and_its_cache_alone(data: Path, training: Path, tmp_path: Path) -> None:
    home, exp, cache, seen = (tmp_path / name for name in ("home", "exp", "cache", "seen"))
    (home / "here").mkdir(parents=True)
    given = [*large(data, training, exp), f"paths.cache={cache}", f"paths.models={_models()}"]
    environment = {**CACHES, "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    done = started([sys.executable, "-c", WATCHED, seen, *given], home / "here", **environment)
    assert done.returncode == 0, done.stderr
    lines = [line.split(" ", 1) for line in seen.read_text().splitlines()]
    assert {"open", "os.mkdir", "os.rename"} <= {event for event, _ in lines}, "it sees what is written"
    assert any(Path(path).is_relative_to(cache / "numba") for _, path in lines)
    allowed = (exp, cache, Path(os.devnull), home / "here")  # Hydra makes sure that the current folder is there
    elsewhere = [line for line in lines if not any(Path(line[1]).is_relative_to(one) for one in allowed)]
    assert not elsewhere
    assert [path.name for path in home.rglob("*")] == ["here"]


CHECKED = """
for place in /tmp /var/tmp /dev/shm "$HOME" "$1"; do
    (: >"$place/probe-$$") 2>/dev/null && exit 78
done
shift
exec "$@"
"""
"""Ends with 78 where something can be written that should not be."""


@pytest.mark.slow
def test_names_of_the_data_do_not_say_where_something_is_written(tmp_path: Path) -> None:
    """Speakers and a label that are paths: of systems, vectors, models of speakers, figures and the report."""
    data = toy.corpus(tmp_path / "data" / "toy", speakers=4, utterances=4)
    evil = "../../../elsewhere/<script>evil</script>"
    for path in data.glob("toy_*/*"):
        if path.name != "wav.scp":
            words = [
                [evil if word == "syn00" else word for word in line.split()] for line in path.read_text().splitlines()
            ]
            path.write_text("".join(f"{' '.join(line)}\n" for line in words))
    assert evil in (data / "toy_enrolls" / "utt2spk").read_text()
    home = tmp_path / "a" / "b" / "c" / "d"
    home.mkdir(parents=True)
    before = set(tmp_path.rglob("*"))
    arguments = small(data, home / "exp", "system=[original,b2]", "metric=[asv,vsm]", "dataset.label=../../elsewhere")
    done = toy.run(*arguments, cwd=home, VOICE_PRIVACY_CACHE=str(home / "cache"))
    assert done.returncode in (0, 6), done.stderr
    made = set(tmp_path.rglob("*")) - before
    assert made and all(one.is_relative_to(home / "exp") or one.is_relative_to(home / "cache") for one in made)
    page = Path(done.stdout.splitlines()[-1]).read_text()
    assert "<script>evil" not in page and "elsewhere" in page


@pytest.mark.slow
def test_all_but_root_and_cache_may_be_read_only(data: Path, training: Path, tmp_path: Path) -> None:
    exp, cache = tmp_path / "exp", tmp_path / "cache"
    exp.mkdir()
    cache.mkdir()
    given = [*large(data, training, exp), f"paths.cache={cache}"]
    checked = ["bash", "-c", CHECKED, "bash", host.__file__.rpartition("/")[0]]
    done = within(READ_ONLY, [exp, cache], [*checked, *PIPELINE, *given], **CACHES)
    assert done.returncode == 0, done.stderr
    made = values(exp)
    assert cli.run([*large(data, training, tmp_path / "other")]) == 0
    np.testing.assert_array_equal(made, values(tmp_path / "other"))
    # Without a cache it is compiled for this process alone, and nothing of that stays.
    before = {path.name for path in exp.iterdir()}
    done = within(READ_ONLY, [exp], [*checked, *PIPELINE, *given, "system=[original,b2r]"], **CACHES)
    assert done.returncode == 0 and f"nothing can be kept in {cache}" in done.stderr, done.stderr
    assert {path.name for path in exp.iterdir()} == before


# Places that take nothing


@pytest.mark.parametrize(("script", "executor"), zip((FULL, SMALL_MEMORY), EXECUTORS), ids=["tmp", "shm"])
@pytest.mark.slow
def test_temporary_files_and_shared_memory_that_are_full_cost_nothing(
    data: Path, tmp_path: Path, script: str, executor: Sequence[str]
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    toy_data = Path(shutil.copytree(data, home / "toy"))
    given = [*small(toy_data, home / "exp", "system=[original,b2]"), f"paths.models={_models()}"]
    done = within(script, [home], [*PIPELINE, *given, *executor], **CACHES, HOME="/proc/none")
    assert done.returncode == 0 and "can be started" not in done.stderr, done.stderr
    assert sorted(path.name for path in home.iterdir()) == ["exp", "toy"]
    assert cli.run(small(toy_data, tmp_path / "other", "system=[original,b2]")) == 0
    np.testing.assert_array_equal(values(home / "exp"), values(tmp_path / "other"))


@pytest.mark.slow
def test_several_hundred_files_are_read_with_few_open_files(tmp_path: Path) -> None:
    data = toy.corpus(tmp_path / "toy", speakers=4, utterances=75)
    given = small(data, tmp_path / "exp", "runtime.threads=2")
    limited = ["bash", "-c", 'ulimit -n 256 && exec "$@"', "bash"]
    done = started([*limited, *PIPELINE, *given, *EXECUTORS[1]], tmp_path)
    assert done.returncode == 0 and "can be started" not in done.stderr, done.stderr
    held = json.loads((next((tmp_path / "exp").glob("runs/*")) / "status.json").read_text())
    assert held["state"] == "done"
    assert cli.run(small(data, tmp_path / "other", "runtime.threads=2")) == 0
    np.testing.assert_array_equal(values(tmp_path / "exp"), values(tmp_path / "other"))
