"""A program of the user's as a system: what it gets, what comes back, which keys move, and who may name it."""

from __future__ import annotations

import base64
import errno
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import soundfile
from pydantic import ValidationError

from pipeline import audio, cli, processes
from pipeline.anonymisers.command import Anonymiser, CommandSettings
from pipeline.contracts import Utterance
from pipeline.errors import StageFailed
from tests import toy

PROGRAM = Path(__file__).with_name("program.py")


def settings(rest: str, program: Path = PROGRAM, **more: object) -> CommandSettings:
    return CommandSettings(command=f"{sys.executable} '{program}' {rest}", **more)


def spoken() -> list[tuple[np.ndarray, int, Utterance]]:
    random = np.random.default_rng(0)
    return [
        ((random.integers(-20000, 20000, 800) / 32768).astype(np.float32), 8000 * (1 + n % 2), Utterance(f"u {n}", f"s{n % 2}", "t"))
        for n in range(4)
    ]  # fmt: skip


@pytest.mark.parametrize("rest", ["{input} {output} {seed}", "--list {list}"])
def test_the_program_gets_every_recording_and_a_seed_of_its_speaker(rest: str) -> None:
    made = Anonymiser(settings(rest, level="speaker")).anonymise_many(spoken())
    quiet = [
        (np.abs(wave).max() / max(np.abs(one.wave).max(), 1e-9), one.rate) for (wave, _, _), one in zip(spoken(), made)
    ]
    assert [rate for _, rate in quiet] == [8000, 16000, 8000, 16000]
    factors = [round(factor) for factor, _ in quiet]
    assert factors[0] == factors[2] and factors[1] == factors[3] and set(factors) <= set(range(1, 8))
    for (wave, _, _), one, factor in zip(spoken(), made, factors):
        signs = np.where(np.arange(len(wave)) % 2, 1, -1)
        assert np.array_equal(np.rint(one.wave * 32768), np.rint(signs * wave * 32768) // factor)
        assert one.subtype == "PCM_16" and one.parameters["correlation"] < 0.5


def test_the_two_forms_and_one_by_one_give_the_same() -> None:
    several = [Anonymiser(settings(rest, level="utterance")) for rest in ("{input} {output} {seed}", "--list {list}")]
    first, second = (one.anonymise_many(spoken()) for one in several)
    alone = [several[0].anonymise(*one) for one in spoken()]
    for one, other, third in zip(first, second, alone):
        assert np.array_equal(one.wave, other.wave) and np.array_equal(one.wave, third.wave)


def test_random_numbers_of_another_run_and_level() -> None:
    chosen = settings("{input} {output} {seed}", level="speaker")
    assert Anonymiser.rerun(chosen, 2).seed == 2 and Anonymiser.at_level(chosen, "utterance").level == "utterance"
    seeds = [Anonymiser(one)._fields(Utterance("u", "s", "t"))["seed"] for one in (chosen, Anonymiser.rerun(chosen, 1))]
    assert seeds[0] != seeds[1]
    plain = settings("{input} {output}")
    assert Anonymiser.rerun(plain, 1) is None and Anonymiser.at_level(plain, "speaker") is None


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("python a.py {input}", "needs {input} and {output}, or {list}"),
        ("python a.py {list} {input} {output}", "leave {input} and {output} out"),
        ("python a.py {list} {seed}", "stand in the list"),
        ("python 'a.py {input} {output}", "cannot be taken apart"),
        ("python a.py {input} {output} {seed}", "level=speaker or level=utterance"),
    ],
)
def test_commands_that_cannot_do_are_refused(command: str, said: str) -> None:
    with pytest.raises(ValidationError, match=said.replace("{", r"\{").replace("}", r"\}")):
        CommandSettings(command=command)


