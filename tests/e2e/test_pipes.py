"""Commands, segments and archives of Kaldi sets through the command line: what people have is evaluated, and no command is run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import soundfile

from pipeline import cli
from pipeline.tables import results
from tests import toy
from tests.datasets.conftest import Tiny
from tests.datasets.test_segments import Cut, archive

Command = Callable[..., tuple[int, str, str]]
CHEAP = ["recipe=kaldi", "extractor=f0", "metric=srd", "metric.srd.unit=utterance", "runtime.device=cpu"]


@pytest.fixture
def command(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run a command line in this process, where no other is started; exit status, standard output and standard error."""
    monkeypatch.chdir(tmp_path)

    real = subprocess.Popen

    def started(*arguments: object, **named: object) -> object:
        # Python's own platform.processor, for the record of a run.
        if arguments and arguments[0] == ["uname", "-p"]:
            return real(*arguments, **named)
        raise AssertionError(f"a process was started: {arguments}")

    def call(*arguments: str, root: str = "exp") -> tuple[int, str, str]:
        with monkeypatch.context() as patched:
            for name in ("system", "popen", "posix_spawn", "execv", "execve"):
                patched.setattr(os, name, started)
            patched.setattr(subprocess, "Popen", started)
            status = cli.run([*arguments, f"paths.root={tmp_path / root}"])
        out, err = capfd.readouterr()
        return status, out, err

    return call


def rewritten(root: Path, entry: Callable[[Path], str]) -> None:
    """Have every wav.scp say something else of its files."""
    for scp in root.glob("*/wav.scp"):
        lines = [line.split(maxsplit=1) for line in scp.read_text().splitlines()]
        scp.write_text("".join(f"{u} {entry(Path(path))}\n" for u, path in lines))


def numbers(out: str) -> list[tuple[object, ...]]:
    """The values of a run, whose last line is its report."""
    rows = results.read(Path(out.splitlines()[-1]).parent)
    return list(rows[["system", "metric", "variant", "subset", "value", "n_used"]].itertuples(index=False, name=None))


@pytest.mark.slow
def test_commands_give_the_numbers_of_their_files(tmp_path: Path, command: Command) -> None:
    root = toy.corpus(tmp_path / "toy", speakers=4, utterances=4)
    status, out, err = command(*CHEAP, f"dataset.root={root}", root="plain")
    assert status == 0, err
    plain = numbers(out)
    for path in sorted((root / "wav").glob("*.wav")):
        soundfile.write(path.with_suffix(".flac"), soundfile.read(path, dtype="int16")[0], 16_000)
    rewritten(root, lambda path: f"flac -c -d -s {path.with_suffix('.flac')} |")
    status, out, err = command(*CHEAP, f"dataset.root={root}")
    assert status == 0, err
    assert numbers(out) == plain and len(plain)
    assert "16 entries of wav.scp are commands that only decode a file; the files are read, no command is run" in err
    for scp in root.glob("*/wav.scp"):
        scp.write_text(re.sub(r"flac -c -d -s (\S+)\.flac \|", r"sox \1.wav -t wav -R -b 16 - |", scp.read_text()))
    status, out, err = command(*CHEAP, f"dataset.root={root}")
    assert status == 0 and numbers(out) == plain, err


@pytest.mark.slow
def test_segments_give_the_numbers_of_files(tmp_path: Path, command: Command) -> None:
    """A whole recording as one segment is that recording, and no number moves; what was cut is there at the second start."""
    root = toy.corpus(tmp_path / "toy", speakers=4, utterances=4)
    status, out, err = command(*CHEAP, f"dataset.root={root}", root="plain")
    plain = numbers(out)
    for scp in root.glob("*/wav.scp"):
        entries = [line.split() for line in scp.read_text().splitlines()]
        scp.write_text("".join(f"rec-{u} {path}\n" for u, path in entries))
        (scp.parent / "segments").write_text("".join(f"{u} rec-{u} 0 -1\n" for u, _ in entries))
    status, out, err = command(*CHEAP, f"dataset.root={root}")
    assert status == 0 and numbers(out) == plain, err
    assert "16 are cut out of recordings (segments)" in err
    made = {path: path.stat().st_mtime_ns for path in (tmp_path / "exp" / "store" / "recordings").rglob("*.wav")}
    assert len(made) == 16
    status, out, err = command(*CHEAP, f"dataset.root={root}")
    assert status == 0 and re.search(r"tasks: \d+ reused, 0 computed", out), out
    assert {path: path.stat().st_mtime_ns for path in made} == made


