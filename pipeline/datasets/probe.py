"""Every audio file is hashed and decoded once before any compute, so that no fault shows up hours later.

Decoding is cheap beside all that follows (mp3 at 16 kHz: about 6000 times real time on one core), and what it shows is
kept (:mod:`pipeline.datasets.audio_cache`). A file is decoded a block at a time, so that its length does not matter.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile

from pipeline import audio, containers
from pipeline.containers.source import Source, conversion, odd
from pipeline.errors import DataError
from pipeline.names import join_few
from pipeline.nets.embedding import SILENCE_DBFS

# Raised when other things are said of the same file.
VERSION = "audio probe 2"

# The shortest file from which every extractor makes something: ten frames of 10 ms.
SHORTEST_SECONDS = 0.1

# What speaker extractors are trained on; speech at a lower rate lacks a part of what they listen to.
USUAL_RATE = 16_000

# Speech at that rate that ends in between was made at 8 kHz, or passed a telephone; what ends below is no speech.
NARROW_HZ = 1_000.0, 4_500.0


@dataclass(frozen=True, slots=True)
class Probe:
    """What an audio file turned out to be: its rate in Hz, samples a channel and digest, or what is wrong with it.

    ``lasting`` says whether that is in the bytes of the file, and not in what the system made of them this time.
    """

    sample_rate: int = 0
    samples: int = 0
    sha256: str = ""
    kind: str = ""  # of the fault: '' if sound, else missing-audio, bad-audio, too-long, cancelling or no-speech
    problem: str = ""
    channels: int = 1
    clipped: bool = False
    lasting: bool = True
    sound: str = ""  # digest of what is heard, whatever the format and the zeros at the ends
    silence_ms: float = 0.0  # of exact zeros at both ends together, where an end has enough of them to count
    bandwidth: float = 0.0  # Hz above which there is nothing


def list_rules() -> dict[str, object]:
    """All that answers depend on beside the file and the source code."""
    return {
        "version": VERSION,
        "shortest_seconds": SHORTEST_SECONDS,
        "silence_dbfs": SILENCE_DBFS,
        "clipped_run": audio.CLIPPED_RUN,
        "cancelled": audio.CANCELLED,
        "rates": (audio.LOWEST_RATE, audio.HIGHEST_RATE),
        "most_channels": audio.MOST_CHANNELS,
        "digital_silence_ms": audio.DIGITAL_SILENCE_MS,
        "cut_off": (audio.NOTHING_DB, audio.CUT_DB),
        "decoder": str(soundfile.__libsndfile_version__),
    }


def probe_file(
    path: Path, longest_seconds: float = math.inf, hear: Callable[[np.ndarray, int], None] | None = None
) -> Probe:
    """Hold a file against its own counts, decode it to the end, and hash its bytes; ``hear`` as of :func:`audio.survey`."""
    try:
        if not path.is_file():
            problem = "is a folder" if path.is_dir() else "is a pipe or a device" if path.exists() else "is missing"
            return Probe(kind="missing-audio", problem=f"{path} {problem}", lasting=False)
        with audio.open_regular(path) as descriptor:
            is_checked, counted = containers.examine(Source(descriptor, path))
        heard = audio.survey(path, longest_seconds, hear)
        if not is_checked:
            raise odd(path, "is read by the decoder, but nothing tells whether it is whole")
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    except audio.TooLong as error:
        # Another limit gives another answer.
        return Probe(kind="too-long", problem=f"{path}: {error.what}", lasting=False)
    except DataError as error:
        cause = f" ({error.cause})" if error.cause else ""
        # What the decoder refuses may be for want of memory or of descriptors; what is said here has been counted.
        counted_here = error.__cause__ is None
        return Probe(kind="bad-audio", problem=f"{path}: {error.what}{cause}", lasting=counted_here)
    except OSError as error:
        return Probe(kind="bad-audio", problem=f"{path} cannot be read ({error.strerror})", lasting=False)
    kind, problem = _find_problem(path, heard, counted)
    if kind:
        return Probe(kind=kind, problem=f"{path} {problem}")
    padded = [1000 * samples / heard.rate for samples in heard.zeros]
    silence = round(sum(padded), 3) if max(padded) >= audio.DIGITAL_SILENCE_MS else 0.0
    return Probe(
        heard.rate,
        heard.samples,
        digest,
        channels=heard.channels,
        clipped=heard.clipped,
        sound=heard.sound,
        silence_ms=silence,
        bandwidth=heard.bandwidth,
    )


def limit_length(probe: Probe, path: Path, longest_seconds: float) -> Probe:
    """What was found, perhaps under another limit, under this one."""
    if probe.kind or probe.samples <= longest_seconds * probe.sample_rate:
        return probe
    problem = audio.explain_too_long(probe.samples / probe.sample_rate, longest_seconds, path).what
    return Probe(kind="too-long", problem=f"{path}: {problem}", lasting=False)


def _find_problem(path: Path, heard: audio.Survey, counted: int | None) -> tuple[str, str]:
    """Kind and words of what is wrong with a file that can be decoded."""
    if counted is not None and counted != heard.samples:
        return "bad-audio", f"is not decoded whole: it holds {counted} samples, {heard.samples} of which can be read"
    if heard.samples < SHORTEST_SECONDS * heard.rate:
        short = f"{heard.samples} samples at {heard.rate} Hz are less than {SHORTEST_SECONDS} s"
        return "no-speech", f"is too short: {short}"
    if heard.channels_dbfs < SILENCE_DBFS:
        return "no-speech", f"is silent: below {SILENCE_DBFS:g} dBFS"
    if heard.cancelling:
        levels = f"each at {heard.channels_dbfs:.0f} dBFS on average, their mean at {heard.level_dbfs:.0f} dBFS"
        first = conversion(path, effects="-af 'pan=mono|c0=c0'")
        return "cancelling", (
            f"has {heard.channels} channels that cancel each other when they are mixed ({levels}); to keep the first: {first}"
        )
    if heard.level_dbfs < SILENCE_DBFS:
        return "no-speech", f"is silent: below {SILENCE_DBFS:g} dBFS"
    return "", ""


def is_narrow(probe: Probe) -> bool:
    """Whether a file lacks the upper half of what its sampling rate could hold."""
    return probe.sample_rate >= USUAL_RATE and NARROW_HZ[0] <= probe.bandwidth <= NARROW_HZ[1]


def describe_probes(probes: Mapping[Path, Probe]) -> list[str]:
    """What a reader should know of the sound files among these: low sampling rates, narrow bands, mixed channels, clipping,
    digital silence, with counts."""
    sound = {path: probe for path, probe in probes.items() if not probe.kind}
    sentences = []
    low = Counter(probe.sample_rate for probe in sound.values() if probe.sample_rate < USUAL_RATE)
    if low:
        rates = ", ".join(f"{rate} Hz: {count}" for rate, count in sorted(low.items()))
        sentences.append(
            f"{low.total()} of {len(sound)} files are sampled below {USUAL_RATE // 1000} kHz ({rates}): they are used, "
            f"but hold nothing above half their rate, where speaker extractors listen too"
        )
    narrow = sorted((probe.bandwidth, str(path)) for path, probe in sound.items() if is_narrow(probe))
    if narrow:
        sentences.append(
            f"{len(narrow)} of {len(sound)} files are written at {USUAL_RATE // 1000} kHz or more and hold nothing above "
            f"{narrow[-1][0] / 1000:.1f} kHz, as speech that was sampled at 8 kHz or sent over a telephone, e.g. "
            f"{join_few([Path(path).name for _, path in narrow], 3)}: extractors miss what they were trained to hear there"
        )
    mixed = Counter(probe.channels for probe in sound.values() if probe.channels > 1)
    if mixed:
        counts = ", ".join(f"{channels} channels: {count}" for channels, count in sorted(mixed.items()))
        sentences.append(f"{mixed.total()} of {len(sound)} files have several channels ({counts}): mixed to their mean")
    clipped = sorted(path for path, probe in sound.items() if probe.clipped)
    if clipped:
        sentences.append(
            f"{len(clipped)} of {len(sound)} files are clipped ({audio.CLIPPED_RUN} or more consecutive samples at full "
            f"scale): they are used as they are, e.g. {clipped[0]}"
        )
    padded = {path: probe.silence_ms for path, probe in sound.items() if probe.silence_ms}
    if padded:
        longest = max(sorted(padded), key=padded.__getitem__)
        sentences.append(
            f"{len(padded)} of {len(sound)} files begin or end with exact zeros ({audio.DIGITAL_SILENCE_MS:g} ms or more), e.g. "
            f"{longest} ({padded[longest]:.3g} ms): an extractor with trim_zeros=true drops them, any other hears them"
        )
    return sentences
