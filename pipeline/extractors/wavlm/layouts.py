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
    branches, checkpoint, tensors = (
        path.name if (path := first_file(folder, names)) else "" for names in (BRANCHES, MICROSOFT, TENSORS)
    )
    plain = (CONFIG, tensors) if tensors and (folder / CONFIG).is_file() else ()
    backbone = (checkpoint,) if checkpoint else plain
    if layout == "auto":
        layout = "ssl_ecapa" if branches else "microsoft" if checkpoint and not plain else "w_nt"
    if layout == "ssl_ecapa":
        other = first_file(Path(beside).expanduser(), MICROSOFT) if beside and not backbone else None
        if other is not None:
            backbone = (os.path.relpath(other, folder),)
        if branches and backbone:
            return Recognised(layout, backbone, branches)
    elif layout == "microsoft" and backbone:
        return Recognised(layout, backbone)
    elif layout == "w_nt" and plain:
        if "embd_size" not in read_configuration(folder):
            raise DataError(
                "a configuration has no embd_size",
                where=str(folder / CONFIG),
                remedy="take config.json from the same release as the tensors; a WavLM without a head, such as "
                "microsoft/wavlm-large, loads by layout=microsoft",
            )
        return Recognised(layout, plain)
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    raise ModelMissing(
        f"the folder '{folder}' holds no WavLM weights of the layout {layout}",
        where="extractor wavlm, settings source and layout",
        cause=f"its files are {', '.join(names[:8]) or 'none'}",
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
    if not isinstance(values, dict) or values.get("model_type", "wavlm") != "wavlm":
        raise DataError(
            "a configuration is not that of a WavLM",
            where=str(path),
            cause=f"its model_type is {values.get('model_type')!r}"
            if isinstance(values, dict)
            else "it is no JSON object",
            remedy="set source of the extractor to weights of a WavLM",
        )
    return values
