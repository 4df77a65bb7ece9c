"""Small files that stand for much are refused by name; files that are merely large or repeat themselves are read."""

from __future__ import annotations

import io
import itertools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from pipeline.datasets.scores import columns, score_table
from pipeline.errors import DataError
from pipeline.files import TooLarge
from pipeline.tables import bounds, run_files

NAMES = "abcdefghi"
LAUGHS = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n" for before, name in itertools.pairwise(NAMES)
)


def refusal(text: str) -> str:
    with pytest.raises(yaml.MarkedYAMLError) as caught:
        bounds.read_yaml(text)
    assert caught.value.problem_mark is not None
    return f"{caught.value.problem_mark.line + 1}: {caught.value.problem}"


def test_aliases_that_multiply_are_refused_by_line() -> None:
    assert refusal(LAUGHS).startswith("4: its aliases (*) stand for more than 10,000 values")
    assert refusal(f"a: &a {'x' * 10**6}\nb: [{', '.join(['*a'] * 5)}]\n").startswith("2: its aliases")
    merged = "".join(
        f"{name}: &{name} {{x: [{', '.join([f'*{before}'] * 30)}]}}\n" for before, name in zip("zabc", "abcd")
    )
    assert refusal(f"z: &z 1\n{merged}").startswith("4: its aliases")


@pytest.mark.parametrize(
    "text", ["[" * 3000, "a: " + "[" * 3000 + "]" * 3000, '"' + "${a." * 3000 + "}" * 3000 + '"', "".join(f"{' ' * k}a:\n" for k in range(200))]
)  # fmt: skip
def test_what_is_nested_beyond_sense_is_refused_by_line(text: str) -> None:
    assert "nested more than 100 levels deep" in refusal(text)


def test_anchors_as_people_use_them_are_read_as_pyyaml_reads_them() -> None:
    shared = "base: &base {alpha: 0.8, level: speaker}\n" + "".join(
        f"s{k}: {{<<: *base, seed: {k}}}\n" for k in range(100)
    )
    for text in (shared, "a: &a [1, 2]\nb: *a\n", f"a: {list(range(3_000))}\n", "a: " + "[" * 90 + "]" * 90):
        assert bounds.read_yaml(text) == yaml.safe_load(text)


def parquet(**columns: object) -> io.BytesIO:
    made = io.BytesIO()
    pq.write_table(pa.table(columns), made, compression="zstd")
    made.seek(0)
    return made


def test_a_parquet_file_that_unpacks_to_far_more_than_it_is_is_refused() -> None:
    bomb = parquet(x=pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(34_000_000)), 2))
    assert len(bomb.getvalue()) < 450_000
    with pytest.raises(TooLarge, match=r"unpacks to more than 268,435,456"):
        bounds.check_parquet(bomb)


def test_tables_that_repeat_themselves_are_not() -> None:
    """Trials with scores of one decimal."""
    rows, random = 200_000, np.random.default_rng(7)
    model = pa.array([f"speaker-{k:05d}" for k in range(2000)]).take(pa.array(np.repeat(np.arange(2000), 100)))
    trials = parquet(model=model, score=np.round(random.normal(size=rows), 1))
    assert rows * 8 < bounds.check_parquet(trials) < rows * 40
    assert trials.tell() == 0 and pq.read_table(trials).num_rows == rows


def test_readers_name_the_file(tmp_path: Path) -> None:
    """Scores; a table of a run folder."""
    path = tmp_path / "run" / "scores.parquet"
    path.parent.mkdir()
    path.write_bytes(parquet(score=np.zeros(68_000_000)).getvalue())
    for read in (lambda: score_table.read_table(path, columns.SCORES), lambda: run_files.read_parquet(path)):
        with pytest.raises(DataError) as caught:
            read()
        assert str(path) in str(caught.value) and "unpacks to more than" in str(caught.value)
