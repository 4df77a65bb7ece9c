"""Whether enrolment and trials were treated alike.

The test rests on long-term spectra (:mod:`pipeline.submission.hearing`), which need no weights. An enrolment set is compared with its
own trial sets alone: corpora differ in channel more than voices do.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipeline.datasets.listings import TrialList
from pipeline.metrics import Undefined
from pipeline.metrics.treatment import Treatment, treatment
from pipeline.products.checks.words import treated_differently
from pipeline.submission.findings import Check, Named
from pipeline.submission.side import Pair, Side


def treated(side: Side, lists: Sequence[TrialList]) -> Check:
    """Whether enrolment and trials stay equally similar to their originals, by the test of the metrics' README, section 16."""
    trial_sets: dict[str, list[str]] = {}
    for trials in lists:
        trial_sets.setdefault(trials.enrolment_set, []).append(trials.name)
    found, said, told = [], [], 0
    for enrolment, tried in trial_sets.items():
        measured = _treatment(_pairs(side, [enrolment]), _pairs(side, tried))
        if measured is None:
            continue
        told += 1
        finding = treated_differently(measured)
        if finding.flagged:
            found.append(Named(enrolment, enrolment, finding.sentence))
            found += [Named(name, name, f"against {enrolment}") for name in tried]
        said.append(f"{enrolment}: {finding.sentence} (Long-term spectra, no embeddings.)")
    if not told:
        return Check("treatment", side.label, "unknown", said="too few sound files in enrolment or trials")
    total = sum(1 + len(tried) for tried in trial_sets.values())
    return Check("treatment", side.label, "wrong" if found else "ok", tuple(found), total, " ".join(said))


def _pairs(side: Side, sets: Sequence[str]) -> list[Pair]:
    return [pair for pair in side.pairs if pair.row["set"] in sets and pair.row["speaker"]]


def _spectra(pairs: Sequence[Pair]) -> tuple[np.ndarray, np.ndarray]:
    return np.stack([one.original.spectrum for one in pairs]), np.stack([one.mine.spectrum for one in pairs])


def _treatment(enrolled: Sequence[Pair], tried: Sequence[Pair]) -> Treatment | None:
    """The comparison of two roles; None where there is nothing to compare."""
    both = [*enrolled, *tried]
    if not enrolled or not tried:
        return None
    original, protected = _spectra(both)
    heard = np.isfinite(original).any(axis=1) & np.isfinite(protected).any(axis=1)
    bands = np.isfinite(original[heard]).all(axis=0) & np.isfinite(protected[heard]).all(axis=0)
    if not bands.any():
        return None
    first, second = (one[:, bands] - one[:, bands].mean(axis=1, keepdims=True) for one in (original, protected))
    # Around the mean of the originals and in its spread, so that a cosine tells voices apart and not speech from noise.
    centre, spread = first[heard].mean(axis=0), first[heard].std(axis=0) + 1e-9
    before, after = ((np.where(heard[:, None], one, centre) - centre) / spread for one in (first, second))
    split = len(enrolled)
    speakers = [str(one.row["speaker"]) for one in both]
    try:
        return treatment(
            before[:split], after[:split], before[split:], after[split:], speakers[:split], speakers[split:]
        )
    except Undefined:
        return None
