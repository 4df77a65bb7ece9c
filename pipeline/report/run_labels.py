"""Short labels of runs that are shown together, by what differs between them: ``ecapa`` and ``campplus``, ``seed=1`` and ``seed=2``.

Labels are unique, at most :data:`MOST` characters, and follow from what the runs are. Runs that do not differ are told apart by the time
when they began, and by a letter where that does not help.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from pipeline.report import run_differences as differ

MOST = 24
TOGETHER = 3
"""So many differences a label has at most."""
LOOKED_AT = 10
"""So many differences labels are made of; there may be very many."""
MAKES_SCORES = ("dataset", "train", "extractor", "attacker", "backend", "system")
"""Sections of a configuration whose settings are told before those of what is measured."""


@dataclass(frozen=True)
class About:
    """What is known of a run.

    Attributes:
        config: as the run wrote it; empty where it wrote none.
        datasets, inputs, versions, devices: what its rows have in these columns.
        components: labels of extractors, attackers, back ends and systems, by group, of its rows.
        libraries: versions by name.
        started: as its record says it, or its id; '' where neither does.
    """

    config: Mapping[str, Any]
    datasets: tuple[str, ...] = ()
    inputs: str = ""
    versions: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    components: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    libraries: Mapping[str, str] = field(default_factory=dict)
    started: str = ""


def about(
    rows: pd.DataFrame,
    run_id: str,
    config: Mapping[str, Any],
    environment: Mapping[str, Any],
    status: Mapping[str, Any],
) -> About:
    """What is known of a run by its rows and its records."""

    def of(column: str) -> tuple[str, ...]:
        return tuple(sorted({str(one) for one in rows[column]} - {""}))

    named = {group: of(group) for group in ("extractor", "attacker", "backend", "system")}
    libraries = environment.get("libraries")
    began = next((str(status[key]) for key in ("started", "start", "begin", "created") if status.get(key)), "")
    return About(
        config,
        of("dataset"),
        ",".join(of("input_digest")),
        of("code_version"),
        of("device"),
        named,
        {str(name): str(one) for name, one in libraries.items()} if isinstance(libraries, Mapping) else {},
        began or run_id,
    )


def labels(runs: Sequence[About]) -> list[str]:
    """A label for each run, in their order; '' where there is one alone."""
    if len(runs) < 2:
        return [""] * len(runs)
    told = [[differ.cut(text, MOST) for text in texts] for texts in _numbers_depend_on(runs)]
    made = [label or _in_common(runs) for label in _best(told, len(runs))]
    for texts in _also(runs):
        if len(set(made)) == len(made) and all(made):
            break
        longer = [_joined([*filter(None, [label]), text]) for label, text in zip(made, texts)]
        if len(set(longer)) > len(set(made)) and max(map(len, longer)) <= MOST:
            made = longer
    return _unique(made)


def _best(told: Sequence[Sequence[str]], n: int) -> list[str]:
    """The differences that tell most of n runs apart, of these those that fit as they are, and of these as many as fit."""
    best, found = (0, 0, 0), [""] * n
    for size in range(1, TOGETHER + 1):
        for several in itertools.combinations(told[:LOOKED_AT], size):
            fitted = [_fitted([texts[place] for texts in several], several) for place in range(n)]
            made = [label for label, _ in fitted]
            rank = len(set(made) - {""}), -sum(dropped for _, dropped in fitted), size
            if rank > best:
                best, found = rank, made
    return found


def _in_common(runs: Sequence[About]) -> str:
    """What a run is called that lacks what others have in addition: by the components that all have."""
    groups = differ.of_configs(configs_of(runs)).labels
    return differ.cut("+".join(groups[0].common), MOST) if groups else ""


def _fitted(parts: Sequence[str], several: Sequence[Sequence[str]]) -> tuple[str, int]:
    """The parts of a run's label as far as they fit, and how many do not: what most runs have in common is left out first."""
    shared = {part: list(texts).count(part) for part, texts in zip(parts, several)}
    kept = [part for part in parts if part]
    while len(_joined(kept)) > MOST:
        kept.remove(max(reversed(kept), key=lambda part: shared[part]))
    return _joined(kept), sum(map(bool, parts)) - len(kept)


def _joined(parts: Sequence[str]) -> str:
    return ", ".join(parts)


def _unique(made: Sequence[str]) -> list[str]:
    """Labels of which no two are equal: a letter tells equal ones apart."""
    often = Counter(made)
    found: list[str] = []
    for place, text in enumerate(made):
        mark = letter(place)
        found.append(text if text and often[text] == 1 else f"{differ.cut(text, MOST - len(mark) - 1)} {mark}".strip())
    return found if len(set(found)) == len(found) else [letter(place) for place in range(len(made))]


