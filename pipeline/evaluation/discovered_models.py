"""``train=found``: trained models of a challenge's folder in place of trainings. Which checkpoint is taken is told by names alone."""

from __future__ import annotations

from collections.abc import Mapping
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


class FoundTraining(ComponentSettings):
    """The models that lie in a challenge's folder.

    Attributes:
        otherwise: the trainer with its settings that makes what is not there, where there is speech to train on; null is none.
    """

    name: Literal["found"] = numeric("found")
    otherwise: dict[str, Any] | None = numeric(None)


def used(
    extractors: Mapping[str, Chosen[Extractor]],
    systems: Mapping[str, Chosen[Anonymiser]],
    dataset: DatasetSettings,
    train: Training | None,
    adapts: bool,
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
            f"it takes models from the folder of a VoicePrivacy Challenge, and the data set is dataset={dataset.name}: "
        )
        return dict(extractors), FoundModels(), [Fault(f"{text}set dataset=vpc, or train=default", "train")]
    layout = discovery.layout_of(dataset)
    trains = train is not None and dataset.has_training_speech
    of_original = models.choose_original_model(layout)
    suffixes = _suffixes(layout, systems)
    changed, adapted = dict(extractors), {}
    taken: dict[str, Checkpoint] = {}
    kinds = []
    for label, extractor in extractors.items():
        own = _with(extractor, of_original, of_original) if of_original is not None else None
        if own is not None and of_original is not None:
            changed[label], taken[label] = own, of_original
        for system, suffix in suffixes.items():
            checkpoint = models.choose_copy_model(layout, suffix)
            theirs = _with(extractor, checkpoint, of_original or checkpoint) if checkpoint is not None else None
            if theirs is not None and checkpoint is not None and adapts:
                adapted[label, system] = theirs
                taken[f"{label} on {system}"] = checkpoint
        if own is not None or any(name == label for name, _ in adapted):
            kinds.append(label)
    wanting = [
        label
        for label, extractor in extractors.items()
        if "trials" in extractor.component.compared_as or extractor.component.takes_checkpoint(extractor.settings)
    ]
    faults = [] if trains else _lacking(layout, kinds, wanting, changed, extractors, systems, suffixes, adapted, adapts)
    lines = tuple(
        f"extractor {label}: trained by the challenge's own code, {checkpoint.reason}"
        for label, checkpoint in taken.items()
    )
    original = tuple(label for label in kinds if changed[label] is not extractors[label])
    return changed, FoundModels(original, adapted, descriptions=lines, lacking=tuple(faults)), []


def describe_models(evaluation: Evaluation) -> list[str]:
    """What lies in a challenge's folder beside its sets, and what of it is used: copies as systems, trained models."""
    layout = discovery.look_at(evaluation.dataset)
    if layout is None:
        return []
    offered = {copy.suffix: copy for copy in list_copies(layout).values()}
    used = _suffixes(layout, evaluation.systems)
    lines = []
    for label, suffix in used.items():
        settings, training = evaluation.systems[label].settings, offered[suffix].train_root
        lines.append(
            f"system {label}: the copies SET{suffix} in {settings.root}, pseudo-voices by {settings.level}, "
            + (f"training set {training}" if training is not None else "no training set of it is there")
        )
    if evaluation.models.descriptions:
        return [*lines, *evaluation.models.descriptions]
    checkpoints = [
        models.choose_original_model(layout),
        *(models.choose_copy_model(layout, suffix) for suffix in offered),
    ]
    trained = [checkpoint.reason for checkpoint in checkpoints if checkpoint is not None]
    return (
        [*lines, f"trained models that are not used: {'; '.join(trained)} (train=found takes them)"]
        if trained
        else lines
    )


