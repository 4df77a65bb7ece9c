"""Whether a component keeps its contract: one list of checks for each kind, for ours and for those of other distributions.

``examine`` goes over all that can be asked of a component on this machine, and names what could not be asked. Nothing here knows
a component; a check reads :mod:`pipeline.contracts` and says in a sentence what it does not find.
"""

from __future__ import annotations

import inspect
import json
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from pipeline import contracts
from pipeline.contracts import ComponentSettings, Feature, Training, Utterance, Weights
from pipeline.datasets.synthetic import make_speaker, make_utterance
from pipeline.engine.code import read_version
from pipeline.errors import Fault, ModelMissing
from pipeline.registry import ROOMS, Kind, component, names
from pipeline.seeds import generator

HEAVY = ("torch", "torchaudio", "speechbrain", "transformers", "matplotlib", "numba", "librosa")
"""Modules that importing a component must not load: settings are checked before any of them is needed."""

NEAR = 1e-5
"""Largest cosine distance between a vector of a file alone and one of the same file beside others."""

_ROUNDING = 1e-9

_COMPARISONS, _SIMILARITIES = {"trials", "pairs", "ranks"}, {"cosine", "euclidean"}
_LEVELS = {"", "fixed", "speaker", "utterance", "unknown"}
_MANIFEST = {"set", "utterance", "speaker", "sex", "role", "sample_rate", "samples", "position"}


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


@dataclass(frozen=True)
class Check:
    """One thing that is asked of a component.

    Attributes:
        title: what holds where there is no fault.
        faults: gives what is not so.
    """

    title: str
    faults: Callable[[Candidate], Iterator[str]]


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
    found, candidate = Examination(), Candidate(kind, name, cls)
    if not _ask(BASE, candidate, found):
        return found
    _ask(CLASS, candidate, found)
    if imports:
        _ask(IMPORTS, candidate, found)
    _ask(SETTINGS, candidate, found)
    settings = _settings(candidate, values or {}, found)
    if settings is None:
        return found
    candidate = replace(candidate, settings=settings)
    _ask(VALUES, candidate, found)
    if found.faults:
        found.skipped.append("what it does: there are faults in what it is")
        return found
    try:
        weights = cls.weights(settings, models) if folder is None else None
    except ModelMissing as error:
        found.skipped.append(f"what it does with its weights: {error}")
        return found
    candidate = replace(candidate, folder=folder if weights is None else weights.folder)
    if why := _idle(candidate):
        found.skipped.append(why)
    else:
        _ask(WORK.get(kind, []), candidate, found)
    return found


def _settings(candidate: Candidate, values: Mapping[str, Any], found: Examination) -> Any:
    """Settings with these values; None where there are none."""
    try:
        return candidate.cls.Settings.model_validate({"name": candidate.name, **values})
    except ValidationError as error:
        for entry in error.errors():
            place = ".".join(map(str, entry["loc"]))
            if entry["type"] == "missing":
                found.skipped.append(f"what takes settings: give {place}")
            else:
                found.faults.append(Fault(f"settings by default are refused: {entry['msg']}", place))
    return None


def _ask(checks: Sequence[Check], candidate: Candidate, found: Examination) -> bool:
    """Whether a component passes some checks."""
    before = len(found.faults)
    for check in checks:
        found.checked.append(check.title)
        try:
            found.faults += [Fault(said) for said in check.faults(candidate)]
        except Exception as error:  # a component under examination may raise anything
            found.faults.append(Fault(f"{type(error).__name__}: {error}", f"when asked whether {check.title}"))
    return len(found.faults) == before


def _idle(candidate: Candidate) -> str:
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
    def train(cls, *given: Any, **more: Any) -> bool:
        return False


# ------------------------------------------------------------------------------------------------------------ the class


