"""``train=found``: trained models of a challenge's folder in place of trainings. Which checkpoint is taken is told by names alone."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pipeline.contracts import Anonymiser, Backend, ComponentSettings, Extractor, Training, numeric
from pipeline.datasets.settings import DatasetSettings
from pipeline.datasets.vpc import models
from pipeline.datasets.vpc.layout import TRAINING, Layout, list_copies
from pipeline.datasets.vpc.models import Checkpoint
from pipeline.errors import Fault
from pipeline.evaluation import discovery
from pipeline.protocol.attackers import AttackerSettings
from pipeline.stages.settings import Chosen, Evaluation, FoundModels

Extractors = Mapping[str, Chosen[Extractor]]
Backends = Mapping[str, Chosen[Backend]]
Systems = Mapping[str, Chosen[Anonymiser]]
ByLabelAndSystem = dict[tuple[str, str], Any]

PUBLIC = "train=default takes a public model, which is another attacker than the challenge's"
"""What to do where original speech alone is evaluated."""
TRAINED_HERE = "an extractor of the run needs none: 'extractor=[xvector]' 'backend=[plda]' train=default dataset.train=train-clean-360"
"""What to do for systems without vectors, such as those that the run makes itself."""


class FoundTraining(ComponentSettings):
    """The models that lie in a challenge's folder.

    Attributes:
        otherwise: the trainer with its settings that makes what is not there, where there is speech to train on; null is none.
    """

    name: Literal["found"] = numeric("found")
    otherwise: dict[str, Any] | None = numeric(None)


@dataclass(frozen=True)
class Folder:
    """A challenge's folder, and the systems that are evaluated, by label."""

    layout: Layout
    systems: Systems

    @functools.cached_property
    def suffixes(self) -> dict[str, str]:
        """The suffix of each system that is a copy in the folder, by label: another system's models are not its own.

        A suffix that several systems share does not say whose the models are."""
        copies = {(str(copy.root), copy.suffix) for copy in list_copies(self.layout).values() if not copy.called}
        suffixes = {}
        for label, system in self.systems.items():
            copy = system.component.copies(system.settings)
            if copy is not None and copy.suffix is not None and (copy.root, copy.suffix) in copies:
                suffixes[label] = copy.suffix
        return suffixes

    @property
    def original(self) -> list[str]:
        """The labels of systems that change nothing."""
        return [name for name, chosen in self.systems.items() if chosen.component.unchanged]

    def find_vectors(self, systems: Collection[str], model: str) -> dict[str, Any]:
        """The files of the vectors of some systems by the model that was trained on a suffix; '' is original speech."""
        known = [name for name in systems if name in self.original or name in self.suffixes]
        return {name: models.find_vectors(self.layout, self.suffixes.get(name, ""), model) for name in known}

    def adapted_place(self, system: str) -> str:
        """Where the model lies that was trained on a copy."""
        return str(models.place(self.layout, f"asv_anon{self.suffixes[system]}"))

    def describe_missing_parameters(self, model: str) -> str:
        searched = ", ".join(map(str, models.find_kaldi_folders(self.layout, model)))
        searched = searched or str(models.place(self.layout, "models"))
        return f"no folder with {', '.join(models.PLDA_FILES)} is there: looked in {searched}"


