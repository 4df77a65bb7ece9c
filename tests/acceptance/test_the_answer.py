"""The answer of a run on real speech: in its tables, on the last screen and on the first screen of the report, held against measures that
are computed here from the scores of each attack by their definitions."""

from __future__ import annotations

import itertools
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import librosa
import numpy as np
import pandas as pd
import pytest

from pipeline import audio, read
from pipeline.evaluation.result import Result
from tests import toy, windows
from tests.acceptance import definitions

pytestmark = pytest.mark.slow

PROTECTED = ("b2", "b2r", "b2_vpc2024", "shift4")
SETS = ("test-other_trials_f", "test-other_trials_m")
MEAN = "test-other (mean of f and m)"
LEARNT_FROM = 20
"""Training speakers of each sex."""
CHOSEN = (
    "dataset=librispeech", "system=[original,b2,b2r,b2_vpc2024]", "+system.shift4={name: external, root: shift, level: fixed}",
    "extractor=[ge2e,campplus]", "attacker=[ignorant,lazy_informed,semi_informed]", "backend=[cosine,wccn]",
    "backend.wccn.as_norm.top=30", "backend.wccn.centre=training", "train=none", "metric=[asv,zebra,vsm,srd,lid]", "paths.root=exp",
)  # fmt: skip
WHO = ["condition", "attacker", "extractor", "trained_on", "backend"]
ATTACKS = {"original": 4, "b2": 12, "b2r": 10, "b2_vpc2024": 12, "shift4": 12}
"""Two extractors, each with cosine and wccn, for two attackers; wccn alone for the one who adapts, who enrols three draws of b2r, and of
the others one, and that with the original enrolment too. Centred on the enrolment, all systems of these ten speakers are found."""
COLUMNS, LINES = 100, 40
FIRST_SCREEN = 900


def raised(source: Path, target: Path) -> None:
    """A recording four semitones higher, by the phase vocoder of librosa."""
    samples, rate = audio.load(source)
    audio.write(target, librosa.effects.pitch_shift(samples, sr=rate, n_steps=4).astype(np.float32), rate, "PCM_16")


def sexes(table: Path) -> dict[str, str]:
    rows = [line.split("|") for line in table.read_text().splitlines() if not line.startswith(";")]
    return {row[0].strip(): row[1].strip().lower() for row in rows}


@dataclass(frozen=True)
class Answered:
    """A run on real speech, and what its terminal said."""

    run: Result
    said: str

    @property
    def screen(self) -> list[str]:
        lines = self.said.splitlines()
        start = max(number for number, line in enumerate(lines) if line.startswith("What the strongest attack tried"))
        return lines[start:]


@pytest.fixture(scope="module")
def answered(speech: Path, tmp_path_factory: pytest.TempPathFactory) -> Answered:
    folder, given = tmp_path_factory.mktemp("answered"), speech / "librispeech"
    sex = sexes(given / "SPEAKERS.TXT")
    speakers = sorted(path.name for path in (given / "train-clean-100").iterdir())
    for wanted in "fm":
        for name in [one for one in speakers if sex[one] == wanted][:LEARNT_FROM]:
            shutil.copytree(given / "train-clean-100" / name, folder / "learnt" / "train-clean-40" / name)
    shutil.copy(given / "SPEAKERS.TXT", folder / "learnt")
    (folder / "shift").mkdir()
    for root in (given / "test-other", folder / "learnt" / "train-clean-40"):
        for source in sorted(root.rglob("*.flac")):
            raised(source, folder / "shift" / f"{source.stem}.wav")
    where = (f"dataset.root={given / 'test-other'}", f"dataset.train={folder / 'learnt' / 'train-clean-40'}")
    done = toy.run(*CHOSEN, *where, cwd=folder, check=True)
    return Answered(read(Path(done.stdout.splitlines()[-1]).parent), done.stdout)


@dataclass(frozen=True)
class Attack:
    """An attack on a set by the definitions.

    Attributes:
        d_ece, eer: on everybody.
        without: D_ECE without each speaker.
        strength: l_w and its ceiling.
    """

    d_ece: float
    eer: float
    without: dict[str, float]
    strength: tuple[float, float]


