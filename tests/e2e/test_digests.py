"""What is decoded is what was hashed, however files change while a run goes on; and the names of the files that a run writes."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pytest
import soundfile

from pipeline.datasets import parallel
from pipeline.engine.executors import local
from pipeline.files import file_digest
from pipeline.tables import results, vectors
from tests import toy

Command = Callable[..., tuple[int, str, str]]
QUICK = (
    "recipe=kaldi", "extractor=[ge2e]", "attacker=[ignorant]", "metric=[asv]", "metric.asv.interval=none", "diagnostics=false",
    "runtime.device=cpu",
)  # fmt: skip
CAUSE = "it was changed or copied over while the run went on"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy.corpus(tmp_path_factory.mktemp("data") / "toy", speakers=4, utterances=4)


def table(out: str) -> pd.DataFrame:
    """The rows of the run that said where its report is, without what tells runs apart."""
    return results.read(Path(out.splitlines()[-1]).parent).drop(columns="run_id")


@contextmanager
def before_compute(change: Callable[[], object]) -> Iterator[None]:
    """Have something happen after the survey of the data and before any compute."""
    execute = local.Executor.execute

    def changed(self: local.Executor, tasks, *rest) -> None:  # type: ignore[no-untyped-def]
        if tasks:
            change()
        execute(self, tasks, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local.Executor, "execute", changed)
        yield


def other_voice(path: Path) -> None:
    """Another recording of the same length takes the place of one, as a copy does it."""
    wave, rate = soundfile.read(path)
    soundfile.write(path.with_suffix(".new"), wave[::-1], rate, subtype="PCM_16", format="WAV")
    path.with_suffix(".new").replace(path)


@pytest.mark.slow
def test_a_file_that_changes_after_the_survey_fails_by_name_and_poisons_nothing(
    data: Path, command: Command, tmp_path: Path
) -> None:
    """Where it is anonymised, and where it is extracted from."""
    root = Path(shutil.copytree(data, tmp_path / "toy"))
    given = (*QUICK, f"dataset.root={root}", "system=[b2]")
    status, out, err = command(*given, f"paths.root={tmp_path / 'clean'}")
    assert status == 0, err
    clean = table(out)

    path = sorted((root / "wav").iterdir())[0]
    sound = path.read_bytes()
    with before_compute(lambda: other_voice(path)):
        status, out, err = command(*given, f"paths.root={tmp_path / 'exp'}")
    assert status == 3
    assert f"{path}" in err and CAUSE in err and "run the same command again" in err and "Traceback" not in err

    # The remedy mends it: the result is that of the file that is there now.
    status, out, err = command(*given, f"paths.root={tmp_path / 'exp'}")
    assert status == 0, err
    assert set(table(out)["input_digest"]) != set(clean["input_digest"])
    # And that of the first one, once it is restored.
    path.write_bytes(sound)
    status, out, err = command(*given, f"paths.root={tmp_path / 'exp'}")
    assert status == 0, err
    pd.testing.assert_frame_equal(table(out), clean)


def test_all_files_that_changed_are_named(data: Path, command: Command, tmp_path: Path) -> None:
    """A file of each shard: each fails its own task."""
    root = Path(shutil.copytree(data, tmp_path / "toy"))
    paths = sorted((root / "wav").iterdir())[:3]
    with before_compute(lambda: [other_voice(path) for path in paths]):
        status, _, err = command(*QUICK, f"dataset.root={root}", "system=[original]", f"paths.root={tmp_path / 'exp'}")
    assert status == 3 and all(str(path) in err for path in paths), err


def test_a_file_that_is_taken_away_after_the_survey_is_named(data: Path, command: Command, tmp_path: Path) -> None:
    root = Path(shutil.copytree(data, tmp_path / "toy"))
    path = sorted((root / "wav").iterdir())[0]
    with before_compute(lambda: path.rename(path.with_suffix(".away"))):
        status, _, err = command(*QUICK, f"dataset.root={root}", "system=[original]", f"paths.root={tmp_path / 'exp'}")
    assert status == 3 and f"{path}" in err and "is missing" in err and "taken away while the run went on" in err


def test_what_is_known_of_a_file_is_not_believed_for_ever(
    data: Path, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes that change and leave no trace, as on a disk that decays: the decoder finds it, and the next run knows."""
    real = parallel.make_state
    monkeypatch.setattr(
        parallel,
        "make_state",
        lambda path, found: (s := real(path, found)) and parallel.FileState(s.path, s.size, 0, 0, 0),
    )
    root = Path(shutil.copytree(data, tmp_path / "toy"))
    given = (*QUICK, f"dataset.root={root}", "system=[original]", f"paths.root={tmp_path / 'exp'}")
    assert command("prepare", *given)[0] == 0
    path = sorted((root / "wav").iterdir())[0]
    other_voice(path)
    status, _, err = command(*given)
    assert status == 3 and str(path) in err and CAUSE in err
    status, _, err = command(*given)
    assert status == 0, err
    heard = [set(vectors.read(made).ids) for made in (tmp_path / "exp" / "store" / "extract").rglob("features.parquet")]
    assert file_digest(path) in set().union(*heard)