def used(
    extractors: Extractors, systems: Systems, dataset: DatasetSettings, train: Training | None, adapts: bool
) -> tuple[dict[str, Any], FoundModels, list[Fault]]:
    """The extractors with the weights that lie in the folder of the data set, and those that attackers have on systems.

    Args:
        extractors, systems: by label.
        dataset: the folder.
        train: what trains where nothing lies there.
        adapts: whether there are attackers who train on anonymised speech.

    Returns:
        The extractors by label, what was found, and what is wrong.

    Raises:
        DataError: the folder of the data set is no challenge's.
    """
    if dataset.name != "vpc":
        text = (
            f"it takes models from the folder of a VoicePrivacy Challenge, and the data set is dataset={dataset.name}"
        )
        return dict(extractors), FoundModels(), [Fault(f"{text}: set dataset=vpc, or train=default", "train")]
    folder = Folder(discovery.layout_of(dataset), systems)
    of_original = models.choose_original_model(folder.layout)
    changed: dict[str, Any] = dict(extractors)
    adapted: ByLabelAndSystem = {}
    lines = []

    def take(extractor: Chosen[Extractor], checkpoint: Checkpoint | None, title: str) -> Chosen[Extractor] | None:
        """An extractor with the weights of a checkpoint; None without one, or if they are of another kind."""
        if checkpoint is None:
            return None
        beside = (of_original or checkpoint).folder
        settings = extractor.component.with_checkpoint(extractor.settings, checkpoint.folder, beside)
        if settings is None:
            return None
        lines.append(f"extractor {title}: trained by the challenge's own code, {checkpoint.reason}")
        return Chosen(extractor.name, extractor.component, settings)

    for label, extractor in extractors.items():
        changed[label] = take(extractor, of_original, label) or extractor
        for system, suffix in folder.suffixes.items() if adapts else ():
            theirs = take(extractor, models.choose_copy_model(folder.layout, suffix), f"{label} on {system}")
            if theirs is not None:
                adapted[label, system] = theirs
    trains = train is not None and dataset.has_training_speech
    faults = [] if trains else _list_lacking(folder, extractors, changed, adapted, adapts)
    original = tuple(label for label in extractors if changed[label] is not extractors[label])
    return changed, FoundModels(original, adapted, descriptions=tuple(lines), lacking=tuple(faults)), []


def describe_models(evaluation: Evaluation) -> list[str]:
    """What lies in a challenge's folder beside its sets, and what of it is used: copies as systems, trained models."""
    layout = discovery.look_at(evaluation.dataset)
    if layout is None:
        return []
    offered = {copy.suffix: copy for copy in list_copies(layout).values()}
    lines = []
    for label, suffix in Folder(layout, evaluation.systems).suffixes.items():
        settings, training = evaluation.systems[label].settings, offered[suffix].train_root
        lines.append(
            f"system {label}: the copies SET{suffix} in {settings.root}, pseudo-voices by {settings.level}, "
            + (f"training set {training}" if training is not None else "no training set of it is there")
        )
    if evaluation.models.descriptions:
        return [*lines, *evaluation.models.descriptions]
    copies = [models.choose_copy_model(layout, suffix) for suffix in offered]
    trained = [model.reason for model in (models.choose_original_model(layout), *copies) if model is not None]
    unused = f"trained models that are not used: {'; '.join(trained)} (train=found takes them)"
    return [*lines, unused] if trained else lines


def _list_lacking(
    folder: Folder, extractors: Extractors, changed: Mapping[str, Any], adapted: ByLabelAndSystem, adapts: bool
) -> list[Fault]:
    """What is not there, where nothing trains it: an attack without it would be a weaker one than was asked for."""
    layout, systems = folder.layout, folder.systems
    remedy = f"name the training set by dataset.train={TRAINING if TRAINING in layout.sets else 'DIR'}, so that train.otherwise trains it"
    kinds = [
        label
        for label in extractors
        if changed[label] is not extractors[label] or any(name == label for name, _ in adapted)
    ]
    wanting = [
        label
        for label, extractor in extractors.items()
        if "trials" in extractor.component.compared_as or extractor.component.takes_checkpoint(extractor.settings)
    ]
    if not kinds and wanting:
        searched = ", ".join([str(models.place(layout, "asv_orig")), *map(folder.adapted_place, folder.suffixes)])
        has_ecapa = any(extractor.name == "ecapa" for extractor in extractors.values())
        others = "choose extractor=[ecapa], whose models are there, or "
        others = others if models.choose_original_model(layout) is not None and not has_ecapa else ""
        text = f"no trained model of a chosen extractor ({', '.join(wanting)}) is there: looked for CKPT+N with "
        text += f"{models.CHECKPOINT_FILES[0]} in {searched}; {others}{remedy}"
        return [Fault(f"{text}; or {PUBLIC}" if len(folder.original) == len(systems) else text, "train")]
    faults = []
    for label in kinds:
        if changed[label] is extractors[label]:
            where = str(models.place(layout, "asv_orig"))
            text = f"no trained model of original speech for the extractor {label} in {where}"
            faults.append(Fault(f"{text}: {remedy}", "train"))
        for system in systems if adapts else ():
            if system in folder.original or (label, system) in adapted:
                continue
            is_copy = system in folder.suffixes
            where = folder.adapted_place(system) if is_copy else "exp: it is no copy in this folder"
            text = f"no model of the extractor {label} that is trained on the anonymised speech of {system} in {where}"
            text = f"{text}: {remedy}, leave the system out, or the attackers with training=anonymised"
            faults.append(Fault(text, "train"))
    return faults