@pytest.fixture(scope="module")
def defined(answered: Answered) -> dict[tuple[str, str], dict[tuple[str, ...], Attack]]:
    """By set and system, all attacks by who attacks how."""
    found: dict[tuple[str, str], dict[tuple[str, ...], Attack]] = {}
    rows = answered.run.rows
    tried = rows[(rows["metric"] == "eer") & rows["subset"].isin(SETS)]
    for _, row in tried[["subset", "system", *WHO]].drop_duplicates().iterrows():
        scores = answered.run.scores(**row.to_dict())
        found.setdefault((row["subset"], row["system"]), {})[tuple(row[WHO])] = attack(scores)
    return found


def attack(scores: pd.DataFrame) -> Attack:
    same = scores["model_speaker"] == scores["speaker"]
    assert (same == scores["target"]).all()

    def split(kept: pd.Series) -> tuple[np.ndarray, np.ndarray]:
        return tuple(scores["score"][kept & of].to_numpy(np.float64) for of in (same, ~same))  # type: ignore[return-value]

    everybody = split(pd.Series(True, index=scores.index))
    names = sorted(set(scores["model_speaker"]) | set(scores["speaker"]))
    without = {
        name: definitions.d_ece(*split((scores["model_speaker"] != name) & (scores["speaker"] != name)))
        for name in names
    }
    return Attack(definitions.d_ece(*everybody), definitions.eer(*everybody), without, definitions.l_w(*everybody))


Defined = dict[tuple[str, str], dict[tuple[str, ...], Attack]]


def value(defined: Defined, subset: str, system: str, who: tuple[str, ...], metric: str) -> float:
    """Of a set, or the mean of both."""
    parts = SETS if subset == MEAN else (subset,)
    return float(np.mean([getattr(defined[one, system][who], metric) for one in parts]))


def common(defined: Defined, subset: str, system: str) -> list[tuple[str, ...]]:
    """The attacks that there are on a set, or on both."""
    parts = SETS if subset == MEAN else (subset,)
    return [who for who in defined[parts[0], system] if all(who in defined[one, system] for one in parts)]


def row_of(table: pd.DataFrame, **identity: Any) -> dict[str, Any]:
    for name, wanted in identity.items():
        table = table[table[name] == wanted]
    assert len(table) == 1, f"{len(table)} rows of {identity}"
    found: dict[str, Any] = table.iloc[0].to_dict()
    return found


@pytest.mark.parametrize("subset", [MEAN, *SETS])
@pytest.mark.parametrize("system", ["original", *PROTECTED])
def test_each_attack_and_the_strongest_are_those_of_the_definitions(
    answered: Answered, defined: Defined, subset: str, system: str
) -> None:
    attacks = answered.run.attacks
    mine = attacks[(attacks["subset"] == subset) & (attacks["system"] == system)]
    tried = common(defined, subset, system)
    assert len(mine) == len(tried) == ATTACKS[system]
    draws = {("PP", "semi_informed"), *([("OPP", "semi_informed")] if system not in ("original", "b2r") else [])}
    assert {who[:2] for who in tried if who[1] == "semi_informed"} == (draws if system != "original" else set())
    assert {who[4] for who in tried} == {"cosine", "wccn"}
    for _, row in mine.iterrows():
        who = tuple(row[WHO])
        assert row["d_ece"] == pytest.approx(value(defined, subset, system, who, "d_ece"), abs=1e-9)
        assert row["eer"] == pytest.approx(value(defined, subset, system, who, "eer"), abs=1e-9)
    board = row_of(answered.run.leaderboard, subset=subset, system=system)
    parts = SETS if subset == MEAN else (subset,)
    most, lowest = (
        float(np.mean([of(getattr(one, metric) for one in defined[part, system].values()) for part in parts]))
        for of, metric in ((max, "d_ece"), (min, "eer"))
    )
    assert board["d_ece"] == pytest.approx(most, abs=1e-9), "of a mean the strongest attack on each set counts"
    assert board["lowest_eer"] == pytest.approx(lowest, abs=1e-9) and board["lowest_eer"] <= board["eer"] + 1e-12
    if not board["by_set"]:
        own = tuple(board[name] for name in WHO)
        assert value(defined, subset, system, own, "d_ece") == pytest.approx(most, abs=1e-9)
        assert board["eer"] == pytest.approx(value(defined, subset, system, own, "eer"), abs=1e-9)
    assert not board["d_ece_low"] > board["d_ece"] and not board["d_ece_high"] < board["d_ece"] - 0.05
    assert board["n_attacks"] == len(tried) and board["untried"] == ""


