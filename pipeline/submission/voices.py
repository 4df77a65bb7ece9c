"""Estimates over a whole submission: were enrolment and trials treated alike, and who has a pseudo-voice of their own?

Both rest on long-term spectra (:mod:`pipeline.submission.hearing`), which need no weights. An enrolment set and its trial sets are
looked at together, and each such part by itself: corpora differ in channel more than voices do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pipeline.datasets.corpus import TrialList
from pipeline.diagnostics.sentences import treated_differently
from pipeline.metrics import Undefined
from pipeline.metrics.treatment import Treatment, treatment
from pipeline.submission import levels
from pipeline.submission.findings import Check, Named, Verdict
from pipeline.submission.levels import SAID, Estimate
from pipeline.submission.side import Pair, Side

Parts = Mapping[str, Sequence[str]]
"""The trial sets of each enrolment set; of speech to train on, the set and nothing."""


def parts(lists: Sequence[TrialList]) -> dict[str, list[str]]:
    """The enrolment sets of a data set with their trial sets."""
    found: dict[str, list[str]] = {}
    for one in lists:
        found.setdefault(one.enrolment_set, []).append(one.name)
    return found


def treated(side: Side, of: Parts) -> Check:
    """Whether enrolment and trials stay equally similar to their originals, by the test of the metrics' README, section 16."""
    found, said, told = [], [], 0
    for enrolment, tried in of.items():
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
    total = sum(1 + len(tried) for tried in of.values())
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


def level(side: Side, of: Parts) -> Check:
    """Who has a pseudo-voice, held against the declared level."""
    found: list[Named] = []
    said: list[str] = []
    told: set[str] = set()
    for enrolment, tried in of.items():
        name = ", ".join([enrolment, *tried])
        estimates = _level(side, [enrolment, *tried])
        whole = estimates[""]
        by_role = {role: one for role, one in estimates.items() if role and one.level}
        # A few speakers with voices of their own may look like one voice; a voice an utterance does not.
        roles = {one.level for one in by_role.values()}
        differ = len(roles) > 1 and "utterance" in roles
        told |= {one.level for one in by_role.values()} if differ else {whole.level} - {""}
        said.append(f"{name}: {_said(whole)}")
        if differ:
            each = ", ".join(f"{role} {SAID[one.level]}" for role, one in by_role.items())
            found.append(Named(enrolment, enrolment, f"not the same in enrolment and trials: {each}"))
        elif whole.level and side.level in SAID and whole.level != side.level:
            declared = f"declared is {SAID[side.level]} (level={side.level})"
            found.append(Named(enrolment, enrolment, f"{declared}, estimated {SAID[whole.level]}"))
    if side.level not in SAID and told:
        said.append(f"no level is declared: {side.copy.key('level')}={'|'.join(sorted(told))} would say it")
    verdict: Verdict = "warning" if found else "ok" if told else "unknown"
    mend = (
        f"set {side.copy.key('level')}={'|'.join(sorted(told))}, or mend the system" if found and len(told) == 1 else ""
    )
    return Check("level", side.label, verdict, tuple(found), len(of), "; ".join(said), mend)


def _level(side: Side, sets: Sequence[str]) -> dict[str, Estimate]:
    pairs = [one for one in _pairs(side, sets) if (one.row["set"], one.row["utterance"]) not in side.unprotected]
    if not pairs:
        return {"": Estimate("", why="no anonymised file to look at")}
    original, protected = _spectra(pairs)
    return levels.estimate(
        original, protected, *([str(one.row[field]) for one in pairs] for field in ("speaker", "set", "role"))
    )


def _said(one: Estimate) -> str:
    numbers = f"variance within speakers {one.within:.2f}, between {one.between:.2f} of the originals'"
    if one.level:
        return f"{SAID[one.level]}, estimated ({numbers})"
    return f"cannot be told ({one.why}{f'; {numbers}' if one.within or one.between else ''})"
