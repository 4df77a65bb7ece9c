"""Tensors by name: nothing else is read, no code runs, and what is written is read again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from pipeline.errors import DataError
from pipeline.nets import states


class Harmful:
    """A pickle that makes a file when it is opened carelessly."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.path,))


@pytest.mark.parametrize("content", [b"no checkpoint", "harm", [torch.zeros(1)], {"epoch": 1}])
def test_what_is_not_plain_tensors_is_refused_and_not_run(content: Any, tmp_path: Path) -> None:
    path = tmp_path / "embedding_model.ckpt"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        torch.save({"weight": Harmful(tmp_path / "run")} if content == "harm" else content, path)
    with pytest.raises(DataError, match=r"tensors.*state_dict\(\)"):
        states.read_tensors(path)
    assert not (tmp_path / "run").exists()


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    state = {"a": torch.randn(3, 2).T, "b": torch.arange(4)}
    states.write_tensors(tmp_path / "x.safetensors", state)
    torch.save(state, tmp_path / "x.ckpt")
    for path in tmp_path.iterdir():
        read = states.read_tensors(path)
        assert read.keys() == state.keys() and all(torch.equal(read[name], state[name]) for name in state)
