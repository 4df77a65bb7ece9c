"""Was the attack strong enough? One check a function, from numbers to a plain sentence with its number.

An EER near chance says that the system protects, or that the attacker was bad. These checks look for the second
(Panariello et al. 2025, arXiv 2507.22534: privacy is overestimated when the attacker is trained on mismatched data). A
finding that is flagged says why the result beside it may make privacy look better than it is; it does not prove it.

EERs go in as fractions and are written as percentages; a difference of two of them is written in points.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from pipeline.datasets.resemblance import IdenticalAudio
from pipeline.metrics.treatment import Treatment
from pipeline.tables.checks import Finding

HARDLY_WORKS = 0.30
"""EER above which an attacker hardly works: a target beats a non-target in three of four comparisons or fewer."""

WORKS = 0.20
"""EER up to which an attacker recognises speakers. On original speech trained attackers have 1 to 11 % (VPC 2024), and
embeddings of an untrained network 14 %: what lies above on original speech has learned nothing that serves."""

OVERFIT = 0.10
"""Points of EER between speakers trained on and held out, above which voices were learned by heart. With 20 speakers the
standard error of an EER of 10 % over speakers is about 5 points."""

MISMATCH = 0.10
"""Points of EER by which the test may be harder than held-out speakers: the same reason."""

FEWEST_HELD_OUT = 5
"""Speakers below which an EER says too little to be held against a training: one speaker moves it by 10 points or more."""

MARGIN = 0.02
"""Points of EER by which attackers may differ without intervals: a step of a few trials, no difference in strength."""

NEAR_CHANCE = 0.40
"""EER from which a system counts as near chance (the highest band of the VoicePrivacy Challenge 2024)."""

SLACK = 2.0
"""How much more than Gaussian scores with the attacker's EER the SRD may disclose: its references and inputs are longer."""

LEAST_BITS = 0.2
"""MeanD above the null band that is worth a word, in bits: the most that Gaussian scores with an EER of 40 % can disclose."""


HIDES = 0.70
"""DeID from which readers take the speakers for hidden. All baselines of the VoicePrivacy Challenge 2022 have more, 72 to 100 %."""

DRAW = "Set attacker.NAME.enrolment_level=utterance and attacker.NAME.enrolment_draws=3"

ABOVE_CHANCE = 0.025
"""Share of permutations up to which a D_ECE is above chance: the upper side of a null band of 95 %."""


@dataclass(frozen=True)
class Rate:
    """An EER with its interval over speakers, as fractions; NaN where there is no interval."""

    value: float
    low: float = math.nan
    high: float = math.nan


def held_out(record: Mapping[str, Any], on_original: float | None = None, *, speech: str = "anonymised") -> Finding:
    """EER on (anonymised) speech of training speakers that the attacker was not trained on.

    Flagged where there are none, or where the attacker hardly works on them (> 30 %) and nothing shows that such a training
    succeeds: ideal anonymisation gives 50 % here too, and only an attacker of the same recipe that works on original speech
    (<= 20 %) tells the two apart.

    Args:
        record: of ``training.json``.
        on_original: EER on original speech of the attacker with the same architecture and settings.
        speech: what the attacker was trained on: ``anonymised`` or ``original``.
    """
    speakers = record.get("held_out")
    if not speakers:
        return Finding("held_out", math.nan, "fraction", f"None of the {_speakers(record['speakers'])} trained on "
                       "was held out, so nothing shows that the attacker works on new speakers.", True)  # fmt: skip
    eer = float(speakers["eer"])
    sentence = f"EER on held-out training speakers' {speech} data is {_percent(eer)} ({_whom(speakers)})"
    if eer <= HARDLY_WORKS:
        return Finding("held_out", eer, "fraction", f"{sentence}.", False)
    if speech == "original":
        end = ": nothing is protected here, so the training failed."
    elif on_original is None or math.isnan(on_original):
        end = (
            ": either the system protects this well or the training failed, and no EER on original speech tells which."
        )
    elif on_original > WORKS:
        end = (
            ": either the system protects this well or the training failed. The latter is likely, since the same training "
            f"has {_percent(on_original)} on original speech."
        )
    else:
        end = (
            ". The training is not to blame as far as this shows: on original speech the same training has "
            f"{_percent(on_original)}."
        )
        return Finding("held_out", eer, "fraction", sentence + end, False)
    return Finding("held_out", eer, "fraction", sentence + end, True)


