"""A system that leaves the enrolment unprotected (T10-2 of the SRD paper) is flagged, B2 and B2r are not."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from pipeline import audio
from pipeline.anonymisers import mcadams
from pipeline.contracts import Utterance
from tests import toy


def half_protected(root: Path, theirs: Path) -> Path:
    """The audio of a system that copies the enrolment, protects the trials as B2 does, and ends them with 20 ms of zeros."""
    b2 = mcadams.Anonymiser(mcadams.McAdamsSettings(name="mcadams", level="fixed", alpha=0.8))
    for folder in sorted(path.parent for path in root.glob("*/wav.scp")):
        for line in (folder / "wav.scp").read_text().splitlines():
            name, path = line.split()
            wave, rate = audio.load(root / path)
            if "trials" in folder.name:
                wave = b2.anonymise(wave, rate, Utterance(name, name.split("-")[0], folder.name)).wave
                wave[-rate // 50 :] = 0
            place = theirs / f"{folder.name}_t10" / "wav" / f"{name}.wav"
            place.parent.mkdir(parents=True, exist_ok=True)
            audio.write(place, wave, rate, "FLOAT")
    return theirs


@pytest.mark.slow
def test_an_enrolment_that_is_left_unprotected_is_flagged_and_mcadams_is_not(tmp_path: Path) -> None:
    root = toy.corpus(tmp_path / "data", speakers=10)
    theirs = half_protected(root, tmp_path / "theirs")
    done = toy.run(
        "recipe=kaldi", f"dataset.root={root}", "system=[original,b2,b2r]", f"+system.t10={{name: external, root: {theirs}}}",
        "extractor=[ge2e]", "attacker=[lazy_informed]", "metric=[asv]", "metric.asv.replicates=0", "runtime.device=cpu",
        f"paths.root={tmp_path / 'exp'}", cwd=tmp_path, check=True,
    )  # fmt: skip
    found = pd.read_parquet(Path(done.stdout.splitlines()[-1]).parent / "diagnostics.parquet")
    treated = found[found["check"] == "treated_differently"]
    assert set(treated["system"]) == {"b2", "b2r", "t10"}
    flagged = treated[treated["flagged"]]
    assert set(flagged["system"]) == {"t10"}
    assert set(flagged["subset"]) == {"toy_trials_f", "toy_trials_m"}
    assert flagged["sentence"].str.contains("the enrolment is not protected").all()
    padded = found[found["check"] == "digital_silence"].drop_duplicates("sentence")
    said = dict(zip(padded["system"], padded["sentence"], strict=True))
    trials = sum(len(path.read_text().splitlines()) for path in root.glob("*trials*/wav.scp"))
    assert said["t10"] == (
        f"{trials} of 60 files of t10 begin or end with digital silence (median 20 ms, at most 20.1 ms); "
        "it is trimmed before embeddings."
    )
    assert said["b2"].startswith("0 of 60 files of b2 ") and not padded["flagged"].any()
    assert "the enrolment is not protected" in " ".join(done.stdout.split()), "said where the results are printed, too"
    assert "the enrolment is not protected" in Path(done.stdout.splitlines()[-1]).read_text(encoding="utf-8")
