"""Checks of a submission: what is wrong with a folder of anonymised audio, and with the data set that it belongs to.

Both are read once, and everything that is wrong is said at once: of names and lists, then of what is heard in the files.
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

import pandas as pd

from pipeline import audio
from pipeline.datasets import corpus, cutting, external_copy, importers, resemblance
from pipeline.datasets.audio_cache import NO_CACHE
from pipeline.datasets.external_copy import Copy
from pipeline.datasets.listings import Listing, TrialList, Utterance
from pipeline.datasets.probe import USUAL_RATE, is_narrow
from pipeline.datasets.resemblance import SAME_SECONDS
from pipeline.datasets.settings import DatasetSettings
from pipeline.errors import DataError
from pipeline.faults import Faults
from pipeline.names import join_few
from pipeline.submission.findings import (
    COLUMNS,
    Check,
    Decoded,
    Named,
    Report,
    Side,
    decode_files,
    make_check,
    make_row,
)

__all__ = ["COLUMNS", "Check", "Folder", "Named", "Report", "check_submission"]

MIXED = re.compile(r"(^|_)mixed(_|$)")
"""Sets of both sexes are called so (VoicePrivacy Challenge 2026)."""
_ROOTS = ("root", "names", "own-table")
"""Kinds of faults from which missing files follow."""


@dataclass(frozen=True)
class Folder:
    """A folder to check, by what the checks call it."""

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
    everyone = [make_row(row) for row in rows]
    wanted_by_folder = [
        [row for row in everyone if (row["role"] == "train") == folder.copy.training] for folder in folders
    ]
    cut = external_copy.Cutting(recordings, threads)
    columns = ["utterance", "speaker", "sex", "set", "role", "position", "path"]
    copies = [
        external_copy.list_copy(folder.copy, pd.DataFrame(wanted, columns=columns, dtype=object), cut)
        for folder, wanted in zip(folders, wanted_by_folder)
    ]
    originals = [row.path for row in rows if row.path]
    anonymised = [path for copy in copies for _, path in copy.chosen]
    decoded = decode_files([*originals, *anonymised], threads, 3600 * settings.longest_hours)
    dropped, _ = corpus.check_files(listing, rows, {path: decoded[path].probe for path in originals})
    corpus.make_trial_sets(listing, listed, {(line.set, line.utterance) for line in dropped})
    compare = functools.partial(resemblance.compare_with_originals, threads=threads, folder=cache)
    sides = [
        Side(folder.label, folder.copy, wanted, everyone, copy, decoded, compare)
        for folder, wanted, copy in zip(folders, wanted_by_folder, copies)
    ]
    checks: list[Check] = []
    for side in sides:
        checks += [check(side) for check in CHECKS]
        if side.copy.setting == "second_root":
            same = [other for other in sides if other.copy.label == side.copy.label and other.copy.setting == "root"]
            checks += [check_second_run(first, side) for first in same if not first.copy.training]
    checks += [check_data(listing.faults), check_cross_sex(listing.lists, listed)]
    return Report(tuple(checks), tuple(_describe_extent(sides, threads, training, time.monotonic() - begun)))


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
        lines += [f"{side.label}: {line}" for line in side.files.limits]
    lines.append(f"each file was decoded once, in {threads} thread{'s' if threads > 1 else ''}; {seconds:.0f} s in all")
    return lines if training else [*lines, "training speech was not looked at (--training does)"]


# ------------------------------------------------------------------------------------------------------- names and lists


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
    kinds = side.files.faults
    remedies = [kinds.kinds[kind][1] for kind in _ROOTS if kinds.has(kind)]
    if not remedies and external_copy.find_elsewhere(side.files.missing, side.files.unused, side.copy.pattern):
        remedies = [kinds.kinds["missing-audio"][1]]
    return make_check("missing", side.label, findings, len(side.wanted), summary=text, mend="; ".join(remedies))


def _describe_missing(side: Side, lacking: Counter[str]) -> Iterator[str]:
    """How many are missing of each set, and where files lie that may be meant."""
    listed = side.files
    wanted = Counter(str(row["set"]) for row in side.wanted)
    for name, count in sorted(lacking.items()):
        yield f"all {count} of {name}" if count == wanted[name] else f"{count} of {wanted[name]} of {name}"
    yield from (fault.what for fault in listed.faults.found if fault.kind in _ROOTS)
    elsewhere = external_copy.find_elsewhere(listed.missing, listed.unused, side.copy.pattern)
    yield from external_copy.describe_elsewhere(listed.missing, elsewhere)


def check_extra(side: Side) -> Check:
    """Audio files that belong to no utterance of the sets that are looked at."""
    folder, pattern = side.files.folder, side.copy.pattern
    # Several files of one utterance are none too many but unclear, and one in the folder of another set is missing in its own.
    meant = {pattern.wanted(row) for row, _ in (*side.files.refused, *side.files.missing)}
    findings = []
    for path in side.files.unused:
        if pattern.found(path.stem) not in meant:
            sets = [name for name, place in side.files.places.items() if place in path.parents and place != folder]
            findings.append(Named(os.path.relpath(path, folder), sets[0] if sets else "", "belongs to no utterance"))
    return make_check("extra", side.label, findings, len(findings) + len(side.files.chosen), "warning")


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


def check_data(faults: Faults) -> Check:
    """What would keep a run from using the data set: its lists, labels that contradict the speakers, trials that stand twice."""
    findings = [Named(fault.where, "", fault.what) for fault in faults.found]
    mend = "; ".join(faults.kinds[kind][1] for kind in dict.fromkeys(fault.kind for fault in faults.found))
    return make_check("data", "", findings, 0, mend=mend)


def check_cross_sex(lists: Sequence[TrialList], utterances: Mapping[tuple[str, str], Utterance]) -> Check:
    """Lists over both sexes in which no pair crosses them: wrong if the name says that they are mixed; utterances by (set, utterance)."""
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
        counts = Counter(sexes.get(model, "u") for model in models), Counter(tried.values())
        possible = counts[0]["f"] * counts[1]["m"] + counts[0]["m"] * counts[1]["f"]
        what += f" none of its {len(trials.trials)} trials crosses sexes ({possible} could)"
        findings.append(Named(trials.name, trials.name, what))
        wrong = wrong or is_mixed
    text = "; ".join(f"{finding.set} {finding.what}" for finding in findings)
    return make_check("cross_sex", "", findings, len(lists), "wrong" if wrong else "warning", text)


# ------------------------------------------------------------------------------------------------------- what is heard


CUT, RUN_ON = 0.5, 2.0
"""Parts of the original's length outside of which a file was cut off, or runs on; voice conversion keeps within."""
FEWEST_TOPS = 2
"""So many flat tops at one height are clipping, below full scale too: a single one may be a slow wave."""
_SILENT = ("no-speech", "cancelling")


