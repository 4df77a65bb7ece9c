"""Within-class covariance normalisation: what varies within speakers weighs less in the cosine.

Vectors x are centred by the training vectors' mean m and mapped to L^-1 (x - m), where L L' = W (Hatch et al. 2006) and

    W = (1 - a) S + a tr(S) / d I

with S the covariance within the training speakers, [d, d], and a the shrinkage. Then all is as with the cosine.

An attacker who protects the enrolment several times adds it to S, each model as a class of its own. Centred on the enrolment, m is
the mean of the enrolment vectors for models and trials; the cohort of AS-norm stays centred on the training vectors.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pipeline.backends import _adaptation
from pipeline.backends._adaptation import AsNorm
from pipeline.backends.cosine import (
    Linear,
    LinearBackend,
    LinearSettings,
    average_models,
    make_cohort,
    scale_to_unit,
    score_pairs,
)
from pipeline.contracts import Choice, numeric
from pipeline.errors import DataError

VERSION = "wccn 4"

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
        centre: the mean that is subtracted from enrolment and trials: of the ``training`` vectors, of the ``enrolment`` vectors
            (training speech may sound different from the speech under attack), or ``both``, the second as an attack of its own
            with the back end ``LABEL, enrolment centre``. Pairs without an enrolment have that of the training.
    """

    name: Literal["wccn"] = numeric("wccn")
    as_norm: AsNorm | None = numeric(AsNorm())
    shrinkage: float | None = numeric(None, ge=0, le=1)
    centre: Literal["both", "training", "enrolment"] = numeric("both")


class Backend(LinearBackend):
    """Scores are cosines, or normalised ones.

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
    def variants(cls, settings: WccnSettings) -> Mapping[str, WccnSettings]:
        if settings.centre != "both":
            return {"": settings}
        centres = {"": "training", "enrolment centre": "enrolment"}
        return {name: settings.model_copy(update={"centre": centre}) for name, centre in centres.items()}

    @classmethod
    def centres_on_enrolment(cls, settings: WccnSettings) -> bool:
        return settings.centre == "enrolment"

    def adapt(self, vectors: np.ndarray, model: np.ndarray, draws: int) -> Backend:
        """Centred on the enrolment where that is chosen; of several draws, its spread joins that of the training speakers."""
        from threadpoolctl import threadpool_limits

        rows, adapted = np.asarray(vectors, dtype=np.float64), copy.copy(self)
        if draws > 1:
            with threadpool_limits(1, user_api="blas"):
                adapted.linear = _join_scatter(self.linear, rows, model)
        if self.settings.centre == "enrolment":
            adapted.linear = replace(adapted.linear, centre=rows.mean(axis=0))
        return adapted

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

        Raises:
            DataError: the data cannot support it, with the reason.
        """
        from threadpoolctl import threadpool_limits

        rows, labels = np.asarray(vectors, dtype=np.float64), np.asarray(speakers, dtype=str)
        choice = choice or _adaptation.choose_held_out(labels.tolist())
        kept = labels[choice.learnt].tolist()
        cls.check_speakers(settings, len(set(kept)))
        with threadpool_limits(1, user_api="blas"):
            chosen = _choose_shrinkage(settings, rows, labels, choice)
            linear = learn(rows[choice.learnt], labels[choice.learnt], chosen["shrinkage"]["used"], settings)
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


def learn(rows: np.ndarray, labels: np.ndarray, shrinkage: float, settings: WccnSettings) -> Linear:
    """Centre, map and cohort of vectors [n, d] of speakers [n].

    Raises:
        DataError: nothing is known of how a speaker varies, or the covariance is singular.
    """
    names, speaker = np.unique(labels, return_inverse=True)
    freedom = len(rows) - len(names)
    not_finite = int((~np.isfinite(rows)).any(axis=1).sum())
    if not_finite:
        raise DataError(
            f"{not_finite} of {len(rows)} vectors to learn the back end wccn from hold numbers that are not finite"
        )
    if not freedom:
        raise DataError(
            f"the back end wccn cannot be learnt from {len(names)} speakers with one vector each: how one varies is unknown",
            remedy="choose a training set with several recordings a speaker, or cut the recordings into pieces",
        )
    centre, scatter = rows.mean(axis=0), _scatter(rows, speaker, len(names))
    if float(np.trace(scatter)) / freedom / rows.shape[1] <= NO_SPREAD * float((rows**2).mean()):
        raise DataError(
            "the back end wccn cannot be learnt: the vectors of each speaker are identical",
            cause="the same recording under several ids, or an anonymiser that gives each speaker one fixed voice",
            remedy="choose another training set, or backend=[cosine]",
        )
    transform = _mapping(scatter, freedom, shrinkage)
    linear = Linear(centre, transform, None, scatter, np.array([freedom, shrinkage]))
    if settings.as_norm is None:
        return linear
    return replace(linear, cohort=make_cohort(linear, rows, speaker, normalise=settings.normalise_utterances))


def _scatter(rows: np.ndarray, group: np.ndarray, n_groups: int) -> np.ndarray:
    """Sum [d, d] of the squared deviations of rows [n, d] from the means of their groups."""
    deviations = rows - average_models(rows, group, n_groups, normalise=False)[group]
    return np.asarray(deviations.T @ deviations)


