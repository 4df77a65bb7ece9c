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
from pipeline.names import join_few
from pipeline.submission.audio_checks import check_audio, check_second_run
from pipeline.submission.file_checks import check_cross_sex, check_data, check_files
from pipeline.submission.findings import Check, Report
from pipeline.submission.side import Side, decode_files, make_row


@dataclass(frozen=True)
class Folder:
    """A folder to check.

    Attributes:
        label: what the checks call it.
        copy: where it lies.
    """

    label: str
    copy: Copy


def check_submission(
    settings: DatasetSettings, folders: Sequence[Folder], threads: int, recordings: Path, cache: Path
) -> Report:
    """Check folders of anonymised audio, and the data set that they belong to.

    Args:
        settings: of the data set.
        folders: training speech is looked at for those of it alone.
        threads: files that are decoded at a time.
        recordings: where segments and what lies in archives are written as files.
        cache: where it is kept how files resemble their originals.
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
        text = f"nothing else can be checked: {error.what}"
        data = check_data(listing.faults)
        return Report((Check("data", "", "wrong", data.findings, 0, text, data.mend),), (text,))
    training = any(folder.copy.training for folder in folders)
    rows = [row for row in rows if training or row.role != "train"]
    cut = external_files.Cutting(recordings, threads)
    copies = [
        external_files.list_copy(folder.copy, _tabulate_wanted(rows, folder.copy.training), cut) for folder in folders
    ]
    originals = [row.path for row in rows if row.path]
    anonymised = [path for copy in copies for _, path in copy.chosen]
    decoded = decode_files([*originals, *anonymised], threads, 3600 * settings.longest_hours)
    dropped, _ = corpus.check_files(listing, rows, {path: decoded[path].probe for path in originals})
    corpus.make_trial_sets(listing, listed, {(line.set, line.utterance) for line in dropped})
    everyone = [make_row(row) for row in rows]
    compare = functools.partial(resemblance.compare_with_originals, threads=threads, folder=cache)
    sides = []
    for folder, copy in zip(folders, copies):
        wanted = [make_row(row) for row in _select_rows(rows, folder.copy.training)]
        sides.append(Side(folder.label, folder.copy, wanted, everyone, copy, decoded, compare))
    checks = [check for side in sides for check in _check_side(side, sides)]
    checks += [check_data(listing.faults), check_cross_sex(listing.lists, listed)]
    return Report(tuple(checks), tuple(_describe_extent(sides, threads, training, time.monotonic() - begun)))


def _select_rows(rows: Sequence[Utterance], training: bool) -> list[Utterance]:
    return [row for row in rows if (row.role == "train") == training]


def _tabulate_wanted(rows: Sequence[Utterance], training: bool) -> pd.DataFrame:
    wanted: list[dict[str, Any]] = [make_row(row) for row in _select_rows(rows, training)]
    columns = ["utterance", "speaker", "sex", "set", "role", "position", "path"]
    return pd.DataFrame(wanted, columns=columns, dtype=object)


def _check_side(side: Side, sides: Sequence[Side]) -> list[Check]:
    """The checks of one folder."""
    checks = [*check_files(side), *check_audio(side)]
    if side.copy.setting == "second_root":
        same = [other for other in sides if other.copy.label == side.copy.label and other.copy.setting == "root"]
        checks += [check_second_run(first, side) for first in same if not first.copy.training]
    return checks


def _describe_extent(sides: Sequence[Side], threads: int, training: bool, seconds: float) -> list[str]:
    """What was looked at."""
    lines = []
    for side in sides:
        sets = join_few(sorted({str(row["set"]) for row in side.wanted}), 8)
        minutes = sum(side.decoded[path].seconds for _, path in side.files.chosen) / 60
        lines.append(
            f"{side.label}: {len(side.files.chosen)} files ({minutes:.1f} min) for {len(side.wanted)} utterances of {sets}, "
            f"beside {sum(path is not None for path in {row['path'] for row in side.wanted})} originals"
        )
        lines += [f"{side.label}: {line}" for line in (*side.files.notes, *side.files.limits)]
    lines.append(f"each file was decoded once, in {threads} thread{'s' if threads > 1 else ''}; {seconds:.0f} s in all")
    return lines if training else [*lines, "training speech was not looked at (--training does)"]