@pytest.mark.slow
def test_an_external_system_and_its_second_run_are_decoded_as_they_were_hashed(
    data: Path, command: Command, tmp_path: Path
) -> None:
    roots = [Path(shutil.copytree(data / "wav", tmp_path / f"theirs{number}")) for number in (1, 2)]
    for number, root in enumerate(roots, 1):
        for path in root.iterdir():
            wave, rate = soundfile.read(path)
            soundfile.write(path, wave * 0.3 * number, rate, subtype="PCM_16")
    given = (
        *QUICK, f"dataset.root={data}", "system=[original]", f"+system.t8={{name: external, root: {roots[0]}, second_root: {roots[1]}}}",
        "metric=[asv,cece]", "metric.cece.interval=none", f"paths.root={tmp_path / 'exp'}",
    )  # fmt: skip
    paths = [sorted(root.iterdir())[-1] for root in roots]
    with before_compute(lambda: [other_voice(path) for path in paths]):
        status, _, err = command(*given)
    assert status == 3 and all(str(path) in err for path in paths) and CAUSE in err, err
    status, _, err = command(*given)
    assert status == 0, err


def renamed(root: Path, ids: dict[str, str]) -> Path:
    """The toy corpus with other ids of utterances; the audio stays where it is."""
    for place in root.glob("toy_*/*"):
        lines = []
        for line in place.read_text().splitlines():
            fields = line.split()
            lines.append(" ".join(ids.get(field, field) for field in fields))
        place.write_text("".join(f"{line}\n" for line in lines))
    return root


@pytest.mark.slow
def test_ids_that_no_file_name_holds_or_tells_apart_are_anonymised(
    data: Path, command: Command, tmp_path: Path
) -> None:
    """Ids of hundreds of characters or bytes, and some that differ in case alone, which not every file system sees."""
    names = sorted(path.stem for path in (data / "wav").iterdir())
    other = ["z" * 300, "文" * 28 * 4, "\N{ARABIC LETTER AIN}" * 42 * 4]
    ids = {name: f"{name}-{other[place % 3]}" for place, name in enumerate(names)}
    ids[names[0]], ids[names[1]] = "same-id", "Same-ID"
    root = renamed(Path(shutil.copytree(data, tmp_path / "toy")), ids)
    given = (*QUICK, "system=[b2]")
    status, out, err = command(*given, f"dataset.root={root}", f"paths.root={tmp_path / 'exp'}")
    assert status == 0, err
    _, plain, _ = command(*given, f"dataset.root={data}", f"paths.root={tmp_path / 'plain'}")
    # This system treats all alike, so ids change nothing.
    assert table(out)["value"].equals(table(plain)["value"])

    assert longest(tmp_path / "exp") <= 120
    made = []
    for record in (tmp_path / "exp" / "store" / "anonymise").rglob("record.json"):
        files = list(json.loads(record.read_text())["files"])
        made += [name for name in files if name.endswith(".wav")]
        assert len({name.casefold() for name in files}) == len(files) and all(name.isascii() for name in files)
    assert len(made) == len(names)


def longest(root: Path) -> int:
    """The longest name below a folder, in bytes."""
    return max(len(os.fsencode(path.name)) for path in root.rglob("*"))
