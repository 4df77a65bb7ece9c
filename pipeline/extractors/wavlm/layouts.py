"""Which layout a folder of WavLM weights has, told by its files; nothing is loaded."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pipeline.errors import DataError, ModelMissing
from pipeline.weights.find import check_readable, first_file

Layout = Literal["w_nt", "microsoft", "ssl_ecapa"]

CONFIG = "config.json"
TENSORS = ("model.safetensors", "pytorch_model.bin")
MICROSOFT = ("WavLM-Large.pt", "WavLM-Base+.pt", "WavLM-Base.pt")
BRANCHES = ("embedding_model.safetensors", "embedding_model.ckpt")

WANTED: dict[Layout, str] = {
    "w_nt": f"{CONFIG} and {TENSORS[0]} of Orange/Speaker-wavLM-pro, -tbr or -id, or of a fine-tuning",
    "microsoft": f"{MICROSOFT[0]} as Microsoft publishes it, or {CONFIG} and {TENSORS[0]} of microsoft/wavlm-large",
    "ssl_ecapa": f"{BRANCHES[1]} and {MICROSOFT[0]} of the VoicePrivacy Challenge 2026 (its exp/asv_ssl)",
}


@dataclass(frozen=True)
class Recognised:
    """What a folder holds.

    Attributes:
        layout: of the network.
        backbone: files of WavLM itself: one of Microsoft's, or a configuration and its tensors.
        branches: the file of the ECAPA branches; '' where there is none.
    """

    layout: Layout
    backbone: tuple[str, ...]
    branches: str = ""

    @property
    def files(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.backbone, self.branches) if self.branches else self.backbone


def recognise(folder: Path, layout: Layout | Literal["auto"], beside: str | None = None) -> Recognised:
    """The layout of a folder.

    With ``auto`` a folder with an ``embedding_model`` is ``ssl_ecapa``; else one with ``config.json`` and its tensors is ``w_nt``;
    else one with a checkpoint of Microsoft is ``microsoft``.

    Args:
        folder: of weights.
        layout: the one it must have, or ``auto``.
        beside: another folder, whose WavLM the branches of ``ssl_ecapa`` stand on where their own holds none.

    Raises:
        ModelMissing: it lacks files of the layout, or has those of none; with what belongs there.
        DataError: ``config.json`` cannot be read, or does not say what the layout needs.
    """
    branches = _name(first_file(folder, BRANCHES))
    checkpoint, tensors = _name(first_file(folder, MICROSOFT)), _name(first_file(folder, TENSORS))
    plain = (CONFIG, tensors) if tensors and (folder / CONFIG).is_file() else ()
    if layout == "ssl_ecapa" or (layout == "auto" and branches):
        backbone = (checkpoint,) if checkpoint else plain
        other = first_file(Path(beside).expanduser(), MICROSOFT) if beside and not backbone else None
        if other is not None:
            backbone = (os.path.relpath(other, folder),)
        if branches and backbone:
            return Recognised("ssl_ecapa", backbone, branches)
        raise _lacking(folder, "ssl_ecapa", f"it holds no {' or '.join(MICROSOFT if branches else BRANCHES)}")
    if layout == "microsoft" or (layout == "auto" and checkpoint and not plain):
        if checkpoint or plain:
            return Recognised("microsoft", (checkpoint,) if checkpoint else plain)
        raise _lacking(folder, "microsoft", f"it holds none of {', '.join(MICROSOFT)}, nor {CONFIG} with its tensors")
    if plain:
        _check_head(folder)
        return Recognised("w_nt", plain)
    if layout == "w_nt":
        raise _lacking(folder, "w_nt", f"it holds no {CONFIG} with {TENSORS[0]}")
    raise ModelMissing(
        f"the folder '{folder}' holds no WavLM weights of a known layout",
        where="extractor wavlm, setting source",
        cause=f"its files are {_listing(folder)}",
        remedy="put there " + "; or ".join(f"({name}) {files}" for name, files in WANTED.items()),
    )


def read_configuration(folder: Path) -> dict[str, Any]:
    """``config.json`` of a folder.

    Raises:
        ModelMissing: it cannot be opened.
        DataError: it is no JSON object, or is of another architecture.
    """
    path = folder / CONFIG
    check_readable(path)
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError("a configuration cannot be read", where=str(path), cause=str(error)) from error
    kind = values.get("model_type", "wavlm") if isinstance(values, dict) else None
    if kind != "wavlm":
        raise DataError(
            "a configuration is not that of a WavLM",
            where=str(path),
            cause=f"its model_type is {kind!r}" if kind else "it is no JSON object",
            remedy="set source of the extractor to weights of a WavLM",
        )
    return dict(values)


def read_count(values: dict[str, Any], key: str, path: Path, remedy: str) -> int:
    """A whole number above 0 that a configuration must hold.

    Raises:
        DataError: it does not.
    """
    value = values.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        cause = f"it is {value!r}" if key in values else "there is none"
        raise DataError(f"a configuration has no usable {key}", where=str(path), cause=cause, remedy=remedy)
    return value


def _check_head(folder: Path) -> None:
    remedy = (
        "take config.json from the same release as the tensors (250 for Orange/Speaker-wavLM-pro and -id, 128 for -tbr); a WavLM "
        "without a head, such as microsoft/wavlm-large, loads by layout=microsoft"
    )
    read_count(read_configuration(folder), "embd_size", folder / CONFIG, remedy)


def _lacking(folder: Path, layout: Layout, cause: str) -> ModelMissing:
    return ModelMissing(
        f"the folder '{folder}' holds no weights of the layout {layout}",
        where="extractor wavlm, settings source and layout",
        cause=f"{cause}; its files are {_listing(folder)}",
        remedy=f"put there {WANTED[layout]}; or set layout to that of the files",
    )


def _listing(folder: Path) -> str:
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    return ", ".join(names[:8]) + (", ..." if len(names) > 8 else "") if names else "none"


def _name(path: Path | None) -> str:
    return path.name if path else ""
