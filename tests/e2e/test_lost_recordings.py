"""A recording of which nothing can be extracted, or without a vector: what stands on it has no value, or is marked and says so."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pipeline import audio
from pipeline.nets import embedding
from pipeline.tables import results
from tests import toy
from tests.e2e.test_precomputed import written

Command = Callable[..., tuple[int, str, str]]
QUICK = ("recipe=kaldi", "diagnostics=false", "runtime.device=cpu", "metric.asv.interval=none")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy.corpus(tmp_path_factory.mktemp("data") / "toy", speakers=4, utterances=6)


def table(root: Path) -> pd.DataFrame:
    """The rows of the last run, by what they are about."""
    last = max((root / "runs").iterdir(), key=lambda folder: folder.stat().st_mtime_ns)
    return results.read(last).set_index(results.IDENTITY)


def test_a_model_that_lacks_a_recording_has_no_value_or_is_marked(
    data: Path, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = data
    lost = (root / "toy_enrolls" / "enrolls").read_text().split()[0]
    speaker = lost.partition("-")[0]
    sound, unusable = audio.load(root / "wav" / f"{lost}.wav")[0], embedding.find_fault

    def hears_nothing_in_one(wave: np.ndarray) -> str:
        same = np.array_equal(audio.trim_zeros(wave), audio.trim_zeros(sound))
        return "unvoiced" if same else unusable(wave)

    monkeypatch.setattr(embedding, "find_fault", hears_nothing_in_one)
    given = (
        *QUICK, f"dataset.root={root}", "system=[original]", "extractor=[ge2e]", "metric=[asv]", f"paths.root={tmp_path / 'exp'}",
    )  # fmt: skip
    status, _, err = command(*given)
    found = table(tmp_path / "exp")
    one, others = found["status"] == "incomplete", found["status"] == "ok"
    assert status == 3 and lost in err and "allow_partial=true" in err, err
    assert one.any() and others.any() and (one | others).all()
    short = {f"toy_trials_{_sex(root, speaker)}", "toy (mean of f and m)"}
    assert set(found[one].index.get_level_values("subset")) == short
    assert found.loc[one, "value"].isna().all() and found.loc[others, "value"].notna().any()
    assert found.loc[one, "reason"].str.contains(f"models made of fewer .*: 1 .*{speaker} without {lost}").all()

    # The remedy: it is left out, marked and named, and the exit status says so.
    status, _, err = command(*given, "allow_partial=true")
    found = table(tmp_path / "exp")
    assert status == 6 and lost in err, err
    assert set(found.loc[one, "status"]) == {"partial"} and set(found.loc[others, "status"]) == {"ok"}
    assert found.loc[one, "note"].str.contains(f"{speaker} without {lost}").all()
    assert found.loc[one, "value"].notna().any()
    page = max(tmp_path.rglob("report.html"), key=lambda path: path.stat().st_mtime_ns).read_text()
    assert f"{int(one.sum())} of them use less than was expected" in page


def _sex(root: Path, speaker: str) -> str:
    table = dict(line.split() for line in (root / "toy_enrolls" / "spk2gender").read_text().splitlines())
    return table[speaker]


@pytest.fixture(scope="module")
def vectors(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("vectors")
    for seed, label in enumerate(("original", "b2r", "b2r@2")):
        written(data, home / label, seed)
    return home


EVERY = (
    "metric=[asv,cece,vsm,p0p1,srd]", "metric.cece.interval=none", "metric.vsm.interval=none", "metric.p0p1.interval=none",
)  # fmt: skip


def measured(command: Command, data: Path, vectors: Path, root: Path, *metrics: str) -> tuple[int, pd.DataFrame]:
    named = ", ".join(f"{path.name}: '{path}'" for path in sorted(vectors.iterdir()))
    status, _, err = command(
        *QUICK, f"dataset.root={data}", "system=[original,b2r]", "extractor=[precomputed]", "attacker=[ignorant,lazy_informed]",
        f"+extractor.precomputed.vectors={{{named}}}", "metric.srd.unit=utterance", "metric.srd.replicates=0", "metric.srd.interval=none",
        *metrics, "allow_partial=true", f"paths.root={root}",
    )  # fmt: skip
    assert status in (0, 6), err
    return status, table(root)


@pytest.mark.slow
def test_a_partial_value_says_which_reference_it_lacks(
    data: Path, vectors: Path, command: Command, tmp_path: Path
) -> None:
    """Where all inputs are there and one recording of a reference or of a model is not, counts alone would tell nothing."""
    files = Path(shutil.copytree(vectors, tmp_path / "vectors"))
    lost = (data / "toy_enrolls" / "enrolls").read_text().split()[0]
    without(files / "original", lost)
    status, found = measured(command, data, files, tmp_path / "exp", "metric=[asv,srd]")
    assert status == 6
    marked = found[found["status"] == "partial"].reset_index()
    assert {"eer", "max_d"} <= set(marked["metric"])
    assert ((marked["n_used"] < marked["n_expected"]) | marked["note"].str.contains(lost)).all()


def without(folder: Path, lost: str) -> None:
    """Take a vector out."""
    scp = folder / "xvector.scp"
    lines = scp.read_text().splitlines(keepends=True)
    scp.write_text("".join(line for line in lines if line.split()[0] != lost))


@pytest.mark.slow
def test_no_value_moves_without_a_mark_whatever_vector_is_missing(
    data: Path, vectors: Path, command: Command, tmp_path: Path
) -> None:
    status, whole = measured(command, data, vectors, tmp_path / "exp", *EVERY)
    assert status == 0 and set(whole["status"]) == {"ok"}
    enrolled = (data / "toy_enrolls" / "enrolls").read_text().split()
    tried = [line.split()[0] for line in (data / "toy_trials_f" / "utt2spk").read_text().splitlines()]
    lacking = {
        "original": {enrolled[0]: {"eer", "max_d"}},
        "b2r": {enrolled[2]: {"eer", "c_ece", "max_d"}, tried[0]: {"eer", "c_ece", "d_diag", "d_diag_p0p1", "max_d"}},
        "b2r@2": {enrolled[4]: {"c_ece"}, tried[1]: {"c_ece", "d_diag_p0p1"}},
    }
    for label, several in lacking.items():
        for lost, metrics in several.items():
            files = Path(shutil.copytree(vectors, tmp_path / f"{label}-{lost}"))
            without(files / label, lost)
            status, found = measured(command, data, files, tmp_path / "exp", *EVERY)
            assert status == 6
            moved = ~found["value"].eq(whole["value"]) & ~(found["value"].isna() & whole["value"].isna())
            assert set(found.loc[moved, "status"]) <= {"partial"}, f"{label} without {lost}"
            marked = found[found["status"] == "partial"].reset_index()
            assert metrics <= set(marked["metric"]), f"{label} without {lost}"
            # Whoever reads a marked row sees what is missing: in its counts, or in words.
            told = (marked["n_used"] < marked["n_expected"]) | marked["note"].str.contains(lost)
            assert told.all(), f"{label} without {lost}"