# Vectors and parameters of back ends ---------------------------------------------------------------------------------


def read_from(
    extractors: Extractors,
    backends: Backends,
    systems: Systems,
    dataset: DatasetSettings,
    attackers: Mapping[str, AttackerSettings],
) -> tuple[dict[str, Any], dict[str, Any], FoundModels, list[Fault]]:
    """Extractors and back ends with the files that lie in the folder of the data set, where they ask for what is found there.

    Vectors of an extractor that knows anonymised speech, and the parameters that go with them, are of the model of one system.

    Args:
        extractors, backends, systems: by label.
        dataset: the folder.
        attackers: by label; of those who train on anonymised speech are the vectors of the model that did.

    Raises:
        DataError: the folder of the data set is no challenge's.
    """
    reading = {
        label: each for label, each in extractors.items() if each.component.reads_challenge_folder(each.settings)
    }
    fitted = {label: each for label, each in backends.items() if each.component.reads_challenge_folder(each.settings)}
    refused: list[Fault] = []
    if (reading or fitted) and dataset.name != "vpc":
        text = f"found is what lies in the folder of a VoicePrivacy Challenge, and the data set is dataset={dataset.name}: name the folder"
        asking = [*(f"extractor.{label}" for label in reading), *(f"backend.{label}" for label in fitted)]
        refused = [Fault(text, where) for where in asking]
    others = [
        label for label, each in extractors.items() if label not in reading and "trials" in each.component.compared_as
    ]
    if fitted and others and not refused:
        text = f"its parameters are those of the challenge's x-vectors, and {', '.join(others)} gives other vectors"
        refused = [
            Fault(f"{text}: set backend.{label}.source=trained, or choose 'extractor=[found]'", f"backend.{label}")
            for label in fitted
        ]
    if refused or not (reading or fitted):
        return dict(extractors), dict(backends), FoundModels(), refused
    folder = Folder(discovery.layout_of(dataset), systems)
    faults: list[Fault] = []
    with_vectors, known = _find_vectors(folder, reading, faults)
    # What vectors cannot do another extractor may; it is said where a plan leaves one out.
    alone = len(reading) == len(extractors) and not faults
    with_parameters = _find_parameters(folder, fitted, known, faults)
    adapted: ByLabelAndSystem = {}
    parameters: ByLabelAndSystem = {}
    lacking: list[Fault] = []
    plain = [label for label, attacker in attackers.items() if not attacker.adapts]
    if len(plain) < len(attackers):
        without = f": 'attacker=[{','.join(plain)}]'" if plain else ""
        remedy = f"without them leave the attackers with training=anonymised out{without}"
        adapted, parameters = _find_adapted(folder, reading, fitted, remedy, lacking)
    faults += lacking if alone else []
    models_found = FoundModels((), adapted, parameters, lacking=tuple(faults))
    return {**extractors, **with_vectors}, {**backends, **with_parameters}, models_found, []