def _derives(candidate: Candidate) -> Iterator[str]:
    base = ROOMS[candidate.kind].base
    if not isinstance(candidate.cls, type) or not issubclass(candidate.cls, base):
        yield f"it is no class that derives from pipeline.contracts.{base.__name__}"


def _defined(candidate: Candidate) -> Iterator[str]:
    if lacking := sorted(candidate.cls.__abstractmethods__):
        yield f"it does not define {', '.join(lacking)}"


def _has_settings(candidate: Candidate) -> Iterator[str]:
    # What is no class of the right kind has been named already.
    if not isinstance(candidate.cls, type):
        return
    settings = vars_of(candidate.cls).get("Settings")
    if not isinstance(settings, type):
        yield "it has no Settings"
    elif not issubclass(settings, ComponentSettings):
        yield "its Settings do not derive from pipeline.contracts.ComponentSettings"


def vars_of(cls: type) -> dict[str, Any]:
    """The attributes of a class and of its bases."""
    return {name: value for each in reversed(cls.__mro__) for name, value in vars(each).items()}


def _signatures(candidate: Candidate) -> Iterator[str]:
    base = ROOMS[candidate.kind].base
    own, wanted = vars_of(candidate.cls), vars_of(base)
    for name, member in wanted.items():
        if (name.startswith("_") and name != "__init__") or own[name] is member or name == "Settings":
            continue
        if not (inspect.isfunction(member) or isinstance(member, (classmethod, staticmethod))):
            continue
        if not inspect.isfunction(member) and inspect.isfunction(own[name]):
            yield f"{name} is no class method"
            continue
        said = inspect.signature(member.__get__(None, base))
        given = [each for each in said.parameters.values() if each.kind is each.POSITIONAL_OR_KEYWORD]
        named = {each.name: each for each in said.parameters.values() if each.kind is each.KEYWORD_ONLY}
        try:
            inspect.signature(own[name].__get__(None, candidate.cls)).bind(*given, **named)
        except TypeError as error:
            yield f"{name} cannot be called as {name}{said}: {error}"


def _constants(candidate: Candidate) -> Iterator[str]:
    cls = candidate.cls
    if not isinstance(cls.libraries, tuple) or not all(isinstance(one, str) for one in cls.libraries):
        yield "libraries is no tuple of names of distributions"
    try:
        read_version(cls.__module__)
    except ValueError as error:
        yield str(error)
    yield from CONSTANTS[candidate.kind](cls)


def _flags(cls: Any, *names: str) -> Iterator[str]:
    for name in names:
        if not isinstance(vars_of(cls)[name], bool):
            yield f"{name} is neither True nor False"


def _of_extractor(cls: Any) -> Iterator[str]:
    if not isinstance(cls.compared_as, frozenset) or not cls.compared_as or not cls.compared_as <= _COMPARISONS:
        yield f"compared_as is no frozenset of some of {', '.join(sorted(_COMPARISONS))}"
    if cls.similarity not in _SIMILARITIES:
        yield f"similarity is neither {' nor '.join(sorted(_SIMILARITIES))}"
    if not isinstance(cls.sample_rate, int) or cls.sample_rate < 1:
        yield "sample_rate is no number of Hz"
    yield from _flags(cls, "evidence_optional", "hears")


def _of_backend(cls: Any) -> Iterator[str]:
    if not isinstance(cls.weak_within_session, str):
        yield "weak_within_session is no text"
    ways = [vars_of(cls)[name] is not vars(contracts.Backend)[name] for name in ("is_fitted", "fit")]
    if ways == [True, False]:
        yield "it says when it is fitted, and does not define fit"