def gap(record: Mapping[str, Any], eer_test: float, *, speech: str = "anonymised") -> list[Finding]:
    """Speakers trained on against held-out ones (overfit), and held-out ones against the test (mismatch).

    Flagged above 10 points, with at least five held-out speakers; the second only where held-out speakers were measured
    across sessions, since trials within one session are easier than the test for any attacker.

    Args:
        record: of ``training.json``.
        eer_test: of this attacker on the test, as a fraction.
        speech: what the attacker was trained on: ``anonymised`` or ``original``.

    Returns:
        ``training_gap`` and ``test_gap``, those of them whose numbers there are.
    """
    held_out, trained = record.get("held_out"), record.get("trained")
    if not held_out:
        return []
    eer, enough = float(held_out["eer"]), int(held_out["speakers"]) >= FEWEST_HELD_OUT
    few = "" if enough else f" With {_speakers(held_out['speakers'])} held out this says little."
    findings = []
    if trained:
        difference = eer - float(trained["eer"])
        overfit = difference > OVERFIT and enough
        sentence = (
            f"EER on held-out training speakers is {_percent(eer)}, {_compared(difference)} the {_percent(trained['eer'])} on "
            "speakers trained on"
        )
        sentence += (
            ": the attacker has overfitted, and more training speakers would make it stronger." if overfit else "."
        )
        findings.append(Finding("training_gap", difference, "fraction", sentence + few, overfit))
    if not math.isnan(eer_test):
        difference = eer_test - eer
        session = bool(held_out["same_session"])
        mismatch = difference > MISMATCH and enough and not session
        sentence = (
            f"EER on held-out training speakers' {speech} data is {_percent(eer)} ({_whom(held_out)}), {_compared(-difference)} "
            f"the test's {_percent(eer_test)}"
        )
        if mismatch:
            sentence += (
                ": the test differs from what the attacker was trained on, and a matched attacker may be stronger"
            )
        elif session and difference > MISMATCH:
            sentence += ", but pairs within one session are easier than the test's"
        findings.append(Finding("test_gap", difference, "fraction", f"{sentence}.{few}", mismatch))
    return findings


def on_original(eer_on_original: float | None, eer_unprotected: float | None = None) -> Finding:
    """The attacker on original speech, on the trials of the test.

    Flagged where speakers are not recognised even unprotected (> 20 %), by this attacker or, failing that number too, by
    the attacker that was trained on original speech.

    Args:
        eer_on_original: EER of this attacker on original enrolment and trials.
        eer_unprotected: that of the attacker trained on original speech, on the same.

    Raises:
        ValueError: neither is given.
    """
    own, other = (None if e is None or math.isnan(e) else float(e) for e in (eer_on_original, eer_unprotected))
    if own is not None:
        sentence = f"On original speech of the same trials the attacker has an EER of {_percent(own)}"
        if other is not None:
            sentence += f"; one that was trained on original speech has {_percent(other)}"
    elif other is not None:
        sentence = f"On original speech of the same trials an attacker trained on original speech has {_percent(other)}"
    else:
        raise ValueError("on_original needs an EER on original speech")
    value = own if own is not None else other
    assert value is not None
    fails = [eer for eer in (own, other) if eer is not None and eer > WORKS]
    if not fails:
        return Finding("on_original", value, "fraction", f"{sentence}.", False)
    if other in fails:
        end = ": these trials or this extractor are too hard for the attack even without protection."
    else:
        end = (
            ": it cannot recognise even unprotected speakers; speech unlike its training data explains only part of it."
        )
    return Finding("on_original", value, "fraction", sentence + end, True)


