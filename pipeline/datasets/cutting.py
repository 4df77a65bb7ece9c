"""Utterances that are no files of their own, places in archives and segments of recordings, written as files: once, and without loss.

All that follows then reads plain files. They lie in a folder of the store, ``XX/<digest of what they come from>/<which part>.<sha256 of
the file>.wav``: where the source changes they are others, a file that is not what its name says is made again, and what was interrupted
goes on. Of an archive (``key RIFF…`` of Kaldi, ``key AUDIO…`` of kaldiio) the bytes of an entry are copied as they are, so that nothing
is decoded, and nothing unpickled, as kaldiio would. A recording is decoded once for all its segments.
"""

from __future__ import annotations

import functools
import logging
import os
import re
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from pipeline import audio, files
from pipeline.audio.decoding import open_stream, read_blocks
from pipeline.datasets.audio_cache import AudioCache
from pipeline.datasets.listings import Listing, Utterance
from pipeline.datasets.parallel import RACY_NS
from pipeline.names import join_few
from pipeline.seeds import digest

VERSION = "extracted utterances 1"
_FILE_NAME = re.compile(r"(.+)\.([0-9a-f]{64})\.(?:wav|flac)")
_STALE_SECONDS = 24 * 3600

_WIDTHS: dict[str, audio.Subtype] = dict.fromkeys(("PCM_S8", "PCM_U8", "PCM_16"), "PCM_16") | {"PCM_24": "PCM_24"}  # type: ignore[assignment]
"""Subtypes that integers hold; of any other, what is decoded is kept as it is: 32-bit floating point."""

log = logging.getLogger(__name__)


class Part(NamedTuple):
    """A part of a recording: its first sample, the one behind its last, and its channel, -1 for all."""

    start: int
    stop: int
    channel: int

    @property
    def name(self) -> str:
        return f"{self.start}-{self.stop}" + (f"-{self.channel}" if self.channel >= 0 else "")


def write_parts(listing: Listing, folder: Path | None, threads: int, cache: AudioCache) -> None:
    """Have each row of a listing that is a place in an archive or a segment name a file of its own, and write what is missing.

    Args:
        listing: what an importer read; faults and notes are added to it.
        folder: where the files are kept.
        threads: recordings that are decoded at a time.
        cache: what earlier looks at files found.

    Raises:
        Changed: a recording was written to meanwhile.
    """
    rows = listing.utterances
    if not any(row.path and (row.segment or _offset(row) is not None) for row in rows):
        return
    if folder is None:
        raise ValueError("segments and places in archives need a folder to be written to")
    taken = _take_from_archives(listing, folder, cache)
    cut = _cut_recordings(listing, folder, threads, cache)
    paths = {path for path in (*taken, *cut) if path.is_file()}
    size = sum(path.stat().st_size for path in paths)
    if paths:
        counted = Counter("cut out of recordings (segments)" if row.segment else "taken out of archives"
                          for row in listing.utterances if row.path in paths)  # fmt: skip
        counts = " and ".join(f"{count} are {origin}" for origin, count in sorted(counted.items()))
        listing.notes.append(
            f"utterances that are no files of their own are written as such, without loss: {counts}; they take "
            f"{size / 1e6:,.1f} MB in {folder}"
        )


# Archives ------------------------------------------------------------------------------------------------------------


def _take_from_archives(listing: Listing, folder: Path, cache: AudioCache) -> list[Path]:
    """Name the file of each place in an archive; what does not lie there is a fault."""
    places: dict[Path, set[int]] = defaultdict(set)
    for row in listing.utterances:
        # Of an archive that is missing, the file is asked for as any other, and said to be missing.
        offset = _offset(row)
        if row.path and offset is not None and row.path.is_file():
            places[row.path].add(offset)
    entries = {archive: _entries(archive, offsets, folder, cache) for archive, offsets in places.items()}
    rows = []
    for row in listing.utterances:
        offset = _offset(row)
        if row.path in entries and offset is not None:
            entry = entries[row.path][offset]
            if isinstance(entry, str):
                listing.faults.add("archive", f"utterance '{row.utterance}': {row.path}:{offset} {entry}", row.where)
            row = replace(row, path=entry if isinstance(entry, Path) else None)
        rows.append(row)
    listing.utterances = rows
    return [entry for paths in entries.values() for entry in paths.values() if isinstance(entry, Path)]


def _offset(row: Utterance) -> int | None:
    return row.entry.offset if row.entry else None