def matching(rows: pd.DataFrame, board: dict[str, Any], names: list[str]) -> pd.DataFrame:
    """The rows that are of the same attack as a row of the leaderboard, as far as these columns go."""
    return rows[(rows[names] == [board[name] for name in names]).all(axis=1)]


@pytest.mark.parametrize("subset", SETS)
def test_the_other_columns_are_those_of_the_definitions_or_of_the_rows(
    answered: Answered, defined: Defined, subset: str
) -> None:
    rows = answered.run.rows
    for system in ("original", *PROTECTED):
        board = row_of(answered.run.leaderboard, subset=subset, system=system)
        strength, ceiling = defined[subset, system][tuple(board[name] for name in WHO)].strength
        assert (board["l_w"], board["l_w_ceiling"]) == pytest.approx((strength, ceiling), abs=1e-9)
        assert board["tag"] == definitions.tag(strength)
        for metric in ("alid", "mean_d", "idr", "deid", "g_vd"):
            here = rows[(rows["system"] == system) & (rows["metric"] == metric) & rows["value"].notna()]
            here = here[here["estimator"].isin(["", "empirical"]) & here["subset"].isin([subset, "pooled"])]
            if not len(here):
                assert system == "original" and np.isnan(board[metric]), "nothing to compare unprotected speech with"
                continue
            # Of the attack itself, else of its extractor, else of any: then the one that is least private.
            own = next(
                part
                for part in (matching(here, board, WHO), matching(here, board, ["extractor", "trained_on"]), here)
                if len(part)
            )
            worst = (min if metric == "deid" else max)(own["value"])
            assert board[metric] == pytest.approx(worst, abs=1e-12), (system, metric)


def test_p_values_count_all_swaps_of_ten_speakers(answered: Answered, defined: Defined) -> None:
    """On the mean of both sets, where a speaker's contributions count half, and add up to the values as they stand."""
    held, stratum = {}, np.repeat([0, 1], 5)
    for system in ("original", *PROTECTED):
        # On each set the attacker may choose another attack: of many the six that disclose most there.
        each = [
            sorted(defined[subset, system].values(), key=lambda one: -one.d_ece)[: 4 if system == "original" else 6]
            for subset in SETS
        ]
        choices = list(itertools.product(*each))
        attacks = np.array(
            [
                np.concatenate([0.5 * definitions.contributions(one.d_ece, list(one.without.values())) for one in pair])
                for pair in choices
            ]
        )
        values = np.array([np.mean([one.d_ece for one in pair]) for pair in choices])
        kept = definitions.contend(attacks, stratum, (5, 5))
        held[system] = (attacks + (values - attacks.sum(axis=1))[:, None] / stratum.size)[kept]
    table = answered.run.differences
    table = table[(table["subset"] == MEAN) & (table["under"] == "strongest") & (table["metric"] == "d_ece")]
    assert len(table) == 10 and table["exact"].all() and (table["swaps"] == 512).all()
    assert (table["unprotected"] == (table["reference"] == "original")).all() and table["unprotected"].sum() == 4
    better = []
    for unprotected, family in table.groupby("unprotected"):
        wanted = [definitions.swapped(held[row["reference"]], held[row["system"]]) for _, row in family.iterrows()]
        np.testing.assert_allclose(family["p_value"], wanted, atol=1e-9)
        np.testing.assert_allclose(family["p_holm"], definitions.holm(wanted), atol=1e-9)
        better += [
            (row["system"], row["reference"]) if row["difference"] < 0 else (row["reference"], row["system"])
            for (_, row), p in zip(family.iterrows(), definitions.holm(wanted))
            if p <= 0.05 and not unprotected
        ]
    board = answered.run.leaderboard[answered.run.leaderboard["subset"] == MEAN]
    for _, row in board[board["anonymised"]].iterrows():
        assert row["rank"] == 1 + sum(other == row["system"] for _, other in better)
    order = board[board["anonymised"]]
    assert list(order["system"]) == list(order.sort_values(["rank", "d_ece_corrected"], kind="stable")["system"])
    assert list(board["system"])[-1] == "original" and pd.isna(board["rank"].iloc[-1])