def original_gap(held_out: Mapping[str, Any], eer_unprotected: float) -> Finding:
    """An extractor on original speech of the test against original speech of held-out training speakers.

    Flagged above 10 points, with at least five held-out speakers across sessions: the test is harder than speech as such for
    this attack, and what it does not recognise unprotected, protection did not hide.

    Args:
        held: EER and counts of held-out training speakers.
        eer_unprotected: of the test.
    """
    eer, session = float(held_out["eer"]), bool(held_out["same_session"])
    difference = eer_unprotected - eer
    far = difference > MISMATCH
    flagged = far and not session and int(held_out["speakers"]) >= FEWEST_HELD_OUT
    sentence = (
        f"On original speech the test has an EER of {_percent(eer_unprotected)}, {_compared(difference)} the {_percent(eer)} on "
        f"held-out training speakers ({_whom(held_out)})"
    )
    if flagged:
        sentence += ": a part of what looks like privacy was there before any protection"
    elif far:
        sentence += "; pairs within one session are easier, yet look at the speakers with the highest EER"
    return Finding("original_gap", difference, "fraction", f"{sentence}.", flagged)


def fine_tuning(record: Mapping[str, Any]) -> Finding:
    """Whether fine-tuning made the attacker stronger on held-out training speakers.

    Args:
        record: of ``training.json``, with ``held_out_before``, ``held_out`` and ``brought``.
    """
    before, after = float(record["held_out_before"]["eer"]), float(record["held_out"]["eer"])
    brought = bool(record["brought"])
    sentence = (
        f"Fine-tuning on the system's speech moved the EER on held-out training speakers from {_percent(before)} to "
        f"{_percent(after)} (cosine)"
        if brought
        else f"Fine-tuning on the system's speech brought nothing: the EER on held-out training speakers stayed at {_percent(before)}"
    )
    return Finding("fine_tuning", before - after, "fraction", f"{sentence}.", not brought)


def treated_differently(treatment: Treatment) -> Finding:
    """Enrolment and trials were not protected alike (the T10-2 case of the SRD paper, arXiv 2605.07291)."""
    speakers = (
        _speakers(treatment.enrolment_speakers)
        if treatment.paired
        else f"{treatment.enrolment_speakers} and {_speakers(treatment.trial_speakers)}"
    )
    sentence = (
        f"Anonymised enrolment keeps a cosine similarity of {treatment.enrolment:.3f} to its original, trials "
        f"{treatment.trial:.3f} ({speakers}; difference {treatment.difference:+.3f}"
        f"{'' if treatment.p_value is None else f', {_p(treatment.p_value)}'})"
    ).replace("-", "\N{MINUS SIGN}")
    if treatment.differs:
        weaker = "enrolment" if treatment.difference > 0 else "trials"
        unchanged = treatment.enrolment_unchanged if treatment.difference > 0 else treatment.trial_unchanged
        how = "not protected" if unchanged == 1 else f"protected {abs(treatment.relative):.0%} less".replace("%", " %")
        verb = "is" if weaker == "enrolment" else "are"
        sentence += f": the {weaker} {verb} {how}, so the EER compares two kinds of speech rather than speakers"
    return Finding("treated_differently", treatment.difference, "", f"{sentence}.", treatment.differs)


def original_enrolment(eer_protected: Rate | float, eer_original: float) -> Finding:
    """The same extractor and back end with protected (PP) and with original enrolment (OP), on the same trials.

    Flagged where protected enrolment is the weaker attack by more than 2 points.
    """
    protected = _rate(eer_protected).value
    difference = protected - eer_original
    sentence = (
        f"Under this back end, protected enrolment (PP) has an EER of {_percent(protected)}, {_compared(difference)} the "
        f"{_percent(eer_original)} of original enrolment (OP)"
    )
    flagged = difference > MARGIN
    end = f": the enrolment's pseudo-voices weaken the attack. {DRAW}" if flagged else ""
    return Finding("original_enrolment", difference, "fraction", f"{sentence}{end}.", flagged)


