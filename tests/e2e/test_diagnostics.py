"""A system that leaves the enrolment unprotected (T10-2 of the SRD paper) is flagged, B2 and B2r are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline import audio
from pipeline.anonymisers import mcadams
from pipeline.contracts import Utterance
from tests import toy
from tests.running import Command


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
def test_an_enrolment_that_is_left_unprotected_is_flagged_and_mcadams_is_not(tmp_path: Path, command: Command) -> None:
    root = toy.corpus(tmp_path / "data", speakers=10)
    theirs = half_protected(root, tmp_path / "theirs")
    ended = command(
        "recipe=kaldi", f"dataset.root={root}", "system=[original,b2,b2r]", f"+system.t10={{name: external, root: {theirs}}}",
        "extractor=[ge2e]", "attacker=[lazy_informed]", "metric=[asv]", "metric.asv.replicates=0", "runtime.device=cpu", status=0,
    )  # fmt: skip
    checks = ended.run.diagnostics
    treated = checks[checks["check"] == "treated_differently"]
    assert set(treated["system"]) == {"b2", "b2r", "t10"}
    flagged = treated[treated["flagged"]]
    assert set(zip(flagged["system"], flagged["subset"])) == {("t10", f"toy_trials_{sex}") for sex in "fm"}
    unprotected = "the enrolment is not protected"
    assert flagged["sentence"].str.contains(unprotected).all()
    assert unprotected in ended.screen and unprotected in (ended.folder / "report.html").read_text(encoding="utf-8")
    padded = checks[checks["check"] == "digital_silence"].drop_duplicates("sentence")
    sentences = dict(zip(padded["system"], padded["sentence"], strict=True))
    trials = sum(len(path.read_text().splitlines()) for path in root.glob("*trials*/wav.scp"))
    assert sentences["t10"].startswith(f"{trials} of 60 files of t10 ") and "(median 20 ms" in sentences["t10"]
    assert sentences["b2"].startswith("0 of 60 files of b2 ") and not padded["flagged"].any()
