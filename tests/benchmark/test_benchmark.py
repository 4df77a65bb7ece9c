"""The benchmarks' own arithmetic: limits, the record, and the population values that coverage is held against."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pipeline import metrics
from tests.benchmark import harness, simulation
from tests.benchmark.__main__ import BENCHMARKS, LONG, main


def test_limits_concern_the_ratio_where_there_is_one() -> None:
    plain = harness.row("a", 2.0, "s", "", at_most=3)
    assert (plain.limit, plain.met) == ("value <= 3", True)
    assert harness.row("a", 2.0, "s", "", ratio=4.0, at_most=3).met is False
    both = harness.row("a", 99.0, "%", "", at_least=88, at_most=98.5)
    assert (both.limit, both.met) == ("value >= 88 and value <= 98.5", False)
    assert harness.row("a", 2.0, "s", "").met is None


def test_calls_are_interleaved_and_the_median_is_taken() -> None:
    clock, order = iter([0.0, 1.0, 1.0, 3.0, 3.0, 8.0, 8.0, 12.0, 12.0, 14.0, 14.0, 15.0]), []
    found = harness.interleaved([lambda: order.append("a"), lambda: order.append("b")], 3, lambda: next(clock))
    assert "".join(order) == "ababab"
    assert found == [2.0, 2.0]


def test_the_record_keeps_benchmarks_that_did_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "RESULTS", tmp_path / "results.json")
    monkeypatch.setattr(harness, "TABLE", tmp_path / "RESULTS.md")
    harness.record([harness.row("b", 1.23456, "s", "first", at_most=1), harness.row("a", 5, "GB", "")], "one")
    harness.record([harness.row("b", 0.5, "s", "second", at_most=1)], "two")
    entries = json.loads((tmp_path / "results.json").read_text())
    assert [(e["name"], e["value"], e["met"], e["machine"]) for e in entries] == [
        ("a", 5.0, None, "one"),
        ("b", 0.5, True, "two"),
    ]
    assert {"name", "value", "unit", "ratio", "limit", "met", "machine", "commit"} <= set(entries[0])
    table = (tmp_path / "RESULTS.md").read_text()
    assert "| b | 0.5 s |  | value <= 1 | yes | second |" in table and "- one: a" in table
    assert sorted(p.name for p in tmp_path.iterdir()) == ["RESULTS.md", "results.json"]


def test_unknown_names_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nonsense"]) == 2
    told = capsys.readouterr().err
    assert all(name in told for name in (*BENCHMARKS, *LONG))


@pytest.mark.parametrize("d_prime", [0.7, 3.0])
def test_population_values_are_those_of_a_large_sample(d_prime: float) -> None:
    random = np.random.default_rng(0)
    target, nontarget = random.normal(d_prime, 1, 400_000), random.normal(0, 1, 400_000)
    truth = simulation.population(d_prime)
    assert truth["eer.rocch"] == pytest.approx(metrics.eer(target, nontarget), abs=0.002)
    assert truth["d_ece"] == pytest.approx(metrics.d_ece_oracle(target, nontarget), abs=0.002)


def test_simulated_trials_have_the_marginals_that_the_population_values_assume() -> None:
    scores: dict[bool, list[np.ndarray]] = {True: [], False: []}
    for seed in range(60):
        given = simulation.simulated(np.random.default_rng(seed), 8, 1.5)
        for side, held in scores.items():
            held.append(given.scores[given.is_target == side] / simulation.SPREAD)
    for side, mean in ((True, 1.5), (False, 0.0)):
        pooled = np.concatenate(scores[side])
        assert (pooled.mean(), pooled.std()) == pytest.approx((mean, 1.0), abs=0.05)


@pytest.mark.slow
def test_the_gpu_script_runs_in_rehearsal() -> None:
    """All of it but the device: a machine lent for minutes is no place to find a misspelt name."""
    script = Path(__file__).with_name("gpu.sh")
    done = subprocess.run(
        ["bash", script, "rehearse"], capture_output=True, text=True, env={**os.environ, "PYTHON": sys.executable}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no figure counts" in done.stdout and "FAILED" not in done.stdout
    names = "loader ecapa_64 ecapa_64_batching ecapa_64_bf16 campplus campplus_batching pyin phones mcadams"
    for name in names.split(" "):
        (line,) = [line for line in done.stdout.splitlines() if line.startswith(f"{name}: ")]
        assert float(line.split()[1]) > 0


def test_the_gpu_script_says_how_it_is_used() -> None:
    done = subprocess.run(["bash", Path(__file__).with_name("gpu.sh")], capture_output=True, text=True)
    assert done.returncode == 2
    assert "gpu.sh wheels DIR" in done.stdout and "rehearse" in done.stdout
