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

GAP = 0.10
"""Points of EER between speakers trained on, held out and tested, above which they are told apart. With 20 speakers the
standard error of an EER of 10 % over speakers is about 5 points."""

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

ABOVE_CHANCE = 0.025
"""Share of permutations up to which a D_ECE is above chance: the upper side of a null band of 95 %."""

DRAW = "Set attacker.NAME.enrolment_level=utterance and attacker.NAME.enrolment_draws=3"


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
        sentence = f"None of the {record['speakers']} speakers trained on was held out, so nothing shows that the attacker works on new speakers."
        return Finding("held_out", math.nan, "fraction", sentence, True)
    eer = float(speakers["eer"])
    sentence, end, flagged = (
        f"EER on held-out training speakers' {speech} data is {_percent(eer)} ({_whom(speakers)})",
        "",
        True,
    )
    if eer <= HARDLY_WORKS:
        flagged = False
    elif speech == "original":
        end = ": nothing is protected here, so the training failed"
    elif on_original is None or math.isnan(on_original):
        end = ": either the system protects this well or the training failed, and no EER on original speech tells which"
    elif on_original > WORKS:
        end = (
            ": either the system protects this well or the training failed. The latter is likely, since the same training "
            f"has {_percent(on_original)} on original speech"
        )
    else:
        end = f". The training is not to blame as far as this shows: on original speech it has {_percent(on_original)}"
        flagged = False
    return Finding("held_out", eer, "fraction", f"{sentence}{end}.", flagged)


def training_gap(record: Mapping[str, Any]) -> Iterator[Finding]:
    """Speakers trained on against held-out ones, if both were measured: flagged above 10 points, with at least five held out."""
    held_out, trained = record.get("held_out"), record.get("trained")
    if held_out and trained:
        eer, own = float(held_out["eer"]), float(trained["eer"])
        flagged = eer - own > GAP and _is_enough(held_out)
        sentence = f"EER on held-out training speakers is {_percent(eer)}, {_compared(eer - own)} the {_percent(own)} on speakers trained on"
        end = ": the attacker has overfitted, and more training speakers would make it stronger." if flagged else "."
        yield Finding("training_gap", eer - own, "fraction", sentence + end + _few(held_out), flagged)


def test_gap(record: Mapping[str, Any], eer_test: float) -> Iterator[Finding]:
    """Held-out training speakers against the test, if both were measured.

    Flagged above 10 points, with at least five held-out speakers that were measured across sessions: trials within one session
    are easier than the test for any attacker.
    """
    held_out = record.get("held_out")
    if held_out and not math.isnan(eer_test):
        eer = float(held_out["eer"])
        is_far, same_session = eer_test - eer > GAP, bool(held_out["same_session"])
        flagged = is_far and _is_enough(held_out) and not same_session
        sentence = (
            f"EER on held-out training speakers' anonymised data is {_percent(eer)} ({_whom(held_out)}), {_compared(eer - eer_test)} "
            f"the test's {_percent(eer_test)}"
        )
        if flagged:
            sentence += (
                ": the test differs from what the attacker was trained on, and a matched attacker may be stronger"
            )
        elif is_far and same_session:
            sentence += ", but pairs within one session are easier than the test's"
        yield Finding("test_gap", eer_test - eer, "fraction", f"{sentence}.{_few(held_out)}", flagged)


def on_original(own: float | None, other: float | None = None) -> Finding:
    """The attacker on original speech, on the trials of the test.

    Flagged where speakers are not recognised even unprotected (> 20 %), by this attacker or by the one that was trained on
    original speech.

    Args:
        own: EER of this attacker on original enrolment and trials.
        other: that of the attacker trained on original speech, on the same; one of the two has to be there.
    """
    shown = [
        f"{name} an EER of {_percent(eer)}"
        for name, eer in (("this attacker has", own), ("an attacker trained on original speech has", other))
        if eer is not None
    ]
    value = own if own is not None else other
    assert value is not None, "no EER on original speech"
    end = ""
    if other is not None and other > WORKS:
        end = ": these trials or this extractor are too hard for the attack even without protection"
    elif value > WORKS:
        end = (
            ": it cannot recognise even unprotected speakers; speech unlike its training data explains only part of it"
        )
    sentence = f"On original speech of the same trials, {' and '.join(shown)}"
    return Finding("on_original", value, "fraction", f"{sentence}{end}.", bool(end))


