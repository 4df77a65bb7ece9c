"""The embedded data set on disk."""

from __future__ import annotations

from pathlib import Path

from pipeline import audio
from pipeline.datasets import importers, synthetic
from pipeline.datasets.corpus import Corpus
from pipeline.datasets.settings import DatasetSettings
from pipeline.tables import manifest as manifests

SMALL = DatasetSettings(name="synthetic", speakers=4, train_speakers=2, utterances=4, seconds=0.5, seed=3)


def _render(settings: DatasetSettings, folder: Path) -> Corpus:
    synthetic.render_speech(settings, folder)
    return importers.read_data_set(settings, folder)


def test_sets_roles_and_disjoint_speakers(tmp_path: Path) -> None:
    corpus = _render(SMALL, tmp_path)
    rows = corpus.manifest
    assert rows.groupby(["set", "role"]).size().to_dict() == {
        ("synthetic_enrolls", "enrolment"): 8, ("synthetic_trials_f", "trial"): 4, ("synthetic_trials_m", "trial"): 4,
        ("synthetic_train", "train"): 8,
    }  # fmt: skip
    trained, tried = (set(rows[rows["role"].isin(roles)]["speaker"]) for roles in (["train"], ["enrolment", "trial"]))
    assert len(trained) == 2 and len(tried) == 4 and not trained & tried
    assert {name: (one.n_target, one.n_nontarget) for name, one in corpus.trials.items()} == {
        "synthetic_trials_f": (4, 4), "synthetic_trials_m": (4, 4),
    }  # fmt: skip
    assert set(rows["samples"]) == {8000} and set(rows["sample_rate"]) == {16000}


def test_files_hold_what_the_synthesiser_makes_and_are_the_same_each_time(tmp_path: Path) -> None:
    first, second = _render(SMALL, tmp_path / "a"), _render(SMALL, tmp_path / "b")
    assert manifests.digest(first.manifest) == manifests.digest(second.manifest)
    row = first.manifest.iloc[0]
    index = next(index for index in range(4) if synthetic.make_speaker(3, index).id == row["speaker"])
    made = synthetic.make_utterance(synthetic.make_speaker(3, index), 3, int(row["utterance"].rsplit("-", 1)[1]), 0.5)
    assert abs(audio.load(Path(row["path"]))[0] - made.wave).max() <= 0.5 / 32768 + 1e-9


def test_more_speakers_change_no_file_of_the_others(tmp_path: Path) -> None:
    few = _render(SMALL, tmp_path / "a").manifest
    many = _render(SMALL.model_copy(update={"speakers": 6, "train_speakers": 3}), tmp_path / "b").manifest
    both = few.merge(many, on=["set", "utterance"], suffixes=("", "_more"))
    assert len(both) == len(few) and both["sha256"].equals(both["sha256_more"])


def test_unrendered_data_are_missing(tmp_path: Path, refused) -> None:
    error = refused(importers.read_data_set, SMALL, tmp_path)
    assert len(error.faults) == 24 and {fault.kind for fault in error.faults} == {"missing-audio"}
