"""What is asked of the class of a component and of its settings, and the lists that all checks are on."""

from __future__ import annotations

import inspect
import json
import pickle
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from pipeline import contracts
from pipeline.contracts import ComponentSettings, Weights
from pipeline.engine.code import read_version
from pipeline.errors import ModelMissing
from pipeline.registry import COMPONENT_KINDS, Kind

HEAVY = ("torch", "torchaudio", "speechbrain", "transformers", "matplotlib", "numba", "librosa")
"""Modules that importing a component must not load: settings are checked before any of them is needed."""


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
Part = Literal["base", "class", "imports", "settings", "values", "work"]
PARTS: tuple[Part, ...] = ("base", "class", "imports", "settings", "values", "work")
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


def get_title(check: Check) -> str:
    """What holds where a check finds no fault, in the words of its docstring."""
    words = (check.__doc__ or check.__name__).splitlines()[0].removesuffix(".")
    return words[0].lower() + words[1:]


# ------------------------------------------------------------------------------------------------------------ the class


@register("base")
def check_base_class(candidate: Candidate) -> Iterator[str]:
    """It derives from the base class of its kind."""
    base = COMPONENT_KINDS[candidate.kind].base
    if not isinstance(candidate.cls, type) or not issubclass(candidate.cls, base):
        yield f"it is no class that derives from {COMPONENT_KINDS[candidate.kind].contract_module}.{base.__name__}"


@register("class")
def check_abstract_methods(candidate: Candidate) -> Iterator[str]:
    """It defines what is abstract."""
    if lacking := sorted(candidate.cls.__abstractmethods__):
        yield f"it does not define {', '.join(lacking)}"


@register("base")
def check_settings_class(candidate: Candidate) -> Iterator[str]:
    """It has settings."""
    # What is no class of the right kind has been named already.
    if not isinstance(candidate.cls, type):
        return
    settings = list_attributes(candidate.cls).get("Settings")
    if not isinstance(settings, type):
        yield "it has no Settings"
    elif not issubclass(settings, ComponentSettings):
        yield "its Settings do not derive from pipeline.contracts.ComponentSettings"


def list_attributes(cls: type) -> dict[str, Any]:
    """The attributes of a class and of its bases."""
    return {name: value for base in reversed(cls.__mro__) for name, value in vars(base).items()}


@register("class")
def check_signatures(candidate: Candidate) -> Iterator[str]:
    """Its methods can be called as the contract says."""
    base = COMPONENT_KINDS[candidate.kind].base
    own, wanted = list_attributes(candidate.cls), list_attributes(base)
    for name, member in wanted.items():
        if (name.startswith("_") and name != "__init__") or own[name] is member or name == "Settings":
            continue
        if not (inspect.isfunction(member) or isinstance(member, (classmethod, staticmethod))):
            continue
        if not inspect.isfunction(member) and inspect.isfunction(own[name]):
            yield f"{name} is no class method"
            continue
        signature = inspect.signature(member.__get__(None, base))
        parameters = signature.parameters.values()
        positional = [parameter for parameter in parameters if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
        keywords = {parameter.name: parameter for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY}
        try:
            inspect.signature(own[name].__get__(None, candidate.cls)).bind(*positional, **keywords)
        except TypeError as error:
            yield f"{name} cannot be called as {name}{signature}: {error}"


_WORDS: dict[str, tuple[str, ...]] = {
    "similarity": ("cosine", "euclidean"),
    "reads": ("trials", "trial_runs", "pairs", "pair_runs", "ranks"),
}
"""What attributes of a class may say."""


@register("class")
def check_constants(candidate: Candidate) -> Iterator[str]:
    """What it says of itself has the right types."""
    base, own = list_attributes(COMPONENT_KINDS[candidate.kind].base), list_attributes(candidate.cls)
    for name, default in base.items():
        is_plain = name[0] != "_" and isinstance(default, (bool, int, str, tuple, frozenset))
        if is_plain and not isinstance(own[name], type(default)):
            yield f"{name} is no {type(default).__name__}"
    try:
        read_version(candidate.cls.__module__)
    except ValueError as error:
        yield str(error)
    for name, words in _WORDS.items():
        if name in base["__annotations__"] and own.get(name) not in words:
            yield f"{name} is none of {', '.join(words)}"


@register("class", "extractors")
def check_comparisons(candidate: Candidate) -> Iterator[str]:
    """Its vectors are compared in some way that there is."""
    if not candidate.cls.compared_as or not set(candidate.cls.compared_as) <= {"trials", "pairs", "ranks"}:
        yield "compared_as is no frozenset of some of pairs, ranks, trials"


@register("class", "backends")
def check_fit(candidate: Candidate) -> Iterator[str]:
    """It defines fit if it says when it is fitted."""
    own, base = list_attributes(candidate.cls), vars(contracts.Backend)
    if own["is_fitted"] is not base["is_fitted"] and own["fit"] is base["fit"]:
        yield "it says when it is fitted, and does not define fit"


@register("class", "families")
def check_metrics(candidate: Candidate) -> Iterator[str]:
    """It has a title and metrics, and figures if any."""
    own = list_attributes(candidate.cls)
    if not isinstance(own.get("title"), str):
        yield "title is no text"
    metrics = own.get("metrics")
    if not isinstance(metrics, Mapping) or not all(isinstance(metric, contracts.Metric) for metric in metrics.values()):
        yield "metrics is no mapping from names to Metric"
    for name, kind in (("figures", contracts.FigureTable), ("row_figures", contracts.RowFigure)):
        if not all(isinstance(figure, kind) for figure in own[name]):
            yield f"{name} is no tuple of {kind.__name__}"


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


# --------------------------------------------------------------------------------------------------------- the settings


@register("settings")
def check_roles_of_settings(candidate: Candidate) -> Iterator[str]:
    """Every setting is marked numeric or runtime."""
    for name, declared in candidate.cls.Settings.model_fields.items():
        extra = declared.json_schema_extra
        role = extra.get("role") if isinstance(extra, dict) else None
        if role not in ("numeric", "runtime"):
            yield f"the setting {name} is marked neither numeric nor runtime"
        elif role == "runtime" and candidate.kind == "trainers":
            yield f"the setting {name} of a trainer is not numeric"


@register("settings")
def check_name_of_settings(candidate: Candidate) -> Iterator[str]:
    """Its settings have a name."""
    if "name" not in candidate.cls.Settings.model_fields:
        yield "the settings have no field name"


@register("values")
def check_settings_frozen(candidate: Candidate) -> Iterator[str]:
    """Its settings are frozen, and pickle."""
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


@register("values")
def check_weights(candidate: Candidate) -> Iterator[str]:
    """It says where its weights are, or how to get them."""
    with tempfile.TemporaryDirectory() as nowhere:
        try:
            weights = candidate.cls.weights(candidate.settings, Path(nowhere))
        except ModelMissing as error:
            if not error.remedy:
                yield "weights does not say how to mend that they are missing"
            return
    if weights is not None and not (isinstance(weights, Weights) and weights.folder.is_dir() and weights.digest):
        yield "weights gives something else than a folder and its digest"
