"""What is planned of features: keys know the library that changes rates, and what is heard of a system is told to diagnostics."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.extractors import ge2e
from pipeline.stages.features import plan
from pipeline.stages.settings import Chosen
from pipeline.stages.training.plan import LoadedExtractor


def loaded(**settings: Any) -> LoadedExtractor:
    return LoadedExtractor("mine", Chosen("ge2e", ge2e.Extractor, ge2e.Ge2eSettings(**settings)))


@pytest.mark.parametrize(("resampler", "known"), [("soxr_hq", False), ("torchaudio_sinc", True)])
def test_keys_know_torchaudio_where_it_changes_rates(resampler: str, known: bool) -> None:
    made = plan._output(loaded(resampler=resampler))
    assert ("torchaudio" in made.libraries) is known and "torch" in made.libraries
    assert made.settings["resampler"] == resampler and made.settings["trim_zeros"] is True
