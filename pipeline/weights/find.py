"""Weights on disk: where they are looked for, their digest, and the command that fetches what is missing."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import ModelMissing
from pipeline.registry import ComponentSettings

EMBEDDING_FILES = ("embedding_model.safetensors", "embedding_model.ckpt")
"""What the weights of a speaker embedding are called; the first that a folder holds is taken."""


@dataclass(frozen=True)
class Weights:
    """A folder of weights and the sha256 over the names and bytes of its files."""

    folder: Path
    digest: str


def file_digest(path: Path) -> str:
    """sha256 (hex) of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def folder_digest(folder: Path, names: list[str]) -> str:
    """sha256 (hex) over the named files of a folder: their names and their bytes."""
    total = hashlib.sha256()
    for name in sorted(names):
        total.update(f"{name}\0{file_digest(folder / name)}\0".encode())
    return total.hexdigest()


def default_models() -> Path:
    """The folder of weights where the configuration names none: ``VOICE_PRIVACY_MODELS`` or a user cache."""
    return Path(os.environ.get("VOICE_PRIVACY_MODELS") or Path.home() / ".cache" / "voice-privacy" / "models")


def fetch_command(settings: ComponentSettings, models: Path) -> str:
    """The command line that gets the weights which these settings of an extractor ask for."""
    name = str(getattr(settings, "name", ""))
    words = ["python", "-m", "pipeline", "fetch-models", f"extractor=[{name}]"]
    for field in ("source", "revision"):
        declared = type(settings).model_fields.get(field)
        if declared is not None and getattr(settings, field) != declared.default:
            words.append(f"extractor.{name}.{field}={getattr(settings, field)}")
    if models.absolute() != default_models().absolute():
        words.append(f"paths.models={models}")
    return shlex.join(words)


def hub_folder(source: str, revision: str, models: Path) -> Path:
    """Where ``fetch-models`` puts a model of the hub."""
    return models / source.replace("/", "--") / revision


def is_hub_id(source: str) -> bool:
    """Whether a source reads as ``owner/name`` on the model hub; an existing folder of that name goes first."""
    return re.fullmatch(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", source) is not None and not Path(source).is_dir()


def embedding_file(folder: Path) -> Path | None:
    """The file of a folder that holds the weights of a speaker embedding, if there is one."""
    return next((folder / name for name in EMBEDDING_FILES if (folder / name).is_file()), None)


def embedding_weights(
    settings: ComponentSettings, source: str, revision: str, checksums: dict[tuple[str, str], str], models: Path
) -> Weights | None:
    """Find the weights of a speaker embedding on this machine; nothing is downloaded.

    A local folder is taken as it is; a hub id is looked for in ``models`` and then in the hub's own cache.

    Args:
        settings: the extractor's settings, for the message.
        source: a folder, a hub id, or ``trained`` (weights come from a task of the run).
        revision: revision of a hub id.
        checksums: sha256 of ``embedding_model.ckpt`` by (hub id, revision), where it is known.
        models: the configuration's ``paths.models``.

    Returns:
        The weights, or None for ``trained``.

    Raises:
        ModelMissing: they are not here, or are not what the checksum says; with the command that mends it.
    """
    if source == "trained":
        return None
    if not is_hub_id(source):
        folder = Path(source).expanduser()
        found = embedding_file(folder)
        if found is None:
            raise ModelMissing(
                f"the folder '{source}' holds no weights",
                where=f"extractor {getattr(settings, 'name', '')}, setting source",
                remedy=f"put {' or '.join(EMBEDDING_FILES)} there, or name a model of the hub as owner/name",
            )
        return Weights(folder, folder_digest(folder, [found.name]))
    own = hub_folder(source, revision, models)
    found = embedding_file(own) or _in_hub_cache(source, revision)
    if found is None:
        raise ModelMissing(
            f"the weights of {source} at revision {revision} are not on this machine, and a run never downloads",
            where=f"{own} and the hub's cache",
            remedy=f"run {fetch_command(settings, models)}",
        )
    expected = checksums.get((source, revision))
    if expected and found.name == "embedding_model.ckpt" and file_digest(found) != expected:
        raise ModelMissing(
            f"the weights of {source} are not those of revision {revision}: their sha256 is not {expected}",
            where=str(found),
            cause="a download that was cut off or a file that was changed",
            remedy=f"remove the file and run {fetch_command(settings, models)}",
        )
    return Weights(found.parent, folder_digest(found.parent, [found.name]))


def _in_hub_cache(source: str, revision: str) -> Path | None:
    from huggingface_hub import try_to_load_from_cache

    for name in EMBEDDING_FILES:
        path = try_to_load_from_cache(source, name, revision=revision)
        if isinstance(path, str) and Path(path).is_file():
            return Path(path)
    return None
