"""The recipe vpc2020 on a generated folder, by the commands in its README."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.challenge import write
from tests.e2e.recipes_2020 import TWO, Ran, commands, rows, runner, scorecard, words

RECIPE = "vpc2020"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write("2020", tmp_path_factory.mktemp("vpc2020") / "DIR", scale=0.001, seconds=0.3).root


@pytest.fixture
def run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Ran:
    return runner(tmp_path, capfd)


@pytest.mark.slow
def test_the_command_gives_each_published_cell_a_verdict(root: Path, run: Ran) -> None:
    status, out, err = run(
        *words(commands(RECIPE)[0], root), "dataset.sets=[libri_test_trials_f]", "scorecard.systems.B2=anon"
    )
    assert status == 0, err
    found = rows(out)
    assert set(found["system"]) == {"original", "anon"}
    assert set(found["attacker"]) == {"unprotected", "ignorant", "lazy_informed", ""}
    assert set(found[found["metric"] == "eer"]["variant"]) == {"kaldi", "rocch"}
    assert set(found[found["metric"] == "deid"]["variant"]) == {"", "noe2020", "noe2020, half"}
    assert set(found[found["metric"] == "g_d_ece"]["variant"]) >= {"trial_lists"}
    assert {"cllr", "cllr_min", "d_sys", "d_ece", "l_w", "tag", "g_vd"} <= set(found["metric"])
    made = scorecard(out, RECIPE)
    ours = made[(made["our_system"] == "anon") & made["metric"].isin(["deid", "g_vd"])]
    values = found[found["subset"].isin(ours["subset"])].set_index(["subset", "metric", "variant"])["value"]
    assert len(ours) == 4  # DeID of Noé 2022 in Tables 2 and 3, G_VD in 2 and 4
    for cell in ours.to_dict("records"):
        plain = values[cell["subset"], cell["metric"], ""]
        assert float(cell["ours"]) == pytest.approx(plain * (100 if cell["metric"] == "deid" else 1), abs=1e-9)


def test_systems_without_vectors_are_refused_with_the_command_that_trains(root: Path, run: Ran) -> None:
    first = words(commands(RECIPE)[0], root)
    status, _, err = run("plan", *first, TWO, "system=[original,found,b2_vpc2020,b2r]")
    assert status == 2 and "no vectors of b2_vpc2020, b2r are there" in err
    (trained,) = [one for one in commands(RECIPE) if "train=default" in one]
    remedy = err.partition("an extractor of the run needs none: ")[2].splitlines()[0]
    assert remedy in trained
    assert run("plan", *words(trained, root), TWO)[0] == 0


@pytest.mark.slow
def test_all_sets_and_what_is_trained_here(root: Path, run: Ran) -> None:
    status, out, err = run(*words(commands(RECIPE)[0], root), "scorecard.systems.B2=anon")
    assert status == 0, err
    assert rows(out)["subset"].nunique() == 12
    made = scorecard(out, RECIPE)
    of_2020 = made[(made["source"].str.contains("2020")) & (made["our_system"] == "anon")]
    assert len(of_2020) > 0
    (trained,) = [one for one in commands(RECIPE) if "train=default" in one]
    status, out, err = run(*words(trained, root), "train=small", "train.steps=20", TWO)
    assert status == 0, err
    assert {"original", "anon", "b2_vpc2020", "b2r"} == set(rows(out)["system"])
    made = scorecard(out, RECIPE)
    assert {"b2_vpc2020", "b2r"} <= set(made["our_system"])
