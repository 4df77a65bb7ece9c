"""Texts that fit a terminal: columns are counted as it shows them, two for a wide letter of East Asia."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.report.summaries import on_screen

ELLIPSIS = "…"


def plain(text: str) -> str:
    """A text on one line, with blanks for what cannot be printed."""
    return "".join(character if character.isprintable() else " " for character in text)


def cut(text: str, columns: int) -> str:
    """A text as it fits so many columns, with an ellipsis where some is left out."""
    if on_screen(text) <= columns:
        return text
    return f"{_head(text, columns - 1).rstrip()}{ELLIPSIS}"


def distinct(names: Sequence[str], columns: int) -> list[str]:
    """Names as they fit so many columns, so that those that differ still do: without their ends, else without their middles, else
    with numbers in their places."""
    several = [plain(name) for name in names]
    for shorter in (cut, _without_middle):
        found = [shorter(name, columns) for name in several]
        if len(set(found)) == len(set(several)):
            break
    else:
        places = {name: f"{place}" for place, name in enumerate(dict.fromkeys(several), start=1)}
        found = [f"{_head(name, columns - 1 - len(places[name]))}{ELLIPSIS}{places[name]}" for name in several]
    return found


def _without_middle(text: str, columns: int) -> str:
    if on_screen(text) <= columns:
        return text
    back = _head(text[::-1], (columns - 1) // 2)[::-1]
    return f"{_head(text, columns - 1 - on_screen(back))}{ELLIPSIS}{back}"


def _head(text: str, columns: int) -> str:
    """The longest beginning that fits; a letter at least."""
    end = min(len(text), columns)
    while end > 1 and on_screen(text[:end]) > columns:
        end -= 1
    while end < len(text) and on_screen(text[: end + 1]) <= columns:
        end += 1
    return text[: max(end, 1)]


def wrapped(text: str, columns: int, *, first: str = "", then: str = "", most: int = 10**6) -> list[str]:
    """A text in lines, broken between words, and within one that is longer than a line.

    Args:
        columns: of a line, its beginning included.
        first, then: how the first line and the others begin; both take as many columns.
        most: lines; of a longer text the last of them ends with an ellipsis.
    """
    room = columns - on_screen(first)
    lines: list[str] = []
    line = ""
    for word in plain(text).split():
        longer = f"{line} {word}" if line else word
        if on_screen(longer) <= room:
            line = longer
            continue
        if line:
            lines.append(line)
        while on_screen(word) > room:
            head = _head(word, room)
            lines.append(head)
            word = word[len(head) :]
        line = word
    if line:
        lines.append(line)
    if len(lines) > most:
        lines = [*lines[: most - 1], f"{_head(lines[most - 1], room - 2).rstrip()} {ELLIPSIS}"]
    return [f"{then if number else first}{one}" for number, one in enumerate(lines)]


def height(lines: Sequence[str], columns: int) -> int:
    """How many lines of a terminal these take."""
    return sum(max(1, -(-on_screen(line) // columns)) for line in lines)