def test_the_bytes_of_what_a_command_names_enter_keys_and_no_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def key(program: Path, rest: str = "{input} {output}") -> str:
        return Anonymiser.weights(settings(rest, program), tmp_path).digest

    places = [tmp_path / "a" / "one.py", tmp_path / "b" / "two.py"]
    for place in places:
        place.parent.mkdir()
        place.write_text("print(1)")
    assert key(places[0]) == key(places[1]) != key(places[0], "{input} {output} --x")
    folder = tmp_path / "weights"
    folder.mkdir()
    (folder / "net.pt").write_bytes(b"1")
    before = key(places[0], f"{{input}} {{output}} {folder}")
    (folder / "net.pt").write_bytes(b"2")
    assert key(places[0], f"{{input}} {{output}} {folder}") != before
    for word in (f"--model={folder / 'net.pt'}", f"--weights={folder}"):
        before = key(places[0], f"{{input}} {{output}} {word}")
        (folder / "net.pt").write_bytes(word.encode())
        assert key(places[0], f"{{input}} {{output}} {word}") != before
    before = key(places[0])
    (places[0].parent / "voice.py").write_text("ALPHA = 0.8")
    assert key(places[0]) != before
    monkeypatch.chdir(tmp_path)
    before = key(places[0], "{input} {output} --root .")
    (tmp_path / "log.txt").write_text("a line")
    assert key(places[0], "{input} {output} --root .") == before
    places[0].write_text("print(2)")
    assert key(places[0]) != key(places[1])


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        ("--fail {input} {output}", "ended with status 1; its last words: no model in ./weights"),
        ("--skip {input} {output}", "wrote no sound of utterance 'u 0' and ended without an error"),
    ],
)
def test_a_program_that_fails_is_named_with_its_last_words(rest: str, said: str) -> None:
    with pytest.raises(StageFailed, match=said):
        Anonymiser(settings(rest)).anonymise_many(spoken()[:1])


def test_a_program_that_is_not_there_and_one_that_hangs(tmp_path: Path) -> None:
    with pytest.raises(StageFailed, match="there is no program 'nothing-like-it'"):
        Anonymiser.weights(CommandSettings(command="nothing-like-it {input} {output}"), tmp_path)
    slow = CommandSettings(
        command=f"{sys.executable} -c 'import time; time.sleep(60)' {{input}} {{output}}", timeout_seconds=0.5
    )
    with pytest.raises(StageFailed, match=r"took longer than 0\.5 s"):
        Anonymiser(slow).anonymise_many(spoken()[:1])


def test_what_a_program_started_ends_with_it(tmp_path: Path) -> None:
    """A wrapper that hangs leaves nothing behind that holds a GPU."""
    wrapper = tmp_path / "slow.sh"
    wrapper.write_text(f"sleep 300 & echo $! >{tmp_path / 'pid'}; wait\n")
    hangs = CommandSettings(command=f"bash {wrapper} {{input}} {{output}}", timeout_seconds=1.0)
    with pytest.raises(StageFailed, match="took longer than 1 s"):
        Anonymiser(hangs).anonymise_many(spoken()[:1])
    child = Path("/proc") / (tmp_path / "pid").read_text().strip() / "stat"
    for _ in range(1000):
        if not child.exists() or child.read_text().rpartition(")")[2].split()[0] == "Z":
            break
        time.sleep(0.01)
    else:
        pytest.fail("the child lives on")


def test_a_list_without_a_level_holds_no_random_numbers(tmp_path: Path) -> None:
    keep = tmp_path / "keep.py"
    keep.write_text(f"import shutil, sys\nshutil.copy(sys.argv[1], {str(tmp_path / 'list.txt')!r})\n")
    with pytest.raises(StageFailed, match="wrote no sound"):
        Anonymiser(settings("{list}", keep)).anonymise_many(spoken())
    assert {line.split("\t")[3] for line in (tmp_path / "list.txt").read_text().splitlines()} == {"0"}


@pytest.fixture
def command(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str, str]]:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    toy.corpus(tmp_path / "data", speakers=4, utterances=2)

    def run(*arguments: str) -> tuple[int, str, str]:
        status = cli.run([*arguments, f"dataset.root={tmp_path / 'data'}", "extractor=[f0]", "metric=[srd]",
                          "metric.srd.unit=utterance", "metric.srd.interval=none", "metric.srd.replicates=0"])  # fmt: skip
        return status, *capfd.readouterr()

    return run


