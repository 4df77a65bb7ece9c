"""The check of a submission: the data set and the anonymised folders read once, and everything that is wrong said at once."""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.datasets import corpus, cutting, external_files, importers, resemblance
from pipeline.datasets.audio_cache import NO_CACHE
from pipeline.datasets.external_copy import Copy
from pipeline.datasets.listings import Listing, Utterance
from pipeline.datasets.settings import DatasetSettings
from pipeline.errors import DataError
from pipeline.names import few
from pipeline.submission import files, hearing, lists, sounds, treatment
from pipeline.submission.findings import Check, Report
from pipeline.submission.side import Side, row


@dataclass(frozen=True)
class Given:
    """A folder to check.

    Attributes:
        label: what the checks call it.
        copy: where it lies.
    """

    label: str
    copy: Copy


def check(settings: DatasetSettings, given: Sequence[Given], threads: int, recordings: Path, kept: Path) -> Report:
    """Check folders of anonymised audio, and the data set that they belong to.

    Args:
        settings: of the data set.
        given: the folders; training speech is looked at for those of it alone.
        threads: files that are decoded at a time.
        recordings: where segments and what lies in archives are written as files.
        kept: where it is kept how files resemble their originals.
    """
    begun = time.monotonic()
    listing = Listing()
    try:
        importers.list_data_set(settings, listing)
        cutting.write_parts(listing, recordings, threads, NO_CACHE)
        rows, listed = corpus.check_lists(listing)
    except DataError as error:
        if not listing.faults.found:
            raise
        said = f"nothing else can be checked: {error.what}"
        data = lists.data(listing.faults)
        return Report((Check("data", "", "wrong", data.found, 0, said, data.mend),), (said,))
    training = any(one.copy.training for one in given)
    rows = [one for one in rows if training or one.role != "train"]
    cut = external_files.Cutting(recordings, threads)
    found = [external_files.list_copy(one.copy, _wanted(rows, one.copy.training), cut) for one in given]
    originals = [one.path for one in rows if one.path]
    anonymised = [path for one in found for _, path in one.chosen]
    heard = hearing.hear([*originals, *anonymised], threads, 3600 * settings.longest_hours)
    dropped, _ = corpus.check_files(listing, rows, {path: heard[path].probe for path in originals})
    corpus.make_trial_sets(listing, listed, {(line.set, line.utterance) for line in dropped})
    everyone = [row(one) for one in rows]
    compare = functools.partial(resemblance.compare_with_originals, threads=threads, folder=kept)
    sides = [
        Side(one.label, one.copy, wanted, everyone, names, heard, compare)
        for one, names in zip(given, found)
        for wanted in [[row(of) for of in _rows(rows, one.copy.training)]]
    ]
    checks = [made for side in sides for made in _of(side, sides, listing)]
    checks += lists.checks(listing.lists, listed, listing.faults)
    return Report(tuple(checks), tuple(_measured(rows, sides, threads, training, time.monotonic() - begun)))


def _rows(rows: Sequence[Utterance], training: bool) -> list[Utterance]:
    return [one for one in rows if (one.role == "train") == training]


def _wanted(rows: Sequence[Utterance], training: bool) -> pd.DataFrame:
    columns: list[dict[str, Any]] = [row(one) for one in _rows(rows, training)]
    return pd.DataFrame(
        columns, columns=["utterance", "speaker", "sex", "set", "role", "position", "path"], dtype=object
    )


def _of(side: Side, sides: Sequence[Side], listing: Listing) -> list[Check]:
    """The checks of one folder."""
    made = [*files.checks(side), *sounds.checks(side)]
    if side.copy.setting == "second_root":
        first = [one for one in sides if one.copy.label == side.copy.label and one.copy.setting == "root"]
        made += [sounds.second_run(one, side) for one in first if not one.copy.training]
    return made if side.copy.training else [*made, treatment.treated(side, listing.lists)]


def _measured(
    rows: Sequence[Utterance], sides: Sequence[Side], threads: int, training: bool, seconds: float
) -> list[str]:
    """What was looked at."""
    said = []
    for side in sides:
        sets = few(sorted({str(one["set"]) for one in side.wanted}), 8)
        minutes = sum(side.heard[path].seconds for _, path in side.files.chosen) / 60
        said.append(
            f"{side.label}: {len(side.files.chosen)} files ({minutes:.1f} min) for {len(side.wanted)} utterances of {sets}, "
            f"beside {sum(of is not None for of in {one['path'] for one in side.wanted})} originals"
        )
        said += [f"{side.label}: {line}" for line in (*side.files.notes, *side.files.limits)]
    said.append(f"each file was decoded once, in {threads} thread{'s' if threads > 1 else ''}; {seconds:.0f} s in all")
    if not training:
        said.append("training speech was not looked at (--training does)")
    return said