def _with(extractor: Chosen[Extractor], checkpoint: Checkpoint, beside: Checkpoint) -> Chosen[Extractor] | None:
    """An extractor with the weights of a checkpoint; None if they are of another kind."""
    settings = extractor.component.with_checkpoint(extractor.settings, checkpoint.folder, beside.folder)
    return None if settings is None else Chosen(extractor.name, extractor.component, settings)


def _suffixes(layout: Layout, systems: Mapping[str, Chosen[Anonymiser]]) -> dict[str, str]:
    """The suffix of each system that is a copy in the folder, by label: another system's models are not its own.

    A suffix that several systems share does not say whose the models are."""
    copies = {(str(copy.root), copy.suffix) for copy in list_copies(layout).values() if not copy.called}
    suffixes = {}
    for label, system in systems.items():
        folder_copy = system.component.copies(system.settings)
        if (
            folder_copy is not None
            and folder_copy.suffix is not None
            and (folder_copy.root, folder_copy.suffix) in copies
        ):
            suffixes[label] = folder_copy.suffix
    return suffixes


def _lacking(
    layout: Layout,
    kinds: list[str],
    wanting: list[str],
    changed: Mapping[str, Any],
    extractors: Mapping[str, Chosen[Extractor]],
    systems: Mapping[str, Chosen[Anonymiser]],
    suffixes: Mapping[str, str],
    adapted: Mapping[tuple[str, str], Any],
    adapts: bool,
) -> list[Fault]:
    """What is not there, where nothing trains it: an attack without it would be a weaker one than was asked for."""
    name = TRAINING if TRAINING in layout.sets else "DIR"
    remedy = f"name the training set by dataset.train={name}, so that train.otherwise trains it"
    if not kinds and wanting:
        looked = ", ".join([str(models.place(layout, "asv_orig")), *_places(layout, suffixes.values())])
        text = f"no trained model of a chosen extractor ({', '.join(wanting)}) is there: looked for CKPT+N with "
        trained = models.choose_original_model(layout) is not None and not any(
            extractor.name == "ecapa" for extractor in extractors.values()
        )
        others = "choose extractor=[ecapa], whose models are there, or " if trained else ""
        public = f"or {PUBLIC}" if not any(not chosen.component.unchanged for chosen in systems.values()) else ""
        text = f"{text}{models.CHECKPOINT_FILES[0]} in {looked}; {others}{remedy}"
        return [Fault(f"{text}; {public}" if public else text, "train")]
    faults = []
    for label in kinds:
        if changed[label] is extractors[label]:
            text = (
                f"no trained model of original speech for the extractor {label} in {models.place(layout, 'asv_orig')}"
            )
            faults.append(Fault(f"{text}: {remedy}", "train"))
        for system, chosen in systems.items():
            if not adapts or chosen.component.unchanged or (label, system) in adapted:
                continue
            where = (
                _places(layout, [suffixes[system]])[0] if system in suffixes else "exp: it is no copy in this folder"
            )
            text = f"no model of the extractor {label} that is trained on the anonymised speech of {system} in {where}"
            faults.append(
                Fault(f"{text}: {remedy}, leave the system out, or the attackers with training=anonymised", "train")
            )
    return faults


PUBLIC = "train=default takes a public model, which is another attacker than the challenge's"
"""What to do where original speech alone is evaluated."""


def _places(layout: Layout, suffixes: Any) -> list[str]:
    return [str(models.place(layout, f"asv_anon{suffix}")) for suffix in suffixes]


# Vectors and parameters of back ends ---------------------------------------------------------------------------------