def _entries(archive: Path, offsets: Iterable[int], folder: Path, cache: AudioCache) -> dict[int, Path | str]:
    """The file of each place in an archive, or what is wrong with the place."""
    entries: dict[int, Path | str] = {}
    try:
        home = _make_folder(folder, "archive", _digest(archive, folder))
        present = _find_files(home, [str(offset) for offset in offsets], cache)
        with files.open_regular(archive) as stream:
            size = os.fstat(stream.fileno()).st_size
            for offset in sorted(offsets):
                if str(offset) in present:
                    entries[offset] = present[str(offset)]
                    continue
                start, length, problem = _place(stream, offset, size)
                if problem:
                    entries[offset] = problem
                    continue
                stream.seek(start)
                content = stream.read(length)
                ending = "flac" if content[:4] == b"fLaC" else "wav"
                entries[offset] = _keep_file(
                    home, str(offset), ending, functools.partial(Path.write_bytes, data=content)
                )
    except OSError as error:
        if error.filename is None or Path(str(error.filename)) != archive:
            raise
        return dict.fromkeys(offsets, f"cannot be read ({error.strerror})")
    return entries


def _place(stream: BinaryIO, offset: int, size: int) -> tuple[int, int, str]:
    """Where the audio file that an entry is begins, how many bytes it has, and what is wrong with it."""
    stream.seek(offset)
    head = stream.read(16)
    start, length = offset, -1
    if head[:4] == b"RIFF" and len(head) >= 12:
        length = 8 + int.from_bytes(head[4:8], "little")
    elif head[:5] == b"AUDIO" and len(head) >= 6 and head[5] <= 8:
        start = offset + 6 + head[5]
        length = int.from_bytes(head[6 : 6 + head[5]], "little")
    if length < 0:
        beyond = f"lies behind the end of the archive, which has {size} bytes" if offset >= size else ""
        return 0, 0, beyond or "is no recording: neither RIFF (Kaldi) nor AUDIO (kaldiio) stands there"
    if start + length > size:
        return 0, 0, f"ends early: {length} bytes are to stand there, and {size - start} do"
    return start, length, ""


def _digest(archive: Path, folder: Path) -> str:
    """sha256 of a file, kept by its path, size, inode and times, where these have settled."""
    state = _read_file_state(archive)
    memory = folder / "archives" / digest(str(archive), state)
    with suppress(OSError, ValueError):
        digest_kept = memory.read_text("ascii")
        if re.fullmatch(r"[0-9a-f]{64}", digest_kept):
            return digest_kept
    settled = time.time_ns() - max(state[-2:]) >= RACY_NS
    digest_now = files.file_digest(archive)
    if settled and _read_file_state(archive) == state:
        memory.parent.mkdir(parents=True, exist_ok=True)
        files.write_atomically(memory, digest_now)
    return digest_now


# Segments ------------------------------------------------------------------------------------------------------------


def _cut_recordings(listing: Listing, folder: Path, threads: int, cache: AudioCache) -> list[Path]:
    """Name the file of each segment; one that does not lie in its recording is a fault.

    A segment of a recording with a fault keeps the path of that: whoever reads the file says what is wrong with it.
    """
    probes = cache.probes((row.path for row in listing.utterances if row.path and row.segment), threads)
    rows: list[Utterance] = []
    parts: list[Part | None] = []
    wanted: dict[Path, set[Part]] = defaultdict(set)
    over = 0
    for row in listing.utterances:
        part = None
        if row.path and row.segment and not probes[row.path].kind:
            probe = probes[row.path]
            try:
                start, stop = row.segment.samples(probe.sample_rate, probe.samples)
                channel = -1 if row.segment.channel is None else row.segment.channel
                if channel >= probe.channels:
                    raise ValueError(f"channel {channel} is wanted, and the recording has {probe.channels}, from 0 on")
                part = Part(start, stop, channel)
                wanted[row.path].add(part)
                over += row.segment.end is not None and row.segment.end * probe.sample_rate >= probe.samples + 1
            except ValueError as error:
                listing.faults.add("segments", f"segment '{row.utterance}': {error}", row.where)
                row = replace(row, path=None)
        rows.append(row)
        parts.append(part)
    if over:
        listing.notes.append(f"{over} segments end up to 0.5 s behind their recordings, and are taken to end with them")
    _note_overlaps(listing, rows, parts)
    cuts: dict[tuple[Path, Part], Path] = {}
    # Nothing is written for data that are refused.
    if not listing.faults.found:
        with ThreadPoolExecutor(max(1, threads)) as pool:
            jobs = {
                path: pool.submit(_cut_recording, path, probes[path].sha256, spans, folder, cache)
                for path, spans in wanted.items()
            }
            try:
                for path, job in jobs.items():
                    cuts |= {(path, part): cut for part, cut in job.result().items()}
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    listing.utterances = [
        replace(row, path=cuts.get((row.path, part))) if row.path and part else row for row, part in zip(rows, parts)
    ]
    return list(cuts.values())


