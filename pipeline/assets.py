"""What comes with the project beside its code."""

from __future__ import annotations

from pathlib import Path


def find_assets(kind: str) -> Path:
    """The folder ``conf``, ``recipes`` or ``data_manifests``: in the wheel within the package, else in the clone."""
    package = Path(__file__).resolve().parent
    packed = package / "_assets" / kind
    return packed if packed.is_dir() else package.parent / kind
