"""Whether a component keeps its contract: checks for each kind, which the tests of plug-ins import.

A check is a function that reads :mod:`pipeline.contracts` and says in a sentence what it does not find; the first line of its
docstring says what holds where there is nothing to say. What fails loudly by itself (a method that is missing, or has other
arguments) is not asked. A plug-in's test runs all checks of its kind, one test a check::

    @conformance.parametrize_with_checks("extractors", "mine")
    def test_contract(check):
        check()

``voice-privacy check-plugin mine`` runs the same without pytest (:func:`examine`), and names what cannot be asked here.
"""

from __future__ import annotations

import functools
import json
import pickle
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import ValidationError

from pipeline import contracts
from pipeline.contracts import ComponentSettings, Feature, Training, Utterance
from pipeline.datasets.synthetic import make_speaker, make_utterance
from pipeline.engine.code import read_version
from pipeline.errors import Fault, ModelMissing
from pipeline.registry import COMPONENT_KINDS, Kind, component, list_names
from pipeline.seeds import generator

HEAVY = ("torch", "torchaudio", "speechbrain", "transformers", "matplotlib", "numba", "librosa")
"""Modules that importing a component must not load: settings are checked before any of them is needed."""
NEAR = 1e-5
"""Largest cosine distance between a vector of a file alone and one of the same file beside others."""
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Candidate:
    """A component under examination.

    Attributes:
        kind: of component.
        name: under which it is registered.
        cls: its class.
        settings: checked settings; None where they could not be made.
        folder: of its weights or parameters; None where there are none.
    """

    kind: Kind
    name: str
    cls: Any
    settings: Any = None
    folder: Path | None = None


Check = Callable[[Candidate], Iterator[str]]
Part = Literal["class", "imports", "settings", "work"]
PARTS: tuple[Part, ...] = ("class", "imports", "settings", "work")
"""What is asked after what: of the class, of its settings, and of what it does with them."""

CHECKS: dict[tuple[Part, Kind], list[Check]] = defaultdict(list)
"""All checks by what they need and the kind of component, in the order of asking."""


def register(part: Part, *kinds: Kind) -> Callable[[Check], Check]:
    """Put a check on the lists of some kinds of component; of all kinds if none is named."""

    def add(check: Check) -> Check:
        for kind in kinds or COMPONENT_KINDS:
            CHECKS[part, kind].append(check)
        return check

    return add


@dataclass
class Examination:
    """What came of it.

    Attributes:
        checked: what was asked, in words.
        faults: what is not as the contract says.
        skipped: what could not be asked, and why.
    """

    checked: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)


def examine(
    kind: Kind,
    name: str,
    cls: Any,
    models: Path,
    values: Mapping[str, Any] | None = None,
    folder: Path | None = None,
    imports: bool = True,
) -> Examination:
    """Ask everything of a component that can be asked here.

    Args:
        kind: of component.
        name: under which it is registered.
        cls: what is registered.
        models: the folder of weights, ``paths.models``.
        values: settings beside the name, for fields that have no default.
        folder: weights that a training made; else those that the component finds.
        imports: whether a process of its own sees what importing its module loads.
    """
    examination, candidate = Examination(), Candidate(kind, name, cls)
    if not _ask("class", candidate, examination) or (imports and not _ask("imports", candidate, examination)):
        return examination
    try:
        settings = cls.Settings.model_validate({"name": name, **(values or {})})
        weights = cls.weights(settings, models) if folder is None else None
    except ValidationError as error:
        for entry in error.errors():
            place = ".".join(map(str, entry["loc"]))
            if entry["type"] == "missing":
                examination.skipped.append(f"what takes settings: give {place}")
            else:
                examination.faults.append(Fault(f"settings by default are refused: {entry['msg']}", place))
        return examination
    except ModelMissing as error:
        examination.skipped.append(f"what it does with its weights: {error}")
        return examination
    candidate = replace(candidate, settings=settings, folder=folder if weights is None else weights.folder)
    passed = _ask("settings", candidate, examination)
    if reason := _find_reason_to_skip(candidate):
        examination.skipped.append(reason)
    elif passed:
        _ask("work", candidate, examination)
    return examination