def _join_scatter(linear: Linear, rows: np.ndarray, model: np.ndarray) -> Linear:
    """What was learnt from training speakers, with the spread of enrolment vectors [n, d] within their models; centre unchanged."""
    assert linear.scatter is not None and linear.shrunk is not None and linear.transform is not None
    models, group = np.unique(model, return_inverse=True)
    freedom, shrinkage = float(linear.shrunk[0]) + len(rows) - len(models), float(linear.shrunk[1])
    scatter = linear.scatter + _scatter(rows, group, len(models))
    transform = _mapping(scatter, freedom, shrinkage)
    others = linear.cohort
    if others is not None:
        # The directions of the cohort's models, mapped back and mapped anew.
        others = scale_to_unit(np.linalg.solve(linear.transform, others.T).T @ transform.T)
    return Linear(linear.centre, transform, others, scatter, np.array([freedom, shrinkage]))


def _mapping(scatter: np.ndarray, freedom: float, shrinkage: float) -> np.ndarray:
    """L^-1 [d, d] of the covariance that a scatter has at so many degrees of freedom, after shrinkage; singular ones are refused."""
    import scipy.linalg

    dimension = len(scatter)
    within = scatter / freedom
    level = float(np.trace(within)) / dimension
    within = (1 - shrinkage) * within + shrinkage * level * np.eye(dimension)
    values = scipy.linalg.eigvalsh(within)
    if values[0] <= NO_SPREAD * values[-1]:
        raise DataError(
            f"the covariance within speakers is singular: {freedom:g} degrees of freedom for {dimension} dimensions, eigenvalues "
            f"from {values[-1]:.2g} to {max(values[0], 0):.2g}",
            where=f"backend wccn, setting shrinkage={shrinkage:g}",
            remedy="set a larger shrinkage, or null to have it chosen",
        )
    lower = scipy.linalg.cholesky(within, lower=True)
    return np.asarray(scipy.linalg.solve_triangular(lower, np.eye(dimension), lower=True))


def _choose_shrinkage(settings: WccnSettings, rows: np.ndarray, labels: np.ndarray, choice: Choice) -> dict[str, Any]:
    """``shrinkage`` and ``held_out`` of the record."""
    if settings.shrinkage is not None:
        return {
            "shrinkage": {"used": settings.shrinkage, "chosen": False, "reason": "", "candidates": []},
            "held_out": {},
        }
    numbers = {"speakers": choice.speakers, "n_target": choice.n_target, "n_nontarget": choice.n_nontarget}
    try:
        tried = _try_shrinkages(settings, rows, labels, choice)
        reason = ""
    except DataError as error:
        tried, reason = [], error.what
    if not tried:
        without = (
            "no two held-out speakers are comparable" if choice.n_target else "no held-out speaker has several vectors"
        )
        reason = reason or without
        used = {"used": UNCHOSEN, "chosen": False, "reason": reason, "candidates": []}
        return {"shrinkage": used, "held_out": numbers}
    lowest = min(candidate["eer"] for candidate in tried)
    # One standard error of the share with one more error in two more trials, so that no error has one too.
    share = (lowest * choice.n_target + 1) / (choice.n_target + 2)
    limit = lowest + float(np.sqrt(share * (1 - share) / choice.n_target))
    near = [candidate for candidate in tried if candidate["eer"] <= limit]
    best = max(near, key=lambda candidate: candidate["shrinkage"])
    used = {"used": best["shrinkage"], "chosen": True, "reason": "", "candidates": tried}
    return {"shrinkage": used, "held_out": {**numbers, "eer": best["eer"], "cllr_min": best["cllr_min"]}}


def _try_shrinkages(
    settings: WccnSettings, rows: np.ndarray, labels: np.ndarray, choice: Choice
) -> list[dict[str, float]]:
    """Held-out EER and Cllr_min of each candidate; AS-norm takes the whole cohort where fewer than ``top`` are left."""
    from pipeline.metrics.detection import eer
    from pipeline.metrics.information import cllr_min

    if not choice.n_target or not choice.n_nontarget:
        return []
    others = ~choice.held_out
    n_others = len(set(labels[others].tolist()))
    top = min(settings.as_norm.top, n_others) if settings.as_norm is not None else None
    tried = []
    for shrinkage in SHRINKAGES:
        linear = learn(rows[others], labels[others], shrinkage, settings)
        mapped = linear.map_vectors(rows[choice.rows])
        scores = score_pairs(linear, mapped, mapped, top)[choice.first, choice.second]
        classes = scores[choice.target], scores[~choice.target]
        tried.append({"shrinkage": shrinkage, "eer": eer(*classes), "cllr_min": cllr_min(*classes)})
    return tried


def _summary(settings: WccnSettings, chosen: dict[str, Any], vectors: int, speakers: int, within_session: bool) -> str:
    shrinkage, held_out = chosen["shrinkage"], chosen["held_out"]
    if shrinkage["chosen"]:
        origin = f"chosen on {held_out['speakers']} held-out speakers, EER {100 * held_out['eer']:.2f} %"
    else:
        origin = f"not chosen: {shrinkage['reason']}" if shrinkage["reason"] else "as set"
    parts = [
        f"{vectors} vectors of {speakers} speakers, centred, shrinkage {shrinkage['used']:g} ({origin})",
        _adaptation.describe_as_norm(settings.as_norm, speakers),
        "learnt from pieces of one recording a speaker, so it knows no change of session" if within_session else "",
    ]
    return "; ".join(filter(None, parts))