def read_from(
    extractors: Mapping[str, Chosen[Extractor]],
    backends: Mapping[str, Chosen[Backend]],
    systems: Mapping[str, Chosen[Anonymiser]],
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
    reading = [
        label for label, chosen in extractors.items() if chosen.component.reads_challenge_folder(chosen.settings)
    ]
    fitted = [label for label, chosen in backends.items() if chosen.component.reads_challenge_folder(chosen.settings)]
    asking = [*(f"extractor.{label}" for label in reading), *(f"backend.{label}" for label in fitted)]
    if not asking:
        return dict(extractors), dict(backends), FoundModels(), []
    if dataset.name != "vpc":
        text = f"found is what lies in the folder of a VoicePrivacy Challenge, and the data set is dataset={dataset.name}: name the folder"
        return dict(extractors), dict(backends), FoundModels(), [Fault(text, where) for where in asking]
    strangers = [
        label
        for label, chosen in extractors.items()
        if label not in reading and "trials" in chosen.component.compared_as
    ]
    if fitted and strangers:
        text = f"its parameters are those of the challenge's x-vectors, and {', '.join(strangers)} gives other vectors"
        refused = [
            Fault(f"{text}: set backend.{label}.source=trained, or choose 'extractor=[found]'", f"backend.{label}")
            for label in fitted
        ]
        return dict(extractors), dict(backends), FoundModels(), refused
    layout = discovery.layout_of(dataset)
    vectors_of, known_suffixes, faults = _vectors(layout, reading, extractors, systems)
    parameters, more = _parameters(layout, fitted, backends, known_suffixes)
    others = [label for label, attacker in attackers.items() if not attacker.adapts]
    adapted, parameters_adapted, lacking = (
        _of_adapted(layout, reading, fitted, extractors, backends, systems, others)
        if len(others) < len(attackers)
        else ({}, {}, [])
    )
    # What vectors cannot do another extractor may; it is said where a plan leaves one out.
    alone = len(reading) == len(extractors)
    faults += [*more, *(lacking if alone and not faults else [])]
    models_found = FoundModels((), adapted, parameters_adapted, lacking=tuple(faults))
    return {**extractors, **vectors_of}, {**backends, **parameters}, models_found, []


def _vectors(
    layout: Layout,
    reading: list[str],
    extractors: Mapping[str, Chosen[Extractor]],
    systems: Mapping[str, Chosen[Anonymiser]],
) -> tuple[dict[str, Any], set[str], list[Fault]]:
    """The extractors that read vectors, with their files; the suffixes of the speech that they know; and what is not there."""
    suffixes = _suffixes(layout, systems)
    known_suffixes: set[str] = set()
    changed: dict[str, Any] = {}
    faults = []
    for label in reading:
        extractor, where = extractors[label], f"extractor.{label}"
        model, text = _model(extractor, systems, suffixes)
        if text:
            faults.append(Fault(text, where))
            continue
        known_suffixes.add(model)
        files = {
            name: models.find_vectors(layout, suffixes.get(name, ""), model)
            for name in systems
            if _is_there(name, systems, suffixes)
        }
        lacking = [name for name in systems if not files.get(name)]
        if lacking:
            text = f"no vectors of {', '.join(lacking)} are there: looked for {models.describe_search(layout, model)}; {TRAINED_HERE}"
            faults.append(Fault(text, where))
        changed[label] = Chosen(
            extractor.name, extractor.component, extractor.component.with_tables(extractor.settings, files)
        )
    return changed, known_suffixes, faults


TRAINED_HERE = "an extractor of the run needs none: 'extractor=[xvector]' 'backend=[plda]' train=default dataset.train=train-clean-360"
"""What to do for systems without vectors, such as those that the run makes itself."""


def _parameters(
    layout: Layout, fitted: list[str], backends: Mapping[str, Chosen[Backend]], suffixes: set[str]
) -> tuple[dict[str, Any], list[Fault]]:
    """The back ends with the parameters that go with the vectors of one model."""
    changed: dict[str, Any] = {}
    faults = []
    for label in fitted:
        found_in = [models.find_plda(layout, model) for model in sorted(suffixes or {""})]
        if len(found_in) > 1 or found_in[0] is None:
            text = (
                "the extractors know original and anonymised speech, and have parameters of their own each: take a run for each"
                if len(found_in) > 1
                else _no_parameters(layout, next(iter(suffixes or {""})))
            )
            faults.append(Fault(text, f"backend.{label}"))
            continue
        chosen = backends[label]
        changed[label] = Chosen(
            chosen.name, chosen.component, chosen.component.with_parameters(chosen.settings, found_in[0])
        )
    return changed, faults


def _no_parameters(layout: Layout, model: str) -> str:
    looked = ", ".join(map(str, models.find_kaldi_folders(layout, model))) or models.place(layout, "models")
    return f"no folder with {', '.join(models.PLDA_FILES)} is there: looked in {looked}"


def _of_adapted(
    layout: Layout,
    reading: list[str],
    fitted: list[str],
    extractors: Mapping[str, Chosen[Extractor]],
    backends: Mapping[str, Chosen[Backend]],
    systems: Mapping[str, Chosen[Anonymiser]],
    others: list[str],
) -> tuple[dict[tuple[str, str], Any], dict[tuple[str, str], Any], list[Fault]]:
    """For attackers who train on a system's speech: vectors of the model that did, and the parameters that go with them.

    Args:
        layout: of the folder.
        reading, fitted: labels of the extractors and back ends that take what is found.
        extractors, backends, systems: by label.
        others: labels of the attackers who need none of it.

    Returns:
        Extractors and back ends by their label and that of the system, and what is not there.
    """
    adapted: dict[tuple[str, str], Any] = {}
    parameters: dict[tuple[str, str], Any] = {}
    faults = []
    suffixes = _suffixes(layout, systems)
    original = [name for name, chosen in systems.items() if chosen.component.unchanged]
    without = f": 'attacker=[{','.join(others)}]'" if others else ""
    remedy = f"without them leave the attackers with training=anonymised out{without}"
    for label in reading:
        extractor = extractors[label]
        if extractor.component.trained_on(extractor.settings) != "original":
            continue
        for system, suffix in suffixes.items():
            files = {name: models.find_vectors(layout, suffixes.get(name, ""), suffix) for name in (*original, system)}
            if not all(files.values()):
                text = f"no vectors by a model that was trained on the anonymised speech of {system}"
                looked = models.describe_search(layout, suffix)
                faults.append(Fault(f"{text} are there: looked for {looked}; {remedy}", f"extractor.{label}"))
                continue
            settings = extractor.component.with_tables(extractor.settings, files).model_copy(
                update={"trained_on": "anonymised"}
            )
            adapted[label, system] = Chosen(extractor.name, extractor.component, settings)
    for system in dict.fromkeys(system for _, system in adapted):
        folder = models.find_plda(layout, suffixes[system])
        for label in fitted:
            chosen = backends[label]
            if folder is None:
                faults.append(Fault(f"{_no_parameters(layout, suffixes[system])}; {remedy}", f"backend.{label}"))
            else:
                settings = chosen.component.with_parameters(chosen.settings, folder)
                parameters[label, system] = Chosen(chosen.name, chosen.component, settings)
    return adapted, parameters, faults


def _is_there(name: str, systems: Mapping[str, Chosen[Anonymiser]], suffixes: Mapping[str, str]) -> bool:
    return systems[name].component.unchanged or name in suffixes


def _model(
    extractor: Chosen[Extractor], systems: Mapping[str, Chosen[Anonymiser]], suffixes: Mapping[str, str]
) -> tuple[str, str]:
    """The suffix of the speech that an extractor knows, '' for original speech; or why that cannot be said."""
    if extractor.component.trained_on(extractor.settings) == "original":
        return "", ""
    others = [name for name in systems if not systems[name].component.unchanged]
    if len(others) != 1 or others[0] not in suffixes:
        return "", (
            "vectors of extractors that know anonymised speech are of one system each, and the systems are "
            f"{', '.join(others)}: take one copy a run, as in 'system=[original,found:_SUFFIX]'"
        )
    return suffixes[others[0]], ""