@pytest.mark.slow
def test_a_program_is_a_system_of_a_run_and_its_files_lie_in_the_store(command: Callable, tmp_path: Path) -> None:
    own = f'+system.mine={{name: command, command: "{sys.executable} {PROGRAM} --list {{list}}", level: speaker}}'
    status, out, err = command("system=[original]", own)
    assert status == 0, err
    rows = pd.read_csv(Path(out.splitlines()[-1]).with_name("results.csv"))
    assert set(rows["system"]) == {"original", "mine"} and set(rows[rows["system"] == "mine"]["system_level"]) == {
        "speaker"
    }
    manifests = [pd.read_parquet(path) for path in (tmp_path / "exp" / "store").rglob("manifest.parquet")]
    assert sum(len(one) for one in manifests) == 8
    assert command("system=[original]", own)[1].splitlines()[-2].startswith("tasks: ")
    again = command("system=[original]", own)[1].splitlines()[-2]
    assert again.endswith(" 0 computed")


@pytest.mark.slow
def test_a_file_cannot_name_a_program_and_the_override_that_is_told_does(command: Callable, tmp_path: Path) -> None:
    folder = tmp_path / "options" / "system"
    folder.mkdir(parents=True)
    line = f"{sys.executable} {PROGRAM} {{input}} {{output}}"
    (folder / "theirs.yaml").write_text(f"theirs:\n  name: command\n  command: '{line}'\n")
    given = ("--config-dir", str(tmp_path / "options"), "system=[original,theirs]")
    status, out, err = command(*given)
    assert (status, out) == (2, "") and "system.theirs.command is a program that the run would start" in err
    assert command(*given, "+system.theirs={level: speaker}")[0] == 2
    for hidden in ("theirs: ${evil}", "theirs:\n  name: command\n  command: ${evil.command}", f"theirs:\n  name: command\n  command: !!binary {base64.b64encode(line.encode()).decode()}"):  # fmt: skip
        (folder / "hidden.yaml").write_text(f"# @package _global_\nevil: {{name: command, command: '{line}'}}\nsystem:\n  " + hidden.replace("\n", "\n  ") + "\n")  # fmt: skip
        status, _, err = command(
            "--config-dir", str(tmp_path / "options"), "+system@_global_=hidden", "system=[original]"
        )
        assert status == 2 and "a program that the run would start" in err, err
    assert command(*given, f"++system.theirs.command='{line}'")[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("speaker", "said"),
    [
        ("--config=/elsewhere", "would take it for an option"),
        pytest.param("../../elsewhere", "would lead into another folder", marks=pytest.mark.slow),
    ],
)
def test_an_id_of_the_data_is_no_option_and_no_path_of_the_program(
    command: Callable, tmp_path: Path, speaker: str, said: str
) -> None:
    for path in (tmp_path / "data").glob("toy_*/*"):
        if path.is_file() and path.name != "wav.scp":
            words = [
                [speaker if word == "syn00" else word for word in line.split()]
                for line in path.read_text().splitlines()
            ]
            path.write_text("".join(f"{' '.join(line)}\n" for line in words))
    seen = tmp_path / "seen.txt"
    program = tmp_path / "copy.py"
    program.write_text(
        "import subprocess, sys\n"
        f"print(sys.argv[1], file=open({str(seen)!r}, 'a'))\n"
        f"subprocess.run([sys.executable, {str(PROGRAM)!r}, *sys.argv[2:]], check=True)\n"
    )
    own = f'+system.mine={{name: command, command: "{sys.executable} {program} {{speaker}} {{input}} {{output}}"}}'
    status, _, err = command("system=[original]", own)
    assert status == 3 and f"the speaker '{speaker}' is not given to a program" in err and said in err
    assert "Traceback" not in err and (not seen.is_file() or speaker not in seen.read_text())
    # The remedy: the program is told nothing of whose the recording is.
    assert command("system=[original]", own.replace(" {speaker}", " nobody"))[0] == 0
    assert set(seen.read_text().split()) >= {"nobody"}


def test_what_an_id_holds_is_no_name_of_another_field() -> None:
    program = f"{sys.executable} -c 'import shutil, sys; assert sys.argv[3] == chr(123) + \"output\" + chr(125); shutil.copy(sys.argv[1], sys.argv[2])'"
    chosen = CommandSettings(command=f"{program} {{input}} {{output}} {{speaker}}")
    (wave, rate, _), *_ = spoken()
    made = Anonymiser(chosen).anonymise(wave, rate, Utterance("u", "{output}", "t"))
    assert np.array_equal(made.wave, wave)