def _note_overlaps(listing: Listing, rows: Sequence[Utterance], parts: Sequence[Part | None]) -> None:
    """Say which segments share samples: a trial between them compares a recording with itself, in part."""
    by_recording: dict[tuple[Path | None, int], dict[str, Part]] = defaultdict(dict)
    for row, part in zip(rows, parts):
        if part:
            by_recording[row.path, part.channel][row.utterance] = part
    pairs = []
    for spans in by_recording.values():
        reaches, last = 0, ""
        for part, utterance in sorted((part, utterance) for utterance, part in spans.items()):
            if part.start < reaches:
                pairs.append(f"{utterance} and {last}")
            if part.stop > reaches:
                reaches, last = part.stop, utterance
    if pairs:
        listing.notes.append(
            f"{len(pairs)} segments overlap with one before them, e.g. {join_few(pairs, 3)}: a trial between two such "
            f"compares a recording with itself"
        )


def _cut_recording(
    recording: Path, sha256: str, parts: Iterable[Part], folder: Path, cache: AudioCache
) -> dict[Part, Path]:
    """The file of each part of a recording."""
    home = _make_folder(folder, "recording", sha256)
    present = _find_files(home, [part.name for part in parts], cache)
    cuts = {part: present[part.name] for part in parts if part.name in present}
    lacking = sorted(set(parts) - set(cuts))
    if lacking:
        before = _read_file_state(recording)
        is_same = files.file_digest(recording) == sha256
        if is_same:
            cuts |= _decode_parts(recording, lacking, home)
        if not is_same or _read_file_state(recording) != before:
            cache.doubt([recording])
            raise audio.Changed(
                "a recording is not what it was when the data were read",
                where=str(recording),
                cause="it was changed or copied over meanwhile",
                remedy="run the same command again; what was cut of other recordings is kept",
            )
    return cuts


def _decode_parts(recording: Path, parts: Sequence[Part], home: Path) -> dict[Part, Path]:
    """Decode a recording to its end, and write its parts, in the order in which they begin."""
    paths: dict[Part, Path] = {}
    with open_stream(recording) as sound:
        subtype, rate, place = _WIDTHS.get(sound.subtype, "FLOAT"), int(sound.samplerate), 0
        pieces: dict[Part, list[np.ndarray]] = {part: [] for part in parts}
        for block, _ in read_blocks(sound, recording):
            end = place + len(block)
            for part in [part for part in pieces if part.start < end]:
                piece = block[max(part.start - place, 0) : part.stop - place]
                pieces[part].append((piece if part.channel < 0 else piece[:, [part.channel]]).copy())
                if part.stop <= end:
                    wave = np.concatenate(pieces.pop(part))
                    paths[part] = _keep_file(
                        home, part.name, "wav", functools.partial(audio.write, wave=wave, rate=rate, subtype=subtype)
                    )
            place = end
    return paths


def _read_file_state(path: Path) -> tuple[int, ...]:
    """By what a file is told to be as it was; the times in nanoseconds come last."""
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


# Files ---------------------------------------------------------------------------------------------------------------


def _make_folder(folder: Path, kind: str, sha256: str) -> Path:
    """The folder for what comes out of one source; what a kill left there is removed after a day."""
    name = digest("taken out", VERSION, kind, sha256)
    home = folder / name[:2] / name
    home.mkdir(parents=True, exist_ok=True)
    for leftover in home.glob(".*"):
        with suppress(OSError):
            if files.read_clock(home) - leftover.stat().st_mtime > _STALE_SECONDS:
                leftover.unlink()
    return home


def _find_files(home: Path, names: Iterable[str], cache: AudioCache) -> dict[str, Path]:
    """The files that are there, by what they are of; one that is not what its name says is removed."""
    wanted = set(names)
    candidates = {match[1]: (path, match[2]) for path in home.iterdir()
             if (match := _FILE_NAME.fullmatch(path.name)) and match[1] in wanted}  # fmt: skip
    probes = cache.probes(path for path, _ in candidates.values())
    sound = {}
    for name, (path, sha256) in candidates.items():
        # Of a file with a fault, such as silence, nothing says its digest.
        if (probes[path].sha256 or files.file_digest(path)) == sha256:
            sound[name] = path
        else:
            log.warning("%s is damaged, and made again", path)
            path.unlink()
    return sound


def _keep_file(home: Path, name: str, ending: str, write: Callable[[Path], object]) -> Path:
    """Write a file, and give it the name that says what it holds."""
    temporary = home / f".{uuid.uuid4().hex}"
    try:
        write(temporary)
        files.sync_to_disk(temporary)
        return temporary.replace(home / f"{name}.{files.file_digest(temporary)}.{ending}")
    finally:
        temporary.unlink(missing_ok=True)
