"""A composed configuration checked: plain values in, an evaluation out. Every fault is reported at once, with the nearest key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

from pydantic import BaseModel, ValidationError

from pipeline import host
from pipeline.contracts import Component, ComponentSettings, Training, numeric
from pipeline.datasets.settings import DatasetSettings
from pipeline.errors import ConfigError, Fault
from pipeline.evaluation import discovered_models, discovery
from pipeline.evaluation.discovered_models import FoundTraining
from pipeline.names import list_label_faults, suggest_names
from pipeline.protocol.attackers import AttackerSettings
from pipeline.registry import COMPONENT_KINDS, Kind, component
from pipeline.report import glossary
from pipeline.report.scorecard.settings import Changes
from pipeline.stages.settings import (
    Average,
    Bands,
    Chosen,
    Derived,
    Evaluation,
    Execution,
    FoundModels,
    FusionKind,
    Paths,
    Products,
    ReportSettings,
    Runtime,
    Storage,
)

KNOWN = {
    *[
        "config_version",
        "paths",
        "runtime",
        "store",
        "diagnostics",
        "allow_partial",
        "fail_fast",
        "averages",
        "bands",
        "report",
        "derived",
        "fusion",
    ],
    *("dataset", "attacker", "scorecard"),
    *(room.group for room in COMPONENT_KINDS.values()),
}
FUSIONS = get_args(FusionKind)
ORIGINAL = "original"
"""The label of the original speech where the configuration does not name it."""


class _NoTraining(ComponentSettings):
    name: Literal["none"] = numeric("none")


def validate(values: Mapping[str, Any], recipe: str, without_models: bool = False) -> Evaluation:
    """Check a composed configuration and make the evaluation of it.

    Args:
        values: as composed.
        recipe: its name.
        without_models: what of models and vectors is not there is no fault: nothing is to be computed with them.

    Raises:
        ConfigError: with every fault of the configuration.
        DataError: copies or models are to be found in the folder of the data set, and it is no challenge's.
    """
    faults = _check_plain_values(values)
    checked = _Checked(values, faults)
    paths, runtime = checked.part(Paths, "paths"), checked.part(Runtime, "runtime")
    if paths is not None:
        host.use_cache_folder(paths.compiled, paths.store.parent)  # before a component loads its libraries
    store, scorecard = checked.part(Storage, "store"), checked.part(Changes, "scorecard")
    dataset, executor = checked.part(DatasetSettings, "dataset"), checked.component("executors", "executor", "local")
    if dataset is not None and not faults:
        _refuse(discovery.of_another_edition(dataset, recipe))
    from_scores = dataset is not None and dataset.is_given
    passed_over: list[str] = []
    train, takes_models = (None, False) if from_scores else (checked.training(), checked.found_training() is not None)
    if not from_scores:
        named = discovery.systems(values.get("system"), dataset, faults, passed_over)
        checked.values = {**values, "system": named}
    components = checked.all_components(from_scores)
    attackers = {} if from_scores else checked.attackers()
    products = _check_products(checked, components, scorecard, from_scores)
    models = FoundModels()
    if not faults and not from_scores:
        models = _use_models(components, dataset, train, attackers, takes_models, faults)
    if not without_models:
        faults += models.lacking
    if not faults and not from_scores and not models.lacking:
        components["extractors"] = _resolved(components["extractors"], train, dataset)
        faults += _without_trainer(components["extractors"], train, attackers, components["backends"], models)
    _refuse(faults)
    return Evaluation(
        recipe=recipe,
        paths=paths,
        dataset=dataset,
        train=train,
        systems=components["anonymisers"],
        extractors=components["extractors"],
        attackers=attackers,
        backends=components["backends"],
        metrics=components["families"],
        models=replace(models, passed_over=tuple(passed_over)),
        execution=Execution(runtime, store, executor, values["allow_partial"], values["fail_fast"]),
        products=products,
    )


def _check_plain_values(values: Mapping[str, Any]) -> list[Fault]:
    faults = [_unknown(str(key), "", sorted(KNOWN)) for key in values if key not in KNOWN]
    if values.get("config_version") != 1:
        faults.append(Fault("config_version must be 1", "config_version"))
    for name in ("diagnostics", "allow_partial", "fail_fast"):
        if not isinstance(values.get(name), bool):
            faults.append(Fault("must be true or false", name))
    for name, options in (("fusion", FUSIONS), ("derived", get_args(Derived))):
        chosen = values.get(name) or []
        if not isinstance(chosen, (list, tuple)) or not {*map(str, chosen)} <= {*options}:
            faults.append(Fault(f"is a list of some of {', '.join(options)} (given: {chosen!r})", name))
    return faults


def _check_products(
    checked: _Checked, components: Mapping[str, dict[str, Any]], scorecard: Any, from_scores: bool
) -> Products:
    values, faults, systems = checked.values, checked.faults, components["anonymisers"]
    averages = checked.averages(components["families"])
    bands = checked.bands(averages)
    report = checked.part(ReportSettings, "report")
    named = systems.get(ORIGINAL)
    if named is not None and not named.component.unchanged:
        text = f"the label 'original' is that of the original speech: give this system another, as in '+system.NAME={{name: {named.name}}}'"
        faults.append(Fault(text, f"system.{ORIGINAL}"))
    baseline = report.baseline if report is not None and not from_scores else ""
    if baseline and systems and baseline not in systems:
        text = f"no system {baseline} is chosen: {suggest_names(baseline, list(systems))}"
        faults.append(Fault(text, "report.baseline"))
    if from_scores and values.get("fusion"):
        faults.append(Fault("nothing is joined where score files are evaluated: leave it out", "fusion"))
    fusion, derived = ((), ()) if faults else (tuple(values.get(name) or ()) for name in ("fusion", "derived"))
    return Products(
        fusion=fusion,
        diagnostics=values.get("diagnostics") is True,
        averages=averages,
        derived=tuple(dict.fromkeys(derived)),
        bands=bands,
        report=report,
        scorecard=scorecard,
    )


def _use_models(
    components: dict[str, dict[str, Any]],
    dataset: DatasetSettings,
    train: Training | None,
    attackers: Mapping[str, AttackerSettings],
    takes_models: bool,
    faults: list[Fault],
) -> FoundModels:
    """Add the original speech to the systems, and to the components what lies in the folder of the data set; faults are added."""
    systems = components["anonymisers"] = _with_original(components["anonymisers"])
    models = FoundModels()
    if takes_models:
        adapts = any(attacker.adapts for attacker in attackers.values())
        components["extractors"], models, refused = discovered_models.used(
            components["extractors"], systems, dataset, train, adapts
        )
        faults += refused
    components["extractors"], components["backends"], read, refused = discovered_models.read_from(
        components["extractors"], components["backends"], systems, dataset, attackers
    )
    faults += refused
    return replace(
        models,
        adapted={**models.adapted, **read.adapted},
        backends=read.backends,
        lacking=models.lacking + read.lacking,
    )


def _refuse(faults: Sequence[Fault]) -> None:
    if faults:
        raise ConfigError(
            f"the configuration has {len(faults)} fault{'s' if len(faults) > 1 else ''}",
            remedy="see `voice-privacy --cfg job` for all keys",
            faults=faults,
        )


class _Checked:
    """Parts of a configuration; what is wrong with them is added to the faults."""

    def __init__(self, values: Mapping[str, Any], faults: list[Fault]) -> None:
        self.values, self.faults = values, faults

    def part(self, model: type[BaseModel], where: str, value: Any = None) -> Any:
        """A part checked by its model; None if it does not pass."""
        part = self.values.get(where) if value is None else value
        try:
            return model.model_validate({} if part is None else part)
        except ValidationError as error:
            for entry in error.errors():
                place = ".".join([where, *(str(key) for key in entry["loc"])])
                if entry["type"] == "extra_forbidden":
                    self.faults.append(_unknown(str(entry["loc"][-1]), where, _fields(model, entry["loc"][:-1])))
                else:
                    hint = "; in quotes it is a text: '…=\"TEXT\"'" if entry["type"] == "string_type" else ""
                    self.faults.append(Fault(f"{entry['msg']} (given: {entry.get('input')!r}){hint}", place))
            return None

    def component(self, kind: Kind, where: str, default: str = "", value: Any = None) -> Any:
        """A component with its settings; None if it does not pass."""
        entry = self.values.get(where) if value is None else value
        name = str(entry.get("name", default)) if isinstance(entry, Mapping) else default
        try:
            chosen: type[Component] = component(kind, name)
        except ConfigError as error:
            self.faults.append(Fault(f"{error.what}; {error.remedy}", f"{where}.name"))
            return None
        return Chosen(name, chosen, self.part(chosen.Settings, where, entry))

    def all_components(self, from_scores: bool) -> dict[str, dict[str, Any]]:
        """The components of every kind of which several may be chosen, by kind and label."""
        kinds = [kind for kind, group in COMPONENT_KINDS.items() if group.is_multiple]
        # Score files say themselves who attacks what: of components, metrics alone are chosen.
        return {kind: {} if from_scores and kind != "families" else self.components(kind) for kind in kinds}

    def components(self, kind: Kind) -> dict[str, Any]:
        """The components of a group by label."""
        group = COMPONENT_KINDS[kind].group
        chosen: dict[str, Any] = {}
        entries = self._entries(group)
        for label, entry in entries.items():
            where = f"{group}.{label}"
            if isinstance(entry, Mapping) and "name" in entry:
                chosen[label] = self.component(kind, where, value=entry)
                continue
            others = [f"{group}.{other}" for other in entries if other != label]
            self.faults.append(Fault(f"no {group} of this label is chosen: {suggest_names(where, others)}", where))
        return chosen

    def attackers(self) -> dict[str, AttackerSettings]:
        """The attackers by label."""
        entries = self._entries("attacker")
        return {label: self.part(AttackerSettings, f"attacker.{label}", entry) for label, entry in entries.items()}

    def averages(self, families: Mapping[str, Any]) -> dict[str, Average]:
        """The averages by label, each with its name in tables."""
        weights = self.values.get("averages") or {}
        if not isinstance(weights, Mapping):
            self.faults.append(Fault(f"is a mapping from label to weights (given: {weights!r})", "averages"))
            return {}
        entries = {str(label): entry for label, entry in weights.items()}
        self.faults += list_label_faults("averages", list(entries))
        checked = {label: self.part(Average, f"averages.{label}", entry) for label, entry in entries.items()}
        averages = {
            label: mean.model_copy(update={"subset": mean.subset or label}) for label, mean in checked.items() if mean
        }
        metrics = glossary.metrics() | {
            name: metric for family in families.values() if family for name, metric in family.component.metrics.items()
        }
        first: dict[str, str] = {}
        for label, mean in averages.items():
            for name in mean.metrics:
                where = f"averages.{label}.metrics"
                if name not in metrics:
                    self.faults.append(
                        Fault(f"no metric is called '{name}'; {suggest_names(name, list(metrics))}", where)
                    )
                elif metrics[name].unit == "tag":
                    self.faults.append(Fault(f"{name} is a word and has no mean: leave it out", where))
            other = first.setdefault(mean.subset, label)
            if other != label or mean.subset in mean.weights:
                whose = f"that of averages.{other}" if other != label else "a trial set"
                self.faults.append(Fault(f"the name '{mean.subset}' is {whose} too", f"averages.{label}.subset"))
        return averages

    def bands(self, averages: Mapping[str, Average]) -> Bands | None:
        """The conditions that systems are ranked in; None where they are not. An average may be given by its label."""
        bands = None if self.values.get("bands") is None else self.part(Bands, "bands")
        if bands is None or bands.subset not in averages:
            return bands
        return bands.model_copy(update={"subset": averages[bands.subset].subset})  # type: ignore[no-any-return]

    def training(self) -> Training | None:
        """The trainer of the group ``train``; None where there is none."""
        value, where = self.values.get("train"), "train"
        if self.found_training() is not None:
            value, where = self.values["train"].get("otherwise") or {"name": "none"}, "train.otherwise"
        if isinstance(value, Mapping) and value.get("name") not in (None, "none"):
            chosen = self.component("trainers", where, value=value)
            return Training(chosen.component, chosen.settings, chosen.name) if chosen is not None else None
        self.part(_NoTraining, where, value=value)
        return None

    def found_training(self) -> FoundTraining | None:
        """``train=found``; None for all else."""
        value = self.values.get("train")
        is_found = isinstance(value, Mapping) and value.get("name") == discovery.NAME
        return self.part(FoundTraining, "train") if is_found else None

    def _entries(self, group: str) -> dict[str, Any]:
        value = self.values.get(group)
        if not isinstance(value, Mapping) or not value:
            self.faults.append(Fault(f"no {group} is chosen", group))
            return {}
        entries = {str(label): entry for label, entry in value.items()}
        self.faults += list_label_faults(group, list(entries))
        return entries


def _fields(model: type[BaseModel], location: Sequence[int | str]) -> list[str]:
    for name in location:
        field = model.model_fields.get(str(name))
        inner = field.annotation if field is not None else None
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            model = inner
    return sorted(model.model_fields)


def _unknown(name: str, where: str, keys: Sequence[str]) -> Fault:
    return Fault(f"unknown key; {suggest_names(name, keys)}", f"{where}.{name}" if where else name)


def _with_original(systems: dict[str, Any]) -> dict[str, Any]:
    """The systems with the original speech first: every metric refers to it, so ``system=b2`` evaluates both."""
    if any(system.component.unchanged for system in systems.values()):
        return systems
    unchanged = component("anonymisers", ORIGINAL)
    return {ORIGINAL: Chosen(ORIGINAL, unchanged, unchanged.Settings.model_validate({"name": ORIGINAL})), **systems}


def _resolved(extractors: dict[str, Any], train: Training | None, dataset: DatasetSettings) -> dict[str, Any]:
    """The extractors with every choice made that depends on the rest: whether there is a trainer, and speech to train on."""
    trainer = train if dataset.has_training_speech else None
    return {
        label: Chosen(chosen.name, chosen.component, chosen.component.resolved(chosen.settings, trainer))
        for label, chosen in extractors.items()
    }


def _without_trainer(
    extractors: Mapping[str, Any],
    train: Training | None,
    attackers: Mapping[str, AttackerSettings],
    backends: Mapping[str, Any],
    models: FoundModels,
) -> list[Fault]:
    """Faults that no part shows alone: what needs a trainer where there is none."""
    faults = []
    for label, chosen in extractors.items():
        try:
            chosen.component.training(chosen.settings, train)
        except ConfigError as error:
            faults.append(Fault(error.what, ".".join(filter(None, ["extractor", label, error.where]))))
    adapted = bool(models.adapted) or any(
        chosen.component.trained_on(chosen.settings) != "original" for chosen in extractors.values()
    )
    fitted = any(chosen.component.is_fitted(chosen.settings) for chosen in backends.values())
    if train is None and not fitted and not adapted:
        faults += [
            Fault(
                "training=anonymised needs something that is trained: add train=default, or a back end that is trained to backend=[…]",
                f"attacker.{label}.training",
            )
            for label, attacker in attackers.items()
            if attacker.adapts
        ]
    return faults
