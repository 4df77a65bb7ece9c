"""Speed and memory of PLDA: all-pairs scores against SpeechBrain's, and training on as many vectors as the challenge has."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from tests.benchmark.harness import Row, apart, interleaved, row

UTTERANCES, DIMENSION, LDA = 5328, 512, 200
SPEAKERS, EACH = 900, 110


def _drawn(speakers: int, each: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Embeddings float32 [speakers * each, DIMENSION], and the number of the speaker of each."""
    random = np.random.default_rng(seed)
    speaker = np.repeat(np.arange(speakers), each)
    vectors = random.standard_normal((len(speaker), DIMENSION), dtype=np.float32)
    vectors += random.standard_normal((speakers, DIMENSION), dtype=np.float32)[speaker]
    return vectors, speaker


def _trained(vectors: np.ndarray, speaker: np.ndarray) -> Any:
    from pipeline.backends.plda import estimation

    return estimation.train(
        vectors, [str(number) for number in speaker], lda=LDA, iterations=10, regularisation=None, length_normalise=True
    )[0]


def _scored(model: Any, vectors: np.ndarray) -> np.ndarray:
    """All pairs, embeddings to ratios."""
    from pipeline.backends.plda import model as plda

    mapped = model.map_vectors(vectors, 1, length_normalise=True)
    return plda.llr(model.psi, mapped, np.ones(len(vectors), dtype=np.int64), mapped)


def all_pairs() -> float:
    """Scores of all pairs, for the memory that they take."""
    return float(_scored(_trained(*_drawn(300, 4, 0)), _drawn(UTTERANCES, 1, 1)[0])[0, 0])


def training() -> float:
    """The seconds of a training, for these and for its memory."""
    vectors, speaker = _drawn(SPEAKERS, EACH, 0)
    begin = time.perf_counter()
    _trained(vectors, speaker)
    return time.perf_counter() - begin


def plda(runs: int = 3, clock: Any = time.perf_counter) -> list[Row]:
    """Ours projects, normalises and scores; SpeechBrain's is given vectors that are projected, and scores."""
    from speechbrain.processing.PLDA_LDA import Ndx, StatObject_SB, fast_PLDA_scoring

    from pipeline.backends.plda.model import llr, normalise_lengths

    model, (vectors, _) = _trained(*_drawn(300, 4, 0)), _drawn(UTTERANCES, 1, 1)
    projected = normalise_lengths((vectors - model.centre) @ model.lda.T)
    back = np.linalg.inv(model.transform)
    names, none = np.array([f"u{row}" for row in range(UTTERANCES)], dtype="|O"), np.array([None] * UTTERANCES)
    held = StatObject_SB(names, names, none, none, np.ones((UTTERANCES, 1)), projected)
    ndx = Ndx(models=names, testsegs=names)

    def theirs() -> np.ndarray:
        factors = back * np.sqrt(model.psi)
        found = fast_PLDA_scoring(held, held, ndx, model.mean, factors, back @ back.T, check_missing=False)
        return np.asarray(found.scoremat)

    plain = (projected - model.mean) @ model.transform.T
    far = np.abs(llr(model.psi, plain, np.ones(UTTERANCES, dtype=np.int64), plain) - theirs()).max()
    assert far < 1e-8, f"the two are {far:.1e} apart"
    ours, other = interleaved([lambda: _scored(model, vectors), theirs], runs, clock)
    _, memory = apart("tests.benchmark.plda:all_pairs")
    seconds, training_memory = apart("tests.benchmark.plda:training")
    what = f"{UTTERANCES} x {UTTERANCES} ratios, {DIMENSION} to {LDA} dimensions"
    return [
        row("plda_5328", ours, "s", f"{what}, projection included", at_most=15),
        row("plda_5328_speechbrain", ours, "s", f"{what}; to fast_PLDA_scoring of projected vectors, check_missing=False",
            ratio=other / ours, at_least=1),
        row("plda_5328_memory", memory, "GB", f"peak of a process that makes {what}", at_most=1.5),
        row("plda_training", seconds, "s", f"{SPEAKERS * EACH} vectors of {SPEAKERS} speakers, {DIMENSION} to {LDA} dimensions"),
        row("plda_training_memory", training_memory, "GB", "peak of a process that draws and trains the same"),
    ]  # fmt: skip
