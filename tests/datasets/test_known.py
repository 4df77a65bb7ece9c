"""What is known of audio files: always what a fresh look finds, whatever happened to the files and to the folder."""

from __future__ import annotations

import logging
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile

from pipeline import audio
from pipeline.datasets import audio_cache, external_copy, importers, parallel, prepare
from pipeline.datasets import probe as probing
from pipeline.datasets.audio_cache import NO_CACHE, AudioCache
from pipeline.datasets.probe import Probe

from .conftest import RATE, Tiny, noise

TICK_NS = 20_000_000
"""Longer than the clock of a file system takes between two ticks, and shorter than a test likes to wait."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store" / "files"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Path]]:
    """The files that were looked at, and not recalled."""
    found: list[Path] = []
    plain = probing.probe_file

    def probe(path: Path, longest_seconds: float = math.inf) -> Probe:
        found.append(path)
        return plain(path, longest_seconds)

    monkeypatch.setattr(probing, "probe_file", probe)
    yield found


@pytest.fixture
def settles_soon(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Files settle in a moment; the function waits for it."""
    monkeypatch.setattr(parallel, "RACY_NS", TICK_NS)
    return lambda: time.sleep(1.5e-9 * TICK_NS)


def wav(path: Path, name: str = "", seconds: float = 0.25, rate: int = RATE, gain: float = 1.0) -> Path:
    soundfile.write(path, gain * noise(name or path.stem, seconds), rate, subtype="PCM_16")
    return path


def zoo(root: Path) -> dict[str, Path]:
    """One file of each kind that a look tells apart."""
    root.mkdir()
    names = ["sound", "low", "stereo", "clipped", "short", "silent", "cut", "empty", "text", "nan", "pointer"]
    files = {name: root / f"{name}.wav" for name in names}
    wav(files["sound"])
    wav(files["low"], rate=8000)
    soundfile.write(files["stereo"], np.stack([noise("l"), noise("r")], axis=1), RATE)
    wav(files["clipped"], gain=100.0)
    wav(files["short"], seconds=0.01)
    soundfile.write(files["silent"], np.zeros(RATE), RATE)
    files["cut"].write_bytes(files["sound"].read_bytes()[:-100])
    files["empty"].write_bytes(b"")
    files["text"].write_text("no sound at all, but some words")
    audio_with_nan = noise("n")
    audio_with_nan[7] = np.nan
    soundfile.write(files["nan"], audio_with_nan, RATE, subtype="FLOAT")
    files["pointer"].write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    soundfile.write(root / "sound.flac", noise("flac"), RATE)
    strange = root / "längs 声.wav"
    shutil.copy(files["short"], strange)
    return files | {"flac": root / "sound.flac", "strange": strange, "missing": root / "missing.wav", "folder": root}


def test_what_is_recalled_is_what_a_fresh_look_finds(
    tmp_path: Path, folder: Path, settles_soon: Callable[[], None], asked: list[Path]
) -> None:
    files = zoo(tmp_path / "zoo")
    settles_soon()
    fresh = {path: probing.probe_file(path) for path in files.values()}
    asked.clear()
    assert AudioCache(folder).probes(files.values(), threads=2) == fresh
    assert sorted(asked) == sorted(files.values())
    asked.clear()
    again = AudioCache(folder).probes([*files.values(), *files.values()])
    assert again == fresh and list(again) == list(files.values())
    # What is not there, and what the decoder itself refuses, is looked at each time.
    assert sorted(asked) == sorted(files[name] for name in ("missing", "folder", "text"))
    assert {probe.kind for probe in fresh.values()} == {"", "missing-audio", "bad-audio", "no-speech"}