def check_unreadable(side: Side) -> Check:
    """Files that cannot be decoded whole."""
    return _check_probes(side, "unreadable", False)


def check_silent(side: Side) -> Check:
    """Files that hold no speech: too short, silent, or with channels that cancel each other."""
    return _check_probes(side, "silent", True)


def _check_probes(side: Side, name: str, is_silent: bool) -> Check:
    findings = [
        Named(str(row["utterance"]), str(row["set"]), probe.problem)
        for row, path in side.files.chosen
        if (probe := side.decoded[path].probe).kind and (probe.kind in _SILENT) == is_silent
    ]
    return make_check(name, side.label, findings, len(side.files.chosen))


def check_duration(side: Side) -> Check:
    """Files of another length than the original; those below half or above twice of it are wrong."""
    changed = [pair for pair in side.pairs if abs(pair.longer) > SAME_SECONDS]
    broken = [pair for pair in changed if not CUT <= pair.mine.seconds / pair.original.seconds <= RUN_ON]
    # The worst come first.
    changed.sort(key=lambda pair: (pair not in broken, -abs(pair.longer)))
    findings = [
        pair.named(f"{pair.mine.seconds:.3f} s, original {pair.original.seconds:.3f} s ({pair.longer:+.3f} s)")
        for pair in changed
    ]
    text = ""
    if changed:
        off = [pair.longer for pair in changed]
        shorter = sum(seconds < 0 for seconds in off)
        text = (
            f"by more than {1000 * SAME_SECONDS:g} ms, from {min(off):+.2f} s to {max(off):+.2f} s: {shorter} shorter, "
            f"{len(off) - shorter} longer; {len(broken)} below half or above twice their length"
        )
    return make_check("duration", side.label, findings, len(side.pairs), "wrong" if broken else "warning", text)


def check_rate(side: Side) -> Check:
    """Files with another sampling rate than the original."""
    changed = [pair for pair in side.pairs if pair.mine.probe.sample_rate != pair.original.probe.sample_rate]
    findings = [
        pair.named(f"{pair.mine.probe.sample_rate} Hz, original {pair.original.probe.sample_rate} Hz")
        for pair in changed
    ]
    rates = Counter(pair.mine.probe.sample_rate for pair in changed)
    text = ", ".join(f"{count} at {hertz} Hz" for hertz, count in sorted(rates.items()))
    low = sum(count for hertz, count in rates.items() if hertz < USUAL_RATE)
    text += f"; {low} below {USUAL_RATE // 1000} kHz" if low else ""
    return make_check("rate", side.label, findings, len(side.pairs), "warning", text)


def check_header(side: Side) -> Check:
    """Files whose length shows that they were made at another rate than their header says; as many samples as the original are wrong."""
    findings, wrong = [], False
    for hertz, places in side.resemblance.made_at().items():
        for pair in (side.pairs[place] for place in places):
            mine, original = pair.mine.probe, pair.original.probe
            wrong = wrong or original.sample_rate == hertz
            lengths = f"{mine.samples} samples, original {original.samples} at {original.sample_rate} Hz"
            findings.append(pair.named(f"{mine.sample_rate} Hz by its header, {hertz} Hz by its length ({lengths})"))
    return make_check("header", side.label, findings, len(side.pairs), "wrong" if wrong else "warning")


