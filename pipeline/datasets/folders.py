"""A tree with a folder a speaker: ``SPEAKER/**/FILE.ext``, as FSDD, VCTK, VoxCeleb and most corpora can be laid out.

There are no lists: each speaker's files are halved into enrolment and trial (:func:`pipeline.datasets.corpus.halved`). An utterance is
called like its file; where two files of the tree have one name, all are called by their folders too (``SPEAKER-VIDEO-00001``). The sex
of speakers stands in the table ``dataset.sexes`` (:mod:`pipeline.datasets.sexes`).
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from pipeline import audio
from pipeline.datasets import corpus, levels, sexes
from pipeline.datasets import librispeech as trees
from pipeline.datasets.corpus import Listed, Listing
from pipeline.datasets.settings import DatasetSettings
from pipeline.names import make_id, normalise_name, quote_override

_MICROPHONE = re.compile(r"_mic\d+$")


def add(settings: DatasetSettings, root: Path, listing: Listing) -> None:
    """List the tree ``root`` for evaluation; the data set's name is the folder's.

    Raises:
        DataError: it is no such tree; with the faults so far.
    """
    files = trees.audio_files(root)
    rows = _tree(settings, root, files, "dataset.root", listing, settings.sexes, settings.files)
    speakers = {row.speaker for row in rows}
    if len(speakers) == 1:
        what = f"all audio lies below one folder, '{rows[0].speaker}', which makes one speaker, and trials need several"
        listing.faults.add("no-speaker-folder", what, root)
    if len(speakers) < 2:
        listing.faults.stop(root)
    _note_microphones(rows, listing)
    trees.evaluate(settings, root, rows, listing)


def add_training(settings: DatasetSettings, folder: Path, files: Sequence[Path], listing: Listing) -> None:
    """List a tree, of which these are the audio files, as training set of the folder's name.

    ``dataset.sexes`` is of the speakers who are evaluated.
    """
    trees.train(folder, _tree(settings, folder, files, "dataset.train", listing, None, "*"), listing)


def fits(folder: Path, files: Sequence[Path]) -> bool:
    """Whether a folder with these audio files is such a tree and none of LibriSpeech's layout: it is no deeper, and its files lie
    otherwise or share names."""
    depths = {len(path.relative_to(folder).parts) for path in files}
    unique = len({make_id(path.stem) for path in files}) == len(files)
    return bool(depths) and depths <= {2, 3} and not (depths == {3} and unique)


def _tree(
    settings: DatasetSettings,
    root: Path,
    every: Sequence[Path],
    key: str,
    listing: Listing,
    table: str | None,
    chosen: str,
) -> list[Listed]:
    """The utterances of a tree, their set and role still open; none if it is no such tree, which is a fault.

    ``key`` is the setting that named the root, for messages.
    """
    faults = listing.faults
    files = [path for path in every if fnmatch.fnmatchcase(normalise_name(path.name), normalise_name(chosen))]
    if len(files) < len(every):
        listing.notes.append(f"{len(every) - len(files)} of {len(every)} files are left out by dataset.files={chosen}")
    parts = {path: path.relative_to(root).parts for path in files}
    loose = [path for path in files if len(parts[path]) < 2]
    if not files:
        what = f"none of {len(every)} files is called {chosen}" if every else "the folder holds no audio"
        faults.add("empty", f"{what} ({' '.join(audio.EXTENSIONS)})", root)
        return []
    said, below = levels.too_high(list(parts.values()))
    if said:
        faults.add("level", f"{said}{levels.advised(root, key, below)}", root)
        return []
    if loose:
        what = "all audio lies" if len(loose) == len(files) else f"{len(loose)} audio files lie"
        faults.add(
            "no-speaker-folder", f"{what} in the root itself, in no speaker's folder, e.g. {loose[0].name}", root
        )
    kept = [path for path in files if len(parts[path]) > 1]
    names = ids([parts[path] for path in kept])
    speakers = {make_id(parts[path][0]) for path in kept}
    known = sexes.read(table, root, speakers, listing) if kept else {}
    rows, first = [], dict[str, Path]()
    fence = corpus.Fence(root, settings.follow_links)
    for path, name in zip(kept, names):
        before = first.setdefault(name, path)
        if before is not path:
            faults.add("duplicate-id", f"the id '{name}' is taken by {before}", path)
            continue
        place: Path | None = path
        if not fence.holds(path):
            faults.add("link", f"a link leads out of the tree, to '{os.path.realpath(path)}'", path)
            place = None
        speaker = make_id(parts[path][0])
        rows.append(Listed("", "", name, speaker, known.get(speaker, "u"), place, str(path), 0))
    return rows


def _note_microphones(rows: Sequence[Listed], listing: Listing) -> None:
    """Say that several files are of one utterance, where their names tell (VCTK: ``…_mic1``, ``…_mic2``)."""
    alike: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        found = _MICROPHONE.search(row.utterance)
        if found:
            alike[row.utterance[: found.start()]].append(row.utterance)
    several = [names for names in alike.values() if len(names) > 1]
    if several:
        last = several[0][-1]
        ending = last[last.rindex("_mic") :]
        listing.notes.append(
            f"{len(several)} utterances were recorded by several microphones, e.g. {' and '.join(several[0][:2])}: one recording may "
            f"be enrolled and the other tried, which no attacker can hope for. "
            f"{quote_override('dataset.files', f'*{ending}.*')} keeps one of them"
        )


def ids(places: Sequence[tuple[str, ...]]) -> list[str]:
    """Ids of files, given the parts of their paths below the root: their stems, or all parts where two stems are one."""
    stems = [make_id(Path(parts[-1]).stem) for parts in places]
    if len(set(stems)) == len(stems):
        return stems
    return ["-".join([*map(make_id, parts[:-1]), stem]) for parts, stem in zip(places, stems)]