def training_level(system_level: str, training_level: str, eer: Rate | float | None = None) -> Finding:
    """The attacker's training speech was anonymised at another level than the speech that it attacks.

    Flagged but for training speech with a pseudo-voice an utterance, which made the stronger attacker in the VoicePrivacy
    Challenge 2022 and on held-out speakers of ours.

    Args:
        system_level: of the evaluated speech, as tables print it (``speaker, shared``).
        training_level: of the training speech.
        eer: of the test, for the sentence.
    """
    levels = [level.split(",")[0].strip() for level in (system_level, training_level)]
    levels_known = all(level not in ("", "unknown") for level in levels)
    mixed = levels_known and levels[0] != levels[1]
    weaker = mixed and levels[1] != "utterance"
    value = math.nan if eer is None else _rate(eer).value
    with_eer = "" if math.isnan(value) else f" (EER {_percent(value)})"
    if not levels_known:
        sentence = f"At which level evaluated and training speech were anonymised is not known{with_eer}."
    elif mixed:
        sentence = (
            f"The evaluated speech{with_eer} was anonymised at {levels[0]} level and the attacker's training speech at "
            f"{levels[1]} level"
        )
        sentence += (
            ": a matched attacker may be stronger."
            if weaker
            else ", as in the VoicePrivacy Challenge 2022: it learns what the pseudo-voices of a speaker have in common."
        )
    else:
        sentence = f"Evaluated and training speech were both anonymised at {levels[0]} level{with_eer}."
    return Finding("training_level", value, "fraction", sentence, weaker)


def eer_against_srd(eer: Rate | float, mean_d: float, null_high: float, idr: float, n_references: int) -> Finding:
    """EER and SRD of one system and extractor contradict each other.

    Scores of equal Gaussian spread with this EER are d' = -2 Phi^-1(EER) apart, and no rank of them can disclose more than
    d'^2 / (2 ln 2) bits on average (Kullback-Leibler divergence; a rank is a function of the scores). Flagged where MeanD
    lies above its null band by more than twice that (and 0.2 bit): the attacker misses what its own vectors disclose. Flagged
    too where the EER is low (<= 20 %) and MeanD lies within its null band.

    Args:
        eer: of enrolment against trials; the lower end of its interval is held against the SRD.
        mean_d: mean disclosure in bits.
        null_high: upper end of its null band in bits; NaN without one, and then nothing is flagged.
        idr: identification rate as a fraction.
        n_references: N.
    """
    rate = _rate(eer)
    sentence = f"The EER is {_percent(rate.value)}, while the SRD has a MeanD of {mean_d:.2f} bit"
    sentence += f" and identifies {_percent(idr)} of the inputs among {n_references} speakers"
    if math.isnan(null_high):
        return Finding(
            "eer_against_srd", mean_d, "bit", f"{sentence}; without a null band they cannot be compared.", False
        )
    chance = f" (chance: MeanD up to {null_high:.2f} bit, {_percent(1 / n_references)})"
    lowest = rate.value if math.isnan(rate.low) else min(rate.low, rate.value)
    hidden = mean_d > null_high + max(LEAST_BITS, SLACK * _gaussian_bits(lowest))
    unseen = rate.value <= WORKS and mean_d <= null_high
    if hidden:
        near = "near chance" if rate.value >= NEAR_CHANCE else "too high for that"
        end = f": the EER is {near}, yet the vectors disclose the speakers; do not rely on the EER."
    elif unseen:
        end = ": the EER is low, yet the SRD is within chance; do not rely on the SRD."
    else:
        end = "."
    return Finding("eer_against_srd", mean_d, "bit", sentence + chance + end, hidden or unseen)


