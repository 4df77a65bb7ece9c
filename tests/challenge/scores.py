"""Score files of each edition, drawn so that they have about the printed equal error rate."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from scipy.stats import norm

from pipeline import metrics
from pipeline.seeds import generator
from tests.challenge import tables
from tests.challenge.sets import SEED, Set

DATES = {"2020": "results-2020-05-20-10-00-00", "2022": "results-2022-06-20-10-00-00"}

# Printed EERs in %, by condition: dev f, m and test f, m of LibriSpeech in 2024.
_OF_2024 = {
    "": (10.511, 0.931, 8.761, 0.418),
    "_mcadams": (12.910, 2.045, 7.483, 1.557),
    "_b1b": (10.937, 7.454, 7.474, 4.675),
    "_sttts": (28.426, 22.044, 27.920, 26.724),
    "_nac": (34.378, 31.056, 29.378, 31.155),
    "_asrbn_hifigan_bn_tdnnf_wav2vec2_vq_48_v1": (35.816, 32.918, 33.946, 34.729),
    "_asrbn_hifigan_bn_tdnnf_600h_vq_48_v1": (25.141, 20.961, 21.146, 21.137),
}
_SAME = {"_B1": "_b1b", "_B2": "_mcadams", "_B3": "_sttts", "_B4": "_nac"}
_SETS_2024 = ("libri_dev_trials_f", "libri_dev_trials_m", "libri_test_trials_f", "libri_test_trials_m")

# The same for 2020 and 2022: f, m of LibriSpeech, f, m, f_common, m_common of VCTK; dev, then test. Systems are B2.
_KALDI = {
    ("2020", "oo"): (8.807, 1.242, 2.92, 1.439, 2.616, 1.425, 7.664, 1.114, 4.938, 2.067, 2.89, 1.13),
    ("2020", "oa"): (35.37, 17.86, 35.43, 28.14, 34.01, 23.93, 26.09, 17.82, 29.99, 28.3, 30.92, 24.29),
    ("2020", "aa"): (23.58, 10.56, 15.78, 11.12, 11.63, 10.54, 15.15, 8.463, 16.98, 12.23, 14.45, 11.86),
    ("2022", "oo"): (8.665, 1.242, 2.864, 1.439, 2.616, 1.425, 7.664, 1.114, 4.887, 2.067, 2.89, 1.13),
    ("2022", "oa"): (39.77, 39.13, 28.3, 37.27, 41.28, 42.17, 38.32, 41.2, 46.4, 24.68, 44.8, 39.27),
    ("2022", "aa"): (43.32, 44.57, 55.76, 32.9, 40.99, 40.17, 39.78, 40.09, 58.85, 43.92, 53.18, 37.29),
    ("2022 retrained", "oo"): (14.91, 3.416, 6.906, 3.375, 5.814, 4.274, 10.22, 2.227, 9.259, 4.42, 8.382, 2.825),
    ("2022 retrained", "oa"): (17.05, 2.484, 8.928, 9.876, 15.12, 11.68, 8.759, 2.227, 24.64, 7.118, 14.45, 6.78),
    ("2022 retrained", "aa"): (11.36, 1.398, 6.682, 6.352, 5.814, 8.832, 7.117, 1.114, 16.92, 7.692, 10.98, 4.802),
}
_SETS_KALDI = tuple(
    f"{corpus}_{part}_trials_{which}"
    for part in ("dev", "test")
    for corpus, whiches in (("libri", "f m"), ("vctk", "f m f_common m_common"))
    for which in whiches.split()
)


def drawn(held: Set, eer: float, purpose: str) -> np.ndarray:
    """A score for each trial: evenly spaced quantiles of two normal distributions of variance 1 that have this EER.

    Args:
        held: the set.
        eer: a fraction.
        purpose: what the order of the scores depends on, beside the set.
    """
    labels = np.array([trial[2] == "target" for trial in held.trials or ()])
    made = np.empty(len(labels))
    for target in (True, False):
        where = np.flatnonzero(labels == target)
        order = generator(SEED, "scores", purpose, held.name, int(target)).permutation(len(where))
        centre = -norm.ppf(eer) * (1 if target else -1)
        made[where[order]] = centre + norm.ppf((np.arange(len(where)) + 0.5) / len(where))
    return made


def write_2024(exp: Path, held: Sequence[Set], suffix: str) -> None:
    """``exp/ASV/ENROL[SUFFIX]-TRIAL[SUFFIX]/{scores,EER}`` of both extractors, and the summaries. Scores look like cosines."""
    printed = dict(zip(_SETS_2024, _OF_2024[""], strict=True))
    attacked = dict(zip(_SETS_2024, _OF_2024.get(_SAME.get(suffix, suffix), (30.0,) * 4), strict=True))
    ranked: list[str] = []
    for asv, informed in (("asv_orig", False), (f"asv_anon{suffix}", True)):
        rows = []
        for one in [one for one in held if one.trials is not None]:
            for enrolment, trial in (("", ""), ("", suffix), (suffix, suffix)):
                rate = printed[one.name] + 4 * informed if not trial else attacked[one.name] if informed else 42.0
                found = _one_2024(exp / asv, one, enrolment, trial, rate / 100, asv)
                parts = one.name.split("_")
                words = ["anon" if end else "original" for end in (enrolment, trial)]
                rows.append(f"{len(rows)},{parts[0]},{parts[1]},{parts[3]},{','.join(words)},{100 * found:.3f}")
        tables.lines(exp / asv / f"results{suffix}.csv", [",dataset,split,gender,enrollment,trial,EER", *rows])
        kind = "anon" if informed else "orig"
        shown = [row for row in rows if ("anon,anon" in row if informed else "original,original" in row)]
        summary = [
            f"---- ASV_eval{'^anon' if informed else ''} results ----",
            *(row.replace(",", " ") for row in shown),
        ]
        tables.lines(exp / "results_summary" / f"eval_{kind}{suffix}" / f"results_{kind}.txt", summary)
        ranked += ["", *summary]
    tables.lines(exp / "results_summary" / f"result_for_rank{suffix}", ranked)


def write_2026(exp: Path, held: Sequence[Set], suffix: str) -> None:
    """The same for VPC 2026's mixed sets; its published OO is not known here, so that the rates are invented."""
    for one in [one for one in held if one.trials is not None]:
        _one_2024(exp / "asv_ssl", one, "", "", 0.02, "asv_ssl")
        _one_2024(exp / f"asv_anon{suffix}", one, suffix, suffix, 0.05, f"asv_anon{suffix}")


