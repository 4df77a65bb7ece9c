"""What others hand on and a run reads: tables, run folders, artefacts. None leads out of its folder, and none has it wait for ever."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pipeline import cli, evaluation
from pipeline.datasets import importers
from pipeline.engine.store import Store
from pipeline.engine.store import sign_record as signed_record
from pipeline.errors import ConfigError, DataError
from pipeline.files import Outside, is_below, resolve_inside
from pipeline.seeds import digest
from pipeline.tables import manifest, records
from tests.datasets.conftest import Tiny, refused
from tests.running import Command
from tests.sampled import mostly_slow

__all__ = ["refused"]

AWAY = ("../secret", "/etc/hostname", "a/../../secret", "link", "folder/secret", "", "a\0b")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of a finished run over score files, which takes a moment."""
    root = tmp_path_factory.mktemp("finished")
    _scores(root / "given")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        assert cli.run(_command(root / "given", root / "exp")) == 0
    return root / "exp"


def _command(given: Path, exp: Path) -> list[str]:
    return ["recipe=bring_your_scores", f"dataset.root={given}", "dataset.labels=ids", "metric=[asv]",
            "metric.asv.interval=none", f"paths.root={exp}"]  # fmt: skip


def _scores(folder: Path) -> None:
    """A score file with a table that names it: models A to D against utterances A-0, A-1, …"""
    random = np.random.default_rng(3)
    folder.mkdir(parents=True)
    lines = [
        f"{model} {speaker}-{number} {random.normal() + 3 * (model == speaker):.4f}"
        for model in "ABCD"
        for speaker in "ABCD"
        for number in range(4)
    ]
    (folder / "oo.txt").write_text("".join(f"{line}\n" for line in lines))
    (folder / "scores.csv").write_text("file,subset\noo.txt,made_trials_f\n")


# Names


def test_a_name_in_a_manifest_is_of_a_file_below_its_folder(tmp_path: Path) -> None:
    folder, other = tmp_path / "folder", tmp_path / "folder and more"
    for one in (folder / "a", other):
        one.mkdir(parents=True)
        (one / "secret").write_text("x")
    (folder / "link").symlink_to(other / "secret")
    (folder / "folder").symlink_to(other)
    (folder / "within").symlink_to(folder / "a" / "secret")
    for name in AWAY:
        with pytest.raises(Outside):
            resolve_inside(folder, name)
    for name in ("a/secret", "within", "./a/secret", "not/there", "..a", "a..b/c"):
        assert resolve_inside(folder, name) == folder / name
        assert is_below(name)


@pytest.mark.parametrize("name", ["../secret", "/etc/hostname", "a/../../x"])
def test_a_record_that_names_what_is_not_its_own_is_damage(name: str, tmp_path: Path) -> None:
    store, key = Store(tmp_path / "store"), digest("key")
    (store.begin("stage", key) / "value").write_text("x")
    (left,) = (tmp_path / "store" / "stage" / key[:2]).iterdir()
    made = store.commit("stage", key, left, {}, {})
    record = {**made.record, "files": {name: made.record["files"]["value"]}}
    record["digest"] = digest([[name, record["files"][name]["sha256"]]])
    (made.place / "record.json").write_text(signed_record(record))
    (tmp_path / "store" / "stage" / key[:2] / "secret").write_text("x")
    assert store.find("stage", key) is None
    assert (tmp_path / "store" / "stage" / key[:2] / "secret").exists()


def test_a_manifest_of_the_store_that_names_what_is_not_its_own_is_refused(tmp_path: Path) -> None:
    import pandas as pd

    pd.DataFrame({"path": ["wav/a.wav", "../../../secret.wav"]}).to_parquet(tmp_path / manifest.FILE)
    with pytest.raises(DataError, match=r"none of its own: \.\./\.\./\.\./secret\.wav"):
        manifest.read(tmp_path)


