"""Tensors by name: read from a file that may hold nothing else, and matched with a model of known architecture."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from pipeline.errors import DataError
from pipeline.weights.find import check_readable

State = dict[str, torch.Tensor]
CONVERT = "write tensors by name and nothing else, with safetensors or torch.save of a state_dict(), on the machine that made it"


def read_checkpoint(path: Path) -> Any:
    """What a file of safetensors, or one that ``torch.save`` wrote, holds; no code that may be in it runs.

    Raises:
        ModelMissing: it cannot be opened.
        DataError: it is damaged, or holds anything but plain values and tensors.
    """
    check_readable(path)
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        # torch says the same of a damaged file and of one that would run code; neither is opened any further.
        raise DataError(
            "weights cannot be read as plain tensors",
            where=str(path),
            cause=f"a damaged file, or a pickle that holds code: {(str(error).splitlines() or [type(error).__name__])[0]}",
            remedy=CONVERT,
        ) from error


def check_tensors(value: Any, path: Path) -> State:
    """A state dict as it was read from a file.

    Raises:
        DataError: it is something else than tensors by name.
    """
    if not isinstance(value, Mapping) or not all(isinstance(tensor, torch.Tensor) for tensor in value.values()):
        raise DataError("a checkpoint holds something else than tensors by name", where=str(path), remedy=CONVERT)
    return {str(name): tensor for name, tensor in value.items()}


def read_tensors(path: Path) -> State:
    """The tensors of a file; raises what :func:`read_checkpoint` and :func:`check_tensors` raise."""
    return check_tensors(read_checkpoint(path), path)


def write_tensors(path: Path, state: Mapping[str, torch.Tensor]) -> None:
    """Write tensors, on any device, as safetensors."""
    from safetensors.torch import save_file

    save_file({name: tensor.detach().cpu().contiguous() for name, tensor in state.items()}, path)


def get_shape(state: State, key: str, architecture: str, dimensions: int) -> tuple[int, ...]:
    """Shape of a tensor that an architecture must have.

    Raises:
        DataError: it is absent or has another number of dimensions.
    """
    if key not in state:
        raise make_mismatch(architecture, f"it has no tensor '{key}'")
    sizes = tuple(state[key].shape)
    if len(sizes) != dimensions:
        raise make_mismatch(architecture, f"its tensor '{key}' has shape {sizes}, not {dimensions} dimensions")
    return sizes


def fill_model(model: torch.nn.Module, state: State, architecture: str) -> torch.nn.Module:
    """A model with the tensors of a checkpoint, ready for inference.

    Raises:
        DataError: the first tensor that is too many, missing, or of another shape, by name.
    """
    wanted = model.state_dict()
    for key in sorted(wanted.keys() | state.keys()):
        if key not in wanted:
            raise make_mismatch(architecture, f"it has a tensor '{key}' too many")
        if get_shape(state, key, architecture, wanted[key].dim()) != tuple(wanted[key].shape):
            shapes = f"{tuple(state[key].shape)}, not {tuple(wanted[key].shape)}"
            raise make_mismatch(architecture, f"its tensor '{key}' has shape {shapes}")
    model.load_state_dict(state)
    return model.eval()


def make_mismatch(architecture: str, cause: str) -> DataError:
    """The error that says of what architecture (with its article) weights are not, and which tensor shows it."""
    return DataError(
        f"these weights are not those of {architecture}",
        cause=cause,
        remedy="set source of the extractor to weights of its own architecture, or choose the extractor that they belong to",
    )
