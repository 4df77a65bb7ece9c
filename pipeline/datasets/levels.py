"""Whether the root of a tree lies a level too high: its folders are then splits or collections (``dev``, ``wav48``), no speakers.

Two "speakers" called dev and test give an EER like any other, so such a tree is refused, by the names of its folders.
"""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Collection, Sequence
from pathlib import Path

from pipeline.names import join_few, normalise_name

_WORDS = (
    "train|training|dev|devel|development|test|testing|valid|validation|val|eval|evaluation|held[_-]?out|enrol|enroll|enrolls|"
    "enrolment|enrollment|trial|trials|clean|other|noisy|raw|wav|wave|wavs|waves|flac|mp3|ogg|opus|m4a|sph|audio|audios|data|"
    "dataset|speech|corpus|corpora|recordings|segments|utterances|original|originals|anonymised|anonymized|speakers|spk|"
    "part|split|subset|fold|disc|cd|dr|male|female|males|females|men|women|unlabeled|unlabelled|labelled|labeled"
)
_COLLECTION = re.compile(rf"(?:.*[_.\- ])?(?:{_WORDS})(?:[_.\- ].*|\d+k?(?:[_.\- ].*)?|k?)", re.IGNORECASE)
_NUMBERED = re.compile(r"(\D+?)[_.\- ]?\d+")
_GROUPS = {"part", "split", "subset", "fold", "disc", "cd", "dr"}
"""Words that number collections; a row of other names with numbers (test01, test02, …) are speakers."""
_SEXES = {"male", "female", "males", "females", "men", "women"}
_SEVERAL, _NAMED = 3, 3

Parts = tuple[str, ...]
"""The parts of a file's path below the root."""


def too_high(places: Collection[Parts], alone: bool = True) -> tuple[str, list[Parts]]:
    """What shows that the folders of a tree are no speakers, and the folders below that hold folders a speaker.

    Args:
        places: of all audio files.
        alone: whether a single folder with folders in it shows it too, whatever its name.

    Returns:
        '' and no folders if they may be speakers.
    """
    tops = _tops(places)
    nested = [name for name, below in tops.items() if 2 * sum(len(parts) > 1 for parts in below) > len(below)]
    like = sorted(name for name in nested if _COLLECTION.fullmatch(normalise_name(name)))
    # A speaker among others may be called Dev.
    if like and 2 * len(like) >= len(tops) and not _are_numbered(list(tops)):
        called = "are called like parts" if len(like) > 1 else "is called like a part"
        s = "s" if len(like) > 1 else ""
        said = f"the folder{s} {join_few(like)} {called} of a corpus, not like {'speakers' if s else 'a speaker'}"
        return said, [root for name in like for root in _lower(name, tops[name])]
    if alone and len(tops) == 1 and nested:
        ((name, below),) = tops.items()
        if len(_tops(below)) > 1:
            return f"all audio lies below one folder, {name}, which would be the only speaker", _lower(name, below)
    return "", []


def advised(root: Path, key: str, below: Sequence[Parts]) -> str:
    """``; key=FOLDER would be one`` for each of the folders that may be given as root."""
    given = [shlex.quote(f"{key}={root.joinpath(*parts)}") for parts in below]
    more = f", {len(given) - _NAMED} more" if len(given) > _NAMED else ""
    return f"; {' or '.join(given[:_NAMED])}{more} would be one" if given else ""


def _tops(places: Collection[Parts]) -> dict[str, list[Parts]]:
    """What lies below each folder of a root; files in the root itself are left out."""
    tops: dict[str, list[Parts]] = defaultdict(list)
    for parts in sorted(places):
        if len(parts) > 1:
            tops[parts[0]].append(parts[1:])
    return tops


def _lower(name: str, below: Collection[Parts]) -> list[Parts]:
    """The folders at or below a folder whose own folders may be speakers."""
    _, lower = too_high(below, alone=False)
    return [(name, *parts) for parts in lower] or [(name,)]


def _are_numbered(names: Sequence[str]) -> bool:
    """Whether names are one word with numbers, as speakers are called."""
    found = [_NUMBERED.fullmatch(name) for name in names]
    words = {one[1].casefold() for one in found if one}
    one_kind = words <= _SEXES or (len(words) == 1 and not words & _GROUPS)
    return len(names) >= _SEVERAL and all(found) and one_kind