def original_gap(held_out: Mapping[str, Any], eer_unprotected: float) -> Finding:
    """An extractor on original speech of the test against original speech of held-out training speakers.

    Flagged above 10 points, with at least five held-out speakers across sessions: the test is harder than speech as such for
    this attack, and what it does not recognise unprotected, protection did not hide.
    """
    eer = float(held_out["eer"])
    difference = eer_unprotected - eer
    flagged = difference > GAP and not held_out["same_session"] and _is_enough(held_out)
    sentence = (
        f"On original speech the test has an EER of {_percent(eer_unprotected)}, {_compared(difference)} the {_percent(eer)} on "
        f"held-out training speakers ({_whom(held_out)})"
    )
    end = ": a part of what looks like privacy was there before any protection" if flagged else ""
    return Finding("original_gap", difference, "fraction", f"{sentence}{end}.", flagged)


def fine_tuning(record: Mapping[str, Any]) -> Finding:
    """Whether fine-tuning made the attacker stronger on held-out training speakers, from ``training.json``."""
    before, after = float(record["held_out_before"]["eer"]), float(record["held_out"]["eer"])
    sentence = (
        f"Fine-tuning on the system's speech {'moved' if record['brought'] else 'brought nothing: it moved'} the EER on held-out "
        f"training speakers from {_percent(before)} to {_percent(after)} (cosine)."
    )
    return Finding("fine_tuning", before - after, "fraction", sentence, not record["brought"])


def treated_differently(treatment: Treatment) -> Finding:
    """Enrolment and trials were not protected alike (the T10-2 case of the SRD paper, arXiv 2605.07291)."""
    p_value = "" if treatment.p_value is None else f", {_p(treatment.p_value)}"
    sentence = (
        f"Anonymised enrolment keeps a cosine similarity of {treatment.enrolment:.3f} to its original, trials {treatment.trial:.3f} "
        f"({treatment.enrolment_speakers} and {treatment.trial_speakers} speakers; difference {treatment.difference:+.3f}{p_value})"
    ).replace("-", "\N{MINUS SIGN}")
    if treatment.differs:
        is_enrolment = treatment.difference > 0
        unchanged = treatment.enrolment_unchanged if is_enrolment else treatment.trial_unchanged
        how = "not protected" if unchanged == 1 else f"protected {100 * abs(treatment.relative):.0f} % less"
        weaker = "enrolment is" if is_enrolment else "trials are"
        sentence += f": the {weaker} {how}, so the EER compares two kinds of speech rather than speakers"
    return Finding("treated_differently", treatment.difference, "", f"{sentence}.", treatment.differs)


def original_enrolment(eer_protected: float, eer_original: float) -> Finding:
    """The same extractor and back end with protected (PP) and with original enrolment (OP), on the same trials.

    Flagged where protected enrolment is the weaker attack by more than 2 points.
    """
    difference = eer_protected - eer_original
    sentence = (
        f"Under this back end, protected enrolment (PP) has an EER of {_percent(eer_protected)}, {_compared(difference)} the "
        f"{_percent(eer_original)} of original enrolment (OP)"
    )
    flagged = difference > MARGIN
    end = f": the enrolment's pseudo-voices weaken the attack. {DRAW}" if flagged else ""
    return Finding("original_enrolment", difference, "fraction", f"{sentence}{end}.", flagged)