def deid_against_eer(deid: float, eer: Rate | float, attack: str, p_chance: float = math.nan) -> Finding:
    """DeID promises what an attack on protected speech does not find.

    DeID is the view of an attacker who knows original speech only. Flagged where it says that the speakers are hidden (>= 70 %)
    while an attacker who enrols protected speech works: its D_ECE is above chance, or, where few speakers let nothing be shown, its
    EER is far from chance (<= 30 %, its interval below 40 %). The published baselines of the VoicePrivacy Challenge 2022 are such
    in all 60 cases: DeID 72 to 100 %, EER of the adapted attacker 1 to 19 %.

    Args:
        deid: as a fraction.
        eer: the lowest under PP, with its interval if there is one.
        attack: which that is, in words.
        p_chance: how often permuted identities reach the highest D_ECE under PP; NaN where that is not known.
    """
    rate = _rate(eer)
    far = math.isnan(rate.high) or rate.high < NEAR_CHANCE
    above = p_chance <= ABOVE_CHANCE
    flagged = deid >= HIDES and (above or (rate.value <= HARDLY_WORKS and far))
    expected = (
        ""
        if math.isnan(p_chance)
        else f", D_ECE {'above' if above else 'not shown to be above'} chance: {_p(p_chance)}"
    )
    lowest = f"the lowest EER under PP is {_percent(rate.value)} ({attack}{expected})"
    sentence = f"DeID is {_percent(deid)}, and {lowest}"
    if flagged:
        sentence = (
            f"DeID is {_percent(deid)}, yet {lowest}: DeID is the view of an attacker who knows original speech only, and one who has "
            "protected speech to compare with finds the speakers"
        )
    return Finding("deid_against_eer", deid, "fraction", f"{sentence}.", flagged)


def digital_silence(
    system: str, files: int, milliseconds: Sequence[float], extractor: str, *, trimmed: bool
) -> Finding:
    """Files of a system that begin or end with samples that are exactly zero, as no microphone gives them.

    Flagged where there are any and the extractor hears them: padding moves its vectors, which looks like privacy and is none.

    Args:
        system: its label.
        files: of the evaluated speech.
        milliseconds: of digital silence at both ends together, of each file that has some (0.5 ms at one end or more).
        extractor: its label.
        trimmed: whether it drops them.
    """
    share = len(milliseconds) / files if files else math.nan
    sentence = f"{len(milliseconds)} of {files} files of {system} begin or end with digital silence"
    if not len(milliseconds):
        return Finding("digital_silence", share, "fraction", f"{sentence}.", False)
    sentence += f" (median {np.median(milliseconds):.3g} ms, at most {max(milliseconds):.3g} ms)"
    if trimmed:
        return Finding("digital_silence", share, "fraction", f"{sentence}; it is trimmed before embeddings.", False)
    sentence += f"; {extractor} hears it: padding moves its vectors, and that may look like privacy."
    return Finding("digital_silence", share, "fraction", sentence, True)


def same_audio(system: str, same: IdenticalAudio) -> Iterator[Finding]:
    """Recordings of a system that hold one sound where the originals hold several, or are no anonymised speech; nothing if there are
    none.

    Flagged: an anonymiser that gives everybody the same recording is perfectly private on paper, and is none.
    """
    for sentence in same.sentences():
        yield Finding("same_audio", same.shared / same.files, "fraction", f"System {system}: {sentence}.", True)
    for doubt in same.doubts:
        yield Finding(doubt.check, doubt.share, "fraction", f"System {system}: {doubt.sentence}.", True)


def class_order(record: Mapping[str, Any]) -> Finding:
    """Scores that order the classes the wrong way round: distances, or a system that pushes speakers away from themselves.

    An EER on the convex hull, D_ECE and Cllr_min then look like those of scores that say nothing.

    Args:
        record: AUC, p-value and speakers of the scores, whether they are ``reversed`` beyond chance, and the EER of the scores
            turned round.
    """
    tested = f", {_p(record['p_value'])}" if record["p_value"] is not None else ""
    sentence = (
        f"a target scores above a non-target in only {_percent(record['auc'])} of comparisons "
        f"({_speakers(record['speakers'])}{tested})"
    )
    if record["reversed"]:
        sentence = f"The scores order the classes the wrong way round, beyond chance: {sentence}"
    else:
        sentence = f"The scores may order the classes the wrong way round, with too few speakers to tell: {sentence}"
    sentence += (
        ". Either they are distances, which have to be negated where they are made, or the system pushes speakers away from "
        f"themselves. EER, Cllr_min and D_ECE do not show it: an attacker who turns the scores round has an EER of "
        f"{_percent(record['eer_turned'])}."
    )
    return Finding("class_order", float(record["auc"]), "fraction", sentence, True)


