"""Names and what they mean: ids, labels, and patterns of file names.

A file's name may be stored in either Unicode form of its letters (macOS decomposes them), and so may an id in a table: NFC and NFD are
one name. An id has no blanks, so each run of blanks in a name becomes '_'.
"""

from __future__ import annotations

import difflib
import os
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.errors import Fault

FIELDS = ("utterance", "set", "speaker", "number")
PLAIN = "{utterance}"
_FIELD = re.compile(r"\{(\w*)\}")
_RESEMBLED = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u0501\u051b\u051d\u04bb\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420"
    "\u0421\u0422\u0423\u0425\u0406\u0408\u0405\u03bf\u03bd\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5"
    "\u03a7\u0131\u0261\u2010\u2012\u2013\u2014\u2212",
    "aeopcyxijsdqwhABEKMHOPCTYXIJSovABEZHIKMNOPTYXig-----",
)
"""Cyrillic, Greek and other letters, and dashes, each with the ASCII character that nobody can tell it from."""
LONGEST_LABEL = 64
_LABEL_RULE = f"a label is 1 to {LONGEST_LABEL} of the letters a to z and A to Z, digits, _, - and ., and begins with a letter, a digit or _"
_LABEL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


def normalise_name(name: str) -> str:
    """A name in the form in which names are compared: NFC."""
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def make_id(name: str) -> str:
    """A file or folder name as an id."""
    return re.sub(r"\s+", "_", normalise_name(name).strip())


def fold_lookalikes(name: str) -> str:
    """What a name looks like in print: letters of other alphabets, wide letters and dashes as the ASCII that they resemble."""
    return name if name.isascii() else unicodedata.normalize("NFKC", name).translate(_RESEMBLED)


def describe_difference(first: str, second: str) -> str:
    """By which characters two names differ that look alike, by their codes."""
    codes = (
        ", ".join(f"U+{ord(letter):04X}" for letter in name if letter not in counterpart)
        for name, counterpart in ((first, second), (second, first))
    )
    return " for ".join(filter(None, codes))


def join_few(names: Sequence[str], most: int = 5) -> str:
    """Names in a sentence, the first of them where there are many."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def list_label_faults(group: str, labels: Sequence[str]) -> list[Fault]:
    """What is wrong with the labels of a group: characters and lengths."""
    faults = []
    for label in labels:
        shown = label if len(label) <= LONGEST_LABEL else f"{label[:20]}...{label[-8:]}"
        if len(label) > LONGEST_LABEL:
            faults.append(
                Fault(f"a label of {len(label)} characters: at most {LONGEST_LABEL} are taken", f"{group}.{shown}")
            )
        elif not _LABEL.fullmatch(label):
            faults.append(Fault(_LABEL_RULE, f"{group}.{shown}"))
    return faults


def suggest_names(name: str, names: Iterable[str]) -> str:
    """What a remedy says of a name that is none: the nearest of those that there are, and all of them."""
    known = list(names)
    near = difflib.get_close_matches(name, known, n=2, cutoff=0.5)
    return (f"did you mean {' or '.join(near)}? " if near else "") + f"known: {', '.join(known)}"


def find_existing(path: Path) -> Path:
    """The path itself, or the one of its other Unicode form if that is there and it is not."""
    if str(path).isascii() or os.path.lexists(path):
        return path
    forms = (Path(unicodedata.normalize(form, str(path))) for form in ("NFC", "NFD"))
    return next((form for form in forms if os.path.lexists(form)), path)


@dataclass(frozen=True)
class Pattern:
    """How files are called: text with ``{utterance}``, and maybe ``{set}``, ``{speaker}``, or ``{number}`` (any digits) at an end.

    Attributes:
        text: of the name without its extension.
        ignore_case: whether upper and lower case are the same.
    """

    text: str = PLAIN
    ignore_case: bool = False

    def __post_init__(self) -> None:
        fields = _FIELD.findall(self.text)
        if fields.count("utterance") != 1:
            raise ValueError("a pattern holds {utterance} once, as in '{utterance}_anon'")
        strange = sorted(set(fields) - set(FIELDS))
        if strange or "{" in _FIELD.sub("", self.text) or "}" in _FIELD.sub("", self.text):
            fields_known = ", ".join(f"{{{name}}}" for name in FIELDS)
            raise ValueError(f"a pattern holds plain text and some of {fields_known}, nothing else in brackets")
        if "/" in self.text:
            raise ValueError("a pattern is of a file's name, not of its folders: it holds no '/'")
        if fields.count("number") > 1 or re.search(r"(?<!^)\{number\}(?!$)|^\{number\}\{|\}\{number\}$", self.text):
            raise ValueError(
                "{number} stands at one end of a pattern, parted from the rest, as in '{utterance}_{number}'"
            )

    def wanted(self, row: Mapping[str, Any]) -> str:
        """What the file of a row of a manifest is called; digits for ``{number}`` are left out."""
        values = {name: str(row.get(name, "")) for name in FIELDS}
        expected = make_id(_FIELD.sub(lambda match: values[match[1]], self.text.replace("{number}", "")))
        return expected.casefold() if self.ignore_case else expected

    def found(self, name: str) -> str | None:
        """What a file is called, given its name without the extension; None if it cannot be of this pattern."""
        plain = make_id(name)
        for end, digits in (("{number}", r"^\d+"), ("$", r"\d+$")):
            numbered = self.text.startswith(end) if end != "$" else self.text.endswith("{number}")
            if numbered:
                plain, count = re.subn(digits, "", plain)
                if not count:
                    return None
        return plain.casefold() if self.ignore_case else plain


def quote_override(key: str, value: str) -> str:
    """An override of the command line for a value with brackets, quoted for Hydra and the shell."""
    return f"\"{key}='{value}'\""
