"""Runs over a small Kaldi data set: what is reused, what a change touches, other people's systems, signals, partial data."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import soundfile

from pipeline.tables import results
from tests import toy

BASE = (
    "recipe=kaldi",
    "metric=[asv,zebra,vsm,srd]",
    "diagnostics=false",
    "metric.srd.unit=utterance",
    "metric.srd.replicates=50",
    "metric.zebra.replicates=50",
)


def arguments(root: Path, *more: str) -> list[str]:
    """With extractors whose bytes do not depend on what is heard beside a file; batches of others differ in the last bits."""
    own = [] if any(one.startswith("extractor=") for one in more) else ["extractor=[ge2e,f0]"]
    return [*BASE, *own, f"dataset.root={root}", *more]


def made(exp: Path) -> Counter[str]:
    """Stage and system of each artefact of a store; of scores, what is scored."""
    found: Counter[str] = Counter()
    for record in exp.glob("store/*/*/*/record.json"):
        stage, system, *_ = json.loads(record.read_text())["notes"]["label"].split()
        what = {
            "anonymise": system,
            "extract": system,
            "score": {"all": "pairs", "ranks": "ranks"}.get(system, "trials"),
        }
        found[f"{stage} {what[stage].rstrip(',')}" if stage in what else stage] += 1  # "b2r, second run" is b2r too
    return found


def folder(done: subprocess.CompletedProcess[str]) -> Path:
    return Path(done.stdout.splitlines()[-1]).parent


@pytest.fixture(scope="module")
def first(
    tmp_path_factory: pytest.TempPathFactory, models: Path
) -> tuple[Path, Path, subprocess.CompletedProcess[str]]:
    """Original and B2 evaluated: the folder it ran in, the data, what it printed."""
    if not (models / "ge2e" / "pretrained.pt").is_file():
        pytest.skip("the offline weights are not here: make install")
    home = tmp_path_factory.mktemp("runs")
    root = toy.corpus(home / "toy")
    done = toy.run(*arguments(root, "system=[original,b2]"), cwd=home, check=True)
    return home, root, done


def copied(first: tuple[Path, Path, subprocess.CompletedProcess[str]], tmp_path: Path) -> tuple[Path, Path]:
    """The folder and the data of the first run, to change without touching the original."""
    shutil.copytree(first[0], tmp_path / "home")
    return tmp_path / "home", tmp_path / "home" / "toy"


@pytest.mark.slow
def test_adding_a_system_extracts_that_system_only(first, tmp_path: Path) -> None:
    home, root = copied(first, tmp_path)
    before = made(home / "exp")
    done = toy.run(*arguments(root, "system=[original,b2,b2r]"), cwd=home, check=True)
    new = made(home / "exp") - before
    assert {name for name in new if name.startswith(("anonymise", "extract"))} == {"anonymise b2r", "extract b2r"}
    reused, computed = toy.counts(done)
    assert reused == toy.counts(first[2])[1] and computed > 0


@pytest.mark.slow
def test_one_added_utterance_touches_one_shard(first, tmp_path: Path) -> None:
    home, root = copied(first, tmp_path)
    before = made(home / "exp")
    assert before["anonymise b2"] >= 3
    name, speaker, path = toy.wav(root, 0, 99, 1.7)
    sex = "f" if (root / "toy_trials_f" / "utt2spk").read_text().count(f" {speaker}\n") else "m"
    for table, line in {
        "wav.scp": f"{name} {path.relative_to(root)}", "utt2spk": f"{name} {speaker}", "trials": f"{speaker} {name} target"
    }.items():  # fmt: skip
        with (root / f"toy_trials_{sex}" / table).open("a") as stream:
            stream.write(f"{line}\n")
    toy.run(*arguments(root, "system=[original,b2]"), cwd=home, check=True)
    new = made(home / "exp") - before
    # One artefact an extractor (ge2e and f0) of one shard, for each system.
    assert new["anonymise b2"] == 1
    assert (new["extract original"], new["extract b2"]) == (2, 2)
    # The other sex's scores stand on vectors that did not change; speakers of both are ranked together, by both extractors.
    assert (before["score trials"], before["score pairs"], before["score ranks"]) == (6, 6, 4)
    assert (new["score trials"], new["score pairs"], new["score ranks"]) == (3, 3, 4)


@pytest.mark.slow
def test_the_same_bytes_in_another_place_and_in_another_order(first, tmp_path: Path) -> None:
    """All artefacts of a new store in a new folder, from lists in reverse order and by another number of threads, have the
    digests of the first."""
    root = tmp_path / "elsewhere" / "toy"
    shutil.copytree(first[1], root)
    for path in root.glob("toy_*/*"):
        path.write_text("".join(reversed(path.read_text().splitlines(keepends=True))))
    toy.run(*arguments(root, "system=[original,b2]", "runtime.threads=3"), cwd=tmp_path, check=True)

    def digests(exp: Path) -> set[tuple[str, str]]:
        records = [json.loads(path.read_text()) for path in exp.glob("store/*/*/*/record.json")]
        return {(record["key"], record["digest"]) for record in records}

    assert digests(tmp_path / "exp") == digests(first[0] / "exp")


@pytest.mark.slow
def test_somebody_elses_wavs_get_the_numbers_of_the_system_that_made_them(first, tmp_path: Path) -> None:
    home, root = copied(first, tmp_path)
    for record in (home / "exp" / "store" / "anonymise").glob("*/*/record.json"):
        for path in record.parent.glob("wav/*/*.wav"):
            out = home / "theirs" / f"{path.parent.name}_t8" / "wav" / path.name
            out.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, out)
    done = toy.run(
        *arguments(root, "system=[original,b2]", f"+system.t8={{name: external, root: {home / 'theirs'}, level: fixed}}"),
        cwd=home, check=True,
    )  # fmt: skip
    rows = results.read(folder(done))
    key = ["subset", "condition", "attacker", "extractor", "metric", "variant", "signature"]
    ours, theirs = (
        rows[rows["system"] == name].set_index(key)[["value", "low", "high", "label"]].sort_index()
        for name in ("b2", "t8")
    )
    assert len(ours) > 50
    pd.testing.assert_frame_equal(ours, theirs)


@pytest.mark.slow
def test_a_set_with_a_broken_file_needs_leave_and_is_marked(first, tmp_path: Path) -> None:
    home, root = copied(first, tmp_path)
    victim = sorted((root / "wav").glob("*.wav"))[-1]
    victim.write_bytes(b"")
    done = toy.run(*arguments(root, "system=[original,b2]"), cwd=home)
    assert done.returncode == 3 and victim.stem in done.stderr
    done = toy.run(*arguments(root, "system=[original,b2]", "allow_partial=true"), cwd=home)
    assert done.returncode == 6 and victim.stem in done.stderr
    rows = results.read(folder(done))
    partial = rows[rows["status"] == "partial"]
    assert len(partial) and (partial["n_used"] < partial["n_expected"]).all()
    # The sets that do not hold the file are whole.
    trials = rows[rows["metric"] == "eer"]
    assert set(trials["status"]) == {"ok", "partial"} or len(set(trials["subset"])) == 1
    assert "partial" in (folder(done) / "report.html").read_text().lower()
    assert json.loads((folder(done) / "audio_notes.json").read_text())["left_out"][0]["utterance"] == victim.stem


@pytest.mark.slow
def test_what_cannot_be_extracted_leaves_its_value_out_and_the_rest_is_written(first, tmp_path: Path) -> None:
    """A tone above 8 kHz is silence at 16 kHz, so that trial utterance has no embedding: without leave its set's values are
    null, and the other set's stand."""
    home, root = copied(first, tmp_path)
    victim = (root / "toy_trials_f" / "wav.scp").read_text().split()[0]
    tone = 0.5 * np.hanning(44_100) * np.sin(2 * np.pi * 20_000 * np.arange(44_100) / 44_100)
    soundfile.write(root / "wav" / f"{victim}.wav", tone, 44_100, subtype="FLOAT")
    command = ["recipe=kaldi", f"dataset.root={root}", "system=[original,b2]", "extractor=[ge2e]", "metric=[asv,zebra]"]
    done = toy.run(*command, cwd=home)
    assert done.returncode == 3
    assert f"{victim}: silent" in done.stderr and "allow_partial=true" in done.stderr
    rows = results.read(folder(done))
    short = rows[rows["status"] == "incomplete"]
    assert set(short["subset"]) == {"toy_trials_f"} and short["value"].isna().all() and (short["reason"] != "").all()
    assert rows.loc[(rows["metric"] == "eer") & (rows["subset"] == "toy_trials_m"), "value"].notna().all()
    done = toy.run(*command, "allow_partial=true", cwd=home)
    assert done.returncode == 6
    rows = results.read(folder(done))
    partial = rows[(rows["status"] == "partial") & (rows["metric"] == "eer")]
    assert set(partial["subset"]) == {"toy_trials_f"} and partial["value"].notna().all()
    # The utterance is tried against each of the four models of its sex.
    assert (partial["n_expected"] - partial["n_used"] == 4).all()


