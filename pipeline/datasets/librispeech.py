"""A LibriSpeech tree: ``SPEAKER/CHAPTER/UTTERANCE.ext``, with ``SPEAKERS.TXT`` in the root or its parent.

There are no lists: each speaker's utterances are halved into enrolment and trial (:func:`pipeline.datasets.corpus.halved`).
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pipeline import audio
from pipeline.datasets import corpus, levels, sexes, trial_lists
from pipeline.datasets.corpus import Listed, Listing
from pipeline.datasets.settings import DatasetSettings
from pipeline.names import make_id, normalise_name


def audio_files(root: Path) -> list[Path]:
    """All audio files under a folder, by extension in either case, in the order of their relative paths.

    Links are followed, each folder once; names that begin with '.' are no data (macOS leaves ``._X.flac`` beside X.flac).
    """
    found, seen = [], set()
    for folder, below, names in os.walk(root, followlinks=True):
        real = os.path.realpath(folder)
        if real in seen:
            below.clear()
            continue
        seen.add(real)
        below[:] = sorted(name for name in below if not name.startswith("."))
        found += [
            Path(folder, name) for name in names if not name.startswith(".") and name.lower().endswith(audio.EXTENSIONS)
        ]
    return sorted(found)


def add(settings: DatasetSettings, root: Path, listing: Listing) -> None:
    """List the tree ``root`` for evaluation; the data set's name is the folder's (test-other).

    Raises:
        DataError: it is no such tree; with the faults so far.
    """
    rows = _tree(settings, root, audio_files(root), "dataset.root", settings.sexes, listing)
    if not rows:
        listing.faults.stop(root)
    evaluate(settings, root, rows, listing)


def add_training(settings: DatasetSettings, folder: Path, files: Sequence[Path], listing: Listing) -> None:
    """List a tree, of which these are the audio files, as training set of the folder's name."""
    train(folder, _tree(settings, folder, files, "dataset.train", None, listing), listing)


def evaluate(settings: DatasetSettings, root: Path, rows: Sequence[Listed], listing: Listing) -> None:
    """Cut the utterances of a tree by the lists that come with it, or halve them."""
    name = make_id(root.name)
    listing.called.append((name, root))
    if not trial_lists.cut_tree(listing, name, rows, root):
        corpus.halved(listing, name, rows, settings.seed, str(root))
        corpus.halves_made(listing, [name], settings.seed)
    corpus.select(listing, settings.sets, "dataset.sets")
    listing.limits.append(corpus.by_folders(name, rows))


def train(folder: Path, rows: Sequence[Listed], listing: Listing) -> None:
    """Let the utterances of a tree be the training set of its name."""
    name = make_id(folder.name)
    listing.called.append((name, folder))
    if rows:
        listing.notes.append(corpus.by_folders(f"the training set {name}", rows))
    for place, row in enumerate(sorted(rows, key=lambda row: row.utterance)):
        listing.utterances.append(replace(row, set=name, role="train", position=place))


def _tree(
    settings: DatasetSettings, root: Path, files: Sequence[Path], key: str, table: str | None, listing: Listing
) -> list[Listed]:
    """The utterances of a tree, their set and role still open; none if it is no such tree, which is a fault.

    ``key`` is the setting that named the root, for messages; ``table`` says the sex of speakers in place of SPEAKERS.TXT.
    """
    faults = listing.faults
    parts = [path.relative_to(root).parts for path in files]
    good = [(path, make_id(place[0])) for path, place in zip(files, parts) if len(place) == 3]
    _layout(root, key, dict(zip(files, parts)), listing)
    if not good:
        return []
    problem, below = levels.too_high(parts, alone=False)
    if problem:
        kind = " (with dataset=folders)" if below and key == "dataset.root" else ""
        faults.add("level", f"{problem}{levels.advised(root, key, below)}{kind}", root)
        return []
    known = sexes.read(table, root, {speaker for _, speaker in good}, listing)
    rows, renamed = [], 0
    names: dict[str, list[Path]] = defaultdict(list)
    fence = corpus.Fence(root, settings.follow_links)
    for path, speaker in good:
        utterance = make_id(path.stem)
        renamed += utterance != normalise_name(path.stem)
        names[utterance].append(path)
        place: Path | None = path
        if not fence.holds(path):
            faults.add("link", f"a link leads out of the tree, to '{os.path.realpath(path)}'", path)
            place = None
        if len(names[utterance]) == 1:
            said = path.parent / f"{path.parent.parent.name}-{path.parent.name}.trans.txt"
            rows.append(
                Listed("", "", utterance, speaker, known.get(speaker, "u"), place, str(path), 0, transcripts=said)
            )
    for utterance, paths in names.items():
        for path in paths[1:]:
            faults.add("duplicate-id", f"the id '{utterance}' is taken by {paths[0]}", path)
    if renamed:
        listing.notes.append(f"{renamed} file names hold blanks, which ids may not; each became '_'")
    return rows


def _layout(root: Path, key: str, files: Mapping[Path, tuple[str, ...]], listing: Listing) -> None:
    """Faults of a tree, given the parts of each file's path below the root."""
    faults = listing.faults
    elsewhere = [path for path, parts in files.items() if len(parts) != 3]
    if not files:
        tables = sorted(root.glob("*/wav.scp"))
        hint = "; it holds Kaldi sets (dataset=kaldi)" if tables else ""
        faults.add("empty", f"the folder holds no audio ({' '.join(audio.EXTENSIONS)}){hint}", root)
    elif len(elsewhere) == len(files):
        deeper = sorted({parts[:1] for parts in files.values() if len(parts) == 4})
        hint = levels.advised(root, key, deeper)
        faults.add(
            "layout",
            f"no audio lies at SPEAKER/CHAPTER/UTTERANCE.ext, {len(files)} files lie elsewhere, "
            f"e.g. {elsewhere[0].relative_to(root)}{hint}",
            root,
        )
    else:
        for path in elsewhere:
            faults.add("layout", "audio that does not lie at SPEAKER/CHAPTER/UTTERANCE.ext", path)
