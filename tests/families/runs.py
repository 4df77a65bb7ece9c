"""Two runs of an invented random system: pseudo-voices of which a share stays the same from run to run."""

from __future__ import annotations

import numpy as np

from pipeline.contracts import PairRuns, TrialRuns, Trials


def voices(
    seed: int, *, speakers: int = 8, utterances: int = 5, leak: float = 0.5, random: float = 1.0
) -> tuple[list[np.ndarray], np.ndarray]:
    """Unit vectors [n, 16] of the original, the first and the second run, and the speaker of each utterance.

    Args:
        leak: how much of the speaker's own voice both runs keep.
        random: how much each run gives every speaker anew.
    """
    rng = np.random.default_rng(seed)
    own = rng.normal(size=(speakers, 16))
    who = np.repeat(np.arange(speakers), utterances)
    found = [own[who] + 0.4 * rng.normal(size=(who.size, 16))]
    for _ in range(2):
        pseudo = leak * own + random * rng.normal(size=own.shape)
        found.append(pseudo[who] + 0.6 * rng.normal(size=(who.size, 16)))
    return [each / np.linalg.norm(each, axis=1, keepdims=True) for each in found], np.array([f"s{k}" for k in who])


def trial_runs(seed: int = 0, **more: float) -> TrialRuns:
    """The first utterance of a speaker's original voice enrolled, against the other utterances of either run."""
    (original, *runs), names = voices(seed, **more)  # type: ignore[arg-type]
    speakers = np.unique(names)
    models = np.array([original[names == name][0] for name in speakers])
    tried = np.concatenate([np.flatnonzero(names == name)[1:] for name in speakers])
    claimed, spoken = np.repeat(speakers, tried.size), np.tile(names[tried], speakers.size)
    ids = np.tile([f"u{k}" for k in tried], speakers.size)
    first, second = (
        Trials((models @ run[tried].T).ravel(), claimed == spoken, claimed, spoken, False, claimed.size, ids)
        for run in runs
    )
    return TrialRuns(first, second)


def pair_runs(seed: int = 0, **more: float) -> PairRuns:
    (_, p0, p1), names = voices(seed, **more)  # type: ignore[arg-type]
    return PairRuns(p0 @ p0.T, p0 @ p1.T, names, names.size)
