"""Short labels of runs that are shown together, by what differs between them: ``ecapa`` and ``campplus``, ``seed=1`` and ``seed=2``.

Labels are unique, at most :data:`MOST` characters, and follow from what the runs are. Runs that do not differ are told apart by the time
when they began, and by a letter where that does not help.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from pipeline.report import settings_that_differ as differ

MOST = 24
TOGETHER = 3
"""So many differences a label has at most."""


@dataclass(frozen=True)
class About:
    """What is known of a run.

    Attributes:
        config: as the run wrote it; empty where it wrote none.
        datasets, inputs, versions, devices: what its rows have in these columns.
        components: labels of extractors, attackers, back ends, systems and metrics, by group, of its rows: what is looked at where
            there is no configuration.
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
    chosen: list[list[str]] = [[] for _ in runs]
    fitting = 0
    for texts in _numbers_depend_on(runs):
        longer = [", ".join(filter(None, [*parts, text])) for parts, text in zip(chosen, texts)]
        if fitting < TOGETHER and max(map(len, longer)) <= MOST:
            chosen, fitting = [[*parts, text] for parts, text in zip(chosen, texts)], fitting + 1
    if not fitting:  # what is too long is better than nothing
        chosen = [[text] for text in next(_numbers_depend_on(runs), [""] * len(runs))]
    for texts in _also(runs):
        made = _joined(chosen)
        if len(set(made)) == len(made) and all(made):
            break
        longer = [[*parts, text] for parts, text in zip(chosen, texts)]
        if len(set(_joined(longer))) > len(set(made)) and max(map(len, _joined(longer))) <= MOST:
            chosen = longer
    return _unique([differ.cut(text, MOST) for text in _joined(chosen)])


def _joined(chosen: Sequence[Sequence[str]]) -> list[str]:
    return [", ".join(filter(None, parts)) for parts in chosen]


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
    short = _short([one.path for one in numeric])
    yield from (
        [f"{name}={_told(one.values[place])}" for place in range(len(runs))] for name, one in zip(short, numeric)
    )
    yield from (_of_group(groups[name]) for name in ("system", "metric") if name in groups)
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
    """The configurations; of all runs what the rows have, where one of them wrote no configuration."""
    if all(run.config for run in runs):
        return [run.config for run in runs]
    return [{group: list(several) for group, several in run.components.items()} for run in runs]


def _of_group(group: differ.Labels) -> list[str]:
    if all(group.own):
        return ["+".join(several) for several in group.own]
    missing = "+".join(dict.fromkeys(label for several in group.own for label in several))
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