def training_level(system_level: str, training_level: str, eer: float) -> Finding:
    """The attacker's training speech was anonymised at another level than the speech that it attacks.

    Flagged but for training speech with a pseudo-voice an utterance, which made the stronger attacker in the VoicePrivacy
    Challenge 2022 and on held-out speakers of ours.

    Args:
        system_level: of the evaluated speech, as tables print it (``speaker, shared``).
        training_level: of the training speech.
        eer: of the test.
    """
    system, training = (level.split(",")[0].strip() or "unknown" for level in (system_level, training_level))
    flagged = "unknown" not in (system, training) and system != training != "utterance"
    sentence = (
        f"The evaluated speech was anonymised at {system} level, and the attacker's training speech at {training} level"
    )
    end = ": a matched attacker may be stronger" if flagged else ""
    return Finding("training_level", eer, "fraction", f"{sentence}{end}.", flagged)


def eer_against_srd(eer: Rate, mean_d: float, null_high: float, idr: float, n_references: int) -> Finding:
    """EER and SRD of one system and extractor contradict each other.

    Scores of equal Gaussian spread with this EER are d' = -2 Phi^-1(EER) apart, and no rank of them can disclose more than
    d'^2 / (2 ln 2) bits on average (Kullback-Leibler divergence; a rank is a function of the scores). Flagged where MeanD
    lies above its null band by more than twice that (and 0.2 bit): the attacker misses what its own vectors disclose. Flagged
    too where the EER is low (<= 20 %) and MeanD lies within its null band.

    Args:
        eer: of enrolment against trials; the lower end of its interval is held against the SRD.
        mean_d: mean disclosure in bits.
        null_high: upper end of its null band in bits.
        idr: identification rate as a fraction.
        n_references: N.
    """
    lowest = eer.value if math.isnan(eer.low) else min(eer.low, eer.value)
    distance = -2 * float(ndtri(min(lowest, 0.5))) if lowest > 0 else math.inf
    hidden = mean_d > null_high + max(LEAST_BITS, SLACK * distance**2 / (2 * math.log(2)))
    unseen = eer.value <= WORKS and mean_d <= null_high
    sentence = (
        f"The EER is {_percent(eer.value)}, while the SRD has a MeanD of {mean_d:.2f} bit and identifies {_percent(idr)} of the inputs "
        f"among {n_references} speakers (chance: MeanD up to {null_high:.2f} bit, {_percent(1 / n_references)})"
    )
    if hidden:
        near = "near chance" if eer.value >= NEAR_CHANCE else "too high for that"
        sentence += f": the EER is {near}, yet the vectors disclose the speakers; do not rely on the EER"
    elif unseen:
        sentence += ": the EER is low, yet the SRD is within chance; do not rely on the SRD"
    return Finding("eer_against_srd", mean_d, "bit", f"{sentence}.", hidden or unseen)