def check_bandwidth(side: Side) -> Check:
    """Files that hold nothing in the upper half of what their sampling rate could hold."""
    findings = [
        pair.named(f"nothing above {pair.mine.probe.bandwidth:.0f} Hz, original {pair.original.probe.bandwidth:.0f} Hz")
        for pair in side.pairs
        if is_narrow(pair.mine.probe)
    ]
    return make_check("bandwidth", side.label, findings, len(side.pairs), "warning")


def check_zeros(side: Side) -> Check:
    """Files that begin or end with more exact zeros than their originals."""
    least = audio.DIGITAL_SILENCE_MS
    padded = [pair for pair in side.pairs if pair.mine.probe.silence_ms - pair.original.probe.silence_ms >= least]
    findings = [pair.named(f"{pair.mine.probe.silence_ms:g} ms of exact zeros at the ends") for pair in padded]
    longest = max((pair.mine.probe.silence_ms for pair in padded), default=0.0)
    text = f"{least:g} ms or more at an end, up to {longest:.3g} ms in all"
    return make_check("zeros", side.label, findings, len(side.pairs), "warning", text)


def check_clipping(side: Side) -> Check:
    """Files whose wave stays at full scale, or at one height again and again, or lies above full scale."""
    clipped = [pair for pair in side.pairs if is_clipped(pair.mine)]
    findings = [
        pair.named(
            f"peak {pair.mine.peak:.3f} of full scale, flat for {audio.CLIPPED_RUN} samples or more {pair.mine.flat_tops} times"
        )
        for pair in clipped
    ]
    before = sum(is_clipped(pair.original) for pair in clipped)
    text = f"{audio.CLIPPED_RUN} or more equal samples at the extreme, or samples above full scale; the originals of {before} are clipped too"
    return make_check("clipping", side.label, findings, len(side.pairs), "warning", text)


def is_clipped(decoded: Decoded) -> bool:
    """Whether a file is clipped, before or after it was scaled."""
    return decoded.probe.clipped or decoded.flat_tops >= FEWEST_TOPS or decoded.peak > 1 + 2.0**-15


def check_alike(side: Side) -> Check:
    """Files that hold one sound where the originals are several."""
    groups = [group for group in resemblance.group_by_sound(*side.compared) if len(group) > 1]
    groups.sort(key=lambda group: sorted(str(row["utterance"]) for row in group))
    findings = []
    for group in groups:
        for row in group:
            others = [
                f"{other['utterance']} of {other['set']}" for other in group if other["utterance"] != row["utterance"]
            ]
            what = f"the same audio as {join_few(others, 3)}"
            findings.append(Named(str(row["utterance"]), str(row["set"]), what))
    same = resemblance.find_identical(*side.compared)
    return make_check("alike", side.label, findings, same.files, summary="; ".join(same.sentences()))


def check_unprotected(side: Side) -> Check:
    """Files that hold their own original, at whatever level, offset, rate and coding."""
    findings = []
    for place in side.resemblance.unprotected:
        pair, correlation = side.pairs[place], side.resemblance.correlations[place]
        same = pair.mine.probe.sha256 == pair.original.probe.sha256
        findings.append(
            pair.named("byte for byte" if same else f"its waveform correlates with the original's by {correlation:.4f}")
        )
    by_set = Counter(finding.set for finding in findings)
    text = ", ".join(f"{count} of {name}" for name, count in sorted(by_set.items()))
    return make_check("unprotected", side.label, findings, len(side.pairs), summary=text)


def check_others(side: Side) -> Check:
    """Files that hold the original of another utterance."""
    everyone, sounds = side.owners
    originals, rows, _, mine = side.compared
    findings = []
    for row, owners in resemblance.find_taken(everyone, originals, rows, sounds, mine):
        names = join_few([str(owner["utterance"]) for owner in owners], 3)
        what = f"the original of {names}, of speaker {owners[0]['speaker']}"
        findings.append(Named(str(row["utterance"]), str(row["set"]), what))
    return make_check("others", side.label, findings, len(side.pairs))


def check_second_run(first: Side, second: Side) -> Check:
    """Files of a second run that hold the sound of the first."""
    before = {(other.row["set"], other.row["utterance"]): other.mine.probe.sound for other in first.pairs}
    compared = [pair for pair in second.pairs if (pair.row["set"], pair.row["utterance"]) in before]
    findings = [
        pair.named("as in the first run")
        for pair in compared
        if before[pair.row["set"], pair.row["utterance"]] == pair.mine.probe.sound
    ]
    return make_check("second_run", second.label, findings, len(compared), "warning")


CHECKS = (
    check_missing, check_extra, check_unclear, check_unreadable, check_silent, check_duration, check_header, check_rate,
    check_bandwidth, check_zeros, check_clipping, check_alike, check_unprotected, check_others,
)  # fmt: skip
"""Of one folder, in the order in which they are said."""
