"""Text tables as people have them, through the command line: what changes nothing, what is refused and how it is mended."""

from __future__ import annotations

import os
import re
import resource
import unicodedata
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

from pipeline import cli
from pipeline.datasets import importers, kaldi_tables
from pipeline.errors import DataError
from pipeline.extractors.precomputed import files as vector_files
from pipeline.faults import Faults
from tests.datasets.conftest import RATE, Tiny, noise

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def small(tmp_path: Path) -> Tiny:
    return Tiny(tmp_path / "data")


@pytest.fixture
def command(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run a command line in this process; exit status, standard output and standard error."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        status = cli.run([*arguments, f"paths.root={tmp_path / 'exp'}"])
        out, err = capfd.readouterr()
        assert "Traceback" not in err
        return status, out, err

    return call


@pytest.fixture
def refused() -> Callable[..., DataError]:
    """Call a function that must refuse its data, and return the error."""

    def call(function: Callable[..., object], *arguments: object) -> DataError:
        with pytest.raises(DataError) as caught:
            function(*arguments)
        assert caught.value.cause and caught.value.remedy and caught.value.where
        return caught.value

    return call


def faults(err: str) -> list[str]:
    """The faults that were printed, without where they are."""
    return [line.removeprefix("  - ") for line in err.splitlines() if line.startswith("  - ")]


def rewrite(root: Path, change: Callable[[str], bytes]) -> None:
    """Write every table of the sets otherwise."""
    for path in root.glob("*_*/*"):
        path.write_bytes(change(path.read_text(encoding="utf-8")))


# What changes nothing --------------------------------------------------------------------------------------------------


CHANGES = {
    "byte order mark": lambda text: text.encode("utf-8-sig"),
    "CRLF": lambda text: text.replace("\n", "\r\n").encode(),
    "tabs": lambda text: text.replace(" ", "\t").encode(),
    "trailing blanks and empty lines": lambda text: text.replace("\n", " \t\n\n").encode(),
    "all": lambda text: ("\n" + text.replace("\n", "\r\n\r\n")).encode("utf-8-sig"),
}


def test_marks_line_ends_and_blanks_change_nothing(small: Tiny, command: Command) -> None:
    plain = importers.read_data_set(small.save().settings())
    said = command("prepare", f"dataset.root={small.root}")[:2]
    tables = {path: path.read_text() for path in small.root.glob("*_*/*")}
    for name, change in CHANGES.items():
        for path, text in tables.items():
            path.write_bytes(change(text))
        again = importers.read_data_set(small.settings())
        assert again.manifest.equals(plain.manifest) and again.notes == plain.notes, name
        assert again.trials["t_trials_f"].digest == plain.trials["t_trials_f"].digest, name
    assert command("prepare", f"dataset.root={small.root}")[:2] == said and said[0] == 0


@pytest.mark.slow
def test_two_ways_to_write_a_letter_are_one_id(small: Tiny, command: Command) -> None:
    """Tables of one system in NFC, of another in NFD."""
    small.save()
    rewrite(small.root, lambda text: re.sub(r"\bb\b", "bé", text).replace("wav/bé-", "wav/b-").encode())
    plain = command("prepare", f"dataset.root={small.root}")
    assert plain[0] == 0
    for table in ("trials", "utt2spk"):
        path = small.root / "t_trials_f" / table
        path.write_text(unicodedata.normalize("NFD", path.read_text(encoding="utf-8")), encoding="utf-8")
    assert command("prepare", f"dataset.root={small.root}") == plain


# Encodings, pipes, devices ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("encoding", "said"), [("utf-16", "UTF-16"), ("latin-1", "ISO-8859-1")])
def test_another_encoding_is_named(small: Tiny, command: Command, refused, encoding: str, said: str) -> None:
    small.save()
    rewrite(small.root, lambda text: re.sub(r"\bb\b", "bé", text).replace("wav/bé-", "wav/b-").encode())
    for table in ("wav.scp", "utt2spk", "spk2gender", "trials"):
        path = small.root / "t_trials_f" / table
        plain = path.read_bytes()
        path.write_bytes(plain.decode().encode(encoding))
        (fault,) = refused(importers.read_data_set, small.settings()).faults
        assert str(path) in fault.where and said in fault.what and fault.kind == "encoding"
        path.write_bytes(plain)
    path.write_bytes(plain.decode().encode(encoding))
    status, out, err = command("prepare", f"dataset.root={small.root}")
    (fault,) = faults(err)
    assert (status, out) == (3, "") and said in fault and "iconv" in fault


def test_a_pipe_a_device_and_a_file_of_200_gigabytes_are_refused_at_once(
    small: Tiny, command: Command, refused
) -> None:
    small.save()
    for table in ("wav.scp", "utt2spk", "trials"):
        path = small.root / "t_trials_f" / table
        kept = path.read_bytes()
        path.unlink()
        path.symlink_to("/dev/zero")
        assert [str(one) for one in refused(importers.read_data_set, small.settings()).faults] == [
            f"{path}: is a device, not a file"
        ]
        path.unlink()
        path.touch()
        os.truncate(path, 200 << 30)
        (fault,) = refused(importers.read_data_set, small.settings()).faults
        assert "214,748,364,800 bytes, most of them holes" in fault.what
        path.write_bytes(kept)
    path.unlink()
    os.mkfifo(path)
    status, _, err = command("prepare", f"dataset.root={small.root}")
    assert status == 3 and faults(err) == [f"{path}: is a named pipe, not a file"]


# Ids -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("odd", "said"), [("\x1b[31m", "\\x1b"), ("\u2028", "U+2028"), ("\u3164", "U+3164")])
def test_ids_that_nobody_can_see_or_that_a_terminal_obeys(small: Tiny, command: Command, odd: str, said: str) -> None:
    small.save()
    rewrite(small.root, lambda text: re.sub(r"\bb\b", f"b{odd}b", text).replace(f"b{odd}b-", "b-").encode())
    status, out, err = command("prepare", f"dataset.root={small.root}")
    assert (status, out) == (3, "")
    (fault,) = faults(err)
    assert "the speaker 'b" in fault and said in fault
    assert odd not in err and all(one.isprintable() or one == "\n" for one in err)


@pytest.mark.parametrize("odd", ["\u3164", "\x1b", "\u200b"])
def test_folders_with_what_nobody_can_see(small: Tiny, refused, odd: str) -> None:
    small.tables = {f"t{odd}_{name}": small.tables[f"t_{name}"] for name in ("enrolls", "trials_f")}
    faults = refused(importers.read_data_set, small.save().settings()).faults
    assert [fault.kind for fault in faults] == ["bad-id"] * 2 and not any(odd in fault.what for fault in faults)


# Lists -----------------------------------------------------------------------------------------------------------------


def many(small: Tiny) -> Tiny:
    """The tiny set with enough trials for what is said of nearly all."""
    names = [f"{speaker}-t{number}" for speaker in "abc" for number in range(6)]
    small.tables["t_trials_f"] = small.basic(names) | {
        "trials": [f"{m} {u} {'target' if u[0] == m else 'nontarget'}" for m in "ab" for u in names]
    }
    return small


def test_a_wrong_model_is_named_once_and_nothing_that_follows(small: Tiny, command: Command) -> None:
    small.tables["t_trials_f"]["trials"] = [
        line.replace("a ", "aa ", 1) if line.startswith("a ") else line for line in small.tables["t_trials_f"]["trials"]
    ]
    status, _, err = command("prepare", f"dataset.root={small.save().root}")
    (fault,) = faults(err)
    assert (
        status == 3
        and "model 'aa' is not enrolled in t_enrolls (6 trials, this is the first); did you mean 'a'?" in fault
    )
    assert "label" not in err


def test_unknown_ids_stand_before_labels(small: Tiny, command: Command) -> None:
    trials = small.tables["t_trials_f"]["trials"]
    trials[0] = "a a-t0 nontarget"
    trials += [f"a a-t0{number} target" for number in range(70)]
    status, _, err = command("prepare", f"dataset.root={small.save().root}")
    found = faults(err)
    assert status == 3 and "[unknown-utterance]" in found[0] and "and so are 69 more; did you mean 'a-t0'?" in found[0]
    assert "[label]" in found[-1] and len(found) == 2


READ = {
    "label first": lambda m, u, t: f"{t} {m} {u}",
    "numbers": lambda m, u, t: f"{m} {u} {int(t == 'target')}",
    "a number first": lambda m, u, t: f"{int(t == 'target')} {m} {u}",
    "short words": lambda m, u, t: f"{m} {u} {'tgt' if t == 'target' else 'imp'}",
    "stars": lambda m, u, t: f"{m}*{u} {int(t == 'target')}",
}


@pytest.mark.parametrize("name", READ)
def test_a_list_in_a_form_that_can_be_read_in_one_way_is_read(small: Tiny, name: str) -> None:
    plain = importers.read_data_set(many(small).save().settings())
    path = small.root / "t_trials_f" / "trials"
    path.write_text("".join(READ[name](*line.split()) + "\n" for line in path.read_text().splitlines()))
    corpus = importers.read_data_set(small.settings())
    assert corpus.trials["t_trials_f"].digest == plain.trials["t_trials_f"].digest
    assert any("is read as target" in note for note in corpus.notes)


# Files of vectors -------------------------------------------------------------------------------------------------------


def vectors(small: Tiny, folder: Path) -> Path:
    """Vectors of all utterances as ``xvector.scp`` and text ``xvector.ark``."""
    folder.mkdir()
    random = np.random.default_rng(0)
    names = [line.split()[0] for tables in small.tables.values() for line in tables["wav.scp"]]
    with (folder / "xvector.ark").open("w") as ark, (folder / "xvector.scp").open("w") as scp:
        for name in names:
            ark.write(f"{name} ")
            ark.flush()
            scp.write(f"{name} {folder / 'xvector.ark'}:{ark.tell()}\n")
            ark.write(f" [ {' '.join(f'{value:.6f}' for value in random.standard_normal(4))} ]\n")
    return folder


def planned(small: Tiny, place: Path) -> list[str]:
    return [
        "plan", f"dataset.root={small.root}", "system=[original]", "extractor=[precomputed]", "metric=[asv]", "diagnostics=false",
        f"+extractor.precomputed.vectors={{original: {place}}}",
    ]  # fmt: skip


@pytest.mark.slow
def test_an_index_of_vectors_is_read_as_other_tables_are(small: Tiny, command: Command, tmp_path: Path) -> None:
    small.save()
    folder = vectors(small, tmp_path / "x")
    plain = vector_files.read_vectors(folder)
    index = folder / "xvector.scp"
    text = index.read_text()
    for changed in (
        text.encode("utf-8-sig"),
        text.replace("\n", " \r\n\r\n").encode(),
        text.replace(" ", "\t").encode(),
    ):
        index.write_bytes(changed)
        assert vector_files.read_vectors(folder).digest == plain.digest
    index.write_bytes(text.encode("utf-8-sig"))
    status, out, _ = command(*planned(small, folder))
    assert status == 0 and "score: " in out
    index.write_bytes(text.encode("utf-16"))
    status, _, err = command(*planned(small, folder))
    (fault,) = faults(err)
    assert status == 3 and "is UTF-16, not UTF-8" in fault


def bomb(path: Path, shape: tuple[int, ...] = (100_000, 1000)) -> None:
    """An archive of some 0.4 MB whose vectors are 0.4 GB of zeros, written without ever having them."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("ids.npy", "w") as stream:
            np.lib.format.write_array(stream, np.array(["u"] * 10))
        with archive.open("vectors.npy", "w", force_zip64=True) as stream:
            np.lib.format.write_array_header_1_0(stream, {"descr": "<f4", "fortran_order": False, "shape": shape})
            for _ in range(400):
                stream.write(bytes(1_000_000))


@pytest.mark.slow
def test_an_archive_that_unpacks_to_far_more_than_it_is(small: Tiny, command: Command, tmp_path: Path) -> None:
    small.save()
    path = tmp_path / "bomb.npz"
    bomb(path)
    assert path.stat().st_size < 2_000_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    status, _, err = command(*planned(small, path))
    assert status == 3 and "unpacks from" in err and "no vectors shrink like that" in err
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000


def test_only_regular_files_of_vectors_are_opened(small: Tiny, command: Command, tmp_path: Path, refused) -> None:
    small.save()
    folder = tmp_path / "x"
    folder.mkdir()
    for suffix in ("scp", "ark", "npz", "parquet"):
        pipe = folder / f"vectors.{suffix}"
        os.mkfifo(pipe)
        for place in (folder, pipe):
            assert [(fault.kind, fault.where) for fault in refused(vector_files.read_vectors, place).faults] == [
                ("not-a-file", str(pipe))
            ]
        pipe.unlink()
        pipe.touch()
        os.truncate(pipe, 200 << 30)
        (fault,) = refused(vector_files.read_vectors, pipe).faults
        assert fault.kind == "too-large" and "214,748,364,800 bytes, most of them holes" in fault.what
        pipe.unlink()
    os.mkfifo(folder / "vectors.npz")
    status, _, err = command(*planned(small, folder))
    assert status == 3 and "is a named pipe, not a file" in err


# Tables of other kinds --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_table_of_speakers_of_a_tree(tmp_path: Path, command: Command) -> None:
    for name in ("ä-0", "ä-1", "b-0", "b-1", "c-0", "c-1"):
        path = tmp_path / "corpus" / name.split("-")[0] / "1" / f"{name}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, noise(name), RATE)
    table = tmp_path / "corpus" / "SPEAKERS.TXT"
    text = "; a comment\nä | F | dev | 8.0 | É. Zola\nb  |\tF | dev | 8.0 | B\nc | F | dev | 8.0 | C\n"
    arguments = ["prepare", "dataset=librispeech", f"dataset.root={tmp_path / 'corpus'}"]
    outs = set()
    for data in (
        text.encode(),
        text.replace("\n", " \t\r\n\r\n").encode("utf-8-sig"),
        text.replace("É", "\xc9").encode(),
    ):
        table.write_bytes(data)
        status, out, _ = command(*arguments)
        assert status == 0
        outs.add(out)
    assert len(outs) == 1 and "corpus_trials_f" in outs.pop()
    table.write_bytes(text.encode("utf-16"))
    status, _, err = command(*arguments)
    (fault,) = faults(err)
    assert status == 3 and "is UTF-16" in fault
    # The names of readers may be in any encoding, ids may not.
    table.write_bytes(text.replace("ä", "a").encode("latin-1"))
    status, _, err = command(*arguments)
    assert status == 3 and "'ä' has no line in SPEAKERS.TXT" in err and "UTF-8" not in err
    table.write_bytes(text.encode("latin-1"))
    assert "no speaker with sex f or m: '" in command(*arguments)[2]


def test_transcripts_are_read_as_other_tables_are(tmp_path: Path) -> None:
    table = tmp_path / "text"
    text = "u-1 naïve WORDS  here\nu-2 more\nu-3\n"
    table.write_bytes(text.encode())
    plain = kaldi_tables.read_transcripts(table, Faults(kaldi_tables.TRANSCRIPT_FAULTS))
    assert plain == {"u-1": "naïve WORDS  here", "u-2": "more", "u-3": ""}
    for data in (text.replace("\n", " \r\n\r\n").encode("utf-8-sig"), text.replace("-1 ", "-1\t").encode()):
        table.write_bytes(data)
        assert kaldi_tables.read_transcripts(table, Faults(kaldi_tables.TRANSCRIPT_FAULTS)) == plain
    for encoding in ("utf-16", "latin-1"):
        table.write_bytes(text.encode(encoding))
        found = Faults(kaldi_tables.TRANSCRIPT_FAULTS)
        assert kaldi_tables.read_transcripts(table, found) == {} and [fault.kind for fault in found.found] == [
            "encoding"
        ]


def test_a_set_whose_name_is_written_in_two_ways(small: Tiny, command: Command) -> None:
    for kind in ("enrolls", "trials_f"):
        small.tables[unicodedata.normalize("NFD", f"é_{kind}")] = small.tables.pop(f"t_{kind}")
    small.save()
    status, out, _ = command("prepare", f"dataset.root={small.root}", "dataset.sets=['é_trials_f']")
    assert status == 0 and "é_trials_f  trials  4 target  8 non-target" in out
