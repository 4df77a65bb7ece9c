"""Commands in a wav.scp that only decode a file are read as that file; everything else is refused, and nothing is ever run."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from pipeline.datasets import importers, pipes
from tests.datasets.conftest import RATE, Tiny, noise

DECODE = {
    # as Kaldi's LibriSpeech writes it, and its spellings
    "flac -c -d -s /data/a.flac |": "/data/a.flac",
    "flac -cds a.flac |": "a.flac",
    "/usr/local/bin/flac -s -d --stdout a.flac|": "a.flac",
    "flac --decode --totally-silent --stdout a.flac |": "a.flac",
    "flac -c -d a.flac -s |": "a.flac",
    "flac -sdc -- -a.flac |": "-a.flac",
    "flac -c -d -s a.flac 2>/dev/null |": "a.flac",
    "flac -c -d -s 'two words/$x.flac' |": "two words/$x.flac",
    'flac -c -d -s "two words/it.flac" |': "two words/it.flac",
    "ffmpeg -i a.wav -f wav - |": "a.wav",
    "ffmpeg -v 8 -i a.m4a -f wav -acodec pcm_s16le -|": "a.m4a",
    "ffmpeg -loglevel error -nostdin -i a.mp3 -f wav -ar 16000 -ac 1 -acodec pcm_s16le pipe:1 |": "a.mp3",
    # as VPC 2020's B2 writes it, and without its options
    "sox data/x_anon/wav/d/u.wav -t wav -R -b 16 - |": "data/x_anon/wav/d/u.wav",
    "sox a.wav -t wav - |": "a.wav",
    "sox -t wav a.wav -t wav -R -b 16 - |": "a.wav",
    "sox -V1 a.flac -t wav -e signed-integer -b16 - |": "a.flac",
    "sox -D a.flac -twav --bits 16 --encoding=signed - |": "a.flac",
    "sph2pipe -f wav a.sph |": "a.sph",
    "sph2pipe -f wav -p -c 1 a.sph |": "a.sph",
    "cat a.wav |": "a.wav",
}
MORE = {
    "flac -c -d -s a.flac | sox - -t wav - rate 8000 |": "several commands",
    "flac -c -d -s a.flac; true |": "several commands",
    "flac -c -d -s $HOME/a.flac |": "a variable",
    'flac -c -d -s "`ls`" |': "a variable or another command",
    "flac -c -d -s $(ls) |": "a variable or another command",
    "flac -c -d -s *.flac |": "a pattern of file names",
    "flac -c -d -s ~/a.flac |": "the home of somebody",
    "flac -c -d -s < a.flac |": "input or output from elsewhere",
    "flac -c -d -s 'a.flac |": "quotes that do not close",
    "flac -c -d -s two\\ words.flac |": "a backslash",
    "cat \"it's\" 'a' |": "quotes of both kinds",
    "flac -c -d -s |": "flac: the standard input",
    "flac -c -d -s - |": "flac: the standard input",
    "flac -c -d -s a.flac b.flac |": "flac: 2 files",
    "flac -c -s a.wav |": "flac: it encodes",
    "flac -d -s a.flac |": "flac: it writes into a file",
    "flac -c -d --skip=100 a.flac |": "flac: the option --skip=100",
    "flac -cdx a.flac |": "flac: the option -cdx",
    "sox a.wav -t wav - rate 8000 |": "sox: the effect 'rate'",
    "sox a.wav -t wav - remix 1 |": "sox: the effect 'remix'",
    "sox a.wav -t wav - trim 0 1 |": "sox: the effect 'trim'",
    "sox a.wav -t wav - dither |": "sox: the effect 'dither'",
    "sox -v 0.5 a.wav -t wav - |": "sox: the option -v",
    "sox --norm a.wav -t wav - |": "sox: the option --norm",
    "sox a.wav b.wav -t wav - |": "sox: it writes into a file or joins some",
    "sox a.wav b.wav |": "sox: it writes into a file",
    "sox a.wav - |": "sox: it writes no wav file",
    "sox a.wav -t raw - |": "sox: it writes no wav file",
    "sox -t raw -r 16000 a.raw -t wav - |": "sox: a kind of file that may have no header",
    "sox a.wav -t wav -b 8 - |": "sox: samples of 8 bits",
    "sox a.wav -t wav -e mu-law - |": "sox: the coding mu-law",
    "sox '|cat a.wav' -t wav - |": "sox: several commands",
    "sox -r 8000 a.wav -r 16000 -t wav - |": "sox: two rates",
    "sox a.wav -t wav -r fast - |": "sox: the value of -r",
    "sox a.wav -t wav -b |": "sox: no value of -b",
    "sph2pipe a.sph |": "sph2pipe: it writes no wav file",
    "sph2pipe -f wav -c 2 a.sph |": "sph2pipe: channel 2 alone",
    "sph2pipe -f wav -t 1:2 a.sph |": "sph2pipe: the option -t",
    "cat a.wav b.wav |": "cat: 2 files",
    "cat /dev/stdin |": "the standard input or a device",
    "ffmpeg -i a.wav -af volume=2 -f wav - |": "ffmpeg: the option -af",
    "ffmpeg -ss 1 -i a.wav -f wav - |": "ffmpeg: the option -ss",
    "ffmpeg -i concat:a.wav -f wav - |": "may be more than a file",
    "ffmpeg -i a.wav -f mp3 - |": "ffmpeg: it writes no wav file",
    "rm -rf / |": "'rm' is none of flac, sox, sph2pipe, ffmpeg, cat",
    "FOO=1 flac -c -d -s a.flac |": "'FOO=1' is none of",
    "| cat": "a command that is written to",
    "|": "a command that is written to",
    "-": "the standard input",
    "a.ark:12[0:3]": "a range of samples",
}


@pytest.fixture(autouse=True)
def nothing_is_run(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """A process that is started fails the test."""
    if "a_shell" in request.fixturenames:
        return

    def started(*_: object, **__: object) -> None:
        raise AssertionError("a process was started")

    for name in ("system", "popen", "posix_spawn", "fork", "execv", "execve"):
        monkeypatch.setattr(os, name, started)
    for name in ("Popen", "run", "call", "check_call", "check_output"):
        monkeypatch.setattr(subprocess, name, started)


@pytest.fixture
def a_shell() -> None:
    """Lets a test ask the shell itself."""


@pytest.mark.parametrize("text", DECODE)
def test_what_only_decodes_is_its_file(text: str) -> None:
    found = pipes.parse_entry(text)
    assert (found.file, found.why, found.is_command) == (DECODE[text], "", True)


@pytest.mark.parametrize("text", MORE)
def test_what_does_more_says_what(text: str) -> None:
    found = pipes.parse_entry(text)
    assert found.file == "" and MORE[text] in found.why


def test_files_and_places_in_archives() -> None:
    assert pipes.parse_entry("wav/a b.wav") == pipes.Entry("wav/a b.wav")
    assert pipes.parse_entry("/d/wav.1.ark:1234") == pipes.Entry("/d/wav.1.ark", is_archive=True, offset=1234)


@pytest.mark.parametrize("text", [one for one in DECODE if shlex.split(one.rstrip("|"))])
def test_words_are_those_of_the_shell(text: str, a_shell: None) -> None:
    command = text.replace("2>/dev/null", "").rstrip("|")
    said = subprocess.run(["sh", "-c", f"printf '%s\\0' {command}"], capture_output=True, check=True).stdout
    assert pipes.split_words(command) == said.decode().split("\0")[:-1]


PARTS = [*"abc '\"\\$`*?[](){}<>|;&#~=-/\t", "\\'", '\\"', "''", "é"]


@given(st.lists(st.sampled_from(PARTS), max_size=12).map("".join))
def test_words_of_any_text_are_those_of_the_shell_or_refused(text: str) -> None:
    """What is not refused has no meaning for a shell beyond quotes, which Python's shlex reads too where nothing is escaped in them."""
    try:
        found = pipes.split_words(text)
    except pipes._Refused:
        return
    if '"' not in text or "\\" not in text:
        assert found == shlex.split(text)


