"""Short forms of signatures, for people: ``eer:rocch|lazy_informed|trials:libri_test_f|ext:ecapa(trained original)|be:cosine|v:0.2``.

A signature (:mod:`pipeline.tables.results`) has digests where its parameters are no texts. A short form has names instead, as the rows
and the configurations of their runs give them. Of the signatures that are shown together no two have one short form: where names do not
tell two apart, what differs is added by name (a column, a setting, at last a part with its digest), and where nothing of that does,
the beginning of the sha256 of the whole signature (:func:`fingerprint`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from pipeline.tables import results

COLUMNS = ("system", "system_level", "dataset", "calibration", "condition")
"""Columns of rows that may tell signatures apart where names do not."""
SETTINGS = {
    "extractor": ("extractor", "train"),
    "backend": ("backend", "train"),
    "settings": ("metric",),
    "protocol": ("dataset",),
}
"""The parts of a configuration that the digest of a part of a signature stands for."""
HEAD, CONDITION = "metric", "condition"
DIGITS = 8
PLAIN = ("mean", "of")
"""Parts that hold other signatures."""


@dataclass(frozen=True)
class Names:
    """What rows say of a signature that they share; '' where nothing is known.

    Attributes:
        subset, extractor, trained_on, backend: as in the rows, several joined by ``/``.
        columns: other columns, by name.
        settings: leaves of the configuration, by path (``extractor.ecapa.training.epochs``).
    """

    subset: str = ""
    extractor: str = ""
    trained_on: str = ""
    backend: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)


def short(signatures: Sequence[str], names: Mapping[str, Names] | None = None) -> dict[str, str]:
    """A short form of each signature; those of two that differ are different.

    Args:
        signatures: all that are shown together; a short form is short beside these.
        names: what rows say of them. Without it digests stand for what has no name.
    """
    known = names or {}
    found = {one: _base(one, known.get(one, Names())) for one in dict.fromkeys(signatures)}
    for alike in _collisions(found):
        found |= _told_apart(alike, found[alike[0]], known)
    while several := _collisions(found):  # what was added to one may have given it the form of another
        for alike in several:
            found |= {one: f"{found[one]}#{digits}" for one, digits in _fingerprints(alike).items()}
    return found


def of_rows(rows: pd.DataFrame, configs: Mapping[str, Mapping[str, Any]] | None = None) -> dict[str, str]:
    """The short forms of the signatures of rows of results, with the names that stand there.

    Args:
        rows: of one or more runs.
        configs: the configuration of each run (its ``config.yaml``) by ``run_id``: it names settings that differ.
    """
    leaves = {run: dict(_leaves(config)) for run, config in (configs or {}).items()}
    shared: dict[str, list[dict[str, Any]]] = {}
    for row in results.records(rows):
        if row["signature"]:
            shared.setdefault(str(row["signature"]), []).append(row)
    return short(list(shared), {one: _names(those, leaves) for one, those in shared.items()})


def fingerprint(signature: str, digits: int = DIGITS) -> str:
    """The beginning of the sha256 of a signature: the same wherever that signature is shown."""
    return hashlib.sha256(signature.encode("utf-8", "surrogatepass")).hexdigest()[:digits]


# -------------------------------------------------------------------------------------------------------------- reading


def parts(signature: str) -> dict[str, str]:
    """The parts of a signature by name; those of a signature within it as ``mean 1 extractor``.

    The first part is ``metric``, one without a name is ``condition``; a name that comes again is numbered.
    """
    found: dict[str, str] = {}
    for place, text in enumerate(_split(signature)):
        name, colon, value = text.partition(":")
        if place == 0:
            name, value = HEAD, text
        elif not colon:
            name, value = CONDITION, text
        if name in found:
            name = f"{name} {place}"
        found[name] = value
        if name in PLAIN:
            for number, inner in enumerate(_within(value), start=1):
                found |= {f"{name} {number} {key}": one for key, one in parts(inner).items()}
    return found


def _split(signature: str) -> list[str]:
    """At each bar outside brackets; at each bar where brackets do not agree."""
    depth, found = 0, [""]
    for character in signature:
        depth += (character == "(") - (character == ")")
        if depth < 0:
            return signature.split("|")
        if character == "|" and depth == 0:
            found.append("")
        else:
            found[-1] += character
    return signature.split("|") if depth else found


def _within(value: str) -> Iterator[str]:
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


def _base(signature: str, names: Names) -> str:
    """The short form as it is where nothing else has to be told apart."""
    held = parts(signature)
    defined = [held[name] for name in ("estimator", "input") if held.get(name)]
    head = held[HEAD] + (":" if defined and ":" not in held[HEAD] else "," if defined else "") + ",".join(defined)
    who = held.get("attacker") or held.get(CONDITION, "")
    trained = f"(trained {names.trained_on})" if names.extractor and names.trained_on else ""
    many = [f"{name} of {count}" for name in PLAIN if (count := sum(1 for _ in _within(held.get(name, ""))))]
    protocol = held.get("protocol", "")[:DIGITS]
    said = [
        head,
        who,
        f"{'trials' if 'attacker' in held else 'set'}:{names.subset or protocol}" if names.subset or protocol else "",
        "" if names.subset else ",".join(many),
        _part("ext", (names.extractor or held.get("extractor", "")) + trained),
        _part("be", names.backend or held.get("backend", "")),
        _part("v", ".".join(held.get("v", "").split(".")[:2])),
    ]
    return "|".join(filter(None, said))


def _part(name: str, value: str) -> str:
    return f"{name}:{value}" if value else ""


def _collisions(found: Mapping[str, str]) -> list[list[str]]:
    """The signatures that have one short form, together."""
    alike: dict[str, list[str]] = {}
    for signature, form in found.items():
        alike.setdefault(form, []).append(signature)
    return [several for several in alike.values() if len(several) > 1]


def _told_apart(alike: Sequence[str], form: str, names: Mapping[str, Names]) -> dict[str, str]:
    """The form of each with what differs among them, by name."""
    added: dict[str, list[str]] = {one: [] for one in alike}
    moved = _moved(alike)
    differing = {one: _candidates(one, names.get(one, Names()), moved) for one in alike}
    for name in dict.fromkeys(name for one in alike for name in differing[one]):
        values = {one: differing[one].get(name, "") for one in alike}
        before = len({tuple(texts) for texts in added.values()})
        after = len({(*texts, values[one]) for one, texts in added.items()})
        if after > before:
            added = {one: [*texts, f"{name}:{values[one] or 'none'}"] for one, texts in added.items()}
        if after == len(alike):
            break
    told = {one: "|".join([form, *texts]) for one, texts in added.items()}
    for several in _collisions(told):
        told |= {one: f"{told[one]}#{digits}" for one, digits in _fingerprints(several).items()}
    return told


def _moved(alike: Sequence[str]) -> frozenset[str]:
    """The parts of a configuration that may be why these signatures differ."""
    held = [parts(one) for one in alike]
    differ = {
        name.split(" ")[-1] for name in {key for one in held for key in one} if len({one.get(name) for one in held}) > 1
    }
    return frozenset(group for name in differ for group in SETTINGS.get(name, ()))


def _candidates(signature: str, names: Names, moved: Collection[str]) -> dict[str, str]:
    """What may tell a signature from others, by name, the plainest first: columns, settings, parts that are texts, digests.

    Args:
        moved: parts of the configuration; what others set is not why signatures differ.
    """
    settings = {path: value for path, value in names.settings.items() if path.partition(".")[0] in moved}
    held = {name: value for name, value in parts(signature).items() if name not in PLAIN}
    texts = {name: value for name, value in held.items() if not _is_digest(value)}
    digests = {name: value[:DIGITS] for name, value in held.items() if _is_digest(value)}
    return {**names.columns, **settings, **texts, **digests, **{f"whole {name}": held[name] for name in digests}}


def _is_digest(value: str) -> bool:
    return len(value) >= DIGITS and all(character in "0123456789abcdef" for character in value)


def _fingerprints(signatures: Sequence[str]) -> dict[str, str]:
    """As many digits of each as tell them apart."""
    digits = DIGITS
    while len({fingerprint(one, digits) for one in signatures}) < len(signatures):
        digits += DIGITS
    return {one: fingerprint(one, digits) for one in signatures}


# ---------------------------------------------------------------------------------------------------------------- names


def _names(rows: Sequence[Mapping[str, Any]], leaves: Mapping[str, Mapping[str, str]]) -> Names:
    told = {
        name: "/".join(sorted({str(row[name]) for row in rows} - {""}))
        for name in ("subset", "extractor", "trained_on", "backend", *COLUMNS)
    }
    columns = {name: told[name] for name in COLUMNS if told[name]}
    extractors, backends = ({str(row[name]) for row in rows} for name in ("extractor", "backend"))
    settings: dict[str, str] = {}
    for run in dict.fromkeys(str(row["run_id"]) for row in rows):
        for path, value in leaves.get(run, {}).items():
            group, _, rest = path.partition(".")
            label = rest.partition(".")[0]
            own = {"extractor": extractors, "backend": backends}.get(group)
            if group in _GROUPS and (own is None or any(label in name.split("+") for name in own)):
                settings.setdefault(path, value)
    return Names(told["subset"], told["extractor"], told["trained_on"], told["backend"], columns, settings)


_GROUPS = {group for groups in SETTINGS.values() for group in groups}


def _leaves(config: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    for name, value in config.items():
        own = f"{path}.{name}" if path else str(name)
        if isinstance(value, dict) and value:
            yield from _leaves(value, own)
        else:
            yield own, ",".join(map(str, value)) if isinstance(value, list) else str(value)
