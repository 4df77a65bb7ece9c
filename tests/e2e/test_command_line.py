"""The command line as people type it: what a shell does to it, option files, the environment, and output to anywhere."""

from __future__ import annotations

import io
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from omegaconf import OmegaConf

import pipeline
from pipeline import cli, registry
from pipeline.cli.command_line import read_command_line
from pipeline.errors import ConfigError
from tests import toy
from tests.datasets.conftest import Tiny
from tests.e2e.test_precomputed import written

CLONE = Path(pipeline.__file__).resolve().parents[1]
ODD = """ü 文'"([{,=;#&!`<>|^ x"""
Call = Callable[..., tuple[int, str, str]]


# Output ----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def evaluation(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A whole evaluation in a few seconds, all of it in a folder with an odd name."""
    home = tmp_path_factory.mktemp("odd") / ODD
    root = toy.corpus(home / "data", speakers=4, utterances=4)
    # The library that writes them knows no commas in paths.
    written(root, home.parent / "xo", 1)
    written(root, home.parent / "xp", 2)
    return [
        "recipe=kaldi", f"dataset.root={root}", "system=[original,b2]", "extractor=[precomputed]", "metric=[asv]",
        f"+extractor.precomputed.vectors={{original: {home / '../xo'}, b2: {home / '../xp'}}}", "attacker=[ignorant]",
        "metric.asv.interval=none", "diagnostics=false", f"paths.root={home / 'exp'}",
    ]  # fmt: skip