def parametrize_with_checks(
    kind: Kind,
    name: str,
    models: Path = Path("/none"),
    values: Mapping[str, Any] | None = None,
    folder: Path | None = None,
) -> Any:
    """Mark a test that takes ``check``, so that pytest runs it once for each check of a registered component.

    Args:
        kind, name, models, values, folder: as of :func:`examine`.
    """
    import pytest

    def run(check: Check) -> None:
        cls = component(kind, name)
        settings = cls.Settings.model_validate({"name": name, **(values or {})})
        weights = cls.weights(settings, models) if folder is None else None
        faults = list(check(Candidate(kind, name, cls, settings, folder if weights is None else weights.folder)))
        assert not faults, "; ".join(faults)

    checks = [check for part in PARTS for check in CHECKS[part, kind]]
    return pytest.mark.parametrize(
        "check", [pytest.param(functools.partial(run, check), id=check.__name__) for check in checks]
    )


def _ask(part: Part, candidate: Candidate, examination: Examination) -> bool:
    """Whether a component passes the checks of a part."""
    before = len(examination.faults)
    for check in CHECKS[part, candidate.kind]:
        title = (check.__doc__ or check.__name__).removesuffix(".")
        title = title[0].lower() + title[1:]
        examination.checked.append(title)
        try:
            examination.faults += [Fault(sentence) for sentence in check(candidate)]
        except Exception as error:  # a component under examination may raise anything
            examination.faults.append(Fault(f"{type(error).__name__}: {error}", f"when asked whether {title}"))
    return len(examination.faults) == before


def _find_reason_to_skip(candidate: Candidate) -> str:
    """Why a component does no work of its own that could be looked at; '' if it does."""
    cls, settings = candidate.cls, candidate.settings
    if candidate.kind == "extractors":
        if cls.tables(settings, []) is not None:
            return "extraction: its vectors are read from files"
        if candidate.folder is None and cls.training(settings, Training(_AnyTrainer, None)) is not None:
            return "extraction: its weights are trained in the run; name a folder of them"
    if candidate.kind == "anonymisers" and cls.copies(settings) is not None:
        return "anonymisation: its speech was anonymised elsewhere"
    return ""


class _AnyTrainer(contracts.Trainer):
    """A trainer that says it can train everything; it is only asked for."""

    Settings = ComponentSettings

    @classmethod
    def trains(cls, extractor: type[contracts.Extractor]) -> bool:
        return True

    @classmethod
    def cost(cls, settings: Any) -> float:
        return 0.0

    @classmethod
    def train(cls, *arguments: Any, **options: Any) -> bool:
        return False


# ------------------------------------------------------------------------------------------- the class and its settings


@register("class")
def check_class(candidate: Candidate) -> Iterator[str]:
    """It derives from the base class of its kind, and has settings."""
    base, cls = COMPONENT_KINDS[candidate.kind].base, candidate.cls
    if not isinstance(cls, type) or not issubclass(cls, base):
        yield f"it is no class that derives from {COMPONENT_KINDS[candidate.kind].contract_module}.{base.__name__}"
    elif not isinstance(getattr(cls, "Settings", None), type) or not issubclass(cls.Settings, ComponentSettings):
        yield "it has no Settings that derive from pipeline.contracts.ComponentSettings"
    elif lacking := sorted(cls.__abstractmethods__):
        yield f"it does not define {', '.join(lacking)}"
    else:
        yield from _check_roles(candidate)
        try:
            read_version(cls.__module__)
        except ValueError as error:
            yield str(error)


def _check_roles(candidate: Candidate) -> Iterator[str]:
    for name, declared in candidate.cls.Settings.model_fields.items():
        extra = declared.json_schema_extra
        role = extra.get("role") if isinstance(extra, dict) else None
        if role not in ("numeric", "runtime"):
            yield f"the setting {name} is marked neither numeric nor runtime"
        elif role == "runtime" and candidate.kind == "trainers":
            yield f"the setting {name} of a trainer is not numeric"


