"""Diagnostics: each check both ways around its threshold, its sentence, and the table; the published T10-2 case."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats

from pipeline.metrics.treatment import Treatment, treatment
from pipeline.products.checks import words as d
from pipeline.products.checks.words import Finding, Rate
from pipeline.tables import checks

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "tables"
STEP = 0.001


def record(eer: float | None = 0.031, trained: float | None = 0.005, **changed: object) -> dict[str, object]:
    """A training record with an EER on held-out speakers and one on speakers trained on."""
    about = {"speakers": 20, "n_target": 400, "n_nontarget": 7600, "same_session": False, "best_step": 900} | changed
    return {
        "speakers": 148,
        "held_out": None if eer is None else {"eer": eer, **about},
        "trained": None if trained is None else {"eer": trained, **about},
        "suspected_same_speaker": [],
    }


def test_held_out_says_the_eer_and_on_whom():
    found = d.held_out(record(same_session=True))
    assert found == Finding(
        "held_out",
        0.031,
        "fraction",
        "EER on held-out training speakers' anonymised data is 3.1 % (20 speakers, same session).",
        False,
    )
    assert "(1 speaker)" in d.held_out(record(speakers=1)).sentence


@pytest.mark.parametrize(
    ("eer", "on_original", "flagged", "words"),
    [
        (d.HARDLY_WORKS, None, False, "30.0 % (20 speakers)."),
        (d.HARDLY_WORKS + STEP, None, True, "either the system protects this well or the training failed"),
        (d.HARDLY_WORKS + STEP, math.nan, True, "no EER on original speech"),
        (0.5, d.WORKS, False, "not to blame as far as this shows: on original speech the same training has 20.0 %"),
        (0.5, d.WORKS + STEP, True, "The latter is likely, since the same training has 20.1 % on original speech"),
        (0.1, 0.5, False, "10.0 %"),
    ],
)
def test_held_out_is_flagged_where_nothing_shows_that_training_works(eer, on_original, flagged, words):
    found = d.held_out(record(eer), on_original)
    assert found.flagged is flagged and words in found.sentence and f"{100 * eer:.1f} %" in found.sentence


def test_an_attacker_trained_on_original_speech_has_no_protection_to_blame():
    found = d.held_out(record(0.4), 0.1, speech="original")
    assert found.flagged and "held-out training speakers' original data is 40.0 %" in found.sentence
    assert found.sentence.endswith("nothing is protected here, so the training failed.")
    assert "speakers' original data is 3.1 %" in d.gap(record(), 0.1, speech="original")[1].sentence


@pytest.mark.parametrize(
    ("milliseconds", "trimmed", "flagged", "words"),
    [
        ([], False, False, "0 of 8 files of b2 begin or end with digital silence."),
        ([4.0, 9.5, 10.0], True, False, "3 of 8 files of b2 begin or end with digital silence (median 9.5 ms, at most 10 ms); it is"),
        ([1.0], False, True, "; ge2e hears it: padding moves its vectors, and that may look like privacy."),
    ],
)  # fmt: skip
def test_digital_silence_is_flagged_where_it_is_heard(milliseconds, trimmed, flagged, words):
    found = d.digital_silence("b2", 8, milliseconds, "ge2e", trimmed=trimmed)
    assert found.flagged is flagged and words in found.sentence and found.value == len(milliseconds) / 8


def test_nobody_held_out_is_flagged():
    found = d.held_out(record(None))
    assert found.flagged and math.isnan(found.value) and "None of the 148 speakers" in found.sentence


@pytest.mark.parametrize(
    ("trained", "speakers", "flagged"),
    [(0.021, 20, False), (0.019, 20, True), (0.019, d.FEWEST_HELD_OUT, True), (0.019, d.FEWEST_HELD_OUT - 1, False)],
)
def test_overfitting(trained, speakers, flagged):
    [found, _] = d.gap(record(0.12, trained, speakers=speakers), 0.12)
    assert found.check == "training_gap" and found.value == pytest.approx(0.12 - trained)
    assert found.flagged is flagged and ("overfitted" in found.sentence) is flagged
    points = f"{100 * (0.12 - trained):.1f} points above the {100 * trained:.1f} % on speakers trained on"
    assert "12.0 %" in found.sentence and points in found.sentence
    assert ("this says little" in found.sentence) is (speakers < d.FEWEST_HELD_OUT)


@pytest.mark.parametrize(
    ("test", "same_session", "flagged", "words"),
    [
        (0.081, False, False, "is 3.1 % (20 speakers), 5.0 points below the test's 8.1 %."),
        (0.031 + d.MISMATCH - STEP, False, False, "9.9 points below the test's 13.0 %."),
        (0.031 + d.MISMATCH + STEP, False, True, "10.1 points below the test's 13.2 %: the test differs from"),
        (0.031 + d.MISMATCH + STEP, True, False, "13.2 %, but pairs within one session are easier"),
        (0.011, False, False, "2.0 points above the test's 1.1 %."),
        (0.031, False, False, "equal to the test's 3.1 %."),
    ],
)
def test_gap_between_held_out_speakers_and_the_test(test, same_session, flagged, words):
    found = d.gap(record(same_session=same_session), test)[1]
    assert found.check == "test_gap" and found.value == pytest.approx(test - 0.031)
    assert found.flagged is flagged and words in found.sentence


def test_gaps_without_their_numbers_are_not_there():
    assert d.gap(record(None), 0.1) == []
    assert [found.check for found in d.gap(record(trained=None), 0.1)] == ["test_gap"]
    assert [found.check for found in d.gap(record(), math.nan)] == ["training_gap"]


@pytest.mark.parametrize(
    ("own", "other", "flagged", "words"),
    [
        (d.WORKS, 0.05, False, "the attacker has an EER of 20.0 %; one that was trained on original speech has 5.0 %."),
        (d.WORKS + STEP, 0.05, True, "20.1 %; one that was trained on original speech has 5.0 %: it cannot recognise"),
        (d.WORKS + STEP, None, True, "20.1 %: it cannot recognise even unprotected speakers"),
        (0.1, d.WORKS + STEP, True, "20.1 %: these trials or this extractor are too hard"),
        (None, 0.1, False, "an attacker trained on original speech has 10.0 %."),
        (math.nan, 0.3, True, "30.0 %: these trials or this extractor are too hard"),
    ],
)
def test_the_attacker_on_original_speech(own, other, flagged, words):
    found = d.on_original(own, other)
    assert found.flagged is flagged and words in found.sentence
    assert found.value == (other if own is None or math.isnan(own) else own)


def test_on_original_needs_a_number():
    with pytest.raises(ValueError, match="needs an EER"):
        d.on_original(None, math.nan)


def of_similarities(enrolment: list[float], trial: list[float], names: str = "abcdefgh") -> Treatment:
    def vectors(values: list[float]) -> np.ndarray:
        cosine = np.array(values)
        return np.stack([cosine, np.sqrt(1 - cosine**2)], axis=1)

    one = np.tile([1.0, 0.0], (len(enrolment), 1))
    return treatment(one, vectors(enrolment), one, vectors(trial), list("abcdefgh"), list(names))


PROTECTED = [0.62, 0.64, 0.60, 0.66, 0.61, 0.63, 0.65, 0.63]


def test_treated_differently_says_both_similarities_and_what_follows():
    found = d.treated_differently(of_similarities([1.0] * 8, PROTECTED))
    assert found.flagged and found.value == pytest.approx(0.37)
    assert "1.000 to its original, trials 0.630 (8 speakers; difference +0.370, p < 0.001)" in found.sentence
    assert "the enrolment is not protected, so the EER compares two kinds of speech" in found.sentence
    weaker = d.treated_differently(of_similarities(PROTECTED, [v + 0.2 for v in PROTECTED]))
    assert weaker.flagged and "difference \N{MINUS SIGN}0.200" in weaker.sentence
    assert "the trials are protected 54 % less" in weaker.sentence
    alike = d.treated_differently(of_similarities(PROTECTED, PROTECTED[::-1]))
    assert not alike.flagged and alike.sentence.endswith("p = 1.000).") and "0.630 (8 speakers" in alike.sentence
    others = d.treated_differently(of_similarities(PROTECTED, PROTECTED, "ijklmnop"))
    assert "(8 and 8 speakers;" in others.sentence


@pytest.mark.parametrize(
    ("protected", "original", "flagged"),
    [
        (0.056, 0.014, True),
        (0.099, 0.08, False),
        (0.101, 0.08, True),
        (0.02, 0.30, False),
        (Rate(0.3, 0.1, 0.5), 0.2, True),
    ],
)
def test_protected_enrolment_that_is_weaker_than_original_enrolment(protected, original, flagged):
    found = d.original_enrolment(protected, original)
    assert found.flagged is flagged and ("attacker.NAME.enrolment_level=utterance" in found.sentence) is flagged
    assert all(f"{100 * value:.1f} %" in found.sentence for value in (d._rate(protected).value, original))
    assert found.value == pytest.approx(d._rate(protected).value - original)


@pytest.mark.parametrize(
    ("system", "training", "flagged", "words"),
    [
        (
            "utterance",
            "speaker",
            True,
            "(EER 12.3 %) was anonymised at utterance level and the attacker's training speech at speaker level: a matched",
        ),
        (
            "speaker, shared",
            "utterance",
            False,
            "at speaker level and the attacker's training speech at utterance level, as",
        ),
        ("speaker, shared", "speaker", False, "both anonymised at speaker level (EER 12.3 %)"),
        ("fixed, shared", "fixed, shared", False, "both anonymised at fixed level"),
        ("unknown", "speaker", False, "is not known (EER 12.3 %)"),
        ("", "", False, "is not known"),
    ],
)
def test_level_of_the_training_speech(system, training, flagged, words):
    found = d.training_level(system, training, 0.123)
    assert found.flagged is flagged and words in found.sentence and found.value == 0.123
    assert "EER" not in d.training_level(system, training).sentence


def published() -> dict[str, dict[str, float]]:
    """EER, MeanD and IdR (ET_anon) by system of Table 1 of the SRD paper."""
    found: dict[str, dict[str, float]] = {}
    with (GOLDEN / "srd2026_table1.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            name = {"eer": "EER", "mean_d": "MeanD", "idr": "IdR"}.get(row["metric"])
            if name and (name == "EER" or (row["extractor"], row["trained_on"]) == ("ecapa", "anonymised")):
                found.setdefault(row["system"], {})[name] = float(row["value"])
    return {system: values for system, values in found.items() if len(values) == 3}


def test_of_the_published_systems_t10_2_alone_contradicts_itself():
    """Chance of 800 inputs among 40 references: MeanD below 0.053 bit in 97.5 % (independent inputs)."""
    systems = published()
    assert len(systems) == 7
    for system, values in systems.items():
        found = d.eer_against_srd(values["EER"] / 100, values["MeanD"], 0.053, values["IdR"] / 100, 40)
        assert found.flagged is (system == "T10-2"), system
        assert f"{values['EER']:.1f} %" in found.sentence and f"{values['MeanD']:.2f} bit" in found.sentence
    assert "40.8 %" in d.eer_against_srd(0.408, 3.12, 0.053, 0.6937, 40).sentence
    assert "near chance, yet the vectors disclose" in d.eer_against_srd(0.408, 3.12, 0.053, 0.6937, 40).sentence
    assert "(chance: MeanD up to 0.05 bit, 2.5 %)" in d.eer_against_srd(0.408, 3.12, 0.053, 0.6937, 40).sentence


def most_bits(eer: float) -> float:
    """Twice the divergence of two Gaussians with this EER, by quadrature."""
    distance = 2 * stats.norm.isf(eer)

    def integrand(x: float) -> float:
        return stats.norm.pdf(x, distance) * (stats.norm.logpdf(x, distance) - stats.norm.logpdf(x)) / np.log(2)

    return 2 * integrate.quad(integrand, -12, distance + 12)[0]


@pytest.mark.parametrize("eer", [0.1, 0.25, 0.35])
def test_srd_may_disclose_twice_what_gaussian_scores_can(eer):
    limit = 0.05 + most_bits(eer)
    assert not d.eer_against_srd(eer, limit - STEP, 0.05, 0.2, 40).flagged
    assert d.eer_against_srd(eer, limit + STEP, 0.05, 0.2, 40).flagged
    # the interval's lower end counts
    assert not d.eer_against_srd(Rate(eer, eer - 0.05, eer + 0.05), limit + STEP, 0.05, 0.2, 40).flagged


def test_ranks_of_gaussian_scores_are_never_flagged():
    """The bound against ranks that are drawn: MeanD of many inputs stays below the divergence, so no flag at any EER."""
    random = np.random.default_rng(0)
    for distance in (0.0, 0.5, 1.0, 2.0, 4.0):
        ranks = random.binomial(39, stats.norm.sf(random.normal(distance, 1, 200_000)))
        share = np.bincount(ranks, minlength=40) / ranks.size
        mean_d = float(np.sum(share * np.log2(40 * np.maximum(share, 1e-300))))
        assert mean_d < most_bits(stats.norm.sf(distance / 2)) / 2 + 1e-3
        assert not d.eer_against_srd(float(stats.norm.sf(distance / 2)), mean_d, 0.0004, share[0], 40).flagged


@pytest.mark.parametrize(
    ("eer", "mean_d", "flagged"),
    [(0.5, 0.05 + d.LEAST_BITS, False), (0.5, 0.05 + d.LEAST_BITS + STEP, True), (d.WORKS, 0.05, True),
     (d.WORKS + STEP, 0.05, False), (d.WORKS, 0.05 + STEP, False), (0.0, 5.3, False)],
)  # fmt: skip
def test_eer_against_srd_at_the_ends(eer, mean_d, flagged):
    found = d.eer_against_srd(eer, mean_d, 0.05, 0.03, 40)
    assert found.flagged is flagged and found.value == mean_d
    if flagged and eer < 0.5:
        assert "do not rely on the SRD" in found.sentence


def test_without_a_null_band_nothing_is_said_against_either():
    found = d.eer_against_srd(0.5, 4.0, math.nan, 0.7, 40)
    assert not found.flagged and "without a null band" in found.sentence and "4.00 bit" in found.sentence


def test_a_weak_back_end_is_flagged_with_its_reason():
    found = d.weak_backend("PLDA was trained on pieces of one session a speaker.", 148)
    assert found.flagged and found.value == 148
    assert found.sentence == "The back end is weak: PLDA was trained on pieces of one session a speaker (148 speakers)."
    assert math.isnan(d.weak_backend("so it is").value)


def test_speakers_who_look_like_one():
    assert d.suspected_same_speaker(record()) == Finding(
        "suspected_same_speaker", 0.0, "count", "0 pairs of the 148 speakers trained on look like one person.", False
    )
    one = record() | {"suspected_same_speaker": [["a", "b", 0.912]]}
    assert d.suspected_same_speaker(one).sentence == (
        "1 pair of training speakers looks like one person under two ids: a and b (cosine 0.91)."
    )
    many = record() | {"suspected_same_speaker": [[f"p{k}", f"q{k}", 0.8 + k / 100] for k in range(5)]}
    found = d.suspected_same_speaker(many)
    assert found.flagged and found.value == 5 and "p4 and q4 (cosine 0.84), p3 and q3" in found.sentence
    assert found.sentence.endswith("and 2 more.") and "p1" not in found.sentence


@pytest.mark.parametrize(
    ("semi", "lazy", "flagged"),
    [
        (0.30, 0.30 - d.MARGIN + STEP, False),
        (0.30, 0.30 - d.MARGIN - STEP, True),
        (0.20, 0.40, False),
        (Rate(0.30, 0.25, 0.35), Rate(0.24, 0.19, 0.29), False),
        (Rate(0.30, 0.25, 0.35), Rate(0.22, 0.17, 0.27), True),
        (Rate(0.30, 0.25, 0.35), 0.27, True),
    ],
)
def test_a_semi_informed_attacker_that_is_beaten(semi, lazy, flagged):
    found = d.attackers({"semi_informed": semi, "lazy_informed": lazy, "ignorant": 0.45})
    lowest = min(d._rate(semi).value, d._rate(lazy).value)
    assert found.flagged is flagged and found.value == lowest
    assert f"{100 * lowest:.1f} %" in found.sentence and f"{100 * d._rate(semi).value:.1f} %" in found.sentence
    assert ("Report the lowest EER" in found.sentence) is flagged


def test_attackers_without_the_adapted_one_are_only_listed():
    found = d.attackers({"ignorant": 0.45, "lazy_informed": 0.3})
    assert (
        found.sentence == "The lazy-informed attacker has the lowest EER, 30.0 % (ignorant 45.0 %)."
        and not found.flagged
    )
    assert d.attackers({"mine": 0.1}).sentence == "The mine attacker is the only one (EER 10.0 %)."
    assert d.attackers({"mine": 0.4, "ignorant": 0.1}, adapted="mine").flagged
    with pytest.raises(ValueError, match="needs an EER"):
        d.attackers({})


def test_every_sentence_is_one_that_can_be_printed():
    """A capital or a number in front, one full stop at the end, a digit in it, and no doubled blanks or stops."""
    findings = [
        d.held_out(record()), d.held_out(record(None)), d.held_out(record(0.4)), d.held_out(record(0.4), 0.1),
        d.held_out(record(0.4), 0.3), *d.gap(record(), 0.2), *d.gap(record(0.3, 0.0, speakers=2), 0.5),
        d.on_original(0.1), d.on_original(0.4, 0.3), d.treated_differently(of_similarities([1.0] * 8, PROTECTED)),
        d.original_enrolment(0.4, 0.1), d.original_enrolment(0.1, 0.4), d.training_level("speaker", "utterance", 0.1),
        d.eer_against_srd(0.45, 2.0, 0.1, 0.5, 20), d.eer_against_srd(0.1, 0.0, 0.1, 0.05, 20),
        d.weak_backend("it is", 3), d.suspected_same_speaker(record()), d.attackers({"semi_informed": 0.4, "ignorant": 0.1}),
    ]  # fmt: skip
    for found in findings:
        text = found.sentence
        assert text[0].isupper() or text[0].isdigit(), text
        assert text.endswith(".") and not text.endswith("..") and "  " not in text and " ." not in text, text
        assert any(character.isdigit() for character in text) and "nan" not in text, text
        assert found.unit in ("fraction", "count", "bit", "")


def test_the_table_has_the_columns_of_the_contract():
    place = {"dataset": "libri", "subset": "f", "system": "b2", "attacker": "semi_informed"}
    table = checks.frame([(place, d.held_out(record())), ({**place, "subset": "e"}, d.held_out(record(None)))])
    assert list(table.columns) == (
        [
            "dataset",
            "subset",
            "condition",
            "system",
            "attacker",
            "extractor",
            "trained_on",
            "backend",
            "check",
            "value",
            "unit",
            "sentence",
            "flagged",
        ]
    )
    assert list(table["subset"]) == ["e", "f"] and (table["backend"] == "").all()
    assert table["value"].dtype == np.float64 and table["flagged"].dtype == np.bool_
    assert all(
        table[column].dtype == pd.StringDtype() for column in table.columns if column not in ("value", "flagged")
    )
    assert list(table["flagged"]) == [True, False]
    empty = checks.frame([])
    assert list(empty.dtypes) == list(table.dtypes) and empty.empty
    with pytest.raises(ValueError, match="stands twice"):
        checks.frame([(place, d.held_out(record()))] * 2)
    with pytest.raises(ValueError, match="colour"):
        checks.frame([({"colour": "red"}, d.held_out(record()))])


def test_the_table_survives_a_file(tmp_path: Path):
    table = checks.frame([({"system": "b2"}, d.held_out(record()))])
    table.to_parquet(tmp_path / "diagnostics.parquet", index=False)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "diagnostics.parquet"), table, check_dtype=False)


def test_fine_tuning_that_brought_nothing_is_flagged():
    record = {"held_out_before": {"eer": 0.112}, "held_out": {"eer": 0.045}, "brought": True}
    found = d.fine_tuning(record)
    assert not found.flagged and "from 11.2 % to 4.5 %" in found.sentence and abs(found.value - 0.067) < 1e-12
    found = d.fine_tuning({**record, "held_out": {"eer": 0.112}, "brought": False})
    assert found.flagged and "brought nothing" in found.sentence and "11.2 %" in found.sentence


@pytest.mark.parametrize(
    ("same_session", "speakers", "test", "flagged"),
    [(False, 34, 0.2, True), (True, 34, 0.2, False), (False, 4, 0.2, False), (False, 34, 0.1, False)],
)
def test_original_speech_that_is_far_harder_than_held_out_speakers(same_session, speakers, test, flagged):
    held = {"eer": 0.05, "same_session": same_session, "speakers": speakers}
    found = d.original_gap(held, test)
    assert found.flagged is flagged and f"{100 * (test - 0.05):.1f} points above the 5.0 %" in found.sentence