def printed(text: str, want: float) -> bool:
    """Whether a number, as far as its digits go, is the one that is wanted."""
    number = re.search(r"-?\d+(?:\.(\d+))?", text)
    assert number, text
    return abs(float(number[0]) - want) <= 0.5 * 10.0 ** -len(number[1] or "") + 1e-9


def expected(answered: Answered, defined: Defined) -> list[tuple[str, float, float]]:
    """(System, corrected D_ECE, lowest EER in percent by the definitions) of the mean of both sets, as the leaderboard orders them."""
    board = answered.run.leaderboard[answered.run.leaderboard["subset"] == MEAN]
    return [
        (
            system,
            disclosed,
            100 * float(np.mean([min(one.eer for one in defined[part, system].values()) for part in SETS])),
        )
        for system, disclosed in zip(board["system"], board["d_ece_corrected"])
    ]


SAID = r"EER (\S+) % \(.*?\), D_ECE (\S+) bit"


def test_the_last_screen_has_the_answer(answered: Answered, defined: Defined) -> None:
    screen = answered.screen
    assert len(screen) <= LINES
    assert max(map(len, [line for line in screen if not line.startswith(("/", "scorecard"))])) <= COLUMNS
    want = expected(answered, defined)
    start = screen.index(MEAN)
    rows = [
        match
        for line in screen[start:]
        if (match := re.match(r"\s*(\d+=?|–)\s+(\S+)\s+(\d+\.\d+)\S*(?: \[[^\]]*\]\S*)?\s+(\d\.\d+)", line))
    ][: len(want)]
    assert [row[2] for row in rows] == [system for system, _, _ in want]
    for row, (_, disclosed, rate) in zip(rows, want):
        assert printed(row[3], rate) and printed(row[4], disclosed)
    sentence = " ".join(screen[1:start])
    assert re.search(rf"On {re.escape(MEAN)}, (\\S+) (protects|is not shown|does not)|no system is shown", sentence)
    said = re.search(SAID, sentence)
    assert said and any(printed(said[1], rate) and printed(said[2], disclosed) for _, disclosed, rate in want[:-1])
    assert re.search(r"Unprotected speech: EER (\S+) %, D_ECE (\S+) bit, of at most 0.721 bit", sentence)
    assert screen[-1] == str(answered.run.folder / "report.html")


SEEN = """
  const rows = all('[data-system]', page.getElementById('leaderboard')).filter(row => within(row, height));
  return {
    answer: within(page.getElementById('answer'), height) ? text(page.getElementById('answer')) : '',
    systems: rows.map(row => row.dataset.system),
    d_ece: rows.map(row => text(row.querySelector('[data-metric=d_ece] .value, [data-metric=d_ece]'))),
    eer: rows.map(row => text(row.querySelector('[data-metric=eer] .value, [data-metric=eer]'))),
    strongest: rows.map(row => all('.dot.strongest', row).filter(dot => within(dot, height)).length),
    others: rows.map(row => all('.dot:not(.strongest)', row).filter(dot => within(dot, height)).length),
  };
"""


def test_the_first_screen_of_the_report_has_the_answer(answered: Answered, defined: Defined, tmp_path: Path) -> None:
    seen = windows.found(answered.run.folder / "report.html", tmp_path, f"const height = {FIRST_SCREEN};{SEEN}")
    want = expected(answered, defined)
    assert seen["systems"] == [system for system, _, _ in want]
    for (_, disclosed, rate), text, other in zip(want, seen["d_ece"], seen["eer"], strict=True):
        assert printed(text, disclosed) and printed(other, rate)
    # Where another attack is the strongest on each set, the mean of both is none of those that are on both.
    board = answered.run.leaderboard[answered.run.leaderboard["subset"] == MEAN].set_index("system")
    others = [ATTACKS[system] - (board.loc[system, "by_set"] == "") for system, _, _ in want]
    assert seen["strongest"] == [1] * 5 and seen["others"] == others
    said = re.search(SAID, seen["answer"])
    assert said and any(printed(said[1], rate) and printed(said[2], disclosed) for _, disclosed, rate in want[:-1])