def _of_family(cls: Any) -> Iterator[str]:
    if vars_of(cls).get("reads") not in _DATA:
        yield f"reads is none of {', '.join(_DATA)}"
    if not isinstance(vars_of(cls).get("title"), str):
        yield "title is no text"
    metrics = vars_of(cls).get("metrics")
    if not isinstance(metrics, Mapping) or not all(isinstance(one, contracts.Metric) for one in metrics.values()):
        yield "metrics is no mapping from names to Metric"
    if not isinstance(cls.figures, tuple) or not all(isinstance(one, contracts.FigureTable) for one in cls.figures):
        yield "figures is no tuple of FigureTable"
    if not isinstance(cls.row_figures, tuple) or not all(
        isinstance(one, contracts.RowFigure) for one in cls.row_figures
    ):
        yield "row_figures is no tuple of RowFigure"


CONSTANTS: dict[Kind, Callable[[Any], Iterator[str]]] = {
    "extractors": _of_extractor,
    "anonymisers": lambda cls: _flags(cls, "unchanged", "on_device"),
    "backends": _of_backend,
    "families": _of_family,
    "trainers": lambda cls: iter(()),
    "executors": lambda cls: iter(()),
}

BASE = [
    Check("it derives from the base class of its kind", _derives),
    Check("it has settings", _has_settings),
]
CLASS = [
    Check("it defines what is abstract", _defined),
    Check("its methods can be called as the contract says", _signatures),
    Check("what it says of itself has the right types", _constants),
]


