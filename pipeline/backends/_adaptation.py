"""What back ends share that adapt to the speech under attack: adaptive score normalisation, and settings for enrolment.

Adaptive symmetric score normalisation (AS-norm): a score s of a model e and a trial vector t becomes

    s' = 1/2 [(s - mu_e) / sd_e + (s - mu_t) / sd_t]

where mu and sd are the mean and standard deviation (divided by the number) of the ``top`` highest scores of e, and of t, against a
cohort of other speakers (Cumani et al. 2011, S-norm with a chosen cohort; Matejka et al. 2017, adaptive S-norm 1). The cohort is one
mean vector of each of the attacker's own training speakers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pipeline.contracts import Choice, ComponentSettings, Enrolment, numeric
from pipeline.errors import DataError
from pipeline.protocol.held_out import FEWEST, hold_out_speakers, pair_held_out

VERSION = "back end adaptation 1"

NO_SPREAD = 1e-12
"""A standard deviation below this share of the scores is rounding, not a difference between speakers."""


class AsNorm(ComponentSettings):
    """Settings of adaptive score normalisation.

    Attributes:
        cohort: ``training``: the mean vectors of the attacker's own training speakers.
        top: how many of the highest cohort scores give mean and standard deviation.
    """

    cohort: Literal["training"] = numeric("training")
    top: int = numeric(50, ge=2)


class AdaptationSettings(ComponentSettings):
    """Settings that back ends share.

    Attributes:
        as_norm: adaptive score normalisation; null is none. Scores are then no likelihood ratios.
        enrolment: how several enrolment recordings become one score: ``mean_of_embeddings`` (one model of all),
            ``mean_of_scores`` or ``max_of_scores`` (a model of each; scores are normalised first, then joined).
    """

    as_norm: AsNorm | None = numeric(None)
    enrolment: Enrolment = numeric("mean_of_embeddings")


def normalise_scores(scores: np.ndarray, of_models: np.ndarray, of_trials: np.ndarray, top: int) -> np.ndarray:
    """Scores after AS-norm, float64 [m, n].

    Args:
        scores: [m, n] of models against trial vectors.
        of_models: [m, c] of models against the cohort.
        of_trials: [c, n] of the cohort against trial vectors.
        top: how many cohort scores count, at most c.

    Raises:
        DataError: the highest cohort scores of something are all equal.
    """
    mean_e, sd_e = _highest(of_models, top)
    mean_t, sd_t = _highest(of_trials.T, top)
    return np.asarray(0.5 * ((scores - mean_e[:, None]) / sd_e[:, None] + (scores - mean_t[None, :]) / sd_t[None, :]))


def _highest(scores: np.ndarray, top: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation [n] of the ``top`` highest of each row of [n, c]."""
    place = scores.shape[1] - top
    highest = np.partition(scores, place, axis=1)[:, place:] if place else scores
    mean, spread = highest.mean(axis=1), highest.std(axis=1)
    flat = int((spread <= NO_SPREAD * (1 + np.abs(mean))).sum())
    if flat:
        raise DataError(
            f"AS-norm is not defined: the {top} highest cohort scores of {flat} of {len(scores)} vectors are all equal",
            where="setting as_norm",
            cause="training speakers with one and the same vector, as where an anonymiser gives all one voice",
            remedy="set as_norm=null for this back end, or choose another training set",
        )
    return mean, spread


def choose_held_out(speakers: Sequence[str]) -> Choice:
    """What a back end chooses by that was told nothing but the speakers [n] of its vectors: every fifth of them, whatever the sex."""
    aside = hold_out_speakers(speakers)
    return pair_held_out([f"{row:09d}" for row in range(len(speakers))], speakers, aside).choice(speakers, aside)


def check_training(count: int, subject: str, as_norm: AsNorm | None) -> None:
    """Whether there are training speakers enough for ``subject`` (what a back end learns) and its cohort.

    Raises:
        DataError: fewer than 10 training speakers, or fewer than the cohort takes.
    """
    if count < FEWEST:
        raise DataError(
            f"{subject} cannot be learnt from {count} training speaker{'s' if count != 1 else ''}: it takes {FEWEST} or more",
            remedy="name a larger training set by dataset.train=DIR, or use backend=[cosine] as it is (centre=false, as_norm=null)",
        )
    check_cohort(count, as_norm)


def limit_cohort(settings: Any, count: int) -> Any:
    """Settings whose AS-norm takes at most the scores of so many speakers; never fewer than 10."""
    if settings.as_norm is None or not FEWEST <= count < settings.as_norm.top:
        return settings
    return settings.model_copy(update={"as_norm": settings.as_norm.model_copy(update={"top": count})})


def check_cohort(count: int, as_norm: AsNorm | None) -> None:
    """Whether there are speakers enough for the cohort of AS-norm.

    Raises:
        DataError: there are fewer than 10, or than ``top``.
    """
    if as_norm is None or count >= max(as_norm.top, FEWEST):
        return
    fewer = f"backend.<label>.as_norm.top={count}, or " if count >= FEWEST else ""
    message = f"AS-norm takes a cohort of {FEWEST} training speakers or more, and there are {count}"
    if count < as_norm.top:
        message = f"a cohort of {count} training speakers is smaller than the {as_norm.top} that AS-norm takes the highest scores of"
    raise DataError(
        message,
        where=f"setting as_norm.top={as_norm.top}",
        remedy=f"set {fewer}backend.<label>.as_norm=null, or name a larger training set by dataset.train=DIR",
    )


def describe_as_norm(as_norm: AsNorm | None, speakers: int) -> str:
    """AS-norm in a few words; '' for none."""
    return f"AS-norm by the {as_norm.top} highest of a cohort of {speakers} speakers" if as_norm is not None else ""


def write_tensors(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write what a back end has learnt as safetensors."""
    from safetensors.numpy import save_file

    save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, path)


def read_tensors(path: Path, contents: str) -> dict[str, np.ndarray]:
    """What :func:`write_tensors` wrote; ``contents`` says what it is.

    Raises:
        DataError: it cannot be read.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise DataError(f"{contents} cannot be read", where=str(path), cause=str(error)) from error
