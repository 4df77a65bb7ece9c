"""A strict reader of the LaTeX that this project writes: what compiles nowhere, or shows what was not meant, is an error."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

TOKEN = re.compile(r"\\[a-zA-Z]+\*?|\\.|[{}$&#_^~%]|\n|[^\\{}$&#_^~%\n]+", re.DOTALL)
COMMANDS = {
    "allowbreak", "begin", "bottomrule", "caption", "centering", "downarrow", "end", "endfoot", "endhead", "footnotesize", "infty",
    "item", "leq", "linewidth", "mathrm", "midrule", "par", "paragraph", "rightarrow", "scriptsize", "setlength", "shortstack",
    "sloppy", "smallskip", "tabcolsep", "textasciicircum", "textasciitilde", "textbackslash", "textbar", "textdagger",
    "textdaggerdbl", "textgreater", "textless", "textperiodcentered", "times", "toprule", "uparrow",
}  # fmt: skip
"""Commands of plain LaTeX and of ``booktabs`` and ``longtable`` that are known here."""
SYMBOLS = set("&%$#_{}\\")


@dataclass
class Table:
    """A tabular: its columns, and its rows as cells, as they stand there."""

    columns: str
    depth: int
    rows: list[list[str]] = field(default_factory=list)
    cells: list[str] = field(default_factory=lambda: [""])


def tables(text: str) -> list[Table]:
    """The tables of a text.

    Raises:
        AssertionError: braces, environments, mathematics or columns do not agree, a character is not escaped, or a command is unknown.
    """
    assert text.isascii(), sorted({c for c in text if not c.isascii()})
    tokens = _without_comments(TOKEN.findall(text))
    environments: list[tuple[str, int]] = []
    found: list[Table] = []
    going: list[Table] = []
    depth, is_math, place = 0, False, 0
    while place < len(tokens):
        token = tokens[place]
        where = "".join(tokens[max(0, place - 8) : place + 8])
        place += 1
        if token in (r"\begin", r"\end"):
            name = "".join(tokens[place + 1 : tokens.index("}", place)])
            place += len(tokens[place : tokens.index("}", place)]) + 1
            if token == r"\begin":
                environments.append((name, depth))
                if name in ("tabular", "longtable"):
                    columns = tokens[place + 1]
                    assert tokens[place] == "{" and set(columns) <= set("lrc"), where
                    place += 3
                    going.append(Table(columns, depth))
            else:
                assert environments and environments.pop() == (name, depth), where
                if name in ("tabular", "longtable"):
                    table = going.pop()
                    assert not re.sub(r"\\(bottomrule|endfoot)", "", "".join(table.cells)).strip(), (
                        "a row without an end"
                    )
                    found.append(table)
            continue
        depth += (token == "{") - (token == "}")
        assert depth >= 0, f"a brace too many: {where}"
        if token == "$":
            is_math = not is_math
        assert token != "#" and (is_math or token not in "_^"), f"not escaped: {where}"
        if token.startswith("\\") and len(token) > 1 and token[1].isalpha():
            assert token[1:].rstrip("*") in COMMANDS, token
        elif token.startswith("\\"):
            assert token[1] in SYMBOLS, token
        if token in (r"\\", r"\toprule", r"\midrule", r"\bottomrule"):
            after = next((one for one in tokens[place:] if one.strip()), "")
            assert not after.lstrip().startswith(("[", "*")), f"taken for an argument of the line end: {where}"
        if not going:
            assert token != "&", f"outside a table: {where}"
            continue
        table = going[-1]
        if depth == table.depth and token == "&":
            table.cells.append("")
        elif depth == table.depth and token == r"\\":
            is_caption = table.cells[0].lstrip().startswith(r"\caption")
            assert is_caption or len(table.cells) == len(table.columns), f"{len(table.cells)} cells: {table.cells}"
            table.rows.append([cell.strip() for cell in table.cells])
            table.cells = [""]
        else:
            table.cells[-1] += token
    assert not environments and depth == 0 and not is_math, (environments, depth, is_math)
    return found


def _without_comments(tokens: list[str]) -> list[str]:
    """The tokens but for comments, which have a line to themselves."""
    kept: list[str] = []
    skips = False
    for token in tokens:
        if token == "%" and not skips:
            assert not kept or kept[-1] == "\n", "a comment after something: an unescaped per cent sign"
            skips = True
        elif token == "\n":
            skips = False
        if not skips:
            kept.append(token)
    return kept


def body(table: Table) -> list[list[str]]:
    """The rows between the rules."""
    start = next(place for place, row in enumerate(table.rows) if row[0].startswith(r"\midrule"))
    first = [table.rows[start][0].removeprefix(r"\midrule").strip(), *table.rows[start][1:]]
    return [first, *table.rows[start + 1 :]]