@pytest.mark.slow
def test_a_program_that_passes_its_input_through_is_refused_before_anything_is_measured_on_it(
    command: Callable, tmp_path: Path
) -> None:
    """It turns the polarity and the level of some recordings; one that treats the others is named at the head of the report."""
    program = tmp_path / "quieter.py"
    program.write_text(
        "import sys, soundfile\n"
        "wave, rate = soundfile.read(sys.argv[-2])\n"
        "backwards = len(sys.argv) > 3 and sys.argv[1].startswith('syn00')\n"
        "soundfile.write(sys.argv[-1], wave[::-1] if backwards else -0.7 * wave, rate)\n"
    )
    own = f"+system.mine={{name: command, command: '{sys.executable} {program} {{utterance}} {{input}} {{output}}'}}"
    status, out, err = command("system=[original]", own.replace("{utterance} ", ""))
    assert status == 3 and "8 of 8 files are the original speech, not anonymised" in err
    assert "system mine has no row" in out
    status, out, err = command("system=[original]", own)
    assert status == 0, err
    (first, *_) = json.loads(Path(out.splitlines()[-1]).with_name("limits.json").read_text())
    assert first.startswith("system mine: 6 of 8 files are the original speech, not anonymised: ")


def test_what_a_program_writes_must_be_sound(command: Callable, tmp_path: Path) -> None:
    odd = tmp_path / "odd.py"
    odd.write_text("import sys\nopen(sys.argv[2], 'w').write('no sound')\n")
    status, _, err = command("system=[original]", f"+system.mine={{name: command, command: '{sys.executable} {odd} {{input}} {{output}}'}}")  # fmt: skip
    assert status in (3, 5) and "what the program wrote of utterance" in err and "Traceback" not in err


def test_soundfile_reads_what_the_program_gets(tmp_path: Path) -> None:
    """An independent look at what is handed over: sixteen bits, one channel, the rate of the recording."""
    keep = tmp_path / "keep.py"
    keep.write_text(
        f"import shutil, sys\nshutil.copy(sys.argv[1], {str(tmp_path / 'kept.wav')!r})\nshutil.copy(*sys.argv[1:3])\n"
    )
    wave, rate, who = spoken()[1]
    Anonymiser(settings("{input} {output}", keep)).anonymise(wave, rate, who)
    found = soundfile.info(tmp_path / "kept.wav")
    assert (found.subtype, found.channels, found.samplerate) == ("PCM_16", 1, rate)
    assert np.array_equal(soundfile.read(tmp_path / "kept.wav", dtype="float32")[0], wave)


@pytest.mark.slow
def test_temporary_files_that_find_no_room_are_said_with_the_variable_that_moves_them(
    command: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no folder can be made, and where one was and the recordings find no room in it."""
    given = [
        "system=[original]",
        f"+system.mine={{name: command, command: '{sys.executable} {PROGRAM} {{input}} {{output}}'}}",
    ]
    (tmp_path / "room").mkdir()
    write = audio.write

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def into_temporary(path: Path, *rest: object, **named: object) -> None:
        if "voice-privacy-" in str(path):
            full()
        write(path, *rest, **named)

    for patched in (
        lambda m: m.setattr(tempfile, "mkdtemp", full),
        lambda m: m.setattr(audio, "write", into_temporary),
    ):
        with monkeypatch.context() as patch:
            patched(patch)
            status, _, err = command(*given)
        assert status == 5 and "temporary files cannot be written" in err and "export TMPDIR=DIR" in err, err
    monkeypatch.setenv("TMPDIR", str(tmp_path / "room"))  # what the message says
    monkeypatch.setattr(tempfile, "tempdir", None)
    assert command(*given)[0] == 0
    assert not list((tmp_path / "room").iterdir())


def test_once_all_programs_were_ended_none_is_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A thread that sees its program end goes on with the next recording, in a process that is about to end."""
    monkeypatch.setattr(processes, "_ended", threading.Event())
    assert processes.run_program(["true"], 60.0)[0] == 0
    processes.end_programs()
    with pytest.raises(OSError, match="canceled"):
        processes.run_program(["touch", str(tmp_path / "started")], 60.0)
    assert not (tmp_path / "started").exists()
