"""All that is said to people, as the source files have it: a rewording is one difference in ``messages.txt``, which
``python -m tests.test_messages > tests/messages.txt`` writes anew.

First the errors, a block each: class, what happened, likely cause, remedy. Then every other text of four words or more: faults, notes,
warnings, help. ``{}`` stands for what is filled in. No file is named, so that code may move.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
APPROVED = Path(__file__).with_name("messages.txt")
ERRORS = ("ConfigError", "DataError", "ModelMissing", "PartialResult", "PipelineError", "StageFailed")
PARTS = {"what": "", "cause": "  likely cause: ", "remedy": "  to mend it: "}
WORDS = 4


def template(node: ast.AST) -> str:
    """A text as far as it stands in the code."""
    match node:
        case ast.Constant(value=str(value)):
            return value
        case ast.JoinedStr(values=values):
            return "".join(map(template, values))
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return template(left) + template(right)
        case ast.IfExp(body=body, orelse=orelse):
            return f"[{template(body)} | {template(orelse)}]"
    return "{}"


def messages(tree: ast.Module) -> Iterator[str]:
    """The errors and other texts of a module, but for docstrings."""
    read: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            read.add(node.value)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ERRORS:
            parts = dict(zip(PARTS, node.args)) | {word.arg: word.value for word in node.keywords if word.arg in PARTS}
            read |= {inner for value in parts.values() for inner in ast.walk(value)}
            lines = [f"{PARTS[name]}{template(value)}" for name, value in parts.items()]
            if lines:
                yield "\n".join([f"{node.func.id}: {lines[0]}", *lines[1:]])
        if node not in read and isinstance(node, ast.Constant | ast.JoinedStr | ast.BinOp):
            words = template(node).split()
            read |= set(ast.walk(node))
            if len(words) >= WORDS:
                yield " ".join(words)


def listing(root: Path = ROOT) -> str:
    """The texts of all source files of a checkout; what does not print is escaped."""
    texts = {
        "\n".join(line if line.isprintable() else ascii(line) for line in message.split("\n"))
        for path in sorted((root / "pipeline").rglob("*.py"))
        for message in messages(ast.parse(path.read_text(encoding="utf-8")))
    }
    errors = sorted(text for text in texts if text.startswith(ERRORS))
    return "\n".join([*errors, "", *sorted(texts - {*errors})]) + "\n"


def test_what_is_said_is_what_was_approved() -> None:
    assert listing() == APPROVED.read_text(encoding="utf-8"), (
        "see the difference after: python -m tests.test_messages > tests/messages.txt"
    )


if __name__ == "__main__":
    sys.stdout.write(listing(*map(Path, sys.argv[1:])))
