"""Where a training stands, on disk: one safetensors file that is whole or absent, with everything that going on takes.

No state of a random generator is in it: all that is random in a training depends on its seed and the step.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.files import sweep_temporary, write_atomically

if TYPE_CHECKING:
    import torch

LOG = logging.getLogger(__name__)

FILE = "checkpoint.safetensors"

# Seconds between checkpoints, beside those at each verification. It changes no number.
_SAVE_EVERY = 60.0


class Checkpoints:
    """The checkpoints of a training, on disk if there is a folder for them; the last one counts.

    Args:
        scratch: an existing folder, or None.
        identity: digest of all that the training depends on.
    """

    def __init__(self, scratch: Path | None, identity: str) -> None:
        self.scratch, self.identity, self.saved = scratch, identity, time.monotonic()

    def are_old(self) -> bool:
        """Whether it is time for another one."""
        return time.monotonic() - self.saved > _SAVE_EVERY

    def save(self, tensors: dict[str, torch.Tensor], progress: dict[str, Any]) -> None:
        """Put a checkpoint in place of the one before.

        The folder may be gone: another process took it over while this one was silent (suspended, or a file server that did not
        answer). Both go on, and the first to finish counts.

        Args:
            tensors: by name, on any device.
            progress: plain JSON values: how far it is (``step``), its curves.
        """
        from safetensors.torch import save_file

        if self.scratch is None:
            return
        self.scratch.mkdir(exist_ok=True)
        plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        header = {"identity": self.identity, "progress": json.dumps(progress)}
        header["content"] = _digest_content(plain, header["progress"])
        write_atomically(self.scratch / FILE, lambda path: save_file(plain, path, header))
        self.saved = time.monotonic()

    def load(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]] | None:
        """Tensors and progress of the checkpoint; None if there is none of this identity, or its bytes have changed. What a kill has
        left half-written is removed.

        Raises:
            OSError: it cannot be opened.
        """
        from safetensors import SafetensorError, safe_open

        if self.scratch is None:
            return None
        path = self.scratch / FILE
        sweep_temporary(path)
        if not path.is_file():
            return None
        try:
            with safe_open(path, framework="pt") as opened:
                header = opened.metadata() or {}
                if header.get("identity") != self.identity:
                    what = "another training (other settings, data, architecture or libraries)"
                    LOG.warning("%s is of %s: starting from step 0", path, what)
                    return None
                tensors = {name: opened.get_tensor(name) for name in list(opened.keys())}
                if header["content"] != _digest_content(tensors, header["progress"]):
                    raise ValueError("its bytes are not those that were written")
                return tensors, json.loads(header["progress"])
        except (SafetensorError, KeyError, ValueError) as error:
            LOG.warning("%s cannot be read (%s): starting from step 0", path, error)
            return None


def read_steps(folder: Path) -> int:
    """How many steps the checkpoint in a folder has behind it, as its header says; -1 where there is none that can be read."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(folder / FILE, framework="pt") as opened:
            return int(json.loads((opened.metadata() or {})["progress"])["step"])
    except (SafetensorError, OSError, KeyError, ValueError, TypeError):
        return -1


def _digest_content(tensors: Mapping[str, torch.Tensor], progress: str) -> str:
    """sha256 (hex) over the names, kinds, shapes and bytes of tensors, and how far the training is."""
    import torch

    total = hashlib.sha256(progress.encode())
    for name, tensor in sorted(tensors.items()):
        total.update(f"{name}\0{tensor.dtype}\0{list(tensor.shape)}\0".encode())
        total.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()


def add_prefix(prefix: str, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Tensors with a prefix before their names."""
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def take_prefix(prefix: str, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The tensors whose names begin with a prefix, without it."""
    return {name[len(prefix) + 1 :]: tensor for name, tensor in tensors.items() if name.startswith(f"{prefix}.")}


def get_optimiser_tensors(optimiser: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """The state of an optimiser by parameter number and name."""
    return {
        f"{number}.{name}": value
        for number, state in optimiser.state_dict()["state"].items()
        for name, value in state.items()
    }


def restore_optimiser(optimiser: torch.optim.Optimizer, tensors: dict[str, torch.Tensor]) -> None:
    """Give an optimiser the state that :func:`get_optimiser_tensors` took."""
    state: dict[int, dict[str, torch.Tensor]] = {}
    for key, tensor in tensors.items():
        number, name = key.split(".", 1)
        state.setdefault(int(number), {})[name] = tensor
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})