def test_a_file_that_was_missing_or_closed_is_found_when_it_is_there(
    tmp_path: Path, folder: Path, settles_soon: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.wav"
    assert AudioCache(folder).probes([path])[path].kind == "missing-audio"
    wav(path)
    settles_soon()
    with monkeypatch.context() as closed:
        closed.setattr(probing.hashlib, "file_digest", lambda *_: (_ for _ in ()).throw(PermissionError(13, "denied")))
        assert AudioCache(folder).probes([path])[path].problem.endswith("cannot be read (denied)")
    fresh = probing.probe_file(path)
    assert (
        AudioCache(folder).probes([path])[path]
        == fresh
        == Probe(RATE, 4000, fresh.sha256, sound=fresh.sound, bandwidth=RATE / 2)
    )


def rewritten(path: Path) -> None:
    """Other content of the same size, in place."""
    with path.open("r+b") as stream:
        stream.seek(100)
        stream.write(os.urandom(1000))


def rewritten_under_the_old_time(path: Path) -> None:
    before = path.stat()
    rewritten(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def replaced_under_the_old_time(path: Path) -> None:
    before = path.stat()
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    rewritten(other)
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(path)


def relinked(path: Path) -> None:
    """A link to other content of the same size and time."""
    before = path.stat()
    other = path.with_name(f"{path.stem}-{time.monotonic_ns()}")
    other.write_bytes(path.read_bytes())
    rewritten(other)
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    path.unlink()
    path.symlink_to(other)


def grown(path: Path) -> None:
    wav(path, seconds=0.3)


def lost(path: Path) -> None:
    path.unlink()


CHANGES = [rewritten, rewritten_under_the_old_time, replaced_under_the_old_time, relinked, grown, lost]


@pytest.mark.parametrize("change", CHANGES)
def test_new_content_is_seen(
    tmp_path: Path, folder: Path, settles_soon: Callable[[], None], change: Callable[[Path], None]
) -> None:
    path, other = wav(tmp_path / "a.wav"), wav(tmp_path / "b.wav")
    settles_soon()
    before = AudioCache(folder).probes([path, other])
    change(path)
    after = AudioCache(folder).probes([path, other])
    assert after == {path: probing.probe_file(path), other: probing.probe_file(other)}
    assert after[path] != before[path] and after[other] == before[other]


def test_any_sequence_of_changes_is_answered_as_by_a_fresh_look(
    tmp_path: Path, folder: Path, settles_soon: Callable[[], None]
) -> None:
    random = np.random.default_rng(11)
    paths = [wav(tmp_path / f"{name}.wav") for name in "abcd"]
    for step in range(60):
        if random.random() < 0.5:
            settles_soon()
        assert AudioCache(folder).probes(paths) == {path: probing.probe_file(path) for path in paths}, step
        path = paths[random.integers(len(paths))]
        if path.exists():
            CHANGES[random.integers(len(CHANGES))](path)
        else:
            wav(path)


def test_what_changed_a_moment_ago_is_answered_and_not_kept(
    tmp_path: Path, folder: Path, asked: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = wav(tmp_path / "a.wav")
    for _ in range(2):
        AudioCache(folder).probes([path])
    assert asked == [path, path] and not folder.exists()
    plain = time.time_ns
    monkeypatch.setattr(audio_cache.time, "time_ns", lambda: plain() + parallel.RACY_NS)
    for _ in range(2):
        AudioCache(folder).probes([path])
    assert asked == [path, path, path]


def test_a_time_in_the_future_is_not_trusted(tmp_path: Path, folder: Path, settles_soon: Callable[[], None]) -> None:
    path = wav(tmp_path / "a.wav")
    os.utime(path, (2**32, 2**32))
    settles_soon()
    AudioCache(folder).probes([path])
    assert not folder.exists()


def test_what_changes_while_it_is_looked_at_is_not_kept(
    tmp_path: Path, folder: Path, settles_soon: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = wav(tmp_path / "a.wav")
    settles_soon()
    plain = probing.probe_file

    def probe(path: Path, longest_seconds: float = math.inf) -> Probe:
        found = plain(path)
        rewritten_under_the_old_time(path)
        return found

    with monkeypatch.context() as changing:
        changing.setattr(probing, "probe_file", probe)
        AudioCache(folder).probes([path])
    assert AudioCache(folder).probes([path])[path] == probing.probe_file(path)


def test_a_name_that_is_no_text_is_kept_like_others(
    tmp_path: Path, folder: Path, settles_soon: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / os.fsdecode(b"\xff\xfe.wav")
    path.write_bytes(b"something")
    settles_soon()
    asked = []

    def probe(path: Path, longest_seconds: float = math.inf) -> Probe:
        asked.append(path)
        return Probe(kind="no-speech", problem=f"{path} is short")

    monkeypatch.setattr(probing, "probe_file", probe)
    first, again = (AudioCache(folder).probes([path]) for _ in range(2))
    assert first == again and asked == [path]


def test_one_object_recalls_what_it_saw(
    tmp_path: Path, folder: Path, settles_soon: Callable[[], None], asked: list[Path]
) -> None:
    first, second = wav(tmp_path / "a.wav"), wav(tmp_path / "b.wav")
    settles_soon()
    one = AudioCache(folder)
    assert one.probes([]) == {}
    one.probes([first])
    one.probes([first, second])
    one.probes([second, first])
    assert asked == [first, second]


def test_nothing_known_keeps_nothing(tmp_path: Path, settles_soon: Callable[[], None], asked: list[Path]) -> None:
    path = wav(tmp_path / "a.wav")
    settles_soon()
    for _ in range(2):
        assert NO_CACHE.probes([path])[path].sample_rate == RATE
    assert asked == [path, path]


def test_relative_paths_are_not_kept(
    tmp_path: Path, folder: Path, settles_soon: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    wav(tmp_path / "a.wav")
    settles_soon()
    monkeypatch.chdir(tmp_path)
    AudioCache(folder).probes([Path("a.wav")])
    assert not folder.exists()


def test_other_rules_start_anew_and_the_old_ones_are_forgotten_in_time(
    tmp_path: Path, folder: Path, settles_soon: Callable[[], None], asked: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = wav(tmp_path / "a.wav")
    settles_soon()
    AudioCache(folder, {"audio": 1}).probes([path])
    AudioCache(folder, {"audio": 1}).probes([path])
    assert len(asked) == 1
    AudioCache(folder, {"audio": 2}).probes([path])
    assert len(asked) == 2
    # 0.25 s is now too short, and that is said although the file was known to be sound.
    monkeypatch.setattr(probing, "SHORTEST_SECONDS", 0.5)
    assert AudioCache(folder, {"audio": 2}).probes([path])[path].kind == "no-speech"
    kept = sorted(folder.iterdir())
    assert len(kept) == 3 and len(asked) == 3
    (folder / "notes").mkdir()
    for old in (kept[0], folder / "notes"):
        os.utime(old, (0, 0))
    AudioCache(folder, {"audio": 3}).probes([path])
    assert not kept[0].exists() and kept[1].exists() and kept[2].exists() and (folder / "notes").exists()


def test_damage_is_said_once_and_made_good(
    tmp_path: Path, folder: Path, settles_soon: Callable[[], None], asked: list[Path], caplog: pytest.LogCaptureFixture
) -> None:
    path = wav(tmp_path / "a.wav")
    settles_soon()
    fresh = AudioCache(folder).probes([path])
    (piece,) = folder.glob("*/*.parquet")
    piece.write_bytes(piece.read_bytes()[:100])
    asked.clear()
    with caplog.at_level(logging.WARNING, "pipeline"):
        for _ in range(3):
            assert AudioCache(folder).probes([path]) == fresh
    assert asked == [path] and len(caplog.records) == 1


@pytest.mark.parametrize("why", ["no folder", "read-only", "not ours"])
def test_where_nothing_can_be_kept_it_works_and_says_so_once(
    tmp_path: Path,
    folder: Path,
    settles_soon: Callable[[], None],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    why: str,
) -> None:
    paths = [wav(tmp_path / f"{name}.wav") for name in "ab"]
    settles_soon()
    if why == "no folder":
        folder.parent.mkdir()
        folder.write_text("")
    else:
        what = "write_atomically" if why == "read-only" else "_PIECE"
        monkeypatch.setattr(f"pipeline.tables.shared.{what}", _Refuses())
        folder.joinpath(AudioCache(folder)._rules).mkdir(parents=True)
        folder.joinpath(AudioCache(folder)._rules, "a file").write_text("")
    one = AudioCache(folder)
    with caplog.at_level(logging.WARNING, "pipeline"):
        for path in paths:
            assert one.probes([path]) == {path: probing.probe_file(path)}
    (said,) = caplog.messages
    assert str(folder) in said and "every start decodes them again" in said


class _Refuses:
    def __call__(self, *_: object) -> None:
        raise PermissionError(13, "denied")

    fullmatch = __call__


START = """
import sys
from pathlib import Path
from pipeline.datasets import audio_cache, parallel
parallel.RACY_NS, audio_cache.KEEP_SECONDS = int(sys.argv[1]), 0.0
class Said(dict):
    def __setitem__(self, path, probe):
        super().__setitem__(path, probe)
        print(path, flush=True)
plain = audio_cache.AudioCache._recalled
audio_cache.AudioCache._recalled = lambda self, paths: Said(plain(self, paths))
audio_cache.AudioCache(Path(sys.argv[2])).probes(sorted(Path(sys.argv[3]).glob("*.wav")), threads=2)
"""


def starting(folder: Path, data: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", START, str(TICK_NS), str(folder), str(data)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def data(root: Path, count: int) -> list[Path]:
    root.mkdir()
    for number in range(count):
        wav(root / f"{number:03d}.wav", f"{number}")
    return sorted(root.glob("*.wav"))


def test_processes_that_look_at_once_agree(
    tmp_path: Path, folder: Path, settles_soon: Callable[[], None], asked: list[Path]
) -> None:
    paths = data(tmp_path / "data", 40)
    settles_soon()
    both = [starting(folder, tmp_path / "data") for _ in range(3)]
    assert [one.wait() for one in both] == [0, 0, 0]
    found = AudioCache(folder).probes(paths)
    assert not asked
    assert found == {path: probing.probe_file(path) for path in paths}


def test_a_kill_loses_little_and_what_is_kept_is_right(
    tmp_path: Path, folder: Path, settles_soon: Callable[[], None], asked: list[Path]
) -> None:
    paths = data(tmp_path / "data", 300)
    settles_soon()
    process = starting(folder, tmp_path / "data")
    assert process.stdout is not None
    for _ in range(25):
        process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.wait()
    said = 25 + process.stdout.read().count("\n")
    found = AudioCache(folder).probes(paths)
    # All but the file that was about to be kept.
    assert len(asked) <= len(paths) - (said - 1) < len(paths)
    assert found == {path: probing.probe_file(path) for path in paths}


def test_a_second_start_decodes_nothing_and_reads_the_same_corpus(
    tmp_path: Path, folder: Path, tiny: Tiny, settles_soon: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tiny.save().settings()
    copies = tmp_path / "theirs"
    for name in ("a-e0", "a-e1", "b-e0", "b-e1", "a-t0", "a-t1", "b-t0", "b-t1", "c-t0", "c-t1"):
        (copies / name[0]).mkdir(parents=True, exist_ok=True)
        wav(copies / name[0] / f"{name}.wav", f"{name} protected")
    settles_soon()
    plain = importers.read_data_set(settings)
    plain_copy = prepare.read_copy(external_copy.Copy(str(copies)), plain.manifest)
    importers.read_data_set(settings, cache=AudioCache(folder))
    prepare.read_copy(external_copy.Copy(str(copies)), plain.manifest, cache=AudioCache(folder))

    def survey(path: Path) -> None:
        raise AssertionError(f"{path} is decoded")

    monkeypatch.setattr(audio, "survey", survey)
    again = importers.read_data_set(settings, threads=2, cache=AudioCache(folder))
    assert again.manifest.equals(plain.manifest) and again.notes == plain.notes
    copy = prepare.read_copy(external_copy.Copy(str(copies)), plain.manifest, cache=AudioCache(folder))
    assert copy.manifest.equals(plain_copy.manifest) and copy.notes == plain_copy.notes


def test_many_files_are_looked_at_by_processes_with_the_same_answers(
    tmp_path: Path, folder: Path, settles_soon: Callable[[], None], asked: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = list(zoo(tmp_path / "zoo").values())
    paths = [*files, *data(tmp_path / "data", 40)]
    settles_soon()
    fresh = {path: probing.probe_file(path) for path in paths}
    monkeypatch.setattr(parallel, "MANY_FILES", 1)
    monkeypatch.setattr(parallel, "CHUNK_FILES", 3)
    monkeypatch.setattr(parallel, "_AHEAD", 1)
    asked.clear()
    assert AudioCache(None).probes(paths, threads=2) == fresh
    assert not asked  # by this process


@pytest.mark.parametrize("broken", ["no semaphores", "one dies"])
def test_where_processes_cannot_look_threads_do(
    tmp_path: Path, asked: list[Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, broken: str
) -> None:
    paths = data(tmp_path / "data", 12)
    fresh = {path: probing.probe_file(path) for path in paths}
    monkeypatch.setattr(parallel, "MANY_FILES", 1)
    monkeypatch.setattr(parallel, "CHUNK_FILES", 2)
    if broken == "no semaphores":
        monkeypatch.setattr(parallel, "ProcessPoolExecutor", _refused)
    else:
        monkeypatch.setattr(parallel.processes, "end_with_parent", os.abort)
    asked.clear()
    with caplog.at_level(logging.WARNING, "pipeline"):
        assert AudioCache(None).probes(paths, threads=2) == fresh
    assert sorted(asked) == paths
    assert len([said for said in caplog.messages if "threads do" in said]) == 1


def _refused(*_: object) -> None:
    raise OSError(28, "No space left on device", "/dev/shm")
