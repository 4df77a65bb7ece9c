"""Short forms of signatures, for people: ``eer:rocch|lazy_informed|trials:libri_test_f|ext:ecapa(trained original)|be:cosine|v:0.2``.

A signature (:mod:`pipeline.tables.results`) has digests where its parameters are no texts. A short form has names instead, as the rows
give them. Of the signatures that are shown together no two have one short form: where names do not tell two apart, columns and parts that
are texts and differ are added by name, and where nothing of that does, the beginning of the sha256 of the whole signature.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from pipeline.tables import results

COLUMNS = ("system", "system_level", "dataset", "calibration", "condition")
"""Columns of rows that may tell signatures apart where names do not."""
HEAD, CONDITION = "metric", "condition"
DIGITS = 8
PLAIN = ("mean", "of")
"""Parts that hold other signatures."""


@dataclass(frozen=True)
class Names:
    """What rows say of a signature that they share, several joined by ``/``; '' where nothing is known. ``columns`` are others by name."""

    subset: str = ""
    extractor: str = ""
    trained_on: str = ""
    backend: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)


def shorten(signatures: Sequence[str], names: Mapping[str, Names] | None = None) -> dict[str, str]:
    """A short form of each signature; those of two that differ are different.

    Args:
        signatures: all that are shown together; a short form is short beside these.
        names: what rows say of them. Without it digests stand for what has no name.
    """
    named_by = names or {}
    forms = {
        signature: _write_base(signature, named_by.get(signature, Names())) for signature in dict.fromkeys(signatures)
    }
    for alike in _find_collisions(forms):
        forms |= _tell_apart(alike, forms[alike[0]], named_by)
    while collisions := _find_collisions(forms):  # what was added to one may have given it the form of another
        for alike in collisions:
            digits = DIGITS
            while len({fingerprint(signature, digits) for signature in alike}) < len(alike):
                digits += DIGITS
            forms |= {signature: f"{forms[signature]}#{fingerprint(signature, digits)}" for signature in alike}
    return forms


def shorten_rows(rows: pd.DataFrame) -> dict[str, str]:
    """The short forms of the signatures of rows of results, of one or more runs, with the names that stand there."""
    shared: dict[str, list[dict[str, Any]]] = {}
    for row in results.records(rows):
        if row["signature"]:
            shared.setdefault(str(row["signature"]), []).append(row)
    return shorten(list(shared), {signature: _collect_names(sharing) for signature, sharing in shared.items()})


def fingerprint(signature: str, digits: int = DIGITS) -> str:
    """The beginning of the sha256 of a signature: the same wherever that signature is shown."""
    return hashlib.sha256(signature.encode("utf-8", "surrogatepass")).hexdigest()[:digits]


# -------------------------------------------------------------------------------------------------------------- reading


def split_parts(signature: str) -> dict[str, str]:
    """The parts of a signature by name; those of a signature within it as ``mean 1 extractor``.

    The first part is ``metric``, one without a name is ``condition``; a name that comes again is numbered.
    """
    parts_by_name: dict[str, str] = {}
    for place, text in enumerate(_split_at_bars(signature)):
        name, colon, value = text.partition(":")
        if place == 0:
            name, value = HEAD, text
        elif not colon:
            name, value = CONDITION, text
        if name in parts_by_name:
            name = f"{name} {place}"
        parts_by_name[name] = value
        if name in PLAIN:
            for number, inner in enumerate(_list_bracketed(value), start=1):
                parts_by_name |= {
                    f"{name} {number} {key}": inner_value for key, inner_value in split_parts(inner).items()
                }
    return parts_by_name


def _split_at_bars(signature: str) -> list[str]:
    """At each bar outside brackets; at each bar where brackets do not agree."""
    depth, pieces = 0, [""]
    for character in signature:
        depth += (character == "(") - (character == ")")
        if depth < 0:
            return signature.split("|")
        if character == "|" and depth == 0:
            pieces.append("")
        else:
            pieces[-1] += character
    return signature.split("|") if depth else pieces


def _list_bracketed(value: str) -> Iterator[str]:
    """What stands in brackets, the outermost ones."""
    depth, start = 0, 0
    for place, character in enumerate(value):
        if character == "(":
            depth += 1
            start = place + 1 if depth == 1 else start
        elif character == ")":
            depth -= 1
            if depth == 0:
                yield value[start:place]


# -------------------------------------------------------------------------------------------------------------- writing


def _write_base(signature: str, names: Names) -> str:
    """The short form as it is where nothing else has to be told apart."""
    parts = split_parts(signature)
    defined = [parts[name] for name in ("estimator", "input") if parts.get(name)]
    head = parts[HEAD] + (":" if defined and ":" not in parts[HEAD] else "," if defined else "") + ",".join(defined)
    who = parts.get("attacker") or parts.get(CONDITION, "")
    trained = f"(trained {names.trained_on})" if names.extractor and names.trained_on else ""
    many = [f"{name} of {count}" for name in PLAIN if (count := sum(1 for _ in _list_bracketed(parts.get(name, ""))))]
    protocol = parts.get("protocol", "")[:DIGITS]
    pieces = [
        head,
        who,
        f"{'trials' if 'attacker' in parts else 'set'}:{names.subset or protocol}" if names.subset or protocol else "",
        "" if names.subset else ",".join(many),
        _write_part("ext", (names.extractor or parts.get("extractor", "")) + trained),
        _write_part("be", names.backend or parts.get("backend", "")),
        _write_part("v", ".".join(parts.get("v", "").split(".")[:2])),
    ]
    return "|".join(filter(None, pieces))


def _write_part(name: str, value: str) -> str:
    return f"{name}:{value}" if value else ""


def _find_collisions(forms: Mapping[str, str]) -> list[list[str]]:
    """The signatures that have one short form, together."""
    alike: dict[str, list[str]] = {}
    for signature, form in forms.items():
        alike.setdefault(form, []).append(signature)
    return [members for members in alike.values() if len(members) > 1]


def _tell_apart(alike: Sequence[str], form: str, names: Mapping[str, Names]) -> dict[str, str]:
    """The form of each with what differs among them, by name: columns, then parts that are texts."""
    added: dict[str, list[str]] = {signature: [] for signature in alike}
    differing: dict[str, dict[str, str]] = {}
    for signature in alike:
        parts = {name: value for name, value in split_parts(signature).items() if name not in PLAIN}
        texts = {name: value for name, value in parts.items() if not re.fullmatch(f"[0-9a-f]{{{DIGITS},}}", value)}
        differing[signature] = {**names.get(signature, Names()).columns, **texts}
    for name in dict.fromkeys(name for signature in alike for name in differing[signature]):
        values = {signature: differing[signature].get(name, "") for signature in alike}
        before = len({tuple(texts) for texts in added.values()})
        after = len({(*texts, values[signature]) for signature, texts in added.items()})
        if after > before:
            added = {signature: [*texts, f"{name}:{values[signature] or 'none'}"] for signature, texts in added.items()}
        if after == len(alike):
            break
    return {signature: "|".join([form, *texts]) for signature, texts in added.items()}


def _collect_names(rows: Sequence[Mapping[str, Any]]) -> Names:
    joined = {
        name: "/".join(sorted({str(row[name]) for row in rows} - {""}))
        for name in ("subset", "extractor", "trained_on", "backend", *COLUMNS)
    }
    columns = {name: joined[name] for name in COLUMNS if joined[name]}
    return Names(joined["subset"], joined["extractor"], joined["trained_on"], joined["backend"], columns)
