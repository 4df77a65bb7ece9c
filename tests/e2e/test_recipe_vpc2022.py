"""The recipe vpc2022 on a generated folder, by the commands in its README: two models of the challenge in one run."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from tests import toy
from tests.challenge import write
from tests.e2e.recipes_2020 import TWO, Ran, commands, rows, runner, scorecard, words

RECIPE = "vpc2022"
MODEL = Path("baseline/exp/models/user_asv_eval_anon")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write("2022", tmp_path_factory.mktemp("vpc2022") / "DIR", scale=0.001, seconds=0.3).root


@pytest.fixture
def run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Ran:
    return runner(tmp_path, capfd)


@pytest.mark.slow
def test_the_semi_informed_attacker_has_the_model_that_was_trained_on_anonymised_speech(root: Path, run: Ran) -> None:
    """Its numbers are those of a run with that model's vectors and PLDA alone; the others' are of the downloaded one."""
    first = words(commands(RECIPE)[0], root)
    quick = (
        "metric=[asv]",
        "~metric.half",
        "derived=[]",
        "metric.asv.replicates=0",
        "~averages.dev",
        "~averages.test",
        "bands=null",
        TWO,
    )
    status, out, err = run(*first, *quick)
    assert status == 0, err
    found = rows(out).set_index(["subset", "attacker", "metric", "variant"]).sort_index()
    known = dict(zip(found.index.get_level_values("attacker"), found["trained_on"], strict=True))
    assert known["semi_informed"] == "anonymised (the challenge's model)" and known["lazy_informed"] == "original"
    made = scorecard(out, RECIPE)
    assert len(made) == 3680
    alone = (
        "extractor.precomputed.trained_on=anonymised",
        "attacker=[semi_informed]",
    )
    status, out, err = run(*first, *quick, *alone)
    assert status == 0, err
    theirs = rows(out).set_index(["subset", "attacker", "metric", "variant"]).sort_index()
    for subset in ("libri_test_trials_f", "libri_test_trials_m"):
        for metric, variant in (("eer", "kaldi"), ("cllr", ""), ("cllr_min", "")):
            key = (subset, "semi_informed", metric, variant)
            assert found.loc[key, "value"] == theirs.loc[key, "value"]
    lazy, semi = (
        found.loc[("libri_test_trials_f", name, "cllr", ""), "value"] for name in ("lazy_informed", "semi_informed")
    )
    assert lazy != semi


def test_without_that_model_it_is_refused_and_the_remedy_runs(root: Path, run: Ran, tmp_path: Path) -> None:
    copied = shutil.copytree(root, tmp_path / "DIR", symlinks=True)
    shutil.rmtree(copied / MODEL)
    first = words(commands(RECIPE)[0], copied)
    status, _, err = run("plan", *first, TWO, "~averages.dev", "~averages.test", "bands=null")
    assert status == 2
    assert (
        "no vectors by a model that was trained on the anonymised speech of anon" in err and "user_asv_eval_anon" in err
    )
    (without,) = [one for one in commands(RECIPE) if "attacker=[ignorant,lazy_informed]" in one]
    assert "'attacker=[ignorant,lazy_informed]'" in err and "'attacker=[ignorant,lazy_informed]'" in without
    assert run("plan", *words(without, copied))[0] == 0


def test_parameters_of_another_model_are_refused(root: Path, run: Ran) -> None:
    named = f"backend.plda.source={root}/baseline/exp/models/asv_eval/xvect_01709_1"
    status, _, err = run("plan", *words(commands(RECIPE)[0], root), named)
    assert status == 2 and "go with vectors that know original speech" in err


@pytest.mark.slow
def test_all_sets_weighted_averages_and_conditions(root: Path, run: Ran) -> None:
    status, out, err = run(*words(commands(RECIPE)[0], root), "scorecard.systems.mcadams=anon")
    assert status == 0, err
    found = rows(out)
    weights = {"libri_test_trials_f": 0.25, "libri_test_trials_m": 0.25, "vctk_test_trials_f": 0.2, "vctk_test_trials_m": 0.2,
               "vctk_test_trials_f_common": 0.05, "vctk_test_trials_m_common": 0.05}  # fmt: skip
    for metric, variant, attacker in (("eer", "kaldi", "semi_informed"), ("g_vd", "noe2020, half", "")):
        of = found[(found["metric"] == metric) & (found["variant"] == variant) & (found["attacker"] == attacker)]
        values = of.set_index("subset")["value"]
        expected = sum(weight * values[name] for name, weight in weights.items())
        assert np.isclose(values["test (weighted average)"], expected, atol=1e-12)
    assert "Minimum-EER condition met on test (weighted average): anon " in out
    said = toy.summary(out)
    assert "Minimum-EER conditions" in said and "Least EER of condition 1: 15 %, 2: 20 %, 3: 25 %, 4: 30 %" in said
    made = scorecard(out, RECIPE)
    averaged = made[made["subset"].str.contains("weighted") & (made["our_system"] == "anon")]
    assert set(averaged["metric"]) == {"eer", "g_vd"} and set(averaged["variant"]) == {"kaldi", "noe2020, half"}


@pytest.mark.slow
def test_everything_trained_here(root: Path, run: Ran) -> None:
    (trained,) = [one for one in commands(RECIPE) if "train=default" in one]
    quick = ("train=small", "train.steps=20", TWO, "~averages.dev", "~averages.test", "bands=null")
    status, out, err = run(*words(trained, root), *quick)
    assert status == 0, err
    assert {"original", "anon", "b2_vpc2022"} == set(rows(out)["system"])
