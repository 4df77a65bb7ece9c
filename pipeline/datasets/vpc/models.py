"""Trained models in a challenge's folder: which checkpoint the edition's own code would take. Folders and a log are read, no weights.

``exp/asv_orig`` (2026: ``exp/asv_ssl``) knows original speech, ``exp/asv_anonSUFFIX`` that of the copy SUFFIX. Of several checkpoints
``CKPT+N`` VPC 2024 takes that of the highest N, and VPC 2026 that of the lowest valid loss in ``train_log.txt``. What else lies there,
``hyperparams.yaml`` among it, may run code and is never opened.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

from pipeline.datasets.vpc.layout import Layout
from pipeline.files import read_regular

FILES = ("embedding_model.ckpt", "embedding_model.safetensors")
LOG = "train_log.txt"
_EPOCH = re.compile(r"epoch: *(\d+)\b.*\bvalid loss: *([-+.\deE]+|nan|inf)")
_LARGEST_LOG = 16 << 20


@dataclass(frozen=True)
class Checkpoint:
    """A trained model.

    Attributes:
        folder: that holds its weights.
        said: where it lies under the challenge's folder, and why it is the one.
    """

    folder: Path
    said: str


def of_original(layout: Layout) -> Checkpoint | None:
    """The model that knows original speech."""
    names = ("asv_ssl", "asv_orig") if layout.edition == "2026" else ("asv_orig", "asv_ssl")
    tried = [_chosen(layout, name) for name in names]
    return next((one for one in tried if one is not None), None)


def of_copy(layout: Layout, suffix: str) -> Checkpoint | None:
    """The model that was trained on the anonymised speech of a suffix."""
    return _chosen(layout, f"asv_anon{suffix}")


def place(layout: Layout, name: str) -> Path:
    """Where a model of a name would lie."""
    return (layout.exp if layout.exp is not None else layout.data.parent / "exp") / name


def _chosen(layout: Layout, name: str) -> Checkpoint | None:
    folder = place(layout, name)
    if not folder.is_dir():
        return None
    several = sorted((one for one in folder.glob("CKPT+*") if one.is_dir()), key=_number)
    sound = [one for one in several if _holds(one)]
    if not sound:
        return Checkpoint(folder, f"exp/{name}") if _holds(folder) else None
    best, why = _lowest_loss(folder / LOG, sound) if layout.edition == "2026" else (None, "")
    taken = best or sound[-1]
    why = why or f"the last of {len(sound)} checkpoint{'s' if len(sound) > 1 else ''}"
    passed = [one.name for one in several if one not in sound]
    if passed:
        why += f"; without weights and passed over: {', '.join(passed)}"
    return Checkpoint(taken, f"exp/{name}/{taken.name} ({why})")


def _holds(folder: Path) -> bool:
    return any((folder / name).is_file() for name in FILES)


def _number(checkpoint: Path) -> tuple[int, str]:
    """The N of CKPT+N as a number: 10 comes behind 9. Names that are times come before, in their order."""
    tail = checkpoint.name.removeprefix("CKPT+")
    return (int(tail), "") if tail.isascii() and tail.isdigit() else (-1, tail)


def _lowest_loss(log: Path, checkpoints: list[Path]) -> tuple[Path | None, str]:
    """Of the checkpoints that are there, that of the epoch with the lowest valid loss; None where the log does not tell."""
    try:
        text = read_regular(log, _LARGEST_LOG).decode("utf-8", "replace")
    except OSError:
        return None, ""
    losses = {int(epoch): _loss(loss) for epoch, loss in _EPOCH.findall(text)}
    finite = {epoch: loss for epoch, loss in losses.items() if math.isfinite(loss)}
    by_epoch = {_number(one)[0]: one for one in checkpoints}
    there = [epoch for epoch in finite if epoch in by_epoch]
    if not there:
        return None, f"the last of {len(checkpoints)}: {LOG} tells no valid loss of them"
    best = min(there, key=lambda epoch: (finite[epoch], epoch))
    lowest = min(finite, key=lambda epoch: (finite[epoch], epoch))
    lost = f"; epoch {lowest} was better and its checkpoint is gone" if lowest != best else ""
    return by_epoch[best], f"the lowest valid loss, {finite[best]:g}, in {LOG}{lost}"


def _loss(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
