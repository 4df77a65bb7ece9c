"""recipe=srd2026 on a generated checkout: both tables have a verdict in every row, and the paper's rows are taken and no others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pytest

from pipeline import cli
from pipeline.tables import results
from tests import challenge

POOLED = "libri_test (pooled)"
TABLES = {"Table 1": 68, "Table 2 (beta-binomial)": 32}
"""Rows of the published tables, as counted in them."""
BARE = tuple(
    f"metric.{name}.{field}"
    for name in ("asv", "srd", "srd_sex", "srd_chapter")
    for field in ("interval=none", "replicates=0")
)


def evaluated(
    folder: Path, capfd: pytest.CaptureFixture[str], *more: str, status: int = 0
) -> tuple[pd.DataFrame, pd.DataFrame, str]:
    """The command of the README; the rows of the results, the scorecard, and what was printed."""
    found = cli.run([
        "recipe=srd2026", f"dataset.root={folder / 'checkout'}", "dataset.protocol=reported", f"paths.root={folder / 'exp'}",
        "diagnostics=false", "runtime.device=cpu", "runtime.threads=1", *more,
    ])  # fmt: skip
    out, err = capfd.readouterr()
    assert found == status, err
    run = Path(out.splitlines()[-1]).parent
    return results.read(run), pd.read_csv(run / "scorecard.csv", dtype=str, keep_default_na=False), out + err


def held(rows: pd.DataFrame, card: pd.DataFrame, systems: Sequence[str], features: Sequence[str]) -> None:
    """What has to be there whatever was evaluated."""
    for table, count in TABLES.items():
        mine = card[card["table"] == table]
        assert len(mine) == count and (mine["verdict"] != "").all(), table
        run = mine["system"].isin(["original", *systems])
        assert (mine.loc[~run, "verdict"].isin(["not run", "sources disagree"])).all(), table
        assert not mine.loc[run, "verdict"].eq("not run").any(), table
    ranks = rows[(rows["metric"] == "idr") & (rows["estimator"] == "empirical")]
    assert set(ranks["system"]) == {"original", *systems}
    assert set(ranks["subset"]) == {POOLED, f"{POOLED}, f", f"{POOLED}, m"}
    paper = ranks[(ranks["subset"] == POOLED) & (ranks["variant"] == "")]
    for system in systems:
        of_system = paper[paper["system"] == system]
        several = sorted(zip(of_system["extractor"], of_system["trained_on"].str.partition(" (")[0]))
        assert several == sorted([*((name, "original") for name in features), ("ecapa", "anonymised")])
    assert set(paper["input_unit"]) == {"segment"} and (paper["n_used"] == 20 * paper["n_speakers"]).all()


@pytest.mark.slow
def test_both_tables_have_a_verdict_in_every_row(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    made = challenge.write("2024", tmp_path / "checkout", None, 0.06, ["T10-2"], 0.4, training=(2, 1), scores=False)
    rows, card, said = evaluated(tmp_path, capfd, *BARE, "extractor=[ecapa]")
    held(rows, card, ["T10-2"], ["ecapa"])
    sets = [made.sets[name] for name in ("libri_test_enrolls", "libri_test_trials_f", "libri_test_trials_m")]
    speakers = {row.speaker for one in sets for row in one.utterances}
    ranks = rows[(rows["metric"] == "idr") & (rows["variant"] == "") & (rows["subset"] == POOLED)]
    assert set(ranks["n_speakers"]) == {len(speakers)}
    chapters = {
        speaker: {row.id.split("-")[1] for one in sets for row in one.utterances if row.speaker == speaker}
        for speaker in speakers
    }
    single = [speaker for speaker, several in chapters.items() if len(several) == 1]
    assert f"{len(single)} have a single chapter and are left out" in said and single
    # A printed cell stands beside the value of the paper's protocol, and of no other.
    printed = card[(card["table"] == "Table 1") & (card["metric"] == "idr") & (card["system"] == "original")]
    (value,) = ranks.loc[
        (ranks["system"] == "original") & (ranks["extractor"] == "ecapa") & (ranks["estimator"] == "empirical"), "value"
    ]
    assert float(printed["ours"].iloc[0]) == pytest.approx(100 * value)
    assert "several rows stand" not in said


def test_other_components_replace_those_that_the_recipe_sets_fields_of() -> None:
    from pipeline.cli.compose import compose
    from pipeline.errors import ConfigError

    given = ["recipe=srd2026", "train=none", "attacker=[lazy_informed]", "system=[original]", "extractor=[f0]",
             "metric=[srd]"]  # fmt: skip
    asked, values = compose(given)
    assert list(asked.extractors) == list(values["extractor"]) == ["f0"]
    assert list(values["metric"]) == ["srd"] and list(values["metric"]["srd"]["pools"]) == [POOLED]
    with pytest.raises(ConfigError) as caught:
        compose([*given, "extractor.ecapa.trim_zeros=false"])
    assert "no extractor of this label is chosen" in caught.value.faults[0].what


@pytest.mark.slow
def test_the_command_as_it_stands_with_all_systems(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Phones are trained, and the systems of the paper lie beside the sets."""
    systems = ["B3", "B4", "B5", "T8-5", "T10-2", "T12-5", "T25-1"]
    challenge.write("2024", tmp_path / "checkout", None, 0.1, systems, 0.8)
    rows, card, _ = evaluated(tmp_path, capfd)
    held(rows, card, systems, ["ecapa", "f0", "phones"])
    assert not card["verdict"].eq("not run").any()
    assert set(card.loc[card["verdict"] == "sources disagree", "metric"]) <= {"eer"}
    assert card.loc[card["metric"] == "eer", "ours"].ne("").all()
