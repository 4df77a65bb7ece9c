"""Commands that messages print: given where one reading is possible alone, they keep the old file, and the values after them are right."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from pipeline.containers import source
from pipeline.datasets import importers, trial_checks
from pipeline.datasets.scores.columns import SCORES, SPEAKERS, TRIALS, Unclear, detect_layout
from pipeline.errors import DataError
from pipeline.files import write_replace_command

from .conftest import Tiny


def applied(command: str, folder: Path | None = None) -> None:
    subprocess.run(["bash", "-c", f"set -e; {command}"], check=True, cwd=folder)


# Files that are replaced -----------------------------------------------------------------------------------------------


def test_a_file_that_is_replaced_is_kept_and_the_oldest_stays(tmp_path: Path) -> None:
    path = tmp_path / "it's a list"
    path.write_text("1\n")
    for number in (2, 3):
        applied(write_replace_command(path, f"echo {number} > {trial_checks.shlex.quote(f'{path}.new')}"))
        assert path.read_text() == f"{number}\n" and path.with_name(f"{path.name}.bak").read_text() == "1\n"
    subprocess.run(["sh", "-c", write_replace_command(path, "false")], check=False)
    assert path.read_text() == "3\n", "what fails changes nothing"


def test_a_recording_that_is_converted_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a b.wav"
    path.write_bytes(b"old")
    (tmp_path / "ffmpeg").write_text('#!/bin/sh\nfor last; do :; done\nprintf new > "$last"\n')
    (tmp_path / "ffmpeg").chmod(0o755)
    applied(f"export PATH={trial_checks.shlex.quote(str(tmp_path))}:$PATH; {source.conversion(path)}")
    assert path.read_bytes() == b"new" and (tmp_path / "a b.wav.bak").read_bytes() == b"old"


# Columns of score files ------------------------------------------------------------------------------------------------

PAIRS = [
    (f"s{m}", f"s{u}-{k}", 0.5 * m - 0.3 * u + 0.1 * k, m == u) for m in range(3) for u in range(3) for k in range(2)
]


def remedy(form: str, columns: tuple[str, ...]) -> tuple[str, str]:
    """What mends a file of lines of this form, and the file."""
    rows = [form.format(a=a, b=b, x=x, y=x * x - 1, bit=int(same), word="target" if same else "nontarget")
            for a, b, x, same in PAIRS]  # fmt: skip
    with pytest.raises(Unclear) as caught:
        detect_layout([row.encode() for row in rows], columns, "given")
    return caught.value.remedy, "".join(f"{row}\n" for row in rows)


@pytest.mark.parametrize(
    ("form", "columns", "right"),
    [
        ("{a} {b} 0.5 {x}", SCORES, "{a} {b} {x}"),
        ("{a} {b} chan1 {x} {word}", SCORES, "{a} {b} {x}"),
        ("{word} {a} {b} {x} 1.0 0.5", SCORES, "{a} {b} {x}"),
        ("{a},{b},7,8,{x}", SCORES, "{a} {b} {x}"),
        ("{a} {b} {word} 0.25 {x} 1 2", TRIALS, "{a} {b} {word}"),
    ],
)
def test_the_one_column_that_can_be_meant_is_taken(
    tmp_path: Path, form: str, columns: tuple[str, ...], right: str
) -> None:
    command, text = remedy(form, columns)
    (tmp_path / "given").write_text(text)
    applied(command.partition(", and give ")[0], tmp_path)
    expected = [right.format(a=a, b=b, x=x, word="target" if same else "nontarget") for a, b, x, same in PAIRS]
    (made,) = tmp_path.glob("given.*")
    assert made.read_text().splitlines() == expected and (tmp_path / "given").read_text() == text


@pytest.mark.parametrize(
    ("form", "columns"),
    [
        ("{a} {b} {x} {word} 1.02 0.99 {y} {y}1", SCORES),  # WeSpeaker after score normalisation
        ("{a} {b} {x} {y}", SCORES),
        ("{a} {b} {b}.wav {x} {word}", SCORES),
        ("{a} {b} {bit} {word} {x}", TRIALS),
        ("m1 {b} chan{bit} {x} 1", SCORES),
        ("{a} f {b}", SPEAKERS),
    ],
)
def test_no_command_where_several_columns_could_be_meant(form: str, columns: tuple[str, ...]) -> None:
    said, _ = remedy(form, columns)
    assert "awk" not in said and "write a file with lines" in said


def test_a_table_of_speakers_is_turned_round_where_ids_begin_with_them(tmp_path: Path) -> None:
    text = "s1 s1-0 s1-1\ns10 s10-0 s10-1\ns2 s2-0 s2-1 s2-2\n"
    with pytest.raises(Unclear) as caught:
        detect_layout([line.encode() for line in text.splitlines()], SPEAKERS, "given")
    (tmp_path / "given").write_text(text)
    applied(caught.value.remedy.partition(", and give ")[0], tmp_path)
    pairs = [(name, row.split()[0]) for row in text.splitlines() for name in row.split()[1:]]
    assert (tmp_path / "given.utt2spk").read_text() == "".join(f"{name} {who}\n" for name, who in pairs)


# Lists of trials -------------------------------------------------------------------------------------------------------


def many(tiny: Tiny, change: Callable[[str, str, str], str]) -> Tiny:
    names = [f"{speaker}-t{number}" for speaker in "abc" for number in range(8)]
    tiny.tables["t_trials_f"] = tiny.basic(names) | {
        "trials": [change(m, u, "target" if u[0] == m else "nontarget") for m in "ab" for u in names]
    }
    return tiny.save()


def commands(faults: Sequence[object]) -> list[str]:
    return [what[what.index("awk ") :] for fault in faults if "awk " in (what := str(getattr(fault, "what", "")))]


@pytest.mark.parametrize("count", [1, 12])
def test_missed_pairs_of_a_speaker_follow_from_the_speakers(
    tiny: Tiny, refused: Callable[..., DataError], count: int
) -> None:
    right = importers.read_data_set(many(tiny, "{} {} {}".format).settings()).trials["t_trials_f"].digest
    path = tiny.root / "t_trials_f" / "trials"
    spoilt = path.read_text().replace(" target", " nontarget", count)
    path.write_text(spoilt)
    (command,) = commands(refused(importers.read_data_set, tiny.settings()).faults)
    applied(command)
    assert importers.read_data_set(tiny.settings()).trials["t_trials_f"].digest == right
    assert path.with_name("trials.bak").read_text() == spoilt


@pytest.mark.parametrize("count", [1, 12])
def test_no_command_where_the_speakers_may_be_what_is_wrong(
    tiny: Tiny, refused: Callable[..., DataError], count: int
) -> None:
    """Targets of another speaker: a slip of the list, or of utt2spk."""
    taken = [f"c-t{number}" for number in range(count)]
    faults = refused(importers.read_data_set, many(tiny, lambda m, u, t: f"{m} {u} {'target' if m == 'a' and u in taken else t}").settings()).faults  # fmt: skip
    assert {fault.kind for fault in faults} == {"label"} and commands(faults) == []


def test_repeated_pairs_with_both_labels_are_mended_by_one_command(
    tiny: Tiny, refused: Callable[..., DataError]
) -> None:
    right = importers.read_data_set(many(tiny, "{} {} {}".format).settings()).trials["t_trials_f"].digest
    path = tiny.root / "t_trials_f" / "trials"
    text = path.read_text()
    # The wrong line first: a command that kept the first would keep it.
    path.write_text(text.replace(" target", " nontarget") + text)
    repeated, labels = commands(refused(importers.read_data_set, tiny.settings()).faults)
    applied(repeated)
    assert importers.read_data_set(tiny.settings()).trials["t_trials_f"].digest == right
    applied(labels)
    assert importers.read_data_set(tiny.settings()).trials["t_trials_f"].digest == right


def test_several_models_of_a_speaker_are_named_and_labels_stay(tiny: Tiny, refused: Callable[..., DataError]) -> None:
    enrolled = tiny.tables["t_enrolls"]
    enrolled["utt2spk"] = [f"{name} {name[0]}_{name[-1]}" for name in enrolled["enrolls"]]
    enrolled["spk2gender"] = [f"{who}_{k} f" for who in "ab" for k in "01"]
    tiny.tables["t_trials_f"]["trials"] = [
        line.replace(" ", f"_{k} ", 1) for line in tiny.tables["t_trials_f"]["trials"] for k in "01"
    ]
    (fault,) = refused(importers.read_data_set, tiny.save().settings()).faults
    assert fault.kind == "models" and "a_0, a_1, b_0, b_1" in fault.what and commands([fault]) == []


def test_no_command_where_two_changes_make_ids_known(tiny: Tiny, refused: Callable[..., DataError]) -> None:
    """As of VCTK: p225_001 for p225_001_mic1 or p225_001_mic2."""
    names = [f"{who}-t{k}_mic{mic}" for who in "abc" for k in range(2) for mic in (1, 2)]
    tiny.tables["t_trials_f"] = tiny.basic(names) | {
        "trials": [f"{m} {u}-t{k} {'target' if m == u else 'nontarget'}" for m in "ab" for u in "abc" for k in range(2)]
    }
    (fault,) = refused(importers.read_data_set, tiny.save().settings()).faults
    assert fault.kind == "columns" and "'_mic1' behind them, or lack '_mic2' behind them" in fault.what
    assert commands([fault]) == []


# Ids that look alike ---------------------------------------------------------------------------------------------------


def test_a_letter_of_another_alphabet_is_named_by_its_code(tiny: Tiny, refused: Callable[..., DataError]) -> None:
    lines = tiny.tables["t_trials_f"]["trials"]
    lines[:] = [line.replace("a-t0", "\u0430-t0") for line in lines]
    (fault,) = refused(importers.read_data_set, tiny.save().settings()).faults
    assert fault.kind == "unknown-utterance" and "it looks like 'a-t0', and is not: U+0430 for U+0061" in fault.what


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