def weak_backend(reason: str, speakers: int | None = None) -> Finding:
    """A back end that was trained on too little to be trusted, such as PLDA on pieces of one session a speaker.

    Args:
        reason: why, as a clause.
        speakers: that it was trained on.
    """
    on = "" if speakers is None else f" ({_speakers(speakers)})"
    value = math.nan if speakers is None else float(speakers)
    return Finding("weak_backend", value, "count", f"The back end is weak: {reason.rstrip('.')}{on}.", True)


def suspected_same_speaker(record: Mapping[str, Any], shown: int = 3) -> Finding:
    """Training speakers who look like one person under two ids: the attacker learned to tell them apart.

    Args:
        record: of ``training.json``.
        shown: pairs that the sentence names.
    """
    pairs: Sequence[Sequence[Any]] = record.get("suspected_same_speaker") or ()
    count = len(pairs)
    if not count:
        return Finding("suspected_same_speaker", 0.0, "count", f"0 pairs of the {_speakers(record['speakers'])} trained on look "
                       "like one person.", False)  # fmt: skip
    ranked = sorted(pairs, key=lambda pair: (-float(pair[2]), str(pair[0]), str(pair[1])))
    named = ", ".join(f"{a} and {b} (cosine {float(cosine):.2f})" for a, b, cosine in ranked[:shown])
    more = f" and {count - shown} more" if count > shown else ""
    noun = "pair of training speakers looks" if count == 1 else "pairs of training speakers look"
    return Finding("suspected_same_speaker", float(count), "count", f"{count} {noun} like one person under two ids: "
                   f"{named}{more}.", True)  # fmt: skip


def attackers(eers: Mapping[str, Rate | float], adapted: str = "semi_informed") -> Finding:
    """Attackers on the same trials: the one trained on anonymised speech should be the strongest.

    Flagged where another one has a lower EER by more than the margin of both intervals (the root of the sum of their squared
    half widths; 2 points without intervals): the training was then not good enough to be believed.

    Args:
        eers: EER by attacker.
        adapted: the attacker that was trained on anonymised speech; need not be there.

    Returns:
        With the lowest EER, which is the one to report, as the value.

    Raises:
        ValueError: no attacker.
    """
    if not eers:
        raise ValueError("attackers needs an EER")
    rates = {name: _rate(eer) for name, eer in eers.items()}
    best = min(rates, key=lambda name: (rates[name].value, name != adapted))
    lowest = rates[best].value
    beaten = adapted in rates and rates[adapted].value - lowest > _margin(rates[adapted], rates[best])
    if beaten:
        sentence = (
            f"The {_name(adapted)} attacker has an EER of {_percent(rates[adapted].value)}, "
            f"{_compared(rates[adapted].value - lowest)} the {_name(best)} one on the same trials: its training was not good "
            f"enough. Report the lowest EER, {_percent(lowest)}."
        )
    elif len(rates) == 1:
        sentence = f"The {_name(best)} attacker is the only one (EER {_percent(lowest)})."
    else:
        rest = ", ".join(f"{_name(name)} {_percent(rate.value)}" for name, rate in rates.items() if name != best)
        sentence = f"The {_name(best)} attacker has the lowest EER, {_percent(lowest)} ({rest})."
    return Finding("attackers", lowest, "fraction", sentence, beaten)


