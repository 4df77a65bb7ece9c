"""What is asked of the work of components: features, speech, scores, rows, and trainings by their settings."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from pipeline import contracts
from pipeline.conformance.checks import Candidate, register
from pipeline.contracts import Feature, Utterance
from pipeline.datasets.synthetic import make_speaker, make_utterance
from pipeline.registry import component, list_names
from pipeline.seeds import generator

NEAR = 1e-5
"""Largest cosine distance between a vector of a file alone and one of the same file beside others."""

_ROUNDING = 1e-9
_LEVELS = ("fixed", "speaker", "unknown", "utterance")
_MANIFEST = {"set", "utterance", "speaker", "sex", "role", "sample_rate", "samples", "position"}


# ------------------------------------------------------------------------------------------------------------ extractors


def make_speech(rate: int) -> list[np.ndarray]:
    """Four pieces of synthetic speech of different lengths, float32 [n]."""
    return [
        np.asarray(make_utterance(make_speaker(11, who), 11, who, seconds, rate).wave, np.float32)
        for who, seconds in enumerate((1.9, 0.7, 3.1, 1.3))
    ]


def _cosine_distance(first: np.ndarray, second: np.ndarray) -> float:
    first, second = first.astype(np.float64), second.astype(np.float64)
    return 1 - float(first @ second) / float(np.linalg.norm(first) * np.linalg.norm(second))


def _make_extractor(candidate: Candidate) -> contracts.Extractor:
    extractor: contracts.Extractor = candidate.cls(candidate.settings, candidate.folder, "cpu", 2)
    return extractor


def _check_shapes(features: Sequence[Any], count: int) -> Iterator[str]:
    if len(features) != count:
        yield f"there are {len(features)} features of {count} pieces of audio"
    for feature in features:
        if not isinstance(feature, Feature):
            yield f"a {type(feature).__name__} is no Feature"
            return
        if not isinstance(feature.vector, np.ndarray) or feature.vector.dtype != np.float32 or feature.vector.ndim != 1:
            yield "a vector is no float32 [d]"
            return
        if not np.isfinite(feature.vector).all() or not np.isfinite(feature.weight) or feature.weight < 0:
            yield "a vector is not finite, or its weight is negative or not finite"
        if (feature.weight > 0) == bool(feature.reason):
            yield "a vector of weight 0 has no reason, or one with weight has some"
    if len({len(feature.vector) for feature in features}) > 1:
        yield "vectors have different dimensions"


@register("work", "extractors")
def check_vectors(candidate: Candidate) -> Iterator[str]:
    """Vectors are finite float32 [d] with their weight or a reason."""
    waves = make_speech(candidate.cls.sample_rate)
    features = _make_extractor(candidate).extract(waves)
    yield from _check_shapes(features, len(waves))
    if all(feature.weight == 0 for feature in features):
        yield f"no feature has weight: {features[0].reason}"


@register("work", "extractors")
def check_own_audio_alone(candidate: Candidate) -> Iterator[str]:
    """A vector depends on its own audio alone."""
    extractor, waves = _make_extractor(candidate), make_speech(candidate.cls.sample_rate)
    together = extractor.extract(waves)
    backwards = extractor.extract(waves[::-1])[::-1]
    single = [extractor.extract([wave])[0] for wave in waves]
    for others in (backwards, single):
        for feature, other in zip(together, others, strict=True):
            if (feature.weight > 0) != (other.weight > 0):
                yield "whether audio is usable depends on what is heard beside it"
            elif feature.weight > 0 and _cosine_distance(feature.vector, other.vector) > NEAR:
                apart = _cosine_distance(feature.vector, other.vector)
                yield f"a vector depends on what is heard beside it: a cosine distance of {apart:.2g}"
                return


@register("work", "extractors")
def check_silence(candidate: Candidate) -> Iterator[str]:
    """Silence has weight 0, with the reason."""
    rate = candidate.cls.sample_rate
    wave = make_speech(rate)[0]
    features = _make_extractor(candidate).extract([np.zeros(rate, np.float32), wave, np.zeros(0, np.float32)])
    yield from _check_shapes(features, 3)
    for feature, audio in ((features[0], "silence"), (features[2], "no samples")):
        if feature.weight != 0:
            yield f"{audio} has weight {feature.weight}"
        if feature.vector.any():
            yield f"{audio} has a vector that is not zero"


@register("work", "extractors")
def check_segments(candidate: Candidate) -> Iterator[str]:
    """Segments gives as many features as asked for."""
    rate = candidate.cls.sample_rate
    recordings = [(wave, rate) for wave in make_speech(rate)]
    features = _make_extractor(candidate).segments(recordings, 3)
    yield from _check_shapes(features, 3)
    if not any(feature.weight for feature in features):
        yield f"no segment has weight: {features[0].reason}"


@register("work", "extractors")
def check_pool(candidate: Candidate) -> Iterator[str]:
    """Pool makes one vector of several."""
    features = _make_extractor(candidate).extract(make_speech(candidate.cls.sample_rate))
    usable = [feature for feature in features if feature.weight > 0]
    vectors, weights = (
        np.stack([feature.vector for feature in usable]),
        np.array([feature.weight for feature in usable]),
    )
    pooled = candidate.cls.pool(vectors, weights)
    if pooled.dtype != np.float32 or pooled.shape != vectors.shape[1:] or not np.isfinite(pooled).all():
        yield "pool gives no finite float32 [d]"
        return
    with_unusable = candidate.cls.pool(np.vstack([vectors, vectors[:1]]), np.append(weights, 0.0))
    if not np.allclose(pooled, with_unusable, atol=1e-6):
        yield "pool counts vectors of weight 0"


# ----------------------------------------------------------------------------------------------------------- anonymisers


def _make_utterances() -> list[tuple[np.ndarray, int, Utterance]]:
    """Speech at two rates, with whose it is."""
    utterances = []
    for number, wave in enumerate([*make_speech(16_000), *make_speech(8_000)[:1]]):
        rate = 16_000 if number < 4 else 8_000
        utterances.append((wave, rate, Utterance(f"u{number}", f"s{number % 3}", "set", number)))
    return utterances


def _make_anonymiser(candidate: Candidate) -> contracts.Anonymiser:
    anonymiser: contracts.Anonymiser = candidate.cls(candidate.settings, candidate.folder, "cpu")
    return anonymiser


@register("work", "anonymisers")
def check_levels(candidate: Candidate) -> Iterator[str]:
    """Its level, its columns and how it is shown are known ones."""
    cls, settings = candidate.cls, candidate.settings
    if cls.level(settings) not in ("", *_LEVELS):
        yield f"its level '{cls.level(settings)}' is none of {', '.join(_LEVELS)}"
    if not isinstance(cls.shown_level(settings), str) or not cls.shown_level(settings):
        yield "it does not say how its level is shown"
    if not set(cls.reads(settings)) <= _MANIFEST:
        yield f"it reads columns that a manifest has not: {', '.join(sorted(set(cls.reads(settings)) - _MANIFEST))}"


@register("work", "anonymisers")
def check_runs_and_levels(candidate: Candidate) -> Iterator[str]:
    """A second run and another level are settings of the same system."""
    cls, settings = candidate.cls, candidate.settings
    runs = [settings, *(cls.rerun(settings, number) for number in (1, 2))]
    if runs[1] is not None:
        if any(type(run) is not type(settings) for run in runs) or runs[0] == runs[1]:
            yield "the second run has no settings of its own"
        elif cls.rerun(settings, 1) != runs[1]:
            yield "the second run is another one each time"
        elif runs[2] in runs[:2]:
            yield "the third run is one of those before it"
    for level in ("speaker", "utterance"):
        other = cls.at_level(settings, level)
        if other is not None and cls.level(other) != level:
            yield f"at_level {level} gives a system of level '{cls.level(other)}'"


@register("work", "anonymisers")
def check_speech(candidate: Candidate) -> Iterator[str]:
    """Anonymised speech is finite, and as long as the original."""
    anonymiser = _make_anonymiser(candidate)
    for wave, rate, who in _make_utterances():
        before = wave.copy()
        speech = anonymiser.anonymise(wave, rate, who)
        if not isinstance(speech, contracts.Anonymised):
            yield f"a {type(speech).__name__} is no Anonymised"
            return
        if not np.array_equal(wave, before):
            yield "it changes the waveform that it is given"
        if speech.wave.dtype != np.float32 or speech.wave.ndim != 1 or not np.isfinite(speech.wave).all():
            yield "its waveform is no finite float32 [n]"
        elif abs(len(speech.wave) * rate - len(wave) * speech.rate) > max(rate, speech.rate):
            yield f"its waveform has {len(speech.wave)} samples at {speech.rate} Hz of {len(wave)} at {rate} Hz"
        elif speech.subtype == "PCM_16" and not np.array_equal(np.rint(speech.wave * 32768), speech.wave * 32768):
            yield "its samples are no multiples of 1 / 32768, which PCM_16 would round"
        if candidate.cls.unchanged and not np.array_equal(speech.wave, wave):
            yield "it is said to change nothing, and does"


@register("work", "anonymisers")
def check_repeatable(candidate: Candidate) -> Iterator[str]:
    """The same speech gives the same samples, in threads too."""
    utterances = _make_utterances()
    expected = [_make_anonymiser(candidate).anonymise(*spoken).wave for spoken in utterances]
    again = _make_anonymiser(candidate)
    with ThreadPoolExecutor(4) as pool:
        in_threads = list(pool.map(lambda spoken: again.anonymise(*spoken).wave, utterances * 3))
    for waves, sentence in (
        (
            [again.anonymise(*spoken).wave for spoken in utterances],
            "the same speech gives other samples in another object",
        ),
        (
            [speech.wave for speech in again.anonymise_many(utterances)],
            "anonymise_many gives other samples than anonymise",
        ),
        (in_threads, "several threads that share an object get other samples"),
    ):
        if not all(map(np.array_equal, waves, expected * 3)):
            yield sentence


# ------------------------------------------------------------------------------------------------------------- back ends


def _make_vectors(dimension: int = 16, people: int = 60, each: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Vectors float32 [n, d] of made-up speakers, and the number of the speaker of each [n]."""
    random = generator(0, "vectors of a conformance check")
    who = np.repeat(np.arange(people), each)
    own = random.normal(size=(people, dimension))
    return (own[who] + 0.5 * random.normal(size=(len(who), dimension))).astype(np.float32), who


