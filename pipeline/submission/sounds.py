"""Checks of what the files of a submission hold, each beside its original."""

from __future__ import annotations

from collections import Counter

from pipeline import audio
from pipeline.datasets import resemblance
from pipeline.datasets.probe import USUAL_RATE, is_narrow
from pipeline.datasets.resemblance import SAME_SECONDS
from pipeline.names import few
from pipeline.submission.findings import Check, Named, judged
from pipeline.submission.hearing import Heard
from pipeline.submission.side import Pair, Side

CUT, RUN_ON = 0.5, 2.0
"""Parts of the original's length outside of which a file was cut off, or runs on; voice conversion keeps within."""
FEWEST_TOPS = 2
"""So many flat tops at one height are clipping, below full scale too: a single one may be a slow wave."""
_SILENT = ("no-speech", "cancelling")


def checks(side: Side) -> list[Check]:
    """All of them."""
    every = [unreadable, silent, duration, header, rate, bandwidth, zeros, clipping, alike, unprotected, others]
    return [one(side) for one in every]


def unreadable(side: Side) -> Check:
    """Files that cannot be decoded whole."""
    return _of_kind(side, "unreadable", False)


def silent(side: Side) -> Check:
    """Files that hold no speech: too short, silent, or with channels that cancel each other."""
    return _of_kind(side, "silent", True)


def _of_kind(side: Side, name: str, is_silent: bool) -> Check:
    found = [
        Named(str(row["utterance"]), str(row["set"]), probe.problem)
        for row, path in side.files.chosen
        if (probe := side.heard[path].probe).kind and (probe.kind in _SILENT) == is_silent
    ]
    return judged(name, side.label, found, len(side.files.chosen))


def duration(side: Side) -> Check:
    """Files of another length than the original; those below half or above twice of it are wrong."""
    changed = [pair for pair in side.pairs if abs(pair.longer) > SAME_SECONDS]
    broken = [pair for pair in changed if not CUT <= pair.mine.seconds / pair.original.seconds <= RUN_ON]
    # The worst come first.
    changed.sort(key=lambda pair: (pair not in broken, -abs(pair.longer)))
    found = [
        pair.named(f"{pair.mine.seconds:.3f} s, original {pair.original.seconds:.3f} s ({pair.longer:+.3f} s)")
        for pair in changed
    ]
    said = ""
    if changed:
        off = [pair.longer for pair in changed]
        shorter = sum(one < 0 for one in off)
        said = (
            f"by more than {1000 * SAME_SECONDS:g} ms, from {min(off):+.2f} s to {max(off):+.2f} s: {shorter} shorter, "
            f"{len(off) - shorter} longer; {len(broken)} below half or above twice their length"
        )
    return judged("duration", side.label, found, len(side.pairs), "wrong" if broken else "warning", said)


def rate(side: Side) -> Check:
    """Files with another sampling rate than the original."""
    changed = [pair for pair in side.pairs if pair.mine.probe.sample_rate != pair.original.probe.sample_rate]
    found = [
        pair.named(f"{pair.mine.probe.sample_rate} Hz, original {pair.original.probe.sample_rate} Hz")
        for pair in changed
    ]
    rates = Counter(pair.mine.probe.sample_rate for pair in changed)
    said = ", ".join(f"{count} at {hertz} Hz" for hertz, count in sorted(rates.items()))
    low = sum(count for hertz, count in rates.items() if hertz < USUAL_RATE)
    said += f"; {low} below {USUAL_RATE // 1000} kHz" if low else ""
    return judged("rate", side.label, found, len(side.pairs), "warning", said)


def header(side: Side) -> Check:
    """Files whose length shows that they were made at another rate than their header says; as many samples as the original are wrong."""
    found, wrong = [], False
    for hertz, places in side.resemblance.made_at().items():
        for pair in (side.pairs[place] for place in places):
            mine, original = pair.mine.probe, pair.original.probe
            wrong = wrong or original.sample_rate == hertz
            lengths = f"{mine.samples} samples, original {original.samples} at {original.sample_rate} Hz"
            found.append(pair.named(f"{mine.sample_rate} Hz by its header, {hertz} Hz by its length ({lengths})"))
    return judged("header", side.label, found, len(side.pairs), "wrong" if wrong else "warning")


