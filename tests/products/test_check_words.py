"""Diagnostics: each check both ways around its threshold, its sentence, and the table; the published T10-2 case."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats

from pipeline.metrics.treatment import Treatment, treatment
from pipeline.products.checks import words
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


@pytest.mark.parametrize(
    ("eer", "on_original", "flagged", "part"),
    [
        (words.HARDLY_WORKS, None, False, "anonymised data is 30.0 % (20 speakers)."),
        (words.HARDLY_WORKS + STEP, None, True, "either the system protects this well or the training failed"),
        (words.HARDLY_WORKS + STEP, math.nan, True, "no EER on original speech"),
        (0.5, words.WORKS, False, "not to blame as far as this shows: on original speech it has 20.0 %"),
        (0.5, words.WORKS + STEP, True, "The latter is likely, since the same training has 20.1 % on original speech"),
        (0.1, 0.5, False, "10.0 %"),
    ],
)
def test_held_out_is_flagged_where_nothing_shows_that_training_works(eer, on_original, flagged, part):
    finding = words.held_out(record(eer), on_original)
    assert finding.flagged is flagged and part in finding.sentence and f"{100 * eer:.1f} %" in finding.sentence
    assert (finding.check, finding.value, finding.unit) == ("held_out", eer, "fraction")


def test_an_attacker_trained_on_original_speech_has_no_protection_to_blame():
    finding = words.held_out(record(0.4), 0.1, speech="original")
    assert finding.flagged and "held-out training speakers' original data is 40.0 %" in finding.sentence
    assert finding.sentence.endswith("nothing is protected here, so the training failed.")


@pytest.mark.parametrize(
    ("milliseconds", "trimmed", "flagged", "part"),
    [
        ([], False, False, "0 of 8 files of b2 begin or end with digital silence."),
        ([4.0, 9.5, 10.0], True, False, "3 of 8 files of b2 begin or end with digital silence (median 9.5 ms, at most 10 ms); it is"),
        ([1.0], False, True, "; ge2e hears it: padding moves its vectors, and that may look like privacy."),
    ],
)  # fmt: skip
def test_digital_silence_is_flagged_where_it_is_heard(milliseconds, trimmed, flagged, part):
    finding = words.digital_silence("b2", 8, milliseconds, "ge2e", trimmed=trimmed)
    assert finding.flagged is flagged and part in finding.sentence and finding.value == len(milliseconds) / 8


def test_nobody_held_out_is_flagged():
    finding = words.held_out(record(None))
    assert finding.flagged and math.isnan(finding.value) and "None of the 148 speakers" in finding.sentence


@pytest.mark.parametrize(
    ("trained", "speakers", "flagged"),
    [(0.021, 20, False), (0.019, 20, True), (0.019, words.FEWEST_HELD_OUT, True), (0.019, words.FEWEST_HELD_OUT - 1, False)],
)  # fmt: skip
def test_overfitting(trained, speakers, flagged):
    [finding] = words.training_gap(record(0.12, trained, speakers=speakers))
    assert finding.check == "training_gap" and finding.value == pytest.approx(0.12 - trained)
    assert finding.flagged is flagged and ("overfitted" in finding.sentence) is flagged
    points = f"{100 * (0.12 - trained):.1f} points above the {100 * trained:.1f} % on speakers trained on"
    assert "12.0 %" in finding.sentence and points in finding.sentence
    assert ("this says little" in finding.sentence) is (speakers < words.FEWEST_HELD_OUT)


@pytest.mark.parametrize(
    ("test", "same_session", "flagged", "part"),
    [
        (0.081, False, False, "is 3.1 % (20 speakers), 5.0 points below the test's 8.1 %."),
        (0.031 + words.GAP - STEP, False, False, "9.9 points below the test's 13.0 %."),
        (0.031 + words.GAP + STEP, False, True, "10.1 points below the test's 13.2 %: the test differs from"),
        (0.031 + words.GAP + STEP, True, False, "13.2 %, but pairs within one session are easier"),
        (0.011, False, False, "2.0 points above the test's 1.1 %."),
        (0.031, False, False, "equal to the test's 3.1 %."),
    ],
)
def test_gap_between_held_out_speakers_and_the_test(test, same_session, flagged, part):
    [finding] = words.test_gap(record(same_session=same_session), test)
    assert finding.check == "test_gap" and finding.value == pytest.approx(test - 0.031)
    assert finding.flagged is flagged and part in finding.sentence


def test_gaps_without_their_numbers_are_not_there():
    assert [*words.training_gap(record(None)), *words.training_gap(record(trained=None))] == []
    assert [*words.test_gap(record(None), 0.1), *words.test_gap(record(), math.nan)] == []


@pytest.mark.parametrize(
    ("own", "other", "flagged", "part"),
    [
        (
            words.WORKS,
            0.05,
            False,
            "this attacker has an EER of 20.0 % and an attacker trained on original speech has an EER of 5.0 %.",
        ),
        (
            words.WORKS + STEP,
            0.05,
            True,
            "trained on original speech has an EER of 5.0 %: it cannot recognise even unprotected speakers",
        ),
        (words.WORKS + STEP, None, True, "20.1 %: it cannot recognise even unprotected speakers"),
        (0.1, words.WORKS + STEP, True, "20.1 %: these trials or this extractor are too hard"),
        (None, 0.1, False, "an attacker trained on original speech has an EER of 10.0 %."),
        (None, 0.3, True, "30.0 %: these trials or this extractor are too hard"),
    ],
)
def test_the_attacker_on_original_speech(own, other, flagged, part):
    finding = words.on_original(own, other)
    assert finding.flagged is flagged and part in finding.sentence
    assert finding.value == (other if own is None else own)


def of_similarities(enrolment: Sequence[float], trial: Sequence[float], names: str = "abcdefgh") -> Treatment:
    def vectors(values: Sequence[float]) -> np.ndarray:
        cosine = np.array(values)
        return np.stack([cosine, np.sqrt(1 - cosine**2)], axis=1)

    originals = np.tile([1.0, 0.0], (len(enrolment), 1))
    return treatment(originals, vectors(enrolment), originals, vectors(trial), list("abcdefgh"), list(names))


PROTECTED = [0.62, 0.64, 0.60, 0.66, 0.61, 0.63, 0.65, 0.63]


def test_treated_differently_says_both_similarities_and_what_follows():
    finding = words.treated_differently(of_similarities([1.0] * 8, PROTECTED))
    assert finding.flagged and finding.value == pytest.approx(0.37)
    assert "1.000 to its original, trials 0.630 (8 and 8 speakers; difference +0.370, p < 0.001)" in finding.sentence
    assert "the enrolment is not protected, so the EER compares two kinds of speech" in finding.sentence
    weaker = words.treated_differently(of_similarities(PROTECTED, [v + 0.2 for v in PROTECTED]))
    assert weaker.flagged and "difference \N{MINUS SIGN}0.200" in weaker.sentence
    assert "the trials are protected 54 % less" in weaker.sentence
    alike = words.treated_differently(of_similarities(PROTECTED, PROTECTED[::-1]))
    assert not alike.flagged and alike.sentence.endswith("p = 1.000).")


@pytest.mark.parametrize(
    ("protected", "original", "flagged"),
    [(0.056, 0.014, True), (0.099, 0.08, False), (0.101, 0.08, True), (0.02, 0.30, False)],
)
def test_protected_enrolment_that_is_weaker_than_original_enrolment(protected, original, flagged):
    finding = words.original_enrolment(protected, original)
    assert finding.flagged is flagged and (words.DRAW in finding.sentence) is flagged
    assert all(f"{100 * value:.1f} %" in finding.sentence for value in (protected, original))
    assert finding.value == pytest.approx(protected - original)


@pytest.mark.parametrize(
    ("system", "training", "flagged", "part"),
    [
        ("utterance", "speaker", True, "at utterance level, and the attacker's training speech at speaker level: a matched"),
        ("speaker, shared", "utterance", False, "at speaker level, and the attacker's training speech at utterance level."),
        ("fixed, shared", "fixed, shared", False, "at fixed level, and the attacker's training speech at fixed level."),
        ("unknown", "speaker", False, "at unknown level"),
        ("", "", False, "at unknown level"),
    ],
)  # fmt: skip
def test_level_of_the_training_speech(system, training, flagged, part):
    finding = words.training_level(system, training, 0.123)
    assert finding.flagged is flagged and part in finding.sentence and finding.value == 0.123


def published() -> dict[str, dict[str, float]]:
    """EER, MeanD and IdR (ET_anon) by system of Table 1 of the SRD paper."""
    values: dict[str, dict[str, float]] = {}
    with (GOLDEN / "srd2026_table1.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            name = {"eer": "EER", "mean_d": "MeanD", "idr": "IdR"}.get(row["metric"])
            if name and (name == "EER" or (row["extractor"], row["trained_on"]) == ("ecapa", "anonymised")):
                values.setdefault(row["system"], {})[name] = float(row["value"])
    return {system: numbers for system, numbers in values.items() if len(numbers) == 3}


def test_of_the_published_systems_t10_2_alone_contradicts_itself():
    """Chance of 800 inputs among 40 references: MeanD below 0.053 bit in 97.5 % (independent inputs)."""
    systems = published()
    assert len(systems) == 7
    for system, numbers in systems.items():
        finding = words.eer_against_srd(Rate(numbers["EER"] / 100), numbers["MeanD"], 0.053, numbers["IdR"] / 100, 40)
        assert finding.flagged is (system == "T10-2"), system
        assert f"{numbers['EER']:.1f} %" in finding.sentence and f"{numbers['MeanD']:.2f} bit" in finding.sentence
    sentence = words.eer_against_srd(Rate(0.408), 3.12, 0.053, 0.6937, 40).sentence
    assert "40.8 %" in sentence and "near chance, yet the vectors disclose" in sentence
    assert "(chance: MeanD up to 0.05 bit, 2.5 %)" in sentence


def most_bits(eer: float) -> float:
    """Twice the divergence of two Gaussians with this EER, by quadrature."""
    distance = 2 * stats.norm.isf(eer)

    def integrand(x: float) -> float:
        return stats.norm.pdf(x, distance) * (stats.norm.logpdf(x, distance) - stats.norm.logpdf(x)) / np.log(2)

    return 2 * integrate.quad(integrand, -12, distance + 12)[0]


@pytest.mark.parametrize("eer", [0.1, 0.25, 0.35])
def test_srd_may_disclose_twice_what_gaussian_scores_can(eer):
    limit = 0.05 + most_bits(eer)
    assert not words.eer_against_srd(Rate(eer), limit - STEP, 0.05, 0.2, 40).flagged
    assert words.eer_against_srd(Rate(eer), limit + STEP, 0.05, 0.2, 40).flagged
    # the interval's lower end counts
    assert not words.eer_against_srd(Rate(eer, eer - 0.05, eer + 0.05), limit + STEP, 0.05, 0.2, 40).flagged


def test_ranks_of_gaussian_scores_are_never_flagged():
    """The bound against ranks that are drawn: MeanD of many inputs stays below the divergence, so no flag at any EER."""
    random = np.random.default_rng(0)
    for distance in (0.0, 0.5, 1.0, 2.0, 4.0):
        ranks = random.binomial(39, stats.norm.sf(random.normal(distance, 1, 200_000)))
        share = np.bincount(ranks, minlength=40) / ranks.size
        mean_d = float(np.sum(share * np.log2(40 * np.maximum(share, 1e-300))))
        eer = float(stats.norm.sf(distance / 2))
        assert mean_d < most_bits(eer) / 2 + 1e-3
        assert not words.eer_against_srd(Rate(eer), mean_d, 0.0004, share[0], 40).flagged


@pytest.mark.parametrize(
    ("eer", "mean_d", "flagged"),
    [(0.5, 0.05 + words.LEAST_BITS, False), (0.5, 0.05 + words.LEAST_BITS + STEP, True), (words.WORKS, 0.05, True),
     (words.WORKS + STEP, 0.05, False), (words.WORKS, 0.05 + STEP, False), (0.0, 5.3, False)],
)  # fmt: skip
def test_eer_against_srd_at_the_ends(eer, mean_d, flagged):
    finding = words.eer_against_srd(Rate(eer), mean_d, 0.05, 0.03, 40)
    assert finding.flagged is flagged and finding.value == mean_d
    assert ("do not rely on the SRD" in finding.sentence) is (flagged and eer < 0.5)


def test_speakers_who_look_like_one():
    assert not words.suspected_same_speaker(record()).flagged
    many = record() | {"suspected_same_speaker": [[f"p{k}", f"q{k}", 0.8 + k / 100] for k in range(5)]}
    finding = words.suspected_same_speaker(many)
    assert finding.flagged and finding.value == 5 and "p4 and q4 (cosine 0.84), p3 and q3" in finding.sentence
    assert "p1" not in finding.sentence


@pytest.mark.parametrize(
    ("semi", "lazy", "flagged"),
    [
        (Rate(0.30), Rate(0.30 - words.MARGIN + STEP), False),
        (Rate(0.30), Rate(0.30 - words.MARGIN - STEP), True),
        (Rate(0.20), Rate(0.40), False),
        (Rate(0.30, 0.25, 0.35), Rate(0.24, 0.19, 0.29), False),
        (Rate(0.30, 0.25, 0.35), Rate(0.22, 0.17, 0.27), True),
        (Rate(0.30, 0.25, 0.35), Rate(0.27), True),
    ],
)
def test_a_semi_informed_attacker_that_is_beaten(semi, lazy, flagged):
    rates = {"semi_informed": semi, "lazy_informed": lazy, "ignorant": Rate(0.45)}
    finding = words.attackers(rates, "semi_informed")
    lowest = min(semi.value, lazy.value)
    assert finding.flagged is flagged and finding.value == lowest
    assert all(f"{100 * value:.1f} %" in finding.sentence for value in (lowest, semi.value))
    assert ("Report the lowest EER" in finding.sentence) is flagged


def test_fine_tuning_that_brought_nothing_is_flagged():
    training = {"held_out_before": {"eer": 0.112}, "held_out": {"eer": 0.045}, "brought": True}
    finding = words.fine_tuning(training)
    assert not finding.flagged and "from 11.2 % to 4.5 %" in finding.sentence
    assert finding.value == pytest.approx(0.067, abs=1e-12)
    finding = words.fine_tuning({**training, "held_out": {"eer": 0.112}, "brought": False})
    assert finding.flagged and "brought nothing" in finding.sentence and "11.2 %" in finding.sentence


@pytest.mark.parametrize(
    ("same_session", "speakers", "test", "flagged"),
    [(False, 34, 0.2, True), (True, 34, 0.2, False), (False, 4, 0.2, False), (False, 34, 0.1, False)],
)
def test_original_speech_that_is_far_harder_than_held_out_speakers(same_session, speakers, test, flagged):
    finding = words.original_gap({"eer": 0.05, "same_session": same_session, "speakers": speakers}, test)
    assert finding.flagged is flagged and f"{100 * (test - 0.05):.1f} points above the 5.0 %" in finding.sentence


def test_every_sentence_is_one_that_can_be_printed():
    """A capital or a number in front, one full stop at the end, and no doubled blanks or stops."""
    findings = [
        words.held_out(record()), words.held_out(record(None)), words.held_out(record(0.4)), words.held_out(record(0.4), 0.1),
        words.held_out(record(0.4), 0.3), *words.training_gap(record(0.3, 0.0, speakers=2)), *words.test_gap(record(), 0.2),
        words.on_original(0.1), words.on_original(0.4, 0.3), words.treated_differently(of_similarities([1.0] * 8, PROTECTED)),
        words.original_enrolment(0.4, 0.1), words.original_enrolment(0.1, 0.4), words.training_level("speaker", "fixed", 0.1),
        words.eer_against_srd(Rate(0.45), 2.0, 0.1, 0.5, 20), words.eer_against_srd(Rate(0.1), 0.0, 0.1, 0.05, 20),
        words.weak_backend("PLDA was trained on one session a speaker."), words.suspected_same_speaker(record()),
        words.attackers({"mine": Rate(0.4), "ignorant": Rate(0.1)}, "mine"), words.attackers({"mine": Rate(0.1)}, "mine"),
    ]  # fmt: skip
    for finding in findings:
        text = finding.sentence
        assert text[0].isupper() or text[0].isdigit(), text
        assert text.endswith(".") and not text.endswith("..") and "  " not in text and " ." not in text, text
        assert "nan" not in text, text
        assert finding.unit in ("fraction", "count", "bit", "")


def test_the_table_has_the_columns_of_the_contract_and_survives_a_file(tmp_path: Path):
    place = {"dataset": "libri", "subset": "f", "system": "b2", "attacker": "semi_informed"}
    table = checks.frame([(place, words.held_out(record())), ({**place, "subset": "e"}, words.held_out(record(None)))])
    identity = ["dataset", "subset", "condition", "system", "attacker", "extractor", "trained_on", "backend"]
    assert list(table.columns) == [*identity, *["check", "value", "unit", "sentence", "flagged"]]
    assert list(table["subset"]) == ["e", "f"] and (table["backend"] == "").all()
    assert list(table["flagged"]) == [True, False]
    empty = checks.frame([])
    assert list(empty.dtypes) == list(table.dtypes) and empty.empty
    assert table["value"].dtype == np.float64 and table["flagged"].dtype == np.bool_
    table.to_parquet(tmp_path / "diagnostics.parquet", index=False)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "diagnostics.parquet"), table, check_dtype=False)


def test_the_table_takes_no_other_column_and_no_check_twice():
    finding = Finding("held_out", 0.1, "fraction", "Ten.", False)
    with pytest.raises(ValueError, match="stands twice"):
        checks.frame([({"subset": "f"}, finding)] * 2)
    with pytest.raises(ValueError, match="colour"):
        checks.frame([({"colour": "red"}, finding)])