def find_heavy_imports(modules: Sequence[str]) -> dict[str, list[str]]:
    """What importing each of some modules loads of :data:`HEAVY`, seen in a process of its own; only what an earlier one has
    not loaded yet is seen."""
    code = (
        "import importlib, json, sys\nloaded = {}\n"
        f"for name in {list(modules)!r}:\n"
        "    before = set(sys.modules)\n"
        "    importlib.import_module(name)\n"
        f"    loaded[name] = [heavy for heavy in {HEAVY!r} if heavy in set(sys.modules) - before]\n"
        "print(json.dumps(loaded))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ImportError((done.stderr.strip().splitlines() or ["the process ended without a word"])[-1])
    imports: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
    return imports


@register("imports")
def check_imports(candidate: Candidate) -> Iterator[str]:
    """Importing its module loads nothing heavy."""
    module = candidate.cls.__module__
    if loaded := find_heavy_imports([module])[module]:
        yield f"importing {module} loads {', '.join(loaded)}: import that where it is used"


@register("settings")
def check_settings(candidate: Candidate) -> Iterator[str]:
    """Its settings are frozen, and pickle."""
    settings = candidate.settings
    if settings.name != candidate.name:
        yield f"its settings call it '{settings.name}' instead of '{candidate.name}'"
    if pickle.loads(pickle.dumps(settings)) != settings:
        yield "its settings are others after pickling"
    config = type(settings).model_config
    if not config.get("frozen") or config.get("extra") != "forbid":
        yield "its settings are not frozen, or take unknown keys"
    json.dumps(settings.numeric(), allow_nan=False)


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
def check_vectors(candidate: Candidate) -> Iterator[str]:
    """Vectors are finite float32 [d] with their weight or a reason; silence has weight 0."""
    rate = candidate.cls.sample_rate
    waves = make_speech(rate)
    extractor = _make_extractor(candidate)
    features = extractor.extract([*waves, np.zeros(rate, np.float32), np.zeros(0, np.float32)])
    yield from _check_shapes(features, len(waves) + 2)
    if all(feature.weight == 0 for feature in features[: len(waves)]):
        yield f"no feature has weight: {features[0].reason}"
    for feature, audio in zip(features[len(waves) :], ("silence", "no samples"), strict=False):
        if feature.weight != 0:
            yield f"{audio} has weight {feature.weight}"
        if feature.vector.any():
            yield f"{audio} has a vector that is not zero"
    yield from _check_shapes(extractor.segments([(wave, rate) for wave in waves], 3), 3)


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
    together = [speech.wave for speech in again.anonymise_many(utterances)]
    if not all(map(np.array_equal, in_threads, expected * 3)):
        yield "the same speech gives other samples, in another object or in a thread beside others"
    if not all(map(np.array_equal, together, expected)):
        yield "anonymise_many gives other samples than anonymise"


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
    cls, folder = candidate.cls, candidate.folder
    vectors, who = _make_vectors()
    with tempfile.TemporaryDirectory() as scratch:
        if folder is None and cls.is_fitted(candidate.settings):
            folder = Path(scratch)
            speakers = [f"s{number}" for number in who]
            record = cls.fit(candidate.settings, vectors, speakers, folder, within_session=False, choice=None)
            if not isinstance(json.loads(json.dumps(record)).get("summary"), str):
                yield "the record of fit has no summary"
        backend = cls(candidate.settings, folder)
        scores = backend.score(backend.enrol(vectors[:30], who[:30], 5), vectors[60:120])
        if not isinstance(scores, np.ndarray) or scores.dtype != np.float64 or scores.shape != (5, 60):
            yield "scores are no float64 [models, vectors]"
            return
        if not np.isfinite(scores).all():
            yield "scores are not finite"
        turned = backend.score(backend.enrol(vectors[:30][::-1], 4 - who[:30][::-1], 5), vectors[60:120][::-1])
        if not np.allclose(turned, scores[::-1, ::-1], rtol=1e-9, atol=1e-9):
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


def _make_scores(reads: str) -> Any:
    """Made-up scores of the kind that a family reads."""
    if reads == "trials":
        return _make_trials()
    if reads == "trial_runs":
        return contracts.TrialRuns(_make_trials(0), _make_trials(1))
    vectors, who = _make_vectors(people=6)
    if reads == "ranks":
        similarity = (vectors @ vectors[::6].T).astype(np.float64)
        return contracts.Ranks(similarity, who, tuple(f"s{number}" for number in range(6)), len(who))
    noise = generator(1, "pairs of a conformance check").normal(size=vectors.shape)
    original, protected = vectors.astype(np.float64), vectors + 0.6 * noise
    oo, op, pp = original @ original.T, original @ protected.T, protected @ protected.T
    speakers = np.array([f"s{number}" for number in who])
    if reads == "pairs":
        return contracts.Pairs(oo, op, pp, speakers, len(speakers))
    return contracts.PairRuns(pp, op, speakers, len(speakers))


@register("work", "families")
def check_rows(candidate: Candidate) -> Iterator[str]:
    """Rows are those it says, each once."""
    cls = candidate.cls
    measured = cls.measure(candidate.settings, _make_scores(cls.reads))
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
    if str(cls.measure(candidate.settings, _make_scores(cls.reads)).rows) != str(measured.rows):
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
