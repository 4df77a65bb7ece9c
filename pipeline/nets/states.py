"""Tensors by name: read from a file that may hold nothing else, and matched with a model of known architecture."""

from __future__ import annotations

from pathlib import Path

import torch

from pipeline.errors import DataError
from pipeline.weights.find import check_readable

State = dict[str, torch.Tensor]


def read_tensors(path: Path, plain_name: str) -> State:
    """The tensors of a file of safetensors, or of one that ``torch.save`` wrote.

    Args:
        path: of the file; one that does not end in ``.safetensors`` is a checkpoint of torch.
        plain_name: what a file of plain tensors beside it would have to be called, for the remedy.

    Raises:
        ModelMissing: it cannot be opened.
        DataError: it cannot be parsed, or holds anything but plain tensors by name.
    """
    convert = (
        f"write the model's state_dict(), tensors by name and nothing else, to {plain_name} in that folder, on the "
        "machine that made it"
    )
    check_readable(path)
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            state = load_file(path)
        else:
            state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        # torch says the same of a damaged file and of one that would run code; neither is opened any further.
        raise DataError(
            "weights cannot be read as plain tensors",
            where=str(path),
            cause=f"a damaged file, or a pickle that holds code: {(str(error).splitlines() or [type(error).__name__])[0]}",
            remedy=convert,
        ) from error
    if not isinstance(state, dict) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise DataError("a checkpoint holds something else than tensors by name", where=str(path), remedy=convert)
    return state


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
        if key not in state:
            raise make_mismatch(architecture, f"it has no tensor '{key}'")
        if state[key].shape != wanted[key].shape:
            raise make_mismatch(
                architecture, f"its tensor '{key}' has shape {tuple(state[key].shape)}, not {tuple(wanted[key].shape)}"
            )
    model.load_state_dict(state)
    return model.eval()


def make_mismatch(architecture: str, cause: str) -> DataError:
    """The error that says of what architecture (with its article) weights are not, and which tensor shows it."""
    return DataError(
        f"these weights are not those of {architecture}",
        cause=cause,
        remedy="set source of the extractor to weights of its own architecture, or choose the extractor that they belong to",
    )
