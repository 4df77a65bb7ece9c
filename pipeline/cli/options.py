"""What verbs with options of their own share: a parser whose faults are errors of ours, and where runs lie."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from pipeline.errors import ConfigError


class Parser(argparse.ArgumentParser):
    """A parser that refuses as the rest of the project does, and takes ``NAME=VALUE`` of overrides for ``--NAME=VALUE``.

    Args:
        overrides: the keys that whoever comes from a run may write, such as ``paths.root``.
        remedy: where it is not where the options are told.
    """

    overrides: tuple[str, ...] = ()
    remedy = ""

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """As :meth:`parse_args`.

        Raises:
            ConfigError: usage.
        """
        words = list(arguments)
        for key in self.overrides:
            option = f"--{key.rpartition('.')[2]}="
            words = [option + word.removeprefix(f"{key}=") if word.startswith(f"{key}=") else word for word in words]
        return self.parse_args(words)

    def error(self, message: str) -> NoReturn:
        raise ConfigError(message, remedy=self.remedy or f"`{self.prog} --help` shows the options")


def find_root(option: str | None) -> Path:
    """``paths.root`` of the runs: by an option, else by the environment, else as a run has it by default."""
    return Path(option or os.environ.get("VOICE_PRIVACY_ROOT", "").strip() or "exp").expanduser()
