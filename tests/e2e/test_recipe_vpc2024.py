"""``recipe=vpc2024`` on a folder as the challenge's scripts left it: the README's command, copies and models found, every verdict."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import soundfile
import torch

from pipeline import cli, metrics
from pipeline.evaluation.result import Result, read
from tests.challenge import write
from tests.toy import HANGS

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "recipes" / "vpc2024" / "README.md").read_text(encoding="utf-8")
TEST = {"libri_test_trials_f": (548, 11196), "libri_test_trials_m": (449, 9457)}
DEV = {"libri_dev_trials_f": (704, 14566), "libri_dev_trials_m": (644, 12796)}


def of_readme(folder: Path, *more: str) -> list[str]:
    """The arguments of the first command of the README, for a folder."""
    found = re.search(r"^ {4}voice-privacy (recipe=vpc2024 dataset\.root=DIR)$", README, re.MULTILINE)
    assert found is not None
    return [*found[1].replace("DIR", str(folder)).split(), *more]


def verdicts(made: Result) -> pd.DataFrame:
    with (made.folder / "scorecard.csv").open(newline="", encoding="utf-8") as file:
        return pd.DataFrame(list(csv.DictReader(file)))


def rows_of(made: Result, **words: str) -> pd.DataFrame:
    rows = made.rows
    for name, word in words.items():
        rows = rows[rows[name] == word]
    return rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The challenge's checkout with two copies, a fraction of its speakers, and utterances of half a second."""
    root = tmp_path_factory.mktemp("vpc2024") / "Voice-Privacy-Challenge-2024"
    write("2024", root, scale=0.03, systems=("mcadams", "sttts"), seconds=0.5, scores=False)
    return root


@pytest.fixture(scope="module")
def made(folder: Path) -> Result:
    """What the command makes of it; the counts are not the challenge's, which the data would be refused for."""
    home = folder.parent / "exp"
    threads = torch.get_num_threads()
    try:
        # Without figures and intervals, which take most of the time at this size; the slow test has the whole command.
        reported = ("dataset.protocol=reported", "diagnostics=false", "metric=[asv]", "metric.asv.interval=none")
        assert cli.run(of_readme(folder, f"paths.root={home}", "runtime.threads=1", *reported)) == 0
    finally:
        torch.set_num_threads(threads)
    (run,) = (home / "runs").iterdir()
    return read(run)


def test_every_copy_is_evaluated_under_every_attacker_with_the_models_found(made: Result) -> None:
    found = rows_of(made, metric="eer", variant="speechbrain", subset="libri_test (mean of f and m)")
    assert set(zip(found["system"], found["condition"], found["attacker"])) == {
        ("original", "OO", "unprotected"),
        *((system, *attack) for system in ("mcadams", "sttts") for attack in (
            ("OP", "ignorant"), ("PP", "lazy_informed"), ("PP", "semi_informed"),
        )),
    }  # fmt: skip
    anonymised = found[found["attacker"] == "semi_informed"]
    assert set(anonymised["trained_on"]) == {"anonymised (the challenge's checkpoint)"}
    assert anonymised["model_digest"].nunique() == 2, "each copy has the model that was trained on it"
    log = (made.folder / "run.log").read_text()
    assert "exp/asv_orig/CKPT+10" in log and "exp/asv_anon_sttts/CKPT+10" in log


def test_each_printed_row_has_a_verdict_and_ours_stand_for_b2_and_b3(made: Result) -> None:
    card = verdicts(made)
    assert len(card) == 224 and (card["verdict"] != "").all()
    ours = card[card["our_system"] != ""]
    assert set(zip(ours["system"], ours["our_system"])) == {
        ("original", "original"), ("mcadams", "mcadams"), ("sttts", "sttts"),
    }  # fmt: skip
    assert set(ours["metric"]) == {"eer"} and len(ours) == 7 * 4 + 2 * 4
    absent = card[(card["metric"] == "eer") & (card["system"] == "nac")]
    assert set(absent["verdict"]) == {"not run"} and set(absent["note"]) == {"no such system"}
    assert set(card["tolerance"]) == {"", "0"}


def test_the_systems_are_ranked_by_the_challenges_bands_on_the_test_mean(made: Result) -> None:
    bands = pd.read_parquet(made.folder / "bands.parquet")
    assert set(bands["system"]) == {"mcadams", "sttts"}
    assert set(bands["subset"]) == {"libri_test (mean of f and m)"}
    eer = rows_of(made, metric="eer", variant="speechbrain", attacker="semi_informed")
    by_set = eer.set_index(["system", "subset"])["value"]
    for system in ("mcadams", "sttts"):
        parts = [by_set[system, name] for name in TEST]
        assert by_set[system, "libri_test (mean of f and m)"] == pytest.approx(sum(parts) / 2)


