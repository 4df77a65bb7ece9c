"""What each metric is, in one sentence, and how its name is set in text, HTML and LaTeX.

The report is driven by the rows: a metric that is not listed here still gets its tables, under its own name, with the
first line of its docstring if it came through the entry point ``voice_privacy.metrics``.
"""

from __future__ import annotations

import inspect
import logging
import re
from dataclasses import dataclass
from importlib.metadata import entry_points

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Entry:
    """A metric's name as text (with ``_`` before its subscript), its long name, what it says, and where it is defined."""

    symbol: str
    title: str
    sentence: str
    source: str = ""

    @property
    def parts(self) -> tuple[str, str]:
        """Base and subscript of the symbol."""
        base, _, subscript = self.symbol.partition("_")
        return base, subscript


ENTRIES: dict[str, Entry] = {
    "eer": Entry(
        "EER",
        "equal error rate",
        "The error rate of a speaker-verification attacker at the threshold where it misses targets as often as it accepts "
        "impostors: 0 % means that speakers are recognised without error, 50 % that the attacker guesses.",
        "variant rocch: on the convex hull of the ROC, where it cannot exceed 50 %",
    ),
    "cllr": Entry(
        "Cllr",
        "cost of the log-likelihood ratio",
        "The cost, in bits, of using the attacker's scores as log-likelihood ratios as they are, so that calibration errors "
        "count as well as the lack of discrimination.",
        "Brümmer and du Preez 2006",
    ),
    "cllr_min": Entry(
        "Cllr_min",
        "discrimination cost",
        "What remains of the cost of the log-likelihood ratio after the best possible calibration: 0 bit means that the "
        "attacker separates all speakers, 1 bit that its scores say nothing.",
        "Brümmer and du Preez 2006",
    ),
    "d_ece": Entry(
        "D_ECE",
        "expected disclosure (ZEBRA, population)",
        "The information about identity that an attacker with perfectly calibrated scores gains on average over all priors: "
        "0 bit is perfect privacy, 0.721 bit is full disclosure.",
        "Nautsch et al. 2020; Noé et al. 2022, Eq. 13",
    ),
    "l_w": Entry(
        "l_w",
        "worst-case disclosure (ZEBRA, individual)",
        "The strongest evidence for or against an identity found in any single trial, as the base-10 logarithm of its "
        "likelihood ratio: 2 means odds of 100 to 1; the number of trials sets a ceiling, which is shown beside it.",
        "Nautsch et al. 2020; Noé et al. 2022, Table 1",
    ),
    "l_w_ceiling": Entry(
        "l_w ceiling",
        "ceiling of the worst-case disclosure",
        "The largest worst-case disclosure that these numbers of trials could show.",
        "",
    ),
    "tag": Entry(
        "tag",
        "ZEBRA tag",
        "The worst-case disclosure in words: 0 no evidence; A below 10 to 1; B below 100 to 1; C below 10 000 to 1; "
        "D below 100 000 to 1; E below 1 000 000 to 1; F beyond. Tag 0 is out of reach on finite sets, and D to F are out of "
        "reach with few trials.",
        "Nautsch et al. 2020",
    ),
    "d_diag": Entry(
        "D_diag",
        "diagonal dominance of a voice similarity matrix",
        "How much more similar speakers are to themselves than to others, from 0 (nobody stands out) to 1, among originals "
        "(oo), between originals and protected speech (op) and among protected speech (pp).",
        "Noé et al. 2020, Eq. 3",
    ),
    "cllr_cal": Entry(
        "Cllr_cal",
        "calibration cost",
        "The part of the cost of the log-likelihood ratio that better calibration would remove.",
        "Brümmer and du Preez 2006",
    ),
    "d_diag_signed": Entry(
        "D_diag signed",
        "diagonal dominance with its sign",
        "Mean similarity of speakers to themselves minus that to others: below 0, speakers are less similar to themselves "
        "than to others, which identifies them as well.",
        "Noé et al. 2020, Eq. 3",
    ),
    "d_ece_op_oo_all_pairs": Entry(
        "D_ECE(OP/OO) all pairs",
        "disclosure removed, all pairs",
        "The share of the disclosed information that protection removes, on all pairs of the trial side.",
        "Noé et al. 2022, Eq. 17, on all pairs",
    ),
    "cllr_min_op_oo_all_pairs": Entry(
        "Cllr_min(OP/OO) all pairs",
        "discrimination removed, all pairs",
        "The share of the attacker's discrimination that protection removes, on all pairs of the trial side.",
        "Noé et al. 2022, Eq. 18, on all pairs",
    ),
    "g_d_ece_all_pairs": Entry(
        "G_D_ECE all pairs",
        "gain of distinctiveness by D_ECE, all pairs",
        "How well protected voices can be told from one another, by disclosed information: 0 dB means as well as originals.",
        "Noé et al. 2022, Eq. 19, on all pairs",
    ),
    "g_cllr_min_all_pairs": Entry(
        "G_Cllr_min all pairs",
        "gain of distinctiveness by Cllr_min, all pairs",
        "How well protected voices can be told from one another, by Cllr_min: 0 dB means as well as originals.",
        "Noé et al. 2022, Eq. 20 corrected, on all pairs",
    ),
    "deid": Entry(
        "DeID",
        "de-identification",
        "How much of the similarity between a speaker's original and protected voice is gone: 0 % means no protection, 100 % "
        "that the protected voice points to no original speaker.",
        "Noé et al. 2020",
    ),
    "g_vd": Entry(
        "G_VD",
        "gain of voice distinctiveness",
        "How well protected voices can still be told from one another: 0 dB means as well as the originals, below 0 dB less, "
        "−∞ dB not at all. A property of usefulness, not of privacy.",
        "Noé et al. 2020",
    ),
    "c_ece": Entry(
        "C_ECE",
        "disclosure to an attacker who calibrates on another run",
        "The information about identity that an attacker gains on average who learns from one run of a random system (f0) how "
        "to turn scores into likelihood ratios, and attacks speech that another run (f1) protects: 0 bit means that the attack "
        "is worthless, below 0 that its likelihood ratios mislead, 0.721 bit is full disclosure. The map from scores to "
        "likelihood ratios is linear or isotonic.",
        "Noé et al. 2022, section 5.3 and Eq. 15-16",
    ),
    "cllr_l_phi": Entry(
        "Cllr f0→f1",
        "cost of run f1 under the calibration of run f0",
        "The cost of the log-likelihood ratios that the attacker makes of run f1 with the map learnt on run f0: 1 bit is that "
        "of knowing nothing, above 1 bit the likelihood ratios mislead.",
        "Noé et al. 2022, section 5.3",
    ),
    "d_ece_f1": Entry(
        "D_ECE f1",
        "expected disclosure of run f1",
        "The information about identity that perfectly calibrated scores of the second run give: what C_ECE could reach at "
        "most.",
        "Noé et al. 2022, Eq. 13",
    ),
    "d_diag_p0p1": Entry(
        "D_diag P0P1",
        "diagonal dominance between two runs",
        "How much more similar a speaker's pseudo-voices of two runs of a random system are to each other than to other "
        "speakers' pseudo-voices: near 0, what one run makes of a voice does not point to what another makes of it.",
        "Noé et al. 2020, Eq. 3, on speech of two runs",
    ),
    "d_diag_p0p1_signed": Entry(
        "D_diag P0P1 signed",
        "diagonal dominance between two runs with its sign",
        "Mean similarity of a speaker's pseudo-voices of two runs minus that to other speakers' pseudo-voices: below 0, they "
        "are less similar than those of different speakers, which links them as well.",
        "Noé et al. 2020, Eq. 3, on speech of two runs",
    ),
    "p0p1_ratio": Entry(
        "P0P1/PP",
        "linkability across sessions",
        "The diagonal dominance between two runs as a share of that within one run: at 0 % two sessions of a speaker cannot be "
        "linked by the protected voice, at 100 % they are linked as well as two utterances of the same session.",
        "D_diag(P0P1) / D_diag(PP)",
    ),
    "max_d": Entry(
        "MaxD",
        "maximum disclosure (SRD)",
        "The largest information about identity that any one similarity rank gives away: 0 bit at chance, log2 N at most for "
        "N speakers; for few inputs its value at chance is well above 0.",
        "Bäckström et al. 2025; Chandra et al. 2026",
    ),
    "mean_d": Entry(
        "MeanD",
        "mean disclosure (SRD)",
        "The information about identity that the similarity rank of the true speaker gives away on average: 0 bit at chance, "
        "log2 N at most.",
        "Bäckström et al. 2025; Chandra et al. 2026",
    ),
    "idr": Entry(
        "IdR",
        "identification rate (SRD)",
        "How often the true speaker is the most similar of all N reference speakers; chance is 1/N.",
        "Chandra et al. 2026",
    ),
    "rank_spread": Entry(
        "RS",
        "rank spread (SRD)",
        "The share of ranks at which the true speaker is found more often than by chance; erratic for histograms that are "
        "almost flat.",
        "Chandra et al. 2026",
    ),
}

GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Speaker verification and ZEBRA", ("eer", "cllr_min", "d_ece", "l_w", "tag")),
    ("Voice similarity matrices", ("deid", "g_vd")),
    ("Two runs of a random system: calibrated on one, attacking the other", ("c_ece",)),
    ("Two runs of a random system: linkability across sessions", ("d_diag_p0p1", "p0p1_ratio")),
    ("Similarity rank disclosure", ("max_d", "mean_d", "idr", "rank_spread")),
)
"""The compact tables. Metrics outside these groups and outside ``DETAILS`` are shown in a table of their own."""

DETAILS = (
    "cllr",
    "cllr_cal",
    "d_diag",
    "d_diag_signed",
    "d_ece_op_oo_all_pairs",
    "cllr_min_op_oo_all_pairs",
    "g_d_ece_all_pairs",
    "g_cllr_min_all_pairs",
    "cllr_l_phi",
    "d_ece_f1",
    "d_diag_p0p1_signed",
)
"""Known metrics that only the full report shows."""

UNITS = {"fraction": "%", "bit": "bit", "log10": "log10", "dB": "dB", "tag": "", "": ""}

REFERENCES = (
    "N. Brümmer and J. du Preez, “Application-independent evaluation of speaker detection”, Computer Speech & Language 20, "
    "2006 (EER on the convex hull, Cllr, Cllr_min).",
    "A. Nautsch et al., “The Privacy ZEBRA: Zero Evidence Biometric Recognition Assessment”, Interspeech 2020 "
    "(D_ECE, l_w, tag).",
    "P.-G. Noé et al., “Speech Pseudonymisation Assessment Using Voice Similarity Matrices”, Interspeech 2020 "
    "(DeID, G_VD).",
    "P.-G. Noé et al., “Towards a unified assessment framework of speech pseudonymisation”, Computer Speech & Language 72, "
    "2022 (all of the above in one framework).",
    "T. Bäckström et al., “Privacy Disclosure of Similarity Rank in Speech and Language Processing”, arXiv 2508.05250, 2025; "
    "S. Chandra et al., “Evaluating voice anonymisation using similarity rank disclosure”, arXiv 2605.07291, 2026 (SRD).",
    "G. Doddington et al., “Sheep, goats, lambs and wolves”, ICSLP 1998; T. Dunstone and N. Yager, “Biometric System and Data "
    "Analysis”, Springer 2009 (zoo).",
)


def entry(metric: str) -> Entry:
    """The entry of a metric; for one that is not listed, its own name and what its plug-in's docstring says."""
    known = ENTRIES.get(metric)
    if known is not None:
        return known
    symbol = metric.replace("_", " ")
    return Entry(symbol, symbol, _docstring(metric) or "No description came with this metric.")


def rank(metric: str) -> tuple[int, str]:
    """Sort key: metrics in the order of the glossary, others after them by name."""
    order = list(ENTRIES)
    return (order.index(metric) if metric in ENTRIES else len(order), metric)


def unit(name: str) -> str:
    """How a unit is written beside a value (fractions are shown as percentages)."""
    return UNITS.get(name, name)


def _docstring(metric: str) -> str:
    for point in entry_points(group="voice_privacy.metrics"):
        if point.name == metric:
            try:
                text = inspect.getdoc(point.load()) or ""
            except Exception as problem:
                log.warning("no description of metric %s: its plug-in cannot be loaded (%s)", metric, problem)
                return ""
            return re.sub(r"\s+", " ", text.split("\n\n")[0]).strip()
    return ""
