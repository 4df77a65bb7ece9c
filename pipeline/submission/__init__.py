"""Checks of a submission: what is wrong with a folder of anonymised audio, and with the data set that it belongs to.

The data set and the folders are read once, and everything that is wrong is said at once. What is heard in a file is judged in
``audio_checks``; names and lists here: files that are missing, too many or unclear, and what a submission is held against.
"""

from __future__ import annotations

import functools
import os
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.datasets import corpus, cutting, external_copy, external_files, importers, resemblance
from pipeline.datasets.audio_cache import NO_CACHE
from pipeline.datasets.external_copy import Copy
from pipeline.datasets.listings import Listing, TrialList, Utterance
from pipeline.datasets.settings import DatasetSettings
from pipeline.errors import DataError
from pipeline.faults import Faults
from pipeline.names import join_few
from pipeline.submission.audio_checks import check_audio, check_second_run
from pipeline.submission.findings import (
    COLUMNS,
    Check,
    Named,
    Report,
    Side,
    Verdict,
    decode_files,
    make_check,
    make_row,
)

MIXED = re.compile(r"(^|_)mixed(_|$)")
"""Sets of both sexes are called so (VoicePrivacy Challenge 2026)."""
_ROOTS = ("root", "swapped", "names", "own-table")
"""Kinds of faults from which missing files follow."""


def check_files(side: Side) -> list[Check]:
    """All of them."""
    return [check_missing(side), check_extra(side), check_unclear(side)]


def check_missing(side: Side) -> Check:
    """Utterances without a file."""
    listed = side.files
    findings = [
        Named(str(row["utterance"]), str(row["set"]), f"no file {side.copy.pattern.wanted(row)}.ext under {place}")
        for row, place in listed.missing
    ]
    homeless = [row for row in side.wanted if row["set"] not in listed.places]
    if listed.places or not listed.faults.has("ambiguous"):
        findings += [Named(str(row["utterance"]), str(row["set"]), "its set has no folder") for row in homeless]
    text = "; ".join(_describe_missing(side, Counter(finding.set for finding in findings)))
    return make_check("missing", side.label, findings, len(side.wanted), summary=text, mend=_mend_missing(side))


def _describe_missing(side: Side, lacking: Counter[str]) -> Iterator[str]:
    """How many are missing of each set, and where files lie that may be meant."""
    listed = side.files
    wanted = Counter(str(row["set"]) for row in side.wanted)
    for name, count in sorted(lacking.items()):
        yield f"all {count} of {name}" if count == wanted[name] else f"{count} of {wanted[name]} of {name}"
    yield from (fault.what for fault in listed.faults.found if fault.kind in _ROOTS)
    if not listed.faults.has("swapped"):
        elsewhere = external_copy.find_elsewhere(listed.missing, listed.unused, side.copy.pattern)
        yield from external_copy.describe_elsewhere(listed.missing, elsewhere)


def _mend_missing(side: Side) -> str:
    kinds = side.files.faults
    remedies = [kinds.kinds[kind][1] for kind in _ROOTS if kinds.has(kind)]
    if not remedies and external_copy.find_elsewhere(side.files.missing, side.files.unused, side.copy.pattern):
        remedies = [kinds.kinds["missing-audio"][1]]
    return "; ".join(remedies)


def check_extra(side: Side) -> Check:
    """Audio files that belong to no utterance of the sets that are looked at."""
    folder, pattern = side.files.folder, side.copy.pattern
    # Several files of one utterance are none too many but unclear, and one in the folder of another set is missing in its own.
    meant = {pattern.wanted(row) for row, _ in (*side.files.refused, *side.files.missing)}
    findings = [
        Named(os.path.relpath(path, folder), _name_set(side, path), "belongs to no utterance")
        for path in side.files.unused
        if pattern.found(path.stem) not in meant
    ]
    return make_check("extra", side.label, findings, len(findings) + len(side.files.chosen), "warning")


def _name_set(side: Side, path: Path) -> str:
    return next(
        (name for name, place in side.files.places.items() if place in path.parents and place != side.files.folder), ""
    )


def check_unclear(side: Side) -> Check:
    """Utterances with several files, or with a link that leads out of the folder; folders of several systems."""
    faults = side.files.faults
    findings = [Named(str(row["utterance"]), str(row["set"]), what) for row, what in side.files.refused]
    if not side.files.places:
        findings += [
            Named(str(side.files.folder), "", fault.what) for fault in faults.found if fault.kind == "ambiguous"
        ]
    mend = "; ".join(faults.kinds[kind][1] for kind in ("ambiguous", "leaves-root") if faults.has(kind))
    return make_check("unclear", side.label, findings, len(side.wanted), mend=mend)


# ------------------------------------------------------------------------------------------------------- the data set


Utterances = Mapping[tuple[str, str], Utterance]
"""By (set, utterance)."""


def check_data(faults: Faults) -> Check:
    """What would keep a run from using the data set: its lists, labels that contradict the speakers, trials that stand twice."""
    findings = [Named(fault.where, "", fault.what) for fault in faults.found]
    mend = "; ".join(faults.kinds[kind][1] for kind in dict.fromkeys(fault.kind for fault in faults.found))
    return make_check("data", "", findings, 0, mend=mend)


def check_cross_sex(lists: Sequence[TrialList], utterances: Utterances) -> Check:
    """Lists over both sexes in which no pair crosses them: wrong if the name says that they are mixed."""
    findings, wrong = [], False
    sexes = {row.speaker: row.sex for row in utterances.values() if row.speaker}
    for trials in lists:
        models = {line.model for line in trials.enrolment if line.model}
        tried = {row.utterance: row.sex for (name, _), row in utterances.items() if name == trials.name}
        is_mixed = bool(MIXED.search(trials.name))
        tried_sexes = {*tried.values()} - {"u"}
        enrolled = {sexes.get(model, "u") for model in models} - {"u"}
        if len(tried_sexes | enrolled) < 2 and not is_mixed:
            continue
        crossing = sum({sexes.get(trial.model), tried.get(trial.utterance)} == {"f", "m"} for trial in trials.trials)
        # Enrolment sets hold both sexes for lists of either.
        if crossing or (len(tried_sexes) < 2 and not is_mixed):
            continue
        what = "is called mixed, and" if is_mixed else "has trial utterances of both sexes, and"
        if is_mixed and len(tried_sexes) == 1:
            what = f"is called mixed, holds utterances of sex {join_few(sorted(tried_sexes))} alone, and"
        possible = _count_possible(models, sexes, tried)
        findings.append(
            Named(
                trials.name,
                trials.name,
                f"{what} none of its {len(trials.trials)} trials crosses sexes ({possible} could)",
            )
        )
        wrong = wrong or is_mixed
    verdict: Verdict = "wrong" if wrong else "warning"
    return make_check(
        "cross_sex",
        "",
        findings,
        len(lists),
        verdict,
        summary="; ".join(f"{finding.set} {finding.what}" for finding in findings),
    )


def _count_possible(models: set[str], sexes: Mapping[str, str], tried: Mapping[str, str]) -> int:
    """How many pairs of a model and an utterance would cross sexes."""
    enrolled, tried_counts = Counter(sexes.get(model, "u") for model in models), Counter(tried.values())
    return enrolled["f"] * tried_counts["m"] + enrolled["m"] * tried_counts["f"]


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


__all__ = ["COLUMNS", "Check", "Folder", "Named", "Report", "check_submission"]
