"""Which column of a score file is what: by its header, or by what its first lines hold.

Files of other toolkits have four columns (``ID1 ID2 LABEL SCORE``, ``ID1 ID2 SCORE LABEL``), the label first, commas, or names
of their own in a header. What can be one thing only is read, with a note; else it is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.tables import text

SCORES = ("enroll_id", "trial_id", "score")
TRIALS = ("enroll_id", "trial_id", "label")
SPEAKERS = ("id", "speaker")
SHAPES = {SCORES: "ID1 ID2 SCORE", TRIALS: "ID1 ID2 target|nontarget", SPEAKERS: "ID SPEAKER"}

UNUSED = "unused "
"""How the names of columns begin that nobody reads."""

INDEX = "index"
"""The column without a name that pandas writes before the others (``to_csv`` without ``index=False``)."""

_NAMES = {
    "enroll_id": "enroll_id enrol_id enroll enrol enrollment enrolment enrollment_id enrolment_id enroll_utt enrol_utt "
    "enroll_wav enrol_wav model model_id modelid utt1 id1 wav1 file1 path1",
    "trial_id": "trial_id trial test test_id test_utt test_wav utterance utterance_id utt utt_id segment segment_id segmentid "
    "probe utt2 id2 wav2 file2 path2",
    "score": "score scores llr llrs cosine similarity cosine_similarity cos_sim",
    "label": "label labels target is_target key targettype target_type trial_type",
    "id": "id utt utt_id utterance utterance_id file file_id wav path segment segment_id",
    "speaker": "speaker speaker_id speakerid spk spk_id spkid",
}
_ROLES = {role: frozenset(names.split()) for role, names in _NAMES.items()}

_WITH_BOTH = (
    ("enroll_id", "trial_id", "score", "label"),
    ("enroll_id", "trial_id", "label", "score"),
    ("label", "enroll_id", "trial_id", "score"),
)
_ORDERS: dict[tuple[str, ...], tuple[tuple[str, ...], ...]] = {
    SCORES: (SCORES, ("score", "enroll_id", "trial_id"), *_WITH_BOTH),
    TRIALS: (TRIALS, ("label", "enroll_id", "trial_id"), *_WITH_BOTH),
    SPEAKERS: (SPEAKERS,),
}


class Unclear(Exception):
    """Which column is what cannot be told; the message says why."""


@dataclass(frozen=True)
class Layout:
    """How a text is read.

    Attributes:
        skip: lines before the data.
        names: of the columns, in the order of the file.
        delimiter: what parts fields beside white space, or empty.
        note: what was made of it, or empty where it is as we write it.
    """

    skip: int
    names: tuple[str, ...]
    delimiter: bytes = b""
    note: str = ""


def split_fields(line: bytes, delimiter: bytes) -> list[str]:
    """The fields of a line without blanks and quotes around them."""
    if delimiter:
        line = line.replace(delimiter, b" ").replace(b'"', b"")
    return [field.decode(errors="replace") for field in line.split()]


def detect_layout(lines: Sequence[bytes], columns: tuple[str, ...]) -> Layout | None:
    """The layout of a text with these first lines (without a byte order mark); None if there is no line with anything in it.

    Raises:
        Unclear: more than one reading is possible, or none.
    """
    first = next((number for number, line in enumerate(lines) if line.split()), None)
    if first is None:
        return None
    delimiter = _find_delimiter(lines[first], len(columns))
    head = [field.lower() for field in split_fields(lines[first], delimiter)]
    following = split_fields(lines[first + 1], delimiter) if first + 1 < len(lines) else []
    if lines[first].startswith((delimiter or b"\t", b'""')) and len(following) == len(head) + 1:
        head.insert(0, INDEX)
    notes = [f"fields parted by '{delimiter.decode()}'"] if delimiter else []
    names = match_header(head, columns)
    if names:
        if len(names) > len(columns) or not set(head) >= set(SCORES[:2]):
            used = [(own, name) for own, name in zip(head, names) if not name.startswith(UNUSED)]
            notes.append(f"columns by the header: {', '.join(f'{own} is {_column_word(name)}' for own, name in used)}")
        return Layout(first + 1, names, delimiter, "; ".join(notes))
    order = _find_order([row for line in lines[first:] if (row := split_fields(line, delimiter))], columns)
    if order != columns:
        notes.append(f"columns taken for {' '.join(map(_column_word, order))}")
    names = tuple(name if name in columns else f"{UNUSED}{k}" for k, name in enumerate(order))
    return Layout(first, names, delimiter, "; ".join(notes))


def match_header(names: Sequence[str], columns: tuple[str, ...]) -> tuple[str, ...] | None:
    """Our names of columns with these names, or None where a column is missing or stands twice."""
    if len(names) == len(columns) == 3 and {"enroll_id", "trial_id"} <= set(names):
        return tuple(name if name in columns else columns[2] for name in names)
    roles = [next((role for role in columns if name.lower() in _ROLES[role]), "") for name in names]
    if sorted(filter(None, roles)) != sorted(columns):
        return None
    return tuple(role or f"{UNUSED}{k}" for k, role in enumerate(roles))


def is_number(field: str) -> bool:
    """Whether a field is a number as score files write them (digits with underscores are none)."""
    try:
        float(field)
    except ValueError:
        return False
    return "_" not in field


def _find_delimiter(line: bytes, least: int) -> bytes:
    blank = line.split()
    for mark in (b",", b";"):
        if line.count(mark) >= least - 1 and (len(blank) < least or all(field.endswith(mark) for field in blank[:-1])):
            return mark
    return b""


def _find_order(rows: Sequence[Sequence[str]], columns: tuple[str, ...]) -> tuple[str, ...]:
    widths = [len(row) for row in rows]
    # A single line of another width is a fault of that line.
    width = max(sorted(set(widths)), key=widths.count)
    even = [row for row in rows if len(row) == width]
    orders = [order for order in _ORDERS[columns] if len(order) == width]
    fit = [order for order in orders if all(_fits_role([row[k] for row in even], role) for k, role in enumerate(order))]
    # Ids may be numbers too, and a single slip in the scores must not make scores of them.
    numbers = sum(is_number(row[2]) for row in even) if columns == SCORES and width == 3 else 0
    if columns in fit or 2 * numbers > len(even):
        return columns
    if len(fit) == 1:
        return fit[0]
    if width == len(columns):
        return columns
    which = "more than one reading is possible" if fit else "which of them is what cannot be told"
    raise Unclear(f"{width} fields instead of {len(columns)}: {which}")


def _fits_role(values: Sequence[str], role: str) -> bool:
    if role == "score":
        return all(map(is_number, values))
    return role != "label" or text.find_label_pair(values) is not None


def _column_word(name: str) -> str:
    return {"enroll_id": "ID1", "trial_id": "ID2"}.get(name, name.upper())