# In a set ------------------------------------------------------------------------------------------------------------


def _entries(tiny: Tiny, command: Callable[[str], str]) -> None:
    for tables in tiny.tables.values():
        tables["wav.scp"] = [f"{u} {command(u)}" for u in (line.split()[0] for line in tables["wav.scp"])]
    tiny.save()


def _flac(tiny: Tiny, subtype: str = "PCM_16") -> None:
    for path in list((tiny.root / "wav").glob("*.wav")):
        soundfile.write(path.with_suffix(".flac"), noise(path.stem), RATE, subtype=subtype)


def test_a_set_of_commands_is_the_set_of_its_files(tiny: Tiny) -> None:
    """The same files by their names and by commands: the same manifest, and it is said once that no command is run."""
    _entries(tiny, lambda u: f"wav/{u}.flac")
    _flac(tiny)
    plain = importers.read_data_set(tiny.settings())
    _entries(tiny, lambda u: f"flac -c -d -s wav/{u}.flac |")
    made = importers.read_data_set(tiny.settings())
    assert made.manifest.equals(plain.manifest)
    assert {name: one.digest for name, one in made.trials.items()} == {n: one.digest for n, one in plain.trials.items()}
    (note,) = made.notes
    assert note == "10 entries of wav.scp are commands that only decode a file; the files are read, no command is run"


@pytest.mark.parametrize("given", ["-r 16000", "-r 16k -c 1", "-c 1"])
def test_options_that_say_what_the_file_is_change_nothing(tiny: Tiny, given: str) -> None:
    _entries(tiny, lambda u: f"sox wav/{u}.wav {given} -t wav - |")
    assert len(importers.read_data_set(tiny.settings()).manifest) == 10