def heavy_imports(modules: Sequence[str]) -> dict[str, list[str]]:
    """What importing each of some modules loads of :data:`HEAVY`, seen in a process of its own; only what an earlier one has
    not loaded yet is seen."""
    code = (
        "import importlib, json, sys\nfound = {}\n"
        f"for name in {list(modules)!r}:\n"
        "    before = set(sys.modules)\n"
        "    importlib.import_module(name)\n"
        f"    found[name] = [one for one in {HEAVY!r} if one in set(sys.modules) - before]\n"
        "print(json.dumps(found))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ImportError((done.stderr.strip().splitlines() or ["the process ended without a word"])[-1])
    read: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
    return read


def _light(candidate: Candidate) -> Iterator[str]:
    module = candidate.cls.__module__
    if loaded := heavy_imports([module])[module]:
        yield f"importing {module} loads {', '.join(loaded)}: import that where it is used"


IMPORTS = [Check("importing its module loads nothing heavy", _light)]


# --------------------------------------------------------------------------------------------------------- the settings


def _marked(candidate: Candidate) -> Iterator[str]:
    for name, declared in candidate.cls.Settings.model_fields.items():
        extra = declared.json_schema_extra
        role = extra.get("role") if isinstance(extra, dict) else None
        if role not in ("numeric", "runtime"):
            yield f"the setting {name} is marked neither numeric nor runtime"
        elif role == "runtime" and candidate.kind == "trainers":
            yield f"the setting {name} of a trainer is not numeric"


def _named(candidate: Candidate) -> Iterator[str]:
    if "name" not in candidate.cls.Settings.model_fields:
        yield "the settings have no field name"


SETTINGS = [
    Check("its settings have a name", _named),
    Check("every setting is marked numeric or runtime", _marked),
]


def _frozen(candidate: Candidate) -> Iterator[str]:
    settings = candidate.settings
    if settings.name != candidate.name:
        yield f"its settings call it '{settings.name}' instead of '{candidate.name}'"
    if pickle.loads(pickle.dumps(settings)) != settings:
        yield "its settings are others after pickling"
    try:
        settings.name = "another"
    except (ValidationError, TypeError, AttributeError):
        pass
    else:
        yield "its settings are not frozen"
    json.dumps(settings.numeric(), allow_nan=False)
    if type(settings).model_config.get("extra") != "forbid":
        yield "its settings take unknown keys"


def _weights(candidate: Candidate) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as nowhere:
        try:
            found = candidate.cls.weights(candidate.settings, Path(nowhere))
        except ModelMissing as error:
            if not error.remedy:
                yield "weights does not say how to mend that they are missing"
            return
    if found is not None and not (isinstance(found, Weights) and found.folder.is_dir() and found.digest):
        yield "weights gives something else than a folder and its digest"


VALUES = [
    Check("its settings are frozen, and pickle", _frozen),
    Check("it says where its weights are, or how to get them", _weights),
]


# ------------------------------------------------------------------------------------------------------------ extractors


def voices(rate: int) -> list[np.ndarray]:
    """Four pieces of synthetic speech of different lengths, float32 [n]."""
    return [
        np.asarray(make_utterance(make_speaker(11, who), 11, who, seconds, rate).wave, np.float32)
        for who, seconds in enumerate((1.9, 0.7, 3.1, 1.3))
    ]


def _distance(one: np.ndarray, two: np.ndarray) -> float:
    one, two = one.astype(np.float64), two.astype(np.float64)
    return 1 - float(one @ two) / float(np.linalg.norm(one) * np.linalg.norm(two))


def _extractor(candidate: Candidate) -> contracts.Extractor:
    made: contracts.Extractor = candidate.cls(candidate.settings, candidate.folder, "cpu", 2)
    return made


def _shaped(features: Sequence[Any], count: int) -> Iterator[str]:
    if len(features) != count:
        yield f"there are {len(features)} features of {count} pieces of audio"
    for one in features:
        if not isinstance(one, Feature):
            yield f"a {type(one).__name__} is no Feature"
            return
        if not isinstance(one.vector, np.ndarray) or one.vector.dtype != np.float32 or one.vector.ndim != 1:
            yield "a vector is no float32 [d]"
            return
        if not np.isfinite(one.vector).all() or not np.isfinite(one.weight) or one.weight < 0:
            yield "a vector is not finite, or its weight is negative or not finite"
        if (one.weight > 0) == bool(one.reason):
            yield "a vector of weight 0 has no reason, or one with weight has some"
    if len({len(one.vector) for one in features}) > 1:
        yield "vectors have different dimensions"


def _extracts(candidate: Candidate) -> Iterator[str]:
    waves = voices(candidate.cls.sample_rate)
    features = _extractor(candidate).extract(waves)
    yield from _shaped(features, len(waves))
    if all(one.weight == 0 for one in features):
        yield f"no feature has weight: {features[0].reason}"


def _alone(candidate: Candidate) -> Iterator[str]:
    extractor, waves = _extractor(candidate), voices(candidate.cls.sample_rate)
    together = extractor.extract(waves)
    backwards = extractor.extract(waves[::-1])[::-1]
    single = [extractor.extract([wave])[0] for wave in waves]
    for others in (backwards, single):
        for one, other in zip(together, others, strict=True):
            if (one.weight > 0) != (other.weight > 0):
                yield "whether audio is usable depends on what is heard beside it"
            elif one.weight > 0 and _distance(one.vector, other.vector) > NEAR:
                apart = _distance(one.vector, other.vector)
                yield f"a vector depends on what is heard beside it: a cosine distance of {apart:.2g}"
                return


def _silent(candidate: Candidate) -> Iterator[str]:
    rate = candidate.cls.sample_rate
    wave = voices(rate)[0]
    features = _extractor(candidate).extract([np.zeros(rate, np.float32), wave, np.zeros(0, np.float32)])
    yield from _shaped(features, 3)
    for one, what in ((features[0], "silence"), (features[2], "no samples")):
        if one.weight != 0:
            yield f"{what} has weight {one.weight}"
        if one.vector.any():
            yield f"{what} has a vector that is not zero"


def _segments(candidate: Candidate) -> Iterator[str]:
    rate = candidate.cls.sample_rate
    recordings = [(wave, rate) for wave in voices(rate)]
    features = _extractor(candidate).segments(recordings, 3)
    yield from _shaped(features, 3)
    if not any(one.weight for one in features):
        yield f"no segment has weight: {features[0].reason}"


def _pools(candidate: Candidate) -> Iterator[str]:
    features = [one for one in _extractor(candidate).extract(voices(candidate.cls.sample_rate)) if one.weight > 0]
    vectors, weights = np.stack([one.vector for one in features]), np.array([one.weight for one in features])
    pooled = candidate.cls.pool(vectors, weights)
    if pooled.dtype != np.float32 or pooled.shape != vectors.shape[1:] or not np.isfinite(pooled).all():
        yield "pool gives no finite float32 [d]"
        return
    lost = candidate.cls.pool(np.vstack([vectors, vectors[:1]]), np.append(weights, 0.0))
    if not np.allclose(pooled, lost, atol=1e-6):
        yield "pool counts vectors of weight 0"


# ----------------------------------------------------------------------------------------------------------- anonymisers


def _spoken() -> list[tuple[np.ndarray, int, Utterance]]:
    """Speech at two rates, with whose it is."""
    made = []
    for number, wave in enumerate([*voices(16_000), *voices(8_000)[:1]]):
        rate = 16_000 if number < 4 else 8_000
        made.append((wave, rate, Utterance(f"u{number}", f"s{number % 3}", "set", number)))
    return made


def _anonymiser(candidate: Candidate) -> contracts.Anonymiser:
    made: contracts.Anonymiser = candidate.cls(candidate.settings, candidate.folder, "cpu")
    return made


def _anonymises(candidate: Candidate) -> Iterator[str]:
    anonymiser = _anonymiser(candidate)
    for wave, rate, who in _spoken():
        before = wave.copy()
        made = anonymiser.anonymise(wave, rate, who)
        if not isinstance(made, contracts.Anonymised):
            yield f"a {type(made).__name__} is no Anonymised"
            return
        if not np.array_equal(wave, before):
            yield "it changes the waveform that it is given"
        if made.wave.dtype != np.float32 or made.wave.ndim != 1 or not np.isfinite(made.wave).all():
            yield "its waveform is no finite float32 [n]"
        elif abs(len(made.wave) * rate - len(wave) * made.rate) > max(rate, made.rate):
            yield f"its waveform has {len(made.wave)} samples at {made.rate} Hz of {len(wave)} at {rate} Hz"
        elif made.subtype == "PCM_16" and not np.array_equal(np.rint(made.wave * 32768), made.wave * 32768):
            yield "its samples are no multiples of 1 / 32768, which PCM_16 would round"
        if candidate.cls.unchanged and not np.array_equal(made.wave, wave):
            yield "it is said to change nothing, and does"


def _repeats(candidate: Candidate) -> Iterator[str]:
    spoken = _spoken()
    expected = [_anonymiser(candidate).anonymise(*one).wave for one in spoken]
    again = _anonymiser(candidate)
    if not all(np.array_equal(again.anonymise(*one).wave, wave) for one, wave in zip(spoken, expected)):
        yield "the same speech gives other samples in another object"
    if not all(np.array_equal(one.wave, wave) for one, wave in zip(again.several(spoken), expected)):
        yield "several gives other samples than anonymise"
    with ThreadPoolExecutor(4) as pool:
        beside = list(pool.map(lambda one: again.anonymise(*one).wave, spoken * 3))
    if not all(np.array_equal(one, wave) for one, wave in zip(beside, expected * 3)):
        yield "several threads that share an object get other samples"


def _random(candidate: Candidate) -> Iterator[str]:
    cls, settings = candidate.cls, candidate.settings
    runs = [settings, *(cls.rerun(settings, number) for number in (1, 2))]
    if runs[1] is not None:
        if any(type(one) is not type(settings) for one in runs) or runs[0] == runs[1]:
            yield "the second run has no settings of its own"
        elif cls.rerun(settings, 1) != runs[1]:
            yield "the second run is another one each time"
        elif runs[2] in runs[:2]:
            yield "the third run is one of those before it"
    for level in ("speaker", "utterance"):
        other = cls.at_level(settings, level)
        if other is not None and cls.level(other) != level:
            yield f"at_level {level} gives a system of level '{cls.level(other)}'"


def _says(candidate: Candidate) -> Iterator[str]:
    cls, settings = candidate.cls, candidate.settings
    if cls.level(settings) not in _LEVELS:
        yield f"its level '{cls.level(settings)}' is none of {', '.join(filter(None, sorted(_LEVELS)))}"
    if not isinstance(cls.shown_level(settings), str) or not cls.shown_level(settings):
        yield "it does not say how its level is shown"
    if not set(cls.reads(settings)) <= _MANIFEST:
        yield f"it reads columns that a manifest has not: {', '.join(sorted(set(cls.reads(settings)) - _MANIFEST))}"


# ------------------------------------------------------------------------------------------------------------- back ends


def _people(dimension: int = 16, people: int = 60, each: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Vectors float32 [n, d] of made-up speakers, and the number of the speaker of each [n]."""
    random = generator(0, "vectors of a conformance check")
    who = np.repeat(np.arange(people), each)
    own = random.normal(size=(people, dimension))
    return (own[who] + 0.5 * random.normal(size=(len(who), dimension))).astype(np.float32), who


def _scores(candidate: Candidate) -> Iterator[str]:
    vectors, who = _people()
    with tempfile.TemporaryDirectory() as made:
        folder = candidate.folder
        if folder is None and candidate.cls.is_fitted(candidate.settings):
            folder = Path(made)
            record = candidate.cls.fit(
                candidate.settings, vectors, [f"s{one}" for one in who], folder, within_session=False, choice=None
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
        shuffled = np.array([7, 2, 29, *(one for one in range(30) if one not in (7, 2, 29))])
        others = backend.enrol(vectors[enrolled][shuffled], place[number[shuffled]], models)
        again = backend.score(others, vectors[tried][back])
        if not np.allclose(again, scores[order][:, back], rtol=1e-9, atol=1e-9):
            yield "scores depend on the order of models or vectors"
        same = backend.score(backend.enrol(vectors[::6], who[::6], 60), vectors[1::6])
        own = np.eye(60, dtype=bool)
        if not same[own].mean() > same[~own].mean():
            yield "scores of the same speaker are not higher than those of others"


# -------------------------------------------------------------------------------------------------------------- families


def _trials(seed: int = 0) -> contracts.Trials:
    vectors, who = _people(people=8)
    noise = generator(seed, "trials of a conformance check").normal(size=vectors.shape)
    models = vectors[::6]
    tried = np.flatnonzero(np.arange(len(who)) % 6)
    scores = models @ (vectors[tried] + 0.5 * noise[tried]).T
    claimed, spoken = np.repeat(np.arange(8), len(tried)), np.tile(who[tried], 8)
    names = np.array([f"s{one}" for one in range(8)])
    flat = scores.astype(np.float64).ravel()
    ids = np.tile(np.array([f"u{one}" for one in tried]), 8)
    return contracts.Trials(flat, claimed == spoken, names[claimed], names[spoken], False, flat.size, ids)


def _all_pairs() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    vectors, who = _people(people=6)
    noise = generator(1, "pairs of a conformance check").normal(size=vectors.shape)
    one, two = vectors.astype(np.float64), vectors + 0.6 * noise
    return one @ one.T, one @ two.T, two @ two.T, np.array([f"s{each}" for each in who])


def _pairs() -> contracts.Pairs:
    oo, op, pp, speakers = _all_pairs()
    return contracts.Pairs(oo, op, pp, speakers, len(speakers))


def _pair_runs() -> contracts.PairRuns:
    _, op, pp, speakers = _all_pairs()
    return contracts.PairRuns(pp, op, speakers, len(speakers))


def _ranks() -> contracts.Ranks:
    vectors, who = _people(people=6)
    similarity = (vectors @ vectors[::6].T).astype(np.float64)
    return contracts.Ranks(similarity, who, tuple(f"s{one}" for one in range(6)), len(who))


_DATA: dict[str, Callable[[], Any]] = {
    "trials": _trials,
    "trial_runs": lambda: contracts.TrialRuns(_trials(0), _trials(1)),
    "pairs": _pairs,
    "pair_runs": _pair_runs,
    "ranks": _ranks,
}


def _measures_protected(candidate: Candidate) -> Iterator[str]:
    cls = candidate.cls
    _, _, pp, speakers = _all_pairs()
    made = cls.measure_protected(candidate.settings, contracts.ProtectedPairs(pp, speakers, len(speakers)))
    if {row.metric for row in made.rows} != set(cls.of_protected):
        yield "measure_protected gives rows of other metrics than of_protected names"
    if not set(made.tables) <= {figure.name for figure in cls.figures}:
        yield "measure_protected gives tables that no figure declares"


def _measures(candidate: Candidate) -> Iterator[str]:
    cls = candidate.cls
    made = cls.measure(candidate.settings, _DATA[cls.reads]())
    if cls.of_protected:
        yield from _measures_protected(candidate)
    if not isinstance(made, contracts.Measured) or not made.rows:
        yield "measure gives no rows"
        return
    keys = [(row.metric, row.variant, row.estimator, row.input_unit, row.condition) for row in made.rows]
    for key in sorted({key for key in keys if keys.count(key) > 1}):
        yield f"there are several rows of {', '.join(filter(None, key))}"
    for row in made.rows:
        metric = cls.metrics.get(row.metric)
        if metric is None:
            yield f"the metric {row.metric} is not among its metrics"
        elif row.value < metric.bounds[0] - _ROUNDING or row.value > metric.bounds[1] + _ROUNDING:
            yield f"{row.metric} is {row.value}, outside of its bounds {metric.bounds}"
        elif np.isnan(row.value) and not (row.label or row.reason):
            yield f"{row.metric} has no value, no label and no reason"
    for figure in cls.figures:
        if figure.name not in made.tables:
            yield f"there is no table {figure.name} for its figure"
        elif lacking := sorted(set(figure.columns) - set(made.tables[figure.name].columns)):
            yield f"the table {figure.name} lacks {', '.join(lacking)}"
    if str(cls.measure(candidate.settings, _DATA[cls.reads]()).rows) != str(made.rows):
        yield "the same scores give other rows"


# -------------------------------------------------------------------------------------------------------------- trainers


def _resolves(candidate: Candidate) -> Iterator[str]:
    cls = candidate.cls
    able = [name for name in names("extractors") if cls.trains(component("extractors", name))] or [candidate.name]
    resolved = cls.resolved(candidate.settings, able[0], 40, 3600.0)
    if type(resolved) is not type(candidate.settings):
        yield "resolved settings are of another class"
        return
    if cls.resolved(resolved, able[0], 40, 3600.0) != resolved:
        yield "what is resolved is not left as it is"
    cost = cls.cost(resolved)
    if not isinstance(cost, (int, float)) or not cost > 0:
        yield "the cost is no number of seconds"


WORK: dict[Kind, list[Check]] = {
    "extractors": [
        Check("vectors are finite float32 [d] with their weight or a reason", _extracts),
        Check("a vector depends on its own audio alone", _alone),
        Check("silence has weight 0, with the reason", _silent),
        Check("segments gives as many features as asked for", _segments),
        Check("pool makes one vector of several", _pools),
    ],
    "anonymisers": [
        Check("its level, its columns and how it is shown are known ones", _says),
        Check("a second run and another level are settings of the same system", _random),
        Check("anonymised speech is finite, and as long as the original", _anonymises),
        Check("the same speech gives the same samples, in threads too", _repeats),
    ],
    "backends": [Check("scores are float64 [m, n], whatever the order, higher for the same speaker", _scores)],
    "families": [Check("rows are those it says, each once", _measures)],
    "trainers": [Check("settings are resolved once and for all, and have a cost", _resolves)],
}
