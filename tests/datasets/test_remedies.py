"""A command that a message prints keeps the old file; columns that may be several things, and ids that look alike, are refused."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.containers import source
from pipeline.datasets import importers
from pipeline.datasets.scores.columns import SCORES, SPEAKERS, TRIALS, Unclear, detect_layout
from pipeline.errors import DataError

from .conftest import Tiny


def test_a_recording_that_is_converted_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a b.wav"
    path.write_bytes(b"old")
    (tmp_path / "ffmpeg").write_text('#!/bin/sh\nfor last; do :; done\nprintf new > "$last"\n')
    (tmp_path / "ffmpeg").chmod(0o755)
    subprocess.run(["bash", "-c", f'export PATH="{tmp_path}:$PATH"; {source.conversion(path)}'], check=True)
    assert path.read_bytes() == b"new" and (tmp_path / "a b.wav.bak").read_bytes() == b"old"


PAIRS = [
    (f"s{m}", f"s{u}-{k}", 0.5 * m - 0.3 * u + 0.1 * k, m == u) for m in range(3) for u in range(3) for k in range(2)
]


@pytest.mark.parametrize(
    ("form", "columns"),
    [
        ("{a} {b} {x} {word} 1.02 0.99 {y} {y}1", SCORES),  # WeSpeaker after score normalisation
        ("{a} {b} {x} {y}", SCORES),
        ("{a},{b},7,8,{x}", SCORES),
        ("{a} {b} {bit} {word} {x}", TRIALS),
        ("{a} f {b}", SPEAKERS),
        ("{a} {b} {b}1", SPEAKERS),
    ],
)
def test_columns_that_may_be_several_things_are_not_read(form: str, columns: tuple[str, ...]) -> None:
    rows = [form.format(a=a, b=b, x=x, y=x * x - 1, bit=int(same), word="target" if same else "nontarget")
            for a, b, x, same in PAIRS]  # fmt: skip
    with pytest.raises(Unclear, match=f"fields instead of {len(columns)}"):
        detect_layout([row.encode() for row in rows], columns)


def test_speakers_that_look_alike_are_refused(tiny: Tiny, refused: Callable[..., DataError]) -> None:
    """One voice under two names is a stranger to itself."""
    tables = tiny.tables["t_trials_f"]
    tables["utt2spk"][1] = "a-t1 \u0430"
    tables["spk2gender"].append("\u0430 f")
    tables["trials"] = [line.rpartition(" ")[0] for line in tables["trials"]]
    faults = refused(importers.read_data_set, tiny.save().settings()).faults
    assert [fault.kind for fault in faults] == ["bad-id"] and "U+0061 for U+0430" in faults[0].what


def test_ids_of_any_script_are_taken(tiny: Tiny) -> None:
    """Letters that resemble nothing else of the data, whole words of Cyrillic and Greek among them."""
    tiny.tables = {"x": {}}
    names = {"\u0410\u043d\u043d\u0430": "f", "\u039d\u03af\u03ba\u03b7": "f", "\u8bf4\u8bdd": "f", "Anna": "f"}
    rows = [(f"{who}-{k}", who) for who in names for k in range(2)]
    tiny.tables["x"] = {
        "wav.scp": [f"{u} wav/{u}.wav" for u, _ in rows],
        "utt2spk": [f"{u} {who}" for u, who in rows],
        "spk2gender": [f"{who} {sex}" for who, sex in names.items()],
    }
    assert set(importers.read_data_set(tiny.save().settings()).manifest["speaker"]) == {*names}