def _find_vectors(folder: Folder, reading: Extractors, faults: list[Fault]) -> tuple[dict[str, Any], set[str]]:
    """The extractors that read vectors, with their files, and the suffixes of the speech that they know."""
    known: set[str] = set()
    changed: dict[str, Any] = {}
    for label, extractor in reading.items():
        model = ""
        if extractor.component.trained_on(extractor.settings) != "original":
            others = [name for name in folder.systems if name not in folder.original]
            if len(others) != 1 or others[0] not in folder.suffixes:
                text = f"vectors of extractors that know anonymised speech are of one system each, and the systems are {', '.join(others)}"
                faults.append(
                    Fault(f"{text}: take one copy a run, as in 'system=[original,found:_SUFFIX]'", f"extractor.{label}")
                )
                continue
            model = folder.suffixes[others[0]]
        known.add(model)
        files = folder.find_vectors(folder.systems, model)
        lacking = [name for name in folder.systems if not files.get(name)]
        if lacking:
            searched = models.describe_search(folder.layout, model)
            text = f"no vectors of {', '.join(lacking)} are there: looked for {searched}; {TRAINED_HERE}"
            faults.append(Fault(text, f"extractor.{label}"))
        settings = extractor.component.with_tables(extractor.settings, files)
        changed[label] = Chosen(extractor.name, extractor.component, settings)
    return changed, known


def _find_parameters(folder: Folder, fitted: Backends, known: set[str], faults: list[Fault]) -> dict[str, Any]:
    """The back ends with the parameters that go with the vectors of one model."""
    changed: dict[str, Any] = {}
    for label, chosen in fitted.items():
        model, *more = sorted(known or {""})
        place = models.find_plda(folder.layout, model)
        if more:
            text = "the extractors know original and anonymised speech, and have parameters of their own each: take a run for each"
            faults.append(Fault(text, f"backend.{label}"))
        elif place is None:
            faults.append(Fault(folder.describe_missing_parameters(model), f"backend.{label}"))
        else:
            settings = chosen.component.with_parameters(chosen.settings, place)
            changed[label] = Chosen(chosen.name, chosen.component, settings)
    return changed


def _find_adapted(
    folder: Folder, reading: Extractors, fitted: Backends, remedy: str, faults: list[Fault]
) -> tuple[ByLabelAndSystem, ByLabelAndSystem]:
    """For attackers who train on a system's speech: vectors of the model that did, and the parameters that go with them."""
    adapted: ByLabelAndSystem = {}
    parameters: ByLabelAndSystem = {}
    for label, extractor in reading.items():
        if extractor.component.trained_on(extractor.settings) != "original":
            continue
        for system, suffix in folder.suffixes.items():
            files = folder.find_vectors([*folder.original, system], suffix)
            if not all(files.values()):
                text = f"no vectors by a model that was trained on the anonymised speech of {system} are there"
                searched = models.describe_search(folder.layout, suffix)
                faults.append(Fault(f"{text}: looked for {searched}; {remedy}", f"extractor.{label}"))
                continue
            settings = extractor.component.with_tables(extractor.settings, files)
            settings = settings.model_copy(update={"trained_on": "anonymised"})
            adapted[label, system] = Chosen(extractor.name, extractor.component, settings)
    for system in dict.fromkeys(system for _, system in adapted):
        place = models.find_plda(folder.layout, folder.suffixes[system])
        for label, chosen in fitted.items():
            if place is None:
                text = folder.describe_missing_parameters(folder.suffixes[system])
                faults.append(Fault(f"{text}; {remedy}", f"backend.{label}"))
            else:
                settings = chosen.component.with_parameters(chosen.settings, place)
                parameters[label, system] = Chosen(chosen.name, chosen.component, settings)
    return adapted, parameters