def letter(index: int) -> str:
    """A, B, … Z, AA, AB, …"""
    text = ""
    index += 1
    while index:
        index, rest = divmod(index - 1, 26)
        text = chr(65 + rest) + text
    return text


# ------------------------------------------------------------------------------------------------ what runs differ in


def _numbers_depend_on(runs: Sequence[About]) -> Iterator[list[str]]:
    """Differences that make numbers differ, what tells most first; a text a run."""
    if len({run.datasets for run in runs}) > 1:
        yield [f"dataset {' + '.join(run.datasets) or 'unknown'}" for run in runs]
    found = differ.of_configs(configs_of(runs))
    groups = {one.group: one for one in found.labels}
    yield from (_of_group(groups[name]) for name in ("extractor", "attacker", "backend") if name in groups)
    numeric = [one for one in found.numeric if not one.path.startswith("dataset.name")]
    said = dict(zip([one.path for one in numeric], _short([one.path for one in numeric])))
    speech = [one for one in numeric if one.path.split(".")[0] in MAKES_SCORES]
    yield from (_of_setting(one, said[one.path]) for one in speech)
    yield from (_of_group(groups[name]) for name in ("system", "metric") if name in groups)
    yield from (_of_setting(one, said[one.path]) for one in numeric if one not in speech)
    if len({run.inputs for run in runs}) > 1 and len({run.datasets for run in runs}) == 1 and not (groups or numeric):
        yield [f"data {run.inputs[:6]}" for run in runs]


def _also(runs: Sequence[About]) -> Iterator[list[str]]:
    """What is looked at only where the others do not tell runs apart."""
    yield [f"version {' + '.join(run.versions)}" for run in runs]
    for name in dict.fromkeys(name for run in runs for name in run.libraries):
        yield [f"{name} {run.libraries.get(name, 'absent')}" for run in runs]
    yield [" + ".join(run.devices) for run in runs]
    yield _times([run.started for run in runs])


def configs_of(runs: Sequence[About]) -> list[Mapping[str, Any]]:
    """The configurations; of all runs what the rows have, where one of them wrote none. Of score files that somebody else made it is
    the rows that name the components."""
    if not all(run.config for run in runs):
        return [_named_by_rows(run) for run in runs]
    return [{**run.config, **(_named_by_rows(run) if _is_given(run.config) else {})} for run in runs]


def _named_by_rows(run: About) -> Mapping[str, Any]:
    return {group: list(several) for group, several in run.components.items()}


def _is_given(config: Mapping[str, Any]) -> bool:
    dataset = config.get("dataset")
    return isinstance(dataset, Mapping) and dataset.get("name") == "scores"


def _of_setting(one: differ.Setting, name: str) -> list[str]:
    return [f"{name}={_told(value)}" for value in one.values]


def _of_group(group: differ.Labels) -> list[str]:
    """The labels that not all runs have; of two runs, that one has none of them, of several nothing."""
    if all(group.own):
        return ["+".join(several) for several in group.own]
    if len(group.own) > 2:
        return [f"+{'+'.join(several)}" if several else "" for several in group.own]
    missing = "+".join(label for several in group.own for label in several)
    return [f"with {'+'.join(several)}" if several else f"without {missing}" for several in group.own]


def _short(paths: Sequence[str]) -> list[str]:
    """The last name of each path, with as many before it as tell it from the others; ``name`` is that of what it is the name of."""
    split = [[name for name in path.split(".") if name != "name"] for path in paths]
    found = []
    for parts in split:
        others = [one for one in split if one is not parts]
        long = next((n for n in range(1, len(parts)) if all(one[-n:] != parts[-n:] for one in others)), len(parts))
        found.append(".".join(parts[-long:]))
    return found


def _told(one: Any) -> str:
    """A value for a label: of a path its last name, of a component its name."""
    if one is None or one is differ.ABSENT:
        return "none"
    if isinstance(one, Mapping) and isinstance(one.get("name"), str):
        return str(one["name"])
    if isinstance(one, str) and "/" in one:
        return one.rstrip("/").rpartition("/")[2]
    return differ.value(one)


def _times(started: Sequence[str]) -> list[str]:
    """When each run began, as shortly as tells them apart: ``10:40`` of runs of one day, ``2026-11-29`` of one run a day."""
    stamps = [re.match(r"(\d{4})-?(\d\d)-?(\d\d)[T_ -]?(\d\d):?(\d\d):?(\d\d)", one) for one in started]
    whole = ["{}-{}-{} {}:{}:{}".format(*stamp.groups()) if stamp else "" for stamp in stamps]
    one_day = len({text[:10] for text in whole if text}) == 1
    for span in (slice(11, 16), slice(11, 19)) if one_day else (slice(10), slice(16)):
        if len({text[span] for text in whole}) == len(whole):
            return [text[span] for text in whole]
    return whole