@register("work", "backends")
def check_scores(candidate: Candidate) -> Iterator[str]:
    """Scores are float64 [m, n], whatever the order, higher for the same speaker."""
    vectors, who = _make_vectors()
    with tempfile.TemporaryDirectory() as scratch:
        folder = candidate.folder
        if folder is None and candidate.cls.is_fitted(candidate.settings):
            folder = Path(scratch)
            record = candidate.cls.fit(
                candidate.settings, vectors, [f"s{number}" for number in who], folder, within_session=False, choice=None
            )
            if not isinstance(json.loads(json.dumps(record)).get("summary"), str):
                yield "the record of fit has no summary"
        backend = candidate.cls(candidate.settings, folder)
        enrolled, tried = np.arange(30), np.arange(60, 120)
        number = who[enrolled]
        models = int(number.max()) + 1
        scores = backend.score(backend.enrol(vectors[enrolled], number, models), vectors[tried])
        if not isinstance(scores, np.ndarray) or scores.dtype != np.float64 or scores.shape != (models, len(tried)):
            yield "scores are no float64 [models, vectors]"
            return
        if not np.isfinite(scores).all():
            yield "scores are not finite"
        order, back = np.array([3, 0, 4, 1, 2]), np.arange(len(tried))[::-1]
        place = np.argsort(order)
        shuffled = np.array([7, 2, 29, *(row for row in range(30) if row not in (7, 2, 29))])
        others = backend.enrol(vectors[enrolled][shuffled], place[number[shuffled]], models)
        again = backend.score(others, vectors[tried][back])
        if not np.allclose(again, scores[order][:, back], rtol=1e-9, atol=1e-9):
            yield "scores depend on the order of models or vectors"
        same = backend.score(backend.enrol(vectors[::6], who[::6], 60), vectors[1::6])
        own = np.eye(60, dtype=bool)
        if not same[own].mean() > same[~own].mean():
            yield "scores of the same speaker are not higher than those of others"


