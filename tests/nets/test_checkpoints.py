"""A checkpoint gives back what was saved, or nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from pipeline.nets import checkpoints

TENSORS = {
    "weights": torch.arange(6, dtype=torch.float32).reshape(2, 3).T,
    "half": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
    "step": torch.tensor(7),
    "none": torch.zeros(0),
}
PROGRESS = {"step": 3, "losses": [0.1, 2.0]}


def test_no_flipped_bit_changes_what_a_training_goes_on_from(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    checkpoints.Checkpoints(tmp_path, "one").save(TENSORS, PROGRESS)
    path = tmp_path / checkpoints.FILE
    whole = path.read_bytes()
    random, dropped = np.random.default_rng(0), 0
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << int(random.integers(8))]) + whole[place + 1 :])
        found = checkpoints.Checkpoints(tmp_path, "one").load()
        dropped += found is None
        if found is not None:
            tensors, progress = found
            assert progress == PROGRESS
            assert all(torch.equal(tensors[name], value) for name, value in TENSORS.items())
    assert dropped > 0.8 * len(whole)
    assert "its bytes are not those that were written" in caplog.text


def test_a_checkpoint_that_may_not_be_opened_is_an_error_and_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import safetensors

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    checkpoints.Checkpoints(tmp_path, "one").save(TENSORS, PROGRESS)
    monkeypatch.setattr(safetensors, "safe_open", refuse)
    with pytest.raises(PermissionError):
        checkpoints.Checkpoints(tmp_path, "one").load()
    monkeypatch.undo()
    assert checkpoints.Checkpoints(tmp_path, "one").load() is not None


def test_how_far_a_checkpoint_is_is_told_from_its_header(tmp_path: Path) -> None:
    assert checkpoints.read_steps(tmp_path) == -1
    checkpoints.Checkpoints(tmp_path, "one").save(TENSORS, PROGRESS)
    assert checkpoints.read_steps(tmp_path) == 3
    path = tmp_path / checkpoints.FILE
    for content in (path.read_bytes()[:40], b"", b"none"):
        path.write_bytes(content)
        assert checkpoints.read_steps(tmp_path) == -1
    checkpoints.Checkpoints(tmp_path, "one").save(TENSORS, {"losses": []})
    assert checkpoints.read_steps(tmp_path) == -1


def test_a_training_whose_folder_another_one_took_over_goes_on(tmp_path: Path) -> None:
    """It was silent for long: suspended, say."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    kept = checkpoints.Checkpoints(scratch, "one")
    kept.save(TENSORS, {"step": 3})
    scratch.rename(tmp_path / "theirs")
    kept.save(TENSORS, {"step": 4})
    assert [checkpoints.read_steps(tmp_path / name) for name in ("theirs", "scratch")] == [3, 4]
