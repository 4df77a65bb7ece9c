"""Within-class covariance normalisation: what varies within speakers weighs less in the cosine.

Vectors x are centred by the training vectors' mean m and mapped to L^-1 (x - m), where L L' = W (Hatch et al. 2006) and

    W = (1 - a) S + a tr(S) / d I

with S the covariance within the training speakers, [d, d], and a the shrinkage. Then all is as with the cosine.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pipeline.backends import _adaptation
from pipeline.backends._adaptation import AsNorm
from pipeline.backends._linear import Linear, LinearBackend, LinearSettings, averages, cohort, scores
from pipeline.contracts import Choice, numeric
from pipeline.errors import DataError

VERSION = 3

SHRINKAGES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
"""What shrinkage is chosen from. 1 is centring alone, so what is chosen is not worse than that on the held-out speakers."""
UNCHOSEN = 0.2
"""Shrinkage where held-out speakers cannot tell."""
NO_SPREAD = 1e-12


class WccnSettings(LinearSettings):
    """Settings of within-class covariance normalisation, beside those of :class:`LinearSettings`.

    Attributes:
        shrinkage: share of a spherical covariance in the covariance within speakers (1 is centring alone); null chooses it by
            the EER of held-out training speakers.
    """

    name: Literal["wccn"] = numeric("wccn")
    as_norm: AsNorm | None = numeric(AsNorm())
    shrinkage: float | None = numeric(None, ge=0, le=1)


class Backend(LinearBackend):
    """Scores are cosines, or normalised ones; they are not log-likelihood ratios.

    With one recording a speaker, W is the covariance within recordings: it knows the pseudo-voice's spread and the words, and no
    change of session. The record says so.
    """

    Settings = WccnSettings
    libraries = ("numpy", "scipy")
    settings: WccnSettings

    @classmethod
    def is_fitted(cls, settings: WccnSettings) -> bool:
        return True

    @classmethod
    def check_speakers(cls, settings: WccnSettings, count: int) -> None:
        _adaptation.check_training(count, "the covariance of the back end wccn", settings.as_norm)

    @classmethod
    def fit(
        cls,
        settings: WccnSettings,
        vectors: np.ndarray,
        speakers: Sequence[str],
        folder: Path,
        *,
        within_session: bool,
        choice: Choice | None = None,
    ) -> dict[str, Any]:
        """Learn from vectors [n, d] of speakers [n], and write ``linear.safetensors`` into the folder.

        Where the shrinkage is not set, it is the largest of :data:`SHRINKAGES` whose EER on the pairs of ``choice`` (None: of
        every fifth speaker), after learning from the others, lies within a standard error of the lowest one: what lies closer
        together is noise, and a larger shrinkage trusts a covariance of few data, or of one session, less (the rule of one
        standard error: Breiman et al. 1984, section 3.4.3). Then all is learnt anew from all speakers, unless ``choice`` says
        otherwise.

        Returns:
            The record: ``summary``, ``settings``, ``speakers``, ``vectors``, ``dimension``, ``shrinkage`` (``used``, ``chosen``,
            ``reason``, ``candidates`` with their held-out ``eer`` and ``cllr_min``), ``held_out`` (how many speakers and pairs),
            ``cohort`` and ``within_session``.

        Raises:
            DataError: the data cannot support it, with the reason.
        """
        from threadpoolctl import threadpool_limits

        rows, labels = np.asarray(vectors, dtype=np.float64), np.asarray(speakers, dtype=str)
        choice = choice or _adaptation.choice_among(labels.tolist())
        kept = labels[choice.learnt].tolist()
        cls.check_speakers(settings, len(set(kept)))
        with threadpool_limits(1, user_api="blas"):
            chosen = _chosen(settings, rows, labels, choice)
            linear = learnt(rows[choice.learnt], labels[choice.learnt], chosen["shrinkage"]["used"], settings)
        linear.write(folder)
        n_speakers = len(set(kept))
        return {
            **chosen,
            "settings": settings.numeric(),
            "speakers": n_speakers,
            "vectors": len(kept),
            "dimension": rows.shape[1],
            "cohort": n_speakers if settings.as_norm is not None else 0,
            "within_session": within_session,
            "summary": _summary(settings, chosen, len(kept), n_speakers, within_session),
        }


def learnt(rows: np.ndarray, labels: np.ndarray, shrinkage: float, settings: WccnSettings) -> Linear:
    """Centre, map and cohort of vectors [n, d] of speakers [n].

    Raises:
        DataError: nothing is known of how a speaker varies, or the covariance is singular.
    """
    import scipy.linalg

    names, speaker = np.unique(labels, return_inverse=True)
    freedom, dimension = len(rows) - len(names), rows.shape[1]
    wrong = int((~np.isfinite(rows)).any(axis=1).sum())
    if wrong:
        raise DataError(
            f"{wrong} of {len(rows)} vectors to learn the back end wccn from hold numbers that are not finite"
        )
    if not freedom:
        raise DataError(
            f"the back end wccn cannot be learnt from {len(names)} speakers with one vector each: how one varies is unknown",
            remedy="choose a training set with several recordings a speaker, or cut the recordings into pieces",
        )
    centre = rows.mean(axis=0)
    rest = rows - averages(rows, speaker, len(names), normalise=False)[speaker]
    within = rest.T @ rest / freedom
    level = float(np.trace(within)) / dimension
    if level <= NO_SPREAD * float((rows**2).mean()):
        raise DataError(
            "the back end wccn cannot be learnt: the vectors of each speaker are identical",
            cause="the same recording under several ids, or an anonymiser that gives each speaker one fixed voice",
            remedy="choose another training set, or backend=[cosine]",
        )
    within = (1 - shrinkage) * within + shrinkage * level * np.eye(dimension)
    values = scipy.linalg.eigvalsh(within)
    if values[0] <= NO_SPREAD * values[-1]:
        raise DataError(
            f"the covariance within speakers is singular: {freedom} degrees of freedom for {dimension} dimensions, eigenvalues "
            f"from {values[-1]:.2g} to {max(values[0], 0):.2g}",
            where=f"backend wccn, setting shrinkage={shrinkage:g}",
            remedy="set a larger shrinkage, or null to have it chosen",
        )
    lower = scipy.linalg.cholesky(within, lower=True)
    transform = scipy.linalg.solve_triangular(lower, np.eye(dimension), lower=True)
    linear = Linear(centre, transform)
    if settings.as_norm is None:
        return linear
    return Linear(centre, transform, cohort(linear, rows, speaker, normalise=settings.normalise_utterances))


def _chosen(settings: WccnSettings, rows: np.ndarray, labels: np.ndarray, choice: Choice) -> dict[str, Any]:
    """``shrinkage`` and ``held_out`` of the record."""
    if settings.shrinkage is not None:
        return {
            "shrinkage": {"used": settings.shrinkage, "chosen": False, "reason": "", "candidates": []},
            "held_out": {},
        }
    numbers = {"speakers": choice.speakers, "n_target": choice.n_target, "n_nontarget": choice.n_nontarget}
    try:
        tried = _tried(settings, rows, labels, choice)
        reason = ""
    except DataError as error:
        tried, reason = [], error.what
    if not tried:
        which = (
            "no two held-out speakers are comparable" if choice.n_target else "no held-out speaker has several vectors"
        )
        reason = reason or which
        used = {"used": UNCHOSEN, "chosen": False, "reason": reason, "candidates": []}
        return {"shrinkage": used, "held_out": numbers}
    limit = _noise(min(one["eer"] for one in tried), choice.n_target)
    best = max((one for one in tried if one["eer"] <= limit), key=lambda one: one["shrinkage"])
    used = {"used": best["shrinkage"], "chosen": True, "reason": "", "candidates": tried}
    return {"shrinkage": used, "held_out": {**numbers, "eer": best["eer"], "cllr_min": best["cllr_min"]}}


def _noise(eer: float, n_target: int) -> float:
    """An EER and one standard error; of the share with one more error in two more trials, so that no error has one too."""
    share = (eer * n_target + 1) / (n_target + 2)
    return eer + float(np.sqrt(share * (1 - share) / n_target))


def _tried(settings: WccnSettings, rows: np.ndarray, labels: np.ndarray, choice: Choice) -> list[dict[str, float]]:
    """Held-out EER and Cllr_min of each candidate; AS-norm takes the whole cohort where fewer than ``top`` are left."""
    from pipeline.metrics.cllr import cllr_min
    from pipeline.metrics.detection import eer

    if not choice.n_target or not choice.n_nontarget:
        return []
    others = ~choice.held
    left = len(set(labels[others].tolist()))
    top = min(settings.as_norm.top, left) if settings.as_norm is not None else None
    tried = []
    for shrinkage in SHRINKAGES:
        linear = learnt(rows[others], labels[others], shrinkage, settings)
        mapped = linear.mapped(rows[choice.rows])
        found = scores(linear, mapped, mapped, top)[choice.first, choice.second]
        classes = found[choice.target], found[~choice.target]
        tried.append({"shrinkage": shrinkage, "eer": eer(*classes), "cllr_min": cllr_min(*classes)})
    return tried


def _summary(settings: WccnSettings, chosen: dict[str, Any], vectors: int, speakers: int, within_session: bool) -> str:
    shrinkage, held = chosen["shrinkage"], chosen["held_out"]
    if shrinkage["chosen"]:
        how = f"chosen on {held['speakers']} held-out speakers, EER {100 * held['eer']:.2f} %"
    else:
        how = f"not chosen: {shrinkage['reason']}" if shrinkage["reason"] else "as set"
    parts = [
        f"{vectors} vectors of {speakers} speakers, centred, shrinkage {shrinkage['used']:g} ({how})",
        _adaptation.summary(settings.as_norm, speakers),
        "learnt from pieces of one recording a speaker, so it knows no change of session" if within_session else "",
    ]
    return "; ".join(filter(None, parts))