# -------------------------------------------------------------------------------------------------------------- families


def _make_trials(seed: int = 0) -> contracts.Trials:
    vectors, who = _make_vectors(people=8)
    noise = generator(seed, "trials of a conformance check").normal(size=vectors.shape)
    models = vectors[::6]
    tried = np.flatnonzero(np.arange(len(who)) % 6)
    scores = models @ (vectors[tried] + 0.5 * noise[tried]).T
    claimed, spoken = np.repeat(np.arange(8), len(tried)), np.tile(who[tried], 8)
    names = np.array([f"s{number}" for number in range(8)])
    flat = scores.astype(np.float64).ravel()
    ids = np.tile(np.array([f"u{row}" for row in tried]), 8)
    return contracts.Trials(flat, claimed == spoken, names[claimed], names[spoken], False, flat.size, ids)


def _make_all_pairs() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    vectors, who = _make_vectors(people=6)
    noise = generator(1, "pairs of a conformance check").normal(size=vectors.shape)
    original, protected = vectors.astype(np.float64), vectors + 0.6 * noise
    speakers = np.array([f"s{number}" for number in who])
    return original @ original.T, original @ protected.T, protected @ protected.T, speakers


def _make_pairs() -> contracts.Pairs:
    oo, op, pp, speakers = _make_all_pairs()
    return contracts.Pairs(oo, op, pp, speakers, len(speakers))