def bandwidth(side: Side) -> Check:
    """Files that hold nothing in the upper half of what their sampling rate could hold."""
    found = [
        pair.named(f"nothing above {pair.mine.probe.bandwidth:.0f} Hz, original {pair.original.probe.bandwidth:.0f} Hz")
        for pair in side.pairs
        if is_narrow(pair.mine.probe)
    ]
    return judged("bandwidth", side.label, found, len(side.pairs), "warning")


def zeros(side: Side) -> Check:
    """Files that begin or end with more exact zeros than their originals."""
    padded = [pair for pair in side.pairs if _padding(pair) >= audio.DIGITAL_SILENCE_MS]
    found = [pair.named(f"{pair.mine.probe.silence_ms:g} ms of exact zeros at the ends") for pair in padded]
    longest = max((pair.mine.probe.silence_ms for pair in padded), default=0.0)
    said = f"{audio.DIGITAL_SILENCE_MS:g} ms or more at an end, up to {longest:.3g} ms in all"
    return judged("zeros", side.label, found, len(side.pairs), "warning", said)


def _padding(pair: Pair) -> float:
    return pair.mine.probe.silence_ms - pair.original.probe.silence_ms


def clipping(side: Side) -> Check:
    """Files whose wave stays at full scale, or at one height again and again, or lies above full scale."""
    clipped = [pair for pair in side.pairs if is_clipped(pair.mine)]
    found = [
        pair.named(
            f"peak {pair.mine.peak:.3f} of full scale, flat for {audio.CLIPPED_RUN} samples or more {pair.mine.flat_tops} times"
        )
        for pair in clipped
    ]
    before = sum(is_clipped(pair.original) for pair in clipped)
    said = f"{audio.CLIPPED_RUN} or more equal samples at the extreme, or samples above full scale; the originals of {before} are clipped too"
    return judged("clipping", side.label, found, len(side.pairs), "warning", said)


def is_clipped(heard: Heard) -> bool:
    """Whether a file is clipped, before or after it was scaled."""
    return heard.probe.clipped or heard.flat_tops >= FEWEST_TOPS or heard.peak > 1 + 2.0**-15


def alike(side: Side) -> Check:
    """Files that hold one sound where the originals are several."""
    groups = [one for one in resemblance.group_by_sound(*side.compared) if len(one) > 1]
    groups.sort(key=lambda group: sorted(str(row["utterance"]) for row in group))
    found = [
        Named(str(row["utterance"]), str(row["set"]), f"the same audio as {_others(group, row['utterance'])}")
        for group in groups
        for row in group
    ]
    same = resemblance.find_identical(*side.compared)
    return judged("alike", side.label, found, same.files, said="; ".join(same.sentences()))


def _others(group: resemblance.Rows, utterance: str) -> str:
    return few([f"{row['utterance']} of {row['set']}" for row in group if row["utterance"] != utterance], 3)


def unprotected(side: Side) -> Check:
    """Files that hold their own original, at whatever level, offset, rate and coding."""
    found = []
    for place in side.resemblance.unprotected:
        pair, correlation = side.pairs[place], side.resemblance.correlations[place]
        same = pair.mine.probe.sha256 == pair.original.probe.sha256
        found.append(
            pair.named("byte for byte" if same else f"its waveform correlates with the original's by {correlation:.4f}")
        )
    by_set = Counter(one.set for one in found)
    said = ", ".join(f"{count} of {name}" for name, count in sorted(by_set.items()))
    return judged("unprotected", side.label, found, len(side.pairs), said=said)


def others(side: Side) -> Check:
    """Files that hold the original of another utterance."""
    everyone, sounds = side.owners
    originals, rows, _, mine = side.compared
    taken = resemblance.find_taken(everyone, originals, rows, sounds, mine)
    found = [
        Named(
            str(row["utterance"]),
            str(row["set"]),
            f"the original of {_owners(owners)}, of speaker {owners[0]['speaker']}",
        )
        for row, owners in taken
    ]
    return judged("others", side.label, found, len(side.pairs))


def _owners(owners: resemblance.Rows) -> str:
    return few([str(owner["utterance"]) for owner in owners], 3)


def second_run(first: Side, second: Side) -> Check:
    """Files of a second run that hold the sound of the first."""
    before = {(one.row["set"], one.row["utterance"]): one.mine.probe.sound for one in first.pairs}
    known = [pair for pair in second.pairs if (pair.row["set"], pair.row["utterance"]) in before]
    found = [
        pair.named("as in the first run")
        for pair in known
        if before[pair.row["set"], pair.row["utterance"]] == pair.mine.probe.sound
    ]
    return judged("second_run", second.label, found, len(known), "warning")