@pytest.mark.slow
def test_segments_without_a_voiced_frame_are_ties_and_named(first, tmp_path: Path) -> None:
    """Segments of these short files are too short for pYIN: an attacker who looks at F0 learns nothing from them."""
    home, root = copied(first, tmp_path)
    done = toy.run("recipe=kaldi", f"dataset.root={root}", "system=[original]", "metric=[srd]", cwd=home, check=True)
    rows = results.read(folder(done))
    f0 = rows[(rows["extractor"] == "f0") & (rows["metric"] == "idr")]
    assert f0["value"].notna().all() and f0["note"].str.contains("hold no evidence").all()
    notes = json.loads((folder(done) / "audio_notes.json").read_text())
    named = [entry for entry in notes["without_evidence"] if "#" in entry["utterance"]]
    assert f0["note"].iloc[0].startswith(f"{len(named)} of 160 inputs")


@pytest.mark.slow
def test_a_library_tree_without_lists(speech: Path, tmp_path: Path, models: Path) -> None:
    done = toy.run(
        "dataset=librispeech", f"dataset.root={speech / 'librispeech' / 'test-other'}", "system=[original,b2]",
        "extractor=[ge2e]", "attacker=[ignorant]", "metric=[asv,zebra]", cwd=tmp_path, check=True,
    )  # fmt: skip
    rows = results.read(folder(done)).set_index(["metric", "subset", "system"])
    # 5 + 5 speakers with 10 files: 25 trials a sex are targets, 100 are not (the data set's own README).
    assert rows.loc[("eer", "test-other_trials_f", "b2"), "n_target"] == 25
    assert rows.loc[("eer", "test-other_trials_m", "original"), "n_nontarget"] == 100
    assert rows.loc[("eer", "test-other_trials_f", "original"), "value"] < 0.05