def _make_pair_runs() -> contracts.PairRuns:
    _, op, pp, speakers = _make_all_pairs()
    return contracts.PairRuns(pp, op, speakers, len(speakers))


def _make_ranks() -> contracts.Ranks:
    vectors, who = _make_vectors(people=6)
    similarity = (vectors @ vectors[::6].T).astype(np.float64)
    return contracts.Ranks(similarity, who, tuple(f"s{number}" for number in range(6)), len(who))


_DATA: dict[str, Callable[[], Any]] = {
    "trials": _make_trials,
    "trial_runs": lambda: contracts.TrialRuns(_make_trials(0), _make_trials(1)),
    "pairs": _make_pairs,
    "pair_runs": _make_pair_runs,
    "ranks": _make_ranks,
}


def _check_protected(candidate: Candidate) -> Iterator[str]:
    cls = candidate.cls
    _, _, pp, speakers = _make_all_pairs()
    measured = cls.measure_protected(candidate.settings, contracts.ProtectedPairs(pp, speakers, len(speakers)))
    if {row.metric for row in measured.rows} != set(cls.protected_metrics):
        yield "measure_protected gives rows of other metrics than protected_metrics names"
    if not set(measured.tables) <= {figure.name for figure in cls.figures}:
        yield "measure_protected gives tables that no figure declares"


@register("work", "families")
def check_rows(candidate: Candidate) -> Iterator[str]:
    """Rows are those it says, each once."""
    cls = candidate.cls
    measured = cls.measure(candidate.settings, _DATA[cls.reads]())
    if cls.protected_metrics:
        yield from _check_protected(candidate)
    if not isinstance(measured, contracts.Measured) or not measured.rows:
        yield "measure gives no rows"
        return
    keys = [(row.metric, row.variant, row.estimator, row.input_unit, row.condition) for row in measured.rows]
    for key in sorted({key for key in keys if keys.count(key) > 1}):
        yield f"there are several rows of {', '.join(filter(None, key))}"
    for row in measured.rows:
        metric = cls.metrics.get(row.metric)
        if metric is None:
            yield f"the metric {row.metric} is not among its metrics"
        elif row.value < metric.bounds[0] - _ROUNDING or row.value > metric.bounds[1] + _ROUNDING:
            yield f"{row.metric} is {row.value}, outside of its bounds {metric.bounds}"
        elif np.isnan(row.value) and not (row.label or row.reason):
            yield f"{row.metric} has no value, no label and no reason"
    for figure in cls.figures:
        if figure.name not in measured.tables:
            yield f"there is no table {figure.name} for its figure"
        elif lacking := sorted(set(figure.columns) - set(measured.tables[figure.name].columns)):
            yield f"the table {figure.name} lacks {', '.join(lacking)}"
    if str(cls.measure(candidate.settings, _DATA[cls.reads]()).rows) != str(measured.rows):
        yield "the same scores give other rows"


# -------------------------------------------------------------------------------------------------------------- trainers


@register("work", "trainers")
def check_resolved(candidate: Candidate) -> Iterator[str]:
    """Settings are resolved once and for all, and have a cost."""
    cls = candidate.cls
    able = [name for name in list_names("extractors") if cls.trains(component("extractors", name))] or [candidate.name]
    resolved = cls.resolved(candidate.settings, able[0], 40, 3600.0)
    if type(resolved) is not type(candidate.settings):
        yield "resolved settings are of another class"
        return
    if cls.resolved(resolved, able[0], 40, 3600.0) != resolved:
        yield "what is resolved is not left as it is"
    cost = cls.cost(resolved)
    if not isinstance(cost, (int, float)) or not cost > 0:
        yield "the cost is no number of seconds"
