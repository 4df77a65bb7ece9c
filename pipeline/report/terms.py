"""The words of the report that are no metrics, in plain English. What is said of metrics stands with their families."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Term:
    """A word of the report.

    Attributes:
        name: as the glossary shows it.
        sentence: what it means.
        forms: how else the page writes it; the name itself need not be repeated.
        source: where it is defined.
    """

    name: str
    sentence: str
    forms: tuple[str, ...] = ()
    source: str = ""


NOE = "Noé et al. 2022"
DODDINGTON = "Doddington et al. 1998"
YAGER = "Dunstone and Yager 2009"
SRD = "Bäckström et al. 2025"

SPEECH = (
    Term("original speech", "Speech as it was recorded, unprotected.", ("original", "originals", "unprotected speech")),
    Term(
        "protected speech",
        "What a system made of original speech to hide who speaks; also called anonymised speech.",
        ("protected", "anonymised"),
    ),
    Term(
        "system",
        "What protects: one anonymiser with its settings, or a folder of speech that somebody protected.",
        ("systems",),
    ),
    Term("pseudo-voice", "The voice that a system gives a speaker in place of the speaker's own.", ("pseudo-voices",)),
    Term(
        "OO",
        "Original speech is compared with original speech: how well speakers are recognised without protection.",
        ("condition",),
    ),
    Term("OP", "Original speech is compared with protected speech: the attacker knows how the speaker really sounds."),
    Term("PO", "Protected speech is enrolled and original speech is tried."),
    Term("PP", "Protected speech is compared with protected speech: the attacker knows, or can use, the same system."),
    Term("P0P1", "Protected speech of one run of a random system is compared with that of another run.", ("f0", "f1")),
    Term(
        "level",
        "How pseudo-voices are given: one for everybody (fixed), one a speaker, or one an utterance; “none” is no protection. "
        "“Shared”: enrolment and trials get the same one.",
        ("speaker level", "utterance level", "fixed", "shared"),
    ),
    Term("data set", "The recordings and lists of trials that are evaluated."),
    Term(
        "subset",
        "A part of the data set with trials of its own, such as the women of a test set.",
        ("subsets", "set", "sets"),
    ),
    Term("pooled", "All subsets of the data set together."),
    Term(
        "mean",
        "A mean of subsets is that of their numbers, each with the same weight; it is no number of the sets thrown together.",
        ("mean of", "averaged"),
    ),
    Term("utterance", "One recording.", ("utterances",)),
    Term("segment", "A piece of recordings of one speaker, a number of seconds long.", ("segments",)),
    Term("sex", "Of a speaker, as the data set says it."),
    Term("device", "What computed: the processor (cpu) or an accelerator."),
    Term("F0", "The fundamental frequency of a voice: how high it is.", ("pitch",)),
)

ATTACKS = (
    Term(
        "attacker",
        "Somebody who has a recording and wants to know whose it is, or whether two recordings are of one speaker.",
        ("attack", "attacks", "attackers"),
    ),
    Term(
        "unprotected",
        "The attack on original speech: it shows what the attacker's tools can do where nothing is protected.",
    ),
    Term(
        "ignorant",
        "This attacker does not know that speech is protected: original speech is enrolled, and compared with protected speech (OP).",
        source="Srivastava et al. 2020",
    ),
    Term(
        "lazy-informed",
        "This attacker knows the system and protects the enrolled speech too (PP), but uses tools that were trained on original "
        "speech.",
        ("lazy_informed",),
        "Srivastava et al. 2020",
    ),
    Term(
        "semi-informed",
        "This attacker knows the system, protects the enrolled speech (PP), and trains the tools on speech of other people that the "
        "system protected. The strongest of the usual attackers.",
        ("semi_informed",),
        "Srivastava et al. 2020",
    ),
    Term(
        "adapted",
        "Of an attack: extractor or back end were trained on speech that the attacked system protected.",
        ("not adapted",),
    ),
    Term(
        "strongest attack",
        "Of the attacks that were tried on a system, the one that discloses most (D_ECE). Where attackers were judged on held-out "
        "speakers, “the attack that a system's numbers stand on” is the one with the lowest EER there. Nobody can try all attacks.",
        ("strongest",),
    ),
    Term(
        "may be the strongest",
        "Attacks that cannot be told from the one that disclosed most.",
        ("contends", "contenders"),
    ),
    Term("not tried", "Attacks that were planned and have no number, with the reason.", ("untried",)),
    Term(
        "enrolment",
        "The recordings of known speakers that the attacker starts from.",
        ("enrolled", "enrol", "enrols", "enrolment model", "enrolment models"),
    ),
    Term(
        "trial",
        "One comparison of an enrolled speaker with a recording of somebody unknown.",
        ("trials", "trial utterances"),
    ),
    Term(
        "target trial",
        "A trial in which both are the same speaker.",
        ("target trials", "target", "targets"),
    ),
    Term(
        "non-target trial",
        "A trial with two different speakers; the second is then called an impostor.",
        ("non-target trials", "non-target", "non-targets", "impostor", "impostors"),
    ),
    Term("trial list", "The pairs of enrolled speakers and recordings that are tried.", ("trial lists", "trial_lists")),
    Term(
        "all pairs",
        "Every recording against every other, instead of a list of trials.",
        ("all_pairs",),
    ),
    Term(
        "extractor",
        "Turns a recording into a vector that describes the voice, or what is said, or how.",
        ("extractors", "embeddings"),
    ),
    Term(
        "trained on",
        "The speech that the attacker's extractor and back end have learnt from.",
        ("training source", "training speech"),
    ),
    Term("back end", "Turns two vectors into a score: how alike they are.", ("back ends", "backend")),
    Term("cosine", "A back end: the cosine of the angle between two vectors."),
    Term("euclidean", "A back end: the distance between two vectors, negated."),
    Term(
        "PLDA",
        "A back end that has learnt how vectors differ within and between speakers, and gives likelihood ratios.",
        ("plda", "two-covariance PLDA"),
        "Prince and Elder 2007",
    ),
    Term(
        "WCCN",
        "A back end that makes directions in which one speaker's vectors vary count less.",
        ("wccn",),
        "Hatch et al. 2006",
    ),
    Term(
        "AS-norm",
        "Scores are set against those of the most similar speakers of a cohort of training speakers.",
        ("as-norm", "as_norm", "cohort"),
        "Matějka et al. 2017",
    ),
    Term("fusion", "Scores of several extractors put together with learnt weights.", ("fused", "joined scores")),
    Term(
        "held-out speakers",
        "Training speakers on whom nothing was trained: on them attacks are judged and chosen, never on those who are evaluated.",
        ("held out", "held-out", "held-out training speakers"),
    ),
    Term(
        "session",
        "Recordings made on one occasion; they are alike in more than the voice.",
        ("same session", "sessions"),
    ),
    Term(
        "score",
        "A number that says how alike two recordings are; higher is more alike.",
        ("scores", "similarity"),
    ),
    Term(
        "LLR",
        "Log-likelihood ratio: the logarithm of how much likelier what was found is if both recordings are of one speaker than if "
        "they are not. 0 says nothing.",
        ("LLRs", "likelihood ratio", "likelihood ratios", "log-likelihood ratio", "log-likelihood ratios"),
    ),
    Term(
        "calibration",
        "Turns scores into likelihood ratios. “Oracle”: learnt on the very trials that are evaluated, so that no attacker can do "
        "better; “none”: scores as they are.",
        ("oracle", "oracle calibration", "calibrated", "calibrates", "calibrate"),
        NOE,
    ),
    Term(
        "isotonic", "A calibration that only keeps the order of scores (pool adjacent violators, PAV).", ("PAV", "pav")
    ),
    Term("linear", "A calibration by a straight line."),
)

VALUES = (
    Term("value", "The number itself, from the recordings that were evaluated.", ("values",)),
    Term(
        "interval",
        "95 % interval: where the number would lie with other speakers of the same kind, by leaving speakers out or drawing them "
        "again. Whether two systems differ is told by the paired test, not by whether their intervals overlap.",
        ("95 % interval", "intervals"),
    ),
    Term(
        "interval of a maximum",
        "The strongest attack is the largest of several numbers, and so it is too large by chance. Its interval and null band are "
        "made by leaving out or permuting speakers for all attacks together.",
        ("maximum over the attacks", "of the maximum"),
    ),
    Term(
        "null band",
        "Where the number falls in 95 of 100 draws if the system gives nothing away, with this many speakers and trials.",
        ("null bands",),
    ),
    Term(
        "within chance",
        "The number lies within its null band: it cannot be told from that of a system that gives nothing away.",
        ("against chance", "below the band", "above the band", "chance"),
    ),
    Term(
        "chance value",
        "What a number is worth where the attacker learns nothing. With few speakers or trials it is not the ideal value.",
        ("at chance", "chance level"),
    ),
    Term("ceiling", "The largest value that can be reached with this many trials or speakers.", ("most",)),
    Term(
        "used / expected",
        "Trials, or recordings, on which a number stands, and those that it should stand on.",
        ("used",),
    ),
    Term(
        "partial", "Not all that was expected could be used; do not compare such a number with full ones.", ("PARTIAL",)
    ),
    Term("incomplete", "A number is not given, because it would not stand on all that was expected."),
    Term(
        "variant",
        "By which of several definitions a number was computed, or for which case.",
        ("computed otherwise", "definition", "definitions"),
    ),
    Term(
        "rocch",
        "The EER on the convex hull of the ROC: the lowest that any calibration of the scores can give; never above 50 %.",
        ("convex hull", "ROC"),
        "Brümmer and du Preez 2006",
    ),
    Term(
        "kaldi",
        "The EER as the Kaldi toolkit computes it: the share of target scores below the first one that exceeds the non-target score at the mirrored rank. It can lie above 50 %.",
    ),
    Term(
        "speechbrain",
        "The EER as the SpeechBrain toolkit computes it: the mean of both error rates at the first threshold where they are closest.",
    ),
    Term("empirical", "From the ranks as they were counted.", source=SRD),
    Term(
        "beta-binomial",
        "From a smooth curve that is fitted to the counted ranks; it stands for what more inputs might show.",
        ("beta_binomial",),
        SRD,
    ),
    Term("exact", "By a closed form, or by the best possible calibration, without bins or draws."),
    Term(
        "ECE",
        "Empirical cross-entropy: what the attacker's likelihood ratios cost, in bits, at each prior.",
        ("ECE profiles", "cross-entropy"),
        "Nautsch et al. 2020",
    ),
    Term("prior", "How likely the attacker thinks a target before having listened.", ("priors", "prior log-odds")),
    Term("profile", "A number drawn over all priors.", ("profiles",)),
    Term(
        "rank",
        "The place of the true speaker among all, by similarity: 1 is the most similar.",
        ("ranks", "histogram", "histograms"),
    ),
    Term(
        "similarity matrix",
        "How alike the speakers of a set are, each with each; the diagonal is a speaker with itself.",
        ("similarity matrices", "voice similarity matrices", "diagonal"),
        "Noé et al. 2020",
    ),
    Term("voice distinctiveness", "How well the voices of different speakers can be told apart.", ("distinctiveness",)),
    Term(
        "ZEBRA",
        "A framework that measures what an attacker learns as information: on average over people, and at worst.",
        source="Nautsch et al. 2020",
    ),
    Term("SRD", "Similarity rank disclosure: what the rank of the true speaker gives away.", ("rank disclosure",), SRD),
    Term(
        "disclosure", "What an attacker learns of who speaks, as information.", ("disclosed", "discloses", "disclose")
    ),
    Term("population", "How many speakers the attacker chooses among.", ("N'",)),
    Term("candidates", "The enrolled speakers, one of whom is meant.", ("candidate",)),
    Term("bit", "A unit of information: one bit halves the number of speakers in question.", ("bits",)),
    Term("nat", "A unit of information, by the natural logarithm: 1.44 bits."),
    Term("log10", "The base-10 logarithm: 2 means odds of 100 to 1."),
    Term("dB", "Decibel: ten times the base-10 logarithm of a ratio."),
    Term("points", "Percentage points: the difference of two percentages."),
)

COMPARING = (
    Term("leaderboard", "The systems by what their strongest attack discloses, the one that discloses least first."),
    Term("baseline", "The system that the others are held against.", ("held against", "reference")),
    Term("difference", "One system's number minus another's, on the same speakers.", ("differences",)),
    Term(
        "p",
        "How often a difference as large as this one, or larger, comes up when the two systems' numbers are swapped at random, "
        "speaker by speaker. Small is evidence that the systems differ.",
        ("p-value", "paired test", "swapped", "swapping"),
    ),
    Term(
        "Holm",
        "A correction of p for several comparisons: without it, one of many differences would look significant by chance.",
        ("Holm’s", "Holm's", "p (Holm)", "corrected"),
        "Holm 1979",
    ),
    Term(
        "shared rank",
        "1 and the number of systems that are shown to be better. Systems that cannot be told apart share a rank, marked “=”.",
        ("shared ranks",),
    ),
    Term(
        "signature",
        "A text of all parameters that can change a number. Only numbers with equal signatures are comparable.",
        ("signatures", "short form"),
    ),
    Term("digest", "A number that stands for the bytes of data or settings: equal bytes, equal digest.", ("digests",)),
    Term("run", "One evaluation, with a folder of its own.", ("runs",)),
    Term(
        "minimum-EER condition",
        "A class of the VoicePrivacy Challenge: the least EER that a system must reach.",
        ("minimum-EER conditions", "meets condition"),
    ),
    Term("scorecard", "Published numbers, ours beside them, and whether they agree.", ("cell", "cells")),
)

SPEAKERS = (
    Term(
        "zoo",
        "Speakers sorted by how easily they are recognised and how easily taken for others.",
        ("Zoo",),
        f"{DODDINGTON}; {YAGER}",
    ),
    Term("sheep", "A speaker who is recognised as most others are.", source=DODDINGTON),
    Term(
        "goat",
        "A speaker who is hard to recognise: in the lowest quarter of evidence from their own trials.",
        ("goats",),
        DODDINGTON,
    ),
    Term(
        "lamb",
        "A speaker who is easily taken for others, or for whom others are easily taken (wolf): in the top quarter of evidence from impostor trials. One comparison has both, so they share a mark.",
        ("lambs", "wolf", "wolves", "wolf/lamb"),
        DODDINGTON,
    ),
    Term("worm", "Hard to recognise and easily taken for others.", ("worms",), YAGER),
    Term("dove", "Easy to recognise and seldom taken for others: the easiest prey.", ("doves",), YAGER),
    Term("phantom", "Little evidence either way: hard to recognise, seldom taken for others.", ("phantoms",), YAGER),
    Term(
        "chameleon", "Much evidence either way: easily recognised, and easily taken for others.", ("chameleons",), YAGER
    ),
    Term(
        "near zero evidence",
        "The attacker's evidence says next to nothing of anybody, so that no animal is named.",
        ("near_zero_evidence",),
    ),
    Term(
        "worst protected",
        "Of whom the strongest attack still tells most. In every set somebody is worst; whether that is more than chance is said beside it.",
        ("worst-protected",),
    ),
    Term(
        "Jaccard",
        "Of two lists, the share of the names on either that are on both: 1 is the same list, 0 no name in common.",
    ),
    Term(
        "rank correlation", "How alike two orders are: 1 the same, 0 unrelated, −1 the reverse.", source="Spearman 1904"
    ),
    Term("nearest other speaker", "The speaker for whom this one would be taken first.", ("nearest",)),
    Term(
        "told more of",
        "The attack tells more of this speaker than of the median speaker, beyond chance.",
        ("told less of",),
    ),
)

MARKS = (
    Term("~", "Within chance: not different from a system that gives nothing away."),
    Term("†", "Partial: does not stand on all that was expected."),
    Term("‡", "There is something to know of this number; it stands below the table.", ("‡1", "‡2", "‡3")),
    Term("–", "There is no number, with the reason below the table or beside it."),
    Term("↑", "Higher is more private."),
    Term("↓", "Lower is more private."),
    Term("=", "A rank that several systems share.", ("1=", "2=", "3=", "4=")),
    Term("∞", "Beyond all bounds: a rank or a score that decides for certain.", ("−∞",)),
)

GROUPS = (
    ("Speech", SPEECH),
    ("Attacks", ATTACKS),
    ("Numbers", VALUES),
    ("Comparing", COMPARING),
    ("Speakers", SPEAKERS),
    ("Marks", MARKS),
)
"""All words by heading."""
