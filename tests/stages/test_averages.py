"""Which means over trial sets are formed without being asked for: those of one corpus's sets of f and m."""

from __future__ import annotations

import pytest

from pipeline.cli.compose import compose
from pipeline.stages.settings import list_averages, means_of_sexes

LIBRI = ["libri_test_trials_f", "libri_test_trials_m"]
HALVES = {"libri_test (mean of f and m)": dict.fromkeys(LIBRI, 0.5)}


@pytest.mark.parametrize(
    ("sets", "covered", "means"),
    [
        (LIBRI, [], HALVES),
        (LIBRI[::-1], [{"another": 1.0}], HALVES),
        (["x_f", "x_m", "y_f"], [], {"x (mean of f and m)": {"x_f": 0.5, "x_m": 0.5}}),
        (["my-set-female", "my-set-male"], [], {"my-set (mean of f and m)": {"my-set-female": 0.5, "my-set-male": 0.5}}),
        (
            ["vctk_test_trials_f", "vctk_test_trials_m", "vctk_test_trials_f_common", "vctk_test_trials_m_common"],
            [],
            {
                "vctk_test (mean of f and m)": {"vctk_test_trials_f": 0.5, "vctk_test_trials_m": 0.5},
                "vctk_test_common (mean of f and m)": {"vctk_test_trials_f_common": 0.5, "vctk_test_trials_m_common": 0.5},
            },
        ),
        # An average of a recipe holds both already, or a set has the name of the mean.
        (LIBRI, [{**dict.fromkeys(LIBRI, 0.25), "dev": 0.5}], {}),
        ([*LIBRI, "libri_test (mean of f and m)"], [], {}),
        (["toy_trials", "toy_trials_f", "other_trials_m", "libri_test (pooled)"], [], {}),
    ],
)  # fmt: skip
def test_the_sets_of_both_sexes_of_a_corpus_are_a_mean(
    sets: list[str], covered: list[dict[str, float]], means: dict[str, dict[str, float]]
) -> None:
    assert means_of_sexes(sets, covered) == means


def test_the_mean_is_formed_unless_it_is_switched_off_or_configured() -> None:
    given = ["recipe=kaldi", "dataset.root=/nowhere"]
    (mean,) = list_averages(compose(given)[0], LIBRI).values()
    assert ({mean.subset: mean.weights}, mean.metrics) == (HALVES, ("eer", "d_ece"))
    assert list_averages(compose([*given, "report.mean_of_sexes=false"])[0], LIBRI) == {}
    recipe = compose(["recipe=bring_your_scores", "dataset.root=/nowhere"])[0]
    assert [one.subset for one in list_averages(recipe, LIBRI).values()] == ["libri_test (mean of f and m)"], (
        "not twice"
    )