def test_a_system_beside_segments_by_the_ids_of_utterances(tmp_path: Path, command: Command) -> None:
    """Folders as VPC 2020's B2 leaves them: wav.scp with sox commands, and the files a level deeper, by recording."""
    cut = Cut(tmp_path / "data").save()
    theirs = tmp_path / "theirs"
    for name, tables in cut.tables.items():
        lines = []
        for line in tables["segments"]:
            u, recording, start, end = line.split()
            wave, rate = soundfile.read(cut.recording(recording))
            path = theirs / f"{name}_anon" / "wav" / recording / f"{u}.wav"
            path.parent.mkdir(parents=True, exist_ok=True)
            soundfile.write(path, wave[int(float(start) * rate) : int(float(end) * rate)][::-1], rate)
            lines.append(f"{u} sox {path.relative_to(tmp_path)} -t wav -R -b 16 - |\n")
        (theirs / f"{name}_anon" / "wav.scp").write_text("".join(lines))
    status, out, err = command("prepare", f"dataset.root={cut.root}", f"+system.t8={{name: external, root: {theirs}}}")
    assert status == 0 and "t_trials_f  trials  4 target  8 non-target" in out, err
    assert "10 are cut out of recordings (segments)" in err
    status, out, err = command("validate", f"dataset.root={cut.root}", f"+system.t8={{name: external, root: {theirs}}}")
    assert status == 0 and "verdict: nothing wrong" in out, out + err


def test_what_is_no_decoding_is_refused(tmp_path: Path, command: Command) -> None:
    small = Tiny(tmp_path / "data").save()
    scp = small.root / "t_trials_f" / "wav.scp"
    lines = scp.read_text().splitlines()
    scp.write_text("\n".join(["a-t0 cat wav/a-t0.wav | cat - |", "a-t1 cat wav/a-t1.wav |", *lines[2:]]))
    status, out, err = command("prepare", f"dataset.root={small.root}")
    assert (status, out) == (3, "")
    assert "1 entries are shell pipes, not files, the first is 'cat wav/a-t0.wav | cat - |'" in err
    assert "(several commands, one behind another)" in err


@pytest.mark.parametrize("what", ["segments", "archive"])
def test_faults_come_with_file_and_line(tmp_path: Path, command: Command, what: str) -> None:
    if what == "segments":
        cut = Cut(tmp_path / "data")
        lines = cut.tables["t_trials_f"]["segments"]
        right = lines[1]
        lines[1] = "a-t1 a-t_trials_f 0.4 0.3"
        small: Tiny = cut.save()
        place, said = small.root / "t_trials_f" / "segments", "it ends at 0.3 s, and begins at 0.4 s"
        wrong = lines[1]
    else:
        small = Tiny(tmp_path / "data")
        archive(small, "RIFF")
        place = small.root / "t_trials_f" / "wav.scp"
        right = place.read_text().splitlines()[1]
        wrong, said = "a-t1 wav.ark:1", "is no recording: neither RIFF (Kaldi) nor AUDIO (kaldiio) stands there"
        place.write_text(place.read_text().replace(right, wrong))
    status, out, err = command("prepare", f"dataset.root={small.root}")
    assert (status, out) == (3, "") and said in err and f"{place}:2" in err and "Traceback" not in err
    place.write_text(place.read_text().replace(wrong, right))
    status, out, err = command("prepare", f"dataset.root={small.root}")
    assert status == 0 and "t_trials_f  trials  4 target  8 non-target" in out, err


def test_a_set_is_moved_with_its_store(tmp_path: Path, command: Command) -> None:
    """What was cut belongs to what recordings hold, not to where they lie."""
    cut = Cut(tmp_path / "data").save()
    assert command("prepare", f"dataset.root={cut.root}")[0] == 0
    made = sorted((tmp_path / "exp").rglob("recordings/**/*.wav"))
    shutil.move(cut.root, tmp_path / "moved")
    assert command("prepare", f"dataset.root={tmp_path / 'moved'}")[0] == 0
    assert sorted((tmp_path / "exp").rglob("recordings/**/*.wav")) == made and len(made) == 10
