"""Whatever metrics are chosen, of whatever kind of extractor: a report of those that can be had, or a word why there is none."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest
import torch

from pipeline import cli
from pipeline.tables import results
from tests import toy
from tests.e2e.test_precomputed import written

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
EVERY = [chosen for size in range(1, len(ALL) + 1) for chosen in itertools.combinations(ALL, size)]
# The extractor, the metrics that can be had from it, and further settings.
KINDS = {
    "embedding": ("ge2e", set(ALL), ()),
    "histogram": ("f0", {"srd"}, ()),
    "vectors": ("precomputed", set(ALL) - {"srd"}, ()),
    "vectors, utterances": ("precomputed", set(ALL), ("metric.srd.unit=utterance",)),
}

Evaluate = Callable[[str, tuple[str, ...]], set[str]]


@pytest.fixture(scope="module")
def toys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data, vectors and a store that all runs share, so that nothing is computed twice."""
    home = tmp_path_factory.mktemp("subsets")
    root = toy.corpus(home / "data", speakers=4, utterances=4)
    for seed, label in enumerate(("original", "b2r", "b2r@2")):
        written(root, home / label, seed)
    return home


@pytest.fixture
def evaluate(
    toys: Path, models: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Evaluate]:
    """Run a subset of the metrics in this process, and look at all it left; gives the metrics that the report has, none where there is
    no report."""
    monkeypatch.chdir(toys)
    threads = torch.get_num_threads()

    def one(kind: str, chosen: tuple[str, ...]) -> set[str]:
        extractor, able, more = KINDS[kind]
        if extractor == "ge2e" and not (models / "ge2e" / "pretrained.pt").is_file():
            pytest.skip("the offline weights are not here: make install")
        vectors = ", ".join(f"{label}: {toys / label}" for label in ("original", "b2r", "b2r@2"))
        status = cli.run([
            "recipe=kaldi", f"dataset.root={toys / 'data'}", "system=[b2r]", f"extractor=[{extractor}]",
            f"metric=[{','.join(chosen)}]", *(FAST[name] for name in chosen), "attacker=[ignorant]",
            *(["metric.srd.replicates=0", *more] if "srd" in chosen else []), "runtime.device=cpu", "runtime.threads=1",
            *([f"+extractor.precomputed.vectors={{{vectors}}}"] if extractor == "precomputed" else []),
        ])  # fmt: skip
        out, err = capfd.readouterr()
        had = [name for name in chosen if name in able]
        assert "Traceback" not in err
        if not had:
            assert (status, out) == (2, ""), err
            assert "none of the chosen metrics can be measured" in err
            assert all(f"- metric.{name}: " in err for name in chosen)
            return set()
        assert status == 0, err
        assert {name for name in chosen if f"metric {name} is left out: " in err} == set(chosen) - set(had)
        return _held(Path(out.splitlines()[-1]), had)

    yield one
    torch.set_num_threads(threads)


def _held(report: Path, had: list[str]) -> set[str]:
    """The metrics of which the run has rows. It has the rows and the figure data of these metrics and of no other, and its page shows
    them."""
    rows = results.read(report.parent)
    assert set(rows["metric"]) == set().union(*(ROWS[name] for name in had))
    assert set(rows["status"]) == {"ok"}
    figures = {path.stem for path in (report.parent / "figures").glob("*.parquet")}
    assert figures == set().union(*(TABLES[name] for name in had))
    page = report.read_text()
    assert {name for name, heading in HEADINGS.items() if heading in page} == set(had) & set(HEADINGS)
    assert ("median rank ↑" in page) == ("srd" in had and bool({"vsm", "asv", "zebra"} & set(had)))
    return {name for name, metrics in ROWS.items() if metrics & set(rows["metric"])}


@pytest.mark.parametrize(
    ("kind", "subsets"),
    [
        ("vectors, utterances", [*((name,) for name in ALL), *(s for s in EVERY if len(s) == 5)]),
        ("vectors", [("srd",), ("vsm", "srd")]),
        ("embedding", [("asv", "zebra", "vsm"), ALL]),
        ("histogram", [("asv",), ("vsm", "p0p1"), ("srd",), ALL]),
    ],
)
@pytest.mark.slow
def test_a_cover_of_the_subsets_ends_with_a_report(
    kind: str, subsets: list[tuple[str, ...]], evaluate: Evaluate
) -> None:
    """Each metric alone and all but one where all can be had; what has gone wrong, or could, of the other kinds."""
    for chosen in subsets:
        assert evaluate(kind, chosen) == set(chosen) & KINDS[kind][1]


@pytest.mark.slow
@pytest.mark.parametrize("chosen", EVERY, ids="+".join)
@pytest.mark.parametrize("kind", KINDS)
def test_every_subset_ends_with_a_report(kind: str, chosen: tuple[str, ...], evaluate: Evaluate) -> None:
    assert evaluate(kind, chosen) == set(chosen) & KINDS[kind][1]


def test_what_no_chosen_system_makes_is_said(toys: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A metric may lack a system rather than an extractor."""
    given = ["plan", "recipe=kaldi", f"dataset.root={toys / 'data'}", "extractor=[f0]", f"paths.root={toys / 'exp'}"]
    assert cli.run([*given, "system=[b2r]", "metric=[vsm,cece]"]) == 2
    said = capfd.readouterr().err
    assert said.count("which no chosen extractor gives: f0") == 2
    vectors = [
        *given[:-2],
        "extractor=[precomputed]",
        f"+extractor.precomputed.vectors={{original: {toys / 'original'}}}",
    ]
    assert cli.run([*vectors, "system=[original]", "metric=[vsm,p0p1]"]) == 2
    said = capfd.readouterr().err
    assert "metric.vsm: it compares protected speech with the original, and no chosen system protects" in said
    assert "metric.p0p1: it compares two runs of a random system, and no chosen system has two" in said


@pytest.mark.slow
def test_runs_of_different_metrics_have_one_report(toys: Path, evaluate: Evaluate, capfd: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    """A speaker table with ranks beside one without."""
    for chosen in (("vsm",), ("vsm", "srd")):
        evaluate("vectors, utterances", chosen)
    runs = sorted((toys / "exp" / "runs").iterdir(), key=lambda run: run.stat().st_mtime_ns)[-2:]
    assert cli.run(["report", *map(str, runs)]) == 0
    page = Path(capfd.readouterr().out.strip()).read_text()
    assert "median rank ↑" in page
    ranks = pd.read_parquet(runs[1] / "figures" / "speaker_ranks.parquet")
    assert len(ranks) == 2 * 4 and ranks["srd_rank_median"].notna().all()
