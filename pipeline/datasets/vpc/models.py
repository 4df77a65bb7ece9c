"""What a challenge's own run left in ``exp``: trained models, vectors and PLDA. Folders and a log are read, no weights."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

from pipeline.datasets.vpc.layout import SET_NAMES, Layout, split_name
from pipeline.files import read_regular

CHECKPOINT_FILES = ("embedding_model.ckpt", "embedding_model.safetensors")
LOG = "train_log.txt"
_EPOCH = re.compile(r"epoch: *(\d+)\b.*\bvalid loss: *(-?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|nan|inf)")
_LARGEST_LOG = 16 << 20


@dataclass(frozen=True)
class Checkpoint:
    """A trained model.

    Attributes:
        folder: that holds its weights.
        reason: where it lies under the challenge's folder, and why it is the one.
    """

    folder: Path
    reason: str


def choose_original_model(layout: Layout) -> Checkpoint | None:
    """The model that knows original speech."""
    names = ("asv_ssl", "asv_orig") if layout.edition == "2026" else ("asv_orig", "asv_ssl")
    tried = [_choose_model(layout, name) for name in names]
    return next((checkpoint for checkpoint in tried if checkpoint is not None), None)


def choose_copy_model(layout: Layout, suffix: str) -> Checkpoint | None:
    """The model that was trained on the anonymised speech of a suffix."""
    return _choose_model(layout, f"asv_anon{suffix}")


def place(layout: Layout, name: str) -> Path:
    """Where a model of a name would lie."""
    return (layout.exp if layout.exp is not None else layout.data.parent / "exp") / name


def _choose_model(layout: Layout, name: str) -> Checkpoint | None:
    folder = place(layout, name)
    if not folder.is_dir():
        return None
    checkpoints = sorted((checkpoint for checkpoint in folder.glob("CKPT+*") if checkpoint.is_dir()), key=_number)
    sound = [checkpoint for checkpoint in checkpoints if _holds(checkpoint)]
    if not sound:
        return Checkpoint(folder, f"exp/{name}") if _holds(folder) else None
    best, why = _lowest_loss(folder / LOG, sound) if layout.edition == "2026" else (None, "")
    taken = best or sound[-1]
    why = why or f"the last of {len(sound)} checkpoint{'s' if len(sound) > 1 else ''}"
    passed = [checkpoint.name for checkpoint in checkpoints if checkpoint not in sound]
    if passed:
        why += f"; without weights and passed over: {', '.join(passed)}"
    return Checkpoint(taken, f"exp/{name}/{taken.name} ({why})")


def _holds(folder: Path) -> bool:
    return any((folder / name).is_file() for name in CHECKPOINT_FILES)


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
    losses = {int(epoch): float(loss) for epoch, loss in _EPOCH.findall(text)}
    finite = {epoch: loss for epoch, loss in losses.items() if math.isfinite(loss)}
    by_epoch = {_number(checkpoint)[0]: checkpoint for checkpoint in checkpoints}
    kept = [epoch for epoch in finite if epoch in by_epoch]
    if not kept:
        return None, f"the last of {len(checkpoints)}: {LOG} tells no valid loss of them"
    best = min(kept, key=lambda epoch: (finite[epoch], epoch))
    lowest = min(finite, key=lambda epoch: (finite[epoch], epoch))
    missing_note = f"; epoch {lowest} was better and its checkpoint is gone" if lowest != best else ""
    return by_epoch[best], f"the lowest valid loss, {finite[best]:g}, in {LOG}{missing_note}"


PLDA_FILES = ("plda", "mean.vec", "transform.mat")

VECTOR_SETS = tuple(name for name in SET_NAMES if not name.endswith(("_all", "_asr")))
"""Sets that speakers are verified on, or trained; the unions hold the same recordings once more."""


def find_vectors(layout: Layout, suffix: str, model: str) -> list[Path]:
    """The files with the vectors of all sets in one speech.

    Args:
        layout: of the folder.
        suffix: of the copies whose vectors are meant; '' for original speech.
        model: suffix of the copies that the extractor was trained on; '' for one that knows original speech.
    """
    kaldi = [
        path
        for folder in find_kaldi_folders(layout, model)
        for path in _list_set_files(folder, "xvect_{}", suffix, "xvector.scp")
    ]
    return kaldi or _list_set_files(_name_embedding_folder(layout, model), "{}", suffix, "utt-level/speaker_vectors.pt")


def find_plda(layout: Layout, model: str) -> Path | None:
    """The folder with Kaldi's parameters of the back end that goes with an extractor."""
    for folder in find_kaldi_folders(layout, model):
        for place in (folder, *sorted(folder.glob("xvect_train*"))):
            if all((place / name).is_file() for name in PLDA_FILES):
                return place
    return None


def find_kaldi_folders(layout: Layout, model: str) -> list[Path]:
    """The folders of Kaldi's extractor and what it made."""
    if layout.exp is None:
        return []
    models = [layout.exp / "models" / name for name in _name_kaldi_models(model)]
    return [
        folder
        for model_folder in models
        if model_folder.is_dir()
        for folder in (model_folder, *sorted(model_folder.glob("xvect_*")))
        if folder.is_dir() and not split_name(folder.name.removeprefix("xvect_"))[0]  # else the vectors of a set
    ]


def describe_search(layout: Layout, model: str) -> str:
    """Where vectors were looked for."""
    exp = layout.exp if layout.exp is not None else layout.data.parent / "exp"
    deeper = ("", "xvect_*/") if model else ("xvect_*/",)
    kaldi = " or ".join(
        f"{exp}/models/{name}/{prefix}xvect_SET/xvector.scp" for name in _name_kaldi_models(model) for prefix in deeper
    )
    return (
        f"{kaldi} and {exp}/{_name_embedding_folder(layout, model).relative_to(exp)}/SET/utt-level/speaker_vectors.pt"
    )


def _name_kaldi_models(model: str) -> tuple[str, ...]:
    return (f"user_asv_eval{model}", f"asv_eval{model}") if model else ("asv_eval",)


def _name_embedding_folder(layout: Layout, model: str) -> Path:
    exp = layout.exp if layout.exp is not None else layout.data.parent / "exp"
    return exp / (f"asv_anon{model}" if model else "asv_orig") / "cosine_out" / "emb_xvect"


def _list_set_files(folder: Path, form: str, suffix: str, name: str) -> list[Path]:
    paths = [folder / form.format(f"{set_name}{suffix}") / name for set_name in VECTOR_SETS]
    return [path for path in paths if path.is_file()]