def deid_against_eer(deid: float, eer: Rate, attack: str, p_chance: float = math.nan) -> Finding:
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
    is_far, is_above = math.isnan(eer.high) or eer.high < NEAR_CHANCE, p_chance <= ABOVE_CHANCE
    flagged = deid >= HIDES and (is_above or (eer.value <= HARDLY_WORKS and is_far))
    about = attack
    if not math.isnan(p_chance):
        about += f", D_ECE {'above' if is_above else 'not shown to be above'} chance: {_p(p_chance)}"
    sentence = f"DeID is {_percent(deid)}, {'yet' if flagged else 'and'} the lowest EER under PP is {_percent(eer.value)} ({about})"
    if flagged:
        sentence += (
            ": DeID is the view of an attacker who knows original speech only, and one who has protected speech to compare with "
            "finds the speakers"
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
    if len(milliseconds):
        heard = (
            "it is trimmed before embeddings"
            if trimmed
            else f"{extractor} hears it: padding moves its vectors, and that may look like privacy"
        )
        sentence += f" (median {np.median(milliseconds):.3g} ms, at most {max(milliseconds):.3g} ms); {heard}"
    return Finding("digital_silence", share, "fraction", f"{sentence}.", bool(len(milliseconds)) and not trimmed)


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
    verb = (
        "order the classes the wrong way round, beyond chance"
        if record["reversed"]
        else ("may order the classes the wrong way round, with too few speakers to tell")
    )
    sentence = (
        f"The scores {verb}: a target scores above a non-target in only {_percent(record['auc'])} of comparisons "
        f"({record['speakers']} speakers{tested}). Either they are distances, which have to be negated where they are made, or the "
        "system pushes speakers away from themselves. EER, Cllr_min and D_ECE do not show it: an attacker who turns the scores round "
        f"has an EER of {_percent(record['eer_turned'])}."
    )
    return Finding("class_order", float(record["auc"]), "fraction", sentence, True)


def weak_backend(reason: str) -> Finding:
    """A back end that was trained on too little to be trusted, such as PLDA on pieces of one session a speaker."""
    return Finding("weak_backend", math.nan, "count", f"The back end is weak: {reason.rstrip('.')}.", True)


def suspected_same_speaker(record: Mapping[str, Any]) -> Finding:
    """Training speakers who look like one person under two ids, from ``training.json``: the attacker learned to tell them apart."""
    pairs: Sequence[Sequence[Any]] = record.get("suspected_same_speaker") or ()
    ranked = sorted(pairs, key=lambda pair: (-float(pair[2]), str(pair[0]), str(pair[1])))
    named = ", ".join(f"{a} and {b} (cosine {float(cosine):.2f})" for a, b, cosine in ranked[:3])
    sentence = (
        f"Pairs of the {record['speakers']} speakers trained on who look like one person under two ids: {len(pairs)}"
    )
    end = f", first {named}" if pairs else ""
    return Finding("suspected_same_speaker", float(len(pairs)), "count", f"{sentence}{end}.", bool(pairs))


def attackers(eers: Mapping[str, Rate], adapted: str) -> Finding:
    """Attackers on the same trials: the one trained on anonymised speech should be the strongest.

    Flagged where another one has a lower EER by more than the margin of both intervals, as if they were independent (the root of
    the sum of their squared half widths; 2 points without intervals): the training was then not good enough to be believed.

    Args:
        eers: EER by attacker.
        adapted: the attacker that was trained on anonymised speech.

    Returns:
        With the lowest EER, which is the one to report, as the value.
    """
    best = min(eers, key=lambda name: (eers[name].value, name != adapted))
    lowest = eers[best].value
    margin = math.hypot(*((eers[name].high - eers[name].low) / 2 for name in (adapted, best)))
    behind = eers[adapted].value - lowest
    beaten = behind > (MARGIN if math.isnan(margin) else max(MARGIN, margin))
    if beaten:
        sentence = (
            f"The {_name(adapted)} attacker has an EER of {_percent(eers[adapted].value)}, {_compared(behind)} the {_name(best)} one on the "
            f"same trials: its training was not good enough. Report the lowest EER, {_percent(lowest)}."
        )
    else:
        rest = ", ".join(f"{_name(name)} {_percent(rate.value)}" for name, rate in eers.items() if name != best)
        sentence = f"The {_name(best)} attacker has the lowest EER, {_percent(lowest)} (beside it: {rest or 'none'})."
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


def _percent(eer: float) -> str:
    return f"{100 * float(eer):.1f} %"


def _compared(difference: float) -> str:
    """``5.0 points above``, of a difference of fractions."""
    size = f"{100 * abs(difference):.1f}"
    return "equal to" if size == "0.0" else f"{size} points {'above' if difference > 0 else 'below'}"


def _whom(record: Mapping[str, Any]) -> str:
    return f"{record['speakers']} speakers{', same session' if record['same_session'] else ''}"


def _is_enough(held_out: Mapping[str, Any]) -> bool:
    return int(held_out["speakers"]) >= FEWEST_HELD_OUT


def _few(held_out: Mapping[str, Any]) -> str:
    return "" if _is_enough(held_out) else f" With {held_out['speakers']} speakers held out this says little."


def _p(value: float) -> str:
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def _name(attacker: str) -> str:
    return attacker.replace("_", "-")