# Run folders


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A copy of the run folder, beside no store."""
    (made,) = (finished / "runs").iterdir()
    return Path(shutil.copytree(made, tmp_path / "theirs" / made.name))


@pytest.mark.parametrize("name", ["../secret", "/etc/hostname", "link"])
def test_digests_that_name_other_files_are_refused(name: str, run: Path, command: Command) -> None:
    (run.parent / "secret").write_text("x")
    (run / "link").symlink_to(run.parent / "secret")
    kept = records.decode_signed((run / "digests.json").read_bytes())["sha256"]
    (run / "digests.json").write_text(records.encode_signed({"sha256": {**kept, name: "0" * 64}}))
    status, out, err = command("report", str(run))
    assert (status, out) == (3, "") and f"'{name}' leads out of {run}" in err


@pytest.mark.parametrize(
    "path", ["../../secret", "score/ab/" + "../" * 3 + "x", pytest.param("/etc/ssl/x", marks=pytest.mark.slow)]
)
def test_scores_are_read_from_the_store_alone(path: str, run: Path) -> None:
    import pandas as pd

    (run / "digests.json").unlink()
    table = pd.read_parquet(run / "artefacts.parquet")
    table.assign(path=path).to_parquet(run / "artefacts.parquet", index=False)
    with pytest.raises(DataError, match=r"artefacts\.parquet"):
        evaluation.read(run).scores()


def test_a_run_folder_does_not_say_where_something_is_written(run: Path, tmp_path: Path) -> None:
    """Its store.json names a folder that is none of ours."""
    victim = tmp_path / "victim"
    victim.mkdir()
    (run / "digests.json").unlink()
    (run / "store.json").write_text(json.dumps({"store": str(victim)}))
    (run / "report.html").unlink()
    assert evaluation.read(run).report().is_file()
    assert not list(victim.iterdir())


def test_a_record_of_a_run_that_is_a_pipe_is_none(run: Path) -> None:
    """What opens it does not wait."""
    (run / "digests.json").unlink()
    os.mkfifo(run / "digests.json")
    with pytest.raises(DataError, match=r"digests\.json"):
        evaluation.read(run)
    (run / "results.parquet").unlink()
    os.mkfifo(run / "results.parquet")
    (run / "digests.json").unlink()
    with pytest.raises(ConfigError, match=r"results\.parquet"):
        evaluation.read(run)


# Tables of data


def _fifo(path: Path, _: Path) -> None:
    os.mkfifo(path)


def _device(path: Path, _: Path) -> None:
    path.symlink_to("/dev/zero")


IN_PLACE = {"pipe": _fifo, "device": _device}
TABLES = ["wav.scp", "utt2spk", "enrolls", "spk2gender", "utt2dur"]


@pytest.mark.parametrize("kind", IN_PLACE)
@pytest.mark.parametrize("name", ["b-t1.wav", *TABLES])
def test_what_is_no_file_is_named_and_nobody_waits_for_it(
    name: str, kind: str, tmp_path: Path, refused: Callable[..., DataError]
) -> None:
    small = Tiny(tmp_path / "data").save()
    path = small.wav("b-t1") if name.endswith(".wav") else small.root / "t_enrolls" / name
    path.rename(tmp_path / "kept")
    IN_PLACE[kind](path, tmp_path / "kept")
    error = refused(importers.read_data_set, small.settings(follow_links=True))
    assert path.name in str(error)


@pytest.mark.parametrize("file", mostly_slow(["../oo.txt", "{away}/oo.txt", "link.txt", "below/oo.txt"]))
def test_a_table_of_scores_names_files_below_it(file: str, tmp_path: Path, command: Command) -> None:
    given, away = tmp_path / "given", tmp_path / "given and more"
    _scores(given)
    away.mkdir()
    for one in (away, tmp_path):
        shutil.copy(given / "oo.txt", one / "oo.txt")
    (given / "link.txt").symlink_to(away / "oo.txt")
    (given / "below").symlink_to(away)
    (given / "scores.csv").write_text(f"file,subset\n{file.format(away=away)},made_trials_f\n")
    words = ["prepare", *_command(given, tmp_path / "exp")]
    status, out, err = command(*words)
    assert (status, out) == (3, "") and "leads out of the table's folder" in err and "scores.csv:2" in err
    # The remedies mend it: links that are vouched for, else the table in a folder above.
    linked = not file.startswith(("..", "{"))
    assert command(*words, "dataset.follow_links=true")[0] == (0 if linked else 3)
    if not linked:
        (given / "scores.csv").rename(tmp_path / "scores.csv")
        place = "oo.txt" if file.startswith("..") else str(away / "oo.txt")
        (tmp_path / "scores.csv").write_text(f"file,subset\n{place},made_trials_f\n")
        assert command(*[f"dataset.root={tmp_path}" if "dataset.root=" in one else one for one in words])[0] == 0
