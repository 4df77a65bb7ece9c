"""Which definition of a metric stands for a print, and what a verdict does not say by itself."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import ConfigError
from pipeline.report.scorecard import card, settings, verdicts
from tests.report.test_scorecard import RUN, eer, line, made

POOLED = "libri_test (pooled)"
CHAPTERS = "chapters apart, srd_chapter"


def rank(value: float, metric: str = "max_d", **more: Any) -> dict[str, Any]:
    """A row of SRD of the original speech."""
    return {
        **RUN, "extractor": "ecapa", "backend": "cosine", "condition": "OO", "attacker": "", "trained_on": "original",
        "system": "original", "subset": POOLED, "unit": "bit", "estimator": "empirical", "input_unit": "segment",
        "metric": metric, "value": value, **more,
    }  # fmt: skip


def changed(*overrides: str) -> settings.Changes:
    """What overrides such as ``scorecard.ours.max_d.variant="a, b"`` change."""
    found: dict[str, Any] = {}
    for override in overrides:
        key, _, word = override.partition("=")
        *parents, last = key.removeprefix("scorecard.").split(".")
        place = found
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = word.strip('"')
    return settings.Changes.model_validate(found)


def test_ranks_by_another_protocol_are_not_held_against_the_paper() -> None:
    words = {"metric": "max_d", "estimator": "empirical"}
    both = made("srd2026", rank(4.5), rank(4.1, variant=CHAPTERS))
    found = line(both, "original", POOLED, **words)
    assert (found.value, found.verdict) == (4.5, verdicts.REPRODUCED) and not both.faults
    alone = line(made("srd2026", rank(4.5, variant=CHAPTERS)), "original", POOLED, **words)
    assert (alone.value, alone.verdict) == (None, verdicts.NOT_RUN) and CHAPTERS in alone.note
    # What the note names takes it, and leaves every other metric as it was.
    (given,) = shlex.split(alone.note.partition(": ")[2].removesuffix(" takes it"))
    rows = [rank(4.5, variant=CHAPTERS), rank(2.19, "mean_d"), eer("b3", "libri_test (mean of f and m)", 0.273)]
    taken = made("srd2026", *rows, changes=changed(given))
    assert line(taken, "original", POOLED, **words).value == 4.5
    assert line(taken, "original", POOLED, metric="mean_d", estimator="empirical").value == 2.19
    assert line(taken, "B3", "libri_test (mean of f and m)", metric="eer").value == 27.3


def test_the_remedy_of_several_is_of_one_metric() -> None:
    rows = [rank(value, name, input_unit=unit) for name, value in (("max_d", 4.5), ("mean_d", 2.19))
            for unit in ("segment", "utterance")]  # fmt: skip
    rows.append(eer("b3", "libri_test (mean of f and m)", 0.273))
    with pytest.raises(ConfigError) as caught:
        card.refuse(made("srd2026", *rows), Path("run"))
    given = shlex.split(caught.value.remedy.partition("with each: ")[2])
    assert given == ["scorecard.ours.max_d.input_unit=segment", "scorecard.ours.mean_d.input_unit=segment"]
    mended = made("srd2026", *rows, changes=changed(*given))
    assert not mended.faults and line(mended, "original", POOLED, metric="mean_d", estimator="empirical").value == 2.19
    assert line(mended, "B3", "libri_test (mean of f and m)", metric="eer").value == 27.3


def test_a_column_that_results_lack_is_refused() -> None:
    for given in ("scorecard.ours.sett=x", "scorecard.ours.max_d.varient=x"):
        with pytest.raises(ConfigError, match="the results have no column"):
            settings.read("srd2026", changed(given))