@pytest.mark.parametrize(
    ("given", "said"),
    [("sox FILE -r 8000 -t wav - |", "it makes 8000 Hz of 16000 Hz"), ("sox -r 8k FILE -t wav - |", "it makes 8000 Hz"),
     ("sox FILE -c 2 -t wav - |", "it makes 2 of 1 channels")],
)  # fmt: skip
def test_options_that_change_the_sound_are_refused(tiny: Tiny, refused, given: str, said: str) -> None:
    _entries(tiny, lambda u: given.replace("FILE", f"wav/{u}.wav"))
    faults = refused(importers.read_data_set, tiny.settings()).faults
    assert [fault.kind for fault in faults] == ["pipe", "pipe"]
    assert "4 entries are shell pipes, not files" in faults[0].what and said in faults[0].what


def test_one_channel_of_two_is_no_decoding(tiny: Tiny, refused) -> None:
    _entries(tiny, lambda u: f"sph2pipe -f wav -c 1 wav/{u}.wav |")
    soundfile.write(tiny.wav("a-t0"), np.stack([noise("x"), noise("y")], axis=1), RATE)
    (fault,) = refused(importers.read_data_set, tiny.settings()).faults
    assert "it makes 1 of 2 channels" in fault.what and fault.where.endswith("t_trials_f/wav.scp:1")


def test_the_reasons_are_counted(tiny: Tiny, refused) -> None:
    _entries(tiny, lambda u: f"sox wav/{u}.wav -t wav - {'vol 2' if u.endswith('0') else 'gain -n'} |")
    lines = tiny.tables["t_trials_f"]["wav.scp"]
    lines[0] = "a-t0 wav/a-t0.wav"
    tiny.save()
    fault = refused(importers.read_data_set, tiny.settings()).faults[1]
    assert "5 entries are shell pipes" in fault.what and fault.where.endswith("t_trials_f/wav.scp:2")
    assert "sox: the effect 'gain': 3" in fault.what and "sox: the effect 'vol': 2" in fault.what


def test_the_file_of_a_command_stays_in_the_data(tiny: Tiny, refused, tmp_path: Path) -> None:
    outside = tmp_path / "outside.wav"
    soundfile.write(outside, noise("a-t0"), RATE)
    _entries(tiny, lambda u: f"sox {'wav/link.wav' if u == 'a-t0' else f'wav/{u}.wav'} -t wav - |")
    (tiny.root / "wav" / "link.wav").symlink_to(outside)
    (fault,) = refused(importers.read_data_set, tiny.settings()).faults
    assert fault.kind == "leaves-root" and str(outside) in fault.what
    assert len(importers.read_data_set(tiny.settings(follow_links=True)).manifest) == 10


def test_relative_files_of_commands_start_where_all_exist(tiny: Tiny) -> None:
    """A recipe's own paths begin above its data folder, as `data/SET/wav/u.wav` does."""
    _entries(tiny, lambda u: f"sox data/wav/{u}.wav -t wav -R -b 16 - |")
    assert len(importers.read_data_set(tiny.settings()).manifest) == 10


def test_the_missing_file_of_a_command_is_missing(tiny: Tiny, refused) -> None:
    _entries(tiny, lambda u: f"sox wav/{u}.wav -r 16000 -t wav - |")
    tiny.wav("b-t1").unlink()
    (fault,) = refused(importers.read_data_set, tiny.settings()).faults
    assert fault.kind == "missing-audio" and "utterance 'b-t1'" in fault.what
    assert len(importers.read_data_set(tiny.settings(), allow_partial=True).dropped) == 1


def test_a_training_set_of_commands(tiny: Tiny, tmp_path: Path) -> None:
    other = Tiny(tmp_path / "corpus")
    other.tables = {"train": Tiny.basic(["x-0", "x-1", "y-0", "y-1"])}
    _entries(other, lambda u: f"/usr/bin/flac -cds wav/{u}.flac |")
    _flac(other)
    made = importers.read_data_set(tiny.save().settings(train=str(other.root / "train")))
    trained = made.manifest[made.manifest["role"] == "train"]
    assert list(trained["path"]) == [str(other.root / "wav" / f"{u}.flac") for u in ("x-0", "x-1", "y-0", "y-1")]
    assert "4 entries of wav.scp are commands" in made.notes[0]


@pytest.mark.skipif(shutil.which("sox") is None or shutil.which("flac") is None, reason="no sox and flac here")
@pytest.mark.parametrize("command", ["sox FILE -t wav -R -b 16 - |", "sox -t flac FILE -t wav - |", "flac -cds FILE |"])
def test_the_programs_give_the_samples_that_are_read(tmp_path: Path, a_shell: None, command: str) -> None:
    path = tmp_path / "a b.flac"
    soundfile.write(path, noise("a"), RATE, subtype="PCM_16")
    text = command.replace("FILE", shlex.quote(str(path)))
    (tmp_path / "out.wav").write_bytes(
        subprocess.run(["sh", "-c", text.rstrip("|")], capture_output=True, check=True).stdout
    )
    read = soundfile.read(pipes.parse_entry(text).file, dtype="int16")[0]
    assert np.array_equal(soundfile.read(tmp_path / "out.wav", dtype="int16")[0][: len(read)], read)
