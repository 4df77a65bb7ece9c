"""Random slips in small text tables and folders of audio: what an editor, a script, a copy or another system does to them."""

from __future__ import annotations

import shutil
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st

ODD = ["\ufeff", "\u2028", "\r", "\x0b", "\x1b[31m", "\x00", "é", "e\u0301", "文", '"', "'", ",", ";", "=", "#", "|", "/", "..", "  ", "\t", "-", "+", "0", "nan", "1e400", "target", "nontarget", "a" * 300]  # fmt: skip
"""What may be put between two characters."""


@dataclass(frozen=True)
class Edit:
    """One slip: what is done, to which of the files there are, where (as a share of the length), and with what."""

    kind: str
    file: int
    place: float
    other: float
    text: str

    def apply(self, files: list[Path]) -> None:
        """Carry it out on one of these files; a file that an earlier edit took away is left alone."""
        path = files[self.file % len(files)]
        if path.is_file():
            (TEXT | AUDIO)[self.kind](path, self, files)


def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def _at(share: float, count: int) -> int:
    return min(int(share * count), max(count - 1, 0))


def _rewrite(change: Callable[[bytes], bytes]) -> Callable[[Path, Edit, list[Path]], None]:
    def act(path: Path, edit: Edit, files: list[Path]) -> None:
        path.write_bytes(change(path.read_bytes()))

    return act


def _with_lines(change: Callable[[list[bytes], int, int], list[bytes]]) -> Callable[[Path, Edit, list[Path]], None]:
    def act(path: Path, edit: Edit, files: list[Path]) -> None:
        lines = _lines(path)
        if lines:
            path.write_bytes(b"".join(change(lines, _at(edit.place, len(lines)), _at(edit.other, len(lines)))))

    return act


def _with_fields(change: Callable[[list[bytes], int], list[bytes]]) -> Callable[[Path, Edit, list[Path]], None]:
    def act(path: Path, edit: Edit, files: list[Path]) -> None:
        lines = _lines(path)
        if lines:
            number = _at(edit.place, len(lines))
            fields = lines[number].split()
            if fields:
                lines[number] = b" ".join(change(fields, _at(edit.other, len(fields)))) + b"\n"
            path.write_bytes(b"".join(lines))

    return act


def _swapped(items: list[bytes], one: int, other: int) -> list[bytes]:
    items[one], items[other] = items[other], items[one]
    return items


def _insert(path: Path, edit: Edit, files: list[Path]) -> None:
    text = path.read_bytes().decode("utf-8", "surrogateescape")
    place = _at(edit.place, len(text) + 1)
    path.write_bytes((text[:place] + edit.text + text[place:]).encode("utf-8", "surrogateescape"))


def _replace(path: Path, edit: Edit, files: list[Path]) -> None:
    text = path.read_bytes().decode("utf-8", "surrogateescape")
    place = _at(edit.place, len(text))
    path.write_bytes((text[:place] + edit.text + text[place + 1 :]).encode("utf-8", "surrogateescape"))


def _truncate(path: Path, edit: Edit, files: list[Path]) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: _at(edit.place, len(data) + 1)])


def _borrow(path: Path, edit: Edit, files: list[Path]) -> None:
    """A line of another table at the end of this one."""
    lines = _lines(files[_at(edit.other, len(files))]) if files[_at(edit.other, len(files))].is_file() else []
    if lines:
        path.write_bytes(path.read_bytes() + lines[_at(edit.place, len(lines))])


