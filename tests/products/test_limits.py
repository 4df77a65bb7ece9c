"""Limits of detection from scores to the page: held against mixtures that are made here, by another code."""

from __future__ import annotations

import functools
from pathlib import Path

import kaldiio
import numpy as np
import pandas as pd
import pytest

from pipeline.engine.store import Store
from pipeline.engine.task import Task
from pipeline.metrics import d_ece_oracle
from pipeline.products.limits import compute
from pipeline.products.limits.compute import CURVES, LIMITS, Attacked
from pipeline.products.limits.plan import find_counterpart
from pipeline.products.strongest.compute import ROWS, Sets
from tests import toy
from tests.products.test_strongest import answered, attacked, given, read, table
from tests.running import Command, execute, runner

PROTECTED, ORIGINAL = table(0.0, 11), table(4.0, 12)


def find(
    store: Path, original: pd.DataFrame | None, replicates: int = 300
) -> tuple[pd.DataFrame, pd.DataFrame, pd.Series]:
    """Limits and curves of one attack on one set, and the row of the strongest attack."""
    scores, contributions = attacked("b2", [PROTECTED], replicates=replicates)
    strongest = answered(Sets({"f": (0,)}, {}), {"f": contributions})
    inputs = {"strongest": strongest.ref(), "scores.0.0": scores[0].ref()}
    tasks = [*scores, contributions, strongest]
    if original is not None:
        tasks.append(given("original", original))
        inputs["original.0.0"] = tasks[-1].ref()
    asked = Attacked({"f": {"f": 1.0}}, {"f": {} if original is None else {0: 0}}, 5)
    task = Task("measure", "limits", functools.partial(compute.find_limits, asked), {}, inputs)
    outcome = execute([*tasks, task], Store(store))
    return read(outcome, task, LIMITS), read(outcome, task, CURVES), read(outcome, strongest, ROWS).iloc[0]


def mix(share: float, unit: str, random: np.random.Generator) -> float:
    """D_ECE where each unit passes unprotected with a probability, by a loop; both attacks have one scale already."""
    other = ~PROTECTED["target"]
    scale = PROTECTED["score"][other].std(ddof=0) / ORIGINAL["score"][other].std(ddof=0)
    original = (ORIGINAL["score"] - ORIGINAL["score"][other].mean()) * scale + PROTECTED["score"][other].mean()
    leaking = {name for name in PROTECTED[unit].unique() if random.random() < share}
    scores = [o if name in leaking else p for name, o, p in zip(PROTECTED[unit], original, PROTECTED["score"])]
    is_target = PROTECTED["target"].to_numpy(bool)
    return d_ece_oracle(np.array(scores)[is_target], np.array(scores)[~is_target])


@pytest.mark.parametrize("unit", ["utterance", "speaker"])
def test_a_leak_of_the_limit_is_seen_in_95_percent_of_mixtures_made_here(tmp_path: Path, unit: str) -> None:
    limits, curves, strongest = find(tmp_path, ORIGINAL)
    limit = limits.set_index("unit").loc[unit]
    assert limit["threshold"] == strongest["null_high"] and limit["reason"] == ""
    random = np.random.default_rng(8)
    above = [mix(limit["share"], unit, random) > strongest["null_high"] for _ in range(2000)]
    assert np.mean(above) == pytest.approx(0.95, abs=0.03)
    curve = curves[curves["unit"] == unit]
    assert curve["d_ece"].iloc[0] == pytest.approx(mix(0.0, unit, random)) == pytest.approx(strongest["d_ece"])
    assert curve["d_ece"].iloc[-1] == pytest.approx(mix(1.0, unit, random))


