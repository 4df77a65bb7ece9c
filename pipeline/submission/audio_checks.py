"""Checks of what the files of a submission hold, each beside its original."""

from __future__ import annotations

from collections import Counter

from pipeline import audio
from pipeline.datasets import resemblance
from pipeline.datasets.probe import USUAL_RATE, is_narrow
from pipeline.datasets.resemblance import SAME_SECONDS
from pipeline.names import join_few
from pipeline.submission.findings import Check, Decoded, Named, Pair, Side, make_check

CUT, RUN_ON = 0.5, 2.0
"""Parts of the original's length outside of which a file was cut off, or runs on; voice conversion keeps within."""
FEWEST_TOPS = 2
"""So many flat tops at one height are clipping, below full scale too: a single one may be a slow wave."""
_SILENT = ("no-speech", "cancelling")


def check_audio(side: Side) -> list[Check]:
    """All of them."""
    every = [
        check_unreadable, check_silent, check_duration, check_header, check_rate, check_bandwidth, check_zeros, check_clipping,
        check_alike, check_unprotected, check_others,
    ]  # fmt: skip
    return [check(side) for check in every]


def check_unreadable(side: Side) -> Check:
    """Files that cannot be decoded whole."""
    return _of_kind(side, "unreadable", False)


def check_silent(side: Side) -> Check:
    """Files that hold no speech: too short, silent, or with channels that cancel each other."""
    return _of_kind(side, "silent", True)


def _of_kind(side: Side, name: str, is_silent: bool) -> Check:
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
    padded = [pair for pair in side.pairs if _padding(pair) >= audio.DIGITAL_SILENCE_MS]
    findings = [pair.named(f"{pair.mine.probe.silence_ms:g} ms of exact zeros at the ends") for pair in padded]
    longest = max((pair.mine.probe.silence_ms for pair in padded), default=0.0)
    text = f"{audio.DIGITAL_SILENCE_MS:g} ms or more at an end, up to {longest:.3g} ms in all"
    return make_check("zeros", side.label, findings, len(side.pairs), "warning", text)


def _padding(pair: Pair) -> float:
    return pair.mine.probe.silence_ms - pair.original.probe.silence_ms


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
    findings = [
        Named(str(row["utterance"]), str(row["set"]), f"the same audio as {_others(group, row['utterance'])}")
        for group in groups
        for row in group
    ]
    same = resemblance.find_identical(*side.compared)
    return make_check("alike", side.label, findings, same.files, summary="; ".join(same.sentences()))


def _others(group: resemblance.Rows, utterance: str) -> str:
    return join_few([f"{row['utterance']} of {row['set']}" for row in group if row["utterance"] != utterance], 3)


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
    taken = resemblance.find_taken(everyone, originals, rows, sounds, mine)
    findings = [
        Named(
            str(row["utterance"]),
            str(row["set"]),
            f"the original of {_owners(owners)}, of speaker {owners[0]['speaker']}",
        )
        for row, owners in taken
    ]
    return make_check("others", side.label, findings, len(side.pairs))


def _owners(owners: resemblance.Rows) -> str:
    return join_few([str(owner["utterance"]) for owner in owners], 3)


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