def weak_extractor(names: str, count: int, stronger: str) -> Finding:
    """All extractors of the attacks are weak ones."""
    sentence = (
        f"The attacks use {names}. Stronger extractors are at hand ({stronger}), and with a weaker one privacy is "
        "overestimated: add one to extractor=[…]."
    )
    return Finding("weak_extractor", float(count), "count", sentence, True)


def not_adapted(back_ends: str) -> Finding:
    """No attack was adapted to a system; ``back_ends`` are those that can be trained."""
    sentence = (
        "No attack was adapted to a system. An attacker who trains on the system's anonymised speech is stronger, so "
        "privacy is overestimated: name speech of other speakers by dataset.train=DIR, add an attacker with training=anonymised, "
        f"and a back end that is trained ({back_ends}) to backend=[…]."
    )
    return Finding("not_adapted", 0.0, "count", sentence, True)


def other_centre(back_ends: str) -> Finding:
    """No attack is centred on the protected speech; ``back_ends`` are those that can be."""
    sentence = (
        "No attack is centred on the protected speech itself. An attacker who does that is often stronger, since training speech "
        f"sounds different. Add a back end that can ({back_ends}) to backend=[…], with centre=both."
    )
    return Finding("other_centre", 0.0, "count", sentence, True)


def enrolled_once(system: str, can_run: bool) -> Finding:
    """No attacker anonymised the enrolment of a system again, which can be run here or not."""
    sentence = (
        f"All attacks enrol speech of {system} that was anonymised once, with one pseudo-voice a speaker. An attacker who anonymises it "
        f"several times is often stronger. {DRAW if can_run else 'Give the program itself as a system (name: command)'}."
    )
    return Finding("enrolled_once", 1.0, "count", sentence, True)


def held_out_choice(chosen: str, strongest_eer: float, chosen_eer: float, contends: bool) -> Finding:
    """Held-out training speakers would choose another attack than the strongest; ``chosen`` is it in words."""
    chosen_percent, own = (f"{100 * eer:.1f} %" for eer in (chosen_eer, strongest_eer))
    also = "cannot be told from the strongest" if contends else "discloses less"
    sentence = (
        f"Held-out training speakers would choose another attack than the strongest: {chosen} has an EER of "
        f"{chosen_percent} there, and the strongest {own}; on the evaluated speakers it {also}."
    )
    return Finding("held_out_choice", chosen_eer, "fraction", sentence, False)


# --- words ----------------------------------------------------------------------------------------------------------


def _percent(eer: float) -> str:
    return f"{100 * float(eer):.1f} %"


def _compared(difference: float) -> str:
    """``5.0 points above``, of a difference of fractions."""
    size = f"{100 * abs(difference):.1f}"
    return "equal to" if size == "0.0" else f"{size} points {'above' if difference > 0 else 'below'}"


def _speakers(count: Any) -> str:
    return f"{int(count)} speaker{'' if int(count) == 1 else 's'}"


def _whom(record: Mapping[str, Any]) -> str:
    return _speakers(record["speakers"]) + (", same session" if record["same_session"] else "")


def _p(value: float) -> str:
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def _name(attacker: str) -> str:
    return attacker.replace("_", "-")


# --- numbers --------------------------------------------------------------------------------------------------------


def _rate(eer: Rate | float) -> Rate:
    return eer if isinstance(eer, Rate) else Rate(float(eer))


def _margin(first: Rate, second: Rate) -> float:
    """Half width of an interval of the difference of two EERs, as if they were independent (on the same trials: too wide)."""
    widths = [(rate.high - rate.low) / 2 for rate in (first, second)]
    return max(MARGIN, math.hypot(*widths)) if not any(map(math.isnan, widths)) else MARGIN


def _gaussian_bits(eer: float) -> float:
    """Kullback-Leibler divergence of target from non-target scores, Gaussian of equal spread, in bits."""
    if eer <= 0:
        return math.inf
    distance = -2 * float(ndtri(min(eer, 0.5)))
    return distance**2 / (2 * math.log(2))
