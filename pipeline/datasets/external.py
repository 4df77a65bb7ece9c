"""Somebody's anonymised audio: ``SET_suffix/wav/UTTERANCE.wav`` or any ``**/UTTERANCE.ext``, checked against the manifest."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.datasets import corpus
from pipeline.datasets import probe as probing
from pipeline.datasets.corpus import Dropped
from pipeline.datasets.known import NOTHING_KNOWN, KnownFiles
from pipeline.datasets.librispeech import audio_files, legal_id
from pipeline.faults import Faults
from pipeline.tables import manifest as manifests

Row = dict[str, Any]
"""A row of a manifest."""


@dataclass(frozen=True, eq=False)
class External:
    """An anonymised copy of a data set.

    Attributes:
        manifest: the rows of the original's manifest, with path, rate, samples and digest of the anonymised files.
        dropped: utterances without a sound file (``allow_partial``).
        notes: what a reader of the report should know, e.g. durations that changed.
    """

    manifest: pd.DataFrame
    dropped: tuple[Dropped, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Copy:
    """Where an anonymised copy lies: its root and the folders' suffix, and whether it is of the training set."""

    root: str
    suffix: str | None = None
    training: bool = False


def read(
    root: str | Path,
    manifest: pd.DataFrame,
    suffix: str | None = None,
    allow_partial: bool = False,
    threads: int = 1,
    known: KnownFiles = NOTHING_KNOWN,
) -> External:
    """Find and check the anonymised file of each row of a manifest.

    A set's files are looked for under ``root/SET`` followed by a suffix, the same for all sets ('' or ``_…``), at any depth;
    if no set has such a folder, anywhere under ``root``. The file's stem is the utterance's id (blanks as '_').

    Args:
        root: the folder of the system's audio.
        manifest: what has to be there.
        suffix: the folders' suffix; by default the only one that there is.
        allow_partial: leave out utterances whose file is missing or has a fault.
        threads: files that are read at a time.
        known: what earlier looks at the files found.

    Raises:
        DataError: with all faults.
    """
    faults = Faults()
    folder = Path(root).expanduser().absolute()
    if not str(root) or not folder.is_dir():
        faults.add("root", f"there is no folder '{root}' of anonymised audio", "system.<label>.root")
        faults.stop(root or "system.<label>.root")
    places = _places(folder, sorted(manifest["set"].unique()), suffix, faults)
    files = {place: _by_id(place) for place in set(places.values())}
    lost = _Lost(allow_partial, faults)
    chosen = list(_chosen(manifest, folder, places, files, lost))
    probed = known.probes((path for _, path in chosen), threads)
    rows: list[Row] = []
    originals: list[Row] = []
    for row, path in chosen:
        probe = probed[path]
        if probe.kind:
            lost.add(row, probe.problem, probe.kind, path)
            continue
        audio = {"sample_rate": probe.sample_rate, "samples": probe.samples, "sha256": probe.sha256}
        rows.append({**row, "path": str(path), **audio})
        originals.append(row)
    if not rows and not faults.found:
        faults.add("empty", "no utterance is left", folder)
    faults.stop(folder)
    notes = [*_compared(originals, rows), *_unused(folder, files, {path for _, path in chosen}), *probing.notes(probed)]
    return External(manifests.frame(rows), tuple(sorted(lost.dropped)), tuple(notes))


class _Lost:
    """Utterances without a sound file: faults, or left out under ``allow_partial``."""

    def __init__(self, allow_partial: bool, faults: Faults) -> None:
        self.allow_partial, self.faults = allow_partial, faults
        self.dropped: list[Dropped] = []

    def add(self, row: Row, problem: str, kind: str, where: Path) -> None:
        """One more."""
        if self.allow_partial:
            self.dropped.append(Dropped(str(row["utterance"]), str(row["set"]), problem))
        else:
            self.faults.add(kind, f"utterance '{row['utterance']}' of {row['set']}: {problem}", where)


def _chosen(
    manifest: pd.DataFrame,
    folder: Path,
    places: Mapping[str, Path],
    files: Mapping[Path, Mapping[str, list[Path]]],
    lost: _Lost,
) -> Iterator[tuple[Row, Path]]:
    """The file of each row; rows that have none, several, or one that lies elsewhere are faults."""
    faults, fence = lost.faults, corpus.Fence(folder)
    for record in manifest.to_dict("records"):
        row = {str(key): value for key, value in record.items()}
        if row["set"] not in places:
            continue
        place = places[row["set"]]
        found = files[place].get(row["utterance"], [])
        if len(found) > 1:
            several = ", ".join(str(path.relative_to(folder)) for path in found)
            text = f"utterance '{row['utterance']}' of {row['set']} has {len(found)} files: {several}"
            faults.add("ambiguous", text, place)
        elif not found:
            lost.add(row, f"no file {row['utterance']}.ext under {place}", "missing-audio", place)
        elif not fence.holds(found[0]):
            faults.add("leaves-root", f"a link leads out of {folder}, to {os.path.realpath(found[0])}", found[0])
        else:
            yield row, found[0]


def _compared(originals: Sequence[Row], rows: Sequence[Row]) -> Iterator[str]:
    """What a reader should know of the files beside the originals, row by row."""
    longer = [
        row["samples"] / row["sample_rate"] - original["samples"] / original["sample_rate"]
        for original, row in zip(originals, rows)
    ]
    changed = [off for off in longer if abs(off) > 0.010]
    if changed:
        yield (
            f"{len(changed)} of {len(longer)} anonymised files differ in length by more than 10 ms, "
            f"from {min(changed):+.2f} s to {max(changed):+.2f} s"
        )
    same = sum(row["sha256"] == original["sha256"] for original, row in zip(originals, rows))
    if same:
        yield f"{same} of {len(longer)} files are byte for byte those of the original: not anonymised"


def _unused(folder: Path, files: Mapping[Path, Mapping[str, list[Path]]], used: Collection[Path]) -> Iterator[str]:
    extra = sum(len(several) for by_id in files.values() for several in by_id.values()) - len(used)
    if extra:
        yield f"{extra} audio files under {folder} belong to no utterance of the data set and are not used"


def _by_id(place: Path) -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = defaultdict(list)
    for path in audio_files(place):
        found[legal_id(path.stem)].append(path)
    return found


def _places(root: Path, sets: list[str], suffix: str | None, faults: Faults) -> dict[str, Path]:
    """The folder to search for each set; sets without one are faults."""
    if suffix is None:
        names = [folder.name for folder in sorted(root.iterdir()) if folder.is_dir()]
        having: dict[str, int] = defaultdict(int)
        for name in names:
            for one in sets:
                # vctk_dev_trials_f_common is no copy of vctk_dev_trials_f.
                longer = any(name.startswith(other) and other.startswith(f"{one}_") for other in sets)
                if (name == one or name.startswith(f"{one}_")) and not longer:
                    having[name.removeprefix(one)] += 1
        if not having:
            return dict.fromkeys(sets, root)
        most = max(having.values())
        best = sorted(tail for tail, count in having.items() if count == most)
        if len(best) > 1:
            faults.add(
                "ambiguous",
                f"the folders have several suffixes ({', '.join(repr(tail) for tail in best)}); choose one "
                f"by system.<label>.suffix",
                root,
            )
            return {}
        suffix = best[0]
    for one in sets:
        if not (root / f"{one}{suffix}").is_dir():
            faults.add("missing-audio", f"there is no folder {one}{suffix} for the set {one}", root)
    return {one: root / f"{one}{suffix}" for one in sets if (root / f"{one}{suffix}").is_dir()}
