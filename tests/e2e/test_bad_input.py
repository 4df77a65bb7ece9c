"""Bad input through the command line: exit status and message of each fault, before any compute."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from pipeline.tables import results, vectors
from tests import toy
from tests.datasets.conftest import Tiny
from tests.datasets.test_kaldi import BROKEN_FILES, FAULTS, USED_FILES
from tests.datasets.test_training_sets import tree
from tests.running import Command
from tests.sampled import mostly_slow


def test_a_sound_set_is_printed(small: Tiny, command: Command) -> None:
    status, out, _ = command("prepare", f"dataset.root={small.save().root}")
    assert status == 0
    assert "t_trials_f  trials  4 target  8 non-target" in out


def one_a_kind(cases: Mapping[str, tuple[Any, ...]]) -> list[Any]:
    """The first case of each kind of fault; tests/datasets tries all of them without a command line."""
    names = {case[1]: name for name, case in reversed(cases.items())}
    return mostly_slow(sorted(names.values()))


@pytest.mark.parametrize("name", one_a_kind(FAULTS))
def test_each_fault_of_the_lists(tmp_path: Path, command: Command, name: str) -> None:
    change, kind, _, place = FAULTS[name]
    tiny = Tiny(tmp_path / "spoilt")
    change(tiny)
    ended = command("prepare", f"dataset.root={tiny.save().root}", status=3)
    assert ended.out == "" and kind in ended.kinds and f"{tiny.root}/{place}" in ended.err
    assert "Likely cause:" in ended.err and "To mend it:" in ended.err


@pytest.mark.parametrize("name", one_a_kind(BROKEN_FILES))
def test_each_fault_of_the_audio_is_named_and_left_out_on_request(small: Tiny, command: Command, name: str) -> None:
    spoil, kind, _ = BROKEN_FILES[name]
    spoil(small.wav("b-t1"))
    ended = command("prepare", f"dataset.root={small.root}", status=3)
    assert ended.out == "" and ended.kinds == {kind} and "allow_partial=true" in ended.err
    assert "'b-t1'" in ended.err and f"{small.root}/t_trials_f/wav.scp:4" in ended.err
    ended = command("prepare", f"dataset.root={small.root}", "allow_partial=true", status=0)
    assert "t_trials_f  trials  3 target  7 non-target" in ended.out
    assert "left out" in ended.err and "b-t1" in ended.err


@pytest.mark.parametrize("name", mostly_slow(USED_FILES))
def test_each_other_kind_of_audio(small: Tiny, command: Command, name: str) -> None:
    replace, _, note = USED_FILES[name]
    replace(small.wav("b-t1"))
    ended = command("prepare", f"dataset.root={small.root}", status=0)
    assert "t_trials_f  trials  4 target  8 non-target" in ended.out
    assert not note or ended.err.count(note) == 1


@pytest.mark.slow
def test_odd_audio_goes_through_a_whole_run_and_no_vector_is_nan(tmp_path: Path, models: Path) -> None:
    """All kinds of audio that are used, in one evaluation with all measures and a training set; what is refused is left out
    on request, and counted."""
    if not (models / "ge2e" / "pretrained.pt").is_file():
        pytest.skip("the offline weights are not here: make install")
    root = toy.corpus(tmp_path / "toy", speakers=8, utterances=6)
    paths = sorted((root / "wav").glob("*.wav"))
    kinds = list(USED_FILES.values())
    for number, path in enumerate(paths[::3]):
        wave, _ = soundfile.read(path)
        if number < len(kinds):
            kinds[number][0](path)
        else:
            soundfile.write(path, np.stack([wave, 0.5 * wave], axis=1)[: 1700 + number], 16_000, subtype="PCM_24")
    command = [
        "recipe=kaldi", f"dataset.root={root}", "system=[original,b2]", "train=small", "train.steps=2",
        "extractor=[ge2e,f0,ecapa,phones_small]", "extractor.phones.training.steps=5", f"dataset.train={tree(tmp_path / 'corpus' / 'train')}", "metric.srd.unit=utterance", "runtime.device=cpu",
    ]  # fmt: skip
    done = toy.run(*command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = results.read(Path(done.stdout.splitlines()[-1]).parent)
    assert set(rows["status"]) <= {"ok", "undefined"} and set(rows["extractor"]) == {"ge2e", "f0", "ecapa", "phones"}
    for note in ("below 16 kHz (8000 Hz: 1)", "have several channels (2 channels: 3)", "1 of 52 files are clipped"):
        assert done.stderr.count(note) == 1, note
    made = sorted((tmp_path / "exp" / "store").rglob("features.parquet"))
    assert made and all(np.isfinite(vectors.read(path).vectors).all() for path in made)

    silent, short = paths[1], paths[-1]
    soundfile.write(silent, np.zeros(16_000), 16_000)
    soundfile.write(short, np.full(800, 0.1), 16_000)
    done = toy.run(*command, cwd=tmp_path)
    assert done.returncode == 3
    assert f"{silent} is silent" in done.stderr and f"{short} is too short" in done.stderr
    done = toy.run(*command, "allow_partial=true", cwd=tmp_path)
    assert done.returncode == 6 and silent.stem in done.stderr and short.stem in done.stderr
    rows = results.read(Path(done.stdout.splitlines()[-1]).parent)
    partial = rows[rows["status"] == "partial"]
    assert len(partial) and (partial["n_used"] < partial["n_expected"]).all() and partial["value"].notna().any()


def test_a_training_set_is_printed_and_its_speakers_may_not_be_evaluated(
    small: Tiny, command: Command, tmp_path: Path
) -> None:
    sound = tree(tmp_path / "corpus" / "train")
    arguments = ["prepare", f"dataset.root={small.save().root}"]
    status, out, _ = command(*arguments, f"dataset.train={sound}")
    assert status == 0 and "train  train  2 speakers  4 utterances" in out
    status, _, err = command(*arguments, f"dataset.train={tree(tmp_path / 'other' / 'train', ['a-9', 'd-9'])}")
    assert status == 3 and "1 of the 2 speakers of the training set train is evaluated: a ('a' in t_enrolls" in err
    status, _, err = command(*arguments, f"dataset.train={tmp_path / 'nowhere'}")
    assert status == 3 and "there is no folder" in err and "dataset.train=DIR" in err


def computed(root: Path) -> list[Path]:
    """What lies in the store beside that which was found of audio files."""
    return [path for path in (root / "store").glob("*") if path.name != "files"]


def test_all_faults_at_once_before_any_compute(small: Tiny, tmp_path: Path) -> None:
    small.tables["t_trials_f"]["trials"].append("a nobody-t0 nontarget")
    small.tables["t_enrolls"]["wav.scp"][0] = "a-e0 sox x.wav -t wav - rate 8000 |"
    small.save().wav("b-t1").unlink()
    done = toy.run("recipe=kaldi", f"dataset.root={small.root}", cwd=tmp_path)
    assert done.returncode == 3 and done.stdout == ""
    for said in ("nobody-t0", "pipe", "'b-t1'"):
        assert said in done.stderr, said
    assert "Traceback" not in done.stderr
    assert not computed(tmp_path / "exp")
    (log,) = (tmp_path / "exp" / "runs").glob("*/run.log")
    assert "nobody-t0" in log.read_text()


def test_an_incomplete_external_system_names_all_that_is_missing(small: Tiny, command: Command, tmp_path: Path) -> None:
    small.save()
    (tmp_path / "theirs").mkdir()
    status, _, err = command(
        "prepare", f"dataset.root={small.root}", f"+system.t8={{name: external, root: {tmp_path / 'theirs'}}}"
    )
    assert status == 3
    (line,) = [line for line in err.splitlines() if line.startswith("  - ")]
    assert "no audio file; 10 utterances of t_enrolls, t_trials_f have none: a-e0, " in line and line.endswith(
        " and 5 more"
    )


def test_missing_weights_name_the_command_that_gets_them(small: Tiny, tmp_path: Path) -> None:
    done = toy.run(
        "recipe=kaldi", f"dataset.root={small.save().root}", f"paths.models={tmp_path / 'none'}", cwd=tmp_path
    )
    assert done.returncode == 4
    assert "fetch-models 'extractor=[campplus]'" in done.stderr and "never downloads" in done.stderr


@pytest.mark.parametrize("verb", ["train", "run"])
def test_training_without_training_speech_names_the_setting_before_any_compute(
    small: Tiny, command: Command, tmp_path: Path, verb: str
) -> None:
    status, out, err = command(verb, f"dataset.root={small.save().root}", "extractor=[phones,f0]")
    assert (status, out) == (3, "") and "extractor phones" in err and "dataset.train=DIR" in err
    assert not computed(tmp_path / "exp")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["runn"], "did you mean run"),
        (["validate", "system.b2.alpa=1"], "did you mean alpha"),
        (["validate", "system=[b3]"], "no option 'b3'"),
        (["validate", "runtime.device=tpu"], "runtime.device"),
        (["report"], "report needs run folders"),
        (["report", "nowhere"], "no finished run"),
        (["compare", "nowhere", "elsewhere"], "no finished run"),
        (["validate", "a b"], "neither a flag nor KEY=VALUE"),
    ],
)
def test_faults_of_usage_end_with_2(command: Command, arguments: list[str], said: str) -> None:
    status, _, err = command(*arguments)
    assert status == 2
    assert said in err and "Traceback" not in err


def test_a_stage_that_cannot_store_its_result_ends_with_5_and_says_what_to_do(
    small: Tiny, tmp_path: Path, models: Path
) -> None:
    if not (models / "ge2e" / "pretrained.pt").is_file():
        pytest.skip("the offline weights are not here: make install")
    (tmp_path / "exp").mkdir()
    (tmp_path / "exp" / "store").write_text("a file where the store should be")
    done = toy.run("recipe=kaldi", f"dataset.root={small.save().root}", "metric=[asv]", cwd=tmp_path)
    assert done.returncode == 5 and done.stdout == ""
    assert (
        "could not write its result" in done.stderr and "paths.root" in done.stderr and "Traceback" not in done.stderr
    )
