"""What a reader must know first: protocols that were made here, unknown sexes, what was left out; in run, report, rows, exports."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import soundfile

from pipeline import evaluation
from pipeline.datasets import importers
from pipeline.errors import DataError
from pipeline.tables import results, run_files
from tests.datasets.conftest import RATE, Tiny, noise, refused
from tests.running import Command

__all__ = ["refused"]


def vectors(root: Path) -> Path:
    """Vectors of all recordings below ``wav``, by a draw that the name fixes."""
    names = sorted(path.stem for path in (root / "wav").iterdir())
    draws = {name: np.random.default_rng(list(name.encode())).standard_normal(8) for name in names}
    voices = {name[0]: np.random.default_rng(ord(name[0])).standard_normal(8) for name in names}
    place = root.parent / f"{root.name}.npz"
    np.savez(place, ids=names, vectors=np.array([voices[name[0]] + draws[name] for name in names], np.float32))
    return place


def quick(root: Path, *more: str) -> list[str]:
    """A run that measures the EER on vectors from files: nothing is extracted."""
    return [
        "run", f"dataset.root={root}", "system=[original]", "extractor=[precomputed]", "metric=[asv]", "metric.asv.interval=none",
        "diagnostics=false", f"+extractor.precomputed.vectors={{original: {vectors(root)}}}", *more,
    ]  # fmt: skip


def people(small: Tiny) -> Tiny:
    """The tiny set with the speakers m and n (m) beside a, b, c (f), all of them enrolled."""
    enrolled = [f"{speaker}-e{number}" for speaker in "abmn" for number in (0, 1)]
    tried = [f"{speaker}-t{number}" for speaker in "abcmn" for number in (0, 1)]
    small.tables = {"t_enrolls": small.basic(enrolled) | {"enrolls": enrolled}, "t_trials": small.basic(tried)}
    for tables in small.tables.values():
        tables["spk2gender"] = [f"{line[0]} {'m' if line[0] in 'mn' else 'f'}" for line in tables["spk2gender"]]
    return small


def test_unknown_sexes_are_said_in_run_report_and_row_and_signed(tmp_path: Path, command: Command) -> None:
    known, unknown = people(Tiny(tmp_path / "known")).save(), people(Tiny(tmp_path / "unknown"))
    for tables in unknown.tables.values():
        del tables["spk2gender"]
    unknown.save()
    said = "sexes unknown: pairs across sexes are tried, which is easier to resist"
    runs = {}
    for small in (known, unknown):
        status, out, err = command(*quick(small.root))
        assert status == 0
        runs[small.root.name] = Path(out.splitlines()[-1]).parent
        assert (said in " ".join(out.split())) is (said in err) is (small is unknown)
    assert said not in (runs["known"] / "report.html").read_text()
    (rows, others) = (results.read(runs[name]) for name in ("unknown", "known"))
    assert set(rows["note"]) == {said} and not any("sexes" in note for note in others["note"])
    # 4 models × 10 utterances against pairs of one sex: 2 × 6 of women and 2 × 4 of men.
    assert set(rows["n_target"] + rows["n_nontarget"]) == {40} and set(others["n_target"] + others["n_nontarget"]) == {
        20
    }
    assert all("|sexes:unknown|" in one for one in rows["signature"]) and not any(
        "sexes" in one for one in others["signature"]
    )
    page = (runs["unknown"] / "report.html").read_text()
    assert page.index(run_files.LIMITS_TITLE) < page.index(said) < page.index('id="metrics"')
    made = evaluation.read(runs["unknown"])
    assert made.limits[0].startswith("the trials of t_trials were made here") and made.limits[1].startswith(said)
    for text in (made.summary(), made.to_markdown(), made.to_latex()):
        assert text.replace("\\", "").index(made.limits[0][:30]) < text.index(said)
    screen = " ".join(out.split())
    assert f"{run_files.LIMITS_TITLE}: - {made.limits[0]}" in screen and screen.index(made.limits[0]) < screen.index(
        said
    )

    status, merged, _ = command("report", str(runs["known"]), str(runs["unknown"]))
    page = Path(merged.strip()).read_text()
    assert status == 0 and f"<li>Run dataset unknown: {said}" in page


def bare(root: Path) -> list[str]:
    """A pair of sets without the table of sexes and without trials."""
    small = people(Tiny(root))
    for tables in small.tables.values():
        del tables["spk2gender"]
    return [f"dataset.root={small.save().root}"]


def halves(root: Path) -> list[str]:
    """A set without lists and without the table of sexes."""
    small = Tiny(root)
    small.tables = {"x": small.basic([f"{who}-{number}" for who in "abm" for number in range(4)])}
    del small.tables["x"]["spk2gender"]
    return [f"dataset.root={small.save().root}"]


def tree(root: Path) -> list[str]:
    """A tree with a folder a speaker."""
    for name in ("a-0", "a-1", "b-0", "b-1"):
        path = root / name.split("-")[0] / f"{name}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, noise(name), RATE)
    return ["dataset=folders", f"dataset.root={root}"]


@pytest.mark.parametrize("layout", [bare, pytest.param(halves, marks=pytest.mark.slow), tree])
def test_a_protocol_across_sexes_says_so(tmp_path: Path, command: Command, layout: Callable[[Path], list[str]]) -> None:
    status, _, err = command("prepare", *layout(tmp_path / "data"))
    assert status == 0 and "made here" in err and "sexes unknown: pairs across sexes are tried" in err


def test_a_data_set_with_its_lists_has_nothing_to_be_known_first(tmp_path: Path, command: Command) -> None:
    small = Tiny(tmp_path / "data").save()
    status, out, _ = command(*quick(small.root))
    folder = Path(out.splitlines()[-1]).parent
    assert (
        status == 0
        and run_files.read_limits(folder) == []
        and run_files.LIMITS_TITLE not in out + (folder / "report.html").read_text()
    )


@pytest.mark.parametrize(
    "sets", [["enrol", "trials"], ["Gallery", "queries"], ["enrol_f", "enrol_m", "test_f", "test_m"]]
)
def test_names_that_look_like_pairs_are_refused(
    tmp_path: Path, refused: Callable[..., DataError], sets: list[str]
) -> None:
    small = people(Tiny(tmp_path / "data"))
    enrolled, tried = small.tables["t_enrolls"], small.tables["t_trials"]
    del enrolled["enrolls"]
    small.tables = {name: enrolled if name.lower().startswith(("enrol", "gallery")) else tried for name in sets}
    (fault,) = refused(importers.read_data_set, small.save().settings()).faults
    assert fault.kind == "names" and all(name in fault.what for name in sets)


def test_halves_are_the_first_line_of_the_report(tmp_path: Path, command: Command) -> None:
    small = Tiny(tmp_path / "data")
    small.tables = {
        name: small.basic([f"{who}-{name}{number}" for who in "abc" for number in range(4)]) for name in ("x", "y")
    }
    status, out, _ = command(*quick(small.save().root, "dataset.sets=[x_trials_f]"))
    folder = Path(out.splitlines()[-1]).parent
    first, second = run_files.read_limits(folder)
    assert status == 0 and "no lists came with x, y, so each speaker's utterances were halved" in first
    assert second == "1 of 2 trial sets are evaluated (dataset.sets): x_trials_f; not y_trials_f"
    head = (folder / "report.html").read_text().partition("</h1>")[2]
    assert (
        re.sub(r"<[^>]*>|\s+", " ", head)
        .split(run_files.LIMITS_TITLE)[1]
        .strip()
        .startswith("the protocol was made here")
    )
    assert f"{run_files.LIMITS_TITLE}: - {first} - {second}" in " ".join(out.split())


def test_a_tree_is_halved_and_says_so_and_names_who_is_not_enrolled(tmp_path: Path, command: Command) -> None:
    for name in ("a-0", "a-1", "b-0", "b-1", "lone-0"):
        path = tmp_path / "corpus" / name.split("-")[0] / "1" / f"{name}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, noise(name), RATE)
    status, _, err = command("prepare", "dataset=librispeech", f"dataset.root={tmp_path / 'corpus'}")
    assert status == 0 and "no lists came with corpus" in err
    assert "1 of 3 speakers of corpus have one utterance and are not enrolled: lone" in err
    assert "sexes unknown: pairs across sexes are tried, which is easier to resist (corpus_trials)" in err


def test_sets_that_are_left_out_are_counted_in_the_head(tmp_path: Path, command: Command) -> None:
    small = Tiny(tmp_path / "data")
    small.tables["t_trials_f_all"] = {table: list(lines) for table, lines in small.tables["t_trials_f"].items()}
    small.tables["train"] = small.basic(["d-0"])
    status, out, _ = command(*quick(small.save().root, "dataset.sets=[t_trials_f]"))
    assert status == 0
    assert run_files.read_limits(Path(out.splitlines()[-1]).parent) == [
        "1 of 2 trial sets are evaluated (dataset.sets): t_trials_f; not t_trials_f_all",
        "1 sets without lists of trials beside those are not evaluated: train",
    ]


def test_what_allow_partial_leaves_out_is_counted_in_the_head(tmp_path: Path, command: Command) -> None:
    small = Tiny(tmp_path / "data").save()
    given = quick(small.root, "allow_partial=true")
    small.wav("b-t1").unlink()
    status, out, _ = command(*given)
    folder = Path(next(line for line in out.splitlines() if line.endswith("report.html"))).parent
    found = run_files.read_limits(folder)
    assert status == 6
    assert found == [
        "1 of 10 utterances are left out (allow_partial): 1 of t_trials_f",
        "2 of 12 trials are left out with their utterances",
    ]
    assert all(one in (folder / "report.html").read_text() and one in out for one in found)
    short, title, *_ = (line for line in out.splitlines() if not line.startswith("  "))
    assert short.startswith("! ") and "do not stand on everything" in short and title == f"{run_files.LIMITS_TITLE}:", (
        "it comes first"
    )


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["metric=[asv,cece]"], "metric cece is left out: it compares two runs of a random system, and no chosen system has two"),
        (["extractor=[precomputed,f0]"], "extractor f0 gives no row: no chosen metric measures what it gives"),
    ],
)  # fmt: skip
def test_what_was_asked_for_and_gives_no_row_is_said(
    tmp_path: Path, command: Command, more: list[str], said: str
) -> None:
    status, out, _ = command(*quick(Tiny(tmp_path / "data").save().root), *more)
    assert status == 0 and f" - {said} " in " ".join(out.split())
    assert said in (Path(out.splitlines()[-1]).parent / "report.html").read_text()


def test_nothing_to_measure_is_refused_before_any_compute(tmp_path: Path, command: Command) -> None:
    status, out, err = command(
        "run", f"dataset.root={Tiny(tmp_path / 'data').save().root}", "extractor=[f0]", "metric=[asv]"
    )
    assert (status, out) == (2, "") and "none of the chosen metrics can be measured" in err and "metric.asv" in err


def test_limits_of_earlier_runs_are_none(tmp_path: Path) -> None:
    assert run_files.read_limits(tmp_path) == []
    (tmp_path / run_files.LIMITS_FILE).write_text(json.dumps({}))
    with pytest.raises(DataError, match="not what was written"):
        run_files.read_limits(tmp_path)


@pytest.mark.slow
def test_ids_that_are_formulas_or_markup_are_taken_and_escaped(tmp_path: Path, command: Command) -> None:
    """A speaker, a set and a system's label that a spreadsheet or a browser would obey."""
    small = Tiny(tmp_path / "data")
    name = "=1+1<script>alert(1)<"
    small.tables = {
        f"{name}_{kind}": {
            table: [re.sub(r"(?<!\S)b(?!\S)", "@b<script>", line) for line in lines] if table != "wav.scp" else lines
            for table, lines in small.tables[f"t_{kind}"].items()
        }
        for kind in ("enrolls", "trials_f")
    }
    small.save()
    status, out, err = command(*quick(small.root))
    assert status == 0, err
    folder = Path(out.splitlines()[-1]).parent
    page = (folder / "report.html").read_text()
    assert "<script" not in page and "&lt;script&gt;" in page
    written = (folder / "results.csv").read_text()
    assert f"'{name}_trials_f" in written and f",{name}" not in written
    assert set(results.read_csv(folder / "results.csv")["subset"]) == {f"{name}_trials_f"}
    again = pd.read_csv(folder / "results.csv").replace(r"^'(?='*[=+\-@\t\r])", "", regex=True)
    assert set(again["subset"]) == {f"{name}_trials_f"}