def _one_2024(asv: Path, held: Set, enrolment: str, trial: str, eer: float, purpose: str) -> float:
    folder = asv / f"{held.raw}_enrolls{enrolment}-{held.name}{trial}"
    made = 0.3 + 0.08 * drawn(held, eer, f"{purpose} {enrolment} {trial}")
    _scores(folder / "scores", held, made)
    labels = _labels(held)
    found = metrics.eer(made[labels], made[~labels], variant="speechbrain")
    (folder / "EER").write_text(str(found))  # a fraction
    return found


def write_kaldi(exp: Path, held: Sequence[Set], suffix: str, edition: str) -> None:
    """``exp/results-DATE/ASV-ENROL[SUFFIX]-TRIAL[SUFFIX]`` of 2020; in 2022 also ``results-DATE.orig``, of the original model."""
    date = DATES[edition] if suffix == "_anon" else f"{DATES[edition]}{suffix}"
    kinds = [("2020", date)] if edition == "2020" else [("2022 retrained", date), ("2022", f"{date}.orig")]
    for kind, name in kinds:
        summary: list[str] = []
        for one in [one for one in held if one.trials is not None]:
            for condition, enrolment, trial in (("oo", "", ""), ("oa", "", suffix), ("aa", suffix, suffix)):
                printed = dict(zip(_SETS_KALDI, _KALDI[kind, condition], strict=True))
                place = exp / name / f"ASV-{one.raw}_enrolls{enrolment}-{one.name}{trial}"
                summary += [place.name, *_one_kaldi(place, one, printed[one.name] / 100, f"{kind} {enrolment} {trial}")]
        tables.lines(exp / name / "results.txt", summary)
        if edition == "2022":
            eers = [f"{a}  {b.strip()}" for a, b in pairwise(summary) if a.startswith("ASV-")]
            tables.lines(exp / name / "results_summary.txt", eers)


def _one_kaldi(folder: Path, held: Set, eer: float, purpose: str) -> list[str]:
    """The files of one list, and what the summary says of it. Scores are log likelihood ratios, badly calibrated as printed."""
    made = 20 * drawn(held, eer, purpose) - 10
    _scores(folder / "scores", held, made)
    labels = _labels(held)
    t, n = made[labels], made[~labels]
    zebra = metrics.zebra(t, n)
    link = metrics.d_sys(t, n, variant="vpc")
    said = {
        "EER": [f"EER: {100 * metrics.eer(t, n, variant='kaldi'):.4g}%"],
        "Cllr": [
            f"Cllr (min/act): {metrics.cllr_min(t, n):.3f}/{metrics.cllr(t, n):.3f}",
            f"ROCCH-EER: {100 * metrics.eer(t, n, variant='rocch'):.3f}%",
        ],
        "linkability_log": [f"linkability: {link:.6f}"],
        "zebra": [f"Population: {zebra.d_ece:.3f} bit", f"Individual: {zebra.l_w:.3f} ({zebra.tag})"],
    }
    for name, content in said.items():
        extra = ["minDCF(p-target=0.01): 0.5000", "minDCF(p-target=0.001): 0.7000"] if name == "EER" else []
        tables.lines(folder / name, [*content, *extra])
    (folder / ".done").touch()
    return [f"  {line}" for content in said.values() for line in content]


def _scores(path: Path, held: Set, made: np.ndarray) -> None:
    rows = zip(held.trials or (), made.tolist(), strict=True)
    tables.lines(path, (f"{model} {utterance} {score:.6g}" for (model, utterance, _), score in rows))


def _labels(held: Set) -> np.ndarray:
    return np.array([trial[2] == "target" for trial in held.trials or ()])
