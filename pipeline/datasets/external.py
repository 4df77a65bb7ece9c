"""Somebody's anonymised audio: what ``SET_suffix/wav.scp`` names, ``SET_suffix/wav/UTTERANCE.wav`` or any ``**/UTTERANCE.ext``, checked
against the manifest.

The table of a copy comes first: VoicePrivacy 2020 and 2022 leave the audio of some baselines elsewhere. It is read as that of an
original set is, with its segments, and its commands are parsed and not run. A table that was copied from the original set and names the
original recordings is none of the copy's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pandas as pd

from pipeline.datasets import probe as probing
from pipeline.datasets import resemblance
from pipeline.datasets.audio_cache import NO_CACHE, AudioCache
from pipeline.datasets.corpus import Dropped
from pipeline.datasets.external_copy import Copy, Gaps, Row
from pipeline.datasets.external_files import Cutting, list_files
from pipeline.datasets.resemblance import Doubt, IdenticalAudio
from pipeline.faults import Faults
from pipeline.tables import manifest as manifests


@dataclass(frozen=True, eq=False)
class CheckedCopy:
    """An anonymised copy of a data set.

    Attributes:
        manifest: the rows of the original's manifest, with path, rate, samples and digest of the anonymised files.
        dropped: utterances without a sound file (``allow_partial``).
        notes: what was noticed: files that are not used.
        same: which of the files hold one sound where the originals do not, and what else is no anonymised speech.
        sounds: digest of what is heard in a file, by the digest of its bytes.
        limits: what a reader of the numbers must know first: where files were read from, how they differ from the originals.
    """

    manifest: pd.DataFrame
    dropped: tuple[Dropped, ...] = ()
    notes: tuple[str, ...] = ()
    same: IdenticalAudio = field(default_factory=IdenticalAudio)
    sounds: Mapping[str, str] = field(default_factory=dict)
    limits: tuple[str, ...] = ()

    def doubted(self, doubts: Iterable[Doubt]) -> CheckedCopy:
        """The same copy, with further doubts."""
        return replace(self, same=replace(self.same, doubts=(*self.same.doubts, *doubts)))


def read_copy(
    copy: Copy,
    manifest: pd.DataFrame,
    allow_partial: bool = False,
    threads: int = 1,
    cache: AudioCache = NO_CACHE,
    sounds: Mapping[str, str] = {},
    everyone: pd.DataFrame | None = None,
    recordings: Path | None = None,
) -> CheckedCopy:
    """Find and check the anonymised file of each row of a manifest.

    A set's files are those that ``wav.scp`` names in ``root/SET`` followed by a suffix, the same for all sets ('' or ``_…``). What it
    does not name is looked for below that folder, at any depth; if no set has such a folder, anywhere under ``root``. The file's stem is
    the utterance's id (blanks as '_'), or what the pattern makes of it; or its folders and its stem joined by '-' are, as in a tree whose
    names repeat.

    Args:
        copy: where it lies.
        manifest: what has to be there.
        allow_partial: leave out utterances whose file is missing or has a fault.
        threads: files that are read at a time.
        known: what earlier looks at the files found.
        sounds: digests of what is heard in the originals, by the digest of the file.
        everyone: the originals that a file may hold by mistake; by default those of the manifest.
        recordings: where segments and what lies in archives are written as files.

    Raises:
        DataError: with all faults.
    """
    faults = Faults(copy.kinds(), "the anonymised audio has")
    gaps = Gaps(allow_partial, faults)
    files = list_files(copy, manifest, gaps, Cutting(recordings, threads, cache))
    folder, probed = files.folder, cache.probes((path for _, path in files.chosen), threads)
    rows: list[Row] = []
    originals: list[Row] = []
    for row, path in files.chosen:
        probe = probed[path]
        if probe.kind:
            gaps.add(row, probe.problem, probe.kind, path)
            continue
        measures = {"sample_rate": probe.sample_rate, "samples": probe.samples, "sha256": probe.sha256}
        rows.append({**row, "path": str(path), **measures})
        originals.append(row)
    if not rows and not faults.found:
        faults.add("empty", "no utterance is left", folder)
    mine = {probe.sha256: probe.sound for probe in probed.values()}
    beside = resemblance.compare_with_originals(originals, rows, sounds, mine, threads, cache.folder)
    for kind, what in beside.faults():
        faults.add(kind, what, folder)
    faults.stop(folder)
    same = resemblance.find_identical(originals, rows, sounds, mine)
    notes = (*files.notes, *_describe_unused(folder, files.unused))
    limits = (*files.limits, *beside.lengths(), *probing.describe_probes(probed))
    checked = CheckedCopy(manifests.frame(rows), tuple(sorted(gaps.dropped)), notes, same, mine, limits)
    others = originals if everyone is None else everyone.to_dict("records")
    return checked.doubted(
        (*beside.doubts(copy.training), *resemblance.doubt_taken(others, originals, rows, sounds, mine))
    )


def _describe_unused(folder: Path, unused: Sequence[Path]) -> Iterator[str]:
    if unused:
        yield (
            f"{len(unused)} audio files under {folder} belong to no utterance of the data set and are not used, "
            f"e.g. {unused[0].relative_to(folder)}"
        )