TEXT: dict[str, Callable[[Path, Edit, list[Path]], None]] = {
    "bom": _rewrite(lambda data: b"\xef\xbb\xbf" + data),
    "crlf": _rewrite(lambda data: data.replace(b"\n", b"\r\n")),
    "tabs": _rewrite(lambda data: data.replace(b" ", b"\t")),
    "no newline at the end": _rewrite(lambda data: data.rstrip(b"\n")),
    "utf-16": _rewrite(lambda data: data.decode("utf-8", "replace").encode("utf-16")),
    "latin-1": _rewrite(lambda data: data.decode("utf-8", "replace").encode("latin-1", "replace")),
    "nfd": _rewrite(lambda data: unicodedata.normalize("NFD", data.decode("utf-8", "replace")).encode()),
    "empty": _rewrite(lambda data: b""),
    "blanks at the end": _with_lines(lambda lines, a, b: [*lines[:a], lines[a].rstrip(b"\n") + b"  \t\n", *lines[a + 1 :]]),
    "blank line": _with_lines(lambda lines, a, b: [*lines[:a], b" \n", *lines[a:]]),
    "delete a line": _with_lines(lambda lines, a, b: [*lines[:a], *lines[a + 1 :]]),
    "a line twice": _with_lines(lambda lines, a, b: [*lines, lines[a]]),
    "swap lines": _with_lines(_swapped),
    "drop a field": _with_fields(lambda fields, a: [*fields[:a], *fields[a + 1 :]]),
    "a field twice": _with_fields(lambda fields, a: [*fields[: a + 1], *fields[a:]]),
    "swap fields": _with_fields(lambda fields, a: _swapped(fields, 0, a)),
    "upper case": _with_fields(lambda fields, a: [*fields[:a], fields[a].upper(), *fields[a + 1 :]]),
    "insert": _insert,
    "replace": _replace,
    "truncate": _truncate,
    "borrow a line": _borrow,
    "delete the file": lambda path, edit, files: path.unlink(),
}  # fmt: skip


def _renamed(change: Callable[[str, str], str]) -> Callable[[Path, Edit, list[Path]], None]:
    def act(path: Path, edit: Edit, files: list[Path]) -> None:
        path.rename(path.with_name(change(path.stem, path.suffix)))

    return act


def _overwritten(path: Path, edit: Edit, files: list[Path]) -> None:
    source = files[_at(edit.other, len(files))]
    if source.is_file() and source != path:
        shutil.copyfile(source, path)


def _flip(path: Path, edit: Edit, files: list[Path]) -> None:
    data = bytearray(path.read_bytes())
    if data:
        data[_at(edit.place, len(data))] ^= 1 << int(edit.other * 8)
        path.write_bytes(bytes(data))


def _moved(path: Path, edit: Edit, files: list[Path]) -> None:
    (path.parent / "deeper").mkdir(exist_ok=True)
    path.rename(path.parent / "deeper" / path.name)


def _linked(path: Path, edit: Edit, files: list[Path]) -> None:
    away = path.parents[2] / f"away-{path.name}"
    path.rename(away)
    path.symlink_to(away)


AUDIO: dict[str, Callable[[Path, Edit, list[Path]], None]] = {
    "audio cut": _truncate,
    "audio and more": _rewrite(lambda data: data + data[:2001]),
    "audio twice": _rewrite(lambda data: data + data),
    "audio of another": _overwritten,
    "audio flipped": _flip,
    "audio zeros": _rewrite(lambda data: data[:44] + bytes(len(data) - 44)),
    "audio starts with zeros": _rewrite(lambda data: data[:44] + bytes(4000) + data[4044:]),
    "audio empty": _rewrite(lambda data: b""),
    "audio is a page": _rewrite(lambda data: b"<!DOCTYPE html><html>404</html>"),
    "audio gone": lambda path, edit, files: path.unlink(),
    "audio in a folder": _moved,
    "audio linked": _linked,
    "name with a tail": _renamed(lambda stem, tail: f"{stem}_anon{tail}"),
    "name in upper case": _renamed(lambda stem, tail: f"{stem.upper()}{tail}"),
    "name in nfd": _renamed(lambda stem, tail: unicodedata.normalize("NFD", stem) + tail),
    "name with another extension": _renamed(lambda stem, tail: f"{stem}.flac"),
    "name without extension": _renamed(lambda stem, tail: stem),
    "name with blanks": _renamed(lambda stem, tail: f"{stem} {tail}"),
}


def edits(kinds: list[str]) -> st.SearchStrategy[list[Edit]]:
    """One to three slips of these kinds."""
    share = st.floats(0, 0.999)
    return st.lists(
        st.builds(Edit, st.sampled_from(sorted(kinds)), st.integers(0, 99), share, share, st.sampled_from(ODD)),
        min_size=1, max_size=3,
    )  # fmt: skip
