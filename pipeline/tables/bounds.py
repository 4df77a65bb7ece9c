"""Small files that stand for much: how far YAML and Parquet of somebody else may unpack."""

from __future__ import annotations

import errno
import itertools
import os
from typing import Any, BinaryIO

import yaml

from pipeline.files import TooLarge

DEEPEST = 100
"""Levels of brackets or indentation in YAML."""
REPEATED = 10_000
"""Values that all aliases of a YAML file together may stand for."""
FREE = 256 << 20
RATIO = 400
"""A Parquet file may unpack to so many times its size; trials with rounded scores reach 100. Below FREE bytes nobody minds."""


def depth(text: str) -> int:
    return max(itertools.accumulate((character in "([{") - (character in ")]}") for character in text), default=0)


def bounded(loader: type[Any]) -> type[Any]:
    """A loader of PyYAML that refuses aliases that multiply (a "billion laughs") and brackets nested beyond sense, by their line."""

    class Bounded(loader):  # type: ignore[misc]
        def __init__(self, stream: Any) -> None:
            super().__init__(stream)
            self.level = self.values = self.repeated = 0
            self.sizes: dict[int, int] = {}

        def compose_node(self, parent: Any, index: Any) -> yaml.Node:
            mark = self.peek_event().start_mark
            is_alias = self.check_event(yaml.AliasEvent)
            before = self.values + self.repeated
            self.level += 1
            deep = self.level > DEEPEST
            node: yaml.Node | None = None if deep else super().compose_node(parent, index)
            self.level -= 1
            if node is None or (
                isinstance(node, yaml.ScalarNode) and "${" in node.value and depth(node.value) > DEEPEST
            ):
                raise yaml.composer.ComposerError(None, None, f"nested more than {DEEPEST} levels deep", mark)
            if is_alias and id(node) not in self.sizes:
                what = "an anchor (&) that holds itself by an alias (*): write out what it stands for"
                raise yaml.composer.ComposerError(None, None, what, node.start_mark)
            if is_alias:
                self.repeated += self.sizes[id(node)]
            else:
                self.values += 1 + (len(node.value) // 64 if isinstance(node, yaml.ScalarNode) else 0)
                self.sizes[id(node)] = self.values + self.repeated - before
            if self.repeated > REPEATED:
                what = f"its aliases (*) stand for more than {REPEATED:,} values: write out what is meant"
                raise yaml.composer.ComposerError(None, None, what, mark)
            return node

    return Bounded


def read_yaml(text: str) -> Any:
    """What a YAML text holds.

    Raises:
        yaml.YAMLError: it cannot be parsed, or unpacks too far.
    """
    return yaml.load(text, Loader=bounded(yaml.SafeLoader))


def check_parquet(source: BinaryIO) -> int:
    """Refuse a Parquet file that unpacks to far more than it is; it is at its beginning before and after.

    Returns:
        The bytes that its columns take in memory, about: 8 a value, and what its pages hold.

    Raises:
        TooLarge: it does.
        pyarrow.ArrowException: it is no Parquet file.
    """
    import pyarrow.parquet as pq

    size = source.seek(0, os.SEEK_END)
    most = max(FREE, RATIO * size)
    metadata = pq.read_metadata(source)
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    columns = [group.column(number) for group in groups for number in range(metadata.num_columns)]
    unpacked: int = sum(max(8 * column.num_values, column.total_uncompressed_size) for column in columns)
    source.seek(0)
    if unpacked > most:
        raise TooLarge(errno.EFBIG, f"has {size:,} bytes and unpacks to more than {most:,}: no table shrinks like that")
    return unpacked
