"""Whatever metrics are chosen, of whatever kind of extractor: a report of those that can be had, or a word why there is none."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from tests import toy
from tests.e2e.test_precomputed import written
from tests.running import Command, Ended, carry_out, runner

# What each metric is known by: its rows, its figure data, a heading of the page that no other metric makes.
ROWS = {
    "asv": {"eer", "cllr", "cllr_min"},
    "zebra": {"d_ece", "l_w", "tag"},
    "cece": {"c_ece", "cllr_l_phi", "d_ece_f1"},
    "vsm": {"d_diag", "signed", "deid", "g_vd", "d_ece_op_oo", "cllr_min_op_oo", "g_d_ece", "g_cllr_min"},
    "p0p1": {"d_diag_p0p1", "d_diag_p0p1_signed", "p0p1_ratio"},
    "srd": {"max_d", "mean_d", "idr", "rank_spread"},
}  # fmt: skip
TABLES = {
    "asv": set(), "zebra": {"ece_profile"}, "cece": {"cece_profile"}, "vsm": {"similarity", "zoo", "speakers"},
    "p0p1": {"similarity_runs"}, "srd": {"ranks", "speaker_ranks"},
}  # fmt: skip
HEADINGS = {
    "zebra": ">ECE profiles</h", "cece": ">Calibrated on another run of a random system</h",
    "vsm": ">Speakers in similarity matrices (", "srd": ">Similarity rank histograms</h",
}  # fmt: skip
FAST = {
    "asv": "metric.asv.interval=none", "zebra": "metric.zebra.replicates=0", "cece": "metric.cece.interval=none",
    "vsm": "metric.vsm.interval=none", "p0p1": "metric.p0p1.interval=none", "srd": "metric.srd.interval=none",
}  # fmt: skip

ALL = tuple(ROWS)
# The extractor, the metrics that can be had from it, and further settings.
KINDS = {
    "embedding": ("ge2e", set(ALL), ()),
    "histogram": ("f0", {"srd"}, ()),
    "vectors": ("precomputed", set(ALL) - {"srd"}, ()),
    "vectors, utterances": ("precomputed", set(ALL), ("metric.srd.unit=utterance",)),
}

Evaluate = Callable[[str, tuple[str, ...]], set[str]]
DRAWS = ("original", "b2r", "b2r@2")


@pytest.fixture(scope="module")
def toys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data, vectors and a store that all runs share, so that nothing is computed twice."""
    home = tmp_path_factory.mktemp("subsets")
    root = toy.corpus(home / "data", speakers=4, utterances=4)
    for seed, label in enumerate(DRAWS):
        written(root, home / label, seed)
    return home


@pytest.fixture
def vectors(toys: Path) -> str:
    return f"+extractor.precomputed.vectors={{{', '.join(f'{label}: {toys / label}' for label in DRAWS)}}}"


@pytest.fixture
def command(toys: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.chdir(toys)
    return runner(capfd, monkeypatch, "recipe=kaldi", "dataset.root=data", "runtime.device=cpu", "runtime.threads=1")


@pytest.fixture
def evaluate(command: Command, vectors: str, models: Path) -> Evaluate:
    """Run a subset of the metrics, and look at all it left; gives the metrics that the report has, none where there is no report."""

    def call(kind: str, chosen: tuple[str, ...]) -> set[str]:
        extractor, able, more = KINDS[kind]
        if extractor == "ge2e" and not (models / "ge2e" / "pretrained.pt").is_file():
            pytest.skip("the offline weights are not here: make install")
        ended = command(
            "system=[b2r]", f"extractor=[{extractor}]", f"metric=[{','.join(chosen)}]", *(FAST[name] for name in chosen),
            "attacker=[ignorant]", *(["metric.srd.replicates=0", *more] if "srd" in chosen else []),
            *([vectors] if extractor == "precomputed" else []),
        )  # fmt: skip
        measured = [name for name in chosen if name in able]
        if not measured:
            assert (ended.status, ended.out) == (2, ""), ended.err
            assert {fault.where for fault in ended.error.faults} == {f"metric.{name}" for name in chosen}
            return set()
        assert ended.status == 0, ended.err
        absent = {name for name in chosen if f"metric {name} is left out: " in ended.err}
        assert absent == set(chosen) - set(measured)
        return check_products(ended, measured)

    return call


def check_products(ended: Ended, measured: list[str]) -> set[str]:
    """The metrics of which the run has rows. It has the rows and the figure data of these metrics and of no other, and its page shows
    them."""
    assert set(ended.rows["metric"]) == set().union(*(ROWS[name] for name in measured))
    assert set(ended.rows["status"]) == {"ok"}
    figures = {path.stem for path in (ended.folder / "figures").glob("*.parquet")}
    assert figures == set().union(*(TABLES[name] for name in measured))
    page = (ended.folder / "report.html").read_text()
    assert {name for name, heading in HEADINGS.items() if heading in page} == set(measured) & set(HEADINGS)
    assert ("median rank ↑" in page) == ("srd" in measured and bool({"vsm", "asv", "zebra"} & set(measured)))
    return {name for name, metrics in ROWS.items() if metrics & set(ended.rows["metric"])}


@pytest.mark.parametrize(
    ("kind", "subsets"),
    [
        (
            "vectors, utterances",
            [*((name,) for name in ALL), *itertools.combinations(ALL, 5), *itertools.combinations(ALL, 2)],
        ),
        ("vectors", [("srd",), ("vsm", "srd")]),
        ("embedding", [("asv", "zebra", "vsm"), ALL]),
        ("histogram", [("asv",), ("vsm", "p0p1"), ("srd",), ALL]),
    ],
)
@pytest.mark.slow
def test_a_cover_of_the_subsets_ends_with_a_report(
    kind: str, subsets: list[tuple[str, ...]], evaluate: Evaluate
) -> None:
    """Each metric alone, each pair and all but one where all can be had; what has gone wrong, or could, of the other kinds."""
    for chosen in subsets:
        assert evaluate(kind, chosen) == set(chosen) & KINDS[kind][1]


def test_what_no_chosen_system_makes_is_said(command: Command, vectors: str) -> None:
    """A metric may lack a system rather than an extractor."""
    refused = command("plan", "extractor=[f0]", "system=[b2r]", "metric=[vsm,cece]", status=2)
    assert refused.err.count("which no chosen extractor gives: f0") == 2
    original = ("extractor=[precomputed]", vectors, "system=[original]", "metric=[vsm,p0p1]")
    faults = {fault.where: fault.what for fault in command("plan", *original, status=2).error.faults}
    assert "no chosen system protects" in faults["metric.vsm"] and "no chosen system has two" in faults["metric.p0p1"]


@pytest.mark.slow
def test_runs_of_different_metrics_have_one_report(
    toys: Path, evaluate: Evaluate, capfd: pytest.CaptureFixture[str]
) -> None:
    """A speaker table with ranks beside one without."""
    for chosen in (("vsm",), ("vsm", "srd")):
        evaluate("vectors, utterances", chosen)
    runs = sorted((toys / "exp" / "runs").iterdir(), key=lambda run: run.stat().st_mtime_ns)[-2:]
    assert carry_out("report", *map(str, runs)) == 0
    assert "median rank ↑" in Path(capfd.readouterr().out.strip()).read_text()
    ranks = pd.read_parquet(runs[1] / "figures" / "speaker_ranks.parquet")
    assert len(ranks) == 2 * 4 and ranks["srd_rank_median"].notna().all()