@pytest.mark.parametrize(
    ("original", "replicates", "reason"),
    [
        (None, 30, "original speech was not attacked on f"),
        (ORIGINAL.iloc[1:], 30, "original speech was tried on 195 of 196 trials of f"),
        (ORIGINAL, 0, "no permutations were asked for"),
        (table(0.0, 13), 300, "not even original speech lies above the null band"),
    ],
    ids=["no attack", "fewer trials", "no null band", "a weak attack"],
)
def test_where_there_is_no_limit_it_is_said_why(
    tmp_path: Path, original: pd.DataFrame | None, replicates: int, reason: str
) -> None:
    limits, _, _ = find(tmp_path, original, replicates)
    assert limits["share"].isna().all() and limits["reason"].str.contains(reason).all()


def test_the_counterpart_has_the_same_extractor_and_back_end_or_is_the_next_best() -> None:
    names = ("extractor", "backend")
    others = [dict(zip(names, pair)) for pair in (("ecapa", "cosine"), ("campplus", "cosine"), ("campplus", "wccn"))]
    for (extractor, backend), number in {("campplus", "wccn"): 2, ("campplus", "plda"): 1, ("f0", "cosine"): 0}.items():
        assert find_counterpart({"extractor": extractor, "backend": backend}, others, (0, 1, 2)) == number


@pytest.fixture
def command(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.chdir(tmp_path)
    return runner(capfd, monkeypatch)


def test_a_run_says_how_small_a_leak_it_would_have_seen(tmp_path: Path, command: Command) -> None:
    root = toy.corpus(tmp_path / "data", speakers=12)
    random = np.random.default_rng(1)
    for name, spread in (("original", 0.3), ("protected", 30.0)):
        (tmp_path / name).mkdir()
        voices: dict[str, np.ndarray] = {}
        with kaldiio.WriteHelper(f"ark,scp:{tmp_path / name}/xvector.ark,{tmp_path / name}/xvector.scp") as writer:
            for line in sorted(line for file in root.glob("*/utt2spk") for line in file.read_text().splitlines()):
                utterance, speaker = line.split()
                voice = voices.setdefault(speaker, random.standard_normal(32))
                writer(utterance, (voice + spread * random.standard_normal(32)).astype(np.float32))
    ended = command(
        "recipe=kaldi", f"dataset.root={root}", "system=[original,b2]", "extractor=[precomputed]", "attacker=[ignorant]",
        f"+extractor.precomputed.vectors={{original: {tmp_path / 'original'}, b2: {tmp_path / 'protected'}}}", "backend=[cosine]",
        "metric=[asv,zebra]", "diagnostics=false", status=0,
    )  # fmt: skip
    limits = pd.read_parquet(ended.folder / "limits.parquet").set_index(["subset", "unit"])
    board = pd.read_parquet(ended.folder / "leaderboard.parquet").set_index(["subset", "system"])
    for subset in ("toy_trials_f", "toy_trials_m"):
        assert board.loc[(subset, "b2"), "chance"] == "within"
        assert 0 < limits.loc[(subset, "utterance"), "share"] == board.loc[(subset, "b2"), "limit"]
    assert "A leak of b2 would have been seen if" in ended.screen
    page = (ended.folder / "report.html").read_text(encoding="utf-8")
    assert "A leak of b2 would have been seen if" in page and "Limit of detection" in page


def test_a_plan_says_what_its_lists_can_show_at_best(tmp_path: Path, command: Command) -> None:
    root = toy.corpus(tmp_path / "data", speakers=12, utterances=4)
    few = toy.corpus(tmp_path / "few", speakers=4, utterances=4)
    words = ("recipe=kaldi", "system=[original]", "extractor=[prosody]", "attacker=[ignorant]", "metric=[asv]")
    screen = command("plan", *words, f"dataset.root={root}", status=0).screen
    assert "toy_trials_f: 6 speakers enrolled, 12 utterances, 72 trials; at best, a leak of 1 utterance in" in screen
    screen = command("plan", *words, f"dataset.root={few}", status=0).screen
    assert "toy_trials_f: 2 speakers enrolled, 4 utterances, 8 trials; no leak can be told from chance" in screen