@pytest.mark.parametrize("encoding", ["ascii", pytest.param("latin-1", marks=pytest.mark.slow)])
def test_what_an_encoding_lacks_is_written_as_escapes(
    evaluation: list[str], encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def printed(*arguments: str) -> str:
        streams = [io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict") for _ in range(2)]
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", streams[0])
            patch.setattr(sys, "stderr", streams[1])
            status = cli.run([*arguments])
        for stream in streams:
            stream.flush()
        out, err = (stream.buffer.getvalue().decode(encoding) for stream in streams)  # type: ignore[attr-defined]
        assert status == 0, err
        return out

    out = printed(*evaluation)
    assert out.splitlines()[-1].endswith("report.html") and r"\u6587" in out and r"\u2193" in out
    (run, *_) = sorted(Path(evaluation[-1].partition("=")[2], "runs").iterdir())
    printed("report", str(run))
    assert (run / "overrides.txt").read_text(encoding="utf-8").splitlines() == evaluation


def shell(line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = line.replace("PIPELINE", shlex.join([sys.executable, "-m", "pipeline"]))
    found = {**os.environ, "PYTHONPATH": str(CLONE), **environment}
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, errors="replace", env=found)


@pytest.mark.parametrize(
    ("line", "out", "err", "status"),
    [
        ("PIPELINE --help >&-", "", "", 0),
        ("PIPELINE --help 2>&-", cli.HELP, "", 0),
        ("PIPELINE --help | true; exit ${PIPESTATUS[0]}", "", "", 0),
        ("PIPELINE nothing 2>&-", "", "", 2),
        ("PIPELINE nothing >&-", "", "there is no verb", 2),
        ("PIPELINE nothing 2>&1 >&- | true; exit ${PIPESTATUS[0]}", "", "", 2),
        ("PIPELINE --help > /dev/full", "", "No space left on device", 5),
        ("PYTHONIOENCODING=ascii PIPELINE 'ü'", "", r"there is no verb `\xfc`", 2),
        ("PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 LC_ALL=POSIX PIPELINE 'ü'", "", r"there is no verb `\xfc`", 2),
    ],
)
def test_output_to_nowhere_costs_nothing(line: str, out: str, err: str, status: int) -> None:
    if "/dev/full" in line and not Path("/dev/full").exists():
        pytest.skip("no /dev/full on this system")
    done = shell(line)
    assert (done.returncode, done.stdout) == (status, out)
    assert err in done.stderr and "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == bool(err)


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_process_of_its_own_whose_reader_has_gone(evaluation: list[str], encoding: str) -> None:
    line = f"PIPELINE {shlex.join(evaluation)} | true; exit ${{PIPESTATUS[0]}}"
    done = shell(line, PYTHONIOENCODING=encoding, PYTHONUTF8="0", LC_ALL="C.UTF-8")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


# The interpreter -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_python_without_the_environment_is_named_with_the_one_that_has_it() -> None:
    done = subprocess.run(
        [sys.executable, "-S", "-m", "pipeline", "validate", "dataset.label=a b"],
        capture_output=True, text=True, cwd=CLONE, env={**os.environ, "PYTHONPATH": str(CLONE)},
    )  # fmt: skip
    assert done.returncode == 2 and "bug" not in done.stderr and "Traceback" not in done.stderr
    assert "No module named" in done.stderr and sys.executable in done.stderr and "make install" in done.stderr


def test_a_plugin_that_cannot_be_imported_is_named_as_that(command: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("broken", "no_such_module_at_all:X", "voice_privacy.extractors")
    monkeypatch.setattr(registry, "_find_entry_points", lambda kind: (point,) if kind == "extractors" else ())
    status, _, err = command("validate", "+extractor.mine={name: broken}")
    assert status == 2
    assert "the plug-in 'broken'" in err and "No module named 'no_such_module_at_all'" in err


# Overrides -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("character", [*ODD, *"\\$~:?*%@)]}", "${", "\n", "\\'"])
def test_a_path_may_hold_any_character(character: str) -> None:
    from hydra.core.override_parser.overrides_parser import OverridesParser

    # Within a mapping that Hydra reads, two backslashes are one: that is its own way to write one.
    twice = "" if character == "\\" else character
    for value in (f"/data/{character}x", f"/data/x{character}x y", f"/{character}{twice}x", f"~/{character}x"):
        for form, key in (("dataset.root={}", ""), ("+system.t8={{name: external, root: {}}}", "root")):
            read = read_command_line([form.format(value)]).overrides[0].text
            found = OmegaConf.create({"x": OverridesParser.create().parse_override(read).value()})
            plain = OmegaConf.to_container(found, resolve=True)
            assert isinstance(plain, dict)
            assert (plain["x"][key] if key else plain["x"]) == value, read


def test_folders_of_any_name_are_found(command: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Tiny(tmp_path / ODD).save()
    Tiny(tmp_path / "2024").save()
    monkeypatch.setenv("HOME", str(tmp_path))
    assert command("prepare", f"dataset.root=~/{ODD}", f"paths.root={tmp_path / ODD / 'exp'}")[0] == 0
    assert command("prepare", "dataset.root=2024", "paths.root=exp")[0] == 0


def test_a_name_that_is_not_utf_8_is_refused(command: Call, tmp_path: Path) -> None:
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/f\xfcr")
    status, _, err = command("prepare", f"dataset.root={odd}", "paths.root=exp")
    assert status == 2 and r"f\udcfcr" in err and "rename it in UTF-8" in err and "bug" not in err


MENDED = [
    (["system=b2,b2r"], "systems original, b2, b2r"),
    ([f"+system.{'x' * 300}={{name: external, root: W}}"], "b2r, " + "x" * 64),
    (["--dataset.label=toy"], "valid"),
]


@pytest.mark.parametrize(("arguments", "words"), MENDED, ids=["a list", "a long label", "dashes"])
def test_what_could_mean_two_things_is_said_as_it_must_be_written(
    command: Call, arguments: list[str], words: str
) -> None:
    status, out, err = command("validate", *arguments)
    assert (status, out) == (2, "")
    (line,) = (one for one in err.splitlines() if one.startswith("  - "))
    remedy = shlex.split(line.rpartition("write: ")[2])
    status, out, err = command("validate", *remedy)
    assert status == 0 and words in out, err


@pytest.mark.parametrize(
    ("arguments", "faults"),
    [
        (["extractor=[ge2e,", "f0]"], 2),
        (["dataset.root=/my", "data", "set"], 2),
        (["dataset.label", "=", "toy"], 3),
        (["'dataset.label=toy'"], 1),
        (["+system.hé={name: external, root: W}"], 1),
        (["hydra/launcher=submitit_slurm"], 1),
        (["hydra.run.dir=here"], 1),
        (["--info", "--hydra-help"], 2),
        (["extractor=[ge2e,", "f0]", "system=b2,b2r", "+system.é={name: external}", "plan"], 5),
    ],
)
def test_all_that_cannot_be_read_is_said_at_once(command: Call, arguments: list[str], faults: int) -> None:
    status, out, err = command("validate", *arguments)
    assert (status, out) == (2, "") and len([one for one in err.splitlines() if one.startswith("  - ")]) == faults


def test_a_launcher_is_refused_with_what_sends_jobs(command: Call) -> None:
    for word in ("hydra/launcher=submitit_slurm", "hydra/sweeper=basic", "hydra.launcher.mem_gb=1"):
        status, _, err = command("validate", "-m", word)
        assert status == 2 and word in err and "executor=slurm" in err


def test_a_sweep_is_left_a_sweep_and_a_list_a_list() -> None:
    for words in (["-m", "system=b2,b2r"], ["-m", "system.b2.alpha=0.7,0.8"], ["-m", "seed=range(1,3)"],
                  ["~system.b2"], ["+x={a: [1, 2]}"], ["--cfg", "job", "x=1"], ["a='b c'"], ["a=${b}"]):  # fmt: skip
        assert [each.text for each in read_command_line(words).overrides] == [
            word for word in words if set("=~") & set(word)
        ]


@pytest.mark.parametrize(
    ("words", "jobs"),
    [
        (["system=b2,b2r", "seed=range(1,3)", "x=1"], ["system=b2 seed=1", "system=b2 seed=2", "system=b2r seed=1", "system=b2r seed=2"]),
        (["x=choice(2,1)"], ["x=2", "x=1"]),
        (["backend=glob(p*)"], ["backend=plda"]),
        (["x=1"], [""]),
    ],
)  # fmt: skip
def test_jobs_of_a_sweep_come_in_the_order_of_hydras(words: list[str], jobs: list[str]) -> None:
    from pipeline.cli.compose import list_options

    assert [varied for _, varied in read_command_line(["-m", *words]).jobs(list_options)] == jobs


def test_flags_within_python_are_refused_by_name() -> None:
    for function in (pipeline.plan, pipeline.evaluate):
        with pytest.raises(ConfigError, match="-m, --cfg"):
            function("-m", "--cfg", "system=b2")


# Labels ----------------------------------------------------------------------------------------------------------------


# Option files ----------------------------------------------------------------------------------------------------------

SLIPS: list[tuple[str, str | bytes, int, str]] = [
    ("tab", "mine:\n\tname: mcadams\n", 2, "'\\t'"),
    ("bracket", "mine:\n  name: mcadams\n  alpha: [0.6\n", 3, "flow sequence"),
    ("latin-1", b"# one\nmine:\n  name: mcadams # f\xfcr\n", 3, "is not UTF-8"),
    ("a key twice", "mine:\n  name: mcadams\n  alpha: 0.6\n  alpha: 0.7\n", 4, "duplicate key alpha"),
    ("a wrong key", "mine:\n  name: mcadams\n  alfa: 0.6\n", 3, "did you mean alpha"),
    ("a wrong value", "mine:\n  name: mcadams\n  alpha: high\n", 3, "valid number"),
    ("no label", "name: mcadams\nalpha: 0.6\n", 1, "begin the file with 'mine:'"),
    ("a list", "- mine\n", 1, "no KEY: VALUE"),
    ("nothing", "# to be written\n", 1, "no KEY: VALUE"),
    ("no such key", "mine:\n  name: mcadams\n  alpha: ${not.there}\n", 3, "not.there"),
]


@pytest.mark.parametrize(
    ("name", "content", "line", "words"),
    [pytest.param(*case, marks=[] if place % 4 == 0 else [pytest.mark.slow]) for place, case in enumerate(SLIPS)],
    ids=[case[0] for case in SLIPS],
)
def test_a_slip_in_an_option_file_is_named_by_file_and_line(
    command: Call, tmp_path: Path, name: str, content: str | bytes, line: int, words: str
) -> None:
    path = tmp_path / "own" / "system" / "mine.yaml"
    path.parent.mkdir(parents=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    status, out, err = command("validate", "--config-dir", "own", "system=[original,mine]")
    assert (status, out) == (2, "")
    assert f"{path}:{line}" in err and words in err


@pytest.mark.parametrize("place", [pytest.param("mine.yaml", marks=pytest.mark.slow), "system/mine.yml"])
def test_an_option_in_the_wrong_place_is_found(command: Call, tmp_path: Path, place: str) -> None:
    path = tmp_path / "own" / place
    path.parent.mkdir(parents=True)
    path.write_text("mine: {name: mcadams, alpha: 0.6}\n")
    status, _, err = command("validate", "--config-dir=own", "system=[original,mine]")
    assert status == 2 and f"{path} is not system/mine.yaml" in err


def test_files_that_are_not_chosen_are_no_matter(command: Call, tmp_path: Path) -> None:
    (tmp_path / "own" / "system").mkdir(parents=True)
    (tmp_path / "own" / "system" / "mine.yaml").write_text("mine: {name: mcadams}\n")
    (tmp_path / "own" / "system" / "other.yaml").write_text("other: [\n")
    assert command("validate", "--config-dir", "own", "system=[original,mine]")[0] == 0
    status, _, err = command("validate", "--config-dir", "own", "system=[original,mne]")
    assert status == 2 and "did you mean mine" in err


def test_a_folder_of_options_that_is_not_there(command: Call, tmp_path: Path) -> None:
    status, _, err = command("validate", "--config-dir", "own")
    assert status == 2 and f"Where: {tmp_path / 'own'}" in err


# The environment -------------------------------------------------------------------------------------------------------


@pytest.fixture
def secret(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TOKEN_OF_MINE", "hunter2")
    return "hunter2"


def test_only_variables_that_are_meant_for_it_are_read(
    command: Call, tmp_path: Path, secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "own" / "system" / "mine.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(
        "mine:\n  name: external\n  root: /a/${oc.env:TOKEN_OF_MINE}\n  level: ${oc.decode:${oc.env:ANOTHER,x}}\n"
    )
    given = ["--config-dir", "own", "system=[original,mine]"]
    for verb in (["run"], ["--cfg", "job", "--resolve"]):
        status, out, err = command(*verb, *given)
        assert status == 2 and secret not in out + err, verb
        assert "TOKEN_OF_MINE" in err and f"{path}:3" in err
    status, _, err = command("validate", *given)
    assert "system.mine.root" in err
    assert sorted(one.name for one in tmp_path.iterdir()) == ["own"], "nothing is written"
    path.write_text(
        "mine:\n  name: external\n  root: /a/${oc.env:VOICE_PRIVACY_TOKEN_OF_MINE}/${oc.env:SLURM_JOB_ID,x}\n"
    )
    monkeypatch.setenv("VOICE_PRIVACY_TOKEN_OF_MINE", "b")
    assert command("validate", *given)[0] == 0
    _, out, _ = command("--cfg", "job", "--resolve", *given)
    assert "root: /a/b/x" in out


def test_an_override_may_read_no_more_than_a_file(command: Call, secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JWT", secret)
    status, out, err = command("validate", "dataset.root=${oc.env:SLURM_JWT}")
    assert status == 2 and "SLURM_JWT" in err and secret not in out + err
    status, out, err = command("validate", "dataset.root=${oc.env:TOKEN_OF_MINE}")
    assert status == 2 and secret not in out + err
    assert "dataset.root=${oc.env:TOKEN_OF_MINE}" in err
    assert command("validate", "-m", "dataset.root=${oc.env:TOKEN_OF_MINE}")[0] == 2


def test_other_configurations_of_the_process_read_what_they_like(secret: str) -> None:
    with pytest.raises(ConfigError, match="TOKEN_OF_MINE"):
        pipeline.plan("dataset.root=${oc.env:TOKEN_OF_MINE}")
    assert OmegaConf.create({"x": "${oc.env:TOKEN_OF_MINE}"}).x == secret


def test_an_empty_variable_is_as_one_that_is_not_set_and_is_said(
    command: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, empty in (("ROOT", ""), ("DATA", "  "), ("MODELS", "")):
        monkeypatch.setenv(f"VOICE_PRIVACY_{name}", empty)
    status, out, err = command("--cfg", "job", "--resolve")
    assert status == 0 and "root: ./exp\n  data: ./data\n  models: null\n" in out
    assert command("prepare", "dataset.root=gone")[0] == 3
    status, _, err = command("-m", "dataset.root=gone")
    assert status == 3 and err.count("VOICE_PRIVACY_ROOT is empty: paths.root is ./exp, its default") == 1
    assert [one.name for one in tmp_path.iterdir()] == ["exp"], "neither runs/ nor store/ in the current folder"
    assert (tmp_path / "exp" / "runs").is_dir()


@pytest.mark.parametrize(
    ("field", "sweep"),
    [("root", ["-m"]), *(pytest.param(name, [], marks=pytest.mark.slow) for name in ("root", "data", "models"))],
)
def test_an_empty_path_is_refused(command: Call, tmp_path: Path, field: str, sweep: list[str]) -> None:
    status, out, err = command(*sweep, f"paths.{field}=", "dataset.root=gone")
    assert (status, out) == (2, "") and "an empty path; leave it out" in err
    assert list(tmp_path.iterdir()) == []
    mended = err.rstrip().rpartition("write: ")[2]
    assert command("validate", mended)[0] == 0


def test_an_empty_path_in_an_option_file_is_refused(command: Call, tmp_path: Path) -> None:
    path = tmp_path / "own" / "recipe" / "mine.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("# @package _global_\npaths: {root: ' '}\n")
    status, _, err = command("run", "--config-dir", "own", "recipe=mine")
    assert status == 2 and f"{path}:2" in err and "paths.root is taken from the command line" in err
    assert [one.name for one in tmp_path.iterdir()] == ["own"]
