"""The text of a comparison: widths, rows that changed, and what stands for names that are too long."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from pipeline.report import comparison
from pipeline.report.comparison import Difference, RunDifferences, SystemDifference
from pipeline.tables import results


def row(run_id: str, **more: Any) -> dict[str, Any]:
    base = {"dataset": "d", "subset": "s", "condition": "OP", "system": "b2", "attacker": "ignorant", "extractor": "x"}
    return {**base, "run_id": run_id, "metric": "eer", "unit": "fraction", "status": "ok", "signature": "eer|OP|a:1|v:2",
            **more}  # fmt: skip


def folder(path: Path, rows: list[dict[str, Any]], config: dict[str, Any], overrides: str = "") -> Path:
    path.mkdir()
    results.write(results.frame(rows), path)
    (path / "config.yaml").write_text(yaml.safe_dump(config))
    (path / "overrides.txt").write_text(overrides)
    return path


def pair(tmp_path: Path, first: list[dict[str, Any]], second: list[dict[str, Any]], **found: Any) -> str:
    """The comparison of two runs with these rows and long settings."""
    long = "/".join(["a" * 30] * 6)
    config = {"system": {"b2": {"name": "mcadams", "seed": 1}}, "note" * 20: long, "paths": {"root": long}}
    a = folder(tmp_path / "a", first, config)
    other = {**config, "note" * 20: long + "b", "paths": {"root": "/x" * 90}}
    b = folder(tmp_path / "b", second, other, f"system.b2.seed=2\npaths.root={long[:80]}\n'x y'\n" + "a.b=1\n" * 9)
    return comparison.to_text(a, b, RunDifferences(**found))


def test_no_line_is_longer_than_a_terminal(tmp_path: Path) -> None:
    widest: dict[str, Any] = {"d_ece": Difference((0.721, 0.001), -0.72, (-0.721, 0.721)), "eer": Difference((0.5, 0.0), -0.5, (-0.5, 0.5)),
              "p_value": 1e-4, "p_holm": 4e-4, "tried": (12, 11), "partial": True}  # fmt: skip
    long = "a_system_with_a_name_of_some_forty_letters"
    attack = f"semi_informed: {'an_extractor_with_a_long_name' * 3}, plda, adapted"
    rows = (
        SystemDifference(
            "libri_test (mean of f and m)", long, "strongest", attacks=(attack, "ignorant: x, y"), **widest
        ),
        SystemDifference("libri_test (mean of f and m)", "b2", "strongest", attacks=(attack, attack), **widest),
        SystemDifference("f", "b2", "strongest", reason="other trials: 10 in A, 9 in B, 8 in both; " + "because " * 20),
    )
    out = pair(tmp_path, [row("a")], [row("b")], rows=rows, gone=("B",), systems=((long,) * 4, ()))
    assert max(map(len, out.splitlines())) <= comparison.WIDTH
    assert f"      {long}" in out and "†: stands on less than was expected" in out
    assert "discloses less in B" not in out and f"{long} and b2 disclose less in B than in A" in " ".join(out.split())
    assert "p at most 0.05 after Holm's correction for 2 comparisons" in " ".join(out.split())
    assert "To have the scores of B, run the same evaluation again" in out


def test_rows_that_changed_are_shown_and_the_others_counted_by_why(tmp_path: Path) -> None:
    first = [row("a", subset=f"s{n:02d}", value=0.1) for n in range(24)]
    second = [row("b", subset=f"s{n:02d}", value=0.1 if n < 2 else 0.25) for n in range(24)]
    first += [row("a", metric="tag", label="A", unit="tag"), row("a", system="mine"), row("a", metric="d_ece")]
    second += [
        row("b", metric="tag", label="C", unit="tag"),
        row("b", metric="d_ece", signature="d_ece|OP|a:2|v:3|b:1"),
    ]
    second += [row("b", attacker="lazy"), row("b", attacker="lazy", metric="eer", variant="kaldi")]
    out = pair(tmp_path, first, second)
    assert "eer s02 b2 OP ignorant x: 10.00\N{NO-BREAK SPACE}% / 25.00\N{NO-BREAK SPACE}% (+15.00)" in out
    assert "and 3 more" in out and "eer s00" not in out
    assert out.splitlines()[-6:] == [
        "1 row of A without a counterpart: the signature differs in a, v, b",
        "1 row of A without a counterpart: system mine",
        "2 rows of B without a counterpart: attacker lazy",
        "1 row of B without a counterpart: the signature differs in a, v, b",
        "2 of 25 rows with equal signatures are equal",
        "25 rows with equal signatures, 5 rows without a counterpart",
    ]


def test_a_value_that_is_there_in_one_run_alone_is_a_change() -> None:
    frames = [results.frame([row("r", value=value)]) for value in (0.2, float("nan"))]
    found = comparison.pair_rows(*frames)
    assert found["differs"].all() and comparison._format_changed_row(results.records(found)[0]).endswith("% / –")
    assert not comparison.pair_rows(frames[1], frames[1])["differs"].any(), "no value is no other than no value"


def test_nothing_in_common_is_said(tmp_path: Path) -> None:
    out = pair(tmp_path, [row("a")], [row("b")])
    assert "No system is in both runs with scores of trials" in out


def test_settings_that_are_the_same_and_digests_that_are_not(tmp_path: Path) -> None:
    config = {"system": {"b2": {"name": "mcadams"}}}
    runs = [folder(tmp_path / n, [row(n, config_digest=d)], config) for n, d in zip("abc", ("x", "x", "y"))]
    assert "No settings differ that numbers depend on.\nVersions" in comparison.to_text(
        runs[0], runs[1], RunDifferences()
    )
    said = " ".join(comparison.to_text(runs[0], runs[2], RunDifferences()).split())
    assert "No settings differ that numbers depend on, as they were written; their digests do" in said


def test_long_values_stand_whole(tmp_path: Path) -> None:
    values = [[f"set_{n}" for n in range(12) if n != left] for left in (5, 6)]
    runs = [folder(tmp_path / n, [row(n)], {"dataset": {"name": "kaldi", "sets": v}}) for n, v in zip("ab", values)]
    out = comparison.to_text(runs[0], runs[1], RunDifferences())
    said = " ".join(out.split())
    assert "dataset.sets: " + " / ".join(f"[{', '.join(several)}]" for several in values) in said
    assert max(map(len, out.splitlines())) <= comparison.WIDTH
