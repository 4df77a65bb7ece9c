"""Text tables of other people: what changes nothing, and what is refused with what mends it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pipeline.faults import Faults, escape_unprintable
from pipeline.files import NotRegular, TooLarge, open_regular, read_regular
from pipeline.names import normalise_name
from pipeline.tables import text

PLAIN = "é1 wav/x.wav\nzwei b c\n"


def lines(path: Path) -> list[str]:
    faults = Faults()
    found = [line.text for line in text.lines(path, faults)]
    faults.stop(path)
    return found


@pytest.mark.parametrize(
    "data",
    [
        PLAIN.encode(),
        PLAIN.encode("utf-8-sig"),
        PLAIN.replace("\n", "\r\n").encode(),
        PLAIN.replace("\n", "  \t\r\n\r\n \t\n").encode("utf-8-sig"),
        ("\n\n\t" + PLAIN.rstrip("\n")).encode(),
    ],
)
def test_marks_line_ends_and_blanks_change_nothing(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "t").write_bytes(data)
    assert lines(tmp_path / "t") == ["é1 wav/x.wav", "zwei b c"]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (PLAIN.encode("utf-16"), "UTF-16"),
        (PLAIN.encode("utf-32"), "UTF-32"),
        (PLAIN.encode("latin-1"), "ISO-8859-1"),
        (PLAIN.replace("zwei", "–2").encode("cp1252"), "WINDOWS-1252"),
        (PLAIN.replace("\n", "\r").encode(), "carriage returns alone"),
    ],
)
def test_other_encodings_are_refused_with_what_converts_them(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "it's a table"
    path.write_bytes(data)
    with pytest.raises(text.Unreadable) as caught:
        text.text(path)
    assert caught.value.kind == "encoding" and said in caught.value.what


def test_a_file_of_zeros_is_named_once(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(b"a b\n" + bytes(1000) + b"\n")
    with pytest.raises(text.Unreadable, match="1,000 zero bytes"):
        text.text(tmp_path / "t")


def test_only_regular_files_of_a_bounded_size_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, what in ((tmp_path / "pipe", "a named pipe"), (Path("/dev/zero"), "a device")):
        with pytest.raises(NotRegular, match=what):
            open_regular(path)
    with pytest.raises(IsADirectoryError):
        open_regular(tmp_path)
    large = tmp_path / "large"
    large.touch()
    os.truncate(large, 200 << 30)
    with pytest.raises(TooLarge, match="214,748,364,800 bytes, most of them holes"):
        read_regular(large, 1 << 20)
    (tmp_path / "link").symlink_to(large)
    os.truncate(large, 5)
    assert read_regular(tmp_path / "link", 5) == bytes(5)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("a\x1b[31m", r"a control character (\x1b, U+001B)"),
        ("a\rb", r"a control character (\r, U+000D)"),
        ("a\x0bb", r"a control character (\x0b, U+000B)"),
        ("a\u2028b", "a line separator (U+2028)"),
        ("a\u202eb", "an invisible character (U+202E)"),
        ("a\u200bb", "an invisible character (U+200B)"),
        ("a\u3164b", "an invisible character (U+3164)"),
        ("a\u2800b", "an invisible character (U+2800)"),
        ("a\xa0b", r"a blank (\xa0, U+00A0)"),
        ("a b", "a blank (U+0020)"),
    ],
)
def test_ids_hold_what_can_be_seen(name: str, said: str) -> None:
    assert text.not_an_id(name) == said
    assert escape_unprintable(name).isprintable() and not {"\x1b", "\u3164", "\u2800"} & {*escape_unprintable(name)}


@pytest.mark.parametrize("name", ["1272-128104-0000", "p225_001", "说话人", "متكلم", "=1+1", "é", "e\u0301", "<b>"])
def test_other_ids_may_hold_anything(name: str) -> None:
    assert text.not_an_id(name) == ""


def test_two_ways_to_write_a_letter_are_one_id() -> None:
    assert normalise_name("e\u0301") == normalise_name("é") == "é"