def test_scores_are_those_of_the_challenges_own_steps(folder: Path, made: Result) -> None:
    """Peak division, trimming of exact zeros, one file at a time, plain means, cosine: done here with SpeechBrain alone."""
    from speechbrain.lobes.features import Fbank
    from speechbrain.lobes.models.ECAPA_TDNN import ECAPA_TDNN
    from speechbrain.processing.features import InputNormalization

    checkpoint = folder / "exp" / "asv_anon_mcadams" / "CKPT+10" / "embedding_model.ckpt"
    network = ECAPA_TDNN(80, channels=[16, 16, 16, 16, 48], lin_neurons=192, attention_channels=16, se_channels=16)
    network.load_state_dict(torch.load(checkpoint, weights_only=True))
    network.eval()
    fbank, mean = Fbank(n_mels=80), InputNormalization(norm_type="sentence", std_norm=False)

    def vector(path: Path) -> np.ndarray:
        wave, rate = soundfile.read(path, dtype="float32")
        assert rate == 16000
        wave = np.trim_zeros(wave / np.abs(wave).max())
        with torch.no_grad():
            features = mean(fbank(torch.from_numpy(wave)[None]), torch.ones(1))
            return np.asarray(network(features)[0, 0])

    data, name = folder / "data", "libri_test_trials_f"
    enrolled: dict[str, list[np.ndarray]] = {}
    speakers = dict(line.split() for line in (data / "libri_test_enrolls" / "utt2spk").read_text().splitlines())
    for utterance in (data / "libri_test_enrolls" / "enrolls").read_text().split():
        wav = data / "libri_test_enrolls_mcadams" / "wav" / f"{utterance}.wav"
        enrolled.setdefault(speakers[utterance], []).append(vector(wav))
    models = {speaker: np.mean(vectors, axis=0) for speaker, vectors in enrolled.items()}
    trials = [line.split() for line in (data / name / "trials").read_text().splitlines()]
    tried = {one: vector(data / f"{name}_mcadams" / "wav" / f"{one}.wav") for one in {trial[1] for trial in trials}}

    def cosine(one: np.ndarray, other: np.ndarray) -> float:
        return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))

    wanted = {(model, one): cosine(models[model], tried[one]) for model, one, _ in trials}
    table = made.scores(subset=name, system="mcadams", attacker="semi_informed")
    got = dict(zip(zip(table["model"], table["utterance"]), table["score"]))
    assert got.keys() == wanted.keys() and len(got) > 50
    assert max(abs(got[key] - wanted[key]) for key in wanted) < 1e-5
    labels = {(model, one): label == "target" for model, one, label in trials}
    split = [np.array([wanted[key] for key in wanted if labels[key] is kind]) for kind in (True, False)]
    (row,) = rows_of(
        made, metric="eer", variant="speechbrain", attacker="semi_informed", system="mcadams", subset=name
    ).to_dict("records")
    assert row["value"] == pytest.approx(metrics.eer(*split, variant="speechbrain"), abs=1e-9)


@pytest.mark.slow
def test_the_whole_shape_of_the_challenge(tmp_path: Path, lists: Path) -> None:
    """Six sets, 21,650 test trials: the counts of the challenge's own lists, in every row."""
    root = tmp_path / "full"
    write("2024", root, lists=lists, scores=False)
    done = subprocess.run(
        [sys.executable, "-m", "pipeline", *of_readme(root, f"paths.root={tmp_path / 'exp'}")],
        capture_output=True,
        text=True,
        timeout=HANGS,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    made = read(Path(done.stdout.splitlines()[-1]).parent)
    eer = rows_of(made, metric="eer", variant="speechbrain")
    counted = Counter(zip(eer["subset"], eer["n_target"], eer["n_nontarget"]))
    both = {name: tuple(map(sum, zip(*part.values()))) for name, part in (("test", TEST), ("dev", DEV))}
    wanted = {**TEST, **DEV, **{f"libri_{name} (mean of f and m)": counts for name, counts in both.items()}}
    assert sum(both["test"]) == 21650
    assert counted == {(name, *counts): 4 for name, counts in wanted.items()}
    assert (eer["n_used"] == eer["n_expected"]).all()
