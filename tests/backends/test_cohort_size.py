"""Every back end refuses before a run what its training would refuse: too few speakers for it, or for its cohort."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.errors import DataError
from pipeline.registry import component


def fit(name: str, settings: Any, count: int, folder: Path) -> None:
    draw = np.random.default_rng(count)
    names = [f"s{number:02d}" for number in range(count) for _ in range(3)]
    vectors = np.repeat(draw.standard_normal((count, 4)), 3, axis=0) + 0.3 * draw.standard_normal((3 * count, 4))
    component("backends", name).fit(settings, vectors, names, folder, within_session=False)


@pytest.mark.parametrize("count", [9, 10, 19, 20])
@pytest.mark.parametrize(
    ("name", "more"), [("cosine", {}), ("wccn", {"shrinkage": 0.5}), ("plda", {"regularisation": 0.1, "lda": 2})]
)
def test_what_training_would_refuse_is_refused_before(
    name: str, more: dict[str, Any], count: int, tmp_path: Path
) -> None:
    found = component("backends", name)
    settings = found.Settings.model_validate({"name": name, "as_norm": {"top": 20}, **more})
    if count < 20:
        with pytest.raises(DataError) as before:
            found.check_speakers(settings, count)
        with pytest.raises(DataError) as after:
            fit(name, settings, count, tmp_path)
        assert before.value.what == after.value.what
        fewer = found.Settings.model_validate({"name": name, "as_norm": {"top": count}, **more})
        if count >= 10:  # the number that the remedy gives is one that works
            assert f"as_norm.top={count}" in before.value.remedy
            found.check_speakers(fewer, count)
            fit(name, fewer, count, tmp_path)
    else:
        found.check_speakers(settings, count)
        fit(name, settings, count, tmp_path)
